"""Steps of a closure in which facts may end before their horizon: by cuts, and by NOT.

For each stratum in turn: overdelete, rederive, settle (steps 1 and 2 of
`dotr.temporal.horizons.closure`).

A small case: p is derived from q until 9, and from r until 5. At 3, q is cut: p's horizon is q's,
so p is overdeleted. A backward join from p finds r, so p is settled until 5.

Cost: the derivations through invalid facts, and all derivations of the overdeleted facts.
Source: Gupta, Mumick, Subrahmanian (DRed, 1993).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dotr.temporal.horizons.facts import BEFORE, FACT, INSERTED, NOW, HeldFacts, HorizonCell
from dotr.temporal.horizons.queues import Insertion, Overdeletions, PendingInserts
from dotr.temporal.horizons.routes import RuleRoutes
from dotr.temporal.horizons.rules import NEVER, STATIC, FactChanges, Point, SettledFacts, WindowFact
from dotr.temporal.horizons.settling import SettledHorizons


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
