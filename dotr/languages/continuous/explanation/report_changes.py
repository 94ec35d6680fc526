"""Changes of a continuous query with which a report has a solution, each verified.

Idea: first a stronger entailment level, then a longer RANGE. If the query has a solution with all
earlier elements of a window, bisection finds the least number of the latest ones that suffices.
Cost: one evaluation of the report for each trial; some ten trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dotr.evaluation.limits import LimitExceeded
from dotr.explanations.replay.stream import Replay, WindowElement
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.operators import EMPTY
from dotr.languages.continuous.explanation.dataset import ReportDataset
from dotr.languages.continuous.model import ContinuousQuery, ContinuousWindow, EntailmentLevel, RangeExtent
from dotr.languages.continuous.windows.extents import closes_of
from dotr.syntax.rendering import duration_text

_MOST_EARLIER = 10_000
"""Maximum number of earlier elements for which a longer RANGE is tried."""


def change_that_fires(dataset: ReportDataset, replay: Replay) -> str:
    """A change of one window with which the report has a solution, as in the query; empty: none is
    found.
    """
    query = dataset.query
    for number, window in enumerate(query.windows):
        less = window.block_level in (EntailmentLevel.NONE, EntailmentLevel.SNAPSHOT)
        if less and _fires(dataset, _with(query, number, replace(window, level=EntailmentLevel.GRAPH)), dataset.contents):
            return "ENTAILMENT GRAPH"
    for number, window in enumerate(query.windows):
        if isinstance(window.extent, RangeExtent) and (text := _longer_range(dataset, number, window.extent, replay)):
            return text
    return ""


def _longer_range(dataset: ReportDataset, number: int, extent: RangeExtent, replay: Replay) -> str:
    """The shortest RANGE of a window with a solution, as in the query; empty: there is none."""
    earlier = dataset.earlier(number)
    if not earlier or len(earlier) > _MOST_EARLIER:
        return ""

    def fires(count: int) -> bool:
        contents = list(dataset.contents)
        contents[number] = [*earlier[len(earlier) - count :], *contents[number]]
        return _fires(dataset, dataset.query, contents)

    if not fires(len(earlier)):
        return ""
    low, high = 0, len(earlier)  # invariant: no solution with the latest `low` elements, one with the latest `high`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fires(middle) else (middle, high)
    oldest = earlier[len(earlier) - high].time
    close = closes_of(extent, replay.program.spec.origin).at_or_after(dataset.report.time)
    unit = replay.clock.unit.value
    width = ((close - oldest) // unit + 1) * unit
    if extent.lag:
        return f"FROM NOW-{duration_text(width)} TO NOW-{duration_text(extent.lag)} STEP {duration_text(extent.step)}"
    return f"RANGE {duration_text(width)} STEP {duration_text(extent.step)}"


def _with(query: ContinuousQuery, number: int, window: ContinuousWindow) -> ContinuousQuery:
    windows = list(query.windows)
    windows[number] = window
    return replace(query, windows=tuple(windows))


def _fires(dataset: ReportDataset, query: ContinuousQuery, contents: Sequence[Sequence[WindowElement]]) -> bool:
    """True if a query has a solution over some contents."""
    changed = dataset.changed(query, contents)
    try:
        return bool(AlgebraCompiler().compile(query.query).solutions(changed.graph, EMPTY, EMPTY))
    except LimitExceeded:
        return False
