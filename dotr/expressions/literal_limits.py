"""How long a computed text may be, and how long a number.

Idea: the bound on texts is `limits.literal` of the program that computes, and belongs to the thread: whoever lets expressions be computed
(stage one for each instant, stage two for each step) says whose they are. Cost: 50 ns an instant, as much for a function that makes text.
The background is closed, and asked alone, under the default, since what it concludes is kept for programs of other limits too.
Numbers have a bound of their own: arithmetic and conversion of many digits take time that grows with the square of their number.
"""

from __future__ import annotations

from threading import local
from typing import Final

LONGEST_TEXT: Final = 1 << 20
"""Characters of a computed literal by default."""

DIGITS: Final = 20_000
"""Digits of an integer or a decimal, before and behind its point together. A literal with more is no number, a result an error."""


class _Bounds(local):
    """`characters`: those that a literal which this thread computes may have."""

    characters: int = LONGEST_TEXT


BOUNDS: Final = _Bounds()


def fits(text: str) -> bool:
    """Whether a computed literal may be this long."""
    return len(text) <= BOUNDS.characters


def fits_digits(number: str) -> bool:
    """Whether the text of a number has no more digits than a number may have.

    >>> countable("-" + "7" * DIGITS), countable("7" * DIGITS + "."), countable("." + "0" * DIGITS + "7")
    (True, True, False)
    """
    return len(number) <= DIGITS or len(number) - (number[0] in "+-") - ("." in number) <= DIGITS
