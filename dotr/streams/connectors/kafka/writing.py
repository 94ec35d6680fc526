"""Writing of messages to a topic, shared by transactions and plain producers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from dotr.model.stream import DeadLetter
from dotr.streams.connectors.kafka.partitions import partitioner
from dotr.streams.connectors.kafka.producer import OVERHEAD_BYTES, ProducerEvents, TopicMetadata, producer, topic_metadata
from dotr.streams.sinks.batches import Check
from dotr.streams.sinks.destinations import KafkaDestination
from dotr.streams.sinks.messages import Encoder, OutgoingMessage, too_long

if TYPE_CHECKING:
    from confluent_kafka import Producer

T = TypeVar("T")

_SMALLEST_BYTES = 1_000
"""The least value of librdkafka's `message.max.bytes`."""


class TopicWriter(Generic[T]):
    """Writer of messages to a topic; `fetch_metadata` is called before all else.

    `new_encoder` returns the encoder of a batch.
    """

    def __init__(self, destination: KafkaDestination, new_encoder: Callable[[], Encoder[T]]) -> None:
        self.destination = destination
        self.events = ProducerEvents(destination)
        self.new_encoder = new_encoder
        self._metadata = TopicMetadata(1, 1)
        self._most_bytes = 0
        self._partition: Callable[[OutgoingMessage], int] = partitioner(1)

    def fetch_metadata(self, check: Check) -> None:
        """Request partitions and limits of the topic; raises `TopicFailed` (S125, S126)."""
        self._metadata = metadata = topic_metadata(self.destination, self.events, check)
        given = dict(self.destination.properties).get("message.max.bytes", "")
        most = min(metadata.most_bytes, int(given)) if given.isdecimal() else metadata.most_bytes
        self._most_bytes = max(most, _SMALLEST_BYTES)
        self._partition = partitioner(metadata.partitions)

    def producer(self, further: Mapping[str, str | int | bool]) -> Producer:
        """A new producer, whose messages and batches of them do not exceed the topic's limit."""
        most = self._most_bytes
        given = dict(self.destination.properties).get("batch.size", "")
        sizes = {"message.max.bytes": most, "batch.size": min(most, int(given)) if given.isdecimal() else min(most, 1_000_000)}
        return producer(self.destination, self.events, {**sizes, **further})

    def send(self, client: Producer, blocks: Iterable[Sequence[T]], check: Check) -> list[DeadLetter]:
        """Send all messages of a batch; returns the dead letters of those that are too long."""
        encode = self.new_encoder()
        rejected: list[DeadLetter] = []
        for block in blocks:
            rejected += self.send_block(client, encode, block, check)
            client.poll(0)
        return rejected

    def send_block(self, client: Producer, encode: Encoder[T], block: Sequence[T], check: Check) -> list[DeadLetter]:
        """Send the messages of a block; returns the dead letters of those that are too long. Waits
        while the queue of the producer is full.
        """
        destination, partition, most = self.destination, self._partition, self._most_bytes - OVERHEAD_BYTES
        topic, event_time = destination.topic, destination.event_time
        produce = client.produce
        rejected: list[DeadLetter] = []
        for message in encode(block):
            body, headers, key, _, time = message
            if len(body) + (0 if key is None else len(key)) > most:
                rejected.append(too_long(message, str(destination), self._most_bytes))
                continue
            # librdkafka replaces 0 by the clock's time
            stamp = max(1, time // 1_000) if event_time and time is not None else 0
            while True:
                try:
                    produce(topic, body, key, partition(message), timestamp=stamp, headers=headers)
                    break
                except BufferError:
                    client.poll(0.1)
                    self.events.waiting(check)
        return rejected

    def too_long(self, blocks: Iterable[Sequence[T]]) -> list[DeadLetter]:
        """The dead letters of the messages of a batch that are too long, without sending any."""
        encode, most = self.new_encoder(), self._most_bytes - OVERHEAD_BYTES
        name = str(self.destination)
        return [
            too_long(message, name, self._most_bytes)
            for block in blocks
            for message in encode(block)
            if len(message.body) + len(message.key or b"") > most
        ]
