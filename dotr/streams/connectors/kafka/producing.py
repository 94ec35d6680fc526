"""Sinks that write messages to a topic at least once: in process, and on Spark if so configured.

Within a run the producer is idempotent, so each message is written once. After a kill, the output
of the run or batch is written again; readers drop duplicates by `dotr-id`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar
from urllib.parse import quote

from dotr.errors.diagnostics import refuse
from dotr.model.stream import DeadLetter
from dotr.streams.connectors.kafka.client import error_text, kafka
from dotr.streams.connectors.kafka.producer import (
    OVERHEAD_BYTES,
    STEP_SECONDS,
    TRANSACTION_TIMEOUT,
    ProducerEvents,
    TopicFailed,
    TopicMetadata,
    consumer,
    permanent_failure,
    producer,
    topic_metadata,
    transaction_properties,
    transaction_seconds,
)
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.sinks.batches import BatchHistory, Check, Reject, check_nothing
from dotr.streams.sinks.files import WriteFailed
from dotr.streams.sinks.messages import Encoder, OutgoingMessage, too_long

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

# Writing of messages to a topic, shared by transactions and plain producers.
#
# The partition of a message is murmur2 of its key, as in Java's client, or the ordinal without a key.
# Cost: a key is hashed once while it is cached (65,536 keys).


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


class _Delivery(Generic[T]):
    """A producer, and the error of the first message that it could not deliver."""

    def __init__(self, destination: KafkaDestination, new_encoder: Callable[[], Encoder[T]], check: Check) -> None:
        self.writer = TopicWriter(destination, new_encoder)
        self._failure: WriteFailed | None = None
        try:
            self.writer.fetch_metadata(check)
        except TopicFailed as failed:
            raise failed.refused(destination.span) from None
        further = {"delivery.report.only.error": True, "on_delivery": self._delivered}
        self.client: Producer = self.writer.producer(further)  # type: ignore[arg-type]

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            destination = self.writer.destination
            self._failure = permanent_failure(destination, error) or WriteFailed(f"{destination}: {error_text(destination, error)}")

    def check(self) -> None:
        """Handle delivery reports; raises `WriteFailed` for the first failed message."""
        self.client.poll(0)
        if self._failure is not None:
            raise self._failure
        if self.writer.events.failure is not None:
            raise self.writer.events.failure

    def deliver_all(self, check: Check) -> None:
        """Wait until all messages are delivered, without a time limit; raises `WriteFailed`."""
        while self.client.flush(STEP_SECONDS):
            self.check()
            self.writer.events.waiting(check)
        self.check()
        self.writer.events.answered()


class TopicSink(Generic[T]):
    """A topic as a `RunSink`; `reject` receives the dead letters of messages that are too long."""

    def __init__(self, destination: KafkaDestination, new_encoder: Callable[[], Encoder[T]], check: Check, reject: Reject) -> None:
        self._delivery = _Delivery(destination, new_encoder, check)
        self._encode = new_encoder()
        self._reject = reject
        self._checked = 0.0

    def write_items(self, items: Sequence[T]) -> None:
        """Send items; raises `WriteFailed` where an earlier one cannot be delivered."""
        delivery = self._delivery
        for letter in delivery.writer.send_block(delivery.client, self._encode, items, check_nothing):
            self._reject(letter)
        now = time.monotonic()
        if now >= self._checked + STEP_SECONDS / 10:
            self._checked = now
            delivery.check()

    def flush(self) -> None:
        """Handle delivery reports; raises `WriteFailed`. The client sends queued messages."""
        self._delivery.check()

    def mark(self) -> None:
        """Returns None: sent messages cannot be withdrawn."""

    def truncate(self, mark: int) -> None:
        """Never called: there are no marks."""

    def discard(self) -> None:
        """Discard undelivered messages, and close the producer."""
        self._delivery.client.purge()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None and issubclass(kind, WriteFailed):
            self.discard()
            return
        self._delivery.deliver_all(check_nothing)


class RepeatedBatches(Generic[T]):
    """A topic as a `BatchSink`, at least once: an interrupted batch is written again."""

    def __init__(self, destination: KafkaDestination, new_encoder: Callable[[], Encoder[T]]) -> None:
        self._destination = destination
        self._new_encoder = new_encoder
        self._delivery: _Delivery[T] | None = None

    def open(self, check: Check) -> None:
        """Connect; returns None, as written batches are not recorded. Raises `Refused`."""
        self._delivery = _Delivery(self._destination, self._new_encoder, check)

    def write_batch(self, number: int, blocks: Iterable[Sequence[T]], check: Check) -> list[DeadLetter]:
        """Send a batch, and wait until all of it is delivered."""
        assert self._delivery is not None
        rejected = self._delivery.writer.send(self._delivery.client, blocks, check)
        self._delivery.deliver_all(check)
        return rejected

    def close(self) -> None:
        """Discard undelivered messages, and close the producer."""
        if self._delivery is not None:
            self._delivery.client.purge()


# Batches written exactly once: each is one transaction, which also commits its number.
#
# Idea: the number of the next batch is the committed offset of a group of dotr's own, for partition 0
# of the topic. It is committed in the transaction of the batch, so that both are written or neither.
# At a start, `init_transactions` fences an older driver and aborts its open transaction; then the
# offset gives the last batch. No topic and no record is added.
# Invariant: readers with `read_committed` read each batch once. A group has an offset from the first
# start on, so a missing offset was deleted by the broker.
# Recovery: after a transient error, a new producer is created and the offset is read again before the
# batch is repeated. A commit whose response was lost is detected by the offset.


R = TypeVar("R")

_FENCED: Final = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_PAUSE_SECONDS: Final = 0.5
_ABORT_SECONDS: Final = 5.0
"""Longest wait for the abort of a transaction; otherwise the next start aborts it."""
_CALL_SECONDS: Final = (5.0, 60.0)
"""Time limit of a call at the first attempt, and the maximum to which it is doubled. After a
time-out a new producer reads whether the call has succeeded."""
_LOST_SECONDS: Final = 2.0
"""Time limit of a call after a broker was lost."""
_REFRESH_SECONDS: Final = 3_600.0
"""Age of an offset at which an empty batch commits it again, before a broker deletes it."""


def with_time_limit(action: Callable[[], R], seconds: float, events: ProducerEvents, check: Check) -> R:
    """The result of a call to the library, in a thread, with a time limit.

    A call may block forever if a broker is lost; its thread and client are then abandoned. Raises
    what the call raises, KafkaException (_TIMED_OUT) after `seconds`, and what `check` raises.
    """
    result: Future[R] = Future()

    def call() -> None:
        try:
            result.set_result(action())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    until = time.monotonic() + seconds
    while True:
        try:
            return result.result(min(STEP_SECONDS, seconds))
        except TimeoutError:
            events.waiting(check)
            if time.monotonic() >= until:
                library = kafka()
                raise library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT)) from None


def transaction_name(pipeline: str, output: str, identity: str) -> str:
    """The `transactional.id` of an output, which is also the name of its group.

    >>> transaction_name("fire alarm", "0", "a1b2")
    'dotr-fire%20alarm-0-a1b2'
    """
    return f"dotr-{quote(pipeline, safe='')}-{output}-{identity}"


class TransactionBatches(Generic[T]):
    """A topic as a `BatchSink` that writes each batch exactly once."""

    def __init__(self, destination: KafkaDestination, name: str, new_encoder: Callable[[], Encoder[T]], history: BatchHistory) -> None:
        self._destination = destination
        self._name = name
        self._writer = TopicWriter(destination, new_encoder)
        self._history = history
        self._timeout = transaction_seconds(destination)
        self._producer: Producer | None = None
        self._group: Any = None
        self._last = -1
        self._committed_at = 0.0
        self._seconds = _CALL_SECONDS[0]
        self._lost = 0

    def open(self, check: Check) -> int | None:
        """Connect, fence older drivers, and return the last batch; raises `Refused`."""
        try:
            self._writer.fetch_metadata(check)
            offset = self._connect(check)
            if offset is None:
                offset = self._offset_of_history()
                self._commit_number(offset, check)
        except TopicFailed as failed:
            raise failed.refused(self._destination.span) from None
        self._last = offset - 1
        return self._last if self._last >= 0 else None

    def _offset_of_history(self) -> int:
        """The next batch where the group has no offset; raises `Refused` (S122) in doubt."""
        history = self._history
        if not history.is_in_doubt:
            return history.written
        number = history.planned - 1
        if history.last_written in (number - 1, number):
            return history.last_written + 1
        hint = f"Look for its messages: --last-written {number} says that they are there, --last-written {number - 1} that they are not."
        message = f"the broker has forgotten whether batch {number} is in {self._destination}"
        raise refuse("S122", message, self._destination.span, hint)

    def write_batch(self, number: int, blocks: Iterable[Sequence[T]], check: Check) -> list[DeadLetter]:
        """Write a batch in a transaction, unless it is written already."""
        if self._last < number and self._is_fresh and next(iter(blocks), None) is None:
            return []
        while number > self._last:
            began = time.monotonic()
            try:
                rejected = self._attempt(number, blocks, check)
                self._last = number
                return rejected
            except kafka().KafkaException as error:
                self._recover(number, error.args[0], began, check)
        return self._writer.too_long(blocks)

    @property
    def _is_fresh(self) -> bool:
        """True if the offset was committed recently, so that an empty batch need not commit it."""
        return time.monotonic() < self._committed_at + _REFRESH_SECONDS

    def close(self) -> None:
        """Close the producer; the next start aborts an open transaction."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _connect(self, check: Check) -> int | None:
        """Create a producer, fence older ones, and read the offset; None without one."""
        self.close()
        self._producer = self._retried(self._initialized, check)
        client = consumer(self._destination, self._writer.events, self._name)
        try:
            partition = kafka().TopicPartition(self._destination.topic, 0)
            (committed,) = self._retried(lambda: client.committed([partition], timeout=STEP_SECONDS), check)
            self._group = client.consumer_group_metadata()
        finally:
            client.close()
        self._writer.events.answered()
        return int(committed.offset) if committed.offset >= 0 else None

    def _initialized(self) -> Producer:
        """A new producer that has fenced older ones."""
        client = self._writer.producer(transaction_properties(self._destination, self._name))
        client.init_transactions(self._seconds)
        return client

    def _retried(self, action: Callable[[], R], check: Check) -> R:
        """The result of a call, repeated after transient errors."""
        while True:
            try:
                return with_time_limit(action, self._seconds + _LOST_SECONDS, self._writer.events, check)
            except kafka().KafkaException as error:
                failure = permanent_failure(self._destination, error.args[0])
                if failure is not None:
                    raise failure from None
                self._writer.events.waiting(check)
                time.sleep(_PAUSE_SECONDS / 5)

    def _attempt(self, number: int, blocks: Iterable[Sequence[T]], check: Check) -> list[DeadLetter]:
        """Write a batch in one transaction; raises KafkaException."""
        assert self._producer is not None
        client = self._producer
        self._lost = self._writer.events.lost
        client.begin_transaction()
        try:
            rejected = self._writer.send(client, blocks, check)
            self._end(client, number + 1, check)
        except BaseException:
            with suppress(kafka().KafkaException):
                client.abort_transaction(_ABORT_SECONDS)
            raise
        return rejected

    def _end(self, client: Producer, offset: int, check: Check) -> None:
        """Commit the offset, and the transaction with it."""
        events = self._writer.events
        partition = kafka().TopicPartition(self._destination.topic, 0, offset)
        while client.flush(STEP_SECONDS):
            events.waiting(check)
        seconds = self._seconds if events.lost == self._lost else _LOST_SECONDS
        with_time_limit(lambda: client.send_offsets_to_transaction([partition], self._group, seconds), seconds, events, check)
        with_time_limit(lambda: client.commit_transaction(seconds), seconds, events, check)
        events.answered()
        self._seconds = _CALL_SECONDS[0]
        self._committed_at = time.monotonic()

    def _commit_number(self, offset: int, check: Check) -> None:
        """Commit the number of the next batch, without a message."""
        while True:
            try:
                assert self._producer is not None
                self._lost = self._writer.events.lost
                self._producer.begin_transaction()
                self._end(self._producer, offset, check)
                return
            except kafka().KafkaException as error:
                failure = permanent_failure(self._destination, error.args[0])
                if failure is not None:
                    raise failure from None
                self._writer.events.waiting(check)
                time.sleep(_PAUSE_SECONDS)
                self._connect(check)

    def _recover(self, number: int, error: KafkaError, began: float, check: Check) -> None:
        """Connect again after a failed transaction; raises for a permanent error."""
        destination, events = self._destination, self._writer.events
        failure = permanent_failure(destination, error)
        if failure is not None:
            raise failure
        if events.lost == self._lost:  # no broker was away
            if time.monotonic() >= began + self._timeout:
                message = f"batch {number} took longer than the {self._timeout:,.0f} s of {TRANSACTION_TIMEOUT} to {destination}"
                hint = f"Raise {TRANSACTION_TIMEOUT}, which the broker's transaction.max.timeout.ms bounds; or make spark.batch smaller."
                raise TopicFailed("S123", message, hint)
            if error.name() in _FENCED:
                raise TopicFailed("S133", f"another run on the same checkpoint has taken over {destination}", "Stop one of the two.")
        events.waiting(check)
        self._seconds = min(2 * self._seconds, _CALL_SECONDS[1])
        time.sleep(_PAUSE_SECONDS)
        offset = self._connect(check)
        if offset is None:
            raise TopicFailed("S122", f"the broker has forgotten whether batch {number} is in {destination}", "--last-written N decides.")
        self._last = offset - 1
