"""Terms that anchors require: found from their queries, without reading the bodies of other Datalog rules."""

from __future__ import annotations

import pytest

from dotr.engine import stream_terms
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.stream_terms import TermDependencies, anchor_queries
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
