"""Layers: assignment of units to operators, ports of each operator, and retention of events.

Idea: rules that read facts alone are in layer 0; `placement` assigns the others. Between two layers
events are sent to the bucket of their new key. A *port* is one stream (facts, events of a label,
graphs or triples) under the attribute that keys it. Units of other languages have separate layers;
each unit without a key has one partition.
Invariant: rules of a layer are ordered by depth: all events of an instant that a rule reads are
made at lower depths.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.model import dataclass
from dotr.model.graphs import components
from dotr.model.rules import EventSource, FactSource, Role, Rule
from dotr.model.terms import Label, Variable
from dotr.model.time import EVER, Micros
from dotr.model.units import FedGraphs, InstantTriples, IntervalEvents, MadeGraphs, UnitStream
from dotr.temporal.layout.bindings import StagePorts, binding_streams, rule_shape
from dotr.temporal.layout.keys import AnyPartition, Partitioning, SinglePartition, key_of, once_key
from dotr.temporal.layout.placement import Placement, place_units
from dotr.temporal.layout.retention import AnchorDelay, Standing, anchor_delay, lookbacks, roles, standing
from dotr.temporal.layout.spread import ReadSpread
from dotr.temporal.layout.stages import BindingStream, HeldFirings, Stage
from dotr.temporal.layout.units import StreamUnit

PortStream: TypeAlias = int | Label | MadeGraphs | FedGraphs | InstantTriples | IntervalEvents | BindingStream | HeldFirings
"""The number of a fact stream, the label of a composite event, a stream of graphs, triples of
instants, events with their starts, bindings between two stages of rules, or a rule's firings that
hold others back."""

MadeStream: TypeAlias = Label | MadeGraphs | IntervalEvents | BindingStream
"""A stream that a unit makes."""


@dataclass(frozen=True, slots=True)
class Port:
    """One stream under one key.

    - `stream`, `attributes`: the stream, and the columns of its rows.
    - `key`: the attribute whose value selects the bucket; None: no key.
    - `spread`: without a key, the hash of an event's values selects its bucket.
    - `since`: the time in µs since 1970 at which the rules that read the port were added amid
      the stream; such rules have separate ports, so that they find no older event.
    - `partition`: without a key and `spread`, the number of the partition of all events.
    - `reach`: for a unit that is spread over all buckets, the buckets of a row.
    - `is_replicated`: every event is in every bucket, with the same ordinal in all.
    - `by_time`: with `spread`, the hash is that of values and time, except for ticks.
    - `group`: the group of rules that reads it, and the number of groups.
    """

    stream: PortStream
    key: Variable | None
    spread: bool
    attributes: tuple[Variable, ...]
    since: Micros | None = None
    partition: int = 0
    reach: ReadSpread | None = None
    is_replicated: bool = False
    by_time: bool = False
    group: tuple[int, int] = (0, 1)

    @property
    def key_position(self) -> int | None:
        """The index of the key among the attributes."""
        return None if self.key is None else self.attributes.index(self.key)

    def shift(self, buckets: int) -> int:
        """The number to add to the hash bucket of a key for the bucket of an event at this port."""
        number, groups = self.group
        return number * buckets // groups


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """A stage of a rule in its layer.

    - `ports`: the port of its anchors, or of the bindings that enter a later stage
      (`BindingStream`); then those of the clauses of the stage.
    - `depth`: the events that it reads are made at lower depths of the layer, or in lower layers.
    - `once`: the port of the firings that its `once` compares; None: the rule has none.

    A layer has at most one stage of a rule.
    """

    rule: Rule
    stage: Stage
    ports: tuple[int, ...]
    depth: int
    once: int | None = None

    @property
    def split(self) -> Partitioning:
        """The partitioning of the stage."""
        return self.stage.split

    @property
    def clause_roles(self) -> tuple[Role, ...]:
        """The roles of the clauses of the stage, whose ports are `ports[1:]`."""
        return tuple(clause.role for clause in self.rule.clauses[self.stage.first : self.stage.end])

    @property
    def roles(self) -> tuple[tuple[Role, int], ...]:
        """The roles whose events the stage reads, with their ports: the anchor's in the first stage
        alone."""
        first = ((self.rule.anchor, self.ports[0]),) if self.stage.is_first else ()
        return (*first, *zip(self.clause_roles, self.ports[1:], strict=True))

    @property
    def delay(self) -> Micros:
        """The delay (µs) of anchors in this stage."""
        return self.rule.anchor.delay if self.stage.is_first else 0


@dataclass(frozen=True, slots=True)
class PlacedUnit:
    """A unit of another language than that of rules in its layer.

    - `ports`: the port of each of its reads; reads of one stream share a port.
    - `partition`: the ordinal of the unit in its layer, which is its partition unless it is spread.
    - `is_spread`: the unit has a share in every bucket.
    """

    unit: StreamUnit
    ports: tuple[int, ...]
    partition: int
    is_spread: bool = False


MANY_STANDING: Final = 8
"""The number of different `Standing` needs above which a port keeps whole windows."""


class PortNeeds(NamedTuple):
    """The needs of rules at a port: all events for `whole` µs (None: not all of any time), and of each
    key the newest."""

    whole: Micros | None
    standing: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator: its ports, and its rules in order of depth, or its other units in order of
    name.

    `retention`: for each port the duration in µs for which its events are stored, the longest chain
    of windows that ends at one of its roles; None for a port that only anchors read: its events are
    not stored.
    """

    number: int
    ports: tuple[Port, ...]
    rules: tuple[PlacedRule, ...]
    retention: tuple[Micros | None, ...]
    units: tuple[PlacedUnit, ...] = ()
    needs: tuple[PortNeeds, ...] = ()

    @property
    def whole_retention(self) -> Micros:
        """The longest duration in µs for which all events of a port are needed."""
        return max((needs.whole for needs in self.needs if needs.whole is not None), default=0)

    @property
    def has_standing(self) -> bool:
        """True if newer events of some port replace older ones of their keys."""
        return any(needs.standing for needs in self.needs)

    @property
    def may_fire_without_events(self) -> bool:
        """True if a delayed anchor, a report or a point may make events at a time without
        arrivals."""
        return bool(self.units) or any(placed.delay for placed in self.rules)

    @property
    def acts_alone(self) -> bool:
        """True if the layer may make events at a time without arrivals; unlike
        `may_fire_without_events`, false for units of EP-SPARQL, which make events from arrivals
        alone.
        """
        return any(placed.unit.acts_alone for placed in self.units) or any(placed.delay for placed in self.rules)

    @property
    def graph_ports(self) -> frozenset[int]:
        """The ports at which graphs may arrive, whose rows differ in length."""
        even = int | str | InstantTriples | BindingStream | HeldFirings
        return frozenset(number for number, port in enumerate(self.ports) if not isinstance(port.stream, even))

    @property
    def queues(self) -> dict[tuple[int, AnchorDelay], int]:
        """The numbers of the queues of waiting events, by port and delay."""
        found: dict[tuple[int, AnchorDelay], int] = {}
        for placed in self.rules:
            if placed.delay:
                found.setdefault((placed.ports[0], anchor_delay(placed.rule.anchor)), len(found))
        return found

    @property
    def first_consumed(self) -> list[int]:
        """For each rule the number of its first consumed set; the last item is the number of sets.

        A consumed set has the events of one label that a rule has consumed.
        """
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
    routes: Mapping[PortStream, tuple[tuple[int, int], ...]]

    @property
    def stateful_operators(self) -> int:
        """The number of operators that keep state between instants: one per layer, or 0.

        It is 0 where no clause has a window, no anchor is delayed, and there are neither ticks nor
        units of other languages.
        """
        ticks = any(source.period is not None for source in self.streams)
        has_state = ticks or any(layer.units or layer.queues or any(layer.retention) for layer in self.layers)
        return len(self.layers) if has_state else 0

    @property
    def may_be_cut(self) -> bool:
        """True if operators keep state, and some rule has one partition."""
        in_one = any(isinstance(placed.split, SinglePartition) for layer in self.layers for placed in layer.rules)
        return in_one and self.stateful_operators > 0

    @property
    def units(self) -> tuple[PlacedUnit, ...]:
        """The units of other languages than that of rules, of all layers."""
        return tuple(placed for layer in self.layers for placed in layer.units)

    @property
    def fed_streams(self) -> frozenset[FedGraphs]:
        """The streams of inputs that units read."""
        return frozenset(stream for stream in self.routes if isinstance(stream, FedGraphs))

    @property
    def instant_triples(self) -> tuple[InstantTriples, ...]:
        """The triples of instants that units read."""
        return tuple(stream for stream in self.routes if isinstance(stream, InstantTriples))


def _stream_numbers(rules: Sequence[Rule], units: Sequence[StreamUnit]) -> dict[FactSource, int]:
    numbers: dict[FactSource, int] = {}
    for rule in rules:
        for role in roles(rule):
            if isinstance(role.source, FactSource):
                numbers.setdefault(role.source, len(numbers))
    for unit in units:
        for read in unit.reads:
            if isinstance(read.stream, FactSource):
                numbers.setdefault(read.stream, len(numbers))
    return numbers


def _stream_of(source: UnitStream, numbers: Mapping[FactSource, int]) -> PortStream:
    match source:
        case FactSource():
            return numbers[source]
        case EventSource(event, _):
            return event
        case MadeGraphs() | FedGraphs() | InstantTriples() | IntervalEvents():
            return source
        case _:
            assert_never(source)


def _unit_port(stream: UnitStream, numbers: Mapping[FactSource, int], partition: int, reach: ReadSpread | None) -> Port:
    attributes = stream.attributes if isinstance(stream, FactSource | EventSource) else ()
    return Port(_stream_of(stream, numbers), None, False, attributes, partition=partition, reach=reach)


def lay_out(
    rules: Sequence[Rule],
    since: Mapping[str, Micros] = MappingProxyType({}),
    units: Sequence[StreamUnit] = (),
    *,
    cut: bool = False,
    groups: int = 1,
) -> Layout:
    """Places rules and other units in layers and numbers their streams and ports.

    `since`: the time (µs since 1970) of each role that starts amid the stream, by its name
    (`role_name`).
    `cut`: rules without a key for all their clauses are cut into stages, unless no operator keeps
    state. `groups`: the number of groups of rules in a layer (`dotr.temporal.layout.layers`).
    """
    if cut:
        units = [part for unit in units for part in unit.cut()]
    inside = {rule.name for unit in units for rule in unit.rules}
    rules = [rule for rule in rules if rule.name not in inside]
    uncut = _lay_out(rules, since, units, cut=False, groups=groups)
    return _lay_out(rules, since, units, cut=True, groups=groups) if cut and uncut.may_be_cut else uncut


def _lay_out(rules: Sequence[Rule], since: Mapping[str, Micros], units: Sequence[StreamUnit], *, cut: bool, groups: int) -> Layout:
    numbers = _stream_numbers(rules, units)
    all_places = place_units(rules, units, cut=cut)
    places = all_places.rules
    ports: list[dict[Port, int]] = [{} for _ in range(max([0, *(p.layer for p in places), *all_places.units.values()]) + 1)]
    placed_units: list[list[PlacedUnit]] = [[] for _ in ports]
    for unit in sorted(units, key=lambda unit: unit.name):
        number = all_places.units[unit.name]
        own, partition = ports[number], len(placed_units[number])
        reaches = unit.read_spreads()
        to_read = zip(unit.reads, reaches or repeat(None), strict=False)
        read = tuple(own.setdefault(_unit_port(each.stream, numbers, partition, reach), len(own)) for each, reach in to_read)
        placed_units[number].append(PlacedUnit(unit, read, partition, reaches is not None))
    in_order: list[StagePorts] = []
    dealt = dealt_groups(places, groups)
    for each in sorted(places, key=lambda p: (p.layer, p.depth, p.rule.name)):
        own = ports[each.layer]
        group = dealt.get((each.layer, each.rule.name), 0), groups
        name = each.rule.name
        role_ports = [
            _role_port(each, role, numbers, since.get(role_name(name, role.label)), group) for role in each.stage.roles_of(each.rule)
        ]
        in_order.append(StagePorts(each, tuple([own.setdefault(port, len(own)) for port in role_ports])))
    layers: list[list[PlacedRule]] = [[] for _ in ports]
    entering = _entering_streams(in_order)
    for placed, read in in_order:
        name, stage, own = placed.rule.name, placed.stage, ports[placed.layer]
        enters, leaves = entering.get((name, stage.number)), entering.get((name, stage.number + 1))
        if enters is not None:
            port = Port(enters, enters.key.name, False, enters.names, group=(dealt.get((placed.layer, name), 0), groups))
            read = (own.setdefault(port, len(own)), *read)
        once = None
        if placed.rule.once is not None:
            group = dealt.get((placed.layer, name), 0), groups
            port = Port(HeldFirings(name), once_key(placed.rule, stage.split), False, placed.rule.once.keys, group=group)
            once = own.setdefault(port, len(own))
        layers[placed.layer].append(PlacedRule(placed.rule, replace(stage, enters=enters, leaves=leaves), read, placed.depth, once))
    routes: dict[PortStream, list[tuple[int, int]]] = {}
    for number, own in enumerate(ports):
        for port, index in own.items():
            routes.setdefault(port.stream, []).append((number, index))
    return Layout(
        tuple(numbers),
        tuple(
            Layer(n, tuple(own), tuple(placed), _retention(len(own), placed), tuple(others), _needs(len(own), placed))
            for n, (own, placed, others) in enumerate(zip(ports, layers, placed_units, strict=True))
        ),
        {stream: tuple(targets) for stream, targets in routes.items()},
    )


def _role_port(placed: Placement, role: Role, numbers: Mapping[FactSource, int], since: Micros | None, group: tuple[int, int]) -> Port:
    """The port of a role of a stage."""
    is_replicated = role.label in placed.stage.replicated
    is_spread = isinstance(placed.stage.split, AnyPartition) and not is_replicated
    return Port(
        _stream_of(role.source, numbers),
        key_of(placed.stage.split, role),
        is_spread,
        role.source.attributes,
        since,
        is_replicated=is_replicated,
        by_time=is_spread and bool(placed.rule.clauses),
        group=(0, 1) if is_replicated else group,
    )


def role_name(rule: str, label: Label) -> str:
    """The name of a role of a rule in `ProgramSpec.since`.

    >>> role_name("Left", "Heavy")
    'Left.Heavy'
    """
    return f"{rule}.{label}"


def _entering_streams(placed: Sequence[StagePorts]) -> Mapping[tuple[str, int], BindingStream]:
    """The stream that enters each later stage, by the name of the rule and the stage's number."""
    by_rule: dict[str, list[StagePorts]] = {}
    for each in placed:
        by_rule.setdefault(each.placed.rule.name, []).append(each)
    return binding_streams([stages for stages in by_rule.values() if len(stages) > 1])


def _retention(ports: int, rules: Sequence[PlacedRule]) -> tuple[Micros | None, ...]:
    retention: dict[int, Micros] = {}
    for placed in rules:
        reaches = lookbacks(placed.rule)[placed.stage.first + 1 : placed.stage.end + 1]
        for port, reach in zip(placed.ports[1:], reaches, strict=True):
            retention[port] = max(retention.get(port, 0), reach.far)
        if placed.once is not None and placed.rule.once is not None:
            retention[placed.once] = placed.rule.once.pause
    return tuple(retention.get(port) for port in range(ports))


def _needs(ports: int, rules: Sequence[PlacedRule]) -> tuple[PortNeeds, ...]:
    """The needs of the rules of a layer at each port."""
    whole: dict[int, Micros] = {}
    newest: list[dict[tuple[object, object], Standing]] = [{} for _ in range(ports)]
    for placed in rules:
        stage = slice(placed.stage.first, placed.stage.end)
        for port, clause, reach in zip(placed.ports[1:], placed.rule.clauses[stage], lookbacks(placed.rule)[1:][stage], strict=True):
            needed = standing(placed.rule, clause)
            if needed is None:
                whole[port] = max(whole.get(port, 0), reach.far)
            elif (known := newest[port].get(needed[:2])) is None or known.far < needed.far:
                newest[port][needed[:2]] = needed
    for port, found in enumerate(newest):
        windows = [each for each in found.values() if each.far < EVER.high]
        if len(windows) > MANY_STANDING:  # each event would be tested for each of them
            whole[port] = max(whole.get(port, 0), *[each.far for each in windows])
            newest[port] = {key: each for key, each in found.items() if each.far >= EVER.high}
    return tuple([PortNeeds(whole.get(port), tuple(found.values())) for port, found in enumerate(newest)])


# Groups of the rules of a layer, which distribute the load of one hot key over several cores.
#
# Idea: each rule needs all events of a key value in one bucket, but different rules may use different
# buckets. Rules of a layer that read each other there or share a matcher stay together; otherwise
# they are dealt into groups with about equal numbers of matchers. The bucket of a key in a group is
# its hash bucket plus the group's shift.
# Example: with two groups over four buckets, an event whose key is in bucket 1 is also stored in
# bucket 3, for the second group.
# Cost: an event is stored once for each group that reads it.


def dealt_groups(placed: Sequence[Placement], count: int) -> Mapping[tuple[int, str], int]:
    """The group of each rule, from 0 to `count - 1`, by its layer and name; empty for one group."""
    if count == 1:
        return {}
    by_layer: dict[int, list[Placement]] = {}
    for each in placed:
        by_layer.setdefault(each.layer, []).append(each)
    return {(layer, name): group for layer, own in by_layer.items() for name, group in _dealt(own, count).items()}


def _dealt(placed: Sequence[Placement], count: int) -> Mapping[str, int]:
    """The groups of the rules of one layer: the largest components first, each into the group with
    the least load (number of matchers).
    """
    shapes = {each.rule.name: rule_shape(each.rule) for each in placed}
    makers: dict[Label, list[str]] = {}
    first_of_shape: dict[Hashable, str] = {}
    for each in placed:
        if each.stage.end == len(each.rule.clauses):  # its events are made in this layer
            makers.setdefault(each.rule.event, []).append(each.rule.name)
        first_of_shape.setdefault(shapes[each.rule.name], each.rule.name)
    edges = [(name, first_of_shape[shape]) for name, shape in shapes.items()]
    for each in placed:
        for role in each.stage.roles_of(each.rule):
            if isinstance(role.source, EventSource):
                edges += [(each.rule.name, maker) for maker in makers.get(role.source.event, ())]
    component_of = components([*edges, *((other, name) for name, other in edges)])
    members: dict[int | str, list[str]] = {}
    for name in sorted(shapes):
        members.setdefault(component_of.get(name, name), []).append(name)
    loads, found = [0] * count, dict[str, int]()
    sizes = {number: len({shapes[name] for name in names}) for number, names in members.items()}
    for number in sorted(members, key=lambda number: (-sizes[number], members[number])):
        group = loads.index(min(loads))
        loads[group] += sizes[number]
        found |= dict.fromkeys(members[number], group)
    return found
