"""Trigger atoms: the triple patterns under NOT and AGGREGATE, by predicate and object.

A small case: `NOT [?s, <broken>, ?w]` in a rule with `?s` has one trigger atom. The triple
`<a> <broken> <x>` changes the case `?s = <a>` alone.

Invariant: only an added or retracted triple that matches a trigger atom can change a negation or a
group. An instant without such a triple changes no static conclusion.

Cost: a look-up for each predicate of the delta, and the triples of predicates with trigger atoms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from dotr.evaluation.joins.compile import Row
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.derivations import Derivation, bindings_of, derivation
from dotr.instant.datalog.closure.lower_strata import LowerLookup, LowerModel, groups, matches
from dotr.instant.datalog.closure.safety import bound_by
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import DatalogRule, GroupAggregate, Not
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import free_variables

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
