"""Operands of EP-SPARQL, before the operators around them decide which are optional.

The FILTERs of an optional operand are the condition F of its combination; those of any other
operand are part of its pattern. So an operand keeps its FILTERs apart: `closed` adds them to the
pattern, `opened` returns both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dotr.languages.epsparql.text.groups import PlainOperand
from dotr.languages.epsparql.text.lexemes import UnitCursor
from dotr.model.algebra import Expression
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.time import Micros
from dotr.temporal.intervals.patterns import Chain, IntervalPattern

Condition: TypeAlias = tuple[Expression, Span]
"""A conjunct of a FILTER with its place."""


@dataclass(slots=True)
class BracedOperand:
    """`{ CHAIN }`."""

    pattern: IntervalPattern
    bindings: tuple[tuple[Variable, Expression], ...]
    conditions: tuple[Condition, ...]
    within: Micros | None
    span: Span

    def closed(self) -> IntervalPattern:
        """The pattern with its FILTERs."""
        return chained(self.pattern, self.bindings, [condition for condition, _ in self.conditions], self.within, self.span)

    def opened(self) -> tuple[IntervalPattern, tuple[Condition, ...]]:
        """The pattern without its FILTERs, and the FILTERs: F of an optional operand."""
        return chained(self.pattern, self.bindings, (), self.within, self.span), self.conditions


@dataclass(slots=True)
class BareOperand:
    """An EVENT, a UNION without braces of its own, or a combination: it has no F."""

    pattern: IntervalPattern

    def closed(self) -> IntervalPattern:
        """The pattern."""
        return self.pattern

    def opened(self) -> tuple[IntervalPattern, tuple[Condition, ...]]:
        """The pattern, and no FILTER."""
        return self.pattern, ()


ParsedOperand: TypeAlias = PlainOperand | BracedOperand | BareOperand


@dataclass(frozen=True, slots=True)
class ParsedChain:
    """A chain; `operand` is None after recorded problems.

    `is_bare`: operands and operators without FILTER, BIND and WITHIN behind them.
    """

    operand: ParsedOperand | None
    is_bare: bool


def chained(
    pattern: IntervalPattern,
    bindings: Sequence[tuple[Variable, Expression]],
    filters: Sequence[Expression],
    within: Micros | None,
    span: Span,
) -> IntervalPattern:
    """A `Chain` of the pattern and these parts; the pattern itself if there are none."""
    if not bindings and not filters and within is None:
        return pattern
    return Chain(pattern, tuple(bindings), tuple(filters), within, span)


@dataclass(slots=True)
class ChainPlaces:
    """Places in the text of a unit, for checks after parsing.

    - `within`: the place and duration, in µs, of each WITHIN.
    - `conditions`: the (first) place of each conjunct of a FILTER.
    """

    within: list[tuple[Span, Micros]] = field(default_factory=list)
    conditions: dict[Expression, Span] = field(default_factory=dict)


def is_union(cursor: UnitCursor, first: int, end: int) -> bool:
    """True if `lexemes[first:end]` are one UNION and FILTERs without EXISTS, and nothing else."""
    branches, unions = 0, 0
    index = first
    while index < end:
        lexeme = cursor.lexemes[index]
        word = lexeme.text.upper() if lexeme.group == "word" else ""
        if lexeme.text == "{" and branches == unions:
            branches += 1
            index = cursor.closing(index) + 1
        elif word == "UNION" and branches == unions + 1:
            unions += 1
            index += 1
        elif word == "FILTER" and (branches == unions + 1 or not branches):
            index += 1
            while index < end and cursor.lexemes[index].text not in ("(", "{"):
                index += 1
            if index == end or cursor.lexemes[index].text == "{":
                return False
            closed = cursor.closing(index)
            if any(part.group == "word" and part.text.upper() == "EXISTS" for part in cursor.lexemes[index:closed]):
                return False
            index = closed + 1
        else:
            return False
    return unions > 0 and branches == unions + 1
