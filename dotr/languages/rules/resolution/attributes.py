"""Pass 7: checks the scopes of `M.?v`, `time(M)` and plain variables.

In scope of a constraint are the attributes of its own event as plain variables, the labels bound
before, and the aggregates before it (`aggregated.py`); in scope of `if` and `with` are all bound
labels and all aggregates. In a shared query, `M` is resolved in each rule that uses the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.codes import RuleCode
from dotr.languages.linking import unbound_warnings
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, SplitQuery, role_attributes
from dotr.languages.rules.resolution.labels import unbound_label
from dotr.languages.rules.syntax import AggregateSyntax, ByLabel
from dotr.model.algebra import Attribute, Expression, Var
from dotr.model.places import Span
from dotr.model.terms import Label, Variable
from dotr.model.traverse import free_variables, has_exists, in_scope, never_bound, transform
from dotr.syntax import scan
from dotr.syntax.sparql import Reference, event_references, scan_references, split_constraints

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
