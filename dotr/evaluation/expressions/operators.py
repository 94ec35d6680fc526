"""Operators of SPARQL over values (SPARQL 1.1, section 17.3); None is an error, as argument and as
result.

Numbers are promoted integer → decimal → float → double. `=` and `!=` follow section 17.4.1.7: two
literals that are not known to be equal or unequal are an error. Known to be unequal are a literal
with a language tag and any other literal (W3C tests of open worlds), and a date, a time and a
date-time.
Triple terms are equal if their parts are (SPARQL 1.2). Beyond SPARQL's table, as in XPath: order of
dates, times and durations, and their differences and sums.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, DecimalException
from math import copysign, inf, isnan, nan
from typing import Any, Final

from dotr.evaluation.expressions.values.datetimes import (
    Date,
    DateTime,
    DayTime,
    Duration,
    TemporalValue,
    Time,
    YearMonth,
    add_duration,
    day_time_of,
    difference,
)
from dotr.evaluation.expressions.values.decimals import EXACT, quotient
from dotr.evaluation.expressions.values.terms import (
    EXACT_TYPES,
    NUMERIC,
    BlankNode,
    Iri,
    Lang,
    Number,
    Single,
    TripleTerm,
    Unknown,
    Value,
    single,
)
from dotr.evaluation.limits import DIGITS

_NODES: Final = frozenset((Iri, BlankNode))
_MOMENTS: Final = frozenset((DateTime, Date, Time))
_DURATIONS: Final = frozenset((Duration, DayTime, YearMonth))
SAME: Final = frozenset((int, Decimal, float, Single, str, bool))
"""Types whose `=` and `<` are Python's if both sides have the same type."""


def to_double(number: Number) -> float:
    """The double nearest to a number.

    >>> to_double(-(10**400))
    -inf
    """
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def to_single(number: Number) -> Single:
    """The float nearest to a number."""
    return number if type(number) is Single else single(to_double(number))


def promoted(a: Any, b: Any) -> tuple[Any, Any]:
    """Two numbers in the wider of their types.

    Integers and decimals are left unchanged, since Python compares them exactly.
    """
    ta, tb = type(a), type(b)
    if ta is float or tb is float:
        return to_double(a), to_double(b)
    if ta is Single or tb is Single:
        return to_single(a), to_single(b)
    return a, b


def equal(a: Any, b: Any) -> bool | None:
    """SPARQL's `=`.

    >>> equal(25, Decimal("25.0")), equal("70", 70), equal(Lang("warm", "en"), "warm"), equal(0.1, Decimal("0.1"))
    (True, None, False, True)
    """
    ta, tb = type(a), type(b)
    if ta is tb and ta in SAME:
        return bool(a == b)
    if ta in NUMERIC and tb in NUMERIC:
        a, b = promoted(a, b)
        return bool(a == b)
    if a is None or b is None:
        return None
    if ta in _NODES or tb in _NODES or ta is Lang or tb is Lang:
        return bool(a == b)
    if ta is TripleTerm or tb is TripleTerm:
        return ta is tb and _equal_parts(a, b)
    if ta in _MOMENTS and tb in _MOMENTS:
        return ta is tb and a.instant == b.instant
    if ta in _DURATIONS and tb in _DURATIONS:
        return bool(a.months == b.months and a.seconds == b.seconds)
    return True if ta is Unknown and a == b else None


def _equal_parts(a: TripleTerm, b: TripleTerm) -> bool | None:
    """The conjunction (`&&`) of `=` of all parts."""
    results = [equal(one, other) for one, other in zip(a.parts, b.parts, strict=True)]
    return False if False in results else None if None in results else True


def unequal(a: Any, b: Any) -> bool | None:
    """SPARQL's `!=`."""
    same = equal(a, b)
    return None if same is None else not same


def less(a: Any, b: Any) -> bool | None:
    """SPARQL's `<`.

    >>> less(Decimal("0.6"), 1), less("a", "b"), less("25", 20), less(float("nan"), 1)
    (True, True, None, False)
    """
    ta, tb = type(a), type(b)
    if ta is tb and ta in SAME:
        return bool(a < b)
    if ta in NUMERIC and tb in NUMERIC:
        a, b = promoted(a, b)
        return bool(a < b)
    if ta is not tb:
        return None
    if ta in _MOMENTS:
        return bool(a.instant < b.instant)
    if ta is DayTime:
        return bool(a.seconds < b.seconds)
    return bool(a.months < b.months) if ta is YearMonth else None


def greater(a: Any, b: Any) -> bool | None:
    """SPARQL's `>`."""
    return less(b, a)


def at_most(a: Any, b: Any) -> bool | None:
    """SPARQL's `<=`."""
    ta, tb = type(a), type(b)
    if ta is tb and ta in SAME:
        return bool(a <= b)
    if ta in NUMERIC and tb in NUMERIC:
        a, b = promoted(a, b)
        return bool(a <= b)
    beyond = less(b, a)
    return None if beyond is None else not beyond


def at_least(a: Any, b: Any) -> bool | None:
    """SPARQL's `>=`."""
    return at_most(b, a)


def shorter(a: Any, b: Any) -> bool | None:
    """SPARQL's `<`, which also orders durations without months by length (ep-sparql.md, 2.2).

    >>> shorter(Duration(0, 5), DayTime(0, 6)), shorter(Duration(1, 5), Duration(2, 5)), shorter(5, 6)
    (True, None, True)
    """
    if type(a) in _DURATIONS and type(b) in _DURATIONS:
        return None if a.months or b.months else bool(a.seconds < b.seconds)
    return less(a, b)


def longer(a: Any, b: Any) -> bool | None:
    """SPARQL's `>` with the order of `shorter`."""
    return shorter(b, a)


def no_longer(a: Any, b: Any) -> bool | None:
    """SPARQL's `<=` with the order of `shorter`."""
    if type(a) in _DURATIONS and type(b) in _DURATIONS:
        beyond = shorter(b, a)
        return None if beyond is None else not beyond
    return at_most(a, b)


def no_shorter(a: Any, b: Any) -> bool | None:
    """SPARQL's `>=` with the order of `shorter`."""
    return no_longer(b, a)


def truth(value: Any) -> bool | None:
    """The effective boolean value (section 17.2.2).

    >>> truth(""), truth(0), truth(float("nan")), truth("false"), truth(Iri("<http://example.org/a>"))
    (False, False, False, True, None)
    """
    kind = type(value)
    if kind is bool:
        return bool(value)
    if kind in NUMERIC:
        return bool(value == value and value != 0)
    if kind is str:
        return bool(value)
    if kind is Lang:
        return bool(value.text)
    return False if kind is Unknown and value.is_ill_typed else None


# --- arithmetic ---


def add(a: Any, b: Any) -> Value | None:
    """The sum of numbers, of durations, or of a date or date-time and a duration.

    >>> add(1, Decimal("0.1")), add(1, 0.5), add("1", 1)
    (Decimal('1.1'), 1.5, None)
    """
    ta, tb = type(a), type(b)
    if ta is int and tb is int:
        return a + b  # type: ignore[no-any-return]
    if ta in NUMERIC and tb in NUMERIC:
        return _exactly(EXACT.add, a, b) if ta in EXACT_TYPES and tb in EXACT_TYPES else _inexactly(float.__add__, a, b)
    if ta in _MOMENTS and tb in _DURATIONS:
        return _add_duration(a, b)
    if ta in _DURATIONS and tb in _MOMENTS:
        return _add_duration(b, a)
    if ta is tb and ta is DayTime:
        return _scaled_sum(a, 1, b)
    if ta is tb and ta is YearMonth:
        months = a.months + b.months
        return YearMonth(months, 0) if -_MONTHS < months < _MONTHS else None
    return None


def subtract(a: Any, b: Any) -> Value | None:
    """The difference of numbers or durations, of two instants, or of an instant and a duration."""
    ta, tb = type(a), type(b)
    if ta is int and tb is int:
        return a - b  # type: ignore[no-any-return]
    if ta in NUMERIC and tb in NUMERIC:
        return _exactly(EXACT.subtract, a, b) if ta in EXACT_TYPES and tb in EXACT_TYPES else _inexactly(float.__sub__, a, b)
    if ta in _MOMENTS and ta is tb:
        try:
            return difference(a, b)
        except DecimalException:
            return None
    if tb in _DURATIONS:
        return add(a, type(b)(-b.months, -b.seconds))
    return None


_WIDEST: Final = 10**DIGITS


def multiply(a: Any, b: Any) -> Value | None:
    """The product of numbers, or of a number and a dayTimeDuration.

    >>> multiply(Decimal("0.6"), 25), multiply(2.0, Decimal("0.5"))
    (Decimal('15.0'), 1.0)
    """
    ta, tb = type(a), type(b)
    if ta is int and tb is int:
        product = a * b
        return product if -_WIDEST < product < _WIDEST else None
    if ta in NUMERIC and tb in NUMERIC:
        return _exactly(EXACT.multiply, a, b) if ta in EXACT_TYPES and tb in EXACT_TYPES else _inexactly(float.__mul__, a, b)
    if ta in NUMERIC and tb is DayTime:
        return _scaled_sum(b, a)
    return _scaled_sum(a, b) if ta is DayTime and tb in NUMERIC else None


def divide(a: Any, b: Any) -> Value | None:
    """The quotient of numbers, or of a dayTimeDuration and a number or a dayTimeDuration.

    >>> divide(7, 2), divide(1, 0), divide(1.0, 0), divide(6, Decimal(3))
    (Decimal('3.5'), None, inf, Decimal('2'))
    """
    ta, tb = type(a), type(b)
    if ta in NUMERIC and tb in NUMERIC:
        a, b = promoted(a, b)
        if not isinstance(a, float):
            return quotient(a, b)
        result = _ratio(a, b)
        return single(result) if type(a) is Single else result
    if ta is DayTime and tb in NUMERIC:
        exact = _exact(b)
        parts = None if exact is None else quotient(a.seconds, exact)
        return None if parts is None else day_time_of(a, parts)
    return quotient(a.seconds, b.seconds) if ta is DayTime and tb is DayTime else None


def _ratio(a: float, b: float) -> float:
    """IEEE 754 division."""
    if b:
        return a / b
    return nan if not a or isnan(a) else copysign(inf, a) * copysign(1.0, b)


def _exactly(operation: Callable[[Any, Any], Decimal], a: Any, b: Any) -> Decimal | None:
    try:
        return operation(a, b)
    except DecimalException:
        return None


def _inexactly(operation: Callable[[float, float], float], a: Any, b: Any) -> float:
    a, b = promoted(a, b)
    result = operation(a, b)
    return result if type(a) is float else single(result)


def _add_duration(moment: TemporalValue, duration: Duration) -> Value | None:
    try:
        return add_duration(moment, duration)
    except DecimalException:
        return None


def _exact(number: Number) -> int | Decimal | None:
    if isinstance(number, float):
        return Decimal(number) if number - number == 0 else None
    return number


def _scaled_sum(duration: DayTime, factor: Number, addend: DayTime | None = None) -> Value | None:
    """A multiple of a duration, plus another duration."""
    exact = _exact(factor)
    try:
        if exact is None:
            return None
        seconds = EXACT.multiply(Decimal(duration.seconds), Decimal(exact))
        return day_time_of(duration, seconds if addend is None else EXACT.add(seconds, Decimal(addend.seconds)))
    except DecimalException:
        return None


_MONTHS: Final = 10**4000


def negative(a: Any) -> Value | None:
    """Unary minus of a number or a duration."""
    ta = type(a)
    if ta in NUMERIC:
        return -a if ta is int else a.copy_negate() if ta is Decimal else ta(-a)  # type: ignore[no-any-return]
    return ta(-a.months, -a.seconds) if ta in _DURATIONS else None


def positive(a: Any) -> Value | None:
    """Unary plus of a number."""
    return a if type(a) in NUMERIC else None
