"""Decimal arithmetic that is exact or fails: never rounded in silence.

A result that would need more than a million digits is an error of the expression, not of the program.
"""

from __future__ import annotations

from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import Final

EXACT: Final = Context(prec=1_000_000, Emin=-999_999_999, Emax=999_999_999, traps=[Inexact, InvalidOperation, Overflow, DivisionByZero])

QUOTIENT_PLACES: Final = 18
_SCALE: Final = 10**QUOTIENT_PLACES


def quotient(dividend: int | Decimal, divisor: int | Decimal) -> Decimal | None:
    """The quotient of two exact numbers, rounded half-even at 18 places where it has more; None for a divisor of 0.

    >>> quotient(77, 3), quotient(1, 8), quotient(Decimal("1e-18"), 2), quotient(-2, 3)
    (Decimal('25.666666666666666667'), Decimal('0.125'), Decimal('0'), Decimal('-0.666666666666666667'))
    """
    if not divisor:
        return None
    a, b = _ratio(dividend)
    c, d = _ratio(divisor)
    above, below = a * d * _SCALE, b * c
    if below < 0:
        above, below = -above, -below
    whole, rest = divmod(above, below)
    if 2 * rest > below or (2 * rest == below and whole % 2):
        whole += 1
    return shortest(EXACT.scaleb(Decimal(whole), -QUOTIENT_PLACES))


def _ratio(number: int | Decimal) -> tuple[int, int]:
    return number.as_integer_ratio()


def shortest(number: Decimal) -> Decimal:
    """The same number without zeros at its end: 65, not 65.0 or 6.5E+1."""
    number = number.normalize(EXACT)
    exponent = number.as_tuple().exponent
    if not number:
        return Decimal(0)
    return number.quantize(Decimal(1), context=EXACT) if isinstance(exponent, int) and exponent > 0 else number


def plain(number: int | Decimal) -> str:
    """The canonical lexical form of an exact number (XSD 1.1, section 3.3.3).

    >>> plain(Decimal("65.0")), plain(Decimal("-0.50")), plain(Decimal("-0")), plain(Decimal("1E+3")), plain(7)
    ('65', '-0.5', '0', '1000', '7')
    """
    if type(number) is int:
        return str(number)
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
