"""Destinations of outputs and dead letters: a closed union, of which `dotr.sinks.opening` makes sinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from dotr.model.places import Span
from dotr.model.terms import Variable


@dataclass(frozen=True, slots=True)
class PathDestination:
    """A file in process, on Spark a folder with a file for each batch. `span` is its place in the
    configuration."""

    path: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class KafkaDestination:
    """A topic of a Kafka cluster.

    - `properties`: names and texts of librdkafka's properties; secrets are `${NAME}`.
    - `key`: the attribute whose value is the key of a message; None: messages have none.
    - `exactly_once`: batches are transactions (on Spark); else they are written at least once.
    - `event_time`: messages have the time of the event; else that of the clock.
    """

    topic: str
    properties: tuple[tuple[str, str], ...]
    key: Variable | None = None
    exactly_once: bool = False
    event_time: bool = False
    span: Span | None = None

    def __str__(self) -> str:
        return f"topic {self.topic} of Kafka at {dict(self.properties)['bootstrap.servers']}"


Destination: TypeAlias = PathDestination | KafkaDestination


def needs_identity(destination: Destination) -> bool:
    """Test for a destination that knows a checkpoint by its ID: it writes batches exactly once."""
    match destination:
        case PathDestination():
            return False
        case KafkaDestination():
            return destination.exactly_once
        case _:
            assert_never(destination)
