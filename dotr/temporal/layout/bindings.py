"""Bindings between stages: the rules whose bindings share a stream, and the columns of its rows.

Idea: rules of one shape (`rule_shape`) whose roles have the same ports in
every stage share a stream: one row represents the bindings of all. Its columns are the values that
a later stage, or the match, reads. Columns name roles by position, so they apply to all rules of
the stream.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, assert_never

from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.event_order import LabelledVariable
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, Mode, Role, Rule, Window
from dotr.model.templates import Blank, Fresh, leaves
from dotr.model.terms import Label
from dotr.model.traverse import conjuncts, parameters_of, transform
from dotr.temporal.layout.placement import Placement
from dotr.temporal.layout.retention import anchor_delay, roles, scope_of
from dotr.temporal.layout.stages import (
    AggregatedValue,
    AliveRules,
    BindingColumn,
    BindingStream,
    BoundOrdinal,
    BoundTime,
    BoundValue,
    BranchSize,
)


class StagePorts(NamedTuple):
    """A placed stage with its layer and the ports there of the roles that it reads."""

    placed: Placement
    ports: tuple[int, ...]


def binding_streams(rules: Sequence[Sequence[StagePorts]]) -> Mapping[tuple[str, int], BindingStream]:
    """The stream that enters each stage but the first, by the name of the rule and the number of
    the stage.

    `rules`: of each rule all stages, in order.
    """
    groups: dict[object, list[Sequence[StagePorts]]] = {}
    for stages in rules:
        rule = stages[0].placed.rule
        where = tuple((each.placed.layer, each.placed.stage.end, each.ports, _key_of(each.placed)) for each in stages)
        groups.setdefault((rule_shape(rule), where), []).append(stages)
    found: dict[tuple[str, int], BindingStream] = {}
    for group in groups.values():
        names = tuple(sorted(stages[0].placed.rule.name for stages in group))
        for each in group[0][1:]:
            number = each.placed.stage.number
            stream = BindingStream(names, number, _columns(group, each.placed), _key_of(each.placed))
            found.update(((name, number), stream) for name in names)
    return found


def _key_of(placed: Placement) -> BoundValue | AggregatedValue:
    """The column by which the bindings that enter a stage are routed; not used for a first
    stage."""
    label, name = placed.key or (placed.rule.anchor.label, "")
    return _column_of(placed.rule, (label, name))


def _column_of(rule: Rule, value: LabelledVariable) -> BoundValue | AggregatedValue:
    label, name = value
    place = [role.label for role in roles(rule)].index(label)
    return AggregatedValue(place) if place and isinstance(rule.clauses[place - 1], Aggregate) else BoundValue(place, name)


def _columns(group: Sequence[Sequence[StagePorts]], entered: Placement) -> tuple[BindingColumn, ...]:
    """The columns of the bindings that enter a stage of rules of one shape."""
    rule, first = entered.rule, entered.stage.first
    before = rule.clauses[:first]
    all_values = any(isinstance(leaf, Fresh | Blank) for stages in group for leaf in leaves(stages[0].placed.rule.template))
    later = [stage.placed.key for stage in group[0] if stage.placed.key is not None and stage.placed.stage.first >= first]
    needed = {(each.label, each.name) for each in parameters_of(_read_from(rule, first)) if isinstance(each, Attribute)} | set(later)
    columns: list[BindingColumn] = []
    if len(group) > 1:
        columns.append(AliveRules())
    if any(map(may_choose_several, before)):
        columns.append(BranchSize())
    for place, role in enumerate(roles(rule)[: first + 1]):
        clause = rule.clauses[place - 1] if place else None
        if clause is None or isinstance(clause, Choose):
            columns += [BoundTime(place), BoundOrdinal(place)]
            everything = clause is None or all_values
            columns += [BoundValue(place, name) for name in role.source.attributes if everything or (role.label, name) in needed]
        elif isinstance(clause, Aggregate):
            columns.append(AggregatedValue(place))
    return tuple(columns)


def _read_from(rule: Rule, first: int) -> Iterator[Expression]:
    """The expressions that are evaluated from the clause at position `first` on."""
    for clause in rule.clauses[first:]:
        yield from clause.role.constraints
    if rule.condition is not None:
        yield rule.condition
    for assignment in rule.assignments:
        yield assignment.expression


def may_choose_several(clause: Clause) -> bool:
    """True if a clause may choose several events of a branch: `each`, `last 2`, `first 2`."""
    return isinstance(clause, Choose) and (clause.mode is Mode.EACH or (clause.count or 1) > 1)


# Shapes of rules: equal for rules that differ in constants, names and labels alone (semantics.md,
# section 4).
#
# Idea: bindings of rules of one shape travel together, so that those of a hundred rules are one row.
# In a *shape* labels are replaced by the positions of their roles, and all constants by one marker.
# Shapes are at least as coarse as the templates by which rules share a matcher, so rules that share a
# matcher have one shape.
# Example: `from A and last B within 1 min from A [?x = 1]` has the shape of `from C and last D within
# 1 min from C [?x = 2]`, if A and C, B and D read the same streams.
# Cost: linear in the size of the rule.

_CONSTANT: Final = Const("")


def rule_shape(rule: Rule) -> Hashable:
    """The shape of a rule: equal for rules that differ in constants, names and labels alone.

    Rules of one shape read the same streams, equate the same attributes, and read the same
    attributes of the role at each position, so that one list of columns serves the bindings of all.
    """
    places = {role.label: str(place) for place, role in enumerate(roles(rule))}
    results = {clause.variable: str(place) for place, clause in enumerate(rule.clauses, 1) if isinstance(clause, Aggregate)}
    assigned = sorted(rule.assignments, key=lambda assignment: assignment.variable)
    return (
        (_role(rule.anchor, places), anchor_delay(rule.anchor)),
        tuple([_clause(clause, places) for clause in rule.clauses]),
        () if rule.condition is None else _conjuncts(rule.condition, places, results),
        tuple([_expression(each.expression, places, results) for each in assigned]),
        tuple(sorted(places[label] for label in rule.consuming)),
        any(isinstance(leaf, Fresh) for leaf in leaves(rule.template)),
    )


def _clause(clause: Clause, places: Mapping[Label, str]) -> Hashable:
    match scope_of(clause):
        case Window(interval, reference):
            scope: Hashable = (interval, places[reference])
        case Between(first, second):
            scope = (places[first], places[second])
        case other:
            assert_never(other)
    match clause:
        case Choose(role, mode, _, count):
            return (_role(role, places), scope, mode, count)
        case Absent(role, _):
            return (_role(role, places), scope)
        case Aggregate(_, function, distinct, attribute, role, _, fraction):
            return (_role(role, places), scope, function.upper(), distinct, attribute, fraction)
        case _:
            assert_never(clause)


def _role(role: Role, places: Mapping[Label, str]) -> Hashable:
    return (role.source, tuple([each for written in role.constraints for each in _conjuncts(written, places, {})]))


def _conjuncts(written: Expression, places: Mapping[Label, str], results: Mapping[str, str]) -> tuple[Expression, ...]:
    return tuple([_expression(each, places, results) for each in conjuncts(written)])


def _expression(expression: Expression, places: Mapping[Label, str], results: Mapping[str, str]) -> Expression:
    def part(each: Expression) -> Expression:
        match each:
            case Const():
                return _CONSTANT
            case Var(name):
                return Attribute(results[name], "") if name in results else each
            case Attribute(label, name):
                return Attribute(places[label], name)
            case TimeOf(label):
                return TimeOf(places[label])
            case Call(_, arguments):
                return _CONSTANT if arguments and all(argument == _CONSTANT for argument in arguments) else each
            case Exists():
                raise AssertionError("EXISTS belongs to stage one")
            case _:
                assert_never(each)

    return transform(expression, part)
