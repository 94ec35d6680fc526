"""Lexemes of Turtle that may hide a bracket, a full stop or a keyword: comments, IRIs, quoted text.

Patterns for scanners that do not parse, as text; `encode` makes those of bytes. They accept any
character behind a backslash (a line end only with `re.DOTALL`), and never backtrack.
Source: W3C Turtle 1.1, section 6.5.
"""

from __future__ import annotations

import re
from typing import Final

from dotr.model.terms import DIRECTIONS

COMMENT: Final = r"#[^\r\n]*+"
OPEN_IRI: Final = r"<[^\x00-\x20<>\"{}|^`]*+"
"""An IRI up to its closing bracket."""
IRI: Final = OPEN_IRI + ">"
DOUBLE: Final = r"(?>(?:[^\"\\\r\n]++|\\.)*)"
"""Text between double quotes, up to the closing quote or the end of the line."""
SINGLE: Final = r"(?>(?:[^'\\\r\n]++|\\.)*)"
"""The same for single quotes."""
STRING: Final = rf"\"{DOUBLE}\"|'{SINGLE}'"
LONG: Final = {'"""': r'(?>(?:[^"\\]++|\\.|"(?!""))*)', "'''": r"(?>(?:[^'\\]++|\\.|'(?!''))*)"}
"""Text between long quotes, up to the closing quotes or the end of the text, by the quotes."""
LONG_STRING: Final = "|".join(quotes + text + quotes for quotes, text in LONG.items())
LANGUAGE: Final = r"[A-Za-z]+(?:-[A-Za-z0-9]+)*(?:--[A-Za-z]+)?"
"""A language tag with its base direction (LANG_DIR of Turtle 1.2 without `@`), even a wrong one."""

TYPOGRAPHIC: Final = re.compile("[“”„‟«»‘’‚‛‹›]([^“”„‟«»‘’‚‛‹›\r\n]*)[“”„‟«»‘’‚‛‹›]?")
"""A text in typographic quotes, up to the closing one or the end of the line."""


def quotes_hint(text: str) -> str:
    """The way out of typographic quotes at the beginning of a text; empty without them.

    >>> quotes_hint("“warm”@en"), quotes_hint('"warm"')
    ('Its quotes are typographic: write "warm".', '')
    """
    found = TYPOGRAPHIC.match(text)
    return f'Its quotes are typographic: write "{found[1]}".' if found else ""


DIRECTION_HINT: Final = "Write --ltr or --rtl behind the language, in small letters."


def wrong_direction(tag: str) -> str:
    """The base direction of a language tag, if it is neither `ltr` nor `rtl`; else an empty text.

    >>> wrong_direction("ar--RTL"), wrong_direction("ar--rtl"), wrong_direction("en-US")
    ('RTL', '', '')
    """
    direction = tag.partition("--")[2]
    return "" if direction in ("", *DIRECTIONS) else direction
