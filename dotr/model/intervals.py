"""Event patterns over time: what MATCH of a continuous query, and later EP-SPARQL, compile to.

A *mapping* of a pattern is bindings with the first and the last time of what was matched.
Source: continuous.md, section 7; ep-sparql.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from dotr.model.algebra import Pattern
from dotr.model.places import Span
from dotr.model.terms import Term, Variable


@dataclass(frozen=True, slots=True)
class PlainGroup:
    """`EVENT w AT ?v { P }`: each solution of P over one item is a mapping, at the item's time.

    - `window`: the window whose items are matched, by its IRI.
    - `pattern`: P, triple patterns and FILTERs.
    - `time`: the variable that has the item's time, written as `time(L)` is; None without AT.
    """

    window: Term
    pattern: Pattern
    time: Variable | None
    span: Span


class Edge(Enum):
    """`FIRST E` and `LAST E`: the mappings with the least, greatest (last, first time); ties: all."""

    FIRST = "FIRST"
    LAST = "LAST"


@dataclass(frozen=True, slots=True)
class Outermost:
    """`FIRST E` or `LAST E`."""

    edge: Edge
    events: EventPattern


class SequencePolicy(Enum):
    """Choice of SEQ among the pairs that agree and follow each other.

    - UNRESTRICTED: `A SEQ B`, all of them.
    - NAIVE: LAST A and LAST B, each by itself.
    - CHRONOLOGICAL, RECENT: of B's mappings that have an A the first, or last, with its first, or
      last, A.
    """

    UNRESTRICTED = ""
    NAIVE = "NAIVE"
    CHRONOLOGICAL = "CHRONOLOGICAL"
    RECENT = "RECENT"


@dataclass(frozen=True, slots=True)
class Ordered:
    """`A SEQ B`: mappings that agree, the left one ending strictly before the right one begins."""

    left: EventPattern
    right: EventPattern
    policy: SequencePolicy


EventPattern: TypeAlias = PlainGroup | Outermost | Ordered
"""The pattern inside MATCH."""


@dataclass(frozen=True, slots=True)
class MatchBlock:
    """`MATCH { E }`; a triple that a `consuming` one has used is not matched at later reports.

    `variables`: those that a mapping binds, in order of appearance; blank nodes of E are none.
    """

    events: EventPattern
    consuming: bool
    variables: tuple[Variable, ...]
    span: Span


def plain_groups(events: EventPattern) -> tuple[PlainGroup, ...]:
    """Return the EVENTs of a pattern, in the order of the text."""
    match events:
        case PlainGroup():
            return (events,)
        case Outermost(_, inner):
            return plain_groups(inner)
        case Ordered(left, right, _):
            return plain_groups(left) + plain_groups(right)
