"""Base of writers of the events of units other than rules, one for each language."""

from __future__ import annotations

from collections.abc import Callable

from dotr.explanations.firings import UnitFiring
from dotr.explanations.reason_text import ReasonWriter
from dotr.explanations.reasons import UnitReason
from dotr.explanations.replay import Replay
from dotr.explanations.why_tree import WhyTree
from dotr.expressions.times import format_time
from dotr.model.time import Micros


class UnitEventWriter:
    """Writer of events as trees.

    Args:
        replay: the replay, for the form of times.
        reasons: the writer of triples.
        of: writes the reasons of another unit's event.
        headline: writes an event in one line.
    """

    def __init__(
        self, replay: Replay, reasons: ReasonWriter, of: Callable[[UnitReason], WhyTree], headline: Callable[[UnitFiring], str]
    ) -> None:
        self._replay = replay
        self._reasons = reasons
        self._of = of
        self._headline = headline

    def _time(self, time: Micros) -> str | int:
        return format_time(time, self._replay.clock)
