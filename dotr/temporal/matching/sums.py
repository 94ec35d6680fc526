"""Sums, averages, quantiles and variances over any stretch of a run, exact or rounded once.

Idea: prefix sums, so that the sum of a stretch is a difference. Integers and decimals are summed
exactly; doubles as whole multiples of the least double, so that the difference of two sums rounds
once (Kulisch's exact accumulator, as Python integers). A prefix sum counts the types of values as
well. For `distinct`, a multiset follows the window, and so do sorted numbers and moments.
Invariant: the result is the exact sum rounded once, whatever the order of events.
Cost: O(1) per event, O(log n) per query; O(log n) per event that enters or leaves sorted numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import Decimal, DecimalException
from typing import TypeAlias

from dotr.evaluation.expressions import AGGREGATES, VALUES, write
from dotr.evaluation.expressions.operators import divide
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
from dotr.evaluation.expressions.values.terms import NUMERIC, Number
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.key_index import EventRun

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
        value = VALUES[event[2][self._position]]
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
