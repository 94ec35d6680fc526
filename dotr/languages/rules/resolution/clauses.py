"""Pass 9: checks counts, aggregate functions, `before`, and that `with` assigns the template's
variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, assert_never

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.evaluation.expressions import evaluator
from dotr.evaluation.expressions.values.decimals import plain
from dotr.languages.codes import RuleCode
from dotr.languages.linking import unbound_warnings
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RoleUse, RuleDraft, SplitQuery, role_attributes, warning
from dotr.languages.rules.resolution.labels import unbound_label
from dotr.languages.rules.syntax import (
    AbsentSyntax,
    AggregateSyntax,
    BetweenSyntax,
    ByLabel,
    CalendarSyntax,
    ChooseSyntax,
    DurationSyntax,
    EventSyntax,
    IntervalSyntax,
    Lexical,
    Quantities,
    TicksSyntax,
    WindowSyntax,
    Word,
)
from dotr.model.algebra import Attribute, Expression, TimeOf, Var
from dotr.model.calendars import Calendar, calendar_of
from dotr.model.event_order import equated_pair
from dotr.model.places import Span
from dotr.model.rules import Mode
from dotr.model.templates import Template, leaves
from dotr.model.terms import XSD, Label, Prefixes, Variable
from dotr.model.time import EVER, Interval, Micros, Unit
from dotr.model.traverse import conjuncts, free_variables, has_exists, in_scope, never_bound, parameters_of, transform
from dotr.syntax import scan
from dotr.syntax.quantities import InvalidDuration, duration_of, lexical_duration
from dotr.syntax.sparql import Reference, event_references, scan_references, split_constraints
from dotr.temporal.matching.matcher.emitter import delay_micros

# Pass 7: checks the scopes of `M.?v`, `time(M)` and plain variables.
#
# In scope of a constraint are the attributes of its own event as plain variables, the labels bound
# before, and the aggregates before it (`aggregated.py`); in scope of `if` and `with` are all bound
# labels and all aggregates. In a shared query, `M` is resolved in each rule that uses the query.


_EventAttributes = Mapping[Label, tuple[Variable, ...]]


def check_attributes(program: ProgramDraft) -> ProgramDraft:
    """Report D203, D207, D208, D212, D219 and D309."""
    events = program.event_attributes
    problems = [p for query in program.queries if query.query for p in _query_problems(query.query)]
    for rule in program.rules:
        for position, role in enumerate(rule.roles):
            if role.origin is RoleOrigin.OWN and role.query:
                problems += _query_problems(role.query)
            problems += _constraint_problems(rule, position, role, events)
        problems += _aggregate_problems(rule, events)
        problems += _expression_problems(rule, events)
        problems += _delay_problems(rule, events)
    return program.with_problems(problems)


def _constraint_problems(rule: RuleDraft, position: int, role: RoleDraft, events: _EventAttributes) -> Iterator[Diagnostic]:
    for reference in role.references:
        if reference.label != role.label.text:
            for problem in _reference_problems(reference, rule.roles, position, events):
                shared = role.origin is RoleOrigin.SHARED and reference not in role.filter_references
                user = f"Rule {rule.name.text} uses this query as {role.label.text}. " if shared else ""
                yield replace(problem, hint=user + problem.hint)
        elif reference.variable is not None:
            message = f"{reference.label} is the event being chosen here"
            yield Diagnostic(RuleCode.UNBOUND_LABEL, message, reference.span, f"Its own attribute is ?{reference.variable}.")
    visible = role_attributes(role, events)
    if isinstance(role.syntax, ByLabel) and role.syntax.filters is not None and visible is not None:
        for name in _variable_names(role.filters):
            if name not in visible:
                span = scan.plain_variable(role.syntax.filters, name)
                if name in rule.aggregates:
                    hint = f"{role.label.text} comes before the aggregate. Clauses bind in the order written."
                    yield Diagnostic(RuleCode.UNBOUND_LABEL, f"?{name} is not bound yet", span, hint)
                else:
                    yield _unknown_attribute(role.source_label.text, name, span, visible, role.query)


def _variable_names(expressions: Iterable[Expression]) -> list[Variable]:
    return sorted({name for expression in expressions for name in free_variables(expression)})


def _reference_problems(reference: Reference, roles: Sequence[RoleDraft], position: int, events: _EventAttributes) -> Iterator[Diagnostic]:
    if problem := unbound_label(reference.label, reference.span, roles, position):
        yield problem
        return
    role = next(role for role in roles[:position] if role.label.text == reference.label)
    visible = role_attributes(role, events)
    if reference.variable is not None and visible is not None and reference.variable not in visible:
        yield _unknown_attribute(reference.label, reference.variable, reference.span, visible, role.query)


def _unknown_attribute(label: Label, name: Variable, span: Span, visible: Sequence[Variable], query: SplitQuery | None) -> Diagnostic:
    has = f"{label} has {', '.join(f'?{v}' for v in visible)}." if visible else f"{label} has no attributes."
    if query is not None and name in in_scope(query.select.pattern):
        hint = f"{has} Its query binds ?{name} without projecting it: add ?{name} to the SELECT line."
    else:
        hint = f"{has} {did_you_mean_variable(name, visible)}".rstrip()
    return Diagnostic(RuleCode.UNKNOWN_ATTRIBUTE, f"{label} has no attribute ?{name}", span, hint)


def did_you_mean_variable(name: Variable, visible: Sequence[Variable]) -> str:
    """The hint of `did_you_mean` with a question mark: `Did you mean ?room?`."""
    hint = did_you_mean(name, visible)
    return hint.replace("mean ", "mean ?") if hint else ""


def _aggregate_problems(rule: RuleDraft, events: _EventAttributes) -> Iterator[Diagnostic]:
    for clause, role in zip(rule.syntax.clauses, rule.roles[1:], strict=True):
        if isinstance(clause, AggregateSyntax) and clause.argument is not None:
            visible = role_attributes(role, events)
            label, variable = clause.argument
            if visible is not None and variable.text not in visible and label.text == role.label.text:
                yield _unknown_attribute(label.text, variable.text, variable.span, visible, role.query)


def _query_problems(query: SplitQuery) -> Iterator[Diagnostic]:
    """Problems of variables that no triple binds, and of EXISTS in a temporal constraint."""
    visible = in_scope(query.select.pattern)
    unbound = [(name, visible) for name in _variable_names(query.constraints) if name not in visible]
    yield from unbound_warnings([*never_bound(query.select.pattern), *unbound], query.text, visible, query.select.projection)
    for constraint in query.constraints:
        if has_exists(constraint):
            span = next((r.span for r in query.references if _occurs_in(r, constraint)), query.text)
            hint = "EXISTS is evaluated at one instant, before the other event is known. Write two conditions, joined by &&."
            yield Diagnostic(RuleCode.EXISTS_IN_CONSTRAINT, "EXISTS and another event in one condition", span, hint)


def _occurs_in(reference: Reference, constraint: Expression) -> bool:
    mentioned = {(part.label, part.name if isinstance(part, Attribute) else None) for part in event_references(constraint)}
    return (reference.label, reference.variable) in mentioned


def _expression_problems(rule: RuleDraft, events: _EventAttributes) -> Iterator[Diagnostic]:
    texts = [rule.syntax.condition, *(a.expression for a in rule.syntax.assignments)]
    for text, expression in zip(texts, [rule.condition, *rule.expressions], strict=False):
        if text is None or expression is None:
            continue
        for reference in scan_references(text):
            yield from _reference_problems(reference, rule.roles, len(rule.roles), events)
        for name in sorted({*free_variables(expression)} - rule.aggregates):
            yield _plain_variable(name, scan.plain_variable(text, name), rule, events)


def _delay_problems(rule: RuleDraft, events: _EventAttributes) -> Iterator[Diagnostic]:
    """Problems of the expression of a delay, in whose scope the anchor alone is."""
    delay, anchor = rule.syntax.delay, rule.roles[0]
    if delay is None or delay.value is None or anchor.delayed_by is None:
        return
    for reference in scan_references(delay.value):
        yield from _reference_problems(reference, rule.roles, 1, events)
    for name in free_variables(anchor.delayed_by):
        hint = f"In a delay the anchor alone is bound: write {anchor.label.text}.?{name}."
        yield Diagnostic(RuleCode.PLAIN_VARIABLE, f"?{name} belongs to no event", scan.plain_variable(delay.value, name), hint)


def _plain_variable(name: Variable, span: Span, rule: RuleDraft, events: _EventAttributes) -> Diagnostic:
    owners = [role.label.text for role in rule.roles if role.use.binds_label and name in (role_attributes(role, events) or ())]
    alternatives = " or ".join(f"{label}.?{name}" for label in owners)
    aggregates = sorted(f"?{v}" for v in rule.aggregates)
    hint = f"Write {alternatives}." if alternatives else "Write L.?v for an attribute of the event L."
    if aggregates:
        hint += f" The rule's aggregates are {', '.join(aggregates)}. {did_you_mean_variable(name, sorted(rule.aggregates))}".rstrip()
    return Diagnostic(RuleCode.PLAIN_VARIABLE, f"?{name} is no aggregate of the rule", span, hint)


# Pass 6: resolves variables of aggregates in the conditions of later clauses.
#
# Before: `?mean = avg(Past.?v) of …` and a later `FILTER(?v > ?mean)`, which stage one cannot
# evaluate. After: a temporal constraint, `?v > Past.?mean`.
#
# A variable that the event itself binds hides the aggregate. Shared queries are left unchanged: a
# plain variable in them never means an aggregate.


def resolve_aggregates(program: ProgramDraft) -> ProgramDraft:
    """Replace the variables of earlier aggregates in each role's conditions by attributes."""
    events = program.event_attributes
    return replace(program, rules=tuple(_resolve_rule(rule, events) for rule in program.rules))


def _resolve_rule(rule: RuleDraft, events: _EventAttributes) -> RuleDraft:
    roles: list[RoleDraft] = []
    aggregates: dict[Variable, Attribute] = {}
    for role, clause in zip(rule.roles, (None, *rule.syntax.clauses), strict=True):
        roles.append(_resolve_role(role, aggregates, events) if aggregates else role)
        if isinstance(clause, AggregateSyntax):
            aggregates[clause.variable.text] = Attribute(role.label.text, clause.variable.text)
    return replace(rule, roles=tuple(roles))


def _resolve_role(role: RoleDraft, aggregates: Mapping[Variable, Attribute], events: _EventAttributes) -> RoleDraft:
    if role.origin is RoleOrigin.OWN and role.query is not None:
        query = role.query
        own = in_scope(query.select.pattern)
        visible = {name: value for name, value in aggregates.items() if name not in own and name not in query.select.projection}
        select, further = split_constraints(query.select, visible)
        constraints = tuple(_substitute(constraint, visible) for constraint in (*query.constraints, *further))
        places = {_substitute(condition, visible): span for condition, span in query.places.items()}
        role = replace(role, query=replace(query, select=select, constraints=constraints, places=places))
    own_attributes = role_attributes(role, events)
    if own_attributes is None:
        return role
    visible = {name: value for name, value in aggregates.items() if name not in own_attributes}
    places = {_substitute(condition, visible): span for condition, span in role.filter_places.items()}
    return replace(role, filters=tuple(_substitute(condition, visible) for condition in role.filters), filter_places=places)


def _substitute(expression: Expression, visible: Mapping[Variable, Attribute]) -> Expression:
    return transform(expression, lambda part: visible.get(part.name, part) if isinstance(part, Var) else part)


FUNCTIONS = ("count", "sum", "avg", "min", "max", "median", "quantile", "variance", "stddev")
_OTHER_NAMES: Final = {"average": "avg", "mean": "avg", "percentile": "quantile", "var": "variance", "std": "stddev", "stdev": "stddev"}
_FRACTION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")


def check_clauses(program: ProgramDraft) -> ProgramDraft:
    """Report D209 to D211, D217, D227, D230, D231, D236, D305 to D307 and D325."""
    read = _attributes_read(program)
    problems: list[Diagnostic] = []
    for rule in program.rules:
        problems += _clause_problems(rule)
        problems += _before_problems(rule)
        problems += _assignment_problems(rule, read.get(rule.syntax.event.text, frozenset()))
        problems += _key_problems(rule)
    return program.with_problems(problems)


def _clause_problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    for clause in rule.syntax.clauses:
        match clause:
            case ChooseSyntax(keyword, _, count) if count is not None and int(count.text) == 0:
                selection = keyword.text.lower()
                hint = f"Write {selection}, or {selection} with a number from 1."
                yield Diagnostic(RuleCode.NOTHING_SELECTED, f"{selection} 0 selects nothing", count.span, hint)
            case AggregateSyntax(_, function, _, argument):
                name = function.text.lower()
                if name not in FUNCTIONS:
                    meant = f"Did you mean {_OTHER_NAMES[name]}?" if name in _OTHER_NAMES else did_you_mean(name, FUNCTIONS)
                    hint = f"Aggregates are {', '.join(FUNCTIONS)}. {meant}".rstrip()
                    yield Diagnostic(RuleCode.UNKNOWN_AGGREGATE, f"there is no aggregate {function.text}", function.span, hint)
                elif argument is None and name != "count":
                    hint = f"Only count takes *. Write {name}({clause.event.label.text}.?v)."
                    yield Diagnostic(RuleCode.AGGREGATE_OF_EVERYTHING, f"{name} of * has no meaning", function.span, hint)
                elif clause.fraction is not None and argument is not None:
                    yield from _fraction_problems(clause.fraction, f"{argument[0].text}.?{argument[1].text}")
            case _:
                pass


def _fraction_problems(fraction: Word, of: str) -> Iterator[Diagnostic]:
    """The error for a fraction that is no decimal from 0 to 1, with the number that it may mean."""
    text = fraction.text.strip("\"'")
    number = Decimal(text.rstrip("%")) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?([eE][+-]?[0-9])?%?", text) else None
    if _FRACTION.fullmatch(fraction.text) and Decimal(fraction.text) <= 1:
        return
    if number is not None and (text.endswith("%") or number > 1):
        number /= 100
    hint = "The fraction is a decimal from 0 to 1, without sign or exponent" + (
        f": quantile({plain(number)}, {of})." if number is not None and number <= 1 else "."
    )
    yield Diagnostic(RuleCode.NO_FRACTION, f"{fraction.text} is no fraction", fraction.span, hint)


def _before_problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    """Problems of `before R`, and of windows counted from the event that it has chosen."""
    before = {role.label.text for role in rule.roles if isinstance(role.scope, WindowSyntax) and isinstance(role.scope.extent, Word)}
    for position, (role, clause) in enumerate(zip(rule.roles[1:], rule.syntax.clauses, strict=True), 1):
        label, scope = role.label.text, role.scope
        references = [scope.reference] if isinstance(scope, WindowSyntax) else [scope.first, scope.second] if scope else []
        if isinstance(scope, WindowSyntax) and isinstance(scope.extent, Word):
            if reasons := list(reasons_for_every_event(rule, position)):
                hint = f"`before` keeps the newest event of each key alone. Write a window: within 1 h from {scope.reference.text}."
                yield Diagnostic(RuleCode.NO_STANDING_EVENT, f"{label} has no `before`: {'; '.join(reasons)}", scope.extent.span, hint)
            elif (
                scope.extent.text.istitle()
                and isinstance(clause, ChooseSyntax | AbsentSyntax)
                and not clause.keyword.text.istitle()
                and _is_bare(role.syntax)
            ):
                word = scope.extent.text
                hint = f"For a label write as: {role.source_label.text} as {word}. For the latest at any earlier time write {word.lower()}."
                yield warning(RuleCode.CAPITAL_BEFORE, f"{word} is the keyword here, no label", scope.extent.span, hint)
        elif far := next((word for word in references if word.text in before), None):
            hint = f"Count the window from an event with one, or choose {far.text} by a window of its own: within 1 d from …"
            message = f"every {role.source_label.text} is kept for ever: {far.text} is of any earlier time"
            yield warning(RuleCode.EVERY_EVENT_KEPT, message, far.span, hint)


def reasons_for_every_event(rule: RuleDraft, position: int) -> Iterator[str]:
    """The reasons why a clause needs more than the newest event of each key in its window; none if
    that is all (`dotr.temporal.layout.retention.standing`)."""
    role, clause, anchor = rule.roles[position], rule.syntax.clauses[position - 1], rule.roles[0]
    label = role.label.text
    last = isinstance(clause, ChooseSyntax) and clause.mode is Mode.LAST and clause.count is None
    if isinstance(clause, AggregateSyntax):
        yield "an aggregate reads every event"
    elif isinstance(clause, ChooseSyntax) and not last:
        yield f"only last and not look for one event, not {clause.keyword.text.lower()}{f' {clause.count.text}' if clause.count else ''}"
    reference = role.scope.reference.text if isinstance(role.scope, WindowSyntax) else anchor.label.text
    if reference != anchor.label.text and reference in rule.positions:
        yield f"{reference} is not the anchor, {anchor.label.text}"
    if label in (word.text for word in rule.syntax.consuming):
        yield f"{label} is consumed, and an older one would follow"
    bound = {other.label.text for other in rule.roles[:position] if other.use.binds_label}
    for constraint in (*(role.query.constraints if role.query else ()), *role.filters):
        for part in conjuncts(constraint):
            pair = equated_pair(part)
            if pair is not None and pair[1].label in bound:
                continue
            others = [
                each for each in parameters_of([part]) if isinstance(each, Attribute) or (isinstance(each, TimeOf) and each.label != label)
            ]
            if others:
                name = others[0].label
                yield f"a condition with {name} is more than an equality ?v = {name}.?w with an attribute of a label bound before"
    if last and isinstance(clause, ChooseSyntax) and clause.also is None:
        for other in rule.roles[:position]:
            if other.source_label.text == role.source_label.text and other.origin is role.origin:
                remedy = "`also last` where it may be the same"
                if other.use is RoleUse.CHOSEN:
                    yield f"{other.label.text} reads {role.source_label.text}, too, and may be the newest: {remedy}"
                    break
                if other.delay:
                    yield f"{other.label.text} is delayed, so it may be the newest: {remedy}"
                    break


def _is_bare(event: EventSyntax) -> bool:
    """True for a label by itself, behind which `as` may be forgotten."""
    return isinstance(event, ByLabel) and event.label is event.origin and event.filters is None


def _assignment_problems(rule: RuleDraft, read: frozenset[Variable]) -> Iterator[Diagnostic]:
    event, assigned = rule.syntax.event.text, dict[Variable, int]()
    for assignment in rule.syntax.assignments:
        label, name = assignment.label, assignment.variable
        if label.text != event:
            hint = f"Write {event}.?{name.text}."
            yield Diagnostic(RuleCode.WRONG_ASSIGNED_LABEL, f"the rule defines {event}, not {label.text}", label.span, hint)
        if name.text in assigned:
            yield Diagnostic(RuleCode.ASSIGNED_TWICE, f"?{name.text} is assigned twice", name.span, "Keep one of the assignments.")
        assigned[name.text] = assigned.get(name.text, 0) + 1
    if rule.template is None:
        return
    required = _template_variables(rule.template)
    keys = {key.text for key in rule.syntax.once.keys} if rule.syntax.once is not None else frozenset[Variable]()
    for missing in required:
        if missing not in assigned:
            hint = f"Add: with {event}.?{missing} = … {did_you_mean_variable(missing, [v for v in assigned if v not in required])}".rstrip()
            span = scan.plain_variable(rule.syntax.template, missing)
            yield Diagnostic(RuleCode.UNBOUND_IN_TEMPLATE, f"with never binds ?{missing}", span, hint)
    for assignment in rule.syntax.assignments:
        name = assignment.variable
        if name.text not in required and name.text not in read and name.text not in keys:
            hint = f"Use ?{name.text} in define, or leave the assignment out."
            yield warning(RuleCode.UNUSED_ASSIGNMENT, f"?{name.text} is never used by the template", name.span, hint)


def _key_problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    once, event = rule.syntax.once, rule.syntax.event.text
    assigned = [assignment.variable.text for assignment in rule.syntax.assignments]
    for place, key in enumerate(once.keys if once is not None else ()):
        if key.text not in assigned:
            near = did_you_mean_variable(key.text, assigned)
            has = f"{event} has {', '.join(f'?{name}' for name in assigned)}." if assigned else f"{event} has no attributes."
            hint = f"{has} {near or f'Add: with {event}.?{key.text} = …'}"
            message = f"once is per ?{key.text}, which with does not assign"
            yield Diagnostic(RuleCode.UNKNOWN_KEY, message, key.span, hint)
        elif once is not None and key.text in [other.text for other in once.keys[:place]]:
            yield Diagnostic(RuleCode.UNKNOWN_KEY, f"?{key.text} is a key of once twice", key.span, "Name it once.")


def _template_variables(template: Template) -> dict[Variable, None]:
    return {slot.name: None for slot in leaves(template) if isinstance(slot, Var)}


def _attributes_read(program: ProgramDraft) -> dict[Label, frozenset[Variable]]:
    """For each event, its attributes that some rule reads."""
    read_by_event: dict[Label, set[Variable]] = {}
    for rule in program.rules:
        events = {role.label.text: role for role in rule.roles if role.origin is RoleOrigin.EVENT}
        for reference in rule.references:
            if reference.label in events and reference.variable is not None:
                read_by_event.setdefault(events[reference.label].source_label.text, set()).add(reference.variable)
        for role, clause in zip(rule.roles, (None, *rule.syntax.clauses), strict=True):
            if role.origin is RoleOrigin.EVENT:
                names = read_by_event.setdefault(role.source_label.text, set())
                names.update(name for condition in role.filters for name in free_variables(condition))
                if isinstance(clause, AggregateSyntax) and clause.argument is not None:
                    names.add(clause.argument[1].text)
    return {label: frozenset(names) for label, names in read_by_event.items()}


# Pass 8: computes the windows of clauses, the periods of ticks and the delays of anchors, in µs.
#
# Before: `within 5 min from R`. After: the interval (0, 300000000].
# Invariant: durations are exact; one that is not a whole number of microseconds is an error.

_LONG_ABOVE: Final[Micros] = 30 * Unit.DAY.value


def resolve_windows(program: ProgramDraft) -> ProgramDraft:
    """Give every role its interval, period or delay, and every `once` its pause; reports D226, D301
    to D304, D228, D310, D312, D367 and D368."""
    problems: list[Diagnostic] = []
    rules = tuple(replace(rule, roles=_roles(rule, problems), pause=_pause(rule, problems)) for rule in program.rules)
    return replace(program, rules=rules).with_problems(problems)


def _roles(rule: RuleDraft, problems: list[Diagnostic]) -> tuple[RoleDraft, ...]:
    anchor, *roles = rule.roles
    timed = _with_timer(anchor, rule, problems)
    drafts = replace(rule, roles=(timed, *roles))
    return (timed, *(_with_interval(role, drafts, position, problems) for position, role in enumerate(roles, 1)))


def _with_timer(anchor: RoleDraft, rule: RuleDraft, problems: list[Diagnostic]) -> RoleDraft:
    """The anchor with its period or delay in µs; zero is an error."""
    try:
        if isinstance(anchor.syntax, TicksSyntax):
            if isinstance(anchor.syntax.period, CalendarSyntax):
                return replace(anchor, period=_calendar(anchor.syntax.period))
            period = duration_micros(anchor.syntax.period, rule.prefixes)
            if period == 0:
                hint = "Ticks come at each multiple of the period: write a length like 10 min."
                problems.append(Diagnostic(RuleCode.NO_TIMER, "a period of no length", anchor.syntax.period.span, hint))
            return replace(anchor, period=period)
        if (delay := rule.syntax.delay) is not None:
            micros = duration_micros(delay.length, rule.prefixes)
            if micros == 0:
                hint = "Write how long to wait, or leave `delayed by` out."
                if delay.value is not None:
                    hint = "Write the greatest delay that the data may ask for: it bounds what is kept."
                problems.append(Diagnostic(RuleCode.NO_TIMER, "a delay of no length", delay.length.span, hint))
            elif delay.value is not None and _is_never_a_delay(anchor.delayed_by, micros):
                hint = "A delay is a number of seconds, or a duration without months, from 0 to what stands behind `at most`."
                problems.append(Diagnostic(RuleCode.NO_DELAY, "this value is never a delay", delay.value, hint))
            if micros > _LONG_ABOVE:
                problems.append(_long_warning(micros, "delay", "every event of the anchor until then", delay.length.span))
            return replace(anchor, delay=micros)
    except _InvalidDuration as error:
        problems.append(error.diagnostic)
    return anchor


def _calendar(syntax: CalendarSyntax) -> Calendar:
    """The calendar of ticks; raises `_InvalidDuration` at the zone or the time of day."""
    try:
        at, zone = (None if each is None else each.text for each in (syntax.at, syntax.zone))
        return calendar_of(syntax.unit.text, at, zone)
    except (LookupError, ValueError) as error:
        is_zone, (reason, _, hint) = isinstance(error, LookupError), str(error).partition(". ")
        place = (syntax.zone if is_zone else syntax.at) or syntax.unit
        raise _InvalidDuration(RuleCode.UNKNOWN_ZONE if is_zone else RuleCode.NO_TIME_OF_DAY, reason, place.span, hint) from None


def _is_never_a_delay(value: Expression | None, most: Micros) -> bool:
    """True for a constant that is no delay."""
    return value is not None and not parameters_of([value]) and delay_micros(evaluator(value, ())(), most) is None


def _pause(rule: RuleDraft, problems: list[Diagnostic]) -> Micros | None:
    """The pause of `once` in µs; a missing one is an error."""
    once = rule.syntax.once
    if once is None:
        return None
    if once.pause is None:
        event = rule.syntax.event.text
        per = f" per {', '.join(f'?{key.text}' for key in once.keys)}" if once.keys else ""
        equal = " && ".join(f"?{key.text} = …" for key in once.keys)
        filters = f" [ FILTER({equal}) ]" if equal else ""
        hint = (
            f"Once a moment: once in 0{per}. Not again for an hour: once in 1 h{per}. "
            f"Never again: and not {event} as Earlier{filters} before {rule.syntax.anchor.label.text}."
        )
        problems.append(Diagnostic(RuleCode.NO_PAUSE, "once has no duration", once.keyword.span, hint))
        return None
    try:
        micros = duration_micros(once.pause, rule.prefixes)
    except _InvalidDuration as error:
        problems.append(error.diagnostic)
        return None
    if micros > _LONG_ABOVE:
        problems.append(_long_warning(micros, "pause", "one time for each key until then", once.pause.span))
    return micros


def _with_interval(role: RoleDraft, rule: RuleDraft, position: int, problems: list[Diagnostic]) -> RoleDraft:
    prefixes = rule.prefixes
    if isinstance(role.scope, BetweenSyntax):
        return role
    if role.scope is None:
        hint = "Add a window and its reference event: within 5 min from …"
        problems.append(Diagnostic(RuleCode.NO_WINDOW, f"{role.label.text} has no window", role.label.span, hint))
        return role
    extent = role.scope.extent
    try:
        match extent:
            case IntervalSyntax(low, high, low_closed, high_closed):
                interval = Interval(duration_micros(low, prefixes), duration_micros(high, prefixes), low_closed, high_closed)
            case Quantities() | Lexical():
                interval = Interval(0, duration_micros(extent, prefixes), low_closed=False, high_closed=True)
            case Word():
                return replace(role, interval=EVER)
            case _:
                assert_never(extent)
    except _InvalidDuration as error:
        problems.append(error.diagnostic)
        return role
    retained = "what lies in its windows"
    if interval.low == 0 and interval.high > _LONG_ABOVE and not any(reasons_for_every_event(rule, position)):
        retained = "the newest of each key; `before` has no limit"
    problems += _interval_problems(interval, extent.span, retained)
    return replace(role, interval=interval)


def _interval_problems(interval: Interval, span: Span, retained: str) -> list[Diagnostic]:
    least, greatest = interval.bounds
    if least > greatest:
        if interval.low > interval.high:
            hint = "The nearer bound comes first: [0, 5 min] reaches from the event itself to 5 minutes before it."
        else:
            hint = "`within D` is (0, D]. For the same instant write [0, 0]; time is counted in whole microseconds."
        return [Diagnostic(RuleCode.EMPTY_INTERVAL, "no time lies in this interval", span, hint)]
    if greatest > _LONG_ABOVE:
        return [_long_warning(greatest, "window", retained, span)]
    return []


def _long_warning(time: Micros, subject: str, retained: str, span: Span) -> Diagnostic:
    hint = f"It is {time // Unit.DAY.value} days, and a rule keeps {retained}. Is the unit right?"
    return warning(RuleCode.LONG_WINDOW, f"a suspiciously long {subject}", span, hint)


class _InvalidDuration(Exception):
    """Raised for an invalid duration, with its diagnostic."""

    def __init__(self, code: RuleCode, message: str, span: Span, hint: str) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, span, hint)


def duration_micros(duration: DurationSyntax, prefixes: Prefixes) -> Micros:
    """The duration in µs; `prefixes` resolve its datatype. Raises `_InvalidDuration`."""
    try:
        match duration:
            case Quantities(parts):
                return duration_of([(amount.text, None if unit is None else unit.text) for amount, unit in parts])
            case Lexical(value, datatype):
                if datatype is not None:
                    _check_datatype(datatype, prefixes)
                return lexical_duration(value.text)
            case _:
                assert_never(duration)
    except InvalidDuration as error:
        raise _InvalidDuration(_code(error), str(error), _place(duration, error), error.hint) from None


def _code(error: InvalidDuration) -> RuleCode:
    return RuleCode.UNKNOWN_UNIT if error.unit else RuleCode.NO_DURATION


def _place(duration: DurationSyntax, error: InvalidDuration) -> Span:
    """The place of the error: the unknown unit, or the whole duration."""
    if isinstance(duration, Quantities):
        return next((unit.span for _, unit in duration.parts if error.unit and unit is not None and unit.text == error.unit), duration.span)
    return duration.span if error.is_general else duration.value.span


def _check_datatype(word: Word, prefixes: Prefixes) -> None:
    if word.text.startswith("<"):
        iri = word.text[1:-1]
    else:
        prefix, local = word.text.split(":", 1)
        iri = prefixes.get(prefix, XSD if prefix == "xsd" else "") + local
    if iri not in (XSD + "duration", XSD + "dayTimeDuration"):
        hint = 'Write "PT5M"^^xsd:duration, or 5 min.'
        raise _InvalidDuration(RuleCode.NO_DURATION, f"{word.text} is no type of duration", word.span, hint)
