"""Activity of a query before its first written batch, which may take half a minute on two cores."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession

from dotr.monitoring.totals import ReportActivity
from dotr.runtimes.spark.checkpoint import Checkpoint
from dotr.runtimes.spark.jvm_errors import JVM_ERRORS


class FirstBatchProgress:
    """Shows the activity of a query until the first batch of this run is written, from the offset
    log and Spark's status tracker."""

    def __init__(self, session: SparkSession, checkpoint: Checkpoint, show: ReportActivity) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._checkpoint = checkpoint
        self._show = show
        self._done = False
        self._read = False

    def report(self, *, batch_written: bool) -> None:
        """Show the current activity; nothing after the first batch."""
        if self._done:
            return
        self._done = batch_written
        self._show("" if batch_written else self._activity())

    def _activity(self) -> str:
        planned, written = self._checkpoint.planned_batch, self._checkpoint.committed_batch()
        if planned is None or planned == written:
            return "reading ahead, to plan the first batch"
        with suppress(*JVM_ERRORS):
            stages = [found for number in self._tracker.getActiveStageIds() if (found := self._tracker.getStageInfo(number)) is not None]
            tasks, done = sum(stage.numTasks for stage in stages), sum(stage.numCompletedTasks for stage in stages)
            self._read = self._read or done > 0
            if tasks:
                return f"first batch: {done} of {tasks} tasks done" if self._read else "first batch: starting workers, reading"
        return "preparing the first batch"
