"""Solutions of a continuous query at a report (continuous.md, sections 5 to 7).

Idea: the content of each window is closed at its level, MATCH is evaluated over items, and the
query over all of that by the full evaluator. From report to report the closures of contents are
kept (`kept_windows`), where their level and rules allow it, and what MATCH has used.
Cost: that of what came and went in closures that are kept, and of closing the others; and that of
the query over the windows, whatever has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from dotr.datalog.closure import Contradiction
from dotr.datalog.said import Said, SaidCloser
from dotr.engine.kept_windows import KeptWindow, WindowChanges
from dotr.engine.match_blocks import MatchedItem, MatchedTriple, MatchEvaluator
from dotr.expressions.literal_limits import BOUNDS
from dotr.expressions.times import time_term
from dotr.joins.limits import Limits
from dotr.model.continuous import AskForm, ContinuousQuery, ContinuousWindow, EntailmentLevel, Level, StreamLevel
from dotr.model.intervals import plain_groups
from dotr.model.terms import XSD, Term, Triple
from dotr.model.time import Clock, Micros
from dotr.queries.evaluate import AlgebraCompiler
from dotr.queries.graph import Graph
from dotr.queries.operators import EMPTY
from dotr.queries.report_graph import ReportGraph
from dotr.store.triples import TripleIndex
from dotr.windows.content import TimedElement, WindowContent, WindowView

SolutionRow = tuple[Term | None, ...]
"""The terms of a solution in the order of the query's projection."""

_BOOLEANS = {True: f'"true"^^<{XSD}boolean>', False: f'"false"^^<{XSD}boolean>'}


class ReportAnswer(NamedTuple):
    """Ω(t): the rows of all solutions in the tie order; the contradictions of windows; and the
    triples that MATCH blocks with CONSUMING used up, by number of the block.
    """

    rows: list[SolutionRow]
    contradictions: tuple[Contradiction, ...]
    used: tuple[frozenset[MatchedTriple], ...]


class SeenWindow:
    """A window as a query sees it at a report.

    `content` has the elements; `kept` is what they say, if that is kept, and `changes` how it
    changed since the window's last report.
    """

    def __init__(self, content: WindowContent, time: Micros, kept: KeptWindow | None) -> None:
        self.content = content
        self.time = time
        self.kept = kept
        self.changes: WindowChanges | None = None if kept is None else kept.move(time)

    @cached_property
    def view(self) -> WindowView:
        """The elements."""
        return self.content.view(self.time)


class ReportEvaluator:
    """A compiled continuous query."""

    def __init__(self, query: ContinuousQuery, closer: SaidCloser, clock: Clock, limits: Limits) -> None:
        self.query = query
        self._closer = closer
        self._limits = limits
        self._operator = AlgebraCompiler().compile(query.query)
        self._matches = [MatchEvaluator(block, partial(time_term, clock=clock)) for block in query.matches]
        self._event_windows = {group.window for block in query.matches for group in plain_groups(block.events)}
        self._contradictions: dict[Contradiction, None] = {}
        self._is_alone = sum(window.name is None for window in query.windows) == 1

    @property
    def projection(self) -> tuple[str, ...]:
        """The names of a row's terms."""
        return ("answer",) if isinstance(self.query.form, AskForm) else tuple(self.query.query.projection)

    @property
    def closer(self) -> SaidCloser:
        """Closer of what is closed anew."""
        return self._closer

    def evaluate(self, windows: Sequence[SeenWindow], used: Sequence[frozenset[MatchedTriple]]) -> ReportAnswer:
        """Ω at a report.

        Args:
            windows: what each window of the query has.
            used: the triples that each MATCH block has used up before.

        Raises:
            LimitExceeded: the windows, or the solutions, go over a limit.
        """
        BOUNDS.characters = self._limits.literal
        self._contradictions.clear()
        named = {window.name: (window, seen) for window, seen in zip(self.query.windows, windows, strict=True) if window.name is not None}
        blocks = {name: self._graph(self._leveled(window.block_level, seen)) for name, (window, seen) in named.items()}
        items = {name: self._items(named[name][0], named[name][1]) for name in self._event_windows}
        mappings = [match.mappings(items, gone) for match, gone in zip(self._matches, used, strict=True)]
        background, delta, removed = self._default(windows)
        graph = ReportGraph(background, delta, blocks, [[each.bindings for each in found] for found in mappings], self._limits)
        graph.removed = removed
        solutions = self._operator.solutions(graph, EMPTY, EMPTY)
        if isinstance(self.query.form, AskForm):
            rows: list[SolutionRow] = [(_BOOLEANS[bool(solutions)],)]
        else:
            rows = [tuple([solution.get(name) for name in self.query.query.projection]) for solution in solutions]
        now_used = tuple(
            gone | {triple for each in found for triple in each.used} if block.consuming else gone
            for block, found, gone in zip(self.query.matches, mappings, used, strict=True)
        )
        return ReportAnswer(rows, tuple(self._contradictions), now_used)

    def _graph(self, triples: TripleIndex) -> Graph:
        return Graph(TripleIndex(), triples, None, self._limits)

    def _said(self, said: Said) -> TripleIndex:
        self._contradictions |= dict.fromkeys(said.contradictions)
        return said.triples

    def _kept(self, seen: SeenWindow) -> KeptWindow | None:
        """What a window says, if it is kept."""
        if seen.kept is not None:
            self._contradictions |= dict.fromkeys(seen.kept.contradictions())
        return seen.kept

    def _leveled(self, level: Level, seen: SeenWindow) -> TripleIndex:
        """The triples that a WINDOW block over a window sees."""
        if (kept := self._kept(seen)) is not None:
            return kept.index
        view = seen.view
        content = _triples(view.content)
        match level:
            case EntailmentLevel.NONE:
                return TripleIndex(content)
            case EntailmentLevel.SNAPSHOT:
                union = TripleIndex()
                for _, item in _items(view.content):
                    for triple in self._said(self._closer.close(item)):
                        union.add(triple)
                return union
            case EntailmentLevel.GRAPH | EntailmentLevel.WINDOW:
                return self._said(self._closer.close(content))
            case StreamLevel():
                return self._said(self._closer.close(content, list(_triples(view.history))))

    def _items(self, window: ContinuousWindow, seen: SeenWindow) -> list[MatchedItem]:
        """The items of a window as EVENTs see them."""
        view = seen.view
        level = window.event_level
        found: list[MatchedItem] = []
        before: list[Triple] = []
        history = _items(view.history) if isinstance(level, StreamLevel) else []
        for time, item in _items(view.content):
            match level:
                case EntailmentLevel.NONE | EntailmentLevel.GRAPH:
                    triples = TripleIndex(item)
                case EntailmentLevel.SNAPSHOT:
                    triples = self._said(self._closer.close(item))
                case EntailmentLevel.WINDOW:
                    triples = self._said(self._closer.close(item, before))
                    before += item
                case StreamLevel():
                    triples = self._said(self._closer.close(item, [triple for when, each in history if when < time for triple in each]))
            found.append(MatchedItem(time, triples))
        return found

    def _default(self, windows: Sequence[SeenWindow]) -> tuple[TripleIndex, TripleIndex, TripleIndex | None]:
        """The default graph as background, delta and what the background masks: the model of the
        background and the default windows, and what those of other levels add.
        """
        together: list[Triple] = []
        added: list[TripleIndex] = []
        closed = [seen for window, seen in zip(self.query.windows, windows, strict=True) if window.name is None and _is_closed(window)]
        if self._is_alone and closed and (kept := self._kept(closed[0])) is not None:
            return kept.background, kept.beyond, None
        for window, seen in zip(self.query.windows, windows, strict=True):
            if window.name is not None:
                continue
            if _is_closed(window):
                together += _triples(seen.view.content)
            else:
                added.append(self._leveled(window.block_level, seen))
        closure = self._closer.knowledge.close(together)
        self._contradictions |= dict.fromkeys(closure.contradictions)
        delta = closure.delta
        for index in added:
            for triple in index:
                if triple not in closure.background:
                    delta.add(triple)
        return closure.background, delta, closure.removed


def _is_closed(window: ContinuousWindow) -> bool:
    """True for a window that is closed as one graph."""
    return window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW)


def _triples(elements: Iterable[TimedElement]) -> list[Triple]:
    return list(dict.fromkeys(triple for element in elements for triple in element.triples))


def _items(elements: Sequence[TimedElement]) -> list[tuple[Micros, list[Triple]]]:
    """The items of elements in the order of time, each with its triples."""
    items: dict[Micros, dict[Triple, None]] = {}
    for time, triples in elements:
        items.setdefault(time, {}).update(dict.fromkeys(triples))
    return [(time, list(items[time])) for time in sorted(items)]
