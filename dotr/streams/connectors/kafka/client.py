"""Clients of a Kafka cluster: their properties, and the classification of their errors.

Errors are of two kinds. A transient error (an unreachable broker) is retried without end. A
permanent error (credentials, a certificate, a topic that is unknown or forbidden) is `InputFailed`.
No message shows the value of a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol

from dotr.errors.diagnostics import InputFailed, refuse
from dotr.evaluation.files.environment import VARIABLE, revealed
from dotr.streams.connectors.kafka.topics import KafkaInput

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka.admin import AdminClient

REFUSED: Final[Mapping[str, str]] = {
    "group.id": "offsets are kept in the checkpoint, and no group is joined",
    "enable.auto.commit": "nothing is committed to the broker: offsets are kept in the checkpoint",
    "enable.auto.offset.store": "nothing is committed to the broker: offsets are kept in the checkpoint",
    "auto.offset.reset": "a client that rewinds by itself would lose or repeat records",
    "enable.partition.eof": "the end of a partition decides when its input is idle or ended",
    "enable.idempotence": "it belongs to what writes",
    "transactional.id": "it belongs to what writes",
    "acks": "it belongs to what writes",
    "plugin.library.paths": "a plugin is code that is loaded",
    "ssl.engine.location": "an engine is code that is loaded",
    "enable.ssl.certificate.verification": "TLS verifies the certificate; ssl.ca.location names another root",
    "ssl.endpoint.identification.algorithm": "TLS verifies the host name",
    "bootstrap.servers": "",
}
"""Properties that a configuration cannot set, with the reason."""

_ALWAYS: Final[Mapping[str, str | int | bool]] = {
    "group.id": "dotr",  # librdkafka requires one; nothing is ever committed for it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "log_level": 0,
}

_DEFAULTS: Final[Mapping[str, str | int | bool]] = {
    "isolation.level": "read_committed",
    "client.id": "dotr",
    "fetch.queue.backoff.ms": 10,  # with the default, a client waits a second after its queue was full
    "queued.max.messages.kbytes": 16_384,
    "max.poll.interval.ms": 86_400_000,  # a slow query may pause between two reads for hours
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 60_000,
    "socket.connection.setup.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 10_000,
}

_PERMANENT: Final = (
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_TOPIC_EXCEPTION",
)
"""Names of permanent errors: a retry cannot succeed."""


def kafka() -> ModuleType:
    """The module `confluent_kafka`; raises `Refused` (C226) where it is not installed."""
    try:
        import confluent_kafka
    except ImportError:
        raise refuse(
            "C226", "Kafka needs the Python package confluent-kafka, which is not installed", None, "pip install 'dotr[kafka]'"
        ) from None
    return confluent_kafka


def properties_of(topics: KafkaInput, *, values: bool = True) -> dict[str, str | int | bool]:
    """The properties of a client, by name.

    With `values=False`, references to secrets (`${NAME}`) are not replaced, and the brokers are
    left out: a client of these properties connects to nothing.

    Raises `Refused` (S124) where a secret is missing from the environment.
    """
    given = {name: revealed(text) if values else text for name, text in topics.properties}
    if not values:
        del given["bootstrap.servers"]
    return {**_DEFAULTS, **given, **_ALWAYS}


class ClientEvents:
    """State of the connection of an input's clients, updated by their error callbacks.

    - `is_connected`: False once no broker can be reached.
    - `reason`: the text of the last transient error.
    - `failure`: the permanent error, if one has occurred.
    """

    def __init__(self, topics: KafkaInput) -> None:
        self._topics = topics
        self.is_connected = False
        self.reason = ""
        self.failure: InputFailed | None = None

    def on_error(self, error: KafkaError) -> None:
        """Record an error of a client: librdkafka's error callback."""
        failure = permanent_failure(self._topics, error)
        if failure is not None:
            self.failure = failure
        elif error.name() == "_ALL_BROKERS_DOWN":
            self.is_connected = False
        else:
            self.reason = error_text(self._topics, error)

    def check(self) -> None:
        """Raise the permanent error, if one has occurred."""
        if self.failure is not None:
            raise self.failure


def consumer(topics: KafkaInput, events: ClientEvents, **further: str | int | bool) -> Consumer:
    """A consumer; `further` properties override those of the input.

    Raises `Refused` (C227) where its properties cannot be used.
    """
    return _client(kafka().Consumer, topics, {**properties_of(topics), **further}, events)  # type: ignore[return-value]


def admin(topics: KafkaInput, events: ClientEvents) -> AdminClient:
    """A client that requests topics and offsets; raises `Refused` (C227) where its properties
    cannot be used."""
    kafka()
    from confluent_kafka.admin import AdminClient

    return _client(AdminClient, topics, properties_of(topics), events)  # type: ignore[return-value]


def _client(kind: type, topics: KafkaInput, properties: dict[str, str | int | bool], events: ClientEvents) -> object:
    try:
        return kind({**properties, "error_cb": events.on_error})
    except kafka().KafkaException as error:
        raise refuse("C227", f"input {topics.name}: {_property_error(topics, error.args[0])}", None, _PROPERTIES) from None


_PROPERTIES: Final = "The properties are librdkafka's: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"


def check_properties(topics: KafkaInput) -> str:
    """The reason why no client can have these properties; empty if one can.

    Connects to nothing, and reads no secret: keys and certificates given as text are not checked.

    Raises `Refused` (C226) where the library is not installed.
    """
    properties = {
        name: value for name, value in properties_of(topics, values=False).items() if not name.endswith((".pem", ".key.password"))
    }
    library = kafka()
    try:
        library.Consumer(properties).close()
    except library.KafkaException as error:
        return _property_error(topics, error.args[0])
    return ""


def _property_error(topics: KafkaInput, error: KafkaError) -> str:
    return without_secrets(topics, error.str())


def permanent_failure(topics: KafkaInput, error: KafkaError) -> InputFailed | None:
    """The failure for a permanent error; None for a transient one."""
    name, text = error.name(), error_text(topics, error)
    if name == "_SSL" and "certificate" in text.lower():
        hint = "ssl.ca.location names the root that signs the broker's certificate; the host name must be the certificate's."
        return InputFailed("S125", f"input {topics.name}: TLS with {topics.servers} cannot be: {text}", hint)
    if name not in _PERMANENT:
        return None
    hint = "Are sasl.mechanism, sasl.username and sasl.password right?" if "AUTHENTICATION" in name or "SASL" in name else ""
    return InputFailed("S125", f"input {topics.name}: {topics.servers} refuses: {text}", hint or "May this user read the topic?")


class Connected(Protocol):
    """A Kafka input or output, with the names and texts of its librdkafka properties."""

    @property
    def properties(self) -> tuple[tuple[str, str], ...]:
        """Names and texts of properties; secrets are `${NAME}`."""


def error_text(topics: Connected, error: KafkaError) -> str:
    """The message of an error without secrets, on one line.

    librdkafka prefixes the address of the broker: `sasl_plaintext://b1:9092/bootstrap: reason
    (after 3ms in state AUTH_REQ)`.
    """
    return without_secrets(topics, " ".join(error.str().split()))


def without_secrets(topics: Connected, text: str) -> str:
    """The text, with the values of the secrets of an input or output replaced by `${NAME}`."""
    for written in _secrets(topics.properties):
        try:
            value = revealed(written)
        except Exception:  # a secret without a value cannot be in the text
            continue
        if value:
            text = text.replace(value, written)
    return text


def _secrets(properties: Sequence[tuple[str, str]]) -> list[str]:
    return [text for _, text in properties if VARIABLE.fullmatch(text)]
