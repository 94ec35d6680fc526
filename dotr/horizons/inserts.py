"""Inserts and cuts that a closure was told of, until their points have come.

A small case: at 1 a fact is inserted from 3 to 9; at 2 it waits among the openings; at 3 it starts.
A cut at 3 ends what was inserted of the fact from 2 on or earlier, and leaves what starts at 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

from dotr.horizons.rules import FOREVER, NEVER, Point, WindowFact
from dotr.horizons.waiting import Insertion, WaitingFacts


class ToldInserts:
    """What was inserted and has not started, what started at the last point, and cuts.

    `told`: since the last point. `cuts`: facts whose inserts of earlier points end.
    """

    def __init__(self) -> None:
        self.told: list[Insertion] = []
        self.cuts: dict[WindowFact, None] = {}
        self._opening: dict[Point, list[Insertion]] = {}
        self._openings: list[Point] = []
        self._begun: list[Insertion] = []  # what was inserted from this very point on
        self._cut_now: set[WindowFact] = set()  # what was cut at this very point

    def move(self, *, is_further: bool) -> None:
        """Notes the cuts told for a point; `is_further`: it is another than the last one."""
        if is_further:
            self._begun, self._cut_now = [], set()
        self._cut_now.update(self.cuts)

    def is_due(self, k: Point) -> bool:
        """True where something starts or is cut at a point."""
        return bool(self.told or self.cuts or (self._openings and self._openings[0] <= k))

    def starting(self, k: Point) -> list[Insertion]:
        """The inserts that have begun by k since the last point, without those that a cut ended."""
        told, self.told = self.told, []
        starting = []
        for each in told:
            if each.start <= k:
                starting.append(each)
            elif each.start <= each.horizon:
                opening = self._opening.get(each.start)
                if opening is None:
                    self._opening[each.start] = [each]
                    heappush(self._openings, each.start)
                else:
                    opening.append(each)
        while self._openings and self._openings[0] <= k:
            starting += self._opening.pop(heappop(self._openings))
        if self._cut_now:
            starting = [each if each.start == k else each.without(self._cut_now) for each in starting]
        return starting

    def enter(self, k: Point, starting: Sequence[Insertion], waiting: WaitingFacts) -> None:
        """Has what starts at a point wait to be settled."""
        for facts, start, horizon in starting:
            if horizon >= k and horizon >= start:
                waiting.extend(min(horizon, FOREVER), facts)
        self._begun += [each for each in starting if each.start == k]

    def take_cuts(self) -> tuple[Iterable[WindowFact], Mapping[WindowFact, Point]]:
        """The facts that were cut, and the horizons of what has begun at this very point."""
        cuts, self.cuts = self.cuts, {}
        begun: dict[WindowFact, Point] = {}
        if cuts:
            for facts, _, horizon in self._begun:
                begun.update((fact, horizon) for fact in facts if horizon > begun.get(fact, NEVER))
        return cuts, begun

    def next_start(self, point: Point | None) -> Point | None:
        """The first point after one at which something starts; None if nothing will."""
        later = [start for _, start, horizon in self.told if point is not None and point < start <= horizon]
        return min([*self._openings[:1], *later], default=None)

    def opening(self, until: Point = FOREVER) -> list[Insertion]:
        """The inserts that begin later, up to a point."""
        if not self._openings or self._openings[0] > until:
            return []
        return [each for start in sorted(self._opening) if start <= until for each in self._opening[start]]
