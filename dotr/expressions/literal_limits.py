"""Limits on the length of computed literals and on the digits of numbers.

Idea: the limit of texts is `limits.literal` of the running program and is thread-local: stage one
sets it for each instant, stage two for each step. The background is closed under the default, since
its conclusions are shared by programs with other limits. Digits have a fixed limit, since the time
of arithmetic and conversion grows with the square of their number.
Cost: 50 ns an instant, and 50 ns a call of a function that computes text.
"""

from __future__ import annotations

from threading import local
from typing import Final

LONGEST_TEXT: Final = 1 << 20
"""The default limit of characters of a computed literal."""

DIGITS: Final = 20_000
"""The limit of digits of an integer or a decimal, before and after the point together.

A literal with more digits is ill-typed, a computed result an error."""


class _Bounds(local):
    """Thread-local limits; `characters`: of literals that the thread computes."""

    characters: int = LONGEST_TEXT


BOUNDS: Final = _Bounds()


def fits(text: str) -> bool:
    """Tests whether a computed literal is within the limit of characters of the thread."""
    return len(text) <= BOUNDS.characters


def fits_digits(number: str) -> bool:
    """Tests whether the text of a number is within the limit of digits.

    >>> fits_digits("-" + "7" * DIGITS), fits_digits("7" * DIGITS + "."), fits_digits("." + "0" * DIGITS + "7")
    (True, True, False)
    """
    return len(number) <= DIGITS or len(number) - (number[0] in "+-") - ("." in number) <= DIGITS
