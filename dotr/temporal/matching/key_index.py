"""Runs: the events of one key in the order of time, with summaries of every stretch `[i:j]`.

Idea: the least or greatest rank of blocks of 1, 2, 4, … events: a segment tree that only grows at
its end. Sums are in `sums`.
Invariant: block `k` of level `n` covers the events `[k * 2**n : (k + 1) * 2**n]`.
Cost: O(1) amortised to append and to drop, O(log n) a query.
Source: Bentley, *Solutions to Klee's rectangle problems* (1977).
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf, nextafter
from typing import Generic, TypeVar

from dotr.evaluation.expressions import VALUES, order_key
from dotr.evaluation.expressions.operators import to_double
from dotr.evaluation.expressions.sort_keys import OrderBy
from dotr.evaluation.expressions.values.terms import NUMERIC, Single
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent

Rank = TypeVar("Rank", float, OrderBy)


class EventRun(list[StoredEvent]):
    """The events of one key, in the order of time.

    `key_terms` are the terms of the key's attributes. Unequal terms can have equal keys (literals):
    then a query tests each event.
    """

    __slots__ = ("key_terms",)

    def __init__(self) -> None:
        super().__init__()
        self.key_terms: dict[Term | tuple[Term | None, ...] | None, None] = {}

    def slice_between(self, low: Micros, high: Micros) -> tuple[int, int]:
        """The slice `[i:j]` of the events with time from `low` to `high` µs, both closed."""
        j = len(self) if not self or self[-1][0] <= high else bisect_left(self, (high + 1,))
        return bisect_left(self, (low,), 0, j), j

    def count_between(self, low: Micros, high: Micros) -> int:
        """The number of events with time from `low` to `high` µs, both closed."""
        i, j = self.slice_between(low, high)
        return j - i

    def drop(self, number: int) -> None:
        """Removes the first `number` events."""
        del self[:number]


class _BlockRun(EventRun, Generic[Rank]):
    """The greatest rank (or, with `least`, the least) of aligned blocks of events.

    Level k holds the blocks of 2^k events that begin at a multiple of 2^k. Ranks 5, 3, 9, 4, 7:

        level 0   5 3 9 4 7
        level 1   5   9
        level 2   9
    """

    __slots__ = ("_least", "_levels")

    def __init__(self, least: bool) -> None:
        super().__init__()
        self._least = least
        self._levels: list[list[Rank]] = [[]]

    def _complete_blocks(self, level: int) -> None:
        """Appends the complete blocks of the levels above `level`."""
        levels, least = self._levels, self._least
        while len(blocks := levels[level]) > 1:
            level += 1
            if level == len(levels):
                levels.append([])
            above = levels[level]
            while len(above) < len(blocks) >> 1:
                a, b = blocks[2 * len(above)], blocks[2 * len(above) + 1]
                above.append(a if (a < b) is least else b)

    def drop(self, number: int) -> None:
        super().drop(number)
        levels = self._levels
        level = 0
        while level < len(levels) and number & ((1 << level) - 1) == 0:
            del levels[level][: number >> level]
            level += 1
        del levels[level:]  # blocks no longer aligned
        if level:
            self._complete_blocks(level - 1)


class ExtremumRun(_BlockRun[OrderBy]):
    """A run that answers the least or greatest value of an attribute, in the order of ORDER BY."""

    __slots__ = ("_position",)

    def __init__(self, position: int, greatest: bool) -> None:
        super().__init__(not greatest)
        self._position = position

    def append(self, event: StoredEvent) -> None:
        super().append(event)
        self._levels[0].append(order_key(event[2][self._position]))
        if not len(self) & 1:
            self._complete_blocks(0)

    def extremum(self, low: Micros, high: Micros) -> Term | None:
        """The least (greatest) term from `low` to `high` µs, both closed; None where there is no
        event."""
        i, j = self.slice_between(low, high)
        least = self._least
        best: OrderBy | None = None
        for blocks in self._levels:
            if i >= j:
                break
            if i & 1:
                if best is None or (blocks[i] < best) is least:
                    best = blocks[i]
                i += 1
            if j & 1:
                j -= 1
                if best is None or (blocks[j] < best) is least:
                    best = blocks[j]
            i >>= 1
            j >>= 1
        return None if best is None else best[3]


class SkipRun(_BlockRun[float]):
    """A run that finds the next event whose number is above (with `below`: below) a bound.

    Ranks are doubles a little above the numbers, so that rounding skips no event; other terms have
    the rank -inf, floats inf. The blocks are built at the first search.
    """

    __slots__ = ("_below", "_position", "is_built")

    def __init__(self, position: int, below: bool) -> None:
        super().__init__(least=False)
        self._position = position
        self._below = below
        self.is_built = False

    def add_rank(self, event: StoredEvent) -> None:
        """Adds the rank of an event just appended; called only if `is_built`."""
        self._levels[0].append(self._rank(event))
        if not len(self) & 1:
            self._complete_blocks(0)

    def drop(self, number: int) -> None:
        if self.is_built:
            super().drop(number)
        else:
            EventRun.drop(self, number)

    def _rank(self, event: StoredEvent) -> float:
        value = VALUES[event[2][self._position]]
        if type(value) is Single:
            return inf  # compared as floats, rounding unknown: never skipped
        if type(value) not in NUMERIC or value != value:
            return -inf
        number = to_double(value)  # type: ignore[arg-type]
        return nextafter(-number if self._below else number, inf)

    def _build(self) -> None:
        self.is_built = True
        self._levels = [[self._rank(event) for event in self]]
        self._complete_blocks(0)

    def last_before(self, i: int, bound: float) -> int:
        """The last position before `i` whose number may be above (below) the bound; -1 if there
        is none."""
        if not self.is_built:
            self._build()
        if self._below:
            bound = -bound
        levels, level = self._levels, 0
        while i > 0:
            # Block i - 1 is the last before i: a left half (i odd) is tested, a right half is part of the level above.
            if i & 1:
                i -= 1
                if levels[level][i] > bound:
                    while level:
                        level -= 1
                        i = 2 * i + 1
                        if not levels[level][i] > bound:
                            i -= 1
                    return i
            else:
                i >>= 1
                level += 1
        return -1

    def first_from(self, i: int, bound: float) -> int:
        """The first position from `i` on whose number may be above (below) the bound; the run's
        length if there is none."""
        if not self.is_built:
            self._build()
        if self._below:
            bound = -bound
        levels, level = self._levels, 0
        while i < len(levels[level]):
            if levels[level][i] > bound:
                while level:
                    level -= 1
                    i = 2 * i
                    if not levels[level][i] > bound:
                        i += 1
                return i
            i += 1
            while not i & 1 and i >> 1 < len(levels[level + 1]):
                i >>= 1
                level += 1
            while level and i >= len(levels[level]):
                level -= 1
                i *= 2
        return len(self)
