"""A layer of continuous queries in one process: what arrives at its ports, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from dotr.engine.items import graph_row, row_graph
from dotr.engine.kept_windows import SharedClosures
from dotr.engine.query_run import QueryRun
from dotr.engine.report_evaluation import ReportEvaluator
from dotr.engine.stage_two import LayerResult
from dotr.layout.event_order import sort_by_tie
from dotr.layout.layers import Layer
from dotr.layout.units import MadeGraphs
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label
from dotr.model.time import Micros
from dotr.patterns.operator import Arrival, Arrivals
from dotr.store.triples import is_hidden

IsFed = Callable[[QueryRun], bool]
"""True for a query to whose streams a unit under way may still add an element."""


class ContradictedReport(NamedTuple):
    """A report whose windows contradict themselves or the background: its time in µs, and the first
    contradiction in words.
    """

    time: Micros
    text: str


class QueryLayer:
    """The queries of a layer with their state.

    `contradicted` collects reports of windows with a contradiction until their reader clears it.

    `closures`: what windows say, shared by all queries of a program.
    `above`: the labels and the streams of graphs that higher layers read.
    """

    def __init__(
        self,
        layer: Layer,
        evaluators: Mapping[Label, ReportEvaluator],
        above: Set[Label | MadeGraphs],
        origin: Micros,
        closures: SharedClosures,
    ) -> None:
        self._layer = layer
        self._above = above
        self.contradicted: list[ContradictedReport] = []
        self.runs = [QueryRun(evaluators[placed.unit.name], origin, closures, placed.unit.streams) for placed in layer.queries]

    def begin(self, time: Micros) -> None:
        """The first instant has come."""
        for run in self.runs:
            run.begin(time)

    def end(self, last: Micros, is_fed: IsFed) -> None:
        """The last instant is over."""
        for run in self.runs:
            run.end(last, is_fed=is_fed(run))

    def next_due(self) -> Micros | None:
        """The next time at which a query may report if nothing arrives; None: never."""
        return min((due for run in self.runs if (due := run.next_due()) is not None), default=None)

    def step(self, time: Micros, arrivals: Arrivals, is_fed: IsFed) -> LayerResult:
        """The result of a moment of the layer; the time is after all before, and not after
        `next_due`."""
        firings: list[Firing] = []
        events: list[tuple[Label | MadeGraphs, Arrival]] = []
        failed: list[DeadLetter] = []
        for placed, run in zip(self._layer.queries, self.runs, strict=True):
            arrived = {
                window: [row_graph(values) for _, values in arrivals[port]] for window, port in enumerate(placed.ports) if port in arrivals
            }
            if not arrived and run.next_due() != time:
                continue
            result = run.step(time, arrived, is_fed=is_fed(run))
            firings += result.firings
            failed += result.failed
            if result.contradictions:
                rule, triples = result.contradictions[0]
                premises = ", ".join(" ".join(triple) for triple in triples if not is_hidden(triple[1]))
                self.contradicted.append(ContradictedReport(time, f"in a window of {placed.unit.name}: {rule}: {premises}"))
            if result.firings:
                events += self._events(placed.unit.name, placed.unit.attributes, result.firings)
        return LayerResult(firings, events, failed)

    def _events(self, label: Label, names: Sequence[str], firings: Sequence[Firing]) -> list[tuple[Label | MadeGraphs, Arrival]]:
        """The part of a query's events that higher layers read: their attributes, in the tie order, and
        graphs."""
        events: list[tuple[Label | MadeGraphs, Arrival]] = []
        if label in self._above:
            rows = [tuple([dict(firing.attributes).get(name) for name in names]) for firing in firings]
            events += [(label, (ordinal, row)) for ordinal, row in enumerate(sort_by_tie(names, rows))]
        if MadeGraphs(label) in self._above:
            events += [
                (MadeGraphs(label), (ordinal, graph_row(firing.graph)))
                for ordinal, firing in enumerate(firings)
                if firing.graph is not None
            ]
        return events

    @property
    def event_counts(self) -> list[int]:
        """The number of elements kept at each port."""
        counts = [0] * len(self._layer.ports)
        for placed, run in zip(self._layer.queries, self.runs, strict=True):
            for port, window in zip(placed.ports, run.windows, strict=True):
                counts[port] = max(counts[port], len(window.content))
        return counts

    def encode(self) -> bytes:
        """The state of all queries, as `restore` takes it."""
        return json.dumps([run.to_json() for run in self.runs]).encode("utf-8", "surrogatepass")

    def restore(self, written: bytes) -> None:
        """Continue from an encoded state."""
        for run, text in zip(self.runs, json.loads(written), strict=True):
            run.restore(text)
