"""Some of a page as bytes, for a worker's own temporary database: written often, read more often, and by nobody else.

Idea: columns of times, ordinals and each attribute, in which equal terms are one, so that the library's own loops make events of them.
They are written by `marshal`, which takes a third of the time of JSON. Its form may change with Python, and it must not be fed by others:
what is here is in an unnamed file of this process's and gone with it, and holds numbers and texts. State and checkpoints are JSON.
Cost: reading and writing are proportional to the events, about 0.4 µs each.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from dotr.model.terms import Term
from dotr.patterns.events import StoredEvent
from dotr.state.state_log import Consumption

PagePart: TypeAlias = tuple[dict[int, list[StoredEvent]], list[Consumption]]
"""Some of what a page holds: events by port, in the order of time, and what is consumed."""


def encode_part(events: Mapping[int, Sequence[StoredEvent]], pairs: Sequence[Consumption]) -> bytes:
    """A part, of one page; no port is without events."""
    one: dict[Term | None, Term | None] = {}
    ports: list[Any] = []
    for port, some in events.items():
        times, ordinals, values = zip(*some, strict=True)
        ports.append((port, times, ordinals, *[tuple(map(one.setdefault, column, column)) for column in zip(*values, strict=True)]))
    return marshal.dumps((ports, list(pairs)))


def decode_parts(bodies: Iterable[bytes]) -> PagePart:
    """What parts of one page hold together, those of earlier times first.

    >>> first, second = StoredEvent(5, 0, ('"a"', None)), StoredEvent(7, 1, ('"a"', '"b"'))
    >>> bodies = write_part({0: [first], 1: [first]}, [(0, 5, 0, 3)]), write_part({}, []), write_part({0: [second] * 2}, [(1, 7, 1, 3)])
    >>> read_parts(bodies) == ({0: [first, second, second], 1: [first]}, [(0, 5, 0, 3), (1, 7, 1, 3)])
    True
    """
    found: dict[int, list[list[Any]]] = {}
    pairs: list[Consumption] = []
    one: dict[Term | None, Term | None] = {}
    for number, body in enumerate(bodies):
        ports, consumed = marshal.loads(body)
        pairs += consumed
        for port, times, ordinals, *columns in ports:
            if number:  # equal terms of all but the first, which often holds the most, are one
                columns = [map(one.setdefault, column, column) for column in columns]
            if port not in found:
                found[port] = list(map(list, (times, ordinals, *columns)))
            else:
                for so_far, column in zip(found[port], (times, ordinals, *columns), strict=True):
                    so_far += column
    new, happened = tuple.__new__, repeat(StoredEvent)
    return {
        port: list(map(new, happened, zip(times, ordinals, zip(*columns, strict=True) if columns else repeat(()), strict=bool(columns))))
        for port, (times, ordinals, *columns) in found.items()
    }, pairs
