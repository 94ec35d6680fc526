"""Kafka inputs in the planner: their partitions, numbered by the journal behind the other inputs.

A new partition is noted in the journal before it is part of an offset. Its records for instants
that have closed by then are rejected as idle: its first position has a floor at its first offset,
up to the time at which its first batch starts. So this position is a function of the journal and
the previous offset, and a batch can be planned again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

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
from dotr.streams.connectors.kafka.topics import KafkaInput, LostRange, Partition, PartitionJournal
from dotr.streams.merge.paces import EventClock, NoRateLimit, PacedFeed, RateLimit


class PlannedTopics:
    """The partitions of a job's Kafka inputs.

    `replanned`: the number of inputs in the offsets of a batch that is planned again, where
    messages that the broker has lost since end the run; None for a new batch, where nothing
    connects before `watch`. The constructor raises `Refused` where a client cannot be made.
    """

    def __init__(self, job: Job, folder: Path, start: Offset, *, replanned: int | None = None) -> None:
        self._first = len(job.inputs)
        self._replanned = replanned
        self._inputs: dict[str, _PlannedInput] = {}
        if not job.topics:
            self._journal: PartitionJournal | None = None
            return
        self._journal = PartitionJournal(folder)
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
        return Offset(offset.time, (*offset.positions, *[_first_position(each, offset.time) for each in new]))

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
        for name, planned in self._inputs.items():
            partitions = planned.appeared()
            if partitions:
                assert self._journal is not None
                number = self._first + len(self._journal.entries)
                self._journal.add(name, partitions)
                for further, each in enumerate(partitions):
                    yield number + further, _first_position(each, closed)

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


def _first_position(partition: Partition, closed: Micros) -> InputPosition:
    """The position of a partition before its first record, where instants up to a time (µs) have
    closed without it.

    >>> _first_position(Partition("t", 0, "", 5), 7)
    InputPosition(offset=5, line=5, greatest=-4611686018427387904, file=0, floors=(Floor(file=0, offset=5, until=7),), shift=0)
    """
    floors = (Floor(0, partition.first, closed),) if closed > BEGINNING else ()
    return InputPosition(partition.first, partition.first, BEGINNING, 0, floors)


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
