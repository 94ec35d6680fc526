"""Layers of units of other languages than that of rules: routing of arrivals and events of a layer.

Idea: units of a layer do not read each other, so they are stepped independently. In one process
`UnitLayer` steps all units of a layer moment by moment, in order of name. On Spark each unit has a
partition of its own, or a part in every bucket; `unit_steps` steps it through a batch.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from dotr.engine.gaps import gaps_of
from dotr.engine.unit_runs import UnitContext, UnitResult, UnitRun, engine_unit
from dotr.evaluation.triples.generalised import as_told
from dotr.model.event_order import AttributeValues, sort_by_tie, tie_key
from dotr.model.rules import EventSource
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Variable
from dotr.model.time import LAST_MICRO, Micros
from dotr.model.units import IntervalEvents, MadeGraphs
from dotr.temporal.items import graph_row
from dotr.temporal.layout.layers import Layer, MadeStream, PlacedUnit
from dotr.temporal.layout.units import StreamUnit
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.operator import Arrival, Arrivals
from dotr.temporal.matching.rule_counts import RuleCounts
from dotr.temporal.matching.state import StateError
from dotr.temporal.stage_two import CompositeEvent, LayerResult

IsFed = Callable[[StreamUnit], bool]
"""True for a unit that may still receive events of other units after the last instant."""


class ContradictedReport(NamedTuple):
    """A report with a contradiction in its windows, or between them and the background: its time in
    µs, and the first contradiction as text.
    """

    time: Micros
    text: str


class UnitStep(NamedTuple):
    """The result of a moment of a unit: its firings, the events that higher layers read, dead
    letters, and the contradiction to warn of, if any."""

    firings: Sequence[Firing]
    events: Sequence[CompositeEvent]
    failed: Sequence[DeadLetter]
    contradicted: ContradictedReport | None


class UnitPort:
    """A unit in a layer, with its run: which reads each port feeds, and which events higher layers
    read.

    Args:
        placed: the unit with the ports of its reads.
        run: its state.
        above: the events, and the streams of graphs, that higher layers read.
        first_ordinal: the ordinal of the first event of each moment. It differs between the buckets
            of a unit that is spread over them.
    """

    def __init__(self, placed: PlacedUnit, run: UnitRun, above: Set[MadeStream], first_ordinal: int = 0) -> None:
        self._first = first_ordinal
        self.placed = placed
        self.run = run
        self.unit = placed.unit
        self._reads: dict[int, list[int]] = {}
        for number, port in enumerate(placed.ports):
            self._reads.setdefault(port, []).append(number)
        # Events and graphs of other units may arrive from several partitions in any order; events
        # are sorted by the tie order, graphs by their rows.
        self._orders: dict[int, tuple[Variable, ...] | None] = {}
        for port, read in zip(placed.ports, placed.unit.reads, strict=True):
            if isinstance(read.stream, EventSource):
                self._orders[port] = read.stream.attributes
            elif isinstance(read.stream, MadeGraphs):
                self._orders[port] = None
        self._read_above = {
            each.label: (each.attributes if each.label in above else None, MadeGraphs(each.label) in above) for each in placed.unit.makes
        }
        self._is_inner = engine_unit(placed.unit).is_inner
        self._is_read_above = any(names is not None or graphs for names, graphs in self._read_above.values())
        self._made: Counter[Label] = Counter()
        self._intervals: dict[Label, list[IntervalEvents]] = {}
        for stream in above:
            if isinstance(stream, IntervalEvents) and stream.label in self._read_above:
                self._intervals.setdefault(stream.label, []).append(stream)

    def step(self, time: Micros, arrivals: Arrivals, *, is_fed: bool) -> UnitStep:
        """The result of a moment; `arrivals` are those of the layer, by port."""
        here: dict[int, Sequence[Arrival]] = {}
        for port, arrived in arrivals.items():
            if arrived and port in self._reads:
                if port in self._orders:
                    arrived = self._in_order(port, arrived)
                for number in self._reads[port]:
                    here[number] = arrived
        result = self.run.step(time, here, is_fed=is_fed)
        if result.firings:
            if len(self._read_above) == 1:
                self._made[result.firings[0].rule] += len(result.firings)
            else:
                self._made.update(firing.rule for firing in result.firings)
        events = self._events(result.firings) if result.firings and self._is_read_above else []
        if self._intervals:
            events += self._with_starts(time, result)
        return UnitStep(() if self._is_inner else result.firings, events, result.failed, self._contradicted(time, result))

    def take_counts(self) -> dict[str, RuleCounts]:
        """The counts since the last call: events by label, and those of rules within the unit."""
        counts, made = self.run.take_rule_counts(), self._made
        self._made = Counter()
        return {name: replace(counts.get(name, RuleCounts()), events=made[name]) for name in {**made, **counts}}

    def is_due(self, time: Micros, arrivals: Arrivals) -> bool:
        """True if the unit is to be stepped at a time: it has arrivals, or work is due."""
        return any(port in arrivals for port in self._reads) or self.run.next_due() == time

    def _in_order(self, port: int, arrived: Sequence[Arrival]) -> Sequence[Arrival]:
        if len(arrived) < 2:
            return arrived
        names = self._orders[port]
        if names is None:
            return sorted(arrived, key=lambda each: _as_text(each[1]))
        return sorted(arrived, key=lambda each: tie_key(names, each[1]))

    def _events(self, firings: Sequence[Firing]) -> list[CompositeEvent]:
        """The attributes, in the tie order, and the graphs of events that higher layers read."""
        events: list[CompositeEvent] = []
        rows: dict[Label, list[AttributeValues]] = {}
        for ordinal, firing in enumerate(firings, self._first):
            names, graphs = self._read_above[firing.event]
            if names is not None:
                attributes = dict(firing.attributes)
                rows.setdefault(firing.event, []).append(tuple([attributes.get(name) for name in names]))
            if graphs and firing.graph is not None:
                events.append((MadeGraphs(firing.event), (ordinal, graph_row(firing.graph))))
        for label, values in rows.items():
            names = self._read_above[label][0]
            assert names is not None
            events += [(label, (ordinal, row)) for ordinal, row in enumerate(sort_by_tie(names, values), self._first)]
        return events

    def _with_starts(self, time: Micros, result: UnitResult) -> Iterator[tuple[MadeStream, Arrival]]:
        """The events with their starts, for each unit that reads intervals."""
        starts = result.starts or [time] * len(result.firings)
        for ordinal, (firing, start) in enumerate(zip(result.firings, starts, strict=True), self._first):
            for stream in self._intervals.get(firing.event, ()):
                if stream.attributes is not None:
                    attributes = dict(firing.attributes)
                    row = tuple([attributes.get(name) for name in stream.attributes])
                else:
                    row = graph_row(firing.graph or ())
                yield stream, (ordinal, (str(start), *row))

    def _contradicted(self, time: Micros, result: UnitResult) -> ContradictedReport | None:
        if not result.contradictions:
            return None
        rule, triples = result.contradictions[0]
        premises = ", ".join(" ".join(told) for triple in triples if (told := as_told(triple)) is not None)
        return ContradictedReport(time, f"in a window of {self.unit.name}: {rule}: {premises}")


def _as_text(row: AttributeValues) -> str:
    """A row as text without its None values, with which rows of a log may be padded."""
    return str(tuple([term for term in row if term is not None]))


class TimedStep(NamedTuple):
    """The result of a unit at a time in µs."""

    time: Micros
    step: UnitStep


class UnitEnd:
    """The times after the last instant at which a unit ceases to make events.

    - `under_way`: before this time in µs it may still make events without arrivals.
    - `over`: from this time on it makes none, whatever arrives; None: there is no such time.
    """

    def __init__(self) -> None:
        self.under_way: Micros = -LAST_MICRO
        self.over: Micros | None = None

    def begin(self, run: UnitRun) -> None:
        """Note the state of the run at the last instant."""
        self.under_way = LAST_MICRO if run.is_under_way else -LAST_MICRO
        self.over = -LAST_MICRO if run.is_over else None

    def note(self, time: Micros, run: UnitRun) -> None:
        """Note the state of the run after a later moment, at a time in µs."""
        if self.under_way == LAST_MICRO and not run.is_under_way:
            self.under_way = time
        if self.over is None and run.is_over:
            self.over = time


def unit_steps(
    unit: UnitPort,
    passed: Micros | None,
    arrived: Sequence[tuple[Micros, Arrivals]],
    spans: Sequence[tuple[Micros, Micros]],
    closed: Micros,
    is_fed: Callable[[Micros], bool],
    end: UnitEnd,
    longest: Micros | None,
) -> Iterator[TimedStep]:
    """The results of one unit over one batch, at each moment with arrivals or with work due.

    Args:
        passed: the last instant of earlier batches in µs; None before the first instant.
        arrived: the arrivals at the ports of the layer, in the order of time.
        spans: the first and the last instant of stretches of the batch. As a partition of rules,
            the unit is stepped up to the last of them, not up to `closed`.
        closed: the end of the batch in µs; `LAST_MICRO` where the stream has ended.
        is_fed: True if other units may make events for the unit after a time, once the stream has
            ended.
        end: receives the times at which the unit ceases to make events.
        longest: the length of a gap in µs up to which no unit acts too often (`gap_length`).
    """
    if passed is None and not spans:
        return
    run = unit.run
    run.begin(min(spans)[0] if passed is None else passed + 1)
    last = max([each[1] for each in spans] if passed is None else [passed, *(each[1] for each in spans)])

    def step(time: Micros, arrivals: Arrivals, *, ended: bool) -> TimedStep:
        done = TimedStep(time, unit.step(time, arrivals, is_fed=ended and is_fed(time)))
        if ended:
            end.note(time, run)
        return done

    gaps = gaps_of(passed, spans, longest)

    @cache
    def fed_until() -> Micros:
        """The first time from which on no unit feeds this one, once the stream has ended."""
        return last + bisect_left(range(LAST_MICRO - last), True, key=lambda after: not is_fed(last + after))

    def due(until: Micros, *, ended: bool) -> Iterator[TimedStep]:
        while True:
            time = run.next_due()
            if ended and run.is_waiting and fed_until() <= until and (time is None or time >= fed_until()):
                letters = run.release(fed_until())
                if letters:
                    yield TimedStep(fed_until(), UnitStep((), (), letters, None))
                continue
            if gaps and gaps[0].after <= until and (time is None or time > gaps[0].after):
                gap = gaps.pop(0)
                if letters := run.open_gap(*gap):
                    yield TimedStep(gap.before, UnitStep((), (), letters, None))
            elif time is None or time > until:
                return
            else:
                yield step(time, {}, ended=ended)

    later = bisect_right(arrived, last, key=itemgetter(0))
    for time, arrivals in arrived[:later]:
        yield from due(time - 1, ended=False)
        if unit.is_due(time, arrivals):
            yield step(time, arrivals, ended=False)
    yield from due(last, ended=False)
    if closed != LAST_MICRO:
        assert later == len(arrived), "arrivals after the last instant are in the last batch"
        return
    letters = run.end(last, is_fed=is_fed(last))
    if letters:
        yield TimedStep(last, UnitStep((), (), letters, None))
    end.begin(run)
    for time, arrivals in arrived[later:]:
        yield from due(time - 1, ended=True)
        if unit.is_due(time, arrivals):
            yield step(time, arrivals, ended=True)
    yield from due(LAST_MICRO, ended=True)


class UnitLayer:
    """The units of a layer with their state, in one process.

    `contradicted` collects reports with a contradiction; the caller clears the list.
    """

    def __init__(self, layer: Layer, context: UnitContext, above: Set[MadeStream]) -> None:
        self._layer = layer
        self.contradicted: list[ContradictedReport] = []
        self.units = [UnitPort(placed, engine_unit(placed.unit).run(context), above) for placed in layer.units]
        self._alone = [number for number, each in enumerate(self.units) if each.run.acts_alone]
        self._readers: dict[int, list[int]] = {}
        for number, each in enumerate(self.units):
            for port in dict.fromkeys(each.placed.ports):
                self._readers.setdefault(port, []).append(number)

    def begin(self, time: Micros) -> None:
        """Note the time of the first instant in µs."""
        for each in self.units:
            each.run.begin(time)

    def open_gap(self, after: Micros, before: Micros) -> list[DeadLetter]:
        """Note that no instant is between two times in µs; returns the dead letters of units that
        skip their moments there."""
        return [letter for each in self.units for letter in each.run.open_gap(after, before)]

    def end(self, last: Micros, is_fed: IsFed) -> list[DeadLetter]:
        """Note the last instant in µs; returns dead letters as `open_gap` does."""
        return [letter for each in self.units for letter in each.run.end(last, is_fed=is_fed(each.unit))]

    def next_due(self) -> Micros | None:
        """The next time at which a unit is to be stepped if nothing arrives; None: never."""
        return min((due for each in self.units if (due := each.run.next_due()) is not None), default=None)

    def is_under_way(self, name: str) -> bool:
        """True if the unit of this name may still make events without arrivals."""
        return any(each.run.is_under_way for each in self.units if each.unit.name == name)

    def is_over(self, name: str) -> bool:
        """True if the unit of this name makes no event any more, whatever arrives."""
        return any(each.run.is_over for each in self.units if each.unit.name == name)

    def step(self, time: Micros, arrivals: Arrivals, is_fed: IsFed) -> LayerResult:
        """The result of a moment of the layer; the time is after all earlier ones and not after
        `next_due`."""
        firings: list[Firing] = []
        events: list[CompositeEvent] = []
        failed: list[DeadLetter] = []
        for number in self._alone:
            each = self.units[number]
            if each.run.is_waiting and not is_fed(each.unit):
                failed += each.run.release(time)
        for number in self._due(time, arrivals):
            each = self.units[number]
            step = each.step(time, arrivals, is_fed=is_fed(each.unit))
            firings += step.firings
            events += step.events
            failed += step.failed
            if step.contradicted is not None:
                self.contradicted.append(step.contradicted)
        return LayerResult(firings, events, failed)

    def _due(self, time: Micros, arrivals: Arrivals) -> Sequence[int]:
        """The numbers of the units to be stepped at a time, sorted: those with arrivals at a port,
        and those with work due."""
        if not self._alone and len(arrivals) == 1:
            (port,) = arrivals
            return self._readers.get(port, ())
        due = {number for port in arrivals for number in self._readers.get(port, ())}
        due.update(number for number in self._alone if self.units[number].run.next_due() == time)
        return sorted(due)

    @property
    def event_counts(self) -> list[int]:
        """The number of elements kept at each port."""
        counts = [0] * len(self._layer.ports)
        for each in self.units:
            for port, count in zip(each.placed.ports, each.run.event_counts, strict=True):
                counts[port] = max(counts[port], count)
        return counts

    def encode(self) -> bytes:
        """The state of all units by name, as `restore` reads it."""
        return encode_units({each.unit.name: _written(each.run) for each in self.units})

    def restore(self, written: bytes) -> None:
        """Continue from an encoded state; a unit without a state there starts without one.

        Raises:
            StateError: the state cannot be read.
        """
        try:
            states = decode_units(written)
            for each in self.units:
                if each.unit.name in states:
                    text, logs = states[each.unit.name]
                    each.run.restore(text, [[(time, ordinal, tuple(row)) for time, ordinal, row in log] for log in logs])
        except (ValueError, TypeError, KeyError) as error:
            raise StateError(f"it cannot be read ({error})") from error


WrittenUnit: TypeAlias = tuple[str, Sequence[Sequence[StoredEvent]]]
"""The state of a unit: the result of `UnitRun.to_json`, and the entries of each of its logs."""


def encode_units(states: Mapping[str, WrittenUnit]) -> bytes:
    """The states of units by name as one line of JSON."""
    return json.dumps(states).encode("utf-8", "surrogatepass")


def decode_units(written: bytes) -> dict[str, WrittenUnit]:
    """The inverse of `encode_units`; raises ValueError or TypeError."""
    states = json.loads(written)
    if not isinstance(states, dict):
        raise TypeError("no states by name")
    return {name: (text, logs) for name, (text, logs) in states.items()}


def _written(run: UnitRun) -> tuple[str, Sequence[Sequence[StoredEvent]]]:
    return run.to_json(), run.entries()
