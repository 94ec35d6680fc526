"""Stage one of one task: a range of time over all inputs, read, merged into instants, closed and
queried.

Each input is read from the task's start to its stop, and lateness is decided again, as in the plan.
Elements of the range are used; a rejected record is reported by the one task that owns it
(`inputs.admit`). The output is, for each bucket, the arrivals of all instants in a few rows; or the
firings, where a program without state has no buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from dotr.engine.driver import NO_ITEMS, Engine, StreamItems, close_instant, inconsistency_line, items_of_instant, with_items
from dotr.errors.diagnostics import InputFailed, Refused
from dotr.instant.instants import published_firings
from dotr.instant.stage_one import InstantFacts
from dotr.model.stream import DeadLetter, Element, Firing, InputElement, Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.buckets.bucket_steps import TimedArrivals, chunk_payload, span_row
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics, encode_diagnostics
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow, encode_inconsistencies, encode_totals, fallback_rows, record_batch
from dotr.runtimes.spark.exchange.spilled_rows import ELEMENTS, FIRINGS, SpillBuffer, SpilledDeadLetters
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.exchange.worker_cache import layers_of, program_of, terms_of, without_garbage_collection
from dotr.runtimes.spark.tasks.inputs import TaskInputs, admit
from dotr.streams.formats.mapping.typed_cells import drain_left_out
from dotr.streams.records import SourcedElement
from dotr.streams.time_formats import drain_repeated_hours
from dotr.temporal.matching.rule_counts import RuleCounts

if TYPE_CHECKING:
    from pyarrow import RecordBatch


E = TypeVar("E", bound=Element)

MAX_INCONSISTENT_SHOWN: Final = 3
"""Inconsistent instants of a task that are reported, at most."""


_TRIPLES: Final = 8
"""Triples of an element that an output has that count as much as a firing."""


def read_task(job: Job, task: Task) -> Iterator[RecordBatch]:
    """The rows of a task."""
    try:
        with without_garbage_collection():
            lines = task_lines(job, task)
        yield record_batch(lines)
    except Refused as refused:
        raise CarriedDiagnostics(encode_diagnostics(refused)) from None
    except InputFailed as failed:
        raise CarriedDiagnostics(encode_diagnostics(Refused([failed.diagnostic]), lasting=True)) from None


def task_lines(job: Job, task: Task) -> list[SparkRow]:
    """The rows of stage one for a task."""
    elements: list[Element] = []
    dead_letters = SpilledDeadLetters(job)
    program = program_of(job)
    opened = TaskInputs(job, task)
    traces = bool(program.stage_one.may_reject or program.units or job.published.names)
    drain_left_out(), drain_repeated_hours()  # of a task that failed
    for input_range in task.ranges:
        files = opened.files(input_range, trace=traces, times=(task.after, task.until))
        admit(files, input_range, task.after, task.until, elements, dead_letters)
    cells_left_out = drain_left_out()  # before elements are read again
    elements.sort(key=itemgetter(0))
    lines, totals = instant_lines(
        job, elements, dead_letters, partial(_sourced, opened, task), task.closed, task.until if task.is_heartbeat else None
    )
    if task.closed == LAST_MICRO:
        lines.append(SparkRow(-4, RowKind.ENDED, 0, b""))
    totals = replace(totals, left_out=cells_left_out, repeated_hours=drain_repeated_hours())
    lines.append(SparkRow(-2, RowKind.COUNTS, 0, encode_totals(totals)))
    lines += fallback_rows()
    return lines


def instant_lines(
    job: Job,
    elements: Sequence[E],
    dead_letters: SpilledDeadLetters,
    sourced: Callable[[Micros, Sequence[E]], Sequence[RejectableElement]],
    closed: Micros | None,
    heartbeat: Micros | None = None,
) -> tuple[list[SparkRow], Totals]:
    """The rows of stage one for the instants of some elements, and their totals.

    Args:
        elements: in the order of time; all elements of each of their instants.
        dead_letters: those of their inputs, to which the rejected elements are added.
        sourced: returns the elements of an instant, at a time in µs, with what their dead letters
            need.
        closed: the end of the batch in µs; None: another task knows it.
        heartbeat: the time (µs) of a heartbeat behind all elements; None: there is none.
    """
    program = program_of(job)
    published = SpillBuffer(ELEMENTS, job)
    fed = program.layout.fed_streams
    stage_two = ChunkRouter(job) if job.layers else StatelessStageTwo(job, dead_letters)
    contradictory: list[tuple[Micros, str]] = []
    times: list[Micros] = []
    terms = terms_of(job)
    counted_elements = facts = inconsistent = start = 0
    while start < len(elements):
        time = elements[start][0]
        end = start + 1
        while end < len(elements) and elements[end][0] == time:
            end += 1
        instant_elements = elements[start:end]
        start = end
        if terms.wanted:
            terms.note(instant_elements)
        graphs = program.on_streams(instant_elements) if program.units else [triples for _, triples in instant_elements]
        instant_closed = instant, rejected, failing = close_instant(program, time, graphs)
        if rejected or failing:
            own = sourced(time, instant_elements)
            dead_letters.extend([own[each.element].dead_letter(each.reason, each.why) for each in (*rejected, *failing)])
        if instant.inconsistencies:
            inconsistent += 1
        if instant.rejected:
            continue
        if job.published.names:
            inputs = [each.input for each in instant_elements if isinstance(each, InputElement)]
            firings = published_firings(
                job.published, time, inputs, [each.triples for each in instant_elements], {each.element for each in rejected}
            )
            published.add(firings, sum([1 + len(firing.graph or ()) // _TRIPLES for firing in firings]))
        if instant.inconsistencies and len(contradictory) < MAX_INCONSISTENT_SHOWN:
            contradictory.append((time, inconsistency_line(instant.inconsistencies)))
        times.append(time)
        counted_elements += len(instant_elements) - len(rejected)
        if instant.facts:
            facts += sum(map(len, instant.facts.values()))
        items = items_of_instant(fed, time, graphs, instant_closed) if program.units else NO_ITEMS
        if instant.facts or items:
            stage_two.add(time, instant, items)
    lines = stage_two.lines()
    longest = program.longest_gap
    acting = [*times, heartbeat] if heartbeat is not None and heartbeat not in times[-1:] else times
    # LAST_MICRO is the end of the stream, after which delayed anchors and reports still come; one less is the end of a batch.
    until: Micros | None = LAST_MICRO - 1 if closed == LAST_MICRO and not program.spec.fires_at_end else closed
    for key in (key for layer in range(job.layers) for key in job.keys(layer)):
        if until is not None:
            lines.append(SparkRow(key, RowKind.CLOSED, until, b""))
        if acting and program.timed:
            lines.append(span_row(key, acting, longest))
    lines += dead_letters.rows(-1)
    lines += published.rows(-1)
    if contradictory:
        lines.append(SparkRow(-3, RowKind.INCONSISTENT, 0, encode_inconsistencies(contradictory)))
    return lines, Totals(
        counted_elements,
        len(times),
        facts,
        stage_two.events,
        dead_letters=dead_letters.counted,
        dropped=stage_two.dropped,
        inconsistent=inconsistent,
        rules=stage_two.rule_counts,
        terms=frozenset(terms.terms),
    )


class RejectableElement(Protocol):
    """An element with what its dead letter needs."""

    def dead_letter(self, reason: Reason, why: str, /) -> DeadLetter:
        """The dead letter of the element."""


def _sourced(opened: TaskInputs, task: Task, time: Micros, elements: Sequence[Element]) -> list[SourcedElement]:
    """The elements of an instant with their records; elements without are read again, in the same
    order.
    """
    sourced = [element for element in elements if isinstance(element, SourcedElement)]
    if sourced:
        return sourced
    read_again: list[Element] = []
    for input_range in task.ranges:
        admit(opened.files(input_range, trace=True), input_range, time - 1, time, read_again, [])
    return [element for element in read_again if isinstance(element, SourcedElement)]


class ChunkRouter:
    """The arrivals at the buckets of each layer, where operators keep the state, and count events."""

    events = dropped = 0

    def __init__(self, job: Job) -> None:
        self._keys = [job.keys(layer) for layer in range(job.layers)]
        self._deliver = program_of(job).router(job.buckets).facts
        self._graph_ports = [layer.graph_ports for layer in program_of(job).layout.layers]
        self._arrivals: list[dict[int, TimedArrivals]] = [{} for _ in self._keys]

    def add(self, time: Micros, facts: InstantFacts, items: StreamItems) -> None:
        """Route the facts of an instant, and its items for units."""
        every = with_items(facts.facts, items) if items else facts.facts
        for buckets, deliveries in zip(self._arrivals, self._deliver(every, time), strict=True):
            for bucket, ports in deliveries.items():
                buckets.setdefault(bucket, []).append((time, ports))

    @property
    def rule_counts(self) -> dict[str, RuleCounts]:
        """An empty mapping: the operators count."""
        return {}

    def lines(self) -> list[SparkRow]:
        """The arrivals as rows."""
        return [
            SparkRow(keys[bucket], RowKind.CHUNK, arrivals[0][0], chunk_payload(arrivals, graph_ports))
            for keys, buckets, graph_ports in zip(self._keys, self._arrivals, self._graph_ports, strict=True)
            for bucket, arrivals in buckets.items()
        ]


# Stage two of a program without state: the task that reads an instant runs all rules on the
# instant and writes their firings.
#
# Invariant: a task has whole instants in order, and no firing at an instant uses events of another
# (`Layout.stateful_operators`), so the output is that of one engine over the whole stream. Each task
# starts with an empty engine, so a repeated task gives the same output.


class StatelessStageTwo:
    """The firings of a task's instants. The dead letters of anchors at which a rule fails or
    exceeds a limit are added to `dead_letters`.
    """

    def __init__(self, job: Job, dead_letters: SpilledDeadLetters) -> None:
        self._firings = SpillBuffer(FIRINGS, job)
        self._engine = Engine(program_of(job), job.clock, layers_of(job), self._emit)
        self._dead_letters = dead_letters
        self.events = self.dropped = 0

    def add(self, time: Micros, facts: InstantFacts, items: StreamItems) -> None:
        """Run the rules on the facts of an instant; a program without state has no units that read
        `items`."""
        firings = self._engine.match(time, facts, items)
        if firings:
            self._emit(firings)
        if self._engine.failed:
            self._dead_letters.extend(self._engine.failed)
            self._engine.failed.clear()

    @property
    def rule_counts(self) -> dict[str, RuleCounts]:
        """The counts so far by the name of the rule."""
        return self._engine.rule_counts

    def _emit(self, firings: list[Firing]) -> None:
        self._firings.add(firings, len(firings))
        self.events += len(firings)
        self.dropped += sum([firing.dropped for firing in firings])

    def lines(self) -> list[SparkRow]:
        """The firings as rows."""
        return self._firings.rows(-1)
