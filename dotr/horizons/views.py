"""Views of a closure: the facts with a horizon of at least some point, as a shorter window sees them.

Idea: a window that ends together with the closure's and begins later, at l, holds what follows from
items of time l or later, and that is what has a horizon of at least l. The view has a calendar of
its own, made of the closure's own lists of settled cells, and a bit in the cell of each member.

Cost: a bit for each fact that comes, is renewed or leaves; nothing is looked up.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from dotr.horizons.facts import FACT, NOW, VIEWS, HorizonCell
from dotr.horizons.index import HeldIndex
from dotr.horizons.rules import FOREVER, NEVER, FactChanges, Point, SettledFacts, WindowFact

if TYPE_CHECKING:
    from dotr.horizons.closure import HorizonClosure

_MANY_HEARD: Final = 4096
"""Up to this number of cells heard of, what is repeated among them is kept."""


class ClosureView:
    """The facts of a closure with a horizon of at least l.

    `index`: the triples among them, for queries. `number`: of the views that the closure has made.
    """

    def __init__(self, closure: HorizonClosure, number: int) -> None:
        self.point: Point | None = None
        self.index = HeldIndex(closure.held)
        self._closure = closure
        self._bit = 1 << number
        self._calendar: dict[Point, list[list[HorizonCell]]] = {}
        self._horizons: list[Point] = []
        self._times_heard = 1
        self._cells_heard = 0
        known: dict[Point, list[HorizonCell]] = {}
        for cell in closure.held.cells.values():
            known.setdefault(cell[NOW], []).append(cell)
        self._heard: SettledFacts = list(known.items())

    def members(self) -> set[WindowFact]:
        """The facts of the view as of its last `advance`."""
        return {fact for fact, cell in self._closure.held.cells.items() if cell[VIEWS] & self._bit}

    def hear(self, settled: SettledFacts) -> None:
        """Takes the closure's changes: cells settled by horizon, and doubted ones."""
        self._heard += settled
        self._times_heard += 1
        self._cells_heard += sum([len(cells) for _, cells in settled])
        if self._cells_heard > _MANY_HEARD and self._cells_heard > 2 * len(self._closure.held.cells):
            self._forget_repeated()

    def _forget_repeated(self) -> None:
        """Keeps one entry of each cell that was heard of, and none of a fact that came and went."""
        bit = self._bit
        kept: dict[Point, list[HorizonCell]] = {}
        for cell in {id(cell): cell for _, cells in self._heard for cell in cells}.values():
            if cell[NOW] != NEVER or cell[VIEWS] & bit:
                kept.setdefault(cell[NOW], []).append(cell)
        self._heard = list(kept.items())
        self._cells_heard = sum(map(len, kept.values()))

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
        gone: list[list[HorizonCell]] = []
        heard, self._heard = self._heard, []
        for h, cells in heard:
            if h < least:  # doubted, or renewed and over by now
                gone.append(cells)
                continue
            for cell in cells:
                if cell[NOW] >= least:
                    if cell[VIEWS] & bit:
                        renewed.append(cell[FACT])
                    else:
                        cell[VIEWS] |= bit
                        began.append(cell[FACT])
            if h < FOREVER:
                known = self._calendar.get(h)
                if known is None:
                    self._calendar[h] = [cells]
                    heappush(self._horizons, h)
                else:
                    known.append(cells)
        while self._horizons and self._horizons[0] < least:
            gone += self._calendar.pop(heappop(self._horizons))
        for cells in gone:
            for cell in cells:
                if cell[VIEWS] & bit and cell[NOW] < least:
                    cell[VIEWS] ^= bit
                    ended.append(cell[FACT])
        if auxiliary:
            began, renewed, ended = ([fact for fact in facts if fact[0] not in auxiliary] for facts in (began, renewed, ended))
        if self._times_heard > 1 or self._closure.may_lose:  # cells may be settled twice; what ended and began again has had two
            new = set(began)
            again = new.intersection(ended)
            if again:
                began, ended = ([fact for fact in facts if fact not in again] for facts in (began, ended))
            if renewed or again:
                renewed = [*(fact for fact in dict.fromkeys(renewed) if fact not in new), *again]
        self._times_heard = self._cells_heard = 0
        return FactChanges(began, ended, renewed=renewed)
