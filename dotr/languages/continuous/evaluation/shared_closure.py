"""Incremental closures of windows, shared by all queries of a program (continuous.md, 11).

Idea: windows of one stream and level that end together are views of one closure, whichever query
they belong to, each with its own beginning. An element that arrives is inserted into the closure
once. At a report of a window the closure expires to the earliest beginning of all its windows, and
the window's view advances to its own.

    RANGE 10 m of one query and RANGE 1 m of another, at 12:30

        closure: 12:20 < time      views: 12:20 < time, and 12:29 < time

Invariant: after `move` the view holds the triples that the content of the report entails, and
nothing else.
Cost: the inserted and expired elements since the last report (`dotr.temporal.horizons`); a view
costs one bit a fact.

Closures are not part of a checkpoint: after a restart they are built from the contents. Each window
gets a closure of its own where the contents differ (one window was added to a running program), and
where the common closure exceeds the limit of triples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count
from typing import Final, NamedTuple, cast

from dotr.evaluation.limits import BOUNDS, LimitExceeded
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.content_entailment import ContentCloser
from dotr.languages.continuous.evaluation.window_closure import ItemEntailment, WindowClosure, WindowClosureView, is_kept
from dotr.languages.continuous.model import ContinuousQuery, EntailmentLevel, LandmarkExtent, RangeExtent, StreamLevel
from dotr.languages.continuous.windows.content import TimedElement, WindowContent
from dotr.languages.continuous.windows.extents import Series, TimeSeries, begins_of, closes_of
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term, Triple
from dotr.model.time import LAST_MICRO, Micros
from dotr.temporal.answers.changes import SharedTriples

_MANY_PENDING: Final = 1024
"""Pending elements are searched for expired ones only above this number."""


class WindowChanges(NamedTuple):
    """Changes of the triples that a window entails since its last report.

    - `began`, `ended`: triples entailed now and not then, and the reverse.
    - `renewed`: triples entailed then and now whose horizon may have changed.
    - `is_initial`: the closure was computed in full; every triple counts as begun, whatever the
      other fields hold.
    """

    began: Sequence[Triple]
    renewed: Sequence[Triple]
    ended: Sequence[Triple]
    is_initial: bool


class WindowEnds(NamedTuple):
    """Ends of windows with a lag: `lag` in µs before each time of `closes`.

    Windows with equal ends admit each element at the same time.
    """

    lag: Micros
    closes: Series

    @classmethod
    def of(cls, content: WindowContent) -> WindowEnds | None:
        """The ends of a window; None for one without lag, which admits each element at once."""
        extent = content.window.extent
        if isinstance(extent, RangeExtent) and extent.lag:
            return cls(extent.lag, closes_of(extent, content.origin))
        return None

    def at(self, time: Micros) -> Micros:
        """The time of the latest elements that windows hold at a time."""
        return min(time, self.closes.at_or_after(time) - self.lag)


class MaintainedWindow:
    """Closure of one window, as a view of a closure that other windows may share.

    - `content`: the elements of the window.
    - `begin`: no report from now on reads an element of this time (µs) or before.
    - `is_initial`: no report has been made since the view was attached.
    - `within`: the d of the level STREAM WITHIN d in µs; None at other levels.
    """

    def __init__(self, content: WindowContent, closure: SharedClosure) -> None:
        self.content = content
        self.closure = closure
        self.begin: Micros = -LAST_MICRO
        self.is_initial = True
        self._view: WindowClosureView | None = None
        level = content.window.level
        self.within = level.within if isinstance(level, StreamLevel) else None

    def move(self, time: Micros) -> WindowChanges:
        """Advances to the content at the time of a report, which is not before the last one.

        Returns:
            the changes since the last report.

        Raises:
            LimitExceeded: the closure exceeds the limit of triples; it is built again at the next
                report.
        """
        return self.closure.move(self, time)

    @property
    def view(self) -> WindowClosureView:
        """The view, as of the last `move`."""
        assert self._view is not None
        return self._view

    def attach(self, view: WindowClosureView) -> None:
        """Replaces the view by that of another closure, at which no report has been made."""
        self._view, self.begin, self.is_initial = view, -LAST_MICRO, True

    def raise_begin(self, time: Micros) -> Micros:
        """Raises `begin` to the beginning of the content at a time, or of the history of the level
        STREAM; returns it."""
        self.begin = max(self.begin, self.content.begin_at(time) if self.within is None else time - self.within)
        return self.begin

    @property
    def index(self) -> TripleIndex:
        """The triples that the content entails. `horizon(triple)` is the time (µs) before which a
        content must begin to entail the triple, if no further element arrives.
        """
        return self.view.index

    @property
    def beyond(self) -> TripleIndex:
        """The triples that the content entails and that are not in the background."""
        return self.view.beyond

    @property
    def background(self) -> TripleIndex:
        """The background, closed."""
        return self.closure.closer.knowledge.background

    def contradictions(self) -> tuple[Contradiction, ...]:
        """The contradictions of the content."""
        return self.view.contradictions()

    def leave(self) -> None:
        """Detaches the window from its closure; it reports no more."""
        self.closure.leave(self)
        self._view = None


class ClosureRegistry:
    """The closures of the windows of a program, by stream.

    - `closer`: closes items, and has the background, the rules and the limit of triples.
    - `owns`: True for the subjects whose triples the windows hold; None: all subjects.
    """

    def __init__(self, closer: ContentCloser) -> None:
        self.closer = closer
        self.owns: Callable[[Term], bool] | None = None
        self.closures: defaultdict[Hashable, list[SharedClosure]] = defaultdict(list)

    def add(self, stream: Hashable, closure: SharedClosure) -> None:
        """Subscribes a closure to the elements of a stream."""
        self.closures[stream].append(closure)


class SharedClosure:
    """One closure, and the windows that are views of it.

    - `members`: these windows.
    - `level`: the entailment level of all of them; `ends`: their ends (None: without lag).
    """

    def __init__(self, registry: ClosureRegistry, stream: Hashable, level: EntailmentLevel, ends: WindowEnds | None) -> None:
        self.members: list[MaintainedWindow] = []
        self.level = level
        self.ends = ends
        self._registry = registry
        self._stream = stream
        self._closure: WindowClosure | None = None
        self._begin: Micros = -LAST_MICRO
        self._pending: list[tuple[Micros, Sequence[tuple[Triple, ...]]]] = []
        self._many = _MANY_PENDING  # the number of pending elements above which expired ones are dropped
        self._turns = count()  # the member, modulo their number, whose beginning the next report raises too
        self._last_began = SharedTriples(())

    @property
    def closer(self) -> ContentCloser:
        """The closer of contents, with the background."""
        return self._registry.closer

    def forget(self) -> None:
        """Drops the closure; the next report builds it from the contents."""
        self._closure = None
        self._pending = []

    def leave(self, member: MaintainedWindow) -> None:
        """Removes a window; the closure of the last one is dropped."""
        if member in self.members:
            self.members.remove(member)
        if not self.members:
            self.forget()

    def take(self, time: Micros, graphs: Sequence[tuple[Triple, ...]]) -> None:
        """Adds the elements of a time (µs) after all earlier ones; a report inserts them."""
        if self._closure is None:
            return
        self._pending.append((time, graphs))
        if len(self._pending) > self._many:
            least = min(member.raise_begin(time) for member in self.members)
            self._pending = [each for each in self._pending if each[0] > least]
            self._many = max(_MANY_PENDING, 2 * len(self._pending))

    def move(self, member: MaintainedWindow, time: Micros) -> WindowChanges:
        """Advances a window to its content at the time of a report."""
        is_new = self._closure is None
        try:
            if is_new:
                self._build(member, time)
                if member not in self.members:
                    return member.move(time)
            return self._move(member, time)
        except LimitExceeded:
            BOUNDS.restart()
            self.forget()
            if len(self.members) > 1:
                for other in self.members[1:]:
                    self._separate(other)
            elif is_new:
                raise
            return member.move(time)
        except BaseException:
            self.forget()
            raise

    def entailed_by(self, triples: Iterable[Triple], begin: Micros) -> ItemEntailment:
        """V(triples of the stream | B and its items after `begin`)."""
        assert self._closure is not None
        return self._closure.entailed_by(triples, begin)

    def _move(self, member: MaintainedWindow, time: Micros) -> WindowChanges:
        closure, members = self._closure, self.members
        assert closure is not None
        has_inserted = self._insert_pending(closure, time)
        begin = member.raise_begin(time)
        if len(members) > 1:  # also another window, in turn: a window that seldom reports must not delay expiry
            members[next(self._turns) % len(members)].raise_begin(time)
        least = min([each.begin for each in members])
        if has_inserted or least > self._begin:
            closure.advance(least)
            self._begin = least
        changes = member.view.advance(begin)
        is_initial, member.is_initial = member.is_initial, False
        began = cast("Sequence[Triple]", changes.began)
        if len(members) > 1 and not is_initial:  # often the same triples begin in several windows: they share indexes
            if self._last_began != began:
                self._last_began = SharedTriples(began)
            began = self._last_began
        return WindowChanges(began, changes.renewed, changes.ended, is_initial)  # type: ignore[arg-type]

    def _insert_pending(self, closure: WindowClosure, time: Micros) -> bool:
        """Inserts the pending elements that windows hold at a time; True if there are any."""
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

    def _build(self, caller: MaintainedWindow, time: Micros) -> None:
        """Builds the closure from the contents.

        The content of the caller's window has the elements of this very time already, others may
        not. A window whose elements are not the latest ones of the longest content is separated.
        """
        elements = {id(member): [each for each in member.content.elements if each.time < time] for member in self.members}
        longest = max(elements.values(), key=len)
        differing = [
            member for member in self.members if _after(elements[id(member)], begin := member.raise_begin(time)) != _after(longest, begin)
        ]
        for member in differing:
            self._separate(member)
        if not self.members:
            return
        closer = self._registry.closer
        lowest = closer.knowledge.lowest_stratum if self.level is EntailmentLevel.GRAPH else None
        rules, background = (closer.rules, None) if lowest is None else (lowest.rules, lowest.background)
        self._closure = WindowClosure(self.level, closer.knowledge, rules, closer.limit, background, self._begins(), self._registry.owns)
        self._begin = -LAST_MICRO
        here = [each for each in caller.content.elements if each.time == time] if caller in self.members else []
        self._pending = [(each.time, (each.triples,)) for each in (*longest, *here)]
        for member in self.members:
            member.attach(self._closure.view())
            member.raise_begin(time)

    def _begins(self) -> Series | None:
        """The times after which contents of the windows begin, where time alone determines them."""
        found: Series | None = None
        for member in self.members:
            extent = member.content.window.extent
            if member.within is not None or not isinstance(extent, RangeExtent | LandmarkExtent):
                return None
            begins = begins_of(extent, member.content.origin)
            if begins is not None:
                if isinstance(begins, TimeSeries) and isinstance(found, TimeSeries):
                    begins = found.refined(begins)
                elif found not in (None, begins):
                    return None  # no series has the times of a calendar and others
                found = begins
            elif extent.start is not None:
                return None
        return found

    def _separate(self, member: MaintainedWindow) -> None:
        """Gives a window a closure of its own."""
        self.members.remove(member)
        alone = type(self)(self._registry, self._stream, self.level, self.ends)
        alone.members.append(member)
        member.closure = alone
        self._registry.add(self._stream, alone)


def _after(elements: Sequence[TimedElement], begin: Micros) -> list[TimedElement]:
    return [each for each in elements if each.time > begin]


# One incremental closure of several default windows of a query.
#
# Idea: the default graph is the closure of all their contents (continuous.md, section 5). Windows of
# time with equal closes begin at a constant distance from each other, so with the times of each
# window moved by that distance, all begin together, and one closure holds the elements of all.
#
#     RANGE 10 s STEP 2 s of one stream and RANGE 4 s STEP 2 s of another, at 20
#
#         contents                      10 < time ≤ 20, and 16 < time ≤ 20
#         the second's times less 6     10 < time ≤ 14
#
# Invariant: after `move` the view holds the triples that all contents together entail. Where a
# distance changes, the closure is built again.
# Cost: the inserted and expired elements since the last report.


def are_joined(query: ContinuousQuery, rules: Sequence[DatalogRule]) -> bool:
    """True for a query whose several default windows have one incremental closure.

    They are windows of time with one STEP, without STARTING AT or a lag, at the level GRAPH or
    WINDOW, and no rule has NOT or AGGREGATE.
    """
    extents = [window.extent for window in query.windows if window.name is None]
    levels = {window.block_level for window in query.windows if window.name is None}
    return (
        len(extents) > 1
        and levels <= {EntailmentLevel.GRAPH, EntailmentLevel.WINDOW}
        and is_kept(rules, EntailmentLevel.GRAPH)
        and all(isinstance(extent, RangeExtent) and not extent.lag and extent.start is None for extent in extents)
        and len({extent.step for extent in extents if isinstance(extent, RangeExtent)}) == 1
    )


class JoinedClosure(SharedClosure):
    """One closure of the contents of several windows; its only member represents all of them."""

    def __init__(self, registry: ClosureRegistry, contents: Sequence[WindowContent]) -> None:
        super().__init__(registry, None, EntailmentLevel.GRAPH, None)
        self._contents = contents
        self._distances: list[Micros] = []
        self._inserted: list[Micros | None] = []  # the time of the last inserted element of each content

    def move(self, member: MaintainedWindow, time: Micros) -> WindowChanges:
        """Advances to the contents at the time of a report."""
        begins = [content.begin_at(time) for content in self._contents]
        least = min(begins)
        distances = [begin - least for begin in begins]
        closure = self._closure
        is_new = closure is None or distances != self._distances
        try:
            if closure is None or is_new:
                closer = self.closer
                closure = self._closure = WindowClosure(self.level, closer.knowledge, closer.rules, closer.limit)
                self._distances, self._inserted = distances, [None] * len(begins)
                member.attach(closure.view())
            for number, (content, distance) in enumerate(zip(self._contents, distances, strict=True)):
                for element in content.later(self._inserted[number]):
                    closure.insert(element.time - distance, element.triples)
                    self._inserted[number] = element.time
            closure.advance(least)
            changes = member.view.advance(least)
        except LimitExceeded:
            BOUNDS.restart()
            self.forget()
            if is_new:
                raise
            return self.move(member, time)
        except BaseException:
            self.forget()
            raise
        member.is_initial = False
        began, renewed, ended = (cast("Sequence[Triple]", each) for each in (changes.began, changes.renewed, changes.ended))
        return WindowChanges(began, renewed, ended, is_new)
