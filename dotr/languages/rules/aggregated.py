"""Pass 6: resolves variables of aggregates in the conditions of later clauses.

Before: `?mean = avg(Past.?v) of …` and a later `FILTER(?v > ?mean)`, which stage one cannot
evaluate. After: a temporal constraint, `?v > Past.?mean`.

A variable that the event itself binds hides the aggregate. In a shared query no plain variable is
an aggregate's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, attributes
from dotr.languages.rules.syntax import AggregateSyntax
from dotr.languages.sparql import split_constraints
from dotr.model.algebra import Attribute, Expression, Var
from dotr.model.terms import Label, Variable
from dotr.model.traverse import in_scope, transform

_Events = Mapping[Label, tuple[Variable, ...]]


def resolve_aggregates(program: ProgramDraft) -> ProgramDraft:
    """Replace the variables of earlier aggregates in each role's conditions by attributes."""
    events = program.events
    return replace(program, rules=tuple(_rule(rule, events) for rule in program.rules))


def _rule(rule: RuleDraft, events: _Events) -> RuleDraft:
    roles: list[RoleDraft] = []
    known: dict[Variable, Attribute] = {}
    for role, clause in zip(rule.roles, (None, *rule.syntax.clauses), strict=True):
        roles.append(_role(role, known, events) if known else role)
        if isinstance(clause, AggregateSyntax):
            known[clause.variable.text] = Attribute(role.label.text, clause.variable.text)
    return replace(rule, roles=tuple(roles))


def _role(role: RoleDraft, known: Mapping[Variable, Attribute], events: _Events) -> RoleDraft:
    if role.origin is RoleOrigin.OWN and role.question is not None:
        question = role.question
        own = in_scope(question.select.pattern)
        outer = {name: value for name, value in known.items() if name not in own and name not in question.select.projection}
        select, further = split_constraints(question.select, outer)
        constraints = tuple(_named(constraint, outer) for constraint in (*question.constraints, *further))
        role = replace(role, question=replace(question, select=select, constraints=constraints))
    own_attributes = attributes(role, events)
    if own_attributes is None:
        return role
    outer = {name: value for name, value in known.items() if name not in own_attributes}
    return replace(role, filters=tuple(_named(condition, outer) for condition in role.filters))


def _named(expression: Expression, outer: Mapping[Variable, Attribute]) -> Expression:
    return transform(expression, lambda part: outer.get(part.name, part) if isinstance(part, Var) else part)
