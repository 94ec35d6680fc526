"""Assignment of final horizons to queued facts, and the calendar of horizons.

Idea: queued facts are settled in descending order of horizon. The horizon of a conclusion is no
greater than that of any premise, so the first horizon that a fact gets is final (Knuth 1977).

A small case: links a–b until 5 and b–c until 6 are queued, and rules join links to paths. Link b–c
is settled first, and derives path b–c until 6; then link a–b, which derives path a–b until 5 and,
with b–c, path a–c until 5.

Invariant: after `settle` the queues are empty, and the calendar has each held fact in the bucket of
its horizon; perhaps also in buckets of its earlier horizons, so a reader compares with the cell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from dotr.evaluation.limits import LimitExceeded
from dotr.temporal.horizons.facts import FACT, NOW, HeldFacts, HorizonCell, Renewal
from dotr.temporal.horizons.queues import HorizonQueue, list_of
from dotr.temporal.horizons.routes import JoinPart, RuleRoutes
from dotr.temporal.horizons.rules import FOREVER, NEVER, Point, SettledFacts, WindowFact


class SettledHorizons:
    """The queues of facts to settle, and the calendar of settled facts by horizon.

    `limit`: the greatest number of held facts. `silent`: relations that `next_end` ignores.
    """

    def __init__(self, held: HeldFacts, limit: int, silent: Collection[str]) -> None:
        self._held: Final = held
        self._limit: Final = limit
        self._silent: Final = frozenset(silent)
        self._calendar: dict[Point, list[HorizonCell]] = {}
        self._horizons: list[Point] = []
        self._heap: list[Point] = []
        self.has_endless = False
        """True where a fact has had the horizon FOREVER."""
        self.inserted: Final = HorizonQueue(self._heap)
        self.concluded: Final = HorizonQueue(self._heap)
        self.concluded.paths = HorizonQueue(self._heap)

    def settle(self, k: Point, routes: Sequence[RuleRoutes], began: list[WindowFact], settled: SettledFacts) -> None:
        """Settles the queued facts and their conclusions, in descending order of horizon.

        Facts of one horizon are settled together; those for which it is new are joined. Facts that
        did not hold are added to `began`, the cells of all, grouped by horizon, to `settled`.

        Raises `LimitExceeded`; queues and calendar cannot be used afterwards.
        """
        heap, inserted, concluded, paths = self._heap, self.inserted, self.concluded, self.concluded.paths
        cells, calendar, settle, limit, beyond = self._held.cells, self._calendar, self._held.settle, self._limit, k - 1
        while heap:
            h = -heappop(heap)
            here: list[HorizonCell] = []
            while True:  # joins may queue more facts of this same horizon
                if inserted and h in inserted:
                    new, renewed = settle(list_of(inserted.pop(h)), h, h, step := h, here)
                    part = JoinPart.ALL
                elif h in concluded:
                    new, renewed = settle(list_of(concluded.pop(h)), h, NEVER, step := h, here)
                    part = JoinPart.ALL
                elif h in paths:
                    new, renewed = settle(list_of(paths.pop(h)), h, NEVER, step := NEVER, here)
                    part = JoinPart.OTHERS
                else:
                    break
                for name, group in new.items():
                    began += group
                    for each in routes:
                        each.run(name, group, h, beyond, NOW, k, concluded, part)
                if renewed:
                    for (name, before, part), group in _grouped(renewed, h, step).items():
                        for each in routes:
                            each.run(name, group, h, max(before, beyond), NOW, k, concluded, part)
                if len(cells) > limit:
                    raise LimitExceeded(limit)
            if here:
                settled.append((h, here))
                if h >= FOREVER:
                    self.has_endless = True
                elif h in calendar:
                    calendar[h] += here
                else:
                    calendar[h] = here
                    heappush(self._horizons, h)

    def is_due(self, k: Point) -> bool:
        """True where facts may end before k."""
        return bool(self._horizons) and self._horizons[0] < k

    def expired(self, k: Point) -> list[list[HorizonCell]]:
        """Removes and returns the buckets of horizons before k; their facts may have been
        renewed."""
        buckets = []
        while self._horizons and self._horizons[0] < k:
            buckets.append(self._calendar.pop(heappop(self._horizons)))
        return buckets

    def is_empty(self) -> bool:
        """True where the calendar has no fact that may still hold."""
        return not (self._horizons or self.has_endless)

    def clear(self) -> None:
        """Empties the calendar."""
        self._calendar.clear()
        self._horizons.clear()

    def next_end(self) -> Point | None:
        """The next horizon at which a fact that is not silent expires; None: there is none."""
        calendar, horizons = self._calendar, self._horizons
        while horizons:
            h = horizons[0]
            ending = calendar[h]
            while ending and ending[-1][NOW] != h:
                ending.pop()  # the fact was renewed since, or removed
            if ending:
                break
            heappop(horizons)
            del calendar[h]
        if self._silent:
            return next(self._ends(), None)
        return horizons[0] if horizons else None

    def _ends(self) -> Iterator[Point]:
        """The horizons at which facts that are not silent expire, in ascending order."""
        silent = self._silent
        for h in sorted(self._horizons):
            if any(cell[NOW] == h and cell[FACT][0] not in silent for cell in self._calendar[h]):
                yield h


def _grouped(renewed: Sequence[Renewal], h: Point, step: Point) -> dict[tuple[str, Point, JoinPart], list[WindowFact]]:
    """Groups of renewed facts, by predicate or relation, the horizon that other premises must
    exceed, and the joins to run.

    >>> _grouped([(("<a>", "<p>", "<b>"), 4, 4), (("<b>", "<p>", "<c>"), 4, NEVER)], 7, 7)  # doctest: +NORMALIZE_WHITESPACE
    {('<p>', 4, <JoinPart.ALL: 2>): [('<a>', '<p>', '<b>')],
     ('<p>', 4, <JoinPart.OTHERS: 1>): [('<b>', '<p>', '<c>')],
     ('<p>', -..., <JoinPart.FIRSTS: 0>): [('<b>', '<p>', '<c>')]}
    """
    groups: dict[tuple[str, Point, JoinPart], list[WindowFact]] = {}
    for fact, before, step_before in renewed:
        if before == step_before and h <= step:
            groups.setdefault((fact[-2], before, JoinPart.ALL), []).append(fact)
            continue
        if before < h:
            groups.setdefault((fact[-2], before, JoinPart.OTHERS), []).append(fact)
        if step_before < step:
            groups.setdefault((fact[-2], step_before, JoinPart.FIRSTS), []).append(fact)
    return groups
