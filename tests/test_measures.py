"""The goals of `make measures` hold, but for those that dotr/ARCHITECTURE.md explains."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pytest

from tools.measures import MEASURES

EXPLAINED: Final = ("lines", "modules that import a language's folder from outside")


def holds(now: str, goal: str) -> bool:
    """True if each number is at most that of its goal, or within it: `170 to 230`."""
    for found, bound in zip(re.split("[;,] ", now), re.split("[;,] ", goal), strict=False):
        number = int(re.findall(r"\d+", found)[0])
        *least, most = map(int, re.findall(r"\d+", bound))
        if number > most or (least and number < least[0]):
            return False
    return True


@pytest.mark.parametrize(
    ("now", "goal", "expected"),
    [
        ("13; 71", "13; ≤ 80", True),
        ("13; 81", "13; ≤ 80", False),
        ("556; 185; 0", "≤ 560; 170 to 230; ≤ 1", True),
        ("556; 165; 0", "≤ 560; 170 to 230; ≤ 1", False),
        ("6 in 3 files", "0", False),
    ],
)
def test_numbers_are_compared_with_their_goals(now: str, goal: str, expected: bool) -> None:
    assert holds(now, goal) == expected


@pytest.mark.parametrize(("count", "goal"), [pytest.param(count, goal, id=name) for name, count, goal in MEASURES if name not in EXPLAINED])
def test_goal_of_a_measure_holds(count: Callable[[], str], goal: str) -> None:
    assert holds(count(), goal)
