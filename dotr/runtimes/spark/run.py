"""A pipeline on Spark: settings and checkpoint are checked before a JVM starts; then one query runs
to the end of the input."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from pyspark import SparkContext
from pyspark.sql import SparkSession

from dotr.engine.multi_query import share_queries
from dotr.engine.spec import ProgramSpec
from dotr.engine.state.migration import StateChange, StateFate
from dotr.engine.state.schema import state_schema
from dotr.errors.diagnostics import InputFailed, Refused, refuse
from dotr.evaluation.files.stores import Location, absolute
from dotr.instant.datalog.background.compiled_store import CompiledStore
from dotr.languages.program_json import ParsedProgram, maps_to_json
from dotr.model import dataclass
from dotr.model.stream import DeadLetter, Firing
from dotr.runtimes.monitoring.progress import ReportProgress, ignore_progress, with_served
from dotr.runtimes.monitoring.totals import ReportActivity, ReportTotals, RunFailed, Totals, ignore_activity
from dotr.runtimes.pipeline.build import Pipeline, with_clock
from dotr.runtimes.pipeline.reloading import Reloads
from dotr.runtimes.spark.checkpoint.bucket_count import Cores, buckets_at_start, move_line
from dotr.runtimes.spark.checkpoint.damage import failure_in
from dotr.runtimes.spark.checkpoint.figures import read_inputs, write_due
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout, common_path, required_layout
from dotr.runtimes.spark.checkpoint.message_spool import Reception, receiving
from dotr.runtimes.spark.checkpoint.state_moves import OldQuery, move_state
from dotr.runtimes.spark.exchange.errors import failure_of
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.jvm_errors import JVM_ERRORS, error_text
from dotr.runtimes.spark.exchange.names import bucket_keys
from dotr.runtimes.spark.exchange.rows import BucketSize
from dotr.runtimes.spark.exchange.spilled_rows import remove_runs, run_folder
from dotr.runtimes.spark.figures.progress import FirstBatchProgress, SparkProgress
from dotr.runtimes.spark.planning.index_scans import granule_of, indexing
from dotr.runtimes.spark.query import EndedForReload, query_of_job, run_query
from dotr.runtimes.spark.sink import Sink, cut_rules
from dotr.runtimes.spark.start.session import check_file_system, cores, is_dynamic, is_local, start
from dotr.runtimes.spark.tasks.outputs import ExecutorOutputs
from dotr.streams.connectors.kafka.cluster import check_identities
from dotr.streams.connectors.kafka.topics import PartitionJournal
from dotr.streams.connectors.opening import PublishedOutputs, check_no_older_output, check_secrets, dead_letter_batches, event_batches
from dotr.streams.formats.lines import STANDARD_INPUT
from dotr.streams.formats.mapping.maps import parsed_map
from dotr.streams.formats.segments import RECEIVED, SEGMENT, SPOOL, TOLD, SeriesMark, copied_like, spool_folder
from dotr.streams.merge.folders import CompressedFiles
from dotr.streams.records import Format, InputFile
from dotr.streams.sinks.batches import BatchHistory, BatchSink, Check, check_nothing
from dotr.streams.sinks.files import WriteFailed
from dotr.temporal.layout.layers import lay_out

_LOG: Final = logging.getLogger("dotr")
_DEAD_LETTERS_PER_WRITE: Final = 1_000
"""Dead letters per write."""


def run_spark(
    pipeline: Pipeline,
    progress: ReportTotals,
    on_progress: ReportProgress = ignore_progress,
    show: ReportActivity = ignore_activity,
    last_written: int | None = None,
    reloads: Reloads | None = None,
    confirm: Callable[[], None] = check_nothing,
) -> Totals:
    """Run a pipeline to the end of its input, from its checkpoint on.

    `progress` receives the totals after each batch, `on_progress` the progress of the run, and
    `show` the activity before the first batch. `last_written` is the number of the last batch in an
    output whose broker no longer has it (`--last-written`). `reloads`: the requests to read the
    configuration again: the query ends behind a batch, and the next one begins as after a restart.
    `confirm` is called before each batch is written and before it is committed, and raises Refused
    or RunFailed where this run must not write any more (`OutputLocks.confirm`). Returns the totals
    of this run. Raises Refused for errors of the user, RunFailed for failures of Spark, and
    KeyboardInterrupt after a stop.
    """
    with PublishedOutputs(pipeline.outputs) as published:
        reports = Reports(progress, with_served(on_progress, lambda: published.counts), show)
        with store_failures(pipeline.spark.checkpoint):
            totals = _run_turns(pipeline, reports, last_written, reloads, published, confirm)
        published.linger(check_nothing if reloads is None else reloads.refuse_ended)
        return totals


@contextmanager
def store_failures(checkpoint: str) -> Iterator[None]:
    """A context in which the failure of a store, of a checkpoint at a URL, is raised as
    RunFailed."""
    try:
        yield
    except OSError as error:
        if not Location.of(checkpoint).is_url:
            raise
        place, why = error.filename or checkpoint, (error.strerror or str(error)).lower()
        raise RunFailed(f"the checkpoint cannot be used: {place}: {why} (once that is mended, the same command goes on)") from None


def _run_turns(
    pipeline: Pipeline,
    reports: Reports,
    last_written: int | None,
    reloads: Reloads | None,
    published: PublishedOutputs,
    confirm: Callable[[], None],
) -> Totals:
    """Run the queries of a pipeline, one behind the other, to the end of its input."""
    checkpoint = Checkpoint(pipeline.spark.checkpoint)
    layout = required_layout(pipeline)
    change: StateChange | None = None
    if checkpoint.layout is None:
        for destination in pipeline.destinations:
            check_no_older_output(destination)
    else:
        checkpoint.check()
        change = checkpoint.state_change(pipeline.program)
        layout = checkpoint.claim(layout, change)
        if change.knowledge_warning is not None:
            _LOG.warning("%s", change.knowledge_warning)
    for destination in pipeline.destinations:
        check_secrets(destination)
    checkpoint.create()
    with receiving(pipeline.growing, checkpoint.folder, marks=pipeline.clock_delay is not None) as reception:
        if pipeline.clock_pending:
            reports.show("waiting for the first message")
            pipeline = with_clock(pipeline, reception.first_has_dates)
            layout = replace(layout, clock=required_layout(pipeline).clock)
        try:
            history = checkpoint.batch_history(layout.identity, last_written)
            for line in published.read(pipeline.output_terms, checkpoint.folder, history):
                _LOG.warning("%s", line)
        except WriteFailed as error:
            raise RunFailed(f"{error} (once that is mended, the same command goes on)") from None
        totals = Totals()
        session: SparkSession | None = None
        with ExitStack() as stack:
            while True:
                turn = _Turn(pipeline, checkpoint, layout, change, totals, reloads, session, stack, published, confirm)
                try:
                    return _run_turn(turn, reception, reports, last_written)
                except EndedForReload:
                    assert turn.next is not None
                    pipeline, totals, session = turn.next, turn.totals, turn.session
                    checkpoint = Checkpoint(pipeline.spark.checkpoint)
                    change = checkpoint.state_change(pipeline.program)
                    layout = checkpoint.claim(required_layout(pipeline), change)


@dataclass(slots=True)
class _Turn:
    """A query of a run, which a reload ends: `totals` are those of the run so far, `session` is
    that of the turn before, which ends with `stack`, `published` are its outputs that are served,
    `confirm` is that of `run_spark`, and `next` is the changed pipeline once there is one."""

    pipeline: Pipeline
    checkpoint: Checkpoint
    layout: CheckpointLayout
    change: StateChange | None
    totals: Totals
    reloads: Reloads | None
    session: SparkSession | None
    stack: ExitStack
    published: PublishedOutputs
    confirm: Callable[[], None]
    next: Pipeline | None = None

    def is_changed(self) -> bool:
        """True where a reload was requested whose program can go on with the state."""
        if self.next is None and self.reloads is not None and self.reloads.requested:
            changed = self.reloads.take(self.pipeline)
            try:
                if changed is not None:
                    Checkpoint(changed.spark.checkpoint).preview(required_layout(changed), changed.program)
                self.next = changed
            except Refused as refused:
                self.reloads.refuse(refused)
        return self.next is not None


def start_session(pipeline: Pipeline, checkpoint: Checkpoint, stack: ExitStack) -> SparkSession:
    """The Spark session, which ends with the stack unless it was there before. Raises Refused or
    RunFailed where it cannot be started, or does not reach the checkpoint."""
    log = checkpoint.log
    settings, before = pipeline.spark, SparkContext._active_spark_context
    try:
        session = start(pipeline.name, settings.master, settings.conf, log, archive=settings.archive, scheme=checkpoint.home.scheme)
    except JVM_ERRORS as error:
        raise failure_of(error_text(error), log) from None
    except (RuntimeError, OSError) as error:
        raise failure_of(str(error), log) from None
    if before is None:
        stack.callback(_stop_session, session)
    if checkpoint.home.is_url:
        check_file_system(session, checkpoint.home)
    return session


def _stop_session(session: SparkSession) -> None:
    with suppress(*JVM_ERRORS):
        session.stop()


def _run_turn(turn: _Turn, reception: Reception, reports: Reports, last_written: int | None) -> Totals:
    """Run one query to the end of the input, or of the turn."""
    pipeline, checkpoint, layout, change = turn.pipeline, turn.checkpoint, turn.layout, turn.change
    history, is_first = checkpoint.batch_history(layout.identity, last_written), turn.session is None
    with BatchSinks(pipeline, history, turn.published) as sinks:
        last = sinks.open(check_nothing)
        if sinks.executors:
            _start(turn, reports)
            assert turn.session is not None
            last = max((each for each in (last, sinks.executors.open(turn.session, check_nothing)) if each is not None), default=None)
        unfinished = last if last is not None and last >= history.written else None
        if change is not None and change.moves and unfinished is not None:
            # An earlier release did not spread the rules: the unfinished batch is repeated so.
            pipeline = replace(pipeline, program=pipeline.program.in_one_piece)
            checkpoint, change = Checkpoint(pipeline.spark.checkpoint), checkpoint.state_change(pipeline.program)
            if change.moves:
                raise _unfinished(checkpoint, unfinished)
            layout = checkpoint.claim(required_layout(pipeline), change)
            _LOG.warning("The state moves at the next start: batch %d is in an output, and is finished first.", unfinished)
        turn.pipeline, turn.checkpoint, turn.layout, turn.change = pipeline, checkpoint, layout, change
        return _run_on_spark(turn, reception, sinks, reports, unfinished, is_first=is_first)


def _start(turn: _Turn, reports: Reports) -> None:
    """Start the session of the run, unless it is there."""
    if turn.session is None:
        reports.show("starting Spark")
        turn.session = start_session(turn.pipeline, turn.checkpoint, turn.stack)


def _unfinished(checkpoint: Checkpoint, number: int) -> Exception:
    hint = "Run the rules as they were once more, which finishes that batch, then change them; or start over with --fresh."
    message = f"batch {number} of the rules as they were is in an output and not yet in the checkpoint {checkpoint.home}"
    return refuse("S132", message, hint=hint)


class Reports(NamedTuple):
    """Callbacks of a run: its totals, its progress, and its activity before the first batch."""

    progress: ReportTotals
    on_progress: ReportProgress
    show: ReportActivity


def _run_on_spark(
    turn: _Turn,
    reception: Reception,
    sinks: BatchSinks,
    reports: Reports,
    unfinished: int | None,
    *,
    is_first: bool,
) -> Totals:
    """Start Spark, and run the query into sinks that are open. `unfinished` is the number of a
    batch that is in an output but not yet in the checkpoint, so that the next batch must repeat
    it. `is_first`: no query of the run was before."""
    progress, on_progress, show = reports
    pipeline, checkpoint, layout, change = turn.pipeline, turn.checkpoint, turn.layout, turn.change
    settings = pipeline.spark
    _start(turn, reports)
    session = turn.session
    assert session is not None
    try:
        tasks = cores(session.sparkContext)
        if checkpoint.layout is None:
            buckets = settings.buckets or tasks
            layout = checkpoint.claim(replace(layout, buckets=buckets, partitions=buckets, holdings=state_schema(pipeline.program)))
        else:
            cores_now = Cores(tasks, is_dynamic=is_dynamic(session.sparkContext))
            layout = _with_buckets(checkpoint, layout, cores_now, settings.buckets, unfinished)
        moves = change is not None and checkpoint.layout is not None and layout.generation != checkpoint.layout.generation
        if not moves:
            checkpoint.remove_leftovers()
        _journal_partitions(pipeline, checkpoint.home)
        job = _job(pipeline, layout, tasks, checkpoint.folders(layout.generation), checkpoint.scratch)
        remove_runs(run_folder(job))
        if pipeline.program.store is not None:
            _ship_background(pipeline.program.store, session.sparkContext)
        since = layout.holdings.since if layout.holdings else {}
        spec, rules = pipeline.program.spec, share_queries(pipeline.program.rules.rules)
        layers = lay_out(rules, since, pipeline.program.units, cut=spec.cut, groups=spec.groups).layers
        spark_progress = SparkProgress(layers, checkpoint, on_progress, reception.connections)
        if change is not None and moves:
            show("moving the state to where the changed rules look for it" if change.moves else "moving the state to other buckets")
            spark_progress.state_moved(_move_state(session, checkpoint, change, layout, job, tells=is_first))

        def write(number: int, firings: Iterable[Sequence[Firing]], letters: Iterable[DeadLetter]) -> Sequence[DeadLetter]:
            turn.confirm()
            refused = sinks.write(number, firings, letters, sink.check_destination)
            turn.confirm()
            return refused

        sink = Sink(
            write,
            progress,
            DisplayPaths(pipeline, checkpoint.folder),
            pipeline.clock,
            layout.first,
            spark_progress.batch_written,
            pipeline.dead_letter_warnings,
            cut_rules(pipeline.program.layout),
            partial(write_due, checkpoint.folder) if job.clock_delay is not None else None,
            sinks.executors,
        )
        sink.totals = turn.totals
        sink.begun = None if unfinished is None else unfinished - layout.first
        if not is_first and turn.reloads is not None:
            turn.reloads.done(pipeline, change)
        first = FirstBatchProgress(session, checkpoint, show)
        told = job.clock_delay is None

        def poll() -> None:
            nonlocal told
            if not told and (ahead := read_inputs(checkpoint.folder).ahead) is not None:
                told = True
                sink.report_ahead(ahead)
            spark_progress.report()
            first.report(batch_written=sink.batch_written)
            progress(sink.totals)

        has_listener = on_progress is not ignore_progress
        if has_listener:
            session.streams.addListener(spark_progress.listener)
        try:
            if is_first:
                reception.copy_standard_input(pipeline.growing, checkpoint.folder)

            left_out = [CompressedFiles(each, _LOG.warning) for each in pipeline.growing if each.tail]

            def poll_query() -> None:
                for files in left_out:
                    files.look()
                if (failure := reception.failure) is not None:
                    raise failure
                if (fault := turn.published.failure) is not None:
                    raise RunFailed(f"a server of an output has ended: {fault} (the same command goes on)")
                if has_listener:
                    poll()

            if job.clock_delay is not None:  # of this program nothing is told yet
                write_due(checkpoint.folder, None, known=not pipeline.program.timed)
            _write_changes(checkpoint, sink)
            show("starting the query")
            scans = partial(indexing, session, job)
            for files in left_out:
                files.look()
            plan = query_of_job(session, job)
            place = Location.of(checkpoint.query)
            run_query(plan, sink, place, checkpoint.log, poll_query, settings.restarts, scans, turn.is_changed)
            _write_changes(checkpoint, sink)
        except WriteFailed as error:
            raise RunFailed(f"{error} (the batches before that are kept: the same command goes on from them)") from None
        finally:
            turn.totals = sink.totals
            with suppress(*JVM_ERRORS):
                if has_listener:
                    session.streams.removeListener(spark_progress.listener)
        return sink.totals
    except JVM_ERRORS as error:
        raise failure_in(Location.of(checkpoint.query), error_text(error), checkpoint.log) from None


def _write_changes(checkpoint: Checkpoint, sink: Sink) -> None:
    """Write the dead letters of files that have changed, once for each file. A crash in between
    writes the same batch again."""
    if letters := checkpoint.changes():
        committed = checkpoint.committed_batch()
        sink.write_letters(0 if committed is None else committed + 1, letters)
        checkpoint.changes_written(letters)


def _with_buckets(
    checkpoint: Checkpoint, layout: CheckpointLayout, cores: Cores, fixed: int | None, unfinished: int | None
) -> CheckpointLayout:
    """The layout with the number of buckets of this start; a change is logged."""
    stored = checkpoint.layout
    assert stored is not None
    if not layout.layers:
        return layout
    buckets = buckets_at_start(stored.buckets, cores, fixed)
    if not stored.layers:  # there is nothing to move
        buckets = fixed or cores.number or stored.buckets
    if buckets == stored.buckets:
        return layout
    if unfinished is not None:
        why = f"batch {unfinished} is in an output, and is finished first"
        _LOG.warning("The state moves from %d to %d buckets at the next start: %s.", stored.buckets, buckets, why)
        return layout
    if stored.layers:
        _LOG.warning("%s", move_line(stored.buckets, buckets, cores, fixed))
    return checkpoint.resized(layout, buckets)


def _move_state(
    session: SparkSession, checkpoint: Checkpoint, change: StateChange, layout: CheckpointLayout, job: Job, *, tells: bool
) -> list[BucketSize]:
    """Move the state to the query of the changed program; returns the sizes of its buckets.
    `tells`: what is not kept is logged."""
    stored = checkpoint.layout
    assert stored is not None
    sizes: list[BucketSize] = []
    if job.moved:
        keys = bucket_keys(stored.layers * stored.buckets, stored.partitions)
        query, moved = checkpoint.folders(stored.generation)
        old = OldQuery(query, moved if stored.start is not None else "", stored.layers, keys, checkpoint.committed_batch() is not None)
        sizes = move_state(session, change, old, job, checkpoint.log)
    for verdict in change.verdicts if tells else ():
        if verdict.fate is not StateFate.KEPT or verdict.why:
            _LOG.warning("%s", verdict)
    checkpoint.switch(layout)
    return sizes


def _inputs(pipeline: Pipeline, layout: CheckpointLayout) -> tuple[list[InputFile], list[str]]:
    """The inputs in the checkpoint's order, files first; and the settings of the growing ones as
    JSON."""
    templates = {file.input: file for file in pipeline.inputs} | {each.like.input: each.like for each in pipeline.growing}
    watched = {each.like.input: each for each in pipeline.growing}
    inputs = [replace(templates[name], path=path, mark=mark) for (name, _, path), mark in zip_longest(layout.inputs, layout.marks)]
    settings = []
    for name, _, pattern in layout.growing:
        like = templates[name] if pattern else copied_like(templates[name])
        inputs.append(replace(like, path="", mark=None, framed=pattern == RECEIVED))
        each = watched.get(name)
        settings.append(json.dumps([pattern, each.settle, each.idle, each.watching] if each else [pattern, 0, None, False]))
    return inputs, settings


def _job(pipeline: Pipeline, layout: CheckpointLayout, tasks: int, folders: tuple[str, str], scratch: str = "") -> Job:
    spec: ProgramSpec = pipeline.program.spec
    since = layout.holdings.since if layout.holdings else {}
    spec = replace(spec, graphs=tuple(map(absolute, spec.graphs)), since=since)
    store = pipeline.program.store
    inputs, growing = _inputs(pipeline, layout)
    rates = pipeline.rates
    job = Job(
        program=spec.to_json(),
        parsed=ParsedProgram.of(pipeline.program).to_json(spec),
        inputs=tuple(file.to_json() for file in inputs),
        marks=tuple("" if mark is None else json.dumps(mark) for mark in layout.marks),
        delays=tuple(file.delay for file in inputs),
        unit=pipeline.clock.unit.written,
        dated=pipeline.clock.dated,
        zone=pipeline.clock.zone,
        layers=layout.layers,
        buckets=layout.buckets,
        partitions=layout.partitions,
        batch=pipeline.spark.batch_elements,
        tasks=tasks,
        run=folders[0],
        store="" if store is None else str(store.file.path),
        key="" if store is None else store.file.key.hex(),
        shared=store is not None and store.file.shared,
        growing=tuple(growing),
        rates=tuple(rates.items()),
        paces=tuple(pipeline.paces.items()),
        moved=folders[1] if layout.start is not None else "",
        start=layout.start.to_text() if layout.start is not None else "",
        trigger=pipeline.spark.trigger_interval,
        topics=tuple(each.topics.to_json() for each in pipeline.topics),
        maps=_maps([*inputs, *[each.topics.like for each in pipeline.topics]]),
        clock_delay=pipeline.clock_delay,
        published=pipeline.published,
        scratch=scratch,
        storage=pipeline.spark.storage,
    )
    return replace(job, granule=granule_of(inputs, job))


def _maps(files: Sequence[InputFile]) -> str:
    """The parsed maps of inputs as JSON text."""
    return maps_to_json([None if file.map is None else parsed_map(file) for file in files])


def _journal_partitions(pipeline: Pipeline, home: Location) -> None:
    """Number the partitions of Kafka inputs that are new to the checkpoint; the planner finds the
    new partitions of the others. Raises `Refused` (S121) where a topic was replaced by another of
    its name."""
    if not pipeline.topics:
        return
    journal = PartitionJournal(home)
    for opened in pipeline.topics:
        name = opened.topics.name
        known = [partition for own, partition in journal.entries if own == name]
        if not known:
            journal.add(name, opened.partitions)
            continue
        try:
            check_identities(opened.cluster, known, {each.key: each.identity for each in opened.partitions})
        except InputFailed as failed:
            raise Refused([failed.diagnostic]) from None


def _ship_background(store: CompiledStore, context: SparkContext) -> None:
    """Send the compiled background, with its static answers, to executors on other machines."""
    if not is_local(context):
        for path in (store.file.path, *store.file.path.parent.glob(f"{store.file.path.stem}-*{store.file.path.suffix}")):
            context.addFile(str(path))


class BatchSinks:
    """The sinks of all outputs and of dead letters that the driver writes, one after the other, and
    those of `executors`."""

    def __init__(self, pipeline: Pipeline, history: BatchHistory, published: PublishedOutputs) -> None:
        terms = pipeline.output_terms
        self._events = event_batches(pipeline.outputs, terms, history, published)
        dead_letters, layout = pipeline.dead_letters, pipeline.program.layout
        self.executors = ExecutorOutputs(
            pipeline.outputs,
            dead_letters,
            terms,
            history,
            keeps_state=layout.stateful_operators > 0,
            shown=pipeline.dead_letter_warnings,
            cut=cut_rules(layout),
        )
        self._dead_letters: BatchSink[DeadLetter] | None = self.executors.letters
        if self._dead_letters is None and dead_letters is not None:
            self._dead_letters = dead_letter_batches(dead_letters, terms, history)

    def open(self, check: Check) -> int | None:
        """Connect all sinks; the greatest number of a batch that one of them is known to have."""
        last = [sink.open(check) for sink in self._events]
        if self._dead_letters is not None:
            last.append(self._dead_letters.open(check))
        return max((number for number in last if number is not None), default=None)

    def write(self, number: int, firings: Iterable[Sequence[Firing]], letters: Iterable[DeadLetter], check: Check) -> Sequence[DeadLetter]:
        """Write a batch to all sinks; returns the dead letters of firings that a sink cannot
        accept, which are written after the other dead letters.
        """
        refused: list[DeadLetter] = []
        for sink in self._events:
            refused += sink.write_batch(number, firings, check)
        if self._dead_letters is not None:
            self._dead_letters.write_batch(number, _LetterBlocks(letters, refused), check)
        return refused

    def __enter__(self) -> BatchSinks:
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self._events:
            sink.close()
        if self._dead_letters is not None:
            self._dead_letters.close()


class _LetterBlocks:
    """Dead letters in blocks, which can be read several times."""

    def __init__(self, *letters: Iterable[DeadLetter]) -> None:
        self._letters = letters

    def __iter__(self) -> Iterator[Sequence[DeadLetter]]:
        letters = chain.from_iterable(self._letters)
        while block := list(islice(letters, _DEAD_LETTERS_PER_WRITE)):
            yield block


# Paths of dead letters as the user wrote them, from the absolute paths of the workers.


class DisplayPaths:
    """Maps absolute paths, and segments of spools, to names of the configuration."""

    def __init__(self, pipeline: Pipeline, checkpoint: Path) -> None:
        self._files = {common_path(file.path): file.path for file in pipeline.inputs}
        self._folders = [
            (absolute(folder) + os.sep, folder + os.sep if folder != os.curdir else "")
            for folder in (_folder(each.pattern) for each in pipeline.growing if each.pattern)
        ]
        self._spool_folder = str(checkpoint.absolute() / SPOOL)
        self._received = {
            str(spool_folder(checkpoint.absolute(), each.like.input)): each.source.address for each in pipeline.growing if each.source
        }
        self._tailed = {str(spool_folder(checkpoint.absolute(), each.like.input)) for each in pipeline.growing if each.tail}
        likes = [each.like for each in pipeline.growing]
        self._headers = {like.input for like in likes if like.format is Format.CSV and not (like.map and like.map.columns)}

    def __call__(self, dead_letter: DeadLetter) -> DeadLetter:
        """The dead letter with the user's file and line."""
        path = dead_letter.file
        if path in self._files:
            return dead_letter._replace(file=self._files[path])
        folder, name = os.path.split(path)
        if folder in self._received:
            return dead_letter._replace(file=self._received[folder])
        if os.path.dirname(folder) in self._tailed and (segment := SEGMENT.fullmatch(name)) is not None:
            mark = SeriesMark.of(Path(folder))
            path, line = mark.place(int(segment[1]), dead_letter.line, int(segment[2]), told=name.endswith(TOLD))
            dead_letter = dead_letter._replace(file=path, line=line)
        segment = SEGMENT.fullmatch(name) if folder == self._spool_folder else None
        if segment is not None:
            repeated = dead_letter.input in self._headers
            return dead_letter._replace(file=STANDARD_INPUT, line=dead_letter.line + int(segment[2]) - 1 - repeated)
        for folder, written in self._folders:
            if path.startswith(folder):
                return dead_letter._replace(file=written + path[len(folder) :])
        return dead_letter


def _folder(pattern: str) -> str:
    """The folder of a glob, up to its first wildcard.

    >>> _folder("data/in/*.ndjson"), _folder("*.csv"), _folder("a/b*/c"), _folder("a/b.csv")
    ('data/in', '.', 'a', 'a')
    """
    first = next((number for number, letter in enumerate(pattern) if letter in "*?["), len(pattern))
    return pattern[:first].rpartition("/")[0] or os.curdir
