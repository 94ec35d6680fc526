"""Destinations of outputs and dead letters: a closed union, of which `dotr.sinks.opening` makes sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from dotr.model.places import Span

if TYPE_CHECKING:
    from dotr.sources.mqtt_connection import MqttBroker


@dataclass(frozen=True, slots=True)
class PathDestination:
    """A file in process, on Spark a folder with a file for each batch. `span` is its place in the
    configuration."""

    path: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class HttpDestination:
    """Address that batches are posted to.

    - `shown`: the URL without user, password and query.
    - `number`: the number of the output, from 0 on.
    - `url`, `token`: functions that reveal the whole URL and the token (None: none) when they are
      needed.
    - `ca`: a file with the certificates of the authorities to trust; empty: the system's.
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
    """Topic of an MQTT broker; `retain`: the broker keeps the last message for later subscribers."""

    broker: MqttBroker
    topic: str
    qos: int = 1
    retain: bool = False
    span: Span | None = None

    def __str__(self) -> str:
        return f"topic {self.topic} of {self.broker.address}"


Destination: TypeAlias = PathDestination | HttpDestination | MqttDestination


def needs_identity(destination: Destination) -> bool:
    """Test for a destination that knows a checkpoint by its ID: what it has of one is not of another."""
    return isinstance(destination, HttpDestination)
