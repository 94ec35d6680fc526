"""Records of continuous queries in a replay: the elements of their windows, and their reports.

Idea: the run of a query in the replay's engine notifies its record
(`dotr.languages.continuous.evaluation.run`). Each window has a log of its elements, and a report
keeps the positions of its contents in these logs, so that the contents of a past report can be
restored. The origin of an element, a line of an input or the event of a unit, is found on demand
(`dotr.languages.continuous.explanation.records`). Memory: the arrived elements that are not
discarded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from dotr.engine.driver import close_instant
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import CachedReplay, ElementPlace, WindowElement
from dotr.engine.unit_runs import UnitRun
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.replay.records import UnitRecord
from dotr.instant.instants import named_elements
from dotr.languages.continuous.evaluation.match_blocks import MatchedTriple
from dotr.languages.continuous.evaluation.run import ContentAtReport, QueryRun
from dotr.languages.continuous.model import RangeExtent, StreamLevel, StreamQuery
from dotr.model import dataclass
from dotr.model.stream import FedGraph
from dotr.model.terms import Triple
from dotr.model.time import Micros
from dotr.model.units import FedGraphs, GraphStream
from dotr.temporal.items import graph_row, row_graph


class ArrivedElement(NamedTuple):
    """An element that arrived at a window.

    - `time`: in µs since 1970.
    - `number`: its position among the elements of its time, from 0 on.
    - `triples`: its triples.
    """

    time: Micros
    number: int
    triples: tuple[Triple, ...]


class RecordedReport(NamedTuple):
    """A report.

    - `time`: in µs since 1970.
    - `number`: its position among the reports of the query, from 0 on.
    - `contents`: the content of each window, as positions.
    - `used`: for each MATCH block, the triples consumed before the report.
    """

    time: Micros
    number: int
    contents: Sequence[ContentAtReport]
    used: tuple[frozenset[MatchedTriple], ...]


@dataclass(slots=True)
class _Arrived:
    """The log of a window's elements; the first `discarded` elements are no longer in it.

    A position counts all elements that arrived: position 7 is `elements[7 - discarded]`.
    """

    elements: list[ArrivedElement] = field(default_factory=list)
    discarded: int = 0


class QueryRecord(UnitRecord):
    """Record of the elements and reports of a query so far; it implements `ReportWatch`. The run
    notifies it."""

    def __init__(self, run: UnitRun, unit: StreamQuery) -> None:
        assert isinstance(run, QueryRun)
        run.watch = self
        self.unit = unit
        self.reports: list[RecordedReport] = []
        self._arrived = [_Arrived() for _ in unit.query.windows]

    def arrived(self, time: Micros, arrived: Mapping[int, Sequence[tuple[Triple, ...]]]) -> None:
        """Record the elements of a time (µs since 1970), by the number of the window."""
        for window, graphs in arrived.items():
            self._arrived[window].elements += [ArrivedElement(time, number, graph) for number, graph in enumerate(graphs)]

    def reported(self, time: Micros, contents: Sequence[ContentAtReport], used: tuple[frozenset[MatchedTriple], ...]) -> None:
        """Record a report."""
        self.reports.append(RecordedReport(time, len(self.reports), contents, used))

    @property
    def report_count(self) -> int:
        """The number of reports so far."""
        return len(self.reports)

    def report_at(self, time: Micros) -> RecordedReport | None:
        """The report at a time in µs since 1970; None if there is none."""
        place = bisect_left(self.reports, time, key=lambda report: report.time)
        return self.reports[place] if place < len(self.reports) and self.reports[place].time == time else None

    def before(self, report: RecordedReport) -> RecordedReport | None:
        """The report before another; None for the first."""
        return self.reports[report.number - 1] if report.number else None

    def content(self, report: RecordedReport, window: int) -> Sequence[ArrivedElement]:
        """The content of a window, given by its number, at a report."""
        log, held = self._arrived[window], report.contents[window].held
        return log.elements[max(held.first - log.discarded, 0) : held.end - log.discarded] if held.first < held.end else ()

    def history(self, report: RecordedReport, window: int) -> Sequence[ArrivedElement]:
        """The elements of its stream that the entailment level of a window reads beside its
        content."""
        log, first = self._arrived[window], report.contents[window].history
        end = bisect_left(log.elements, report.time + 1, key=lambda each: each.time)
        return log.elements[max(first - log.discarded, 0) : end]

    def earlier(self, report: RecordedReport, window: int) -> Sequence[ArrivedElement]:
        """The kept elements that arrived at a window before those of its content at a report."""
        log, held = self._arrived[window], report.contents[window].held
        end = held.first if held.first < held.end else log.discarded + len(log.elements)
        return [each for each in log.elements[: max(end - log.discarded, 0)] if each.time <= report.time]

    def arrived_count(self, window: int) -> int:
        """The number of elements that arrived at a window."""
        return self._arrived[window].discarded + len(self._arrived[window].elements)

    def count(self) -> int:
        """The number of elements that are kept."""
        return sum(len(each.elements) for each in self._arrived)

    def discard_before(self, before: Micros) -> None:
        """Remove the elements before a time (µs since 1970)."""
        for each in self._arrived:
            count = bisect_left(each.elements, before, key=lambda element: element.time)
            each.discarded += count
            del each.elements[:count]


def reach_of(unit: StreamQuery) -> Micros | None:
    """The maximum age in µs of elements that a report or its explanation reads; None: unbounded.

    An explanation also reads the report before, which is one step earlier.

    >>> from dotr.languages.continuous.reading import compile_continuous
    >>> from dotr.model.places import Document
    >>> from dotr.model.time import Unit
    >>> text = "REGISTER RSTREAM <Q> AS SELECT ?x FROM WINDOW ON <s> [RANGE 4s STEP 2s] WHERE { ?x ?p ?y }"
    >>> [query] = compile_continuous([Document("q.rspql", text)], {}, Unit.SECOND).queries
    >>> reach_of(StreamQuery(query, (), ()))
    8000000
    """
    reach = 0
    for window in unit.query.windows:
        if not isinstance(window.extent, RangeExtent) or (window.policies is not None and window.policies.content_change):
            return None
        within = window.level.within if isinstance(window.level, StreamLevel) else 0
        reach = max(reach, window.extent.width + max(window.extent.step, within) + window.extent.step)
    return reach


# Origins of the elements of windows: a line of an input, or the event of a unit.
#
# Idea: a recorded element is identified by its stream, time and number
# (`dotr.languages.continuous.explanation.records`). An element of an input is found in the instant of
# its time, in the order in which the engine passes elements to queries (`dotr.temporal.items`). The
# graph of a unit's event needs no place.


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
