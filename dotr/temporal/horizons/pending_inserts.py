"""Inserts and cuts of a closure that are pending until their points.

A small case: at 1 a fact is inserted from 3 to 9; at 2 it is scheduled; at 3 it starts. A cut at 3
ends insertions of the fact that start at 2 or earlier, and leaves one that starts at 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

from dotr.temporal.horizons.queues import HorizonQueue, Insertion
from dotr.temporal.horizons.rules import FOREVER, NEVER, Point, WindowFact


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
