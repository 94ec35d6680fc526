"""Sums, averages, quantiles and variances over any stretch of a run, exact or rounded once.

Idea: prefix sums, so that the sum of a stretch is a difference. Integers and decimals are summed
exactly; doubles as whole multiples of the least double, so that the difference of two sums rounds
once (Kulisch's exact accumulator, as Python integers). A prefix sum counts the types of values as
well. For `distinct`, a multiset follows the window, and so do sorted numbers and moments.
Invariant: the result is the exact sum rounded once, whatever the order of events.
Cost: O(1) per event, O(log n) per query; O(log n) per event that enters or leaves sorted numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from decimal import Decimal, DecimalException
from math import inf, nextafter
from typing import Generic, TypeAlias, TypeVar

from dotr.evaluation.expressions import AGGREGATES, VALUES, order_key, write
from dotr.evaluation.expressions.operators import divide, to_double
from dotr.evaluation.expressions.sort_keys import OrderBy
from dotr.evaluation.expressions.values.decimals import EXACT
from dotr.evaluation.expressions.values.exact_sums import (
    DECIMAL,
    DOUBLE,
    ExactSum,
    Moments,
    SortedNumbers,
    fixed_point_or_zero,
    float_type_of,
    kind_unit,
    total_of,
)
from dotr.evaluation.expressions.values.terms import NUMERIC, Number, Single, value_of
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent

# Runs: the events of one key in the order of time, with summaries of every stretch `[i:j]`.
#
# Idea: the least or greatest rank of blocks of 1, 2, 4, … events: a segment tree that only grows at
# its end. Sums are in `sums`.
# Invariant: block `k` of level `n` covers the events `[k * 2**n : (k + 1) * 2**n]`.
# Cost: O(1) amortised to append and to drop, O(log n) a query.
# Source: Bentley, *Solutions to Klee's rectangle problems* (1977).


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
        value = value_of(event[2][self._position])
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


OptionalTerms: TypeAlias = Sequence[Term | None]
Statistic: TypeAlias = SortedNumbers | Moments


def bound_terms(events: Sequence[StoredEvent], position: int) -> list[Term]:
    """The bound values of the attribute at a position."""
    return [value for event in events if (value := event[2][position]) is not None]


def aggregate_terms(function: str, distinct: bool, terms: OptionalTerms, fraction: str | None = None) -> Term | None:
    """The value of an aggregate over terms; without terms, COUNT and SUM are 0 and the others
    unbound."""
    if fraction is not None:
        return AGGREGATES[function](terms, distinct, fraction)
    return AGGREGATES[function](terms, distinct) if terms or function != "AVG" else None


class SumRun(EventRun):
    """A run with prefix sums of one attribute.

    Values 2, 3, 5 have the prefixes 0, 2, 5, 10: the sum of `[1:3]` is 10 - 2. Prefixes of doubles
    are built at the first query that needs them. `_overflowed`: a decimal sum is beyond the exact
    context.
    """

    __slots__ = ("_binary", "_exact", "_kinds", "_overflowed", "_position")

    def __init__(self, position: int) -> None:
        super().__init__()
        self._position = position
        self._kinds = [0]
        self._exact: list[int | Decimal] = [0]
        self._binary: list[int] | None = None
        self._overflowed = False

    def append(self, event: StoredEvent) -> None:
        super().append(event)
        value = value_of(event[2][self._position])
        self._kinds.append(self._kinds[-1] + kind_unit(value))
        exact = self._exact
        last = exact[-1]
        if type(value) is int and type(last) is int:
            exact.append(last + value)
        elif type(value) is int or type(value) is Decimal:
            try:
                exact.append(EXACT.add(Decimal(last), value))
            except DecimalException:
                exact.append(last)
                self._overflowed = True
        else:
            exact.append(last)
        if self._binary is not None:
            self._binary.append(self._binary[-1] + fixed_point_or_zero(value))

    def _prefixes(self) -> list[int]:
        prefixes = [0]
        for event in self:
            prefixes.append(prefixes[-1] + fixed_point_or_zero(VALUES[event[2][self._position]]))
        return prefixes

    def drop(self, number: int) -> None:
        super().drop(number)
        for prefixes in (self._kinds, self._exact, self._binary):
            if prefixes is not None:
                del prefixes[:number]

    def sum(self, low: Micros, high: Micros) -> Term | None:
        """SUM of the attribute from `low` to `high` µs, both closed."""
        i, j = self.slice_between(low, high)
        kinds = self._kinds[j] - self._kinds[i]
        if kinds < DECIMAL and not self._overflowed:
            return write(int(_difference(self._exact[j], self._exact[i])))
        return write(self._total(i, j, kinds))

    def avg(self, low: Micros, high: Micros) -> Term | None:
        """AVG of the attribute from `low` to `high` µs, both closed."""
        i, j = self.slice_between(low, high)
        return write(divide(self._total(i, j, self._kinds[j] - self._kinds[i]), j - i))

    def _total(self, i: int, j: int, kinds: int) -> Number | None:
        if self._overflowed:
            total = VALUES[AGGREGATES["SUM"](bound_terms(self[i:j], self._position), False)]
            return total if type(total) in NUMERIC else None  # type: ignore[return-value]
        binary = 0
        if kinds >= DOUBLE and float_type_of(kinds):
            prefixes = self._binary = self._binary or self._prefixes()
            binary = prefixes[j] - prefixes[i]
        return total_of(kinds, _difference(self._exact[j], self._exact[i]), binary)


def _difference(a: int | Decimal, b: int | Decimal) -> int | Decimal:
    return a - b if type(a) is int and type(b) is int else EXACT.subtract(Decimal(a), Decimal(b))


class _SlidingMultiset:
    """The multiset of values in a window that only moves forward, with the sum of its distinct
    values."""

    __slots__ = ("_position", "counts", "i", "j", "sum")

    def __init__(self, position: int, start: int) -> None:
        self._position = position
        self.i = self.j = start
        self.counts: dict[Term, int] = {}
        self.sum = ExactSum()

    def move(self, run: EventRun, i: int, j: int) -> None:
        """Moves the window to the events `[i:j]` of the run."""
        counts, position = self.counts, self._position
        for event in run[max(self.j, i) : j]:
            term: Term = event[2][position]  # type: ignore[assignment]
            number = counts[term] = counts.get(term, 0) + 1
            if number == 1:
                self.sum.change(VALUES[term], 1)
        for event in run[self.i : min(i, self.j)]:
            term = event[2][position]  # type: ignore[assignment]
            number = counts[term] = counts[term] - 1
            if not number:
                del counts[term]
                self.sum.change(VALUES[term], -1)
        self.i, self.j = i, j


class DistinctRun(EventRun):
    """Counts and sums of distinct values in windows that only move forward: one multiset per
    window."""

    __slots__ = ("_followers", "_position")

    def __init__(self, position: int) -> None:
        super().__init__()
        self._position = position
        self._followers: dict[tuple[Micros, Micros], _SlidingMultiset] = {}

    def drop(self, number: int) -> None:
        for follower in self._followers.values():
            if follower.i < number:
                follower.move(self, number, max(number, follower.j))
            follower.i -= number
            follower.j -= number
        super().drop(number)

    def distinct(self, function: str, now: Micros, near: Micros, far: Micros) -> Term | None:
        """`function` (COUNT, SUM or AVG) of the distinct values from `now - far` to `now - near`
        µs; `now` never decreases."""
        i, j = self.slice_between(now - far, now - near)
        follower = self._followers.get((near, far))
        if follower is None:
            follower = self._followers[near, far] = _SlidingMultiset(self._position, i)
        follower.move(self, i, j)
        number = len(follower.counts)
        if function == "COUNT":
            return write(number)
        if follower.sum.has_overflowed:
            return aggregate_terms(function, True, list(follower.counts))
        total = follower.sum.total()
        return None if total is None else write(total if function == "SUM" else divide(total, number))


class _Follower:
    """The values of one window of a run, in any of its positions.

    `counts` are those of terms if the window has distinct values, else None.
    """

    __slots__ = ("counts", "i", "j", "statistic")

    def __init__(self, statistic: Statistic, distinct: bool, start: int) -> None:
        self.i = self.j = start
        self.counts: dict[Term, int] | None = {} if distinct else None
        self.statistic = statistic

    def change(self, term: Term, times: int) -> None:
        """Inserts a term (`times` is 1), or deletes one (-1)."""
        if (counts := self.counts) is not None:
            number = counts[term] = counts.get(term, 0) + times
            if not number:
                del counts[term]
            elif number > 1 or times < 0:
                return
        self.statistic.change(VALUES[term], times)


class StatisticRun(EventRun):
    """A run that answers quantiles (`SortedNumbers`) or variances (`Moments`): each window of a
    clause has a follower, which moves with it.

    A window that moves by more events than it has is filled again, so that no answer costs more
    than to read its events.
    """

    __slots__ = ("_followers", "_position", "_statistic")

    def __init__(self, position: int, statistic: type[SortedNumbers] | type[Moments]) -> None:
        super().__init__()
        self._position = position
        self._statistic = statistic
        self._followers: dict[tuple[Hashable, bool], _Follower] = {}

    def drop(self, number: int) -> None:
        for window, follower in self._followers.items():
            moved = self._moved(window, max(number, follower.i), max(number, follower.j))
            moved.i -= number
            moved.j -= number
        super().drop(number)

    def statistic(self, near_far: Hashable, distinct: bool, low: Micros, high: Micros) -> Statistic:
        """The numbers from `low` to `high` µs, both closed; `near_far` is the same for windows that
        move alike."""
        return self._moved((near_far, distinct), *self.slice_between(low, high)).statistic

    def _moved(self, window: tuple[Hashable, bool], i: int, j: int) -> _Follower:
        """The follower of a window, moved to the events `[i:j]`."""
        follower = self._followers.get(window)
        if follower is None or abs(i - follower.i) + abs(j - follower.j) > 2 * (j - i):
            follower = self._followers[window] = _Follower(self._statistic(), window[1], i)
        # From [3:7] to [5:8], event 7 is inserted, and events 3 and 4 are deleted; in between, nothing is deleted that is not there.
        for event in [*self[i : follower.i], *self[follower.j : j]]:
            follower.change(event[2][self._position], 1)  # type: ignore[arg-type]
        for event in [*self[follower.i : i], *self[j : follower.j]]:
            follower.change(event[2][self._position], -1)  # type: ignore[arg-type]
        follower.i, follower.j = i, j
        return follower
