"""Queues of the closure: insertions, facts to settle by horizon, and overdeleted facts.

A small case: `queue[5](fact)` appends a fact to the bucket of horizon 5, and pushes -5 to the heap
if the bucket is new, so that the heap yields horizons in descending order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappush
from typing import NamedTuple

from dotr.temporal.horizons.facts import NOW, STEP, HorizonCell
from dotr.temporal.horizons.rules import NEVER, Point, WindowFact


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
