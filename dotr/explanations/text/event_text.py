"""Text of events, distances and conditions in explanations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

from dotr.engine.spec import RulePlaces
from dotr.evaluation.expressions import first_error
from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.evaluations import ConditionOutcome
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.text.narrative import Narrative, NarrativePart
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Const, Expression, TimeOf, Var
from dotr.model.places import Span
from dotr.model.rules import Aggregate, Rule
from dotr.model.terms import XSD, Label, Term, Variable, literal_parts
from dotr.model.time import Clock, Micros, Unit
from dotr.model.traverse import parameters_of, transform
from dotr.syntax.rendering import TermWriter, brief_text, duration_text

_UNIT_NAMES: Final = {
    Unit.MICROSECOND: "us",
    Unit.MILLISECOND: "ms",
    Unit.SECOND: "s",
    Unit.MINUTE: "min",
    Unit.HOUR: "h",
    Unit.DAY: "d",
}
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]+,[0-9]+")


def unit_name(unit: Unit) -> str:
    """The unit as `time.unit` and durations name it.

    >>> unit_name(Unit.MILLISECOND)
    'ms'
    """
    return _UNIT_NAMES[unit]


def distance_text(length: Micros, clock: Clock) -> str:
    """The text of a length of time in µs: in the unit of the clock if its times are integers,
    otherwise in mixed units.

    >>> distance_text(132_000_000, Clock()), distance_text(132_000_000, Clock(dated=True))
    ('132 s', '2 min 12 s')
    """
    if clock.dated or length % clock.unit.value:
        return duration_text(length)
    return f"{length // clock.unit.value} {_UNIT_NAMES[clock.unit]}"


def place_text(span: Span | None) -> str:
    """`why.dotr:10:31`, or an empty text."""
    if span is None:
        return ""
    line, column = span.line_column
    return f"{span.document.name}:{line}:{column}"


@dataclass(frozen=True, slots=True)
class EventText:
    """Text of an event: its label, its time as the output writes it, and its attributes."""

    label: Label
    time: str | int
    attributes: tuple[tuple[Variable, str], ...]

    def __str__(self) -> str:
        """Return the text.

        >>> str(EventText("Gas", 132, (("room", ":lab"), ("ppm", "400"))))
        'Gas at 132, room :lab, ppm 400'
        """
        return ", ".join([f"{self.label} at {self.time}", *(f"{name} {value}" for name, value in self.attributes)])

    @property
    def parts(self) -> Mapping[str, NarrativePart]:
        """The parts of the event for JSON."""
        return {"label": self.label, "time": self.time, "attributes": dict(self.attributes)}


@dataclass(frozen=True, slots=True)
class ConditionText:
    """Text of a condition with its outcome (None: an error) and its place in the rule file, if
    known."""

    text: str
    holds: bool | None
    place: str = ""

    @property
    def told(self) -> Narrative:
        """The condition as a sentence."""
        return Narrative(self.text, parts={"text": self.text, "holds": self.holds, "place": self.place or None}, place=self.place)


@dataclass(frozen=True)
class EventWriter:
    """Writer of the events and conditions of one rule.

    Attributes:
        rule: the rule.
        places: the places of its roles and conditions in the rule file.
        clock: the form of times in the text.
        terms: the writer of terms.
        shared: the labels of shared queries.
    """

    rule: Rule
    places: RulePlaces
    clock: Clock
    terms: TermWriter
    shared: Set[Label] = frozenset()

    def time(self, time: Micros) -> str | int:
        """A time in µs since 1970 as the output writes it."""
        return format_time(time, self.clock)

    def event(self, event: RecordedEvent, place: int, label: Label | None = None) -> EventText:
        """The text of an event of the role at a position of the rule (0: the anchor, 1: the first
        clause).

        `label`: the label in the text; None: that of the role.
        """
        role = self.rule.anchor if place == 0 else self.rule.clauses[place - 1].role
        attributes = event.attributes
        written = []
        for name in self.places.roles[place].attributes:
            if (term := attributes.get(name)) is not None:
                self.terms.name_blank(term, name)
                written.append((name, self.terms.text(term)))
        return EventText(label or role.label, self.time(event.time), tuple(written))

    # --- conditions ---

    def expression(self, expression: Expression) -> str:
        """An expression as in a rule file; variables of aggregates are written without a label."""
        aggregates = {clause.role.label for clause in self.rule.clauses if isinstance(clause, Aggregate)}

        def plain(part: Expression) -> Expression:
            return Var(part.name) if isinstance(part, Attribute) and part.label in aggregates else part

        return brief_text(transform(expression, plain), self.terms.prefixes)

    def constraint(self, outcome: ConditionOutcome) -> ConditionText:
        """The outcome of a constraint on a candidate: `?v > 75 is false (75)`."""
        place = place_text(outcome.span)
        if outcome.holds is None and not outcome.is_delay:
            return ConditionText(self._error(outcome), None, place)
        values = ", ".join(self.term(term) for _, term in outcome.operands)
        if outcome.is_delay:
            most = duration_text(self.rule.anchor.delay)
            return ConditionText(f"{self.expression(outcome.expression)} is no delay of at most {most} ({values})", None, place)
        word = " is false" if outcome.holds is False else ""
        return ConditionText(f"{self.expression(outcome.expression)}{word}" + (f" ({values})" if values else ""), outcome.holds, place)

    def final(self, outcome: ConditionOutcome) -> ConditionText:
        """The outcome of a conjunct of `if`: `31 - 27 >= 10 is false`."""
        is_plain = isinstance(outcome.expression, Call) and not any(isinstance(part, Var) for part, _ in outcome.operands)
        if not is_plain or outcome.holds is None:
            return self.constraint(outcome)
        terms = dict(outcome.operands)

        def value(part: Expression) -> Expression:
            term = terms.get(part)
            return part if term is None else Const(self.terms.text(term) if term.startswith("_:") else term)

        text = brief_text(transform(outcome.expression, value), self.terms.prefixes)
        return ConditionText(f"{text} is false" if outcome.holds is False else text, outcome.holds, place_text(outcome.span))

    def term(self, term: Term | None) -> str:
        """A term as Turtle, or `unbound`."""
        return "unbound" if term is None else self.terms.text(term)

    def _error(self, outcome: ConditionOutcome) -> str:
        """`Now.?v - Before.?v errs: "35,5" and "20,5" are text. …`."""
        part, operands = _erring_part(outcome)
        if any(leaf == part for leaf, _ in operands):
            return f"{self.expression(outcome.expression)} errs: {self.expression(part)} is unbound"
        texts = [(leaf, term) for leaf, term in operands if term is not None and _is_text(term)]
        if not texts:
            values = ", ".join(self.term(term) for _, term in operands)
            return f"{self.expression(part)} errs" + (f" ({values})" if values else "")
        listed = " and ".join(self.term(term) for _, term in texts)
        hint = _cast(texts)
        return f"{self.expression(part)} errs: {listed} {'are' if len(texts) > 1 else 'is'} text" + (f". {hint}" if hint else "")


def _erring_part(outcome: ConditionOutcome) -> tuple[Expression, list[tuple[Expression, Term | None]]]:
    """The innermost part that errs, and its operands."""
    terms: Mapping[Expression, Term | None] = dict(outcome.operands)
    part = first_error(outcome.expression, terms.get) or outcome.expression
    return part, [(leaf, terms[leaf]) for leaf in parameters_of([part])]


def erring_operands(outcome: ConditionOutcome) -> list[tuple[Expression, Term | None]]:
    """The operands of the innermost part that errs which are no number, or all of a delay that is
    none; empty without an error."""
    if outcome.holds is not None:
        return []
    operands = [each for each in _erring_part(outcome)[1] if not isinstance(each[0], TimeOf)]
    found = operands if outcome.is_delay else [each for each in operands if not is_number(each[1])]
    return [each for each in found if each[1] is not None and _is_text(each[1])] or found


def is_number(term: Term | None) -> bool:
    """True for a number."""
    return term is not None and term_kind(term) is TermKind.NUMBER


def _is_text(term: Term) -> bool:
    return term.startswith('"') and literal_parts(term)[1] == XSD + "string"


def _cast(texts: Sequence[tuple[Expression, Term]]) -> str:
    """A hint on the cast that reads texts as numbers; empty if there is none."""
    lexical = [literal_parts(term)[0] for _, term in texts]
    names = {part.name for part, _ in texts if isinstance(part, Var | Attribute)}
    variable = f"?{names.pop()}" if len(names) == 1 else "…"
    word = "them" if len(texts) > 1 else "it"
    if all(_DECIMAL_COMMA.fullmatch(each) for each in lexical):
        return f'xsd:decimal(REPLACE({variable}, ",", ".")) reads {word}.'
    if all(_NUMBER.fullmatch(each) for each in lexical):
        return f"xsd:decimal({variable}) reads {word}."
    return ""
