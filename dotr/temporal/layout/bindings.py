"""Bindings between stages: the rules whose bindings share a stream, and the columns of its rows.

Idea: rules of one shape (`dotr.temporal.layout.rule_shapes`) whose roles have the same ports in
every stage share a stream: one row represents the bindings of all. Its columns are the values that
a later stage, or the match, reads. Columns name roles by position, so they apply to all rules of
the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dotr.model.algebra import Attribute, Expression
from dotr.model.event_order import LabelledVariable
from dotr.model.rules import Aggregate, Choose, Clause, Mode, Rule
from dotr.model.templates import Blank, Fresh, leaves
from dotr.model.traverse import parameters_of
from dotr.temporal.layout.placement import Placement
from dotr.temporal.layout.retention import roles
from dotr.temporal.layout.rule_shapes import shape_of
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
        groups.setdefault((shape_of(rule), where), []).append(stages)
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
