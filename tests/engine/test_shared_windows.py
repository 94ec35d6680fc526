"""Windows of several queries that share a closure see what each would see alone, by the brute force."""

from __future__ import annotations

from unittest import mock

from hypothesis import given

from tests.engine.test_continuous_random import compare
from tests.support.properties import examples
from tests.support.strategies_continuous import ContinuousProgram
from tests.support.strategies_shared import shared_programs


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
    with mock.patch("dotr.engine.kept_windows._MANY_PENDING", 0), mock.patch("dotr.horizons.views._MANY_HEARD", 0):
        compare(program, reloaded=False)
