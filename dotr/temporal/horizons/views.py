"""Views of a closure: the content of a shorter window, as the facts with a minimum horizon.

Idea: a window with the same end as the closure's and a later begin l contains the conclusions from
items of time l or later, which are the facts with a horizon of at least l. The view has a calendar
of its own, made of the closure's lists of settled cells, and a bit in the cell of each member.

Cost: constant for each fact that begins, is renewed or ends in the view; no look-ups.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush
from typing import Final, Protocol

from dotr.temporal.horizons.facts import FACT, NOW, VIEWS, HeldFacts, HorizonCell
from dotr.temporal.horizons.index import HeldIndex
from dotr.temporal.horizons.rules import FOREVER, NEVER, FactChanges, Point, SettledFacts, WindowFact

_COMPACT_ABOVE: Final = 4096
"""The number of received cells above which duplicates among them are removed."""


class ViewedClosure(Protocol):
    """What a view reads of its closure."""

    point: Point | None
    may_lose: bool

    @property
    def held(self) -> HeldFacts:
        """The facts that hold, each with its horizon."""

    @property
    def auxiliary(self) -> Collection[str]:
        """Internal relations, left out of all changes."""


class ClosureView:
    """The facts of a closure with a horizon of at least l.

    `index`: the triples among them, for queries. `number`: the ordinal of this view among the
    closure's, which is its bit in cells.
    """

    def __init__(self, closure: ViewedClosure, number: int) -> None:
        self.point: Point | None = None
        self.index = HeldIndex(closure.held)
        self._closure = closure
        self._bit = 1 << number
        self._calendar: dict[Point, list[list[HorizonCell]]] = {}
        self._horizons: list[Point] = []
        self._deliveries = 1
        self._cells_received = 0
        by_horizon: dict[Point, list[HorizonCell]] = {}
        for cell in closure.held.cells.values():
            by_horizon.setdefault(cell[NOW], []).append(cell)
        self._received: SettledFacts = list(by_horizon.items())

    def members(self) -> set[WindowFact]:
        """The facts of the view as of its last `advance`."""
        return {fact for fact, cell in self._closure.held.cells.items() if cell[VIEWS] & self._bit}

    def receive(self, settled: SettledFacts) -> None:
        """Stores changes of the closure until `advance`: settled cells by horizon, and the
        overdeleted ones under `NEVER`.
        """
        self._received += settled
        self._deliveries += 1
        self._cells_received += sum([len(cells) for _, cells in settled])
        if self._cells_received > _COMPACT_ABOVE and self._cells_received > 2 * len(self._closure.held.cells):
            self._compact()

    def _compact(self) -> None:
        """Removes duplicate entries of received cells, and entries of facts that both began and
        ended since the last `advance`.
        """
        bit = self._bit
        compacted: dict[Point, list[HorizonCell]] = {}
        for cell in {id(cell): cell for _, cells in self._received for cell in cells}.values():
            if cell[NOW] != NEVER or cell[VIEWS] & bit:
                compacted.setdefault(cell[NOW], []).append(cell)
        self._received = list(compacted.items())
        self._cells_received = sum(map(len, compacted.values()))

    def advance(self, least: Point) -> FactChanges:
        """Moves the view; returns what began, was renewed and ended in it since its last `advance`.

        Raises `ValueError` where `least` lies before the closure's point or the view's.
        """
        for point in (self._closure.point, self.point):
            if point is not None and least < point:
                raise ValueError(f"a view of the facts to {least} and longer: it is at {point} already")
        self.point = self.index.least = least
        bit, auxiliary = self._bit, self._closure.auxiliary
        began: list[WindowFact] = []
        renewed: list[WindowFact] = []
        ended: list[WindowFact] = []
        leaving: list[list[HorizonCell]] = []  # buckets with members that may leave the view
        received, self._received = self._received, []
        for h, cells in received:
            if h < least:  # overdeleted, or settled with a horizon that has passed
                leaving.append(cells)
                continue
            for cell in cells:
                if cell[NOW] >= least:
                    if cell[VIEWS] & bit:
                        renewed.append(cell[FACT])
                    else:
                        cell[VIEWS] |= bit
                        began.append(cell[FACT])
            if h < FOREVER:
                bucket = self._calendar.get(h)
                if bucket is None:
                    self._calendar[h] = [cells]
                    heappush(self._horizons, h)
                else:
                    bucket.append(cells)
        while self._horizons and self._horizons[0] < least:
            leaving += self._calendar.pop(heappop(self._horizons))
        for cells in leaving:
            for cell in cells:
                if cell[VIEWS] & bit and cell[NOW] < least:
                    cell[VIEWS] ^= bit
                    ended.append(cell[FACT])
        if auxiliary:
            began, renewed, ended = ([fact for fact in facts if fact[0] not in auxiliary] for facts in (began, renewed, ended))
        if self._deliveries > 1 or self._closure.may_lose:  # a cell may be there twice; a fact that ended and began again has two cells
            new = set(began)
            restarted = new.intersection(ended)
            if restarted:
                began, ended = ([fact for fact in facts if fact not in restarted] for facts in (began, ended))
            if renewed or restarted:
                renewed = [*(fact for fact in dict.fromkeys(renewed) if fact not in new), *restarted]
        self._deliveries = self._cells_received = 0
        return FactChanges(began, ended, renewed=renewed)
