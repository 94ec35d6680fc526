"""A layer of units of other languages than that of rules, in one process: what arrives at its ports,
step by step.

Idea: units of a layer do not read each other, so each is stepped by itself, in order of name. On
Spark each has a partition of its own, and is stepped through a batch by itself
(`step_unit`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from dotr.engine.items import graph_row
from dotr.engine.stage_two import LayerResult
from dotr.engine.unit_runs import UnitContext, UnitResult, UnitRun, unit_run
from dotr.layout.event_order import AttributeValues, sort_by_tie, tie_key
from dotr.layout.layers import Layer, PlacedUnit
from dotr.layout.units import MadeGraphs, StreamUnit
from dotr.model.rules import EventSource
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Variable
from dotr.model.time import Micros
from dotr.patterns.events import StoredEvent
from dotr.patterns.operator import Arrival, Arrivals
from dotr.patterns.state import StateError
from dotr.store.triples import is_hidden

IsFed = Callable[[StreamUnit], bool]
"""True for a unit that another one, which is under way after the last instant, may still feed."""


class ContradictedReport(NamedTuple):
    """A report whose windows contradict themselves or the background: its time in µs, and the first
    contradiction in words.
    """

    time: Micros
    text: str


class UnitStep(NamedTuple):
    """The result of a moment of a unit: its firings, the events that higher layers read, dead
    letters, and the contradiction to tell of, if any."""

    firings: Sequence[Firing]
    events: Sequence[tuple[Label | MadeGraphs, Arrival]]
    failed: Sequence[DeadLetter]
    contradicted: ContradictedReport | None


class UnitPort:
    """A unit in its place, with its state: the reads of each port, and what higher layers read."""

    def __init__(self, placed: PlacedUnit, run: UnitRun, above: Set[Label | MadeGraphs]) -> None:
        self.placed = placed
        self.run = run
        self.unit = placed.unit
        self._reads: dict[int, list[int]] = {}
        for number, port in enumerate(placed.ports):
            self._reads.setdefault(port, []).append(number)
        # What other units make may come from several partitions, in any order; events are put in
        # that of ties, graphs in that of their rows.
        self._orders: dict[int, tuple[Variable, ...] | None] = {}
        for port, read in zip(placed.ports, placed.unit.reads, strict=True):
            if isinstance(read.stream, EventSource):
                self._orders[port] = read.stream.attributes
            elif isinstance(read.stream, MadeGraphs):
                self._orders[port] = None
        self._read_above = {
            each.label: (each.attributes if each.label in above else None, MadeGraphs(each.label) in above) for each in placed.unit.makes
        }

    def step(self, time: Micros, arrivals: Arrivals, *, is_fed: bool) -> UnitStep:
        """The result of a moment; `arrivals` are those of the layer, by port."""
        here: dict[int, Sequence[Arrival]] = {}
        for port, numbers in self._reads.items():
            arrived = arrivals.get(port)
            if arrived:
                arrived = self._in_order(port, arrived)
                for number in numbers:
                    here[number] = arrived
        result = self.run.step(time, here, is_fed=is_fed)
        return UnitStep(result.firings, self._events(result.firings), result.failed, self._contradicted(time, result))

    def is_due(self, time: Micros, arrivals: Arrivals) -> bool:
        """True if the unit is to be stepped at a time."""
        return any(port in arrivals for port in self._reads) or self.run.next_due() == time

    def _in_order(self, port: int, arrived: Sequence[Arrival]) -> Sequence[Arrival]:
        if len(arrived) < 2 or port not in self._orders:
            return arrived
        names = self._orders[port]
        if names is None:
            return sorted(arrived, key=lambda each: _as_text(each[1]))
        return sorted(arrived, key=lambda each: tie_key(names, each[1]))

    def _events(self, firings: Sequence[Firing]) -> list[tuple[Label | MadeGraphs, Arrival]]:
        """The part of events that higher layers read: attributes, in the tie order, and graphs."""
        events: list[tuple[Label | MadeGraphs, Arrival]] = []
        rows: dict[Label, list[AttributeValues]] = {}
        for ordinal, firing in enumerate(firings):
            names, graphs = self._read_above[firing.event]
            if names is not None:
                attributes = dict(firing.attributes)
                rows.setdefault(firing.event, []).append(tuple([attributes.get(name) for name in names]))
            if graphs and firing.graph is not None:
                events.append((MadeGraphs(firing.event), (ordinal, graph_row(firing.graph))))
        for label, values in rows.items():
            names = self._read_above[label][0]
            assert names is not None
            events += [(label, (ordinal, row)) for ordinal, row in enumerate(sort_by_tie(names, values))]
        return events

    def _contradicted(self, time: Micros, result: UnitResult) -> ContradictedReport | None:
        if not result.contradictions:
            return None
        rule, triples = result.contradictions[0]
        premises = ", ".join(" ".join(triple) for triple in triples if not is_hidden(triple[1]))
        return ContradictedReport(time, f"in a window of {self.unit.name}: {rule}: {premises}")


def _as_text(row: AttributeValues) -> str:
    """A row as text, however many empty places fill it up."""
    return str(tuple([term for term in row if term is not None]))


class UnitLayer:
    """The units of a layer with their state.

    `contradicted` collects reports of windows with a contradiction until their reader clears it.
    """

    def __init__(self, layer: Layer, context: UnitContext, above: Set[Label | MadeGraphs]) -> None:
        self._layer = layer
        self.contradicted: list[ContradictedReport] = []
        self.units = [UnitPort(placed, unit_run(placed.unit, context), above) for placed in layer.units]

    def begin(self, time: Micros) -> None:
        """The first instant has come."""
        for each in self.units:
            each.run.begin(time)

    def end(self, last: Micros, is_fed: IsFed) -> None:
        """The last instant is over."""
        for each in self.units:
            each.run.end(last, is_fed=is_fed(each.unit))

    def next_due(self) -> Micros | None:
        """The next time at which a unit has something to do if nothing arrives; None: never."""
        return min((due for each in self.units if (due := each.run.next_due()) is not None), default=None)

    def is_under_way(self, name: str) -> bool:
        """True if a unit of the layer may still make events though nothing arrives."""
        return any(each.run.is_under_way for each in self.units if each.unit.name == name)

    def is_over(self, name: str) -> bool:
        """True if a unit of the layer makes no event any more, whatever arrives."""
        return any(each.run.is_over for each in self.units if each.unit.name == name)

    def step(self, time: Micros, arrivals: Arrivals, is_fed: IsFed) -> LayerResult:
        """The result of a moment of the layer; the time is after all before, and not after
        `next_due`."""
        firings: list[Firing] = []
        events: list[tuple[Label | MadeGraphs, Arrival]] = []
        failed: list[DeadLetter] = []
        for each in self.units:
            if not each.is_due(time, arrivals):
                continue
            step = each.step(time, arrivals, is_fed=is_fed(each.unit))
            firings += step.firings
            events += step.events
            failed += step.failed
            if step.contradicted is not None:
                self.contradicted.append(step.contradicted)
        return LayerResult(firings, events, failed)

    @property
    def event_counts(self) -> list[int]:
        """The number of elements kept at each port."""
        counts = [0] * len(self._layer.ports)
        for each in self.units:
            for port, count in zip(each.placed.ports, each.run.event_counts, strict=True):
                counts[port] = max(counts[port], count)
        return counts

    def encode(self) -> bytes:
        """The state of all units, as `restore` takes it."""
        return json.dumps([_written(each.run) for each in self.units]).encode("utf-8", "surrogatepass")

    def restore(self, written: bytes) -> None:
        """Continue from an encoded state; raises `StateError`."""
        try:
            for each, (text, logs) in zip(self.units, json.loads(written), strict=True):
                each.run.restore(text, [[StoredEvent(time, ordinal, tuple(row)) for time, ordinal, row in log] for log in logs])
        except (ValueError, TypeError, KeyError) as error:
            raise StateError(f"it cannot be read ({error})") from error


def _written(run: UnitRun) -> tuple[str, Sequence[Sequence[StoredEvent]]]:
    return run.to_json(), run.entries()
