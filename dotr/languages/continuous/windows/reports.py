"""Reports of one window: the times at which it may report, and its policies (continuous.md, 4).

Idea: the times of WINDOW CLOSE, for windows of time and landmark windows, and those of PERIODIC are
known ahead. All other reports are at times at which an element of the window's stream arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from dotr.languages.continuous.model import ContinuousWindow, LandmarkExtent, RangeExtent, RelationToStream, ReportPolicies
from dotr.languages.continuous.windows.content import ContentRange, WindowContent
from dotr.languages.continuous.windows.extents import CalendarSeries, Series, closes_of, count_union, periods_of
from dotr.model.time import Micros


def report_times(window: ContinuousWindow, origin: Micros) -> Series | None:
    """The times of WINDOW CLOSE and PERIODIC of a window, both of them where it has both; None if
    they are not known ahead.

    >>> from dotr.model.places import Document, Span
    >>> nowhere = Span(Document("", ""), 0, 0)
    >>> both = ReportPolicies(window_close=True, period=6)
    >>> report_times(ContinuousWindow("<w>", "s", RangeExtent(4, 4), None, both, nowhere, nowhere), origin=0)
    TimeSeries(base=0, step=12, first=None)
    """
    policies, extent = window.policies, window.extent
    if policies is None:
        return None
    periods = None if policies.period is None else periods_of(extent, policies.period, origin)
    if not policies.window_close:
        return periods
    if not isinstance(extent, RangeExtent | LandmarkExtent):
        return None
    closes = closes_of(extent, origin)
    if periods is None or isinstance(closes, CalendarSeries):  # both: refused where a calendar restarts the window (W348)
        return closes
    return closes.common(periods)


class WindowReports:
    """The report policies of one window with its content.

    - `times`: the times of reports that are known ahead (`report_times`).
    - `reported`: the positions of the content at the last report, under ON CONTENT CHANGE.
    """

    def __init__(self, content: WindowContent, origin: Micros) -> None:
        self.content = content
        self.policies: ReportPolicies | None = content.window.policies
        self.times = report_times(content.window, origin)
        extent = content.window.extent
        self._closes = closes_of(extent, origin) if isinstance(extent, RangeExtent | LandmarkExtent) else None
        period = None if self.policies is None else self.policies.period
        self._periods = None if period is None else periods_of(extent, period, origin)
        self.reported = ContentRange(0, 0)

    def next_time(self, after: Micros) -> Micros | None:
        """The next time after a time at which the window reports if nothing arrives; None:
        never."""
        policies, times = self.policies, self.times
        if times is None or policies is None:
            return None
        time = times.after(after)
        while (policies.non_empty or policies.content_change) and not self.reports(time, arrived=False):
            change = self.content.next_change(time)
            if change is None:
                return None
            time = times.at_or_after(change)
        return time

    def reports(self, time: Micros, *, arrived: bool) -> bool:
        """True if the window reports at a time; `arrived`: an element of its stream arrives then.
        The cost is independent of the size of the content, but for a bisection."""
        policies = self.policies
        if policies is None:
            return False
        if policies.window_close and not (self._closes.has(time) if self._closes is not None else self.content.closed_at == time):
            return False
        if self._periods is not None and not self._periods.has(time):
            return False
        if not policies.window_close and self._periods is None and not arrived:
            return False
        if not (policies.non_empty or policies.content_change):
            return True
        held = self.content.range_at(time)
        if policies.non_empty and held.first == held.end:
            return False
        return not policies.content_change or held != self.reported

    def note(self, time: Micros) -> None:
        """Store the positions of the content at a report of this window."""
        if self.policies is not None and self.policies.content_change:
            self.reported = self.content.range_at(time)


# Reports of a query while nothing arrives: the next one that may have a row, and their number.
#
# Idea: between two changes of content, which are known ahead, every report of a query sees the same.
# So a stretch of such times is passed over at once where a report there can have no row: the windows
# are empty, and the query has no row over empty windows; or ISTREAM or DSTREAM has reported this
# content.
# Cost: a bisection for each window and change of content, whatever the number of reports.

SeenContents: TypeAlias = tuple[tuple[ContentRange, int], ...]
"""Content of each window at a report, and the begin of its history, as positions."""

_EMPTY: Final = ContentRange(0, 0)


class ReportSchedule:
    """The reports of a query at times that are known ahead.

    Args:
        windows: all windows of the query.
        relation: the relation-to-stream operator of the query.
        consuming: a MATCH block has CONSUMING, so that equal contents may have different rows.
        answers_empty: True if the query has a row where all windows are empty.
    """

    def __init__(
        self, windows: Sequence[WindowReports], relation: RelationToStream, answers_empty: Callable[[], bool], *, consuming: bool
    ) -> None:
        self._windows = windows
        self._is_whole = relation is RelationToStream.RSTREAM
        self._relation = relation
        self._answers_empty = answers_empty
        self._consuming = consuming
        self._timed = [(each, each.times) for each in windows if each.times is not None]

    def seen(self, time: Micros) -> SeenContents:
        """Content of the windows at the time of a report."""
        return tuple([(each.content.range_at(time), each.content.history_from(time)) for each in self._windows])

    def next(self, after: Micros, reported: SeenContents | None) -> Micros | None:
        """The next time after another of a report that may have a row; None: never.

        `reported`: what the last report has seen, if its rows are known.
        """
        while True:
            time = min((due for each, _ in self._timed if (due := each.next_time(after)) is not None), default=None)
            if time is None or not self._is_silent(time, reported):
                return time
            change = self._next_change(time)
            if change is None:
                return None
            after = change - 1

    def last(self, begin: Micros) -> Micros:
        """The first time of a report, not before `begin`, from which on no window of time holds an
        element."""
        held = [last for each in self._windows if (last := each.content.last_held()) is not None]
        begin = max([begin, *(each + 1 for each in held)])
        return min(times.at_or_after(begin) for _, times in self._timed)

    def count(self, after: Micros, before: Micros, most: int) -> int:
        """The number of reports in (after, before) that may have a row; perhaps less than there are
        where it is not greater than `most`."""
        if sum(times.count(after + 1, before) for _, times in self._timed) <= most:
            return 0
        reported = {number: each.reported for number, (each, _) in enumerate(self._timed)}
        found, begin = 0, after + 1
        while begin < before:
            change = self._next_change(begin)
            end = before if change is None else min(before, change)
            number = self._reports_between(begin, end, reported)
            if number:
                if all(held == _EMPTY for held, _ in self.seen(begin)):
                    is_silent = self._relation is not RelationToStream.DSTREAM and not self._answers_empty()
                    found += 0 if is_silent else number if self._is_whole else 1
                else:
                    found += number if self._is_whole or self._consuming else 1
            begin = end
        return found

    def _reports_between(self, begin: Micros, end: Micros, reported: dict[int, ContentRange]) -> int:
        """The number of reports from `begin` to before `end`, where no content changes. `reported`
        is
        updated: the content at the last report of each window."""
        repeated: list[Series] = []
        once: set[Micros] = set()
        for number, (each, times) in enumerate(self._timed):
            policies, held = each.policies, each.content.range_at(begin)
            if policies is None or (policies.non_empty and held == _EMPTY) or (policies.content_change and held == reported[number]):
                continue
            if not policies.content_change:
                repeated.append(times)
            elif (first := times.at_or_after(begin)) < end:
                reported[number] = held
                once.add(first)
        return count_union(repeated, begin, end) + sum(not any(times.has(time) for times in repeated) for time in once)

    def _is_silent(self, time: Micros, reported: SeenContents | None) -> bool:
        if self._is_whole:
            return all(each.content.range_at(time) == _EMPTY for each in self._windows) and not self._answers_empty()
        return not self._consuming and self.seen(time) == reported

    def _next_change(self, time: Micros) -> Micros | None:
        return min((change for each in self._windows if (change := each.content.next_change(time)) is not None), default=None)
