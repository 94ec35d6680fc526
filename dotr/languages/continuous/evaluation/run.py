"""One continuous query with its state: contents of its windows, reports, and their events.

Idea: at each moment the arriving elements are added to the windows' contents. If a window reports,
the query is evaluated over all windows (`dotr.languages.continuous.evaluation.report`), and
solutions become events: all of them (RSTREAM), the inserted ones (ISTREAM) or the deleted ones
(DSTREAM). Invariant: `step` is a function of the state and its arguments.
Source: continuous.md, sections 3, 4 and 6.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, assert_never

from dotr.engine.gaps import Gap, gap_letter
from dotr.engine.unit_runs import UnitArrivals, UnitResult, UnitRun, failure_letter
from dotr.errors.fallbacks import FallbackKind
from dotr.evaluation.limits import BOUNDS, LimitExceeded, Limits
from dotr.languages.continuous.evaluation.last_solutions import LastSolutions
from dotr.languages.continuous.evaluation.match_blocks import MatchedTriple
from dotr.languages.continuous.evaluation.report import ClosedItems, ReportAnswer, ReportEvaluator, SolutionRow, WindowAtReport
from dotr.languages.continuous.evaluation.window_closures import SharedClosures, maintained_items, window_closures
from dotr.languages.continuous.keys import key_column
from dotr.languages.continuous.model import AskForm, ConstructForm, ContinuousQuery, LandmarkExtent, SelectForm
from dotr.languages.continuous.windows.content import ContentRange, TimedElement, WindowContent, WindowLimitExceeded
from dotr.languages.continuous.windows.reports import ReportSchedule, SeenContents, WindowReports
from dotr.model.event_order import sort_by_tie
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.temporal.items import graph_row, row_graph
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.operator import Arrival
from dotr.temporal.templates import CompiledTemplate, compile_template, digest_of, match_text

if TYPE_CHECKING:  # loaded where a state is divided
    from dotr.engine.state.keyed import KeyedState

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

    In a gap that is skipped `passed` is ahead of the moments with arrivals: these report nothing.
    - `watch`: the observer, in explanations only.

    Args:
        evaluator: the compiled query. Where it has the share of a bucket, the windows have the
            bucket's shares of elements, and the events are those of the bucket's subjects.
        origin: the origin of windows in µs.
        closures: the closures of windows, shared with other queries; None: the query's own.
        streams: the key of each window's stream (`SharedClosures.window`).
        event: the label of the events; None: that of the query.
    """

    acts_alone = True

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
        consuming = any(block.consuming for block in self.query.matches)
        self._schedule = ReportSchedule(self.windows, self.query.relation, lambda: evaluator.answers_empty, consuming=consuming)
        self._reported: SeenContents | None = None  # what the last report has seen; None: unknown, or it has failed
        self._gap: Gap | None = None
        self._acts = 0  # reports in the gap so far
        self._released: Micros | None = None
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

    def end(self, last: Micros, *, is_fed: bool) -> Sequence[DeadLetter]:
        """Note the last instant; `is_fed`: a unit that feeds a stream of the query may still make
        events. Up to the last report there may be a gap."""
        self.ended = last
        if self.passed is None or self.is_stopped or not self._all_times:
            self.is_done = True
        elif any(times.has(last) for times in self._all_times):
            self._finish_at(last, is_fed=is_fed)
        return () if self.is_done else self.open_gap(last, self._last_report(last))

    def release(self, time: Micros) -> Sequence[DeadLetter]:
        """Enable z, since nothing arrives after a time; skip the reports before it if they were too
        many so far."""
        self._released = time
        return self._end_wait(None if self.passed is None else self._last_report(self.passed + 1))

    def _end_wait(self, before: Micros | None) -> Sequence[DeadLetter]:
        """End the wait for units that feed the query; skip the reports up to `before` if they were
        too many so far."""
        is_over, self.is_waiting = self.is_waiting and self._acts > self._evaluator.limits.gap, False
        if not is_over or self.passed is None or before is None:
            return ()
        self._gap, self._acts = Gap(self.passed, before), self._evaluator.limits.gap
        letters = self._skipped()
        self._gap, self._acts = Gap(before, before), 0
        return letters

    def open_gap(self, after: Micros, before: Micros) -> Sequence[DeadLetter]:
        """Skip the reports between two times in µs if they are more than `limits.gap`."""
        if self.passed is None or self.is_stopped or not self._all_times:
            return ()
        self._gap, self._acts = Gap(after, before), 0
        return self._skipped()

    def _skipped(self) -> Sequence[DeadLetter]:
        """The dead letter of the rest of the gap if it has too many reports, which are skipped."""
        gap, most = self._gap, self._evaluator.limits.gap
        if gap is None or gap.after >= gap.before:
            return ()
        number = self._schedule.count(gap.after, gap.before, most - self._acts)
        if number <= most - self._acts:
            return ()
        self._gap, self.passed = None, gap.before - 1
        if self._share is not None and not self._share.is_first:
            return ()
        return (gap_letter(self.query.label, self.query.label_span, gap, number, most, self._evaluator.clock),)

    def _last_report(self, begin: Micros) -> Micros:
        """z, the last report after the last instant, if nothing arrives from `begin` on."""
        assert self.ended is not None
        return self._schedule.last(max(begin, self.ended if self._released is None else self._released))

    def next_due(self) -> Micros | None:
        """The next time at which a report may have a row if nothing arrives, or z; None: never."""
        if self.passed is None or self.is_stopped or self.is_done:
            return None
        if self.is_waiting and self._acts > self._evaluator.limits.gap:
            return None
        due = self._schedule.next(self.passed, self._reported)
        if self.ended is None or self.is_waiting:
            return due
        last = self._last_report(self.passed + 1)
        return last if due is None else min(due, last)

    @property
    def is_over(self) -> bool:
        """True if a landmark window has exceeded its LIMIT."""
        return self.is_stopped

    @property
    def is_under_way(self) -> bool:
        """True after the last instant if a report may still come."""
        return not self.is_done and not self.is_stopped

    def _finish_at(self, time: Micros, *, is_fed: bool) -> None:
        """Set `is_done` if a time of WINDOW CLOSE or PERIODIC is the last one, z, or `is_waiting`
        if it would be but for the units that feed the query."""
        assert self.ended is not None
        is_last = time >= self.ended and not any(each.content.will_hold(time) for each in self.windows)
        self.is_done, self.is_waiting = is_last and not is_fed, is_last and is_fed

    # --- reports ---

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        """The result of a moment; `arrivals` has graphs, by the number of the window."""
        if self.is_stopped:
            return _NOTHING
        letters = self._end_wait(time) if arrivals else ()
        is_skipped = self.passed is not None and time <= self.passed
        self.passed = time if self.passed is None else max(time, self.passed)
        for number, arrived in arrivals.items():
            try:
                self._add(time, number, arrived)
            except WindowLimitExceeded:
                return self._stop(time, number)
        if self.watch is not None:
            self.watch.arrived(time, {number: [row_graph(row) for _, row in arrived] for number, arrived in arrivals.items()})
        result = _NOTHING if is_skipped else self._report(time, arrivals)
        if self._gap is not None:
            result = self._in_gap(time, result, has_arrivals=bool(arrivals))
        if self.ended is not None and any(times.has(time) for times in self._all_times):
            self._finish_at(time, is_fed=is_fed)
        for each in self.windows:
            each.content.expire(time)
        return result._replace(failed=[*letters, *result.failed]) if letters else result

    def _in_gap(self, time: Micros, result: UnitResult, *, has_arrivals: bool) -> UnitResult:
        """The result of a moment while a gap is open: what arrives there may lead to further
        reports."""
        assert self._gap is not None
        before = self._gap.before if self.ended is None else self._last_report(time)
        if self.ended is None and time >= before:
            self._gap = None
            return result
        self._gap, self._acts = Gap(time, before), 0 if self.ended is not None and has_arrivals else self._acts + 1
        return result._replace(failed=[*result.failed, *self._skipped()]) if has_arrivals else result

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
        self._reported = None
        try:
            answer, firings = self._answer(time)
        except Exception as error:
            return UnitResult([], [_failed_report(self.query, time, error)])
        if self.watch is not None:
            contents = [ContentAtReport(each.content.range_at(time), each.content.history_from(time)) for each in self.windows]
            self.watch.reported(time, contents, self.used)
        for each in reporting:
            each.note(time)
        self.used = answer.used
        self._reported = self._schedule.seen(time)
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
        return UnitResult([], [DeadLetter.of_unit(Reason.LIMIT, self.query.label, self.query.label_span, time, why)])

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
        self._reported = None
        if share is not None:
            before = share.own_rows(before)
        self._last.restore(tuple(row) for row in before)
        self._solutions.clear()
        self.used = tuple(
            frozenset(MatchedTriple(window, time, (triple[0], triple[1], triple[2])) for window, time, triple in block) for block in used
        )

    def keyed_state(self) -> KeyedState | None:
        """The rows of the last report have the key of the query, and triples have their subjects."""
        from dotr.engine.state.keyed import Common, Fields, KeyedRows, KeyedState, SharedLog

        common, projection = Common(), self.query.query.projection
        column = key_column(self.query)
        if column is None:
            return None
        # A key that is not projected is that of RSTREAM, which keeps no rows.
        rows = KeyedRows(itemgetter(projection.index(column) if column in projection else 0))
        return KeyedState(Fields([common, common, common, rows, common, common], further=1), [SharedLog(width=3) for _ in self.windows])


def _failed_report(query: ContinuousQuery, time: Micros, error: Exception) -> DeadLetter:
    """The dead letter of a report, at a time in µs, that has raised an error."""
    return failure_letter(error, FallbackKind.GRAPHS, f"a report of {query.label}", query.label, query.label_span, time)


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


# Graphs of a CONSTRUCT whose solutions come from several buckets
# (`dotr.languages.continuous.unit`).


class GraphRun(UnitRun):
    """A unit that makes one graph of all solutions of a moment; it has no state."""

    def __init__(self, query: ContinuousQuery, attributes: Sequence[Variable], limits: Limits) -> None:
        self._query: Final = query
        self._limits: Final = limits
        assert isinstance(query.form, ConstructForm), "its solutions make a graph"
        self._label = query.label
        self._names = query.query.projection
        self._places = [attributes.index(name) for name in self._names]
        self._template = compile_template(query.form.template, self._names)

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        """The graph of the solutions that arrive."""
        rows = [tuple([row[place] for place in self._places]) for _, row in arrivals.get(0, ())]
        BOUNDS.start(self._limits.literal, self._limits.text)
        try:
            return UnitResult([merged_graph(self._label, self._template, self._names, time, rows)] if rows else [])
        except LimitExceeded as error:
            return UnitResult([], [_failed_report(self._query, time, error)])

    @property
    def event_counts(self) -> Sequence[int]:
        """No solution is stored."""
        return (0,)

    def to_json(self) -> str:
        """The empty state."""
        return "[]"

    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        """Check that the state is empty; raises ValueError if it is not."""
        if text != "[]":
            raise ValueError("a unit of graphs keeps nothing")
