"""Datalog over triples as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from dotr.model.algebra import Expression, TriplePattern
from dotr.model.places import Span
from dotr.model.terms import Variable


@dataclass(frozen=True, slots=True)
class Not:
    """Negation as failure: no way to make all of these hold; variables that occur only here are existential (semantics.md, 2)."""

    body: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class Test:
    """`FILTER(…)`: an error derives nothing."""

    __test__: ClassVar[bool] = False
    condition: Expression


@dataclass(frozen=True, slots=True)
class Bind:
    """`BIND(… AS ?v)`: an error derives nothing."""

    expression: Expression
    variable: Variable


BodyItem: TypeAlias = TriplePattern | Not | Test | Bind


@dataclass(frozen=True, slots=True)
class DatalogRule:
    """`head, … :- body, … .`; the order of the body has no meaning. `name` is a W3C row's name or file:line."""

    name: str
    head: tuple[TriplePattern, ...]
    body: tuple[BodyItem, ...]
    span: Span | None = None
