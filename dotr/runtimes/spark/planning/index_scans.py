"""Scans of bounded inputs by tasks, started by the driver's process ahead of the planner.

Idea: the planner has no SparkContext, so a thread of the driver's process runs scans as Spark jobs,
up to a few batches ahead of the last planned one. The next range is always one of the input whose
greatest scanned time is least. A task writes each piece that it has scanned as a file of the index
(`index_files`), which the planner waits for. Ranges of plain files are scanned in jobs of a few
seconds. Files that have to be scanned from their start are scanned by one parallel job, on all
cores but one.
Invariant: a piece is removed when the last written batch ends behind it.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from dotr.errors.diagnostics import Diagnostic, InputFailed, Refused
from dotr.errors.fallbacks import error_line
from dotr.evaluation.files.stores import Location
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.totals import InputLost, RunFailed
from dotr.runtimes.spark.checkpoint.folder import last_number
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics, decode_diagnostics, encode_diagnostics, failure_of
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.jvm_errors import JVM_ERRORS, error_text
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, ORDINARY_BYTES, InputPosition, Offset
from dotr.runtimes.spark.exchange.task import RangePartition
from dotr.runtimes.spark.exchange.worker_cache import input_of, topics_of, without_garbage_collection
from dotr.runtimes.spark.planning.granules import Piece, has_ranges, range_starts, records_of_granule, scan_parts, scan_range
from dotr.runtimes.spark.planning.index_files import BEAT_SECONDS, IndexFiles, index_folder
from dotr.runtimes.spark.planning.indexed_topics import IndexedTopics, end_of_range, offset_range_starts, piece_of_partition
from dotr.streams.formats.lines import file_size
from dotr.streams.records import InputFile, Position

INDEXED_BYTES: Final = 64 << 20
"""Bytes of bounded inputs above which they are indexed by tasks."""

FIRST_RANGE: Final = 1 << 20
"""Bytes of the first range of an input."""

_BATCHES_AHEAD: Final = 4
_TRIES: Final = 3
FAILED_SCAN: Final = "S150"
_PAUSE_SECONDS: Final = 0.1
_REMOTE_PAUSE_SECONDS: Final = 1.0
"""Wait between two looks at Spark's logs: at a URL each is a few requests to a store."""
_STOP_SECONDS: Final = 10.0
_SCHEMA: Final = "number long, piece long, found string"
_LOG: Final = logging.getLogger("dotr")


def granule_of(inputs: Sequence[InputFile], job: Job) -> int:
    """The number of records of a granule in the index of a job's inputs. It is 0 where the planner
    scans the inputs: they grow, are small, or there is one core."""
    if job.growing or job.rates or job.paces or job.tasks <= 1:
        return 0
    topics = IndexedTopics(job)
    if job.topics and not topics.can_be_indexed(filter(None, (_started(job), *(_last_offset(job, log) for log in ("commits", "offsets"))))):
        return 0
    size = sum(topics.records) * ORDINARY_BYTES
    for file in inputs:
        with suppress(OSError):  # reported by the reader
            size += file_size(file)
    return records_of_granule(job.batch, job.tasks, len(inputs) + len(topics.records)) if size > INDEXED_BYTES else 0


class ScanTask:
    """The function that Spark's tasks run to scan inputs. Each piece is a file of the index, or a
    row where the checkpoint is at a URL: executors do not reach the driver's disk.

    The job and the work of each task are JSON text. For a range, the work has the number of the
    input, its base, the starts of its ranges, the number of the piece, and the partition (None for
    a file). For a file that is scanned in parts, it has the number, the base and the bytes of the
    first part.
    """

    def __init__(self, job: str, work: Sequence[str]) -> None:
        self._job = job
        self._work = work

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyarrow import RecordBatch, array

        job = Job.from_json(self._job)
        files, found = IndexFiles(index_folder(job)), []
        try:
            with without_garbage_collection():
                for batch in batches:
                    for number in batch.columns[0].to_pylist():
                        for input_number, piece, part in _scan(job, json.loads(self._work[number])):
                            if job.scratch:
                                found.append((input_number, piece, part.to_json()))
                            else:
                                files.write(input_number, piece, part)
        except Refused as refused:
            raise CarriedDiagnostics(encode_diagnostics(refused)) from None
        except InputFailed as failed:
            raise CarriedDiagnostics(encode_diagnostics(Refused([failed.diagnostic]), lasting=True)) from None
        columns = [list(column) for column in zip(*found, strict=True)] or [[], [], []]
        arrays = [array(column, form) for column, form in zip(columns, ("int64", "int64", "string"), strict=True)]
        yield RecordBatch.from_arrays(arrays, ["number", "piece", "found"])


def _scan(job: Job, work: dict[str, Any]) -> Iterator[tuple[int, int, Piece]]:
    """Scan the pieces of one task; yields each with the numbers of its input and its own."""
    for number, base, starts, piece, partition in work["ranges"]:
        if partition is None:
            yield number, piece, scan_range(input_of(job, number), Position(*base), starts, piece, job.granule)
        else:
            yield number, piece, _scan_offsets(job, RangePartition.of_json(*partition), starts, piece)
    parts = [
        (BEGINNING, number, 0, scan_parts(input_of(job, number), Position(*base), job.granule, first))
        for number, base, first in work["parts"]
    ]
    heapify(parts)
    while parts:  # the file whose greatest scanned time is least is scanned next
        greatest, number, piece, found = heappop(parts)
        with suppress(StopIteration):
            part = next(found)
            yield number, piece, part
            heappush(parts, (max([greatest, *(each.greatest for each in part.granules)]), number, piece + 1, found))


def _scan_offsets(job: Job, partition: RangePartition, starts: Sequence[int], piece: int) -> Piece:
    from dotr.runtimes.spark.tasks.kafka_ranges import scanned_records  # where there is a topic

    apart = any(each.like.apart for each in topics_of(job) if each.name == partition.name)
    with closing(scanned_records(job, partition, starts[piece], end_of_range(partition, starts, piece))) as records:
        return piece_of_partition(records, starts, piece, job.granule, apart=apart)


class _IndexedFile:
    """The indexed part of one input.

    `starts` are the offsets of its ranges; empty where it is scanned from its start, in parts.
    `is_complete`: it is indexed to its end. `partition` is the partition of a topic; None for a
    file.
    """

    def __init__(self, number: int, file: InputFile | RangePartition, base: InputPosition, delay: Micros) -> None:
        self.number = number
        self.partition = file if isinstance(file, RangePartition) else None
        self.base = base
        self.delay = delay
        self.starts: tuple[int, ...] = ()
        self.next_range = 0
        self.greatest = base.greatest
        self.is_complete = base.offset == END
        self.granules: list[tuple[int, Micros]] = []
        self._first: Micros | None = None
        self._piece, self._link = 0, base.offset
        self._released = 0
        self._ends: deque[tuple[int, int]] = deque()
        if isinstance(file, RangePartition):
            self.starts = () if self.is_complete else offset_range_starts(file, base.offset, FIRST_RANGE)
        elif not self.is_complete and has_ranges(file):
            self.starts = range_starts(base.offset, file_size(file), FIRST_RANGE)

    def load(self, files: IndexFiles) -> bool:
        """Read the pieces that have been written since; True if there was one."""
        loaded = False
        while not self.is_complete and (piece := files.read_now(self.number, self._piece)) is not None:
            loaded = True
            for granule in piece.granules:
                if granule.offset >= self._link:
                    self.greatest = max(self.greatest, granule.greatest)
                    self.granules.append((granule.weight, self.greatest))
            if self._first is None and self.granules:
                self._first = self.granules[0][1]
            if piece.link is None:
                self.is_complete = True
            else:
                self._ends.append((self._piece, piece.link.offset))
                self._piece, self._link = piece.link.piece, piece.link.offset
        return loaded

    def next_estimate(self, estimate: Micros, piece: int) -> Micros:
        """The estimated greatest time (µs) after the range `piece` is scanned too, where `estimate`
        is that before it. LAST_MICRO after the last range, or before any time is known."""
        if piece + 1 >= len(self.starts) or self._first is None or not self.next_range:
            return LAST_MICRO
        scanned = self.starts[min(self.next_range, len(self.starts) - 1)] - self.starts[0]
        length = self.starts[piece + 1] - self.starts[piece]
        return estimate + 1 + (self.greatest - self._first) * length // max(1, scanned)

    def release(self, files: IndexFiles, written: InputPosition) -> None:
        """Remove the pieces before `written`, the position of the last written batch."""
        while self._ends and (written.offset == END or self._ends[0][1] <= written.offset):
            piece, _ = self._ends.popleft()
            for passed in range(self._released, piece + 1):
                files.release(self.number, passed)
            self._released = piece + 1


class _IndexScans:
    """The threads that start the scans of a job's inputs, from an offset on."""

    def __init__(self, session: SparkSession, job: Job, base: Offset, log: Path) -> None:
        self._session = session
        self._job = job
        self._text = job.to_json()
        self._log = log
        self._topics = IndexedTopics(job)
        self._base = base = self._topics.padded(base)
        self._stopped = threading.Event()
        self._failing = threading.Lock()
        self._has_failed = False
        self._group = f"dotr-index-{os.getpid()}-{id(self)}"
        self.files = IndexFiles(index_folder(job))
        self.files.begin(base)
        self._inputs: list[_IndexedFile] = []
        targets = (self._scan_ranges, self._scan_parts, self._beat)
        self._threads = [threading.Thread(target=self._guarded, args=(target,), daemon=True) for target in targets]

    def start(self) -> None:
        """Start the scans."""
        delays = (*self._job.delays, *self._topics.delays)
        for number, (position, delay) in enumerate(zip(self._base.positions, delays, strict=True)):
            self._inputs.append(_IndexedFile(number, self._topics.partition(number) or input_of(self._job, number), position, delay))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the scans, and remove the index."""
        with self._failing:
            self._stopped.set()
        with suppress(*JVM_ERRORS):
            self._session.sparkContext.cancelJobGroup(self._group)
        for thread in self._threads:
            thread.join(_STOP_SECONDS)
        self.files.remove()

    def _guarded(self, target: Any) -> None:
        try:
            target()
        except CarriedDiagnostics as carried:
            self._fail(str(carried))
        except Refused as refused:
            lasting = any(each.code == FAILED_SCAN for each in refused.diagnostics)
            self._fail(encode_diagnostics(refused, lasting=lasting))
        except Exception as error:
            self._fail(encode_diagnostics(Refused([_failed_scan(error_line(error))]), lasting=True))

    def _fail(self, diagnostics: str) -> None:
        with self._failing:
            if not self._has_failed and not self._stopped.is_set():
                self._has_failed = True
                with suppress(OSError):  # the planner then misses the heartbeat
                    self.files.fail(diagnostics)

    def _beat(self) -> None:
        while not self._stopped.wait(BEAT_SECONDS) and not self._has_failed:
            self.files.beat()

    def _scan_parts(self) -> None:
        """Scan the inputs that have no ranges, to their ends."""
        without_ranges = [each for each in self._inputs if not (each.starts or each.is_complete)]
        parts = [[each.number, (each.base.offset, each.base.line), FIRST_RANGE] for each in without_ranges]
        tasks = max(1, self._job.tasks - 1)
        self._run([{"ranges": [], "parts": parts[number::tasks]} for number in range(min(tasks, len(parts)))])

    def _scan_ranges(self) -> None:
        """Scan ranges until all are scanned."""
        while not self._stopped.is_set():
            loaded = [each.load(self.files) for each in self._inputs]
            if all(each.is_complete for each in self._inputs):
                return
            self._release()
            chosen = self._chosen()
            if chosen:
                tasks = min(self._job.tasks, len(chosen))
                self._run([{"ranges": chosen[number::tasks], "parts": []} for number in range(tasks)])
            elif not any(loaded):
                self._stopped.wait(_REMOTE_PAUSE_SECONDS if self._job.scratch else _PAUSE_SECONDS)

    def _chosen(self) -> list[list[object]]:
        """The ranges to be scanned next; empty while enough is indexed."""
        planned = self._offset_of("offsets")
        open_ones = [each for each in self._inputs if not each.is_complete]
        closed = min(each.greatest - each.delay for each in open_ones)
        for each in self._inputs:
            each.granules = [granule for granule in each.granules if granule[1] > planned.time]
        ahead = sum(weight for each in self._inputs for weight, greatest in each.granules if greatest <= closed)
        if ahead >= _BATCHES_AHEAD * self._job.batch and not self.files.is_awaited():
            return []
        # All inputs of which no time is known come first, then the one with the least estimated time,
        # given the ranges chosen so far. Inputs that are scanned in parts have a job of their own.
        waiting = [(each.greatest, each.number) for each in open_ones]
        heapify(waiting)
        chosen: list[list[object]] = []
        while waiting:
            estimate, number = heappop(waiting)
            each = self._inputs[number]
            if each.next_range >= len(each.starts):
                if estimate == BEGINNING:
                    continue
                break
            if estimate > BEGINNING and len(chosen) >= self._job.tasks:
                break
            piece = each.next_range
            following = each.next_estimate(estimate, piece)
            each.next_range += 1
            chosen.append([number, (each.base.offset, each.base.line), each.starts, piece, each.partition])
            if following < LAST_MICRO:
                heappush(waiting, (following, number))
        return chosen

    def _release(self) -> None:
        written = self._offset_of("commits")
        for each, position in zip(self._inputs, written.positions, strict=True):
            each.release(self.files, position)

    def _offset_of(self, log: str) -> Offset:
        """The end of the last batch in one of Spark's logs, or the base."""
        last = _last_offset(self._job, log)
        return self._base if last is None else self._topics.padded(last)

    def _run(self, work: list[dict[str, object]]) -> None:
        """Run tasks, repeated where Spark itself has failed, for example has lost a worker."""
        if not work:
            return
        task = ScanTask(self._text, [json.dumps(each) for each in work])
        for tries in range(1, _TRIES + 1):
            try:
                self._session.sparkContext.setJobGroup(self._group, "times of the inputs", True)
                for number, piece, found in self._session.range(0, len(work), 1, len(work)).mapInArrow(task, _SCHEMA).collect():
                    self.files.write(number, piece, Piece.of_json(found))
                return
            except JVM_ERRORS as error:
                if self._stopped.is_set():
                    return
                text = error_text(error)
                failure = failure_of(text, self._log)
                if (diagnostics := decode_diagnostics(text)) is not None:
                    raise CarriedDiagnostics(encode_diagnostics(diagnostics, lasting=isinstance(failure, InputLost))) from None
                if tries == _TRIES:
                    raise Refused([_failed_scan(str(failure))]) from None
                _LOG.warning("The times of the inputs could not be read: %s. It is tried again (try %d of %d).", failure, tries, _TRIES)
                self._stopped.wait(tries)


def _failed_scan(why: str) -> Diagnostic:
    hint = "The same command goes on from the checkpoint."
    return Diagnostic(FAILED_SCAN, f"the times of the inputs could not be read by tasks: {why}", None, hint)


def _last_offset(job: Job, log: str) -> Offset | None:
    """The offset of the last batch of a log of the query; None without one."""
    run = Location.of(job.run)
    last = last_number(run / log)
    if last is None:
        return None
    try:
        return Offset.of_log(run / "offsets" / str(last)).padded(len(job.inputs))
    except (OSError, ValueError, IndexError):  # it is being written, or was removed since
        return None


def _started(job: Job) -> Offset | None:
    """The offset at which the query of a job continues an earlier query; None for a first query."""
    return Offset.of_text(job.start) if job.start else None


@contextmanager
def indexing(session: SparkSession, job: Job) -> Iterator[None]:
    """Index the inputs of a job by tasks while the context is open, if the job has a granule.
    Raises RunFailed where the checkpoint cannot be written."""
    if not job.granule:
        yield
        return
    base = (_last_offset(job, "commits") or _started(job) or Offset.start(0)).padded(len(job.inputs))
    log = job.folder / "spark.log"
    try:
        scans = _IndexScans(session, job, base, log)
    except OSError as error:
        raise RunFailed(f"the checkpoint {log.parent} cannot be written: {error.strerror or error}") from None
    try:
        scans.start()
        yield
    finally:
        scans.stop()
