"""The streaming source: a planner on the driver, and reading tasks that run all of stage one.

Spark requests the next offset from the planner, in a Python process of its own; a thread of the
planner scans ahead while executors process the previous batch. A batch is a few consecutive cuts
(`planner`) with about equal numbers of elements, one per task. A task is text: its cut and its
start. A batch has a handful of rows (`rows`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.checkpoint.figures import InputFigures, write_inputs
from dotr.runtimes.spark.exchange.errors import carrying_diagnostics
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.names import SOURCE
from dotr.runtimes.spark.exchange.positions import Cut, Offset
from dotr.runtimes.spark.exchange.rows import SCHEMA
from dotr.runtimes.spark.exchange.task import PartitionOfInput, PathsOfInput, Task, no_partition, single_files
from dotr.runtimes.spark.planning.indexed_plan import ending_at, indexed_plan
from dotr.runtimes.spark.planning.indexed_topics import IndexedTopics

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from dotr.runtimes.spark.planning.live_planner import Scanner
    from dotr.runtimes.spark.planning.planned_topics import PlannedTopics

Json: TypeAlias = dict[str, object]


class TaskPartition(InputPartition):
    """A task as JSON text, since Spark serializes partitions itself."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def _cuts(job: Job, start: Offset, until: Micros, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[Cut]:
    size = max(1, job.batch // job.tasks)
    if job.granule:
        from dotr.runtimes.spark.planning.index_files import IndexFiles, index_folder

        files, topics = IndexFiles(index_folder(job), is_stopped), IndexedTopics(job)
        return indexed_plan(files.read, files.base(), (*job.delays, *topics.delays), topics.padded(start), size, until)
    from dotr.runtimes.spark.exchange.worker_cache import input_of
    from dotr.runtimes.spark.planning.planner import scanned_cuts

    return scanned_cuts([input_of(job, number) for number in range(len(job.inputs))], start, size, until)


class _PlanAhead:
    """A thread that plans cuts from an offset on, a few more than a batch needs.

    The planner makes the thread after all else that it imports late: of two threads that import
    modules of one package, one may find a module without its names (Python ends a deadlock so).
    """

    def __init__(self, job: Job, start: Offset) -> None:
        self.offset = start
        self._cuts: Queue[Cut | BaseException] = Queue(2 * job.tasks)
        self._stop = Event()
        self._job = job
        Thread(target=self._plan, args=(start,), daemon=True).start()

    def _plan(self, start: Offset) -> None:
        job = self._job
        try:
            for cut in _cuts(job, start, LAST_MICRO, self._stop.is_set):
                if not self._offer(cut):
                    return
        except BaseException as error:
            self._offer(error)

    def _offer(self, item: Cut | BaseException) -> bool:
        while not self._stop.is_set():
            try:
                self._cuts.put(item, timeout=0.2)
            except Full:
                continue
            return True
        return False

    def next(self) -> Cut:
        """The next cut; waits for the thread."""
        item = self._cuts.get()
        if isinstance(item, BaseException):
            raise item
        self.offset = Offset(item.time, item.positions)
        return item

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        try:
            while True:
                self._cuts.get_nowait()
        except Empty:
            return


class InstantsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The planner; `read` runs on executors. A planned batch is kept until Spark requests it by its
    offsets."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ahead: _PlanAhead | None = None
        self._scanner: Scanner | None = None
        self._planned: tuple[Offset, list[Cut]] | None = None
        self._watched: PlannedTopics | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: bounded inputs are the files present at the start of the run."""

    def initialOffset(self) -> Json:
        """The start offset of the job, or the beginning."""
        return json.loads(self._job.start) if self._job.start else Offset.start(len(self._job.inputs)).to_json()

    @carrying_diagnostics
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """The end of the next batch after `start`; `start` where nothing has closed."""
        offset = Offset.of_json(start)
        if offset.ended:
            return start
        if self._job.live:
            return self._live_offset(offset)
        if self._ahead is None or self._ahead.offset != offset:
            self.stop()
            if self._job.topics:
                self._watch_topics(offset)
            self._ahead = _PlanAhead(self._job, offset)
        cuts: list[Cut] = []
        while len(cuts) < self._job.tasks and not (cuts and cuts[-1].time == LAST_MICRO):
            cuts.append(self._ahead.next())
        if self._watched is not None:
            self._watched.check_failures()
            write_inputs(self._job.folder, InputFigures(connections=self._watched.connections()))
        self._planned = offset, cuts
        return self._ahead.offset.to_json()

    def _watch_topics(self, offset: Offset) -> None:
        """Watch the topics that tasks index; a topic that is replaced ends the run."""
        from dotr.runtimes.spark.planning.planned_topics import PlannedTopics

        self._watched = PlannedTopics(self._job, offset)
        self._watched.watch()

    def _live_offset(self, offset: Offset) -> Json:
        scanner = self._scanner_at(offset)
        cuts = scanner.batch()
        if not cuts:
            return offset.to_json()
        self._planned = offset, cuts
        return scanner.offset.to_json()

    def _scanner_at(self, offset: Offset) -> Scanner:
        from dotr.runtimes.spark.planning.live_planner import Scanner

        if self._scanner is None or not self._scanner.is_at(offset):
            self.stop()
            self._scanner = Scanner(self._job, offset)
        return self._scanner

    @carrying_diagnostics
    def partitions(self, start: Json, end: Json) -> list[TaskPartition]:
        """The tasks of the batch between two offsets."""
        first, last = Offset.of_json(start), Offset.of_json(end)
        if first == last:
            return []
        if self._planned is None or self._planned[0] != first or self._planned[1][-1].time != last.time:
            self._planned = first, [self._replan_live(first, last)] if self._job.live else self._replan(first, last)
        first = first.padded(len(self._job.inputs))
        paths: PathsOfInput = single_files
        partition: PartitionOfInput = no_partition
        if self._job.granule and self._job.topics:
            topics = IndexedTopics(self._job)
            first, partition = topics.padded(first), topics.partition
        if self._scanner is not None:
            paths, partition = self._scanner.inputs.paths, self._scanner.inputs.topics.partition
            first = self._scanner.inputs.padded(first, len(self._planned[1][0].positions))
        tasks = []
        for cut in self._planned[1]:
            tasks.append(TaskPartition(Task.of_cut(first, cut, last.time, paths, partition, is_heartbeat=last.is_heartbeat).to_json()))
            first = Offset(cut.time, cut.positions)
        return tasks

    def _replan(self, start: Offset, end: Offset) -> list[Cut]:
        """The cuts of a batch that an earlier process planned, from its start and end."""
        cuts = ending_at(_cuts(self._job, start, end.time), end)
        # A batch of the planner of growing inputs may have dead letters alone, and close no instant.
        return cuts or [Cut(end.time, end.positions, tuple(each.offset for each in end.positions), 0)]

    def _replan_live(self, start: Offset, end: Offset) -> Cut:
        """As `_replan` for growing inputs; scanning continues from the end of the batch."""
        from dotr.runtimes.spark.planning.live_planner import GrowingInputs

        end = end.padded(len(self._job.inputs))
        inputs = GrowingInputs(self._job, start, replanned=len(end.positions))
        cut = inputs.plan.replan(end)
        inputs.close()
        self._scanner_at(end)
        return cut

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of a task."""
        from dotr.runtimes.spark.tasks.stage_one_task import read_task

        assert isinstance(partition, TaskPartition)
        return read_task(self._job, Task.of_json(partition.text))

    def commit(self, end: Json) -> None:
        """Remove copied input before `end`; input files stay."""
        if self._scanner is not None:
            self._scanner.inputs.release(Offset.of_json(end))

    def stop(self) -> None:
        """Stop scanning."""
        if self._scanner is not None:
            self._scanner.stop()
            self._scanner = None
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead = None
        if self._watched is not None:
            self._watched.close()
            self._watched = None


class InstantSource(DataSource):
    """`spark.readStream.format("dotr")`, with the job as JSON text in the option `job`."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return SOURCE

    def schema(self) -> str:
        """The schema of the rows."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The planner and reader."""
        return InstantsReader(Job.from_json(self.options["job"]))
