"""Queries that differ in their filters are asked once.

Rules of one shape ask the same of an instant and differ in a threshold. Where several roles' queries are equal but for filters on what they
project, the query is asked without those filters (of which one must pass), and each role's own become constraints of the role,
which stage two tests. That changes no fact a rule sees: a filter on projected variables commutes with projection and DISTINCT, and
errs to false in both places. It does change what a thousand rules cost (the paper's Fig. 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from dotr.languages.sparql import variables
from dotr.model.algebra import Call, Exists, Expression, Filter, Group, Select
from dotr.model.rules import Clause, FactSource, Role, Rule

MOST_ALTERNATIVES = 32
"""More filters than this are not joined into one: testing them all in vain would cost more than handing the fact on."""


@dataclass(frozen=True, slots=True)
class _Split:
    """A fact source without its movable filters, and these."""

    base: FactSource
    moved: tuple[Expression, ...]


def share(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The same rules, in which roles that ask the same but for filters have one source."""
    variants: dict[FactSource, dict[tuple[Expression, ...], None]] = {}
    for rule in rules:
        for role in (rule.anchor, *(clause.role for clause in rule.clauses)):
            if isinstance(role.source, FactSource):
                split = _split(role.source)
                variants.setdefault(split.base, {}).setdefault(split.moved)
    shared = {base: _asked(base, list(filters)) for base, filters in variants.items() if len(filters) > 1}

    def role_of(role: Role) -> Role:
        if not isinstance(role.source, FactSource):
            return role
        split = _split(role.source)
        source = shared.get(split.base)
        return role if source is None else replace(role, source=source, constraints=split.moved + role.constraints)

    def clause_of(clause: Clause) -> Clause:
        return replace(clause, role=role_of(clause.role))

    return tuple(replace(rule, anchor=role_of(rule.anchor), clauses=tuple(map(clause_of, rule.clauses))) for rule in rules)


def _split(source: FactSource) -> _Split:
    query = source.query
    if not isinstance(query.pattern, Filter) or query.order or query.offset or query.limit is not None:
        return _Split(source, ())
    inner, conditions = query.pattern.pattern, query.pattern.conditions
    if isinstance(inner, Group):
        return _Split(source, ())
    moved = tuple(condition for condition in conditions if _movable(condition, query))
    kept = tuple(condition for condition in conditions if condition not in moved)
    base = replace(query, pattern=Filter(inner, kept) if kept else inner)
    return _Split(replace(source, query=base), moved)


def _movable(condition: Expression, query: Select) -> bool:
    return not _has_exists(condition) and set(variables(condition)) <= set(query.projection)


def _has_exists(expression: Expression) -> bool:
    match expression:
        case Exists():
            return True
        case Call(_, arguments):
            return any(map(_has_exists, arguments))
        case _:
            return False


def _asked(base: FactSource, filters: Sequence[tuple[Expression, ...]]) -> FactSource:
    """The one source of several variants: solutions that none of them wants are left out where that is cheap to tell."""
    if len(filters) > MOST_ALTERNATIVES or not all(filters):
        return base
    wanted = reduce(lambda a, b: Call("||", (a, b)), (reduce(lambda a, b: Call("&&", (a, b)), each) for each in filters))
    query = base.query
    inner, kept = (query.pattern.pattern, query.pattern.conditions) if isinstance(query.pattern, Filter) else (query.pattern, ())
    return replace(base, query=replace(query, pattern=Filter(inner, (*kept, wanted))))
