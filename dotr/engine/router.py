"""Routing table from fact streams and composite events to the ports of the layers.

In one process every port receives all its events. Partitioned, an event is delivered to the bucket
of its key's value, a replicated event to every bucket; events that the same layer reads stay in
their bucket. Events for a unit may be delivered to several buckets, or to all
(`dotr.temporal.layout.spread`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

from dotr.engine.multi_query import weakest_filter
from dotr.evaluation.expressions import condition
from dotr.model.algebra import Call, Expression, Var
from dotr.model.event_order import AttributeValues
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.model.traverse import parameters_of
from dotr.temporal.layout.keys import bucket, bucket_of_values
from dotr.temporal.layout.layers import Layer, Layout, MadeStream, Port, PortStream
from dotr.temporal.layout.spread import ReadSpread, element_shares
from dotr.temporal.layout.stages import BindingStream
from dotr.temporal.matching.operator import Arrival

Facts: TypeAlias = Mapping[PortStream, Sequence[AttributeValues]] | Mapping[int, Sequence[AttributeValues]]
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
        self._routes: dict[PortStream, tuple[tuple[int, int, Port], ...]] = {
            stream: tuple((layer, port, layout.layers[layer].ports[port]) for layer, port in targets)
            for stream, targets in layout.routes.items()
        }
        self._lone_ports: dict[PortStream, int] = {}
        if buckets == 1 and self.layers == 1:
            self._lone_ports = {stream: targets[0][1] for stream, targets in self._routes.items() if len(targets) == 1}
        replicated = ((layer, port) for layer in layout.layers for port, each in enumerate(layer.ports) if each.is_replicated)
        self._tests = {(layer.number, port): own_test(layer, port) for layer, port in replicated} if buckets > 1 else {}

    def lone(self, facts: Facts) -> tuple[int, AttributeValues] | None:
        """The port and the values of the only fact of an instant, if one port of the only layer
        reads its stream; None otherwise, and `facts` delivers the facts.

        With a layer whose port 3 reads stream 0, `{0: [("<http://e/room>",)]}` gives `(3,
        ("<http://e/room>",))`.
        """
        if len(facts) == 1:
            for stream in facts:  # a sixth less than to unpack `items`
                rows = facts[stream]  # type: ignore[index]
                if len(rows) == 1:
                    port = self._lone_ports.get(stream)
                    return None if port is None else (port, rows[0])
        return None

    def facts(self, facts: Facts, time: Micros | None = None) -> list[Deliveries]:
        """The deliveries of the facts of an instant, at a time in µs, to each layer's partitions.

        `time` is None for ticks, which are spread by their values alone.
        """
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
            self._deliver(stream, list(enumerate(rows)), 0, deliveries, time)
        return deliveries

    def events(self, events: Iterable[tuple[MadeStream, Arrival]], layer: int, time: Micros) -> list[Deliveries]:
        """The deliveries of the composite events and bindings that layer `layer` makes at a time
        (µs) to the layers above."""
        deliveries: list[Deliveries] = [{} for _ in range(self.layers)]
        last: MadeStream | None = None
        together: list[Arrival] = []
        for stream, arrival in events:
            if stream is not last:  # adjacent events of one stream are delivered together
                if last is not None:
                    self._deliver_made(last, together, layer + 1, deliveries, time)
                last, together = stream, []
            together.append(arrival)
        if last is not None:
            self._deliver_made(last, together, layer + 1, deliveries, time)
        return deliveries

    def _deliver_made(self, stream: MadeStream, arrivals: list[Arrival], lowest: int, deliveries: list[Deliveries], time: Micros) -> None:
        """Add the deliveries of a layer's events or bindings. Each value of the key of bindings is
        hashed once: an anchor has many bindings with few values of the next key."""
        if self.buckets == 1 or len(arrivals) == 1 or not isinstance(stream, BindingStream):
            self._deliver(stream, arrivals, lowest, deliveries, time)
            return
        for layer, port, keyed in self._routes.get(stream, ()):
            for number, own in self._by_bucket(keyed, arrivals).items():
                deliveries[layer].setdefault(number, {}).setdefault(port, []).extend(own)

    def _deliver(self, stream: PortStream, arrivals: list[Arrival], lowest: int, deliveries: list[Deliveries], time: Micros | None) -> None:
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
            if keyed.is_replicated:
                test = self._tests[layer, port]
                own = arrivals if test is None else [each for each in arrivals if test(each[1])]
                for number in range(self.buckets) if own else ():
                    deliveries[layer].setdefault(number, {}).setdefault(port, []).extend(own)
                continue
            for arrival in arrivals:
                number = bucket_of(keyed, arrival[1], self.buckets, time)
                deliveries[layer].setdefault(number, {}).setdefault(port, []).append(arrival)

    def _by_bucket(self, keyed: Port, arrivals: Iterable[Arrival]) -> dict[int, list[Arrival]]:
        """The bindings at a port by bucket."""
        position = keyed.key_position
        assert position is not None, "a column is the key of a stream of bindings"
        numbers: dict[Term | None, int] = {}
        found: dict[int, list[Arrival]] = {}
        for arrival in arrivals:
            key = arrival[1][position]
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = bucket_of(keyed, arrival[1], self.buckets, None)
                found.setdefault(number, [])
            found[number].append(arrival)
        return found


def own_test(layer: Layer, port: int) -> Callable[[AttributeValues], bool] | None:
    """The test of an event at a replicated port: it satisfies, for some role that reads the port,
    the constraints on the event alone. None where all events pass.

    For many roles the test is a weaker condition that each of them implies (`weakest_filter`).
    """
    conditions: dict[tuple[Expression, ...], None] = {}
    for placed in layer.rules:
        for role, read in placed.roles:
            if read == port:
                alone = (each for each in role.constraints if all(isinstance(part, Var) for part in parameters_of([each])))
                conditions[tuple(alone)] = None
    if () in conditions:
        return None
    both = [reduce(lambda left, right: Call("&&", (left, right)), each) for each in conditions]
    if len(both) > _MOST_CONDITIONS:
        both = list(weakest_filter([[each] for each in both]).conditions)
        whole = reduce(lambda left, right: Call("&&", (left, right)), both) if both else None
    else:
        whole = reduce(lambda left, right: Call("||", (left, right)), both)
    if whole is None:
        return None
    test = condition(whole, tuple(map(Var, layer.ports[port].attributes)))
    return lambda values: test(*values)


_MOST_CONDITIONS: Final = 16
"""The greatest number of roles whose conditions are tested one by one."""


def spread(reach: ReadSpread, arrivals: Sequence[Arrival], buckets: int) -> dict[int, list[Arrival]]:
    """The arrivals by bucket, of a unit that is spread over buckets, each once.

    >>> row = (0, ("<http://e/a>", "<http://e/b>"))
    >>> spread(ReadSpread((0, 1), False), [row], 2) == {0: [row], 1: [row]}, spread(ReadSpread((1,), False), [row], 2) == {0: [row]}
    (True, True)
    """
    if reach.is_everywhere:
        return {number: list(arrivals) for number in range(buckets)}
    if reach.is_divided:
        ordinal = arrivals[0][0]
        return {number: [(ordinal, row)] for number, row in enumerate(element_shares([row for _, row in arrivals], buckets))}
    found: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        for number in {bucket(key, buckets) for key in reach.keys(arrival[1])}:
            found.setdefault(number, []).append(arrival)
    return found


def bucket_of(port: Port, values: AttributeValues, buckets: int, time: Micros | None) -> int:
    """The bucket of an event at a port, of a time in µs; without a time, of a tick."""
    if port.spread:
        number = bucket_of_values(values, buckets, time if port.by_time else None)
    else:
        position = port.key_position
        number = port.partition % buckets if position is None else bucket(values[position], buckets)
    return (number + port.shift(buckets)) % buckets if port.group[0] else number
