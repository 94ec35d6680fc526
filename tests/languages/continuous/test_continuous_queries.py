"""Continuous queries in one process: the tests of the oracle, run by the engine; errors of
programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import tests.oracle.test_continuous as page
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Firing
from dotr.model.time import Clock, Micros
from dotr.streams.times import parse_time
from tests.oracle.cases import read_turtle
from tests.oracle.temporal import Output
from tests.oracle.test_continuous import *  # noqa: F403 (each test of the page, here run by the engine)
from tests.oracle.units import UnitsResult

pytestmark = pytest.mark.core

IN = page.NAMESPACE + "in"


def run_engine(program: CompiledProgram, elements: Sequence[tuple[Micros, str, str]], *, reloaded: bool = False) -> list[Firing]:
    """The firings of elements (time, stream, Turtle); `reloaded`: the state is restored after each
    instant."""
    engine = Engine(program, Clock())
    firings: list[Firing] = []
    for time in sorted({time for time, _, _ in elements}):
        graphs = [FedGraph.on(stream, read_turtle(turtle, page.PREFIXES)) for at, stream, turtle in elements if at == time]
        firings += engine.step(time, graphs)[0]
        if reloaded:
            engine.reload()
    for moment in engine.finish():
        firings += moment
    assert not any(letter.reason.value == "failed" for letter in engine.failed), engine.failed
    return firings


@pytest.fixture(autouse=True, params=["whole", "reloaded"])
def _by_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def answers(
        text: str,
        elements: page.Arrivals,
        datalog: str = "",
        graph: str = "",
        entailment: str = "none",
        rules: str = "",
        origin: int = 0,
        streams: dict[int, str] | None = None,
    ) -> UnitsResult:
        files = [Document("q.rspql", text)] + ([Document("r.dotr", rules)] if rules else [])
        graphs: tuple[str, ...] = ()
        if graph:
            path = tmp_path / "background.ttl"
            path.write_text("".join(f"@prefix {name}: <{iri}> .\n" for name, iri in page.PREFIXES.items()) + graph)
            graphs = (str(path),)
        spec = ProgramSpec(
            tuple(files),
            (Document("k.dlog", datalog),) if datalog else (),
            graphs,
            Entailment(entailment),
            prefixes=page.PREFIXES,
            origin=parse_time(origin, Clock().unit),
        )
        given = [(int(at * page.SECOND), (streams or {}).get(number, IN), turtle) for number, (at, turtle) in enumerate(elements)]
        firings = run_engine(compile_program(spec), given, reloaded=request.param == "reloaded")
        return UnitsResult(
            tuple(
                Output(firing.time, firing.rule, firing.event, dict(firing.attributes), frozenset(firing.graph or ()), firing.dropped)
                for firing in firings
            )
        )

    monkeypatch.setattr(page, "answers", answers)


def test_rules_read_queries_and_queries_rules() -> None:  # type: ignore[no-redef]  # the page's rules are compiled without queries
    clause = "and last Hot as Before within 10 s from Hot"
    rules = f"PREFIX : <http://example.org/> define Alarm = [ [] :of ?x ] from Hot {clause} with Alarm.?x = Hot.?x"
    text = (
        "REGISTER RSTREAM Hot AS SELECT ?x FROM NAMED WINDOW <w> ON :in [RANGE 2s] { WINDOW <w> { ?x :v ?n FILTER(?n > 2) } }"
        " REGISTER RSTREAM <out> AS SELECT ?x FROM WINDOW ON <Alarm> [NOW] { ?alarm :of ?x }"
    )
    result = page.answers(text, page.readings(("a", 1), ("b", 3), ("c", 7)), rules=rules)
    assert page.told(result, "Hot") == {4: ["b"], 8: ["c"]}
    assert page.told(result, "Alarm") == {8: ["c"]}
    assert page.told(result) == {8: ["c"]}


def refused(text: str, rules: str = "") -> str:
    with pytest.raises(Refused) as caught:
        compile_program(ProgramSpec((Document("q.rspql", text), Document("r.dotr", rules)), prefixes=page.PREFIXES))
    return str(caught.value)


HOT = "REGISTER RSTREAM Hot AS SELECT ?x FROM NAMED WINDOW <w> ON {} [RANGE 2s] {{ WINDOW <w> {{ ?x :v ?n }} }}"


def test_labels_are_one_space() -> None:
    twice = HOT.format(":in") + " " + HOT.format(":in")
    assert "q.rspql:1:" in refused(twice)
    assert "D222 two units have the label Hot" in refused(twice)
    rule = "define Hot = [ [] :x 1 ] from A = [ SELECT ?x { ?x :a ?y } ]"
    assert "r.dotr:1:8: D222 Hot is the event of a rule and the label of a unit" in refused(HOT.format(":in"), rule)


def test_events_without_graphs_are_no_stream() -> None:
    text = HOT.format(":in") + " REGISTER RSTREAM <out> AS SELECT ?x FROM WINDOW ON <Hot> [NOW] { ?x ?p ?y }"
    assert "D225 the events of Hot have no graphs" in refused(text)


def test_cycle_through_a_rule_is_refused_with_its_way() -> None:
    rule = "define Fire = [ [] :of ?x ] from A = [ SELECT ?x { ?x :a ?y } ] and last Hot within 1 h from A with Fire.?x = Hot.?x"
    assert "D404 a cycle: Hot needs Fire needs Hot" in refused(HOT.format("<Fire>"), rule)


def test_rule_reads_attributes_that_a_query_has() -> None:
    rule = "define Fire = [ [] :of ?x ] from Hot with Fire.?x = Hot.?y"
    assert "D207" in refused(HOT.format(":in"), rule)
