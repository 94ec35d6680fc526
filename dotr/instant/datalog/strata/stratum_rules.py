"""Rules of a stratum over its background: forward derivation and backward support.

Forward: delta rules over the unchanged background (`dotr.instant.datalog.closure.instant`), and
derivations over any background where triples are masked
(`dotr.instant.datalog.closure.derivations`). Backward: support of a masked triple.

Cost: rules are indexed when a stratum is created; functions are generated at their first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from dotr.evaluation.joins.compile import Row
from dotr.evaluation.limits import LIMITS
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.closure.delta_rules import DeltaPosition
from dotr.instant.datalog.closure.derivations import ConstraintViolation, Derivation, Push, bindings_of, derivation, support
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch, missing_predicates
from dotr.instant.datalog.closure.lower_strata import LowerLookup, LowerModel, groups, matches
from dotr.instant.datalog.closure.safety import bound_by
from dotr.instant.datalog.strata.stratification import AtomKey, key_of, strata
from dotr.model import dataclass
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import DatalogRule, GroupAggregate, Not
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import free_variables

# Trigger atoms: the triple patterns under NOT and AGGREGATE, by predicate and object.
#
# A small case: `NOT [?s, <broken>, ?w]` in a rule with `?s` has one trigger atom. The triple
# `<a> <broken> <x>` changes the case `?s = <a>` alone.
#
# Invariant: only an added or retracted triple that matches a trigger atom can change a negation or a
# group. An instant without such a triple changes no static conclusion.
#
# Cost: a look-up for each predicate of the delta, and the triples of predicates with trigger atoms.


TriggerTable: TypeAlias = Mapping[Term, Mapping[Term | None, object]]
"""Predicate -> object (None: any) -> entries."""

PredicatesRead: TypeAlias = Mapping[Term, frozenset[Term] | None]
"""Predicate -> the objects that matter; None: any object."""


def predicates_read(tables: Iterable[TriggerTable | None]) -> PredicatesRead | None:
    """Predicates and objects of several tables together; None where a table matches all triples.

    >>> read = predicates_read([{"<p>": {"<o>": 1}}, {"<p>": {"<u>": 2}, "<q>": {None: 3}}])
    >>> read == {"<p>": {"<o>", "<u>"}, "<q>": None}
    True
    """
    read: dict[Term, frozenset[Term] | None] = {}
    for each in tables:
        if each is None:
            return None
        for predicate, by_object in each.items():
            known = read.get(predicate, frozenset())
            read[predicate] = None if known is None or None in by_object else known | {o for o in by_object if o is not None}
    return read


@dataclass(frozen=True, eq=False)
class NonmonotonicItem:
    """A NOT or an AGGREGATE in the body of a rule; `number` is its index in the body.

    The terms of `case_variables` identify a case, which is true or false at an instant.
    """

    rule: DatalogRule
    stratum: int
    number: int
    item: Not | GroupAggregate

    @cached_property
    def case_variables(self) -> tuple[Variable, ...]:
        """Keys of an AGGREGATE, or the variables that NOT shares with the rule."""
        if isinstance(self.item, GroupAggregate):
            return self.item.keys
        outer = bound_by(self.rule.body)
        return tuple(name for name in free_variables(self.item) if name in outer)

    @cached_property
    def derive(self) -> Derivation:
        """Conclusions of a case: the terms of `case_variables`, then an aggregate's results."""
        if isinstance(self.item, Not):
            return derivation(self.rule, self.stratum, self.case_variables)
        return derivation(self.rule, self.stratum, (*self.case_variables, *(name for name, _ in self.item.results)), self.number)

    @cached_property
    def _groups(self) -> LowerLookup:
        assert isinstance(self.item, GroupAggregate)
        return groups(self.item, self.item.keys)

    def results(self, model: LowerModel, case: Row) -> list[Row]:
        """The results of one group: one row, or none."""
        return self._groups(model, *case)


@dataclass(frozen=True, eq=False)
class TriggerAtom:
    """A triple pattern under NOT or AGGREGATE; `number` is its index there."""

    source: NonmonotonicItem
    atom: TriplePattern
    number: int

    @cached_property
    def _cases(self) -> LowerLookup:
        return matches(self.source.item.body, free_variables(self.atom), self.source.case_variables, self.number)

    def cases(self, triple: Triple, model: LowerModel) -> list[Row]:
        """Cases that a triple may change, each once, with the other atoms matched in a model."""
        terms = bindings_of(self.atom, triple)
        return [] if terms is None else list(dict.fromkeys(self._cases(model, *terms.values())))


class TriggerAtoms:
    """The trigger atoms of some rules, by predicate and object."""

    def __init__(self, rules: Iterable[tuple[DatalogRule, int]]) -> None:
        self._fixed: dict[Term, dict[Term | None, list[TriggerAtom]]] = {}
        self._free: list[TriggerAtom] = []
        for rule, stratum in rules:
            for number, item in enumerate(rule.body):
                if isinstance(item, Not | GroupAggregate):
                    self._add(NonmonotonicItem(rule, stratum, number, item))

    def _add(self, source: NonmonotonicItem) -> None:
        for number, atom in enumerate(source.item.body):
            if isinstance(atom, TriplePattern):
                trigger = TriggerAtom(source, atom, number)
                if isinstance(atom.predicate, Const):
                    object = atom.object.term if isinstance(atom.object, Const) else None
                    self._fixed.setdefault(atom.predicate.term, {}).setdefault(object, []).append(trigger)
                else:
                    self._free.append(trigger)

    @property
    def table(self) -> TriggerTable | None:
        """Trigger atoms by predicate and object; None where one has a variable predicate."""
        return None if self._free else self._fixed

    def triggered_by(self, triples: TripleIndex) -> Iterator[tuple[TriggerAtom, Triple]]:
        """The trigger atoms that triples may match, each with the triple."""
        for predicate, by_object in triples.by_object.items():
            by_constant = self._fixed.get(predicate)
            if by_constant is not None:
                yield from _triggered(by_constant, predicate, by_object, triples)
        if self._free:
            for triple in triples.visible():
                for trigger in self._free:
                    yield trigger, triple


def _triggered(
    triggers: Mapping[Term | None, Sequence[TriggerAtom]], predicate: Term, by_object: Mapping[Term, Sequence[Term]], triples: TripleIndex
) -> Iterator[tuple[TriggerAtom, Triple]]:
    for trigger in triggers.get(None, ()):
        for triple in triples.match(None, predicate, None):
            yield trigger, triple
    for object in triggers if len(triggers) < len(by_object) else by_object:
        if object is not None and object in triggers and object in by_object:
            for trigger in triggers[object]:
                for subject in by_object[object]:
                    yield trigger, (subject, predicate, object)


RuleInStratum: TypeAlias = tuple[DatalogRule, int]
"""A rule and its stratum; rules of a rule set belong to stratum 0."""

EMPTY_INDEX: Final = TripleIndex()


class StratifiedProgram:
    """A program by its strata, and the rule set that is closed in each.

    `depth`: the number of strata. `shares_index`: without a rule set, the rules of a stratum read
      nothing that a higher stratum derives. `triggers`: (stratum, its trigger atoms).
    """

    def __init__(self, rules: Sequence[DatalogRule]) -> None:
        program = [rule for rule in rules if not rule.of_rule_set]
        self.regime: list[RuleInStratum] = [(rule, 0) for rule in rules if rule.of_rule_set]
        self._numbered: list[RuleInStratum] = list(zip(program, strata(program), strict=True))
        self.depth = max(stratum for _, stratum in self._numbered) + 1
        self.shares_index = not self.regime
        self.triggers = [(stratum, TriggerAtoms(self.rules_at(stratum))) for stratum in range(1, self.depth)]

    def rules_at(self, stratum: int) -> list[RuleInStratum]:
        """The rules of a stratum."""
        return [each for each in self._numbered if each[1] == stratum]

    def up_to(self, stratum: int) -> list[RuleInStratum]:
        """The rules that the model of a stratum is closed under."""
        return [*self.regime, *(each for each in self._numbered if each[1] <= stratum)]

    def active(self, stratum: int) -> list[RuleInStratum]:
        """The rules that close a stratum over those below."""
        return self.rules_at(stratum) if self.shares_index else self.up_to(stratum)


def dispatch_of(numbered: Iterable[RuleInStratum]) -> RuleDispatch:
    """Rules with their strata, as a closer takes them."""
    rules = list(numbered)
    return RuleDispatch((rule for rule, _ in rules), (stratum for _, stratum in rules))


def lower_models(indexes: Sequence[TripleIndex]) -> list[LowerModel]:
    """For each stratum the background model of the strata below; empty for the lowest."""
    return [LowerModel(EMPTY_INDEX, EMPTY_INDEX), *(LowerModel(index, EMPTY_INDEX) for index in indexes)]


@dataclass(eq=False)
class HeadInStratum:
    """A head of a rule of some stratum."""

    rule: DatalogRule
    stratum: int
    head: TriplePattern

    @cached_property
    def support(self) -> Derivation:
        """Test of the rule with the variables of the head bound."""
        return support(self.rule, self.stratum, free_variables(self.head))


class StratumRules:
    """A stratum over its background.

    `active`: the rules that close the stratum; `heads`: the rules that can derive its triples.
    `triggers`: (stratum, trigger atoms) of lower and own strata; `models`: the background model of
      NOT and AGGREGATE by stratum.
    `limit`: maximum number of triples beyond the background; set before the first instant.
    """

    def __init__(
        self,
        index: TripleIndex,
        active: Sequence[RuleInStratum],
        heads: Sequence[RuleInStratum],
        triggers: Sequence[tuple[int, TriggerAtoms]],
        models: Sequence[LowerModel],
    ) -> None:
        self.index = index
        self.limit = LIMITS.triples
        self.triggers = triggers
        self.models = models
        self._derivations: dict[DeltaPosition, Derivation] = {}
        self._active = active
        self._head_rules = heads
        self._heads: dict[AtomKey, list[HeadInStratum]] | None = None

    @cached_property
    def dispatch(self) -> RuleDispatch:
        """The active rules by route."""
        return dispatch_of(self._active)

    @cached_property
    def closer(self) -> Closer:
        """Closer of instants while no triple is masked."""
        return Closer(self.dispatch, self.index, self.limit)

    def reads_any(self, delta: TripleIndex) -> bool:
        """True where a rule reads a predicate of the delta."""
        fixed = self.dispatch.fixed
        return self.dispatch.has_free or any(predicate in fixed for predicate in delta.by_subject)

    def derive_from(
        self, triple: Triple, background: TripleIndex, delta: TripleIndex, push: Push, alarms: list[ConstraintViolation]
    ) -> None:
        """Conclusions of a triple by the rules of this stratum, over any background."""
        for position in self._positions(triple):
            terms = bindings_of(position.pattern, triple)
            if terms is not None:
                derive = self._derivations.get(position)
                if derive is None:
                    if position.rule.of_rule_set and missing_predicates(position.others(), background, delta):
                        continue
                    names = free_variables(position.pattern)
                    derive = self._derivations[position] = derivation(position.rule, position.stratum, names, position.number)
                derive(background, delta, push, alarms, *terms.values())

    def _positions(self, triple: Triple) -> Iterator[DeltaPosition]:
        predicate = triple[1]
        routes = self.dispatch.fixed.get(predicate)
        if routes is not None:
            for object in (None, triple[2]):
                for dispatch in routes.get(object, ()):
                    if dispatch.position is not None:
                        yield dispatch.position
        for position in chain(self.dispatch.free, *self.dispatch.of_literals.values()):
            if position.rule.of_rule_set or isinstance(position.pattern.predicate, Const) or not is_hidden(predicate):
                yield position

    def is_supported(self, triple: Triple, background: TripleIndex, delta: TripleIndex) -> bool:
        """True where a rule of this stratum or a lower one derives a triple."""
        if self._heads is None:
            self._heads = {}
            for rule, stratum in self._head_rules:
                for head in rule.head:
                    self._heads.setdefault(key_of(head), []).append(HeadInStratum(rule, stratum, head))
        _, predicate, object = triple
        matches: list[bool] = []
        for key in ((predicate, object), (predicate, None), (None, object), (None, None)):
            for each in self._heads.get(key, ()):
                terms = bindings_of(each.head, triple)
                if terms is not None and not (each.rule.of_rule_set and missing_predicates(each.rule.body, background, delta)):
                    each.support(background, delta, matches.append, *terms.values())
                    if matches:
                        return True
        return False
