"""One query from source to sink, run to the end of its input or until somebody stops it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import SCHEMA
from dotr.runtimes.spark.sink import Sink
from dotr.runtimes.spark.source import Instants
from dotr.runtimes.spark.stateful import LayerProcessor
from dotr.runtimes.spark.trouble import explained


def run_query(session: SparkSession, job: Job, sink: Sink, checkpoint: str, log: Path) -> None:
    """Runs the query; raises `Refused`, `RunFailed`, or KeyboardInterrupt once the query has stopped in good order."""

    def failed(error: PySparkException) -> Exception:
        if sink.failure is None or isinstance(sink.failure, PySparkException):
            return explained(str(sink.failure or error), log)
        return sink.failure

    with _interrupts() as interrupted:
        try:
            query = _start(session, job, sink, checkpoint)
            while query.isActive and not interrupted.wait(0.05):
                if job.live and sink.ended is not None and (Path(checkpoint) / "commits" / str(sink.ended)).exists():
                    query.stop()
                    return
            if interrupted.is_set():
                with suppress(PySparkException):
                    query.stop()
                raise KeyboardInterrupt
            failure = query.exception()
        except PySparkException as error:
            raise failed(error) from None
        if failure is not None:
            raise failed(failure) from None


def _start(session: SparkSession, job: Job, sink: Sink, checkpoint: str) -> StreamingQuery:
    session.conf.set("spark.sql.shuffle.partitions", str(job.partitions))
    session.dataSource.register(Instants)
    text = job.to_json()
    rows = session.readStream.format("dotr").option("job", text).load()
    for layer in range(job.layers):
        rows = rows.groupBy("key").transformWithState(LayerProcessor(text, layer), SCHEMA, "append", "none")
    writer = rows.writeStream.outputMode("append").foreachBatch(sink)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = writer.trigger(processingTime="0 seconds") if job.live else writer.trigger(availableNow=True)
    return writer.start()


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Turns Ctrl-C and SIGTERM into an event while it holds.

    In the middle of a call to the JVM an exception would leave the connection in pieces.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def handle(number: int, frame: FrameType | None) -> None:
        interrupted.set()

    before = [(number, signal.signal(number, handle)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield interrupted
    finally:
        for number, handler in before:
            signal.signal(number, handler)
