"""Pass 15: finds differences of times that are used as numbers, which needs integer times.

Before: `if time(Off) - time(On) > 10`. After: the same rule, and a warning at `time(Off)`, since
the difference of two date-times is a duration, which has no order with a number.
Idea: the form of an expression is a time, the length between two times, or neither
(`evaluation/expressions/kinds.py`); the forms of the attributes of events are a least fixpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions.kinds import (
    ANYTHING,
    Forms,
    LengthMisuse,
    TermKinds,
    TimeForm,
    aggregate_kinds,
    length_misuses,
    time_form,
    with_form_of_times,
)
from dotr.languages.codes import RuleCode
from dotr.languages.rules.lints.conditions import NUMERIC_AGGREGATES
from dotr.languages.rules.lints.unsatisfiable import Conjunct, first_atom, span_of
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, event_reads
from dotr.languages.rules.syntax import AggregateSyntax, ByLabel
from dotr.model.algebra import Attribute
from dotr.model.graphs import least_fixpoint
from dotr.model.terms import Label, Variable

_OF_ONE: Final = frozenset({"min", "max"})
_EventForms = Mapping[Label, Forms]


def check_time_differences(program: ProgramDraft) -> ProgramDraft:
    """Report the warning D326, in programs without errors."""
    if not program.is_error_free:
        return program
    events = _event_forms(program)
    found = dict.fromkeys(problem for rule in program.rules for problem in _rule_problems(rule, events))
    return program.with_problems(with_form_of_times(found, False if program.integer_times else None))


def _event_forms(program: ProgramDraft) -> _EventForms:
    """The forms of each event's attributes: of those that a rule assigns a time, or a length."""
    rules = program.rules_by_event
    start: dict[Label, Forms] = {label: {} for label in (*program.event_attributes, *rules)}

    def assigned(label: Label, events: _EventForms) -> Forms:
        forms = dict(events[label])
        for rule in rules[label]:
            aggregates, bound = _scopes(rule, events)
            for assignment, expression in zip(rule.syntax.assignments, rule.expressions, strict=False):
                form = expression and time_form(expression, aggregates, bound)
                if form:
                    forms.setdefault(assignment.variable.text, form)
        return forms

    return least_fixpoint(start, event_reads(rules), assigned)


def _role_forms(role: RoleDraft, events: _EventForms) -> Forms:
    return events.get(role.source_label.text, {}) if role.origin is RoleOrigin.EVENT else {}


def _scopes(rule: RuleDraft, events: _EventForms) -> tuple[Forms, _EventForms]:
    """The forms of the aggregates of a rule, and those of the attributes of each label."""
    bound = {role.label.text: _role_forms(role, events) for role in rule.roles}
    aggregates: dict[str, TimeForm] = {}
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax) and clause.argument is not None and clause.function.text.lower() in _OF_ONE:
            form = bound[clause.event.label.text].get(clause.argument[1].text)
            if form:
                aggregates[clause.variable.text] = form
    return aggregates, bound


def _rule_problems(rule: RuleDraft, events: _EventForms) -> Iterator[Diagnostic]:
    aggregates, bound = _scopes(rule, events)
    for role in rule.roles:
        own = {**aggregates, **bound[role.label.text]}
        conjuncts = [Conjunct(each, role.query.text) for each in role.query.constraints] if role.query else []
        if isinstance(role.syntax, ByLabel) and role.syntax.filters is not None:
            conjuncts += [Conjunct(each, role.syntax.filters) for each in role.filters]
        for conjunct in conjuncts:
            yield from _misused(conjunct, own, bound, {})
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax) and clause.argument is not None and clause.function.text.lower() in NUMERIC_AGGREGATES:
            argument = Attribute(clause.event.label.text, clause.argument[1].text)
            form = time_form(argument, aggregates, bound)
            if form and form.is_length:
                misuse = LengthMisuse(f"{clause.function.text} of a difference of times", argument, form)
                yield misuse.warning(RuleCode.LENGTH_AS_NUMBER, clause.argument[1].span)
    kinds = {
        clause.variable.text: aggregate_kinds(clause.function.text, ANYTHING)
        for clause in rule.syntax.clauses
        if isinstance(clause, AggregateSyntax)
    }
    texts = [(rule.condition, rule.syntax.condition)]
    texts += [(each, assignment.expression) for each, assignment in zip(rule.expressions, rule.syntax.assignments, strict=False)]
    for expression, text in texts:
        if expression is not None and text is not None:
            yield from _misused(Conjunct(expression, text), aggregates, bound, kinds)


def _misused(conjunct: Conjunct, own: Forms, bound: _EventForms, kinds: Mapping[Variable, TermKinds]) -> Iterator[Diagnostic]:
    for misuse in length_misuses(conjunct.expression, own, bound, kinds):
        yield misuse.warning(RuleCode.LENGTH_AS_NUMBER, span_of(conjunct, first_atom(misuse.length)))
