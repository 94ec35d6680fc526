"""Replay of units that keeps each of their firings, with its events and its fresh names.

Idea: as in `dotr.explanations.replay.recording`, the engine runs a program of these units and of
those that they read, and the arrivals at each layer are recorded. Here all firings are kept, so
that an event can be followed to its firing. Units of other languages notify their records
(`dotr.explanations.replay.records`). Memory: beyond 400,000 events, those that no window can reach
are discarded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import Replay, WindowElement
from dotr.explanations.replay.history import History, RecordedEvent
from dotr.explanations.replay.recording import RecordedLayer, RecordedPlace, history_of, place_of_member, places_of, program_of, read_units
from dotr.explanations.replay.records import UnitRecord, recorded_unit
from dotr.model import dataclass
from dotr.model.rules import Rule
from dotr.model.stream import Firing
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.model.units import MadeGraphs
from dotr.temporal.layout.layers import Layout
from dotr.temporal.layout.retention import lookbacks
from dotr.temporal.layout.units import StreamUnit, units_by_label
from dotr.temporal.matching.events import Match
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import LayerResult, StageTwo

_Record = TypeVar("_Record", bound=UnitRecord)

_FRESH: Final = "<urn:dotr:"
_MOST_EVENTS: Final = 400_000
"""Number of recorded events above which those beyond the horizon are discarded."""


class NamedFiring(NamedTuple):
    """A firing of a rule.

    Attributes:
        rule: the rule as it is written.
        time: in µs since 1970.
        ordinal: its number in the engine among the events of its label and time.
        events: the event of each positive role, by label.
        attributes: the bound attributes of its composite event.
        names: the fresh IRIs of its output graph, in the order of the template.
        graph: its output graph; None unless a unit reads it.
    """

    rule: Rule
    time: Micros
    ordinal: int
    events: Mapping[Label, RecordedEvent]
    attributes: Mapping[Variable, Term]
    names: tuple[Term, ...]
    graph: tuple[Triple, ...] | None = None

    @property
    def unit_name(self) -> str:
        """The name of the rule."""
        return self.rule.name


class UnitFiring(NamedTuple):
    """An event of a unit other than a rule.

    Attributes:
        unit: the unit.
        label: the label of the event.
        time: in µs since 1970.
        attributes: the bound attributes of the event, in the order of its text.
        graph: its graph; None without one.
        names: the fresh IRIs of its graph, in the order of the template.
        start: for EP-SPARQL, the start of its interval in µs since 1970; None for other languages.
    """

    unit: StreamUnit
    label: Label
    time: Micros
    attributes: Mapping[Variable, Term]
    graph: tuple[Triple, ...] | None
    names: tuple[Term, ...]
    start: Micros | None = None

    @property
    def unit_name(self) -> str:
        """The label, which identifies the unit in questions."""
        return self.label


AnyFiring: TypeAlias = NamedFiring | UnitFiring
"""An event with the rule or other unit that produced it."""


@dataclass(frozen=True)
class FiringRecorder:
    """Recorder of the firings of some units and of those that they read; `run` fills it.

    Attributes:
        replay: the replay, of the whole program.
        program: the program of these units alone.
        history: the events so far.
        firings: the firings so far of each unit, by its name, in the order of time.
        records: the records of units other than rules, by label; of a run that has begun.
        inner: the events read by each rule within another unit, by the rule's name.
        horizon: the summed lengths of the windows of all units in µs; None: unbounded.
    """

    replay: Replay
    program: CompiledProgram
    history: History
    firings: dict[str, list[AnyFiring]] = field(default_factory=dict)
    records: dict[Label, UnitRecord] = field(default_factory=dict)
    inner: dict[str, History] = field(default_factory=dict)
    horizon: Micros | None = 0

    @staticmethod
    def of(replay: Replay, names: Iterable[str], further: Sequence[StreamUnit] = ()) -> FiringRecorder:
        """A recorder for rules and other units, by their names. `further` units run beside them,
        and all that they make is kept.

        Units whose events or graphs they read are included.
        """
        units = read_units(replay.program, names)
        units = units._replace(units=[*units.units, *further])
        program = program_of(replay.program, units)
        written = program.rules.rules
        history = history_of(program)
        reaches = [recorded_unit(unit).reach() for unit in program.units]
        horizon = sum(max(each.far for each in lookbacks(rule)) for rule in written)
        whole = None if further or None in reaches else horizon + sum(reach for reach in reaches if reach is not None)
        return FiringRecorder(replay, program, history, horizon=whole)

    def run(self, until: Micros | None = None) -> Iterator[Sequence[AnyFiring]]:
        """Run the replay from the first instant on, and yield the firings of each instant.

        Firings of timers, delayed anchors and reports since the instant before are included. When
        firings are yielded, the history holds all events that they read.

        Args:
            until: the last time in µs since 1970 that is run; None: the end of the stream.
        """
        done: list[AnyFiring] = []
        program = self.program
        layers = [_FiringLayer(self, done, self.history, place) for place in places_of(program, self.history)]
        engine = Engine(program, self.replay.clock, layers)
        for unit in program.units:
            run = engine.unit_runs[unit.name]
            self.records.update(recorded_unit(unit).records(run, program, self.replay.clock))
            for rule in unit.rules:
                run.step_rule_by(rule, partial(self._member_layer, done, rule))
        since_discard = 0
        for instant in self.replay.instants():
            if until is not None and instant.time > until:
                for firings in engine.moments_until(until, instant.time):
                    done += self._of_units(firings)
                yield from self._take(done)
                return
            done += self._of_units(instant.step(engine))
            yield from self._take(done)
            since_discard += 1
            if since_discard > 1_000 and self.horizon is not None and self._count() > _MOST_EVENTS:
                since_discard = 0
                self._discard(instant.time - self.horizon)
        if self.replay.ended:
            for firings in engine.finish():
                if until is not None and firings and firings[0].time > until:
                    return
                done += self._of_units(firings)
                yield from self._take(done)

    def _member_layer(
        self, done: list[AnyFiring], rule: Rule, layout: Layout, attributes: Mapping[Label, tuple[Variable, ...]]
    ) -> StageTwo:
        """The layer of a rule within another unit, with a history of its own."""
        (layer,) = layout.layers
        labels = {port.stream: port.attributes for port in layer.ports if isinstance(port.stream, str)}
        history = self.inner[rule.name] = History({source: number for number, source in enumerate(layout.streams)}, labels)
        return _FiringLayer(self, done, history, place_of_member(layout, attributes, history), rule)

    def _of_units(self, firings: Iterable[Firing]) -> Iterator[UnitFiring]:
        """The firings of units other than rules; layers record those of rules."""
        makers = units_by_label(self.program.units)
        written = {rule.name for rule in self.program.rules.rules}
        equal: Counter[tuple[Label, Micros, object, object]] = Counter()
        for firing in firings if makers else ():
            unit = makers.get(firing.rule) or (None if firing.rule in written else makers.get(firing.event))
            if unit is not None:
                key = (firing.event, firing.time, firing.attributes, firing.graph)
                start = self.records[firing.event].start(firing, equal[key])
                equal[key] += 1
                attributes = recorded_unit(unit).shown(dict(firing.attributes))
                yield UnitFiring(unit, firing.event, firing.time, attributes, firing.graph, _fresh_names(firing, ()), start)

    def _take(self, done: list[AnyFiring]) -> Iterator[Sequence[AnyFiring]]:
        if done:
            for each in done:
                self.firings.setdefault(each.unit_name, []).append(each)
            yield done.copy()
            done.clear()

    def _count(self) -> int:
        histories = sum(history.count() for history in (self.history, *self.inner.values()))
        return histories + sum(record.count() for record in self.records.values())

    def _discard(self, before: Micros) -> None:
        for history in (self.history, *self.inner.values()):
            history.discard_before(before)
        for record in self.records.values():
            record.discard_before(before)
        for name, firings in self.firings.items():
            self.firings[name] = [each for each in firings if each.time >= before]

    def record(self, label: Label, kind: type[_Record]) -> _Record | None:
        """The record of a label's unit; None if it has another class."""
        found = self.records.get(label)
        return found if isinstance(found, kind) else None

    def history_of(self, rule: Rule) -> History:
        """The recorded events that a rule reads."""
        return self.inner.get(rule.name, self.history)

    def firing_of_event(self, event: RecordedEvent, reader: Rule) -> AnyFiring | None:
        """The firing of a composite event that the rule `reader` has read; None if it is
        discarded."""
        for each in self._at(str(event.stream), event.time):
            match each:
                case NamedFiring() if each.rule.name not in self.inner and reader.name not in self.inner:
                    if self.history.find(event.stream, each.time, each.ordinal) == event:
                        return each
                case _:
                    if each.attributes == event.attributes:
                        return each
        return None

    def firing_with(self, label: Label, time: Micros, attributes: Mapping[Variable, Term]) -> AnyFiring | None:
        """The first firing of a label at a time in µs since 1970 whose event has these attributes;
        None if it is discarded.
        """
        return next((each for each in self._at(label, time) if attributes.items() <= each.attributes.items()), None)

    def firing_of_element(self, element: WindowElement) -> AnyFiring | None:
        """The firing whose graph is an element of a window; None for an element of an input, or if
        the firing is discarded.
        """
        if not isinstance(element.stream, MadeGraphs):
            return None
        found = self._at(element.stream.label, element.time)
        return next((each for each in found if each.graph is not None and tuple(dict.fromkeys(each.graph)) == element.triples), None)

    def _at(self, label: Label, time: Micros) -> Iterator[AnyFiring]:
        """The firings of events with a label at a time in µs, the latest first."""
        names = [rule.name for rule in self.program.rules.rules if rule.event == label]
        for name in dict.fromkeys([*names, label]):
            for each in reversed(self.firings.get(name, ())):
                if each.time < time:
                    break
                if each.time == time and (isinstance(each, UnitFiring) or each.rule.event == label):
                    yield each


def _fresh_names(firing: Firing, known: Iterable[Term | None]) -> tuple[Term, ...]:
    """The fresh IRIs of a firing's graph, in the order of the template, without known terms."""
    given = {*known, *(term for _, term in firing.attributes)}
    fresh = [term for triple in firing.graph or () for term in triple if term.startswith(_FRESH) and term not in given]
    return tuple(dict.fromkeys(fresh))


class _FiringLayer(RecordedLayer):
    """A layer that records what arrives at it, and its firings.

    Args:
        recorder: the recorder.
        done: the list to which firings are appended.
        history, place: as for `RecordedLayer`.
        member: the rule as it is written, if it is within another unit; then the graphs of all its
            firings are kept, not only of those that a unit reads.
    """

    def __init__(
        self, recorder: FiringRecorder, done: list[AnyFiring], history: History, place: RecordedPlace, member: Rule | None = None
    ) -> None:
        super().__init__(recorder.program, history, place, recorder.replay.clock)
        self._as_written = self.rules if member is None else [member]
        self._graphs_of = {rule.event for rule in self._as_written if member is not None or MadeGraphs(rule.event) in place.above}
        self._done = done

    def stepped(self, state: State, time: Micros, *, ended: bool) -> None:
        """Keep the firings of the step."""
        self._done += [self._firing(match, firing) for match, firing in zip(self.matches, self.firings, strict=True)]

    def write_firings(self, time: Micros, matched: Sequence[Match], repeats: dict[bytes, int]) -> LayerResult:
        """Write the firings of matches, and keep each with its match."""
        result = super().write_firings(time, matched, repeats)
        if len(result.firings) == len(matched):
            self.matches += matched
            self.firings += result.firings
        return result

    def _firing(self, match: Match, firing: Firing) -> NamedFiring:
        number, ordinal, _, values = match
        rule, events = self._as_written[number], self.bound_events(match)
        graph = firing.graph if rule.event in self._graphs_of else None
        return NamedFiring(rule, firing.time, ordinal, events, dict(firing.attributes), _fresh_names(firing, values), graph)
