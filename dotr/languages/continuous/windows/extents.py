"""Times of windows: when they close, and which times they contain (continuous.md, section 3).

All times are in µs since 1970. Windows of time close at an origin plus all multiples of STEP,
negative ones too, or begin at t0 (`STARTING AT`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import TypeAlias

from dotr.languages.continuous.model import ElementsExtent, LandmarkExtent, NowExtent, RangeExtent, TriplesExtent
from dotr.model import dataclass
from dotr.model.calendars import Calendar, Schedule
from dotr.model.time import Micros

TimeExtent: TypeAlias = RangeExtent | LandmarkExtent
"""Windows that close at times known ahead."""

CountExtent: TypeAlias = ElementsExtent | TriplesExtent
"""Windows that close when a number of elements or triples has arrived."""

InstantExtent: TypeAlias = NowExtent
"""Windows that never close."""


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """The times base + i·step, for any whole i or, with `first`, none before that time.

    >>> TimeSeries(1, 5).after(1), TimeSeries(1, 5).at_or_after(1), TimeSeries(1, 5, first=11).after(1)
    (6, 1, 11)
    """

    base: Micros
    step: Micros
    first: Micros | None = None

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The step."""
        return (self.step,)

    def has(self, time: Micros) -> bool:
        """True if the time is one of the series."""
        return (time - self.base) % self.step == 0 and (self.first is None or time >= self.first)

    def at_or_after(self, time: Micros) -> Micros:
        """The first time of the series not before a time."""
        time = time if self.first is None else max(time, self.first)
        return time + (self.base - time) % self.step

    def after(self, time: Micros) -> Micros:
        """The first time of the series after a time."""
        return self.at_or_after(time + 1)

    def count(self, first: Micros, end: Micros) -> int:
        """The number of times of the series from `first` to before `end`.

        >>> TimeSeries(0, 5).count(0, 10), TimeSeries(0, 5).count(1, 11), TimeSeries(0, 5, first=10).count(1, 11)
        (2, 2, 1)
        """
        return max(0, -(-(end - self.at_or_after(first)) // self.step))

    def last_before(self, time: Micros) -> Micros | None:
        """The last time of the series before a time; None if there is none.

        >>> TimeSeries(0, 5).last_before(5), TimeSeries(0, 5, first=5).last_before(5)
        (0, None)
        """
        found = time - 1 - (time - 1 - self.base) % self.step
        return None if self.first is not None and found < self.first else found

    def common(self, other: TimeSeries) -> TimeSeries | None:
        """The intersection of two series; None if it is empty.

        >>> TimeSeries(0, 4).common(TimeSeries(2, 6))
        TimeSeries(base=8, step=12, first=None)
        >>> TimeSeries(0, 4).common(TimeSeries(1, 6)) is None
        True
        """
        divisor = gcd(self.step, other.step)
        distance = other.base - self.base
        if distance % divisor:
            return None
        # base + i·step = other.base (mod other.step), solved for i
        count = distance // divisor * pow(self.step // divisor, -1, other.step // divisor) % (other.step // divisor)
        firsts = [each for each in (self.first, other.first) if each is not None]
        return TimeSeries(self.base + count * self.step, self.step // divisor * other.step, max(firsts) if firsts else None)

    def refined(self, other: TimeSeries) -> TimeSeries:
        """The coarsest series without a first time that contains both series.

        >>> TimeSeries(1, 10).refined(TimeSeries(7, 10))
        TimeSeries(base=1, step=2, first=None)
        """
        return TimeSeries(self.base, gcd(self.step, other.step, other.base - self.base))


@dataclass(frozen=True, slots=True)
class CalendarSeries:
    """The moments of a calendar, with the times of another series (`steps`); with `first`, none
    before that time.

    >>> from dotr.model.calendars import calendar_of
    >>> days = CalendarSeries(calendar_of("day", None, "UTC"), TimeSeries(0, 50_000_000_000))
    >>> days.after(0) // 1_000_000, days.after(50_000_000_000) // 1_000_000, days.count(0, 101_000_000_000)
    (50000, 86400, 4)
    """

    calendar: Calendar
    steps: TimeSeries | None = None
    first: Micros | None = None

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The calendar, and the step of the other times."""
        return (self.calendar,) if self.steps is None else (self.calendar, self.steps.step)

    def has(self, time: Micros) -> bool:
        """True if the time is one of the series."""
        return self.at_or_after(time) == time

    def at_or_after(self, time: Micros) -> Micros:
        """The first time of the series not before a time."""
        time = time if self.first is None else max(time, self.first)
        moment = self.calendar.at_or_after(time)
        return moment if self.steps is None else min(moment, self.steps.at_or_after(time))

    def after(self, time: Micros) -> Micros:
        """The first time of the series after a time."""
        return self.at_or_after(time + 1)

    def count(self, first: Micros, end: Micros) -> int:
        """The number of times of the series from `first` to before `end`."""
        first = first if self.first is None else max(first, self.first)
        if self.steps is None:
            return self.calendar.count(first, end)
        return self.steps.count(first, end) + sum(not self.steps.has(time) for time in self.moments(first, end))

    def moments(self, first: Micros, end: Micros) -> Iterator[Micros]:
        """The moments of the calendar from `first` to before `end`, in order."""
        time = self.calendar.at_or_after(first if self.first is None else max(first, self.first))
        while time < end:
            yield time
            time = self.calendar.after(time)

    def last_before(self, time: Micros) -> Micros | None:
        """The last time of the series before a time; None if there is none."""
        found = self.calendar.last_before(time)
        step = None if self.steps is None else self.steps.last_before(time)
        found = found if step is None else max(found, step)
        return None if self.first is not None and found < self.first else found


Series: TypeAlias = TimeSeries | CalendarSeries
"""Times that are known ahead."""


def count_union(series: Sequence[Series], first: Micros, end: Micros) -> int:
    """The number of times from `first` to before `end` that are in one of several series.

    >>> count_union([TimeSeries(0, 2), TimeSeries(0, 3), TimeSeries(0, 2)], 0, 7)
    5
    >>> from dotr.model.calendars import calendar_of
    >>> count_union([CalendarSeries(calendar_of("day", None, "UTC"), TimeSeries(5, 10)), TimeSeries(0, 4)], 0, 16)
    6
    """
    if len(series) == 1:
        return series[0].count(first, end)
    plain = [each if isinstance(each, TimeSeries) else each.steps for each in series]
    known = [each for each in plain if each is not None]
    moments = {time for each in series if isinstance(each, CalendarSeries) for time in each.moments(first, end)}
    return _count_plain(known, first, end) + sum(not any(each.has(time) for each in known) for time in moments)


def _count_plain(series: Sequence[TimeSeries], first: Micros, end: Micros) -> int:
    found, before = 0, list[TimeSeries]()
    for each in dict.fromkeys(series):
        found += each.count(first, end)
        if before:
            found -= _count_plain([common for other in before if (common := each.common(other)) is not None], first, end)
        before.append(each)
    return found


def closes_of(extent: TimeExtent, origin: Micros) -> Series:
    """The times at which windows of an extent close; `origin` applies without STARTING AT.

    >>> closes_of(RangeExtent(5, 2, start=1), origin=0).after(0)
    6
    """
    if isinstance(extent, RangeExtent):
        return _range_closes(extent, origin)
    start, step = extent.start, extent.step
    steps = None if step is None else TimeSeries(origin, step) if start is None else TimeSeries(start + step, step, start + step)
    if isinstance(extent.restart, Calendar):
        return CalendarSeries(extent.restart, steps, None if start is None else start + 1)
    assert steps is not None
    return steps


def _range_closes(extent: RangeExtent, origin: Micros) -> TimeSeries:
    if extent.start is None:
        return TimeSeries(origin, extent.step)
    return TimeSeries(extent.start + extent.width, extent.step, extent.start + extent.width)


def periods_of(extent: TimeExtent | CountExtent | InstantExtent, period: Micros, origin: Micros) -> TimeSeries:
    """The times of `PERIODIC period` for a window of an extent."""
    start = extent.start if isinstance(extent, RangeExtent | LandmarkExtent) else None
    return TimeSeries(origin, period) if start is None else TimeSeries(start, period, start + period)


def range_at(extent: RangeExtent, origin: Micros, time: Micros) -> tuple[Micros, Micros]:
    """The interval (low, high] of the elements in a window of time at a time; high ≤ `time`.

    >>> range_at(RangeExtent(4, 2), 0, 4), range_at(RangeExtent(4, 2), 0, 3), range_at(RangeExtent(4, 2, lag=1), 0, 4)
    ((0, 4), (0, 3), (0, 3))
    """
    close = closes_of(extent, origin).at_or_after(time)
    return close - extent.width, min(close - extent.lag, time)


def is_in_range_later(extent: RangeExtent, origin: Micros, element: Micros, time: Micros) -> bool:
    """True if the window at `time`, or a later one, contains elements of the time `element` ≤
    `time`.

    The windows that contain them close within [element + lag, element + width).

    >>> [is_in_range_later(RangeExtent(4, 2), 0, 1, time) for time in (4, 5)]
    [True, False]
    >>> is_in_range_later(RangeExtent(1, 4), 0, 2, 2)
    False
    """
    return closes_of(extent, origin).at_or_after(max(time, element + extent.lag)) < element + extent.width


def begins_of(extent: TimeExtent, origin: Micros) -> Series | None:
    """The times after which contents of an extent begin: each of them excludes its begin. None for
    a landmark window without restarts.

    >>> begins_of(RangeExtent(5, 2), 0), begins_of(LandmarkExtent(1, 10, None), 0)
    (TimeSeries(base=-5, step=2, first=None), TimeSeries(base=0, step=10, first=None))
    """
    if isinstance(extent, RangeExtent):
        closes = _range_closes(extent, origin)
        return TimeSeries(closes.base - extent.width, closes.step)
    if isinstance(extent.restart, Calendar):
        return CalendarSeries(extent.restart, None, None if extent.start is None else extent.start + 1)
    return None if extent.restart is None else TimeSeries(origin if extent.start is None else extent.start, extent.restart)


def landmark_at(extent: LandmarkExtent, origin: Micros, time: Micros) -> Micros | None:
    """The time o of a landmark window at a time: it contains the elements after o; None: all.

    >>> landmark_at(LandmarkExtent(1, 10, None), 0, 10), landmark_at(LandmarkExtent(1, 10, None), 0, 11)
    (0, 10)
    >>> landmark_at(LandmarkExtent(1, None, 5, start=3), 0, 2)
    3
    """
    restarts = begins_of(extent, origin)
    found = None if restarts is None else restarts.last_before(time)
    return found if extent.start is None or (found is not None and found > extent.start) else extent.start
