"""Closure of a window under rules, kept from point to point: the horizon closure.

Idea: each fact is kept with its *horizon*, the last point at which what is known now guarantees it.
A conclusion's horizon is the least of its premises', and the greatest over its derivations: Datalog
over (max, min). What ends by itself then needs no search: a calendar has it.

A small case: links a–b until 5 and b–c until 6 give reach a–c until 5. At 4 comes a–c until 8:

    advance(4)    began: link a–c. Its reach a–c until 8 is greater than 5, so it is renewed.
    advance(6)    ended: link a–b and reach a–b. Reach a–c is in the calendar of 5 too, but its
                  cell says 8 now: it stays.
    advance(9)    ended: the rest.

At a point, for each stratum in turn:

1. *Doubt*: what derivations through cut facts concluded, and through facts that began under NOT,
   loses its horizon where that derivation may have given it: where its horizon is no greater than
   the derivation's. Backward joins find what still supports it.
2. *Settle*, in descending order of horizon: a least is no greater than any of its parts, so the
   horizon with which a fact is first taken is final (Knuth 1977). An unknown fact is joined with all
   that reaches this point, a known one only with what reaches beyond its old horizon, since nothing
   else improves.
3. *Expire*, by the calendar. What ended under NOT is joined forward, in the strata above.

Invariant: after `advance` the facts that hold are those inserted, and what a rule concludes from
facts that hold and static ones, with at least one premise that holds and is not static; each has
the greatest horizon that a derivation gives it.

Cost: a derivation is met once for each premise that comes, or is renewed to its benefit; what
neither comes nor goes costs nothing. Horizons of the last point are kept only where a fact has been
cut or a rule has NOT, since only doubt reads them.

Sources: Barbieri and others, Incremental Reasoning on Streams (ESWC 2010); Bazoobandi, Beck, Urbani,
Laser (ISWC 2017); Gupta, Mumick, Subrahmanian (DRed, 1993).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final
from weakref import WeakSet

from dotr.datalog.strata import is_nonmonotonic
from dotr.horizons.facts import BEFORE, INSERTED, NOW, HeldFacts, StaticFacts
from dotr.horizons.index import HeldIndex
from dotr.horizons.negation import rule_strata, with_bound_negations
from dotr.horizons.routes import RuleRoutes, is_plain
from dotr.horizons.rules import FOREVER, NEVER, STATIC, Changes, Fact, Point, WindowRule, check_rules
from dotr.horizons.views import ClosureView
from dotr.joins.limits import NO_LIMITS, LimitExceeded
from dotr.model.datalog import DatalogRule, Not

_CHECK_INTERVAL: Final = 1024


class HorizonClosure:
    """The facts that hold, and what changes of them from point to point.

    `rules`: rules of `.dlog` files and rule sets, or over relations too; stratified, without
    AGGREGATE, and without NOT where there is a rule set. Raises `ValueError` for others, `Refused`
    for recursion through NOT.
    `static`: facts that always hold, closed under the rules; they must not change.
    `limit`: the greatest number of facts, beyond which `advance` raises `LimitExceeded`; the closure
    is of no use afterwards.

    >>> from dotr.model.algebra import Var
    >>> from dotr.model.datalog import RelationAtom
    >>> x, y, z = map(Var, "xyz")
    >>> link, reach = RelationAtom("link", (x, y)), RelationAtom("reach", (x, y))
    >>> further = (reach, RelationAtom("link", (y, z)))
    >>> rules = [WindowRule("one", (reach,), (link,)), WindowRule("more", (RelationAtom("reach", (x, z)),), further)]
    >>> closure = HorizonClosure(rules)
    >>> closure.insert(("link", ("a", "b")), 1, 5)
    >>> closure.insert(("link", ("b", "c")), 2, 6)
    >>> len(closure.advance(2).began), closure.horizon(("reach", ("a", "c"))), closure.next_change()
    (5, 5, 6)
    >>> closure.insert(("link", ("a", "c")), 4, 8)
    >>> closure.advance(4)
    Changes(began=[('link', ('a', 'c'))], ended=[])
    >>> sorted(closure.advance(6).ended)
    [('link', ('a', 'b')), ('reach', ('a', 'b'))]
    >>> len(closure.advance(9).ended), closure.next_change()
    (4, None)
    """

    def __init__(
        self, rules: Iterable[DatalogRule | WindowRule], static: StaticFacts | None = None, *, limit: int = NO_LIMITS.triples
    ) -> None:
        self.limit = limit
        self.point: Point | None = None
        """The last point advanced to; None before the first."""
        self.held: Final = HeldFacts()
        self.static: Final = StaticFacts() if static is None else StaticFacts(static.triples, static.rows)
        self.index: Final = HeldIndex(self.held)
        """The triples that hold, for queries."""
        self.auxiliary: frozenset[str] = frozenset()
        """Relations of the closure's own, which are shown to nobody."""
        self._strata = self._routes(list(rules))
        self._keeps_before = len(self._strata) > 1 or any(each.has_negations for each in self._strata)
        self._inserted: list[tuple[Fact, Point, Point]] = []
        self._opening: dict[Point, list[tuple[Fact, Point, Point]]] = {}
        self._openings: list[Point] = []
        self._cuts: dict[Fact, None] = {}
        self._begun: dict[Fact, Point] = {}  # what was inserted from this very point on, with its horizon
        self._cut_here: set[Fact] = set()  # what was cut at this very point
        self._calendar: dict[Point, list[Fact]] = {}
        self._horizons: list[Point] = []
        self._waiting: dict[Point, list[Fact]] = {}
        self._heap: list[Point] = []
        self._views: WeakSet[ClosureView] = WeakSet()

    def _routes(self, rules: list[DatalogRule | WindowRule]) -> list[RuleRoutes]:
        datalog = [rule for rule in rules if isinstance(rule, DatalogRule)]
        has_negation = any(map(is_nonmonotonic, datalog)) or any(not isinstance(rule, DatalogRule) and _has_not(rule) for rule in rules)
        window_rules = [rule if isinstance(rule, WindowRule) else WindowRule.of(rule) for rule in rules]
        check_rules(window_rules)
        if not has_negation:
            own = [rule for rule in rules if isinstance(rule, WindowRule)]
            return [RuleRoutes(datalog, own, self.static, self.held)]
        if any(rule.of_rule_set for rule in rules):
            raise ValueError("a rule set is closed in every stratum: close rules with NOT and a rule set anew")
        known = set(self.static.rows)
        bound = with_bound_negations(window_rules, self.static)
        self.auxiliary = frozenset(self.static.rows.keys() - known)
        numbers = rule_strata(bound)
        of_text = {id(window): rule for window, rule in zip(window_rules, rules, strict=True)}
        strata = []
        for stratum in range(max(numbers) + 1):
            mine = [rule for rule, number in zip(bound, numbers, strict=True) if number == stratum]
            texts = {id(rule): of_text.get(id(rule)) for rule in mine}
            plain = [text for rule in mine if isinstance(text := texts[id(rule)], DatalogRule) and is_plain(text)]
            own = [rule for rule in mine if not (isinstance(text := texts[id(rule)], DatalogRule) and is_plain(text))]
            strata.append(RuleRoutes(plain, own, self.static, self.held))
        return strata

    # --- what is told to it ---

    def insert(self, fact: Fact, start: Point, horizon: Point) -> None:
        """Inserts a fact at the points from `start` to `horizon`, both included, from the next
        `advance` on.
        """
        self._inserted.append((fact, start, horizon))

    def cut(self, fact: Fact) -> None:
        """Ends, before the point of the next `advance`, what was inserted of a fact from an earlier
        point on.
        """
        self._cuts[fact] = None

    def advance(self, k: Point) -> Changes:
        """Moves to a point, with the inserts and cuts told since the last; returns what began and
        ended since then.

        Raises `ValueError` where k lies before the last point, `LimitExceeded` over the limit.
        """
        if self.point is not None and k < self.point:
            raise ValueError(f"point {k} lies before {self.point}")
        if k != self.point:
            self._begun, self._cut_here = {}, set()
        self._cut_here.update(self._cuts)
        self.point = k
        if self._cuts and not self._keeps_before:
            self._keeps_before = True
            for cell in self.held.cells.values():
                cell[BEFORE] = cell[NOW]
        starting = self._starting(k)
        expired = self._expired(k)
        settled: list[tuple[Point, list[Fact]]] = []
        if self._keeps_before:
            changes = self._advance_strata(k, starting, expired, settled)
        else:
            began: list[Fact] = []
            self._push_inserted(k, starting)
            self._settle(k, self._strata, began, settled)
            changes = Changes(began, self._expire(k, expired))
        for view in self._views:
            view.hear(settled)
        return changes

    def horizon(self, fact: Fact) -> Point | None:
        """The horizon of a fact; None where it does not hold (a static fact that nothing concludes)."""
        cell = self.held.cells.get(fact)
        return None if cell is None else cell[NOW]

    def facts(self) -> Iterator[tuple[Fact, Point]]:
        """The facts that hold, each with its horizon."""
        return ((fact, cell[NOW]) for fact, cell in self.held.cells.items() if fact[0] not in self.auxiliary)

    def next_change(self) -> Point | None:
        """The next point at which something ends or opens by itself; None if nothing will."""
        cells, calendar, horizons = self.held.cells, self._calendar, self._horizons
        while horizons:
            h = horizons[0]
            facts = calendar[h]
            while facts and ((cell := cells.get(facts[-1])) is None or cell[NOW] != h):
                facts.pop()  # renewed since, or gone
            if facts:
                break
            heappop(horizons)
            del calendar[h]
        later = [start for _, start, horizon in self._inserted if self.point is not None and self.point < start <= horizon]
        points = [*([horizons[0] + 1] if horizons else []), *self._openings[:1], *later]
        return min(points, default=None)

    def view(self) -> ClosureView:
        """A view of the facts with a greater horizon, at first of none."""
        view = ClosureView(self)
        self._views.add(view)
        return view

    # --- a point ---

    def _starting(self, k: Point) -> list[tuple[Fact, Point, Point]]:
        """The inserts that have begun by k since the last point, without those that a cut ended."""
        told, self._inserted = self._inserted, []
        starting = []
        for each in told:
            if each[1] <= k:
                starting.append(each)
            elif each[1] <= each[2]:
                opening = self._opening.get(each[1])
                if opening is None:
                    self._opening[each[1]] = [each]
                    heappush(self._openings, each[1])
                else:
                    opening.append(each)
        while self._openings and self._openings[0] <= k:
            starting += self._opening.pop(heappop(self._openings))
        if self._cut_here:
            starting = [each for each in starting if each[1] == k or each[0] not in self._cut_here]
        return starting

    def _push_inserted(self, k: Point, starting: Sequence[tuple[Fact, Point, Point]]) -> None:
        cells, add = self.held.cells, self.held.add
        for fact, start, horizon in starting:
            if horizon < k or horizon < start:
                continue
            h = min(horizon, FOREVER)
            cell = cells.get(fact)
            if cell is None:
                cell = add(fact)
            if h > cell[INSERTED]:
                cell[INSERTED] = h
                if h > cell[NOW]:
                    self._push(h, fact)
            if start == k and h > self._begun.get(fact, NEVER):
                self._begun[fact] = h

    def _push(self, h: Point, fact: Fact) -> None:
        """Notes a fact to be settled with a horizon."""
        waiting = self._waiting.get(h)
        if waiting is None:
            self._waiting[h] = [fact]
            heappush(self._heap, -h)
        else:
            waiting.append(fact)

    def _settle(self, k: Point, routes: Sequence[RuleRoutes], began: list[Fact], settled: list[tuple[Point, list[Fact]]]) -> None:
        """Settles what waits and what follows from it, in descending order of horizon."""
        cells, add, push = self.held.cells, self.held.add, self._push
        one = routes[0] if len(routes) == 1 else None
        before = k - 1
        while self._heap:
            h = -heappop(self._heap)
            waiting = self._waiting[h]
            for number, fact in enumerate(waiting):  # grows while it is read
                cell = cells.get(fact)
                if cell is None:
                    cell = add(fact)
                    began.append(fact)
                    beyond = before
                else:
                    beyond = cell[NOW]
                    if beyond >= h:
                        continue
                    if beyond < before:
                        if beyond == NEVER and cell[BEFORE] == NEVER:
                            began.append(fact)
                        beyond = before
                cell[NOW] = h
                if one is not None:
                    for join in one.joins(fact):
                        join(fact, h, beyond, NOW, k, push)
                else:
                    for each in routes:
                        for join in each.joins(fact):
                            join(fact, h, beyond, NOW, k, push)
                if not number % _CHECK_INTERVAL and len(cells) > self.limit:
                    raise LimitExceeded(self.limit)
            del self._waiting[h]
            settled.append((h, waiting))
            if h < FOREVER:
                bucket = self._calendar.get(h)
                if bucket is None:
                    self._calendar[h] = waiting
                    heappush(self._horizons, h)
                else:
                    bucket += waiting
        if len(cells) > self.limit:
            raise LimitExceeded(self.limit)

    def _expired(self, k: Point) -> list[list[Fact]]:
        """Buckets of the calendar with facts that may end before k."""
        buckets = []
        while self._horizons and self._horizons[0] < k:
            buckets.append(self._calendar.pop(heappop(self._horizons)))
        return buckets

    def _expire(self, k: Point, buckets: Sequence[list[Fact]]) -> list[Fact]:
        """Removes the facts of some buckets that were not renewed."""
        cells, remove = self.held.cells, self.held.remove
        ended = []
        for bucket in buckets:
            for fact in bucket:
                cell = cells.get(fact)
                if cell is not None and cell[NOW] < k:
                    remove(fact)
                    ended.append(fact)
        return ended

    # --- a point where facts may be doubted ---

    def _advance_strata(
        self, k: Point, starting: Sequence[tuple[Fact, Point, Point]], expired: Sequence[list[Fact]], settled: list[tuple[Point, list[Fact]]]
    ) -> Changes:
        cells, strata = self.held.cells, self._strata
        touched: dict[Fact, None] = {}
        doubted: list[Fact] = []
        for bucket in expired:
            touched.update(dict.fromkeys(fact for fact in bucket if fact in cells))

        def doubt(h: Point, fact: Fact) -> None:
            cell = cells.get(fact)
            if cell is not None and NEVER < cell[NOW] <= h:
                cell[NOW] = NEVER
                doubted.append(fact)

        for fact in self._cuts:
            cell = cells.get(fact)
            if cell is not None:
                inserted, cell[INSERTED] = cell[INSERTED], self._begun.get(fact, NEVER)
                doubt(inserted, fact)
        self._cuts = {}
        lower = 0
        for number, routes in enumerate(strata):
            if number:
                lower = self._doubt_from_lower(k, routes, touched, doubted, doubt)
            self._doubt_on(k, strata[: number + 1], doubted, lower, doubt)
            self._support(k, strata[: number + 1], doubted, lower)
            if number:
                self._join_from_lower(k, routes, touched)
            else:
                self._push_inserted(k, starting)
            start = len(settled)
            self._settle(k, strata[: number + 1], [], settled)
            for _, facts in settled[start:]:
                touched.update(dict.fromkeys(facts))
            touched.update(dict.fromkeys(doubted))
        settled.append((NEVER, doubted))
        return self._finish(k, touched)

    def _doubt_from_lower(
        self, k: Point, routes: RuleRoutes, touched: Iterable[Fact], doubted: list[Fact], doubt: object
    ) -> int:
        """Doubts, in a stratum, what lower facts concluded that lost their horizon, and what
        supposed the absence of facts that began; returns the number of facts doubted below.
        """
        cells, lower = self.held.cells, len(doubted)
        for fact in doubted[:lower]:
            cell = cells[fact]
            if cell[NOW] < cell[BEFORE] >= k:
                for join in routes.joins(fact):
                    join(fact, cell[BEFORE], k - 1, BEFORE, NEVER + 1, doubt)  # type: ignore[arg-type]
        for fact in list(touched):
            cell = cells[fact]
            if cell[BEFORE] == NEVER and cell[NOW] >= k:
                for join in routes.negations(fact):
                    join(fact, STATIC, k - 1, BEFORE, NEVER + 1, doubt)  # type: ignore[arg-type]
        return lower

    def _doubt_on(self, k: Point, strata: Sequence[RuleRoutes], doubted: list[Fact], lower: int, doubt: object) -> None:
        """Follows derivations from doubted facts on, over the horizons of the last point."""
        cells, at = self.held.cells, lower
        while at < len(doubted):
            fact = doubted[at]
            h = cells[fact][BEFORE]
            at += 1
            if h >= k:
                for routes in strata:
                    for join in routes.joins(fact):
                        join(fact, h, k - 1, BEFORE, NEVER + 1, doubt)  # type: ignore[arg-type]

    def _support(self, k: Point, strata: Sequence[RuleRoutes], doubted: Sequence[Fact], lower: int) -> None:
        """Joins back from doubted facts: those of lower strata by this one's rules, this one's by all."""
        for number, fact in enumerate(doubted):
            cell = self.held.cells[fact]
            if number >= lower and cell[INSERTED] >= k:
                self._push(cell[INSERTED], fact)
            if number >= lower or cell[NOW] < cell[BEFORE]:
                for routes in strata if number >= lower else strata[-1:]:
                    for join in routes.supports(fact):
                        join(fact, STATIC, k - 1, NOW, k, self._push)

    def _join_from_lower(self, k: Point, routes: RuleRoutes, touched: Iterable[Fact]) -> None:
        """Joins, in a stratum, the lower facts that improved, and from those that ended under NOT."""
        for fact in list(touched):
            cell = self.held.cells[fact]
            now, before = cell[NOW], cell[BEFORE]
            if now >= k:
                if now > before:
                    for join in routes.joins(fact):
                        join(fact, now, max(k - 1, before), NOW, k, self._push)
            elif before != NEVER:
                for join in routes.negations(fact):
                    join(fact, STATIC, k - 1, NOW, k, self._push)

    def _finish(self, k: Point, touched: Iterable[Fact]) -> Changes:
        """Removes what ended, and makes this point the last one of what is left."""
        began, ended = [], []
        for fact in touched:
            cell = self.held.cells[fact]
            if cell[NOW] >= k:
                if cell[BEFORE] == NEVER:
                    began.append(fact)
                cell[BEFORE] = cell[NOW]
            else:
                if cell[BEFORE] != NEVER:
                    ended.append(fact)
                self.held.remove(fact)
        if self.auxiliary:
            began, ended = ([fact for fact in facts if fact[0] not in self.auxiliary] for facts in (began, ended))
        return Changes(began, ended)


def _has_not(rule: WindowRule) -> bool:
    return any(isinstance(item, Not) for item in rule.body)
