"""Reports of one window: the times at which it may report, and its policies (continuous.md, 4).

Idea: the times of WINDOW CLOSE, for windows of time and landmark windows, and those of PERIODIC are
known ahead. All other reports are at times at which an element of the window's stream arrives.
"""

from __future__ import annotations

from dotr.languages.continuous.model import ContinuousWindow, LandmarkExtent, RangeExtent, ReportPolicies
from dotr.languages.continuous.windows.content import ContentRange, WindowContent
from dotr.languages.continuous.windows.extents import TimeSeries, closes_of, periods_of
from dotr.model.time import Micros


def report_times(window: ContinuousWindow, origin: Micros) -> TimeSeries | None:
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
    return closes if periods is None else closes.common(periods)


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
