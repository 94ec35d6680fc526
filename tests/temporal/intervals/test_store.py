"""The store of the kept solutions of an operand: insertion, removal, expiration, and its log."""

from __future__ import annotations

import pytest

from dotr.temporal.intervals import store as module
from dotr.temporal.intervals.solutions import IntervalSolution, Pairing, Shape, in_order
from dotr.temporal.intervals.store import SolutionStore, compile_insertion, indexed

pytestmark = pytest.mark.core

PAIRING = Pairing(Shape(("a",), frozenset("a")), Shape(("a", "b"), frozenset("ab")))
"""Both sides bind ?a, so it is the key."""
INSERT = compile_insertion(PAIRING, "y")


def solution(end: int, key: str, value: str = '"0"', start: int | None = None) -> IntervalSolution:
    return end, end if start is None else start, (f'"{key}"', value), ()


def store(*, bound: int = 5, has_log: bool = True) -> SolutionStore:
    return SolutionStore(bound, INSERT, has_log=has_log, names=("a", "b"), first=2)


def test_solutions_are_kept_by_key_in_order_of_their_ends() -> None:
    kept = store()
    one, two, three = solution(1, "x"), solution(1, "y"), solution(3, "x")
    kept.add([one, two], 1)
    kept.add([three], 3)
    assert kept.index == {'"x"': [one, three], '"y"': [two]}
    assert list(kept) == [one, three, two]
    assert len(kept) == 3
    assert kept.later(None) == [one, two, three]
    assert kept.later(1) == [three]
    assert (kept.names, kept.first, kept.bound) == (("a", "b"), 2, 5)


@pytest.mark.parametrize("has_log", [True, False])
def test_log_exists_where_nothing_is_used_up(has_log: bool) -> None:
    kept = store(has_log=has_log)
    kept.add([solution(1, "x"), solution(1, "y")], 1)
    kept.add([solution(7, "x")], 7)  # the log ends before 7 - 5
    assert kept.later(None) == ([solution(7, "x")] if has_log else [])
    assert len(kept) == (1 if has_log else 3)
    kept.clear()
    assert (len(kept), list(kept), kept.later(None)) == (0, [], [])


def test_expiration_keeps_solutions_that_end_at_the_horizon() -> None:
    kept = store(has_log=False)
    for end, key in ((1, "x"), (2, "x"), (3, "x"), (1, "y")):
        kept.add([solution(end, key)], end)
    kept.expire(2)
    assert kept.index == {'"x"': [solution(2, "x"), solution(3, "x")]}
    kept.expire(4)
    assert kept.index == {}


def test_store_is_swept_after_as_many_insertions_as_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP", 3)
    kept = store(bound=2, has_log=False)
    for end in range(1, 5):
        kept.add([solution(end, str(end))], end)
    assert sorted(kept.index) == ['"2"', '"3"', '"4"']  # the fourth insertion removes what ends before 4 - 2
    for end in range(5, 11):
        kept.add([solution(end, str(end))], end)
        assert len(kept.index) == end - 1  # three were kept: the next sweep comes after 3 + 3 insertions
    kept.add([solution(11, "11")], 11)
    assert sorted(kept.index) == ['"10"', '"11"', '"9"']


def test_long_run_loses_its_older_half_before_the_horizon() -> None:
    kept = store(bound=10, has_log=False)
    for end in range(module.TRIM + 1):
        kept.add([solution(end, "x")], end)
    assert [each[0] for each in kept] == list(range(module.TRIM // 2, module.TRIM + 1))


def test_solutions_of_the_last_moment_are_removed_by_identity() -> None:
    kept = store(has_log=False)
    old, one, other = solution(1, "x"), solution(2, "x"), solution(2, "x")
    kept.add([old], 1)
    kept.add([one, other, solution(2, "y")], 2)
    kept.remove([other])
    assert kept.index['"x"'] == [old, one]
    assert kept.index['"x"'][1] is one
    assert kept.index['"y"'] == [solution(2, "y")]


def test_solutions_of_one_moment_are_indexed_by_key() -> None:
    assert indexed(INSERT, [solution(1, "x"), solution(1, "y"), solution(1, "x", '"1"')]) == {
        '"x"': [solution(1, "x"), solution(1, "x", '"1"')],
        '"y"': [solution(1, "y")],
    }


def test_solutions_are_ordered_by_end_start_and_ties() -> None:
    found = [solution(5, "b"), solution(5, "a"), solution(5, "c", start=2), solution(4, "d")]
    assert in_order(("a", "b"), found) == [solution(4, "d"), solution(5, "c", start=2), solution(5, "a"), solution(5, "b")]
    assert in_order(("a", "b"), found[:1]) == found[:1]
