"""The depth of brackets in a text, counted before a parser sees it: pyoxigraph recurses into triple terms, and ends the process there.

A bracket is `(`, `[`, `{`, `{|`, `<<` or `<<(`; those in IRIs, quoted text and comments are none. Counting errs upwards alone: a quote
that is never closed is skipped, so what is behind it counts.
Cost: 0.1 µs for a text with fewer opening characters than the limit; else one pass of a tokeniser, 100 MB/s and
0.5 µs a bracket.
"""

from __future__ import annotations

import re
from typing import AnyStr, Final

from dotr.errors.diagnostics import DotrError

_TURTLE: Final = (
    r"(?:[^#\"'\\<>()\[\]{}|]++"
    r"|#[^\r\n]*+"
    r'|"""(?:[^"\\]++|\\.|"(?!""))*+"""'
    r"|'''(?:[^'\\]++|\\.|'(?!''))*+'''"
    r'|"(?:[^"\\\r\n]++|\\.)*+"'
    r"|'(?:[^'\\\r\n]++|\\.)*+'"
    r"|\\."
    r"|<[^<>\"{}|^`\x00-\x20]*+>)*+"
    r"(?:(?P<open><<\(|<<|\{\||[(\[{])|(?P<close>\)>>|>>|\|\}|[)\]}])|.|\Z)"
)
_JSON: Final = r'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+(?:(?P<open>[\[{])|(?P<close>[\]}])|.|\Z)'
"""What stands between two brackets, and the second one: a match a bracket, since a match costs more than what it passes over."""

_TOKENS: Final = re.compile(_TURTLE, re.DOTALL), re.compile(_TURTLE.encode(), re.DOTALL)
_JSON_TOKENS: Final = re.compile(_JSON, re.DOTALL), re.compile(_JSON.encode(), re.DOTALL)
OPENING: Final = b"([{<"
"""The characters that brackets open with."""


class TextLimitExceeded(DotrError, ValueError):
    """Text that a limit keeps from the parser, or that is longer than it can read. `place` is the offset of the first bracket too deep."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


def check_nesting(text: str | bytes, limit: int) -> None:
    """Raises `TextLimitExceeded` where brackets of Turtle, TriG or N-Quads are nested deeper than the limit.

    >>> check_nesting(":a :p [ :q ( 1 2 ) ], ( ( ) )", 2)
    >>> check_nesting(":a :p [ :q ( 1 2 ( 3 ) ) ] .", 2)
    Traceback (most recent call last):
    dotr.languages.turtle.nesting.TextLimitExceeded: it is nested too deeply: more than 2 brackets in each other (limits.nesting)
    >>> check_nesting(":a :b << :a :b (1)>>, << :a :b (1)>>, << :a :b (1)>> .", 2)
    >>> check_nesting(b'<a:(> <b:[> "((", <<( <c:> <d:> "<<(" )>> . # (((', 1)
    """
    if len(text) <= limit:
        return
    if isinstance(text, bytes):
        if len(text) - len(text.translate(None, OPENING)) > limit and sum(map(text.count, (b"[", b"(", b"{", b"<<"))) > limit:
            _check_depth(_TOKENS[1], text, limit)
    elif ("[" in text or "(" in text or "<<" in text or "{" in text) and sum(map(text.count, ("[", "(", "{", "<<"))) > limit:
        _check_depth(_TOKENS[0], text, limit)


def check_json_nesting(text: str | bytes, limit: int) -> None:
    """Raises `TextLimitExceeded` where objects and arrays of JSON are nested deeper than the limit.

    >>> check_json_nesting('{"a": ["[[["]}', 2)
    >>> check_json_nesting(b'{"a": [[1]]}', 2)
    Traceback (most recent call last):
    dotr.languages.turtle.nesting.TextLimitExceeded: it is nested too deeply: more than 2 brackets in each other (limits.nesting)
    """
    if isinstance(text, bytes):
        if text.count(b"{") + text.count(b"[") > limit:
            _check_depth(_JSON_TOKENS[1], text, limit)
    elif text.count("{") + text.count("[") > limit:
        _check_depth(_JSON_TOKENS[0], text, limit)


_CLOSES: Final = {")": ("(",), "]": ("[",), "}": ("{",), "|}": ("{|",), ">>": ("<<", "<<("), ")>>": ("<<(",)}


def _check_depth(tokens: re.Pattern[AnyStr], text: AnyStr, limit: int) -> None:
    """A bracket closes the innermost open one of its kind alone: `)>>` is one bracket behind `<<(`, and two behind `(` inside of `<<`."""
    opened: list[str] = []
    for token in tokens.finditer(text):
        kind = token.lastgroup
        if kind is None:
            continue
        found = token[kind]
        bracket = found.decode() if isinstance(found, bytes) else found
        if kind == "open":
            opened.append(bracket)
            if len(opened) > limit:
                raise TextLimitExceeded(
                    f"it is nested too deeply: more than {limit:,} brackets in each other (limits.nesting)", token.start(kind)
                )
            continue
        if bracket == ")>>" and opened and opened[-1] == "(":
            opened.pop()
            bracket = ">>"
        if opened and opened[-1] in _CLOSES[bracket]:
            opened.pop()
