"""Pass 7: checks the scopes of `M.?v`, `time(M)` and plain variables.

In scope of a constraint are the attributes of its own event as plain variables, the labels bound
before, and the aggregates before it (`aggregated.py`); in scope of `if` and `with` are all bound
labels and all aggregates. In a shared query, `M` is resolved in each rule that uses the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.rules import scan
from dotr.languages.rules.codes import RuleCode
from dotr.languages.rules.labels import unbound_label
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, SplitQuery, role_attributes, warning
from dotr.languages.rules.syntax import AggregateSyntax, ByLabel
from dotr.languages.sparql import Reference, references_of, scan_references
from dotr.model.algebra import Attribute, Expression, Filter, Pattern, is_hidden
from dotr.model.places import Span
from dotr.model.terms import Label, Variable
from dotr.model.traverse import free_variables, has_exists, in_scope

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
    known = role_attributes(role, events)
    if isinstance(role.syntax, ByLabel) and role.syntax.filters is not None and known is not None:
        for name in _variable_names(role.filters):
            if name not in known:
                place = scan.plain_variable(role.syntax.filters, name)
                if name in rule.aggregates:
                    hint = f"{role.label.text} comes before the aggregate. Clauses bind in the order written."
                    yield Diagnostic(RuleCode.UNBOUND_LABEL, f"?{name} is not bound yet", place, hint)
                else:
                    yield _unknown_attribute(role.source_label.text, name, place, known, role.query)


def _variable_names(expressions: Iterable[Expression]) -> list[Variable]:
    return sorted({name for expression in expressions for name in free_variables(expression)})


def _reference_problems(reference: Reference, roles: Sequence[RoleDraft], position: int, events: _EventAttributes) -> Iterator[Diagnostic]:
    if problem := unbound_label(reference.label, reference.span, roles, position):
        yield problem
        return
    role = next(role for role in roles[:position] if role.label.text == reference.label)
    known = role_attributes(role, events)
    if reference.variable is not None and known is not None and reference.variable not in known:
        yield _unknown_attribute(reference.label, reference.variable, reference.span, known, role.query)


def _unknown_attribute(label: Label, name: Variable, span: Span, known: Sequence[Variable], query: SplitQuery | None) -> Diagnostic:
    has = f"{label} has {', '.join(f'?{v}' for v in known)}." if known else f"{label} has no attributes."
    if query is not None and name in in_scope(query.select.pattern):
        hint = f"{has} Its query binds ?{name} without projecting it: add ?{name} to the SELECT line."
    else:
        hint = f"{has} {did_you_mean_variable(name, known)}".rstrip()
    return Diagnostic(RuleCode.UNKNOWN_ATTRIBUTE, f"{label} has no attribute ?{name}", span, hint)


def did_you_mean_variable(name: Variable, known: Sequence[Variable]) -> str:
    """`did_you_mean` for variables."""
    hint = did_you_mean(name, known)
    return hint.replace("mean ", "mean ?") if hint else ""


def _aggregate_problems(rule: RuleDraft, events: _EventAttributes) -> Iterator[Diagnostic]:
    for clause, role in zip(rule.syntax.clauses, rule.roles[1:], strict=True):
        if isinstance(clause, AggregateSyntax) and clause.argument is not None:
            known = role_attributes(role, events)
            label, variable = clause.argument
            if known is not None and variable.text not in known and label.text == role.label.text:
                yield _unknown_attribute(label.text, variable.text, variable.span, known, role.query)


def _query_problems(query: SplitQuery) -> Iterator[Diagnostic]:
    """Variables that no triple binds, and EXISTS in a temporal constraint."""
    for conditions, known in (*_where_conditions(query.select.pattern), (query.constraints, in_scope(query.select.pattern))):
        for name in _variable_names(conditions):
            if name not in known and name not in query.select.projection:
                instead = did_you_mean_variable(name, [v for v in known if not is_hidden(v)])
                hint = f"It has no value: a comparison with it can only err, and BOUND of it is false. {instead}".rstrip()
                yield warning(RuleCode.NEVER_BOUND, f"?{name} is never bound in this query", scan.plain_variable(query.text, name), hint)
    for constraint in query.constraints:
        if has_exists(constraint):
            place = next((r.span for r in query.references if _occurs_in(r, constraint)), query.text)
            hint = "EXISTS is asked of one instant, the other event is known later. Write two FILTERs, joined by &&."
            yield Diagnostic(RuleCode.EXISTS_IN_CONSTRAINT, "EXISTS and another event in one condition", place, hint)


def _where_conditions(pattern: Pattern) -> Iterator[tuple[tuple[Expression, ...], Mapping[Variable, None]]]:
    """The conditions of the WHERE group itself, with the variables in scope of them."""
    if isinstance(pattern, Filter):
        yield pattern.conditions, in_scope(pattern.pattern)


def _occurs_in(reference: Reference, constraint: Expression) -> bool:
    found = {(noun.label, noun.name if isinstance(noun, Attribute) else None) for noun in references_of(constraint)}
    return (reference.label, reference.variable) in found


def _expression_problems(rule: RuleDraft, events: _EventAttributes) -> Iterator[Diagnostic]:
    places = [rule.syntax.condition, *(a.expression for a in rule.syntax.assignments)]
    for place, expression in zip(places, [rule.condition, *rule.expressions], strict=False):
        if place is None or expression is None:
            continue
        for reference in scan_references(place):
            yield from _reference_problems(reference, rule.roles, len(rule.roles), events)
        for name in sorted({*free_variables(expression)} - rule.aggregates):
            yield _plain_variable(name, scan.plain_variable(place, name), rule, events)


def _plain_variable(name: Variable, place: Span, rule: RuleDraft, events: _EventAttributes) -> Diagnostic:
    owners = [role.label.text for role in rule.roles if role.use.binds_label and name in (role_attributes(role, events) or ())]
    written = " or ".join(f"{label}.?{name}" for label in owners)
    aggregates = sorted(f"?{v}" for v in rule.aggregates)
    hint = f"Write {written}." if written else "Write L.?v for an attribute of the event L."
    if aggregates:
        hint += f" The rule's aggregates are {', '.join(aggregates)}. {did_you_mean_variable(name, sorted(rule.aggregates))}".rstrip()
    return Diagnostic(RuleCode.PLAIN_VARIABLE, f"?{name} is no aggregate of the rule", place, hint)
