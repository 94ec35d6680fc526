"""Closures of windows, kept from report to report and shared (continuous.md, 11).

Idea: windows of one stream and level that end together are views of one closure, whichever query
they belong to, each with its own beginning. An element that arrives goes into the closure once; at
a report of a window the closure moves to the least beginning of all its windows, and the window's
view to its own.

    RANGE 10 m of one query and RANGE 1 m of another, at 12:30

        closure: 12:20 < time      views: 12:20 < time, and 12:29 < time

Invariant: after `move` the view holds what the content of the report says, and nothing else.
Cost: what came and went since the report before (`dotr.horizons`); a view, a bit a fact.

Closures are not part of a checkpoint: new ones take in the contents again. Where the contents of
two windows differ (one of them was added to a running program), and where together they go over the
limit, each window gets a closure of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import count, groupby, takewhile
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from dotr.datalog.closure import Contradiction
from dotr.datalog.said import SaidCloser
from dotr.engine.items import row_graph
from dotr.horizons.window_closure import SaidItem, WindowClosure, WindowClosureView, is_kept
from dotr.joins.limits import LimitExceeded
from dotr.model.continuous import ContinuousQuery, ContinuousWindow, EntailmentLevel, RangeExtent, StreamLevel
from dotr.model.datalog import DatalogRule
from dotr.model.intervals import plain_groups
from dotr.model.terms import Term, Triple
from dotr.model.time import LAST_MICRO, Micros
from dotr.patterns.operator import Arrival
from dotr.store.triples import TripleIndex
from dotr.windows.content import TimedElement, WindowContent
from dotr.windows.extents import TimeSeries, closes_of

EMPTY_INDEX: Final = TripleIndex()
_MANY_PENDING: Final = 1024
"""Up to this number of elements that wait for a report, those that no window will hold are kept."""


class WindowChanges(NamedTuple):
    """Changes of the triples that a window says since its last report.

    `began`, `ended`: as their names say. `renewed`: those said then and now whose horizon may be
    another. `is_anew`: the closure was made again, so that all that is said began.
    """

    began: Sequence[Triple]
    renewed: Sequence[Triple]
    ended: Sequence[Triple]
    is_anew: bool


class WindowEnds(NamedTuple):
    """Ends of windows in the past: how long before a close, and the closes. Windows with equal ends
    hold no element that the others do not hold yet.
    """

    lag: Micros
    closes: TimeSeries

    @classmethod
    def of(cls, content: WindowContent) -> WindowEnds | None:
        """The ends of a window; None where it holds every element from its time on."""
        extent = content.window.extent
        if isinstance(extent, RangeExtent) and extent.lag:
            return cls(extent.lag, closes_of(extent, content.origin))
        return None

    def at(self, time: Micros) -> Micros:
        """The last time that windows hold elements of."""
        return min(time, self.closes.at_or_after(time) - self.lag)


class KeptWindow:
    """Closure of one window, as a view of a closure that other windows may share.

    `content`: the elements, as of the report that it is moved to.
    """

    def __init__(self, content: WindowContent, closure: SharedClosure) -> None:
        self.content = content
        self.closure = closure
        self.begin: Micros = -LAST_MICRO
        """No report from now on sees an element of this time or before."""
        self.is_anew = True
        self._view: WindowClosureView | None = None
        level = content.window.level
        self.within = level.within if isinstance(level, StreamLevel) else None

    def move(self, time: Micros) -> WindowChanges:
        """Moves to the content at the time of a report, which is not before the last one; returns
        what changed since.

        Raises `LimitExceeded`; the next content is then closed anew.
        """
        return self.closure.move(self, time)

    @property
    def view(self) -> WindowClosureView:
        """The view, as of the last `move`."""
        assert self._view is not None
        return self._view

    def begin_anew(self, view: WindowClosureView) -> None:
        """Sees another closure, of which it knows nothing yet."""
        self._view, self.begin, self.is_anew = view, -LAST_MICRO, True

    def look(self, time: Micros) -> Micros:
        """The time after which the content begins, or what the level STREAM knows beside it."""
        self.begin = max(self.begin, self.content.begin_at(time) if self.within is None else time - self.within)
        return self.begin

    @property
    def index(self) -> TripleIndex:
        """The triples that the content says; `horizon(triple)` has the last beginning of a content
        that says them if nothing more comes.
        """
        return self.view.index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the content says and the background does not have."""
        return self.view.beyond

    @property
    def background(self) -> TripleIndex:
        """The background, closed."""
        return self.closure.closer.knowledge.background

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions of the content."""
        return self.view.contradictions()

    def leave(self) -> None:
        """The window reports no more."""
        self.closure.leave(self)


class SharedClosure:
    """One closure, and the windows that are views of it."""

    def __init__(self, registry: SharedClosures, stream: Hashable, level: EntailmentLevel, ends: WindowEnds | None) -> None:
        self.members: list[KeptWindow] = []
        self.level = level
        self.ends = ends
        self._registry = registry
        self._stream = stream
        self._closure: WindowClosure | None = None
        self._begin: Micros = -LAST_MICRO
        self._pending: list[tuple[Micros, Sequence[tuple[Triple, ...]]]] = []
        self._many = _MANY_PENDING
        self._turns = count()

    @property
    def closer(self) -> SaidCloser:
        """The closer of contents, with the background."""
        return self._registry.closer

    def forget(self) -> None:
        """Drops the closure; the contents are taken in again at the next report."""
        self._closure = None
        self._pending = []

    def leave(self, member: KeptWindow) -> None:
        """One window less."""
        if member in self.members:
            self.members.remove(member)
        if not self.members:
            self.forget()

    def take(self, time: Micros, graphs: Sequence[tuple[Triple, ...]]) -> None:
        """Takes the elements of a time, which is after that of all taken before."""
        if self._closure is None:
            return
        self._pending.append((time, graphs))
        if len(self._pending) > self._many:
            least = min(member.look(time) for member in self.members)
            self._pending = [each for each in self._pending if each[0] > least]
            self._many = max(_MANY_PENDING, 2 * len(self._pending))

    def move(self, member: KeptWindow, time: Micros) -> WindowChanges:
        """Moves a window to its content at the time of a report."""
        is_new = self._closure is None
        try:
            if is_new:
                self._build(member, time)
                if member not in self.members:
                    return member.move(time)
            return self._move(member, time)
        except LimitExceeded:
            self.forget()
            if len(self.members) > 1:
                for other in self.members[1:]:
                    self._part(other)
            elif is_new:
                raise
            return member.move(time)
        except BaseException:
            self.forget()
            raise

    def said_by(self, triples: Iterable[Triple], begin: Micros) -> SaidItem:
        """V(triples of the stream | B and its items after `begin`)."""
        assert self._closure is not None
        return self._closure.said_by(triples, begin)

    def _move(self, member: KeptWindow, time: Micros) -> WindowChanges:
        closure, members = self._closure, self.members
        assert closure is not None
        taken = self._take_in(closure, time)
        begin = member.look(time)
        if len(members) > 1:  # look at another window each time, so that one that seldom reports holds up nothing
            members[next(self._turns) % len(members)].look(time)
        least = min([each.begin for each in members])
        if taken or least > self._begin:
            closure.advance(least)
            self._begin = least
        changes = member.view.advance(begin)
        is_anew, member.is_anew = member.is_anew, False
        return WindowChanges(changes.began, changes.renewed, changes.ended, is_anew)  # type: ignore[arg-type]

    def _take_in(self, closure: WindowClosure, time: Micros) -> bool:
        """Inserts the elements that windows hold at a time; returns whether there are any."""
        pending = self._pending
        if not pending:
            return False
        number = len(pending)
        if self.ends is not None:
            end = self.ends.at(time)
            while number and pending[number - 1][0] > end:
                number -= 1
        for at, graphs in pending[:number]:
            for triples in graphs:
                closure.insert(at, triples)
        del pending[:number]
        return number > 0

    def _build(self, caller: KeptWindow, time: Micros) -> None:
        """Makes a closure of the contents. The caller's has the elements of this very time already;
        a window whose elements are not the last of the others' parts.
        """
        elements = {id(member): [each for each in member.content.elements if each.time < time] for member in self.members}
        longest = max(elements.values(), key=len)
        parting = [member for member in self.members if _after(elements[id(member)], begin := member.look(time)) != _after(longest, begin)]
        for member in parting:
            self._part(member)
        if not self.members:
            return
        closer = self._registry.closer
        lowest = closer.knowledge.lowest_stratum if self.level is EntailmentLevel.GRAPH else None
        rules, background = (closer.rules, None) if lowest is None else lowest
        self._closure = WindowClosure(self.level, closer.knowledge, rules, closer.limit, background)
        self._begin = -LAST_MICRO
        here = [each for each in caller.content.elements if each.time == time] if caller in self.members else []
        self._pending = [(each.time, (each.triples,)) for each in (*longest, *here)]
        for member in self.members:
            member.begin_anew(self._closure.view())
            member.look(time)

    def _part(self, member: KeptWindow) -> None:
        """Gives a window a closure of its own."""
        self.members.remove(member)
        alone = type(self)(self._registry, self._stream, self.level, self.ends)
        alone.members.append(member)
        member.closure = alone
        self._registry.add(self._stream, alone)


def _after(elements: Sequence[TimedElement], begin: Micros) -> list[TimedElement]:
    return [each for each in elements if each.time > begin]


class KnownWindow(KeptWindow):
    """Closure of a window at the level STREAM. The shared one knows the stream; what the window says of
    it is found anew at each report.
    """

    def move(self, time: Micros) -> WindowChanges:
        """Moves to the content at the time of a report; tells of no changes."""
        super().move(time)
        content = [triple for element in self.content.view(time).content for triple in element.triples]
        self._said = self.closure.said_by(dict.fromkeys(content), self.begin)
        self._index = TripleIndex(triple for triple, _ in self._said.triples)
        return WindowChanges((), (), (), True)

    @property
    def index(self) -> TripleIndex:
        """The triples that the content says."""
        return self._index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the content says and the background does not have."""
        return TripleIndex(triple for triple in self._index if triple not in self.background)

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions that the content takes part in."""
        return tuple(sorted({each for each, _ in self._said.contradictions}))


class StratifiedWindow(KeptWindow):
    """Closure of a window under rules with NOT or AGGREGATE: the shared one has the lowest stratum, on
    which the others are closed anew at each report; `model` is what that gives.
    """

    def __init__(self, content: WindowContent, closure: SharedClosure) -> None:
        super().__init__(content, closure)
        self._lowest: list[Triple] = []
        self._found: TripleIndex | None = None

    def move(self, time: Micros) -> WindowChanges:
        """Moves to the content at the time of a report; tells of no changes."""
        super().move(time)
        closer = self.closure.closer
        content = list(dict.fromkeys([triple for element in self.content.view(time).content for triple in element.triples]))
        self._found, self._lowest = None, list(self.view.index)
        self.model = closer.knowledge.close_above(content, list(self.view.beyond), self.view.contradictions())
        return WindowChanges((), (), (), True)

    @property
    def index(self) -> TripleIndex:
        """The triples that the content says."""
        if self._found is None:
            self._found = self.closure.closer.close_on(self._lowest, self.model).triples
        return self._found

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions of the content."""
        return self.model.contradictions


class KeptItems(KeptWindow):
    """The items of a window as EVENTs see them at the level WINDOW or STREAM, each found once, as it
    comes, by what the stream said before it.
    """

    def __init__(self, content: WindowContent, closure: SharedClosure) -> None:
        super().__init__(content, closure)
        self._indexes: dict[Micros, tuple[Micros, TripleIndex]] = {}

    def seen(self, time: Micros) -> Iterator[tuple[Micros, TripleIndex]]:
        """The items at a report that it is moved to, in the order of time."""
        assert isinstance(self.closure, SharedItems)
        indexes, begin = self._indexes, self.begin
        self._indexes = {}
        for at in dict.fromkeys([each.time for each in self.content.view(time).content]):
            until, index = indexes.get(at, (begin, EMPTY_INDEX))
            if until <= begin:  # something that the item said needs what has left by now
                said = self.closure.items[at].triples
                index = TripleIndex(triple for triple, horizon in said if horizon > begin)
                until = min([horizon for _, horizon in said if horizon > begin], default=LAST_MICRO)
            self._indexes[at] = (until, index)
            yield at, index

    def begin_anew(self, view: WindowClosureView) -> None:
        """Sees another closure."""
        super().begin_anew(view)
        self._indexes.clear()

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions that items of the content take part in."""
        assert isinstance(self.closure, SharedItems)
        items = self.closure.items
        found = [each for at in self._indexes for each in items[at].contradictions]
        return tuple(sorted({each for each, horizon in found if horizon > self.begin}))


class SharedItems(SharedClosure):
    """One closure, and what each item said when it came: `items`, by time."""

    def __init__(self, registry: SharedClosures, stream: Hashable, level: EntailmentLevel, ends: WindowEnds | None) -> None:
        super().__init__(registry, stream, level, ends)
        self.items: dict[Micros, SaidItem] = {}

    def forget(self) -> None:
        super().forget()
        self.items.clear()

    def _take_in(self, closure: WindowClosure, time: Micros) -> bool:
        pending, self._pending = self._pending, []
        least = min([member.look(time) for member in self.members])
        for at, some in groupby(pending, itemgetter(0)):
            item = dict.fromkeys(triple for _, graphs in some for triples in graphs for triple in triples)
            closure.insert(at, item)
            closure.advance(least)
            if at > least:
                self.items[at] = closure.said_by(item, least)
        for gone in list(takewhile(lambda at: at <= least, self.items)):
            del self.items[gone]
        return bool(pending)


Member = TypeVar("Member", bound=KeptWindow)


class SharedClosures:
    """The closures of the windows of a program's continuous queries, by stream, level and ends.

    `closer`: closes items, and has the background, the rules and the limit of triples.
    """

    def __init__(self, closer: SaidCloser) -> None:
        self.closer = closer
        self._closures: dict[Hashable, list[SharedClosure]] = {}
        self._arrived: dict[Hashable, tuple[Micros, Sequence[tuple[Triple, ...]]]] = {}

    def add(self, stream: Hashable, closure: SharedClosure) -> None:
        """Lets a closure take the elements of a stream."""
        self._closures.setdefault(stream, []).append(closure)

    def window(self, stream: Hashable, content: WindowContent) -> KeptWindow:
        """A window of a stream, where it is kept (`kept_windows`).

        `stream`: what tells the stream from others; windows of equal ones get equal elements.
        """
        level = content.window.block_level
        if isinstance(level, StreamLevel):
            return self._member(KnownWindow, stream, content, EntailmentLevel.GRAPH, None, SharedClosure)
        level = EntailmentLevel.GRAPH if level is EntailmentLevel.WINDOW else level
        if level is EntailmentLevel.GRAPH and not is_kept(self.closer.rules, level):
            return self._member(StratifiedWindow, stream, content, level, WindowEnds.of(content), SharedClosure)
        return self._member(KeptWindow, stream, content, level, WindowEnds.of(content), SharedClosure)

    def items(self, stream: Hashable, content: WindowContent) -> KeptItems:
        """The items of a window whose EVENTs have the level WINDOW or STREAM, where they are kept."""
        return self._member(KeptItems, stream, content, EntailmentLevel.GRAPH, None, SharedItems)

    def _member(
        self,
        kind: type[Member],
        stream: Hashable,
        content: WindowContent,
        level: EntailmentLevel,
        ends: WindowEnds | None,
        kind_of_closure: type[SharedClosure],
    ) -> Member:
        for closure in self._closures.get(stream, ()):
            if type(closure) is kind_of_closure and closure.level is level and closure.ends == ends:
                break
        else:
            closure = kind_of_closure(self, stream, level, ends)
            self.add(stream, closure)
        member = kind(content, closure)
        closure.members.append(member)
        return member

    def elements(self, stream: Hashable, time: Micros, arrived: Sequence[Arrival]) -> Sequence[tuple[Triple, ...]]:
        """The elements of a stream that arrive at a time, the same ones for each window that asks."""
        known = self._arrived.get(stream)
        if known is not None and known[0] == time and len(known[1]) == len(arrived):
            return known[1]
        graphs = [row_graph(row) for _, row in arrived]
        self._arrived[stream] = (time, graphs)
        for closure in self._closures.get(stream, ()):
            closure.take(time, graphs)
        return graphs

    def forget(self) -> None:
        """Drops all closures: contents have been restored."""
        self._arrived.clear()
        for closures in self._closures.values():
            for closure in closures:
                closure.forget()


def closed_anew(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> list[ContinuousWindow]:
    """The windows of a query of whose contents something is closed anew at each report: strata with
    NOT or AGGREGATE and those above, what the level STREAM says, and several default windows, which
    are closed together.
    """
    return [
        window
        for window in query.windows
        if not isinstance(window.block_level, EntailmentLevel)
        or not is_kept(rules, window.block_level)
        or _is_closed_together(query, window)
    ]


def _is_closed_together(query: ContinuousQuery, window: ContinuousWindow) -> bool:
    several = sum(each.name is None for each in query.windows) > 1
    return several and window.name is None and window.block_level in (EntailmentLevel.GRAPH, EntailmentLevel.WINDOW)


def followed_graphs(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> frozenset[Term | None]:
    """The graphs of a query that are followed from report to report: its named windows, and the
    default graph (None) where that is the background alone, or with one window that is kept.
    """
    named = frozenset(window.name for window in query.windows if window.name is not None)
    default = [window for window in query.windows if window.name is None]
    is_followed = not default or (len(default) == 1 and default[0] not in closed_anew(query, rules))
    return named | {None} if is_followed else named


def kept_windows(
    query: ContinuousQuery, contents: Iterable[WindowContent], streams: Sequence[Hashable], closures: SharedClosures
) -> list[KeptWindow | None]:
    """The closures of a query's windows, None for those of which nothing is kept: several default
    windows, and the level STREAM under NOT or AGGREGATE.
    """
    has_strata = not is_kept(closures.closer.rules, EntailmentLevel.GRAPH)
    return [
        None
        if _is_closed_together(query, content.window) or (has_strata and isinstance(content.window.block_level, StreamLevel))
        else closures.window(stream, content)
        for content, stream in zip(contents, streams, strict=True)
    ]


def kept_items(
    query: ContinuousQuery, contents: Iterable[WindowContent], streams: Sequence[Hashable], closures: SharedClosures
) -> list[KeptItems | None]:
    """The items of windows whose EVENTs see more than items by themselves; None for other windows,
    and where items are closed anew.
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
