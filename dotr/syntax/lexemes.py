"""Lexemes of Turtle that may hide a bracket, a full stop or a keyword: comments, IRIs, quoted text.

Patterns for scanners that do not parse, as text; `encode` makes those of bytes. They accept any
character behind a backslash (a line end only with `re.DOTALL`), and never backtrack.
Source: W3C Turtle 1.1, section 6.5.
"""

from __future__ import annotations

from typing import Final

COMMENT: Final = r"#[^\r\n]*+"
OPEN_IRI: Final = r"<[^\x00-\x20<>\"{}|^`]*+"
"""An IRI up to its closing bracket."""
IRI: Final = OPEN_IRI + ">"
DOUBLE: Final = r"(?:[^\"\\\r\n]++|\\.)*+"
"""Text between double quotes, up to the closing quote or the end of the line."""
SINGLE: Final = r"(?:[^'\\\r\n]++|\\.)*+"
"""The same for single quotes."""
STRING: Final = rf"\"{DOUBLE}\"|'{SINGLE}'"
LONG: Final = {'"""': r'(?:[^"\\]++|\\.|"(?!""))*+', "'''": r"(?:[^'\\]++|\\.|'(?!''))*+"}
"""Text between long quotes, up to the closing quotes or the end of the text, by the quotes."""
LONG_STRING: Final = "|".join(quotes + text + quotes for quotes, text in LONG.items())
