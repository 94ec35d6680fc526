"""Records of continuous queries in a replay: what came to their windows, and their reports.

Idea: a query that runs in the replay's engine is watched (`dotr.engine.query_run`). Of a report the
positions of each content are kept, and of each window the elements by position, so that a report of
the past can be looked at as it was. The origin of an element, a line of an input or the event of a
unit, is looked for where it is asked for (`dotr.explanations.window_elements`).
Memory: the elements that came, until they are forgotten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dotr.engine.match_blocks import MatchedTriple
from dotr.engine.query_run import ContentAtReport
from dotr.layout.units import StreamQuery
from dotr.model.continuous import RangeExtent, StreamLevel
from dotr.model.terms import Triple
from dotr.model.time import Micros


class ArrivedElement(NamedTuple):
    """An element that came to a window: its time in µs, its number among those of its time, and its
    triples.
    """

    time: Micros
    number: int
    triples: tuple[Triple, ...]


class RecordedReport(NamedTuple):
    """A report.

    - `time`: in µs since 1970; `number`: its number among those of the query, from 0 on.
    - `contents`: what each window showed, as positions.
    - `used`: what each MATCH block had used up before.
    """

    time: Micros
    number: int
    contents: Sequence[ContentAtReport]
    used: tuple[frozenset[MatchedTriple], ...]


@dataclass(slots=True)
class _Arrived:
    """The elements of a window, of which the first `forgotten` are no longer kept."""

    elements: list[ArrivedElement] = field(default_factory=list)
    forgotten: int = 0


class QueryRecord:
    """Record of what came to a query, and of its reports, so far; it is a `ReportWatch`."""

    def __init__(self, unit: StreamQuery) -> None:
        self.unit = unit
        self.reports: list[RecordedReport] = []
        self._arrived = [_Arrived() for _ in unit.query.windows]

    def arrived(self, time: Micros, arrived: Mapping[int, Sequence[tuple[Triple, ...]]]) -> None:
        """Note the elements of a time, by the number of the window."""
        for window, graphs in arrived.items():
            self._arrived[window].elements += [ArrivedElement(time, number, graph) for number, graph in enumerate(graphs)]

    def reported(self, time: Micros, contents: Sequence[ContentAtReport], used: tuple[frozenset[MatchedTriple], ...]) -> None:
        """Note a report."""
        self.reports.append(RecordedReport(time, len(self.reports), contents, used))

    def report_at(self, time: Micros) -> RecordedReport | None:
        """The report at a time in µs; None where there is none."""
        place = bisect_left(self.reports, time, key=lambda report: report.time)
        return self.reports[place] if place < len(self.reports) and self.reports[place].time == time else None

    def before(self, report: RecordedReport) -> RecordedReport | None:
        """The report before another; None where it is the first."""
        return self.reports[report.number - 1] if report.number else None

    def content(self, report: RecordedReport, window: int) -> Sequence[ArrivedElement]:
        """The elements that a window showed at a report, by the number of the window."""
        log, held = self._arrived[window], report.contents[window].held
        return log.elements[max(held.first - log.forgotten, 0) : held.end - log.forgotten] if held.first < held.end else ()

    def history(self, report: RecordedReport, window: int) -> Sequence[ArrivedElement]:
        """The elements of its stream that the level of a window read beside its content."""
        log, first = self._arrived[window], report.contents[window].history
        end = bisect_left(log.elements, report.time + 1, key=lambda each: each.time)
        return log.elements[max(first - log.forgotten, 0) : end]

    def earlier(self, report: RecordedReport, window: int) -> Sequence[ArrivedElement]:
        """The elements that came to a window before its content at a report, and are kept."""
        log, held = self._arrived[window], report.contents[window].held
        end = held.first if held.first < held.end else log.forgotten + len(log.elements)
        return [each for each in log.elements[: max(end - log.forgotten, 0)] if each.time <= report.time]

    def came(self, window: int) -> int:
        """The number of elements that came to a window."""
        return self._arrived[window].forgotten + len(self._arrived[window].elements)

    def count(self) -> int:
        """The number of elements that are kept."""
        return sum(len(each.elements) for each in self._arrived)

    def forget(self, before: Micros) -> None:
        """Remove the elements with times (µs) before a time."""
        for each in self._arrived:
            gone = bisect_left(each.elements, before, key=lambda element: element.time)
            each.forgotten += gone
            del each.elements[:gone]


def reach_of(unit: StreamQuery) -> Micros | None:
    """Reach in µs of the windows of a query and of its report before; None: without a
    bound.

    >>> from dotr.languages.continuous import compile_continuous
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
