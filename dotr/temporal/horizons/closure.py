"""Incremental closure of a sliding window under rules: the horizon closure.

Idea: each fact has a *horizon*, the last point at which it certainly holds. The horizon of one
derivation is the minimum over its premises, the horizon of a fact the maximum over its derivations:
Datalog over the semiring (max, min). Facts expire by a calendar of horizons, without a search.

A small case: links a–b until 5 and b–c until 6 derive reach a–c until 5. At 4, a–c until 8 is
inserted:

    advance(4)    began: link a–c. It derives reach a–c until 8; 8 > 5, so reach a–c is renewed.
    advance(6)    ended: link a–b and reach a–b. Reach a–c is in the calendar's bucket of 5, too,
                  but the horizon in its cell is 8: it stays.
    advance(9)    ended: the rest.

At a point, for each stratum in turn:

1. *Overdelete and rederive* (DRed): a derivation is invalid if a premise was cut, or if a fact
   under its NOT began. The conclusion of an invalid derivation loses its horizon, unless that is
   greater than the derivation's. Backward joins then find its remaining derivations.
2. *Settle*, in descending order of horizon: a minimum is no greater than any of its parts, so the
   first horizon that a fact gets is final (Knuth 1977). A new fact is joined with all facts that
   reach this point. A renewed fact is joined only with facts whose horizon is greater than its old
   one, since no other derivation improves.
3. *Expire*, by the calendar. Facts that ended are joined forward from their NOTs, in the strata
   above.

Invariant: after `advance` the held facts are those inserted, and the conclusions of rules from held
and static facts with at least one held premise. Each has the greatest horizon of its derivations.

Where a step would add and remove more facts than remain, all inserted facts are settled from
scratch instead. A shorter window with the same end is a view (`dotr.temporal.horizons.views`).

Step 1 is in `dotr.temporal.horizons.overdeletion`, step 2 and the calendar in
`dotr.temporal.horizons.settling`, pending inserts are in `dotr.temporal.horizons.pending_inserts`.

Cost: a derivation is visited once for each premise that begins or is renewed beyond the
derivation's horizon; facts that do not change cost nothing. Horizons of the last point are kept
only where a fact has been cut or a rule has NOT, since only step 1 reads them.

Sources: Barbieri and others, Incremental Reasoning on Streams (ESWC 2010); Bazoobandi, Beck,
Urbani, Laser (ISWC 2017); Gupta, Mumick, Subrahmanian (DRed, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import filterfalse
from typing import Final
from weakref import WeakSet, ref

from dotr.evaluation.limits import NO_LIMITS, LimitExceeded
from dotr.model.datalog import DatalogRule
from dotr.temporal.horizons.entailed_facts import grown
from dotr.temporal.horizons.facts import BEFORE, INSERTED, NOW, VIEWS, HeldFacts, HorizonCell, StaticFacts
from dotr.temporal.horizons.index import HeldIndex
from dotr.temporal.horizons.negation import strata_of
from dotr.temporal.horizons.overdeletion import OverdeletionSteps
from dotr.temporal.horizons.pending_inserts import PendingInserts
from dotr.temporal.horizons.queues import Insertion
from dotr.temporal.horizons.rules import FOREVER, NEVER, FactChanges, Point, SettledFacts, WindowFact, WindowRule
from dotr.temporal.horizons.settling import SettledHorizons
from dotr.temporal.horizons.views import ClosureView

_REBUILD_RATIO: Final = 1.2
"""The greatest ratio of facts that a step adds and removes to facts that remain; beyond it the
closure is rebuilt. Adding or removing a fact takes about as long as settling one from scratch."""


class HorizonClosure:
    """The held facts of a sliding window under rules, and their changes from point to point.

    `rules`: stratified rules of `.dlog` files and rule sets, and rules over relations; without
    AGGREGATE, and without NOT where there is a rule set. Raises `ValueError` for other rules,
    `Refused` for recursion through NOT.
    `static`: facts that always hold, closed under the rules; they must not change.
    `limit`: the greatest number of facts. Beyond it `advance` raises `LimitExceeded`, and the
    closure cannot be used afterwards.
    `silent`: relations whose rows expire without an effect on conclusions, such as times of points
    that leave a window: `next_change` ignores these ends.

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
        """Internal relations, left out of all changes."""
        self.may_lose = len(self._strata) > 1 or any(each.has_negations for each in self._strata)
        """True where a fact may end before its horizon: a rule has NOT, or a fact has been cut."""
        self._inserts: Final = PendingInserts()
        self._horizons: Final = SettledHorizons(self.held, limit, silent)
        self._overdeletion: Final = OverdeletionSteps(self.held, strata, self._horizons, self._inserts, auxiliary)
        self._settled_per_fact = 1.0
        self._lazy_changes: Callable[[], FactChanges | None] = lambda: None
        self._view_count = 0
        self._views: WeakSet[ClosureView] = WeakSet()

    # --- inserts, cuts and points ---

    def insert(self, fact: WindowFact, start: Point, horizon: Point) -> None:
        """Inserts a fact at the points from `start` to `horizon`, both included, from the next
        `advance` on.
        """
        self._inserts.received.append(Insertion((fact,), start, horizon))

    def insert_all(self, facts: Sequence[WindowFact], start: Point, horizon: Point) -> None:
        """Inserts several facts at the same points; the sequence must not change afterwards."""
        if facts:
            self._inserts.received.append(Insertion(facts, start, horizon))

    def cut(self, fact: WindowFact) -> None:
        """Ends earlier insertions of a fact before the point of the next `advance`.

        An insertion that starts at that very point stays, whether it was made before or after the
        cut.
        """
        self._inserts.cuts[fact] = None

    def advance(self, k: Point) -> FactChanges:
        """Moves to a point, and applies all inserts and cuts since the last `advance`; returns the
        facts that began and ended.

        Raises `ValueError` where k lies before the last point, `LimitExceeded` over the limit.
        """
        if self.point is not None and k < self.point:
            raise ValueError(f"point {k} lies before {self.point}")
        lazy_changes = self._lazy_changes()
        if lazy_changes is not None:
            lazy_changes.find()
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
            changes = self._overdeletion.advance(k, starting, expired, settled)
        elif self._is_rebuild_cheaper(starting, expired):
            changes = self._rebuild(k, starting, settled)
        else:
            began: list[WindowFact] = []
            inserts.enter(k, starting, horizons.inserted)
            horizons.settle(k, self._strata, began, settled)
            ended: list[WindowFact] = []
            for bucket in expired:
                ended += self.held.remove_before(bucket, k)
            changes = FactChanges(began, ended)
            inserted = sum(len(each.facts) for each in starting)
            if inserted:
                self._settled_per_fact = sum(len(facts) for _, facts in settled) / inserted
        if settled or expired:  # also after expiry alone: a member may end and begin again before the view advances
            for view in self._views:
                view.receive(settled)
        return changes

    def horizon(self, fact: WindowFact) -> Point | None:
        """The horizon of a fact; None where it is not held (a static fact is held only if
        derived)."""
        cell = self.held.cells.get(fact)
        return None if cell is None else cell[NOW]

    def facts(self) -> Iterator[tuple[WindowFact, Point]]:
        """The facts that hold, each with its horizon."""
        return ((fact, cell[NOW]) for fact, cell in self.held.cells.items() if fact[0] not in self.auxiliary)

    def next_change(self) -> Point | None:
        """The next point at which a fact expires or a pending insert starts; None: no such
        point."""
        end, start = self._horizons.next_end(), self._inserts.next_start(self.point)
        if end is None:
            return start
        return end + 1 if start is None else min(end + 1, start)

    def insertions(self, since: Point) -> Iterator[tuple[WindowFact, Point, Point]]:
        """The inserts that end at `since` or later: fact, start (`since` if it has started),
        horizon.

        They are available after `advance` has failed, too.
        """
        for fact, cell in self.held.cells.items():
            if cell[INSERTED] >= since:
                yield fact, since, cell[INSERTED]
        for each in self.scheduled():
            for fact in each.facts:
                yield fact, each.start, each.horizon

    def scheduled(self, until: Point = FOREVER) -> list[Insertion]:
        """The inserts that start later than the last point, up to `until`, in order of their
        start."""
        return self._inserts.scheduled(until)

    def grown(self, facts: Iterable[WindowFact], h: Point, beyond: Point) -> dict[WindowFact, Point]:
        """The facts that some facts entail, given all held facts; parameters as in
        `dotr.temporal.horizons.entailed_facts.grown`.

        Raises `ValueError` where a rule has NOT, `LimitExceeded` over the limit.
        """
        if self.may_lose:
            raise ValueError("a rule has NOT, or a fact has been cut: recompute what the facts entail")
        return grown(self._strata[0], facts, h, beyond, self.limit)

    def derivations(self, fact: WindowFact) -> Iterator[tuple[str, list[WindowFact]]]:
        """The one-step derivations of a fact at the last point: the rule's name and the premises,
        held and static.
        """
        assert self.point is not None
        for routes in self._strata:
            yield from routes.derivations(fact, self.point)

    def is_inserted(self, fact: WindowFact) -> bool:
        """True if an insertion of a fact covers the last point."""
        cell = self.held.cells.get(fact)
        return cell is not None and self.point is not None and cell[INSERTED] >= self.point

    def view(self) -> ClosureView:
        """A new view of the facts with a greater horizon; it is empty until its first `advance`."""
        view = ClosureView(self, self._view_count)
        self._view_count += 1
        self._views.add(view)
        return view

    # --- a point at which most facts change ---

    def _is_rebuild_cheaper(self, starting: Sequence[Insertion], expired: Sequence[list[HorizonCell]]) -> bool:
        """True where a step would add and remove about as many facts as a rebuild would settle.

        The number of conclusions for each inserted fact is estimated by the last step.
        """
        added = sum(len(each.facts) for each in starting) * self._settled_per_fact
        removed = sum(map(len, expired))
        return removed > 0 and added + removed > _REBUILD_RATIO * (len(self.held.cells) + added - removed)

    def _rebuild(self, k: Point, starting: Sequence[Insertion], settled: SettledFacts) -> FactChanges:
        """Settles all insertions that still hold, from scratch; the horizons are those of a
        step."""
        cells = self.held.cells
        before = cells.copy()
        inserted: dict[Point, list[WindowFact]] = {}
        for fact, cell in before.items() if not self._horizons.is_empty() else ():  # empty: all facts have expired
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
        inserted_count = sum(map(len, inserted.values())) + sum(len(each.facts) for each in starting)
        self._settled_per_fact = len(cells) / max(1, inserted_count)
        if self._views:
            for fact, cell in before.items():
                cell[NOW] = NEVER  # calendars of views still hold the old cells
                if cell[VIEWS] and fact in cells:
                    cells[fact][VIEWS], cell[VIEWS] = cell[VIEWS], 0
        began = partial(filterfalse, before.__contains__, cells)
        ended = partial(filterfalse, cells.__contains__, before)
        changes = FactChanges(find=lambda: (list(began()), list(ended()), ()))
        self._lazy_changes = ref(changes)
        return changes
