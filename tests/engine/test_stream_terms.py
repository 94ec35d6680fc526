"""Terms that anchors require: found from their queries, without reading the bodies of other Datalog rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.engine import stream_terms
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.stream_terms import TermDependencies, anchor_queries
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.algebra import TriplePattern
from dotr.model.places import Document
from dotr.model.terms import Term

pytestmark = pytest.mark.core

RULES = """PREFIX : <http://e/>
rule R define C = [ [] :n ?x ] from A = [ SELECT ?x WHERE { ?x :near ?y . ?x :in ?room } ] with C.?x = A.?x
"""


def program(others: int) -> CompiledProgram:
    lines = ["@prefix : <http://e/> .", ":near(?S, ?R) :- :seen(?S, ?O), :in(?O, ?R) .", ":in(?S, ?R) :- :at(?S, ?R) ."]
    lines += [f":far{k}(?S, ?R) :- :attribute{k}(?S, ?O), :in(?O, ?R) ." for k in range(others)]
    return compile_program(ProgramSpec((Document("r.dotr", RULES),), datalog=(Document("k.dlog", "\n".join(lines)),)))


def required(compiled: CompiledProgram) -> set[Term]:
    return TermDependencies(compiled).required(anchor_queries(compiled).values())


def test_required_terms_follow_derivations() -> None:
    assert required(program(3)) == {f"<http://e/{name}>" for name in ("near", "in", "seen", "at")}


def test_bodies_of_rules_that_no_query_needs_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    one_term = stream_terms.term_of

    def term_of(pattern: TriplePattern) -> Term | None:
        nonlocal read
        read += 1
        return one_term(pattern)

    few, many = program(0), program(500)
    monkeypatch.setattr(stream_terms, "term_of", term_of)
    required(few)
    needed, read = read, 0
    required(many)
    assert read == needed + 500


SCHEMA = """@prefix : <http://e/> . @prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Device a owl:Class . :Lamp a owl:Class ; rdfs:subClassOf :Device ; owl:disjointWith :Room . :feeds rdfs:range :Device .
"""


@pytest.mark.parametrize("entailment", [Entailment.NONE, Entailment.RDFS, Entailment.OWL2RL])
@pytest.mark.parametrize(
    ("datalog", "missing"), [("", "Device"), (":Device(?x) :- :Wired(?x) .", "Wired"), (":Wired(?x) :- :on(?x, ?y) .", "Device")]
)
def test_missing_terms_are_in_a_query_or_in_datalog(tmp_path: Path, entailment: Entailment, datalog: str, missing: str) -> None:
    path = tmp_path / "schema.ttl"
    path.write_text(SCHEMA)
    rules = RULES.replace("?x :near ?y . ?x :in ?room", "?x a :Device . ?y :lit true")
    documents = (Document("k.dlog", f"@prefix : <http://e/> . {datalog}"),)
    compiled = compile_program(ProgramSpec((Document("r.dotr", rules),), documents, (str(path),), entailment))
    (query,) = anchor_queries(compiled).values()
    dependencies = TermDependencies(compiled)
    assert dependencies.missing(query, frozenset({"<http://e/lit>"})) == [f"<http://e/{missing}>"]
    brought = "Device" if entailment is Entailment.NONE else "Lamp"
    assert dependencies.missing(query, frozenset({"<http://e/lit>", f"<http://e/{brought}>"})) == []
