"""Routing table from fact streams and composite events to the ports of the layers.

In one process every port gets all its events. Partitioned, an event goes to the bucket of its key's
value; events of a layer that the same layer reads stay in their bucket. What a unit reads may go to
several buckets, or to all (`dotr.layout.unit_spread`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from dotr.layout.event_order import AttributeValues
from dotr.layout.keys import bucket, bucket_of_values
from dotr.layout.layers import Layout, MadeStream, Port, Stream
from dotr.layout.unit_spread import ReadSpread
from dotr.patterns.operator import Arrival

Facts: TypeAlias = Mapping[Stream, Sequence[AttributeValues]] | Mapping[int, Sequence[AttributeValues]]
"""The facts of interest of one instant: values in the tie order, by stream; and the elements on the
streams of queries, as rows.
"""

Deliveries: TypeAlias = dict[int, dict[int, list[Arrival]]]
"""For each partition with arrivals, its arrivals by port."""


class Router:
    """The routes of a layout. `buckets` is the number of partitions of a layer; 1: everything is in
    partition 0.
    """

    def __init__(self, layout: Layout, buckets: int = 1) -> None:
        self.buckets = buckets
        self.layers = len(layout.layers)
        self._routes: dict[Stream, tuple[tuple[int, int, Port], ...]] = {
            stream: tuple((layer, port, layout.layers[layer].ports[port]) for layer, port in targets)
            for stream, targets in layout.routes.items()
        }

    def facts(self, facts: Facts) -> list[Deliveries]:
        """The deliveries of an instant's facts to each layer's partitions."""
        deliveries: list[Deliveries] = [{} for _ in range(self.layers)]
        if self.buckets == 1:
            for stream, rows in facts.items():
                arrivals = list(enumerate(rows))
                for layer, port, _ in self._routes.get(stream, ()):
                    if deliveries[layer]:
                        deliveries[layer][0][port] = arrivals
                    else:
                        deliveries[layer][0] = {port: arrivals}
            return deliveries
        for stream, rows in facts.items():
            self._deliver(stream, list(enumerate(rows)), 0, deliveries)
        return deliveries

    def events(self, events: Iterable[tuple[MadeStream, Arrival]], layer: int) -> list[Deliveries]:
        """The deliveries of the composite events of layer `layer` to the layers above."""
        deliveries: list[Deliveries] = [{} for _ in range(self.layers)]
        for label, arrival in events:
            self._deliver(label, [arrival], layer + 1, deliveries)
        return deliveries

    def _deliver(self, stream: Stream, arrivals: list[Arrival], lowest: int, deliveries: list[Deliveries]) -> None:
        for layer, port, keyed in self._routes.get(stream, ()):
            if layer < lowest:
                continue
            if self.buckets == 1:
                deliveries[layer].setdefault(0, {}).setdefault(port, []).extend(arrivals)
                continue
            if keyed.reach is not None:
                for number, own in spread(keyed.reach, arrivals, self.buckets).items():
                    deliveries[layer].setdefault(number, {}).setdefault(port, []).extend(own)
                continue
            for arrival in arrivals:
                number = bucket_of(keyed, arrival[1], self.buckets)
                deliveries[layer].setdefault(number, {}).setdefault(port, []).append(arrival)


def spread(reach: ReadSpread, arrivals: Sequence[Arrival], buckets: int) -> dict[int, list[Arrival]]:
    """The arrivals for each bucket of a unit that has a part in all of them, each once.

    >>> row = (0, ("<http://e/a>", "<http://e/b>"))
    >>> spread(ReadSpread((0, 1), False), [row], 2) == {0: [row], 1: [row]}, spread(ReadSpread((1,), False), [row], 2) == {0: [row]}
    (True, True)
    """
    if reach.is_everywhere:
        return {number: list(arrivals) for number in range(buckets)}
    if reach.is_divided:
        from dotr.layout.query_spread import element_shares  # loaded where a query is spread

        ordinal = arrivals[0][0]
        return {number: [(ordinal, row)] for number, row in enumerate(element_shares([row for _, row in arrivals], buckets))}
    found: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        for number in {bucket(key, buckets) for key in reach.keys(arrival[1])}:
            found.setdefault(number, []).append(arrival)
    return found


def bucket_of(port: Port, values: AttributeValues, buckets: int) -> int:
    """The bucket of an event at a port."""
    if port.spread:
        return bucket_of_values(values, buckets)
    position = port.key_position
    return port.partition % buckets if position is None else bucket(values[position], buckets)
