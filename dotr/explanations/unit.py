"""Units of other languages than that of rules as explanations know them.

Idea: a language answers by methods of its units, which load what they need when they are called.
Its finder gives the reasons of an event (`dotr.explanations.evidence.reasons.UnitReason`), its
writer their text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from dotr.explanations.replay.records import RecordedUnit
from dotr.model.terms import Label
from dotr.temporal.layout.units import StreamUnit

if TYPE_CHECKING:
    from dotr.engine.replay import Replay
    from dotr.explanations.evidence.event_reasons import ProofsByTime, UnitReasonFinder
    from dotr.explanations.evidence.reasons import UnitReason
    from dotr.explanations.replay.firings import AnyFiring, FiringRecorder
    from dotr.explanations.text.narrative import WhyNot
    from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
    from dotr.explanations.why_not.rule import Question


class ExplainedUnit(RecordedUnit):
    """A unit whose events have reasons; the class of each language derives from it."""

    __slots__ = ()

    @abstractmethod
    def reasons(self, recorder: FiringRecorder, proofs: ProofsByTime, follow: Callable[[AnyFiring], UnitReason | None]) -> UnitReasonFinder:
        """A finder of the reasons of the unit's events.

        Args:
            recorder: the recorder, after the instant of the events.
            proofs: proofs at the instants of the replay.
            follow: the reasons of another event; None beyond the maximum depth.
        """

    @abstractmethod
    def writer(self, context: WriterContext) -> UnitEventWriter:
        """The writer of the reasons of the language's events, one for each tree."""

    @abstractmethod
    def why_not(self, replay: Replay, label: Label, question: Question) -> WhyNot:
        """The reason for which the unit produced no event of a label, which it makes.

        Args:
            replay: the program and its stream.
            label: the label.
            question: the requested times and attributes.
        """


def explained_unit(unit: StreamUnit) -> ExplainedUnit:
    """A unit of the layout as explanations know it.

    Raises:
        TypeError: the class of the unit has no explanations.
    """
    if not isinstance(unit, ExplainedUnit):
        raise TypeError(f"there are no reasons of a {type(unit).__name__}")
    return unit
