"""Replay of one rule with the rules that it depends on, and a history of the events that they read.

Idea: the engine runs a program of this rule alone, and of the units whose events it reads. Queries
are not shared with other rules, so that the streams are the rules' own queries. The arrivals of a
layer are recorded before its step, and the composite events of its rules after it.
Cost: that of a run of these rules without output.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import Final, NamedTuple

from dotr.engine.driver import Engine, close_instant
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import RejectedElement, Replay
from dotr.engine.spec import Inconsistent
from dotr.engine.static_answers import StaticAnswers
from dotr.explanations.replay.history import History, RecordedEvent, anchor_delay_of
from dotr.instant.stage_one import StageOne
from dotr.model import dataclass
from dotr.model.algebra import Expression, Filter, Group
from dotr.model.event_order import AttributeValues
from dotr.model.rules import EventSource, FactSource, Rule, Source
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Variable
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.model.traverse import free_variables, has_exists, in_scope
from dotr.model.units import MadeGraphs
from dotr.temporal.layout.layers import Layer, Layout, MadeStream, lay_out
from dotr.temporal.layout.retention import positive_roles, roles
from dotr.temporal.layout.units import ProgramUnit, StreamUnit, labels_made, readings
from dotr.temporal.matching.events import Match
from dotr.temporal.matching.operator import Arrival, Arrivals
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import EmitFirings, LayerResult, StageTwo

# Layers of stage two whose events are recorded in a history.


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


# Queries of a rule without their filters, so that explanations can show rejected facts.
#
# A filter in the query of a label (`[ SELECT … FILTER(?v > 60) ]`) has the same effect as one after
# the label of a shared query, which is a constraint. For explanations both are conditions on
# candidates: the query is evaluated without the filter, which becomes a constraint.


@dataclass(frozen=True, slots=True)
class UnfilteredSource:
    """A source whose query has no filters.

    Attributes:
        source: the source; its attributes are those of the original, and the variables of the
            removed filters.
        filters: the removed filters, as conjuncts over these attributes.
    """

    source: FactSource
    filters: tuple[Expression, ...]


def unfiltered(source: FactSource) -> UnfilteredSource | None:
    """The source without the filters of its query; None if no filter can be removed.

    Filters are kept if the query is grouped, sliced or ordered, if they have EXISTS, and with
    DISTINCT if they read variables that are not projected.
    """
    query = source.query
    if source.period is not None or not isinstance(query.pattern, Filter) or query.order or query.offset or query.limit is not None:
        return None
    inner, conditions = query.pattern.pattern, query.pattern.conditions
    if isinstance(inner, Group):
        return None
    bound = set(query.projection) if query.distinct else set(in_scope(inner))
    filters = tuple([each for each in conditions if not has_exists(each) and set(free_variables(each)) <= bound])
    if not filters:
        return None
    kept = tuple([each for each in conditions if each not in filters])
    needed = {name for each in filters for name in free_variables(each)}
    attributes = tuple(sorted({*source.attributes, *needed}))
    pattern = Filter(inner, kept) if kept else inner
    changed = replace(source, query=replace(query, projection=attributes, pattern=pattern), attributes=attributes)
    return UnfilteredSource(changed, filters)


def unfiltered_sources(rule: Rule) -> Mapping[FactSource, UnfilteredSource]:
    """The unfiltered sources of a rule, by source; sources without removable filters are left
    out."""
    sources = [role.source for role in roles(rule) if isinstance(role.source, FactSource)]
    return {source: found for source in dict.fromkeys(sources) if (found := unfiltered(source)) is not None}


class RecordedFiring(NamedTuple):
    """A match of a rule.

    - `time`: in µs since 1970.
    - `events`: the events of its positive roles, by label.
    - `values`: the attributes of its composite event, sorted by name.
    """

    rule: Rule
    time: Micros
    events: Mapping[Label, RecordedEvent]
    values: AttributeValues


class Step(NamedTuple):
    """An evaluation of the recorded rule at one time.

    - `time`: in µs since 1970.
    - `events`: the events of the anchor's stream that are due then, after the anchor's delay. Those
      that satisfy the anchor's own constraints are anchors.
    - `firings`: the matches of the rule.
    - `anchors`: the number of anchors.
    - `errors`: the number of bindings at which `if` errs.
    - `after`: the number of bindings after each clause, and after `if` where there is one.
    """

    time: Micros
    events: Sequence[RecordedEvent]
    firings: Sequence[RecordedFiring]
    anchors: int
    after: Sequence[int]
    errors: int


class ReadUnits(NamedTuple):
    """Some rules and other units of a program, with all units that they read, in program order."""

    rules: Sequence[Rule]
    units: Sequence[StreamUnit]


def read_units(program: CompiledProgram, names: Iterable[str]) -> ReadUnits:
    """The units of some names or labels, and transitively all units whose events or graphs they
    read.
    """
    requested = set(names)
    rules, others = program.rules.rules, program.units
    units: list[ProgramUnit] = [*rules, *others]
    needed = requested | {unit.name for unit in others if not requested.isdisjoint(labels_made(unit))}
    while True:
        read = {reading.label for unit in units if unit.name in needed for reading in readings(unit)}
        further = {unit.name for unit in units if not read.isdisjoint(labels_made(unit))} - needed
        if not further:
            read_others = [unit for unit in others if unit.name in needed]
            needed |= {rule.name for unit in read_others for rule in unit.rules}
            return ReadUnits([rule for rule in rules if rule.name in needed], read_others)
        needed |= further


def program_of(program: CompiledProgram, units: ReadUnits, further: Sequence[FactSource] = ()) -> CompiledProgram:
    """A program of some units over the same background, without shared queries.

    `further`: additional sources, whose facts no rule reads; they are the last streams of the
    layout.
    """
    layout = lay_out(units.rules, program.spec.since, units.units)
    layout = replace(layout, streams=(*layout.streams, *further))
    static = StaticAnswers(program.spec, program.store)
    rejects = program.spec.inconsistent is Inconsistent.REJECT
    stage_one = StageOne(
        program.knowledge, layout.streams, static.answers, rejects=rejects, limits=program.spec.limits, triples=layout.instant_triples
    )
    rules = replace(program.rules, rules=tuple(units.rules))
    return replace(program, rules=rules, layout=layout, stage_one=stage_one, units=tuple(units.units), traced=True)


@dataclass(frozen=True)
class Recorder:
    """Recorder of one rule and of the units that it reads; `steps` fills its history.

    Attributes:
        replay: the replay, of the whole program.
        rule: the rule, as it is written.
        program: the program of this rule and of the units that it reads.
        unfiltered: for sources of the rule whose queries have filters, the sources without them.
        failed: dead letters of anchors at which the rule fails or exceeds a limit, at most about a
            thousand.
        history: the events so far.
    """

    replay: Replay
    rule: Rule
    program: CompiledProgram
    history: History
    unfiltered: Mapping[FactSource, UnfilteredSource]
    failed: list[DeadLetter] = field(default_factory=list)

    @staticmethod
    def of(replay: Replay, rule: str) -> Recorder:
        """A recorder for a rule, by its name; raises `KeyError` if there is none."""
        written = {each.name: each for each in replay.program.rules.rules}
        unfiltered = unfiltered_sources(written[rule])
        needed = read_units(replay.program, [rule])
        read_already = {role.source for each in needed.rules for role in roles(each)}
        further = dict.fromkeys([each.source for each in unfiltered.values() if each.source not in read_already])
        program = program_of(replay.program, needed, tuple(further))
        return Recorder(replay, written[rule], program, history_of(program), unfiltered)

    def is_empty(self, source: Source) -> bool:
        """True if no event of a source has arrived."""
        return not self.history.has_occurred(self.history.stream_of(source))

    def steps(
        self, on_reject: Callable[[RejectedElement], None] | None = None, on_instant: Callable[[Micros], None] | None = None
    ) -> Iterator[Step]:
        """Run the replay from the first instant on, and yield the evaluations of the rule.

        Evaluations are in the order of time. When one is yielded, the history holds all events that
        the rule has read.

        Args:
            on_reject: called with each element that an input rejects.
            on_instant: called with the time (µs since 1970) of each instant.
        """
        done: list[Step] = []
        program = self.program
        engine = self._engine(done.append)
        unread = [stream for stream in range(len(program.layout.streams)) if stream not in program.layout.routes]
        for instant in self.replay.instants(on_reject):
            if on_instant is not None and instant.graphs:
                on_instant(instant.time)
            if not instant.graphs:
                self.history.passed = instant.time
                instant.step(engine)
            elif not (closed := close_instant(program, instant.time, instant.graphs)).facts.rejected:
                self.history.passed = instant.time
                for stream in unread:
                    rows = closed.facts.facts.get(stream)
                    if rows:
                        self.history.record(stream, instant.time, list(enumerate(rows)))
                engine.match(instant.time, closed.facts, engine.items(instant.time, instant.graphs, closed))
            if engine.failed:
                self._note_failures(engine.failed)
            if done:
                yield from done
                done.clear()
        if self.replay.ended:
            for _ in engine.finish():
                yield from done
                done.clear()

    def _engine(self, done: Callable[[Step], None]) -> Engine:
        """An engine whose layers record; for a rule within another unit, only the rule's own
        layer."""
        program, clock = self.program, self.replay.clock
        around = next((unit for unit in program.units if self.rule in unit.rules), None)
        if around is None:
            return Engine(program, clock, [_RecordingLayer(self, done, place) for place in places_of(program, self.history)])
        engine = Engine(program, clock)

        def layer(layout: Layout, attributes: Mapping[Label, tuple[Variable, ...]]) -> StageTwo:
            return _RecordingLayer(self, done, place_of_member(layout, attributes, self.history), keeps_firings=True)

        engine.unit_runs[around.name].step_rule_by(self.rule, layer)
        return engine

    def _note_failures(self, failed: list[DeadLetter]) -> None:
        name = f"rule {self.rule.name}"
        if len(self.failed) < _MOST_FAILURES:
            self.failed.extend([each for each in failed if each.input == name])
        failed.clear()


_MOST_FAILURES: Final = 1_000


class _RecordingLayer(RecordedLayer):
    """A layer that records its arrivals and composite events, and reports the evaluations of the
    rule.

    It writes graphs only if a unit reads them, and firings only if `keeps_firings`.
    """

    def __init__(self, recorder: Recorder, done: Callable[[Step], None], place: RecordedPlace, *, keeps_firings: bool = False) -> None:
        rule, above = recorder.rule, place.above
        super().__init__(recorder.program, recorder.history, place, recorder.replay.clock, frozenset([rule.name]))
        self._above = above
        self._keeps_firings = keeps_firings
        self._makes_graphs = any(isinstance(each, MadeGraphs) for each in above)
        self._done = done
        self._replay_clock = recorder.replay.clock
        self._rule = rule
        self._anchors = recorder.history.stream_of(rule.anchor.source)
        self._number = next((number for number, each in enumerate(self.rules) if each.name == rule.name), None)
        self._counted = (0, (0,) * (len(rule.clauses) + (rule.condition is not None) + 1))
        self._ended_at = LAST_MICRO

    def write_firings(self, time: Micros, matched: Sequence[Match], repeats: dict[bytes, int]) -> LayerResult:
        """The composite events of matches, with graphs only if a unit reads them."""
        self.matches += matched
        if self._keeps_firings:
            return super().write_firings(time, matched, repeats)
        if self._makes_graphs:
            return LayerResult([], super().write_firings(time, matched, repeats).events)
        events: list[tuple[MadeStream, Arrival]] = []
        for rule, ordinal, _, values in matched:
            label = self.rules[rule].event
            if label in self._above:
                events.append((label, (ordinal, values)))
        return LayerResult([], events)

    def stepped(self, state: State, time: Micros, *, ended: bool) -> None:
        """Report the evaluation of the recorded rule at a time, unless it has no event of the
        anchor."""
        if self._number is None:
            return
        if ended:
            self._ended_at = min(self._ended_at, time)
        events = self._due(time)
        if not events:
            return
        firings = [self._firing(time, each) for each in self.matches if each[0] == self._number]
        anchors, bindings = self._counts(state)
        anchors_before, before = self._counted
        self._counted = anchors, bindings
        *after, errors = [now - then for now, then in zip(bindings, before, strict=True)]
        self._done(Step(time, events, firings, anchors - anchors_before, after, errors))

    def _due(self, time: Micros) -> Sequence[RecordedEvent]:
        """The events of the anchor's stream that are due at a time, after their delay; one whose
        value is no delay counts at its own time."""
        anchor = self._rule.anchor
        since = time - anchor.least_delay
        first = time - anchor.delay
        if anchor.delayed_by is None:
            return () if since != time and since >= self._ended_at else self.history.between(self._anchors, since, since)
        found = self.history.between(self._anchors, first, min(since, self._ended_at - 1))
        delays = [(each, anchor_delay_of(anchor, each, self._replay_clock)) for each in found]
        return [each for each, delay in delays if each.time + (delay or 0) == time]

    def _counts(self, state: State) -> tuple[int, tuple[int, ...]]:
        """The numbers so far of the rule's anchors, of bindings after each clause and `if`, of
        errors."""
        for group in state.counter.groups:
            if self._number in group.by_rule:
                errors = 0 if self._rule.condition is None else group.errors_of_condition(self._number)
                return group.anchors + group.by_rule[self._number], (*group.bindings, errors)
        raise AssertionError("a rule that is counted has a group of its own")

    def _firing(self, time: Micros, match: Match) -> RecordedFiring:
        return RecordedFiring(self._rule, time, self.bound_events(match), match[3])
