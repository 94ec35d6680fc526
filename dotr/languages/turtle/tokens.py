"""Terminals of Turtle as regular expressions, with `{column}` in names, IRIs and strings.

Terminals match with and without cells; the parser reports cells that are not allowed, with their
place.
Source: W3C Turtle 1.1, section 6.5.
"""

from __future__ import annotations

import re
from typing import Final

_BASE: Final = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_START: Final = _BASE + "_"
_CHARS: Final = _START + "0-9\u00b7\u0300-\u036f\u203f-\u2040\\-"
_CELL: Final = r"\{[^{}\r\n]+\}"
_PLX: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_UCHAR: Final = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"

SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
PREFIX: Final = re.compile(rf"((?:[{_BASE}](?:[{_CHARS}.]*[{_CHARS}])?)?):")
LOCAL: Final = re.compile(
    rf"(?:(?:[{_START}:0-9]|{_PLX}|{_CELL})(?:[{_CHARS}:]|{_PLX}|{_CELL}|\.+(?=[{_CHARS}:]|{_PLX}|{_CELL}))*)?",
)
BLANK: Final = re.compile(rf"_:([{_START}0-9](?:[{_CHARS}.]*[{_CHARS}])?)")
VARIABLE: Final = re.compile(rf"[?$]([{_START}0-9](?:[{_START}0-9\u00b7\u0300-\u036f\u203f-\u2040])*)")
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
LANGUAGE: Final = re.compile(r"@([A-Za-z]+(?:-[A-Za-z0-9]+)*)")
WORD: Final = re.compile(rf"[{_START}](?:[{_CHARS}])*")
CELL: Final = re.compile(r"\{([^{}\r\n]+)\}")
ESCAPE: Final = re.compile(r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<c>[tbnrf\"'\\])|)")
NAME_ESCAPE: Final = re.compile(r"\\(.)")
