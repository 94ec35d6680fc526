"""A pipeline on Spark whose inputs Spark reads: the operators of `events` between the tables of the
configuration and the sinks of every run on Spark.

Idea: the operators' rows are those of the query over dotr's own source, so that sinks, totals and
progress are the same. A stream is a query with a checkpoint of Spark; rows that are read once are
one batch, which the checkpoint keeps as such a query does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.engine.state.schema import state_schema
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.stores import Location
from dotr.model.stream import DeadLetter, Firing
from dotr.runtimes.frames.events import rows_of
from dotr.runtimes.frames.starts import PARTITIONS
from dotr.runtimes.frames.stream import RowSource, Stream, sources_of
from dotr.runtimes.monitoring.dead_letter_log import LOG
from dotr.runtimes.monitoring.progress import ReportProgress, ignore_progress, with_served
from dotr.runtimes.monitoring.totals import ReportActivity, ReportTotals, RunFailed, Totals, ignore_activity
from dotr.runtimes.pipeline.build import Pipeline
from dotr.runtimes.pipeline.reloading import Reloads
from dotr.runtimes.pipeline.spark_tables import SparkInput
from dotr.runtimes.pipeline.tables import with_place
from dotr.runtimes.spark.checkpoint.damage import failure_in
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout, required_layout
from dotr.runtimes.spark.exchange.jvm_errors import JVM_ERRORS, error_text
from dotr.runtimes.spark.figures.progress import FirstBatchProgress, SparkProgress
from dotr.runtimes.spark.query import RowsQuery, run_batch, run_query
from dotr.runtimes.spark.run import BatchSinks, start_session, store_failures
from dotr.runtimes.spark.sink import Sink, cut_rules
from dotr.runtimes.spark.start.session import slots_of
from dotr.streams.connectors.opening import PublishedOutputs, check_no_older_output, check_secrets
from dotr.streams.sinks.batches import check_nothing
from dotr.streams.sinks.files import WriteFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_tables(
    pipeline: Pipeline,
    progress: ReportTotals,
    on_progress: ReportProgress = ignore_progress,
    show: ReportActivity = ignore_activity,
    last_written: int | None = None,
    reloads: Reloads | None = None,
    confirm: Callable[[], None] = check_nothing,
) -> Totals:
    """Run a pipeline whose inputs Spark reads, to the end of the rows that are there, or until
    stopped, from its checkpoint on.

    The arguments, the returned totals and the errors are those of `run_spark`; a reload is refused.
    """
    with PublishedOutputs(pipeline.outputs) as published, ExitStack() as stack:
        stack.enter_context(store_failures(pipeline.spark.checkpoint))
        checkpoint = Checkpoint(pipeline.spark.checkpoint)
        layout = _claimed(pipeline, checkpoint)
        for destination in pipeline.destinations:
            check_secrets(destination)
        checkpoint.create()
        show("starting Spark")
        session = start_session(pipeline, checkpoint, stack)
        try:
            tables = open_tables(session, pipeline.program, pipeline.tables, streaming=pipeline.tables[0].streaming)
            layout = _with_partitions(session, pipeline, checkpoint, layout, tables.dated)
        except JVM_ERRORS as error:
            raise failure_in(Location.of(checkpoint.query), error_text(error), checkpoint.log) from None
        pipeline = replace(pipeline, clock=replace(pipeline.clock, dated=tables.dated))
        history = checkpoint.batch_history(layout.identity, last_written)
        try:
            for line in published.read(pipeline.output_terms, checkpoint.folder, history):
                LOG.warning("%s", line)
        except WriteFailed as error:
            raise RunFailed(f"{error} (once that is mended, the same command goes on)") from None
        with BatchSinks(pipeline, history, published) as sinks:
            sinks.open(check_nothing)
            if sinks.executors:
                sinks.executors.open(session, check_nothing)
            run = _OpenRun(pipeline, checkpoint, layout, session, tables, sinks, published, reloads, confirm)
            totals = run.to_end(progress, with_served(on_progress, lambda: published.counts), show)
        published.linger(check_nothing if reloads is None else reloads.refuse_ended)
        return totals


def _claimed(pipeline: Pipeline, checkpoint: Checkpoint) -> CheckpointLayout:
    """The layout of the checkpoint, or the one that is required of a new one. Raises `Refused`."""
    required = required_layout(pipeline)
    if checkpoint.layout is None:
        for destination in pipeline.destinations:
            check_no_older_output(destination)
        return required
    checkpoint.check()
    layout = checkpoint.claim(required, checkpoint.state_change(pipeline.program))
    key, asked = _asked_buckets(pipeline)
    if asked is not None and asked != layout.buckets:
        hint = f"Write {layout.buckets}, or leave it out; or start over with --fresh."
        message = f"the checkpoint {checkpoint.home} has {layout.buckets} buckets, {key} is {asked}, and Spark's operators keep them"
        raise refuse("S102", message, hint=hint)
    return layout


def _asked_buckets(pipeline: Pipeline) -> tuple[str, int | None]:
    """The number of buckets that the configuration asks for, and its key; None: as many as cores."""
    if pipeline.spark.buckets is not None:
        return "spark.buckets", pipeline.spark.buckets
    asked = pipeline.spark.conf.get(PARTITIONS, "")
    return PARTITIONS, int(asked) if asked.isdecimal() and int(asked) else None


class _OpenRun(NamedTuple):
    """A run whose session, tables and sinks are open."""

    pipeline: Pipeline
    checkpoint: Checkpoint
    layout: CheckpointLayout
    session: SparkSession
    tables: OpenedTables
    sinks: BatchSinks
    published: PublishedOutputs
    reloads: Reloads | None
    confirm: Callable[[], None]

    def to_end(self, progress: ReportTotals, on_progress: ReportProgress, show: ReportActivity) -> Totals:
        """Run the query to its end, or until stopped; returns the totals."""
        pipeline, checkpoint, session = self.pipeline, self.checkpoint, self.session
        program, settings, layout = pipeline.program, pipeline.spark, self.layout
        spark_progress = SparkProgress(program.layout.layers, checkpoint, on_progress)
        tables = {each.name: each.named for each in pipeline.tables}

        def display(letter: DeadLetter) -> DeadLetter:
            return letter if letter.file else letter._replace(file=tables.get(letter.input, ""))

        def write(number: int, firings: Iterable[Sequence[Firing]], letters: Iterable[DeadLetter]) -> Sequence[DeadLetter]:
            self.confirm()
            refused = self.sinks.write(number, firings, letters, sink.check_destination)
            self.confirm()
            return refused

        sink = Sink(
            write,
            progress,
            display,
            pipeline.clock,
            layout.first,
            spark_progress.batch_written,
            pipeline.dead_letter_warnings,
            cut_rules(program.layout),
            executors=self.sinks.executors,
        )
        first, has_listener = FirstBatchProgress(session, checkpoint, show), on_progress is not ignore_progress

        def poll() -> None:
            if (fault := self.published.failure) is not None:
                raise RunFailed(f"a server of an output has ended: {fault} (the same command goes on)")
            if has_listener:
                spark_progress.report()
                first.report(batch_written=sink.batch_written)
                progress(sink.totals)

        def rows() -> DataFrame:
            session.conf.set(PARTITIONS, str(layout.partitions))
            delay = pipeline.clock_delay
            clock = None if delay is None else f"{delay} us"
            return rows_of(program, self.tables.streams, clock=clock, published=pipeline.published)

        plan = RowsQuery(rows, pipeline.tables[0].goes_on, settings.trigger_interval)
        if has_listener:
            session.streams.addListener(spark_progress.listener)
        try:
            show("starting the query")
            place = Location.of(checkpoint.query)
            if pipeline.tables[0].streaming:
                run_query(plan, sink, place, checkpoint.log, poll, settings.restarts, is_changed=self._refuse_reload)
            else:
                run_batch(session, plan, sink, place, checkpoint.log, poll)
        except WriteFailed as error:
            raise RunFailed(f"{error} (the batches before that are kept: the same command goes on from them)") from None
        finally:
            with suppress(*JVM_ERRORS):
                if has_listener:
                    session.streams.removeListener(spark_progress.listener)
        return sink.totals

    def _refuse_reload(self) -> bool:
        """False, once a requested reload is refused: the state in Spark's operators does not move."""
        if self.reloads is not None and self.reloads.requested and self.reloads.take(self.pipeline) is not None:
            hint = "Stop it. Start it again with --fresh, or with another spark.checkpoint."
            self.reloads.refuse(refuse("S102", "a run whose inputs Spark reads keeps its program: its state does not move", hint=hint))
        return False


def _with_partitions(
    session: SparkSession, pipeline: Pipeline, checkpoint: Checkpoint, layout: CheckpointLayout, dated: bool
) -> CheckpointLayout:
    """The layout with the form of times and, of a new checkpoint, with its buckets, which is stored."""
    stored, clock = checkpoint.layout, (pipeline.program.spec.unit.written, dated)
    if stored is not None:
        if stored.clock is not None and stored.clock != clock:
            kinds = [f"{'date-times' if each else 'whole numbers'}" for each in (stored.clock[1], dated)]
            hint = "Give the column of times its type of before; or start over with --fresh."
            raise refuse(
                "S102", f"the times in the checkpoint {checkpoint.home} are {kinds[0]}, and those of the rows {kinds[1]}", hint=hint
            )
        return layout
    buckets = _asked_buckets(pipeline)[1] or slots_of(session)
    layout = replace(layout, clock=clock, buckets=buckets, partitions=buckets, holdings=state_schema(pipeline.program))
    return checkpoint.claim(layout)


# Tables of a configuration as the streams that `events` takes.


_INFERRED: Final = ("csv", "json", "parquet", "orc", "avro", "xml")
"""The sources of files whose columns Spark finds in a batch, and not in a stream."""

_HINTS: Final = (
    (("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "CATALOG"), "Is its name right? A catalog is set by spark: { conf: { … } }."),
    (("PATH_NOT_FOUND",), "Is the path right? Relative paths are relative to the configuration file."),
    (
        ("No FileSystem for scheme", "FileSystem not found"),
        "Is its scheme right? Name the store's jar, for S3 spark.jars.packages: org.apache.hadoop:hadoop-aws:3.5.0.",
    ),
    (("DATA_SOURCE_NOT_FOUND",), "A source of another package is loaded by spark: { conf: { spark.jars.packages: … } }."),
    (("UNABLE_TO_INFER_SCHEMA", "Schema must be specified"), 'Write its columns: schema: "ts TIMESTAMP, room STRING".'),
)
"""Ways out by what Spark's message has."""

_KEYS: Final = ("time", "graph", "lateness", "format")
_LONGEST: Final = 300


class OpenedTables(NamedTuple):
    """The streams of a configuration's inputs, and what workers need of them."""

    streams: Sequence[Stream]
    sources: Sequence[RowSource]

    @property
    def dated(self) -> bool:
        """True if times are date-times."""
        return any(source.is_dated for source in self.sources)


def open_tables(session: SparkSession, program: CompiledProgram, tables: Sequence[SparkInput], *, streaming: bool) -> OpenedTables:
    """The inputs of a configuration as streams, checked against their columns; `streaming`: False
    for a batch, whatever the inputs say.

    Raises `Refused` (C286, and the codes of columns) with the problems of all inputs, at their
    places.
    """
    problems: list[Diagnostic] = []
    streams: list[Stream] = []
    for each in tables:
        try:
            table = table_of(session, each, streaming=streaming)
        except Refused as refused:
            problems += refused.diagnostics
            continue
        delay = f"{each.like.delay} us"
        form = "turtle" if each.graph is None else each.like.format.value
        streams.append(Stream(table, each.time, each.map, each.graph, form, delay, each.name))
    if problems:
        raise Refused(problems)
    try:
        return OpenedTables(streams, sources_of(program, streams))
    except Refused as refused:
        raise Refused([_placed(problem, tables) for problem in refused.diagnostics]) from None


def table_of(session: SparkSession, each: SparkInput, *, streaming: bool) -> DataFrame:
    """The rows of an input. Raises `Refused` (C286) where Spark cannot read them."""
    source, options = each.source, each.options()
    try:
        reader: Any = session.readStream if streaming else session.read
        reader = reader.options(**options) if source.format is None else reader.format(source.format).options(**options)
        if source.columns is not None:
            reader = reader.schema(source.columns)
        elif streaming and source.table is None and (source.format or "").lower() in _INFERRED:
            reader = reader.schema(table_of(session, each, streaming=False).schema)
        table: DataFrame = reader.table(source.table) if source.table is not None else reader.load(*filter(None, [each.location]))
        assert table.schema is not None  # asked for here, so that problems are found here
        return table
    except JVM_ERRORS as error:
        text = error_text(error)
    secrets = {options[key]: written for key, written in source.options.items() if options[key] != str(written)}
    for value, written in secrets.items():
        text = text.replace(value, str(written)) if value and isinstance(written, str) else text
    hint = next((hint for marks, hint in _HINTS if any(mark in text for mark in marks)), "Can this Spark read it, as this user?")
    lines = [line.lstrip(": \t") for line in text.splitlines() if line.strip() and not line.startswith("An error occurred while calling")]
    reason = (lines[0] if lines else "no reason given").rpartition("] ")[2].partition(" SQLSTATE")[0].rstrip(".")
    reason = reason.partition(". ")[0]
    message = f"Spark cannot read {each.named}: {reason if len(reason) <= _LONGEST else f'{reason[: _LONGEST - 1]}…'}"
    raise refuse("C286", message, each.place.key_span("spark"), hint)


def _placed(problem: Diagnostic, tables: Sequence[SparkInput]) -> Diagnostic:
    """A problem of a stream, at its place in the configuration."""
    for each in tables:
        if problem.span is not None:
            moved = with_place(problem, each.map, each.place.span("map"), each.place.span())
            if moved != problem:
                return moved
        if f"stream {each.name}" in problem.message:
            key = next((key for key in _KEYS if f"{key} of stream {each.name}" in problem.message), "")
            return replace(problem, span=each.place.span(key) if key else each.place.key_span("name"))
    return problem
