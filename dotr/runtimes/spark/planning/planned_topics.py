"""Kafka inputs and files that go on in the planner: their partitions, and series of files, numbered
by the journal behind the other inputs.

A new partition is noted in the journal before it is part of an offset. Its records for instants
that have closed by then are rejected as idle, or as behind the pipeline's clock: its first position
has a floor at its first offset, up to the time at which its first batch starts. So this position is
a function of the journal and the previous offset, and a batch can be planned again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from dotr.evaluation.files.private_files import replace_file
from dotr.model.time import Micros
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, Floor, InputPosition, Offset
from dotr.runtimes.spark.exchange.task import RangePartition
from dotr.runtimes.spark.exchange.worker_cache import topics_of
from dotr.runtimes.spark.planning.planner import ScannedInput
from dotr.streams.connectors.kafka.client import ClientEvents
from dotr.streams.connectors.kafka.cluster import Cluster, TopicWatch, check_identities, data_lost
from dotr.streams.connectors.kafka.feed import KafkaFeed
from dotr.streams.connectors.kafka.reader import TopicReader
from dotr.streams.connectors.kafka.topics import SERIES, KafkaInput, LostRange, Partition, PartitionJournal
from dotr.streams.formats.segments import MARK, TOLD, Segments, SeriesMark, spool_folder, told_segment
from dotr.streams.merge.feeds import Feed, FilesFeed, InputPoint
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.merge.journal import JournaledFiles
from dotr.streams.merge.paces import EventClock, NoRateLimit, PacedFeed, RateLimit
from dotr.streams.merge.tails import FileSeries, TailedFolder
from dotr.streams.records import InputFile


class PlannedTopics:
    """The partitions of a job's Kafka inputs, and the series of files of its inputs that go on.

    `tails`: the folders of the latter by name of input, `copies` the copied segments by number of
    input, to which those of the series are added. `replanned`: the number of inputs in the offsets
    of a batch that is planned again, where messages that the broker has lost since end the run;
    None for a new batch, where nothing connects before `watch`. The constructor raises `Refused`
    where a client cannot be made.
    """

    def __init__(
        self,
        job: Job,
        start: Offset,
        *,
        replanned: int | None = None,
        tails: Mapping[str, GrowingTail] | None = None,
        copies: MutableMapping[int, JournaledFiles | Segments] | None = None,
    ) -> None:
        self._first = len(job.inputs)
        self._folder = job.folder
        self._tails = tails or {}
        self._copies = {} if copies is None else copies
        self._replanned = replanned
        self._inputs: dict[str, _PlannedInput] = {}
        self._by_clock = job.clock_delay is not None
        if not job.topics and not self._tails:
            self._journal: PartitionJournal | None = None
            return
        self._journal = PartitionJournal(job.home)
        for topics in topics_of(job):
            self._inputs[topics.name] = _PlannedInput(topics, self._journal, replanned=replanned is not None)

    def padded(self, offset: Offset, count: int | None = None) -> Offset:
        """The offset with first positions for partitions that it lacks, up to `count` inputs in all
        (None: those of the journal, or those of the batch that is planned again)."""
        count = self._replanned if count is None else count
        if self._journal is None:
            return offset
        known = [partition for _, partition in self._journal.entries]
        new = known[len(offset.positions) - self._first : None if count is None else count - self._first]
        return replace(
            offset, positions=(*offset.positions, *[_first_position(each, offset.time, by_clock=self._by_clock) for each in new])
        )

    def scanned(
        self,
        number: int,
        position: InputPosition,
        paces: MutableMapping[str, RateLimit | NoRateLimit],
        clocks: Mapping[str, EventClock],
    ) -> ScannedInput:
        """A partition as a scanned input from a position on."""
        assert self._journal is not None
        name, partition = self._journal.entries[number - self._first]
        if name in self._tails:
            return self._series(number, name, partition, position, paces, clocks)
        planned = self._inputs[name]
        like = planned.topics.like
        start = (partition.end or 0) if position.offset == END else position.offset
        feed = KafkaFeed(planned.reader, partition, start, self._journal.lost(number - self._first), elements=False)
        pace = paces.setdefault(name, NoRateLimit())
        return ScannedInput.starting_at(
            position,
            PacedFeed(feed, clocks[name]) if name in clocks else feed,
            like.delay,
            single=like.single,
            idle=planned.topics.idle,
            pace=pace,
            bounded=partition.end is not None,
            name=name,
            partition=feed,
            apart=like.apart,
            is_drained=feed.is_drained,
        )

    def _series(
        self,
        number: int,
        name: str,
        partition: Partition,
        position: InputPosition,
        paces: MutableMapping[str, RateLimit | NoRateLimit],
        clocks: Mapping[str, EventClock],
    ) -> ScannedInput:
        """A series of files as a scanned input from a position on."""
        assert self._journal is not None
        like, tail = self._tails[name].growing.like, self._tails[name]
        ordinal = [own for own, _ in self._journal.entries[: number - self._first]].count(name)
        source = SpooledSeries(like, spool_folder(self._folder, name) / f"{ordinal:06d}")
        if self._replanned is None:
            source.copy(tail.folder, partition.topic)
        self._copies[number] = source
        feed: Feed = FilesFeed(source, InputPoint(position.file, position.offset, position.line), elements=False)
        return ScannedInput.starting_at(
            position,
            PacedFeed(feed, clocks[name]) if name in clocks else feed,
            like.delay,
            single=like.single,
            idle=tail.growing.idle,
            pace=paces.setdefault(name, NoRateLimit()),
            bounded=False,
            name=name,
            apart=like.apart,
            is_drained=tail.folder.is_drained,
        )

    def watch(self) -> None:
        """Start to poll for new partitions, after a check of the topics' identities. Waits until a
        broker answers, and raises `InputFailed` (S121) where a topic was replaced."""
        for each in self._inputs.values():
            each.check()
            each.watch()

    def appeared(self, closed: Micros) -> Iterator[tuple[int, InputPosition]]:
        """Number and first position of each partition that has appeared, once the journal names
        it."""
        inputs: dict[str, _PlannedInput | GrowingTail] = {**self._inputs, **self._tails}
        for name, planned in inputs.items():
            partitions = planned.appeared()
            if partitions:
                assert self._journal is not None
                number = self._first + len(self._journal.entries)
                self._journal.add(name, partitions)
                for further, each in enumerate(partitions):
                    yield number + further, _first_position(each, closed, by_clock=self._by_clock)

    def partition(self, number: int) -> RangePartition | None:
        """The partition with the number of an input; None for files."""
        if self._journal is None or number < self._first:
            return None
        name, partition = self._journal.entries[number - self._first]
        return RangePartition(name, partition.topic, partition.number, partition.end, self._journal.lost(number - self._first))

    def connections(self) -> dict[str, bool]:
        """The connections by name of input: True if a broker answers."""
        return {name: planned.events.is_connected for name, planned in self._inputs.items()}

    def check_failures(self) -> None:
        """Raise `InputFailed` where a watch has found a lasting error."""
        for each in self._inputs.values():
            each.events.check()

    def stop(self) -> None:
        """Stop polling."""
        for each in self._inputs.values():
            each.stop()

    def close(self) -> None:
        """Close the clients."""
        self.stop()
        for each in self._inputs.values():
            each.reader.close()
        for tail in self._tails.values():
            tail.folder.close()


def _first_position(partition: Partition, closed: Micros, *, by_clock: bool = False) -> InputPosition:
    """The position of a partition before its first record, where instants up to a time (µs) have
    closed without it.

    >>> _first_position(Partition("t", 0, "", 5), 7).floors
    (Floor(file=0, offset=5, until=7, by_clock=False),)
    """
    floors = (Floor(0, partition.first, closed, by_clock),) if closed > BEGINNING else ()
    return InputPosition(partition.first, partition.first if partition.number >= 0 else 1, BEGINNING, 0, floors)


class GrowingTail:
    """An input of files that go on in the planner."""

    def __init__(self, growing: GrowingInput) -> None:
        self.growing = growing
        self.folder = TailedFolder(growing, block=_SEGMENT_BYTES)

    def appeared(self) -> list[Partition]:
        """The series that have appeared since the last call, as partitions."""
        return [Partition(series.name, SERIES, "", 0) for series in self.folder.appeared()]


_SEGMENT_BYTES: Final = 1 << 20


class SpooledSeries(Segments):
    """The segments of a series of files: a copy in the checkpoint of the records that were read, so
    that a batch can be read again.

    Idea: a segment holds a piece of one file, under its head. The file `mark` has the number of the
    next segment, the names of the files of segments, and the state of all files behind the last
    one; it is replaced once a segment is on the disk, so that a crash repeats the segment or
    nothing.
    """

    def __init__(self, like: InputFile, folder: Path) -> None:
        super().__init__(like, folder, framed=False)
        self.like = replace(like, framed=False)  # a segment begins with the lines that are skipped, too
        self._mark = SeriesMark.of(folder)
        self._series: FileSeries | None = None
        self._removed = 0

    def copy(self, folder: TailedFolder, name: str) -> None:
        """Copy the records of a series from its mark on, where they are read."""
        self._series = folder.series.get(name) or folder.restore(name, self._mark.files)

    def file(self, number: int) -> InputFile | None:
        """Segment of this number, which is copied now if it is the next one; None where no record
        has come."""
        series = self._series
        if number >= self._mark.next and (series is None or not self._copy(series)):
            self.closed = series is not None and series.ended
            return None
        found = super().file(number)
        self.closed = series is not None and series.ended
        return found

    def _copy(self, series: FileSeries) -> bool:
        """Copy the next records; False where there are none."""
        piece = series.next_piece()
        if piece is None:
            return False
        number, sources = self._mark.next, list(self._mark.sources)
        text = piece.head + piece.data if piece.told is None else told_segment(piece.told)
        suffix = f".{self.like.format.value}" if piece.told is None else TOLD
        lines = piece.data.count(b"\n")
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._folder / f"{number:012d}-{piece.line:012d}-{piece.line + lines:012d}{suffix}", [text], sync=True)
        if not sources or sources[-1][1:] != [piece.name, piece.head.count(b"\n")]:
            sources.append([number, piece.name, piece.head.count(b"\n")])
        while len(sources) > 1 and sources[1][0] <= self._removed:
            del sources[0]
        self._mark = SeriesMark(number + 1, sources, [file.to_json() for file in series.known])
        replace_file(self._folder / MARK, [json.dumps(self._mark).encode()], sync=True)
        return True

    def remove(self, before: int) -> None:
        """Delete the segments before a number."""
        super().remove(before)
        self._removed = before


class _PlannedInput:
    """One Kafka input in the planner: its client, and the watch over its topics."""

    def __init__(self, topics: KafkaInput, journal: PartitionJournal, *, replanned: bool) -> None:
        self.topics = topics
        self.events = ClientEvents(topics)
        self._journal = journal
        self._replanned = replanned
        self.reader = TopicReader(topics, self.events, self._on_loss)
        self._watch: TopicWatch | None = None
        if replanned:
            self.check()

    def _on_loss(self, partition: Partition, lost: LostRange) -> None:
        if self._replanned:
            raise data_lost(self.topics, partition, *lost)
        self._journal.add_lost(self._journal.number(self.topics.name, partition), lost)

    @property
    def _partitions(self) -> list[Partition]:
        return [each for name, each in self._journal.entries if name == self.topics.name]

    def check(self) -> None:
        """Check that no topic was replaced by another one of its name."""
        cluster = Cluster(self.topics, self.events)
        found = cluster.request(cluster.partitions)
        check_identities(cluster, self._partitions, {each.key: each.identity for each in found})

    def watch(self) -> None:
        """Start to poll for new partitions."""
        self._watch = TopicWatch(Cluster(self.topics, self.events), self._partitions)

    def appeared(self) -> list[Partition]:
        """The partitions that have appeared since the last call."""
        return [] if self._watch is None else self._watch.appeared()

    def stop(self) -> None:
        """Stop polling."""
        if self._watch is not None:
            self._watch.stop()
