"""Pass 15: finds differences of times that are used as numbers, which needs integer times.

Before: `if time(Off) - time(On) > 10`. After: the same rule, and a warning at `time(Off)`, since
the difference of two date-times is a duration, which has no order with a number.
Idea: the form of an expression is a time, the length between two times, or neither
(`evaluation/expressions/kinds.py`); the forms of the attributes of events are a least fixpoint.
The windows bound the distance of two events: `elapsed(Off, On) > 10` never holds where On is
before Off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions.functions import ELAPSED, SECONDS
from dotr.evaluation.expressions.kinds import (
    ANYTHING,
    TermKinds,
    TimeMisuse,
    aggregate_kinds,
    time_form,
    time_misuses,
    with_form_of_times,
)
from dotr.evaluation.expressions.values.terms import EXACT_TYPES, read
from dotr.languages.codes import RuleCode
from dotr.languages.rules.lints.conditions import NUMERIC_AGGREGATES
from dotr.languages.rules.lints.unsatisfiable import MIRRORED, Conjunct, first_atom, span_of, split
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, event_reads, warning
from dotr.languages.rules.syntax import AggregateSyntax, ByLabel, WindowSyntax
from dotr.model.algebra import Attribute, Call, Const, TimeOf
from dotr.model.graphs import least_fixpoint
from dotr.model.terms import Label, Variable
from dotr.model.time import Forms, Micros, TimeForm, Unit
from dotr.syntax.sparql import time_unit

_OF_ONE: Final = frozenset({"min", "max"})
_EventForms = Mapping[Label, Forms]


def check_time_differences(program: ProgramDraft) -> ProgramDraft:
    """Report the warnings D313 of times, D326 and D327, in programs without errors."""
    if not program.is_error_free:
        return program
    events = _event_forms(program)
    found = dict.fromkeys(problem for rule in program.rules for problem in _rule_problems(rule, events))
    return replace(program, forms=events).with_problems(with_form_of_times(found, False if program.integer_times else None))


def _event_forms(program: ProgramDraft) -> _EventForms:
    """The forms of each event's attributes: of those that a rule assigns a time, or a length."""
    rules = program.rules_by_event
    start: dict[Label, Forms] = {label: {} for label in (*program.event_attributes, *rules)}
    start |= {unit.label: dict(unit.forms) for unit in program.units}

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
            yield from _decided(conjunct, rule)
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax) and clause.argument is not None and clause.function.text.lower() in NUMERIC_AGGREGATES:
            argument = Attribute(clause.event.label.text, clause.argument[1].text)
            form = time_form(argument, aggregates, bound)
            if form and form.is_length:
                misuse = TimeMisuse(f"{clause.function.text} of a difference of times", argument, form)
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
    delay, value = rule.syntax.delay, rule.roles[0].delayed_by
    if delay is not None and delay.value is not None and value is not None:
        yield from _misused(Conjunct(value, delay.value), {}, bound, {})
        form, unit = time_form(value, {}, bound), time_unit()
        if form and form.is_length and not form.is_duration and unit is not Unit.SECOND:
            message = f"this delay is a number of {unit.written.lower()}s, and counts as one of seconds"
            hint = f"Write {SECONDS}(…) of the difference, which is in seconds, whatever the form of times."
            yield replace(warning(RuleCode.LENGTH_AS_NUMBER, message, delay.value, hint), dated=False)
    if rule.condition is not None and rule.syntax.condition is not None:
        yield from _decided(Conjunct(rule.condition, rule.syntax.condition), rule)


def _misused(conjunct: Conjunct, own: Forms, bound: _EventForms, kinds: Mapping[Variable, TermKinds]) -> Iterator[Diagnostic]:
    for misuse in time_misuses(conjunct.expression, own, bound, kinds):
        yield misuse.warning(RuleCode.LENGTH_AS_NUMBER, span_of(conjunct, first_atom(misuse.operand)))


def _length(rule: RuleDraft, start: Label, end: Label) -> tuple[Micros, Micros] | None:
    """The least and the greatest length in µs from an event to another; None if it is not known.

    With `from Off delayed by 5 min and last On within [2 min, 9 min] from Off`, the length from On
    to Off is from -3 to 4 min. Clauses that both labels are counted from cancel out.
    """
    positions, paths = rule.positions, []
    for label in (start, end):
        path: list[tuple[Label, Micros, Micros]] = []
        while position := positions[label]:
            role = rule.roles[position]
            if not isinstance(role.scope, WindowSyntax) or role.interval is None:
                return None
            reference = rule.roles[positions[role.scope.reference.text]]
            least, greatest = role.interval.bounds
            path.append((label, least - reference.delay, greatest - reference.delay))
            label = reference.label.text
        paths.append(path)
    first, second = paths
    while first and second and first[-1] == second[-1]:
        first.pop()
        second.pop()
    return sum(low for _, low, _ in first) - sum(high for _, _, high in second), sum(h for _, _, h in first) - sum(w for _, w, _ in second)


def _decided(conjunct: Conjunct, rule: RuleDraft) -> Iterator[Diagnostic]:
    """Comparisons of the length between two events that hold always, or never, by the windows."""
    for part in split(conjunct):
        match part.expression:
            case Call(operator, (Call() as length, Const(term))) if operator in MIRRORED:
                pass
            case Call(mirrored, (Const(term), Call() as length)) if mirrored in MIRRORED:
                operator = MIRRORED[mirrored]
            case _:
                continue
        number = read(term)
        match length:
            case Call(function, (TimeOf(start), TimeOf(end), *_)) if function == ELAPSED and type(number) in EXACT_TYPES:
                text, exchanged = f"elapsed({start}, {end})", f"elapsed({end}, {start})"
            case Call("-", (TimeOf(end), TimeOf(start))) if number == 0:
                text, exchanged = f"time({end}) - time({start})", f"time({start}) - time({end})"
            case _:
                continue
        found = _length(rule, start, end)
        if found is None:
            continue
        least, greatest = found
        bound = Decimal(number) * Unit.SECOND.value  # type: ignore[arg-type]
        holds = _always(operator, least, greatest, bound)
        if holds is None:
            continue
        message = f"the windows make this {'hold always' if holds else 'never hold'}"
        hint = f"{text} is from {_seconds(least)} to {_seconds(greatest)} s here."
        if _always(operator, -greatest, -least, bound) is None:
            hint += f" Did you mean {exchanged}?"
        code = RuleCode.ALWAYS_BY_WINDOWS if holds else RuleCode.NEVER_HOLDS
        yield warning(code, message, span_of(part, TimeOf(start)), hint)


def _seconds(micros: Micros) -> str:
    return f"{micros / Unit.SECOND.value:.6f}".rstrip("0").rstrip(".")


def _always(operator: str, least: Micros, greatest: Micros, bound: Decimal) -> bool | None:
    """True where all values from `least` to `greatest` are in a relation to a bound, False where
    none is; else None.

    >>> [_always(">", *values, Decimal(0)) for values in ((1, 5), (-5, 0), (-1, 1))]
    [True, False, None]
    """
    match operator:
        case ">" | "<=":
            above, below = least > bound, greatest <= bound
        case ">=" | "<":
            above, below = least >= bound, greatest < bound
        case _:
            above, below = least > bound or greatest < bound, least == greatest == bound
    return None if not above and not below else above == (operator in (">", ">=", "!="))
