"""Changes of a continuous query with which a report has a solution, each tried.

Idea: a level that concludes more, then a longer RANGE: with all elements that came before the query
may have a solution, and of these as many are left out, the oldest first, as can be (bisection).
Cost: that of the report for each trial; some ten trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dotr.explanations.rendering import duration_text
from dotr.explanations.replay import Replay, WindowElement
from dotr.explanations.report_scene import ReportScene
from dotr.joins.limits import LimitExceeded
from dotr.model.continuous import ContinuousQuery, ContinuousWindow, EntailmentLevel, RangeExtent
from dotr.queries.evaluate import AlgebraCompiler
from dotr.queries.operators import EMPTY
from dotr.windows.extents import closes_of

_MOST_EARLIER = 10_000
"""Number of earlier elements up to which a longer RANGE is tried."""


def change_that_fires(scene: ReportScene, replay: Replay) -> str:
    """A change of one window with which the report has a solution; empty: none was found."""
    query = scene.query
    for number, window in enumerate(query.windows):
        less = window.block_level in (EntailmentLevel.NONE, EntailmentLevel.SNAPSHOT)
        if less and _fires(scene, _with(query, number, replace(window, level=EntailmentLevel.GRAPH)), scene.contents):
            return "ENTAILMENT GRAPH"
    for number, window in enumerate(query.windows):
        if isinstance(window.extent, RangeExtent) and (text := _longer_range(scene, number, window.extent, replay)):
            return text
    return ""


def _longer_range(scene: ReportScene, number: int, extent: RangeExtent, replay: Replay) -> str:
    """The shortest RANGE of a window that gives a solution, as it is written."""
    earlier = scene.earlier(number)
    if not earlier or len(earlier) > _MOST_EARLIER:
        return ""

    def fires(count: int) -> bool:
        contents = list(scene.contents)
        contents[number] = [*earlier[len(earlier) - count :], *contents[number]]
        return _fires(scene, scene.query, contents)

    if not fires(len(earlier)):
        return ""
    low, high = 0, len(earlier)  # no solution with `low` of them, one with `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fires(middle) else (middle, high)
    oldest = earlier[len(earlier) - high].time
    close = closes_of(extent, replay.program.spec.origin).at_or_after(scene.report.time)
    unit = replay.clock.unit.value
    width = ((close - oldest) // unit + 1) * unit
    if extent.lag:
        return f"FROM NOW-{duration_text(width)} TO NOW-{duration_text(extent.lag)} STEP {duration_text(extent.step)}"
    return f"RANGE {duration_text(width)} STEP {duration_text(extent.step)}"


def _with(query: ContinuousQuery, number: int, window: ContinuousWindow) -> ContinuousQuery:
    windows = list(query.windows)
    windows[number] = window
    return replace(query, windows=tuple(windows))


def _fires(scene: ReportScene, query: ContinuousQuery, contents: Sequence[Sequence[WindowElement]]) -> bool:
    """True if a query has a solution over some contents."""
    changed = scene.changed(query, contents)
    try:
        return bool(AlgebraCompiler().compile(query.query).solutions(changed.graph, EMPTY, EMPTY))
    except LimitExceeded:
        return False
