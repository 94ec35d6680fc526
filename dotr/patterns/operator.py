"""One layer of rules at work: a pure function of a partition's state, a time, and what arrives at that time.

At an instant the arriving events are stored first, then the rules are run depth by depth; before each depth the composite events that its
rules read are complete, put in the tie order, and stored. Cost: an instant costs its arrivals and the rules they anchor, not
the rules there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.layout import Layer
from dotr.patterns.matcher import Match, Matcher, compile_matcher
from dotr.patterns.state import State
from dotr.patterns.store import Happened, KeyIndex, PortStore
from dotr.patterns.ties import Values, tie_key

Arrival: TypeAlias = tuple[int, Values]
"""An event on its way to a port: its ordinal and its values."""

Arrivals: TypeAlias = Mapping[int, Sequence[Arrival]]
"""What arrives at one instant, by port; the facts of a port in tie order."""


class Matched(NamedTuple):
    """A match of the layer's rule number `rule`; `ordinal` tells it from all other matches of its event's label at the instant."""

    rule: int
    ordinal: int
    match: Match


class _Compiled(NamedTuple):
    matcher: Matcher
    anchor: int
    indexes: tuple[tuple[int, int], ...]
    consumed: tuple[int, ...]


class Operator:
    """A compiled layer. `attributes` are, by event label, those of its composite events; `partition` numbers the partition
    that this operator works for, so that ordinals of composite events made in different partitions differ."""

    def __init__(self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock) -> None:
        self.layer = layer
        self.attributes = attributes
        wanted: list[dict[tuple[int, ...], int]] = [{} for _ in layer.ports]
        retention = [0] * len(layer.ports)
        self._rules: list[_Compiled] = []
        self._consumed_sets = 0
        for placed in layer.rules:
            matcher = compile_matcher(placed.rule, attributes[placed.rule.event], clock)
            indexes = []
            for port, look in zip(placed.ports[1:], matcher.looks, strict=True):
                indexes.append((port, wanted[port].setdefault(look.positions, len(wanted[port]))))
                retention[port] = max(retention[port], look.retention)
            consumed = tuple(range(self._consumed_sets, self._consumed_sets + len(matcher.consuming)))
            self._consumed_sets += len(consumed)
            self._rules.append(_Compiled(matcher, placed.ports[0], tuple(indexes), consumed))
        self._stores = [(retention[port], tuple(positions)) for port, positions in enumerate(wanted)]
        self._stored = [bool(positions) for positions in wanted]
        depths = 1 + max((placed.depth for placed in layer.rules), default=0)
        self._anchored: list[dict[int, list[int]]] = [{} for _ in range(depths)]
        for number, placed in enumerate(layer.rules):
            self._anchored[placed.depth].setdefault(placed.ports[0], []).append(number)
        self._complete = self._completion(depths)

    def _completion(self, depths: int) -> list[list[tuple[int, Label]]]:
        """For each depth the event ports that are complete before its rules run."""
        last: dict[Label, int] = {}
        for placed in self.layer.rules:
            last[placed.rule.event] = max(placed.depth, last.get(placed.rule.event, 0))
        complete: list[list[tuple[int, Label]]] = [[] for _ in range(depths)]
        for number, port in enumerate(self.layer.ports):
            if isinstance(port.stream, str):
                depth = last[port.stream] + 1 if port.stream in last else 0
                if depth < depths:
                    complete[depth].append((number, port.stream))
        return complete

    def start(self) -> State:
        """The state before the first instant."""
        return State([PortStore(*store) for store in self._stores], [set() for _ in range(self._consumed_sets)])

    def restore(self, written: bytes) -> State:
        """The state that `State.encode` wrote; raises `StateError`."""
        return self.start().restore(written)

    def step(self, state: State, time: Micros, arrivals: Arrivals, partition: int = 0) -> list[Matched]:
        """Run the layer at an instant later than all before. Composite events that arrive from lower layers may come in any order."""
        stores = state.stores
        present: dict[int, Sequence[Happened]] = {}
        made: dict[Label, list[Arrival]] = {}
        matched: list[Matched] = []
        for port, events in arrivals.items():
            if isinstance(self.layer.ports[port].stream, int):
                self._store(stores[port], port, time, events, present)
        for depth, anchored in enumerate(self._anchored):
            for port, label in self._complete[depth]:
                events = [*arrivals.get(port, ()), *made.get(label, ())]
                if len(events) > 1:
                    names = self.layer.ports[port].attributes
                    events.sort(key=lambda event: tie_key(names, event[1]))
                if events:
                    self._store(stores[port], port, time, events, present)
            for number in _due(anchored, present):
                rule = self._rules[number]
                indexes: list[KeyIndex] = [stores[port].indexes[index] for port, index in rule.indexes]
                found = rule.matcher.find(present[rule.anchor], indexes, [state.consumed[n] for n in rule.consumed])
                if found:
                    event = self.layer.rules[number].rule.event
                    base = (partition * len(self._rules) + number) << 24
                    for k, match in enumerate(found):
                        matched.append(Matched(number, base + k, match))
                        made.setdefault(event, []).append((base + k, match.values))
        state.sweep(time)
        return matched

    def _store(self, store: PortStore, port: int, time: Micros, events: Sequence[Arrival], present: dict[int, Sequence[Happened]]) -> None:
        happened = [Happened(time, ordinal, values) for ordinal, values in events]
        present[port] = happened
        if self._stored[port]:
            store.expire(time)
            for event in happened:
                store.add(event)


def _due(anchored: Mapping[int, Sequence[int]], present: Mapping[int, object]) -> Sequence[int]:
    """The rules whose anchor has something, found from the smaller side."""
    if len(present) <= len(anchored):
        return [number for port in present for number in anchored.get(port, ())]
    return [number for port, numbers in anchored.items() if port in present for number in numbers]
