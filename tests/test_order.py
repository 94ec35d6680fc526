"""The order of the tests (`tests/conftest.py`): long files first, those with Spark or a broker spread among the others."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.conftest import LONG, in_turns

pytestmark = pytest.mark.core


class Item:
    """A test of a file, with a mark or without."""

    def __init__(self, name: str, mark: str = "") -> None:
        self.path = Path(f"{name}.py")
        self.mark = mark

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == self.mark else None


def ordered(*items: Item) -> list[str]:
    return [item.path.stem for item in in_turns(cast(list[pytest.Item], list(items)))]


def test_files_that_wait_are_spread_and_none_is_last() -> None:
    waiting = [Item(f"waits{number}", ("spark", "kafka", "mosquitto")[number % 3]) for number in range(4)]
    computing = [Item(f"computes{number // 5}") for number in range(100)]
    found = ordered(*computing, *waiting)
    assert sorted(found) == sorted(item.path.stem for item in (*computing, *waiting))
    assert [place for place, name in enumerate(found) if name.startswith("waits")] == [0, 26, 47, 68]


def test_a_file_stays_together_and_long_ones_are_first() -> None:
    waits, computes = "test_spark_cases", "test_fuzz"
    items = [Item("a"), Item(computes), Item("b", "spark"), Item(waits), Item("a"), Item(waits, "spark"), Item(computes)]
    assert ordered(*items) == [waits, waits, computes, computes, "b", "a", "a"]
    assert {waits, computes} <= {*LONG}


def test_without_spark_the_order_is_by_length_alone() -> None:
    assert ordered(Item("b"), Item("test_fuzz"), Item("a")) == ["test_fuzz", "b", "a"]
