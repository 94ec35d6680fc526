"""Which operator runs which rule, and which events it must be handed.

A rule that reads facts alone stands in layer 0. A rule that reads another's composite events stands in the same layer if the events
come to be in the very partition that it reads them in, else in the next: between two layers events are sent to the bucket of their
new key. Inside a layer the rules stand in an order in which every event is complete before a rule reads it.

A *port* is what an operator is handed under one key: one fact stream or one event label, and the attribute that keys it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dotr.model.rules import EventSource, FactSource, Role, Rule
from dotr.model.terms import Label, Variable
from dotr.patterns.partition import Anywhere, Keyed, Partitioning, Single, carried, key_of, partitioning

Stream: TypeAlias = int | Label
"""A fact stream's number, or the label of a composite event."""


@dataclass(frozen=True, slots=True)
class Port:
    """One stream under one key. Without a key all its events are in one partition, or, spread, wherever their values' hash puts them."""

    stream: Stream
    key: Variable | None
    spread: bool
    attributes: tuple[Variable, ...]

    @property
    def key_position(self) -> int | None:
        return None if self.key is None else self.attributes.index(self.key)


@dataclass(frozen=True, slots=True)
class Placed:
    """A rule in its layer: how it is partitioned, the ports of its roles (the anchor's first), and its depth among the layer's rules:
    the events it reads come from lower depths or from lower layers."""

    rule: Rule
    split: Partitioning
    ports: tuple[int, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator: its ports, and its rules in order of depth."""

    ports: tuple[Port, ...]
    rules: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A program's stage two. `routes` says for each stream which (layer, port) it is handed to."""

    streams: tuple[FactSource, ...]
    layers: tuple[Layer, ...]
    routes: Mapping[Stream, tuple[tuple[int, int], ...]]


def roles(rule: Rule) -> tuple[Role, ...]:
    """The anchor's role, then the clauses' in the order written."""
    return (rule.anchor, *(clause.role for clause in rule.clauses))


def _streams(rules: Sequence[Rule]) -> dict[FactSource, int]:
    numbers: dict[FactSource, int] = {}
    for rule in rules:
        for role in roles(rule):
            if isinstance(role.source, FactSource):
                numbers.setdefault(role.source, len(numbers))
    return numbers


def _stream(role: Role, numbers: Mapping[FactSource, int]) -> Stream:
    match role.source:
        case FactSource() as source:
            return numbers[source]
        case EventSource(event, _):
            return event


def dependency_order(rules: Sequence[Rule]) -> list[Rule]:
    """The rules, each after all that define an event which it reads; by name where that leaves a choice (acyclic: checked before)."""
    makers: dict[Label, list[Rule]] = {}
    for rule in rules:
        makers.setdefault(rule.event, []).append(rule)
    ordered: dict[str, Rule] = {}

    def visit(rule: Rule) -> None:
        if rule.name in ordered:
            return
        for role in roles(rule):
            if isinstance(role.source, EventSource):
                for maker in makers[role.source.event]:
                    visit(maker)
        ordered[rule.name] = rule

    for rule in sorted(rules, key=lambda r: r.name):
        visit(rule)
    return list(ordered.values())


@dataclass(frozen=True, slots=True)
class _Place:
    rule: Rule
    split: Partitioning
    layer: int
    depth: int


def _meet(maker: _Place, reader: Partitioning, role: Role) -> bool:
    """Whether the maker's events come to be in the partition in which the reader looks for them."""
    match reader:
        case Anywhere() | Single():
            return isinstance(maker.split, Single)
        case Keyed(attribute):
            return isinstance(maker.split, Keyed) and attribute[role.label] in carried(maker.rule, maker.split)


def _carried_by_all(makers: Sequence[_Place]) -> list[Variable]:
    """The attributes of an event that hold the partition key, whichever rule makes it."""
    keys = [carried(m.rule, m.split) if isinstance(m.split, Keyed) else frozenset[Variable]() for m in makers]
    return sorted(frozenset.intersection(*keys)) if keys else []


def _place(rules: Sequence[Rule]) -> list[_Place]:
    makers: dict[Label, list[_Place]] = {}
    placed: list[_Place] = []
    for rule in dependency_order(rules):
        split = partitioning(
            rule, _carried_by_all(makers.get(rule.anchor.source.event, ())) if isinstance(rule.anchor.source, EventSource) else ()
        )
        layer = 0
        for role in roles(rule):
            if isinstance(role.source, EventSource):
                for maker in makers[role.source.event]:
                    layer = max(layer, maker.layer + (not _meet(maker, split, role)))
        depth = 0
        for role in roles(rule):
            if isinstance(role.source, EventSource):
                depth = max([depth, *(m.depth + 1 for m in makers[role.source.event] if m.layer == layer)])
        place = _Place(rule, split, layer, depth)
        makers.setdefault(rule.event, []).append(place)
        placed.append(place)
    return placed


def lay_out(rules: Sequence[Rule]) -> Layout:
    """Place the rules in layers and number their streams and ports."""
    numbers = _streams(rules)
    places = _place(rules)
    ports: list[dict[Port, int]] = [{} for _ in range(max((p.layer for p in places), default=0) + 1)]
    layers: list[list[Placed]] = [[] for _ in ports]
    for place in sorted(places, key=lambda p: (p.layer, p.depth, p.rule.name)):
        own = ports[place.layer]
        indexes = tuple(
            own.setdefault(
                Port(_stream(role, numbers), key_of(place.split, role), isinstance(place.split, Anywhere), role.source.attributes), len(own)
            )
            for role in roles(place.rule)
        )
        layers[place.layer].append(Placed(place.rule, place.split, indexes, place.depth))
    routes: dict[Stream, list[tuple[int, int]]] = {}
    for number, own in enumerate(ports):
        for port, index in own.items():
            routes.setdefault(port.stream, []).append((number, index))
    return Layout(
        tuple(numbers),
        tuple(Layer(tuple(own), tuple(placed)) for own, placed in zip(ports, layers, strict=True)),
        {stream: tuple(targets) for stream, targets in routes.items()},
    )
