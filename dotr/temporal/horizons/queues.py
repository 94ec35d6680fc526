"""Queues of the closure: insertions, facts to settle by horizon, and overdeleted facts.

A small case: `queue[5](fact)` appends a fact to the bucket of horizon 5, and pushes -5 to the heap
if the bucket is new, so that the heap yields horizons in descending order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

from dotr.temporal.horizons.facts import NOW, STEP, HorizonCell
from dotr.temporal.horizons.rules import FOREVER, NEVER, Point, WindowFact


class Insertion(NamedTuple):
    """Facts that are inserted at the points from `start` to `horizon`, both included."""

    facts: Sequence[WindowFact]
    start: Point
    horizon: Point

    def without(self, cut: Container[WindowFact]) -> Insertion:
        """The insertion without the facts that were cut."""
        return Insertion([fact for fact in self.facts if fact not in cut], self.start, self.horizon)


class HorizonQueue(dict[Point, Callable[[WindowFact], object]]):
    """Bucket queue of facts to settle: by horizon, the `append` of the bucket's list.

    `heap`: the negated horizons of all buckets, perhaps with duplicates; queues may share one.
    """

    __slots__ = ("_heap", "paths")

    def __init__(self, heap: list[Point]) -> None:
        super().__init__()
        self._heap = heap
        self.paths: HorizonQueue = self

    def __missing__(self, h: Point) -> Callable[[WindowFact], object]:
        facts: list[WindowFact] = []
        append = self[h] = facts.append
        heappush(self._heap, -h)
        return append

    def extend(self, h: Point, facts: Iterable[WindowFact]) -> None:
        """Adds facts of one horizon."""
        list_of(self[h]).extend(facts)


def list_of(append: Callable[[WindowFact], object]) -> list[WindowFact]:
    """The list that an `append` belongs to."""
    return append.__self__  # type: ignore[attr-defined,no-any-return]


class Overdeletions:
    """Facts that lost a derivation, in the order of discovery; they lose their horizon at once.

    `overdeletions[h](fact)`: a derivation of the fact with horizon h is invalid. A fact with a
    greater horizon keeps it, since it has another derivation.
    """

    __slots__ = ("_cells", "facts")

    def __init__(self, cells: Mapping[WindowFact, HorizonCell], facts: list[WindowFact]) -> None:
        self.facts = facts
        self._cells = cells

    @property
    def paths(self) -> Overdeletions:
        """The same object: conclusions of transitive rules are overdeleted like others."""
        return self

    def __getitem__(self, h: Point) -> Callable[[WindowFact], None]:
        return partial(self._overdelete, h)

    def _overdelete(self, h: Point, fact: WindowFact) -> None:
        cell = self._cells.get(fact)
        if cell is not None and NEVER < cell[NOW] <= h:
            cell[NOW] = cell[STEP] = NEVER
            self.facts.append(fact)


# Inserts and cuts of a closure that are pending until their points.
#
# A small case: at 1 a fact is inserted from 3 to 9; at 2 it is scheduled; at 3 it starts. A cut at 3
# ends insertions of the fact that start at 2 or earlier, and leaves one that starts at 3.


class PendingInserts:
    """Insertions that have not started, insertions that started at the last point, and cuts.

    `received`: the insertions since the last point. `cuts`: facts whose earlier insertions end.
    """

    def __init__(self) -> None:
        self.received: list[Insertion] = []
        self.cuts: dict[WindowFact, None] = {}
        self._scheduled: dict[Point, list[Insertion]] = {}  # by start
        self._starts: list[Point] = []  # heap of the keys of `_scheduled`
        self._started_now: list[Insertion] = []  # insertions that start at the last point
        self._cut_now: set[WindowFact] = set()  # facts that were cut at the last point

    def move(self, *, is_further: bool) -> None:
        """Notes the cuts of a point; `is_further`: it differs from the last one."""
        if is_further:
            self._started_now, self._cut_now = [], set()
        self._cut_now.update(self.cuts)

    def is_due(self, k: Point) -> bool:
        """True where an insertion starts or a fact is cut at a point."""
        return bool(self.received or self.cuts or (self._starts and self._starts[0] <= k))

    def starting(self, k: Point) -> list[Insertion]:
        """The insertions that start after the last point and by k, without facts that a cut ended.

        Insertions with a later start are scheduled.
        """
        received, self.received = self.received, []
        starting = []
        for each in received:
            if each.start <= k:
                starting.append(each)
            elif each.start <= each.horizon:
                same_start = self._scheduled.get(each.start)
                if same_start is None:
                    self._scheduled[each.start] = [each]
                    heappush(self._starts, each.start)
                else:
                    same_start.append(each)
        while self._starts and self._starts[0] <= k:
            starting += self._scheduled.pop(heappop(self._starts))
        if self._cut_now:
            starting = [each if each.start == k else each.without(self._cut_now) for each in starting]
        return starting

    def enter(self, k: Point, starting: Sequence[Insertion], queue: HorizonQueue) -> None:
        """Queues the insertions that start at a point, for settling."""
        for facts, start, horizon in starting:
            if horizon >= k and horizon >= start:
                queue.extend(min(horizon, FOREVER), facts)
        self._started_now += [each for each in starting if each.start == k]

    def take_cuts(self) -> tuple[Iterable[WindowFact], Mapping[WindowFact, Point]]:
        """Removes and returns the facts that were cut; also returns, by fact, the greatest horizon
        of the insertions that start at this very point, which a cut leaves.
        """
        cuts, self.cuts = self.cuts, {}
        started: dict[WindowFact, Point] = {}
        if cuts:
            for facts, _, horizon in self._started_now:
                started.update((fact, horizon) for fact in facts if horizon > started.get(fact, NEVER))
        return cuts, started

    def next_start(self, point: Point | None) -> Point | None:
        """The first point after `point` at which an insertion starts; None: there is none."""
        later = [start for _, start, horizon in self.received if point is not None and point < start <= horizon]
        return min([*self._starts[:1], *later], default=None)

    def scheduled(self, until: Point = FOREVER) -> list[Insertion]:
        """The insertions that start later, up to `until`, in order of their start."""
        if not self._starts or self._starts[0] > until:
            return []
        return [each for start in sorted(self._scheduled) if start <= until for each in self._scheduled[start]]
