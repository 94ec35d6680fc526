"""Closures of the windows of a program's continuous queries, by entailment level (continuous.md, 5
and 11).

| level | the shared closure holds | a report of one window |
| --- | --- | --- |
| NONE, SNAPSHOT, GRAPH, WINDOW | the triples that elements entail | advances a view |
| these with NOT or AGGREGATE | the same, in the lowest stratum | closes further strata on a view |
| STREAM WITHIN d | the triples that the stream entails | derives those of the window |
| several default windows, one STEP | the triples that all elements entail | advances a view |
| EVENT at WINDOW, STREAM | those of each item on arrival | omits those that need expired items |
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Final, TypeVar

from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.content_entailment import ContentCloser
from dotr.languages.continuous.evaluation.shared_closure import (
    ClosureRegistry,
    JoinedClosure,
    MaintainedWindow,
    SharedClosure,
    WindowChanges,
    WindowEnds,
    are_joined,
)
from dotr.languages.continuous.evaluation.window_closure import ItemEntailment, WindowClosure, WindowClosureView, is_kept
from dotr.languages.continuous.model import ContinuousQuery, ContinuousWindow, EntailmentLevel, StreamLevel
from dotr.languages.continuous.windows.content import WindowContent
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple
from dotr.model.time import LAST_MICRO, Micros
from dotr.temporal.intervals.patterns import plain_groups
from dotr.temporal.items import row_graph
from dotr.temporal.matching.operator import Arrival

EMPTY_INDEX: Final = TripleIndex()


class StreamLevelWindow(MaintainedWindow):
    """Closure of a window at the level STREAM.

    The shared closure holds the stream; the triples that the content entails over it are derived in
    full at each report.
    """

    def move(self, time: Micros) -> WindowChanges:
        """Moves to the content at the time of a report; the result is always `is_initial`, without
        changes."""
        super().move(time)
        content = [triple for element in self.content.view(time).content for triple in element.triples]
        self._entailed = self.closure.entailed_by(dict.fromkeys(content), self.begin)
        self._index = TripleIndex(triple for triple, _ in self._entailed.triples)
        return WindowChanges((), (), (), True)

    @property
    def index(self) -> TripleIndex:
        """The triples that the content entails."""
        return self._index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the content entails and that are not in the background."""
        return TripleIndex(triple for triple in self._index if triple not in self.background)

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions in which triples of the content take part."""
        return self.view.told([each for each, _ in self._entailed.contradictions])


class StratifiedWindow(MaintainedWindow):
    """Closure of a window under rules with NOT or AGGREGATE.

    The shared closure has the lowest stratum. The strata above are evaluated in full on it at each
    report; `model` is their result.
    """

    def __init__(self, content: WindowContent, closure: SharedClosure) -> None:
        super().__init__(content, closure)
        self._lowest: list[Triple] = []
        self._found: TripleIndex | None = None

    def move(self, time: Micros) -> WindowChanges:
        """Moves to the content at the time of a report; the result is always `is_initial`, without
        changes."""
        super().move(time)
        closer = self.closure.closer
        content = list(dict.fromkeys([triple for element in self.content.view(time).content for triple in element.triples]))
        self._found, self._lowest = None, list(self.view.index)
        self.model = closer.knowledge.close_above(content, list(self.view.beyond), self.view.contradictions())
        return WindowChanges((), (), (), True)

    @property
    def index(self) -> TripleIndex:
        """The triples that the content entails."""
        if self._found is None:
            self._found = self.closure.closer.close_on(self._lowest, self.model).triples
        return self._found

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions of the content."""
        return self.model.contradictions


class MaintainedItems(MaintainedWindow):
    """The items of a window for EVENTs at the level WINDOW or STREAM.

    The triples that an item entails with the stream before it are derived once, when it arrives.
    """

    def __init__(self, content: WindowContent, closure: SharedClosure) -> None:
        super().__init__(content, closure)
        self._indexes: dict[Micros, tuple[Micros, TripleIndex]] = {}

    def items_at(self, time: Micros) -> Iterator[tuple[Micros, TripleIndex]]:
        """The time (µs) and the triples of each item at the report of the last `move`, in the order
        of time."""
        assert isinstance(self.closure, SharedItems)
        indexes, begin = self._indexes, self.begin
        self._indexes = {}
        for at in dict.fromkeys([each.time for each in self.content.view(time).content]):
            until, index = indexes.get(at, (begin, EMPTY_INDEX))
            if until <= begin:  # some of the entailed triples need an item that has expired
                entailed = self.closure.items[at].triples
                index = TripleIndex(triple for triple, horizon in entailed if horizon > begin)
                until = min([horizon for _, horizon in entailed if horizon > begin], default=LAST_MICRO)
            self._indexes[at] = (until, index)
            yield at, index

    def attach(self, view: WindowClosureView) -> None:
        """Replaces the view by that of another closure."""
        super().attach(view)
        self._indexes.clear()

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions in which items of the content take part."""
        assert isinstance(self.closure, SharedItems)
        items = self.closure.items
        found = [each for at in self._indexes for each in items[at].contradictions]
        return self.view.told([each for each, horizon in found if horizon > self.begin])


class SharedItems(SharedClosure):
    """A closure, and the triples that each item entailed on arrival: `items`, by time in µs."""

    def __init__(self, registry: ClosureRegistry, stream: Hashable, level: EntailmentLevel, ends: WindowEnds | None) -> None:
        super().__init__(registry, stream, level, ends)
        self.items: dict[Micros, ItemEntailment] = {}

    def forget(self) -> None:
        super().forget()
        self.items.clear()

    def _insert_pending(self, closure: WindowClosure, time: Micros) -> bool:
        pending, self._pending = self._pending, []
        least = min([member.raise_begin(time) for member in self.members])
        for at, some in groupby(pending, itemgetter(0)):
            item = dict.fromkeys(triple for _, graphs in some for triples in graphs for triple in triples)
            closure.insert(at, item)
            closure.advance(least)
            if at > least:
                self.items[at] = closure.entailed_by(item, least)
        for expired in list(takewhile(lambda at: at <= least, self.items)):
            del self.items[expired]
        return bool(pending)


Member = TypeVar("Member", bound=MaintainedWindow)


class SharedClosures(ClosureRegistry):
    """The closures of the windows of a program's continuous queries, by stream, level and ends."""

    def __init__(self, closer: ContentCloser) -> None:
        super().__init__(closer)
        self._arrived: dict[Hashable, tuple[Micros, Sequence[tuple[Triple, ...]]]] = {}

    def window(self, stream: Hashable, content: WindowContent) -> MaintainedWindow:
        """The incremental closure of a window (`window_closures` decides which windows have one).

        `stream`: the key of the stream; windows with equal keys receive equal elements.
        """
        level = content.window.block_level
        if isinstance(level, StreamLevel):
            return self._member(StreamLevelWindow, stream, content, EntailmentLevel.GRAPH, None, SharedClosure)
        level = EntailmentLevel.GRAPH if level is EntailmentLevel.WINDOW else level
        if level is EntailmentLevel.GRAPH and not is_kept(self.closer.rules, level):
            return self._member(StratifiedWindow, stream, content, level, WindowEnds.of(content), SharedClosure)
        return self._member(MaintainedWindow, stream, content, level, WindowEnds.of(content), SharedClosure)

    def joined(self, streams: Sequence[Hashable], contents: Sequence[WindowContent]) -> MaintainedWindow:
        """The one closure of the default windows of a query (`are_joined`)."""
        closure = JoinedClosure(self, contents)
        self.add(("default", *streams), closure)
        member = MaintainedWindow(contents[0], closure)
        closure.members.append(member)
        return member

    def items(self, stream: Hashable, content: WindowContent) -> MaintainedItems:
        """The items of a window whose EVENTs have the level WINDOW or STREAM."""
        return self._member(MaintainedItems, stream, content, EntailmentLevel.GRAPH, None, SharedItems)

    def _member(
        self,
        kind: type[Member],
        stream: Hashable,
        content: WindowContent,
        level: EntailmentLevel,
        ends: WindowEnds | None,
        kind_of_closure: type[SharedClosure],
    ) -> Member:
        for closure in self.closures.get(stream, ()):
            if type(closure) is kind_of_closure and closure.level is level and closure.ends == ends:
                break
        else:
            closure = kind_of_closure(self, stream, level, ends)
            self.add(stream, closure)
        member = kind(content, closure)
        closure.members.append(member)
        return member

    def elements(self, stream: Hashable, time: Micros, arrived: Sequence[Arrival]) -> Sequence[tuple[Triple, ...]]:
        """The elements of a stream that arrive at a time (µs).

        They are decoded once and passed to the closures once, however many windows read the stream.
        """
        known = self._arrived.get(stream)
        if known is not None and known[0] == time and len(known[1]) == len(arrived):
            return known[1]
        graphs = [row_graph(row) for _, row in arrived]
        self._arrived[stream] = (time, graphs)
        for closure in self.closures.get(stream, ()):
            closure.take(time, graphs)
        return graphs

    def forget(self) -> None:
        """Drops all closures, after contents have been restored."""
        self._arrived.clear()
        for closures in self.closures.values():
            for closure in closures:
                closure.forget()


def recomputed_windows(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> list[ContinuousWindow]:
    """The windows of a query whose closure is computed in full, or in part, at each report.

    They are those with strata of NOT or AGGREGATE, those of the level STREAM, and several default
    windows without a common closure (`are_joined`).
    """
    return [
        window
        for window in query.windows
        if not isinstance(window.block_level, EntailmentLevel)
        or not is_kept(rules, window.block_level)
        or (_is_closed_together(query, window) and not are_joined(query, rules))
    ]


def _is_closed_together(query: ContinuousQuery, window: ContinuousWindow) -> bool:
    several = sum(each.name is None for each in query.windows) > 1
    return several and window.name is None and window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW)


def tracked_graphs(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> frozenset[Term | None]:
    """The graphs of a query whose changes from report to report are known or can be computed.

    They are its named windows, and the default graph (None) where it is the background alone, or
    the background with one incremental closure.
    """
    named = frozenset(window.name for window in query.windows if window.name is not None)
    default = [window for window in query.windows if window.name is None]
    is_tracked = not default or (len(default) == 1 and default[0] not in recomputed_windows(query, rules)) or are_joined(query, rules)
    return named | {None} if is_tracked else named


def window_closures(
    query: ContinuousQuery, contents: Iterable[WindowContent], streams: Sequence[Hashable], closures: SharedClosures
) -> list[MaintainedWindow | None]:
    """The incremental closures of a query's windows, in the order of `contents`.

    None for windows that are closed in full at each report: those of the level STREAM under NOT or
    AGGREGATE, and several default windows without a common closure. The common closure of several
    default windows (`are_joined`) is at the place of the first of them; the others have None.
    """
    rules, pairs = closures.closer.rules, list(zip(contents, streams, strict=True))
    has_strata = not is_kept(rules, EntailmentLevel.GRAPH)
    kept = [
        None
        if _is_closed_together(query, content.window) or (has_strata and isinstance(content.window.block_level, StreamLevel))
        else closures.window(stream, content)
        for content, stream in pairs
    ]
    if are_joined(query, rules):
        default = [number for number, window in enumerate(query.windows) if window.name is None]
        kept[default[0]] = closures.joined([pairs[number][1] for number in default], [pairs[number][0] for number in default])
    return kept


def maintained_items(
    query: ContinuousQuery, contents: Iterable[WindowContent], streams: Sequence[Hashable], closures: SharedClosures
) -> list[MaintainedItems | None]:
    """The items of windows whose EVENTs have the level WINDOW or STREAM, as `contents` are ordered.

    None for other windows, and where rules with NOT or AGGREGATE require that items are closed in
    full at each report.
    """
    read = {group.window for block in query.matches for group in plain_groups(block.events)}
    rules = closures.closer.rules
    return [
        closures.items(stream, content)
        if content.window.name in read
        and (content.window.event_level is EntailmentLevel.WINDOW or isinstance(content.window.event_level, StreamLevel))
        and is_kept(rules, EntailmentLevel.GRAPH)
        else None
        for content, stream in zip(contents, streams, strict=True)
    ]
