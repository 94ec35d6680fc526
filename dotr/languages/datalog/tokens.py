r"""The tokens of a Datalog file, cut into statements.

Idea: one regular expression reads a token and the blanks before it; a statement ends at a dot outside brackets, or at a dot that ends
a line, so that an unclosed bracket spoils one statement and not the rest of the file. FILTER and BIND are tokens like others here:
their text is handed to the SPARQL parser by its place.
Cost: one regex match a token, about half of the time of parsing.
Source: the terminals of SPARQL 1.1 (section 19.8) and `:-`.

>>> [[token[1] for token in statement] for statement in statements(":C(?x):-:p[?x, 1.5]. # a comment\n:C(:a).")]
[[':C', '(', '?x', ')', ':-', ':p', '[', '?x', ',', '1.5', ']', '.'], [':C', '(', ':a', ')', '.']]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypeAlias

DatalogToken: TypeAlias = tuple[int, str, int]
"""Its kind (a `DatalogTokenKind`, as the plain int the regex gives), its text, its offset."""


class DatalogTokenKind(IntEnum):
    """The group of `_TOKEN` that matched."""

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
"""The kinds that nearly all tokens are of, as numbers: these are compared faster."""

_LOCAL_ESCAPE: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_ESCAPE: Final = r"\\(?:[tbnrf\\\"']|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_TOKEN: Final = re.compile(
    rf"""(?:[ \t\r\n\f]++|\#[^\n]*+)*+
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
    | (@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    | (["'])
    | (\^\^|&&|\|\||[!<>]=|\S)
    | \Z)""",
    re.VERBOSE,
)


def statements(text: str) -> Iterator[list[DatalogToken]]:
    """The statements in order, each with the dot that ends it (the last may have none)."""
    current: list[DatalogToken] = []
    depth = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastindex
        if kind is None:
            break
        word = found[kind]
        current.append((kind, word, found.start(kind)))
        if kind == MARK:
            if word in "([":
                depth += 1
            elif word in ")]":
                depth -= 1
            elif word == "." and (depth <= 0 or text[found.end() : found.end() + 1] in "\r\n"):
                yield current
                current, depth = [], 0
        elif len(current) <= 3 and _is_whole_declaration(current):
            yield current
            current = []
    if current:
        yield current


def _is_whole_declaration(tokens: list[DatalogToken]) -> bool:
    """Whether these are SPARQL's `PREFIX p: <…>` or `BASE <…>`, which no dot ends."""
    match tokens:
        case [(DatalogTokenKind.WORD, word, _), (DatalogTokenKind.NAME, _, _), (DatalogTokenKind.IRI, _, _)]:
            return word.upper() == "PREFIX"
        case [(DatalogTokenKind.WORD, word, _), (DatalogTokenKind.IRI, _, _)]:
            return word.upper() == "BASE"
        case _:
            return False
