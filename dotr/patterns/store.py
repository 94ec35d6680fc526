"""What stage two remembers: the events of a port within its retention, indexed by what constraints equate.

Invariant: an index holds, for each key, the events of the port that pass its filter, in the order of time and ties; every event not
older than the retention is there, and at most as many expired ones as live ones. Cost: adding and expiring are O(1) amortised an event
and index; a look-up touches the events of its own key alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from dotr.expressions import equality_key
from dotr.model.algebra import Expression
from dotr.model.time import Micros
from dotr.patterns.happened import Happened
from dotr.patterns.sliding import DistinctLane, Lane, OrderLane, SumLane
from dotr.patterns.ties import Values

Key: TypeAlias = str | tuple[str, ...] | None
"""What an index is looked up by: one equality key, several, or None for the index over everything (no equality)."""

Lanes: TypeAlias = dict[Key, list[Happened]]

Test: TypeAlias = Callable[[Micros, Values], bool]
"""Whether an event passes the constraints of a clause that name no other event."""


class Measure(Enum):
    """What an index answers of a stretch of its events, beside the events themselves."""

    COUNT = "count"
    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"
    DISTINCT = "distinct"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index on some attribute positions, over the events that satisfy `own` (constraints in the normal form of `shapes`, which name no
    other event); a measured one over those that have the attribute at `measured`, or all where that is None."""

    positions: tuple[int, ...]
    own: tuple[Expression, ...] = ()
    measure: Measure | None = None
    measured: int | None = None


_TRIM = 64


class Index:
    """The lanes of one index of one store, by key."""

    __slots__ = ("_key", "_spec", "_test", "lanes")

    def __init__(self, spec: IndexSpec, test: Test | None) -> None:
        self.lanes: Lanes = {}
        self._spec = spec
        self._test = test
        self._key = _key_function(spec.positions)

    def _lane(self) -> list[Happened]:
        spec = self._spec
        position = spec.measured if spec.measured is not None else 0
        match spec.measure:
            case None:
                return []
            case Measure.COUNT:
                return Lane(position)
            case Measure.SUM:
                return SumLane(position)
            case Measure.LEAST | Measure.GREATEST:
                return OrderLane(position, spec.measure is Measure.GREATEST)
            case Measure.DISTINCT:
                return DistinctLane(position)

    def add(self, event: Happened, horizon: Micros) -> None:
        time, _, values = event
        if self._test is not None and not self._test(time, values):
            return
        spec = self._spec
        if spec.measured is not None and values[spec.measured] is None:
            return
        try:
            key = self._key(values)
        except _Unbound:
            return  # an unbound attribute equals nothing
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = self._lane()
        lane.append(event)
        if isinstance(lane, Lane):
            positions = spec.positions
            lane.keys[values[positions[0]] if len(positions) == 1 else tuple([values[p] for p in positions])] = None
        half = len(lane) >> 1
        if half > _TRIM and lane[half].time < horizon:
            half = 1 << (half.bit_length() - 1)
            if isinstance(lane, Lane):
                lane.drop(half)
            else:
                del lane[:half]

    def forget(self, event: Happened, horizon: Micros) -> None:
        """Let go of an expired event's lane if all of it is expired."""
        try:
            key = self._key(event[2])
        except _Unbound:
            return
        lane = self.lanes.get(key)
        if lane is not None and lane[-1][0] < horizon:
            del self.lanes[key]


class _Unbound(Exception):
    """An attribute that makes a key is unbound."""


def _key_function(positions: tuple[int, ...]) -> Callable[[Values], Key]:
    """How an index finds an event's key."""
    if not positions:
        return lambda values: None
    if len(positions) == 1:
        (position,) = positions
        return lambda values: _key(values[position])
    return lambda values: tuple([_key(values[position]) for position in positions])


def _key(value: str | None) -> str:
    if value is None:
        raise _Unbound
    return value if value[0] == "<" else equality_key(value)


class PortStore:
    """The remembered events of one port and their indexes."""

    __slots__ = ("indexes", "log", "retention")

    def __init__(self, retention: Micros, indexes: Sequence[Index]) -> None:
        self.retention = retention
        self.log: deque[Happened] = deque()
        self.indexes = tuple(indexes)

    def add(self, event: Happened) -> None:
        """Remember an event not before any remembered one."""
        self.log.append(event)
        horizon = event[0] - self.retention
        for index in self.indexes:
            index.add(event, horizon)

    def expire(self, now: Micros) -> None:
        """Forget what no instant from `now` on can look back to."""
        horizon = now - self.retention
        log = self.log
        while log and log[0][0] < horizon:
            event = log.popleft()
            for index in self.indexes:
                index.forget(event, horizon)

    def __iter__(self) -> Iterator[Happened]:
        return iter(self.log)

    def __len__(self) -> int:
        return len(self.log)
