"""Steps of a closure in which facts may end before their horizon: by cuts, and by NOT.

For each stratum in turn: overdelete, rederive, settle (steps 1 and 2 of
`dotr.temporal.horizons.closure`).

A small case: p is derived from q until 9, and from r until 5. At 3, q is cut: p's horizon is q's,
so p is overdeleted. A backward join from p finds r, so p is settled until 5.

Cost: the derivations through invalid facts, and all derivations of the overdeleted facts.
Source: Gupta, Mumick, Subrahmanian (DRed, 1993).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from dotr.evaluation.limits import LimitExceeded
from dotr.temporal.horizons.facts import BEFORE, FACT, INSERTED, NOW, HeldFacts, HorizonCell, Renewal
from dotr.temporal.horizons.queues import HorizonQueue, Insertion, Overdeletions, PendingInserts, list_of
from dotr.temporal.horizons.routes import JoinPart, RuleRoutes
from dotr.temporal.horizons.rules import FOREVER, NEVER, STATIC, FactChanges, Point, SettledFacts, WindowFact

# Assignment of final horizons to queued facts, and the calendar of horizons.
#
# Idea: queued facts are settled in descending order of horizon. The horizon of a conclusion is no
# greater than that of any premise, so the first horizon that a fact gets is final (Knuth 1977).
#
# A small case: links a–b until 5 and b–c until 6 are queued, and rules join links to paths. Link b–c
# is settled first, and derives path b–c until 6; then link a–b, which derives path a–b until 5 and,
# with b–c, path a–c until 5.
#
# Invariant: after `settle` the queues are empty, and the calendar has each held fact in the bucket of
# its horizon; perhaps also in buckets of its earlier horizons, so a reader compares with the cell.


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


class OverdeletionSteps:
    """The steps of a closure whose facts may be overdeleted, over all of its strata.

    `auxiliary`: internal relations, left out of the changes.
    """

    def __init__(
        self, held: HeldFacts, strata: Sequence[RuleRoutes], horizons: SettledHorizons, inserts: PendingInserts, auxiliary: Collection[str]
    ) -> None:
        self._held = held
        self._strata = strata
        self._horizons = horizons
        self._inserts = inserts
        self._auxiliary = auxiliary

    def advance(self, k: Point, starting: Sequence[Insertion], expired: Sequence[list[HorizonCell]], settled: SettledFacts) -> FactChanges:
        """Moves to point `k`; returns the facts that began and ended.

        `starting`: the insertions that start. `expired`: cells of facts that may have expired.
        `settled`: receives the settled cells by horizon, and the overdeleted ones under `NEVER`.
        """
        cells, strata = self._held.cells, self._strata
        touched: dict[WindowFact, None] = {}
        overdeleted: list[WindowFact] = []
        for bucket in expired:
            touched.update(dict.fromkeys(cell[FACT] for cell in bucket if cell[NOW] != NEVER))

        overdeletions = Overdeletions(cells, overdeleted)
        cuts, started = self._inserts.take_cuts()
        for fact in cuts:
            cell = cells.get(fact)
            if cell is not None:
                inserted, cell[INSERTED] = cell[INSERTED], started.get(fact, NEVER)
                overdeletions[inserted](fact)
        lower = 0
        for number, routes in enumerate(strata):
            if number:
                lower = self._overdelete_from_lower(k, routes, touched, overdeletions)
            self._propagate(k, strata[: number + 1], overdeletions, lower)
            self._rederive(k, strata[: number + 1], overdeleted, lower)
            if number:
                self._join_from_lower(k, routes, touched)
            else:
                self._inserts.enter(k, starting, self._horizons.inserted)
            start = len(settled)
            self._horizons.settle(k, strata[: number + 1], [], settled)
            for _, here in settled[start:]:
                touched.update(dict.fromkeys(cell[FACT] for cell in here))
            touched.update(dict.fromkeys(overdeleted))
        settled.append((NEVER, [cells[fact] for fact in overdeleted]))
        return self._finish(k, touched)

    def _overdelete_from_lower(self, k: Point, routes: RuleRoutes, touched: Iterable[WindowFact], overdeletions: Overdeletions) -> int:
        """Overdeletes, in a stratum, conclusions from lower facts whose horizon decreased, and
        conclusions through NOT of facts that began; returns the number of facts overdeleted below.
        """
        cells, lower = self._held.cells, len(overdeletions.facts)
        for fact in overdeletions.facts[:lower]:
            cell = cells[fact]
            if cell[NOW] < cell[BEFORE] >= k:
                routes.run(fact[-2], (fact,), cell[BEFORE], k - 1, BEFORE, NEVER + 1, overdeletions)
        for fact in list(touched):
            cell = cells[fact]
            if cell[BEFORE] == NEVER and cell[NOW] >= k:
                for join in routes.negations(fact):
                    join((fact,), STATIC, k - 1, BEFORE, NEVER + 1, overdeletions)
        return lower

    def _propagate(self, k: Point, strata: Sequence[RuleRoutes], overdeletions: Overdeletions, lower: int) -> None:
        """Overdeletes conclusions from overdeleted facts, over the horizons of the last point."""
        cells, next_one = self._held.cells, lower
        while next_one < len(overdeletions.facts):
            fact = overdeletions.facts[next_one]
            h = cells[fact][BEFORE]
            next_one += 1
            if h >= k:
                for routes in strata:
                    routes.run(fact[-2], (fact,), h, k - 1, BEFORE, NEVER + 1, overdeletions)

    def _rederive(self, k: Point, strata: Sequence[RuleRoutes], overdeleted: Sequence[WindowFact], lower: int) -> None:
        """Joins backward from overdeleted facts: from facts of lower strata by the rules of this
        stratum (the last of `strata`), from facts of this stratum by all rules.
        """
        for number, fact in enumerate(overdeleted):
            cell = self._held.cells[fact]
            if number >= lower and cell[INSERTED] >= k:
                self._horizons.inserted.extend(cell[INSERTED], (fact,))
            if number >= lower or cell[NOW] < cell[BEFORE]:
                for routes in strata if number >= lower else strata[-1:]:
                    for join in routes.backward_joins(fact):
                        join((fact,), STATIC, k - 1, NOW, k, self._horizons.concluded)

    def _join_from_lower(self, k: Point, routes: RuleRoutes, touched: Iterable[WindowFact]) -> None:
        """Joins, in a stratum, from lower facts whose horizon increased, and from NOT of those that
        ended.
        """
        for fact in list(touched):
            cell = self._held.cells[fact]
            now, before = cell[NOW], cell[BEFORE]
            if now >= k:
                if now > before:
                    routes.run(fact[-2], (fact,), now, max(k - 1, before), NOW, k, self._horizons.concluded)
            elif before != NEVER:
                for join in routes.negations(fact):
                    join((fact,), STATIC, k - 1, NOW, k, self._horizons.concluded)

    def _finish(self, k: Point, touched: Iterable[WindowFact]) -> FactChanges:
        """Removes the facts that ended; of the others the horizon becomes that of the last
        point."""
        began, ended, expired = [], [], []
        for fact in touched:
            cell = self._held.cells[fact]
            if cell[NOW] >= k:
                if cell[BEFORE] == NEVER:
                    began.append(fact)
                cell[BEFORE] = cell[NOW]
            else:
                if cell[BEFORE] != NEVER:
                    ended.append(fact)
                cell[NOW] = k - 1
                expired.append(cell)
        self._held.remove_before(expired, k)
        if self._auxiliary:
            began, ended = ([fact for fact in facts if fact[0] not in self._auxiliary] for facts in (began, ended))
        return FactChanges(began, ended)
