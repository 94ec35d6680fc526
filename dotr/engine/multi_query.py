"""Multi-query optimisation: rules with equal queries share one stream of facts (the paper, section
4: FILTERs merged).

Idea: queries that are equal up to the names of their variables become one stream, under the names
of the first. Where the queries of several roles differ only in filters on projected variables, the
stream is evaluated without those filters, and they become constraints of the roles, which stage two
indexes.
Example: for `?v > 3` in one rule and `?v > 5` in another the stream has the filter `?v > 3`, and
the roles have the constraints `?v > 3` and `?v > 5`.
Invariant: each rule matches the facts of its own query. A filter on projected variables commutes
with projection and DISTINCT, and an error is false in both places; values are in the order of
names, which renaming preserves (`canonical`).
Cost: the evaluation of queries dominates the cost of a thousand rules (the paper's Fig. 8); here it
is that of the distinct queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from dotr.evaluation.expressions.ordered_domains import AS_IT_IS, domain_of, rank_in
from dotr.instant.queries import canonical
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Const, Expression, Filter, Group, Select, Var, chain
from dotr.model.calendars import Schedule
from dotr.model.rules import Aggregate, Clause, FactSource, Role, Rule
from dotr.model.terms import Label, Term, Variable
from dotr.model.traverse import conjuncts, free_variables, has_exists, transform
from dotr.temporal.layout.retention import roles
from dotr.temporal.matching.rule_search import comparison, fold_constants

MAX_ALTERNATIVES = 8
"""The greatest number of filters in a disjunction: testing more costs more than a superfluous
fact."""

_QueryKey: TypeAlias = tuple[Select, Schedule | None]
_Renaming: TypeAlias = Mapping[Variable, Variable]


@dataclass(frozen=True, slots=True)
class _Split:
    """A fact source without its movable filters, and these filters."""

    base: FactSource
    movable: tuple[Expression, ...]

    @property
    def key(self) -> _QueryKey:
        return canonical(self.base.query), self.base.period


@dataclass(frozen=True, slots=True)
class _Shared:
    """The one source of several roles. `moves_filters`: their movable filters are constraints of
    the roles, not part of the source."""

    source: FactSource
    moves_filters: bool


def share_queries(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules with one source for all roles whose queries are equal but for movable filters."""
    first: dict[_QueryKey, FactSource] = {}
    variants: dict[_QueryKey, dict[tuple[Expression, ...], None]] = {}
    splits: dict[FactSource, tuple[_Split, _QueryKey]] = {}
    for rule in rules:
        for role in roles(rule):
            if isinstance(role.source, FactSource):
                if role.source not in splits:
                    split = _split(role.source)
                    splits[role.source] = split, split.key
                split, key = splits[role.source]
                base = first.setdefault(key, split.base)
                names = _names(split.base, base)
                variants.setdefault(key, {}).setdefault(tuple([_renamed(condition, names, {}) for condition in split.movable]))
    shared: dict[_QueryKey, _Shared] = {}
    for key, base in first.items():
        filters = list(variants[key])
        shared[key] = _Shared(_weakest_source(base, filters), True) if len(filters) > 1 else _Shared(_with_filters(base, filters[0]), False)

    def rule_of(rule: Rule) -> Rule:
        names: dict[Label, _Renaming] = {}
        for role in roles(rule):
            if isinstance(role.source, FactSource):
                split, key = splits[role.source]
                renamed = _names(split.base, shared[key].source)
                if any(old != new for old, new in renamed.items()):
                    names[role.label] = renamed
        aggregated = {clause.role.label for clause in rule.clauses if isinstance(clause, Aggregate)}
        visible_names = {label: own for label, own in names.items() if label not in aggregated}

        def role_of(role: Role) -> Role:
            if not isinstance(role.source, FactSource):
                return replace(role, constraints=_all_renamed(role.constraints, {}, visible_names)) if visible_names else role
            split, key = splits[role.source]
            common = shared[key]
            constraints = (split.movable if common.moves_filters else ()) + role.constraints
            if names:
                constraints = _all_renamed(constraints, names.get(role.label, {}), visible_names)
            by = role.delayed_by
            if by is not None and role.label in names:
                by = _renamed(by, names[role.label], {})
            return replace(role, source=common.source, constraints=constraints, delayed_by=by)

        def clause_of(clause: Clause) -> Clause:
            changed = replace(clause, role=role_of(clause.role))
            if isinstance(changed, Aggregate) and changed.attribute is not None and clause.role.label in names:
                changed = replace(changed, attribute=names[clause.role.label][changed.attribute])
            return changed

        shared_rule = replace(rule, anchor=role_of(rule.anchor), clauses=tuple(map(clause_of, rule.clauses)))
        if not visible_names:
            return shared_rule
        return replace(
            shared_rule,
            condition=None if rule.condition is None else _renamed(rule.condition, {}, visible_names),
            assignments=tuple([replace(each, expression=_renamed(each.expression, {}, visible_names)) for each in rule.assignments]),
        )

    return tuple(map(rule_of, rules))


def _names(source: FactSource, shared: FactSource) -> _Renaming:
    """The names of a source's attributes in a shared source of the same query."""
    return dict(zip(source.attributes, shared.attributes, strict=True))


def _all_renamed(expressions: Sequence[Expression], own: _Renaming, others: Mapping[Label, _Renaming]) -> tuple[Expression, ...]:
    return tuple([_renamed(each, own, others) for each in expressions])


def _renamed(expression: Expression, own: _Renaming, others: Mapping[Label, _Renaming]) -> Expression:
    def renamed(part: Expression) -> Expression:
        match part:
            case Var(name):
                return Var(own.get(name, name))
            case Attribute(label, name) if label in others:
                return Attribute(label, others[label].get(name, name))
            case _:
                return part

    return transform(expression, renamed)


def movable_filters(source: FactSource) -> tuple[Expression, ...]:
    """The filters of a source on projected variables, which become constraints where the query is
    shared with other filters.
    """
    return _split(source).movable


def _split(source: FactSource) -> _Split:
    query = source.query
    if not isinstance(query.pattern, Filter) or query.order or query.offset or query.limit is not None:
        return _Split(source, ())
    inner, conditions = query.pattern.pattern, query.pattern.conditions
    if isinstance(inner, Group):
        return _Split(source, ())
    movable = tuple(condition for condition in conditions if _movable(condition, query))
    fixed = tuple(condition for condition in conditions if condition not in movable)
    base = replace(query, pattern=Filter(inner, fixed) if fixed else inner)
    return _Split(replace(source, query=base), movable)


def _movable(condition: Expression, query: Select) -> bool:
    return not has_exists(condition) and set(free_variables(condition)) <= set(query.projection)


def _with_filters(base: FactSource, conditions: tuple[Expression, ...]) -> FactSource:
    """The source with further filters."""
    if not conditions:
        return base
    query = base.query
    inner, existing = (query.pattern.pattern, query.pattern.conditions) if isinstance(query.pattern, Filter) else (query.pattern, ())
    return replace(base, query=replace(query, pattern=Filter(inner, (*existing, *conditions))))


def _weakest_source(base: FactSource, filters: Sequence[tuple[Expression, ...]]) -> FactSource:
    """The one source of several variants, with a filter that drops rows that no variant accepts,
    where such a filter is cheap.
    """
    if not all(filters):
        return base
    weakest = weakest_filter(filters)
    conditions = weakest.conditions
    if not weakest.is_exact and len(filters) <= MAX_ALTERNATIVES:
        alternatives = [chain(["&&"] * (len(each) - 1), each) for each in filters]
        conditions += (chain(["||"] * (len(alternatives) - 1), alternatives),)
    return _with_filters(base, conditions)


# A shared prefilter: the weakest bound, or a set of constants, drops rows that no rule accepts.
#
# Idea: filters that all bound one attribute from below accept no value below the least bound; filters
# that all equate one attribute accept only their constants.
# Cost: one comparison or look-up a solution, independent of the number of filters.


class Prefilter(NamedTuple):
    """Conditions implied by each of the filters. `is_exact`: the conditions also imply that one of
    the filters holds.
    """

    conditions: tuple[Expression, ...]
    is_exact: bool


class _Bound(NamedTuple):
    attribute: Variable
    operator: str
    constant: Term


def weakest_filter(filters: Sequence[Sequence[Expression]]) -> Prefilter:
    """Conditions implied by each of several filters, conjunctions: the weakest of common bounds.

    >>> from dotr.model.terms import XSD, literal
    >>> def above(number: int) -> list[Expression]:
    ...     return [Call(">", (Var("v"), Const(literal(str(number), XSD + "integer"))))]
    >>> weakest_filter([above(5), above(3), above(9)]) == Prefilter(tuple(above(3)), True)
    True
    """
    bounds = [[_bound(each) for condition in conditions for each in conjuncts(condition)] for conditions in filters]
    shared_bounds: list[Expression] = []
    for first in bounds[0]:
        if first is not None:
            alike = [next((each for each in others if each is not None and _are_comparable(first, each)), None) for others in bounds]
            if None not in alike:
                shared_bounds.append(_weakest([each for each in alike if each is not None]))
    single = all(len(each) == 1 for each in bounds)
    return Prefilter(tuple(dict.fromkeys(shared_bounds)), bool(shared_bounds) and single and _share_operator(bounds))


def _share_operator(bounds: Sequence[Sequence[_Bound | None]]) -> bool:
    """True if all bounds have one operator, so that the weakest is one of them."""
    return len({each.operator for alike in bounds for each in alike if each is not None}) == 1


def _bound(condition: Expression) -> _Bound | None:
    compared = comparison(fold_constants(condition))
    if compared is None or not isinstance(compared.constant, Const):
        return None
    term = compared.constant.term
    return _Bound(compared.attribute, compared.operator, term) if compared.operator == "=" or domain_of(term) is not None else None


def _are_comparable(one: _Bound, other: _Bound) -> bool:
    if one.attribute != other.attribute or one.operator[0] != other.operator[0]:
        return False
    return one.operator == "=" or domain_of(one.constant) is domain_of(other.constant)


def _weakest(bounds: Sequence[_Bound]) -> Expression:
    """A condition implied by each of the bounds. Different constants can have equal values after
    numeric promotion, so the condition is closed (`>=`) where one of the bounds is.
    """
    attribute, operator, _ = bounds[0]
    if operator == "=":
        terms = dict.fromkeys(each.constant for each in bounds)
        constants = tuple([Const(term) for term in terms])
        return Call("=", (Var(attribute), constants[0])) if len(constants) == 1 else Call("IN", (Var(attribute), *constants))
    choose = min if operator[0] == ">" else max
    constant = choose((each.constant for each in bounds), key=lambda term: rank_in(term, AS_IT_IS))
    closed = next((each.operator for each in bounds if len(each.operator) == 2), operator)
    return Call(closed, (Var(attribute), Const(constant)))
