"""Scales: constants that stand in one order, so that those which a value is above or below are found by search, not one by one.

Idea: SPARQL's `<` compares values of one kind, and numbers by promotion; promotion keeps the order of numbers, though it may make unequal
ones equal. So constants of one kind, in the order of their values, are in order for whatever a number is promoted to.
Invariant: for constants `k` of a scale, `x < k` holds exactly if `stand(scale, x)` is `(domain, mark)` and `mark < mark_of(k, domain)`; so
do `<=`, `>` and `>=`; where `stand` is None none of them holds.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Any, Final

from dotr.expressions.dates import Date, DateTime, DayTime, Moment, Time, YearMonth
from dotr.expressions.operators import to_double, to_single
from dotr.expressions.values import NUMERIC, VALUES, Single
from dotr.model.terms import Term


class Scale(Enum):
    """What kind of constants."""

    EXACT = "integers and decimals"
    DOUBLE = "doubles"
    SINGLE = "floats"
    TRUTH = "booleans"
    TEXT = "strings"
    DATE_TIME = "date-times"
    DATE = "dates"
    TIME = "times"
    DAY_TIME = "durations of days and less"
    YEAR_MONTH = "durations of months"


_SCALES: Final[dict[type, Scale]] = {
    int: Scale.EXACT,
    Decimal: Scale.EXACT,
    float: Scale.DOUBLE,
    Single: Scale.SINGLE,
    bool: Scale.TRUTH,
    str: Scale.TEXT,
    DateTime: Scale.DATE_TIME,
    Date: Scale.DATE,
    Time: Scale.TIME,
    DayTime: Scale.DAY_TIME,
    YearMonth: Scale.YEAR_MONTH,
}

AS_IT_IS: Final = 0
AS_DOUBLE: Final = 1
AS_SINGLE: Final = 2


def scale_of(constant: Term) -> Scale | None:
    """The scale on which a constant stands; None: nothing is above or below it.

    >>> from dotr.model.terms import XSD, literal
    >>> scale_of(literal("25", XSD + "integer")), scale_of('"25"'), scale_of('"warm"@en'), scale_of(literal("NaN", XSD + "double"))
    (<Scale.EXACT: 'integers and decimals'>, <Scale.TEXT: 'strings'>, None, None)
    """
    value = VALUES[constant]
    return _SCALES.get(type(value)) if value == value else None


def stand(scale: Scale, value: object) -> tuple[int, Any] | None:
    """Where a value stands among the constants of a scale: the domain in which it is compared with them, and its mark there.

    >>> stand(Scale.EXACT, 0.1), stand(Scale.DOUBLE, Decimal("0.1")), stand(Scale.EXACT, "1"), stand(Scale.DOUBLE, float("nan"))
    ((1, 0.1), (0, 0.1), None, None)
    """
    kind = type(value)
    if kind in NUMERIC:
        if value != value:
            return None
        if scale is Scale.EXACT:
            return (AS_DOUBLE, value) if kind is float else (AS_SINGLE, float(value)) if kind is Single else (AS_IT_IS, value)  # type: ignore[arg-type]
        if scale is Scale.DOUBLE:
            return AS_IT_IS, to_double(value)  # type: ignore[arg-type]
        if scale is Scale.SINGLE:
            return AS_IT_IS, value if kind is float else float(to_single(value))  # type: ignore[arg-type]
        return None
    return (AS_IT_IS, _mark(value)) if _SCALES.get(kind) is scale else None


def mark_of(constant: Term, domain: int) -> Any:
    """The mark of a constant of a scale in a domain."""
    value = VALUES[constant]
    if domain == AS_DOUBLE:
        return to_double(value)  # type: ignore[arg-type]
    if domain == AS_SINGLE:
        return float(to_single(value))  # type: ignore[arg-type]
    return _mark(value)


def _mark(value: object) -> Any:
    if isinstance(value, Moment):
        return value.instant
    match value:
        case DayTime(_, seconds):
            return seconds
        case YearMonth(months, _):
            return months
        case Single():
            return float(value)
        case _:
            return value
