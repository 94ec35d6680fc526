"""Store of the solutions of an operand, indexed by the join key.

Idea: a dictionary from a key (`solutions.Pairing.key`) to the run of its solutions; the insertion
is generated. Solutions arrive in the order of their ends, so a run has that order, and under a
policy the order ≺.
Invariant: every solution that can still be combined is stored: its start, and so its end, is not
before the horizon (the present minus the bound).
Cost: insertion and expiration are O(1) amortised; memory is at most twice the live solutions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

from dotr.evaluation.codegen import define
from dotr.evaluation.expressions import equality_key
from dotr.model.terms import Variable
from dotr.model.time import LAST_MICRO, Micros
from dotr.temporal.intervals.solutions import IntervalSolution, Pairing

SolutionIndex: TypeAlias = dict[Any, list[IntervalSolution]]
"""Runs of solutions by key: a term, a tuple of terms, or None where there is one run."""

InsertSolutions: TypeAlias = Callable[[SolutionIndex, Sequence[IntervalSolution], Micros], None]
"""`insert(index, solutions, horizon)` appends solutions to their runs, and trims long ones."""

TRIM: Final = 128
"""A run of more solutions is trimmed once its older half is before the horizon."""

SWEEP: Final = 1024
"""The least number of insertions between two sweeps."""


def trim(run: list[IntervalSolution]) -> None:
    """Removes the older half of a run."""
    del run[: len(run) >> 1]


def compile_insertion(pairing: Pairing, side: str, *first: str) -> InsertSolutions:
    """Generates the insertion of a side's solutions ("x" or "y") by their key (`Pairing.key`).

    `first` are sources of further parts of the key, which read y. Keyed by the term at position 0:

    >>> from inspect import getsource
    >>> from dotr.temporal.intervals.solutions import Shape
    >>> insert = compile_insertion(Pairing(Shape(("a",), frozenset("a")), Shape(("a", "b"), frozenset("ab"))), "y")
    >>> print(getsource(insert))
    def insert(index, solutions, horizon):
        for y in solutions:
            vy = y[2]
            key = vy[0]
            run = index.get(key)
            if run is None:
                index[key] = [y]
            else:
                run.append(y)
                if len(run) > 128 and run[len(run) >> 1][0] < horizon:
                    trim(run)
    <BLANKLINE>
    >>> index = {}
    >>> insert(index, [(7, 5, ('"1"', '"2"'), ())], 0)
    >>> index
    {'"1"': [(7, 5, ('"1"', '"2"'), ())]}
    """
    text = f"""def insert(index, solutions, horizon):
    for y in solutions:
        v{side} = y[2]
        key = {pairing.key(side, *first)}
        run = index.get(key)
        if run is None:
            index[key] = [y]
        else:
            run.append(y)
            if len(run) > {TRIM} and run[len(run) >> 1][0] < horizon:
                trim(run)
"""
    return define(text, "interval store", "insert", {"trim": trim, "equality_key": equality_key})


def indexed(insert: InsertSolutions, solutions: Sequence[IntervalSolution]) -> SolutionIndex:
    """Solutions of one moment by key."""
    index: SolutionIndex = {}
    insert(index, solutions, -LAST_MICRO)
    return index


class SolutionStore:
    """The stored solutions of an operand.

    - `bound`: the maximal duration of a combination in µs.
    - `index`: the runs by key, shared with the generated functions that read it.
    - `log`: all solutions in the order of their ends; None under a policy, which uses solutions up.
    - `names`: the variables of a solution, sorted; `first`: the number of the first leaf of the
      operand.
    """

    __slots__ = ("_added", "_insert", "_swept", "bound", "first", "index", "log", "names")

    def __init__(self, bound: Micros, insert: InsertSolutions, *, has_log: bool, names: tuple[Variable, ...] = (), first: int = 0) -> None:
        self.names = names
        self.first = first
        self.bound = bound
        self.index: SolutionIndex = {}
        self.log: deque[IntervalSolution] | None = deque() if has_log else None
        self._insert = insert
        self._added = 0
        self._swept = 0

    def add(self, solutions: Sequence[IntervalSolution], now: Micros) -> None:
        """Stores solutions that end at `now` (µs), in their order."""
        horizon = now - self.bound
        self._insert(self.index, solutions, horizon)
        if self.log is not None:
            self.log.extend(solutions)
            while self.log[0][0] < horizon:
                self.log.popleft()
        self._added += len(solutions)
        if self._added > SWEEP + self._swept:
            self.expire(horizon)

    def remove(self, solutions: Sequence[IntervalSolution]) -> None:
        """Removes solutions of the last moment, each by identity."""
        gone = {id(each) for each in solutions}
        for key, removed in indexed(self._insert, solutions).items():
            run = self.index[key]
            place = len(run)
            while place and run[place - 1][0] == removed[0][0]:
                place -= 1
                if id(run[place]) in gone:
                    del run[place]

    def clear(self) -> None:
        """Removes all solutions."""
        self.index.clear()
        if self.log is not None:
            self.log.clear()
        self._added = self._swept = 0

    def expire(self, horizon: Micros) -> None:
        """Removes the solutions that ended before `horizon` (µs)."""
        index = self.index
        kept = 0
        for key in list(index):
            run = index[key]
            if not run or run[-1][0] < horizon:
                del index[key]
                continue
            if run[0][0] < horizon:
                del run[: bisect_left(run, (horizon,))]
            kept += len(run)
        self._added, self._swept = 0, kept

    def later(self, after: Micros | None) -> list[IntervalSolution]:
        """The solutions of the log that end after a time in µs, in the order of their ends; None:
        all."""
        if self.log is None:
            return []
        if after is None:
            return list(self.log)
        found = list(takewhile(lambda solution: solution[0] > after, reversed(self.log)))
        return found[::-1]

    def __iter__(self) -> Iterator[IntervalSolution]:
        for run in self.index.values():
            yield from run

    def __len__(self) -> int:
        return sum(map(len, self.index.values())) if self.log is None else len(self.log)
