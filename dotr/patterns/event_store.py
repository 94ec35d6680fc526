"""What stage two remembers: the events of a port within its retention, indexed by what constraints equate.

Invariant: an index holds, for each key, the events of the port that pass its filter, in the order of time and ties; every event not
older than the retention is there, and of a lane that grows at most as many expired ones as live ones. Cost: adding and expiring are
O(1) amortised an event and index; a look-up touches the events of its own key alone. How a port's indexes take in events is generated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from dotr.codegen import define
from dotr.expressions import equality_key
from dotr.layout.event_order import AttributeValues
from dotr.model.algebra import Expression
from dotr.model.time import Micros
from dotr.patterns.events import StoredEvent
from dotr.patterns.key_index import EventRun, ExtremumRun, SkipRun
from dotr.patterns.rule_search import ConstantTable, RowFinder
from dotr.patterns.sums import DistinctRun, SumRun

IndexKey: TypeAlias = str | int | tuple[str | int, ...] | None
"""What an index is looked up by: one equality key, several, or None for the index over everything (no equality). One with `picks` is also
looked up by the number of a row of theirs, which comes last."""

KeyIndex: TypeAlias = dict[IndexKey, list[StoredEvent]]

EventTest: TypeAlias = Callable[[Micros, AttributeValues], bool]
"""Whether an event passes the constraints of a clause that name no other event."""

InsertEvents: TypeAlias = Callable[[Sequence[KeyIndex], Sequence[StoredEvent], Micros], None]
"""`remember(indexes, events, horizon)` puts events into the lanes of each index."""


class Measure(Enum):
    """What an index answers of a stretch of its events, beside the events themselves."""

    COUNT = "count"
    SUM = "sum"
    LEAST = "least"
    GREATEST = "greatest"
    DISTINCT = "distinct"
    ABOVE = "above"
    """Where the next event is whose number is above another."""
    BELOW = "below"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index on some attribute positions, over the events that satisfy `own` (constraints in the normal form of `shapes`, which name no
    other event); one for an aggregate of `measured` over those that have that attribute."""

    positions: tuple[int, ...]
    own: tuple[Expression, ...] = ()
    measure: Measure | None = None
    measured: int | None = None
    constants: ConstantTable | None = None

    def new_run(self) -> list[StoredEvent]:
        """The lane of a new key."""
        position = self.measured if self.measured is not None else 0
        match self.measure:
            case None:
                return []
            case Measure.COUNT:
                return EventRun()
            case Measure.SUM:
                return SumRun(position)
            case Measure.LEAST | Measure.GREATEST:
                return ExtremumRun(position, self.measure is Measure.GREATEST)
            case Measure.DISTINCT:
                return DistinctRun(position)
            case Measure.ABOVE | Measure.BELOW:
                return SkipRun(position, self.measure is Measure.BELOW)


TRIM: Final = 128
"""A lane is trimmed from this length on."""


def trim(run: list[StoredEvent]) -> None:
    """Drop the older half of a lane, or, so that blocks keep their beginnings, a power of two of events that is nearly half."""
    number = 1 << ((len(run) >> 1).bit_length() - 1)
    if isinstance(run, EventRun):
        run.drop(number)
    else:
        del run[:number]


def compile_insert(specs: Sequence[IndexSpec], tests: Sequence[EventTest | None], finders: Sequence[RowFinder | None]) -> InsertEvents:
    """Generate what puts a port's events into its indexes; the tests and finders are those of each index's filter and picks."""
    space: dict[str, object] = {"key": equality_key, "trim": trim}
    lines = ["def remember(indexes, events, horizon):"]
    lines += [f"    l{n} = indexes[{n}]" for n in range(len(specs))]
    lines += ["    for e in events:", "        t, _, v = e"]
    for n, (spec, test, finder) in enumerate(zip(specs, tests, finders, strict=True)):
        space[f"test{n}"], space[f"lane{n}"], space[f"find{n}"] = test, spec.new_run, finder
        sides = [f"s{number}" for number in range(len(spec.positions))]
        lines += [f"        {side} = v[{position}]" for side, position in zip(sides, spec.positions, strict=True)]
        needed = [f"{side} is not None" for side in sides]
        skips = spec.measure in (Measure.ABOVE, Measure.BELOW)
        if spec.measured is not None and not skips:
            needed.append(f"v[{spec.measured}] is not None")
        if test is not None:
            needed.append(f"test{n}(t, v)")
        keys = [f"({side} if {side} >= '<=' else key({side}))" for side in sides]
        terms = "None" if not sides else sides[0] if len(sides) == 1 else f"({', '.join(sides)})"
        fresh = "[e]" if spec.measure is None else f"c = lane{n}(); c.append(e)"
        lines.append(f"        if {' and '.join(needed) or 'True'}:")
        indent = " " * 12
        if finder is not None:
            if keys:  # made once for all rows
                lines += [f"{indent}{side} = {key}" for side, key in zip((f"k{number}" for number in range(len(keys))), keys, strict=True)]
                keys = [f"k{number}" for number in range(len(keys))]
            lines.append(f"{indent}for row in find{n}(v):")
            indent += "    "
            keys.append("row[0]")
        lines += [
            f"{indent}k = {'None' if not keys else keys[0] if len(keys) == 1 else '(' + ', '.join(keys) + ')'}",
            f"{indent}c = l{n}.get(k)",
            f"{indent}if c is None:",
            f"{indent}    l{n}[k] = [e]" if spec.measure is None else f"{indent}    {fresh}; l{n}[k] = c",
            f"{indent}else:",
            f"{indent}    c.append(e)",
            *([f"{indent}    if c.made: c.note(e)"] if skips else []),
            f"{indent}    if len(c) > {TRIM} and c[len(c) >> 1][0] < horizon: trim(c)",
        ]
        if spec.measure is not None and not skips:
            lines.append(f"{indent}c.keys[{terms}] = None")
    return define("\n".join(lines), "event store", "remember", space)


class PortStore:
    """The remembered events of one port and the lanes of its indexes."""

    __slots__ = ("_expired", "_insert", "indexes", "log", "retention")

    def __init__(self, retention: Micros, indexes: int, insert: InsertEvents) -> None:
        self.retention = retention
        self.log: deque[StoredEvent] = deque()
        self.indexes: tuple[KeyIndex, ...] = tuple({} for _ in range(indexes))
        self._insert = insert
        self._expired = 0

    def add(self, events: Sequence[StoredEvent]) -> None:
        """Remember the events of one time, not before any remembered one; forget what none from then on can look back to."""
        now = events[0][0]
        horizon = now - self.retention
        log = self.log
        log.extend(events)
        if log[0][0] < horizon:
            self.expire(now)
        self._insert(self.indexes, events, horizon)

    def extend(self, events: Sequence[StoredEvent]) -> None:
        """Remember events of several times, in their order, as adding them time by time would."""
        now = events[-1][0]
        horizon = now - self.retention
        if events[0][0] < horizon:
            events = events[bisect_left(events, (horizon,)) :]
        self.log.extend(events)
        if self.log[0][0] < horizon:
            self.expire(now)
        self._insert(self.indexes, events, horizon)

    def expire(self, now: Micros) -> None:
        """Forget what no instant from `now` on can look back to. Lanes of which nothing is left are looked for when as many events have
        gone as are left: so there are not many more lanes than events, and looking costs each event once."""
        horizon = now - self.retention
        log = self.log
        while log and log[0][0] < horizon:
            log.popleft()
            self._expired += 1
        if not log:
            for lanes in self.indexes:
                lanes.clear()
            self._expired = 0
        elif self._expired > TRIM + len(log):
            for lanes in self.indexes:
                for key in [key for key, lane in lanes.items() if lane[-1][0] < horizon]:
                    del lanes[key]
            self._expired = 0

    def __iter__(self) -> Iterator[StoredEvent]:
        return iter(self.log)

    def __len__(self) -> int:
        return len(self.log)
