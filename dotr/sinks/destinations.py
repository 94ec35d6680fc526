"""Destinations of outputs and dead letters: a closed union, of which `dotr.sinks.opening` makes sinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dotr.model.places import Span


@dataclass(frozen=True, slots=True)
class PathDestination:
    """A file in process, on Spark a folder with a file for each batch. `span` is its place in the
    configuration."""

    path: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.path


Destination: TypeAlias = PathDestination


def needs_identity(destination: Destination) -> bool:
    """Test for a destination that knows a checkpoint by its ID: it writes batches exactly once."""
    return False
