"""Windows of several queries that share a closure see what each would see alone, by the brute force."""

from __future__ import annotations

from unittest import mock

from hypothesis import given

from dotr.engine.driver import Engine
from dotr.engine.program import compile_program
from dotr.engine.spec import ProgramSpec
from dotr.joins.limits import Limits
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Reason
from dotr.model.time import Clock
from tests.engine.test_continuous_random import compare
from tests.support.properties import examples
from tests.support.strategies_continuous import SECOND, ContinuousProgram
from tests.support.strategies_shared import shared_programs


def test_a_short_window_reports_where_a_long_one_goes_over_the_limit() -> None:
    """Both share a closure until it goes over the limit; then each has one of its own."""
    texts = [
        f"REGISTER RSTREAM <{label}> AS SELECT * FROM NAMED WINDOW <w> ON <http://e/s> [RANGE {width}s STEP 1s] "
        "WHERE { WINDOW <w> { ?x <http://e/p> ?y } }"
        for label, width in (("Long", 9), ("Short", 2))
    ]
    alone, both = (
        Engine(compile_program(ProgramSpec((Document("q.rspql", "\n".join(some)),), (), (), limits=Limits(triples=12))), Clock())
        for some in (texts[1:], texts)
    )
    steps = [[FedGraph.on("http://e/s", tuple((f"<a{time}>", "<http://e/p>", f"<b{n}>") for n in range(3)))] for time in range(12)]
    for time, graphs in enumerate(steps, 1):
        expected, found = (engine.step(time * SECOND, graphs)[0] for engine in (alone, both))
        assert sorted(map(str, expected)) == sorted(str(each) for each in found if each.event == "Short")
        assert len([each for each in found if each.event == "Long"]) == (3 * time if time <= 4 else 0)
    assert [(each.reason, each.input) for each in both.failed] == [(Reason.LIMIT, "rule Long")] * 8
    assert not alone.failed


@given(shared_programs())
@examples(40)
def test_queries_over_one_stream(program: ContinuousProgram) -> None:
    compare(program, reloaded=False)


@given(shared_programs())
@examples(10)
def test_closures_are_made_again_after_every_instant(program: ContinuousProgram) -> None:
    compare(program, reloaded=True)


@given(shared_programs())
@examples(10)
def test_with_little_remembered(program: ContinuousProgram) -> None:
    """Elements that no window will hold are dropped at once, and views keep one entry of a cell."""
    with mock.patch("dotr.engine.shared_closure._MANY_PENDING", 0), mock.patch("dotr.horizons.views._COMPACT_ABOVE", 0):
        compare(program, reloaded=False)
