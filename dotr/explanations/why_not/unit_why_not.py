"""Explanation of a unit without an event, of any language.

Each language has one function for the answer; a further language is a further case here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dotr.engine.program import CompiledProgram
from dotr.explanations.replay.stream import Replay
from dotr.explanations.why_not.rule import Question, WhyNot, why_not
from dotr.languages.continuous.explanation.why_not import ReportWhyNot, why_no_report
from dotr.model.terms import Variable
from dotr.temporal.layout.units import StreamQuery, StreamUnit, units_by_label

if TYPE_CHECKING:  # loaded only for programs with such units
    from dotr.languages.epsparql.explanation.why_not import IntervalWhyNot
    from dotr.languages.lars.explanation.why_not import PointWhyNot

UnitWhyNot: TypeAlias = "WhyNot | ReportWhyNot | PointWhyNot | IntervalWhyNot"
"""An answer; all have `case`, `fired`, `lines()` and `to_json()`."""


def why_no_event(replay: Replay, name: str, question: Question | None = None) -> UnitWhyNot:
    """The reason for which a rule did not fire, or a unit produced no event of a label.

    Args:
        replay: the program and its stream.
        name: the name of a rule, or the label of a unit's events.
        question: the requested times and attributes; None: all.

    Raises:
        KeyError: there is no such rule or label.
    """
    unit = units_by_label(replay.program.units).get(name)
    match unit:
        case None:
            return why_not(replay, name, question)
        case StreamQuery():
            return why_no_report(replay, unit, question)
        case _:
            return _why_no_point_or_interval(replay, unit, name, question)


def _why_no_point_or_interval(replay: Replay, unit: StreamUnit, name: str, question: Question | None) -> UnitWhyNot:
    """The answer for a unit of a lazily loaded language."""
    from dotr.languages.lars.unit import LarsUnit

    if isinstance(unit, LarsUnit):
        from dotr.languages.lars.explanation.why_not import why_no_point

        return why_no_point(replay, unit, name, question)
    from dotr.languages.epsparql.explanation.why_not import why_no_interval

    return why_no_interval(replay, unit, name, question)


def is_answered(program: CompiledProgram, name: str) -> bool:
    """True for the name of a rule and for the label of another unit's events."""
    return any(rule.name == name for rule in program.rules.rules) or name in units_by_label(program.units)


def question_attributes(replay: Replay, name: str) -> tuple[Variable, ...]:
    """The attributes that a question may restrict: those of a rule's anchor, or of a label's
    events."""
    places = replay.program.rules.places.get(name)
    return places.roles[0].attributes if places is not None else replay.program.attributes[name]
