"""Layers: assignment of rules to operators, ports of each operator, and retention of events.

Idea: rules that read facts alone are in layer 0; `placement` assigns the others. Between two layers
events are sent to the bucket of their new key. A *port* is one fact stream or one event label,
under the attribute that keys it.
Invariant: rules of a layer are ordered so that every event is complete before a rule reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from dotr.layout.keys import AnyPartition, Partitioning, key_of
from dotr.layout.placement import place_units
from dotr.layout.retention import lookbacks, roles
from dotr.layout.units import FedGraphs, MadeGraphs, StreamQuery
from dotr.model.rules import EventSource, FactSource, Role, Rule
from dotr.model.terms import Label, Variable
from dotr.model.time import Micros

Stream: TypeAlias = int | Label | MadeGraphs | FedGraphs
"""The number of a fact stream, the label of a composite event, or a stream of graphs."""


@dataclass(frozen=True, slots=True)
class Port:
    """One stream under one key.

    Without a key all events are in one partition, that of the number `partition`, or, with
    `spread`, in that of the hash of their values. Rules added at the time `since` (µs) read ports
    of their own, so that they find no older event.
    """

    stream: Stream
    key: Variable | None
    spread: bool
    attributes: tuple[Variable, ...]
    since: Micros | None = None
    partition: int = 0

    @property
    def key_position(self) -> int | None:
        """The position of the key among the attributes."""
        return None if self.key is None else self.attributes.index(self.key)


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """A rule in its layer, with the ports of its roles (the anchor's first).

    The events that it reads come from lower depths of the layer or from lower layers.
    """

    rule: Rule
    split: Partitioning
    ports: tuple[int, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class PlacedQuery:
    """A continuous query in its layer, with the port of each of its windows.

    `partition` numbers the queries of a layer: each has a partition of its own.
    """

    unit: StreamQuery
    ports: tuple[int, ...]
    partition: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator: its ports, and its rules in order of depth, or its queries.

    `retention` is, per port in µs, the longest chain of windows that ends at one of its roles; None
    for a port that only anchors read, of which no events are stored.
    """

    number: int
    ports: tuple[Port, ...]
    rules: tuple[PlacedRule, ...]
    retention: tuple[Micros | None, ...]
    queries: tuple[PlacedQuery, ...] = ()

    @property
    def may_fire_without_events(self) -> bool:
        """True if a delayed anchor or a report makes events at a time at which none arrive."""
        return bool(self.queries) or any(placed.rule.anchor.delay for placed in self.rules)

    @property
    def queues(self) -> dict[tuple[int, Micros], int]:
        """The numbers of the queues of waiting events, by port and delay (µs)."""
        found: dict[tuple[int, Micros], int] = {}
        for placed in self.rules:
            if placed.rule.anchor.delay:
                found.setdefault((placed.ports[0], placed.rule.anchor.delay), len(found))
        return found

    @property
    def first_consumed(self) -> list[int]:
        """For each rule the number of its first consumed set; the last item is the number of all
        sets."""
        found = [0]
        for placed in self.rules:
            found.append(found[-1] + len(set(placed.rule.consuming) - {placed.rule.anchor.label}))
        return found

    @property
    def consumed_ports(self) -> list[int]:
        """The port of each consumed set."""
        found: list[int] = []
        for placed in self.rules:
            labels = [role.label for role in roles(placed.rule)]
            found += [placed.ports[place] for place in sorted({labels.index(label) for label in placed.rule.consuming} - {0})]
        return found


@dataclass(frozen=True, slots=True)
class Layout:
    """The layers of a program; `routes` maps each stream to the (layer, port) pairs that read
    it."""

    streams: tuple[FactSource, ...]
    layers: tuple[Layer, ...]
    routes: Mapping[Stream, tuple[tuple[int, int], ...]]

    @property
    def stateful_operators(self) -> int:
        """The number of operators that keep state between instants: one per layer, or 0.

        It is 0 where no clause has a window, no anchor is delayed, and there are no ticks; 1 where
        there are queries, with which all layers share one operator.
        """
        if self.queries:
            return 1
        ticks = any(source.period is not None for source in self.streams)
        return len(self.layers) if ticks or any(layer.queues or any(layer.retention) for layer in self.layers) else 0

    @property
    def queries(self) -> tuple[PlacedQuery, ...]:
        """The continuous queries of all layers."""
        return tuple(placed for layer in self.layers for placed in layer.queries)

    @property
    def fed_streams(self) -> frozenset[FedGraphs]:
        """The streams of inputs that queries read."""
        return frozenset(stream for placed in self.queries for stream in placed.unit.streams if isinstance(stream, FedGraphs))


def _stream_numbers(rules: Sequence[Rule]) -> dict[FactSource, int]:
    numbers: dict[FactSource, int] = {}
    for rule in rules:
        for role in roles(rule):
            if isinstance(role.source, FactSource):
                numbers.setdefault(role.source, len(numbers))
    return numbers


def _stream_of(role: Role, numbers: Mapping[FactSource, int]) -> Stream:
    match role.source:
        case FactSource() as source:
            return numbers[source]
        case EventSource(event, _):
            return event


def lay_out(rules: Sequence[Rule], since: Mapping[str, Micros] = MappingProxyType({}), queries: Sequence[StreamQuery] = ()) -> Layout:
    """Places rules and queries in layers and numbers their streams and ports.

    `since` has, by name, the time (µs) of each rule added to a running stream.
    """
    numbers = _stream_numbers(rules)
    placed_units = place_units(rules, queries)
    places = placed_units.rules
    ports: list[dict[Port, int]] = [{} for _ in range(max([0, *(p.layer for p in places), *placed_units.queries.values()]) + 1)]
    placed_queries: list[list[PlacedQuery]] = [[] for _ in ports]
    for query in sorted(queries, key=lambda query: query.name):
        number = placed_units.queries[query.name]
        own, partition = ports[number], len(placed_queries[number])
        windows = tuple(own.setdefault(Port(stream, None, False, (), partition=partition), len(own)) for stream in query.streams)
        placed_queries[number].append(PlacedQuery(query, windows, partition))
    layers: list[list[PlacedRule]] = [[] for _ in ports]
    for each in sorted(places, key=lambda p: (p.layer, p.depth, p.rule.name)):
        own = ports[each.layer]
        indexes = tuple(
            own.setdefault(
                Port(
                    _stream_of(role, numbers),
                    key_of(each.split, role),
                    isinstance(each.split, AnyPartition),
                    role.source.attributes,
                    since.get(each.rule.name),
                ),
                len(own),
            )
            for role in roles(each.rule)
        )
        layers[each.layer].append(PlacedRule(each.rule, each.split, indexes, each.depth))
    routes: dict[Stream, list[tuple[int, int]]] = {}
    for number, own in enumerate(ports):
        for port, index in own.items():
            routes.setdefault(port.stream, []).append((number, index))
    return Layout(
        tuple(numbers),
        tuple(
            Layer(n, tuple(own), tuple(placed), _retention(len(own), placed), tuple(asking))
            for n, (own, placed, asking) in enumerate(zip(ports, layers, placed_queries, strict=True))
        ),
        {stream: tuple(targets) for stream, targets in routes.items()},
    )


def _retention(ports: int, rules: Sequence[PlacedRule]) -> tuple[Micros | None, ...]:
    retention: dict[int, Micros] = {}
    for placed in rules:
        for port, reach in list(zip(placed.ports, lookbacks(placed.rule), strict=True))[1:]:
            retention[port] = max(retention.get(port, 0), reach.far)
    return tuple(retention.get(port) for port in range(ports))
