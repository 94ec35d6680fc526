"""A layer of stage two whose events are recorded in a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from dotr.engine.program import CompiledProgram
from dotr.engine.stage_two import StageTwo
from dotr.explanations.history import History, RecordedEvent
from dotr.layout.event_order import AttributeValues
from dotr.layout.layers import MadeStream
from dotr.layout.retention import positive_roles
from dotr.layout.units import labels_made
from dotr.model.terms import Label
from dotr.model.time import Clock, Micros
from dotr.patterns.events import Match
from dotr.patterns.operator import Arrivals


class RecordedLayer(StageTwo):
    """Base of layers that record what arrives at them and what their rules make.

    Args:
        program: the program that is run.
        history: takes the events.
        number: the number of the layer in the program's layout.
        above: the labels of events that layers above read.
        clock: the form of times in the output.
        counted: the names of rules whose bindings are counted.
    """

    def __init__(
        self,
        program: CompiledProgram,
        history: History,
        number: int,
        above: frozenset[MadeStream],
        clock: Clock,
        counted: Set[str] = frozenset(),
    ) -> None:
        layer = program.layout.layers[number]
        super().__init__(layer, program.attributes, clock, above, program.spec.limits, counted)
        self.history = history
        self.rules = [placed.rule for placed in layer.rules]
        self._labels = [[role.label for role in positive_roles(rule)] for rule in self.rules]
        self._streams = [[history.stream_of(role.source) for role in positive_roles(rule)] for rule in self.rules]
        routes = program.layout.routes
        of_units = {label for unit in program.units for label in labels_made(unit)} & set(history.labels)
        self._recorded_ports: dict[int, int | Label] = {
            port: each.stream
            for port, each in enumerate(layer.ports)
            if (isinstance(each.stream, int) or each.stream in of_units) and routes[each.stream][0] == (number, port)
        }
        self._recorded_labels = {rule.event for rule in self.rules} & set(history.labels)

    def record_arrivals(self, time: Micros, arrivals: Arrivals) -> None:
        """Record the facts, and the events of units other than rules, that arrive at a time, of
        streams that this layer is the first to read.
        """
        for port, stream in self._recorded_ports.items():
            if port in arrivals:
                self.history.record(stream, time, arrivals[port])

    def record_made(self, time: Micros, matches: Iterable[Match]) -> None:
        """Record the composite events of matches at a time, of labels that some rule reads."""
        made: dict[Label, list[tuple[int, AttributeValues]]] = {}
        for match in matches:
            label = self.rules[match.rule].event
            if label in self._recorded_labels:
                made.setdefault(label, []).append((match.ordinal, match.values))
        for label, events in made.items():
            self.history.record(label, time, events)

    def bound_events(self, match: Match) -> Mapping[Label, RecordedEvent]:
        """The event of each positive role of a match, by label."""
        return {
            label: self.history.find(stream, event.time, event.ordinal)
            for label, stream, event in zip(self._labels[match.rule], self._streams[match.rule], match.bound, strict=True)
        }
