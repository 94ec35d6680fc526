"""Answer to the question why a unit made no event, whatever its language.

Each kind of unit has one function that answers; a unit of another language is one more case here.
"""

from __future__ import annotations

from typing import TypeAlias

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import refuse
from dotr.explanations.replay import Replay
from dotr.explanations.report_failure import ReportWhyNot, why_no_report
from dotr.explanations.why_not import Question, WhyNot, why_not
from dotr.layout.units import StreamQuery, labels_made
from dotr.model.terms import Variable

UnitWhyNot: TypeAlias = WhyNot | ReportWhyNot
"""An answer: `case`, `fired`, `lines()` and `to_json()`."""


def why_no_event(replay: Replay, name: str, question: Question | None = None) -> UnitWhyNot:
    """The reason why a rule did not fire, or why a unit made no event of a label.

    Args:
        replay: the program and its stream.
        name: the name of a rule, or the label of a unit's events.
        question: what is asked about; None: all.

    Raises:
        KeyError: there is no such rule or label.
        Refused: the unit's language cannot be explained yet (C240).
    """
    unit = {label: unit for unit in replay.program.units for label in labels_made(unit)}.get(name)
    match unit:
        case None:
            return why_not(replay, name, question)
        case StreamQuery():
            return why_no_report(replay, unit, question)
        case _:
            hint = "dotr run, test and check know it; ask about the units that it reads."
            raise refuse("C240", f"the events of {name} cannot be explained yet", unit.span, hint)


def is_answered(program: CompiledProgram, name: str) -> bool:
    """True for a rule, and for a label of a unit whose language explanations know."""
    return any(rule.name == name for rule in program.rules.rules) or any(query.name == name for query in program.queries)


def asked_attributes(replay: Replay, name: str) -> tuple[Variable, ...]:
    """The attributes that a question about a rule or a label may name: those of the rule's anchor,
    or of the label's events.
    """
    places = replay.program.rules.places.get(name)
    return places.roles[0].attributes if places is not None else replay.program.attributes[name]
