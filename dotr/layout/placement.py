"""Placement of each unit: layer, partitioning, and depth within the layer.

Idea: mutually dependent rules are one component and share one key, or one partition; components are
placed in order of dependency. A rule is in the layer of the rules whose events it reads if those
events arise in the partition that reads them, otherwise in the next layer.
Invariant: within a layer an event of the present is produced at a lower depth than any rule that
may read it at its own instant; events read strictly in the past impose no order. A layer holds
rules or units of other languages, never both: rules are on even levels, units on odd ones, and the
levels that are used are the layers.
Cost: linear in the rules and their dependencies, except for the search of a shared key (at most
`_MAX_TRIALS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from types import MappingProxyType

from dotr.layout.keys import AnyPartition, KeyedPartitions, Partitioning, SinglePartition, carried_keys, keyed_partitions, partitioning
from dotr.layout.units import ProgramUnit, StreamUnit, makers, readings
from dotr.model.graphs import components
from dotr.model.rules import EventSource, Role, Rule
from dotr.model.terms import Label, Variable

_MAX_TRIALS = 10_000
"""The number of partitionings of a component that are tried before it gets one partition."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The layer, depth and partitioning of a rule."""

    rule: Rule
    split: Partitioning
    layer: int
    depth: int


@dataclass(frozen=True, slots=True)
class Placements:
    """The placements of all rules, and the layer of each unit of another language, by its name."""

    rules: Sequence[Placement]
    units: Mapping[str, int]


def place_units(rules: Sequence[Rule], units: Sequence[StreamUnit] = ()) -> Placements:
    """Places all units; cycles that are errors have been refused before."""
    placer = _Placer([*rules, *units])
    for component in _ordered_components([*rules, *units], placer.makers):
        if isinstance(component[0], Rule):
            placer.place_component([unit for unit in component if isinstance(unit, Rule)])
        else:
            placer.place_unit(component[0])
    used = {each.layer for each in placer.placements.values()} | set(placer.levels.values())
    layers = {level: number for number, level in enumerate(sorted(used))}
    return Placements(
        [replace(each, layer=layers[each.layer]) for each in placer.placements.values()],
        {label: layers[level] for label, level in placer.levels.items()},
    )


def _event_reads(rule: Rule) -> Iterator[tuple[Role, Label, bool]]:
    """The roles that read composite events, the label, and true if the event may be of the
    rule's own instant."""
    for label, now, _, role in readings(rule):
        if role is not None:
            yield role, label, now


def _ordered_components(units: Sequence[ProgramUnit], makers: Mapping[Label, Sequence[ProgramUnit]]) -> list[list[ProgramUnit]]:
    """The strongly connected components of units in order of dependency; by name where the order
    is free."""
    named = {unit.name: unit for unit in sorted(units, key=lambda unit: unit.name)}
    needs = {name: [maker.name for reading in readings(unit) for maker in makers.get(reading.label, ())] for name, unit in named.items()}
    of: dict[str, int | str] = {name: name for name in named}
    of.update(components((name, need) for name in needs for need in needs[name]))
    members: dict[int | str, list[ProgramUnit]] = {}
    waiting: TopologicalSorter[int | str] = TopologicalSorter()
    for name, unit in named.items():
        members.setdefault(of[name], []).append(unit)
        waiting.add(of[name], *(of[need] for need in needs[name] if of[need] != of[name]))
    return [members[component] for component in waiting.static_order()]


class _Placer:
    """`placements` of rules and `levels` of other units, as far as they are placed; a `layer` is a
    level."""

    def __init__(self, units: Sequence[ProgramUnit]) -> None:
        self.makers = makers(units)
        self.placements: dict[str, Placement] = {}
        self.levels: dict[str, int] = {}

    def rule_makers(self, label: Label) -> list[Rule]:
        """The rules that make the events of a label."""
        return [maker for maker in self.makers.get(label, ()) if isinstance(maker, Rule)]

    def place_unit(self, unit: StreamUnit) -> None:
        """Places a unit above all units that it reads."""
        below = (maker for reading in readings(unit) for maker in self.makers[reading.label] if maker is not unit)
        self.levels[unit.name] = max((self._level(maker) + 1 | 1 for maker in below), default=1)

    def _level(self, unit: ProgramUnit) -> int:
        return self.placements[unit.name].layer if isinstance(unit, Rule) else self.levels[unit.name]

    def place_component(self, rules: Sequence[Rule]) -> None:
        """Places a component, after all components that it depends on."""
        own = {rule.name for rule in rules}
        recursive = any(maker.name in own for rule in rules for _, label, _ in _event_reads(rule) for maker in self.makers.get(label, ()))
        splits = self._shared_key(rules) if recursive else {rules[0].name: partitioning(rules[0], self._carried_by_makers(rules[0]))}
        layer = 0
        for rule in rules:
            for role, label, _ in _event_reads(rule):
                for maker in self.makers.get(label, ()):
                    if not isinstance(maker, Rule):
                        layer = max(layer, self.levels[maker.name] + 1)
                    elif maker.name not in own:
                        there = self.placements[maker.name]
                        layer = max(layer, there.layer + 2 * (not are_copartitioned(maker, there.split, splits[rule.name], role)))
        waiting = list(rules)
        while waiting:
            labels = {rule.event for rule in waiting}
            ready = [r for r in waiting if not any(label in labels for _, label, present in _event_reads(r) if present)]
            assert ready, "a same-instant cycle"
            for rule in ready:
                self.placements[rule.name] = Placement(rule, splits[rule.name], layer, self._depth(rule, layer))
            waiting = [rule for rule in waiting if rule.name not in self.placements]

    def _depth(self, rule: Rule, layer: int) -> int:
        makers = (maker for _, label, present in _event_reads(rule) if present for maker in self.rule_makers(label))
        return max((there.depth + 1 for maker in makers if (there := self.placements[maker.name]).layer == layer), default=0)

    def _carried_by_makers(self, rule: Rule) -> list[Variable]:
        """The attributes of the anchor that hold the partition key of every rule that produces
        it."""
        if not isinstance(rule.anchor.source, EventSource):
            return []
        places = [self.placements[maker.name] for maker in self.rule_makers(rule.anchor.source.event)]
        keys = [carried_keys(p.rule, p.split) if isinstance(p.split, KeyedPartitions) else frozenset[Variable]() for p in places]
        return sorted(frozenset.intersection(*keys)) if keys else []

    def _shared_key(self, rules: Sequence[Rule]) -> Mapping[str, Partitioning]:
        """One key for a recursive component under which all its events stay; otherwise one
        partition."""
        inside = {rule.name for rule in rules}
        edges = [
            (maker, rule, role)
            for rule in rules
            for role, label, _ in _event_reads(rule)
            for maker in self.rule_makers(label)
            if maker.name in inside
        ]
        chosen: dict[str, KeyedPartitions] = {}
        trials = 0

        def fits(name: str) -> bool:
            return all(
                are_copartitioned(maker, chosen[maker.name], chosen[reader.name], role)
                for maker, reader, role in edges
                if name in (maker.name, reader.name) and maker.name in chosen and reader.name in chosen
            )

        def search(number: int) -> bool:
            nonlocal trials
            if number == len(rules):
                return True
            options = keyed_partitions(rules[number])
            for name in sorted(options):
                trials += 1
                if trials > _MAX_TRIALS:
                    return False
                chosen[rules[number].name] = options[name]
                if fits(rules[number].name) and search(number + 1):
                    return True
                del chosen[rules[number].name]
            return False

        if search(0):
            return MappingProxyType(chosen)
        events = ", ".join(sorted({rule.event for rule in rules}))
        return dict.fromkeys(inside, SinglePartition(f"{events} depends on itself, and no key goes all the way round"))


def are_copartitioned(maker: Rule, split: Partitioning, reader: Partitioning, role: Role) -> bool:
    """True if the maker's events arise in the partition in which the reader looks them up."""
    match reader:
        case AnyPartition() | SinglePartition():
            return isinstance(split, SinglePartition)
        case KeyedPartitions(attribute):
            return isinstance(split, KeyedPartitions) and attribute[role.label] in carried_keys(maker, split)
