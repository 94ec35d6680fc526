"""Kafka inputs in process: each partition, also a later one, is a channel of the merge of a run, or
a file of a replay."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dotr.errors.diagnostics import InputFailed, Refused
from dotr.model.time import Unit
from dotr.streams.connectors.kafka.client import ClientEvents
from dotr.streams.connectors.kafka.cluster import Cluster, NoResponse, TopicWatch
from dotr.streams.connectors.kafka.feed import KafkaFeed, RecordDecoder, partition_file, record_decoder, with_lost
from dotr.streams.connectors.kafka.reader import PartitionQueue, TopicReader
from dotr.streams.connectors.kafka.topics import LATEST, KafkaInput, LostRange, Partition
from dotr.streams.lateness import Lateness
from dotr.streams.merge.live import Channel
from dotr.streams.merge.paces import EventClock, NoRateLimit, PacedFeed, RateLimit
from dotr.streams.records import InputFile, Record

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

_AHEAD = 10_000
"""Limit of the elements that an input may be read ahead of slower ones."""


class OpenedTopics:
    """A Kafka input whose cluster has answered: its partitions, with their first offsets.

    `patient`: the constructor waits until a broker answers. Raises `InputFailed` for permanent
    errors, and (S127) where it is not patient and no broker answers.
    """

    def __init__(self, topics: KafkaInput, *, patient: bool = True) -> None:
        self.topics = topics
        self.events = ClientEvents(topics)
        self.cluster = Cluster(topics, self.events)
        request = self.cluster.request if patient else self.cluster.request_once
        try:
            self.partitions: list[Partition] = request(lambda: self.cluster.resolved(self.cluster.partitions()))
        except NoResponse as error:
            message = f"input {topics.name}: no answer from {topics.servers}: {error}"
            raise InputFailed("S127", message, "Is bootstrap.servers right, and does the broker run?") from None


class TopicChannels:
    """The channels of an input's partitions, which share a client.

    `pace` limits the rate of the input; `clock` replays it at the speed of its times (None: not).
    """

    def __init__(self, opened: OpenedTopics, pace: RateLimit | NoRateLimit, clock: EventClock | None = None) -> None:
        self._opened = opened
        self._pace = pace
        self._clock = clock
        self._reader = TopicReader(opened.topics, opened.events, _continue_behind)
        self._watch = TopicWatch(opened.cluster, opened.partitions)
        self._count = len(opened.partitions)
        self.channels = [self._channel(partition) for partition in opened.partitions]

    @property
    def is_connected(self) -> bool:
        """True while a broker answers."""
        return self._opened.events.is_connected

    def appeared(self) -> Iterator[Channel]:
        """Channels of partitions that have appeared since the last call."""
        for partition in self._watch.appeared():
            self._count += 1
            yield self._channel(partition)

    def close(self) -> None:
        """Stop reading, and close the client."""
        self._watch.stop()
        self._reader.close()

    def _channel(self, partition: Partition) -> Channel:
        topics = self._opened.topics
        feed = KafkaFeed(self._reader, partition, partition.first)
        lateness = Lateness.of(topics.like)
        return Channel(
            feed if self._clock is None else PacedFeed(feed, self._clock),
            lateness,
            topics.idle,
            self._pace,
            name=topics.name,
            is_behind=feed.is_behind,
            is_drained=feed.is_drained,
            ahead=max(1, _AHEAD // self._count),
        )


def _continue_behind(partition: Partition, lost: LostRange) -> None:
    """Does nothing: the queue keeps the range, and its record becomes a dead letter."""


_CHUNK: Final = 500
_WAIT_SECONDS: Final = 0.05


class BoundedTopics:
    """A Kafka input up to its present end, for replays and checks of data.

    Each partition is read from its first offset to its end at the time of opening, even if the
    input is unbounded. Raises `Refused` where the broker does not answer, or answers with an error:
    there is no retry.
    """

    def __init__(self, topics: KafkaInput) -> None:
        try:
            self._opened = OpenedTopics(replace(topics, end=topics.end or LATEST), patient=False)
        except InputFailed as failed:
            raise Refused([failed.diagnostic]) from None

    @property
    def files(self) -> list[InputFile]:
        """The partitions as files of the input."""
        return [partition_file(self._opened.topics, partition.place) for partition in self._opened.partitions]

    def has_date_times(self) -> bool:
        """True if the first readable record has a date-time."""
        probe = TimeProbe(self._opened)
        try:
            while (found := probe.has_date_times()) is None and not probe.is_ended:
                probe.wait(_WAIT_SECONDS)
        finally:
            probe.close()
        return bool(found)

    def values(self, file: InputFile) -> Iterator[tuple[int, bytes]]:
        """The offset and the value of each message of one of the files, as `records`."""
        for record in self.records(file, decode=_undecoded):
            yield record.offset, record.raw

    def records(self, file: InputFile, *, elements: bool = True, decode: RecordDecoder | None = None) -> Generator[Record]:
        """The records of one of the files; raises `Refused` where they cannot be read."""
        partition = next(each for each in self._opened.partitions if each.place == file.path)
        topics = self._opened.topics
        reader = TopicReader(topics, ClientEvents(topics), lambda partition, lost: None)
        queue = PartitionQueue(partition, partition.first)
        decode = decode or record_decoder(file)
        try:
            reader.add(queue)
            while not queue.is_ended:
                start, lost_before = queue.next, len(queue.lost)
                messages = reader.take(queue, _CHUNK)
                queue.next = (messages[-1].offset() or 0) + 1 if queue.messages else queue.fetched
                records = (record for message in messages for record in decode(message, elements))
                yield from with_lost(records, start, queue.next, queue.lost) if queue.lost else records
                if not messages and lost_before == len(queue.lost):
                    reader.fetch(_WAIT_SECONDS)
        except InputFailed as failed:
            raise Refused([failed.diagnostic]) from None
        finally:
            reader.close()


def _undecoded(message: KafkaMessage, elements: bool) -> Iterable[Record]:
    """The value of a message, as a record without an element."""
    offset, value = message.offset(), message.value()
    assert isinstance(offset, int)
    return [Record(offset, offset + 1, offset, None, None, value.encode() if isinstance(value, str) else value or b"")]


_PROBED = 100


class TimeProbe:
    """A separate client that reads, without blocking, until it has found a time other than 0: by
    the first readable record, whether the times of an input are date-times or integers.

    Each message is decoded with integers as µs, and again as days: an integer has two times, a
    date-time one.
    """

    def __init__(self, opened: OpenedTopics) -> None:
        topics = replace(opened.topics, fails_on_loss=False)  # the run itself reports deleted ranges
        self._reader = TopicReader(topics, ClientEvents(topics), lambda partition, lost: None)
        self._queues: list[tuple[PartitionQueue, RecordDecoder, RecordDecoder]] = []
        self._found: bool | None = None
        for partition in opened.partitions:
            file = partition_file(topics, partition.place)
            fine, coarse = (record_decoder(replace(file, unit=unit)) for unit in (Unit.MICROSECOND, Unit.DAY))
            queue = PartitionQueue(partition, partition.first)
            self._queues.append((queue, fine, coarse))
            self._reader.add(queue)

    def has_date_times(self) -> bool | None:
        """True for a date-time, False for an integer, None where no record has decided yet."""
        for queue, fine, coarse in self._queues:
            for message in self._reader.take(queue, _PROBED):
                for one, other in zip(fine(message, True), coarse(message, True), strict=True):
                    if one.time != other.time:
                        return False
                    if one.time:  # not midnight of 1970-01-01, which may be an integer too
                        return True
        return None

    def wait(self, seconds: float) -> None:
        """Wait `seconds` at most for a first message."""
        self._reader.fetch(seconds)

    @property
    def is_ended(self) -> bool:
        """True if every partition is bounded and was taken to its end."""
        return all(
            queue.partition.end is not None and not queue.messages and queue.fetched >= queue.partition.end for queue, _, _ in self._queues
        )

    def close(self) -> None:
        """Close the client."""
        self._reader.close()
