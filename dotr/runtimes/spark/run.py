"""A pipeline on Spark: everything that can be refused is refused before a JVM starts; then one query runs to the end of the input."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dotr.datalog.compiled_store import CompiledStore
from dotr.engine.multi_query import share_queries
from dotr.engine.spec import ProgramSpec
from dotr.layout.layers import lay_out
from dotr.model.stream import DeadLetter, Firing
from dotr.monitoring.progress import ReportProgress, ignore_progress
from dotr.monitoring.totals import ReportActivity, ReportTotals, RunFailed, Totals, ignore_activity
from dotr.outputs import compile_writer
from dotr.runtimes.pipeline import Pipeline
from dotr.runtimes.spark.checkpoint import Checkpoint, CheckpointLayout, wanted_layout
from dotr.runtimes.spark.display_paths import DisplayPaths
from dotr.runtimes.spark.first_batch import FirstBatchProgress
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.jvm_errors import LOST, words
from dotr.runtimes.spark.keys import bucket_keys
from dotr.runtimes.spark.progress import SparkProgress
from dotr.runtimes.spark.query import run_query
from dotr.runtimes.spark.rows import BucketSize
from dotr.runtimes.spark.session import cores, is_local, start
from dotr.runtimes.spark.sink import Sink, Write
from dotr.runtimes.spark.spark_errors import explained
from dotr.runtimes.spark.spilled_rows import clear, folder_of
from dotr.runtimes.spark.spool import Copying, spooling
from dotr.runtimes.spark.state_moves import OldQuery, move
from dotr.sinks.dead_letters import letter_line
from dotr.sinks.files import BatchFile, WriteFailed, check_new
from dotr.sources.records import InputFile
from dotr.state.state_migration import StateChange, StateFate
from dotr.state.state_schema import state_schema

_LOG: Final = logging.getLogger("dotr")
_LETTERS: Final = 1_000
"""Dead letters that are written at a time."""


def run_spark(
    pipeline: Pipeline, progress: ReportTotals, stand: ReportProgress = ignore_progress, does: ReportActivity = ignore_activity
) -> Totals:
    """Runs a pipeline to the end of its input, from its checkpoint on; the totals are this run's. `does` is told what goes on before the
    first batch is written.

    Raises `Refused` for what the user can put right, `RunFailed` for what else stops Spark, KeyboardInterrupt when it was stopped.
    """
    checkpoint = Checkpoint(pipeline.spark.checkpoint)
    wanted = wanted_layout(pipeline)
    found: StateChange | None = None
    if checkpoint.layout is None:
        for output in pipeline.outputs:
            check_new(output.path, output.place)
        if pipeline.dead_letter_path is not None:
            check_new(pipeline.dead_letter_path)
    else:
        checkpoint.check()
        found = checkpoint.change(pipeline.program)
        wanted = checkpoint.claim(wanted, found)
        if found.knowledge_warning is not None:
            _LOG.warning("%s", found.knowledge_warning)
    checkpoint.make()
    settings, before = pipeline.spark, SparkContext._active_spark_context
    does("starting Spark")
    try:
        session = start(pipeline.name, settings.master, settings.conf, checkpoint.log)
    except (PySparkException, RuntimeError, OSError) as error:
        raise explained(str(error), checkpoint.log) from None
    try:
        tasks = cores(session.sparkContext)
        if checkpoint.layout is None:
            wanted = checkpoint.claim(replace(wanted, buckets=tasks, partitions=tasks, holdings=state_schema(pipeline.program)))
        job = _job(pipeline, wanted, tasks, checkpoint.folders(wanted.generation))
        clear(folder_of(job))
        if pipeline.program.store is not None:
            _ship(pipeline.program.store, session.sparkContext)
        layers = lay_out(share_queries(pipeline.program.rules.rules), wanted.holdings.since if wanted.holdings else {}).layers
        standings = SparkProgress(layers, checkpoint, stand)
        if found is not None and found.moves:
            does("moving the state to where the changed rules look for it")
            standings.moved(_take_over(session, checkpoint, found, wanted, job))
        sink = Sink(
            _write(pipeline),
            progress,
            DisplayPaths(pipeline, checkpoint.folder),
            pipeline.clock,
            wanted.first,
            standings.took,
            pipeline.dead_letter_warnings,
        )

        first = FirstBatchProgress(session, checkpoint, does)

        def look() -> None:
            standings.look()
            first.look(begun=sink.begun)
            progress(sink.totals)

        standard = [each for each in pipeline.growing if each.standard]
        heard = stand is not ignore_progress
        if heard:
            session.streams.addListener(standings.listener)
        try:
            with spooling(standard[0].like, checkpoint.folder) if standard else nullcontext(Copying()) as copying:

                def around() -> None:
                    if copying.failure is not None:
                        raise copying.failure
                    if heard:
                        look()

                does("starting the query")
                run_query(session, job, sink, checkpoint.query, checkpoint.log, around, settings.restarts)
        except WriteFailed as error:
            raise RunFailed(f"{error} (the batches before that are kept: the same command goes on from them)") from None
        finally:
            with suppress(*LOST):
                if heard:
                    session.streams.removeListener(standings.listener)
        return sink.totals
    except LOST as error:
        raise explained(words(error), checkpoint.log) from None
    finally:
        if before is None:
            with suppress(*LOST):
                session.stop()


def _take_over(session: SparkSession, checkpoint: Checkpoint, found: StateChange, wanted: CheckpointLayout, job: Job) -> list[BucketSize]:
    """Moves the state to the query of the changed program; how much of it there is then."""
    kept = checkpoint.layout
    assert kept is not None
    sizes: list[BucketSize] = []
    if job.moved:
        keys = bucket_keys(kept.layers * kept.buckets, kept.partitions)
        query, moved = checkpoint.folders(kept.generation)
        old = OldQuery(query, moved if kept.start is not None else "", kept.layers, keys, checkpoint.committed() is not None)
        sizes = move(session, found, old, job, checkpoint.log)
    for verdict in found.verdicts:
        if verdict.fate is not StateFate.KEPT:
            _LOG.warning("%s", verdict)
    checkpoint.switch(wanted)
    return sizes


def _inputs(pipeline: Pipeline, layout: CheckpointLayout) -> tuple[list[InputFile], list[str]]:
    """The inputs that the checkpoint counts with: its files, then what grows, of each of which the second list says how."""
    likes = {file.input: file for file in pipeline.inputs} | {each.like.input: each.like for each in pipeline.growing}
    watched = {each.like.input: each for each in pipeline.growing}
    inputs = [replace(likes[name], path=path) for name, _, path in layout.inputs]
    how = []
    for name, _, pattern in layout.growing:
        inputs.append(replace(likes[name], path=""))
        each = watched.get(name)
        how.append(json.dumps([pattern, each.settle, each.idle, True] if each else [pattern, 0, None, False]))
    return inputs, how


def _job(pipeline: Pipeline, layout: CheckpointLayout, tasks: int, folders: tuple[str, str]) -> Job:
    spec: ProgramSpec = pipeline.program.spec
    since = layout.holdings.since if layout.holdings else {}
    spec = replace(spec, graphs=tuple(map(os.path.abspath, spec.graphs)), since=since)
    store = pipeline.program.store
    inputs, growing = _inputs(pipeline, layout)
    rates = pipeline.rates
    return Job(
        program=spec.to_json(),
        inputs=tuple(file.to_json() for file in inputs),
        delays=tuple(file.delay for file in inputs),
        unit=pipeline.clock.unit.written,
        dated=pipeline.clock.dated,
        layers=layout.layers,
        buckets=layout.buckets,
        partitions=layout.partitions,
        batch=pipeline.spark.batch,
        tasks=tasks,
        run=folders[0],
        store="" if store is None else str(store.file.path),
        key="" if store is None else store.file.key.hex(),
        growing=tuple(growing),
        rates=tuple(rates.items()),
        moved=folders[1] if layout.start is not None else "",
        start=json.dumps(layout.start) if layout.start is not None else "",
        trigger=pipeline.spark.trigger,
    )


def _ship(store: CompiledStore, context: SparkContext) -> None:
    """Gives the compiled background, and the answers beside it, to executors of other machines, which may not have it at its path."""
    if not is_local(context):
        for path in (store.file.path, *store.file.path.parent.glob(f"{store.file.path.stem}-*{store.file.path.suffix}")):
            context.addFile(str(path))


def _write(pipeline: Pipeline) -> Write:
    """Writes a batch to all outputs; a batch that has nothing for one leaves no file there."""
    clock = pipeline.clock
    outputs = [(output.path, "." + output.format.value, output.format) for output in pipeline.outputs]
    dead = pipeline.dead_letter_path

    def write(number: int, firings: Iterator[Sequence[Firing]], letters: Iterator[DeadLetter]) -> None:
        with ExitStack() as stack:
            files = [(stack.enter_context(BatchFile(path, number, suffix)), compile_writer(form, clock)) for path, suffix, form in outputs]
            for some in firings:
                for file, texts in files:
                    file.write(texts(some))
        with BatchFile(dead, number, ".ndjson") if dead is not None else nullcontext() as rejected:
            while told := list(islice(letters, _LETTERS)):
                if rejected is not None:
                    rejected.write([letter_line(letter, clock) + "\n" for letter in told])

    return write
