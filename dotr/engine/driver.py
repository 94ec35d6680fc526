"""The driver: one instant through both stages, and the time between instants (semantics.md, 1, 3,
6).

Idea: a runtime reads elements, moves state and writes results; the semantics of an instant is here.
1. `close_instant` merges the elements of one time, closes and queries the instant, isolates faults
   and rejects unusable elements. It has no state.
2. `Engine.match`, in one process, or the `Moment`s of `moments`, for one partition of one layer on
   Spark, deliver events, ticks and delayed anchors to the layers, in the order of time.
Invariant: between two instants the moments are those of `times_between`, for a whole program and
for a partition alike. Ticks fire only between the first and the last instant seen; delayed anchors,
reports and points of units may fire after the last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dotr.engine.gaps import Gap, skipped_ticks, tick_letters
from dotr.engine.program import CompiledProgram
from dotr.engine.router import Deliveries, Facts, Router
from dotr.errors.fallbacks import FallbackKind, error_line, record_fallback, reraise_in_tests
from dotr.evaluation.limits import LIMITS
from dotr.instant.datalog.closure.inconsistencies import NO_INCONSISTENCIES, Inconsistency
from dotr.instant.instants import merge
from dotr.instant.stage_one import InstantFacts, TickStream, next_multiple, ticks_at
from dotr.model.calendars import Schedule, has_moment, next_moment
from dotr.model.event_order import AttributeValues
from dotr.model.stream import DeadLetter, Firing, Reason, output_order
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.model.units import FedGraphs, InstantStream
from dotr.temporal.items import items_of
from dotr.temporal.layout.feeding import DelayedAnchors, feeders, is_fed
from dotr.temporal.layout.layers import PortStream
from dotr.temporal.layout.units import StreamUnit
from dotr.temporal.matching.operator import Arrival
from dotr.temporal.matching.rule_counts import RuleCounts, added_counts
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import NOTHING, EmitFirings, LayerResult, StageTwo

if TYPE_CHECKING:  # loaded where a program has a query
    from dotr.engine.unit_layer import ContradictedReport
    from dotr.engine.unit_runs import UnitRun


class Rejection(NamedTuple):
    """An element that becomes a dead letter: its number in its instant, counted from 0, the kind of
    the reason, and the reason as text.
    """

    element: int
    reason: Reason
    why: str


class ClosedInstant(NamedTuple):
    """An instant after stage one.

    - `facts`: the result of stage one; if it is `rejected`, stage two is not evaluated at this
      time.
    - `rejected`: the elements left out of the instant.
    - `failing`: elements of the instant that make queries fail.
    """

    facts: InstantFacts
    rejected: Sequence[Rejection] = ()
    failing: Sequence[Rejection] = ()


def close_instant(program: CompiledProgram, time: Micros, graphs: Sequence[tuple[Triple, ...]]) -> ClosedInstant:
    """Stage one of the instant of some graphs at a time in µs; graphs that make it fail are left
    out."""
    try:
        facts = program.stage_one.evaluate_graphs(time, graphs)
    except Exception as error:
        isolated = isolate(program, time, graphs, error)
        rejected = [Rejection(number, Reason.FAILED, why) for number, why in isolated.rejected.items()]
        if isolated.facts is None:
            return ClosedInstant(_NO_FACTS, rejected)
        facts = isolated.facts
    else:
        if not facts.rejected and not facts.failed:
            return tuple.__new__(ClosedInstant, (facts, (), ()))  # half the cost of the constructor, for every instant
        rejected = []
    left_out = {each.element for each in rejected}
    numbers = [number for number in range(len(graphs)) if number not in left_out]
    if facts.rejected:
        reason, why = rejection_reason(facts, program)
        return ClosedInstant(facts, rejected + [Rejection(number, reason, why) for number in numbers])
    failures = attribute_failures(program, time, [graphs[number] for number in numbers], facts)
    return ClosedInstant(facts, rejected, [Rejection(numbers[number], Reason.FAILED, why) for number, why in failures.items()])


# Isolation of the elements that make stage one fail (semantics.md, section 6).
#
# Idea: an instant that fails is evaluated once more. If it fails again, each element is evaluated
# alone, and the elements that fail are left out; if the others still fail together, all are left out.
# Where a single query fails, all elements stay: the query's rules miss the instant, and the elements
# that make the query fail become dead letters.
# Cost: one evaluation an element, only in instants that fail.


class IsolatedInstant(NamedTuple):
    """The facts of the usable elements (None: no element is usable), and the errors of the others
    by the element's number.
    """

    facts: InstantFacts | None
    rejected: dict[int, str]


def isolate(program: CompiledProgram, time: Micros, graphs: Sequence[tuple[Triple, ...]], first: Exception) -> IsolatedInstant:
    """The second evaluation of an instant whose first one raised `first`; leaves elements out."""
    reraise_in_tests(first, FallbackKind.INSTANT)
    evaluate = program.stage_one.evaluate
    try:
        facts = evaluate(merge(time, graphs))
    except Exception as error:
        why = error_line(error)
    else:
        record_fallback(first, FallbackKind.INSTANT)
        return IsolatedInstant(facts, {})
    rejected: dict[int, str] = {}
    for number, graph in enumerate(graphs):
        try:
            evaluate(merge(time, [graph]))
        except Exception as error:
            rejected[number] = error_line(error)
    others = [number for number in range(len(graphs)) if number not in rejected]
    if not others:
        return IsolatedInstant(None, rejected)
    if rejected:
        try:
            return IsolatedInstant(evaluate(merge(time, [graphs[number] for number in others])), rejected)
        except Exception as error:
            why = error_line(error)
    return IsolatedInstant(None, rejected | dict.fromkeys(others, why))


def attribute_failures(program: CompiledProgram, time: Micros, graphs: Sequence[tuple[Triple, ...]], facts: InstantFacts) -> dict[int, str]:
    """The elements that make queries fail, by number, with the names of the rules that miss them
    and the error: those that fail alone, else all elements of the instant.
    """
    failures: dict[int, str] = {}
    for streams, error in facts.failed:
        rules = ", ".join(program.readers(streams))
        why = f"the query of rule {rules} fails: {error}"
        failing_alone = [number for number, graph in enumerate(graphs) if len(graphs) > 1 and _fails(program, time, graph, streams)]
        for number in failing_alone or range(len(graphs)):
            failures.setdefault(number, why)
    return failures


def _fails(program: CompiledProgram, time: Micros, graph: tuple[Triple, ...], streams: tuple[int, ...]) -> bool:
    return any(failed == streams for failed, _ in program.stage_one.evaluate(merge(time, [graph])).failed)


_NO_FACTS = InstantFacts({}, NO_INCONSISTENCIES, rejected=True)


def rejection_reason(facts: InstantFacts, program: CompiledProgram) -> tuple[Reason, str]:
    """The reason why elements of a rejected instant are dead letters, as its kind and as text."""
    if facts.exceeded:
        rules = program.readers(facts.over)
        where = f"the query {program.query_label(facts.over)} of rule {', '.join(rules)}" if rules else "the closure"
        return Reason.LIMIT, f"its instant goes over a limit: {facts.exceeded} in {where}"
    return Reason.INCONSISTENT, f"its instant is inconsistent ({inconsistency_line(facts.inconsistencies)})"


def inconsistency_line(inconsistencies: Sequence[Inconsistency]) -> str:
    """The first contradiction of an instant, and the number of the others.

    >>> inconsistency_line([Inconsistency("prp-irp", ()), Inconsistency("cax-dw", ()), Inconsistency("cax-dw", ())])
    'prp-irp: a rule without a body; and 2 more'
    """
    return f"{inconsistencies[0]}; and {len(inconsistencies) - 1} more" if len(inconsistencies) > 1 else str(inconsistencies[0])


NextTime: TypeAlias = Callable[[Micros], Micros | None]
"""The first time after another at which something is due (None: never)."""


def times_between(after: Micros, before: Micros, next_tick: NextTime, next_due: Callable[[], Micros | None]) -> Iterator[Micros]:
    """The times in (after, before), both in µs since 1970, at which ticks, delayed anchors or
    reports are due.

    The caller steps through each time before it draws the next, since a step changes the due times.

    >>> list(times_between(0, 10, partial(next_multiple, [3, 4]), lambda: None))
    [3, 4, 6, 8, 9]
    """
    while True:
        tick, due = next_tick(after), next_due()
        time = due if tick is None else tick if due is None else min(tick, due)
        if time is None or time >= before:
            return
        yield time
        after = time


StreamItems: TypeAlias = Mapping[InstantStream, Sequence[AttributeValues]]
"""The elements of an instant by stream of graphs, and its triples, as rows, where units read
them."""

NO_ITEMS: Final[StreamItems] = {}


def items_of_instant(streams: Set[FedGraphs], time: Micros, graphs: Sequence[tuple[Triple, ...]], closed: ClosedInstant) -> StreamItems:
    """The elements of an instant on some streams, and the triples that units read; none for a
    rejected instant.
    """
    if closed.facts.rejected:
        return NO_ITEMS
    found: dict[InstantStream, Sequence[AttributeValues]] = {}
    if streams:
        found.update(items_of(time, graphs, streams, {each.element for each in closed.rejected}))
    found.update(closed.facts.triples.items())
    return found


class Engine:
    """Both stages in one process, as the local runtime, sessions and rule tests execute them.

    Args:
        program: the compiled program.
        clock: the form of times in the output.
        layers: the program's layers of stage two, where they are compiled already.
        emit: receives firings in chunks, in no order, where a moment has many; the returned firings
            are then the rest.

    `failed` collects a dead letter for each anchor at which a rule has failed or exceeded a limit;
    the caller clears the list. All layers complete a moment before any starts the next.
    """

    def __init__(
        self, program: CompiledProgram, clock: Clock, layers: Sequence[StageTwo] | None = None, emit: EmitFirings | None = None
    ) -> None:
        self.program = program
        self._layers = program.stage_two(clock) if layers is None else layers
        self._emit = emit
        self._router = program.router()
        self._states = [layer.start() for layer in self._layers]
        self._units = program.unit_layers(clock)
        self._unit_counts: dict[str, RuleCounts] = {}
        self._lone = self._router.lone if len(self._layers) == 1 and not self._units else None
        self._feeders = feeders(program.layout) if self._units else {}
        self._fed_streams = program.layout.fed_streams
        self._timed = program.acts_alone
        self._clock = clock
        self._longest = program.longest_gap
        self._passed: Micros | None = None
        self._due: Micros | None = None
        self._is_due_known = False  # until the next moment, which may change it
        self._ended = False
        self.failed: list[DeadLetter] = []

    def step(self, time: Micros, graphs: Sequence[tuple[Triple, ...]]) -> tuple[list[Firing], ClosedInstant]:
        """The firings of the instant of some graphs, as `match` returns them, and the result of
        stage one.

        The time (µs) is later than all earlier ones. A rejected instant changes no state.
        """
        closed = close_instant(self.program, time, graphs)
        return [] if closed.facts.rejected else self.match(time, closed.facts, self.items(time, graphs, closed)), closed

    def items(self, time: Micros, graphs: Sequence[tuple[Triple, ...]], closed: ClosedInstant) -> StreamItems:
        """The elements of an instant on streams of units, and the triples that units read; a
        `FedGraph` has its stream (`items_of`).
        """
        return items_of_instant(self._fed_streams, time, graphs, closed) if self._units else NO_ITEMS

    def match(self, time: Micros, facts: InstantFacts, items: StreamItems = NO_ITEMS) -> list[Firing]:
        """The firings of an instant that is not rejected, in order of rule name, then attributes,
        after those of earlier moments. `items` are its elements on streams of units.
        """
        if not self._timed:
            return self._moment(time, facts.facts) if facts.facts else []
        if self._units and self._passed is None:
            self._begin(time)
        earlier = [firing for firings in self.moments_until(time - 1) for firing in firings]
        self._passed = time
        present: Facts = {**facts.facts, **self.program.stage_one.ticks_at(time)}
        return earlier + self._moment(time, with_items(present, items) if items else present)

    def drain_contradicted(self) -> list[ContradictedReport]:
        """The reports of units since the last call whose windows have a contradiction."""
        found: list[ContradictedReport] = []
        for units in self._units.values():
            found += units.contradicted
            units.contradicted.clear()
        return found

    @property
    def unit_runs(self) -> Mapping[str, UnitRun]:
        """The state of each unit other than a rule, by its name."""
        return {each.unit.name: each.run for units in self._units.values() for each in units.units}

    @property
    def passed(self) -> Micros | None:
        """The last time stepped or advanced to, in µs since 1970; None before the first instant."""
        return self._passed

    @property
    def due(self) -> Micros | None:
        """The next time in µs since 1970 at which a tick, a delayed anchor, a report or a point is
        due, if no instant comes before; None: nothing is, or the stream has not begun."""
        if self._is_due_known:
            return self._due
        self._due = None
        if self._timed and self._passed is not None:
            tick = next_multiple([each.period for each in self.program.stage_one.ticks], self._passed)
            self._due = min([time for time in (tick, self._next_due()) if time is not None], default=None)
        self._is_due_known = True
        return self._due

    def begin(self, time: Micros) -> None:
        """Begin the stream at a time in µs, that of the first instant, if it has not begun."""
        if self._passed is None:
            self._passed = time - 1
            self._begin(time)

    def _begin(self, time: Micros) -> None:
        """Pass the time of the first instant to the units."""
        self._is_due_known = False
        for units in self._units.values():
            units.begin(time)

    def moments_until(self, until: Micros, instant: Micros | None = None) -> Iterator[list[Firing]]:
        """The firings of each moment up to a time in µs before which no instant comes. `instant`:
        the time of the next one, where that is not `until` + 1.
        """
        if not self._timed or self._passed is None:  # before the first instant there are no moments
            return
        gap = Gap(self._passed, until + 1 if instant is None else instant)
        is_long = self._longest is not None and gap.before - gap.after > self._longest
        ticks = self._open_gap(gap) if is_long else self.program.stage_one.ticks
        next_tick = partial(next_multiple, [each.period for each in ticks])
        for time in times_between(self._passed, until + 1, next_tick, self._next_due):
            self._passed = time
            yield self._moment(time, ticks_at(ticks, time))
        self._passed = max(self._passed, until)  # so that no part of the gap is opened again
        self._is_due_known = False

    def _open_gap(self, gap: Gap) -> Sequence[TickStream]:
        """Open a gap, whose dead letters are in `failed`; returns the ticks that are not
        skipped."""
        program = self.program
        ticks, most = program.stage_one.ticks, program.spec.limits.gap
        skipped = skipped_ticks(ticks, gap, most)
        self.failed += tick_letters(ticks, program.layout.layers, skipped, gap, most, self._clock)
        for units in self._units.values():
            self.failed += units.open_gap(*gap)
        return [each for each in program.stage_one.ticks if each.stream not in skipped]

    def advance(self, time: Micros) -> Iterator[list[Firing]]:
        """The firings of each moment up to a time in µs, which is later than all earlier ones and
        counts like an empty instant.
        """
        if self._passed is None:
            self._passed = time - 1
            self._begin(time)
        if (due := self.due) is not None and due <= time:
            yield from self.moments_until(time - 1)
            yield from self.moments_until(time)
        self._passed = time

    def finish(self) -> Iterator[list[Firing]]:
        """The firings of each moment after the last instant of the stream: those of delayed
        anchors, reports and points; none where the program leaves them (`fires_at_end`).
        """
        if self._timed and self.program.spec.fires_at_end:
            self._ended = True
            for number in self._units if self._passed is not None else ():
                self.failed += self._units[number].end(self._passed or 0, self._is_fed)
            if self.failed:
                yield []
            for time in times_between(-LAST_MICRO, LAST_MICRO + 1, _no_tick, self._next_due):
                yield self._moment(time, {}, ended=True)

    def _next_due(self) -> Micros | None:
        """The time of the next delayed anchor, report or point."""
        times = [layer.next_due(state) for layer, state in zip(self._layers, self._states, strict=True)]
        if self._units:
            times += [units.next_due() for units in self._units.values()]
        return min([time for time in times if time is not None], default=None)

    def _moment(self, time: Micros, facts: Facts, *, ended: bool = False) -> list[Firing]:
        """The firings of all layers at one time, in order of rule name, then attributes."""
        self._is_due_known = False
        lone = self._lone(facts) if self._lone is not None and not ended else None
        if lone is not None:
            step = self._layers[0].step_fact(self._states[0], time, *lone, emit=self._emit)
            if step is NOTHING:
                return []
            self.failed += step.failed
            firings = step.firings
            if len(firings) > 1:
                firings.sort(key=output_order)
            return firings
        firings = []
        deliveries = self._router.facts(facts)
        for number, layer in enumerate(self._layers):
            arrivals = deliveries[number].get(0)
            if self._units and number in self._units:
                step = self._units[number].step(time, arrivals or {}, self._is_fed)
                firings += step.firings
                self.failed += step.failed
                self._deliver(time, step, number, deliveries)
                continue
            if not arrivals:
                if not self._timed or layer.next_due(self._states[number]) != time:
                    continue
                arrivals = {}
            step = layer.step(self._states[number], time, arrivals, ended=ended, emit=self._emit)
            firings += step.firings
            if step.failed:
                self.failed += step.failed
            if step.events:
                self._deliver(time, step, number, deliveries)
        if len(firings) > 1:
            firings.sort(key=output_order)
        return firings

    def _deliver(self, time: Micros, step: LayerResult, number: int, deliveries: list[Deliveries]) -> None:
        """Add the events of a layer to the arrivals at higher layers."""
        if step.events and number + 1 < len(self._layers):
            for above, further in enumerate(self._router.events(step.events, number, time)):
                for port, events in further.get(0, {}).items():
                    deliveries[above].setdefault(0, {}).setdefault(port, []).extend(events)

    def _is_fed(self, unit: StreamUnit) -> bool:
        """True if, after the last instant, other units may still make events for a unit."""
        return self._ended and is_fed(unit.name, self._feeders, self._waits, self._is_under_way, self._is_over)

    def _waits(self, anchors: DelayedAnchors) -> bool:
        return bool(self._states[anchors.layer].waiting[anchors.queue])

    def _is_under_way(self, name: str) -> bool:
        return any(units.is_under_way(name) for units in self._units.values())

    def _is_over(self, name: str) -> bool:
        return any(units.is_over(name) for units in self._units.values())

    def reload(self) -> None:
        """Encode and restore all state, as a runtime does between batches."""
        restored = [layer.restore(state.encode()) for layer, state in zip(self._layers, self._states, strict=True)]
        for new, old in zip(restored, self._states, strict=True):
            new.counter = old.counter
        self._states = restored
        for units in self._units.values():
            units.restore(units.encode())

    @property
    def rule_counts(self) -> dict[str, RuleCounts]:
        """The counts so far by the name of the rule, or the label of another unit's events, without
        rules that have counted nothing.
        """
        layers = zip(self._layers, self._states, strict=True)
        counted = {name: counts for layer, state in layers for name, counts in layer.rule_counts(state.counter).items()}
        for units in self._units.values():
            for each in units.units:
                self._unit_counts = added_counts(self._unit_counts, each.take_counts())
        return {**self._unit_counts, **counted}

    def encode(self, now: Micros) -> list[bytes]:
        """The state of each layer, as `restore` reads it, without the events that no instant after
        `now` (µs), the last one, can read.
        """
        for state in self._states:
            state.expire(now + 1)
        written = [state.encode() for state in self._states]
        for number, units in self._units.items():
            written[number] = units.encode()
        return written

    def restore(self, written: Sequence[bytes], passed: Micros) -> None:
        """Continue from the encoded state of each layer, after the time `passed` (µs); raises
        `StateError`.
        """
        self._states = [
            layer.start() if number in self._units else layer.restore(state)
            for number, (layer, state) in enumerate(zip(self._layers, written, strict=True))
        ]
        for number, units in self._units.items():
            units.restore(written[number])
        self._passed = passed
        self._begin(passed + 1)

    @property
    def event_counts(self) -> list[list[int]]:
        """The number of stored events of each port of each layer."""
        counts = [state.event_counts for state in self._states]
        for number, units in self._units.items():
            counts[number] = units.event_counts
        return counts


def _no_tick(after: Micros) -> None:
    """No tick comes after the last instant."""


def with_items(facts: Facts, items: StreamItems) -> Facts:
    """Facts together with the elements and triples of their instant."""
    present: dict[PortStream, Sequence[AttributeValues]] = dict(items.items())
    present.update(facts.items())
    return present


PortArrivals: TypeAlias = dict[int, list[Arrival]]
"""The events that arrive at a time, by port."""


class PartitionTicks(NamedTuple):
    """The arrivals of a partition at each tick of a period."""

    period: Schedule
    ports: PortArrivals


class Moment(NamedTuple):
    """The arrivals at a time; `ended`: the time is after the last instant of the stream."""

    time: Micros
    arrivals: PortArrivals
    ended: bool


def partition_ticks(program: CompiledProgram, router: Router, layer: int, bucket: int) -> list[PartitionTicks]:
    """The ticks of a bucket of a layer; each bucket makes its own."""
    routed = ((each, router.facts({each.stream: each.rows})[layer].get(bucket)) for each in program.stage_one.ticks)
    return [PartitionTicks(each.period, ports) for each, ports in routed if ports]


def moments(
    stage: StageTwo,
    state: State,
    ticks: Sequence[PartitionTicks],
    arrived: Iterable[tuple[Micros, PortArrivals]],
    spans: Sequence[tuple[Micros, Micros]],
    closed: Micros,
    gaps: Sequence[Gap] = (),
    most: int = LIMITS.gap,
) -> Iterator[Moment]:
    """The moments of one partition over one batch; the caller steps each before drawing the next.

    Args:
        arrived: the instants with arrivals, in order of time.
        spans: the first and the last instant of stretches of the batch, the same for every
            partition of every layer. The partition is stepped up to the last of these instants, not
            up to `closed`: ticks and delayed anchors after it depend on whether another instant
            comes.
        closed: the end of the batch; `LAST_MICRO` where the stream has ended. Then later delayed
            anchors fire as well, without ticks.
        gaps: those between the instants, in order; ticks that are more than `most` in one of them
            are skipped there.

    At the end `state.passed` is the last instant, and events that no later moment can use are
    expired.
    """
    passed = state.passed if state.passed is not None or not spans else min(spans)[0] - 1
    if passed is None:
        return  # before the first instant
    last = max([passed, *(each[1] for each in spans)])
    begins = [gap.after for gap in gaps]

    def skipping(period: Schedule, time: Micros) -> Gap | None:
        number = bisect_left(begins, time) - 1
        return gaps[number] if number >= 0 and time < gaps[number].before and gaps[number].ticks(period) > most else None

    def next_of(period: Schedule, after: Micros) -> Micros:
        tick = next_moment(period, after)
        while (gap := skipping(period, tick)) is not None:
            tick = next_moment(period, gap.before - 1)
        return tick

    def next_tick(after: Micros) -> Micros | None:
        tick = min([next_of(each.period, after) for each in ticks], default=None)
        return None if tick is None or tick > last else tick

    def moment(time: Micros, arrivals: PortArrivals) -> Moment:
        ended = time > last
        due = [] if ended else [each for each in ticks if has_moment(each.period, time) and skipping(each.period, time) is None]
        return Moment(time, {**arrivals, **{port: list(events) for each in due for port, events in each.ports.items()}}, ended)

    next_due = partial(stage.next_due, state)
    for time, arrivals in arrived:
        for between in times_between(passed, time, next_tick, next_due):
            yield moment(between, {})
        yield moment(time, arrivals)
        passed = time
    for between in times_between(passed, (LAST_MICRO if closed == LAST_MICRO else last) + 1, next_tick, next_due):
        yield moment(between, {})
    state.passed = last
    state.expire(last + 1)
