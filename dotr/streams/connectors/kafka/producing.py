"""Sinks that write messages to a topic at least once: in process, and on Spark if so configured.

Within a run the producer is idempotent, so each message is written once. After a kill, the output
of the run or batch is written again; readers drop duplicates by `dotr-id`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from dotr.model.stream import DeadLetter
from dotr.streams.connectors.kafka.client import error_text
from dotr.streams.connectors.kafka.producer import STEP_SECONDS, TopicFailed, permanent_failure
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.connectors.kafka.writing import TopicWriter
from dotr.streams.sinks.batches import Check, Reject, check_nothing
from dotr.streams.sinks.files import WriteFailed
from dotr.streams.sinks.messages import Encoder

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

T = TypeVar("T")


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
