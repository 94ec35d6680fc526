"""The planner of growing inputs: a thread scans ahead, and a batch ends whenever instants have
closed."""

from __future__ import annotations

import gc
import json
import time
from threading import Condition, Thread
from typing import Final

from dotr.model.time import Micros
from dotr.runtimes.spark.checkpoint.figures import EVERY_SECONDS, InputFigures, read_due, write_inputs
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import BEGINNING, Cut, Offset
from dotr.runtimes.spark.exchange.task import PathsOfInput
from dotr.runtimes.spark.exchange.worker_cache import input_of
from dotr.runtimes.spark.planning.planned_topics import GrowingTail, PlannedTopics
from dotr.runtimes.spark.planning.planner import ScannedInput, ScannedPlan, feed_of_file
from dotr.streams.formats.segments import RECEIVED, SPOOL, Segments, spool_folder
from dotr.streams.merge.feeds import Feed, FilesFeed, InputPoint, SegmentsFeed
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.merge.folders import TAILED, GrowingInput
from dotr.streams.merge.journal import Journal, JournaledFiles
from dotr.streams.merge.live import Heartbeats
from dotr.streams.merge.paces import EventClock, NoRateLimit, PacedFeed, RateLimit
from dotr.streams.merge.replays import Rounds
from dotr.streams.merge.tails import NoFileYet, TailedFolder

_PAUSE_SECONDS: Final = 0.01
_OBJECTS: Final = 50_000
"""New objects between two garbage collections: messages have no cycles, and looking for them costs a
seventh of the planner's time."""

_TIMEOUT_SECONDS: Final = 0.1
"""Longest wait for closed instants before the planner returns an empty batch."""


class GrowingInputs:
    """The inputs of a job, some of them growing, from an offset on."""

    def __init__(self, job: Job, start: Offset, *, replanned: int | None = None) -> None:
        """`replanned`: the number of inputs in the offsets of a batch that is planned again; None
        for a new batch."""
        self._job = job
        folder = job.folder
        singles = len(job.inputs) - len(job.growing)
        self._growing: dict[int, JournaledFiles | Segments] = {}
        tails: dict[str, GrowingTail] = {}
        for number, text in enumerate(job.growing, singles):
            pattern, settle, idle, watching = json.loads(text)
            if pattern.startswith(TAILED):
                file = input_of(job, number)
                growing = GrowingInput(file, pattern.removeprefix(TAILED), settle, idle, tail=True, watching=watching)
                tails[file.input] = GrowingTail(growing)
        self.topics = PlannedTopics(job, start, replanned=replanned, tails=tails, copies=self._growing)
        start = start.padded(len(job.inputs))
        files = [input_of(job, number) for number in range(len(job.inputs))]
        done = {files[number].input: start.positions[number].file for number in range(singles, len(files))}
        journal = Journal(job.home, done)
        paces: dict[str, RateLimit | NoRateLimit] = {name: RateLimit(rate) for name, rate in job.rates}
        clocks = {name: EventClock(pace) for name, pace in job.paces}
        heartbeats = None if job.clock_delay is None else Heartbeats(job.clock_delay)
        replayed = [file for file in files[:singles] if file.replayed is not None]
        self._rounds = {number: Rounds(file) for number, file in enumerate(files[:singles]) if file.replayed and file.replayed.every}
        if clocks and (heartbeats is not None or replayed):
            paced = list(clocks) if heartbeats is not None else list({file.input for file in replayed})
            begin = files[:singles] if heartbeats is not None else replayed
            shared = EventClock.of_files(dict(job.paces)[paced[0]], begin if start.time == BEGINNING else ())
            if start.time > BEGINNING:  # where an earlier run has stopped
                shared.reached(start.time, time.monotonic())
            clocks |= dict.fromkeys(paced, shared)
            if heartbeats is not None:
                heartbeats.machine = lambda: shared.time(time.monotonic())
        scanned = []
        for number, (file, position) in enumerate(zip(files, start.positions[: len(files)], strict=True)):
            idle = None
            feed: Feed
            source: TailedFolder | JournaledFiles | Segments | None = None
            bounded = number < singles
            if bounded:
                feed = feed_of_file(file, position)
            else:
                pattern, settle, idle, watching = json.loads(job.growing[number - singles])
                known = [FoundFile(other.path, other.mark) for other in files[:singles] if other.input == file.input]
                growing = GrowingInput(file, pattern, settle, idle)
                start_point = InputPoint(position.file, position.offset, position.line)
                if file.input in tails:
                    source = tails[file.input].folder
                    feed = NoFileYet(source)
                elif pattern == RECEIVED:
                    source = self._growing[number] = Segments(file, spool_folder(folder, file.input))
                    feed = SegmentsFeed(source, start_point)
                else:
                    watched = JournaledFiles(growing, journal, known, watching=watching) if pattern else None
                    source = self._growing[number] = watched or Segments(file, folder / SPOOL, framed=False)
                    feed = FilesFeed(source, start_point, elements=False)
            pace = paces.setdefault(file.input, NoRateLimit())
            if file.input in clocks:
                feed = PacedFeed(feed, clocks[file.input])
            scanned.append(
                ScannedInput.starting_at(
                    position,
                    feed,
                    file.delay,
                    single=file.single,
                    idle=idle,
                    pace=pace,
                    bounded=bounded,
                    name=file.input,
                    apart=file.apart,
                    is_drained=None if source is None or isinstance(source, Segments) else source.is_drained,
                    spooled=source.drained if isinstance(source, Segments) else None,
                )
            )
        start = self.topics.padded(start)
        partitions = range(len(job.inputs), len(start.positions))
        self._paces, self._clocks = paces, clocks
        scanned += [self.topics.scanned(number, start.positions[number], paces, clocks) for number in partitions]
        self.plan = ScannedPlan(scanned, start, job.batch, job.tasks, heartbeats=heartbeats)

    def add_appeared(self) -> None:
        """Add the partitions that have appeared, after they are noted in the journal."""
        for number, position in self.topics.appeared(self.plan.offset.time):
            self.plan.add(self.topics.scanned(number, position, self._paces, self._clocks), position)

    def padded(self, offset: Offset, count: int | None = None) -> Offset:
        """The offset with first positions for inputs that it lacks: for all, or up to `count`
        inputs."""
        return self.topics.padded(offset.padded(len(self._job.inputs)), count)

    @property
    def paths(self) -> PathsOfInput:
        """The files of growing inputs by number."""

        def paths(number: int, first: int, last: int) -> tuple[FoundFile, ...]:
            if number in self._rounds:
                return self._rounds[number].paths(first, last)
            source = self._growing.get(number)
            if isinstance(source, Segments):
                return tuple(map(FoundFile, source.paths(first, last)))
            return () if source is None else source.paths(first, last)

        return paths

    def release(self, before: Offset) -> None:
        """Remove copied input before an offset, before which no batch is planned again."""
        for number, source in self._growing.items():
            if isinstance(source, Segments) and number < len(before.positions):
                source.remove(before.positions[number].file)

    def close(self) -> None:
        """Close open files and clients."""
        for each in self.plan.inputs:
            each.channel.feed.close()
        self.topics.close()


class Scanner:
    """Scans the inputs of a job in a thread, and returns batches as instants close."""

    def __init__(self, job: Job, start: Offset) -> None:
        self.inputs = GrowingInputs(job, start)
        self._plan = self.inputs.plan
        self._max_pending = 3 * job.batch
        self._changed = Condition()
        self._stopped = False
        self._next_write = 0.0
        self._folder = job.folder
        self._failure: BaseException | None = None
        self._topics_planned = bool(job.topics)
        self._due: tuple[Micros | None] | None = None  # None: it is not read yet, or a batch is under way that changes it
        if self._plan.heartbeats is not None:
            self._plan.heartbeats.due = lambda: None if self._due is None else self._due[0]
        Thread(target=self._scan, daemon=True).start()

    @property
    def offset(self) -> Offset:
        """The end of the last batch."""
        return self._plan.offset

    def is_at(self, offset: Offset) -> bool:
        """True if the last batch ends at an offset, which may lack partitions that are new
        since."""
        with self._changed:
            return self._plan.offset == self.inputs.padded(offset)

    def _scan(self) -> None:
        try:
            if self._topics_planned:
                gc.freeze()
                gc.set_threshold(_OBJECTS)
            self.inputs.topics.watch()
            while True:
                self._write_watermarks()
                with self._changed:
                    if self._stopped:  # within the lock, since after a stop another scanner writes the journal
                        return
                    machine = None if self._plan.heartbeats is None else self._plan.heartbeats.machine()
                    self.inputs.add_appeared()
                    read = self._plan.scan(full=self._plan.pending >= self._max_pending, machine=machine)
                    self._changed.notify_all()
                    if not read:
                        self._changed.wait(_PAUSE_SECONDS)
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _write_watermarks(self) -> None:
        """Write the watermarks of the inputs at intervals."""
        if time.monotonic() >= self._next_write:
            self._next_write = time.monotonic() + EVERY_SECONDS
            channels = [each.channel for each in self._plan.inputs]
            watermarks = [(channel.name, channel.lateness.passed, channel.feed.ended) for channel in channels]
            beats = self._plan.heartbeats
            heartbeat = beats.last if beats is not None and beats.last > BEGINNING else None
            ahead = next((each.ahead for each in self._plan.inputs if each.ahead is not None), None)
            write_inputs(self._folder, InputFigures(watermarks, self.inputs.topics.connections(), heartbeat, ahead))

    def batch(self) -> list[Cut]:
        """The cuts of the next batch; empty where no instant closes within 0.1 s."""
        with self._changed:
            deadline = time.monotonic() + _TIMEOUT_SECONDS
            while not (cuts := self._cuts()) and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            return cuts

    def _cuts(self) -> list[Cut]:
        if self._failure is not None:
            raise self._failure
        if self._due is None and self._plan.heartbeats is not None:
            self._due = (read_due(self._folder),)
        cuts = self._plan.cuts()
        if cuts:
            self._due = None
        return cuts

    def stop(self) -> None:
        """Stop scanning."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self.inputs.topics.stop()
