"""Explanation of a continuous query without an event.

Idea: the query is replayed with the units that it reads (`dotr.explanations.replay.firings`).

1. Without a report, the windows are the cause: the elements of their streams are counted, and the
   times at which they may report are shown.
2. Of reports without a solution, the one with the furthest stop is explained: the stop of the
   pattern over the contents of the windows (`dotr.explanations.missing.partial_joins`), and a
   change of the query with which that report has a solution.
3. If all solutions of a report equal those of the report before, that is the reason.

Cost: one replay, and the stops of at most 20 reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from dotr.engine.replay import CachedReplay, Replay, WindowElement
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.proofs import program_rules
from dotr.explanations.missing.fact import RequestedTerms
from dotr.explanations.missing.partial_joins import (
    ClosedGraph,
    JoinStop,
    OperatorStop,
    PatternSolver,
    QueryStop,
    find_stop,
    in_scope_of,
    joined_pattern,
    most_reached,
    reached,
)
from dotr.explanations.missing.stop_text import StopText, datalog_rules
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.explanations.replay.firings import FiringRecorder, UnitFiring
from dotr.explanations.text.narrative import Narrative, NarrativePart, WhyNot, sentences
from dotr.explanations.text.pattern_text import part_text, pattern_text
from dotr.explanations.text.tree import counted
from dotr.explanations.why_not.survey import Question
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Solution
from dotr.instant.queries.operators import EMPTY
from dotr.instant.queries.window_operators import ReportGraph
from dotr.languages.continuous.explanation.dataset import ReportDataset
from dotr.languages.continuous.explanation.records import QueryRecord, RecordedReport, WindowElements
from dotr.languages.continuous.explanation.text import window_at
from dotr.languages.continuous.model import (
    ContinuousQuery,
    ContinuousWindow,
    EntailmentLevel,
    LandmarkExtent,
    RangeExtent,
    RelationToStream,
    StreamQuery,
)
from dotr.languages.continuous.windows.extents import closes_of
from dotr.model import dataclass
from dotr.model.algebra import TriplePattern, WindowBlock
from dotr.model.stream import FedGraph
from dotr.model.terms import Label, Term
from dotr.model.time import LAST_MICRO, Micros
from dotr.model.traverse import walk
from dotr.model.units import FedGraphs
from dotr.syntax.rendering import TermWriter, duration_text, period_text
from dotr.temporal.intervals.patterns import plain_groups

_MOST_TIED: Final = 3
"""Maximum number of reports with equally far stops for which a change is tried."""
_MOST_TIMES: Final = 5
"""Maximum number of times of an EVENT that are shown."""
_MOST_COMPARED: Final = 20
"""Maximum number of reports without an event whose stops are compared; of more, evenly spread
ones."""
_MOST_SEARCHED: Final = 500
"""Maximum number of reports, the latest ones, that are searched for requested terms."""


@dataclass(frozen=True, slots=True)
class _ReportFindings:
    """The findings on the requested reports.

    Attributes:
        reports: the number of requested reports.
        empty: the number of those over empty windows.
        events: the number of requested events.
        at: the time of the explained report, as text; empty: no report is explained.
        stops: sentences on the stop of the query there, or on the lack of reports.
        further: lines below them, with Datalog rules and remarks.
        change: a change with which that report has an event; empty: none is found.
    """

    reports: int
    empty: int
    events: int
    at: str = ""
    stops: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    change: str = ""

    def answer(self, case: str, label: Label) -> WhyNot:
        """The answer for a query, by its label."""
        head = f"{label}: {counted(self.reports, 'report')}"
        if self.empty:
            head += f", {self.empty:,} over empty windows"
        head += f", {counted(self.events, 'event')}" if self.reports else ""
        start = f"at {self.at}: " if self.at else ""
        below = [*sentences(f"{start}{stop}" for stop in self.stops), Narrative(below=sentences(self.further))]
        below += sentences([f"It fires with `{self.change}`."] if self.change else [])
        parts: dict[str, NarrativePart] = {"reports": self.reports, "empty": self.empty, "events": self.events, "at": self.at or None}
        parts |= {"stops": self.stops, "further": self.further, "change": self.change or None}
        return WhyNot.of(case, label, self.events > 0, head, tuple(below), **parts)


class WindowedGraph(ClosedGraph):
    """The dataset of a query at a report, as a graph over which patterns can be evaluated.

    Args:
        dataset: the dataset.
        limits: the limits of evaluation.
        index: the graph of a WINDOW block; None: the default graph.
    """

    def __init__(self, dataset: ReportDataset, limits: Limits, index: TripleIndex | None = None) -> None:
        self._dataset = dataset
        self._of_window = index
        self._bounds = limits
        self.background = TripleIndex() if index is not None else dataset.default.background
        self.delta = dataset.default.delta if index is None else index

    def graph(self) -> Graph:
        """The graph with a fresh budget."""
        if self._of_window is not None:
            return Graph(TripleIndex(), self._of_window, None, self._bounds)
        whole = self._dataset.graph
        graph = ReportGraph(whole.background, whole.delta, whole.windows, whole.matches, self._bounds)
        graph.removed = whole.removed
        return graph

    def window(self, name: Term) -> ClosedGraph:
        """The graph of a WINDOW block."""
        return WindowedGraph(self._dataset, self._bounds, self._dataset.blocks[name].index)


def why_no_report(replay: Replay, unit: StreamQuery, question: Question) -> WhyNot:
    """The reason for which a query produced no event.

    Args:
        replay: the program and its stream.
        unit: a query of the program.
        question: the requested reports, and the attributes of their events.

    >>> from dotr.commands.why.questions import open_replays
    >>> [replay] = open_replays("tests/explanations/queries.yaml", "1")
    >>> print(why_no_report(replay, replay.program.units[0], Question()).lines()[0])
    Hot: 4 reports, 8 events
    """
    return _ReportInquiry(replay, unit, question).answer()


@dataclass
class _Streams:
    """The number of elements on each stream of inputs, and their first and last time in µs since
    1970.
    """

    counts: dict[str, int] = field(default_factory=dict)
    first: Micros | None = None
    last: Micros | None = None


class _ReportInquiry:
    """Search for the answer to one question."""

    def __init__(self, replay: Replay, unit: StreamQuery, question: Question) -> None:
        self._cached = CachedReplay(replay)
        self._replay = self._cached.replay
        self._unit = unit
        self._question = question
        self._streams = _Streams()
        self._datalog = datalog_rules(replay.program)
        self._requested = RequestedTerms(question.where, unit.query.query, replay.program.knowledge.background)
        self._vocabulary = StreamVocabulary(self._datalog, names=self._requested.names)
        self._rules = program_rules(replay.program)
        self._terms = TermWriter(replay.prefixes)

    def answer(self) -> WhyNot:
        """Run the replay, and build the answer."""
        return self._findings().answer(self._replay.case, self._unit.name)

    def _findings(self) -> _ReportFindings:
        recorder = FiringRecorder.of(self._replay, [self._unit.name])
        events: list[UnitFiring] = []
        for firings in recorder.run():
            events += [each for each in firings if isinstance(each, UnitFiring) and self._is_requested(each)]
        self._note_elements()
        record = recorder.record(self._unit.name, QueryRecord)
        assert record is not None
        reports = [each for each in record.reports if self._question.covers(each.time)]
        empty = sum(all(seen.held.first >= seen.held.end for seen in each.contents) for each in reports)
        found = _ReportFindings(len(reports), empty, len(events))
        if not reports and record.reports:
            return replace(found, stops=(self._nearest(record),))
        if not reports:
            return replace(found, stops=tuple(self._without_report(record)))
        fired = {each.time for each in events}
        silent = [each for each in reports if each.time not in fired]
        if not silent:
            return found
        return self._explained(found, record, silent[-_MOST_SEARCHED:] if self._requested.where else _sample(silent))

    def _is_requested(self, event: UnitFiring) -> bool:
        return event.label == self._unit.name and self._question.includes(event.time, event.attributes)

    def _note_elements(self) -> None:
        """Count the elements of each stream, and collect their predicates and classes."""
        streams = self._streams
        only = [each.name for each in self._replay.program.layout.fed_streams]
        for instant in self._replay.instants():
            streams.first = instant.time if streams.first is None else streams.first
            streams.last = instant.time
            for graph in instant.graphs:
                name = graph.stream if isinstance(graph, FedGraph) else only[0] if len(only) == 1 else ""
                streams.counts[name] = streams.counts.get(name, 0) + 1
                self._vocabulary.add(graph, instant.time)

    # --- no report ---

    def _nearest(self, record: QueryRecord) -> str:
        """A sentence on the reports before and after the requested times."""
        first = self._question.first
        before = [each.time for each in record.reports if first is not None and each.time < first]
        after = [each.time for each in record.reports if first is None or each.time > first]
        near = [str(self._time(time)) for time in (*before[-1:], *after[:1])]
        return f"there is no report then; the nearest {'is' if len(near) == 1 else 'are'} at {' and '.join(near)}"

    def _without_report(self, record: QueryRecord) -> Iterator[str]:
        """Sentences on the windows with a report policy."""
        for number, (window, stream) in enumerate(zip(self._unit.query.windows, self._unit.streams, strict=True)):
            if window.policies is None:
                continue
            name = "the default window" if window.name is None else self._terms.text(window.name)
            came = record.arrived_count(number)
            if isinstance(stream, FedGraphs):
                count = self._streams.counts.get(stream.name, 0)
                others = sorted(each for each in self._streams.counts if each and each != stream.name)
                on = f"; elements came on {', '.join(others)}" if others else ""
                if not count:
                    yield f"{name}: no element of the stream {stream.name} came{on}"
                    continue
            elif not came:
                yield f"{name}: there is no event {stream.label} with a graph: {self._replay.why_not_command(stream.label)}"
                continue
            yield f"{name}: {counted(came, 'element')} came; {self._times_of(number)}"

    def _times_of(self, number: int) -> str:
        """A text on the times at which a window may report."""
        window, origin = self._unit.query.windows[number], self._replay.program.spec.origin
        policies, extent = window.policies, window.extent
        assert policies is not None
        first, last = self._streams.first, self._streams.last
        if isinstance(extent, RangeExtent | LandmarkExtent) and policies.window_close and first is not None and last is not None:
            closes = closes_of(extent, origin)
            close = closes.at_or_after(first)
            steps = (period_text(each) for each in closes.schedules)
            every = f"it closes at {self._time(close)}, then every {' and every '.join(steps)}"
            if close > last and not self._replay.ended:
                return f"{every}; the stream is at {self._time(last)} and may go on"
            if policies.non_empty and isinstance(extent, RangeExtent) and extent.step > extent.width - extent.lag:
                gap = duration_text(extent.step - extent.width + extent.lag)
                return f"{every}, and holds no element then: {gap} of each are in no window"
            return f"{every}" + (", and holds no element then" if policies.non_empty else "")
        if policies.period is not None:
            return f"it may report every {duration_text(policies.period)}" + (", and holds no element then" if policies.non_empty else "")
        return "it reports when its content changes"

    # --- reports without an event ---

    def _explained(self, found: _ReportFindings, record: QueryRecord, silent: Sequence[RecordedReport]) -> _ReportFindings:
        """The explanation of the report with the furthest stop."""
        limits = self._replay.program.spec.limits
        solver = PatternSolver()
        best: list[tuple[int, ReportDataset, QueryStop | None, str, Solution]] = []
        query, where = self._unit.query.query, self._requested.where
        most = most_reached(query, dict(where)) if where else LAST_MICRO
        for report in reversed(silent):
            dataset = self._dataset(record, report)
            for content in dataset.contents:
                for element in content:
                    self._requested.note(element.triples)
            for terms in self._requested.alternatives():
                try:
                    stop = find_stop(dataset.query.query, WindowedGraph(dataset, limits), solver, terms)
                    far = LAST_MICRO if stop is None else self._reached(dataset, stop)
                    exceeded = ""
                except LimitExceeded as error:
                    stop, far, exceeded = None, -1, str(error)
                if not best or far > best[0][0]:
                    best = []
                if not best or (far == best[0][0] and len(best) < (1 if where else _MOST_TIED)):
                    best.append((far, dataset, stop, exceeded, terms))
            if where and most <= best[0][0] < LAST_MICRO:
                break
        changes = [change_that_fires(dataset, self._replay, terms) if stop is not None else "" for _, dataset, stop, _, terms in best]
        chosen = next((number for number, change in enumerate(changes) if change), 0)
        _, dataset, stop, exceeded, terms = best[chosen]
        if where:
            self._terms = TermWriter(self._replay.prefixes, terms)
        found = replace(found, at=str(self._time(dataset.report.time)))
        if exceeded:
            return replace(found, stops=(f"the report goes over a limit: {exceeded}",))
        if stop is None:
            return self._not_given(found, record, dataset)
        return self._stopped(found, dataset, stop, changes[chosen])

    def _reached(self, dataset: ReportDataset, stop: QueryStop) -> int:
        """The number of patterns and conditions that hold; for a MATCH, the number of EVENTs that
        match.
        """
        if not _is_of_match(stop):
            return reached(stop)
        blocks = zip(dataset.query.matches, dataset.report.used, strict=True)
        return sum(bool(dataset.mappings_of(group, used)) for block, used in blocks for group in plain_groups(block.events))

    def _dataset(self, record: QueryRecord, report: RecordedReport) -> ReportDataset:
        elements = WindowElements(self._cached)
        return ReportDataset(self._replay.program, self._rules, record, report, elements, self._replay.clock)

    def _not_given(self, found: _ReportFindings, record: QueryRecord, dataset: ReportDataset) -> _ReportFindings:
        """The findings for a report with solutions that are not output, or lack the requested
        attributes.
        """
        relation = dataset.query.relation
        before = record.before(dataset.report)
        if relation is RelationToStream.RSTREAM or before is None:
            with_these = ", ".join(f"{name} = {self._terms.text(term)}" for name, term in self._question.where)
            return replace(found, stops=(f"it has solutions, none with {with_these}" if with_these else "all its triples were dropped",))
        then = self._time(before.time)
        if relation is RelationToStream.ISTREAM:
            text = f"each of its solutions was there at the report before, at {then}: ISTREAM gives what is new"
            return replace(found, stops=(text,), change="RSTREAM")
        return replace(found, stops=(f"no solution of the report before, at {then}, went: DSTREAM gives what went",))

    def _stopped(self, found: _ReportFindings, dataset: ReportDataset, stop: QueryStop, change: str) -> _ReportFindings:
        """The findings for a report whose query has a stop."""
        program, clock = self._replay.program, self._replay.clock
        given = list(dict.fromkeys(triple for content in dataset.contents for each in content for triple in each.triples))
        closed = ClosedGraph(program.knowledge.close(given), program.spec.limits)
        text = StopText(program, self._datalog, self._vocabulary, closed, given, self._terms, clock)
        text.scope_noun = "window"
        stops = ["MATCH has no mapping" if _is_of_match(stop) else sentence for sentence in text.sentences(stop)]
        further = [line for each in text.rules for line in each.told.lines()]
        further += text.noted()
        outside = self._only_in_background(dataset, stop, closed)
        if outside:
            further = [] if change else [outside]
        further += self._events(dataset)
        contents = ", ".join(
            f"{window_at(dataset, number, self._replay, self._terms)} holds {counted(len(content), 'element')}"
            for number, content in enumerate(dataset.contents)
        )
        return replace(found, stops=tuple(stops), further=(*further, contents), change=change)

    def _only_in_background(self, dataset: ReportDataset, stop: QueryStop, closed: ClosedGraph) -> str:
        """A remark if the missing pattern of a WINDOW block matches only the background."""
        if not isinstance(stop, JoinStop):
            return ""
        stop = stop.inside if isinstance(stop.inside, JoinStop) else stop
        missing = stop.missing[0]
        blocks = [part for part in walk(dataset.query.query) if isinstance(part, WindowBlock)]
        if not isinstance(missing, TriplePattern) or not any(missing in walk(block) for block in blocks):
            return ""
        there = PatternSolver().solutions(joined_pattern([missing]), closed, dict(self._terms.terms))
        text = part_text(missing, self._terms)
        return f"The background has {text}, and a WINDOW block matches only what its window entails: write it outside." if there else ""

    def _events(self, dataset: ReportDataset) -> Iterator[str]:
        """Lines with the number of matches of each EVENT of a MATCH without a mapping."""
        for block, found, used in zip(dataset.query.matches, dataset.mappings, dataset.report.used, strict=True):
            if found:
                continue
            for group in plain_groups(block.events):
                alone = dataset.mappings_of(group, used)
                times = sorted({each.first for each in alone})
                at = f": {', '.join(str(self._time(each)) for each in times[:_MOST_TIMES])}" if times else ""
                text = f"EVENT {self._terms.text(group.window)} {{ {pattern_text(group.pattern, self._terms)} }}"
                yield f"{text} matches {counted(len(alone), 'time')}{f' (at{at[1:]})' if at else ''}"
            if used:
                yield f"{counted(len(used), 'triple')} {'is' if len(used) == 1 else 'are'} used up by earlier reports"

    def _time(self, time: Micros) -> str | int:
        return format_time(time, self._replay.clock)


def _sample(silent: Sequence[RecordedReport]) -> Sequence[RecordedReport]:
    """At most 20 reports without an event, evenly spread; of those without an empty window, if
    there are any.
    """
    full = [each for each in silent if all(seen.held.first < seen.held.end for seen in each.contents)] or silent
    if len(full) <= _MOST_COMPARED:
        return full
    return [full[(number + 1) * len(full) // _MOST_COMPARED - 1] for number in range(_MOST_COMPARED)]


def _is_of_match(stop: QueryStop) -> bool:
    """True if the stop is a MATCH without a mapping."""
    return isinstance(stop, OperatorStop) and stop.operator == "MATCH"


# Changes of a continuous query with which a report has a solution, each verified.
#
# Idea: first a stronger entailment level, then a longer RANGE. If the query has a solution with all
# earlier elements of a window, bisection finds the least number of the latest ones that suffices.
# Cost: one evaluation of the report for each trial; some ten trials.

_MOST_EARLIER = 10_000
"""Maximum number of earlier elements for which a longer RANGE is tried."""


def change_that_fires(dataset: ReportDataset, replay: Replay, terms: Solution = EMPTY) -> str:
    """A change of one window with which the report has a solution with requested terms, as in the
    query; empty: none is found.
    """
    query = dataset.query
    for number, window in enumerate(query.windows):
        less = window.block_level in (EntailmentLevel.NONE, EntailmentLevel.SNAPSHOT)
        if less and _fires(dataset, _with(query, number, replace(window, level=EntailmentLevel.GRAPH)), dataset.contents, terms):
            return "ENTAILMENT GRAPH"
    for number, window in enumerate(query.windows):
        if isinstance(window.extent, RangeExtent) and (text := _longer_range(dataset, number, window.extent, replay, terms)):
            return text
    return ""


def _longer_range(dataset: ReportDataset, number: int, extent: RangeExtent, replay: Replay, terms: Solution) -> str:
    """The shortest RANGE of a window with a solution, as in the query; empty: there is none."""
    earlier = dataset.earlier(number)
    if not earlier or len(earlier) > _MOST_EARLIER:
        return ""

    def fires(count: int) -> bool:
        contents = list(dataset.contents)
        contents[number] = [*earlier[len(earlier) - count :], *contents[number]]
        return _fires(dataset, dataset.query, contents, terms)

    if not fires(len(earlier)):
        return ""
    low, high = 0, len(earlier)  # invariant: no solution with the latest `low` elements, one with the latest `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fires(middle) else (middle, high)
    oldest = earlier[len(earlier) - high].time
    close = closes_of(extent, replay.program.spec.origin).at_or_after(dataset.report.time)
    unit = replay.clock.unit.value
    width = ((close - oldest) // unit + 1) * unit
    if extent.lag:
        return f"FROM NOW-{duration_text(width)} TO NOW-{duration_text(extent.lag)} STEP {duration_text(extent.step)}"
    return f"RANGE {duration_text(width)} STEP {duration_text(extent.step)}"


def _with(query: ContinuousQuery, number: int, window: ContinuousWindow) -> ContinuousQuery:
    windows = list(query.windows)
    windows[number] = window
    return replace(query, windows=tuple(windows))


def _fires(dataset: ReportDataset, query: ContinuousQuery, contents: Sequence[Sequence[WindowElement]], terms: Solution) -> bool:
    """True if a query has a solution with some terms over some contents."""
    changed = dataset.changed(query, contents)
    try:
        own = in_scope_of(query.query, terms)
        rows = AlgebraCompiler().compile(query.query).solutions(changed.graph, own, EMPTY)
        return any(own.keys() <= row.keys() for row in rows)
    except LimitExceeded:
        return False
