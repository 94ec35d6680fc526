"""Scales: constants that stand in one order, so that those which a value is above or below are found by search, not one by one.

Idea: SPARQL's `<` compares values of one kind, and numbers by promotion; promotion keeps the order of numbers, though it may make unequal
ones equal. So constants of one kind, in the order of their values, are in order for whatever a number is promoted to.
Invariant: for constants `k` of a scale, `x < k` holds exactly if `domain_and_rank(scale, x)` is `(domain, mark)` and `mark < mark_of(k, domain)`; so
do `<=`, `>` and `>=`; where `domain_and_rank` is None none of them holds.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Any, Final

from dotr.expressions.datetimes import Date, DateTime, DayTime, TemporalValue, Time, YearMonth
from dotr.expressions.operators import to_double, to_single
from dotr.expressions.values import NUMERIC, VALUES, Single
from dotr.model.terms import Term


class OrderedDomain(Enum):
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


_DOMAINS: Final[dict[type, OrderedDomain]] = {
    int: OrderedDomain.EXACT,
    Decimal: OrderedDomain.EXACT,
    float: OrderedDomain.DOUBLE,
    Single: OrderedDomain.SINGLE,
    bool: OrderedDomain.TRUTH,
    str: OrderedDomain.TEXT,
    DateTime: OrderedDomain.DATE_TIME,
    Date: OrderedDomain.DATE,
    Time: OrderedDomain.TIME,
    DayTime: OrderedDomain.DAY_TIME,
    YearMonth: OrderedDomain.YEAR_MONTH,
}

AS_IT_IS: Final = 0
AS_DOUBLE: Final = 1
AS_SINGLE: Final = 2


def domain_of(constant: Term) -> OrderedDomain | None:
    """The scale on which a constant stands; None: nothing is above or below it.

    >>> from dotr.model.terms import XSD, literal
    >>> domain_of(literal("25", XSD + "integer")), domain_of('"25"'), domain_of('"warm"@en'), domain_of(literal("NaN", XSD + "double"))
    (<Scale.EXACT: 'integers and decimals'>, <Scale.TEXT: 'strings'>, None, None)
    """
    value = VALUES[constant]
    return _DOMAINS.get(type(value)) if value == value else None


def domain_and_rank(scale: OrderedDomain, value: object) -> tuple[int, Any] | None:
    """Where a value stands among the constants of a scale: the domain in which it is compared with them, and its mark there.

    >>> domain_and_rank(OrderedDomain.EXACT, 0.1), domain_and_rank(OrderedDomain.DOUBLE, Decimal("0.1")), domain_and_rank(OrderedDomain.EXACT, "1"), domain_and_rank(OrderedDomain.DOUBLE, float("nan"))
    ((1, 0.1), (0, 0.1), None, None)
    """
    kind = type(value)
    if kind in NUMERIC:
        if value != value:
            return None
        if scale is OrderedDomain.EXACT:
            return (AS_DOUBLE, value) if kind is float else (AS_SINGLE, float(value)) if kind is Single else (AS_IT_IS, value)  # type: ignore[arg-type]
        if scale is OrderedDomain.DOUBLE:
            return AS_IT_IS, to_double(value)  # type: ignore[arg-type]
        if scale is OrderedDomain.SINGLE:
            return AS_IT_IS, value if kind is float else float(to_single(value))  # type: ignore[arg-type]
        return None
    return (AS_IT_IS, _rank(value)) if _DOMAINS.get(kind) is scale else None


def rank_in(constant: Term, domain: int) -> Any:
    """The mark of a constant of a scale in a domain."""
    value = VALUES[constant]
    if domain == AS_DOUBLE:
        return to_double(value)  # type: ignore[arg-type]
    if domain == AS_SINGLE:
        return float(to_single(value))  # type: ignore[arg-type]
    return _rank(value)


def _rank(value: object) -> Any:
    if isinstance(value, TemporalValue):
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
