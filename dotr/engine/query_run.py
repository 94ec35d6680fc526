"""One continuous query with its state: contents of its windows, reports, and their events.

Idea: at each moment the arriving elements are added to the windows' contents. If a window reports,
the query is evaluated over all windows (`report_evaluation`), and solutions become events: all of
them (RSTREAM), the inserted ones (ISTREAM) or the deleted ones (DSTREAM).
Invariant: `step` is a function of the state and its arguments.
Source: continuous.md, sections 3, 4 and 6.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple, Protocol, assert_never

from dotr.engine.items import graph_row, row_graph
from dotr.engine.last_solutions import LastSolutions
from dotr.engine.match_blocks import MatchedTriple
from dotr.engine.report_evaluation import ClosedItems, ReportAnswer, ReportEvaluator, SolutionRow, WindowAtReport
from dotr.engine.unit_runs import UnitArrivals, UnitResult, UnitRun
from dotr.engine.window_closures import SharedClosures, maintained_items, window_closures
from dotr.errors.fallbacks import FallbackKind, error_line, reraise_in_tests
from dotr.joins.limits import LimitExceeded
from dotr.layout.event_order import sort_by_tie
from dotr.model.continuous import AskForm, ConstructForm, ContinuousQuery, LandmarkExtent, SelectForm
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.outputs import compile_template, digest_of, match_text
from dotr.outputs.templates import CompiledTemplate
from dotr.patterns.events import StoredEvent
from dotr.patterns.operator import Arrival
from dotr.windows.content import ContentRange, TimedElement, WindowContent, WindowLimitExceeded
from dotr.windows.reports import WindowReports

_NOTHING: Final = UnitResult([])
SHARES: Final = "shares"
"""The mark of a state whose logs have shares of elements."""


class ContentAtReport(NamedTuple):
    """Elements that a window had at a report, as positions among all elements that it received.

    - `held`: the content.
    - `history`: the first element of the stream that the level STREAM reads beside the content.
    """

    held: ContentRange
    history: int


class ReportWatch(Protocol):
    """Observer of the arrivals and reports of a query, for explanations."""

    def arrived(self, time: Micros, arrived: Mapping[int, Sequence[tuple[Triple, ...]]]) -> None:
        """Notifies of the elements added at a time (µs), by the number of the window."""

    def reported(self, time: Micros, contents: Sequence[ContentAtReport], used: tuple[frozenset[MatchedTriple], ...]) -> None:
        """Notifies of a report at a time (µs).

        `used`: the triples that each MATCH block with CONSUMING had used up before the report.
        """


class QueryRun(UnitRun):
    """A continuous query with its state.

    - `passed`: the time of the last step in µs, or that before the first instant; None before both.
    - `is_stopped`: a landmark window has exceeded its LIMIT; the query reports no more.
    - `ended`: the last instant in µs, once it is known; `is_done`: the last report has been made.
    - `watch`: the observer, in explanations only.

    Args:
        evaluator: the compiled query. Where it has the share of a bucket, the windows have the
            bucket's shares of elements, and the events are those of the bucket's subjects.
        origin: the origin of windows in µs.
        closures: the closures of windows, shared with other queries; None: the query's own.
        streams: the key of each window's stream (`SharedClosures.window`).
        event: the label of the events; None: that of the query.
    """

    def __init__(
        self,
        evaluator: ReportEvaluator,
        origin: Micros,
        closures: SharedClosures | None = None,
        streams: Sequence[Hashable] = (),
        event: Label | None = None,
    ) -> None:
        self.query: ContinuousQuery = evaluator.query
        self._event = self.query.label if event is None else event
        self._evaluator = evaluator
        self._share = evaluator.share
        self.windows = [WindowReports(WindowContent(window, origin), origin) for window in self.query.windows]
        self._closures = SharedClosures(evaluator.closer) if closures is None else closures
        if self._share is not None:
            self._closures.owns = self._share.has
        self._streams = streams or [window.stream for window in self.query.windows]
        contents = [each.content for each in self.windows]
        self._kept = window_closures(self.query, contents, self._streams, self._closures)
        self._items = maintained_items(self.query, contents, self._streams, self._closures)
        self._closed = [ClosedItems() for _ in self.windows]
        self._all_times = [reports.times for reports in self.windows if reports.times is not None]
        names = evaluator.projection
        self._names = names
        self._places = sorted(zip(names, range(len(names)), strict=True))
        self._last_events: tuple[list[SolutionRow], list[tuple[tuple[Variable, Term], ...]]] = ([], [])
        """The output rows of the last report, and the attributes of their events."""
        self._template = compile_template(self.query.form.template, names) if isinstance(self.query.form, ConstructForm) else None
        self.passed: Micros | None = None
        self.is_stopped = False
        self.ended: Micros | None = None
        self.is_done = False
        self.watch: ReportWatch | None = None
        self._last = LastSolutions(self.query.relation)
        self._solutions = evaluator.maintained_solutions()
        self.used: tuple[frozenset[MatchedTriple], ...] = tuple(frozenset() for _ in self.query.matches)

    # --- time ---

    def begin(self, time: Micros) -> None:
        """Enable reports from the time of the first instant on."""
        if self.passed is None:
            self.passed = time - 1

    def end(self, last: Micros, *, is_fed: bool) -> None:
        """Note the last instant; `is_fed`: a unit that feeds a stream of the query may still make
        events."""
        self.ended = last
        if self.passed is None or self.is_stopped or not self._all_times:
            self.is_done = True
        elif any(times.has(last) for times in self._all_times):
            self._finish_at(last, is_fed=is_fed)

    def next_due(self) -> Micros | None:
        """The next time at which the query may report if nothing arrives; None: never."""
        if self.passed is None or self.is_stopped or self.is_done:
            return None
        if self.ended is not None:
            return min(times.after(self.passed) for times in self._all_times)
        return min((time for each in self.windows if (time := each.next_time(self.passed)) is not None), default=None)

    @property
    def is_over(self) -> bool:
        """True if a landmark window has exceeded its LIMIT."""
        return self.is_stopped

    @property
    def is_under_way(self) -> bool:
        """True after the last instant if a report may still come."""
        return not self.is_done and not self.is_stopped

    def _finish_at(self, time: Micros, *, is_fed: bool) -> None:
        """Set `is_done` if a time of WINDOW CLOSE or PERIODIC is the last one, z."""
        assert self.ended is not None
        self.is_done = time >= self.ended and not is_fed and not any(each.content.will_hold(time) for each in self.windows)

    # --- reports ---

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        """The result of a moment; `arrivals` has graphs, by the number of the window."""
        if self.is_stopped:
            return _NOTHING
        self.passed = time
        for number, arrived in arrivals.items():
            try:
                self._add(time, number, arrived)
            except WindowLimitExceeded:
                return self._stop(time, number)
        if self.watch is not None:
            self.watch.arrived(time, {number: [row_graph(row) for _, row in arrived] for number, arrived in arrivals.items()})
        result = self._report(time, arrivals)
        if self.ended is not None and any(times.has(time) for times in self._all_times):
            self._finish_at(time, is_fed=is_fed)
        for each in self.windows:
            each.content.expire(time)
        return result

    def _add(self, time: Micros, number: int, arrived: Sequence[Arrival]) -> None:
        """Add the elements that arrive at a window."""
        content, stream = self.windows[number].content, self._streams[number]
        if self._share is None or not self._share.is_divided:
            content.add(time, self._closures.elements(stream, time, arrived))
            return
        share = self._share.arrived(row for _, row in arrived)
        if share.triples:
            self._closures.elements(stream, time, [(0, graph_row(share.triples))])
        content.add_share(time, share.triples, share.elements, share.size)

    def _report(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        reporting = [each for number, each in enumerate(self.windows) if each.reports(time, arrived=bool(arrivals.get(number)))]
        if not reporting:
            return _NOTHING
        try:
            answer, firings = self._answer(time)
        except LimitExceeded as error:
            return UnitResult([], [report_over_limit(self.query, time, error)])
        except Exception as error:
            reraise_in_tests(error, FallbackKind.GRAPHS)
            return UnitResult([], [self._dead_letter(Reason.FAILED, time, f"a report of {self.query.label} fails: {error_line(error)}")])
        if self.watch is not None:
            contents = [ContentAtReport(each.content.range_at(time), each.content.history_from(time)) for each in self.windows]
            self.watch.reported(time, contents, self.used)
        for each in reporting:
            each.note(time)
        self.used = answer.used
        return UnitResult(firings, [], answer.contradictions)

    def _answer(self, time: Micros) -> tuple[ReportAnswer, list[Firing]]:
        """The answer of a report and its events.

        After an error the next report is evaluated in full; ISTREAM and DSTREAM then compare with
        the last report without an error.
        """
        try:
            self._evaluator.bound_literals()
            parts = zip(self.windows, self._kept, self._items, self._closed, strict=True)
            windows = [WindowAtReport(each.content, time, kept, items, closed) for each, kept, items, closed in parts]
            answer = self._evaluator.evaluate(windows, self.used, self._solutions)
            output = self._last.output(answer.rows)
            try:
                return answer, self._firings(time, output)
            except BaseException:
                self._last.undo()
                raise
        except BaseException:
            self._solutions.clear()
            raise

    def _stop(self, time: Micros, number: int) -> UnitResult:
        """Stop the query, whose landmark window exceeds its LIMIT, and drop its state."""
        window = self.query.windows[number]
        assert isinstance(window.extent, LandmarkExtent)
        self.is_stopped = True
        self._last.restore(())
        self._solutions.clear()
        for each in self.windows:
            each.content.clear()
        for kept in (*self._kept, *self._items):
            if kept is not None:
                kept.leave()
        name = window.name or "the default window"
        if self._share is not None and not self._share.is_first:
            return _NOTHING
        why = f"the window {name} of {self.query.label} holds more than LIMIT {window.extent.limit}: the query reports no more"
        return UnitResult([], [self._dead_letter(Reason.LIMIT, time, why)])

    def _dead_letter(self, reason: Reason, time: Micros, why: str) -> DeadLetter:
        return _dead_letter(self.query, reason, time, why)

    def _firings(self, time: Micros, rows: list[SolutionRow]) -> list[Firing]:
        label = self._event
        match self.query.form:
            case SelectForm() | AskForm():
                if rows is not self._last_events[0]:  # RSTREAM returns the same list where nothing has changed
                    self._last_events = (rows, list(map(self._pairs, rows)))
                return [Firing(time, label, label, pairs, None, 0) for pairs in self._last_events[1]]
            case ConstructForm():
                return [self._graph_firing(time, rows)] if rows else []
            case other:
                assert_never(other)

    def _pairs(self, row: SolutionRow) -> tuple[tuple[str, str], ...]:
        return tuple([(name, term) for name, place in self._places if (term := row[place]) is not None])

    def _graph_firing(self, time: Micros, rows: list[SolutionRow]) -> Firing:
        """The one event of a CONSTRUCT, with the graphs of all rows."""
        assert self._template is not None
        return merged_graph(self.query.label, self._template, self._names, time, rows)

    # --- state ---

    @property
    def event_counts(self) -> list[int]:
        """The number of elements kept by each window."""
        return [len(each.content) for each in self.windows]

    def entries(self, after: Micros | None = None) -> list[list[StoredEvent]]:
        """The elements of each window, or the bucket's shares of them, as one log per window."""
        if self._share is not None and self._share.is_divided:
            return [self._share.entries(each.content, after) for each in self.windows]
        return [[(time, 0, graph_row(triples)) for time, triples in each.content.later(after)] for each in self.windows]

    def oldest(self) -> list[Micros | None]:
        """The time of the first element of each window."""
        return [each.content.first_time for each in self.windows]

    def to_json(self) -> str:
        """The state as JSON, without the elements of windows."""
        return json.dumps(
            [
                [[each.content.to_json(), each.reported] for each in self.windows],
                self.passed,
                self.is_stopped,
                list(self._last.rows()),
                [sorted(used) for used in self.used],
                *([SHARES] if self._share is not None and self._share.is_divided else []),
            ]
        )

    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        """Go on from `to_json` and the elements of each window."""
        windows, self.passed, self.is_stopped, before, used, *form = json.loads(text)
        share = self._share
        if form not in ([], [SHARES]) or (form and (share is None or not share.is_divided)):
            raise ValueError(f"it is in the form {form}")
        for each, (content, reported), kept in zip(self.windows, windows, entries, strict=True):
            each.reported = ContentRange(*reported)
            if share is None or not share.is_divided:
                each.content.restore(content, [TimedElement(time, row_graph(row)) for time, _, row in kept])
            elif form:
                share.restore(each.content, content, kept)
            else:
                each.reported = share.take_over(each.content, content, kept, each.reported)
        self._closures.forget()
        if share is not None:
            before = share.own_rows(before)
        self._last.restore(tuple(row) for row in before)
        self._solutions.clear()
        self.used = tuple(
            frozenset(MatchedTriple(window, time, (triple[0], triple[1], triple[2])) for window, time, triple in block) for block in used
        )


def _dead_letter(query: ContinuousQuery, reason: Reason, time: Micros, why: str) -> DeadLetter:
    span, label = query.label_span, query.label
    return DeadLetter(reason, f"rule {label}", span.document.name, span.line_column[0], time, label, why)


def report_over_limit(query: ContinuousQuery, time: Micros, error: LimitExceeded) -> DeadLetter:
    """The dead letter of a report, at a time in µs, that exceeds a limit."""
    return _dead_letter(query, Reason.LIMIT, time, f"a report of {query.label} goes over a limit: {error}")


def merged_graph(label: Label, template: CompiledTemplate, names: Sequence[Variable], time: Micros, rows: list[SolutionRow]) -> Firing:
    """The event of a CONSTRUCT: the union of the graphs of all rows; each has fresh blank nodes."""
    graph: dict[Triple, None] = {}
    dropped = 0
    for _, triples, missing in row_graphs(label, template, names, time, rows):
        graph |= dict.fromkeys(triples)
        dropped += missing
    return Firing(time, label, label, (), tuple(graph), dropped)


def row_graphs(
    label: Label, template: CompiledTemplate, names: Sequence[Variable], time: Micros, rows: list[SolutionRow]
) -> Iterator[tuple[SolutionRow, Sequence[Triple], int]]:
    """Each row of a CONSTRUCT with its graph and the number of triples dropped from it.

    The rows are yielded in the tie order. Equal rows have different fresh blank nodes.
    """
    for row, equal in groupby(sort_by_tie(names, rows)):
        for ordinal, _ in enumerate(equal):
            seed = digest_of(label.encode(), match_text(time, [(label, time, row)], ordinal)) if template.has_fresh_names else b""
            triples, missing = template.instantiate(row, seed)
            yield row, triples, missing
