"""Origins of background triples: files, lines, and the rule of the last step."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.explanations.evidence.background_origins import BackgroundOrigin, BackgroundOrigins, close_background_in_rounds
from dotr.explanations.evidence.proofs import program_rules
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.terms import OWL, RDFS, Triple
from dotr.syntax.turtle.graphs import read_turtle

pytestmark = pytest.mark.core
PREFIXES = {"": "http://e/", "rdfs": RDFS, "owl": OWL}
HEADER = "".join(f"PREFIX {prefix}: <{namespace}>\n" for prefix, namespace in PREFIXES.items())


def triple(text: str) -> Triple:
    (found,) = read_turtle(f"{HEADER}{text} .", f"{text} .")
    return found


def program(folder: Path, graphs: dict[str, str], datalog: str = "", entailment: Entailment = Entailment.NONE) -> CompiledProgram:
    for name, text in graphs.items():
        content = (text if ".n" in name else HEADER + text).encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    paths = tuple(str(folder / name) for name in graphs)
    return compile_program(ProgramSpec(datalog=(Document("kb.dlog", datalog),), graphs=paths, entailment=entailment, prefixes=PREFIXES))


def origins(compiled: CompiledProgram, *texts: str) -> list[str]:
    rules = program_rules(compiled)
    found = BackgroundOrigins(compiled, rules).of([triple(text) for text in texts])
    return [shown(found[triple(text)]) for text in texts]


def shown(origin: BackgroundOrigin) -> str:
    return f"by {origin.rule.name}" if origin.rule is not None else str(origin.place)


def test_stated_triple_has_file_and_line_of_its_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = "<http://e/a> <http://e/p> <http://e/{}> .\n"
    graphs = {
        "one.ttl": ":a :p :b .",
        "two.nt": "# first\n\n" + line.format("c") + "  " + line.format("d"),
        "three.nq.gz": line.format("c") + line.format("e"),
    }
    compiled = program(tmp_path, graphs, ":a(:a, :f) .\n:p(:a, :f) .")
    assert origins(compiled, ":a :p :b", ":a :p :d", ":a :p :c", ":a :p :e", ":a :p :f") == [
        "one.ttl",
        "two.nt:4",
        "two.nt:3",
        "three.nq.gz:2",
        "kb.dlog:2",
    ]


def test_a_derived_triple_has_the_rule_of_its_last_step(tmp_path: Path) -> None:
    graph = ":A rdfs:subClassOf :B . :B rdfs:subClassOf :C . :x a :A . :p a owl:SymmetricProperty . :y :p :z ."
    datalog = ":q(?x, ?y) :- :p(?x, ?y) .\n:p(?y, ?x) :- :q(?x, ?y), :r(?x, ?y) .\n:r(:z, :y) ."
    compiled = program(tmp_path, {"kb.ttl": graph}, datalog, Entailment.OWL2RL)
    assert origins(compiled, ":x a :C", ":A rdfs:subClassOf :C", ":z :p :y", ":y :q :z") == [
        "by cax-sco",
        "by scm-sco",
        "by prp-symp",
        "by kb.dlog:1",
    ]


def test_negation_and_aggregation_of_the_background_have_their_rule(tmp_path: Path) -> None:
    datalog = ":free(?r, ?r) :- :Room(?r), NOT :in(?p, ?r) .\n:n(?r, ?n) :- AGGREGATE(:in(?p, ?r) ON ?r BIND COUNT(?p) AS ?n) ."
    compiled = program(tmp_path, {"kb.ttl": ":a a :Room . :b a :Room . :p :in :b ."}, datalog)
    assert origins(compiled, ":a :free :a", ":b :n 1") == ["by kb.dlog:1", "by kb.dlog:2"]


def test_background_closed_in_rounds_has_every_triple(tmp_path: Path) -> None:
    compiled = program(tmp_path, {"kb.ttl": ":a :p :b . :b :p :c . :p a owl:TransitiveProperty ."}, ":q(:x, :y) .", Entailment.OWL2RL)
    closed, places = close_background_in_rounds(compiled, program_rules(compiled))
    assert set(closed.delta) == set(compiled.knowledge.background)
    assert len(places) == 3
    assert closed.derivations[triple(":a :p :c")].rule.rule.name == "prp-trp"
    assert closed.derivations[triple(":x :q :y")].premises == ()
