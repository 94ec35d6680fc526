"""Writing of messages to a topic: what transactions and plain producers have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from dotr.model.stream import DeadLetter
from dotr.sinks.batches import Check
from dotr.sinks.destinations import KafkaDestination
from dotr.sinks.kafka.client import OVERHEAD_BYTES, ProducerEvents, TopicFacts, producer, topic_facts
from dotr.sinks.kafka.partitions import partitioner
from dotr.sinks.messages import Encoder, OutgoingMessage, too_long

if TYPE_CHECKING:
    from confluent_kafka import Producer

T = TypeVar("T")

_SMALLEST_BYTES = 1_000
"""The least that librdkafka takes as `message.max.bytes`."""


class TopicWriter(Generic[T]):
    """A topic with its partitions, and messages on their way to it.

    `new_encoder` gives the encoder of a batch.
    """

    def __init__(self, destination: KafkaDestination, new_encoder: Callable[[], Encoder[T]]) -> None:
        self.destination = destination
        self.events = ProducerEvents(destination)
        self.new_encoder = new_encoder
        self._facts = TopicFacts(1, 1)
        self._most_bytes = 0
        self._partition: Callable[[OutgoingMessage], int] = partitioner(1)

    def look(self, check: Check) -> None:
        """Find the partitions of the topic; raises `TopicFailed` (S125, S126)."""
        self._facts = facts = topic_facts(self.destination, self.events, check)
        given = dict(self.destination.properties).get("message.max.bytes", "")
        most = min(facts.most_bytes, int(given)) if given.isdecimal() else facts.most_bytes
        self._most_bytes = max(most, _SMALLEST_BYTES)
        self._partition = partitioner(facts.partitions)

    def producer(self, further: Mapping[str, str | int | bool]) -> Producer:
        """A new producer. Neither a message nor several together exceed what the topic takes."""
        most = self._most_bytes
        given = dict(self.destination.properties).get("batch.size", "")
        sizes = {"message.max.bytes": most, "batch.size": min(most, int(given)) if given.isdecimal() else min(most, 1_000_000)}
        return producer(self.destination, self.events, {**sizes, **further})

    def send(self, client: Producer, blocks: Iterable[Sequence[T]], check: Check) -> list[DeadLetter]:
        """Hand all messages of a batch to a producer; returns those that are too long."""
        encode = self.new_encoder()
        refused: list[DeadLetter] = []
        for block in blocks:
            refused += self.send_block(client, encode, block, check)
            client.poll(0)
        return refused

    def send_block(self, client: Producer, encode: Encoder[T], block: Sequence[T], check: Check) -> list[DeadLetter]:
        """Hand the messages of a block to a producer; returns those that are too long. Waits where the
        producer has more than it can hold."""
        destination, partition, most = self.destination, self._partition, self._most_bytes - OVERHEAD_BYTES
        topic, event_time = destination.topic, destination.event_time
        produce = client.produce
        refused: list[DeadLetter] = []
        for message in encode(block):
            body, headers, key, _, time = message
            if len(body) + (0 if key is None else len(key)) > most:
                refused.append(too_long(message, str(destination), self._most_bytes))
                continue
            # 0 would be the clock's time
            stamp = max(1, time // 1_000) if event_time and time is not None else 0
            while True:
                try:
                    produce(topic, body, key, partition(message), timestamp=stamp, headers=headers)
                    break
                except BufferError:
                    client.poll(0.1)
                    self.events.waiting(check)
        return refused

    def too_long(self, blocks: Iterable[Sequence[T]]) -> list[DeadLetter]:
        """The dead letters of a batch that is in the topic already."""
        encode, most = self.new_encoder(), self._most_bytes - OVERHEAD_BYTES
        name = str(self.destination)
        return [
            too_long(message, name, self._most_bytes)
            for block in blocks
            for message in encode(block)
            if len(message.body) + len(message.key or b"") > most
        ]
