"""SPARQL's aggregates of a group's terms (SPARQL 1.1, section 18.5.1).

Invariant: the result is independent of the order of the terms. None among the terms is an error of
the aggregated expression: COUNT and SAMPLE skip it, the others err. A sum with doubles is the exact
sum of all numbers, rounded once; sums of decimals are exact, and their average has 18 decimal
places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, DecimalException
from fractions import Fraction
from functools import reduce
from math import fsum, isinf, isnan, nan
from typing import Final, TypeVar

from dotr.evaluation.expressions.operators import divide
from dotr.evaluation.expressions.sort_keys import order_key
from dotr.evaluation.expressions.values.decimals import EXACT
from dotr.evaluation.expressions.values.exact_sums import Moments, SortedNumbers
from dotr.evaluation.expressions.values.terms import NUMERIC, VALUES, Number, Single, single, write
from dotr.evaluation.limits import BOUNDS, counted
from dotr.model.algebra import AggregateCall
from dotr.model.terms import Term, is_iri, is_literal, literal, literal_parts

Terms = Sequence[Term | None]


def _members(terms: Terms, distinct: bool) -> Iterable[Term | None]:
    return dict.fromkeys(terms) if distinct else terms


def count(terms: Terms, distinct: bool = False) -> Term | None:
    """COUNT: the number of terms without errors."""
    return write(sum(term is not None for term in _members(terms, distinct)))


def total(numbers: Sequence[Number]) -> Number | None:
    """The sum in the widest type among the numbers; None for a decimal with too many digits.

    >>> total([]), total([1, Decimal("0.1")]), total([1e16, 1.0, -1e16]), total([Decimal("0.1"), Decimal("0.2"), 0.0])
    (0, Decimal('1.1'), 1.0, 0.3)
    """
    kinds = set(map(type, numbers))
    if kinds <= {int}:
        return sum(numbers)
    if float in kinds or Single in kinds:
        result = _float_sum(numbers)
        return result if float in kinds else single(result)
    try:
        return reduce(EXACT.add, (Decimal(n) for n in numbers))
    except DecimalException:
        return None


def _float_sum(numbers: Sequence[Number]) -> float:
    special = [n for n in numbers if isinstance(n, float) and (isinf(n) or isnan(n))]
    if special:
        return float(special[0]) if len(set(special)) == 1 else nan
    try:
        doubles = [float(n) for n in numbers]
        if doubles == numbers:  # Python compares exactly: no conversion has rounded
            return fsum(doubles)
    except OverflowError:
        pass
    return _nearest(sum(map(Fraction, numbers), Fraction(0)))


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _numbers(terms: Terms, distinct: bool) -> list[Number] | None:
    values = [VALUES[term] for term in _members(terms, distinct)]
    return None if any(type(v) not in NUMERIC for v in values) else values  # type: ignore[return-value]


def sum_(terms: Terms, distinct: bool = False) -> Term | None:
    """SUM: 0 for no terms, an error if a term is no number.

    >>> print(sum_([]), sum_(['"a"']))
    "0"^^<http://www.w3.org/2001/XMLSchema#integer> None
    """
    numbers = _numbers(terms, distinct)
    return None if numbers is None else write(total(numbers))


def average(terms: Terms, distinct: bool = False) -> Term | None:
    """AVG: 0 for no terms, as in SPARQL (a clause of a rule then leaves its variable unbound)."""
    numbers = _numbers(terms, distinct)
    if numbers is None:
        return None
    result = total(numbers)
    return write(result if not numbers or result is None else divide(result, len(numbers)))


def least(terms: Terms, distinct: bool = False) -> Term | None:
    """MIN, in the order of ORDER BY; an error for no terms."""
    return None if not terms or None in terms else min(terms, key=order_key)


def greatest(terms: Terms, distinct: bool = False) -> Term | None:
    """MAX, in the order of ORDER BY; an error for no terms."""
    return None if not terms or None in terms else max(terms, key=order_key)


def sample(terms: Terms, distinct: bool = False) -> Term | None:
    """SAMPLE: the least term by code point."""
    return min((term for term in terms if term is not None), default=None)


def group_concat(terms: Terms, distinct: bool = False, separator: str = " ") -> Term | None:
    """GROUP_CONCAT of the terms' texts, in code point order of the terms: literals before IRIs.

    >>> group_concat(['"b"', '"a"@en', '"b"'], separator=","), group_concat([]), group_concat(["<a>", '"b"'])
    ('"a,b,b"', '""', '"b a"')
    """
    if any(term is None or not (is_literal(term) or is_iri(term)) for term in terms):
        return None
    ordered = sorted(term for term in _members(terms, distinct) if term is not None)
    texts = [literal_parts(t)[0] if is_literal(t) else t[1:-1] for t in ordered]
    if sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1) > BOUNDS.characters:
        return None
    return counted(literal(separator.join(texts)))


def quantile(terms: Terms, distinct: bool = False, fraction: str = "0.5") -> Term | None:
    """The quantile of numbers, linear between its two neighbours; unbound for no terms, and if a
    term is no number.

    >>> VALUES[quantile([write(1), write(2), write(9)])], VALUES[quantile([write(1), write(2)], fraction="0.95")]
    (Decimal('2'), Decimal('1.95'))
    """
    return write(_changed(SortedNumbers(), terms, distinct).quantile(Fraction(fraction)))


def variance(terms: Terms, distinct: bool = False) -> Term | None:
    """The variance of a sample; unbound for fewer than two terms, and if a term is no number."""
    return write(_changed(Moments(), terms, distinct).variance())


def deviation(terms: Terms, distinct: bool = False) -> Term | None:
    """The standard deviation, a double: the root of the exact variance."""
    return write(_changed(Moments(), terms, distinct).deviation())


_Statistic = TypeVar("_Statistic", SortedNumbers, Moments)


def _changed(statistic: _Statistic, terms: Terms, distinct: bool) -> _Statistic:
    for term in _members(terms, distinct):
        statistic.change(VALUES[term], 1)
    return statistic


AGGREGATES: Final[dict[str, Callable[..., Term | None]]] = {
    "COUNT": count,
    "SUM": sum_,
    "AVG": average,
    "MIN": least,
    "MAX": greatest,
    "SAMPLE": sample,
    "GROUP_CONCAT": group_concat,
    "MEDIAN": quantile,
    "QUANTILE": quantile,
    "VARIANCE": variance,
    "STDDEV": deviation,
}
"""Aggregates by the name in an `AggregateCall` or, the last four, in rules; parameters: terms,
`distinct`, for GROUP_CONCAT `separator`, and for QUANTILE `fraction`.
"""


def aggregate(call: AggregateCall) -> Callable[[Terms], Term | None]:
    """The function of an aggregate call, from the terms of its argument to its result.

    The function of `COUNT(*)` is called with one arbitrary term for each solution.

    >>> aggregate(AggregateCall("COUNT", True, None))(['"a"', '"a"', None])
    '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    distinct = call.distinct
    if call.function == "GROUP_CONCAT" and call.separator is not None:
        separator = call.separator
        return lambda terms: group_concat(terms, distinct, separator)
    function = AGGREGATES[call.function]
    return lambda terms: function(terms, distinct)
