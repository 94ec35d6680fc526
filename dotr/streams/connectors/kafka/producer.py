"""Producers of a Kafka cluster: their properties, and the classification of their errors.

Errors are of two kinds. A transient error (an unreachable broker) is retried without end. A
permanent error (credentials, a certificate, a topic that is unknown or forbidden) is `TopicFailed`.
No message shows the value of a secret.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.environment import revealed
from dotr.model.places import Span
from dotr.streams.connectors.kafka.client import error_text, kafka, without_secrets
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.sinks.batches import Check
from dotr.streams.sinks.files import WriteFailed

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

LOG: Final = logging.getLogger("dotr")

_SILENT: Final = logging.getLogger("dotr.librdkafka")
"""Discards what librdkafka logs by itself, such as fencing: its errors are raised as exceptions."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

REFUSED: Final[Mapping[str, str]] = {
    "group.id": "the number of the last batch is committed to a group of dotr's own",
    "enable.auto.commit": "the number of the last batch is committed to a group of dotr's own",
    "auto.offset.reset": "nothing is read",
    "enable.idempotence": "each message is to be there once",
    "enable.gapless.guarantee": "what cannot be written ends the run",
    "transactional.id": "it fences other runs on the same checkpoint",
    "acks": "what is written must be there when a broker is lost",
    "request.required.acks": "what is written must be there when a broker is lost",
    "partitioner": "keys are partitioned as Java's client does",
    "plugin.library.paths": "a plugin is code that is loaded",
    "ssl.engine.location": "an engine is code that is loaded",
    "enable.ssl.certificate.verification": "TLS verifies the certificate; ssl.ca.location names another root",
    "ssl.endpoint.identification.algorithm": "TLS verifies the host name",
}
"""Properties that a configuration cannot set, with the reason."""

_DEFAULTS: Final[Mapping[str, str | int | bool]] = {
    "client.id": "dotr",
    "linger.ms": 20,
    "message.timeout.ms": 0,  # no limit: an unreachable broker is retried without end
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 60_000,
    "socket.connection.setup.timeout.ms": 10_000,
}
_ALWAYS: Final[Mapping[str, str | int | bool]] = {"enable.idempotence": True, "log_level": 0}

TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
TRANSACTION_MILLISECONDS: Final = 15 * 60 * 1_000
"""Default limit of the duration of a transaction: the highest that a broker allows by default."""

_PERMANENT: Final = (
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "INVALID_TOPIC_EXCEPTION",
    "INVALID_TRANSACTION_TIMEOUT",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
)
"""Names of permanent errors: a retry cannot succeed."""

STEP_SECONDS: Final = 1.0
"""Longest wait between two calls of `check`."""
_PATIENCE_SECONDS: Final = 10.0
"""Time without a response before the first warning; six times as long between further ones."""
_TOPIC_BYTES: Final = 1_048_588
"""`max.message.bytes` of a topic where the user may not read it: Kafka's default."""
OVERHEAD_BYTES: Final = 512
"""Reserve for headers and the frame of a record."""


class TopicFailed(WriteFailed):
    """Failure of an output that cannot be written further, with the reason as `diagnostic`.

    Before the first batch it is raised as an error of the user (`Refused`); later the run fails.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.diagnostic = Diagnostic(code, message, None, hint)
        super().__init__(f"{code} {message}. {hint}".strip())

    def refused(self, span: Span | None) -> Refused:
        """The failure as an error of the user, with its place in the configuration."""
        return Refused([replace(self.diagnostic, span=span)])


class ProducerEvents:
    """State of the connection of an output's clients, updated by their error callbacks.

    - `failure`: the permanent error, if one has occurred.
    - `reason`: the text of the last transient error.
    - `lost`: the number of transient errors.
    """

    def __init__(self, destination: KafkaDestination) -> None:
        self._destination = destination
        self._since = time.monotonic()
        self._warn_at = self._since + _PATIENCE_SECONDS
        self.failure: TopicFailed | None = None
        self.reason = ""
        self.lost = 0

    def on_error(self, error: KafkaError) -> None:
        """Record an error of a client: librdkafka's error callback."""
        failure = permanent_failure(self._destination, error)
        if failure is not None:
            self.failure = failure
            return
        self.lost += 1
        if error.name() != "_ALL_BROKERS_DOWN":
            self.reason = error_text(self._destination, error)

    def answered(self) -> None:
        """Record a response of a broker, which postpones the next warning."""
        self._since = time.monotonic()
        self._warn_at = self._since + _PATIENCE_SECONDS

    def waiting(self, check: Check) -> None:
        """Called while waiting: raises the permanent error, or what `check` raises; warns."""
        if self.failure is not None:
            raise self.failure
        check()
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + 6 * _PATIENCE_SECONDS
            LOG.warning("Waiting for %s%s.", self._destination, f": {self.reason}" if self.reason else "")


def properties_of(destination: KafkaDestination, *, values: bool = True) -> dict[str, str | int | bool]:
    """The properties of a producer, by name.

    With `values=False`, references to secrets (`${NAME}`) are not replaced. Raises `Refused` (S124)
    where a secret is missing from the environment.
    """
    given = {name: revealed(text) if values else text for name, text in destination.properties}
    return {**_DEFAULTS, **given, **_ALWAYS}


def transaction_properties(destination: KafkaDestination, name: str) -> dict[str, str | int | bool]:
    """Further properties of a producer of transactions; `name` is its `transactional.id`."""
    timeout = transaction_seconds(destination) * 1_000
    # librdkafka requires a timeout of messages within that of the transaction
    patience = dict(destination.properties).get("message.timeout.ms", int(timeout))
    return {"transactional.id": name, TRANSACTION_TIMEOUT: int(timeout), "message.timeout.ms": patience}


def transaction_seconds(destination: KafkaDestination) -> float:
    """Limit of the duration of a transaction in s; raises `Refused` (C227) for another text."""
    text = dict(destination.properties).get(TRANSACTION_TIMEOUT, str(TRANSACTION_MILLISECONDS))
    if not text.isdecimal():
        raise refuse("C227", f"{TRANSACTION_TIMEOUT} is {text}, and no number of milliseconds", destination.span)
    return int(text) / 1_000


def producer(destination: KafkaDestination, events: ProducerEvents, further: Mapping[str, str | int | bool]) -> Producer:
    """A producer; `further` properties override those of the output.

    Raises `Refused` (C227) where its properties cannot be used.
    """
    library = kafka()
    try:
        return library.Producer({**properties_of(destination), **further, "error_cb": events.on_error, "logger": _SILENT})  # type: ignore[no-any-return]
    except library.KafkaException as error:
        raise _unusable(destination, error.args[0]) from None


def consumer(destination: KafkaDestination, events: ProducerEvents, group: str) -> Consumer:
    """A consumer that requests the committed offsets of a group; raises `Refused` (C227)."""
    library = kafka()
    further = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0}
    try:
        return library.Consumer({**connection_properties(destination), **further, "error_cb": events.on_error})  # type: ignore[no-any-return]
    except library.KafkaException as error:
        raise _unusable(destination, error.args[0]) from None


_CONNECTION: Final = ("bootstrap.", "security.", "sasl.", "ssl.", "socket.", "broker.", "client.", "reconnect.", "api.", "metadata.")


def connection_properties(destination: KafkaDestination) -> dict[str, str | int | bool]:
    """The properties of the connection alone, for clients that are no producers."""
    return {name: value for name, value in properties_of(destination).items() if name.startswith(_CONNECTION)}


def check_properties(destination: KafkaDestination) -> Diagnostic | None:
    """The problem of properties that no producer can have, or None.

    Connects to nothing, and reads no secret: keys and certificates given as text are not checked.

    Raises `Refused` (C226) where the library is not installed.
    """
    properties = {
        name: value
        for name, value in properties_of(destination, values=False).items()
        if name != "bootstrap.servers" and not name.endswith((".pem", ".key.password", ".location"))
    }
    library = kafka()
    try:
        if destination.exactly_once:
            properties |= transaction_properties(destination, "dotr")
        library.Producer(properties)
    except library.KafkaException as error:
        return _unusable(destination, error.args[0]).diagnostics[0]
    except Refused as refused:
        return refused.diagnostics[0]
    return None


def _unusable(destination: KafkaDestination, error: KafkaError) -> Refused:
    hint = "A key with a dot is a property of librdkafka, whose CONFIGURATION.md lists them."
    return refuse("C227", f"the client cannot be made: {without_secrets(destination, error.str())}", destination.span, hint)


class TopicMetadata(NamedTuple):
    """Number of partitions of a topic, and limit of the bytes of one of its messages."""

    partitions: int
    most_bytes: int


def topic_metadata(destination: KafkaDestination, events: ProducerEvents, check: Check) -> TopicMetadata:
    """Request the metadata of the topic, until a broker responds.

    Raises `TopicFailed` for a permanent error (S125) or an unknown topic (S126), and what `check`
    raises.
    """
    library = kafka()
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    settings: dict[str, object] = {**connection_properties(destination), "log_level": 0, "error_cb": events.on_error}
    admin = AdminClient(settings)  # type: ignore[arg-type]
    name = destination.topic
    while True:
        try:
            described = _polled(admin, admin.describe_topics(TopicCollection([name]), request_timeout=5)[name], events, check)
            break
        except library.KafkaException as error:
            failure = permanent_failure(destination, error.args[0])
            if failure is not None:
                raise failure from None
            events.waiting(check)
            time.sleep(0.2)
    events.answered()
    try:
        resource = ConfigResource(ResourceType.TOPIC, name)
        given = _polled(admin, admin.describe_configs([resource], request_timeout=5)[resource], events, check)
        most = int(given["max.message.bytes"].value)
    except (library.KafkaException, KeyError, ValueError, TypeError):  # not every user may read it
        most = _TOPIC_BYTES
    return TopicMetadata(len(described.partitions), most)


def _polled(admin: AdminClient, future, events: ProducerEvents, check: Check):  # type: ignore[no-untyped-def]
    """The result of a request; calls `check` while it waits."""
    while not future.done():
        admin.poll(0.05)
        events.waiting(check)
    return future.result()


def permanent_failure(destination: KafkaDestination, error: KafkaError) -> TopicFailed | None:
    """The failure for a permanent error; None for a transient one."""
    name, text = error.name(), error_text(destination, error)
    if name == "_SSL" and "certificate" in text.lower():
        hint = "ssl.ca.location names the root that signs the broker's certificate; the host name must be the certificate's."
        return TopicFailed("S125", f"{destination}: TLS cannot be: {text}", hint)
    if name not in _PERMANENT:
        return None
    if "UNKNOWN" in name:
        return TopicFailed(
            "S126", f"there is no {destination}, or a partition of it was lost", "Correct the name, or make the topic first."
        )
    if "TIMEOUT" in name:
        most = "The broker's transaction.max.timeout.ms bounds it."
        return TopicFailed("S125", f"{destination}: the broker refuses {TRANSACTION_TIMEOUT}: {text}", most)
    hint = "Are sasl.mechanism, sasl.username and sasl.password right?" if "AUTHENTICATION" in name or "SASL" in name else ""
    return TopicFailed("S125", f"{destination}: the broker refuses: {text}", hint or "May this user write to the topic?")
