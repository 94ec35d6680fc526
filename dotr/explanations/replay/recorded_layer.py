"""Layers of stage two whose events are recorded in a history."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.explanations.replay.history import History, RecordedEvent
from dotr.model.event_order import AttributeValues
from dotr.model.rules import EventSource
from dotr.model.stream import Firing
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import Layer, Layout, MadeStream
from dotr.temporal.layout.retention import positive_roles, roles
from dotr.temporal.layout.units import labels_made
from dotr.temporal.matching.events import Match
from dotr.temporal.matching.operator import Arrivals
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import EmitFirings, LayerResult, StageTwo


class RecordedPlace(NamedTuple):
    """A layer with what it records.

    - `layer`: the layer.
    - `recorded`: the ports whose arrivals it records, each with its stream in the history.
    - `above`: the labels and graphs that layers above read.
    - `attributes`: the names of the attributes of composite events, by label.
    """

    layer: Layer
    recorded: Mapping[int, int | Label]
    above: frozenset[MadeStream]
    attributes: Mapping[Label, tuple[Variable, ...]]


def history_of(program: CompiledProgram) -> History:
    """An empty history of all facts and of the composite events that rules read."""
    read = {role.source.event for rule in program.rules.rules for role in roles(rule) if isinstance(role.source, EventSource)}
    streams = {source: number for number, source in enumerate(program.layout.streams)}
    return History(streams, {label: program.attributes[label] for label in sorted(read)})


def places_of(program: CompiledProgram, history: History) -> list[RecordedPlace]:
    """The layers of a program.

    They record the ports of facts, and of events of units other than rules. Each stream is recorded
    once, by the first layer of rules that reads it.
    """
    layout = program.layout
    of_units = {label for unit in program.units for label in labels_made(unit)}.intersection(history.labels)
    of_rules = {layer.number for layer in layout.layers if layer.rules}
    found = []
    for layer, above in zip(layout.layers, program.events_read_above, strict=True):
        recorded: dict[int, int | Label] = {}
        for port, each in enumerate(layer.ports):
            if isinstance(each.stream, int) or each.stream in of_units:
                assert isinstance(each.stream, int | str)
                first = next((target for target in layout.routes[each.stream] if target[0] in of_rules), None)
                if first == (layer.number, port):
                    recorded[port] = each.stream
        found.append(RecordedPlace(layer, recorded, above, program.attributes))
    return found


def place_of_member(layout: Layout, attributes: Mapping[Label, tuple[Variable, ...]], history: History) -> RecordedPlace:
    """The layer of a rule within another unit, which records all ports."""
    (layer,) = layout.layers
    recorded: dict[int, int | Label] = {}
    for port, each in enumerate(layer.ports):
        assert isinstance(each.stream, int | str)
        recorded[port] = each.stream if isinstance(each.stream, str) else history.number_of(layout.streams[each.stream])
    return RecordedPlace(layer, recorded, frozenset(), attributes)


class RecordedLayer(StageTwo):
    """Base of layers that record their arrivals and the composite events of their rules.

    Args:
        program: the program that is run.
        history: the history to which events are added.
        place: the layer, with what it records.
        clock: the form of times in the output.
        counted: the names of rules whose bindings are counted.

    Attributes:
        matches: the matches of the present step, which a subclass adds in `write_firings`.
        firings: the firing of each of them, where the subclass keeps firings.
    """

    def __init__(
        self, program: CompiledProgram, history: History, place: RecordedPlace, clock: Clock, counted: Set[str] = frozenset()
    ) -> None:
        layer = place.layer
        super().__init__(layer, place.attributes, clock, place.above, program.spec.limits, counted)
        self.history = history
        self.matches: list[Match] = []
        self.firings: list[Firing] = []
        self.rules = [placed.rule for placed in layer.rules]
        self._labels = [[role.label for role in positive_roles(rule)] for rule in self.rules]
        self._streams = [[history.stream_of(role.source) for role in positive_roles(rule)] for rule in self.rules]
        self._recorded_ports = place.recorded
        self._recorded_labels = {rule.event for rule in self.rules} & set(history.labels)

    def step(
        self,
        state: State,
        time: Micros,
        arrivals: Arrivals,
        partition: int = 0,
        *,
        ended: bool = False,
        emit: EmitFirings | None = None,
    ) -> LayerResult:
        """Step the layer at one time, and record its arrivals and composite events."""
        self.record_arrivals(time, arrivals)
        self.matches.clear()
        self.firings.clear()
        result = super().step(state, time, arrivals, partition, ended=ended, emit=emit)
        if self.matches:
            self.record_made(time, self.matches)
        self.stepped(state, time, ended=ended)
        return result

    @abstractmethod
    def stepped(self, state: State, time: Micros, *, ended: bool) -> None:
        """Note that the layer has stepped to a time (µs since 1970), and that its events are
        recorded."""

    def keep(self, state: State, time: Micros, arrivals: Arrivals, *, ended: bool = False) -> None:
        """Store the events that arrive after the step of a time, and record them."""
        self.record_arrivals(time, arrivals)
        super().keep(state, time, arrivals, ended=ended)

    def step_fact(self, state: State, time: Micros, port: int, values: AttributeValues, *, emit: EmitFirings | None = None) -> LayerResult:
        """The result of an instant with one fact, which `step` records."""
        return self.step(state, time, {port: [(0, values)]}, emit=emit)

    def record_arrivals(self, time: Micros, arrivals: Arrivals) -> None:
        """Record the arrivals of a time (µs since 1970) at the recorded ports."""
        for port, stream in self._recorded_ports.items():
            if port in arrivals:
                self.history.record(stream, time, arrivals[port])

    def record_made(self, time: Micros, matches: Iterable[Match]) -> None:
        """Record the composite events of matches at a time (µs since 1970), if a rule reads
        them."""
        made: dict[Label, list[tuple[int, AttributeValues]]] = {}
        for rule, ordinal, _, values in matches:
            label = self.rules[rule].event
            if label in self._recorded_labels:
                made.setdefault(label, []).append((ordinal, values))
        for label, events in made.items():
            self.history.record(label, time, events)

    def bound_events(self, match: Match) -> Mapping[Label, RecordedEvent]:
        """The event of each positive role of a match, by label."""
        rule, _, bound, _ = match
        return {
            label: self.history.find(stream, time, ordinal)
            for label, stream, (time, ordinal, _) in zip(self._labels[rule], self._streams[rule], bound, strict=True)
        }
