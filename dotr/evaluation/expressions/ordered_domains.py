"""Totally ordered domains of constants, for binary search of the constants above or below a value.

Idea: SPARQL's `<` compares values of one kind, and numbers after promotion. Promotion is monotone
(though unequal numbers may become equal), so constants sorted by value are sorted under every
promotion.
Invariant: for a constant `k` of a domain, `x < k` holds exactly if `domain_and_rank(domain, x)` is
`(promotion, rank)` and `rank < rank_in(k, promotion)`; likewise `<=`, `>` and `>=`. If
`domain_and_rank` is None, none of them holds.
Example: 0.1 (a double) against the decimals 0.05 and 0.1 is compared in doubles: its rank is 0.1,
and those of the constants are `float(0.05)` and `float(0.1)`.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import Any, Final

from dotr.evaluation.expressions.operators import to_double, to_single
from dotr.evaluation.expressions.values.datetimes import Date, DateTime, DayTime, TemporalValue, Time, YearMonth
from dotr.evaluation.expressions.values.terms import NUMERIC, VALUES, Single
from dotr.model.terms import Term


class OrderedDomain(Enum):
    """A kind of constants that `<` orders."""

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
    """The ordered domain of a constant; None if no value is above or below it.

    >>> from dotr.model.terms import XSD, literal
    >>> domain_of(literal("25", XSD + "integer")), domain_of('"25"'), domain_of('"warm"@en'), domain_of(literal("NaN", XSD + "double"))
    (<OrderedDomain.EXACT: 'integers and decimals'>, <OrderedDomain.TEXT: 'strings'>, None, None)
    """
    value = VALUES[constant]
    return _DOMAINS.get(type(value)) if value == value else None


def domain_and_rank(domain: OrderedDomain, value: object) -> tuple[int, Any] | None:
    """The promotion under which a value is compared with a domain's constants, and its rank.

    The promotion is `AS_IT_IS`, `AS_DOUBLE` or `AS_SINGLE`. None if the value is incomparable.

    >>> domain_and_rank(OrderedDomain.EXACT, 0.1), domain_and_rank(OrderedDomain.DOUBLE, Decimal("0.1"))
    ((1, 0.1), (0, 0.1))
    >>> domain_and_rank(OrderedDomain.EXACT, "1"), domain_and_rank(OrderedDomain.DOUBLE, float("nan"))
    (None, None)
    """
    kind = type(value)
    if kind in NUMERIC:
        if value != value:
            return None
        if domain is OrderedDomain.EXACT:
            return (AS_DOUBLE, value) if kind is float else (AS_SINGLE, float(value)) if kind is Single else (AS_IT_IS, value)  # type: ignore[arg-type]
        if domain is OrderedDomain.DOUBLE:
            return AS_IT_IS, to_double(value)  # type: ignore[arg-type]
        if domain is OrderedDomain.SINGLE:
            return AS_IT_IS, value if kind is float else float(to_single(value))  # type: ignore[arg-type]
        return None
    return (AS_IT_IS, _rank(value)) if _DOMAINS.get(kind) is domain else None


def rank_in(constant: Term, promotion: int) -> Any:
    """The rank of a constant of an ordered domain under a promotion."""
    value = VALUES[constant]
    if promotion == AS_DOUBLE:
        return to_double(value)  # type: ignore[arg-type]
    if promotion == AS_SINGLE:
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
