"""The in-process runtime: one pass over the inputs, one step an instant. It is the reference for
other runtimes.

Invariant: a moment is written once it is complete, so the output of a run that is stopped at any
time has whole instants only.
Memory: the state of the rules, and the elements within the inputs' delays; independent of the
length of the streams. Many matches of one moment are sorted externally, in runs on disk.
"""

from __future__ import annotations

import gc
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

from dotr.engine.driver import Engine, Rejection, close_instant, inconsistency_line
from dotr.engine.program import CompiledProgram
from dotr.engine.stream_terms import stream_terms
from dotr.errors.diagnostics import InputFailed, Refused
from dotr.errors.fallbacks import drain_fallbacks
from dotr.instant.instants import published_firings
from dotr.instant.stage_one import InstantFacts
from dotr.model.stream import DeadLetter, Element, Firing, Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.external_sort import FIRING_FORMAT, RUN_SIZE, SortedRuns, blocks
from dotr.runtimes.external_sort import merge_runs as sorted_runs
from dotr.runtimes.local.channels import PipelineChannels, first_has_dates, receiving_in_process
from dotr.runtimes.monitoring.dead_letter_log import LOG, WarningLimiter
from dotr.runtimes.monitoring.progress import (
    ReportProgress,
    RunProgress,
    ignore_progress,
    port_labels,
    progress_by_input,
    stored_events,
    with_served,
)
from dotr.runtimes.monitoring.totals import ReportTotals, RunFailed, Totals
from dotr.runtimes.pipeline.build import Pipeline, with_clock
from dotr.runtimes.pipeline.inputs import is_recorded
from dotr.runtimes.pipeline.reloading import Reloads, background_of
from dotr.streams.connectors.opening import OpenedSinks, PublishedOutputs, check_secrets, open_sinks, rechosen
from dotr.streams.connectors.receivers import MessageQueue
from dotr.streams.formats.mapping.typed_cells import drain_left_out
from dotr.streams.merge.bounded import merged
from dotr.streams.merge.file_marks import FoundFile, changes
from dotr.streams.merge.live import Channel, Heartbeats, LiveElements, live_instants
from dotr.streams.merge.recordings import RecordingReader, RecordingWriter
from dotr.streams.records import Format, InputFile, ReceivingFailed, Record, SourcedElement
from dotr.streams.sinks.files import WriteFailed
from dotr.streams.time_formats import drain_repeated_hours
from dotr.temporal.matching.rule_counts import RuleCounts, added_counts

_REPORT_SECONDS = 0.25
_PROGRESS_SECONDS = 1.0
_INSTANTS_PER_CHECK = 256
_OBJECTS = 50_000
"""New objects between two garbage collections where topics are read: pending messages have no cycles,
and scanning them at each collection costs a tenth of the time."""


def run_local(
    pipeline: Pipeline,
    report: ReportTotals,
    report_progress: ReportProgress = ignore_progress,
    head: int | None = None,
    reloads: Reloads | None = None,
) -> Totals:
    """Run a pipeline to the end of its input, or until interrupted; all instants so far are then
    written. Returns the totals of the run.

    `report` and `report_progress` receive totals and progress several times a second. `head`: the
    run stops after that number of elements, at the end of the instant of the last one; its output
    is the beginning of the whole run's. `reloads`: the requests to read the configuration again,
    which are taken up between two instants. Raises `Refused` where an input or output cannot be
    opened or an output exists already; `RunFailed` where an output cannot be written to its end.
    """
    for destination in pipeline.destinations:
        check_secrets(destination)
    with stoppable() as stop, PublishedOutputs(pipeline.outputs) as published, receiving_in_process(pipeline) as received:
        published.begin(pipeline.output_terms)
        if pipeline.clock_pending:
            pipeline = _with_first_clock(pipeline, received, stop)
        opened = open_sinks(pipeline.outputs, pipeline.dead_letters, pipeline.output_terms, stop.check, published)
        sinks, rejected = opened.events, opened.dead_letters
        report_progress = with_served(report_progress, lambda: published.counts)
        run = _LocalRun(pipeline, opened, stop, report_progress, head, received, reloads)
        try:
            with ExitStack() as stack:
                for sink in sinks:
                    stack.enter_context(sink)
                if rejected is not None:
                    stack.enter_context(rejected)
                stack.enter_context(_frozen_heap(_OBJECTS if pipeline.topics else None))
                run.run(report)
        except KeyboardInterrupt:  # a second one, while the files were closed
            raise RunFailed("stopped at once: the last instant may not be whole") from None
        except (WriteFailed, ReceivingFailed) as error:
            raise RunFailed(f"{error} (the output before that is kept)") from None
        except InputFailed as failed:
            raise RunFailed(f"{failed} (the output before that is kept)") from None
        else:
            run.linger(published, report)
        finally:
            run.close_inputs()
            run.remove_temporary_files()
    totals = run.totals(latest=True)
    run.report_progress()
    report(totals)
    return totals


def _with_first_clock(pipeline: Pipeline, received: Sequence[MessageQueue], stop: Stop) -> Pipeline:
    """The pipeline with the format of times of its first message; raises KeyboardInterrupt where a
    signal arrives before it."""
    stop.end_write()
    try:
        return with_clock(pipeline, lambda: first_has_dates(received))
    except ReceivingFailed as failed:
        raise RunFailed(str(failed)) from None
    finally:
        stop.is_writing = True


@contextmanager
def _frozen_heap(objects: int | None) -> Iterator[None]:
    """Exclude existing objects from garbage collection, which would cost a sixth of the time with a
    thousand rules. `objects`: new objects between two collections.
    """
    before = gc.get_threshold()
    gc.freeze()
    if objects is not None:
        gc.set_threshold(objects)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


class _LocalRun:
    """The loop of a run, and its counts so far."""

    def __init__(
        self,
        pipeline: Pipeline,
        opened: OpenedSinks,
        stop: Stop,
        report_progress: ReportProgress,
        head: int | None,
        received: Sequence[MessageQueue] = (),
        reloads: Reloads | None = None,
    ) -> None:
        self._received = received
        self._reloads = reloads
        self._background = "" if reloads is None else background_of(pipeline.program.spec)
        self._counts_before: Mapping[str, RuleCounts] = {}
        self.engine = Engine(pipeline.program, pipeline.clock, emit=self._buffer)
        self._folder: Path | None = None
        self._sorted_runs = SortedRuns(FIRING_FORMAT, self._temporary_folder, RUN_SIZE)
        self.elements = self.instants = self.facts = self.events = self.dropped = self.inconsistent = self.fallbacks = 0
        self._recording: RecordingWriter | None = None
        if pipeline.recording is not None:
            self._recording = RecordingWriter(pipeline.recording, pipeline.clock, pipeline.streams)
        self._recorded: RecordingReader | None = None
        self._acts = 0  # since the last heartbeat that was recorded
        self._keeps_records = bool(
            self._recording is not None or pipeline.program.stage_one.may_reject or pipeline.program.units or pipeline.published.names
        )
        self._pipeline = pipeline
        self._unflushed = False
        self._report_progress = report_progress
        self._labels = port_labels(pipeline.program.layout.layers)
        self._channels: list[Channel] = []
        self._open: PipelineChannels | None = None
        self._closed: Micros | None = None
        self._heartbeat: Micros | None = None
        self._ended = False
        self._head = head
        self._cut = False
        self._progress_reported_at = 0.0
        self._second_pass: Iterator[tuple[Micros, list[Element]]] | None = None
        self._clock = pipeline.clock
        self._sinks = opened.events
        self._dead_letter_sink = opened.dead_letters
        self._refused = opened.refused
        self._opened = opened
        self._stop = stop
        self._dead_letter_counts: Counter[Reason] = Counter()
        self._left_out: Counter[tuple[str, str]] = Counter()
        drain_left_out(), drain_repeated_hours()  # of records that were read before the run
        self._warnings = WarningLimiter(pipeline.dead_letter_warnings)
        self._terms = stream_terms(pipeline.program)
        self._rules: Mapping[str, RuleCounts] = {}
        self._rules_due = 0.0

    def run(self, report: ReportTotals) -> None:
        """Run to the end of the inputs, or until stopped."""
        stop, engine, sinks, program = self._stop, self.engine, self._sinks, self._pipeline.program
        next_report = time.monotonic()
        terms, timed, has_units = self._terms, program.timed, bool(program.units)
        published = self._pipeline.published
        reloads, adds_records = self._reloads, self._adds_records(program)
        try:
            stop.end_write()
            instants = self.instants_of(self._pipeline, report)
            for number, (now, elements) in enumerate(instants if self._head is None else self._first(instants, self._head)):
                if reloads is not None and (reloads.requested or engine is not self.engine):
                    if reloads.requested:
                        self._reload(reloads)
                    engine, sinks, program, terms = self.engine, self._sinks, self._pipeline.program, self._terms
                    timed, has_units = program.timed, bool(program.units)
                    adds_records = self._adds_records(program)
                if not elements:
                    self._advance(now)
                    continue
                if adds_records:
                    elements = [*self.sourced(now, elements)]
                if terms.wanted:
                    terms.note(elements)
                graphs = program.on_streams(elements) if has_units else [triples for _, triples in elements]
                closed = close_instant(program, now, graphs)
                facts, rejected, failing = closed
                if rejected:
                    elements = self.reject_elements(now, elements, rejected, facts)
                if facts.rejected:
                    continue
                if timed:
                    self.write_moments(engine.moments_until(now - 1))
                firings = engine.match(now, facts, engine.items(now, graphs, closed)) if has_units else engine.match(now, facts)
                letters = self.dead_letters(now, elements, failing) if failing else ()
                stop.is_writing = True
                if self._recording is not None:
                    self._recording.instant(now, self.sourced(now, elements))
                if published.names and (own := self._published(now, elements, rejected)):
                    self.write_firings([*own, *firings])
                    self.events -= len(own)
                elif firings or self._sorted_runs:
                    self.write_firings(firings)
                if facts.inconsistencies:
                    self.inconsistent += 1
                    self._warnings.report_inconsistency(now, inconsistency_line(facts.inconsistencies), self._clock)
                self.instants += 1
                self._closed = now
                self.elements += len(elements) - len(rejected)
                for letter in letters:
                    self._write_dead_letter(letter)
                if engine.failed:
                    self.write_failed_anchors()
                if has_units:
                    self.report_contradicted()
                if facts.facts:
                    self.facts += sum(map(len, facts.facts.values()))
                if not number % _INSTANTS_PER_CHECK and time.monotonic() >= next_report:
                    self.report_progress()
                    report(self.totals())
                    for sink in sinks:
                        sink.flush()
                    next_report = time.monotonic() + _REPORT_SECONDS
                stop.end_write()
            if not self._cut and (self._recorded is None or self._recorded.has_ended):
                self.write_moments(self.engine.finish())
                self._ended = True
        except KeyboardInterrupt:
            LOG.warning("Stopped: the output holds all instants so far.")
        stop.is_writing = True  # so that files are closed before a signal is handled
        if self._recording is not None:
            last = [time for time in (engine.passed, self._heartbeat) if time is not None]
            self._recording.heartbeat(max(last, default=-LAST_MICRO))
            self._recording.close(ended=self._ended)
        if not self._cut:
            for file in self._changes():
                self._write_dead_letter(file.dead_letter_of_change)

    def linger(self, published: PublishedOutputs, report: ReportTotals) -> None:
        """After the end of the inputs go on serving what is kept for as long as outputs say."""
        if self._ended and self._opened.served:
            self.report_progress()
            report(self.totals())
            published.linger(self._check_lingering)

    def _check_lingering(self) -> None:
        self._stop.check()
        if self._reloads is not None:
            self._reloads.refuse_ended()

    def _advance(self, now: Micros) -> None:
        """Advance the time to a heartbeat. It is recorded if it is the first, or something fired; also
        after many acts without an event, so that a replay finds no gap (semantics.md, 6) in them."""
        engine, before = self.engine, (self.events, self._dead_letter_counts.total())
        is_first = engine.passed is None
        self._acts += self.write_moments(engine.advance(now))
        self._closed = self._heartbeat = now
        has_fired = (self.events, self._dead_letter_counts.total()) != before
        if self._recording is not None and (is_first or has_fired or 2 * self._acts > self._pipeline.program.spec.limits.gap):
            self._acts = 0
            self._stop.is_writing = True
            self._recording.heartbeat(now)
            self._stop.end_write()

    def _adds_records(self, program: CompiledProgram) -> bool:
        """True if the streams or inputs of elements count, which their records tell, and they come
        without."""
        is_read = program.layout.fed_streams or self._pipeline.published.names
        return bool(is_read) and (self._pipeline.is_live or not self._keeps_records)

    def _published(self, now: Micros, elements: Sequence[Element], rejected: Sequence[Rejection]) -> list[Firing]:
        """The elements of an instant that outputs have, without rejected ones."""
        sourced, left_out = self.sourced(now, elements), {each.element for each in rejected}
        return published_firings(
            self._pipeline.published, now, [each.input for each in sourced], [each.triples for each in sourced], left_out
        )

    def _reload(self, reloads: Reloads) -> None:
        """Go on with the configuration as it is now, between two instants; where it is refused,
        nothing changes."""
        from dotr.engine.state.saved_session import Continuation, SavedSession  # which few runs need
        from dotr.engine.state.schema import KnowledgeDigests, state_schema

        changed = reloads.take(self._pipeline)
        if changed is None:
            return
        old, program, background = self.engine, changed.program, background_of(changed.program.spec)
        now = max((time for time in (old.passed, self._closed) if time is not None), default=None)
        continued: Continuation | None = None
        if now is not None:
            schema = state_schema(old.program, knowledge=self._background)
            saved = SavedSession(self._clock.unit, self._clock.dated, now, schema, tuple(old.encode(now)))
            continued = saved.continued_by(program, KnowledgeDigests(background, background))
            program = continued.program
        self.engine = Engine(program, self._clock, emit=self._buffer)
        if continued is not None and now is not None:
            self.engine.restore(continued.states, now)
        self._counts_before, self._background = added_counts(self._counts_before, old.rule_counts), background
        self._pipeline = replace(changed, program=program)
        self._sinks = rechosen(self._sinks, changed.outputs)
        self._labels = port_labels(program.layout.layers)
        self._warnings.limit = changed.dead_letter_warnings
        self._terms, noted = stream_terms(program), self._terms.terms
        self._terms.terms |= noted
        if self._recording is not None and now is not None:
            self._stop.is_writing = True
            self._recording.reload(now, reloads.path)
            self._stop.end_write()
        reloads.done(self._pipeline, None if continued is None else continued.change)

    def _changes(self) -> Iterator[InputFile]:
        """The changes of files that are not told yet."""
        watched = {} if self._open is None else self._open.watched
        for files in watched.values():
            yield from files.changes()
        for file in self._pipeline.inputs:
            if file.input not in watched:
                yield from map(file.found, changes([FoundFile(file.path, file.mark)]))

    def close_inputs(self) -> None:
        """Close the clients of brokers, and the recording of a run that has failed."""
        if self._open is not None:
            self._open.close()
        if self._recording is not None:
            with suppress(WriteFailed):  # the first error is reported
                self._recording.close(ended=False)

    def _first(self, instants: Iterator[tuple[Micros, list[Element]]], head: int) -> Iterator[tuple[Micros, list[Element]]]:
        """The instants up to the one with element number `head`."""
        for instant in instants:
            yield instant
            head -= len(instant[1])
            if head <= 0:
                self._cut = True
                return

    def dead_letters(self, now: Micros, elements: Sequence[Element], rejections: Sequence[Rejection]) -> list[DeadLetter]:
        """The dead letters of the rejected elements of an instant."""
        sourced = self.sourced(now, elements)
        return [sourced[each.element].dead_letter(each.reason, each.why) for each in rejections]

    def report_contradicted(self) -> None:
        """Count and log the reports of queries whose windows are inconsistent."""
        for time_of_report, text in self.engine.drain_contradicted():
            self.inconsistent += 1
            self._warnings.report_inconsistency(time_of_report, text, self._clock)

    def write_failed_anchors(self) -> None:
        """Write the dead letters of anchors at which rules failed or exceeded a limit."""
        for dead_letter in self.engine.failed:
            self._write_dead_letter(dead_letter)
        self.engine.failed.clear()

    def sourced(self, now: Micros, elements: Sequence[Element]) -> list[SourcedElement]:
        """The elements with their records. Where they have none, the files are read a second time,
        up to this instant.
        """
        if isinstance(elements, LiveElements):
            return elements.sourced()
        if not all(isinstance(element, SourcedElement) for element in elements):
            if self._second_pass is None:
                self._second_pass = merged(self._pipeline.inputs, lambda letter: None, trace=True)
            self._left_out.update(drain_left_out())
            try:
                read_again = next((read_again for time, read_again in self._second_pass if time == now), [])
            except Refused:  # a file was removed
                read_again = []
            elements = read_again if len(read_again) == len(elements) else [_without_place(element) for element in elements]
            drain_left_out()  # which the first pass counts
        return [element for element in elements if isinstance(element, SourcedElement)]

    def instants_of(self, pipeline: Pipeline, report: ReportTotals) -> Iterator[tuple[Micros, list[Element]]]:
        """The instants of the inputs as they close; dead letters are written while inputs are
        read."""
        if is_recorded(pipeline.inputs):
            self._recorded = RecordingReader(pipeline.inputs[0], lambda warning: LOG.warning("%s", warning))
            return self._recorded.instants()
        if not pipeline.is_live:
            return merged(pipeline.inputs, self.reject_record, trace=self._keeps_records)

        def wait(seconds: float) -> None:
            if self._unflushed:
                self._stop.is_writing = True
                self.flush()
                self.report_progress()
                report(self.totals())
                self._stop.end_write()  # a signal may have come meanwhile
            elif time.monotonic() >= self._progress_reported_at + _PROGRESS_SECONDS:
                self.report_progress()
                report(self.totals())
            if self._reloads is not None and self._reloads.requested:
                self._reload(self._reloads)
            time.sleep(seconds)

        self._open = opened = PipelineChannels(pipeline, self._received)
        self._channels = opened.channels
        beats: Heartbeats | None = None
        if pipeline.clock_delay is not None:

            def warn_ahead(file: InputFile, record: Record) -> None:
                self._warnings.report_ahead(file.path, record.line, record.time or 0, self._clock)

            beats = Heartbeats(pipeline.clock_delay, opened.machine, lambda: self.engine.due, warn_ahead)
        return live_instants(opened.channels, self.reject_record, wait=wait, appeared=opened.appeared, heartbeats=beats)

    def flush(self) -> None:
        """Flush all files, before the run waits."""
        for sink in self._sinks:
            sink.flush()
        if self._dead_letter_sink is not None:
            self._dead_letter_sink.flush()
        self._unflushed = False

    def write_firings(self, firings: list[Firing]) -> None:
        """Write and count the firings of an instant, with those that are buffered."""
        self._unflushed = True
        if self._sorted_runs:
            self._write_sorted(firings)
        else:
            self.events += len(firings)
            self.dropped += sum([firing.dropped for firing in firings])
            for sink in self._sinks:
                sink.write_items(firings)
            if self._refused:
                self._write_refused()
        for served in self._opened.served:
            served.end_instant()

    def _write_refused(self) -> None:
        """Write the dead letters of events that a sink cannot accept."""
        for letter in self._refused:
            self._write_dead_letter(letter)
        self._refused.clear()

    def _write_sorted(self, firings: list[Firing]) -> None:
        """Write and count the firings of an instant that has many. On a signal none of them stays
        written, where all sinks can be truncated.
        """
        runs, stop = self._sorted_runs, self._stop
        runs.add(firings, len(firings))
        stop.end_write()  # runs may be merged first
        ordered = sorted_runs(FIRING_FORMAT, runs.buffered, [path for path, _ in runs.runs])
        stop.is_writing = True
        events = dropped = 0
        marks = [sink.mark() for sink in self._sinks]
        for block in blocks(ordered):
            if stop.requested and None not in marks:
                for sink, mark in zip(self._sinks, marks, strict=True):
                    sink.truncate(mark or 0)
                raise KeyboardInterrupt
            events += len(block)
            dropped += sum([firing.dropped for firing in block])
            for sink in self._sinks:
                sink.write_items(block)
        self.events += events
        self.dropped += dropped
        self._write_refused()
        self._sorted_runs = SortedRuns(FIRING_FORMAT, self._temporary_folder, RUN_SIZE)
        self.remove_temporary_files()

    def _buffer(self, firings: list[Firing]) -> None:
        """Buffer firings of an instant with many, in memory or as sorted runs on disk."""
        try:
            self._sorted_runs.add(firings, len(firings))
        except OSError as error:
            raise WriteFailed(f"cannot write {tempfile.gettempdir()}: {(error.strerror or str(error)).lower()}") from None

    def _temporary_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dotr-"))
        return self._folder

    def remove_temporary_files(self) -> None:
        """Remove the sorted runs on disk."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def write_moments(self, moments: Iterable[list[Firing]]) -> int:
        """Write the firings of moments without an instant, until stopped; returns their number."""
        stop, number = self._stop, 0
        for firings in moments:
            stop.is_writing = True
            number += 1
            if firings or self._sorted_runs:
                self.write_firings(firings)
            if self.engine.failed:
                self.write_failed_anchors()
            self.report_contradicted()
            stop.end_write()
        return number

    def reject_elements(
        self, now: Micros, elements: Sequence[Element], rejections: Sequence[Rejection], facts: InstantFacts
    ) -> list[Element]:
        """Write the dead letters of elements rejected from an instant; returns all of its elements,
        with their records.
        """
        sourced: list[Element] = [*self.sourced(now, elements)]
        letters = self.dead_letters(now, sourced, rejections)
        self._stop.is_writing = True
        if facts.rejected and facts.inconsistencies:
            self.inconsistent += 1
        if facts.rejected and self._recording is not None:
            self._recording.instant(now, [each for each in sourced if isinstance(each, SourcedElement)])
        for letter in letters:
            self._write_dead_letter(letter)
        self._stop.end_write()
        return sourced

    def reject_record(self, letter: DeadLetter) -> None:
        """Count, log and write a dead letter."""
        self._stop.is_writing = True
        self._write_dead_letter(letter)
        self._stop.end_write()

    def _write_dead_letter(self, letter: DeadLetter) -> None:
        self._dead_letter_counts[letter.reason] += 1
        if letter.reason is Reason.EMPTY:
            return
        self._unflushed = True
        self._warnings.report_dead_letter(letter)
        if self._dead_letter_sink is not None:
            self._dead_letter_sink.write_items([letter])

    def report_progress(self) -> None:
        """Report the progress of the run. Complete files are read up to the closed time, so all
        have the same progress.
        """
        self._progress_reported_at = time.monotonic()
        if self._report_progress is ignore_progress:
            return
        files: list[tuple[str, Micros, bool]] = [
            (channel.name, channel.lateness.passed, channel.feed.ended or self._ended) for channel in self._channels
        ]
        if not self._channels:
            passed = -LAST_MICRO if self._closed is None else self._closed
            files = [(file.input, passed, self._ended) for file in self._pipeline.inputs]
        connections = {} if self._open is None else self._open.connections()
        self._report_progress(
            RunProgress(
                self._closed,
                progress_by_input(files, self._closed, connections),
                stored_events(self._labels, self.engine.event_counts),
                heartbeat=self._heartbeat,
            )
        )

    def totals(self, *, latest: bool = False) -> Totals:
        """The counts of the run so far; those of rules may be a little older unless `latest`."""
        for fallback in drain_fallbacks():
            self.fallbacks += fallback.times
            self._warnings.report_fallback(fallback)
        dead_letters = dict(self._dead_letter_counts)
        self._left_out.update(drain_left_out())
        self._warnings.report_repeated_hours(drain_repeated_hours())
        return Totals(
            self.elements,
            self.instants,
            self.facts,
            self.events,
            dead_letters,
            self.dropped,
            self.inconsistent,
            self.fallbacks,
            self._rule_counts(latest=latest),
            frozenset(self._terms.terms),
            dict(self._left_out),
        )

    def _rule_counts(self, *, latest: bool) -> Mapping[str, RuleCounts]:
        """The counts of rules. Collecting them takes 10 ms for 10,000 rules, so unless `latest`
        they are collected at intervals that bound the cost to a hundredth of the run.
        """
        start = time.monotonic()
        if latest or start >= self._rules_due:
            self._rules = added_counts(self._counts_before, self.engine.rule_counts)
            end = time.monotonic()
            self._rules_due = end + 100 * (end - start)
        return self._rules


def _without_place(element: Element) -> SourcedElement:
    """An element whose file is not there any more, or is not what it was."""
    sourced = SourcedElement(*element)
    sourced.file, sourced.record = InputFile("", "", Format.NDJSON), Record(0, 0, 0, element.time, element, b"")
    return sourced


# Stop of a run by Ctrl-C or SIGTERM: immediate during matching, delayed while an instant is
# written.
#
# Invariant: the output holds whole instants. A long write checks `requested` from time to time and
# undoes the instant. A second signal interrupts at once.

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """State of a stop: `is_writing` delays the interrupt (true before the first instant, too),
    `requested` records a signal."""

    __slots__ = ("is_writing", "requested")

    def __init__(self) -> None:
        self.is_writing = True
        self.requested = False

    def end_write(self) -> None:
        """Allow interrupts again; raises KeyboardInterrupt where a signal arrived during the write."""
        self.is_writing = False
        if self.requested:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt where a signal has arrived."""
        if self.requested:
            raise KeyboardInterrupt

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: interrupt, or record it during a write."""
        if self.requested or not self.is_writing:
            self.requested = True
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Context whose `Stop` handles SIGINT and SIGTERM, in the main thread."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = [(number, signal.signal(number, stop.handle_signal)) for number in _SIGNALS]
    try:
        yield stop
    finally:
        for number, handler in before:
            signal.signal(number, handler)
