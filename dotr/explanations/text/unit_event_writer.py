"""Base of writers of the events of units other than rules, one for each language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field

from dotr.engine.replay import Replay
from dotr.engine.unit_runs import SharedParts
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.reasons import UnitReason
from dotr.explanations.replay.firings import UnitFiring
from dotr.explanations.text.reason_text import ReasonWriter
from dotr.explanations.text.tree import WhyTree
from dotr.model import dataclass
from dotr.model.time import Micros


@dataclass(frozen=True, eq=False)
class WriterContext:
    """The replay, and the parts that the writers of one tree share.

    Attributes:
        replay: the replay, for the form of times.
        reasons: the writer of triples.
        of: writes the reasons of another unit's event.
        headline: writes an event in one line.
        writers: the writers of the tree, one of each class.
    """

    replay: Replay
    reasons: ReasonWriter
    of: Callable[[UnitReason], WhyTree]
    headline: Callable[[UnitFiring], str]
    writers: SharedParts = field(default_factory=SharedParts)


class UnitEventWriter(ABC):
    """Writer of a language's events as trees.

    Args:
        context: what the writers of the tree share.
    """

    def __init__(self, context: WriterContext) -> None:
        self._replay = context.replay
        self._reasons = context.reasons
        self._of = context.of
        self._headline = context.headline

    @abstractmethod
    def tree(self, reason: UnitReason) -> WhyTree:
        """The reasons of an event of the language."""

    @abstractmethod
    def name_blanks(self, reason: UnitReason) -> None:
        """Name blank nodes after variables, without those of `UnitReason.below`."""

    def _time(self, time: Micros) -> str | int:
        return format_time(time, self._replay.clock)
