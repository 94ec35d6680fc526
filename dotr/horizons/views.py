"""Views of a closure: the facts with a horizon of at least some point, as a shorter window sees them.

Idea: a window that ends together with the closure's and begins later, at l, holds what follows from
items of time l or later, and that is what has a horizon of at least l. The view has a calendar of
its own, made of the closure's own lists of settled facts, and a set of its members.

Cost: two look-ups for each fact that comes, is renewed or leaves.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import filterfalse
from typing import TYPE_CHECKING

from dotr.horizons.facts import NOW
from dotr.horizons.index import HeldIndex
from dotr.horizons.rules import FOREVER, FactChanges, Point, SettledFacts, WindowFact

if TYPE_CHECKING:
    from dotr.horizons.closure import HorizonClosure


class ClosureView:
    """The facts of a closure with a horizon of at least l.

    `members`: these facts as of the last `advance`; `index`: the triples among them, for queries.
    """

    def __init__(self, closure: HorizonClosure) -> None:
        self.members: set[WindowFact] = set()
        self.point: Point | None = None
        self.index = HeldIndex(closure.held)
        self._closure = closure
        self._calendar: dict[Point, list[list[WindowFact]]] = {}
        self._horizons: list[Point] = []
        known: dict[Point, list[WindowFact]] = {}
        for fact, h in closure.facts():
            known.setdefault(h, []).append(fact)
        self._heard: SettledFacts = list(known.items())

    def hear(self, settled: SettledFacts) -> None:
        """Takes the closure's changes: facts settled by horizon, and doubted ones."""
        self._heard += settled

    def advance(self, least: Point) -> FactChanges:
        """Moves the view; returns what began and ended in it since its last `advance`.

        Raises `ValueError` where `least` lies before the closure's point or the view's.
        """
        for point in (self._closure.point, self.point):
            if point is not None and least < point:
                raise ValueError(f"a view of the facts to {least} and longer: it is at {point} already")
        self.point = self.index.least = least
        get, members = self._closure.held.cells.get, self.members
        may_lose = self._closure.may_lose
        auxiliary = self._closure.auxiliary
        began: list[WindowFact] = []
        ended: list[WindowFact] = []
        heard, self._heard = self._heard, []
        gone: list[list[WindowFact]] = []
        for h, facts in heard:
            if h < least:  # doubted, or renewed and over by now
                gone.append(facts)
                continue
            fresh = list(filterfalse(members.__contains__, facts))
            if may_lose:
                fresh = [fact for fact in fresh if (cell := get(fact)) is not None and cell[NOW] >= least and fact[0] not in auxiliary]
            members.update(fresh)
            began += fresh
            if h < FOREVER:
                known = self._calendar.get(h)
                if known is None:
                    self._calendar[h] = [facts]
                    heappush(self._horizons, h)
                else:
                    known.append(facts)
        while self._horizons and self._horizons[0] < least:
            gone += self._calendar.pop(heappop(self._horizons))
        for facts in gone:
            over = [fact for fact in filter(members.__contains__, facts) if (cell := get(fact)) is None or cell[NOW] < least]
            if len(over) > 1:
                over = list(dict.fromkeys(over))
            members.difference_update(over)
            ended += over
        return FactChanges(began, ended)
