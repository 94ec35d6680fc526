"""One layer of rules at work: a pure function of a partition's state, a time, and what arrives at that time.

At an instant the arriving events are stored first, then the rules are run depth by depth; before each depth the composite events that its
rules read are complete, put in the tie order, and stored. Cost: an instant costs its arrivals and the rules they anchor, not
the rules there are.

Events of a port that a rule delays wait in a queue, one for each delay: there they are in the order in which they become due. Anchors that
become due are looked up like those of a port, numbered from -1 down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dotr.fallbacks import Kind, caught
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.code import event_test, picks_finder
from dotr.patterns.failing import Alone, Failure, recover
from dotr.patterns.happened import Happened, Matched
from dotr.patterns.layout import Layer
from dotr.patterns.matcher import Matcher, compile_matcher
from dotr.patterns.shapes import grouped
from dotr.patterns.state import State
from dotr.patterns.store import IndexSpec, PortStore, compile_remember
from dotr.patterns.ties import Values, tie_key

Arrival: TypeAlias = tuple[int, Values]
"""An event on its way to a port: its ordinal and its values."""

Arrivals: TypeAlias = Mapping[int, Sequence[Arrival]]
"""What arrives at one instant, by port; the facts of a port in tie order."""


class _Compiled(NamedTuple):
    """A shape's matcher, the port (or below 0 the queue) of its anchors, the (port, index) that each clause looks into, and its rules."""

    matcher: Matcher
    anchor: int
    indexes: tuple[tuple[int, int], ...]
    rules: tuple[int, ...]


class Operator:
    """A compiled layer. `attributes` are, by event label, those of its composite events."""

    def __init__(self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock) -> None:
        self.layer = layer
        self._clock = clock
        self._attributes = attributes
        self._apart: dict[int, list[Alone]] = {}
        self.failures: list[Failure] = []
        wanted: list[dict[IndexSpec, int]] = [{} for _ in layer.ports]
        *first_consumed, self._consumed_sets = self._first_consumed = layer.first_consumed
        self._delays = layer.queues
        depths = 1 + max((placed.depth for placed in layer.rules), default=0)
        self._shapes: list[_Compiled] = []
        self._anchored: list[dict[int, list[int]]] = [{} for _ in range(depths)]
        for depth in range(depths):
            rules = [
                (number, placed.rule, placed.ports, attributes[placed.rule.event])
                for number, placed in enumerate(layer.rules)
                if placed.depth == depth
            ]
            for alike in grouped(rules):
                matcher = compile_matcher(alike, [first_consumed[number] for number in alike.numbers], clock)
                indexes = [
                    (step.part.port, wanted[step.part.port].setdefault(look, len(wanted[step.part.port])))
                    for step, look in zip(alike.shape.steps, matcher.looks, strict=True)
                ]
                anchor = alike.shape.anchor
                source = -1 - self._delays[anchor.port, anchor.delay] if anchor.delay else anchor.port
                self._anchored[depth].setdefault(source, []).append(len(self._shapes))
                self._shapes.append(_Compiled(matcher, source, tuple(indexes), alike.numbers))
        self._stores = [(retention or 0, len(specs)) for retention, specs in zip(layer.retention, wanted, strict=True)]
        self._remember = [
            compile_remember(
                list(specs),
                [event_test(spec.own, port.attributes, clock) if spec.own else None for spec in specs],
                [picks_finder(spec.picks, port.attributes) if spec.picks else None for spec in specs],
            )
            for port, specs in zip(layer.ports, wanted, strict=True)
        ]
        self._facts = [isinstance(port.stream, int) for port in layer.ports]
        self._flat = depths == 1 and all(self._facts)
        self._complete = self._completion(depths)
        read = {port.stream for port in layer.ports}
        self._made = [placed.rule.event if placed.rule.event in read else None for placed in layer.rules]

    def _completion(self, depths: int) -> list[list[tuple[int, Label]]]:
        """For each depth, and for after the last, the event ports that are complete then."""
        last: dict[Label, int] = {}
        for placed in self.layer.rules:
            last[placed.rule.event] = max(placed.depth, last.get(placed.rule.event, 0))
        complete: list[list[tuple[int, Label]]] = [[] for _ in range(depths + 1)]
        for number, port in enumerate(self.layer.ports):
            if isinstance(port.stream, str):
                complete[last[port.stream] + 1 if port.stream in last else 0].append((number, port.stream))
        return complete

    def start(self) -> State:
        """The state before the first instant."""
        stores = [PortStore(*store, remember) for store, remember in zip(self._stores, self._remember, strict=True)]
        lanes = [[stores[port].indexes[index] for port, index in shape.indexes] for shape in self._shapes]
        return State(stores, [set() for _ in range(self._consumed_sets)], lanes, len(self._delays))

    def restore(self, written: bytes) -> State:
        """The state that `State.encode` wrote; raises `StateError`."""
        return self.start().restore(written)

    def due(self, state: State) -> Micros | None:
        """When the next delayed anchor stands."""
        times = [events[0][0] + delay for (_, delay), events in zip(self._delays, state.waiting, strict=True) if events]
        return min(times) if times else None

    def step(self, state: State, time: Micros, arrivals: Arrivals, partition: int = 0, *, ended: bool = False) -> list[Matched]:
        """Run the layer at a moment later than all before, and not later than one that is `due`. Composite events that arrive from lower
        layers may come in any order. `partition` numbers the partition, so that ordinals of events made in different ones differ.
        `ended`: the last instant is over, so that what is new is no delayed anchor any more."""
        stores = state.stores
        present: dict[int, list[Happened]] = {}
        matched: list[Matched] = []
        base = (self.layer.number << 24 | partition) << 32
        if self._delays:
            for ((_, delay), number), waiting in zip(self._delays.items(), state.waiting, strict=True):
                if waiting and waiting[0][0] + delay == time:
                    due = present[-1 - number] = [waiting.popleft()]
                    while waiting and waiting[0][0] + delay == time:
                        due.append(waiting.popleft())
        for port, events in arrivals.items():
            if self._facts[port]:
                if len(events) == 1:
                    happened = [_new(Happened, (time, *events[0]))]
                else:
                    happened = [_new(Happened, (time, ordinal, values)) for ordinal, values in events]
                present[port] = happened
                if self._stores[port][1]:
                    stores[port].add(happened)
        state.countdown -= 1
        if not state.countdown:
            state.sweep(time)
        if self._flat:
            anchored = self._anchored[0]
            for port, happened in present.items():
                for number in anchored.get(port, ()):
                    remaining, before = iter(happened), len(matched)
                    try:
                        self._shapes[number].matcher.find(remaining, state.lanes[number], state.consumed, matched, base)
                    except Exception as error:
                        self._recover(error, number, happened, remaining, before, state, matched, base)
        else:
            self._rise(state, time, arrivals, present, matched, base)
        if self._delays and not ended:
            for (port, _), waiting in zip(self._delays, state.waiting, strict=True):
                waiting.extend(present.get(port, ()))
        return matched

    def _rise(
        self,
        state: State,
        time: Micros,
        arrivals: Arrivals,
        present: dict[int, list[Happened]],
        matched: list[Matched],
        base: int,
    ) -> None:
        """Depth by depth: complete the events that its rules read, then run them."""
        made: dict[Label, list[Arrival]] = {}
        for depth, complete in enumerate(self._complete):
            for port, label in complete:
                events = [*arrivals.get(port, ()), *made.get(label, ())]
                if len(events) > 1:
                    names = self.layer.ports[port].attributes
                    events.sort(key=lambda event: tie_key(names, event[1]))
                if events:
                    happened = [_new(Happened, (time, ordinal, values)) for ordinal, values in events]
                    present[port] = happened
                    if self._stores[port][1]:
                        state.stores[port].add(happened)
            if depth == len(self._anchored):
                break
            before = len(matched)
            for number in _due(self._anchored[depth], present):
                shape = self._shapes[number]
                happened = present[shape.anchor]
                remaining, mark = iter(happened), len(matched)
                try:
                    shape.matcher.find(remaining, state.lanes[number], state.consumed, matched, base)
                except Exception as error:
                    self._recover(error, number, happened, remaining, mark, state, matched, base)
            for rule, ordinal, _, values in matched[before:]:
                event = self._made[rule]
                if event is not None:
                    made.setdefault(event, []).append((ordinal, values))

    def _recover(
        self,
        error: Exception,
        number: int,
        happened: Sequence[Happened],
        remaining: Iterator[Happened],
        before: int,
        state: State,
        matched: list[Matched],
        base: int,
    ) -> None:
        """A shape has failed: try again, and take note of the rules that fail again."""
        caught(error, Kind.RULES)
        shape = self._shapes[number]

        def attempt(anchors: Iterator[Happened]) -> None:
            shape.matcher.find(anchors, state.lanes[number], state.consumed, matched, base)

        self.failures += recover(
            error, happened, remaining, before, matched, attempt, lambda: self._alone(number), shape.rules, state, base
        )

    def _alone(self, number: int) -> list[Alone]:
        """The rules of a shape, each compiled for itself."""
        if number not in self._apart:
            self._apart[number] = [self._single(rule) for rule in self._shapes[number].rules]
        return self._apart[number]

    def _single(self, rule: int) -> Alone:
        placed = self.layer.rules[rule]
        (alike,) = grouped([(rule, placed.rule, placed.ports, self._attributes[placed.rule.event])])
        matcher = compile_matcher(alike, [self._first_consumed[rule]], self._clock)
        wanted: list[dict[IndexSpec, int]] = [{} for _ in self.layer.ports]
        indexes = tuple(
            (step.part.port, wanted[step.part.port].setdefault(look, len(wanted[step.part.port])))
            for step, look in zip(alike.shape.steps, matcher.looks, strict=True)
        )
        remember = [
            compile_remember(
                list(specs),
                [event_test(spec.own, port.attributes, self._clock) if spec.own else None for spec in specs],
                [picks_finder(spec.picks, port.attributes) if spec.picks else None for spec in specs],
            )
            for port, specs in zip(self.layer.ports, wanted, strict=True)
        ]

        def stores() -> list[PortStore]:
            kept = zip(self.layer.retention, wanted, remember, strict=True)
            return [PortStore(retention or 0, len(specs), each) for retention, specs, each in kept]

        return Alone(rule, matcher, indexes, stores)


_new = tuple.__new__


def _due(anchored: Mapping[int, Sequence[int]], present: Mapping[int, object]) -> Sequence[int]:
    """The rules whose anchor has something, found from the smaller side."""
    if len(present) <= len(anchored):
        return [number for port in present for number in anchored.get(port, ())]
    return [number for port, numbers in anchored.items() if port in present for number in numbers]
