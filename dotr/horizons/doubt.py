"""Steps of a closure in which facts may lose their horizon before it has come: by cuts, and by NOT.

For each stratum in turn: doubt, support, settle (steps 1 and 2 of `dotr.horizons.closure`).

A small case: p holds until 9 by q (until 9), and by r until 5. At 3 q is cut: p's horizon is q's,
so p is doubted and loses it; joined back, r supports p, which is settled until 5.

Cost: that of the facts that derivations through cut facts concluded, and of what these follow from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dotr.horizons.facts import BEFORE, FACT, INSERTED, NOW, HeldFacts, HorizonCell
from dotr.horizons.inserts import ToldInserts
from dotr.horizons.routes import RuleRoutes
from dotr.horizons.rules import NEVER, STATIC, FactChanges, Point, SettledFacts, WindowFact
from dotr.horizons.settling import SettledHorizons
from dotr.horizons.waiting import Doubts, Insertion


class DoubtingSteps:
    """The steps of a closure whose facts may be doubted, over all of its strata.

    `auxiliary`: relations whose changes are told to nobody.
    """

    def __init__(
        self, held: HeldFacts, strata: Sequence[RuleRoutes], horizons: SettledHorizons, inserts: ToldInserts, auxiliary: Collection[str]
    ) -> None:
        self._held = held
        self._strata = strata
        self._horizons = horizons
        self._inserts = inserts
        self._auxiliary = auxiliary

    def advance(self, k: Point, starting: Sequence[Insertion], expired: Sequence[list[HorizonCell]], settled: SettledFacts) -> FactChanges:
        """Moves to a point with what starts there and what may have expired; returns what changed."""
        cells, strata = self._held.cells, self._strata
        touched: dict[WindowFact, None] = {}
        doubted: list[WindowFact] = []
        for bucket in expired:
            touched.update(dict.fromkeys(cell[FACT] for cell in bucket if cell[NOW] != NEVER))

        doubts = Doubts(cells, doubted)
        cuts, begun = self._inserts.take_cuts()
        for fact in cuts:
            cell = cells.get(fact)
            if cell is not None:
                inserted, cell[INSERTED] = cell[INSERTED], begun.get(fact, NEVER)
                doubts[inserted](fact)
        lower = 0
        for number, routes in enumerate(strata):
            if number:
                lower = self._doubt_from_lower(k, routes, touched, doubts)
            self._doubt_on(k, strata[: number + 1], doubts, lower)
            self._support(k, strata[: number + 1], doubted, lower)
            if number:
                self._join_from_lower(k, routes, touched)
            else:
                self._inserts.enter(k, starting, self._horizons.inserted)
            start = len(settled)
            self._horizons.settle(k, strata[: number + 1], [], settled)
            for _, here in settled[start:]:
                touched.update(dict.fromkeys(cell[FACT] for cell in here))
            touched.update(dict.fromkeys(doubted))
        settled.append((NEVER, [cells[fact] for fact in doubted]))
        return self._finish(k, touched)

    def _doubt_from_lower(self, k: Point, routes: RuleRoutes, touched: Iterable[WindowFact], doubts: Doubts) -> int:
        """Doubts, in a stratum, what lower facts concluded that lost their horizon, and what
        supposed the absence of facts that began; returns the number of facts doubted below.
        """
        cells, lower = self._held.cells, len(doubts.facts)
        for fact in doubts.facts[:lower]:
            cell = cells[fact]
            if cell[NOW] < cell[BEFORE] >= k:
                routes.run(fact[-2], (fact,), cell[BEFORE], k - 1, BEFORE, NEVER + 1, doubts)
        for fact in list(touched):
            cell = cells[fact]
            if cell[BEFORE] == NEVER and cell[NOW] >= k:
                for join in routes.negations(fact):
                    join((fact,), STATIC, k - 1, BEFORE, NEVER + 1, doubts)
        return lower

    def _doubt_on(self, k: Point, strata: Sequence[RuleRoutes], doubts: Doubts, lower: int) -> None:
        """Follows derivations from doubted facts on, over the horizons of the last point."""
        cells, at = self._held.cells, lower
        while at < len(doubts.facts):
            fact = doubts.facts[at]
            h = cells[fact][BEFORE]
            at += 1
            if h >= k:
                for routes in strata:
                    routes.run(fact[-2], (fact,), h, k - 1, BEFORE, NEVER + 1, doubts)

    def _support(self, k: Point, strata: Sequence[RuleRoutes], doubted: Sequence[WindowFact], lower: int) -> None:
        """Joins back from doubted facts: those of lower strata by this one's rules, this one's by all."""
        for number, fact in enumerate(doubted):
            cell = self._held.cells[fact]
            if number >= lower and cell[INSERTED] >= k:
                self._horizons.inserted.extend(cell[INSERTED], (fact,))
            if number >= lower or cell[NOW] < cell[BEFORE]:
                for routes in strata if number >= lower else strata[-1:]:
                    for join in routes.supports(fact):
                        join((fact,), STATIC, k - 1, NOW, k, self._horizons.concluded)

    def _join_from_lower(self, k: Point, routes: RuleRoutes, touched: Iterable[WindowFact]) -> None:
        """Joins, in a stratum, the lower facts that improved, and from those that ended under NOT."""
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
        """Removes what ended, and makes this point the last one of what is left."""
        began, ended, over = [], [], []
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
                over.append(cell)
        self._held.remove_before(over, k)
        if self._auxiliary:
            began, ended = ([fact for fact in facts if fact[0] not in self._auxiliary] for facts in (began, ended))
        return FactChanges(began, ended)
