"""Where a run on Spark stands, put together on the driver: from its batches, from the checkpoint's files, and from what Spark tells a
StreamingQueryListener.

A source or an operator written in Python has no way to Spark's own custom metrics, so what they count comes with the rows of a batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from dotr.layout.layers import Layer
from dotr.model.time import LAST_MICRO, Micros
from dotr.monitoring.progress import (
    BatchFigures,
    InputProgress,
    ReportProgress,
    RunProgress,
    progress_by_input,
    ignore_progress,
    port_labels,
    stored_events,
)
from dotr.monitoring.totals import Totals
from dotr.runtimes.spark.checkpoint import Checkpoint, CheckpointLayout
from dotr.runtimes.spark.planner import END, Offset
from dotr.runtimes.spark.rows import BucketSize
from dotr.runtimes.spark.totals_file import PortTotals, StoredTotals, read_totals, write_totals
from dotr.runtimes.spark.watermarks import read_watermarks


class SparkProgress:
    """Tells `stand` where the run stands, after every batch and whenever it is asked to look. `layers` are those that the job has: rules
    that came to be amid the stream have stores of their own."""

    def __init__(self, layers: Sequence[Layer], checkpoint: Checkpoint, on_progress: ReportProgress) -> None:
        ports = [
            [PortTotals(label, port.key_position) for label, port in zip(labels, layer.ports, strict=True)]
            for labels, layer in zip(port_labels(layers), layers, strict=True)
        ]
        stored = read_totals(checkpoint.folder) or StoredTotals()
        self._totals = StoredTotals(
            stored.batch, stored.before, stored.last, stored.sizes if stored.ports == _frozen(ports) else {}, _frozen(ports)
        )
        self._checkpoint = checkpoint
        self._on_progress = on_progress
        self._batch: BatchFigures | None = None
        self._number: int | None = None
        self.listener = _Listener(self)

    def batch_written(self, number: int, counted: Totals, sizes: Sequence[BucketSize]) -> None:
        """A batch is written."""
        layout = self._checkpoint.layout
        self._totals = self._totals.with_batch(number + (layout.first if layout else 0), counted, sizes)
        write_totals(self._checkpoint.folder, self._totals)
        self._number = number
        self.report()

    def state_moved(self, sizes: Sequence[BucketSize]) -> None:
        """State has moved to the places where the program looks for it."""
        self._totals = replace(self._totals, sizes={(each.layer, each.bucket): each for each in sizes})
        write_totals(self._checkpoint.folder, self._totals)

    def spark_progressed(self, figures: BatchFigures) -> None:
        """Spark has told of a batch, by its own number."""
        layout = self._checkpoint.layout
        self._batch = replace(figures, number=figures.number + (layout.first if layout else 0))

    def report(self) -> None:
        """Tell where the run stands: at the batch written last, which Spark may not have noted yet. What is not there now is left out."""
        checkpoint, tally = self._checkpoint, self._totals
        if self._on_progress is ignore_progress or checkpoint.layout is None:
            return
        try:
            position = checkpoint.position(self._number)
        except (OSError, ValueError):
            return
        closed, inputs = progress_of(checkpoint.folder, checkpoint.layout, position)
        labels = [[port.label for port in layer] for layer in tally.ports]
        self._on_progress(RunProgress(closed, inputs, stored_events(labels, tally.event_counts), tally.bytes, self._batch))


def _frozen(ports: Sequence[Sequence[PortTotals]]) -> tuple[tuple[PortTotals, ...], ...]:
    return tuple(map(tuple, ports))


def progress_of(folder: Path, layout: CheckpointLayout, position: Offset | None) -> tuple[Micros | None, tuple[InputProgress, ...]]:
    """Up to which time instants are closed, and how far the inputs are, at an offset, or as far as the planner has read."""
    ahead = read_watermarks(folder) if layout.growing else []
    closed = None if position is None or position.time == -LAST_MICRO else position.time
    if ahead:
        return closed, progress_by_input(ahead, closed)
    names = [(name, delay) for name, delay, _ in (*layout.inputs, *layout.growing)]
    files = []
    places = position.padded(len(names)).places if position is not None else Offset.start(len(names)).places
    for (name, delay), place in zip(names, places, strict=False):
        files.append((name, place.greatest - delay, place.offset == END or (position is not None and position.ended)))
    return closed, progress_by_input(files, closed)


class _Listener(StreamingQueryListener):
    """Reads the JSON of a batch's progress, in one call to the JVM: what pyspark hands to a listener it puts together in hundreds."""

    def __init__(self, progress: SparkProgress) -> None:
        self._progress = progress

    @property
    def _jlistener(self) -> JavaObject:
        if not hasattr(self, "_wrapped"):
            assert SparkContext._jvm is not None
            self._wrapped = SparkContext._jvm.PythonStreamingQueryListenerWrapper(_JavaListener(self._progress))
        return self._wrapped

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """`_Told` takes it."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Whoever looks, looks by himself."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The run knows."""


class _JavaListener:
    """The Java interface that a listener is called by."""

    def __init__(self, progress: SparkProgress) -> None:
        self._progress = progress

    def onQueryStarted(self, event: JavaObject) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: JavaObject) -> None:
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
        """Whoever looks, looks by himself."""

    def onQueryTerminated(self, event: JavaObject) -> None:
        """The run knows."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
