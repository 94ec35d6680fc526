"""Progress of a run on Spark, combined on the driver from its batches, the checkpoint's files, and
the progress events of a StreamingQueryListener.

Sources and operators in Python have no access to Spark's custom metrics, so that their counts are
rows of a batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.progress import (
    BatchFigures,
    InputProgress,
    ReportProgress,
    RunProgress,
    ignore_progress,
    port_labels,
    progress_by_input,
    stored_events,
)
from dotr.runtimes.monitoring.totals import ReportActivity, Totals
from dotr.runtimes.spark.checkpoint.figures import PortTotals, StoredTotals, read_inputs, read_totals, write_totals
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout
from dotr.runtimes.spark.exchange.jvm_errors import JVM_ERRORS
from dotr.runtimes.spark.exchange.positions import END, Offset
from dotr.runtimes.spark.exchange.rows import BucketSize
from dotr.streams.connectors.kafka.topics import PartitionJournal
from dotr.temporal.layout.layers import Layer


class SparkProgress:
    """Reports progress after each batch and on request. `layers` are those of the job, in which
    rules added amid the stream have their own stores; `on_progress` receives the reports;
    `connections` returns the state of receivers by name of input: True if messages can arrive."""

    def __init__(
        self,
        layers: Sequence[Layer],
        checkpoint: Checkpoint,
        on_progress: ReportProgress,
        connections: Callable[[], Mapping[str, bool]] = dict,
    ) -> None:
        self._connections = connections
        ports = [
            [PortTotals(label, port.key_position, port.is_replicated) for label, port in zip(labels, layer.ports, strict=True)]
            for labels, layer in zip(port_labels(layers), layers, strict=True)
        ]
        stored = read_totals(checkpoint.home) or StoredTotals()
        self._totals = StoredTotals(
            stored.batch, stored.before, stored.last, stored.sizes if stored.ports == _frozen(ports) else {}, _frozen(ports)
        )
        self._checkpoint = checkpoint
        self._on_progress = on_progress
        self._batch: BatchFigures | None = None
        self._number: int | None = None
        self.listener = _Listener(self)

    def batch_written(self, number: int, counted: Totals, sizes: Sequence[BucketSize]) -> None:
        """Add the figures of a written batch, by Spark's number."""
        layout = self._checkpoint.layout
        self._totals = self._totals.with_batch(number + (layout.first if layout else 0), counted, sizes)
        write_totals(self._checkpoint.home, self._totals)
        self._number = number
        self.report()

    def state_moved(self, sizes: Sequence[BucketSize]) -> None:
        """Replace the bucket sizes after a migration of state."""
        self._totals = replace(self._totals, sizes={(each.layer, each.bucket): each for each in sizes})
        write_totals(self._checkpoint.home, self._totals)

    def spark_progressed(self, figures: BatchFigures) -> None:
        """Store Spark's figures of a batch."""
        layout = self._checkpoint.layout
        self._batch = replace(figures, number=figures.number + (layout.first if layout else 0))

    def report(self) -> None:
        """Report the progress at the last written batch; unreadable parts are left out."""
        checkpoint, totals = self._checkpoint, self._totals
        if self._on_progress is ignore_progress or checkpoint.layout is None:
            return
        try:
            offset = checkpoint.offset(self._number)
        except (OSError, ValueError):
            return
        closed, inputs = progress_of(checkpoint, checkpoint.layout, offset, self._connections())
        labels = [[port.label for port in layer] for layer in totals.ports]
        beat = last_heartbeat(checkpoint.folder, offset)
        self._on_progress(RunProgress(closed, inputs, stored_events(labels, totals.event_counts), totals.bytes, self._batch, beat))


def _frozen(ports: Sequence[Sequence[PortTotals]]) -> tuple[tuple[PortTotals, ...], ...]:
    return tuple(map(tuple, ports))


def last_heartbeat(folder: Path, offset: Offset | None) -> Micros | None:
    """The last heartbeat (µs) of the planner, which it writes once a second, or that of an offset
    where it is later; None without a clock."""
    told = read_inputs(folder).heartbeat
    return max(offset.time, offset.time if told is None else told) if offset is not None and offset.is_heartbeat else told


def progress_of(
    checkpoint: Checkpoint, layout: CheckpointLayout, offset: Offset | None, connections: Mapping[str, bool] | None = None
) -> tuple[Micros | None, tuple[InputProgress, ...]]:
    """The last closed time (µs; None: none yet) at an offset, and the progress of the inputs there,
    or where the planner of growing inputs has scanned to. `connections`: those of receivers, which
    the planner does not have."""
    figures = read_inputs(checkpoint.folder)
    connections = {**figures.connections, **(connections or {})}
    ahead = figures.watermarks if layout.growing or layout.topics else []
    closed = None if offset is None or offset.time == -LAST_MICRO else offset.time
    if layout.tables:
        ended = offset is not None and offset.ended
        return closed, tuple([InputProgress(name, None if ended else closed, ended) for name, _, _ in layout.tables])
    if ahead:
        return closed, progress_by_input(ahead, closed, connections)
    names = [(name, delay) for name, delay, _ in (*layout.inputs, *layout.growing)]
    if layout.has_partitions:
        delays = {name: delay for name, delay, _ in (*layout.topics, *layout.growing)}
        names += [(name, delays[name]) for name in PartitionJournal(checkpoint.home).names() if name in delays]
    files = []
    others = len(layout.inputs) + len(layout.growing)
    positions = offset.padded(others).positions if offset is not None else Offset.start(others).positions
    for (name, delay), position in zip(names, positions, strict=False):
        files.append((name, position.greatest - delay, position.offset == END or (offset is not None and offset.ended)))
    return closed, progress_by_input(files, closed, connections)


class FirstBatchProgress:
    """Shows the activity of a query until the first batch of this run is written, which may take
    half a minute on two cores; from the offset log and Spark's status tracker. Inputs that grow are
    waited for while no watermark has moved since the last report."""

    def __init__(self, session: SparkSession, checkpoint: Checkpoint, show: ReportActivity) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._checkpoint = checkpoint
        self._show = show
        self._done = False
        self._read = False
        self._watermarks: Sequence[tuple[str, Micros, bool]] = ()

    def report(self, *, batch_written: bool) -> None:
        """Show the current activity; nothing after the first batch."""
        if self._done:
            return
        self._done = batch_written
        with suppress(OSError):  # of a store: the next report shows more
            self._show("" if batch_written else self._activity())

    def _activity(self) -> str:
        planned, written = self._checkpoint.planned_batch, self._checkpoint.committed_batch()
        if planned is None or planned == written:
            before, self._watermarks = self._watermarks, read_inputs(self._checkpoint.folder).watermarks
            is_waiting = bool(self._watermarks) and self._watermarks == before
            return "waiting for records" if is_waiting else "reading ahead, to plan the first batch"
        with suppress(*JVM_ERRORS):
            stages = [found for number in self._tracker.getActiveStageIds() if (found := self._tracker.getStageInfo(number)) is not None]
            tasks, done = sum(stage.numTasks for stage in stages), sum(stage.numCompletedTasks for stage in stages)
            self._read = self._read or done > 0
            if tasks:
                return f"first batch: {done} of {tasks} tasks done" if self._read else "first batch: starting workers, reading"
        return "preparing the first batch"


class _Listener(StreamingQueryListener):
    """A listener that reads a batch's progress as JSON in one call to the JVM; pyspark's conversion
    takes hundreds."""

    def __init__(self, progress: SparkProgress) -> None:
        self._progress = progress

    @property
    def _jlistener(self) -> JavaObject:
        if not hasattr(self, "_wrapped"):
            assert SparkContext._jvm is not None
            self._wrapped = SparkContext._jvm.PythonStreamingQueryListenerWrapper(_JavaListener(self._progress))
        return self._wrapped

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignored."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Ignored: `_JavaListener` receives the event."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignored."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Ignored."""


class _JavaListener:
    """The Java interface of the listener."""

    def __init__(self, progress: SparkProgress) -> None:
        self._progress = progress

    def onQueryStarted(self, event: JavaObject) -> None:
        """Ignored."""

    def onQueryProgress(self, event: JavaObject) -> None:
        """Pass on the figures of a batch."""
        figures = json.loads(event.progress().json())
        operators = figures["stateOperators"]
        self._progress.spark_progressed(
            BatchFigures(
                figures["batchId"],
                figures["durationMs"].get("triggerExecution", 0),
                sum(each["numRowsTotal"] for each in operators),
                sum(each["memoryUsedBytes"] for each in operators),
            )
        )

    def onQueryIdle(self, event: JavaObject) -> None:
        """Ignored."""

    def onQueryTerminated(self, event: JavaObject) -> None:
        """Ignored."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
