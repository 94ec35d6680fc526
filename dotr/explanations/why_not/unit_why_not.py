"""Explanation of a rule, or of a unit of another language, without an event."""

from __future__ import annotations

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import Replay
from dotr.explanations.text.narrative import WhyNot
from dotr.explanations.unit import explained_unit
from dotr.explanations.why_not.rule import Question, why_not
from dotr.model.terms import Variable
from dotr.temporal.layout.units import units_by_label


def why_no_event(replay: Replay, name: str, question: Question | None = None) -> WhyNot:
    """The reason for which a rule did not fire, or a unit produced no event of a label.

    Args:
        replay: the program and its stream.
        name: the name of a rule, or the label of a unit's events.
        question: the requested times and attributes; None: all.

    Raises:
        KeyError: there is no such rule or label.
    """
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
