"""Points of a LARS file as rows: their times, and pairs of times that are 2ʲ points apart.

A small case: points 1, 2 and 3 with a step of two points. At 3 the pair of the times of 1 and 3 is
inserted, and holds as long as a window reaches 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dotr.languages.lars.closure.relations import NOW, LarsRules
from dotr.model.terms import Term
from dotr.temporal.horizons.rules import Point, WindowFact


class PointRows:
    """The rows of the relations that points themselves enter (`PointFeeds`).

    `time_of`: function from a point to the term of its time. `reached`: the evaluated points within
    `LarsRules.reach`, in order.
    """

    def __init__(self, rules: LarsRules, time_of: Callable[[Point], Term]) -> None:
        self._rules: Final = rules
        self._time_of: Final = time_of
        self.reached: list[Point] = []

    def enter(self, k: Point, first: Point, insert: Callable[[Sequence[WindowFact], Point, Point], None], *, has_atoms: bool) -> None:
        """Inserts the rows of an evaluated point; `first` is the first point of the line.

        `insert`: receives rows, and the first and the last point at which they hold.
        """
        feeds, time_of = self._rules.points, self._time_of
        if feeds.has_now:
            insert([(NOW, (time_of(k),))], k, k)
        if has_atoms or self._rules.dense:
            for (least, greatest), relation in feeds.within.items():
                insert([(relation, (time_of(k),))], k + least, k + greatest)
        for (least, greatest), relation in feeds.each.items():
            insert([(relation, (time_of(k),))], k + least, k + greatest)
        for least, relation in feeds.latest.items():
            if k - least >= first:
                insert([(relation, (time_of(k - least),))], k, k)
        for (least, greatest), relations in feeds.spans.items():
            begin, end = max(first, k - greatest), k - least
            if begin <= end:
                # The greatest 2ʲ that is not longer than the window: runs of 2ʲ points from its first point and up to its
                # last one cover it. For points 3 to 7, j = 2: runs of four points from 3 and from 4.
                j = (end - begin + 1).bit_length() - 1
                insert([(relations[j], (time_of(begin), time_of(end - (1 << j) + 1)))], k, k)
        if not self._rules.reach:
            return
        self.reached = [u for u in self.reached if u >= k - self._rules.reach]
        evaluated = set(self.reached)
        for (greatest, j), relation in feeds.steps.items():
            u = k - (1 << j)
            if u in evaluated:
                insert([(relation, (time_of(u), time_of(k)))], k, u + greatest)
        for greatest, relations in feeds.covers.items():
            u = k - 1
            while u >= first and u >= k - greatest:
                j = (k - u).bit_length() - 1
                insert([(relations[j], (time_of(u), time_of(u + 1), time_of(k - (1 << j) + 1)))], k, k)
                if u not in evaluated:
                    break
                u -= 1
        self.reached.append(k)
