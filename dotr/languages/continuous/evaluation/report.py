"""Solutions of a continuous query at a report (continuous.md, sections 5 to 7).

Idea: the content of each window is closed at its level, the MATCH blocks are evaluated over items,
and the query over these graphs and mappings. Three things are maintained from report to report: the
closures of contents (`window_closures`), where level and rules allow it, the solutions of the query
or of parts of it (`maintained_solutions`), and the triples that MATCH blocks have used up.
Cost: the deltas of incremental closures and solutions, the closing of the other windows, and the
parts of the query that are evaluated in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.limits import BOUNDS, LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.content_entailment import ContentCloser, ContentEntailment
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY
from dotr.instant.queries.window_operators import ReportGraph
from dotr.languages.continuous.evaluation.maintained_matches import maintained_matches
from dotr.languages.continuous.evaluation.maintained_solutions import GraphAtReport, MaintainedSolutions, SolutionChanges
from dotr.languages.continuous.evaluation.match_blocks import MatchedItem, MatchedTriple, MatchEvaluator
from dotr.languages.continuous.evaluation.shared_closure import MaintainedWindow, WindowChanges, are_joined
from dotr.languages.continuous.evaluation.window_closures import MaintainedItems, StratifiedWindow, tracked_graphs
from dotr.languages.continuous.model import AskForm, ContinuousQuery, ContinuousWindow, EntailmentLevel, Level, StreamLevel
from dotr.languages.continuous.windows.content import TimedElement, WindowContent, WindowView
from dotr.model.terms import XSD, Term, Triple
from dotr.model.time import Clock, Micros
from dotr.temporal.answers.changes import NO_TRIPLES, GraphName
from dotr.temporal.answers.plan import maintained_plan
from dotr.temporal.intervals.patterns import plain_groups
from dotr.temporal.layout.spread import BucketShare

if TYPE_CHECKING:
    from dotr.languages.continuous.evaluation.shares import QueryShare

SolutionRow = tuple[Term | None, ...]
"""The terms of a solution in the order of the query's projection."""

_BOOLEANS = {True: f'"true"^^<{XSD}boolean>', False: f'"false"^^<{XSD}boolean>'}


class ReportAnswer(NamedTuple):
    """Ω(t), the answer of a report.

    - `rows`: all solutions, or those inserted and deleted since the last report.
    - `contradictions`: those of windows.
    - `used`: the triples that MATCH blocks with CONSUMING have used up, by number of the block.
    """

    rows: SolutionChanges
    contradictions: tuple[Contradiction, ...]
    used: tuple[frozenset[MatchedTriple], ...]


class ClosedItems:
    """The items of a window that are closed one by one, each once."""

    def __init__(self) -> None:
        self._closed: dict[Micros, ContentEntailment] = {}

    def of(
        self, items: Sequence[tuple[Micros, list[Triple]]], close: Callable[[list[Triple]], ContentEntailment]
    ) -> list[ContentEntailment]:
        """V of each item, given with its time in µs; results of the last call are reused."""
        known = self._closed
        self._closed = {time: known.get(time) or close(item) for time, item in items}
        return list(self._closed.values())


class WindowAtReport:
    """A window of a query at one report; the constructor advances its closures to the report.

    - `content`: the elements; `time`: that of the report in µs.
    - `kept`: the incremental closure; None where the content is closed in full.
    - `changes`: those of `kept` since the window's last report; None: unknown.
    - `items`: the items of EVENTs that are derived over the stream; None at other levels.
    - `closed`: the items of EVENTs that are closed one by one.
    """

    def __init__(
        self, content: WindowContent, time: Micros, kept: MaintainedWindow | None, items: MaintainedItems | None, closed: ClosedItems
    ) -> None:
        self.content = content
        self.time = time
        self.kept = kept
        self.items = items
        self.closed = closed
        if items is not None:
            items.move(time)
        changes = None if kept is None else kept.move(time)
        self.changes: WindowChanges | None = None if changes is None or changes.is_initial else changes

    @cached_property
    def view(self) -> WindowView:
        """The elements at the report."""
        return self.content.view(self.time)


class ReportEvaluator:
    """A compiled continuous query; `share`: the part that a bucket evaluates, None: the whole."""

    def __init__(
        self, query: ContinuousQuery, closer: ContentCloser, clock: Clock, limits: Limits, share: BucketShare | None = None
    ) -> None:
        self.query = query
        self.share = None if share is None else _share_of(query, share)
        self._select = query.query if self.share is None else self.share.selected(query.query)
        self._closer = closer
        self.clock = clock
        self.limits = self._limits = limits
        self._matches = [MatchEvaluator(block, partial(time_term, clock=clock)) for block in query.matches]
        self._event_windows = {group.window for block in query.matches for group in plain_groups(block.events)}
        self._contradictions: dict[Contradiction, None] = {}
        self._default_windows = [number for number, window in enumerate(query.windows) if window.name is None]
        self._is_default_kept = len(self._default_windows) == 1 or are_joined(query, closer.rules)

    @property
    def projection(self) -> tuple[str, ...]:
        """The names of a row's terms."""
        return ("answer",) if isinstance(self.query.form, AskForm) else tuple(self.query.query.projection)

    @property
    def closer(self) -> ContentCloser:
        """The closer of windows that are closed in full at each report."""
        return self._closer

    def bound_literals(self) -> None:
        """Sets the limit of literals; called before contents are closed and the query evaluated."""
        BOUNDS.start(self._limits.literal, self._limits.text)

    def maintained_solutions(self) -> MaintainedSolutions:
        """A new incremental plan of the query, without state."""
        graphs = tracked_graphs(self.query, self._closer.rules)
        matches = maintained_matches(self._matches)
        operators = [None if each is None else each.operator for each in matches]
        return MaintainedSolutions(
            maintained_plan(self._select, graphs, self._limits, self._closer.knowledge.background, operators), self._limits, matches
        )

    @cached_property
    def answers_empty(self) -> bool:
        """True if the whole query has a row where all windows are empty, or if that exceeds a
        limit.

        The background alone decides it, so it is the same in every bucket.
        """
        contents = [WindowContent(window, 0) for window in self.query.windows]
        windows = [WindowAtReport(content, 0, None, None, ClosedItems()) for content in contents]
        used = [frozenset[MatchedTriple]() for _ in self.query.matches]
        try:
            return bool(self._evaluated(windows, used, self.maintained_solutions()).rows.inserted)
        except LimitExceeded:
            return True

    def evaluate(
        self, windows: Sequence[WindowAtReport], used: Sequence[frozenset[MatchedTriple]], kept: MaintainedSolutions
    ) -> ReportAnswer:
        """Ω at a report, or the bucket's part of it.

        Args:
            windows: the windows of the query, in its order.
            used: the triples that each MATCH block has used up before.
            kept: the state of the last report, which is updated.

        Raises:
            LimitExceeded: the windows, or the solutions, exceed a limit.
        """
        answer = self._evaluated(windows, used, kept)
        if self.share is None:
            return answer
        contradictions = answer.contradictions if self.share.is_first else ()
        return ReportAnswer(self.share.own_changes(answer.rows), contradictions, answer.used)

    def _evaluated(
        self, windows: Sequence[WindowAtReport], used: Sequence[frozenset[MatchedTriple]], kept: MaintainedSolutions
    ) -> ReportAnswer:
        self._contradictions.clear()
        named = {
            window.name: (window, at_report)
            for window, at_report in zip(self.query.windows, windows, strict=True)
            if window.name is not None
        }
        graphs: dict[GraphName, GraphAtReport] = {
            name: self._at_level(window.block_level, at_report) for name, (window, at_report) in named.items()
        }
        default = self._default(windows)
        graphs[None] = default.graph
        items: dict[Term, list[MatchedItem]] = {}
        if kept.matches:
            items = {name: self._items(*named[name]) for name in self._event_windows}
            for each in kept.matches:
                assert each is not None, "a query that is kept as a whole keeps its MATCH blocks"
                each.move(items)
        if (changes := kept.update(graphs)) is not None:
            if isinstance(self.query.form, AskForm):
                changes = SolutionChanges([(_BOOLEANS[kept.number > 0],)], [], True)
            return ReportAnswer(changes, tuple(self._contradictions), tuple(used))
        items = items or {name: self._items(*named[name]) for name in self._event_windows}
        mappings = [match.mappings(items, before) for match, before in zip(self._matches, used, strict=True)]
        blocks = {name: Graph(NO_TRIPLES, graphs[name].triples, None, self._limits) for name in named}
        bindings = [[each.bindings for each in found] for found in mappings]
        graph = ReportGraph(default.graph.background, default.graph.triples, blocks, bindings, self._limits)
        graph.removed = default.removed
        solutions = kept.plan.operator.solutions(graph, EMPTY, EMPTY)
        if isinstance(self.query.form, AskForm):
            rows: list[SolutionRow] = [(_BOOLEANS[bool(solutions)],)]
        else:
            rows = [tuple([solution.get(name) for name in self._select.projection]) for solution in solutions]
        now_used = tuple(
            before | {triple for each in found for triple in each.used} if block.consuming else before
            for block, found, before in zip(self.query.matches, mappings, used, strict=True)
        )
        return ReportAnswer(SolutionChanges(rows, [], True), tuple(self._contradictions), now_used)

    def _entailed(self, closed: ContentEntailment) -> TripleIndex:
        """The triples of a closed content, whose contradictions are noted."""
        self._contradictions |= dict.fromkeys(closed.contradictions)
        return closed.triples

    def _kept(self, at_report: WindowAtReport) -> MaintainedWindow | None:
        """The incremental closure of a window, whose contradictions are noted; None without one."""
        if at_report.kept is not None:
            self._contradictions |= dict.fromkeys(at_report.kept.contradictions())
        return at_report.kept

    def _at_level(self, level: Level, at_report: WindowAtReport) -> GraphAtReport:
        """The graph of a WINDOW block over a window."""
        if (kept := self._kept(at_report)) is not None:
            return GraphAtReport(kept.index, changes=at_report.changes)
        return GraphAtReport(self._closed_in_full(level, at_report))

    def _closed_in_full(self, level: Level, at_report: WindowAtReport) -> TripleIndex:
        """The triples that the content of a window entails at a level."""
        view = at_report.view
        content = _triples(view.content)
        match level:
            case EntailmentLevel.NONE:
                return TripleIndex(content)
            case EntailmentLevel.SNAPSHOT:
                union = TripleIndex()
                for _, item in _items(view.content):
                    for triple in self._entailed(self._closer.close(item)):
                        union.add(triple)
                return union
            case EntailmentLevel.GRAPH | EntailmentLevel.WINDOW:
                return self._entailed(self._closer.close(content))
            case StreamLevel():
                return self._entailed(self._closer.close(content, list(_triples(view.history))))

    def _items(self, window: ContinuousWindow, at_report: WindowAtReport) -> list[MatchedItem]:
        """The items of a window, closed at the level of its EVENTs."""
        if at_report.items is not None:
            found = [MatchedItem(time, triples) for time, triples in at_report.items.items_at(at_report.time)]
            self._contradictions |= dict.fromkeys(at_report.items.contradictions())
            return found
        level, closer = window.event_level, self._closer
        items = _items(at_report.view.content)
        match level:
            case EntailmentLevel.NONE | EntailmentLevel.GRAPH:
                closed = at_report.closed.of(items, lambda item: ContentEntailment(TripleIndex(item), ()))
            case EntailmentLevel.SNAPSHOT:
                closed = at_report.closed.of(items, closer.close)
            case EntailmentLevel.WINDOW:
                closed, before = [], list[Triple]()
                for _, item in items:
                    closed.append(closer.close(item, before))
                    before += item
            case StreamLevel():
                history = _items(at_report.view.history)
                closed = [closer.close(item, [triple for when, each in history if when < time for triple in each]) for time, item in items]
        return [MatchedItem(time, self._entailed(each)) for (time, _), each in zip(items, closed, strict=True)]

    def _default(self, windows: Sequence[WindowAtReport]) -> _DefaultGraph:
        """The default graph: the model of the background and of the default windows at the levels
        GRAPH and WINDOW, with the triples of default windows at other levels.
        """
        background = self._closer.knowledge.background
        alone = windows[self._default_windows[0]] if self._is_default_kept else None
        if alone is not None and (kept := self._kept(alone)) is not None:
            if isinstance(kept, StratifiedWindow):
                return _DefaultGraph(GraphAtReport(kept.model.delta, kept.model.background), kept.model.removed)
            return _DefaultGraph(GraphAtReport(kept.beyond, kept.background, alone.changes))
        if not self._default_windows:
            return _DefaultGraph(GraphAtReport(NO_TRIPLES, background))
        together: list[Triple] = []
        added: list[TripleIndex] = []
        for number in self._default_windows:
            window, at_report = self.query.windows[number], windows[number]
            if _is_closed(window):
                together += _triples(at_report.view.content)
            else:
                added.append(self._at_level(window.block_level, at_report).triples)
        model = self._closer.knowledge.close(together)
        self._contradictions |= dict.fromkeys(model.contradictions)
        delta = model.delta
        for index in added:
            for triple in index:
                if triple not in model.background:
                    delta.add(triple)
        return _DefaultGraph(GraphAtReport(delta, model.background), model.removed)


def _share_of(query: ContinuousQuery, share: BucketShare) -> QueryShare:
    from dotr.languages.continuous.evaluation.shares import QueryShare  # loaded where a query is spread

    return QueryShare(query, share)


class _DefaultGraph(NamedTuple):
    """The default graph, and the triples that its background masks."""

    graph: GraphAtReport
    removed: TripleIndex | None = None


def _is_closed(window: ContinuousWindow) -> bool:
    """True for a window whose content is closed as one graph."""
    return window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW)


def _triples(elements: Iterable[TimedElement]) -> list[Triple]:
    return list(dict.fromkeys(triple for element in elements for triple in element.triples))


def _items(elements: Sequence[TimedElement]) -> list[tuple[Micros, list[Triple]]]:
    """The items of elements in the order of time, each with its triples."""
    items: dict[Micros, dict[Triple, None]] = {}
    for time, triples in elements:
        items.setdefault(time, {}).update(dict.fromkeys(triples))
    return [(time, list(items[time])) for time in sorted(items)]
