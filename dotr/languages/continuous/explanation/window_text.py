"""Text of the windows of a report."""

from __future__ import annotations

from typing import assert_never

from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.replay.stream import Replay
from dotr.languages.continuous.explanation.dataset import ReportDataset
from dotr.languages.continuous.model import ElementsExtent, LandmarkExtent, NowExtent, RangeExtent, TriplesExtent
from dotr.languages.continuous.windows.extents import landmark_at, range_at
from dotr.syntax.term_writer import TermWriter


def window_at(dataset: ReportDataset, number: int, replay: Replay, terms: TermWriter) -> str:
    """A window of a query with the times of its content at a report: `<w> (0, 4]`."""
    window = dataset.query.windows[number]
    name = "the default window" if window.name is None else terms.text(window.name)
    return f"{name} {_extent_at(dataset, number, replay)}"


def _extent_at(dataset: ReportDataset, number: int, replay: Replay) -> str:
    extent, origin, time, clock = dataset.query.windows[number].extent, replay.program.spec.origin, dataset.report.time, replay.clock
    match extent:
        case RangeExtent():
            low, high = range_at(extent, origin, time)
            return f"({format_time(low, clock)}, {format_time(high, clock)}]"
        case LandmarkExtent():
            begin = landmark_at(extent, origin, time)
            return f"({'…' if begin is None else format_time(begin, clock)}, {format_time(time, clock)}]"
        case ElementsExtent(count, _):
            return f"ELEMENTS {count}"
        case TriplesExtent(count, _):
            return f"TRIPLES {count}"
        case NowExtent():
            return f"at {format_time(time, clock)}"
        case _:
            assert_never(extent)
