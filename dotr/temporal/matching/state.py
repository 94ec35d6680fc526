"""State of one partition of a layer: stored, consumed and waiting events, with a written form.

The written form is versioned JSON in UTF-8. It holds terms and numbers, no code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from dotr.errors.diagnostics import DotrError
from dotr.model.event_order import AttributeValues
from dotr.model.time import Micros
from dotr.temporal.matching.event_store import KeyIndex, PortStore, RunStore
from dotr.temporal.matching.events import AnchorQueue, Match, StoredEvent
from dotr.temporal.matching.matcher.compile import ConsumedEvents
from dotr.temporal.matching.rule_counts import LayerCounter

STATE_VERSION: Final = 2

SWEEP: Final = 1024
"""The number of instants between two sweeps."""


class StateError(DotrError, ValueError):
    """A written state that this release cannot read; the message gives the reason."""


class StateSnapshot(NamedTuple):
    """The written content of a state.

    The events of each store, the (time, ordinal) of the events in each consumed set, the events of
    each queue, and `passed`. Slots are positional; `dotr.engine.state.schema` has the meaning
    of each slot.
    """

    events: Sequence[Sequence[StoredEvent]]
    consumed: Sequence[Sequence[tuple[Micros, int]]]
    waiting: Sequence[Sequence[StoredEvent]]
    passed: Micros | None

    def encode(self) -> bytes:
        """The snapshot as versioned JSON."""
        return json.dumps(
            {
                "version": STATE_VERSION,
                "events": [[list(event) for event in store] for store in self.events],
                "consumed": [sorted(used) for used in self.consumed],
                "waiting": [[list(event) for event in events] for events in self.waiting],
                "passed": self.passed,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def decode(written: bytes) -> StateSnapshot:
        """The inverse of `encode`; raises `StateError` for another version or malformed text."""
        try:
            data = json.loads(written)
            if data["version"] != STATE_VERSION:
                raise StateError(f"its version is {data['version']}, this release reads {STATE_VERSION}")
            return StateSnapshot(
                [_events(store) for store in data["events"]],
                [[(time, ordinal) for time, ordinal in used] for used in data["consumed"]],
                [_events(queue) for queue in data["waiting"]],
                data["passed"],
            )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"it cannot be read ({error})") from error


def _events(events: Sequence[tuple[Micros, int, list[str | None]]]) -> list[StoredEvent]:
    return [(time, ordinal, tuple(values)) for time, ordinal, values in events]


class State:
    """The state of one partition, changed in place by `Operator.step`.

    `stores` by port; `consumed` has a set for each rule and consumed label; `indexes` are those
    that each rule group reads; `waiting` has, for each delay of a port, the events of anchors not
    yet due, in the order of time and ties. `passed`: all ticks up to this time (µs) have reached
    the partition; None before the first. `counter` counts the anchors and bindings of rules since
    the state was created; it is not written. `take_facts` has the lone-fact functions after
    `Operator.take_facts`, before it None.
    """

    __slots__ = ("consumed", "countdown", "counter", "indexes", "passed", "retention", "stores", "take_facts", "waiting")

    def __init__(
        self,
        stores: Sequence[PortStore],
        consumed: Sequence[ConsumedEvents],
        indexes: Sequence[Sequence[KeyIndex]],
        waiting: Sequence[AnchorQueue] = (),
        counter: LayerCounter | None = None,
    ) -> None:
        self.stores = tuple(stores)
        self.consumed = tuple(consumed)
        self.indexes = tuple(indexes)
        self.retention = max((store.whole for store in stores), default=0)
        self.countdown = SWEEP
        self.waiting = tuple(waiting)
        self.passed: Micros | None = None
        self.counter = counter or LayerCounter((), ())
        self.take_facts: list[Callable[[Micros, AttributeValues], Sequence[Match]] | None] | None = None

    def expire(self, now: Micros) -> None:
        """Removes from every store and consumed set the events that no instant from `now` (µs)
        on can read."""
        for store in self.stores:
            store.expire(now)
        horizon = now - self.retention
        for used in self.consumed:
            if any(time < horizon for time, _ in used):
                used -= {event for event in used if event[0] < horizon}

    def sweep(self, now: Micros) -> None:
        """Expires all stores and restarts the countdown: ports without arrivals are expired as
        well."""
        self.countdown = SWEEP
        self.expire(now)

    def count_down(self, instants: int, now: Micros) -> None:
        """Counts instants up to now (µs), and sweeps if it is time."""
        self.countdown -= instants
        if self.countdown <= 0:
            self.sweep(now)

    def make_logs(self) -> None:
        """Puts back the logs of the stores that do without one."""
        for store in self.stores:
            if isinstance(store, RunStore):
                store.put_back()

    def __len__(self) -> int:
        """The number of stored and waiting events."""
        self.make_logs()
        return sum(map(len, self.stores)) + sum(map(len, self.waiting))

    @property
    def event_counts(self) -> list[int]:
        """The number of stored events of each port."""
        self.make_logs()
        return [len(store) for store in self.stores]

    def encode(self) -> bytes:
        """The state as versioned JSON."""
        self.make_logs()
        return StateSnapshot(
            [store.log for store in self.stores], [list(used) for used in self.consumed], self.waiting, self.passed
        ).encode()

    def restore(self, written: bytes) -> State:
        """Fills this fresh state with an encoded one; raises `StateError` for another version or
        another layer."""
        data = StateSnapshot.decode(written)
        counts = (data.events, self.stores), (data.consumed, self.consumed), (data.waiting, self.waiting)
        if any(len(there) != len(places) for there, places in counts):
            raise StateError("it belongs to another program")
        for store, events in zip(self.stores, data.events, strict=True):
            for event in events:
                store.add([event])
        for used, pairs in zip(self.consumed, data.consumed, strict=True):
            used.update(pairs)
        for waiting, events in zip(self.waiting, data.waiting, strict=True):
            waiting.extend(events)
            waiting.drop_fired(waiting.oldest(), data.passed)
        self.passed = data.passed
        return self
