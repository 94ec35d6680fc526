"""Events of replicated ports in a bucket of many pages: stored once, and read by every page.

Idea: each page goes through the whole batch, one behind the other. So the events of a batch at a
replicated port are stored before the first page begins, and nothing expires until the last one has
ended; matchers look no further than the present (`PositionalStage.replicated`).
Invariant: what is written is what a bucket of one page would write: a log for the port.
Cost: the events are in memory once a bucket, whatever the number of pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dotr.layout.event_order import AttributeValues, tie_key
from dotr.layout.layers import Layer
from dotr.model.time import Micros
from dotr.patterns.event_store import BorrowedStore, PortStore
from dotr.patterns.events import StoredEvent


def replicated_ports(layer: Layer) -> frozenset[int]:
    """The numbers of the ports whose events go to every bucket, and are in no page."""
    return frozenset(number for number, port in enumerate(layer.ports) if port.is_replicated)


class SharedStores:
    """The stores of a bucket's replicated ports. `stores` are those of a partition of the layer, of
    which the others are not used."""

    def __init__(self, layer: Layer, stores: Sequence[PortStore]) -> None:
        self._stores = {number: stores[number] for number in sorted(replicated_ports(layer))}
        self._layer = layer

    def __contains__(self, port: int) -> bool:
        return port in self._stores

    def __bool__(self) -> bool:
        return bool(self._stores)

    @property
    def borrowed(self) -> Mapping[int, PortStore]:
        """The stores as a page has them, which neither adds nor expires events."""
        return {number: BorrowedStore(store) for number, store in self._stores.items()}

    @property
    def event_counts(self) -> Mapping[int, int]:
        """The number of events of each replicated port."""
        return {number: len(store) for number, store in self._stores.items()}

    def arrive(self, port: int, time: Micros, arrivals: Sequence[tuple[int, AttributeValues]], after: Micros) -> list[StoredEvent]:
        """Store what arrives at a time (µs) of a batch of times later than `after`; returns the
        events in their order."""
        stored = [(time, ordinal, values) for ordinal, values in arrivals]
        if len(stored) > 1 and isinstance(self._layer.ports[port].stream, str):
            names = self._layer.ports[port].attributes
            stored.sort(key=lambda event: tie_key(names, event[2]))
        self._stores[port].keep(stored, after + 1)
        return stored

    def load(self, port: int, event: StoredEvent) -> None:
        """Store an event that was written, in the order of the log."""
        self._stores[port].add((event,))

    def expire(self, closed: Micros) -> None:
        """Remove what no moment later than `closed` (µs) can read."""
        for store in self._stores.values():
            store.expire(closed + 1)
