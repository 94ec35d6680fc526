"""Which triples decide over NOT and AGGREGATE: the atoms inside them, found by predicate and object.

A triple that comes or goes and matches such an atom can make a negation false or true, or change a group. Nothing else can: an instant
that touches no watched atom changes no static conclusion.
Cost: of asking, the predicates of what came and went, and the triples of those that are watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from dotr.datalog.derivations import Derivation, derivation, bindings_of
from dotr.datalog.lower_strata import LowerLookup, LowerModel, groups, matches
from dotr.datalog.safety import bound_by
from dotr.joins.compile import Row
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import DatalogRule, GroupAggregate, Not
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import free_variables
from dotr.store.triples import TripleIndex

TriggerTable: TypeAlias = Mapping[Term, Mapping[Term | None, object]]
"""What is found by predicate and then by object (None: any)."""

PredicatesRead: TypeAlias = Mapping[Term, frozenset[Term] | None]
"""Kinds of triples: predicates, with these objects or (None) with any."""


def predicates_read(tables: Iterable[TriggerTable | None]) -> PredicatesRead | None:
    """The kinds of triples that something is found for; None: all.

    >>> predicates_read([{"<p>": {"<o>": 1}}, {"<p>": {"<u>": 2}, "<q>": {None: 3, "<o>": 4}}]) == {"<p>": {"<o>", "<u>"}, "<q>": None}
    True
    """
    found: dict[Term, frozenset[Term] | None] = {}
    for each in tables:
        if each is None:
            return None
        for predicate, by_object in each.items():
            known = found.get(predicate, frozenset())
            found[predicate] = None if known is None or None in by_object else known | {o for o in by_object if o is not None}
    return found


@dataclass(frozen=True, eq=False)
class NonmonotonicItem:
    """A NOT or an AGGREGATE in the body of a rule. `names` are what tells its cases apart: the variables that it shares with the rule, or
    the keys."""

    rule: DatalogRule
    stratum: int
    number: int
    item: Not | GroupAggregate

    @cached_property
    def case_variables(self) -> tuple[Variable, ...]:
        if isinstance(self.item, GroupAggregate):
            return self.item.keys
        outer = bound_by(self.rule.body)
        return tuple(name for name in free_variables(self.item) if name in outer)

    @cached_property
    def derive(self) -> Derivation:
        """The rule from a case: the terms of `names`, and of an aggregate's results."""
        if isinstance(self.item, Not):
            return derivation(self.rule, self.stratum, self.case_variables)
        return derivation(self.rule, self.stratum, (*self.case_variables, *(name for name, _ in self.item.results)), self.number)

    @cached_property
    def _groups(self) -> LowerLookup:
        assert isinstance(self.item, GroupAggregate)
        return groups(self.item, self.item.keys)

    def results(self, model: LowerModel, case: Row) -> list[Row]:
        """What an aggregate makes of a group: one row, or none."""
        return self._groups(model, *case)


@dataclass(frozen=True, eq=False)
class TriggerAtom:
    """An atom inside a NOT or an AGGREGATE."""

    source: NonmonotonicItem
    atom: TriplePattern
    number: int

    @cached_property
    def _cases(self) -> LowerLookup:
        return matches(self.source.item.body, free_variables(self.atom), self.source.case_variables, self.number)

    def cases(self, triple: Triple, model: LowerModel) -> list[Row]:
        """The cases that a triple may decide over, where the other atoms hold in a model; each once."""
        terms = bindings_of(self.atom, triple)
        return [] if terms is None else list(dict.fromkeys(self._cases(model, *terms.values())))


class TriggerAtoms:
    """The watched atoms of some rules."""

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
        """Where the watched atoms are found; None: anywhere."""
        return None if self._free else self._fixed

    def triggered_by(self, triples: TripleIndex) -> Iterator[tuple[TriggerAtom, Triple]]:
        """The watched atoms that triples may match, with the triples."""
        for predicate, by_object in triples.by_object.items():
            by_constant = self._fixed.get(predicate)
            if by_constant is not None:
                yield from _triggered(by_constant, predicate, by_object, triples)
        if self._free:
            for triple in triples.visible():
                for watch in self._free:
                    yield watch, triple


def _triggered(
    triggers: Mapping[Term | None, Sequence[TriggerAtom]], predicate: Term, by_object: Mapping[Term, Sequence[Term]], triples: TripleIndex
) -> Iterator[tuple[TriggerAtom, Triple]]:
    for watch in triggers.get(None, ()):
        for triple in triples.match(None, predicate, None):
            yield watch, triple
    for object in triggers if len(triggers) < len(by_object) else by_object:
        if object is not None and object in triggers and object in by_object:
            for watch in triggers[object]:
                for subject in by_object[object]:
                    yield watch, (subject, predicate, object)
