"""Text of events of EP-SPARQL: each part with its interval, down to the elements of its instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dotr.evaluation.expressions import term_in
from dotr.evaluation.expressions.values.times import time_term
from dotr.explanations.evidence.reasons import FactReason, UnitReason
from dotr.explanations.text.reason_text import with_values
from dotr.explanations.text.tree import JsonValue, ReasonKind, WhyTree
from dotr.explanations.text.unit_event_writer import UnitEventWriter
from dotr.languages.epsparql.explanation.reasons import IntervalReason, PartReason
from dotr.model.algebra import Expression, Var
from dotr.model.places import Span
from dotr.model.terms import Term, Variable
from dotr.model.time import Micros
from dotr.model.traverse import free_variables
from dotr.syntax.scan import one_line
from dotr.temporal.intervals.conditions import duration_term
from dotr.temporal.intervals.patterns import (
    DURATION,
    END,
    START,
    Alternatives,
    Chain,
    Combination,
    EventRead,
    InstantGroup,
    IntervalPattern,
    operand_reads,
)

_LONGEST: Final = 40
"""Maximum number of characters of an operand in the text."""


class IntervalWriter(UnitEventWriter):
    """Writer of events of EP-SPARQL as trees."""

    def tree(self, reason: UnitReason) -> WhyTree:
        """The reasons of an event."""
        assert isinstance(reason, IntervalReason)
        firing, query = reason.firing, reason.query
        fields: dict[str, JsonValue] = {
            "event": firing.label,
            "rule": firing.label,
            "time": self._time(firing.time),
            "start": self._time(reason.start),
            "name": firing.names[0][1:-1] if firing.names else None,
            "attributes": {name: self._reasons.terms.text(term) for name, term in firing.attributes.items()},
        }
        children = [self._part(each) for each in reason.parts]
        for operand, operator in reason.absent:
            text = f"{_shortened(operand.span)}: absent, which {operator.value} allows"
            children.append(WhyTree(ReasonKind.ABSENCE, text, operand.span.file_line))
        if query.where is not None:
            children += self._conditions(query.where, reason.parts)
        return WhyTree(ReasonKind.EVENT, self._headline(firing), query.label_span.file_line, tuple(children), fields=fields)

    def name_blanks(self, reason: UnitReason) -> None:
        """Name blank nodes after the variables of the operands."""
        assert isinstance(reason, IntervalReason)
        for part in reason.parts:
            for name, term in part.attributes.items():
                self._reasons.terms.name_blank(term, name)
            if isinstance(part.source, FactReason):
                self._reasons.name_blanks(part.source.evidence)

    # --- parts ---

    def _part(self, part: PartReason) -> WhyTree:
        interval = self._interval(part.start, part.end)
        if part.operand is None:
            return WhyTree(ReasonKind.ITEM, f"an answer {interval}", "", self._source(part))
        values = ", ".join(f"{name} {self._reasons.terms.text(term)}" for name, term in part.attributes.items())
        text = f"{_shortened(part.operand.span)} {interval}{f': {values}' if values else ''}"
        fields: dict[str, JsonValue] = {
            "start": self._time(part.start),
            "end": self._time(part.end),
            "attributes": {name: self._reasons.terms.text(term) for name, term in part.attributes.items()},
        }
        return WhyTree(ReasonKind.ITEM, text, part.operand.span.file_line, self._source(part), fields=fields)

    def _source(self, part: PartReason) -> tuple[WhyTree, ...]:
        match part.source:
            case None:
                return ()
            case FactReason():
                return tuple(self._reasons.evidence(part.source.evidence, part.source.proofs))
            case made:
                return (self._of(made),)

    # --- the ends of chains ---

    def _conditions(self, pattern: IntervalPattern, parts: Sequence[PartReason]) -> Iterator[WhyTree]:
        """The BINDs and FILTERs of the chains and optional operands to which the parts belong."""
        here = _parts_of(pattern, parts)
        if not here:
            return
        match pattern:
            case Combination(_, left, right, condition):
                yield from self._conditions(left, parts)
                yield from self._conditions(right, parts)
                if len(here) == len(list(operand_reads(pattern))):
                    values = self._values(here)
                    for each in condition:
                        yield from self._filter(each, values)
            case Alternatives(branches):
                for branch in branches:
                    yield from self._conditions(branch, parts)
            case Chain(inner, bindings, filters):
                yield from self._conditions(inner, parts)
                values = self._values(here)
                for name, expression in bindings:
                    term = term_in(expression, lambda part: values.get(part) if isinstance(part, Var) else None)
                    if term is not None:
                        values[Var(name)] = term
                        text = with_values(expression, values, self._reasons.terms)
                        yield WhyTree(ReasonKind.CONDITION, f"?{name} = {self._reasons.terms.text(term)}: {text}")
                for each in filters:
                    yield from self._filter(each, values)
            case _:
                pass

    def _filter(self, expression: Expression, values: Mapping[Expression, Term | None]) -> Iterator[WhyTree]:
        """A FILTER with its values; nothing if it has no variable."""
        if free_variables(expression):
            yield WhyTree(ReasonKind.CONDITION, with_values(expression, values, self._reasons.terms))

    def _values(self, parts: Sequence[PartReason]) -> dict[Expression, Term | None]:
        """The terms of the variables of some parts, with the start, end and length of their
        interval."""
        start, end, clock = min(each.start for each in parts), max(each.end for each in parts), self._replay.clock
        found: dict[Expression, Term | None] = {Var(name): term for part in parts for name, term in part.attributes.items()}
        times: dict[Variable, Term] = {START: time_term(start, clock), END: time_term(end, clock), DURATION: duration_term(end - start)}
        return found | {Var(name): term for name, term in times.items()}

    # --- parts of the text ---

    def _interval(self, start: Micros, end: Micros) -> str:
        return f"at {self._time(end)}" if start == end else f"from {self._time(start)} to {self._time(end)}"


def _parts_of(pattern: IntervalPattern, parts: Sequence[PartReason]) -> list[PartReason]:
    """The parts that belong to the operands of a pattern."""
    spans = {each.operand.span for each in operand_reads(pattern)}
    return [part for part in parts if isinstance(part.operand, InstantGroup | EventRead) and part.operand.span in spans]


def _shortened(span: Span) -> str:
    """An operand in one line, cut to 40 characters."""
    text = one_line(span)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
