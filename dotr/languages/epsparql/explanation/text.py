"""Text of events of EP-SPARQL: each part with its interval, down to the elements of its instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dotr.engine.unit_runs import EventPart
from dotr.evaluation.expressions import query_with_lengths, term_in
from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.event_reasons import UnitReasonFinder
from dotr.explanations.evidence.reasons import FactReason, SourceReason, UnitReason
from dotr.explanations.replay.firings import AnyFiring, UnitFiring
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.text.reason_text import with_values
from dotr.explanations.text.tree import JsonValue, ReasonKind, WhyTree
from dotr.explanations.text.unit_event_writer import UnitEventWriter
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY
from dotr.languages.epsparql.explanation.interval_records import IntervalRecord, RecordedInterval
from dotr.languages.epsparql.interval_keys import LinkedQuery, OperandInput
from dotr.model import dataclass
from dotr.model.algebra import Expression, Var
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros
from dotr.model.traverse import free_variables
from dotr.model.units import IntervalEvents
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
    TemporalOperator,
    TemporalQuery,
    operand_reads,
    visible_variables,
)
from dotr.temporal.layout.units import units_by_label

# Reasons of the events of EP-SPARQL: each part of an event, with its fact or event.
#
# Idea: in a replay the units record the parts of their events
# (`dotr.languages.epsparql.explanation.interval_records`). A part of a plain group is a fact of its
# query at the instant of its time, or a solution over the graph of a STREAM. A part of an EVENT is an
# event of its label.


@dataclass(frozen=True, eq=False)
class PartReason:
    """A part of an event of EP-SPARQL.

    Attributes:
        operand: the plain group or EVENT with this solution; None for a QUERY with SPARQL's
            solution modifiers.
        start, end: its interval in µs since 1970.
        attributes: its bound variables.
        source: the reason of its fact or event; None if it is not found, or beyond the maximum
            depth.
    """

    operand: InstantGroup | EventRead | None
    start: Micros
    end: Micros
    attributes: Mapping[Variable, Term]
    source: SourceReason | None


@dataclass(frozen=True, eq=False)
class IntervalReason(UnitReason):
    """An event of EP-SPARQL.

    Attributes:
        firing: the event.
        query: its QUERY or STREAM.
        start: the start of its interval in µs since 1970.
        parts: its parts, in the order of the text.
        absent: the optional operands without a part, each with the operator that makes it optional.
    """

    firing: UnitFiring
    query: TemporalQuery
    start: Micros
    parts: tuple[PartReason, ...]
    absent: tuple[tuple[InstantGroup | EventRead, TemporalOperator], ...]

    def below(self) -> Iterator[SourceReason]:
        """The reasons of the parts."""
        yield from (part.source for part in self.parts if part.source is not None)


@dataclass(frozen=True, eq=False)
class IntervalReasons(UnitReasonFinder):
    """Finder of the reasons of recorded events of EP-SPARQL."""

    def of(self, firing: UnitFiring, name: Term | None = None) -> IntervalReason:
        """The reasons of an event."""
        record = self.recorder.record(firing.label, IntervalRecord)
        assert record is not None, "the event is of EP-SPARQL"
        unit, query = record.unit, record.unit.query
        found = record.find(firing.time, firing.attributes, firing.graph, firing.start)
        if query.where is None:
            part = self._answer(unit, firing)
            return IntervalReason(firing, query, firing.time, (part,), ())
        if found is None:
            return IntervalReason(firing, query, firing.time, (), ())
        operands = [each.operand for each in operand_reads(query.where)]
        parts: list[PartReason] = []
        for each in found.parts:
            number = next(number for number, operand in enumerate(operands) if operand.span == each.span)
            source = self._source(unit, operands[number], unit.operands[number], each)
            parts.append(PartReason(operands[number], each.start, each.end, dict(each.attributes), source))
        present = {each.span for each in found.parts}
        absent = tuple((operand, operator) for operand, operator in _optional(query.where, None) if operand.span not in present)
        return IntervalReason(firing, query, found.start, tuple(parts), absent)

    def _answer(self, unit: LinkedQuery, firing: UnitFiring) -> PartReason:
        """The only part of a QUERY with SPARQL's modifiers: its answer at the instant."""
        source = unit.reads[0].stream
        assert isinstance(source, FactSource)
        fact = self._fact(source, firing.time, firing.attributes)
        return PartReason(None, firing.time, firing.time, firing.attributes, fact)

    def _source(
        self, unit: LinkedQuery, operand: InstantGroup | EventRead, inputs: tuple[OperandInput, ...], part: EventPart
    ) -> SourceReason | None:
        """The reasons of a part: its fact, or the event that it reads; None: not found."""
        bound = dict(part.attributes)
        names = sorted(visible_variables(operand))
        for given in inputs:
            stream = unit.reads[given.read].stream
            match stream:
                case FactSource():
                    assert given.columns is not None
                    columns = dict(zip(given.columns, names, strict=True))
                    attributes = {
                        name: bound[columns[place]]
                        for place, name in enumerate(stream.attributes)
                        if place in columns and columns[place] in bound
                    }
                    read = tuple([name for place, name in enumerate(stream.attributes) if place in columns])
                    projected = replace(stream, query=replace(stream.query, projection=read), attributes=read)
                    fact = self._fact(projected, part.end, attributes) if part.start == part.end else None
                    if fact is not None:
                        return fact
                case IntervalEvents(label, None):
                    if isinstance(operand, InstantGroup):
                        maker = next(self._graphs(label, operand, part, bound), None)
                        if maker is not None:
                            return self.follow(maker)
                case EventSource(label) | IntervalEvents(label):
                    assert isinstance(operand, EventRead)
                    attributes = {attribute: bound[name] for attribute, name in operand.attributes if name in bound}
                    maker = self._event(label, part, attributes)
                    return None if maker is None else self.follow(maker)
                case _:
                    pass
        return None

    def _fact(self, source: FactSource, time: Micros, attributes: Mapping[Variable, Term]) -> SourceReason | None:
        """The reason of a fact at a time in µs since 1970; None if its query does not return it
        there."""
        names = source.attributes
        reason = self.proofs.fact(RecordedEvent(0, time, 0, names, tuple([attributes.get(name) for name in names])), source)
        return reason if reason.evidence else None

    def _event(self, label: str, part: EventPart, attributes: Mapping[Variable, Term]) -> AnyFiring | None:
        """The event that an EVENT reads; for a unit of EP-SPARQL also its start is compared."""
        record = self.recorder.record(label, IntervalRecord)
        if record is not None:
            for each in record.at(part.end):
                if each.start == part.start and attributes.items() <= each.attributes.items():
                    return self._firing(label, each)
        return self.recorder.firing_with(label, part.end, attributes)

    def _graphs(self, label: str, operand: InstantGroup, part: EventPart, bound: Mapping[Variable, Term]) -> Iterator[AnyFiring]:
        """The events of a STREAM over whose graph a plain group has the solution `bound`."""
        record = self.recorder.record(label, IntervalRecord)
        matcher = AlgebraCompiler().compile(query_with_lengths(operand.query))
        if record is None:
            return
        for each in record.at(part.end):
            if each.start == part.start and each.graph:
                solutions = matcher.solutions(Graph(TripleIndex(), TripleIndex(each.graph)), EMPTY, EMPTY)
                visible = [{name: term for name, term in solution.items() if name in operand.visible} for solution in solutions]
                if bound in visible:
                    yield self._firing(label, each)

    def _firing(self, label: Label, event: RecordedInterval) -> UnitFiring:
        unit = units_by_label(self.recorder.program.units)[label]
        return UnitFiring(unit, label, event.end, event.attributes, event.graph, (), event.start)


def _optional(pattern: IntervalPattern, operator: TemporalOperator | None) -> Iterator[tuple[InstantGroup | EventRead, TemporalOperator]]:
    """The optional operands of a pattern, each with the operator that makes it optional."""
    match pattern:
        case InstantGroup() | EventRead():
            if operator is not None:
                yield pattern, operator
        case Combination(TemporalOperator.OPTIONALSEQ as optional, left, right):
            yield from _optional(left, optional)
            yield from _optional(right, operator)
        case Combination(TemporalOperator.EQUALSOPTIONAL as optional, left, right):
            yield from _optional(left, operator)
            yield from _optional(right, optional)
        case Combination(_, left, right):
            yield from _optional(left, operator)
            yield from _optional(right, operator)
        case Alternatives():
            return
        case Chain(inner):
            yield from _optional(inner, operator)


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
