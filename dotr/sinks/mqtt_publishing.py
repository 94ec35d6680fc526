"""Messages published to an MQTT topic, at least once.

Idea: a thread sends what waits, no more at a time than the broker takes before it has acknowledged
some. What is not acknowledged when a connection is lost is sent again over the next one, in order,
before anything else; so is a batch that was cut off, with the same bytes.
A message at which the broker ends each connection (some do so where it is too long) is given up
after a few of them, so that it does not hold up the others.
Invariant: a message is waiting, sent, acknowledged, or refused, and is in one place alone.
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
from dotr.sinks.batches import Check, Reject, check_nothing
from dotr.sinks.destinations import MqttDestination
from dotr.sinks.files import WriteFailed
from dotr.sinks.messages import Encoder, OutgoingMessage, too_long
from dotr.sources.mqtt_connection import BrokerLimits, MqttConnection, SessionLimits, paho_problem

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

LOG: Final = logging.getLogger("dotr")
T = TypeVar("T")

_MOST_MESSAGES: Final = 10_000
_MOST_BYTES: Final = 64 << 20
"""Messages that wait or are not acknowledged, at most, and their bytes but for one message."""

_WINDOW: Final = 1_000
"""Messages sent before the first of them is acknowledged, where the broker takes so many."""

_STEP_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 10.0
"""Silence of a broker before a warning, and between warnings six times as much."""

_OVERHEAD_BYTES: Final = 512
"""Room for topic, properties and header of a packet."""

MOST_LOSSES = 5
"""Connections that are lost, one behind the other, while the same message is alone in flight, before it is given up."""

_TOO_LARGE: Final = 0x95
_QUOTA: Final = 0x97
_HEADERS: Final = ("dotr-id", "dotr-time")


class Acknowledgement(NamedTuple):
    """Answer of a broker to a message: its number over this client, and a reason code."""

    client: Client
    number: int
    code: int


class MqttPublisher:
    """A topic, and messages on their way to it."""

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
        # What other threads have to say is read by the sending thread alone: the library calls them with its locks held.
        self._newest: tuple[Client, BrokerLimits] | None = None
        self._answers: deque[Acknowledgement] = deque()
        self._changed = threading.Condition()
        self._messages = self._bytes = 0
        self._refused: list[DeadLetter] = []
        self._send_at = 0.0
        # The first message in flight when the connection was last lost: until it is acknowledged it is sent alone.
        self._suspect: OutgoingMessage | None = None
        self._losses = 0
        self._woken = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._send_all, daemon=True, name=f"dotr {purpose}")

    def open(self) -> None:
        """Connect; raises `Refused` (S128) where that can never succeed. A broker that does not answer
        yet is waited for later."""
        try:
            self._connection.start()
        except Refused:
            self._connection.close()
            raise
        self._thread.start()

    def publish(self, message: OutgoingMessage, check: Check) -> None:
        """Add a message; waits where too many are on their way. Raises `WriteFailed`."""
        size = len(message.body)
        with self._changed:
            self._wait(lambda: self._messages < _MOST_MESSAGES and (self._bytes + size <= _MOST_BYTES or not self._messages), check)
            self._messages += 1
            self._bytes += size
            self._waiting.append(message)
        self._woken.set()

    def wait_until_acknowledged(self, check: Check) -> None:
        """Wait until no message is on its way, however long the broker is away. Raises `WriteFailed`."""
        with self._changed:
            self._wait(lambda: not self._messages, check)

    def check(self) -> None:
        """Raise `WriteFailed` where the connection has ended for good."""
        if self._connection.failure is not None:
            raise WriteFailed(str(self._connection.failure))

    def take_refused(self) -> list[DeadLetter]:
        """The dead letters of messages that the broker does not take, since the last call."""
        with self._changed:
            refused, self._refused = self._refused, []
        return refused

    def close(self) -> None:
        """End the connection; what is on its way is left."""
        self._closed = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()
        self._connection.close()

    def _wait(self, holds: Callable[[], bool], check: Check) -> None:
        """Wait until something holds, with the lock; warns from time to time."""
        warn_at = time.monotonic() + _PATIENCE_SECONDS
        while not self._changed.wait_for(holds, _STEP_SECONDS):
            self.check()
            check()
            if time.monotonic() >= warn_at:
                warn_at = time.monotonic() + 6 * _PATIENCE_SECONDS
                LOG.warning("Waiting for %s to take %s messages; a second signal gives them up.", self._destination, f"{self._messages:,}")

    def _opened(self, client: Client, session_present: bool, limits: BrokerLimits) -> None:
        client.on_publish = self._on_publish
        self._newest = client, limits
        self._connection.confirm()
        self._woken.set()

    def _on_publish(self, client: Client, data: object, number: int, code: ReasonCode, properties: Properties | None) -> None:
        self._answers.append(Acknowledgement(client, number, code.value))
        self._woken.set()

    def _send_all(self) -> None:
        while not self._closed and self._connection.failure is None:
            self._woken.wait(_STEP_SECONDS)
            self._woken.clear()
            self._begin_again()
            self._read_answers()
            if time.monotonic() >= self._send_at:
                self._send()
        with self._changed:
            self._changed.notify_all()

    def _begin_again(self) -> None:
        """Take a new connection, over which all is sent that was not acknowledged over the last one."""
        newest, self._newest = self._newest, None
        if newest is None:
            return
        self._client, self._limits = newest
        again = list(self._sent.values())
        self._sent.clear()
        if again and again[0] is self._suspect:
            self._losses += 1
            if self._losses >= MOST_LOSSES:
                suspect, again = again[0], again[1:]
                self._suspect = None
                self._refuse(suspect, f"{self._destination} ends the connection when it is sent this message, {MOST_LOSSES} times")
        elif again:
            self._suspect, self._losses = again[0], 1
        self._waiting.extendleft(reversed(again))

    def _read_answers(self) -> None:
        while self._answers:
            answer = self._answers.popleft()
            message = self._sent.pop(answer.number, None) if answer.client is self._client else None
            if message is None:
                continue
            if answer.code == _QUOTA:
                self._waiting.appendleft(message)
                self._send_at = time.monotonic() + 1.0
            elif answer.code == _TOO_LARGE:
                self._refuse(message)
            elif answer.code >= 0x80:
                self._sent[answer.number] = message
                hint = "May this user publish there? Is the topic valid for the broker?"
                self._connection.fail(f"{self._destination} refuses a message (reason code 0x{answer.code:02X})", hint)
            else:
                self._done(message)

    def _done(self, message: OutgoingMessage) -> None:
        if message is self._suspect:
            self._suspect = None
        with self._changed:
            self._messages -= 1
            self._bytes -= len(message.body)
            self._changed.notify_all()

    def _refuse(self, message: OutgoingMessage, why: str = "") -> None:
        """Make a dead letter of a message; without a reason, it is too long."""
        letter = too_long(message, str(self._destination), self._limits.packet_bytes)
        with self._changed:
            self._refused.append(letter._replace(why=why or letter.why))
        self._done(message)

    def _send(self) -> None:
        """Send what waits, as far as the broker takes it."""
        client, destination = self._client, self._destination
        window = min(_WINDOW, self._limits.receive_maximum) if self._suspect is None else 1
        while client is not None and self._waiting and len(self._sent) < window:
            message = self._waiting.popleft()
            if len(message.body) + _OVERHEAD_BYTES + len(destination.topic) > self._limits.packet_bytes:
                self._refuse(message)
                continue
            sent = client.publish(destination.topic, message.body, destination.qos, destination.retain, _properties(message))
            # An answer may be there already: it is read later, by this thread.
            self._sent[sent.mid] = message


def _properties(message: OutgoingMessage) -> Properties:
    """Properties of a message: its ID and its time, for readers."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [(name, value.decode()) for name, value in message.headers if name in _HEADERS and isinstance(value, bytes)]
    return properties


class PublishedMessages(Generic[T]):
    """A topic as the sink of a run in process; messages that the broker does not take go to `reject`."""

    def __init__(self, destination: MqttDestination, new_encoder: Callable[[], Encoder[T]], reject: Reject) -> None:
        self._publisher = MqttPublisher(destination)
        self._encode = new_encoder()
        self._reject = reject
        self._publisher.open()

    def write_items(self, items: Sequence[T]) -> None:
        """Publish items; raises `WriteFailed`."""
        for message in self._encode(items):
            self._publisher.publish(message, check_nothing)
        self._hand_over()

    def flush(self) -> None:
        """Look for messages that the broker does not take; those on their way need no push."""
        self._publisher.check()
        self._hand_over()

    def _hand_over(self) -> None:
        for letter in self._publisher.take_refused():
            self._reject(letter)

    def mark(self) -> None:
        """None: what is published cannot be taken back."""

    def truncate(self, mark: int) -> None:
        """Nothing: there are no marks."""

    def discard(self) -> None:
        """Leave the broker."""
        self._publisher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None or not issubclass(kind, WriteFailed):
                self._publisher.wait_until_acknowledged(check_nothing)
                for letter in self._publisher.take_refused():  # the file of dead letters is closed
                    LOG.warning("An event was not published: %s", letter.why)
        finally:
            self._publisher.close()


class PublishedBatches(Generic[T]):
    """A topic as a `BatchSink` that writes a batch again which was cut off, with the same bytes."""

    def __init__(self, destination: MqttDestination, new_encoder: Callable[[], Encoder[T]]) -> None:
        self._publisher = MqttPublisher(destination)
        self._new_encoder = new_encoder

    def open(self, check: Check) -> None:
        """None: batches need not be known. Raises `Refused` (S128)."""
        self._publisher.open()

    def write_batch(self, number: int, blocks: Iterable[Sequence[T]], check: Check) -> list[DeadLetter]:
        """Publish a batch, and wait until the broker has acknowledged all of it."""
        encode = self._new_encoder()
        for block in blocks:
            for message in encode(block):
                self._publisher.publish(message, check)
        self._publisher.wait_until_acknowledged(check)
        return self._publisher.take_refused()

    def close(self) -> None:
        """Leave the broker."""
        self._publisher.close()
