"""Parsing with rdflib's SPARQL grammar; texts have placeholders for terminals (`tokens.py`).

The result is rdflib's tree, or the position of the first token that the grammar does not accept.
The elements that parse are copies, made at the first text: rdflib's own, which the user's process
may parse with, stay as they are, and the copies look for no comments, which placeholders never are.
Invariant: trees are cached by their text, so they are read-only. Queries that differ only in
terminals have the same text and are parsed once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from pyparsing import Forward, Keyword, Literal, MatchFirst, ParseBaseException, ParserElement
from rdflib.plugins.sparql import parser as rdflib_parser

from dotr.errors.diagnostics import DotrError

ParseNode: TypeAlias = Any
"""A node of rdflib's tree: a CompValue, an rdflib term, a keyword, or a list of nodes."""

QUERY: Final[ParserElement] = rdflib_parser.SelectQuery
EXPRESSION: Final[ParserElement] = rdflib_parser.Expression
GROUP: Final[ParserElement] = rdflib_parser.GroupGraphPattern

_RECURSION_LIMIT: Final = 60_000


class Unparsed(DotrError):
    """Raised for a text that the grammar does not accept.

    - `offset`: position of the first unacceptable token; None if the text is nested too deeply.
    - `expected`: keywords and marks that are accepted there.
    """

    def __init__(self, offset: int | None, expected: tuple[str, ...] = ()) -> None:
        super().__init__(offset, expected)
        self.offset = offset
        self.expected = expected


@lru_cache(maxsize=4096)
def parse(element: ParserElement, text: str) -> ParseNode:
    """Return the tree of a text; raises `Unparsed`."""
    element = copies()[element]
    with raised_recursion_limit():
        try:
            return element.parse_string(text, parse_all=True)[0]
        except ParseBaseException:
            pass
        except RecursionError:
            raise Unparsed(None) from None
        raise Unparsed(*_furthest_failure(element, text))


@cache
def copies() -> dict[ParserElement, ParserElement]:
    """The copies of all elements below `QUERY`, `EXPRESSION` and `GROUP`, by rdflib's element."""
    own: dict[ParserElement, ParserElement] = {}
    pending = [QUERY, EXPRESSION, GROUP]
    while pending:
        element = pending.pop()
        if element not in own:
            own[element] = copied = object.__new__(type(element))
            # pyparsing spells an element without a name out, for messages that nobody reads
            vars(copied).update(vars(element), ignoreExprs=[], customName=element.customName or "…")
            pending += element.recurse()
    for copied in own.values():
        parts = vars(copied)
        if "exprs" in parts:
            parts["exprs"] = [own[each] for each in parts["exprs"]]
        for name in ("expr", "content"):  # the content of a list `a, b` is a part of its expression as well
            if name in parts:
                parts[name] = own[parts[name]]
    # Most operands are variables or constants, which rdflib tries after its sixty functions. The order
    # of these alternatives does not change the result: no two of them begin with the same token.
    own[rdflib_parser.PrimaryExpression].exprs = [  # type: ignore[attr-defined]
        own[rdflib_parser.Var],
        own[rdflib_parser.NumericLiteral],
        own[rdflib_parser.RDFLiteral],
        own[rdflib_parser.BrackettedExpression],
        own[rdflib_parser.iriOrFunction],
        own[rdflib_parser.BuiltInCall],
        own[rdflib_parser.BooleanLiteral],
    ]
    # SPARQL 1.2 has `!` before every unary expression (`!!?x`, `!-?x`), 1.1 before a primary one only.
    negation: ParseNode = own[rdflib_parser.UnaryExpression]
    while isinstance(negation, MatchFirst):
        negation = negation.exprs[0]
    negation.expr.exprs[1].expr = Forward() << own[rdflib_parser.UnaryExpression]  # behind "!", in place of a primary expression
    return own


@contextmanager
def raised_recursion_limit() -> Iterator[None]:
    """Raise Python's recursion limit: the grammar needs about 60 frames per pair of parentheses."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _furthest_failure(element: ParserElement, text: str) -> tuple[int, tuple[str, ...]]:
    """Parse again; return the furthest offset of a failed terminal, and the terminals there."""
    furthest, expected = 0, set[str]()

    def record(_: str, offset: int, terminal: ParserElement, __: Exception) -> None:
        nonlocal furthest
        while offset < len(text) and text[offset] == " ":
            offset += 1
        if offset > furthest:
            furthest = offset
            expected.clear()
        if offset == furthest and isinstance(terminal, Literal | Keyword):
            expected.add(terminal.match)

    terminals = _terminals(element)
    _set_fail_action(terminals, record)
    try:
        element.parse_string(text, parse_all=True)
    except ParseBaseException as stopped:
        # No terminal is tried on the text after a complete query.
        if stopped.loc > furthest:
            furthest = stopped.loc
            expected.clear()
    finally:
        _set_fail_action(terminals, None)
    return furthest, tuple(sorted(expected))


def _set_fail_action(terminals: tuple[ParserElement, ...], action: Callable[[str, int, ParserElement, Exception], None] | None) -> None:
    for terminal in terminals:
        terminal.failAction = action


@cache
def _terminals(element: ParserElement) -> tuple[ParserElement, ...]:
    return tuple(each for each in element.visit_all() if not each.recurse())  # type: ignore[no-untyped-call]
