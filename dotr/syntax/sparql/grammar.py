"""Parsing with rdflib's SPARQL grammar; texts have placeholders for terminals (`tokens.py`).

The result is rdflib's tree, or the position of the first token that the grammar does not accept.
The elements that parse are copies, made at the first text: rdflib's own, which the user's process
may parse with, stay as they are. The copies look for no comments, which placeholders never are, and
of alternatives they try only those that can begin with the next character (`_Choice`).
Invariant: trees are cached by their text, so they are read-only. Queries that differ only in
terminals have the same text and are parsed once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from pyparsing import (
    And,
    Forward,
    Keyword,
    Literal,
    MatchFirst,
    Opt,
    ParseBaseException,
    ParseException,
    ParserElement,
    ParseResults,
    Regex,
    ZeroOrMore,
)
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
    with raised_recursion_limit():
        try:
            return copies()[element].parse_string(text, parse_all=True)[0]
        except ParseBaseException:
            pass
        except RecursionError:
            raise Unparsed(None) from None
        raise Unparsed(*_furthest_failure(copies(choosing=False)[element], text))


class _Choice(MatchFirst):
    """A choice of which only the alternatives are tried that can begin with the next character.

    For example, of rdflib's sixty functions, variables and constants, `?t0` leaves the variable.
    """

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> Any:
        for each in _beginning(self, _next_character(instring, loc)):
            try:
                return each._parse(instring, loc, do_actions)
            except (ParseException, IndexError):
                continue
        raise ParseException(instring, loc, "no alternative", self)


class _Option(Opt):
    """An option that is left out at once where it cannot begin with the next character."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> Any:
        if not _can_begin(self.expr, _next_character(instring, loc)):
            return loc, []
        return super().parseImpl(instring, loc, do_actions)


class _Repetition(ZeroOrMore):
    """A repetition that ends at once where it cannot begin with the next character."""

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> Any:
        if not _can_begin(self.expr, _next_character(instring, loc)):
            return loc, ParseResults([], name=self.resultsName)
        return super().parseImpl(instring, loc, do_actions)


_CHOOSING: Final[dict[type, type]] = {MatchFirst: _Choice, Opt: _Option, ZeroOrMore: _Repetition}


def _next_character(text: str, loc: int) -> str:
    """The first character from `loc` on that is no blank; empty at the end."""
    while text[loc : loc + 1].isspace():
        loc += 1
    return text[loc : loc + 1]


@cache
def _beginning(choice: MatchFirst, character: str) -> tuple[ParserElement, ...]:
    return tuple(each for each in choice.exprs if _can_begin(each, character))


@cache
def _can_begin(element: ParserElement, character: str) -> bool:
    """False if no text of the element begins with the character; it may be empty otherwise."""
    if isinstance(element, Opt | ZeroOrMore):
        return True
    if isinstance(element, Regex):
        # "[0-9]+" begins with a digit, "_:…" with "_"; a pattern of another form may begin with anything
        beginning = re.match(r"[_\"']|\[[^\]]*\](?![*?{])(?!.*\|)", element.re.pattern, re.DOTALL)
        return beginning is None or re.match(beginning[0], character) is not None
    parts = element.recurse()
    if not parts:
        mark: str = element.match  # type: ignore[attr-defined]
        return mark[0].casefold() == character.casefold()
    if not isinstance(element, And):
        return any(_can_begin(each, character) for each in parts)
    for each in parts:
        if not _is_optional(each):
            return _can_begin(each, character)
        if not isinstance(each, Opt | ZeroOrMore) or _can_begin(each.expr, character):
            return True
    return True


@cache
def _is_optional(element: ParserElement) -> bool:
    """True if the element may be empty."""
    if isinstance(element, Opt | ZeroOrMore):
        return True
    if isinstance(element, Regex):
        return element.re.match("") is not None
    parts = element.recurse()
    return any(map(_is_optional, parts)) if isinstance(element, MatchFirst) else bool(parts) and all(map(_is_optional, parts))


@cache
def copies(*, choosing: bool = True) -> dict[ParserElement, ParserElement]:
    """The copies of all elements below `QUERY`, `EXPRESSION` and `GROUP`, by rdflib's element.

    - `choosing`: copies that look at the next character before they try an alternative; such
      copies do not try all terminals that are accepted at a place, which a message names.
    """
    own: dict[ParserElement, ParserElement] = {}
    pending = [QUERY, EXPRESSION, GROUP]
    while pending:
        element = pending.pop()
        if element not in own:
            kind = type(element)
            copied: ParserElement = object.__new__(_CHOOSING.get(kind, kind) if choosing else kind)
            own[element] = copied
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
