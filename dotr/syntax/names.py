"""Characters of names in SPARQL and Turtle, for character classes of regular expressions.

Idea: a character class of all letters of Unicode takes 3 ms to compile, and the tokens of SPARQL
and Turtle have twenty. For an ASCII text a class of ASCII letters accepts the same names. So
patterns are compiled in two variants, each when the first text that needs it is read.
Source: SPARQL 1.1, section 19.8 (PN_CHARS_BASE, PN_CHARS); Turtle 1.1, section 6.5.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class NameCharacters(NamedTuple):
    """Characters of names, as text between the brackets of a character class.

    - `letters`: the first characters of names, apart from `_` (PN_CHARS_BASE).
    - `marks`: further characters of names, apart from letters, digits, `_` and `-`.
    """

    letters: str
    marks: str


_ALL: Final = NameCharacters(
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff",
    "\u00b7\u0300-\u036f\u203f-\u2040",
)
_ASCII: Final = NameCharacters("A-Za-z", "")


def name_characters(text: str) -> NameCharacters:
    """The characters that names in a text can have.

    >>> name_characters("?room").letters, "é" in name_characters("?é").letters
    ('A-Za-z', False)
    >>> import re
    >>> [re.fullmatch(f"[{name_characters(name).letters}]+", name) is not None for name in ("room", "pièce", "×")]
    [True, True, False]
    """
    return _ASCII if text.isascii() else _ALL
