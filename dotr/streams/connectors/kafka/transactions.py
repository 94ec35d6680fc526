"""Batches written exactly once: each is one transaction, which also commits its number.

Idea: the number of the next batch is the committed offset of a group of dotr's own, for partition 0
of the topic. It is committed in the transaction of the batch, so that both are written or neither.
At a start, `init_transactions` fences an older driver and aborts its open transaction; then the
offset gives the last batch. No topic and no record is added.
Invariant: readers with `read_committed` read each batch once. A group has an offset from the first
start on, so a missing offset was deleted by the broker.
Recovery: after a transient error, a new producer is created and the offset is read again before the
batch is repeated. A commit whose response was lost is detected by the offset.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

from dotr.errors.diagnostics import refuse
from dotr.model.stream import DeadLetter
from dotr.streams.connectors.kafka.client import kafka
from dotr.streams.connectors.kafka.producer import (
    STEP_SECONDS,
    TRANSACTION_TIMEOUT,
    ProducerEvents,
    TopicFailed,
    consumer,
    permanent_failure,
    transaction_properties,
    transaction_seconds,
)
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.connectors.kafka.writing import TopicWriter
from dotr.streams.sinks.batches import BatchHistory, Check
from dotr.streams.sinks.messages import Encoder

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

T = TypeVar("T")
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
