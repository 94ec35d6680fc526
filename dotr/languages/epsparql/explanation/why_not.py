"""Explanation of a unit of EP-SPARQL without an event.

Idea: each part of its pattern (an operand, an operator, the end of a chain) runs as a unit of its
own beside it in a replay, so that the engine counts the solutions of each part. The first part
without a solution, inner ones first, is the cause; for an operator the nearest miss is shown.
Example: of `A SEQ B` the parts are `A`, `B` and the operator. If `A` and `B` have solutions and SEQ
has none, the pair of solutions that is closest to a sequence is shown.
Cost: one replay with all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from dotr.engine.replay import CachedReplay, Replay
from dotr.evaluation.expressions import has_terms, term_in
from dotr.evaluation.expressions.values.times import format_time, time_term
from dotr.explanations.evidence.evaluations import truth_in
from dotr.explanations.missing.fact import explain_missing_rows
from dotr.explanations.replay.firings import FiringRecorder, UnitFiring
from dotr.explanations.text.narrative import Narrative, WhyNot, sentences
from dotr.explanations.text.reason_text import with_values
from dotr.explanations.text.tree import counted
from dotr.explanations.why_not.survey import Question
from dotr.languages.epsparql.explanation.interval_records import IntervalRecord, RecordedInterval
from dotr.languages.epsparql.interval_keys import LinkedQuery, OperandInput
from dotr.model.algebra import Expression, Var
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import LAST_MICRO, Micros
from dotr.syntax.rendering import TermWriter, duration_text
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
    SelectedSolutions,
    TemporalOperator,
    TemporalQuery,
    operand_reads,
    visible_variables,
)
from dotr.temporal.layout.units import StreamUnit, UnitRead

MakeUnit: TypeAlias = Callable[[TemporalQuery, tuple[UnitRead, ...], tuple[tuple[OperandInput, ...], ...]], StreamUnit]
"""A unit of a query with the streams that it reads (`LinkedQuery`)."""

_MOST_LEFT: Final = 2_000
_MOST_RIGHT: Final = 50
"""Number of solutions of either side that are compared for the nearest miss, the latest ones."""


class _PatternPart(NamedTuple):
    """A part of a pattern as a unit of its own."""

    label: Label
    pattern: IntervalPattern
    unit: StreamUnit


def why_no_interval(replay: Replay, unit: LinkedQuery, make_unit: MakeUnit, question: Question) -> WhyNot:
    """The reason for which a unit of EP-SPARQL produced no event.

    Args:
        replay: the program and its stream.
        unit: the unit.
        make_unit: makes the units of the parts of its pattern.
        question: the requested times, and the attributes of the events.

    >>> from dotr.commands.why.questions import open_replays
    >>> [replay] = open_replays("tests/explanations/temporal.yaml", "1")
    >>> unit = next(each for each in replay.program.units if each.name == "Crowd")
    >>> print(unit.why_not(replay, "Crowd", Question()).lines()[0])
    Crowd: 1 event
    """
    return _IntervalInquiry(replay, unit, make_unit, question).answer()


class _IntervalInquiry:
    """Search for the answer to one question."""

    def __init__(self, replay: Replay, unit: LinkedQuery, make_unit: MakeUnit, question: Question) -> None:
        self._replay = CachedReplay(replay).replay
        self._parts = list(_parts(unit, make_unit))
        self._label = unit.name
        self._question = question
        self._terms = TermWriter(replay.prefixes)

    def answer(self) -> WhyNot:
        """Run the replay, and build the answer."""
        parts = self._parts
        recorder = FiringRecorder.of(self._replay, [self._label], [part.unit for part in parts])
        events = sum(self._is_requested(each) for firings in recorder.run() for each in firings if isinstance(each, UnitFiring))
        if events:
            return self._answer(events)
        if not parts:
            return self._answer(0, stop="its query has no answer at any instant")
        solutions = {part.label: self._solutions(recorder, part) for part in parts}
        failing_part = _failing_part(parts[-1].pattern, {part.pattern for part in parts if solutions[part.label]})
        stop = "the whole has solutions, none at the times or with the attributes asked about"
        if failing_part is not None:
            stop = self._stop(failing_part, parts, solutions)
        return self._answer(0, [self._line(part.pattern, solutions[part.label]) for part in parts], stop)

    def _answer(self, events: int, parts: Sequence[str] = (), stop: str = "") -> WhyNot:
        """The answer, with a line for each part of the pattern; `stop`: the reason for which the
        first part without a solution has none."""
        head = f"{self._label}: {counted(events, 'event')}"
        below = (*sentences(parts), Narrative(below=(Narrative(stop),)))
        return WhyNot.of(self._replay.case, self._label, events > 0, head, below, events=events, parts=parts, stop=stop or None)

    def _solutions(self, recorder: FiringRecorder, part: _PatternPart) -> list[RecordedInterval]:
        """The solutions of a part up to the last requested time."""
        record = recorder.record(part.label, IntervalRecord)
        assert record is not None
        last = LAST_MICRO if self._question.last is None else self._question.last
        return [each for each in record.events if each.end <= last and self._has_terms(each)]

    def _has_terms(self, solution: RecordedInterval) -> bool:
        """True unless a solution has another term for a requested variable."""
        found = solution.attributes
        return has_terms(found, [(name, term) for name, term in self._question.where if name in found])

    def _is_requested(self, event: UnitFiring) -> bool:
        return event.label == self._label and self._question.includes(event.time, event.attributes)

    # --- texts ---

    def _line(self, pattern: IntervalPattern, solutions: Sequence[RecordedInterval]) -> str:
        """A part with its number of solutions."""
        match pattern:
            case InstantGroup() | EventRead():
                text, noun = one_line(pattern.span), "solution"
            case Combination(operator):
                text, noun = operator.value, "combination"
            case Chain():
                text, noun = "after its BINDs, FILTERs and WITHIN", "solution"
            case Alternatives():
                text, noun = "UNION", "solution"
        last = f", the last at {self._time(solutions[-1].end)}" if solutions else ""
        return f"{text}: {counted(len(solutions), noun)}{last}"

    def _stop(self, pattern: IntervalPattern, parts: Sequence[_PatternPart], solutions: dict[Label, list[RecordedInterval]]) -> str:
        """The reason for which a part has no solution."""
        match pattern:
            case EventRead(label):
                return f"there is no event {label} then: {self._replay.why_not_command(label)}"
            case InstantGroup():
                question, where = self._question, [each for each in self._question.where if each[0] in pattern.visible]
                last = question.last
                missing = explain_missing_rows(self._replay, "The group", pattern.query, self._terms, last=last, where=where)
                return "no instant has a solution" if missing is None else "; ".join([missing.summary, *map(str.strip, missing.lines())])
            case Combination():
                sides = [next(solutions[part.label] for part in parts if part.pattern == side) for side in (pattern.left, pattern.right)]
                return self._miss(pattern, *sides)
            case Chain(inner):
                return self._end_of_chain(pattern, next(solutions[part.label] for part in parts if part.pattern == inner))
            case Alternatives():
                return ""

    def _miss(self, pattern: Combination, left: Sequence[RecordedInterval], right: Sequence[RecordedInterval]) -> str:
        """A sentence on the pair of solutions that is nearest to a combination."""
        common = sorted({*visible_variables(pattern.left)} & {*visible_variables(pattern.right)})
        pairs = [(one, other) for other in right[-_MOST_RIGHT:] for one in left[-_MOST_LEFT:]]
        agreeing = [pair for pair in pairs if all(_agree(*pair, name) for name in common)]
        operator = pattern.operator
        apart = [pair for pair in pairs if _is_related(operator, *pair)]
        if not any(one.end != other.end for one, other in agreeing) and (apart or not agreeing):
            one, other = min(apart or pairs, key=lambda pair: (_disagreeing(pair[0], pair[1], common), abs(pair[1].start - pair[0].end)))
            different = ", ".join(f"?{name}" for name in common if not _agree(one, other, name))
            return f"{self._pair(one, other)} disagree in {different}"
        related = [(one, other) for one, other in agreeing if _is_related(operator, one, other)]
        if not related:
            one, other = min(agreeing, key=lambda pair: abs(pair[1].start - pair[0].end))
            return f"{self._pair(one, other)}: {_RELATION[operator]}"
        one, other = min(related, key=lambda pair: _length(*pair))
        length = duration_text(_length(one, other))
        if pattern.bound is not None and _length(one, other) > pattern.bound:
            return f"the nearest are {self._pair(one, other)}: {length} in all, and the bound is {duration_text(pattern.bound)}"
        return f"{self._pair(one, other)} fit; each was used by another combination, or a condition turns it away"

    def _end_of_chain(self, chain: Chain, solutions: Sequence[RecordedInterval]) -> str:
        """The FILTER or WITHIN that turns a solution away, of the latest with the fewest that do."""
        found = [self._turned_away(chain, each) for each in solutions[-_MOST_LEFT:]]
        best = min(reversed(found), key=len, default=[])
        return best[0] if best else "the end of the chain turns every solution away"

    def _turned_away(self, chain: Chain, solution: RecordedInterval) -> list[str]:
        """A text for each FILTER and the WITHIN that a solution does not fulfil."""
        length, clock = solution.end - solution.start, self._replay.clock
        times = {START: time_term(solution.start, clock), END: time_term(solution.end, clock), DURATION: duration_term(length)}
        values: dict[Expression, Term | None] = {Var(name): term for name, term in {**solution.attributes, **times}.items()}

        def value(part: object) -> Term | None:
            return values.get(part) if isinstance(part, Var) else None

        for name, expression in chain.bindings:
            values[Var(name)] = term_in(expression, value)
        texts = []
        for each in chain.filters:
            holds = truth_in(each, value)
            if holds is not True:
                text = f"FILTER({with_values(each, values, self._terms)})"
                texts.append(f"{self._interval(solution)}: {text} {'errs' if holds is None else 'is false'}")
        if chain.within is not None and length > chain.within:
            texts.append(f"{self._interval(solution)}: {duration_text(length)} in all, and WITHIN is {duration_text(chain.within)}")
        return texts

    def _pair(self, one: RecordedInterval, other: RecordedInterval) -> str:
        return f"{self._interval(one)} and {self._interval(other)}"

    def _interval(self, each: RecordedInterval) -> str:
        values = ", ".join(f"{name} {self._terms.text(term)}" for name, term in each.attributes.items())
        at = f"at {self._time(each.end)}" if each.start == each.end else f"from {self._time(each.start)} to {self._time(each.end)}"
        return f"{values} {at}".strip()

    def _time(self, time: Micros) -> str | int:
        return format_time(time, self._replay.clock)


_RELATION: Final = {
    TemporalOperator.SEQ: "the left one does not end before the right one starts",
    TemporalOperator.OPTIONALSEQ: "the left one does not end before the right one starts",
    TemporalOperator.EQUALS: "their intervals differ",
    TemporalOperator.EQUALSOPTIONAL: "their intervals differ",
    TemporalOperator.AND: "",
}


def _is_related(operator: TemporalOperator, one: RecordedInterval, other: RecordedInterval) -> bool:
    match operator:
        case TemporalOperator.SEQ | TemporalOperator.OPTIONALSEQ:
            return one.end < other.start
        case TemporalOperator.EQUALS | TemporalOperator.EQUALSOPTIONAL:
            return (one.start, one.end) == (other.start, other.end)
        case TemporalOperator.AND:
            return True


def _agree(one: RecordedInterval, other: RecordedInterval, name: Variable) -> bool:
    """True unless two solutions bind a variable to different terms."""
    terms = {each.attributes[name] for each in (one, other) if name in each.attributes}
    return len(terms) < 2


def _disagreeing(one: RecordedInterval, other: RecordedInterval, names: Sequence[Variable]) -> int:
    """The number of variables that two solutions bind to different terms."""
    return sum(not _agree(one, other, name) for name in names)


def _failing_part(pattern: IntervalPattern, with_solutions: set[IntervalPattern]) -> IntervalPattern | None:
    """The innermost part without a solution on which the whole depends; None: the whole has one."""
    if pattern in with_solutions:
        return None
    needed: tuple[IntervalPattern, ...] = ()
    match pattern:
        case Combination(TemporalOperator.OPTIONALSEQ, _, right):
            needed = (right,)
        case Combination(TemporalOperator.EQUALSOPTIONAL, left, _):
            needed = (left,)
        case Combination(_, left, right):
            needed = (left, right)
        case Chain(inner):
            needed = (inner,)
        case _:
            pass
    return next((found for each in needed if (found := _failing_part(each, with_solutions)) is not None), pattern)


def _length(one: RecordedInterval, other: RecordedInterval) -> Micros:
    return max(one.end, other.end) - min(one.start, other.start)


def _parts(unit: LinkedQuery, make_unit: MakeUnit) -> Iterator[_PatternPart]:
    """The parts of a unit's pattern, inner ones first, each as a unit."""
    where = unit.query.where
    if where is None:
        return
    operands = [each.operand.span for each in operand_reads(where)]
    for number, pattern in enumerate(_patterns(where), 1):
        here = [operands.index(each.operand.span) for each in operand_reads(pattern)]
        columns = tuple((name, None) for name in visible_variables(pattern))
        label = f"{unit.name} part {number}"
        query = replace(unit.query, label=label, form=SelectedSolutions(pattern, columns, False))
        yield _PatternPart(label, pattern, make_unit(query, unit.reads, tuple(unit.operands[each] for each in here)))


def _patterns(pattern: IntervalPattern) -> Iterator[IntervalPattern]:
    match pattern:
        case InstantGroup() | EventRead():
            pass
        case Combination(_, left, right):
            yield from _patterns(left)
            yield from _patterns(right)
        case Alternatives(branches):
            for branch in branches:
                yield from _patterns(branch)
        case Chain(inner):
            yield from _patterns(inner)
    yield pattern
