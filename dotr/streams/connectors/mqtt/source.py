"""Receiver of an MQTT subscription.

Idea: the broker's session records which messages are acknowledged, and outlives connections and
runs. A message with QoS 1 is acknowledged once the inbox has stored it; the broker sends at most
`receive_maximum` messages before that. A separate thread offers received messages to the inbox,
in blocks, so that connection and inbox do not block each other.
Invariant: messages are offered and acknowledged in the order in which the broker sent them.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

from dotr.errors.diagnostics import Refused, refuse
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.streams.connectors.mqtt.broker import MqttBroker, unshared
from dotr.streams.connectors.mqtt.connection import BrokerLimits, MqttConnection, SessionLimits, paho_problem
from dotr.streams.connectors.receivers import MessageQueue
from dotr.streams.formats.messages import Message
from dotr.streams.records import Inbox, ReceivingFailed

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

LOG: Final = logging.getLogger("dotr")

RECEIVE_MAXIMUM: Final = 10_000
"""Messages of QoS 1 that the broker sends before the first of them is acknowledged."""

_RECEIVED_BYTES: Final = 64 << 20
"""Bytes of received messages that are not yet stored; one message may exceed the limit."""

_OFFERED_AT_ONCE: Final = 1_000
"""Limit of the messages offered at once."""

_CAPACITY_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class MqttSource:
    """Subscription of an MQTT broker.

    - `name`: the name of the input.
    - `topics`: filters; `$share/GROUP/FILTER` shares the messages with other clients.
    - `qos`: 1: at least once; 0: at most once.
    - `session`: seconds for which the broker keeps the session after the end of a connection.
    - `span`: its place in the configuration.
    """

    name: str
    broker: MqttBroker
    topics: tuple[str, ...]
    qos: int = 1
    session: int = 3600
    span: Span | None = field(default=None, compare=False)

    @property
    def address(self) -> str:
        """The URL of the broker, the `file` of dead letters."""
        return self.broker.address

    def receiver(self) -> MqttReceiver:
        """A receiver, not yet started; raises `Refused` (C226) where paho-mqtt is missing."""
        if (problem := paho_problem()) is not None:
            raise refuse("C226", f"MQTT needs {problem}", self.span, "pip install 'dotr[mqtt]'")
        return MqttReceiver(self)


class ReceivedMessage:
    """A message that is not yet acknowledged.

    - `client`: the connection over which it came last, which acknowledges it.
    - `number`: its packet identifier there; 0 with QoS 0.
    - `is_stored`: True once the inbox has stored it.
    """

    __slots__ = ("client", "is_stored", "message", "number")

    def __init__(self, message: Message, client: Client, number: int) -> None:
        self.message = message
        self.client = client
        self.number = number
        self.is_stored = False


class MqttReceiver:
    """Receiver of a subscription."""

    ended = False

    def __init__(self, source: MqttSource) -> None:
        self._source = source
        self._inbox: Inbox | None = None
        self._arrived: deque[ReceivedMessage] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._offering = threading.Thread(target=self._offer_all, daemon=True, name=f"dotr input {source.name}")
        self._client: Client | None = None
        self._unacknowledged: dict[int, ReceivedMessage] = {}
        self._known_topics: dict[str, bool] = {}
        self._was_connected = False
        limits = SessionLimits(source.session, RECEIVE_MAXIMUM)
        self._connection = MqttConnection(source.broker, f"input {source.name}", self._opened, limits, self._has_capacity, source.span)

    @property
    def connected(self) -> bool:
        """True while subscribed."""
        return self._connection.connected

    @property
    def failure(self) -> Refused | ReceivingFailed | None:
        """The permanent error that ended the subscription; None while it works."""
        failure = self._connection.failure
        return None if failure is None else ReceivingFailed(str(failure))

    def is_drained(self) -> bool:
        """True if no message waits in the socket or to be offered, or there is no connection."""
        return not self.connected or (self._connection.is_silent() and not self._arrived)

    def start(self, inbox: Inbox) -> None:
        """Connect and subscribe; raises `Refused` (S128) for a permanent error.

        An unreachable broker is retried without end, also after this has returned.
        """
        self._inbox = inbox
        if isinstance(inbox, MessageQueue):
            inbox.keep_once_read()
        self._offering.start()
        try:
            self._connection.start()
        except Refused:
            self.stop()
            raise

    def stop(self) -> None:
        """End the connection; the broker keeps the session, with all unacknowledged messages."""
        with self._changed:
            self._stopped.set()
            self._changed.notify_all()
        if self._offering.is_alive():
            self._offering.join()
        self._connection.close()

    def _has_capacity(self) -> bool:
        return len(self._arrived) < RECEIVE_MAXIMUM and self._bytes < _RECEIVED_BYTES

    def _opened(self, client: Client, session_present: bool, limits: BrokerLimits) -> None:
        from paho.mqtt.subscribeoptions import SubscribeOptions

        source = self._source
        if not session_present:
            if self._was_connected and source.qos:
                LOG.warning(
                    "input %s: %s has not kept the session; what was published meanwhile is lost.", source.name, source.broker.address
                )
            with self._changed:
                self._unacknowledged.clear()
        self._was_connected = True
        self._client = client
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe
        # Retained messages are sent for a new subscription, and not again for each connection.
        options = SubscribeOptions(qos=source.qos, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe([(topic, options) for topic in source.topics])

    def _on_subscribe(self, client: Client, data: object, mid: int, codes: Sequence[ReasonCode], properties: Properties | None) -> None:
        for topic, code in zip(self._source.topics, codes, strict=False):
            if code.is_failure:
                why = code.getName().lower()
                hint = "Correct the topic, or give the user the right to read it."
                self._connection.fail(f"{self._source.broker.address} refuses the subscription of {topic}: {why}", hint)
                return
        self._connection.confirm()

    def _on_message(self, client: Client, data: object, received: MQTTMessage) -> None:
        topic = bytes(received._topic).decode(errors="replace")
        number = received.mid if received.qos else 0
        body = bytes(received.payload)
        if not self._is_subscribed(topic):
            if number:
                client.ack(number, 1)
            return
        message = Message(body, 0, headers=_headers(received.properties), topic=topic)
        with self._changed:
            if number:
                if received.dup and self._is_redelivered(client, number, message):
                    return
                self._unacknowledged[number] = arrived = ReceivedMessage(message, client, number)
            else:
                arrived = ReceivedMessage(message, client, 0)
            self._arrived.append(arrived)
            self._bytes += len(body)
            self._changed.notify_all()

    def _is_redelivered(self, client: Client, number: int, message: Message) -> bool:
        """True for a redelivery of a message of an earlier connection that is not yet acknowledged.

        It is not stored a second time; this client acknowledges it.
        """
        earlier = self._unacknowledged.get(number)
        if earlier is None or earlier.client is client or earlier.message != message:
            return False
        earlier.client = client
        if earlier.is_stored:
            del self._unacknowledged[number]
            client.ack(number, 1)
        return True

    def _acknowledge(self, arrived: Sequence[ReceivedMessage]) -> None:
        """Acknowledge stored messages, each on the connection over which it came last."""
        with self._changed:
            for each in arrived:
                each.is_stored = True
                if each.number and each.client is self._client:
                    if self._unacknowledged.get(each.number) is each:
                        del self._unacknowledged[each.number]
                    each.client.ack(each.number, 1)

    def _is_subscribed(self, topic: str) -> bool:
        """True for a topic of this source; a session may have subscriptions of an earlier run."""
        known = self._known_topics.get(topic)
        if known is None:
            from paho.mqtt.client import topic_matches_sub

            known = any(topic_matches_sub(unshared(each), topic) for each in self._source.topics)
            if len(self._known_topics) < RECEIVE_MAXIMUM:
                self._known_topics[topic] = known
            if not known:
                LOG.warning("input %s: left out messages of %s, to which an earlier run had subscribed.", self._source.name, topic)
        return known

    def _offer_all(self) -> None:
        """Offer the received messages to the inbox, until stopped."""
        inbox = self._inbox
        assert inbox is not None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped.is_set() or len(self._arrived) > 0)
                if self._stopped.is_set():
                    return
                arrived = [self._arrived[number] for number in range(min(_OFFERED_AT_ONCE, len(self._arrived)))]
            while not self._stopped.is_set() and not inbox.offer([each.message for each in arrived], partial(self._acknowledge, arrived)):
                if len(arrived) > 1:
                    arrived = arrived[: len(arrived) // 2]
                else:
                    inbox.wait_for_capacity(_CAPACITY_SECONDS, len(arrived[0].message.body))
                    self._stopped.wait(_RETRY_SECONDS)  # a failed inbox reports capacity at once
            if self._stopped.is_set():
                return
            with self._changed:
                for each in arrived:
                    self._arrived.popleft()
                    self._bytes -= len(each.message.body)
            self._connection.resume()


def _headers(properties: Properties | None) -> tuple[tuple[str, bytes], ...]:
    """Headers of a message: its content type and its user properties.

    >>> from types import SimpleNamespace
    >>> _headers(SimpleNamespace(ContentType="text/turtle", UserProperty=[("site", "a")]))
    (('content-type', b'text/turtle'), ('site', b'a'))
    """
    content_type = getattr(properties, "ContentType", None)
    headers = [] if content_type is None else [("content-type", content_type.encode())]
    headers += [(name, value.encode()) for name, value in getattr(properties, "UserProperty", ())]
    return tuple(headers)
