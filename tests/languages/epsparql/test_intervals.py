"""EP-SPARQL in one process: the tests of the oracle, run by the engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import tests.oracle.test_epsparql as page
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Firing
from dotr.model.terms import Triple
from dotr.model.time import Clock, Micros
from tests.oracle.cases import read_turtle
from tests.oracle.temporal import Output
from tests.oracle.test_epsparql import *  # noqa: F403 (each test of the page, here run by the engine)
from tests.oracle.units import UnitsResult

pytestmark = pytest.mark.core


def run_intervals(
    program: CompiledProgram, elements: Sequence[tuple[Micros, tuple[Triple, ...]]], *, reloaded: bool = False
) -> list[Firing]:
    """The firings of elements; `reloaded`: the state is written and read after each instant."""
    engine = Engine(program, Clock())
    firings: list[Firing] = []
    for time in sorted({time for time, _ in elements}):
        firings += engine.step(time, [graph for at, graph in elements if at == time])[0]
        if reloaded:
            engine.reload()
    for moment in engine.finish():
        firings += moment
    assert not engine.failed, engine.failed
    return firings


@pytest.fixture(autouse=True, params=["whole", "reloaded"])
def _by_the_engine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def run(text: str, stream: str) -> UnitsResult:
        elements = []
        for each in filter(None, map(str.strip, stream.split("|"))):
            time, _, graph = each.partition(" ")
            elements.append((int(time) * page.S, read_turtle(graph + " .", {"": "http://example.org/"})))
        spec = ProgramSpec((Document("q.epsparql", page.PREFIXES + text),))
        firings = run_intervals(compile_program(spec), elements, reloaded=request.param == "reloaded")
        return UnitsResult(
            tuple(
                Output(each.time, each.rule, each.event, dict(each.attributes), frozenset(each.graph or ()), each.dropped)
                for each in firings
            )
        )

    monkeypatch.setattr(page, "run", run)
