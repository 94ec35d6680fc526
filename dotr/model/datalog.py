"""Datalog rules over triples."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from dotr.model import dataclass
from dotr.model.algebra import AggregateCall, Expression, Slot, TriplePattern
from dotr.model.places import Span
from dotr.model.terms import Variable


@dataclass(frozen=True, slots=True)
class RelationAtom:
    """An atom of a relation that is no property and no class: `relation(slot, …)`.

    It is for rules over windows (`dotr.temporal.horizons`), and has no syntax in `.dlog` files.
    Constants may be any values that a row of the relation holds.
    """

    relation: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation as failure: no substitution makes all atoms of `body` hold.

    Variables that occur only in `body` are existential (semantics.md, section 2).
    """

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
    """`AGGREGATE(… ON ?key … BIND COUNT(?v) AS ?n …)`: one row per group, of its keys and results.

    The solutions of `body` are grouped by the terms of `keys`. Without keys there is a single
    group, which may be empty. A group with an error in a result has no row. Variables of `body`
    other than the keys are local.
    """

    body: tuple[TriplePattern | FilterItem | Bind, ...]
    keys: tuple[Variable, ...]
    results: tuple[tuple[Variable, AggregateCall], ...]


BodyItem: TypeAlias = TriplePattern | Not | FilterItem | Bind | GroupAggregate


@dataclass(frozen=True, slots=True)
class DatalogRule:
    """`head, … :- body, … .`

    - `name`: the name of a row of a W3C rule set, or file:line.
    - `body`: items, in any order.
    - `of_rule_set`: the rule is a row of a built-in rule set, which is evaluated in every stratum
      and may use the hidden predicates of the rule set.
    """

    name: str
    head: tuple[TriplePattern, ...]
    body: tuple[BodyItem, ...]
    span: Span | None = None
    of_rule_set: bool = False
