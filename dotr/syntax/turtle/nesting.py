"""Limit of bracket nesting, checked before parsing: pyoxigraph recurses without limit.

A bracket is `(`, `[`, `{`, `{|`, `<<` or `<<(`, outside IRIs, quoted text and comments. The depth
may be overestimated, never underestimated: brackets after an unclosed quote are counted.
Cost: 0.1 µs for a text with fewer opening characters than the limit; otherwise one pass of a
tokenizer, 100 MB/s plus 0.5 µs per bracket.
"""

from __future__ import annotations

import re
from typing import AnyStr, Final

from dotr.errors.diagnostics import DotrError
from dotr.syntax.lexemes import COMMENT, IRI, LONG_STRING, STRING

_TURTLE: Final = (
    rf"(?>(?:[^#\"'\\<>()\[\]{{}}|]++|{COMMENT}|{LONG_STRING}|{STRING}|\\.|{IRI})*)"
    r"(?:(?P<open><<\(|<<|\{\||[(\[{])|(?P<close>\)>>|>>|\|\}|[)\]}])|.|\Z)"
)
_JSON: Final = r'(?>(?:[^"\[\]{}]++|"(?>(?:[^"\\]++|\\.)*)")*)(?:(?P<open>[\[{])|(?P<close>[\]}])|.|\Z)'
"""Text up to the next bracket, and the bracket.

A match costs more than the text that it skips, so `_JSON` and `_TURTLE` match once per bracket.
"""

_TOKENS: Final = re.compile(_TURTLE, re.DOTALL), re.compile(_TURTLE.encode(), re.DOTALL)
_JSON_TOKENS: Final = re.compile(_JSON, re.DOTALL), re.compile(_JSON.encode(), re.DOTALL)
OPENING: Final = b"([{<"
"""The first characters of opening brackets."""


class TextLimitExceeded(DotrError, ValueError):
    """Raised for text that exceeds a limit of dotr or of the parser.

    `offset`: position of the first bracket beyond the limit, in characters, or bytes for `bytes`.
    """

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


def check_nesting(text: str | bytes, limit: int) -> None:
    """Check the nesting of brackets in Turtle, TriG or N-Quads; raises `TextLimitExceeded`.

    `limit`: the greatest depth that is accepted.

    >>> check_nesting(":a :p [ :q ( 1 2 ) ], ( ( ) )", 2)
    >>> check_nesting(":a :p [ :q ( 1 2 ( 3 ) ) ] .", 2)
    Traceback (most recent call last):
    dotr.syntax.turtle.nesting.TextLimitExceeded: it is nested too deeply: more than 2 brackets in each other (limits.nesting)
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
    """Check the nesting of objects and arrays in JSON; raises `TextLimitExceeded`.

    >>> check_json_nesting('{"a": ["[[["]}', 2)
    >>> check_json_nesting(b'{"a": [[1]]}', 2)
    Traceback (most recent call last):
    dotr.syntax.turtle.nesting.TextLimitExceeded: it is nested too deeply: more than 2 brackets in each other (limits.nesting)
    """
    if isinstance(text, bytes):
        if text.count(b"{") + text.count(b"[") > limit:
            _check_depth(_JSON_TOKENS[1], text, limit)
    elif text.count("{") + text.count("[") > limit:
        _check_depth(_JSON_TOKENS[0], text, limit)


_CLOSES: Final = {")": ("(",), "]": ("[",), "}": ("{",), "|}": ("{|",), ">>": ("<<", "<<("), ")>>": ("<<(",)}


def _check_depth(tokens: re.Pattern[AnyStr], text: AnyStr, limit: int) -> None:
    """Check the number of open brackets; one is closed only by a closing bracket of its kind.

    `)>>` is one bracket after `<<(`, and two after `(` inside `<<`.
    """
    opened: list[str] = []
    for token in tokens.finditer(text):
        kind = token.lastgroup
        if kind is None:
            continue
        lexeme = token[kind]
        bracket = lexeme.decode() if isinstance(lexeme, bytes) else lexeme
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
