"""Writing of messages to a topic, shared by transactions and plain producers.

The partition of a message is murmur2 of its key, as in Java's client, or the ordinal without a key.
Cost: a key is hashed once while it is cached (65,536 keys).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from dotr.model.stream import DeadLetter
from dotr.streams.connectors.kafka.producer import OVERHEAD_BYTES, ProducerEvents, TopicMetadata, producer, topic_metadata
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.sinks.batches import Check
from dotr.streams.sinks.messages import Encoder, OutgoingMessage, too_long

if TYPE_CHECKING:
    from confluent_kafka import Producer
from functools import lru_cache
from typing import Final

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


_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF
_CACHED_KEYS: Final = 1 << 16


def murmur2(key: bytes) -> int:
    """MurmurHash2 of Kafka's clients, as an unsigned number of 32 bits.

    >>> murmur2(b"21") == (-973932308) & 0xFFFFFFFF, murmur2(b"foobar") == (-790332482) & 0xFFFFFFFF
    (True, True)
    """
    length = len(key)
    whole = length & ~3
    found = _SEED ^ length
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        part = (part ^ part >> 24) * _MULTIPLIER & _MASK
        found = found * _MULTIPLIER & _MASK ^ part
    if whole < length:
        found = (found ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    found = (found ^ found >> 13) * _MULTIPLIER & _MASK
    return found ^ found >> 15


def partitioner(partitions: int) -> Callable[[OutgoingMessage], int]:
    """A function from a message to its partition, of the number of partitions.

    >>> choose = partitioner(3)
    >>> choose(OutgoingMessage(b"", [], None, 4, None)), choose(OutgoingMessage(b"", [], b"foobar", 4, None))
    (1, 0)
    """

    @lru_cache(_CACHED_KEYS)
    def of_key(key: bytes) -> int:
        return (murmur2(key) & 0x7FFFFFFF) % partitions

    return lambda message: message.ordinal % partitions if message.key is None else of_key(message.key)
