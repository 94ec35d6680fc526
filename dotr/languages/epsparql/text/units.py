"""Checked units of EP-SPARQL: all variables used are bound, and all operators have their bounds.

Source: ep-sparql.md, sections 3, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dotr.errors.diagnostics import Diagnostic, Severity, did_you_mean
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.bounds import long_bounds, with_bounds
from dotr.languages.epsparql.text.columns import ColumnSyntax
from dotr.languages.epsparql.text.operands import chained
from dotr.languages.epsparql.text.statements import UnitSyntax
from dotr.model.algebra import Expression, Var, is_hidden
from dotr.model.places import Span
from dotr.model.templates import leaves
from dotr.model.terms import Variable
from dotr.model.traverse import free_variables
from dotr.temporal.intervals.patterns import (
    ConstructedGraphs,
    InstantAnswers,
    IntervalPattern,
    SelectedSolutions,
    SolutionForm,
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
    """Warnings of a unit by itself: E403, E405 and E406."""
    operators = list(combinations(unit.where)) if unit.where is not None else []
    for operator in operators:
        if not set(visible_variables(operator.left)) & set(visible_variables(operator.right)):
            message = f"the operands of {operator.operator.value} have no common variable"
            hint = "Every solution of one combines with every one of the other that the times allow. Name a variable in both."
            yield Diagnostic(TemporalCode.NO_COMMON_VARIABLE, message, operator.span, hint, Severity.WARNING)
    if syntax.policy_span is not None and not operators:
        hint = "A policy limits how often an operator uses a solution. Leave it out."
        yield Diagnostic(TemporalCode.POLICY_ALONE, "a POLICY without an operator", syntax.policy_span, hint, Severity.WARNING)
    yield from long_bounds(syntax.places)
