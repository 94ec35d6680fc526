"""Datalog over triples as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from dotr.model.algebra import AggregateCall, Expression, TriplePattern
from dotr.model.places import Span
from dotr.model.terms import Variable


@dataclass(frozen=True, slots=True)
class Not:
    """Negation as failure: no way to make all of these hold; variables that occur only here are existential (semantics.md, 2)."""

    body: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class FilterItem:
    """`FILTER(…)`: an error derives nothing."""

    __test__: ClassVar[bool] = False
    condition: Expression


@dataclass(frozen=True, slots=True)
class Bind:
    """`BIND(… AS ?v)`: an error derives nothing."""

    expression: Expression
    variable: Variable


@dataclass(frozen=True, slots=True)
class GroupAggregate:
    """`AGGREGATE(… ON ?key … BIND COUNT(?v) AS ?n …)`: one row a group, with its keys and results.

    The groups are those of the solutions of `body` by the terms of `keys`; without keys there is one group, of no solutions too. A group
    of which a result errs has no row. Variables of `body` that are no keys are its own.
    """

    body: tuple[TriplePattern | FilterItem | Bind, ...]
    keys: tuple[Variable, ...]
    results: tuple[tuple[Variable, AggregateCall], ...]


BodyItem: TypeAlias = TriplePattern | Not | FilterItem | Bind | GroupAggregate


@dataclass(frozen=True, slots=True)
class DatalogRule:
    """`head, … :- body, … .`; the order of the body has no meaning. `name` is a W3C row's name or file:line.

    `of_rule_set`: it is a row of a rule set, which is closed in every stratum and sees the rule set's own (hidden) predicates.
    """

    name: str
    head: tuple[TriplePattern, ...]
    body: tuple[BodyItem, ...]
    span: Span | None = None
    of_rule_set: bool = False
