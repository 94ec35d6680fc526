"""Bounds of operators: the greatest distance of solutions that combine, from WITHIN and FILTERs.

Idea: one walk down a pattern passes on the least WITHIN around a part, and the least limit of
getDURATION() that holds for every result of it. A FILTER's limit is passed on to operands of SEQ,
EQUALS, AND and UNION, to mandatory operands, and to the optional one of EQUALSOPTIONAL.
Source: ep-sparql.md, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil, floor
from typing import Final, assert_never

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.expressions.values.datetimes import read_duration
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.operands import ChainPlaces
from dotr.model.algebra import Call, Const, Expression, Var
from dotr.model.places import Span
from dotr.model.terms import XSD, is_literal, literal_parts
from dotr.model.time import Micros, Unit
from dotr.model.traverse import conjuncts
from dotr.temporal.intervals.patterns import (
    DURATION,
    Alternatives,
    Chain,
    Combination,
    EventRead,
    InstantGroup,
    IntervalPattern,
    TemporalOperator,
)

_LONG_ABOVE: Final[Micros] = 30 * Unit.DAY.value
_DURATIONS: Final = (XSD + "duration", XSD + "dayTimeDuration")
_MIRRORED: Final = {"<": ">", "<=": ">=", "=": "=", ">": "<", ">=": "<="}


def limit_of(condition: Expression) -> Micros | None:
    """The greatest duration, in µs, of a solution that satisfies a conjunct; None without a limit.

    >>> literal = Const('"PT10S"^^<http://www.w3.org/2001/XMLSchema#duration>')
    >>> limit_of(Call("<", (Var(DURATION), literal))), limit_of(Call(">=", (literal, Var(DURATION))))
    (9999999, 10000000)
    >>> limit_of(Call(">", (Var(DURATION), literal))) is None
    True
    """
    if not isinstance(condition, Call) or condition.function not in _MIRRORED or len(condition.arguments) != 2:
        return None
    left, right = condition.arguments
    function = condition.function
    if right == Var(DURATION):
        left, right, function = right, left, _MIRRORED[function]
    if left != Var(DURATION) or not isinstance(right, Const) or not is_literal(right.term):
        return None
    text, datatype, _ = literal_parts(right.term)
    value = read_duration(text) if datatype in _DURATIONS else None
    if value is None or value.months:
        return None
    length = value.seconds * Unit.SECOND.value
    match function:
        case "<":
            return ceil(length) - 1
        case "<=" | "=":
            return floor(length)
        case _:
            return None


def _limits(conditions: Iterable[Expression]) -> list[Micros]:
    limits = [limit_of(part) for condition in conditions for part in conjuncts(condition)]
    return [limit for limit in limits if limit is not None]


def _least(*limits: Micros | None) -> Micros | None:
    return min((limit for limit in limits if limit is not None), default=None)


def with_bounds(
    pattern: IntervalPattern, problems: list[Diagnostic], within: Micros | None = None, limit: Micros | None = None
) -> IntervalPattern:
    """The pattern with `within` and `bound` of every operator; E201 and E202 are recorded.

    - `within`: the least WITHIN around the pattern, in µs.
    - `limit`: the least limit of getDURATION(), in µs, of all results with the pattern as a part.
    """
    match pattern:
        case InstantGroup() | EventRead():
            return pattern
        case Chain(inner, _, filters, chain_within):
            inner = with_bounds(inner, problems, _least(within, chain_within), _least(limit, *_limits(filters)))
            return replace(pattern, pattern=inner)
        case Alternatives(branches):
            return Alternatives(tuple(with_bounds(branch, problems, within, limit) for branch in branches))
        case Combination(operator, left, right, condition):
            condition_limit = _least(*_limits(condition))
            bound = _least(within, condition_limit if operator.is_optional else limit)
            _check(pattern, _least(bound, limit) if operator is TemporalOperator.EQUALSOPTIONAL else bound, problems)
            match operator:
                case TemporalOperator.OPTIONALSEQ:
                    left, right = with_bounds(left, problems, within, condition_limit), with_bounds(right, problems, within, limit)
                case TemporalOperator.EQUALSOPTIONAL:
                    left = with_bounds(left, problems, within, limit)
                    right = with_bounds(right, problems, within, _least(limit, condition_limit))
                case _:
                    left, right = with_bounds(left, problems, within, limit), with_bounds(right, problems, within, limit)
            return replace(pattern, left=left, right=right, within=within, bound=bound)
        case _:
            assert_never(pattern)


def _check(combination: Combination, bound: Micros | None, problems: list[Diagnostic]) -> None:
    operator = combination.operator
    word, place = operator.value, combination.span
    if bound is None:
        if operator in (TemporalOperator.EQUALS, TemporalOperator.EQUALSOPTIONAL):
            return
        hint = 'Write WITHIN 10 min at the end of the chain, or FILTER(getDURATION() < "PT10M"^^xsd:duration).'
        if operator is TemporalOperator.OPTIONALSEQ:
            hint = (
                'Write WITHIN 10 min at the end of the chain, or FILTER(getDURATION() < "PT10M"^^xsd:duration) in the braces of the '
                "optional part. A FILTER behind the operator does not limit how far it looks back."
            )
        problems.append(Diagnostic(TemporalCode.NO_BOUND, f"{word} without a bound would remember everything", place, hint))
        return
    if bound < (1 if operator.is_strict else 0):
        needs = "more than 0" if operator.is_strict else "0 or more"
        hint = f"WITHIN or the limit of getDURATION() leaves {word} nothing: it needs {needs}."
        problems.append(Diagnostic(TemporalCode.EMPTY_BOUND, f"no solution of {word} can meet its bound", place, hint))


def long_bounds(places: ChainPlaces) -> list[Diagnostic]:
    """E406 for each WITHIN and each limit of getDURATION() of more than thirty days."""
    found = [(place, length) for place, length in places.within]
    found += [(place, limit) for condition, place in places.conditions.items() if (limit := limit_of(condition)) is not None]
    return [_long(place, length) for place, length in found if length > _LONG_ABOVE]


def _long(place: Span, length: Micros) -> Diagnostic:
    hint = f"It is {-(-length // Unit.DAY.value)} days, and a unit keeps what may still combine. Is the unit of time right?"
    return Diagnostic(TemporalCode.LONG_BOUND, "a suspiciously long bound", place, hint, Severity.WARNING)
