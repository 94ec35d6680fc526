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
   horizon with which a fact is first taken is final (Knuth 1977). An unknown fact is joined with
   all that reaches this point, a known one only with what reaches beyond its old horizon, since
   nothing else improves.
3. *Expire*, by the calendar. What ended under NOT is joined forward, in the strata above.

Invariant: after `advance` the facts that hold are those inserted, and what a rule concludes from
facts that hold and static ones, with at least one premise that holds and is not static; each has
the greatest horizon that a derivation gives it.

Where a step would touch more facts, coming and going, than are left, all that was inserted is
settled from nothing instead. A shorter window that ends together with this one is a view of it
(`dotr.horizons.views`).

Cost: a derivation is met once for each premise that comes, or is renewed to its benefit; what
neither comes nor goes costs nothing. Horizons of the last point are kept only where a fact has been
cut or a rule has NOT, since only doubt reads them.

Sources: Barbieri and others, Incremental Reasoning on Streams (ESWC 2010); Bazoobandi, Beck,
Urbani, Laser (ISWC 2017); Gupta, Mumick, Subrahmanian (DRed, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import filterfalse
from typing import Final
from weakref import WeakSet, ref

from dotr.horizons.facts import BEFORE, FACT, INSERTED, NOW, VIEWS, HeldFacts, HorizonCell, Renewal, StaticFacts
from dotr.horizons.growth import grown
from dotr.horizons.index import HeldIndex
from dotr.horizons.negation import strata_of
from dotr.horizons.routes import JoinPart, RuleRoutes
from dotr.horizons.rules import FOREVER, NEVER, STATIC, FactChanges, Point, SettledFacts, WindowFact, WindowRule
from dotr.horizons.views import ClosureView
from dotr.horizons.waiting import Doubts, Insertion, WaitingFacts, list_of
from dotr.joins.limits import NO_LIMITS, LimitExceeded
from dotr.model.datalog import DatalogRule

_ANEW: Final = 1.2
"""How many facts a step may touch, coming and going, for each that is left; beyond it all are
closed anew. To come or go takes about as long as to be settled from nothing."""


class HorizonClosure:
    """The facts that hold, and what changes of them from point to point.

    `rules`: rules of `.dlog` files and rule sets, or over relations too; stratified, without
    AGGREGATE, and without NOT where there is a rule set. Raises `ValueError` for others, `Refused`
    for recursion through NOT.
    `static`: facts that always hold, closed under the rules; they must not change.
    `limit`: the greatest number of facts, beyond which `advance` raises `LimitExceeded`; the
    closure is of no use afterwards.
    `silent`: relations whose inserts end without a change by themselves, as points that go out of
    reach: `next_change` does not tell of these ends.

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
    FactChanges(began=[('link', ('a', 'c'))], ended=[])
    >>> sorted(closure.advance(6).ended)
    [('link', ('a', 'b')), ('reach', ('a', 'b'))]
    >>> len(closure.advance(9).ended), closure.next_change()
    (4, None)
    """

    def __init__(
        self,
        rules: Iterable[DatalogRule | WindowRule],
        static: StaticFacts | None = None,
        *,
        limit: int = NO_LIMITS.triples,
        silent: Collection[str] = (),
    ) -> None:
        self.limit = limit
        self._silent: Final = frozenset(silent)
        self.point: Point | None = None
        """The last point advanced to; None before the first."""
        self.held: Final = HeldFacts()
        self.static: Final = StaticFacts() if static is None else StaticFacts(static.triples, static.rows)
        self.index: Final = HeldIndex(self.held)
        """The triples that hold, for queries."""
        strata, auxiliary = strata_of(list(rules), self.static, self.held)
        self._strata: Final = strata
        self.auxiliary: Final = auxiliary
        """Relations of the closure's own, which are shown to nobody."""
        self.may_lose = len(self._strata) > 1 or any(each.has_negations for each in self._strata)
        """True where facts may lose their horizon: a rule has NOT, or a fact has been cut."""
        self._told: list[Insertion] = []
        self._opening: dict[Point, list[Insertion]] = {}
        self._openings: list[Point] = []
        self._cuts: dict[WindowFact, None] = {}
        self._begun: list[Insertion] = []  # what was inserted from this very point on
        self._cut_here: set[WindowFact] = set()  # what was cut at this very point
        self._calendar: dict[Point, list[HorizonCell]] = {}
        self._horizons: list[Point] = []
        self._settled_per_fact = 1.0
        self._has_endless = False  # a fact has had the horizon FOREVER
        self._unfound: Callable[[], FactChanges | None] = lambda: None
        self._heap: list[Point] = []
        self._inserted: Final = WaitingFacts(self._heap)
        self._concluded: Final = WaitingFacts(self._heap)
        self._concluded.paths = WaitingFacts(self._heap)
        self._made_views = 0
        self._views: WeakSet[ClosureView] = WeakSet()

    # --- what is told to it ---

    def insert(self, fact: WindowFact, start: Point, horizon: Point) -> None:
        """Inserts a fact at the points from `start` to `horizon`, both included, from the next
        `advance` on.
        """
        self._told.append(Insertion((fact,), start, horizon))

    def insert_all(self, facts: Sequence[WindowFact], start: Point, horizon: Point) -> None:
        """Inserts several facts at the same points; the sequence must not change afterwards."""
        if facts:
            self._told.append(Insertion(facts, start, horizon))

    def cut(self, fact: WindowFact) -> None:
        """Ends, before the point of the next `advance`, what was inserted of a fact from an earlier
        point on; what is inserted from that very point on stays, told before or after the cut.
        """
        self._cuts[fact] = None

    def advance(self, k: Point) -> FactChanges:
        """Moves to a point, with the inserts and cuts told since the last; returns what began and
        ended since then.

        Raises `ValueError` where k lies before the last point, `LimitExceeded` over the limit.
        """
        if self.point is not None and k < self.point:
            raise ValueError(f"point {k} lies before {self.point}")
        unfound = self._unfound()
        if unfound is not None:
            unfound.find()
        if k != self.point:
            self._begun, self._cut_here = [], set()
        self._cut_here.update(self._cuts)
        self.point = k
        if not (self._told or self._cuts or _is_before(self._openings, k + 1) or _is_before(self._horizons, k)):
            return FactChanges()
        if self._cuts and not self.may_lose:
            self.may_lose = True
            for cell in self.held.cells.values():
                cell[BEFORE] = cell[NOW]
        starting = self._starting(k)
        expired = self._expired(k)
        settled: SettledFacts = []
        if self.may_lose:
            changes = self._advance_strata(k, starting, expired, settled)
        elif self._is_cheaper_anew(starting, expired):
            changes = self._close_anew(k, starting, settled)
        else:
            began: list[WindowFact] = []
            self._push_inserted(k, starting)
            self._settle(k, self._strata, began, settled)
            ended: list[WindowFact] = []
            for bucket in expired:
                ended += self.held.remove_before(bucket, k)
            changes = FactChanges(began, ended)
            given = sum(len(each.facts) for each in starting)
            if given:
                self._settled_per_fact = sum(len(facts) for _, facts in settled) / given
        if settled or expired:  # a view asks whether what it has may have ended before it began again
            for view in self._views:
                view.hear(settled)
        return changes

    def horizon(self, fact: WindowFact) -> Point | None:
        """The horizon of a fact; None where it does not hold (a static fact that nothing concludes)."""
        cell = self.held.cells.get(fact)
        return None if cell is None else cell[NOW]

    def facts(self) -> Iterator[tuple[WindowFact, Point]]:
        """The facts that hold, each with its horizon."""
        return ((fact, cell[NOW]) for fact, cell in self.held.cells.items() if fact[0] not in self.auxiliary)

    def next_change(self) -> Point | None:
        """The next point at which something ends or opens by itself; None if nothing will."""
        calendar, horizons = self._calendar, self._horizons
        while horizons:
            h = horizons[0]
            ending = calendar[h]
            while ending and ending[-1][NOW] != h:
                ending.pop()  # renewed since, or gone
            if ending:
                break
            heappop(horizons)
            del calendar[h]
        later = [start for _, start, horizon in self._told if self.point is not None and self.point < start <= horizon]
        first = next(self._ends(), None) if self._silent else horizons[0] if horizons else None
        points = [*([] if first is None else [first + 1]), *self._openings[:1], *later]
        return min(points, default=None)

    def _ends(self) -> Iterator[Point]:
        """The horizons with which facts end that are not silent, in ascending order."""
        silent = self._silent
        for h in sorted(self._horizons):
            if any(cell[NOW] == h and cell[FACT][0] not in silent for cell in self._calendar[h]):
                yield h

    def insertions(self, since: Point) -> Iterator[tuple[WindowFact, Point, Point]]:
        """The inserts that have not ended before a point: a fact, the point from which on it holds
        by that (`since` where that is past), and its horizon. After `advance` has failed, too.
        """
        for fact, cell in self.held.cells.items():
            if cell[INSERTED] >= since:
                yield fact, since, cell[INSERTED]
        for each in self.opening():
            for fact in each.facts:
                yield fact, each.start, each.horizon

    def opening(self, until: Point = FOREVER) -> list[Insertion]:
        """The inserts that begin later, up to a point."""
        if not self._openings or self._openings[0] > until:
            return []
        return [each for start in sorted(self._opening) if start <= until for each in self._opening[start]]

    def grown(self, facts: Iterable[WindowFact], h: Point, beyond: Point) -> dict[WindowFact, Point]:
        """V of some facts, given all that holds, as `dotr.horizons.growth` has it.

        Raises `ValueError` where a rule has NOT, `LimitExceeded` over the limit.
        """
        if self.may_lose:
            raise ValueError("facts may be doubted: close anew what some of them say")
        return grown(self._strata[0], facts, h, beyond, self.limit)

    def derivations(self, fact: WindowFact) -> Iterator[tuple[str, list[WindowFact]]]:
        """The derivations of a fact at the last point: the rule's name and the premises, held and
        static ones.
        """
        assert self.point is not None
        for routes in self._strata:
            yield from routes.derivations(fact, self.point)

    def is_inserted(self, fact: WindowFact) -> bool:
        """True if a fact holds at the last point since it was inserted."""
        cell = self.held.cells.get(fact)
        return cell is not None and self.point is not None and cell[INSERTED] >= self.point

    def view(self) -> ClosureView:
        """A view of the facts with a greater horizon, at first of none."""
        view = ClosureView(self, self._made_views)
        self._made_views += 1
        self._views.add(view)
        return view

    # --- a point ---

    def _starting(self, k: Point) -> list[Insertion]:
        """The inserts that have begun by k since the last point, without those that a cut ended."""
        told, self._told = self._told, []
        starting = []
        for each in told:
            if each.start <= k:
                starting.append(each)
            elif each.start <= each.horizon:
                opening = self._opening.get(each.start)
                if opening is None:
                    self._opening[each.start] = [each]
                    heappush(self._openings, each.start)
                else:
                    opening.append(each)
        while self._openings and self._openings[0] <= k:
            starting += self._opening.pop(heappop(self._openings))
        if self._cut_here:
            starting = [each if each.start == k else each.without(self._cut_here) for each in starting]
        return starting

    def _push_inserted(self, k: Point, starting: Sequence[Insertion]) -> None:
        for facts, start, horizon in starting:
            if horizon >= k and horizon >= start:
                self._inserted.extend(min(horizon, FOREVER), facts)
        self._begun += [each for each in starting if each.start == k]

    def _settle(self, k: Point, routes: Sequence[RuleRoutes], began: list[WindowFact], settled: SettledFacts) -> None:
        """Settles what waits and what follows from it, in descending order of horizon.

        Facts with one horizon get it together, and those to which it is new are joined.
        """
        heap, inserted, concluded, paths = self._heap, self._inserted, self._concluded, self._concluded.paths
        cells, calendar, settle, limit, beyond = self.held.cells, self._calendar, self.held.settle, self.limit, k - 1
        while heap:
            h = -heappop(heap)
            here: list[HorizonCell] = []
            while True:  # what has this horizon may conclude more of it
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
                    self._has_endless = True
                elif h in calendar:
                    calendar[h] += here
                else:
                    calendar[h] = here
                    heappush(self._horizons, h)

    def _expired(self, k: Point) -> list[list[HorizonCell]]:
        """Buckets of the calendar with facts that may end before k."""
        buckets = []
        while self._horizons and self._horizons[0] < k:
            buckets.append(self._calendar.pop(heappop(self._horizons)))
        return buckets

    # --- a point at which nearly all changes ---

    def _is_cheaper_anew(self, starting: Sequence[Insertion], expired: Sequence[list[HorizonCell]]) -> bool:
        """True where a step would touch about as many facts as a closing anew would settle.

        What a fact brings with it is estimated by the last step.
        """
        coming = sum(len(each.facts) for each in starting) * self._settled_per_fact
        going = sum(map(len, expired))
        return going > 0 and coming + going > _ANEW * (len(self.held.cells) + coming - going)

    def _close_anew(self, k: Point, starting: Sequence[Insertion], settled: SettledFacts) -> FactChanges:
        """Settles all that was inserted and still holds, from nothing; all horizons come out equal."""
        cells = self.held.cells
        before = cells.copy()
        inserted: dict[Point, list[WindowFact]] = {}
        stays = self._horizons or self._has_endless  # else all of it has expired
        for fact, cell in before.items() if stays else ():
            h = cell[INSERTED]
            if h >= k:
                facts = inserted.get(h)
                if facts is None:
                    inserted[h] = [fact]
                else:
                    facts.append(fact)
        self.held.clear()
        self._calendar.clear()
        self._horizons.clear()
        for h, facts in inserted.items():
            self._inserted.extend(h, facts)
        self._push_inserted(k, starting)
        try:
            self._settle(k, self._strata, [], settled)
        except LimitExceeded:
            cells.clear()
            cells.update(before)  # for `insertions`
            raise
        given = sum(map(len, inserted.values())) + sum(len(each.facts) for each in starting)
        self._settled_per_fact = len(cells) / max(1, given)
        if self._views:
            for fact, cell in before.items():
                cell[NOW] = NEVER  # for calendars of views
                if cell[VIEWS] and fact in cells:
                    cells[fact][VIEWS], cell[VIEWS] = cell[VIEWS], 0
        began = partial(filterfalse, before.__contains__, cells)
        ended = partial(filterfalse, cells.__contains__, before)
        changes = FactChanges(find=lambda: (list(began()), list(ended()), ()))
        self._unfound = ref(changes)
        return changes

    # --- a point where facts may be doubted ---

    def _advance_strata(
        self, k: Point, starting: Sequence[Insertion], expired: Sequence[list[HorizonCell]], settled: SettledFacts
    ) -> FactChanges:
        cells, strata = self.held.cells, self._strata
        touched: dict[WindowFact, None] = {}
        doubted: list[WindowFact] = []
        for bucket in expired:
            touched.update(dict.fromkeys(cell[FACT] for cell in bucket if cell[NOW] != NEVER))

        doubts = Doubts(cells, doubted)
        begun: dict[WindowFact, Point] = {}
        if self._cuts:
            for facts, _, horizon in self._begun:
                begun.update((fact, horizon) for fact in facts if horizon > begun.get(fact, NEVER))
        for fact in self._cuts:
            cell = cells.get(fact)
            if cell is not None:
                inserted, cell[INSERTED] = cell[INSERTED], begun.get(fact, NEVER)
                doubts[inserted](fact)
        self._cuts = {}
        lower = 0
        for number, routes in enumerate(strata):
            if number:
                lower = self._doubt_from_lower(k, routes, touched, doubts)
            self._doubt_on(k, strata[: number + 1], doubts, lower)
            self._support(k, strata[: number + 1], doubted, lower)
            if number:
                self._join_from_lower(k, routes, touched)
            else:
                self._push_inserted(k, starting)
            start = len(settled)
            self._settle(k, strata[: number + 1], [], settled)
            for _, here in settled[start:]:
                touched.update(dict.fromkeys(cell[FACT] for cell in here))
            touched.update(dict.fromkeys(doubted))
        settled.append((NEVER, [cells[fact] for fact in doubted]))
        return self._finish(k, touched)

    def _doubt_from_lower(self, k: Point, routes: RuleRoutes, touched: Iterable[WindowFact], doubts: Doubts) -> int:
        """Doubts, in a stratum, what lower facts concluded that lost their horizon, and what
        supposed the absence of facts that began; returns the number of facts doubted below.
        """
        cells, lower = self.held.cells, len(doubts.facts)
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
        cells, at = self.held.cells, lower
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
            cell = self.held.cells[fact]
            if number >= lower and cell[INSERTED] >= k:
                self._inserted.extend(cell[INSERTED], (fact,))
            if number >= lower or cell[NOW] < cell[BEFORE]:
                for routes in strata if number >= lower else strata[-1:]:
                    for join in routes.supports(fact):
                        join((fact,), STATIC, k - 1, NOW, k, self._concluded)

    def _join_from_lower(self, k: Point, routes: RuleRoutes, touched: Iterable[WindowFact]) -> None:
        """Joins, in a stratum, the lower facts that improved, and from those that ended under NOT."""
        for fact in list(touched):
            cell = self.held.cells[fact]
            now, before = cell[NOW], cell[BEFORE]
            if now >= k:
                if now > before:
                    routes.run(fact[-2], (fact,), now, max(k - 1, before), NOW, k, self._concluded)
            elif before != NEVER:
                for join in routes.negations(fact):
                    join((fact,), STATIC, k - 1, NOW, k, self._concluded)

    def _finish(self, k: Point, touched: Iterable[WindowFact]) -> FactChanges:
        """Removes what ended, and makes this point the last one of what is left."""
        began, ended, over = [], [], []
        for fact in touched:
            cell = self.held.cells[fact]
            if cell[NOW] >= k:
                if cell[BEFORE] == NEVER:
                    began.append(fact)
                cell[BEFORE] = cell[NOW]
            else:
                if cell[BEFORE] != NEVER:
                    ended.append(fact)
                cell[NOW] = k - 1
                over.append(cell)
        self.held.remove_before(over, k)
        if self.auxiliary:
            began, ended = ([fact for fact in facts if fact[0] not in self.auxiliary] for facts in (began, ended))
        return FactChanges(began, ended)


def _grouped(renewed: Sequence[Renewal], h: Point, step: Point) -> dict[tuple[str, Point, JoinPart], list[WindowFact]]:
    """Renewed facts by predicate or relation, the horizon beyond which they are joined, and the joins.

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


def _is_before(points: list[Point], k: Point) -> bool:
    """True where the first of some points lies before k."""
    return bool(points) and points[0] < k
