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

Step 1 is in `dotr.horizons.doubt`, step 2 and the calendar in `dotr.horizons.settling`, and what
waits for its point in `dotr.horizons.inserts`.

Cost: a derivation is met once for each premise that comes, or is renewed to its benefit; what
neither comes nor goes costs nothing. Horizons of the last point are kept only where a fact has been
cut or a rule has NOT, since only doubt reads them.

Sources: Barbieri and others, Incremental Reasoning on Streams (ESWC 2010); Bazoobandi, Beck,
Urbani, Laser (ISWC 2017); Gupta, Mumick, Subrahmanian (DRed, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import filterfalse
from typing import Final
from weakref import WeakSet, ref

from dotr.horizons.doubt import DoubtingSteps
from dotr.horizons.facts import BEFORE, INSERTED, NOW, VIEWS, HeldFacts, HorizonCell, StaticFacts
from dotr.horizons.growth import grown
from dotr.horizons.index import HeldIndex
from dotr.horizons.inserts import ToldInserts
from dotr.horizons.negation import strata_of
from dotr.horizons.rules import FOREVER, NEVER, FactChanges, Point, SettledFacts, WindowFact, WindowRule
from dotr.horizons.settling import SettledHorizons
from dotr.horizons.views import ClosureView
from dotr.horizons.waiting import Insertion
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
        self._inserts: Final = ToldInserts()
        self._horizons: Final = SettledHorizons(self.held, limit, silent)
        self._doubting: Final = DoubtingSteps(self.held, strata, self._horizons, self._inserts, auxiliary)
        self._settled_per_fact = 1.0
        self._unfound: Callable[[], FactChanges | None] = lambda: None
        self._made_views = 0
        self._views: WeakSet[ClosureView] = WeakSet()

    # --- what is told to it ---

    def insert(self, fact: WindowFact, start: Point, horizon: Point) -> None:
        """Inserts a fact at the points from `start` to `horizon`, both included, from the next
        `advance` on.
        """
        self._inserts.told.append(Insertion((fact,), start, horizon))

    def insert_all(self, facts: Sequence[WindowFact], start: Point, horizon: Point) -> None:
        """Inserts several facts at the same points; the sequence must not change afterwards."""
        if facts:
            self._inserts.told.append(Insertion(facts, start, horizon))

    def cut(self, fact: WindowFact) -> None:
        """Ends, before the point of the next `advance`, what was inserted of a fact from an earlier
        point on; what is inserted from that very point on stays, told before or after the cut.
        """
        self._inserts.cuts[fact] = None

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
        inserts, horizons = self._inserts, self._horizons
        inserts.move(is_further=k != self.point)
        self.point = k
        if not (inserts.is_due(k) or horizons.is_due(k)):
            return FactChanges()
        if inserts.cuts and not self.may_lose:
            self.may_lose = True
            for cell in self.held.cells.values():
                cell[BEFORE] = cell[NOW]
        starting = inserts.starting(k)
        expired = horizons.expired(k)
        settled: SettledFacts = []
        if self.may_lose:
            changes = self._doubting.advance(k, starting, expired, settled)
        elif self._is_cheaper_anew(starting, expired):
            changes = self._close_anew(k, starting, settled)
        else:
            began: list[WindowFact] = []
            inserts.enter(k, starting, horizons.inserted)
            horizons.settle(k, self._strata, began, settled)
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
        end, start = self._horizons.next_end(), self._inserts.next_start(self.point)
        if end is None:
            return start
        return end + 1 if start is None else min(end + 1, start)

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
        return self._inserts.opening(until)

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
        for fact, cell in before.items() if not self._horizons.is_empty() else ():  # else all of it has expired
            h = cell[INSERTED]
            if h >= k:
                facts = inserted.get(h)
                if facts is None:
                    inserted[h] = [fact]
                else:
                    facts.append(fact)
        self.held.clear()
        self._horizons.clear()
        for h, facts in inserted.items():
            self._horizons.inserted.extend(h, facts)
        self._inserts.enter(k, starting, self._horizons.inserted)
        try:
            self._horizons.settle(k, self._strata, [], settled)
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
