"""What stage two remembers: the events of a port within its retention, indexed by what constraints equate.

Invariant: an index holds, for each key, the events of the port in order of (time, ordinal); every event not older than the
retention is there, and at most as many expired ones as live ones. Cost: adding and expiring are O(1) amortised an event; a look-up
touches the events of its own key alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from dotr.expressions import equality_key
from dotr.model.time import Micros
from dotr.patterns.ties import Values


class Happened(NamedTuple):
    """An event as stage two holds it. `ordinal` tells it from the others of its stream at its instant, in the tie order."""

    time: Micros
    ordinal: int
    values: Values


Key: TypeAlias = str | tuple[str, ...] | None
"""What an index is looked up by: one equality key, several, or None for the index over everything (no equality)."""

KeyIndex: TypeAlias = dict[Key, list[Happened]]

_TRIM = 64


def key_function(positions: tuple[int, ...]) -> Callable[[Values], Key]:
    """How an index finds an event's key; raises `_Unbound` through a KeyError where an equated attribute is unbound."""
    if not positions:
        return lambda values: None
    if len(positions) == 1:
        (position,) = positions
        return lambda values: equality_key(_bound(values[position]))
    return lambda values: tuple([equality_key(_bound(values[position])) for position in positions])


def _bound(value: str | None) -> str:
    if value is None:
        raise KeyError
    return value


class PortStore:
    """The remembered events of one port and their indexes."""

    __slots__ = ("_keys", "indexes", "log", "retention")

    def __init__(self, retention: Micros, index_positions: tuple[tuple[int, ...], ...]) -> None:
        self.retention = retention
        self.log: deque[Happened] = deque()
        self.indexes: tuple[KeyIndex, ...] = tuple({} for _ in index_positions)
        self._keys = tuple(key_function(positions) for positions in index_positions)

    def add(self, event: Happened) -> None:
        """Remember an event not before any remembered one."""
        self.log.append(event)
        horizon = event.time - self.retention
        for index, key_of in zip(self.indexes, self._keys, strict=True):
            try:
                key = key_of(event.values)
            except KeyError:
                continue  # an unbound attribute equals nothing
            events = index.get(key)
            if events is None:
                index[key] = [event]
            else:
                events.append(event)
                half = len(events) >> 1
                if half > _TRIM and events[half].time < horizon:
                    del events[:half]

    def expire(self, now: Micros) -> None:
        """Forget what no instant from `now` on can look back to."""
        horizon = now - self.retention
        log = self.log
        while log and log[0].time < horizon:
            event = log.popleft()
            for index, key_of in zip(self.indexes, self._keys, strict=True):
                try:
                    key = key_of(event.values)
                except KeyError:
                    continue
                events = index.get(key)
                if events is not None and events[-1].time < horizon:
                    del index[key]

    def __iter__(self) -> Iterator[Happened]:
        return iter(self.log)

    def __len__(self) -> int:
        return len(self.log)
