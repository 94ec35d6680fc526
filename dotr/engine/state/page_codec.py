"""Binary form of page parts for a worker's temporary database.

Idea: columns of times, ordinals and each attribute, with equal terms interned, so that C loops of
the standard library build the events. `marshal` takes a third of the time of JSON. Its format
depends on the version of Python and is unsafe for foreign input: the texts live in an unnamed file
of this process and are deleted with it. State and checkpoints are JSON.
Cost: proportional to the events, about 0.4 µs each to read or write.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from dotr.engine.state.log import Consumption
from dotr.model.terms import Term
from dotr.temporal.matching.events import StoredEvent

PagePart: TypeAlias = tuple[dict[int, list[StoredEvent]], list[Consumption]]
"""A part of a page: events by port, in order of time, and consumed events."""


def encode_part(events: Mapping[int, Sequence[StoredEvent]], pairs: Sequence[Consumption]) -> bytes:
    """A part of one page as bytes; each port has at least one event."""
    interned: dict[Term | None, Term | None] = {}
    ports: list[Any] = []
    for port, stored in events.items():
        times, ordinals, values = zip(*stored, strict=True)
        ports.append((port, times, ordinals, *[tuple(map(interned.setdefault, column, column)) for column in zip(*values, strict=True)]))
    return marshal.dumps((ports, list(pairs)))


def decode_parts(bodies: Iterable[bytes]) -> PagePart:
    """The union of parts of one page, which are in order of time.

    >>> first, second = (5, 0, ('"a"', None)), (7, 1, ('"a"', '"b"'))
    >>> bodies = encode_part({0: [first], 1: [first]}, [(0, 5, 0, 3)]), encode_part({}, []), encode_part({0: [second] * 2}, [(1, 7, 1, 3)])
    >>> decode_parts(bodies) == ({0: [first, second, second], 1: [first]}, [(0, 5, 0, 3), (1, 7, 1, 3)])
    True
    """
    columns_of: dict[int, list[list[Any]]] = {}
    pairs: list[Consumption] = []
    interned: dict[Term | None, Term | None] = {}
    for number, body in enumerate(bodies):
        ports, consumed = marshal.loads(body)
        pairs += consumed
        for port, times, ordinals, *columns in ports:
            if number:  # the first part, often the largest, is already interned
                columns = [map(interned.setdefault, column, column) for column in columns]
            if port not in columns_of:
                columns_of[port] = list(map(list, (times, ordinals, *columns)))
            else:
                for so_far, column in zip(columns_of[port], (times, ordinals, *columns), strict=True):
                    so_far += column
    return {
        port: list(zip(times, ordinals, zip(*columns, strict=True) if columns else repeat(()), strict=bool(columns)))
        for port, (times, ordinals, *columns) in columns_of.items()
    }, pairs
