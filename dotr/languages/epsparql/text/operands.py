"""Operands of EP-SPARQL, before the operators around them decide which are optional.

The FILTERs of an optional operand are the condition F of its combination; those of any other
operand are part of its pattern. So an operand keeps its FILTERs apart: `closed` adds them to the
pattern, `opened` returns both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.expressions import NO_GRAPH_HINT, FunctionUses, IntervalReader, report_function, tokens_of
from dotr.languages.epsparql.text.lexemes import UnitCursor
from dotr.model import dataclass
from dotr.model.algebra import Bgp, Expression, Extend, Filter, Join, Pattern, TriplePattern, is_hidden
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.time import Micros
from dotr.model.traverse import certain, free_variables, has_exists, in_scope
from dotr.syntax.sparql import grammar, parse_tokens
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.queries import QueryReader
from dotr.syntax.sparql.tokens import Token, TokenScan
from dotr.temporal.intervals.patterns import DURATION, END, START, Chain, InstantGroup, IntervalPattern

# Plain groups of EP-SPARQL: SPARQL's group graph patterns, by the grammar of `syntax.sparql`.
#
# Idea: a pattern is matched without functions of the interval. The FILTERs and BINDs of a basic group
# that depend on them are lifted into a `Chain` around its `InstantGroup`. In the group
# `{ ?x :p ?y FILTER(?y > 1) FILTER(?y > getSTARTTIME()) }` only the second FILTER is lifted.
# Source: ep-sparql.md, sections 2.1 and 2.2.


_PARTS: Final = ("TriplesBlock", "Filter", "Bind", "InlineData")
INTERVAL: Final = frozenset((START, END, DURATION))


@dataclass(slots=True)
class PlainOperand:
    """A plain group, before the operators around it decide whether it is optional.

    - `pattern`: without the FILTERs directly in its braces.
    - `conditions`: the conjuncts of these FILTERs, with their places.
    - `triples`: those of a basic group; empty for any other.
    - `uses`: functions of the interval in its FILTERs and BINDs.
    """

    pattern: Pattern
    conditions: tuple[tuple[Expression, Span], ...]
    triples: tuple[TriplePattern, ...]
    uses: FunctionUses
    span: Span
    problems: list[Diagnostic] = field(repr=False)

    def closed(self) -> IntervalPattern:
        """The pattern with its FILTERs."""
        if not self.triples:
            self._refuse(self.uses.in_filters)
        pattern, bindings, dependent = self._lifted()
        conditions = [condition for condition, _ in self.conditions]
        outside = tuple(condition for condition in conditions if not dependent.isdisjoint(free_variables(condition)))
        inside = tuple(condition for condition in conditions if condition not in outside)
        group = self._group(Filter(pattern, inside) if inside else pattern)
        return Chain(group, bindings, outside, None, self.span) if bindings or outside else group

    def opened(self) -> tuple[IntervalPattern, tuple[tuple[Expression, Span], ...]]:
        """The pattern without its FILTERs, and the FILTERs: F of an optional operand."""
        for condition, place in self.conditions:
            if has_exists(condition):
                self.problems.append(Diagnostic(TemporalCode.NO_GRAPH, "EXISTS in a FILTER of an optional part", place, NO_GRAPH_HINT))
        pattern, bindings, _ = self._lifted()
        group = self._group(pattern)
        return Chain(group, bindings, (), None, self.span) if bindings else group, self.conditions

    def _group(self, pattern: Pattern) -> InstantGroup:
        visible = tuple(name for name in in_scope(pattern) if not is_hidden(name))
        return InstantGroup(pattern, visible, certain(pattern) & frozenset(visible), self.triples, self.span)

    def _refuse(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            report_function(self.problems, token, "is in a group that is not basic")

    def _lifted(self) -> tuple[Pattern, tuple[tuple[Variable, Expression], ...], frozenset[Variable]]:
        """The pattern without the BINDs that depend on the interval, these BINDs in order, and all
        variables that depend on the interval.
        """
        dependent = INTERVAL
        if not self.uses.in_bindings:
            return self.pattern, (), dependent
        if not self.triples:
            self._refuse(self.uses.in_bindings)
            return self.pattern, (), dependent
        bindings: list[tuple[Variable, Expression]] = []
        result: Pattern = Bgp(())
        for part in _parts(self.pattern):
            if isinstance(part, Extend):
                if dependent.isdisjoint(free_variables(part.expression)):
                    result = Extend(result, part.variable, part.expression)
                else:
                    dependent |= {part.variable}
                    bindings.append((part.variable, part.expression))
                continue
            for name in dependent & frozenset(in_scope(part)):
                hint = f"Write the BIND last, or give it another variable and compare: FILTER(sameTerm(?{name}, ?other))."
                self.problems.append(Diagnostic(TemporalCode.LATER_TRIPLE, f"?{name} of a BIND is matched afterwards", self.span, hint))
            result = part if result == Bgp(()) else Join(result, part)
        return result, tuple(bindings), dependent


def _parts(pattern: Pattern) -> list[Pattern]:
    """The parts of a basic group in order: its triples, VALUES, and BINDs."""
    match pattern:
        case Join(left, right):
            return [*_parts(left), *_parts(right)]
        case Extend(inner, _, _):
            return [*_parts(inner), pattern]
        case Bgp(()):
            return []
        case _:
            return [pattern]


def read_plain_group(inner: Span, outer: Span, unit: TokenScan) -> PlainOperand | None:
    """The plain group between two braces; None after recorded problems.

    - `inner`: the text between the braces; `outer`: with the braces.
    - `unit`: the scan of the unit, for prefixes, and for the problems found.
    """
    tokens = tokens_of(inner, unit)
    readers: list[IntervalReader] = []
    basic: list[bool] = []
    conditions: list[tuple[Expression, Span]] = []

    def reader(scan_: TokenScan, no_references: str) -> IntervalReader:
        readers.append(IntervalReader(scan_, no_references))
        return readers[-1]

    def read(reading: QueryReader, node: ParseNode) -> Pattern:
        parts = node.part or [] if node.name == "GroupGraphPatternSub" else [node]
        basic.append(all(part.name in _PARTS for part in parts))
        pattern = reading.where(node)
        if node.name == "GroupGraphPatternSub" and isinstance(pattern, Filter) and any(part.name == "Filter" for part in parts):
            conditions.extend((condition, reading.condition_places.get(condition, outer)) for condition in pattern.conditions)
            return pattern.pattern
        return pattern

    try:
        pattern = parse_tokens(tokens, grammar.GROUP, read, no_references="", wrapper=("{ ", " }"), reader=reader, filters="")
    except Refused as refused:
        unit.problems += refused.diagnostics
        return None
    triples = _basic_triples(pattern, conditions) if basic[0] and not readers[0].has_path else ()
    return PlainOperand(pattern, tuple(conditions), triples, readers[0].uses, outer, unit.problems)


def _basic_triples(pattern: Pattern, conditions: Sequence[tuple[Expression, Span]]) -> tuple[TriplePattern, ...]:
    """The triple patterns of a basic group; none if the group has other patterns, or EXISTS."""
    items = [item for part in _parts(pattern) if isinstance(part, Bgp) for item in part.patterns]
    expressions = [part.expression for part in _parts(pattern) if isinstance(part, Extend)]
    if any(has_exists(each) for each in (*(condition for condition, _ in conditions), *expressions)):
        return ()
    triples = tuple(item for item in items if isinstance(item, TriplePattern))
    return triples if len(triples) == len(items) else ()


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
