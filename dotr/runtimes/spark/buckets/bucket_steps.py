"""Stage two of one bucket over one batch: its arrivals are passed to the engine's step in the order
of time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import accumulate, chain, count, repeat
from typing import Protocol, TypeAlias

from dotr.engine.driver import PartitionTicks, PortArrivals, moments, partition_ticks
from dotr.engine.gaps import gaps_of, skipped_ticks, stretches, tick_letters
from dotr.engine.state.bucket import BucketContext
from dotr.engine.state.pages import MAX_DECODED, PagedState
from dotr.engine.state.segments import SegmentMap
from dotr.instant.stage_one import next_multiple
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Term
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow, encode_totals
from dotr.runtimes.spark.exchange.spilled_rows import FIRINGS, SpillBuffer, SpilledDeadLetters
from dotr.runtimes.spark.exchange.worker_cache import layers_of, program_of, without_garbage_collection
from dotr.temporal.layout.feeding import DelayedAnchors, Feeder, feeders, is_fed
from dotr.temporal.matching.operator import Arrival
from dotr.temporal.matching.rule_counts import RuleCounts
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import CompositeEvent

# Rows with the time up to which, after the last instant, a lower layer may still produce events
# for a unit (semantics.md, 8, "First and last").
#
# Idea: after the last instant no further anchor is delayed. So at the end of the stream a bucket can
# compute when its last delayed anchor fires, or its unit is done; before that time a unit above may
# still receive events. A row is sent to the buckets of the units that are fed, directly or through
# other units.
# Example: the last anchor in queue 0 of layer 1 fires at 40 s: the row's time is 40 s and its payload
# `[1, 0]`. Before that time, an event may still arrive.


@lru_cache(maxsize=4)
def feeders_of(job: Job) -> Mapping[str, tuple[Feeder, ...]]:
    """The feeders of each unit of the job's program, by its name."""
    return feeders(program_of(job).layout)


@lru_cache(maxsize=4)
def _fed_buckets(job: Job) -> Mapping[Feeder, tuple[int, ...]]:
    """The keys of the buckets whose units a feeder feeds, directly or through other units."""
    direct, found = feeders_of(job), dict[Feeder, dict[int, None]]()
    for layer in program_of(job).layout.layers:
        for placed in layer.units:
            keys = job.keys(layer.number)
            own = keys if placed.is_spread else keys[placed.partition % job.buckets :][:1]
            waiting, seen = [placed.unit.name], {placed.unit.name}
            while waiting:
                for feeder in direct[waiting.pop()]:
                    found.setdefault(feeder, {}).update(dict.fromkeys(own))
                    if isinstance(feeder, str) and feeder not in seen:
                        seen.add(feeder)
                        waiting.append(feeder)
    return {feeder: tuple(keys) for feeder, keys in found.items()}


def waiting_rows(job: Job, layer: int, state: State) -> list[SparkRow]:
    """The rows of a bucket of rules at the end of the stream; `state` is its state after the last
    instant."""
    fed_buckets = _fed_buckets(job)
    rows = []
    for queue, waiting in enumerate(state.waiting):
        end = waiting.last_due()
        if end is not None:
            payload = json.dumps([layer, queue]).encode()
            rows += [SparkRow(key, RowKind.UNDER_WAY, end, payload) for key in fed_buckets.get(DelayedAnchors(layer, queue), ())]
    return rows


def unit_rows(job: Job, unit: str, end: Micros, over: Micros | None) -> list[SparkRow]:
    """The rows of a unit at the end of the stream. The unit may produce events before the time
    `end`; from the time `over` on it produces none, whatever arrives (None: it always may). Both
    are µs."""
    payload = json.dumps([unit, over]).encode()
    return [SparkRow(key, RowKind.UNDER_WAY, end, payload) for key in _fed_buckets(job).get(unit, ())]


class UnderWay:
    """The times up to which lower layers may still feed the units of a bucket, from its rows."""

    def __init__(self, job: Job, rows: Iterable[SparkRow]) -> None:
        self._feeders = feeders_of(job)
        self._ends: dict[Feeder, Micros] = {}
        self._over: dict[str, Micros] = {}
        is_never_over = set[str]()
        for row in rows:
            if row.kind == RowKind.UNDER_WAY:
                first, second = json.loads(row.payload)
                feeder: Feeder = first if isinstance(first, str) else DelayedAnchors(first, second)
                self._ends[feeder] = max(row.time, self._ends.get(feeder, row.time))
                if isinstance(first, str):  # a unit that is spread sends a row from each of its buckets
                    if second is None:
                        is_never_over.add(first)
                    else:
                        self._over[first] = max(second, self._over.get(first, second))
        for unit in is_never_over & self._over.keys():
            del self._over[unit]

    def is_fed(self, unit: str, time: Micros) -> bool:
        """True if a unit may receive an item later than `time` (µs), which is the last instant or
        later."""

        def is_under_way(feeder: Feeder) -> bool:
            return feeder in self._ends and time < self._ends[feeder]

        def is_over(feeder: str) -> bool:
            return feeder in self._over and time >= self._over[feeder]

        return is_fed(unit, self._feeders, is_under_way, is_under_way, is_over)


TimedArrivals: TypeAlias = list[tuple[Micros, dict[int, list[Arrival]]]]
"""The arrivals at a bucket: by time, then by port."""


def chunk_payload(instants: TimedArrivals, graph_ports: Set[int] = frozenset()) -> bytes:
    """A chunk of arrivals as JSON: each term once, then for each instant and port the number of
    attributes, the ordinals and the numbers of the terms; at `graph_ports`, of which rows differ in
    length, the number of terms of each row.

    Port 3 receives two rows of two attributes at the time 5, with the ordinals 0 and 7:

    >>> chunk_payload([(5, {3: [(0, ("<a>", None)), (7, ("<a>", "<b>"))]})])
    b'[["<a>",null,"<b>"],[[5,[[3,2,[0,7],[0,1,0,2]]]]]]'
    """
    numbers: defaultdict[Term | None, int] = defaultdict(count().__next__)
    number = numbers.__getitem__
    listed = [
        [
            time,
            [
                [
                    port,
                    [len(values) for _, values in arrivals] if port in graph_ports else len(arrivals[0][1]),
                    [ordinal for ordinal, _ in arrivals],
                    list(map(number, chain.from_iterable([v for _, v in arrivals]))),
                ]
                for port, arrivals in ports.items()
            ],
        ]
        for time, ports in instants
    ]
    return json.dumps([list(numbers), listed], ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def instants_of(payload: bytes) -> TimedArrivals:
    """The arrivals of a chunk; the inverse of `chunk_payload`.

    >>> instants: TimedArrivals = [(5, {0: [(0, ('"a"', None)), (7, ('"a"', '"b"'))], 2: [(0, ())]})]
    >>> instants_of(chunk_payload(instants)) == instants
    True
    >>> graphs: TimedArrivals = [(5, {1: [(0, ()), (1, ("<a>", "<p>", "<b>"))]})]
    >>> instants_of(chunk_payload(graphs, {1})) == graphs
    True
    """
    terms, listed = json.loads(payload)
    term = terms.__getitem__

    def rows(arity: int | list[int], ordinals: list[int], numbers: list[int]) -> list[Arrival]:
        if isinstance(arity, list):
            ends = list(accumulate(arity))
            return [
                (ordinal, tuple(map(term, numbers[end - length : end]))) for ordinal, length, end in zip(ordinals, arity, ends, strict=True)
            ]
        return list(zip(ordinals, zip(*[map(term, numbers)] * arity, strict=True) if arity else repeat(()), strict=bool(arity)))

    return [(time, {port: rows(arity, ordinals, numbers) for port, arity, ordinals, numbers in ports}) for time, ports in listed]


def in_order(chunks: Iterable[TimedArrivals]) -> Iterator[tuple[Micros, dict[int, list[Arrival]]]]:
    """The instants of several chunks in the order of time, those of the same time merged.

    >>> list(in_order([[(9, {0: [(0, ())]})], [(5, {}), (9, {0: [(1, ())]})]]))
    [(5, {}), (9, {0: [(0, ()), (1, ())]})]
    """
    current: tuple[Micros, dict[int, list[Arrival]]] | None = None
    for instant in sorted((instant for chunk in chunks for instant in chunk), key=lambda instant: instant[0]):
        if current is not None and current[0] == instant[0]:
            for port, arrivals in instant[1].items():
                current[1].setdefault(port, []).extend(arrivals)
            continue
        if current is not None:
            yield current
        current = instant
    if current is not None:
        yield current


@lru_cache(maxsize=64)
def bucket_context(job: Job, layer: int) -> BucketContext:
    """The context of the state of a layer's buckets."""
    program = program_of(job)
    return BucketContext(layers_of(job)[layer], program.layout.layers[layer], job.buckets, layer in program.timed_layers)


@lru_cache(maxsize=1 << 12)
def _ticks(job: Job, layer: int, bucket: int) -> Sequence[PartitionTicks]:
    program = program_of(job)
    return partition_ticks(program, program.router(job.buckets), layer, bucket)


def closed_by(lines: Iterable[SparkRow]) -> Micros:
    """The end of the batch, in µs since 1970."""
    for line in lines:
        if line.kind == RowKind.CLOSED:
            return line.time
    raise AssertionError("a batch has no end for this bucket")


def passed_by(job: Job, lines: Iterable[SparkRow]) -> Micros | None:
    """The time (µs) up to which a layer without timers has received all its events at the end of a
    batch; None where the batch has no instant.

    A lower layer with timers (ticks, delayed anchors) is stepped up to the last instant only, so
    its events between that and the end of the batch arrive with a later batch.
    """
    closed = closed_by(lines)
    if closed == LAST_MICRO or not program_of(job).timed:
        return closed
    return max((last for _, last in spans_of(lines)), default=None)


def spans_of(lines: Iterable[SparkRow]) -> list[tuple[Micros, Micros]]:
    """The first and the last instant of each stretch of a batch (`span_row`)."""
    found: list[tuple[Micros, Micros]] = []
    for line in lines:
        if line.kind == RowKind.SPAN:
            times = [line.time, *map(int, line.payload.split())]
            found += zip(times[::2], times[1::2], strict=True)
    return found


def due_rows(job: Job, bucket: int, due: Iterable[Micros | None]) -> list[SparkRow]:
    """The row with the least of the times at which a bucket acts without arrivals, where a planner
    with a clock is to know it.

    >>> due_rows(Job("{}", (), (), "SECOND", False, 1, 2, 2, 1000, 2, "x", clock_delay=5), 1, [None, 9, 7])
    [SparkRow(key=-2, kind=<RowKind.DUE: 13>, time=7, payload=b'7')]
    """
    times = [] if job.clock_delay is None else [each for each in due if each is not None]
    return [SparkRow(-1 - bucket, RowKind.DUE, min(times), b"%d" % min(times))] if times else []


def span_row(key: int, times: Sequence[Micros], longest: Micros | None) -> SparkRow:
    """The row with the stretches of a task's instants that no gap longer than `longest` divides.

    >>> span_row(3, [1, 2, 9, 10], 5).payload, spans_of([span_row(3, [1, 2, 9, 10], 5)])
    (b'2 9 10', [(1, 2), (9, 10)])
    """
    first, *others = (time for stretch in stretches(times, longest) for time in stretch)
    return SparkRow(key, RowKind.SPAN, first, b" ".join(b"%d" % time for time in others))


def step_bucket(
    job: Job, layer: int, bucket: int, pages: PagedState, lines: Sequence[SparkRow], after: Micros | None = None, most: int = MAX_DECODED
) -> list[SparkRow]:
    """Step a bucket's pages through a batch; returns its firings, and chunks for the layers above.

    Where there are many pages, arrivals later than `after` are grouped by page, and at most `most`
    events of the pages stay decoded.
    """
    with without_garbage_collection():
        run = _BucketRun(job, layer, bucket)
        instants = in_order(instants_of(line.payload) for line in lines if line.kind == RowKind.CHUNK)
        if layer in program_of(job).timed_layers:
            run.step_timed(pages.single, instants, spans_of(lines), closed_by(lines))
        elif (passed := passed_by(job, lines)) is None:
            assert not list(instants), "events before the first instant of a batch"
        elif pages.page_count > 1:
            assert after is not None, "pages are made of logs"
            for page, state, work in pages.visit(_moments_by_page(pages, instants, after), after, passed, most):
                run.step(state, work, bucket + page * job.buckets)
        else:
            run.step(pages.single, ((time, arrivals, False) for time, arrivals in instants), bucket)
            pages.single.expire(passed + 1)
        return run.lines()


def _moments_by_page(
    pages: PagedState, instants: Iterable[tuple[Micros, PortArrivals]], after: Micros
) -> Mapping[int, list[tuple[Micros, PortArrivals, bool]]]:
    """The arrivals by page. Those at replicated ports, which all pages read, are stored
    immediately."""
    moments_by_page: dict[int, list[tuple[Micros, PortArrivals, bool]]] = {}
    page_of, shares = pages.page_of, pages.has_shared_ports
    for time, arrivals in instants:
        here: dict[int, PortArrivals] = {}
        for port, events in arrivals.items():
            if shares and pages.share(port, time, events, after):
                continue
            for event in events:
                page = page_of(port, event[1])
                ports = here.get(page)
                if ports is None:
                    here[page] = {port: [event]}
                else:
                    ports.setdefault(port, []).append(event)
        for page, ports in here.items():
            moment = (time, ports, False)
            if page in moments_by_page:
                moments_by_page[page].append(moment)
            else:
                moments_by_page[page] = [moment]
    return moments_by_page


class BucketResults:
    """The results of a bucket's batch so far: firings, dead letters, and events for the layers
    above."""

    def __init__(self, job: Job, layer: int, bucket: int) -> None:
        self._layer, self._bucket, self._last = layer, bucket, layer + 1 == job.layers
        self._layers = program_of(job).layout.layers
        self._router = program_of(job).router(job.buckets)
        self._keys = [job.keys(number) for number in range(job.layers)]
        self._firings = SpillBuffer(FIRINGS, job)
        self._failed = SpilledDeadLetters(job)
        self._events = self._dropped = 0
        self._above: dict[tuple[int, int], TimedArrivals] = {}

    def add(self, time: Micros, firings: Sequence[Firing], events: Sequence[CompositeEvent], failed: Sequence[DeadLetter]) -> None:
        """Add the results of a moment."""
        if firings:
            self.emit(firings)
        if failed:
            self._failed.extend(failed)
        if events and not self._last:
            for number, deliveries in enumerate(self._router.events(events, self._layer, time)):
                for target, ports in deliveries.items():
                    self._above.setdefault((number, target), []).append((time, ports))

    def emit(self, firings: Sequence[Firing]) -> None:
        """Add firings, in any order."""
        self._firings.add(list(firings), len(firings))
        self._events += len(firings)
        self._dropped += sum([firing.dropped for firing in firings])

    def lines(self, rules: Mapping[str, RuleCounts], inconsistent: int = 0) -> list[SparkRow]:
        """The results as rows, with the counts of rules and of reports that are inconsistent."""
        out = [
            SparkRow(self._keys[number][target], RowKind.CHUNK, instants[0][0], chunk_payload(instants, self._layers[number].graph_ports))
            for (number, target), instants in self._above.items()
        ]
        out += self._firings.rows(-1 - self._bucket)
        counted = self._failed.counted
        totals = Totals(events=self._events, dead_letters=counted, dropped=self._dropped, rules=rules, inconsistent=inconsistent)
        out += self._failed.rows(-1 - self._bucket)
        if totals.events or totals.dead_letters or totals.rules or inconsistent:
            out.append(SparkRow(-1 - self._bucket, RowKind.COUNTS, 0, encode_totals(totals)))
        return out


class _BucketRun:
    """The steps of a bucket of rules through one batch, and their results."""

    def __init__(self, job: Job, layer: int, bucket: int) -> None:
        self._job, self._number, self._bucket = job, layer, bucket
        self._stage = layers_of(job)[layer]
        self._results = BucketResults(job, layer, bucket)
        self._counter = self._stage.counter()
        self._waiting: list[SparkRow] = []
        self._due: list[SparkRow] = []

    def step(self, state: State, moments: Iterable[tuple[Micros, PortArrivals, bool]], partition: int) -> None:
        """Step a partition through moments."""
        step, add, emit = self._stage.step, self._results.add, self._results.emit
        state.counter = self._counter
        for time, arrivals, ended in moments:
            result = step(state, time, arrivals, partition, ended=ended, emit=emit)
            if result.firings or result.events or result.failed:
                add(time, *result)

    def step_timed(
        self, state: State, instants: Iterable[tuple[Micros, PortArrivals]], spans: Sequence[tuple[Micros, Micros]], closed: Micros
    ) -> None:
        """Step the only partition of the bucket through the moments of a batch, some of which may
        be after the last instant."""
        job, program = self._job, program_of(self._job)
        gaps, most = gaps_of(state.passed, spans, program.longest_gap), program.spec.limits.gap
        if self._bucket == 0:  # ticks are skipped in all buckets alike
            for gap in gaps:
                layers, skipped = [program.layout.layers[self._number]], skipped_ticks(program.stage_one.ticks, gap, most)
                self._results.add(gap.before, (), (), list(tick_letters(program.stage_one.ticks, layers, skipped, gap, most, job.clock)))
        ticks = _ticks(job, self._number, self._bucket)
        self.step(state, self._with_ends(state, moments(self._stage, state, ticks, instants, spans, closed, gaps, most)), self._bucket)
        if state.passed is not None and closed != LAST_MICRO:
            tick = next_multiple([each.period for each in ticks], state.passed)
            self._due = due_rows(job, self._bucket, [tick, self._stage.next_due(state)])

    def _with_ends(self, state: State, moments: Iterable[tuple[Micros, PortArrivals, bool]]) -> Iterator[tuple[Micros, PortArrivals, bool]]:
        """The moments, unchanged. Before the first one after the last instant, the rows are made
        that give units above the times of the delayed anchors."""
        is_over = False
        for moment in moments:
            if moment[2] and not is_over:
                is_over = True
                self._waiting = waiting_rows(self._job, self._number, state)
            yield moment

    def lines(self) -> list[SparkRow]:
        """The results as rows."""
        return [*self._results.lines(self._stage.rule_counts(self._counter)), *self._waiting, *self._due]


# The stored state of one bucket, as the operator hands it to the engine's code.


class BucketStore(SegmentMap, Protocol):
    """The stored state of one bucket: a value beside the segments."""

    def value(self) -> tuple[bytes, bytes] | None:
        """The digest and the text or manifest; None where there is no state yet."""

    def set_value(self, digest: bytes, written: bytes) -> None:
        """Replace the digest and the text or manifest."""
