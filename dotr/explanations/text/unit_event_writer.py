"""Base of writers of the events of units other than rules, one for each language."""

from __future__ import annotations

from collections.abc import Callable

from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.reasons import UnitReason
from dotr.explanations.replay.firings import UnitFiring
from dotr.explanations.replay.stream import Replay
from dotr.explanations.text.reason_text import ReasonWriter
from dotr.explanations.text.tree import WhyTree
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
