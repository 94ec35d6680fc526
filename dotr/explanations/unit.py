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
from dotr.model.terms import Label, Variable
from dotr.temporal.layout.units import StreamUnit, units_by_label

if TYPE_CHECKING:
    from dotr.engine.program import CompiledProgram
    from dotr.engine.replay import Replay
    from dotr.explanations.evidence.event_reasons import ProofsByTime, UnitReasonFinder
    from dotr.explanations.evidence.reasons import UnitReason
    from dotr.explanations.replay.firings import AnyFiring, FiringRecorder
    from dotr.explanations.text.narrative import WhyNot
    from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
    from dotr.explanations.why_not.survey import Question


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


# Questions about a name: of a rule, or of a label of another unit.


def why_no_event(replay: Replay, name: str, question: Question | None = None) -> WhyNot:
    """The reason for which a rule did not fire, or a unit produced no event of a label.

    Args:
        replay: the program and its stream.
        name: the name of a rule, or the label of a unit's events.
        question: the requested times and attributes; None: all.

    Raises:
        KeyError: there is no such rule or label.
    """
    from dotr.explanations.why_not.rule import why_not
    from dotr.explanations.why_not.survey import Question

    unit = units_by_label(replay.program.units).get(name)
    return why_not(replay, name, question) if unit is None else explained_unit(unit).why_not(replay, name, question or Question())


def is_answered(program: CompiledProgram, name: str) -> bool:
    """True for the name of a rule and for the label of another unit's events."""
    return any(rule.name == name for rule in program.rules.rules) or name in units_by_label(program.units)


def question_attributes(replay: Replay, name: str) -> tuple[Variable, ...]:
    """The attributes that a question may restrict: those of a rule's anchor, or of a label's
    events."""
    places = replay.program.rules.places.get(name)
    return places.roles[0].attributes if places is not None else replay.program.attributes[name]
