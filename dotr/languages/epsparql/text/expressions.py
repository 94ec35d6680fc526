"""Expressions of EP-SPARQL: SPARQL's, with getDURATION(), getSTARTTIME() and getENDTIME().

Each of the three compiles to a variable of the interval
(`dotr.temporal.intervals.patterns.DURATION`, …).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.keywords import FUNCTIONS, PLAIN
from dotr.model import dataclass
from dotr.model.algebra import Attribute, BgpItem, Const, Expression, Link, Path, Slot, TimeOf, Var
from dotr.model.places import Span
from dotr.syntax.sparql import grammar, parse_tokens
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.queries import QueryReader
from dotr.syntax.sparql.quoted_triples import merge_quoted_tokens
from dotr.syntax.sparql.tokens import SparqlTokenKind, Token, TokenScan, scan

_WHERE_ALLOWED: Final = (
    "It is allowed in FILTER and BIND of a chain, in the SELECT line of a unit, and directly in the braces of a group of triples, "
    "FILTER, BIND and VALUES."
)
NO_SET_HINT: Final = (
    "Over a stream there is no set to work on. A sum is kept by a STREAM that reads itself, and a dotr rule can aggregate over the label."
)
NO_GRAPH_HINT: Final = (
    "Write it in the braces of a plain group, of an optional one with one more pair of braces; or OPTIONALSEQ and !BOUND(?x)."
)


@dataclass(slots=True)
class FunctionUses:
    """Places of functions of the interval in a plain group: in its FILTERs, and in its BINDs."""

    in_filters: list[Token] = field(default_factory=list)
    in_bindings: list[Token] = field(default_factory=list)


class IntervalReader(QueryReader):
    """Reader of plain groups and expressions.

    - `refused`: where the functions are refused everywhere, the place for messages; else empty.
    - `refuses_exists`: EXISTS is an error, because there is no graph to evaluate it over.
    - `uses`: functions directly in the group.
    - `has_path`: the group has a property path other than a predicate.
    """

    def __init__(self, scan_: TokenScan, no_references: str, refused: str = "", *, refuses_exists: bool = False) -> None:
        super().__init__(scan_, no_references)
        self.refused = refused
        self.refuses_exists = refuses_exists
        self.uses = FunctionUses()
        self.has_path = False
        self.no_aggregates = NO_SET_HINT

    def token_value(self, token: Token) -> Var | Const | Attribute | TimeOf:
        """Return the value of a token of one term; that of a function is its variable."""
        if token.kind is not SparqlTokenKind.REFERENCE or not isinstance(token.value, Var):
            return super().token_value(token)
        place = self.refused or ("" if self.no_references == "in BIND" else self.no_references)
        if place:
            report_function(self.problems, token, place)
            return Const('""')
        if self.no_references == "in BIND":
            self.uses.in_bindings.append(token)
        else:
            self.uses.in_filters.append(token)
        return token.value

    def variable(self, node: ParseNode) -> str:
        """Return the name of a variable that a query binds."""
        token = self.token(node)
        if token is not None and token.kind is SparqlTokenKind.REFERENCE:
            self.problem("Q110", f"{token.text} is no variable", token.span, "Write a variable.")
            return self.fresh()
        return super().variable(node)

    def _exists(self, node: ParseNode) -> Expression:
        if self.refuses_exists:
            hint = NO_GRAPH_HINT
            self.problem(TemporalCode.NO_GRAPH, "EXISTS where there is no graph to read", self.span(node), hint)
        return super()._exists(node)

    def _append_path(self, subject: Slot, path: Path, object_: Slot, items: list[BgpItem]) -> None:
        self.has_path |= not isinstance(path, Link)
        super()._append_path(subject, path, object_, items)


def report_function(problems: list[Diagnostic], token: Token, place: str) -> None:
    """Record E112 for a function, once for each place."""
    diagnostic = Diagnostic(TemporalCode.NO_INTERVAL, f"{token.text} {place}: there is no interval", token.span, _WHERE_ALLOWED)
    if diagnostic not in problems:
        problems.append(diagnostic)


def tokens_of(span: Span, unit: TokenScan) -> TokenScan:
    """The tokens of a part of a unit, with functions and quoted triples merged.

    `unit`: the scan of the unit, for its prefixes and base.
    """
    tokens = scan(span, unit.prefixes, PLAIN, unit.base)
    if not tokens.problems:
        merge_quoted_tokens(tokens)
    tokens.tokens[:] = _merge_functions(tokens.tokens, tokens.problems)
    return tokens


def _merge_functions(tokens: list[Token], problems: list[Diagnostic]) -> list[Token]:
    """The tokens with the three of each `getDURATION()` as one token."""
    merged: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        name = FUNCTIONS.get(token.text.upper()) if token.kind is SparqlTokenKind.WORD else None
        if name is None:
            merged.append(token)
            position += 1
            continue
        if [each.text for each in tokens[position + 1 : position + 3]] != ["(", ")"]:
            hint = f"Write {token.text}(): it takes no argument, and is of the solution that the expression is evaluated for."
            problems.append(Diagnostic(TemporalCode.UNEXPECTED, f"{token.text} without ()", token.span, hint))
            merged.append(Token(SparqlTokenKind.REFERENCE, token.text, token.span, Var(name)))
            position += 1
            continue
        span = Span(token.span.document, token.span.start, tokens[position + 2].span.end)
        merged.append(Token(SparqlTokenKind.REFERENCE, f"{token.text}()", span, Var(name)))
        position += 3
    return merged


@dataclass(frozen=True, slots=True)
class ParsedExpression:
    """An expression, and its conjuncts with their places, in the order of the text."""

    whole: Expression
    conjuncts: tuple[tuple[Expression, Span], ...]


def parse_interval_expression(span: Span, unit: TokenScan, *, as_constraint: bool = False) -> ParsedExpression | None:
    """The expression of a FILTER, BIND or SELECT line of a chain; None after recorded problems.

    - `unit`: the scan of the unit, for prefixes, and for the problems found.
    - `as_constraint`: the text follows FILTER: an expression in brackets, or a call.
    """
    tokens = tokens_of(span, unit)
    found: list[ParsedExpression] = []

    def read(reading: QueryReader, node: ParseNode) -> Expression:
        parts = [(reading.expression(part), reading.span(part)) for part in reading.conjuncts(node)]
        whole = reading.expression(node)
        found.append(ParsedExpression(whole, tuple(parts)))
        return whole

    def reader(scan_: TokenScan, no_references: str) -> IntervalReader:
        return IntervalReader(scan_, no_references, refuses_exists=True)

    if not tokens.tokens and not tokens.problems:
        unit.problems.append(Diagnostic("Q101", "an expression is missing", span))
        return None
    try:
        if as_constraint:
            return _constraint(tokens, reader)
        parse_tokens(tokens, grammar.EXPRESSION, read, no_references="", reader=reader)
    except Refused as refused:
        unit.problems += refused.diagnostics
        return None
    return found[0]


def _constraint(tokens: TokenScan, reader: Callable[[TokenScan, str], QueryReader]) -> ParsedExpression:
    """The condition behind FILTER, parsed as the group `{ FILTER … }`."""
    found: list[ParsedExpression] = []

    def read(reading: QueryReader, node: ParseNode) -> tuple[Expression, ...]:
        parts = node.part or [] if node.name == "GroupGraphPatternSub" else [node]
        conjuncts = [(reading.expression(each), reading.span(each)) for part in parts for each in reading.conjuncts(part.expr)]
        whole = tuple(expression for expression, _ in conjuncts)
        found.append(ParsedExpression(whole[0], tuple(conjuncts)))
        return whole

    parse_tokens(tokens, grammar.GROUP, read, no_references="", wrapper=("{ FILTER ", " }"), reader=reader, filters="")
    return found[0]
