r"""Tokenizer of Datalog files; groups the tokens by statement.

Idea: one regular expression matches a token and the blanks before it. A statement ends at a dot
outside brackets or at the end of a line, so an unclosed bracket affects only one statement. The
expressions of FILTER and BIND are tokenized as well; the parser passes their text to the SPARQL
parser.
Cost: one regex match a token, about half of the time of parsing.
Source: the terminals of SPARQL 1.1 (section 19.8) and `:-`.

>>> for statement in statements(":C(?x):-:p[?x, 1.5]. # a comment\n:C(:a)."):
...     print(*(text for _, text, _ in statement))
:C ( ?x ) :- :p [ ?x , 1.5 ] .
:C ( :a ) .
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypeAlias

from dotr.syntax.lexemes import LANGUAGE

DatalogToken: TypeAlias = tuple[int, str, int]
"""Kind (a `DatalogTokenKind` as a plain int: the index of the regex group), text and offset."""


class DatalogTokenKind(IntEnum):
    """Index of the group of `_TOKEN` that matched."""

    VARIABLE = 1
    ARROW = 2
    NAME = 3
    MARK = 4
    IRI = 5
    STRING = 6
    NUMBER = 7
    BLANK = 8
    WORD = 9
    TAG = 10
    QUOTE = 11
    OPERATOR = 12


VARIABLE, ARROW, NAME, MARK, IRI, WORD = (
    k.value
    for k in (
        DatalogTokenKind.VARIABLE,
        DatalogTokenKind.ARROW,
        DatalogTokenKind.NAME,
        DatalogTokenKind.MARK,
        DatalogTokenKind.IRI,
        DatalogTokenKind.WORD,
    )
)
"""Kinds of most tokens as plain ints, which compare faster than enum members."""

_LOCAL_ESCAPE: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_ESCAPE: Final = r"\\(?:[tbnrf\\\"']|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_TOKEN: Final = re.compile(
    rf"""(?>(?:[ \t\r\n\f]++|\#[^\n]*+)*)
    (?:
      ([?$]\w+)
    | (:-)
    | ((?:[^\W\d_](?:[\w.-]*[\w-])?)?:(?:(?:[\w:]|{_LOCAL_ESCAPE})(?:[\w·:-]|{_LOCAL_ESCAPE}|\.+(?=[\w:%\\-]))*|(?!-)))
    | ([()\[\],] | \.(?!\d))
    | (<(?:[^<>"{{}}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{{4}}|\\U[0-9A-Fa-f]{{8}})*>)
    | (\"\"\"(?:"{{0,2}}(?:[^"\\]|{_ESCAPE}))*\"\"\"|'''(?:'{{0,2}}(?:[^'\\]|{_ESCAPE}))*'''
      |"(?:[^"\\\r\n]|{_ESCAPE})*"|'(?:[^'\\\r\n]|{_ESCAPE})*')
    | ([+-]?(?:\d+\.\d*[eE][+-]?\d+|\d*\.\d+(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)?))
    | (_:\w(?:[\w.-]*[\w-])?)
    | ([^\W\d]\w*)
    | (@{LANGUAGE})
    | (["'])
    | (\^\^|&&|\|\||[!<>]=|\S)
    | \Z)""",
    re.VERBOSE,
)


def statements(text: str) -> Iterator[list[DatalogToken]]:
    """The tokens of each statement, with the dot that ends it (optional for the last)."""
    current: list[DatalogToken] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastindex
        if kind is None:
            break
        token_text = match[kind]
        current.append((kind, token_text, match.start(kind)))
        if kind == MARK:
            if token_text in "([":
                depth += 1
            elif token_text in ")]":
                depth -= 1
            elif token_text == "." and (depth <= 0 or text[match.end() : match.end() + 1] in "\r\n"):
                yield current
                current, depth = [], 0
        elif len(current) <= 3 and _is_complete_declaration(current):
            yield current
            current = []
    if current:
        yield current


def _is_complete_declaration(tokens: list[DatalogToken]) -> bool:
    """True for SPARQL's `PREFIX p: <…>` and `BASE <…>`, which end without a dot."""
    match tokens:
        case [(DatalogTokenKind.WORD, word, _), (DatalogTokenKind.NAME, _, _), (DatalogTokenKind.IRI, _, _)]:
            return word.upper() == "PREFIX"
        case [(DatalogTokenKind.WORD, word, _), (DatalogTokenKind.IRI, _, _)]:
            return word.upper() == "BASE"
        case _:
            return False
