"""Routing of facts to the joins of a stratum's rules.

Forward, a fact is routed to the joins of each atom that it may match. For rules over triples
without NOT these are the routes of the closure of an instant
(`dotr.instant.datalog.closure.instant`), specialised by the static schema; for other rules the
joins of its predicate or relation. Backward, a fact is routed to the joins of each head that it may
match.

A small case, the rule `[?x, <p>, ?z] :- [?x, <p>, ?y], [?y, <q>, ?z]`: the fact (a, p, b) has one
forward join, from the first atom, and one backward join, from the head; (b, q, c) has one forward
join, from the second atom.

Cost: facts are grouped by predicate, and by object where a rule has a constant one; a group is one
call of each join. A join is compiled at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, TypeAlias, cast

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.triples.index import HIDDEN
from dotr.instant.datalog.closure.delta_rules import DeltaPosition, Dispatch, bind_schema
from dotr.instant.datalog.closure.derivations import SAME_AS
from dotr.instant.datalog.closure.instant import BackgroundDispatch, RuleDispatch, is_first, missing_predicates, transitive_predicate
from dotr.instant.datalog.strata.stratification import key_of
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import DatalogRule, FilterItem, Not, RelationAtom
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables
from dotr.temporal.horizons.facts import NOW, HeldFacts, StaticFacts
from dotr.temporal.horizons.joins import Conclusions, HorizonJoin, HorizonWriter, write_join
from dotr.temporal.horizons.rules import CONTRADICTION, STATIC, Atom, RelationFact, WindowFact, WindowRule, contradiction_head

AtomIndexKey: TypeAlias = "tuple[Term | None, Term | None] | str"


class RouteJoins(NamedTuple):
    """The joins of a route: `firsts` from the first atom of a transitive rule, `others`, and
    `all`."""

    firsts: tuple[HorizonJoin, ...]
    others: tuple[HorizonJoin, ...]
    all: tuple[HorizonJoin, ...]

    @classmethod
    def of(cls, others: Iterable[HorizonJoin], firsts: Iterable[HorizonJoin] = ()) -> RouteJoins:
        """The joins of a route, with their concatenation: `firsts` before `others`."""
        firsts, others = tuple(firsts), tuple(others)
        return cls(firsts, others, firsts + others)


class FactRoute(NamedTuple):
    """The joins of a predicate or relation: by constant object, and for all other objects."""

    by_object: dict[Term, RouteJoins]
    plain: RouteJoins


class JoinPart(IntEnum):
    """Selection of joins of a route, as an index into `RouteJoins`."""

    FIRSTS = 0
    OTHERS = 1
    ALL = 2


class RulePosition(NamedTuple):
    """An atom of a rule that a fact is bound to, and the other items of its body."""

    rule: WindowRule
    atom: Atom
    rest: tuple[JoinItem, ...]


def positions(rule: WindowRule) -> Iterator[RulePosition]:
    """The positive atoms of a rule, in the order of its body."""
    for number, item in enumerate(rule.body):
        if isinstance(item, TriplePattern | RelationAtom):
            yield RulePosition(rule, item, (*rule.body[:number], *rule.body[number + 1 :]))


class RuleRoutes:
    """The joins of the rules of one stratum.

    `datalog`: rules over triples without NOT; `rules`: the others. `active`: joins that every
    triple takes part in, since a held fact extends the schema.
    """

    def __init__(self, datalog: Sequence[DatalogRule], rules: Sequence[WindowRule], static: StaticFacts, held: HeldFacts) -> None:
        self.active: list[HorizonJoin] = []
        self._static: Final = static
        self._held: Final = held
        self._of_text: Final = {id(rule): WindowRule.of(rule) for rule in datalog}
        dispatch = RuleDispatch(datalog)
        background = BackgroundDispatch(dispatch, static.triples)
        self._tables: Final = (dispatch.fixed, background.routed)
        self._unrouted: Final = background.unrouted
        self._own: dict[Term, list[RulePosition]] = {}
        self._own_free: list[RulePosition] = []
        self._of_relation: dict[str, list[RulePosition]] = {}
        self._negated: dict[AtomIndexKey, list[RulePosition]] = {}
        self._heads: dict[AtomIndexKey, list[tuple[WindowRule, Atom]]] = {}
        for rule in rules:
            for position in positions(rule):
                self._register(position)
            for item in rule.body:
                if isinstance(item, Not):
                    (atom,) = item.body
                    self._negated.setdefault(_key(atom), []).append(RulePosition(rule, atom, rule.body))
        for rule in (*self._of_text.values(), *rules):
            for head in rule.head:
                self._heads.setdefault(_key(head), []).append((rule, head))
                if rule.of_rule_set and isinstance(head, TriplePattern) and head.predicate == SAME_AS:
                    different = FilterItem(Call(f"{HIDDEN}different>", (head.subject, head.object)))
                    false = WindowRule("dt-diff", (contradiction_head("dt-diff", rule.body),), (*rule.body, different), True)
                    self._heads.setdefault(CONTRADICTION, []).append((false, false.head[0]))
        self._routes: dict[str, FactRoute] = {}
        self._compiled: dict[object, HorizonJoin] = {}

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

    def run(
        self,
        name: str,
        facts: Sequence[WindowFact],
        h: int,
        beyond: int,
        at: int,
        least: int,
        to: Conclusions,
        part: JoinPart = JoinPart.ALL,
    ) -> None:
        """Runs the joins from some facts of one predicate or relation, all with horizon `h`.

        `name`: the predicate or relation. `part`: the joins to run. Other parameters as in
        `dotr.temporal.horizons.joins`.
        """
        route = self._routes.get(name)
        if route is None:
            route = self._routes[name] = self._route(name, facts[0])
        by_object, plain = route
        if not by_object:
            for join in plain[part]:
                join(facts, h, beyond, at, least, to)
        else:
            by_end: dict[Term, list[WindowFact]] = {}
            others: list[WindowFact] = []
            for fact in facts:
                end = cast(Term, fact[-1])
                (by_end.setdefault(end, []) if end in by_object else others).append(fact)
            for object, of_object in by_end.items():
                for join in by_object[object][part]:
                    join(of_object, h, beyond, at, least, to)
            for join in plain[part] if others else ():
                join(others, h, beyond, at, least, to)
        if self.active and part is not JoinPart.FIRSTS and len(facts[0]) == 3:
            for join in self.active:
                join(facts, h, beyond, at, least, to)

    def _route(self, name: str, fact: WindowFact) -> FactRoute:
        if len(fact) == 2:
            return FactRoute({}, RouteJoins.of(map(self._of_position, self._of_relation.get(name, ()))))
        objects = {object: None for table in self._tables for object in table.get(name, {}) if object is not None}
        return FactRoute({object: self._joins(name, object) for object in objects}, self._joins(name, None))

    def _joins(self, predicate: Term, object: Term | None) -> RouteJoins:
        dispatches = list(self._unrouted)
        for table in self._tables:
            routes = table.get(predicate, {})
            dispatches += routes.get(None, [])
            if object is not None:
                dispatches += routes.get(object, [])
        own = [*self._own.get(predicate, ()), *self._own_free]
        firsts: list[HorizonJoin] = []
        others = list(map(self._of_position, own))
        for each in dispatches:
            join, is_first_step = self._of_dispatch(each)
            (firsts if is_first_step else others).append(join)
        return RouteJoins.of(others, firsts)

    def _of_position(self, position: RulePosition) -> HorizonJoin:
        key = (id(position.rule), id(position.atom))
        join = self._compiled.get(key)
        if join is None:
            writer = HorizonWriter(position.rule, self._static, self._held)
            writer.begin_with(position.atom, horizon="h")
            join = self._compiled[key] = write_join(writer, position.rule, position.rest, premises=())
        return join

    def _of_dispatch(self, dispatch: Dispatch) -> tuple[HorizonJoin, bool]:
        """The join of a position, and whether it is that of the first step of a transitive rule."""
        position = dispatch.position
        if position is None:
            return partial(self._activate, dispatch.schema_triggers), False
        rule = self._of_text[id(position.rule)]
        is_path = transitive_predicate(position, dispatch.key, self._static.triples) is not None
        is_first_step = is_path and is_first(position)
        join = self._compiled.get(dispatch)
        if join is None:

            def write(position: DeltaPosition = position, key: Term | None = dispatch.key) -> HorizonJoin:
                writer = HorizonWriter(rule, self._static, self._held, is_path=is_path, of_steps=is_path and not is_first_step)
                if key is None:
                    writer.begin_with(position.pattern, horizon="h")
                    return write_join(writer, rule, position.others(), premises=())
                bindings = bind_schema(position, key, self._static.triples)
                for name, term in bindings.terms.items():
                    writer.bind_constant(name, term)
                writer.begin_with(position.pattern, horizon="h")
                return write_join(writer, rule, bindings.rest, premises=(), names=bindings.names, rows=bindings.rows)

            join = self._compiled[dispatch] = self._once_all_are_there(rule, position.others(), write)
        return join, is_first_step

    def _once_all_are_there(self, rule: WindowRule, others: Iterable[JoinItem], write: Callable[[], HorizonJoin]) -> HorizonJoin:
        """A join of a row of the tables that is written at its first use with facts of all atoms."""
        missing = missing_predicates(others, self._static.triples) if rule.of_rule_set else []
        if not missing:
            return write()
        held, written = self._held.by_subject, list[HorizonJoin]()

        def join(facts: Iterable[WindowFact], h: int, beyond: int, at: int, least: int, to: Conclusions) -> None:
            if all(map(held.get, missing)):
                if not written:
                    written.append(write())
                written[0](facts, h, beyond, at, least, to)

        return join

    def _activate(
        self,
        triggers: Sequence[DeltaPosition],
        facts: Iterable[WindowFact],
        h: int,
        beyond: int,
        at: int,
        least: int,
        to: Conclusions,
    ) -> None:
        """A join from facts of the schema: makes the general joins of `triggers` active."""
        for position in triggers:
            if position not in self._compiled:
                rule, others = self._of_text[id(position.rule)], position.others()
                write = partial(self._general, rule, position.pattern, others)
                join = self._compiled[position] = self._once_all_are_there(rule, others, write)
                self.active.append(join)

    def _general(self, rule: WindowRule, pattern: TriplePattern, others: Sequence[JoinItem]) -> HorizonJoin:
        writer = HorizonWriter(rule, self._static, self._held)
        writer.begin_with(pattern, horizon="h")
        return write_join(writer, rule, others, premises=())

    # --- NOT, and backward ---

    def negations(self, fact: WindowFact) -> Iterator[HorizonJoin]:
        """The joins of rules with a NOT that a fact matches."""
        if self._negated:
            for key in _keys(fact):
                for position in self._negated.get(key, ()):
                    join = self._compiled.get(id(position))
                    if join is None:
                        writer = HorizonWriter(position.rule, self._static, self._held)
                        writer.begin_with(position.atom, horizon=None)
                        join = write_join(writer, position.rule, position.rest, premises=position.rule.atoms)
                        self._compiled[id(position)] = join
                    yield join

    def backward_joins(self, fact: WindowFact) -> Iterator[HorizonJoin]:
        """The joins from a fact, as head, backward to the premises of its derivations."""
        for key in _keys(fact):
            for rule, head in self._heads.get(key, ()):
                join = self._compiled.get((id(rule), id(head), "support"))
                if join is None:
                    join = self._once_all_are_there(rule, rule.body, partial(self._backward, rule, head))
                    self._compiled[id(rule), id(head), "support"] = join
                yield join

    def _backward(self, rule: WindowRule, head: Atom) -> HorizonJoin:
        one_head = WindowRule(rule.name, (head,), rule.body, rule.of_rule_set)
        writer = HorizonWriter(one_head, self._static, self._held)
        writer.begin_with(head, horizon=None)
        return write_join(writer, one_head, rule.body, premises=rule.atoms)

    def derivations(self, fact: WindowFact, k: int) -> Iterator[tuple[str, list[WindowFact]]]:
        """The one-step derivations of a fact at point `k`: the rule's name, and the premises in the
        order of its body.

        For explanations: the joins are compiled at each call.
        """
        for key in _keys(fact):
            for rule, head in self._heads.get(key, ()):
                names = dict.fromkeys(name for atom in rule.atoms for name in free_variables(atom))
                found = FoundMatches()
                match = WindowRule(rule.name, (RelationAtom("dotr:match", tuple(map(Var, names))),), rule.body, rule.of_rule_set)
                writer = HorizonWriter(match, self._static, self._held)
                writer.begin_with(head, horizon=None)
                write_join(writer, match, rule.body, premises=rule.atoms)((fact,), STATIC, k - 1, NOW, k, found)
                for _, row in dict.fromkeys(cast("list[RelationFact]", found.facts)):
                    terms = dict(zip(names, row, strict=True))
                    yield rule.name, [ground(atom, terms) for atom in rule.atoms]


class FoundMatches:
    """Collector of conclusions of joins, without their horizons."""

    def __init__(self) -> None:
        self.facts: list[WindowFact] = []

    @property
    def paths(self) -> FoundMatches:
        """The same object: conclusions of transitive rules are collected like others."""
        return self

    def __getitem__(self, horizon: int) -> Callable[[WindowFact], object]:
        return self.facts.append


def ground(atom: Atom, terms: Mapping[Variable, Term]) -> WindowFact:
    """The atom with a term for each variable.

    >>> ground(RelationAtom("R", (Var("x"), Const("<e:b>"))), {"x": "<e:a>"})
    ('R', ('<e:a>', '<e:b>'))
    """
    row = tuple([slot.term if isinstance(slot, Const) else terms[slot.name] for slot in slots_of_window_atom(atom)])
    return (row[0], row[1], row[2]) if isinstance(atom, TriplePattern) else (atom.relation, row)


def slots_of_window_atom(atom: Atom) -> tuple[Slot, ...]:
    """The terms and variables of an atom."""
    return (atom.subject, atom.predicate, atom.object) if isinstance(atom, TriplePattern) else atom.slots


def _key(atom: Atom) -> AtomIndexKey:
    return key_of(atom) if isinstance(atom, TriplePattern) else atom.relation


def _keys(fact: WindowFact) -> Iterable[AtomIndexKey]:
    """The keys of atoms that may match a fact."""
    if len(fact) == 2:
        return (fact[0],)
    return ((fact[1], fact[2]), (fact[1], None), (None, fact[2]), (None, None))
