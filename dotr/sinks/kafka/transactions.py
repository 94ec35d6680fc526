"""Batches written exactly once: each is one transaction, in which its number is committed, too.

Idea: the offset that a group of dotr's own has for partition 0 of the topic is the number of the
batch after the last one that is there. It is committed in the transaction of the batch, so both are
there or neither. At a start `init_transactions` fences an older driver and ends what it had begun;
then the offset says which batch is the last. No topic and no record is added.
Invariant: readers with `read_committed` see each batch once. A group has an offset from the first
start on, so an offset that is not there was forgotten by the broker, and nothing else.
Whatever fails and is not certain to fail again is tried again behind a new producer and a new look
at the offset: a commit whose answer was lost is found that way.
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
from dotr.sinks.batches import BatchHistory, Check
from dotr.sinks.destinations import KafkaDestination
from dotr.sinks.kafka.client import (
    STEP_SECONDS,
    TRANSACTION_TIMEOUT,
    ProducerEvents,
    TopicFailed,
    consumer,
    lasting_failure,
    transaction_properties,
    transaction_seconds,
)
from dotr.sinks.kafka.writing import TopicWriter
from dotr.sinks.messages import Encoder
from dotr.sources.kafka.client import kafka

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

T = TypeVar("T")
R = TypeVar("R")

_FENCED: Final = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_PAUSE_SECONDS: Final = 0.5
_ABORT_SECONDS: Final = 5.0
"""Longest wait for the end of a transaction of a run that is stopped; the next start ends it."""
_CALL_SECONDS: Final = (5.0, 60.0)
"""Longest duration of a call, doubled with each attempt up to the second number. What the call was to
do is then looked for behind a new producer."""
_LOST_SECONDS: Final = 2.0
"""Longest duration of a call after a broker was lost."""
_REFRESH_SECONDS: Final = 3_600.0
"""Age of an offset at which an empty batch commits it again, so that a broker does not forget it."""


def bounded(action: Callable[[], R], seconds: float, events: ProducerEvents, check: Check) -> R:
    """The result of a call to the library that is to end within so many seconds.

    Some calls do not, where a broker was lost meanwhile; such a call is left behind, with its
    client. Raises what the call raises, KafkaException (_TIMED_OUT) where it has no end, and what
    `check` raises while it waits.
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
    """The `transactional.id` of an output, which is the name of its group, too.

    >>> transaction_name("fire alarm", "0", "a1b2")
    'dotr-fire%20alarm-0-a1b2'
    """
    return f"dotr-{quote(pipeline, safe='')}-{output}-{identity}"


class TransactionBatches(Generic[T]):
    """A topic as a `BatchSink` in which each batch is there once."""

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
        """Connect, fence older drivers, and find the last batch; raises `Refused`."""
        try:
            self._writer.look(check)
            offset = self._connect(check)
            if offset is None:
                offset = self._decided()
                self._commit_number(offset, check)
        except TopicFailed as failed:
            raise failed.refused(self._destination.span) from None
        self._last = offset - 1
        return self._last if self._last >= 0 else None

    def _decided(self) -> int:
        """The number of the next batch where the broker knows none; raises `Refused` (S122) in doubt."""
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
        """Write a batch in a transaction, unless it is there already."""
        if self._last < number and self._is_fresh and next(iter(blocks), None) is None:
            return []
        while number > self._last:
            began = time.monotonic()
            try:
                refused = self._attempt(number, blocks, check)
                self._last = number
                return refused
            except kafka().KafkaException as error:
                self._recover(number, error.args[0], began, check)
        return self._writer.too_long(blocks)

    @property
    def _is_fresh(self) -> bool:
        """Test for an offset that was committed not long ago."""
        return time.monotonic() < self._committed_at + _REFRESH_SECONDS

    def close(self) -> None:
        """Leave the cluster; a transaction under way is ended by the next start."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _connect(self, check: Check) -> int | None:
        """Make a producer, fence older ones, and read the offset; None where the group has none."""
        self.close()
        self._producer = self._patiently(self._initialized, check)
        asking = consumer(self._destination, self._writer.events, self._name)
        try:
            place = kafka().TopicPartition(self._destination.topic, 0)
            (found,) = self._patiently(lambda: asking.committed([place], timeout=STEP_SECONDS), check)
            self._group = asking.consumer_group_metadata()
        finally:
            asking.close()
        self._writer.events.answered()
        return int(found.offset) if found.offset >= 0 else None

    def _initialized(self) -> Producer:
        """A new producer that has fenced older ones."""
        client = self._writer.producer(transaction_properties(self._destination, self._name))
        client.init_transactions(self._seconds)
        return client

    def _patiently(self, action: Callable[[], R], check: Check) -> R:
        """Do what a broker may refuse for a while: one that is away, or has just started."""
        while True:
            try:
                return bounded(action, self._seconds + _LOST_SECONDS, self._writer.events, check)
            except kafka().KafkaException as error:
                failure = lasting_failure(self._destination, error.args[0])
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
            refused = self._writer.send(client, blocks, check)
            self._end(client, number + 1, check)
        except BaseException:
            with suppress(kafka().KafkaException):
                client.abort_transaction(_ABORT_SECONDS)
            raise
        return refused

    def _end(self, client: Producer, offset: int, check: Check) -> None:
        """Commit the offset, and the transaction with it."""
        events = self._writer.events
        place = kafka().TopicPartition(self._destination.topic, 0, offset)
        while client.flush(STEP_SECONDS):
            events.waiting(check)
        seconds = self._seconds if events.lost == self._lost else _LOST_SECONDS
        bounded(lambda: client.send_offsets_to_transaction([place], self._group, seconds), seconds, events, check)
        bounded(lambda: client.commit_transaction(seconds), seconds, events, check)
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
                failure = lasting_failure(self._destination, error.args[0])
                if failure is not None:
                    raise failure from None
                self._writer.events.waiting(check)
                time.sleep(_PAUSE_SECONDS)
                self._connect(check)

    def _recover(self, number: int, error: KafkaError, began: float, check: Check) -> None:
        """Connect anew after a transaction that failed; raises where it would fail again."""
        destination, events = self._destination, self._writer.events
        failure = lasting_failure(destination, error)
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
