"""Layers of stage two whose events are recorded in a history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from dotr.engine.program import CompiledProgram
from dotr.explanations.replay.history import History, RecordedEvent
from dotr.model.event_order import AttributeValues
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import Layer, Layout, MadeStream
from dotr.temporal.layout.retention import positive_roles
from dotr.temporal.layout.units import labels_made
from dotr.temporal.matching.events import Match
from dotr.temporal.matching.operator import Arrivals
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import EmitFirings, LayerResult, StageTwo


def recorded_ports(program: CompiledProgram, number: int, labels: Collection[Label]) -> dict[int, int | Label]:
    """The ports whose arrivals a layer records, each with its stream.

    These are the ports of facts, and of events of units other than rules. Each stream is recorded
    once, by the first layer of rules that reads it.

    Args:
        program: the program.
        number: the number of the layer.
        labels: the labels of the events to record.
    """
    layout = program.layout
    of_units = {label for unit in program.units for label in labels_made(unit)}.intersection(labels)
    of_rules = {layer.number for layer in layout.layers if layer.rules}
    found: dict[int, int | Label] = {}
    for port, each in enumerate(layout.layers[number].ports):
        if isinstance(each.stream, int) or each.stream in of_units:
            assert isinstance(each.stream, int | str)
            first = next((target for target in layout.routes[each.stream] if target[0] in of_rules), None)
            if first == (number, port):
                found[port] = each.stream
    return found


def member_ports(layout: Layout, history: History) -> dict[int, int | Label]:
    """All ports of the layer of a rule within a component, each with its stream in a history."""
    (layer,) = layout.layers
    found: dict[int, int | Label] = {}
    for port, each in enumerate(layer.ports):
        assert isinstance(each.stream, int | str)
        found[port] = each.stream if isinstance(each.stream, str) else history.number_of(layout.streams[each.stream])
    return found


class RecordedLayer(StageTwo):
    """Base of layers that record their arrivals and the composite events of their rules.

    Args:
        program: the program that is run.
        history: the history to which events are added.
        layer: the layer.
        recorded: the ports whose arrivals it records, each with its stream.
        above: the labels of events that layers above read.
        clock: the form of times in the output.
        attributes: the names of the attributes of composite events, by label.
        counted: the names of rules whose bindings are counted.
    """

    def __init__(
        self,
        program: CompiledProgram,
        history: History,
        layer: Layer,
        recorded: Mapping[int, int | Label],
        above: frozenset[MadeStream],
        clock: Clock,
        attributes: Mapping[Label, tuple[Variable, ...]],
        counted: Set[str] = frozenset(),
    ) -> None:
        super().__init__(layer, attributes, clock, above, program.spec.limits, counted)
        self.history = history
        self.rules = [placed.rule for placed in layer.rules]
        self._labels = [[role.label for role in positive_roles(rule)] for rule in self.rules]
        self._streams = [[history.stream_of(role.source) for role in positive_roles(rule)] for rule in self.rules]
        self._recorded_ports = recorded
        self._recorded_labels = {rule.event for rule in self.rules} & set(history.labels)

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
