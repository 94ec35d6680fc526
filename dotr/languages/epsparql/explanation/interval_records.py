"""Records of units of EP-SPARQL in a replay: each event with its interval and its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dotr.engine.unit_runs import EventPart, UnitRun
from dotr.explanations.replay.records import UnitRecord
from dotr.languages.epsparql.interval_keys import LinkedQuery
from dotr.languages.epsparql.run import IntervalRun
from dotr.model.stream import Firing
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import Micros


class RecordedInterval(NamedTuple):
    """An event with its start and its end in µs since 1970, and its parts in the order of the
    text."""

    start: Micros
    end: Micros
    attributes: Mapping[Variable, Term]
    graph: tuple[Triple, ...] | None
    parts: Sequence[EventPart]


class IntervalRecord(UnitRecord):
    """Record of the events of a unit so far; it implements `PartsWatch`. The run notifies it."""

    def __init__(self, run: UnitRun, unit: LinkedQuery) -> None:
        assert isinstance(run, IntervalRun)
        run.watch = self
        self.unit = unit
        self._events: dict[Micros, list[RecordedInterval]] = {}

    def made(self, firing: Firing, start: Micros, parts: Sequence[EventPart]) -> None:
        """Record an event with its start in µs since 1970 and its parts."""
        event = RecordedInterval(start, firing.time, dict(firing.attributes), firing.graph, parts)
        self._events.setdefault(firing.time, []).append(event)

    def count(self) -> int:
        """The number of moments with events that are kept."""
        return len(self._events)

    def discard_before(self, before: Micros) -> None:
        """Remove the events before a time (µs since 1970)."""
        self._events = {time: events for time, events in self._events.items() if time >= before}

    @property
    def events(self) -> list[RecordedInterval]:
        """All events, in the order of time."""
        return [each for time in sorted(self._events) for each in self._events[time]]

    def at(self, time: Micros) -> Sequence[RecordedInterval]:
        """The events that end at a time in µs since 1970."""
        return self._events.get(time, ())

    def start(self, firing: Firing, number: int) -> Micros | None:
        """The start of an event in µs since 1970; `number` is its position among equal events."""
        attributes = dict(firing.attributes)
        equal = [each for each in self.at(firing.time) if each.attributes == attributes and each.graph == firing.graph]
        return equal[number].start if number < len(equal) else None

    def find(
        self, time: Micros, attributes: Mapping[Variable, Term], graph: tuple[Triple, ...] | None, start: Micros | None
    ) -> RecordedInterval | None:
        """The first event that ends at a time with these attributes and this graph.

        `start`: its start in µs since 1970; None: any.
        """
        equal = (each for each in self.at(time) if each.attributes == attributes and each.graph == graph)
        return next((each for each in equal if start is None or each.start == start), None)
