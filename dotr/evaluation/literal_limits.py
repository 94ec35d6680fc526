"""Limits on computed terms: the length of one, the bytes of all, and the digits of numbers.

Idea: the limits of texts are `limits.literal` and `limits.text` of the running program and are
thread-local: stage one sets them for each instant, stage two for each step, a unit for each
point or report. The background is closed under limits of its own, since its conclusions are
shared by programs with other limits. Digits have a fixed limit, since the time of arithmetic and
conversion grows with the square of their number.

A computed text over `limits.literal` is an error of the expression. Computed terms (those that
BIND, SELECT, GROUP BY, GROUP_CONCAT and the assignments of rules make, and triple terms of
templates) are counted in bytes of their text as UTF-8, each time that one is computed; over
`limits.text` the count raises `LimitExceeded`. Numbers, times and truth values are counted only
above `SHORT` bytes.
Cost: 150 ns an instant, 50 ns a call of a function that computes text, and 120 ns a computed term.
"""

from __future__ import annotations

import sys
from threading import local
from typing import Any, Final

from dotr.errors.fallbacks import ExpectedError
from dotr.model.terms import Term

LONGEST_TEXT: Final = 1 << 20
"""The default limit of characters of a computed literal."""

MOST_TEXT: Final = 64 << 20
"""The default limit of the bytes of the computed terms of an instant."""

MOST_TEXT_OF_BACKGROUND: Final = 16 * MOST_TEXT
"""The limit of the bytes of the terms that are computed while a background is closed."""

MOST_PATTERNS: Final = 4 << 20
"""The limit of the bytes of the patterns of REGEX and REPLACE that an instant brings, compiled."""

SHORT: Final = 128
"""Bytes up to which a computed number, time or truth value is not counted."""

DIGITS: Final = 20_000
"""The limit of digits of an integer or a decimal, before and after the point together.

A literal with more digits is ill-typed, a computed result an error."""


class LimitExceeded(ExpectedError):
    """An instant, query or record beyond a limit; `limit` is the number exceeded."""

    def __init__(self, limit: int, what: str = "triples") -> None:
        super().__init__(f"more than {limit:,} {what}")
        self.limit = limit


class _Bounds(local):
    """Thread-local limits, which `start` sets.

    `characters`: of a literal that the thread computes. `text`: bytes of the terms that it computes
    from one `start` to the next; `left`: the bytes that are left of them. `patterns`: the
    patterns that were computed or came with the stream since `start`, compiled, by pattern and
    flags (None: an error); `patterns_left`: the bytes that are left for them.
    """

    characters: int = LONGEST_TEXT
    text: int = sys.maxsize
    left: int = sys.maxsize
    patterns_left: int = MOST_PATTERNS

    def __init__(self) -> None:
        self.patterns: dict[tuple[str, str], Any] = {}

    def start(self, characters: int, text: int) -> None:
        """Begins an instant, report or point with the limits of a program."""
        self.characters = characters
        self.text = self.left = text
        if self.patterns:
            self.patterns = {}
            self.patterns_left = MOST_PATTERNS

    def restart(self) -> None:
        """Begins another count under the limits of the last `start`."""
        self.left = self.text

    def lift(self) -> None:
        """Ends the count: what is computed until the next `start` was counted before."""
        self.text = self.left = sys.maxsize


BOUNDS: Final = _Bounds()


def fits(text: str) -> bool:
    """Tests whether a computed literal is within the limit of characters of the thread."""
    return len(text) <= BOUNDS.characters


def counted(term: Term | None) -> Term | None:
    """The computed term, after its bytes are counted. Raises `LimitExceeded`.

    >>> BOUNDS.start(LONGEST_TEXT, 8)
    >>> counted('"été"'), counted(None), BOUNDS.left
    ('"été"', None, 1)
    >>> counted("<e:a>")
    Traceback (most recent call last):
    dotr.evaluation.literal_limits.LimitExceeded: more than 8 bytes of computed terms
    >>> BOUNDS.start(LONGEST_TEXT, MOST_TEXT)
    """
    if term is not None:
        BOUNDS.left = left = BOUNDS.left - (len(term) if term.isascii() else len(term.encode("utf-8", "surrogatepass")))
        if left < 0:
            raise LimitExceeded(BOUNDS.text, "bytes of computed terms")
    return term


def counted_above_short(term: Term | None) -> Term | None:
    """The computed number, time or truth value, after its bytes are counted where they are many."""
    return term if term is None or len(term) <= SHORT else counted(term)


def fits_digits(number: str) -> bool:
    """Tests whether the text of a number is within the limit of digits.

    >>> fits_digits("-" + "7" * DIGITS), fits_digits("7" * DIGITS + "."), fits_digits("." + "0" * DIGITS + "7")
    (True, True, False)
    """
    return len(number) <= DIGITS or len(number) - (number[0] in "+-") - ("." in number) <= DIGITS
