"""Joins of a stratum's rules by the facts that they begin with.

Forward, a fact's joins are those of each atom that it may match: for rules over triples without NOT
the routes of the closure of an instant (`dotr.datalog.closure`), with the static schema built in;
for others by predicate or relation. Backward, they are those of the heads that may be the fact.

Cost: a dictionary entry or two a fact; a join is compiled at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from dotr.datalog.closure import BackgroundDispatch, Dispatch, RuleDispatch
from dotr.datalog.delta_positions import DeltaPosition
from dotr.datalog.delta_rules import bind_schema
from dotr.datalog.strata import key_of
from dotr.horizons.facts import HeldFacts, StaticFacts
from dotr.horizons.joins import HorizonWriter, Join, Push, write_join
from dotr.horizons.rules import Atom, Fact, WindowRule
from dotr.joins.order import JoinItem
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import DatalogRule, Not, RelationAtom
from dotr.model.terms import Term

Joins: TypeAlias = tuple[Join, ...]
Route: TypeAlias = tuple[dict[Term, Joins | None], Joins | None]
"""Joins of a predicate: by constant object, and for all other objects; None where not compiled."""


class RulePosition(NamedTuple):
    """An atom of a rule that a fact is bound to, by its place in the body."""

    rule: WindowRule
    atom: Atom
    rest: tuple[JoinItem, ...]


def positions(rule: WindowRule) -> Iterator[RulePosition]:
    """The positive atoms of a rule, in the order of its body."""
    for number, item in enumerate(rule.body):
        if isinstance(item, TriplePattern | RelationAtom):
            yield RulePosition(rule, item, (*rule.body[:number], *rule.body[number + 1 :]))


def is_plain(rule: DatalogRule) -> bool:
    """True for a rule that the static schema may specialise: without NOT."""
    return not any(isinstance(item, Not) for item in rule.body)


class RuleRoutes:
    """The joins of the rules of one stratum.

    `datalog`: rules over triples without NOT; `rules`: the others. `active`: joins for every triple,
    since a fact of the schema came.
    """

    def __init__(self, datalog: Sequence[DatalogRule], rules: Sequence[WindowRule], static: StaticFacts, held: HeldFacts) -> None:
        self.active: list[Join] = []
        self._static: Final = static
        self._held: Final = held
        self._window_rules: Final = {id(rule): WindowRule.of(rule) for rule in datalog}
        self._fixed: Final = RuleDispatch(datalog)
        self._background: Final = BackgroundDispatch(self._fixed.free, static.triples)
        self._own: dict[Term, list[RulePosition]] = {}
        self._own_free: list[RulePosition] = []
        self._of_relation: dict[str, list[RulePosition]] = {}
        self._negated: dict[tuple[Term | None, Term | None] | str, list[RulePosition]] = {}
        for rule in rules:
            for position in positions(rule):
                self._register(position)
            for item in rule.body:
                if isinstance(item, Not):
                    (atom,) = item.body
                    key = key_of(atom) if isinstance(atom, TriplePattern) else atom.relation
                    self._negated.setdefault(key, []).append(RulePosition(rule, atom, rule.body))
        self._routes: dict[Term, Route] = {}
        for predicate in dict.fromkeys([*self._fixed.fixed, *self._background.routed, *self._own]):
            objects = {o: None for table in (self._fixed.fixed, self._background.routed) for o in table.get(predicate, {}) if o is not None}
            self._routes[predicate] = (objects, None)  # type: ignore[assignment]
        self._relations: dict[str, Joins] = {}
        self._default: Joins | None = None
        self._joins: dict[object, Join] = {}
        self._general: dict[int, Join] = {}
        self._negations: dict[tuple[Term | None, Term | None] | str, Joins] = {}
        self._heads: dict[tuple[Term | None, Term | None] | str, list[tuple[WindowRule, Atom]]] = {}
        for rule in (*self._window_rules.values(), *rules):
            for head in rule.head:
                self._heads.setdefault(key_of(head) if isinstance(head, TriplePattern) else head.relation, []).append((rule, head))
        self._supports: dict[int, Join] = {}

    @property
    def has_negations(self) -> bool:
        """True where a rule has NOT."""
        return bool(self._negated)

    def _register(self, position: RulePosition) -> None:
        atom = position.atom
        if isinstance(atom, RelationAtom):
            self._of_relation.setdefault(atom.relation, []).append(position)
        elif isinstance(atom.predicate, Const):
            self._own.setdefault(atom.predicate.term, []).append(position)
        else:
            self._own_free.append(position)

    # --- forward ---

    def joins(self, fact: Fact) -> Sequence[Join]:
        """The joins that begin with a fact."""
        if len(fact) == 2:
            found = self._relations.get(fact[0])
            if found is None:
                found = self._relations[fact[0]] = tuple(map(self._join, self._of_relation.get(fact[0], ())))
            return found
        route = self._routes.get(fact[1])
        if route is None:
            if self._default is None:
                self._default = tuple([*map(self._dispatched, self._background.unrouted), *map(self._join, self._own_free)])
            found = self._default
        else:
            keyed, found = route
            if fact[2] in keyed:
                found = keyed[fact[2]]
                if found is None:
                    found = keyed[fact[2]] = self._compiled(fact[1], fact[2])
            elif found is None:
                found = self._compiled(fact[1], None)
                self._routes[fact[1]] = (keyed, found)
        return (*found, *self.active) if self.active else found

    def _compiled(self, predicate: Term, object: Term | None) -> Joins:
        dispatches = list(self._background.unrouted)
        for table in (self._fixed.fixed, self._background.routed):
            routes = table.get(predicate, {})
            dispatches += routes.get(None, [])
            if object is not None:
                dispatches += routes.get(object, [])
        own = [*self._own.get(predicate, ()), *self._own_free]
        return tuple([*map(self._dispatched, dispatches), *map(self._join, own)])

    def _join(self, position: RulePosition) -> Join:
        key = (id(position.rule), id(position.atom))
        join = self._joins.get(key)
        if join is None:
            writer = HorizonWriter(position.rule, self._static, self._held)
            writer.begin_with(position.atom, horizon="h")
            join = self._joins[key] = write_join(writer, position.rule, position.rest, premises=())
        return join

    def _dispatched(self, dispatch: Dispatch) -> Join:
        join = self._joins.get(dispatch)
        if join is None:
            join = self._joins[dispatch] = self._compile(dispatch)
        return join

    def _compile(self, dispatch: Dispatch) -> Join:
        position = dispatch.position
        if position is None:
            return partial(self._activate, dispatch.schema_triggers)
        rule = self._window_rules[id(position.rule)]
        writer = HorizonWriter(rule, self._static, self._held)
        if dispatch.key is None:
            writer.begin_with(position.pattern, horizon="h")
            return write_join(writer, rule, position.others(), premises=())
        bindings = bind_schema(position, dispatch.key, self._static.triples)
        for name, term in bindings.terms.items():
            writer.bind_constant(name, term)
        writer.begin_with(position.pattern, horizon="h")
        return write_join(writer, rule, bindings.rest, premises=(), names=bindings.names, rows=bindings.rows)

    def _activate(self, triggers: Sequence[DeltaPosition], fact: Fact, h: int, beyond: int, at: int, least: int, push: Push) -> None:
        """A fact of the schema came: general joins take part from now on."""
        for position in triggers:
            if id(position) not in self._general:
                rule = self._window_rules[id(position.rule)]
                writer = HorizonWriter(rule, self._static, self._held)
                writer.begin_with(position.pattern, horizon="h")
                join = self._general[id(position)] = write_join(writer, rule, position.others(), premises=())
                self.active.append(join)
                join(fact, h, beyond, at, least, push)

    # --- NOT, and backward ---

    def negations(self, fact: Fact) -> Iterator[Join]:
        """The joins of rules in which a fact stands under NOT."""
        if self._negated:
            for key in keys_of(fact):
                joins = self._negations.get(key)
                if joins is None:
                    joins = self._negations[key] = tuple(map(self._negation, self._negated.get(key, ())))
                yield from joins

    def _negation(self, position: RulePosition) -> Join:
        writer = HorizonWriter(position.rule, self._static, self._held)
        writer.begin_with(position.atom, horizon=None)
        return write_join(writer, position.rule, position.rest, premises=position.rule.atoms)

    def supports(self, fact: Fact) -> Iterator[Join]:
        """The joins back from a fact to what concludes it."""
        for key in keys_of(fact):
            for rule, head in self._heads.get(key, ()):
                join = self._supports.get(id(head))
                if join is None:
                    one_head = WindowRule(rule.name, (head,), rule.body, rule.of_rule_set)
                    writer = HorizonWriter(one_head, self._static, self._held)
                    writer.begin_with(head, horizon=None)
                    join = self._supports[id(head)] = write_join(writer, one_head, rule.body, premises=rule.atoms)
                yield join


def keys_of(fact: Fact) -> Iterable[tuple[Term | None, Term | None] | str]:
    """The keys of atoms that may match a fact."""
    if len(fact) == 2:
        return (fact[0],)
    return ((fact[1], fact[2]), (fact[1], None), (None, fact[2]), (None, None))
