"""Ranges of offsets in a worker: a task fetches the messages of its ranges from the broker.

A worker keeps its client, made after the fork, and assigns the partitions of all ranges at once, so
that a task waits once for the broker. A range is complete, or the task fails. Messages that
retention has removed since the plan are data loss (S120), whatever is configured, since a planned
batch is never repeated with fewer messages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dotr.model import dataclass
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import END
from dotr.runtimes.spark.exchange.task import InputRange, RangePartition
from dotr.runtimes.spark.exchange.worker_cache import topics_of
from dotr.streams.connectors.kafka.client import ClientEvents
from dotr.streams.connectors.kafka.cluster import another_topic, data_lost
from dotr.streams.connectors.kafka.feed import KafkaFeed, partition_file, record_decoder, with_lost
from dotr.streams.connectors.kafka.reader import MOST_WAITING, PartitionQueue, TopicReader
from dotr.streams.connectors.kafka.topics import KafkaInput, LostRange, Partition
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import InputFile, Record

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

_WAIT_SECONDS: Final = 0.1
_SHORT_SECONDS: Final = 15.0
"""Seconds after which a partition that ends before a planned range is taken for another one. A broker
that has just started may report an earlier end for a while."""

_CHUNK: Final = 1_000
_ALL: Final = 1 << 40

_READERS: Final[dict[tuple[int, str, int], TopicReader]] = {}
"""Clients by process, input, and messages that may wait."""


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """The messages of a range, and the partition as a file."""

    file: InputFile
    start: int
    stop: int
    messages: Sequence[KafkaMessage]
    lost: Sequence[LostRange]

    def records(self, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
        """The records of the range, with elements for the `time_filter` times."""
        records = self._decoded(time_filter)
        return with_lost(records, self.start, self.stop, self.lost) if self.lost else records

    def _decoded(self, time_filter: TimeFilter) -> Iterator[Record]:
        decode = record_decoder(self.file, time_filter)
        for message in self.messages:
            yield from decode(message, True)


def fetched_ranges(job: Job, ranges: Sequence[InputRange]) -> dict[int, FetchedRange]:
    """The ranges of partitions by number of input. Raises `InputFailed` where one is incomplete."""
    found: dict[int, FetchedRange] = {}
    for topics, text in zip(topics_of(job), job.topics, strict=True):
        own = [(each, each.partition) for each in ranges if each.partition is not None and each.partition.name == topics.name]
        if own:
            found |= _fetched(_reader(topics, text), topics, own)
    return found


def scanned_records(job: Job, partition: RangePartition, start: int, stop: int) -> Generator[Record]:
    """The records of a partition between two offsets without elements, for a scan of their times.
    Raises `InputFailed` where some are missing."""
    topics, text = next(each for each in zip(topics_of(job), job.topics, strict=True) if each[0].name == partition.name)
    reader = _reader(topics, text, MOST_WAITING)
    feed = KafkaFeed(reader, Partition(partition.topic, partition.number, "", start, stop), start, elements=False)
    quiet_since: float | None = None
    try:
        while not feed.ended:
            chunk = feed.read(_CHUNK)
            if chunk is not None:
                quiet_since = None
                yield from chunk.records
            elif not feed.ended and not reader.fetch(_WAIT_SECONDS) and feed.is_at_end:
                quiet_since = quiet_since or time.monotonic()
                if time.monotonic() - quiet_since > _SHORT_SECONDS:
                    short = Partition(partition.topic, partition.number, "", start, stop)
                    raise another_topic(topics, short, f"its records up to {stop:,} are needed, and it ends at {feed.end.offset:,}")
    finally:
        feed.close()


def _reader(topics: KafkaInput, text: str, most: int = _ALL) -> TopicReader:
    key = os.getpid(), text, most
    if key not in _READERS:

        def refuse_loss(partition: Partition, lost: LostRange) -> None:
            raise data_lost(topics, partition, *lost)

        _READERS[key] = TopicReader(topics, ClientEvents(topics), refuse_loss, most)
    return _READERS[key]


def _fetched(reader: TopicReader, topics: KafkaInput, ranges: Sequence[tuple[InputRange, RangePartition]]) -> dict[int, FetchedRange]:
    queues: list[tuple[InputRange, PartitionQueue, list[KafkaMessage]]] = []
    try:
        for each, place in ranges:
            stop = place.end if each.stop == END else each.stop
            assert stop is not None
            queue = PartitionQueue(Partition(place.topic, place.number, "", each.offset, stop), each.offset, place.lost)
            queues.append((each, queue, []))
            reader.add(queue)
        _wait_for(reader, topics, queues)
    finally:
        for _, queue, _ in queues:
            reader.remove(queue)
    return {
        each.input: FetchedRange(
            partition_file(topics, queue.partition.place), each.offset, queue.partition.end or 0, messages, each.partition.lost
        )
        for each, queue, messages in queues
        if each.partition is not None
    }


def _wait_for(reader: TopicReader, topics: KafkaInput, queues: Sequence[tuple[InputRange, PartitionQueue, list[KafkaMessage]]]) -> None:
    """Fetch until all queues are complete; raises `InputFailed` where the partition of one is too
    short."""
    quiet_since: float | None = None
    while missing := [queue for _, queue, _ in queues if queue.fetched < (queue.partition.end or 0)]:
        if reader.fetch(_WAIT_SECONDS):
            quiet_since = None
        for _, queue, messages in queues:
            if queue.messages:
                messages += queue.messages
                queue.messages.clear()
        short = next((queue for queue in missing if queue.is_at_end and queue.fetched < (queue.partition.end or 0)), None)
        if short is None:
            continue
        quiet_since = quiet_since or time.monotonic()
        if time.monotonic() - quiet_since > _SHORT_SECONDS:
            end, planned = short.fetched, short.partition.end
            raise another_topic(topics, short.partition, f"a batch needs its records up to {planned:,}, and it ends at {end:,}")
    for _, queue, messages in queues:
        messages += queue.messages
        queue.messages.clear()
