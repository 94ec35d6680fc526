"""One layer of rules at work: a pure function of a partition's state, a time, and what arrives at that time.

At an instant the arriving events are stored first, then the rules are run depth by depth; before each depth the composite events that its
rules read are complete, put in the tie order, and stored. Cost: an instant costs its arrivals and the rules they anchor, not
the rules there are.

Events of a port that a rule delays wait in a queue, one for each delay: there they are in the order in which they become due. Anchors that
become due are looked up like those of a port, numbered from -1 down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import length_hint
from typing import NamedTuple, TypeAlias

from dotr.errors.fallbacks import FallbackKind, answered, caught, error_line
from dotr.joins.limits import LIMITS, Limits
from dotr.layout.event_order import AttributeValues, tie_key
from dotr.layout.layers import Layer
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.event_store import IndexSpec, PortStore, compile_insert
from dotr.patterns.events import Match, StoredEvent
from dotr.patterns.match_buffer import MANY, MatchBuffer, TakeMatches
from dotr.patterns.matcher.candidates import AnchorLimitExceeded
from dotr.patterns.matcher.compile import Matcher, compile_matcher
from dotr.patterns.matcher.emitter import event_test, picks_finder
from dotr.patterns.rule_failures import LimitExcess, RuleFailure, SingleRule, apart, exactly
from dotr.patterns.rule_templates import grouped
from dotr.patterns.state import State

Arrival: TypeAlias = tuple[int, AttributeValues]
"""An event on its way to a port: its ordinal and its values."""

Arrivals: TypeAlias = Mapping[int, Sequence[Arrival]]
"""What arrives at one instant, by port; the facts of a port in tie order."""


class _CompiledGroup(NamedTuple):
    """A shape's matcher, the port (or below 0 the queue) of its anchors, the (port, index) that each clause looks into, and its rules."""

    matcher: Matcher
    anchor: int
    indexes: tuple[tuple[int, int], ...]
    rules: tuple[int, ...]


class Operator:
    """A compiled layer. `attributes` are, by event label, those of its composite events. `told` is what rules have failed at, or gone over
    a limit at, until its reader takes it out."""

    def __init__(self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock, limits: Limits = LIMITS) -> None:
        self.layer = layer
        self._clock = clock
        self._limits = limits
        self._attributes = attributes
        self._apart: dict[int, list[SingleRule]] = {}
        self.told: list[RuleFailure | LimitExcess] = []
        wanted: list[dict[IndexSpec, int]] = [{} for _ in layer.ports]
        *first_consumed, self._consumed_sets = self._first_consumed = layer.first_consumed
        self._delays = layer.queues
        depths = 1 + max((placed.depth for placed in layer.rules), default=0)
        self._shapes: list[_CompiledGroup] = []
        self._anchored: list[dict[int, list[int]]] = [{} for _ in range(depths)]
        for depth in range(depths):
            rules = [
                (number, placed.rule, placed.ports, attributes[placed.rule.event])
                for number, placed in enumerate(layer.rules)
                if placed.depth == depth
            ]
            for alike in grouped(rules):
                matcher = compile_matcher(alike, [first_consumed[number] for number in alike.numbers], clock, limits)
                indexes = [
                    (step.part.port, wanted[step.part.port].setdefault(look, len(wanted[step.part.port])))
                    for step, look in zip(alike.shape.steps, matcher.looks, strict=True)
                ]
                anchor = alike.shape.anchor
                source = -1 - self._delays[anchor.port, anchor.delay] if anchor.delay else anchor.port
                self._anchored[depth].setdefault(source, []).append(len(self._shapes))
                self._shapes.append(_CompiledGroup(matcher, source, tuple(indexes), alike.numbers))
        self._finds = [shape.matcher.find for shape in self._shapes]
        self._few = [shape.matcher.few(MANY) for shape in self._shapes]
        self._stores = [(retention or 0, len(specs)) for retention, specs in zip(layer.retention, wanted, strict=True)]
        self._remember = [
            compile_insert(
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

    def step(
        self, state: State, time: Micros, arrivals: Arrivals, partition: int = 0, *, ended: bool = False, take: TakeMatches | None = None
    ) -> list[Match]:
        """Run the layer at a moment later than all before, and not later than one that is `due`. Composite events that arrive from lower
        layers may come in any order. `partition` numbers the partition, so that ordinals of events made in different ones differ.
        `ended`: the last instant is over, so that what is new is no delayed anchor any more. Where there are many matches, `take` has them
        on the way, and the rest is returned."""
        stores = state.stores
        present: dict[int, list[StoredEvent]] = {}
        matched: list[Match] = []
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
                    happened = [_new(StoredEvent, (time, *events[0]))]
                else:
                    happened = [_new(StoredEvent, (time, ordinal, values)) for ordinal, values in events]
                present[port] = happened
                if self._stores[port][1]:
                    stores[port].add(happened)
        state.countdown -= 1
        if not state.countdown:
            state.sweep(time)
        if self._flat:
            anchored, few, finds = self._anchored[0], self._few, self._finds
            for port, happened in present.items():
                for number in anchored.get(port, ()):
                    remaining, before = iter(happened), len(matched)
                    if take is not None and len(happened) + before > few[number]:
                        found = MatchBuffer(matched, base, take)
                        self._through(number, happened, remaining, state, found)
                        base = found.base
                        continue
                    try:
                        finds[number](remaining, state.lanes[number], state.consumed, matched, base)
                    except Exception as error:
                        found = MatchBuffer(matched, base, take)
                        self._go_on(number, happened, remaining, before, error, state, found)
                        base = found.base
        else:
            self._rise(state, time, arrivals, present, MatchBuffer(matched, base, take, self._made))
        if self._delays and not ended:
            for (port, _), waiting in zip(self._delays, state.waiting, strict=True):
                waiting.extend(present.get(port, ()))
        return matched

    def _rise(self, state: State, time: Micros, arrivals: Arrivals, present: dict[int, list[StoredEvent]], found: MatchBuffer) -> None:
        """Depth by depth: complete the events that its rules read, then run them."""
        for depth, complete in enumerate(self._complete):
            for port, label in complete:
                events = [*arrivals.get(port, ()), *found.events.get(label, ())]
                if len(events) > 1:
                    names = self.layer.ports[port].attributes
                    events.sort(key=lambda event: tie_key(names, event[1]))
                if events:
                    happened = [_new(StoredEvent, (time, ordinal, values)) for ordinal, values in events]
                    present[port] = happened
                    if self._stores[port][1]:
                        state.stores[port].add(happened)
            if depth == len(self._anchored):
                break
            for number in _due(self._anchored[depth], present):
                happened = present[self._shapes[number].anchor]
                self._through(number, happened, iter(happened), state, found)
            found.note()

    def _through(
        self, number: int, anchors: Sequence[StoredEvent], remaining: Iterator[StoredEvent], state: State, found: MatchBuffer
    ) -> None:
        """Runs a shape on those anchors that remain, and hands matches on whenever there are many."""
        find, lanes = self._finds[number], state.lanes[number]
        while length_hint(remaining):
            found.flush()
            before = len(found.matched)
            try:
                find(found.some(remaining), lanes, state.consumed, found.matched, found.base)
            except Exception as error:
                self._at(number, anchors, remaining, before, error, state, found)
        found.flush()

    def _go_on(
        self,
        number: int,
        anchors: Sequence[StoredEvent],
        remaining: Iterator[StoredEvent],
        before: int,
        error: Exception,
        state: State,
        found: MatchBuffer,
    ) -> None:
        """A shape has stopped at an anchor: that one again, then those that remain."""
        self._at(number, anchors, remaining, before, error, state, found)
        self._through(number, anchors, remaining, state, found)

    def _at(
        self,
        number: int,
        anchors: Sequence[StoredEvent],
        remaining: Iterator[StoredEvent],
        before: int,
        error: Exception,
        state: State,
        found: MatchBuffer,
    ) -> None:
        """The anchor at which a shape has stopped, again; `before` is how many matches there were when the shape was begun."""
        anchor, matched = anchors[len(anchors) - length_hint(remaining) - 1], found.matched
        while len(matched) > before and matched[-1].bound[0] is anchor:
            matched.pop()
        if isinstance(error, AnchorLimitExceeded):
            self.told += exactly(self._shapes[number].matcher, state.lanes[number], anchor, state, found)
        else:
            self._recover(number, anchor, state, found, error)

    def _recover(self, number: int, anchor: StoredEvent, state: State, found: MatchBuffer, first: Exception) -> None:
        """A shape has failed at an anchor with the error `first`: try again, and take note of the rules that fail again."""
        caught(first, FallbackKind.RULES)
        shape, lanes, mark = self._shapes[number], state.lanes[number], len(found.matched)
        before = len(self.told)
        try:
            shape.matcher.find(iter((anchor,)), lanes, state.consumed, found.matched, found.base)
        except AnchorLimitExceeded:
            del found.matched[mark:]
            self.told += exactly(shape.matcher, lanes, anchor, state, found)
        except Exception as error:
            del found.matched[mark:]
            if len(shape.rules) == 1:
                self.told.append(RuleFailure(shape.rules[0], anchor, error_line(error)))
            else:
                self.told += apart(self._alone(number), anchor, state, found)
        if not any(isinstance(each, RuleFailure) for each in self.told[before:]):
            answered(first, FallbackKind.RULES)

    def _alone(self, number: int) -> list[SingleRule]:
        """The rules of a shape, each compiled for itself."""
        if number not in self._apart:
            self._apart[number] = [self._single(rule) for rule in self._shapes[number].rules]
        return self._apart[number]

    def _single(self, rule: int) -> SingleRule:
        placed = self.layer.rules[rule]
        (alike,) = grouped([(rule, placed.rule, placed.ports, self._attributes[placed.rule.event])])
        matcher = compile_matcher(alike, [self._first_consumed[rule]], self._clock, self._limits)
        wanted: list[dict[IndexSpec, int]] = [{} for _ in self.layer.ports]
        indexes = tuple(
            (step.part.port, wanted[step.part.port].setdefault(look, len(wanted[step.part.port])))
            for step, look in zip(alike.shape.steps, matcher.looks, strict=True)
        )
        remember = [
            compile_insert(
                list(specs),
                [event_test(spec.own, port.attributes, self._clock) if spec.own else None for spec in specs],
                [picks_finder(spec.picks, port.attributes) if spec.picks else None for spec in specs],
            )
            for port, specs in zip(self.layer.ports, wanted, strict=True)
        ]

        def stores() -> list[PortStore]:
            kept = zip(self.layer.retention, wanted, remember, strict=True)
            return [PortStore(retention or 0, len(specs), each) for retention, specs, each in kept]

        return SingleRule(rule, matcher, indexes, stores)


_new = tuple.__new__


def _due(anchored: Mapping[int, Sequence[int]], present: Mapping[int, object]) -> Sequence[int]:
    """The rules whose anchor has something, found from the smaller side."""
    if len(present) <= len(anchored):
        return [number for port in present for number in anchored.get(port, ())]
    return [number for port, numbers in anchored.items() if port in present for number in numbers]
