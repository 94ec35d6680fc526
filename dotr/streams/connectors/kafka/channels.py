"""Kafka inputs of a run in process: each partition, also a later one, is a channel of the merge."""

from __future__ import annotations

from collections.abc import Iterator

from dotr.streams.connectors.kafka.client import ClientEvents
from dotr.streams.connectors.kafka.cluster import Cluster, NoResponse
from dotr.streams.connectors.kafka.feed import KafkaFeed
from dotr.streams.connectors.kafka.reader import TopicReader
from dotr.streams.connectors.kafka.topic_watch import TopicWatch
from dotr.streams.connectors.kafka.topics import KafkaInput, LostRange, Partition
from dotr.streams.failures import InputFailed
from dotr.streams.lateness import Lateness
from dotr.streams.merge.live import Channel
from dotr.streams.merge.paces import EventClock, PacedFeed
from dotr.streams.merge.rate_limits import NoRateLimit, RateLimit

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
        lateness = Lateness(topics.like.delay, single=topics.like.single)
        return Channel(
            feed if self._clock is None else PacedFeed(feed, self._clock),
            lateness,
            topics.idle,
            self._pace,
            name=topics.name,
            is_behind=feed.is_behind,
            ahead=max(1, _AHEAD // self._count),
        )


def _continue_behind(partition: Partition, lost: LostRange) -> None:
    """Does nothing: the queue keeps the range, and its record becomes a dead letter."""
