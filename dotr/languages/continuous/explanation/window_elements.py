"""Origins of the elements of windows: a line of an input, or the event of a unit.

Idea: a recorded element is identified by its stream, time and number
(`dotr.languages.continuous.explanation.records`). An element of an input is found in the instant of
its time, in the order in which the engine passes elements to queries (`dotr.temporal.items`). The
graph of a unit's event needs no place.
"""

from __future__ import annotations

from collections.abc import Sequence

from dotr.engine.driver import close_instant
from dotr.engine.program import CompiledProgram
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.replay.cached_replay import CachedReplay
from dotr.explanations.replay.stream import ElementPlace, WindowElement
from dotr.instant.instants import named_elements
from dotr.languages.continuous.explanation.records import ArrivedElement
from dotr.model.stream import FedGraph
from dotr.model.terms import Triple
from dotr.model.time import Micros
from dotr.model.units import FedGraphs, GraphStream
from dotr.temporal.items import graph_row, row_graph


class WindowElements:
    """Finder of the origins of the elements of windows.

    Args:
        cached: the replay.
    """

    def __init__(self, cached: CachedReplay) -> None:
        self._cached = cached
        self._program: CompiledProgram = cached.replay.program
        self._only = next(iter(self._program.layout.fed_streams)).name if len(self._program.layout.fed_streams) == 1 else None
        self._placed: dict[tuple[str, Micros], Sequence[tuple[tuple[Triple, ...], ElementPlace]]] = {}

    def element(self, stream: GraphStream, arrived: ArrivedElement) -> WindowElement:
        """An element that arrived at a window of a stream, with its place."""
        place = None
        if isinstance(stream, FedGraphs):
            placed = self._at(stream.name, arrived.time)
            place = placed[arrived.number][1] if arrived.number < len(placed) else None
        shown = format_time(arrived.time, self._cached.replay.clock)
        return WindowElement(arrived.time, shown, stream, arrived.triples, arrived.number, place)

    def _at(self, stream: str, time: Micros) -> Sequence[tuple[tuple[Triple, ...], ElementPlace]]:
        """The elements of a stream at a time with their places, in the engine's order."""
        found = self._placed.get((stream, time))
        if found is None:
            found = self._placed[stream, time] = self._found(stream, time)
        return found

    def _found(self, stream: str, time: Micros) -> Sequence[tuple[tuple[Triple, ...], ElementPlace]]:
        instant = self._cached.instant(time)
        if instant is None or not instant.graphs:
            return ()
        left_out = {each.element for each in close_instant(self._program, time, instant.graphs).rejected}
        on_stream = [
            (graph, place)
            for number, (graph, place) in enumerate(zip(instant.graphs, instant.places, strict=True))
            if number not in left_out and (graph.stream if isinstance(graph, FedGraph) else self._only) == stream
        ]
        rows = [graph_row(each) for each in named_elements(time, [graph for graph, _ in on_stream])]
        ordered = sorted(zip(rows, (place for _, place in on_stream), strict=True), key=lambda each: str(each[0]))
        return [(row_graph(row), place) for row, place in ordered]
