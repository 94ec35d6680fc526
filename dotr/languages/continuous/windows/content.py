"""Content of one window: the elements that it holds at a time, and those that it may hold later.

Idea: elements arrive in the order of time, and a content is a range of them. So two positions
represent a content; contents are compared by them, and their difference is a range, too.
Invariant: an element is kept while the window, or the level `STREAM WITHIN d`, may still read it. A
window of time keeps an element until no later content holds it, a landmark window until its next
restart, a window of elements or triples while it is among the latest `count`.
Cost: a bisection an element, and otherwise independent of the size of the content; a view costs its
size.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, assert_never

from dotr.errors.diagnostics import DotrError
from dotr.languages.continuous.model import ContinuousWindow as ContinuousWindow
from dotr.languages.continuous.model import ElementsExtent, LandmarkExtent, NowExtent, RangeExtent, StreamLevel, TriplesExtent
from dotr.languages.continuous.windows.extents import begins_of, closes_of, is_in_range_later, landmark_at, range_at
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Micros


class TimedElement(NamedTuple):
    """An element of a stream: its time in µs, and its triples, each once, with final blank
    nodes."""

    time: Micros
    triples: tuple[Triple, ...]


class WindowLimitExceeded(DotrError):
    """Raised if a landmark window holds more elements than its LIMIT."""


class ContentRange(NamedTuple):
    """The positions of a content among all elements that have arrived: from `first` to before
    `end`."""

    first: int
    end: int


class WindowView(NamedTuple):
    """The elements of a window at a report of time t, in the order of time.

    - `content`: the elements that the window holds; `held`: their positions.
    - `history`: the elements of the stream that a level `STREAM WITHIN d` reads, those of
      (t − d, t].
    """

    content: Sequence[TimedElement]
    held: ContentRange
    history: Sequence[TimedElement] = ()


_EMPTY: Final = ContentRange(0, 0)
_FEW_DROPPED: Final = 1024
"""Dropped elements are removed from the lists only above this number."""


class WindowContent:
    """The elements of one window, changed in place.

    - `came`: the number of elements that have arrived or, for a window of triples, of triples.
    - `closed_at`: the last time (µs) at which a window of elements or triples closed.
    - `latest`: the time of the last element in µs.
    - `origin`: a time in µs; windows without STARTING AT close at it and at each STEP from it.

    >>> from dotr.languages.continuous.model import ReportPolicies
    >>> from dotr.model.places import Document, Span
    >>> nowhere = Span(Document("", ""), 0, 0)
    >>> window = ContinuousWindow("<w>", "s", RangeExtent(4, 2), None, ReportPolicies(window_close=True), nowhere, nowhere)
    >>> content = WindowContent(window, origin=0)
    >>> content.add(1, [(("<a>", "<v>", '"1"'),)])
    >>> [len(content.view(time).content) for time in (2, 4, 6)]
    [1, 1, 0]
    """

    def __init__(self, window: ContinuousWindow, origin: Micros) -> None:
        self.window = window
        self._extent = window.extent
        self.origin = origin
        level = window.level
        self._history = level.within if isinstance(level, StreamLevel) else 0
        self.came = 0
        self.closed_at: Micros | None = None
        self.latest: Micros | None = None
        self.clear()

    def clear(self) -> None:
        """Drop all elements."""
        # Position p counts all elements that have arrived; it is index p − offset of the lists, whose
        # first `dropped` elements are expired. `before[i]` is `came` before element i. With offset 5
        # and 2 dropped, index 2 is position 7, the first element that is kept.
        self._offset = 0
        self._dropped = 0
        self._elements: list[TimedElement] = []
        self._times: list[Micros] = []
        self._before: list[int] = []

    @property
    def elements(self) -> Sequence[TimedElement]:
        """The elements that are kept, in the order of time."""
        return self._elements[self._dropped :] if self._dropped else self._elements

    @property
    def first_time(self) -> Micros | None:
        """The time of the first element that is kept; None without one."""
        return self._times[self._dropped] if len(self) else None

    def __len__(self) -> int:
        return len(self._elements) - self._dropped

    def history_from(self, time: Micros) -> int:
        """The position of the first element that the level STREAM reads at a time; the end without
        such a level."""
        first = bisect_right(self._times, time - self._history, self._dropped) if self._history else len(self._times)
        return first + self._offset

    def add(self, time: Micros, graphs: Sequence[tuple[Triple, ...]]) -> None:
        """Add the elements of a time, which is not before the last one.

        Raises:
            WindowLimitExceeded: a landmark window holds more than its LIMIT.
        """
        if not graphs:
            return
        before = self.came
        for triples in graphs:
            self._append(TimedElement(time, triples), len(triples) if isinstance(self._extent, TriplesExtent) else 1)
        self._close(time, before)

    def add_share(self, time: Micros, triples: tuple[Triple, ...], elements: int, size: int) -> None:
        """Add a share of the elements of a time, as one element: some of their triples.

        Args:
            time: in µs, after the last one.
            triples: those of the share, each once.
            elements, size: the number of the elements, and that of their triples.

        Raises:
            WindowLimitExceeded: a landmark window holds more than its LIMIT.
        """
        before = self.came
        self._append(TimedElement(time, triples), size if isinstance(self._extent, TriplesExtent) else elements)
        self._close(time, before)

    def _append(self, element: TimedElement, counted: int) -> None:
        self._elements.append(element)
        self._times.append(element.time)
        self._before.append(self.came)
        self.came += counted

    def _close(self, time: Micros, before: int) -> None:
        """Update `latest` and `closed_at`, and check LIMIT, after the elements of a time have been
        added; `before` is `came` without them."""
        self.latest = time
        extent = self._extent
        match extent:
            case ElementsExtent(_, step) | TriplesExtent(_, step):
                if self.came // step > before // step:
                    self.closed_at = time
            case LandmarkExtent(_, _, limit) if limit is not None:
                held = self.range_at(time)
                if held.first < held.end and self.came - self._before[held.first - self._offset] > limit:
                    raise WindowLimitExceeded
            case _:
                pass

    def range_at(self, time: Micros) -> ContentRange:
        """The positions of the content at a time, which is not before that of the last element.
        Equal contents have equal positions.

        >>> from dotr.model.places import Document, Span
        >>> nowhere = Span(Document("", ""), 0, 0)
        >>> content = WindowContent(ContinuousWindow("<w>", "s", ElementsExtent(2, 1), None, None, nowhere, nowhere), origin=0)
        >>> for time, graphs in ((1, [()]), (2, [(), ()]), (3, [()])): content.add(time, graphs)
        >>> content.range_at(3)
        ContentRange(first=1, end=4)
        """
        times, low = self._times, self._dropped
        high = len(times)
        match self._extent:
            case RangeExtent() as extent:
                begin, end = range_at(extent, self.origin, time)
                low, high = bisect_right(times, begin, low), bisect_right(times, end, low)
            case LandmarkExtent() as landmark:
                restart = landmark_at(landmark, self.origin, time)
                low = low if restart is None else bisect_right(times, restart, low)
            case ElementsExtent() | TriplesExtent():
                low = self._first_counted()
            case NowExtent():
                low = bisect_left(times, time, low)
            case _:
                assert_never(self._extent)
        return ContentRange(low + self._offset, high + self._offset) if low < high else _EMPTY

    def range_of_kept(self) -> ContentRange:
        """The positions of all elements that are kept."""
        return ContentRange(self._offset + self._dropped, self._offset + len(self._elements))

    def begin_at(self, time: Micros) -> Micros:
        """The time (µs) after which elements are in the content at a time or later.

        It does not depend on elements that are still to be added at that very time, and is
        monotonic in the time.
        """
        match self._extent:
            case RangeExtent() as extent:
                return range_at(extent, self.origin, time)[0]
            case LandmarkExtent() as landmark:
                restart = landmark_at(landmark, self.origin, time)
                return -LAST_MICRO if restart is None else restart
            case ElementsExtent() | TriplesExtent():
                first = self._first_counted()
                return self._times[first] - 1 if first < len(self._times) else -LAST_MICRO
            case NowExtent():
                return time - 1
            case _:
                assert_never(self._extent)

    def between(self, first: int, end: int) -> Sequence[TimedElement]:
        """The elements at the positions from `first` to before `end`, which must still be kept."""
        return self._elements[first - self._offset : end - self._offset]

    def time_at(self, position: int) -> Micros:
        """The time of the element at a position that is still kept."""
        return self._times[position - self._offset]

    def view(self, time: Micros) -> WindowView:
        """The elements of the window at a time, which is not before that of the last element."""
        held = self.range_at(time)
        history: Sequence[TimedElement] = ()
        if self._history:
            history = self._elements[bisect_right(self._times, time - self._history, self._dropped) :]
        return WindowView(self.between(held.first, held.end) if held != _EMPTY else (), held, history)

    def _first_counted(self) -> int:
        """The index of the first element of the latest items that together have `count` elements or
        triples. An item is the elements of one time.

        It is the first of the last item with no more than `came` − `count` before it. With one
        element at each of the times 1, 2, 3 and `count` 2 it is 1, the element of time 2.
        """
        assert isinstance(self._extent, ElementsExtent | TriplesExtent)
        last = bisect_right(self._before, self.came - self._extent.count, self._dropped) - 1
        if last < self._dropped:
            return self._dropped
        # The element found may be within its item: go back to the first element of that time.
        return bisect_left(self._times, self._times[last], self._dropped)

    def will_hold(self, time: Micros) -> bool:
        """True if a window of time holds an element at a time or later; False for other windows."""
        extent = self._extent
        if not isinstance(extent, RangeExtent):
            return False
        # The latest elements are most likely in a later window; gaps between windows may skip them.
        kept = range(len(self._times) - 1, self._dropped - 1, -1)
        return any(is_in_range_later(extent, self.origin, self._times[index], time) for index in kept)

    def last_held(self) -> Micros | None:
        """The last time at which a window of time holds an element, if none arrives; None: it holds
        none at any later time, or is another window."""
        extent = self._extent
        if isinstance(extent, RangeExtent):
            closes = closes_of(extent, self.origin)
            for index in range(len(self._times) - 1, self._dropped - 1, -1):
                close = closes.last_before(self._times[index] + extent.width)
                if close is not None and close >= self._times[index] + extent.lag:
                    return close
        return None

    def next_change(self, time: Micros) -> Micros | None:
        """A time after another up to which content and history stay the same if nothing arrives;
        None: they stay so for ever.

        >>> from dotr.model.places import Document, Span
        >>> nowhere = Span(Document("", ""), 0, 0)
        >>> content = WindowContent(ContinuousWindow("<w>", "s", RangeExtent(4, 2), None, None, nowhere, nowhere), origin=0)
        >>> content.add(1, [()])
        >>> content.next_change(1), content.next_change(5)
        (5, None)
        """
        times, low = self._times, self._dropped
        found: list[Micros] = []
        if self._history:
            first = bisect_right(times, time - self._history, low)
            found += [each + self._history for each in times[first : first + 1]]
        match self._extent:
            case RangeExtent() as extent:
                # The element e leaves, or enters, after the last close before e + width, or e + lag.
                begin, end = range_at(extent, self.origin, time)
                closes = closes_of(extent, self.origin)
                first, last = bisect_right(times, begin, low), bisect_right(times, end, low)
                for index, length in ((first, extent.width), (last, extent.lag)):
                    close = closes.last_before(times[index] + length) if index < len(times) else None
                    found += [] if close is None else [close + 1]
            case LandmarkExtent() as landmark:
                restarts = begins_of(landmark, self.origin)
                restart = landmark_at(landmark, self.origin, time)
                first = low if restart is None else bisect_right(times, restart, low)
                if restarts is not None and first < len(times):
                    found.append(restarts.at_or_after(times[first]) + 1)
            case NowExtent():
                found += [time + 1] if len(times) > low and times[-1] == time else []
            case ElementsExtent() | TriplesExtent():
                pass
            case _:
                assert_never(self._extent)
        return min([each for each in found if each > time], default=None)

    def expire(self, time: Micros) -> None:
        """Drop the elements that no content and no level STREAM reads at a time or later."""
        times, dropped = self._times, self._dropped
        match self._extent:
            case RangeExtent() as extent:
                while dropped < len(times) and self._is_expired(extent, times[dropped], time):  # elements expire in the order of time
                    dropped += 1
            case LandmarkExtent() as landmark:
                begin = landmark_at(landmark, self.origin, time)
                while begin is not None and dropped < len(times) and times[dropped] <= begin and self._is_unread(times[dropped], time):
                    dropped += 1
            case ElementsExtent() | TriplesExtent():
                dropped = self._first_counted()
            case NowExtent():
                while dropped < len(times) and times[dropped] < time and self._is_unread(times[dropped], time):
                    dropped += 1
            case _:
                assert_never(self._extent)
        self._dropped = dropped
        if dropped > _FEW_DROPPED and dropped * 2 > len(times):
            del self._elements[:dropped], self._times[:dropped], self._before[:dropped]
            self._offset += dropped
            self._dropped = 0

    def _is_unread(self, element: Micros, time: Micros) -> bool:
        """True if the level STREAM does not read an element of a time, at `time` or later."""
        return element + self._history <= time

    def _is_expired(self, extent: RangeExtent, element: Micros, time: Micros) -> bool:
        return self._is_unread(element, time) and not is_in_range_later(extent, self.origin, element, time)

    def later(self, after: Micros | None) -> Sequence[TimedElement]:
        """The elements that are kept, after a time in µs (None: all)."""
        return self.elements if after is None else self._elements[max(self._dropped, bisect_right(self._times, after)) :]

    def counted(self, after: Micros | None) -> Sequence[int]:
        """The increments of `came` by the elements of `later`: 1 each or, for a window of triples,
        the number of triples. That of a share is the sum over all elements of its time.
        """
        first = self._dropped if after is None else max(self._dropped, bisect_right(self._times, after))
        return [end - begin for begin, end in pairwise([*self._before[first:], self.came])]

    def to_json(self) -> str:
        """The content as JSON, without its elements."""
        return json.dumps([self.came, self.closed_at, self.latest, self._offset + self._dropped])

    def restore(self, text: str, elements: Iterable[TimedElement], counted: Sequence[int] | None = None) -> None:
        """Continue from the result of `to_json` and the elements that were kept.

        `counted`: the increments of `came` (`counted`), where the elements are shares.
        """
        came, self.closed_at, self.latest, offset = json.loads(text)
        self.clear()
        self._offset = offset
        self._elements = list(elements)
        self._times = [each.time for each in self._elements]
        if counted is None:
            counted = [len(each.triples) if isinstance(self._extent, TriplesExtent) else 1 for each in self._elements]
        self.came = came - sum(counted)
        for each in counted:
            self._before.append(self.came)
            self.came += each
