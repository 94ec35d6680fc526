"""rdflib's SPARQL grammar over stand-ins (`tokens.py`): the tree of a text, or the token at which it stops being SPARQL.

The trees are only read, and kept by their text: queries of one shape are parsed once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, TypeAlias

from pyparsing import Keyword, Literal, ParseBaseException, ParserElement
from rdflib.plugins.sparql import parser as rdflib_parser

from dotr.errors.diagnostics import DotrError

ParseNode: TypeAlias = Any
"""A node of rdflib's tree: a CompValue, a rdflib term, a keyword, or a list of them."""

QUERY: Final[ParserElement] = rdflib_parser.SelectQuery
EXPRESSION: Final[ParserElement] = rdflib_parser.Expression
GROUP: Final[ParserElement] = rdflib_parser.GroupGraphPattern

# An operand is most often a variable or a constant, which rdflib tries behind its sixty functions. The order changes what is tried first,
# not what is found: no two of these begin alike.
rdflib_parser.PrimaryExpression.exprs = [  # type: ignore[attr-defined]
    rdflib_parser.Var,
    rdflib_parser.NumericLiteral,
    rdflib_parser.RDFLiteral,
    rdflib_parser.BrackettedExpression,
    rdflib_parser.iriOrFunction,
    rdflib_parser.BuiltInCall,
    rdflib_parser.BooleanLiteral,
]

_RECURSION_LIMIT: Final = 60_000


class Unparsed(DotrError):
    """Where in the text, and the words or marks that could have stood there; `offset` is None if it is nested too deeply."""

    def __init__(self, offset: int | None, expected: tuple[str, ...] = ()) -> None:
        super().__init__(offset, expected)
        self.offset = offset
        self.expected = expected


@lru_cache(maxsize=4096)
def parse(element: ParserElement, text: str) -> ParseNode:
    """The tree of a text (raises `Unparsed`)."""
    with raised_recursion_limit():
        try:
            return element.parse_string(text, parse_all=True)[0]
        except ParseBaseException:
            pass
        except RecursionError:
            raise Unparsed(None) from None
        raise Unparsed(*_furthest_failure(element, text))


@contextmanager
def raised_recursion_limit() -> Iterator[None]:
    """The grammar costs about 60 Python frames for a pair of parentheses."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _furthest_failure(element: ParserElement, text: str) -> tuple[int, tuple[str, ...]]:
    """Parse again and note the furthest place at which a terminal was looked for in vain."""
    place, expected = 0, set[str]()

    def note(_: str, offset: int, terminal: ParserElement, __: Exception) -> None:
        nonlocal place
        while offset < len(text) and text[offset] == " ":
            offset += 1
        if offset > place:
            place = offset
            expected.clear()
        if offset == place and isinstance(terminal, Literal | Keyword):
            expected.add(terminal.match)

    terminals = _terminals(element)
    _set_fail_action(terminals, note)
    try:
        element.parse_string(text, parse_all=True)
    except ParseBaseException as stopped:
        # What is left over after a whole query was looked at by no terminal.
        if stopped.loc > place:
            place = stopped.loc
            expected.clear()
    finally:
        _set_fail_action(terminals, None)
    return place, tuple(sorted(expected))


def _set_fail_action(terminals: tuple[ParserElement, ...], action: Callable[[str, int, ParserElement, Exception], None] | None) -> None:
    for terminal in terminals:
        terminal.failAction = action


@lru_cache(maxsize=4)
def _terminals(element: ParserElement) -> tuple[ParserElement, ...]:
    seen: dict[int, ParserElement] = {}
    waiting = [element]
    while waiting:
        this = waiting.pop()
        if id(this) not in seen:
            seen[id(this)] = this
            waiting += getattr(this, "exprs", None) or []
            inner = getattr(this, "expr", None)
            if inner is not None:
                waiting.append(inner)
    return tuple(e for e in seen.values() if not hasattr(e, "exprs") and not hasattr(e, "expr"))
