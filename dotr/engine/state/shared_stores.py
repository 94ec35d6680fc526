"""Events of replicated ports in a bucket of many pages: stored once, and read by every page.

Idea: the pages are stepped through the whole batch one after the other. So the events of a batch at
a replicated port are stored before the first page is stepped, and expire after the last one.
Matchers read no event later than the present (`PositionalStage.replicated`).
Invariant: the written log of a port is that of a bucket of one page.
Cost: the events are in memory once a bucket, whatever the number of pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dotr.model.event_order import AttributeValues, tie_key
from dotr.model.time import Micros
from dotr.temporal.layout.layers import Layer
from dotr.temporal.matching.event_store import BorrowedStore, PortStore
from dotr.temporal.matching.events import StoredEvent


def replicated_ports(layer: Layer) -> frozenset[int]:
    """The numbers of the ports whose events are in every bucket, and in no page."""
    return frozenset(number for number, port in enumerate(layer.ports) if port.is_replicated)


class SharedStores:
    """The stores of a bucket's replicated ports, taken from `stores`, those of an empty partition
    of the layer."""

    def __init__(self, layer: Layer, stores: Sequence[PortStore]) -> None:
        self._stores = {number: stores[number] for number in sorted(replicated_ports(layer))}
        self._layer = layer

    def __contains__(self, port: int) -> bool:
        return port in self._stores

    def __bool__(self) -> bool:
        return bool(self._stores)

    @property
    def borrowed(self) -> Mapping[int, PortStore]:
        """The stores as stores of a page, which neither adds nor expires events."""
        return {number: BorrowedStore(store) for number, store in self._stores.items()}

    @property
    def event_counts(self) -> Mapping[int, int]:
        """The number of events of each replicated port."""
        return {number: len(store) for number, store in self._stores.items()}

    def add_arrivals(self, port: int, time: Micros, arrivals: Sequence[tuple[int, AttributeValues]], after: Micros) -> list[StoredEvent]:
        """Store the arrivals at a port at `time`, in a batch of times later than `after` (both µs);
        returns the events in tie order."""
        stored = [(time, ordinal, values) for ordinal, values in arrivals]
        if len(stored) > 1 and isinstance(self._layer.ports[port].stream, str):
            names = self._layer.ports[port].attributes
            stored.sort(key=lambda event: tie_key(names, event[2]))
        self._stores[port].keep(stored, after + 1)
        return stored

    def load(self, port: int, event: StoredEvent) -> None:
        """Store an event of the written log; calls are in the order of the log."""
        self._stores[port].add((event,))

    def expire(self, closed: Micros) -> None:
        """Remove the events that no moment later than `closed` (µs) can read."""
        for store in self._stores.values():
            store.expire(closed + 1)
