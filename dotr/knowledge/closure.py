"""Semi-naive closure of an instant over a fixed background (Abiteboul, Hull, Vianu 1995, ch. 13), one triple at a time.

Idea: a work list starts with the instant's triples. A triple that is popped and known neither to the background nor to `new` joins `new`,
and every rule that it can take part in is asked what follows from it, the background and `new`; conclusions go to the end of the list.
Rules are found by the triple's predicate, then by its object. A rule that applies to nearly every triple unless its schema says otherwise
(`dotr.knowledge.positions`) is found under those predicates and classes for which the background has that schema.
Invariant: when a triple has been popped, all matches of all rules within background and `new` have been found. A match that needs schema
triples which only the instant brings is found by the general version of its rule: those versions sleep until such a triple is popped, then
take part in the rest of the instant.
Cost: proportional to what is popped and matched, whatever the size of the background and the number of rules that do not apply. A
handler is written when it is first needed, about 30 µs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from dotr.knowledge.handlers import Alarm, Handler, Push, general_handler, keyed_handler, routed_handler, schema_rows
from dotr.knowledge.positions import Position, Split, positions, split
from dotr.knowledge.triples import TripleIndex
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple


class Contradiction(NamedTuple):
    """A match of a rule without a head: the rule's name and the triples that its body found, sorted."""

    rule: str
    triples: tuple[Triple, ...]


class Closure(NamedTuple):
    """K(t): the background, and what K(t) has beyond it. `contradictions` are those that need the instant."""

    background: TripleIndex
    new: TripleIndex
    contradictions: tuple[Contradiction, ...]


Handlers: TypeAlias = tuple[Handler, ...]
Route: TypeAlias = tuple[dict[Term, Handlers], Handlers]
"""The handlers of a predicate: those for some objects, and those for all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What a triple on some route is given to. Without a position: it wakes the general versions of `wakes`."""

    position: Position | None
    key: Term | None = None
    wakes: tuple[Position, ...] = ()


@dataclass(slots=True)
class _Plan:
    """Where positions are looked for, before handlers are written."""

    everywhere: list[Work] = field(default_factory=list)
    plain: dict[Term, list[Work]] = field(default_factory=dict)
    keyed: dict[Term, dict[Term, list[Work]]] = field(default_factory=dict)
    sleeping: dict[tuple[Term, Term | None], list[Position]] = field(default_factory=dict)

    def add(self, predicate: Term, object: Term | None, work: Work) -> None:
        if object is None:
            self.plain.setdefault(predicate, []).append(work)
        else:
            self.keyed.setdefault(predicate, {}).setdefault(object, []).append(work)

    def place(self, position: Position, background: TripleIndex) -> None:
        pattern = position.pattern
        if position.key is None:
            assert isinstance(pattern.predicate, Const)
            self.add(pattern.predicate.term, _constant(pattern.object), Work(position))
            return
        parts = split(position, background)
        missing = next((item for item in parts.residue if isinstance(item, TriplePattern) and _is_missing(item, background)), None)
        if missing is not None:
            self._sleep(missing, position)
        elif any(isinstance(item, TriplePattern) for item in parts.schema):
            for item in parts.schema:
                if isinstance(item, TriplePattern):
                    self._sleep(item, position)
            self._place_keys(position, parts, background)
        elif isinstance(pattern.predicate, Const):
            self.add(pattern.predicate.term, None, Work(position))
        else:
            self.everywhere.append(Work(position))

    def _place_keys(self, position: Position, parts: Split, background: TripleIndex) -> None:
        pattern, name = position.pattern, position.key
        assert name is not None
        for row in schema_rows(parts.schema, {}, [name], background):
            key = row[0]
            assert key is not None
            predicate = key if isinstance(pattern.predicate, Var) else pattern.predicate.term
            self.add(predicate, key if pattern.object == Var(name) else _constant(pattern.object), Work(position, key))

    def _sleep(self, pattern: TriplePattern, position: Position) -> None:
        assert isinstance(pattern.predicate, Const)
        asleep = self.sleeping.setdefault((pattern.predicate.term, _constant(pattern.object)), [])
        if position not in asleep:
            asleep.append(position)

    def wake(self) -> None:
        for (predicate, object), asleep in self.sleeping.items():
            self.add(predicate, object, Work(None, None, tuple(asleep)))


def _constant(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def _is_missing(pattern: TriplePattern, background: TripleIndex) -> bool:
    """Whether the background has no triple that an atom could match."""
    if not isinstance(pattern.predicate, Const):
        return False
    ends = background.by_object.get(pattern.predicate.term, {})
    return not ends or (isinstance(pattern.object, Const) and pattern.object.term not in ends)


class Closer:
    """Rules over a background that is closed under them; the background must not change as long as this is used."""

    def __init__(self, rules: Iterable[DatalogRule], background: TripleIndex) -> None:
        self.background = background
        plan = _Plan()
        for rule in rules:
            for position in positions(rule):
                plan.place(position, background)
        plan.wake()
        self.schema: Mapping[tuple[Term, Term | None], Sequence[Position]] = plan.sleeping
        self._plan = plan
        self._general: dict[Position, Handler] = {}
        self._written: dict[Work, Handler] = {}
        self._routes: dict[Term, Route] = {}
        for predicate in dict.fromkeys([*plan.plain, *plan.keyed]):
            keyed: dict[Term, Handlers] = {o: (partial(self._first_call, predicate, o),) for o in plan.keyed.get(predicate, ())}
            plain: Handlers = (partial(self._first_call, predicate, None),)
            self._routes[predicate] = (keyed, plain if plan.everywhere or predicate in plan.plain else ())
        self._default: Route = ({}, tuple(map(self._handler, plan.everywhere)))

    def close(self, triples: Iterable[Triple]) -> Closure:
        """What K(t) has beyond the background, if the instant holds these triples."""
        known = self.background.triples
        new = TripleIndex()
        by_subject, by_object, seen = new.by_subject, new.by_object, new.triples
        route, default = self._routes.get, self._default
        pending = list(triples)
        push = pending.append
        active: list[Handler] = []
        alarms: list[Alarm] = []
        for triple in pending:
            if triple in seen or triple in known:
                continue
            # TripleIndex.add, written out: a call would cost as much as the rest of it.
            seen.add(triple)
            s, p, o = triple
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
            if new.has_edges:
                new.extend_edges(triple)
            keyed, plain = route(p, default)
            for handler in keyed.get(o, plain):
                handler(s, p, o, new, push, active, alarms)
            if active:
                for handler in active:
                    handler(s, p, o, new, push, active, alarms)
        return Closure(self.background, new, contradictions(alarms) if alarms else ())

    def _first_call(
        self,
        predicate: Term,
        object: Term | None,
        s: Term,
        p: Term,
        o: Term,
        new: TripleIndex,
        push: Push,
        active: list[Handler],
        alarms: list[Alarm],
    ) -> None:
        """Stands where a route has not been used yet: writes its handlers, and is replaced by them."""
        plan = self._plan
        works = plan.everywhere + plan.plain.get(predicate, [])
        keyed, _ = self._routes[predicate]
        if object is None:
            handlers = tuple(map(self._handler, works))
            self._routes[predicate] = (keyed, handlers)
        else:
            handlers = keyed[object] = tuple(map(self._handler, works + plan.keyed[predicate][object]))
        for handler in handlers:
            handler(s, p, o, new, push, active, alarms)

    def _handler(self, work: Work) -> Handler:
        handler = self._written.get(work)
        if handler is None:
            handler = self._written[work] = self._write(work)
        return handler

    def _write(self, work: Work) -> Handler:
        position = work.position
        if position is None:
            return partial(self._wake, work.wakes)
        if work.key is not None:
            return keyed_handler(position, work.key, self.background)
        return routed_handler(position, self.background)

    def _wake(
        self,
        asleep: Sequence[Position],
        s: Term,
        p: Term,
        o: Term,
        new: TripleIndex,
        push: Push,
        active: list[Handler],
        alarms: list[Alarm],
    ) -> None:
        """The instant brought schema: the general versions of these positions take part from now on."""
        for position in asleep:
            handler = self._general.get(position)
            if handler is None:
                handler = self._general[position] = general_handler(position, self.background)
            if handler not in active:
                active.append(handler)


def contradictions(alarms: Iterable[Alarm]) -> tuple[Contradiction, ...]:
    """Each contradiction once, in an order that does not depend on how they were found."""
    return tuple(sorted({Contradiction(rule, tuple(sorted(set(triples)))) for rule, triples in alarms}))
