"""Connections to an MQTT broker, with reconnection.

Idea: a thread connects, calls `Opened` with the connected client, and transfers packets until the
connection is lost. It then reconnects, at once and then after 1, 2, 4 … 60 s. Each connection has a
client of its own: an acknowledgement for an older connection is not sent on a newer one, in which
its packet identifier may belong to another message.
Invariant: a permanent error (credentials, certificate, a rejected subscription) sets `failure` and
ends the thread.
"""

from __future__ import annotations

import logging
import os
import select
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socket import socket, socketpair
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from dotr.errors.diagnostics import DotrError, refuse
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.streams.connectors.mqtt.broker import MqttBroker
from dotr.streams.connectors.receivers import wait_before

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

LOG: Final = logging.getLogger("dotr")

_KEEPALIVE_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 10.0
_STEADY_SECONDS: Final = 10.0
"""A connection that lasted at least this long is reconnected without a delay."""

_PAUSED_READ_SECONDS: Final = 20.0
"""Interval of reads while the user has no capacity, so that its keep-alive works."""

_END_SECONDS: Final = 2.0
"""Longest wait for the broker to close a connection after DISCONNECT."""

_SESSION_TAKEN_OVER: Final = 0x8E
_REFUSALS: Final = {
    0x84: "it does not speak MQTT 5",
    0x85: "it does not accept the client_id",
    0x86: "user name or password are wrong",
    0x87: "the user is not authorized",
    0x8A: "the client is banned",
    0x8C: "it wants another method of authentication",
    0x9C: "it names another server",
    0x9D: "it has moved to another server",
}
"""Permanent reason codes of CONNACK, with their messages; other codes are transient."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits that a client requests.

    - `seconds`: session expiry interval; 0: the session ends with the connection.
    - `receive_maximum`: messages of QoS 1 that the broker sends before the first is acknowledged.
    """

    seconds: int = 0
    receive_maximum: int = 65_535


class BrokerLimits(NamedTuple):
    """Limits of a broker: unacknowledged messages that it accepts, and bytes of a packet."""

    receive_maximum: int = 65_535
    packet_bytes: int = 268_435_455


class ConnectionFailed(DotrError):
    """Permanent failure of a connection. `hint` is the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message} ({hint[:1].lower()}{hint[1:].removesuffix('.')})")
        self.message = message
        self.hint = hint


class Opened(Protocol):
    """Callback for each new connection, called in the connection's thread."""

    def __call__(self, client: Client, session_present: bool, limits: BrokerLimits) -> None:
        """Use a connected client; `session_present`: the broker has kept the session."""


def paho_problem() -> str | None:
    """The library that is missing or too old, for a message; None where MQTT can be used."""
    try:
        from paho.mqtt.enums import CallbackAPIVersion
    except ImportError:
        return "the Python package paho-mqtt 2, which is not installed"
    return None if hasattr(CallbackAPIVersion, "VERSION2") else "paho-mqtt 2"


class MqttConnection:
    """A connection to a broker, whose thread reconnects until it is closed or fails permanently.

    `connected` is True between `confirm` and the loss of the connection.

    Args:
        broker: the broker.
        purpose: the input or output, for messages.
        opened: called with each new connection; it calls `confirm` once the connection is ready,
            or `fail`.
        limits: the properties of the session.
        has_capacity: False while no packets should be read.
        span: the place of the broker in the configuration.
    """

    def __init__(
        self,
        broker: MqttBroker,
        purpose: str,
        opened: Opened,
        limits: SessionLimits,
        has_capacity: Callable[[], bool] = lambda: True,
        span: Span | None = None,
    ) -> None:
        self.connected = False
        self.failure: ConnectionFailed | None = None
        self._broker = broker
        self._purpose = purpose
        self._opened = opened
        self._limits = limits
        self._has_capacity = has_capacity
        self._span = span
        self._tried = threading.Event()
        self._stopped = threading.Event()
        self._is_loss_logged = False
        self._problem = ""
        self._client: Client | None = None
        self._is_reading = False
        self._confirmed_at: float | None = None
        self._waker, self._woken = socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"dotr {purpose}")

    def start(self) -> None:
        """Start the thread, and wait for the outcome of the first attempt.

        Raises `Refused` (S128) for a permanent error, S124 where the environment lacks a secret.
        """
        self._broker.credentials()
        self._thread.start()
        self._tried.wait()
        if self.failure is not None:
            raise refuse("S128", self.failure.message, self._span, self.failure.hint)

    def confirm(self) -> None:
        """Confirm that the connection can be used: sets `connected`."""
        self.connected = True
        self._confirmed_at = time.monotonic()
        if self._is_loss_logged:
            LOG.warning("%s: %s answers again.", self._purpose, self._broker.address)
            self._is_loss_logged = False
        self._tried.set()

    def fail(self, message: str, hint: str) -> None:
        """End the connection permanently, with a message and the way out."""
        if self.failure is None:
            self.failure = ConnectionFailed(f"{self._purpose}: {message}", hint)
        self._wake()

    def close(self) -> None:
        """Close the connection with DISCONNECT. No callback is called after this has returned."""
        self._stopped.set()
        self._wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        self._waker.close()
        self._woken.close()

    def is_silent(self) -> bool:
        """True if no bytes wait in the socket, and none are being read; for other threads."""
        connection = None if self._client is None else self._client.socket()
        if connection is None or connection.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0) and not self._is_reading  # in this order: bytes are read while the flag is set

    def resume(self) -> None:
        """Notify the thread that `has_capacity` may be True again."""
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # a full buffer wakes the thread too
            self._waker.send(b"\0")

    def _run(self) -> None:
        tries = 0
        try:
            while not self._stopped.wait(wait_before(tries)):
                self._confirmed_at = None
                self._problem = "the broker ended the connection"
                try:
                    self._connect_once()
                except Exception as error:  # a malformed packet ends only this connection
                    self._problem = _reason(error)
                self.connected = False
                if self._stopped.is_set() or self.failure is not None:
                    return
                tries = 0 if self._seconds_of_use() >= _STEADY_SECONDS else tries + 1
                self._log_loss(tries)
                self._tried.set()
        finally:
            self.connected = False
            self._tried.set()

    def _seconds_of_use(self) -> float:
        """Seconds since the connection was confirmed; 0 where it was not."""
        return 0.0 if self._confirmed_at is None else time.monotonic() - self._confirmed_at

    def _log_loss(self, tries: int) -> None:
        """Log the loss of a connection, and every 16th failed attempt.

        Repeated loss soon after connecting may be caused by another client with the same client_id.
        """
        if self._is_loss_logged and tries % 16:
            return
        self._is_loss_logged = True
        is_lost_again = tries >= 3 and self._confirmed_at is not None
        other = f" Does another client have the client_id {self._broker.client_id}?" if is_lost_again else ""
        LOG.warning("%s: %s: %s. It is tried again.%s", self._purpose, self._broker.address, self._problem, other)

    def _connect_once(self) -> None:
        """Connect, and transfer packets until the connection is lost."""
        self._client = client = self._new_client()
        self._is_reading = False
        try:
            properties = self._connect_properties()
            client.connect(
                self._broker.host, self._broker.port, _KEEPALIVE_SECONDS, clean_start=not self._limits.seconds, properties=properties
            )
        except ssl.SSLCertVerificationError as error:
            self.fail(
                f"{self._broker.address} is not trusted: {error.verify_message or 'its certificate cannot be verified'}",
                "Name the certificate of its authority as tls.ca, or use the host name that its certificate has.",
            )
            return
        except ssl.SSLError as error:
            if error.reason not in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
                raise
            self.fail(f"{self._broker.address} does not speak TLS", "Write mqtt:// without TLS, or the port that speaks TLS.")
            return
        except ConnectionResetError as error:
            self._problem = f"{_reason(error)} (does it speak TLS there?)" if self._broker.tls else _reason(error)
            return
        try:
            self._transfer_packets(client)
        finally:
            with suppress(OSError):
                _disconnect(client)

    def _new_client(self) -> Client:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

        broker = self._broker
        client = Client(
            CallbackAPIVersion.VERSION2,
            broker.client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        client.connect_timeout = _CONNECT_SECONDS
        client.max_inflight_messages_set(65_535)  # the user of the connection observes the broker's limit
        client.username_pw_set(*broker.credentials())
        if broker.tls:
            client.tls_set_context(broker.tls_files.context())
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        # With this callback, packets queued by other threads are sent by `_transfer_packets`.
        client.on_socket_register_write = lambda client, data, used: self._wake()
        return client

    def _connect_properties(self) -> Properties:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._limits.seconds
        properties.ReceiveMaximum = self._limits.receive_maximum
        return properties

    def _on_connect(self, client: Client, data: object, flags: ConnectFlags, code: ReasonCode, properties: Properties | None) -> None:
        if code.is_failure:
            if code.value in _REFUSALS:
                hint = "Correct username, password (its environment variable) or the rights of the user."
                self.fail(f"{self._broker.address} refuses the connection: {_REFUSALS[code.value]}", hint)
            self._problem = f"the broker refuses the connection ({code.getName().lower()})"
            return
        default = BrokerLimits()
        limits = BrokerLimits(
            getattr(properties, "ReceiveMaximum", default.receive_maximum), getattr(properties, "MaximumPacketSize", default.packet_bytes)
        )
        self._opened(client, bool(flags.session_present), limits)

    def _on_disconnect(self, client: Client, data: object, flags: DisconnectFlags, code: ReasonCode, properties: Properties | None) -> None:
        if flags.is_disconnect_packet_from_server:
            self._problem = f"the broker ended the connection ({code.getName().lower()})"
            if code.value == _SESSION_TAKEN_OVER:
                hint = "Give each run a client_id of its own, or share a subscription: $share/GROUP/FILTER."
                self.fail(f"another client took over the session of client_id {self._broker.client_id}", hint)

    def _transfer_packets(self, client: Client) -> None:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        deadline: float | None = time.monotonic() + _CONNECT_SECONDS
        paused_read = time.monotonic()
        while not self._stopped.is_set() and self.failure is None and (connection := client.socket()) is not None:
            now = time.monotonic()
            if deadline is not None and self._confirmed_at is not None:
                deadline = None
            elif deadline is not None and now >= deadline:
                self._problem = "the broker does not answer"
                return
            may_read = deadline is not None or self._has_capacity() or now - paused_read >= _PAUSED_READ_SECONDS
            pending = may_read and isinstance(connection, ssl.SSLSocket) and connection.pending() > 0
            events = (select.POLLIN if may_read else 0) | (select.POLLOUT if client.want_write() else 0)
            number = connection.fileno()
            poll.register(number, events)
            ready = dict(poll.poll(0 if pending else 1_000))
            poll.unregister(number)
            if self._woken.fileno() in ready:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
            ready_events = ready.get(number, 0)
            if pending or (may_read and ready_events & ~select.POLLOUT):
                paused_read = now
                self._is_reading = True
                client.loop_read()
                self._is_reading = False
            elif ready_events & (select.POLLHUP | select.POLLERR):
                return
            if client.want_write():
                client.loop_write()
            client.loop_misc()


def _disconnect(client: Client) -> None:
    """Send DISCONNECT, and wait until the broker closes the connection.

    The broker has then read all acknowledgements. Otherwise the next run could take over the
    session while they are unread, and the broker would discard them.
    """
    if (connection := client.socket()) is None:
        return
    deadline = time.monotonic() + _END_SECONDS
    with socket(fileno=os.dup(connection.fileno())) as line:  # the library closes its own descriptor at once
        client.disconnect()
        while client.want_write() and client.socket() is not None and time.monotonic() < deadline:
            client.loop_write()
        line.settimeout(_END_SECONDS)
        while time.monotonic() < deadline and line.recv(1 << 16):
            pass
    connection.close()


def _reason(error: Exception) -> str:
    """The text of an error of a connection, for messages."""
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    return f"a packet cannot be read ({type(error).__name__})"
