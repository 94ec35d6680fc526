"""The streaming query from source to sink: start, restarts after worker loss, orderly stop."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from dotr.errors.diagnostics import DotrError, Refused
from dotr.errors.fallbacks import FallbackKind, record_fallback, reraise_in_tests
from dotr.evaluation.files.stores import Location
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.dead_letter_log import LOG
from dotr.runtimes.monitoring.totals import InputLost, RunFailed
from dotr.runtimes.spark.buckets.operator import LayerProcessor
from dotr.runtimes.spark.checkpoint.damage import failure_in
from dotr.runtimes.spark.checkpoint.folder import hadoop_name, last_number
from dotr.runtimes.spark.exchange.errors import DISK_FULL, is_late_worker
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.jvm_errors import JVM_ERRORS, error_text
from dotr.runtimes.spark.exchange.names import KEY, SOURCE
from dotr.runtimes.spark.exchange.rows import SCHEMA, RowKind
from dotr.runtimes.spark.sink import Sink
from dotr.runtimes.spark.source import InstantSource
from dotr.streams.sinks.files import WriteFailed

_POLL_SECONDS: Final = 1.0
_STOP_TIMEOUT_SECONDS: Final = 30.0
"""Longest wait of a stop for the batch under way; an abandoned batch is replayed at the
next start."""
_RESTART_DELAY_SECONDS: Final = 1.0
"""Wait before the first restart, and increment for each further one: the cause may persist for a
while."""
_LATE_STARTS: Final = 30
"""Most starts in a row, without a written batch in between, that end because a Python process of
Spark's is not ready in time: at ten seconds each, five minutes."""
_LATE_LINE: Final = "Spark gave up waiting for a Python process to start, as on a busy machine: the query starts again from its checkpoint."


class EndedForReload(DotrError):
    """Raised where a query has ended between two batches, for a changed program to go on."""


class RowsQuery(NamedTuple):
    """A query before it is started: the function that makes its `rows`, whether it is `live`, so
    that it reads until it is stopped or its sink has the last batch, and then the least time
    between two batches (`trigger`, µs)."""

    rows: Callable[[], DataFrame]
    live: bool
    trigger: Micros


def run_query(
    query: RowsQuery,
    sink: Sink,
    checkpoint: Location,
    log: Path,
    poll: Callable[[], None] | None = None,
    restarts: int = 0,
    scans: Callable[[], AbstractContextManager[None]] = nullcontext,
    is_changed: Callable[[], bool] = lambda: False,
) -> None:
    """Run the query to the end of its input, calling `poll` once a second, each start within a
    context of `scans`. Once `is_changed` returns True, the query ends behind the batch that is
    being written, and `EndedForReload` is raised.

    A query that Spark gives up, for example after the loss of a worker, is restarted from its
    checkpoint up to `restarts` times without a written batch in between. Where it is given up
    because a Python process of Spark's is not ready in time, the restart is not counted. Raises
    Refused and RunFailed for failures, and KeyboardInterrupt after an orderly stop: at the end of
    the batch under way, or at once after a second signal, or where the JVM is lost meanwhile.
    """
    with _interrupts() as interrupted:
        tries, late, before = 0, 0, last_number(checkpoint / "commits")
        while True:
            try:
                with scans():
                    failure = _run(query, sink, checkpoint, interrupted, poll, is_changed)
                if failure is None:
                    return
                text = error_text(failure)
                failure = failure_in(checkpoint, text, log)
            except JVM_ERRORS as error:
                if interrupted.count:
                    LOG.warning("Spark was lost while the run stopped (%s). The same command does a batch anew that is not whole.", error)
                    raise KeyboardInterrupt from None
                raise failure_in(checkpoint, error_text(error), log) from None
            written = last_number(checkpoint / "commits")
            if written != before:
                tries, late, before = 0, 0, written
            is_late = is_late_worker(text)
            tries, late = tries + (not is_late), late + is_late
            if tries > restarts or late > _LATE_STARTS or isinstance(failure, Refused | InputLost) or DISK_FULL in text:
                raise failure from None
            if is_late:
                LOG.warning(_LATE_LINE)
            else:
                reraise_in_tests(failure, FallbackKind.RESTART)
                record_fallback(failure, FallbackKind.RESTART)
                LOG.warning("%s. It goes on from its checkpoint (try %d of %d).", failure, tries, restarts)
            sink.failure = None
            if interrupted.interrupts_within(_RESTART_DELAY_SECONDS * max(1, tries)):
                raise KeyboardInterrupt


def _run(
    plan: RowsQuery,
    sink: Sink,
    checkpoint: Location,
    interrupted: _Interrupts,
    poll: Callable[[], None] | None,
    is_changed: Callable[[], bool],
) -> Exception | None:
    """Run the query once. Returns the error for which Spark gave it up, None at the end of the
    input; raises other errors."""
    try:
        query = _start(plan, sink, checkpoint)
    except (PySparkException, Py4JJavaError) as error:
        return error
    try:
        return _wait(query, sink, checkpoint, interrupted, poll, is_changed, live=plan.live)
    except (Refused, RunFailed, OSError):
        with suppress(*JVM_ERRORS):
            query.stop()
        raise


def _wait(
    query: StreamingQuery,
    sink: Sink,
    checkpoint: Location,
    interrupted: _Interrupts,
    poll: Callable[[], None] | None,
    is_changed: Callable[[], bool],
    *,
    live: bool,
) -> Exception | None:
    """Wait for the end of a query; as `_run`. An error that is raised may leave the query
    active."""
    polled, ends = time.monotonic(), False
    while query.isActive and not interrupted.wait_for(0.05):
        if poll is not None and time.monotonic() >= polled + _POLL_SECONDS:
            polled = time.monotonic()
            poll()
        if not ends and is_changed():
            sink.hold()
            ends = True
        if ends and _is_committed(checkpoint, sink.begun):
            break
        if live and sink.last_batch is not None and _is_committed(checkpoint, sink.last_batch):
            query.stop()
            return None
    if interrupted.count:
        sink.stopped_at = time.monotonic()
        sink.abandoned = not _finish_batch(query, checkpoint, interrupted)
        with suppress(PySparkException):
            query.stop()
        raise KeyboardInterrupt
    if ends and _is_committed(checkpoint, sink.begun):
        with suppress(PySparkException):
            query.stop()
        raise EndedForReload
    failure = query.exception()
    if failure is None or sink.failure is None:
        return failure
    if isinstance(sink.failure, (PySparkException, Py4JJavaError)):
        return sink.failure
    raise sink.failure


def _is_committed(checkpoint: Location, number: int | None) -> bool:
    """True if a batch is in the checkpoint (None: no batch)."""
    return number is None or (checkpoint / "commits" / str(number)).look() is not None


def _start(plan: RowsQuery, sink: Sink, checkpoint: Location) -> StreamingQuery:
    writer = with_metrics(plan.rows()).writeStream.outputMode("append").foreachBatch(sink)
    writer = writer.option("checkpointLocation", hadoop_name(checkpoint))
    writer = writer.trigger(processingTime=f"{plan.trigger} microseconds") if plan.live else writer.trigger(availableNow=True)
    return writer.start()


def query_of_job(session: SparkSession, job: Job) -> RowsQuery:
    """The query of a job: its source, and one operator for each layer."""

    def rows() -> DataFrame:
        session.conf.set("spark.sql.shuffle.partitions", str(job.partitions))
        session.dataSource.register(InstantSource)
        text = job.to_json()
        rows = session.readStream.format(SOURCE).option("job", text).load()
        for layer in range(job.layers):
            rows = rows.groupBy(KEY).transformWithState(LayerProcessor(text, layer), SCHEMA, "append", "none")
        return rows

    return RowsQuery(rows, job.live, job.trigger)


def run_batch(session: SparkSession, plan: RowsQuery, sink: Sink, checkpoint: Location, log: Path, poll: Callable[[], None]) -> None:
    """Write the rows of a plan, which end, as batch 0 of a query, calling `poll` once a second; a
    batch that is written already is not evaluated again. The errors are those of `run_query`."""
    folder = checkpoint
    if _is_committed(folder, 0):
        LOG.warning("All rows were read by an earlier run, and its output is there: --fresh reads them again.")
        return
    _write_log(folder / "metadata", json.dumps({"id": str(uuid4())}))
    _write_log(folder / "offsets" / "0", f'v1\n{{"batchWatermarkMs":{LAST_MICRO}}}\n-')
    failures: list[Exception] = []

    def write() -> None:
        try:
            sink(with_metrics(plan.rows()), 0)
        except Exception as error:
            failures.append(error)

    with _interrupts() as interrupted:
        writing, polled = threading.Thread(target=write, daemon=True), time.monotonic()
        writing.start()
        while writing.is_alive() and not interrupted.wait_for(0.05):
            if time.monotonic() >= polled + _POLL_SECONDS:
                polled = time.monotonic()
                poll()
        if writing.is_alive():
            sink.stopped_at, sink.abandoned = time.monotonic(), True
            with suppress(*JVM_ERRORS):
                session.sparkContext.cancelAllJobs()
            writing.join(_STOP_TIMEOUT_SECONDS)
            raise KeyboardInterrupt
    for error in failures:
        raise failure_in(folder, error_text(error), log) if isinstance(error, JVM_ERRORS) else error from None
    _write_log(folder / "commits" / "0", 'v1\n{"nextBatchWatermarkMs":0}')


def _write_log(place: Location, text: str) -> None:
    """Write a file of Spark's log of a query. Raises WriteFailed."""
    try:
        if not place.is_url:
            place.path.parent.mkdir(parents=True, exist_ok=True)
        place.put(text.encode())
    except OSError as error:
        raise WriteFailed(f"cannot write {place}: {(error.strerror or str(error)).lower()}") from None


def _finish_batch(query: StreamingQuery, checkpoint: Location, interrupted: _Interrupts, timeout: float = _STOP_TIMEOUT_SECONDS) -> bool:
    """Wait until the last planned batch is written; returns True if it is. A second signal or the
    timeout (an instant may have very many matches) ends the wait."""
    planned = last_number(checkpoint / "offsets")
    if planned is None or planned == last_number(checkpoint / "commits"):
        return True
    LOG.warning("Stopping after the batch under way; a second signal stops at once.")
    deadline = time.monotonic() + timeout
    while query.isActive and interrupted.count < 2 and not _is_committed(checkpoint, planned):
        if time.monotonic() >= deadline:
            LOG.warning("The batch under way takes long: it is left, and done again at the next start.")
            break
        interrupted.wait_for(0.05, count=2)
    return _is_committed(checkpoint, planned)


class _Interrupts:
    """A count of received signals."""

    def __init__(self) -> None:
        self.count = 0

    def wait_for(self, seconds: float, count: int = 1) -> bool:
        """True if at least `count` signals were received, before or after a sleep of `seconds`."""
        if self.count < count:
            time.sleep(seconds)
        return self.count >= count

    def interrupts_within(self, seconds: float) -> bool:
        """True if a signal was or is received within `seconds`."""
        deadline = time.monotonic() + seconds
        while not self.count and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.count > 0


@contextmanager
def _interrupts() -> Iterator[_Interrupts]:
    """Count SIGINT and SIGTERM instead of raising, since an exception within a call to the JVM
    breaks the connection."""
    interrupted = _Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def handle(number: int, frame: FrameType | None) -> None:
        interrupted.count += 1

    before = [(number, signal.signal(number, handle)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield interrupted
    finally:
        for number, handler in before:
            signal.signal(number, handler)


# Observed metrics of the query, named `dotr`: figures of a batch in the progress that every
# StreamingQueryListener of any language receives.
#
# They are aggregated from existing rows: COUNTS, of which a batch has a few, and numbers in the
# columns of others. The position in the inputs is in the same progress, as the end offset of the
# source.

NAME: Final = "dotr"

_COUNTED: Final = {
    "elements": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[0]')"),
    "instants": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[1]')"),
    "facts": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[2]')"),
    "late": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[4].late')"),
    "events": ((RowKind.FIRINGS, RowKind.RUN), "time"),
    "dead_letters": ((RowKind.DEAD, RowKind.DEAD_RUN), "time"),
    "fallbacks": ((RowKind.FALLBACKS,), "time"),
    "state_bytes_changed": ((RowKind.STATE,), "time"),
}


def with_metrics(rows: DataFrame) -> DataFrame:
    """The query's rows, with metrics observed on them."""
    return rows.observe(NAME, *[_sum(name, kinds, value) for name, (kinds, value) in _COUNTED.items()])


def _sum(name: str, kinds: Iterable[RowKind], value: str) -> Column:
    listed = ", ".join(str(kind.value) for kind in kinds)
    return F.expr(f"coalesce(sum(CASE WHEN kind IN ({listed}) THEN cast({value} AS bigint) END), 0)").alias(name)
