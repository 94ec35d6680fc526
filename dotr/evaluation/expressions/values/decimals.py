"""Exact decimal arithmetic.

Invariant: operations in the context `EXACT` are exact or raise `DecimalException`. A result of more
than `literal_limits.DIGITS` digits is an error of the expression.
Kept by hand: Python's default context rounds to 28 digits.
"""

from __future__ import annotations

from decimal import Context, Decimal, DecimalException, DivisionByZero, Inexact, InvalidOperation, Overflow, Subnormal
from typing import Final

from dotr.evaluation.limits import DIGITS

EXACT: Final = Context(prec=DIGITS, Emin=-DIGITS, Emax=DIGITS, traps=[Inexact, InvalidOperation, Overflow, Subnormal, DivisionByZero])

QUOTIENT_PLACES: Final = 18
_SCALE: Final = 10**QUOTIENT_PLACES


def quotient(dividend: int | Decimal, divisor: int | Decimal) -> Decimal | None:
    """The quotient of two exact numbers, rounded half to even at 18 decimal places.

    None for a divisor of 0 and for a quotient with too many digits.

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
    scaled, rest = divmod(above, below)
    if 2 * rest > below or (2 * rest == below and scaled % 2):
        scaled += 1
    try:
        number = EXACT.scaleb(Decimal(scaled), -QUOTIENT_PLACES)
        return number.normalize(EXACT) if scaled % _SCALE else shortest(number)  # a fraction has no exponent above 0
    except DecimalException:
        return None


def _ratio(number: int | Decimal) -> tuple[int, int]:
    return number.as_integer_ratio()


def shortest(number: Decimal) -> Decimal:
    """The same number without trailing zeros or exponent: 65 for 65.0 and 6.5E+1."""
    number = number.normalize(EXACT)
    exponent = number.as_tuple().exponent
    if not number:
        return Decimal(0)
    return number.quantize(Decimal(1), context=EXACT) if isinstance(exponent, int) and exponent > 0 else number


_PRINTED: Final = 10**4300
"""The least integer that Python does not convert to text by default."""


def plain(number: int | Decimal) -> str:
    """The canonical lexical form of an exact number (XSD 1.1, section 3.3.3).

    >>> plain(Decimal("65.0")), plain(Decimal("-0.50")), plain(Decimal("-0")), plain(Decimal("1E+3")), plain(7)
    ('65', '-0.5', '0', '1000', '7')
    """
    if type(number) is int:
        return str(number) if -_PRINTED < number < _PRINTED else str(Decimal(number))
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
