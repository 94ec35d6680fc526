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
scratch instead. A shorter window with the same end is a view (`dotr.temporal.horizons.closure`).

Step 1 is in `dotr.temporal.horizons.overdeletion`, step 2 and the calendar in
`dotr.temporal.horizons.overdeletion`, pending inserts are in `dotr.temporal.horizons.queues`.

Cost: a derivation is visited once for each premise that begins or is renewed beyond the
derivation's horizon; facts that do not change cost nothing. Horizons of the last point are kept
only where a fact has been cut or a rule has NOT, since only step 1 reads them.

Sources: Barbieri and others, Incremental Reasoning on Streams (ESWC 2010); Bazoobandi, Beck,
Urbani, Laser (ISWC 2017); Gupta, Mumick, Subrahmanian (DRed, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import filterfalse
from typing import Any, Final, Protocol, cast
from weakref import WeakSet, ref

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.limits import NO_LIMITS, LimitExceeded
from dotr.instant.datalog.strata.stratification import strata
from dotr.model.algebra import Const, TermPattern, TriplePattern, Var
from dotr.model.datalog import Bind, DatalogRule, Not, RelationAtom
from dotr.model.terms import Variable
from dotr.model.traverse import free_variables
from dotr.temporal.horizons.facts import BEFORE, FACT, INSERTED, NOW, VIEWS, HeldFacts, HorizonCell, StaticFacts
from dotr.temporal.horizons.index import HeldIndex
from dotr.temporal.horizons.joins import exists_static
from dotr.temporal.horizons.overdeletion import OverdeletionSteps, SettledHorizons
from dotr.temporal.horizons.queues import HorizonQueue, Insertion, PendingInserts, list_of
from dotr.temporal.horizons.routes import JoinPart, RuleRoutes
from dotr.temporal.horizons.rules import (
    FOREVER,
    NEVER,
    Atom,
    FactChanges,
    FactRow,
    Point,
    SettledFacts,
    WindowFact,
    WindowRule,
    check_rules,
)

# Rewriting of NOT: each NOT becomes NOT of one atom whose variables are bound.
#
#     Calm(?s) :- Sensor(?s), NOT (High(?s, ?v), Sure(?v))
#
# becomes
#
#     Calm(?s) :- Sensor(?s), NOT not0(?s)
#     not0(?s) :- High(?s, ?v), Sure(?v)
#
# An auxiliary fact that follows from static facts alone is not held: it is a static row, and `in` of
# the static rows evaluates the body over static facts.


class StaticMatches(Collection[FactRow]):
    """The rows of an auxiliary relation that follow from static facts alone; for `in` only."""

    def __init__(self, test: Callable[..., bool]) -> None:
        self._test = test

    def __contains__(self, row: object) -> bool:
        return bool(self._test(*cast("tuple[Any, ...]", row)))

    def __iter__(self) -> Any:
        raise TypeError("rows of NOT are asked for one by one")

    def __len__(self) -> int:
        raise TypeError("rows of NOT are asked for one by one")


def with_bound_negations(rules: Sequence[WindowRule], static: StaticFacts) -> list[WindowRule]:
    """The rules, each NOT replaced by NOT of a bound atom, with the rules of auxiliary relations.

    The static rows of auxiliary relations are added to `static`.
    """
    result: list[WindowRule] = []
    for rule in rules:
        if not any(isinstance(item, Not) for item in rule.body):
            result.append(rule)
            continue
        bound = _bound_by(rule.body)
        body: list[JoinItem] = []
        for item in rule.body:
            if isinstance(item, Not) and not (len(item.body) == 1 and bound.issuperset(free_variables(item))):
                keys = tuple(name for name in free_variables(item) if name in bound)
                atom = RelationAtom(f"dotr:not {len(result)} {rule.name}", tuple(map(Var, keys)))
                auxiliary = WindowRule(f"NOT of {rule.name}", (atom,), item.body, rule.of_rule_set)
                result.append(auxiliary)
                static.rows[atom.relation] = StaticMatches(exists_static(auxiliary, static, keys))
                item = Not(cast("tuple[TriplePattern, ...]", (atom,)))
            body.append(item)
        result.append(replace(rule, body=tuple(body)))
    return result


def _bound_by(body: Sequence[JoinItem]) -> set[Variable]:
    bound = {name for item in body if isinstance(item, TriplePattern | RelationAtom | TermPattern) for name in free_variables(item)}
    return bound | {item.variable for item in body if isinstance(item, Bind)}


def rule_strata(rules: Sequence[WindowRule]) -> list[int]:
    """The stratum of each rule, in the order of `rules`: as in
    `dotr.instant.datalog.strata.stratification`, relations being predicates.

    Raises `Refused` for recursion through NOT.
    """

    def pattern(atom: Atom) -> TriplePattern:
        return atom if isinstance(atom, TriplePattern) else TriplePattern(Var("s"), Const(f"<{atom.relation}>"), Var("o"))

    def as_datalog(rule: WindowRule) -> DatalogRule:
        negated = [Not(tuple(map(pattern, item.body))) for item in rule.body if isinstance(item, Not)]
        return DatalogRule(rule.name, tuple(map(pattern, rule.head)), (*map(pattern, rule.atoms), *negated))

    return strata(list(map(as_datalog, rules)))


def strata_of(rules: Sequence[DatalogRule | WindowRule], static: StaticFacts, held: HeldFacts) -> tuple[list[RuleRoutes], frozenset[str]]:
    """The rules of each stratum, the lowest first, and the names of auxiliary relations.

    Raises `ValueError` for a rule that the closure does not support, `Refused` for recursion
    through NOT.
    """
    rules = [rule for rule in rules if not isinstance(rule, DatalogRule) or WindowRule.of(rule).atoms]
    window_rules = [rule if isinstance(rule, WindowRule) else WindowRule.of(rule) for rule in rules]
    check_rules(window_rules)
    if not any(map(_has_not, window_rules)):
        datalog = [rule for rule in rules if isinstance(rule, DatalogRule)]
        return [RuleRoutes(datalog, [rule for rule in rules if isinstance(rule, WindowRule)], static, held)], frozenset()
    if any(rule.of_rule_set for rule in rules):
        raise ValueError("a rule set is closed in every stratum: close rules with NOT and a rule set anew")
    declared = set(static.rows)
    bound = with_bound_negations(window_rules, static)
    # Rules of `.dlog` files without NOT stay `DatalogRule`s, so that routing specialises them by the static schema.
    texts = {id(window): rule for window, rule in zip(window_rules, rules, strict=True) if isinstance(rule, DatalogRule)}
    strata: dict[int, tuple[list[DatalogRule], list[WindowRule]]] = {}
    for rule, number in zip(bound, rule_strata(bound), strict=True):
        of_text, others = strata.setdefault(number, ([], []))
        text = texts.get(id(rule))
        if text is None or _has_not(rule):
            others.append(rule)
        else:
            of_text.append(text)
    return [RuleRoutes(*strata.get(number, ([], [])), static, held) for number in range(max(strata) + 1)], frozenset(
        static.rows.keys() - declared
    )


def _has_not(rule: WindowRule) -> bool:
    return any(isinstance(item, Not) for item in rule.body)


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
        `dotr.temporal.horizons.closure.grown`.

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


# V(X | Y), the facts that X entails given Y (continuous.md, section 5), over a closure that holds
# X and Y.
#
# Idea: semi-naive evaluation from X: each fact of V is joined with all facts of the closure, so every
# conclusion has a premise in V. Horizons as in the closure: the minimum over the premises of a
# derivation, the maximum over derivations.
#
#     closure: (a, b) until 3, (b, c) until 9, "in" transitive      X: (b, c), for ever
#
#         V: (b, c) for ever, (a, c) until 3
#
# Invariant: the closure is not changed, and the result does not change with it later.
# Cost: the derivations with a premise in V.


def grown(rules: RuleRoutes, facts: Iterable[WindowFact], h: Point, beyond: Point, limit: int) -> dict[WindowFact, Point]:
    """The facts that some facts entail (V), each with its horizon.

    Args:
        rules: those of the closure, without NOT.
        facts: held by the closure; `h` is their horizon here.
        beyond: premises with this horizon or a lesser one are ignored.
        limit: the greatest number of facts of V.

    Raises:
        LimitExceeded: V has more facts.
    """
    heap: list[Point] = []
    queue = HorizonQueue(heap)
    queue.paths = paths = HorizonQueue(heap)
    entailed: dict[WindowFact, Point] = {}
    steps: dict[WindowFact, Point] = {}  # horizons of facts as steps of transitive properties
    queue.extend(h, facts)
    while heap:
        horizon = -heappop(heap)
        while True:
            if horizon in queue:
                some, step = list_of(queue.pop(horizon)), horizon
            elif horizon in paths:
                some, step = list_of(paths.pop(horizon)), NEVER
            else:
                break
            new: dict[str, list[WindowFact]] = {}
            for fact in some:
                if fact not in entailed:
                    entailed[fact] = horizon
                    new.setdefault(fact[-2], []).append(fact)
                elif step > steps[fact]:  # entailed before as a path, with the same horizon or a greater one
                    rules.run(fact[-2], (fact,), horizon, max(steps[fact], beyond), NOW, beyond + 1, queue, JoinPart.FIRSTS)
                else:
                    continue
                steps[fact] = step
            part = JoinPart.OTHERS if step == NEVER else JoinPart.ALL
            for name, group in new.items():
                rules.run(name, group, horizon, beyond, NOW, beyond + 1, queue, part)
            if len(entailed) > limit:
                raise LimitExceeded(limit)
    return entailed


# Views of a closure: the content of a shorter window, as the facts with a minimum horizon.
#
# Idea: a window with the same end as the closure's and a later begin l contains the conclusions from
# items of time l or later, which are the facts with a horizon of at least l. The view has a calendar
# of its own, made of the closure's lists of settled cells, and a bit in the cell of each member.
#
# Cost: constant for each fact that begins, is renewed or ends in the view; no look-ups.

_COMPACT_ABOVE: Final = 4096
"""The number of received cells above which duplicates among them are removed."""


class ViewedClosure(Protocol):
    """Part of a closure that a view reads."""

    point: Point | None
    may_lose: bool

    @property
    def held(self) -> HeldFacts:
        """The facts that hold, each with its horizon."""

    @property
    def auxiliary(self) -> Collection[str]:
        """Internal relations, left out of all changes."""


class ClosureView:
    """The facts of a closure with a horizon of at least l.

    `index`: the triples among them, for queries. `number`: the ordinal of this view among the
    closure's, which is its bit in cells.
    """

    def __init__(self, closure: ViewedClosure, number: int) -> None:
        self.point: Point | None = None
        self.index = HeldIndex(closure.held)
        self._closure = closure
        self._bit = 1 << number
        self._calendar: dict[Point, list[list[HorizonCell]]] = {}
        self._horizons: list[Point] = []
        self._deliveries = 1
        self._cells_received = 0
        by_horizon: dict[Point, list[HorizonCell]] = {}
        for cell in closure.held.cells.values():
            by_horizon.setdefault(cell[NOW], []).append(cell)
        self._received: SettledFacts = list(by_horizon.items())

    def members(self) -> set[WindowFact]:
        """The facts of the view as of its last `advance`."""
        return {fact for fact, cell in self._closure.held.cells.items() if cell[VIEWS] & self._bit}

    def receive(self, settled: SettledFacts) -> None:
        """Stores changes of the closure until `advance`: settled cells by horizon, and the
        overdeleted ones under `NEVER`.
        """
        self._received += settled
        self._deliveries += 1
        self._cells_received += sum([len(cells) for _, cells in settled])
        if self._cells_received > _COMPACT_ABOVE and self._cells_received > 2 * len(self._closure.held.cells):
            self._compact()

    def _compact(self) -> None:
        """Removes duplicate entries of received cells, and entries of facts that both began and
        ended since the last `advance`.
        """
        bit = self._bit
        compacted: dict[Point, list[HorizonCell]] = {}
        for cell in {id(cell): cell for _, cells in self._received for cell in cells}.values():
            if cell[NOW] != NEVER or cell[VIEWS] & bit:
                compacted.setdefault(cell[NOW], []).append(cell)
        self._received = list(compacted.items())
        self._cells_received = sum(map(len, compacted.values()))

    def advance(self, least: Point) -> FactChanges:
        """Moves the view; returns what began, was renewed and ended in it since its last `advance`.

        Raises `ValueError` where `least` lies before the closure's point or the view's.
        """
        for point in (self._closure.point, self.point):
            if point is not None and least < point:
                raise ValueError(f"a view of the facts to {least} and longer: it is at {point} already")
        self.point = self.index.least = least
        bit, auxiliary = self._bit, self._closure.auxiliary
        began: list[WindowFact] = []
        renewed: list[WindowFact] = []
        ended: list[WindowFact] = []
        leaving: list[list[HorizonCell]] = []  # buckets with members that may leave the view
        received, self._received = self._received, []
        for h, cells in received:
            if h < least:  # overdeleted, or settled with a horizon that has passed
                leaving.append(cells)
                continue
            for cell in cells:
                if cell[NOW] >= least:
                    if cell[VIEWS] & bit:
                        renewed.append(cell[FACT])
                    else:
                        cell[VIEWS] |= bit
                        began.append(cell[FACT])
            if h < FOREVER:
                bucket = self._calendar.get(h)
                if bucket is None:
                    self._calendar[h] = [cells]
                    heappush(self._horizons, h)
                else:
                    bucket.append(cells)
        while self._horizons and self._horizons[0] < least:
            leaving += self._calendar.pop(heappop(self._horizons))
        for cells in leaving:
            for cell in cells:
                if cell[VIEWS] & bit and cell[NOW] < least:
                    cell[VIEWS] ^= bit
                    ended.append(cell[FACT])
        if auxiliary:
            began, renewed, ended = ([fact for fact in facts if fact[0] not in auxiliary] for facts in (began, renewed, ended))
        if self._deliveries > 1 or self._closure.may_lose:  # a cell may be there twice; a fact that ended and began again has two cells
            new = set(began)
            restarted = new.intersection(ended)
            if restarted:
                began, ended = ([fact for fact in facts if fact not in restarted] for facts in (began, ended))
            if renewed or restarted:
                renewed = [*(fact for fact in dict.fromkeys(renewed) if fact not in new), *restarted]
        self._deliveries = self._cells_received = 0
        return FactChanges(began, ended, renewed=renewed)
