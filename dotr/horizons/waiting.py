"""Facts on their way to the closure: told, waiting to be settled, and doubted."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappush
from typing import NamedTuple

from dotr.horizons.facts import NOW, STEP, HorizonCell
from dotr.horizons.rules import NEVER, Point, WindowFact


class Insertion(NamedTuple):
    """Facts that hold from a point to another."""

    facts: Sequence[WindowFact]
    start: Point
    horizon: Point

    def without(self, cut: Container[WindowFact]) -> Insertion:
        """The insertion of what was not cut."""
        return Insertion([fact for fact in self.facts if fact not in cut], self.start, self.horizon)


class WaitingFacts(dict[Point, Callable[[WindowFact], object]]):
    """Facts that wait to be settled, by horizon: the `append` of a list.

    `heap`: the horizons, negated, of all that waits; one may be there more than once.
    """

    __slots__ = ("_heap", "paths")

    def __init__(self, heap: list[Point]) -> None:
        super().__init__()
        self._heap = heap
        self.paths: WaitingFacts = self

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


class Doubts:
    """Facts whose derivation is gone, in the order of discovery; they lose their horizon at once.

    `doubts[h](fact)`: a derivation with horizon h of the fact is gone; where the fact has a greater
    one, it has another derivation.
    """

    __slots__ = ("_cells", "facts")

    def __init__(self, cells: Mapping[WindowFact, HorizonCell], facts: list[WindowFact]) -> None:
        self.facts = facts
        self._cells = cells

    @property
    def paths(self) -> Doubts:
        """The conclusions of transitive rules, which are doubted like others."""
        return self

    def __getitem__(self, h: Point) -> Callable[[WindowFact], None]:
        return partial(self._doubt, h)

    def _doubt(self, h: Point, fact: WindowFact) -> None:
        cell = self._cells.get(fact)
        if cell is not None and NEVER < cell[NOW] <= h:
            cell[NOW] = cell[STEP] = NEVER
            self.facts.append(fact)
