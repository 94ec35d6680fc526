"""Semi-naive closure of an instant over a fixed background (Abiteboul, Hull, Vianu 1995, ch. 13),
one triple at a time.

Idea: a queue starts with the instant's triples. A triple that is popped and is neither in the
background nor in the delta is added to the delta, and every delta rule of its route is applied to
it; conclusions are appended to the queue. A route is the triple's predicate, then its object. A
rule that applies to nearly every triple unless the schema restricts it
(`dotr.instant.datalog.closure.delta_rules`) is routed by the predicates and classes for which
the background has that schema.

Invariant: when a triple has been popped, all matches of all rules within background and delta have
been found. A match that needs schema triples of the instant is found by the general version of its
rule. General versions are dormant until such a triple is popped, and are then applied to the rest
of the instant.

Limits: a closure may have `limit` triples and `DERIVATIONS` times as many derivations; both are
checked every `_CHECK_INTERVAL` triples. Transitive rules have special delta rules
(`dotr.instant.datalog.closure.instant`), which keep a chain far below the limit.

Cost: proportional to the popped triples and the matches; independent of the size of the background
and of the number of rules that do not apply. A delta rule is compiled at its first use, about 30
µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from weakref import ref

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.limits import LIMITS, LimitExceeded
from dotr.evaluation.triples.generalised import OF_LITERALS, READ
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex, is_hidden
from dotr.instant.datalog.closure.closed_instant import Closure, InstantCloser, contradictions
from dotr.instant.datalog.closure.delta_rules import (
    DeltaPosition,
    DeltaRule,
    Dispatch,
    SchemaSplit,
    bind_schema,
    delta_positions,
    general_delta_rule,
    keyed_delta_rule,
    routed_delta_rule,
    schema_rows,
    split_schema,
)
from dotr.instant.datalog.closure.derivations import ConstraintViolation, Push
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, DatalogRule
from dotr.model.terms import RDF_TYPE, Term, Triple

if TYPE_CHECKING:
    from dotr.instant.datalog.closure.delta_rules import DeltaRule

# Delta rules for transitivity: `[?x, P, ?z] :- [?x, P, ?y], [?y, P, ?z]` in time proportional to
# pairs times outgoing steps.
#
# Idea: a triple that the rule itself concluded is a path of other triples, the *steps*. A path is
# never used as the first of the two premises: a step is extended by a step or a path, so that every
# path is found once for its first step. A chain of n triples has n²/2 pairs; the plain rule derives
# n³/6.
#
# A small case: the steps a–b, b–c, c–d. The path a–d is found from the step a–b and the path b–d, and
# not again from the path a–c and the step c–d.
#
# Invariant: a triple is recorded as concluded before it is added to the delta, from triples that were
# there, so each is a path of steps. Background triples and unrecorded triples are steps.
#
# Cost: for each triple, the steps into its subject; for each step, the triples that leave its object.
# Both are counted against the limit.


class TransitivePairs:
    """Pairs of one predicate while a closure fills an index.

    `concluded`: pairs of the rule itself; `into`: object -> subjects of the steps; `examined`:
      pairs so far.
    """

    __slots__ = ("concluded", "examined", "into")

    def __init__(self, into: dict[Term, list[Term]]) -> None:
        self.concluded: set[tuple[Term, Term]] = set()
        self.into = into
        self.examined = 0


def transitive_predicate(position: DeltaPosition, key: Term | None, background: TripleIndex) -> Term | None:
    """The predicate that a rule makes transitive, if that is all that it does; otherwise None.

    `key`: the predicate of a free position with schema in the background.
    >>> from dotr.model.datalog import DatalogRule
    >>> patterns = (TriplePattern(Var(s), Const("<p>"), Var(o)) for s, o in ("xy", "yz", "xz"))
    >>> first, second, head = patterns
    >>> rule, other = (DatalogRule("r", (each,), (first, second)) for each in (head, first))
    >>> positions = [DeltaPosition(each, first, 0, None) for each in (rule, other)]
    >>> [transitive_predicate(position, None, TripleIndex()) for position in positions]
    ['<p>', None]
    """
    rule, pattern = position.rule, position.pattern
    if len(rule.head) != 1 or len(rule.body) < 2:
        return None
    rest = position.others() if key is None else list(split_schema(position, background).rest)
    if len(rest) != 1 or not isinstance(rest[0], TriplePattern):
        return None
    head, other = rule.head[0], rest[0]
    names: Slot = Const(key) if key is not None and isinstance(pattern.predicate, Const) else pattern.predicate
    if not head.predicate == pattern.predicate == other.predicate == names or not (key is not None or isinstance(names, Const)):
        return None
    first, second = (pattern, other) if pattern.object == other.subject else (other, pattern)
    ends = (first.subject, first.object, second.object)
    if not all(isinstance(end, Var) and end != names for end in ends) or len(set(ends)) != 3:
        return None
    if (first.object, head.subject, head.object) != (second.subject, first.subject, second.object):
        return None
    return names.term if isinstance(names, Const) else key


def is_first(position: DeltaPosition) -> bool:
    """True for the position of the first step of a transitive rule."""
    return position.pattern.subject == position.rule.head[0].subject


class Transitive:
    """Delta rules of a transitive predicate; `limit` bounds the examined pairs of a closure."""

    def __init__(self, predicate: Term, background: TripleIndex, limit: int) -> None:
        self._predicate = predicate
        self._triples = background.triples
        self._from: Final = background.by_subject.get(predicate, NO_ENDS)
        self._into: Final = background.by_object.get(predicate, NO_ENDS)
        self._limit = limit
        self._reset()

    def _reset(self, _: object = None) -> None:
        self._delta_triples: Callable[[], set[Triple] | None] = lambda: None
        self._pairs = TransitivePairs({})

    def _pairs_of(self, delta: TripleIndex) -> TransitivePairs:
        """The pairs of a delta that is being filled; the triples of a new delta are steps."""
        if self._delta_triples() is not delta.triples:
            subjects_of = delta.by_object.get(self._predicate, NO_ENDS)
            self._pairs = TransitivePairs({object: list(subjects) for object, subjects in subjects_of.items()})
            self._delta_triples = ref(delta.triples, self._reset)
        return self._pairs

    def first(
        self, s: Term, p: Term, o: Term, delta: TripleIndex, push: Push, active: list[DeltaRule], alarms: list[ConstraintViolation]
    ) -> None:
        """Applies the rule to a triple as the first step of a path."""
        pairs = self._pairs_of(delta)
        if (s, o) in pairs.concluded:
            return
        into = pairs.into.get(o)
        if into is None:
            pairs.into[o] = [s]
        else:
            into.append(s)
        for ends in (self._from.get(o, NO_TERMS), delta.by_subject[p].get(o, NO_TERMS)):
            self._count(pairs, len(ends))
            for end in ends:
                self._conclude(pairs, s, end, delta, push)

    def second(
        self, s: Term, p: Term, o: Term, delta: TripleIndex, push: Push, active: list[DeltaRule], alarms: list[ConstraintViolation]
    ) -> None:
        """Applies the rule to a triple as the continuation of a step."""
        pairs = self._pairs_of(delta)
        for starts in (self._into.get(s, NO_TERMS), pairs.into.get(s, NO_TERMS)):
            self._count(pairs, len(starts))
            for start in starts:
                self._conclude(pairs, start, o, delta, push)

    def _conclude(self, pairs: TransitivePairs, s: Term, o: Term, delta: TripleIndex, push: Push) -> None:
        pair = (s, o)
        if pair not in pairs.concluded:
            triple = (s, self._predicate, o)
            if triple not in delta.triples and triple not in self._triples:
                pairs.concluded.add(pair)
                push(triple)

    def _count(self, pairs: TransitivePairs, examined: int) -> None:
        pairs.examined += examined
        if pairs.examined > self._limit:
            raise LimitExceeded(self._limit, "derivations")


DERIVATIONS: Final = 10
"""Maximum number of derivations for each triple of the limit; most triples have one or a few."""

_CHECK_INTERVAL: Final = 1024

_KEPT: Final = 8
"""Maximum number of rule sets whose dispatch is kept."""

DeltaRules: TypeAlias = tuple[DeltaRule, ...]
Route: TypeAlias = tuple[dict[Term, DeltaRules], DeltaRules]
"""Delta rules of a predicate: by constant object, and for all other objects."""


DispatchTable: TypeAlias = dict[Term, dict[Term | None, list[Dispatch]]]
"""Predicate -> constant object, or None -> dispatches."""


def computes_terms(rule: DatalogRule) -> bool:
    """True for a rule of the program with BIND: it may compute new terms, and a closure may never
    end.
    """
    return not rule.of_rule_set and any(isinstance(item, Bind) for item in rule.body)


class RuleDispatch:
    """Rules by their delta positions, independent of the background.

    `fixed`: positions with a fixed predicate, by route. `free`: the other positions. `of_literals`:
    those of rules about literals, each under another atom about an auxiliary relation of these,
    without whose triples they are dormant. `strata` has the stratum of each rule.
    """

    def __init__(self, rules: Iterable[DatalogRule], strata: Iterable[int] = repeat(0)) -> None:
        self.fixed: DispatchTable = {}
        self.free: list[DeltaPosition] = []
        self.of_literals: dict[TriplePattern, list[DeltaPosition]] = {}
        numbered = list(zip(rules, strata, strict=False))
        rows = tuple(each for each in numbered if each[0].of_rule_set)
        if rows:
            self._copy(_dispatch_of_rows(rows))
        for rule, stratum in numbered:
            if not rule.of_rule_set:
                self._add(rule, stratum)

    @classmethod
    def _of_rows(cls, rows: Iterable[tuple[DatalogRule, int]]) -> RuleDispatch:
        made = cls(())
        for rule, stratum in rows:
            made._add(rule, stratum)
        return made

    def _copy(self, other: RuleDispatch) -> None:
        self.fixed = {predicate: {object: [*found] for object, found in routes.items()} for predicate, routes in other.fixed.items()}
        self.free, self.of_literals = [*other.free], other.of_literals

    def _add(self, rule: DatalogRule, stratum: int) -> None:
        atoms = [item for item in rule.body if isinstance(item, TriplePattern) and _constant(item.predicate) in OF_LITERALS]
        for position in delta_positions(rule, stratum):
            pattern, predicate = position.pattern, position.pattern.predicate
            atom = next((each for each in atoms if each is not pattern), None) if rule.of_rule_set else None
            if position.key is None and isinstance(predicate, Const) and (atom is None or predicate.term in OF_LITERALS):
                _register(self.fixed, predicate.term, _constant(pattern.object), Dispatch(position))
            elif atom is None:
                self.free.append(position)
            else:
                kind = TriplePattern(Var("s"), atom.predicate, atom.object if isinstance(atom.object, Const) else Var("o"))
                self.of_literals.setdefault(kind, []).append(position)

    @property
    def has_free(self) -> bool:
        """True where a rule has a position that is not fixed."""
        return bool(self.free or self.of_literals)


_kept: dict[tuple[tuple[int, int], ...], tuple[Sequence[tuple[DatalogRule, int]], RuleDispatch]] = {}


def _dispatch_of_rows(rows: tuple[tuple[DatalogRule, int], ...]) -> RuleDispatch:
    """The dispatch of rows of a rule set, kept for the next closer of the same ones.

    It is found by the rules' objects, which are kept with it.
    """
    key = tuple([(id(rule), stratum) for rule, stratum in rows])
    if key not in _kept:
        if len(_kept) >= _KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[key] = rows, RuleDispatch._of_rows(rows)
    return _kept[key][1]


def _register(table: DispatchTable, predicate: Term, object: Term | None, dispatch: Dispatch) -> None:
    table.setdefault(predicate, {}).setdefault(object, []).append(dispatch)


class BackgroundDispatch:
    """Routes of the free positions over one background.

    `unrouted`: dispatches for every triple. `routed`: those by predicate and object. `dormant`: by
    predicate and object (None: any) of schema triples, the positions that such a triple of the
    instant activates.
    """

    def __init__(self, rules: RuleDispatch, background: TripleIndex) -> None:
        self.unrouted: list[Dispatch] = []
        self.routed: DispatchTable = {}
        self.dormant: dict[tuple[Term, Term | None], list[DeltaPosition]] = {}
        for position in rules.free:
            self._add(position, background)
        for atom, positions in rules.of_literals.items():
            if _is_missing(atom, background):
                self.dormant.setdefault((cast(Const, atom.predicate).term, _constant(atom.object)), []).extend(positions)
            else:
                for position in positions:
                    self._add(position, background)
        for (predicate, object), positions in self.dormant.items():
            _register(self.routed, predicate, object, Dispatch(None, None, tuple(positions)))

    def _add(self, position: DeltaPosition, background: TripleIndex) -> None:
        predicate = position.pattern.predicate
        for item in position.others() if position.rule.of_rule_set else ():  # rules about literals mostly end here, without a split
            if isinstance(item, TriplePattern) and _constant(item.predicate) in OF_LITERALS and _is_missing(item, background):
                self._add_dormant(item, position)
                return
        if position.key is None:
            assert isinstance(predicate, Const)
            _register(self.routed, predicate.term, _constant(position.pattern.object), Dispatch(position))
            return
        parts = split_schema(position, background)
        missing = next((atom for atom in (*parts.schema, *parts.rest) if _is_missing(atom, background)), None)
        if isinstance(missing, TriplePattern):
            self._add_dormant(missing, position)
        elif any(isinstance(item, TriplePattern) for item in parts.schema):
            for item in parts.schema:
                if isinstance(item, TriplePattern):
                    self._add_dormant(item, position)
            if Const(READ) not in [item.predicate for item in parts.schema if isinstance(item, TriplePattern)]:
                self._add_keys(position, parts, background)  # for classes that the background reads, the row itself types literals
        elif isinstance(predicate, Const):
            _register(self.routed, predicate.term, None, Dispatch(position))
        else:
            self.unrouted.append(Dispatch(position))

    def _add_keys(self, position: DeltaPosition, parts: SchemaSplit, background: TripleIndex) -> None:
        pattern, name = position.pattern, position.key
        assert name is not None
        for row in schema_rows(parts.schema, {}, [name], background):
            key = row[0]
            assert key is not None
            predicate = key if isinstance(pattern.predicate, Var) else pattern.predicate.term
            if is_hidden(predicate) and not position.rule.of_rule_set:
                continue
            _register(self.routed, predicate, key if pattern.object == Var(name) else _constant(pattern.object), Dispatch(position, key))

    def _add_dormant(self, pattern: TriplePattern, position: DeltaPosition) -> None:
        assert isinstance(pattern.predicate, Const)
        dormant = self.dormant.setdefault((pattern.predicate.term, _constant(pattern.object)), [])
        if position not in dormant:
            dormant.append(position)


def _constant(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def _is_missing(item: JoinItem, background: TripleIndex) -> bool:
    """True where no background triple matches an atom, so that a match needs a triple of the
    instant.

    False for an atom that nearly every instant matches (any class).
    """
    match item:
        case TriplePattern(_, Const(predicate), Const(object)):
            return object not in background.by_object.get(predicate, NO_ENDS)
        case TriplePattern(_, Const(predicate), Var()):
            return predicate != RDF_TYPE and predicate not in background.by_object
        case _:
            return False


class Closer(InstantCloser):
    """Closer of instants by rules alone.

    `limit`: maximum number of triples of a closure beyond the background.
    """

    ignores_names = True

    def __init__(self, rules: RuleDispatch, background: TripleIndex, limit: int = LIMITS.triples) -> None:
        self.background = background
        self.limit = limit
        self.has_rules = bool(rules.fixed) or rules.has_free
        self._fixed = rules.fixed
        self._background_dispatch = background_dispatch = BackgroundDispatch(rules, background)
        self.schema: Mapping[tuple[Term, Term | None], Sequence[DeltaPosition]] = background_dispatch.dormant
        self._general: dict[DeltaPosition, DeltaRule] = {}
        self._transitive: dict[Term, Transitive] = {}
        self._compiled: dict[Dispatch, DeltaRule] = {}
        self._routes: dict[Term, Route] = {}
        uncompiled: DeltaRules = (self._compile_route,)
        for predicate in dict.fromkeys([*rules.fixed, *background_dispatch.routed]):
            objects = dict.fromkeys([*rules.fixed.get(predicate, ()), *background_dispatch.routed.get(predicate, ())])
            keyed = {object: uncompiled for object in objects if object is not None}
            self._routes[predicate] = (keyed, uncompiled if background_dispatch.unrouted or None in objects else ())
        self._default: Route = ({}, tuple(map(self._delta_rule, background_dispatch.unrouted)))

    def limit_to(self, limit: int) -> None:
        """Sets the maximum number of triples of a closure beyond the background."""
        self.limit = limit

    def adds_nothing_to(self, triples: Sequence[Triple]) -> bool:
        """True where there are no rules, and the instant's own triples are within the limit."""
        return not self.has_rules and len(triples) <= self.limit

    def dispatches_of(self, predicate: Term, object: Term | None) -> list[Dispatch]:
        """The dispatches of an instant's triples with a predicate and an object (None: any)."""
        if object is not None:
            return self._dispatches(predicate, object)
        dispatches = list(self._background_dispatch.unrouted)
        for routes in (self._fixed, self._background_dispatch.routed):
            dispatches += [each for found in routes.get(predicate, {}).values() for each in found]
        return dispatches

    def close(self, triples: Iterable[Triple], delta: TripleIndex | None = None, revisited: Sequence[Triple] = ()) -> Closure:
        """K(t) of an instant with these triples. Raises `LimitExceeded`.

        `delta`: an index to extend; None: a new one.
        `revisited`: triples of `delta` that the delta rules are applied to once more.
        """
        known, known_absent = self.background.triples, self.background.known_absent
        if delta is None:
            delta = TripleIndex()
        by_subject, by_object, in_delta = delta.by_subject, delta.by_object, delta.triples
        route, default = self._routes.get, self._default
        pending = list(triples)
        push = pending.append
        active: list[DeltaRule] = []
        alarms: list[ConstraintViolation] = []
        if revisited:
            for s, p, o in revisited:
                keyed, plain = route(p, default)
                for delta_rule in keyed.get(o, plain):
                    delta_rule(s, p, o, delta, push, active, alarms)
                for delta_rule in active:
                    delta_rule(s, p, o, delta, push, active, alarms)
        queue, done = iter(pending), 0
        while done < len(pending) and done < self.limit:
            for triple in islice(queue, _CHECK_INTERVAL):
                if triple in in_delta:
                    continue
                s, p, o = triple
                if s not in known_absent and triple in known:
                    continue
                # `TripleIndex.add` inlined: the call would double its cost.
                in_delta.add(triple)
                ends = by_subject.get(p)
                if ends is None:
                    by_subject[p] = {s: [o]}
                    by_object[p] = {o: [s]}
                else:
                    others = ends.get(s)
                    if others is None:
                        ends[s] = [o]
                    else:
                        others.append(o)
                    ends = by_object[p]
                    others = ends.get(o)
                    if others is None:
                        ends[o] = [s]
                    else:
                        others.append(s)
                if delta.has_edges:
                    delta.extend_edges(triple)
                keyed, plain = route(p, default)
                for delta_rule in keyed.get(o, plain):
                    delta_rule(s, p, o, delta, push, active, alarms)
                if active:
                    for delta_rule in active:
                        delta_rule(s, p, o, delta, push, active, alarms)
            done += _CHECK_INTERVAL
            if len(pending) > self.limit:
                self._check_derivations(pending)
        if len(pending) > self.limit:
            self._drain_checked(queue, pending, delta, active, alarms)
        # `Closure(…)` would take 0.1 µs more; the smallest instants take 2 µs.
        return tuple.__new__(Closure, (self.background, delta, contradictions(alarms) if alarms else (), None))

    def _check_derivations(self, pending: list[Triple]) -> None:
        if len(pending) > DERIVATIONS * self.limit:
            raise LimitExceeded(DERIVATIONS * self.limit, "derivations")

    def _drain_checked(
        self, queue: Iterator[Triple], pending: list[Triple], delta: TripleIndex, active: list[DeltaRule], alarms: list[ConstraintViolation]
    ) -> None:
        """Pops the rest of a queue that is longer than the limit, and checks the limits at every
        new triple.
        """
        if len(delta.triples) > self.limit:
            raise LimitExceeded(self.limit)
        for triple in queue:
            if triple not in self.background.triples and delta.add(triple):
                if len(delta.triples) > self.limit:
                    raise LimitExceeded(self.limit)
                self._check_derivations(pending)
                s, p, o = triple
                keyed, plain = self._routes.get(p, self._default)
                for delta_rule in chain(keyed.get(o, plain), active):
                    delta_rule(s, p, o, delta, pending.append, active, alarms)

    def _compile_route(
        self, s: Term, p: Term, o: Term, delta: TripleIndex, push: Push, active: list[DeltaRule], alarms: list[ConstraintViolation]
    ) -> None:
        """Placeholder of an unused route: compiles its delta rules and is replaced by them."""
        keyed, _ = self._routes[p]
        delta_rules = tuple(map(self._delta_rule, self._dispatches(p, o if o in keyed else None)))
        if o in keyed:
            keyed[o] = delta_rules
        else:
            self._routes[p] = (keyed, delta_rules)
        for delta_rule in delta_rules:
            delta_rule(s, p, o, delta, push, active, alarms)

    def _dispatches(self, predicate: Term, object: Term | None) -> list[Dispatch]:
        """Dispatches of a route; `object` None: the route of all objects without a keyed route."""
        dispatches = list(self._background_dispatch.unrouted)
        for routes in (self._fixed, self._background_dispatch.routed):
            found = routes.get(predicate, {})
            dispatches += found.get(None, [])
            if object is not None:
                dispatches += found.get(object, [])
        return dispatches

    def _delta_rule(self, dispatch: Dispatch) -> DeltaRule:
        delta_rule = self._compiled.get(dispatch)
        if delta_rule is None:
            delta_rule = self._compiled[dispatch] = self._compile(dispatch)
        return delta_rule

    def _compile(self, dispatch: Dispatch) -> DeltaRule:
        position = dispatch.position
        if position is None:
            return partial(self._activate, dispatch.schema_triggers)
        predicate = transitive_predicate(position, dispatch.key, self.background)
        if predicate is not None:
            if predicate not in self._transitive:
                self._transitive[predicate] = Transitive(predicate, self.background, DERIVATIONS * self.limit)
            rule = self._transitive[predicate]
            return rule.first if is_first(position) else rule.second
        key, background = dispatch.key, self.background
        if key is not None:
            return _once_all_are_there(
                position, background, lambda: keyed_delta_rule(position, bind_schema(position, key, background), background)
            )
        return _once_all_are_there(position, background, lambda: routed_delta_rule(position, background))

    def _activate(
        self,
        positions: Sequence[DeltaPosition],
        s: Term,
        p: Term,
        o: Term,
        delta: TripleIndex,
        push: Push,
        active: list[DeltaRule],
        alarms: list[ConstraintViolation],
    ) -> None:
        """A delta rule of schema triples: makes the general delta rules of `positions` active for
        the rest of the instant.
        """
        for position in positions:
            delta_rule = self._general.get(position)
            if delta_rule is None:
                make = partial(general_delta_rule, position, self.background)
                delta_rule = self._general[position] = _once_all_are_there(position, self.background, make)
            if delta_rule not in active:
                active.append(delta_rule)


def _once_all_are_there(position: DeltaPosition, background: TripleIndex, make: Callable[[], DeltaRule]) -> DeltaRule:
    """A delta rule that is made at its first use with triples of all atoms: of a row of the tables,
    an instant seldom has the schema that the background lacks.
    """
    missing = missing_predicates(position.others(), background) if position.rule.of_rule_set else []
    if not missing:
        return make()
    made: list[DeltaRule] = []

    def delta_rule(
        s: Term, p: Term, o: Term, delta: TripleIndex, push: Push, active: list[DeltaRule], alarms: list[ConstraintViolation]
    ) -> None:
        known = delta.by_subject
        for predicate in missing:
            if predicate not in known:
                return
        if not made:
            made.append(make())
        made[0](s, p, o, delta, push, active, alarms)

    return delta_rule


def missing_predicates(items: Iterable[JoinItem], *indexes: TripleIndex) -> list[Term]:
    """The predicates of atoms that no triple of any index has.

    >>> at, inside = (TriplePattern(Var("x"), Const(predicate), Var("y")) for predicate in ("<at>", "<in>"))
    >>> missing_predicates([at, inside], TripleIndex([("<a>", "<in>", "<b>")]))
    ['<at>']
    """
    predicates = dict.fromkeys(
        [each.predicate.term for each in items if isinstance(each, TriplePattern) and isinstance(each.predicate, Const)]
    )
    return [predicate for predicate in predicates if not any(predicate in index.by_subject for index in indexes)]


def needs_more_than(background: TripleIndex, premises: Iterable[Triple]) -> bool:
    """True if some premise is not in the background.

    >>> needs_more_than(TripleIndex([("<a>", "<p>", "<b>")]), [("<a>", "<p>", "<b>"), ("<b>", "<p>", "<a>")])
    True
    """
    known = background.triples
    return not all(each in known for each in premises)
