"""Exact sums that numbers join and leave.

Idea: integers and decimals are summed exactly; doubles as whole multiples of the least double, so
that what leaves is subtracted without an error, and the result is rounded once (Kulisch's exact
accumulator, as Python integers). The types of the values are counted, in one integer.
Invariant: the result is that of `aggregates.total` over the values there are, whatever came and
went before.
Cost: an addition each; O(1) for a result.
"""

from __future__ import annotations

from decimal import Decimal, DecimalException
from math import inf, isfinite, nan
from typing import Final

from dotr.expressions.decimals import EXACT
from dotr.expressions.values import Number, Single, Value, single

# The counts of values by kind are packed in one integer: 40 bits per kind.
_FIELD: Final = 40
INT, DECIMAL, DOUBLE, SINGLE, OTHER, HIGH, LOW, NAN = (1 << (_FIELD * n) for n in range(8))
_UNIT: Final = 1 << 1074
"""A double is a whole multiple of 1 / _UNIT."""


def kind_unit(value: Value | None) -> int:
    """The counter unit of a value's type. Infinities and NaN count twice: by kind and as double
    or float."""
    kind = type(value)
    if kind is int:
        return INT
    if kind is Decimal:
        return DECIMAL
    if isinstance(value, float):
        own = SINGLE if kind is Single else DOUBLE
        return own if isfinite(value) else own + (HIGH if value == inf else LOW if value == -inf else NAN)
    return OTHER


def _field(kinds: int, unit: int) -> int:
    """One counter of the packed counters `kinds`."""
    return kinds // unit & ((1 << _FIELD) - 1)


def float_type_of(kinds: int) -> type[float] | None:
    """The floating-point type of a sum of values of these kinds; None without floating-point
    values."""
    return float if _field(kinds, DOUBLE) else Single if _field(kinds, SINGLE) else None


def total_of(kinds: int, exact: int | Decimal, binary: int) -> Number | None:
    """The sum of values of these kinds, from the exact sum of integers and decimals and the
    fixed-point sum of doubles and floats."""
    if kinds < DOUBLE:
        return Decimal(exact) if kinds >= DECIMAL else int(exact)
    if _field(kinds, OTHER):
        return None
    wide = float_type_of(kinds)
    if wide is None:
        return Decimal(exact) if kinds >= DECIMAL else int(exact)
    high, low, no_number = _field(kinds, HIGH), _field(kinds, LOW), _field(kinds, NAN)
    number = nan if no_number or (high and low) else inf if high else -inf if low else rounded_once(binary, exact)
    return number if wide is float else single(number)


def to_fixed_point(number: float) -> int:
    """A double as a multiple of the least double.

    >>> to_fixed_point(5e-324), rounded_once(to_fixed_point(0.1) + to_fixed_point(0.2) - to_fixed_point(0.3))
    (1, 2.7755575615628914e-17)
    """
    numerator, denominator = number.as_integer_ratio()
    return numerator << (1075 - denominator.bit_length())


def fixed_point_or_zero(value: Value | None) -> int:
    """A finite double or float in fixed point; 0 for any other value."""
    return to_fixed_point(value) if isinstance(value, float) and isfinite(value) else 0


def rounded_once(binary: int, exact: int | Decimal = 0) -> float:
    """The double nearest to the sum of a fixed-point number and an exact number.

    >>> rounded_once(to_fixed_point(0.5), Decimal("0.1")), rounded_once(to_fixed_point(0.1), 10**400)
    (0.6, inf)
    """
    above, below = exact.as_integer_ratio()
    above = above * _UNIT + binary * below
    try:
        return above / (below * _UNIT)
    except OverflowError:
        return inf if above > 0 else -inf


class ExactSum:
    """Sum of values that come and go.

    `has_overflowed`: a decimal sum went beyond the exact context; the sum is of no use since.

    >>> numbers = ExactSum()
    >>> for value in (1e16, 0.1, 1): numbers.change(value, 1)
    >>> numbers.change(1e16, -1)
    >>> numbers.total()
    1.1
    """

    __slots__ = ("_binary", "_exact", "_kinds", "has_overflowed")

    def __init__(self) -> None:
        self._kinds = 0
        self._exact: int | Decimal = 0
        self._binary = 0
        self.has_overflowed = False

    def change(self, value: Value | None, times: int) -> None:
        """Adds a value a number of times, or takes it away where that is negative."""
        kind = type(value)
        self._kinds += times * (INT if kind is int else DECIMAL if kind is Decimal else kind_unit(value))
        if kind is int or kind is Decimal:
            exact = self._exact
            try:
                if kind is int is type(exact):
                    self._exact = exact + times * value  # type: ignore[operator,assignment]
                elif times == 1:
                    self._exact = EXACT.add(exact, value)  # type: ignore[arg-type]
                elif times == -1:
                    self._exact = EXACT.subtract(exact, value)  # type: ignore[arg-type]
                else:
                    self._exact = EXACT.fma(value, times, exact)  # type: ignore[arg-type]
            except DecimalException:
                self.has_overflowed = True
        elif isinstance(value, float):
            self._binary += times * fixed_point_or_zero(value)

    def total(self) -> Number | None:
        """The sum in the widest type among the values; None where one is no number."""
        return total_of(self._kinds, self._exact, self._binary)
