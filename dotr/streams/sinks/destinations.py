"""Destinations of outputs and dead letters: a closed union, opened by
`dotr.streams.connectors.opening`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, assert_never

from dotr.model.places import Span
from dotr.model.terms import Variable

if TYPE_CHECKING:
    from dotr.streams.connectors.mqtt.broker import MqttBroker


@dataclass(frozen=True, slots=True)
class PathDestination:
    """A file in process, or on Spark a folder with a file for each batch.

    `span` is its place in the configuration, in all destinations.
    """

    path: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class HttpDestination:
    """URL that batches are posted to.

    - `shown`: the URL without user, password and query.
    - `number`: the number of the output, from 0 on.
    - `url`, `token`: functions that return the URL with its password, and the token (None: there is
      none), so that no secret is stored.
    - `ca`: a file with the certificates of the trusted authorities; empty: the system's.
    """

    shown: str
    number: int
    url: Callable[[], str] = field(compare=False)
    token: Callable[[], str] | None = field(default=None, compare=False)
    ca: str = ""
    span: Span | None = None

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True, slots=True)
class MqttDestination:
    """Topic of an MQTT broker; `retain`: the broker keeps the last message for later
    subscribers."""

    broker: MqttBroker
    topic: str
    qos: int = 1
    retain: bool = False
    span: Span | None = None

    def __str__(self) -> str:
        return f"topic {self.topic} of {self.broker.address}"


@dataclass(frozen=True, slots=True)
class KafkaDestination:
    """A topic of a Kafka cluster.

    - `properties`: names and texts of librdkafka's properties; secrets are `${NAME}`.
    - `key`: the attribute whose value is the key of a message; None: messages have none.
    - `exactly_once`: True if batches are transactions (on Spark); False: they are written at least
      once.
    - `event_time`: True if messages have the time of the event; False: that of the clock.
    """

    topic: str
    properties: tuple[tuple[str, str], ...]
    key: Variable | None = None
    exactly_once: bool = False
    event_time: bool = False
    span: Span | None = None

    def __str__(self) -> str:
        return f"topic {self.topic} of Kafka at {dict(self.properties)['bootstrap.servers']}"


Destination: TypeAlias = PathDestination | KafkaDestination | HttpDestination | MqttDestination


def needs_identity(destination: Destination) -> bool:
    """True if batches in a destination are identified by the ID of their checkpoint."""
    match destination:
        case PathDestination() | MqttDestination():
            return False
        case KafkaDestination():
            return destination.exactly_once
        case HttpDestination():
            return True
        case _:
            assert_never(destination)
