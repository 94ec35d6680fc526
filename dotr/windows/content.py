"""Content of one window: the elements that it holds at a time, and those that it will hold.

Invariant: elements are kept in the order of time, and as long as the window, or the level
`STREAM WITHIN d`, can still see them: for a window of time while it holds them or will, for a
landmark window since the last restart, for a window of elements the latest that hold `count`.
Cost: what is kept, for each content asked for.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, assert_never

from dotr.model.continuous import ContinuousWindow as ContinuousWindow
from dotr.model.continuous import ElementsExtent, LandmarkExtent, NowExtent, RangeExtent, StreamLevel, TriplesExtent
from dotr.model.terms import Triple
from dotr.model.time import Micros
from dotr.windows.extents import is_in_range_later, landmark_at, range_at


class TimedElement(NamedTuple):
    """An element of a stream: its time in µs, and its triples, each once, with final blank
    nodes."""

    time: Micros
    triples: tuple[Triple, ...]


class WindowLimitExceeded(Exception):
    """Raised where a landmark window holds more elements than its LIMIT."""


class WindowView(NamedTuple):
    """What a query sees of a window at a report: its content, and the elements of its stream that a
    level `STREAM WITHIN d` reads beside it, those of (t − d, t]. Both are in the order of time.
    """

    content: Sequence[TimedElement]
    history: Sequence[TimedElement] = ()


_NO_ELEMENTS: Final[tuple[TimedElement, ...]] = ()


class WindowContent:
    """The elements of one window, changed in place.

    - `came`: the number of all elements, or triples, that came, for windows of these.
    - `closed_at`: the last time at which a window of elements or triples closed.
    - `latest`: the time of the last element.

    >>> from dotr.model.continuous import ReportPolicies
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
        self._origin = origin
        level = window.level
        self._history = level.within if isinstance(level, StreamLevel) else 0
        self.elements: deque[TimedElement] = deque()
        self.came = 0
        self.closed_at: Micros | None = None
        self.latest: Micros | None = None

    def add(self, time: Micros, graphs: Sequence[tuple[Triple, ...]]) -> None:
        """Add the elements of a time, which is not before the last one.

        Raises:
            WindowLimitExceeded: a landmark window holds more than its LIMIT.
        """
        if not graphs:
            return
        self.latest = time
        before = self.came
        for triples in graphs:
            self.elements.append(TimedElement(time, triples))
            self.came += len(triples) if isinstance(self._extent, TriplesExtent) else 1
        match self._extent:
            case ElementsExtent(_, step) | TriplesExtent(_, step):
                if self.came // step > before // step:
                    self.closed_at = time
            case LandmarkExtent(_, _, limit) if limit is not None and len(self._landmark(time)) > limit:
                raise WindowLimitExceeded
            case _:
                pass

    def view(self, time: Micros) -> WindowView:
        """The content at a time, which is not before the last element's."""
        history = [each for each in self.elements if each.time > time - self._history] if self._history else _NO_ELEMENTS
        return WindowView(self._content(time), history)

    def _content(self, time: Micros) -> Sequence[TimedElement]:
        match self._extent:
            case RangeExtent() as extent:
                low, high = range_at(extent, self._origin, time)
                return [each for each in self.elements if low < each.time <= high]
            case LandmarkExtent():
                return self._landmark(time)
            case ElementsExtent() | TriplesExtent():
                return list(self.elements)[self._first_counted() :]
            case NowExtent():
                return [each for each in self.elements if each.time == time]
            case _:
                assert_never(self._extent)

    def _landmark(self, time: Micros) -> list[TimedElement]:
        assert isinstance(self._extent, LandmarkExtent)
        begin = landmark_at(self._extent, self._origin, time)
        return [each for each in self.elements if begin is None or each.time > begin]

    def _first_counted(self) -> int:
        """The position of the first element of the latest items that together hold `count`."""
        assert isinstance(self._extent, ElementsExtent | TriplesExtent)
        held, position = 0, len(self.elements)
        while position and held < self._extent.count:
            time = self.elements[position - 1].time
            while position and self.elements[position - 1].time == time:
                position -= 1
                held += len(self.elements[position].triples) if isinstance(self._extent, TriplesExtent) else 1
        return position

    def will_hold(self, time: Micros) -> bool:
        """True if a window of time holds an element at a time, or will later."""
        extent = self._extent
        return isinstance(extent, RangeExtent) and any(is_in_range_later(extent, self._origin, each.time, time) for each in self.elements)

    def expire(self, time: Micros) -> None:
        """Drop what nothing after a time can see."""
        elements = self.elements
        match self._extent:
            case RangeExtent() as extent:
                while elements and self._is_gone(extent, elements[0].time, time + 1):  # they leave in the order of time
                    elements.popleft()
            case LandmarkExtent() as landmark:
                begin = landmark_at(landmark, self._origin, time + 1)
                while begin is not None and elements and elements[0].time <= begin:
                    elements.popleft()
            case ElementsExtent() | TriplesExtent():
                for _ in range(self._first_counted()):
                    elements.popleft()
            case NowExtent():
                while elements and elements[0].time + self._history <= time:
                    elements.popleft()
            case _:
                assert_never(self._extent)

    def _is_gone(self, extent: RangeExtent, element: Micros, time: Micros) -> bool:
        return element + self._history <= time and not is_in_range_later(extent, self._origin, element, time)

    def to_json(self) -> str:
        """The content as JSON."""
        return json.dumps([[[each.time, each.triples] for each in self.elements], self.came, self.closed_at, self.latest])

    def restore(self, text: str) -> None:
        """The inverse of `to_json`."""
        elements, self.came, self.closed_at, self.latest = json.loads(text)
        self.elements = deque(TimedElement(time, tuple((s, p, o) for s, p, o in triples)) for time, triples in elements)
