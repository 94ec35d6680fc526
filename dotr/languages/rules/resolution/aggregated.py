"""Pass 6: resolves variables of aggregates in the conditions of later clauses.

Before: `?mean = avg(Past.?v) of …` and a later `FILTER(?v > ?mean)`, which stage one cannot
evaluate. After: a temporal constraint, `?v > Past.?mean`.

A variable that the event itself binds hides the aggregate. Shared queries are left unchanged: a
plain variable in them never means an aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, role_attributes
from dotr.languages.rules.syntax import AggregateSyntax
from dotr.model.algebra import Attribute, Expression, Var
from dotr.model.terms import Label, Variable
from dotr.model.traverse import in_scope, transform
from dotr.syntax.sparql import split_constraints

_EventAttributes = Mapping[Label, tuple[Variable, ...]]


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
