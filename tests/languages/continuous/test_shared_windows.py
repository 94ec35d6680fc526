"""Windows of several queries with one closure: the engine agrees with the oracle, which shares
none."""

from __future__ import annotations

from unittest import mock

from hypothesis import given

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.limits import Limits
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Reason
from dotr.model.time import Clock
from tests.languages.continuous.test_continuous_random import compare
from tests.support.properties import also_reloaded, examples
from tests.support.strategies_continuous import SECOND, ContinuousProgram
from tests.support.strategies_shared import shared_programs


def test_short_window_reports_given_a_long_one_over_the_limit() -> None:
    """Both share a closure until it exceeds the limit; then each has a closure of its own."""
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
def test_queries_over_one_stream_agree_with_the_oracle(program: ContinuousProgram) -> None:
    compare(program, reloaded=also_reloaded(program))


@given(shared_programs())
@examples(10)
def test_queries_over_one_stream_agree_given_small_caches(program: ContinuousProgram) -> None:
    """Pending elements that no window holds are dropped at once, and views compact their received
    cells at every step."""
    with (
        mock.patch("dotr.languages.continuous.evaluation.shared_closure._MANY_PENDING", 0),
        mock.patch("dotr.temporal.horizons.closure._COMPACT_ABOVE", 0),
    ):
        compare(program, reloaded=False)
