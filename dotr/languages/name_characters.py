"""Characters of names in SPARQL and Turtle, for character classes of regular expressions.

Idea: a class with all letters of Unicode takes 3 ms to compile, and the tokens of SPARQL and Turtle
have twenty. Most texts are ASCII, where a class of ASCII letters accepts the same; so patterns are
compiled for the characters that a text can have, when the first such text is read.
Source: SPARQL 1.1, section 19.8 (PN_CHARS_BASE, PN_CHARS); Turtle 1.1, section 6.5.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class NameCharacters(NamedTuple):
    """Characters of names as they stand in a character class.

    - `letters`: those with which a name can begin, apart from `_` (PN_CHARS_BASE).
    - `marks`: those that can follow, apart from letters, digits, `_` and `-`.
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
