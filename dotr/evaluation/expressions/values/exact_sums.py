"""Exact sums, moments and order statistics under insertion and deletion of values.

Idea: integers and decimals are summed exactly, doubles as whole multiples of the least double
(Kulisch's exact accumulator, as Python integers). So deletion is exact, and the result is rounded
once. The number of values of each type is counted, with all counters in one integer. Moments are
sums of whole multiples of one fraction; order statistics read a sorted list.
Invariant: the result is that of `aggregates` over the present values, whatever the insertions and
deletions before.
Cost: a sum and a moment, one addition per insertion or deletion and O(1) per result; an order
statistic, O(log n) for each of these.
"""

from __future__ import annotations

from decimal import Decimal, DecimalException
from fractions import Fraction
from math import gcd, inf, isfinite, isqrt, nan
from typing import Final, TypeAlias

from sortedcontainers import SortedList

from dotr.evaluation.expressions.values.decimals import EXACT, quotient
from dotr.evaluation.expressions.values.terms import NUMERIC, Number, Single, Value, single

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


_Ratio: TypeAlias = tuple[int, int] | float


class SortedNumbers:
    """The numbers among some values in ascending order, under insertion and deletion.

    >>> numbers = SortedNumbers()
    >>> for value in (9, 2, Decimal("2.5"), 4): numbers.change(value, 1)
    >>> numbers.quantile(Fraction(1, 2)), numbers.quantile(Fraction("0.95"))
    (Decimal('3.25'), Decimal('8.25'))
    """

    __slots__ = ("_kinds", "_numbers")

    def __init__(self) -> None:
        self._kinds = 0
        self._numbers = SortedList()

    def change(self, value: Value | None, times: int) -> None:
        """Inserts a value (`times` is 1), or deletes an equal one (-1)."""
        self._kinds += times * (INT if type(value) is int else kind_unit(value))
        if type(value) in NUMERIC and value == value:
            (self._numbers.add if times > 0 else self._numbers.remove)(value)

    def quantile(self, fraction: Fraction) -> Number | None:
        """The number at the place (n - 1) * `fraction` from 0, between two numbers on the line
        between them.

        None if there is no value, or one is no number. NaN if one is NaN. Between an infinity and
        another number the result is the infinity, between both infinities NaN.
        """
        kinds, numbers = self._kinds, self._numbers
        if not kinds or _field(kinds, OTHER):
            return None
        if _field(kinds, NAN):
            return nan
        # Of 2, 4, 6 and 8, the fraction 0.5 is at place 3/2: `place` is 1, and 1/2 of the way from 4 to 6 is left.
        whole = fraction.denominator
        place, part = divmod((len(numbers) - 1) * fraction.numerator, whole)
        low = numbers[place]
        high = numbers[place + 1] if part else low
        if low == -inf or high == inf:
            return float(low) if low == high else nan if high == -low else inf if high == inf else -inf
        if low == high:
            return _rounded(kinds, *low.as_integer_ratio())
        (a, b), (c, d) = low.as_integer_ratio(), high.as_integer_ratio()
        return _rounded(kinds, a * d * (whole - part) + c * b * part, b * d * whole)


class Moments:
    """The variance of values, under insertion and deletion.

    All numbers are whole multiples of 1 / `_unit`: 2 and 0.5 are 4 and 1 halves, with the sum 5 and
    the sum of squares 17.

    >>> moments = Moments()
    >>> for value in (2, Decimal("0.5"), 5): moments.change(value, 1)
    >>> moments.change(5, -1)
    >>> moments.variance(), moments.deviation()
    (Decimal('1.125'), 1.0606601717798212)
    """

    __slots__ = ("_kinds", "_number", "_squares", "_sum", "_unit")

    def __init__(self) -> None:
        self._kinds = self._number = self._sum = self._squares = 0
        self._unit = 1

    def change(self, value: Value | None, times: int) -> None:
        """Inserts a value (`times` is 1), or deletes one (-1)."""
        self._kinds += times * (INT if type(value) is int else kind_unit(value))
        self._number += times
        if type(value) not in NUMERIC or (isinstance(value, float) and not isfinite(value)):
            return
        above, below = value.as_integer_ratio()  # type: ignore[union-attr]
        if self._unit % below:
            factor = below // gcd(self._unit, below)
            self._unit *= factor
            self._sum *= factor
            self._squares *= factor * factor
        above *= self._unit // below
        self._sum += times * above
        self._squares += times * above * above
        if not self._number:
            self._unit = 1

    def _ratio(self) -> _Ratio | None:
        """The variance as two whole numbers; a double is NaN. None of fewer than two values, and if
        one is no number."""
        kinds, number = self._kinds, self._number
        if number < 2 or _field(kinds, OTHER):
            return None
        if kinds >= HIGH:
            return nan
        return number * self._squares - self._sum**2, number * (number - 1) * self._unit**2

    def variance(self) -> Number | None:
        """The variance of a sample, with n - 1 below."""
        ratio = self._ratio()
        return _rounded(self._kinds, *ratio) if isinstance(ratio, tuple) else ratio

    def deviation(self) -> float | None:
        """The root of the variance, a double."""
        ratio = self._ratio()
        return square_root(*ratio) if isinstance(ratio, tuple) else ratio


def square_root(above: int, below: int) -> float:
    """The double nearest to the root of a fraction.

    >>> square_root(2, 1), square_root(1, 4), square_root(10**700, 1)
    (1.4142135623730951, 0.5, inf)
    """
    # The root of above / below * 4**shift has at least 64 binary places before its point. One more place, 1 where the
    # root is not whole, rounds as all of its places would: no double and no middle of two lies in between.
    shift = max(0, 65 - (above.bit_length() - below.bit_length()) // 2)
    scaled = above << 2 * shift
    root = isqrt(scaled // below)
    return _double(2 * root + (root * root * below != scaled), 1 << shift + 1)


def _rounded(kinds: int, above: int, below: int) -> Number | None:
    """A fraction as a double if there is a double or a float among values of these kinds, else as a
    decimal; zero is positive."""
    return quotient(above, below) if float_type_of(kinds) is None else _double(above, below)


def _double(above: int, below: int) -> float:
    try:
        return above / below + 0.0
    except OverflowError:
        return inf if above > 0 else -inf
