"""Sinks that publish messages to an MQTT topic, at least once.

Idea: a thread sends queued messages, within the broker's limit of unacknowledged ones. After a lost
connection, unacknowledged messages are sent again over the next one, in order, before all others. A
repeated batch has the same bytes.
Some brokers end the connection at a message, such as one that is too long. A message is suspect if
it was the first unacknowledged one at a loss; it is sent alone, and rejected after `MOST_LOSSES`
losses in a row, so that it does not block the others.
Invariant: a message is either queued (`_waiting`), sent (`_sent`), acknowledged, or rejected.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Self, TypeVar

from dotr.errors.diagnostics import Refused, refuse
from dotr.model.stream import DeadLetter
from dotr.streams.connectors.mqtt.broker import MqttDestination
from dotr.streams.connectors.mqtt.connection import BrokerLimits, MqttConnection, SessionLimits, paho_problem
from dotr.streams.sinks.batches import Check, Reject, check_nothing
from dotr.streams.sinks.files import WriteFailed
from dotr.streams.sinks.messages import Encoder, OutgoingMessage, too_long

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

LOG: Final = logging.getLogger("dotr")
T = TypeVar("T")

_MOST_MESSAGES: Final = 10_000
_MOST_BYTES: Final = 64 << 20
"""Limits of the messages that are not acknowledged; one message may exceed that of the bytes."""

_WINDOW: Final = 1_000
"""Limit of messages sent before the first is acknowledged; the broker's may be lower."""

_STEP_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 10.0
"""Time without progress before the first warning; six times as long between further ones."""

_OVERHEAD_BYTES: Final = 512
"""Reserve for topic, properties and header of a packet."""

MOST_LOSSES = 5
"""Consecutive losses of the connection with the same suspect message before it is rejected."""

_TOO_LARGE: Final = 0x95
_QUOTA: Final = 0x97
_HEADERS: Final = ("dotr-id", "dotr-time")


class Acknowledgement(NamedTuple):
    """Acknowledgement of a message: its client, its packet identifier, and a reason code."""

    client: Client
    number: int
    code: int


class MqttPublisher:
    """Publisher of messages to a topic, with a thread that sends them."""

    def __init__(self, destination: MqttDestination) -> None:
        if (problem := paho_problem()) is not None:
            raise refuse("C226", f"MQTT needs {problem}", destination.span, "pip install 'dotr[mqtt]'")
        self._destination = destination
        purpose = f"output {destination.topic}"
        self._connection = MqttConnection(destination.broker, purpose, self._opened, SessionLimits(), span=destination.span)
        self._waiting: deque[OutgoingMessage] = deque()
        self._sent: dict[int, OutgoingMessage] = {}
        self._client: Client | None = None
        self._limits = BrokerLimits()
        # The library calls back with its locks held, so callbacks only queue events for the sending thread.
        self._new_connection: tuple[Client, BrokerLimits] | None = None
        self._acknowledgements: deque[Acknowledgement] = deque()
        self._changed = threading.Condition()
        self._messages = self._bytes = 0
        self._rejected: list[DeadLetter] = []
        self._send_at = 0.0
        # The first message in flight at the last loss of the connection; it is sent alone until acknowledged.
        self._suspect: OutgoingMessage | None = None
        self._losses = 0
        self._woken = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._send_all, daemon=True, name=f"dotr {purpose}")

    def open(self) -> None:
        """Connect; raises `Refused` (S128) for a permanent error. An unreachable broker is retried
        in the background.
        """
        try:
            self._connection.start()
        except Refused:
            self._connection.close()
            raise
        self._thread.start()

    def publish(self, message: OutgoingMessage, check: Check) -> None:
        """Queue a message; waits while too many are unacknowledged. Raises `WriteFailed`."""
        size = len(message.body)
        with self._changed:
            self._wait(lambda: self._messages < _MOST_MESSAGES and (self._bytes + size <= _MOST_BYTES or not self._messages), check)
            self._messages += 1
            self._bytes += size
            self._waiting.append(message)
        self._woken.set()

    def wait_until_acknowledged(self, check: Check) -> None:
        """Wait until every message is acknowledged, without a time limit. Raises `WriteFailed`."""
        with self._changed:
            self._wait(lambda: not self._messages, check)

    def check(self) -> None:
        """Raise `WriteFailed` where the connection has failed permanently."""
        if self._connection.failure is not None:
            raise WriteFailed(str(self._connection.failure))

    def take_rejected(self) -> list[DeadLetter]:
        """The dead letters of the messages rejected since the last call."""
        with self._changed:
            rejected, self._rejected = self._rejected, []
        return rejected

    def close(self) -> None:
        """End the connection; unacknowledged messages are discarded."""
        self._closed = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        self._connection.close()

    def _wait(self, holds: Callable[[], bool], check: Check) -> None:
        """Wait for a condition, with the lock held; logs a warning from time to time."""
        warn_at = time.monotonic() + _PATIENCE_SECONDS
        while not self._changed.wait_for(holds, _STEP_SECONDS):
            self.check()
            check()
            if time.monotonic() >= warn_at:
                warn_at = time.monotonic() + 6 * _PATIENCE_SECONDS
                LOG.warning("Waiting for %s to take %s messages; a second signal gives them up.", self._destination, f"{self._messages:,}")

    def _opened(self, client: Client, session_present: bool, limits: BrokerLimits) -> None:
        client.on_publish = self._on_publish
        self._new_connection = client, limits
        self._connection.confirm()
        self._woken.set()

    def _on_publish(self, client: Client, data: object, number: int, code: ReasonCode, properties: Properties | None) -> None:
        self._acknowledgements.append(Acknowledgement(client, number, code.value))
        self._woken.set()

    def _send_all(self) -> None:
        while not self._closed and self._connection.failure is None:
            self._woken.wait(_STEP_SECONDS)
            self._woken.clear()
            self._take_connection()
            self._handle_acknowledgements()
            if time.monotonic() >= self._send_at:
                self._send()
        with self._changed:
            self._changed.notify_all()

    def _take_connection(self) -> None:
        """Switch to a new connection, if there is one, and queue unacknowledged messages again."""
        connection, self._new_connection = self._new_connection, None
        if connection is None:
            return
        self._client, self._limits = connection
        unacknowledged = list(self._sent.values())
        self._sent.clear()
        if unacknowledged and unacknowledged[0] is self._suspect:
            self._losses += 1
            if self._losses >= MOST_LOSSES:
                suspect, unacknowledged = unacknowledged[0], unacknowledged[1:]
                self._suspect = None
                self._reject_message(suspect, f"{self._destination} ends the connection when it is sent this message, {MOST_LOSSES} times")
        elif unacknowledged:
            self._suspect, self._losses = unacknowledged[0], 1
        self._waiting.extendleft(reversed(unacknowledged))

    def _handle_acknowledgements(self) -> None:
        while self._acknowledgements:
            acknowledgement = self._acknowledgements.popleft()
            message = self._sent.pop(acknowledgement.number, None) if acknowledgement.client is self._client else None
            if message is None:
                continue
            if acknowledgement.code == _QUOTA:
                self._waiting.appendleft(message)
                self._send_at = time.monotonic() + 1.0
            elif acknowledgement.code == _TOO_LARGE:
                self._reject_message(message)
            elif acknowledgement.code >= 0x80:
                self._sent[acknowledgement.number] = message
                hint = "May this user publish there? Is the topic valid for the broker?"
                self._connection.fail(f"{self._destination} refuses a message (reason code 0x{acknowledgement.code:02X})", hint)
            else:
                self._done(message)

    def _done(self, message: OutgoingMessage) -> None:
        if message is self._suspect:
            self._suspect = None
        with self._changed:
            self._messages -= 1
            self._bytes -= len(message.body)
            self._changed.notify_all()

    def _reject_message(self, message: OutgoingMessage, why: str = "") -> None:
        """Reject a message, as a dead letter; without a reason it is too long."""
        letter = too_long(message, str(self._destination), self._limits.packet_bytes)
        with self._changed:
            self._rejected.append(letter._replace(why=why or letter.why))
        self._done(message)

    def _send(self) -> None:
        """Send queued messages, within the limit of the broker."""
        client, destination = self._client, self._destination
        window = min(_WINDOW, self._limits.receive_maximum) if self._suspect is None else 1
        while client is not None and self._waiting and len(self._sent) < window:
            message = self._waiting.popleft()
            if len(message.body) + _OVERHEAD_BYTES + len(destination.topic) > self._limits.packet_bytes:
                self._reject_message(message)
                continue
            sent = client.publish(destination.topic, message.body, destination.qos, destination.retain, _properties(message))
            # If it is acknowledged already, this thread handles that later.
            self._sent[sent.mid] = message


def _properties(message: OutgoingMessage) -> Properties:
    """Properties of a message: its ID and its time, for readers."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [(name, value.decode()) for name, value in message.headers if name in _HEADERS and isinstance(value, bytes)]
    return properties


class PublishedMessages(Generic[T]):
    """A topic as a `RunSink`; `reject` receives the dead letters of rejected messages."""

    def __init__(self, destination: MqttDestination, new_encoder: Callable[[], Encoder[T]], reject: Reject) -> None:
        self._publisher = MqttPublisher(destination)
        self._encode = new_encoder()
        self._reject = reject
        self._publisher.open()

    def write_items(self, items: Sequence[T]) -> None:
        """Publish items; raises `WriteFailed`."""
        for message in self._encode(items):
            self._publisher.publish(message, check_nothing)
        self._report_rejected()

    def flush(self) -> None:
        """Report rejected messages; raises `WriteFailed`. The thread sends queued ones."""
        self._publisher.check()
        self._report_rejected()

    def _report_rejected(self) -> None:
        for letter in self._publisher.take_rejected():
            self._reject(letter)

    def mark(self) -> None:
        """Returns None: published messages cannot be withdrawn."""

    def truncate(self, mark: int) -> None:
        """Never called: there are no marks."""

    def discard(self) -> None:
        """End the connection to the broker."""
        self._publisher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None or not issubclass(kind, WriteFailed):
                self._publisher.wait_until_acknowledged(check_nothing)
                for letter in self._publisher.take_rejected():  # the sink of dead letters is closed already
                    LOG.warning("An event was not published: %s", letter.why)
        finally:
            self._publisher.close()


class PublishedBatches(Generic[T]):
    """A topic as a `BatchSink`, at least once: a repeated batch has the same bytes."""

    def __init__(self, destination: MqttDestination, new_encoder: Callable[[], Encoder[T]]) -> None:
        self._publisher = MqttPublisher(destination)
        self._new_encoder = new_encoder

    def open(self, check: Check) -> None:
        """Connect; returns None, as written batches are not recorded. Raises `Refused` (S128)."""
        self._publisher.open()

    def write_batch(self, number: int, blocks: Iterable[Sequence[T]], check: Check) -> list[DeadLetter]:
        """Publish a batch, and wait until the broker has acknowledged all of it."""
        encode = self._new_encoder()
        for block in blocks:
            for message in encode(block):
                self._publisher.publish(message, check)
        self._publisher.wait_until_acknowledged(check)
        return self._publisher.take_rejected()

    def close(self) -> None:
        """End the connection to the broker."""
        self._publisher.close()
