"""Tests of explanations for triples that do not hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from dotr.commands.why.questions import open_replays
from dotr.engine.replay import Replay
from dotr.errors.diagnostics import Refused
from dotr.evaluation.limits import LIMITS
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.missing import stop_text as entailment
from dotr.explanations.missing.partial_joins import ClosedGraph
from dotr.explanations.missing.triple import explain_missing_triple, read_triple
from dotr.instant.datalog.background.knowledge import ClosedTriples, close_background
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.datalog.entailment import Entailment
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import DatalogRule
from dotr.model.terms import RDF_TYPE, RDFS, Term, Triple, iri
from dotr.syntax.rendering import TermWriter

pytestmark = pytest.mark.core

PREFIX = "PREFIX : <http://example.org/why#>\n"
IN_ROOM = ":in(?reading, ?room) :- :by(?reading, ?sensor), :mountedIn(?sensor, ?room) .\n"
GRAPH = """@prefix : <http://example.org/why#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Thermometer rdfs:subClassOf :Sensor . :t1 a :Thermometer ; :mountedIn :lab . :t2 a :Thermometer ; :mountedIn :attic .
"""


def replay(folder: Path, stream: dict[int, str], datalog: str = IN_ROOM, entailment: str = "none") -> Replay:
    (folder / "why.dotr").write_text(f"{PREFIX}rule R define R = [ dotr_id a :R ] from Now = [ SELECT ?r WHERE {{ ?r :by ?s }} ]")
    (folder / "plant.dlog").write_text(PREFIX + datalog)
    (folder / "plant.ttl").write_text(GRAPH)
    elements = "".join(f"      - {{ at: {time}, graph: '{text}' }}\n" for time, text in stream.items())
    (folder / "t.yaml").write_text(
        f"rules: [why.dotr]\nprefixes: {{ '': 'http://example.org/why#' }}\n"
        f"knowledge: {{ graphs: [plant.ttl], datalog: [plant.dlog], entailment: {entailment} }}\n"
        f"cases:\n  - name: one\n    expect: []\n    stream:\n{elements}"
    )
    return open_replays(str(folder / "t.yaml"))[0]


def test_instant_is_closed_once_for_the_patterns_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two patterns of one instant: one closure under each stronger regime, over which both are matched, and the minimal schema of each."""
    thing, heater, pump = "<http://e/thing>", "<http://e/Heater>", "<http://e/Pump>"
    schema = (heater, iri(RDFS + "subClassOf"), "<http://e/Device>")
    closed = ClosedGraph(Closure(TripleIndex([schema]), TripleIndex([(thing, RDF_TYPE, heater)]), ()), LIMITS)
    closures: list[list[Triple]] = []

    def counted(triples: Iterable[Triple], rules: Sequence[DatalogRule], limit: int | None = None) -> ClosedTriples:
        closures.append(list(triples))
        return close_background(closures[-1], rules, limit)

    monkeypatch.setattr(entailment, "close_background", counted)

    def given(class_: Term) -> entailment.MissingEntailment | None:
        part = TriplePattern(Const(thing), Const(RDF_TYPE), Const(class_))
        return entailment.entailment_that_gives(part, [{}], closed, [], Entailment.NONE)

    assert given(pump) is None
    assert len(closures) == 2, "under RDFS and under OWL 2 RL"
    assert given("<http://e/Device>") == entailment.MissingEntailment(Entailment.RDFS, (schema,))
    assert len(closures) == 3, "and without the schema"


def explained(replay: Replay, triple: str, folder: Path, at: int | None = None) -> list[str]:
    time = None if at is None else at * 1_000_000
    pattern = read_triple(triple, replay.prefixes)
    found = explain_missing_triple(replay, pattern, TermWriter(replay.prefixes), first=time, last=time)
    return [line.replace(f"{folder}/", "").replace(f"{os.path.relpath(folder)}/", "") for line in found.lines()]


def test_the_atom_at_which_most_bindings_stop(tmp_path: Path) -> None:
    stream = {0: ":r :by :t9 .", 10: ":x :p :y .", 60: ":r :by :t8 , :t1 ."}
    assert explained(replay(tmp_path, stream), ":r :in :attic", tmp_path) == [
        ":r :in :attic does not hold at 3 instants",
        "  plant.dlog:2 gives :in(?reading, ?room): 3 of 3 bindings stop at :mountedIn(?sensor, ?room); "
        "at 0: :by(:r, :t9) is given; :mountedIn(:t9, :attic) does not hold: it is known of :t1, :t2",
    ]


def test_a_triple_that_holds_at_another_instant(tmp_path: Path) -> None:
    found = replay(tmp_path, {0: ":r :by :t9 .", 60: ":r :by :t1 ."})
    assert explained(found, ":r :in :lab .", tmp_path, 0)[0] == ":r :in :lab does not hold at 1 instant; it holds at 60"
    assert explained(found, ":r :in :lab", tmp_path) == [":r :in :lab holds at 1 of 2 instants: 60"]


def test_a_near_miss(tmp_path: Path) -> None:
    assert explained(replay(tmp_path, {0: ":r :bye :t9 ."}), "?any :in :lab", tmp_path) == [
        "?any :in :lab does not hold at 1 instant",
        "  plant.dlog:2 gives :in(?reading, ?room): at 0: nothing is :by(?reading, ?sensor): no element brings :by; "
        "the elements bring :bye. Did you mean :bye?",
    ]


def test_first_atom_is_shown_if_nothing_matches_it(tmp_path: Path) -> None:
    assert explained(replay(tmp_path, {0: ":x :by :t9 ."}), ":r :in :roof", tmp_path) == [
        ":r :in :roof does not hold at 1 instant",
        "  plant.dlog:2 gives :in(?reading, ?room): at 0: nothing is :by(:r, ?sensor): it is known of :x",
    ]


def test_a_condition_and_a_negation(tmp_path: Path) -> None:
    datalog = (
        ":in(?x, ?room) :- :by(?x, ?s), :mountedIn(?s, ?room), FILTER(?room != :lab) .\n"
        ":in(?x, ?room) :- :by(?x, ?s), :mountedIn(?s, ?room), NOT :Broken(?s) .\n"
    )
    assert explained(replay(tmp_path, {0: ":r :by :t1 . :t1 a :Broken ."}, datalog), ":r :in ?room", tmp_path) == [
        ":r :in ?room does not hold at 1 instant",
        "  plant.dlog:2 gives :in(?x, ?room): 1 of 1 binding stops at FILTER(?room != :lab); "
        "at 0: :by(:r, :t1) is given, :mountedIn(:t1, :lab) is known; FILTER(?room != :lab) is false (:lab)",
        "  plant.dlog:3 gives :in(?x, ?room): 1 of 1 binding stops at NOT :Broken(?s); "
        "at 0: :by(:r, :t1) is given, :mountedIn(:t1, :lab) is known; NOT :Broken(:t1) is false: :Broken(:t1) is given",
    ]


def test_entailment_regime_that_derives_the_triple(tmp_path: Path) -> None:
    assert explained(replay(tmp_path, {0: ":r :by :t1 ."}), ":t1 a :Sensor", tmp_path) == [
        ":t1 a :Sensor does not hold at 1 instant",
        "  no Datalog rule gives it",
        "  `entailment: rdfs` gives it: :Thermometer rdfs:subClassOf :Sensor (plant.ttl)",
    ]


def test_entailment_regime_for_a_triple_of_the_background(tmp_path: Path) -> None:
    assert explained(replay(tmp_path, {0: ":r :by :t9 ."}), ":t2 a :Sensor", tmp_path)[2] == (
        "  `entailment: rdfs` gives it: :Thermometer rdfs:subClassOf :Sensor (plant.ttl)"
    )


def test_a_row_of_a_rule_set(tmp_path: Path) -> None:
    found = explained(replay(tmp_path, {0: ":r :by :t9 ."}, entailment="rdfs"), ":t9 a :Sensor", tmp_path)
    assert found[1] == (
        "  rdfs9 gives [?z, a, ?y]: 1 of 1 binding stops at [?z, a, ?x]; "
        "at 0: rdfs:subClassOf(:Thermometer, :Sensor) is known; :Thermometer(:t9) does not hold: it is known of :t1, :t2"
    )


@pytest.mark.parametrize("text", [":r :in", ":r :in :lab ; :by :t1", ":r :in/:by :lab", "", "x:r :in :lab"])
def test_a_text_that_is_no_triple(text: str) -> None:
    with pytest.raises(Refused):
        read_triple(text, {"": "http://example.org/"})
