"""Checked units of EP-SPARQL: all variables used are bound, and all operators have their bounds.

Source: ep-sparql.md, sections 3, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from typing import Final, assert_never

from dotr.errors.diagnostics import Diagnostic, Severity, did_you_mean
from dotr.evaluation.expressions.functions import SECONDS
from dotr.evaluation.expressions.kinds import time_form
from dotr.evaluation.expressions.values.datetimes import read_duration
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.operands import ChainPlaces, chained
from dotr.languages.epsparql.text.statements import ColumnSyntax, UnitSyntax
from dotr.languages.linking import misuse_warnings, unbound_warnings
from dotr.model.algebra import Call, Const, Expression, Var, is_hidden
from dotr.model.places import Span
from dotr.model.templates import leaves
from dotr.model.terms import XSD, Label, Variable, is_literal, literal_parts
from dotr.model.time import Forms, Micros, TimeForm, Unit
from dotr.model.traverse import conjuncts, free_variables, never_bound
from dotr.temporal.intervals.patterns import (
    DURATION,
    END,
    START,
    Alternatives,
    Chain,
    Combination,
    ConstructedGraphs,
    EventRead,
    InstantAnswers,
    InstantGroup,
    IntervalPattern,
    SelectedSolutions,
    SolutionForm,
    TemporalOperator,
    TemporalQuery,
    combinations,
    visible_variables,
)


def unit_of(syntax: UnitSyntax) -> TemporalQuery | None:
    """The unit of a statement; None after a problem. All diagnostics are recorded in its scan."""
    form = _form(syntax)
    problems = syntax.scan.problems
    if problems or form is None or syntax.label_span is None:
        return None
    unit = TemporalQuery(syntax.label, syntax.documentation, form, syntax.policy, syntax.span, syntax.label_span)
    problems += _warnings(unit, syntax)
    return unit


def _form(syntax: UnitSyntax) -> SolutionForm | None:
    problems = syntax.scan.problems
    if syntax.answers is not None:
        return InstantAnswers(syntax.answers)
    if syntax.operand is None:
        return None
    where = with_bounds(syntax.operand.closed(), problems)
    visible = visible_variables(where)
    if syntax.is_stream:
        return _stream(syntax, where, visible)
    if syntax.columns is None or not syntax.columns.is_complete:
        return None
    return SelectedSolutions(where, _columns(syntax.columns, visible, problems), syntax.is_distinct)


def _columns(
    syntax: ColumnSyntax, visible: Sequence[Variable], problems: list[Diagnostic]
) -> tuple[tuple[Variable, Expression | None], ...]:
    if syntax.columns is None:
        return tuple((name, None) for name in visible)
    columns: dict[Variable, Expression | None] = {}
    known = list(visible)
    for column in syntax.columns:
        if column.expression is None:
            if column.name not in known:
                problems.append(_unbound(column.name, known, column.name_span))
            columns.setdefault(column.name, None)
            continue
        missing = [name for name in free_variables(column.expression) if name not in known and not is_hidden(name)]
        problems += [_unbound(name, known, _variable_place(column.span, name)) for name in missing]
        if column.name in known or column.name in columns:
            hint = "Give AS a new variable."
            problems.append(Diagnostic(TemporalCode.VISIBLE_ALREADY, f"?{column.name} has a value already", column.name_span, hint))
            continue
        known.append(column.name)
        columns[column.name] = column.expression
    return tuple(columns.items())


def _stream(syntax: UnitSyntax, where: IntervalPattern, visible: Sequence[Variable]) -> ConstructedGraphs | None:
    problems = syntax.scan.problems
    if syntax.columns is not None:  # a sub-SELECT: only its columns are visible in the template
        if not syntax.columns.is_complete:
            return None
        columns = _columns(syntax.columns, visible, problems)
        bindings = [(name, expression) for name, expression in columns if expression is not None]
        where = chained(where, bindings, (), None, syntax.span)
        visible = [name for name, _ in columns]
    template = syntax.template
    if template is None:
        return None
    for name in dict.fromkeys(leaf.name for leaf in leaves(template) if isinstance(leaf, Var)):
        if name not in visible:
            problems.append(_unbound(name, visible, _variable_place(syntax.template_span or syntax.span, name)))
    return ConstructedGraphs(where, template)


def _unbound(name: Variable, known: Sequence[Variable], place: Span) -> Diagnostic:
    shown = ", ".join(f"?{each}" for each in known[:20]) or "no variable"
    near = did_you_mean(f"?{name}", [f"?{each}" for each in known])
    return Diagnostic(TemporalCode.UNBOUND_VARIABLE, f"nothing binds ?{name}", place, f"{near} WHERE binds {shown}.".strip())


def _variable_place(place: Span, name: str) -> Span:
    """The first occurrence of a variable in a part of a text; the whole part if there is none."""
    for mark in "?$":
        at = place.document.text.find(mark + name, place.start, place.end)
        if at >= 0:
            return Span(place.document, at, at + len(name) + 1)
    return place


def _warnings(unit: TemporalQuery, syntax: UnitSyntax) -> Iterator[Diagnostic]:
    """Warnings of a unit by itself: E403, E405, E406 and E407."""
    operators = list(combinations(unit.where)) if unit.where is not None else []
    for operator in operators:
        if not set(visible_variables(operator.left)) & set(visible_variables(operator.right)):
            message = f"the operands of {operator.operator.value} have no common variable"
            hint = "Every solution of one combines with every one of the other that the times allow. Name a variable in both."
            yield Diagnostic(TemporalCode.NO_COMMON_VARIABLE, message, operator.span, hint, Severity.WARNING)
    if syntax.policy_span is not None and not operators:
        hint = "A policy limits how often an operator uses a solution. Leave it out."
        yield Diagnostic(TemporalCode.POLICY_ALONE, "a POLICY without an operator", syntax.policy_span, hint, Severity.WARNING)
    if unit.where is not None:
        yield from unbound_warnings(_never_bound(unit.where), unit.span, visible_variables(unit.where))
    yield from long_bounds(syntax.places)
    yield from length_warnings(unit, {})


def _never_bound(pattern: IntervalPattern) -> Iterator[tuple[Variable, Iterable[Variable]]]:
    """The variables of conditions that nothing binds, each with those that are bound there."""
    match pattern:
        case InstantGroup():
            yield from never_bound(pattern.pattern)
        case Chain(_, _, conditions) | Combination(condition=conditions):
            bound = visible_variables(pattern)
            yield from ((name, bound) for each in conditions for name in free_variables(each) if name not in bound)
    match pattern:
        case Combination(_, left, right):
            inner: Sequence[IntervalPattern] = (left, right)
        case Alternatives(branches):
            inner = branches
        case Chain(first):
            inner = (first,)
        case _:
            inner = ()
    for each in inner:
        yield from _never_bound(each)


def length_warnings(unit: TemporalQuery, events: Mapping[Label, Forms]) -> Iterator[Diagnostic]:
    """E407 for each time and length that a unit uses as a number; `events` has the forms of the
    attributes of events."""
    forms, expressions = forms_of(unit, events)
    yield from misuse_warnings(expressions, forms, TemporalCode.LENGTH_AS_NUMBER, unit.span, _CALLS)


_CALLS: Final = {
    START: r"(?i)getStartTime\s*\(\s*\)",
    END: r"(?i)getEndTime\s*\(\s*\)",
    DURATION: r"(?i)getDuration\s*\(\s*\)",
}


def forms_of(unit: TemporalQuery, events: Mapping[Label, Forms]) -> tuple[dict[Variable, TimeForm], list[Expression]]:
    """The forms of the variables of a unit that are times, or lengths between two, and the unit's
    expressions."""
    forms = {START: TimeForm(False), END: TimeForm(False), DURATION: TimeForm(True, f"{SECONDS}(getDURATION())", is_duration=True)}
    expressions = [] if unit.where is None else list(_expressions(unit.where, forms, events))
    for name, expression in unit.form.columns if isinstance(unit.form, SelectedSolutions) else ():
        expressions += [expression] if expression is not None else []
        if expression is not None and (form := time_form(expression, forms, {})):
            forms[name] = form
    return forms, expressions


def _expressions(pattern: IntervalPattern, forms: dict[Variable, TimeForm], events: Mapping[Label, Forms]) -> Iterator[Expression]:
    """The expressions of a pattern; adds the forms of its variables."""
    match pattern:
        case Combination():
            yield from _expressions(pattern.left, forms, events)
            yield from _expressions(pattern.right, forms, events)
            yield from pattern.condition
        case Alternatives(branches):
            for branch in branches:
                yield from _expressions(branch, forms, events)
        case Chain(inner, bindings, filters):
            yield from _expressions(inner, forms, events)
            for variable, expression in bindings:
                if form := time_form(expression, forms, {}):
                    forms[variable] = form
                yield expression
            yield from filters
        case EventRead(label, attributes):
            known = events.get(label, {})
            forms |= {variable: known[attribute] for attribute, variable in attributes if attribute in known}
        case InstantGroup():
            pass
        case _:
            assert_never(pattern)


# Bounds of operators: the greatest distance of solutions that combine, from WITHIN and FILTERs.
#
# Idea: one walk down a pattern passes on the least WITHIN around a part, and the least limit of
# getDURATION() that holds for every result of it. A FILTER's limit is passed on to operands of SEQ,
# EQUALS, AND and UNION, to mandatory operands, and to the optional one of EQUALSOPTIONAL.
# Source: ep-sparql.md, section 3.

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
