"""Exact sums under insertion and deletion of values.

Idea: integers and decimals are summed exactly, doubles as whole multiples of the least double
(Kulisch's exact accumulator, as Python integers). So deletion is exact, and the result is rounded
once. The number of values of each type is counted, with all counters in one integer.
Invariant: the result is that of `aggregates.total` over the present values, whatever the insertions
and deletions before.
Cost: one addition per insertion or deletion; O(1) per result.
"""

from __future__ import annotations

from decimal import Decimal, DecimalException
from math import inf, isfinite, nan
from typing import Final

from dotr.evaluation.expressions.values.decimals import EXACT
from dotr.evaluation.expressions.values.terms import Number, Single, Value, single

# Counters of values by kind are packed in one integer, 40 bits each: 3 integers and 2 decimals are
# 3 * INT + 2 * DECIMAL = 3 + (2 << 40).
_FIELD: Final = 40
INT, DECIMAL, DOUBLE, SINGLE, OTHER, HIGH, LOW, NAN = (1 << (_FIELD * n) for n in range(8))
_UNIT: Final = 1 << 1074
"""A double is a whole multiple of 1 / _UNIT."""


def kind_unit(value: Value | None) -> int:
    """One in the counter of a value's type; for infinities and NaN also in their own counter."""
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
    """The floating-point type of a sum of values of these kinds; None if it is exact."""
    return float if _field(kinds, DOUBLE) else Single if _field(kinds, SINGLE) else None


def total_of(kinds: int, exact: int | Decimal, binary: int) -> Number | None:
    """The sum of values of these kinds; None if one is no number.

    - `exact`: the sum of the integers and decimals.
    - `binary`: the sum of the finite doubles and floats, in fixed point.
    """
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
    """A sum under insertion and deletion of values.

    `has_overflowed`: a decimal sum has exceeded the exact context; the sum is invalid from then on.

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
        """Inserts a value `times` times; deletes it if `times` is negative."""
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
        """The sum in the widest type among the values; None if one is no number."""
        return total_of(self._kinds, self._exact, self._binary)
