"""Terminals of Turtle as regular expressions, with `{column}` in names, IRIs and strings.

Terminals accept cells everywhere; the parser reports a cell where none is allowed.
Source: W3C Turtle 1.1, section 6.5.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from dotr.syntax import lexemes
from dotr.syntax.names import NameCharacters

_NAME_OF_CELL: Final = r'(?:(?<=[{.])"(?:[^"\\\r\n]|\\[^\r\n])*+"|[^{}\r\n])++'
"""The name in a cell; a part of it in quotes may have braces: `a."{b}"`."""

_CELL: Final = rf"\{{{_NAME_OF_CELL}\}}"
_PLX: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_UCHAR: Final = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"

SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
IRI: Final = re.compile(rf"<((?:[^\x00-\x20<>\"{{}}|^`\\]|{_UCHAR}|{_CELL})*)>")
NUMBER: Final = re.compile(
    r"(?P<double>[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+)|(?P<decimal>[+-]?[0-9]*\.[0-9]+)|(?P<integer>[+-]?[0-9]+)"
)
STRING: Final = re.compile(
    r'"""(?P<a>(?:"{0,2}(?:[^"\\]|\\.))*)"""'
    r"|'''(?P<b>(?:'{0,2}(?:[^'\\]|\\.))*)'''"
    r'|"(?P<c>(?:[^"\\\r\n]|\\[^\r\n])*)"'
    r"|'(?P<d>(?:[^'\\\r\n]|\\[^\r\n])*)'",
    re.DOTALL,
)
LANGUAGE: Final = re.compile(f"@({lexemes.LANGUAGE})")
CELL: Final = re.compile(rf"\{{({_NAME_OF_CELL})\}}")
ESCAPE: Final = re.compile(r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<c>[tbnrf\"'\\])|)")
NAME_ESCAPE: Final = re.compile(r"\\(.)")


class NameTokens(NamedTuple):
    """Patterns of names.

    - `prefix`, `local`: the two parts of a prefixed name; the colon belongs to `prefix`.
    - `blank`: a blank node with its `_:`.
    - `variable`: with its question mark.
    """

    prefix: re.Pattern[str]
    local: re.Pattern[str]
    blank: re.Pattern[str]
    variable: re.Pattern[str]
    word: re.Pattern[str]


@cache
def name_tokens(characters: NameCharacters) -> NameTokens:
    """The patterns of names; `characters`: those that names in the text can have."""
    letters, marks = characters
    start = f"{letters}_"
    chars = rf"{start}0-9{marks}\-"
    return NameTokens(
        re.compile(rf"((?:[{letters}](?:[{chars}.]*[{chars}])?)?):"),
        re.compile(rf"(?:(?:[{start}:0-9]|{_PLX}|{_CELL})(?:[{chars}:]|{_PLX}|{_CELL}|\.+(?=[{chars}:]|{_PLX}|{_CELL}))*)?"),
        re.compile(rf"_:([{start}0-9](?:[{chars}.]*[{chars}])?)"),
        re.compile(rf"[?$]([{start}0-9](?:[{start}0-9{marks}])*)"),
        re.compile(rf"[{start}](?:[{chars}])*"),
    )
