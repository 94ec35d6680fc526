"""What a query is doing until its first batch is written: there are no totals yet, and with two cores that may take half a minute."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession

from dotr.monitoring.totals import ReportActivity
from dotr.runtimes.spark.checkpoint import Checkpoint
from dotr.runtimes.spark.jvm_errors import JVM_ERRORS


class FirstBatchProgress:
    """Looks at the offset log and at Spark's tasks, and says what is going on, up to the first batch of this run."""

    def __init__(self, session: SparkSession, checkpoint: Checkpoint, does: ReportActivity) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._checkpoint = checkpoint
        self._show = does
        self._done = False
        self._read = False

    def report(self, *, batch_written: bool) -> None:
        """Say it, if there is something to be said still."""
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
