"""Plain evaluation of one rule at one anchor, with all candidates and outcomes (semantics.md, 4).

Idea: for each clause, every event in the window is a candidate. All its conditions are evaluated
and kept, and the selection follows from their outcomes. There is no generated code and no index,
since few anchors are explained.
Invariant: over a history with the events that the engine has read, the bindings are the engine's
matches.
Cost: for each clause, its candidates times the bindings of the clauses before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final, assert_never

from dotr.engine.spec import RulePlaces
from dotr.evaluation.expressions import TermOf, term_in
from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.limits import LIMITS
from dotr.explanations.evidence.evaluations import (
    AnchorEvaluation,
    AnchorOrder,
    Binding,
    CandidateEvaluation,
    ClauseEvaluation,
    ConditionOutcome,
    ConsumedEvents,
    FinalCondition,
    FiringKeys,
    HeldBack,
    outcome_of,
)
from dotr.explanations.replay.history import History, RecordedEvent, anchor_delay_of
from dotr.explanations.replay.recording import UnfilteredSource
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Exists, Expression, TimeOf, Var
from dotr.model.places import Span
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, FactSource, Mode, Role, Rule, Window
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.traverse import conjuncts, parameters_of, transform
from dotr.temporal.layout.retention import scope_of
from dotr.temporal.matching.sums import aggregate_terms

ALL: Final = 1 << 62
"""A limit of bindings that no anchor reaches: no limit."""


@dataclass(frozen=True)
class RuleEvaluator:
    """Evaluator of one rule.

    Attributes:
        rule: the rule as it is written (of `CompiledProgram.rules`, whose queries are not shared).
        history: the events up to the anchors that are evaluated.
        consumed: the events that firings of the rule have consumed.
        clock: the form of `time(L)`.
        places: the places of the rule's conditions, for messages.
        matches: the maximum number of bindings of one branch (`limits: { matches }`).
        unfiltered: for sources whose queries have filters, the sources without them. With a `reach`
            above 1, their facts are candidates too.
    """

    rule: Rule
    history: History
    consumed: ConsumedEvents
    clock: Clock
    places: RulePlaces | None = None
    matches: int = LIMITS.matches
    unfiltered: Mapping[FactSource, UnfilteredSource] = field(default_factory=dict)

    def anchors(self, earliest: Micros, latest: Micros) -> Sequence[RecordedEvent]:
        """The events of the anchor's stream from `earliest` to `latest` (µs since 1970, both
        included), whether or not the anchor's own constraints hold.
        """
        return self.history.between(self.history.stream_of(self.rule.anchor.source), earliest, latest)

    def order_of(self, anchor: RecordedEvent) -> AnchorOrder:
        """The position of an anchor in the order in which the rule evaluates its anchors."""
        return AnchorOrder(self.stands_at(anchor), anchor.time, anchor.number)

    def stands_at(self, anchor: RecordedEvent) -> Micros:
        """The time (µs since 1970) at which an anchor is evaluated; without a delay its own."""
        return anchor.time + (anchor_delay_of(self.rule.anchor, anchor, self.clock) or 0)

    def own_conditions(self, anchor: RecordedEvent) -> tuple[ConditionOutcome, ...]:
        """The outcome of the anchor's own constraints; and an error for a value that is no
        delay."""
        role = self.rule.anchor
        start = Binding({role.label: anchor})
        outcomes = self._outcomes(0, role, anchor, start)
        if role.delayed_by is None or anchor_delay_of(role, anchor, self.clock) is not None:
            return outcomes
        value = transform(role.delayed_by, lambda part: Attribute(role.label, part.name) if isinstance(part, Var) else part)
        operands = tuple([(part, self._bound_term(part, start)) for part in parameters_of([value])])
        return (*outcomes, ConditionOutcome(value, None, operands, is_delay=True))

    def evaluate(self, anchor: RecordedEvent, reach: int = 1, most: int = ALL) -> AnchorEvaluation:
        """Evaluate the rule at an event of the anchor's stream.

        Args:
            anchor: the event.
            reach: the distance in window lengths within which events are candidates. 1: only
                events inside the window; more: events on both sides of it too.
            most: the maximum number of bindings of a clause that are followed. Of more, the last
                ones are followed, and the result is a part of the engine's.
        """
        rule = self.rule
        order, own = self.order_of(anchor), self.own_conditions(anchor)
        if any(each.holds is not True for each in own):
            return AnchorEvaluation(anchor, order, own, (), (), ())
        bindings = [Binding({rule.anchor.label: anchor}, used={rule.anchor.label: (anchor,)})]
        clauses: list[tuple[ClauseEvaluation, ...]] = []
        for place, clause in enumerate(rule.clauses, 1):
            evaluations = tuple([self._clause(place, clause, binding, order, reach) for binding in bindings])
            clauses.append(evaluations)
            bindings = [after for each in evaluations for after in each.bindings][-most:]
        final = tuple([self._final(binding) for binding in bindings])
        complete = tuple([each.binding for each in final if each.holds])
        if rule.once is None:
            return AnchorEvaluation(anchor, order, own, tuple(clauses), final, complete)
        held, fired = [], dict[FiringKeys, Binding]()
        for binding in complete:
            keys = self.firing_keys(binding)
            by = order if keys in fired else self.consumed.holding_back(keys, order, rule.once.pause)
            if by is None:
                fired[keys] = binding
            else:
                held.append(HeldBack(binding, keys, by))
        return AnchorEvaluation(anchor, order, own, tuple(clauses), final, tuple(fired.values()), tuple(held))

    def firing_keys(self, binding: Binding) -> FiringKeys:
        """The values of the keys of `once`."""
        assigned = {each.variable: each.expression for each in self.rule.assignments}
        keys = self.rule.once.keys if self.rule.once is not None else ()
        return tuple([term_in(assigned[key], self.terms_of(binding)) for key in keys])

    def consume(self, evaluation: AnchorEvaluation) -> None:
        """Record the events that the firings of an anchor consume, and what they hold back."""
        for binding in evaluation.bindings:
            if self.rule.once is not None:
                self.consumed.note_firing(self.firing_keys(binding), evaluation.order)
            for label in self.rule.consuming:
                if label != self.rule.anchor.label:
                    for event in binding.used.get(label, ()):
                        self.consumed.add(label, event, evaluation.order)

    # --- clauses ---

    def _clause(self, place: int, clause: Clause, binding: Binding, order: AnchorOrder, reach: int) -> ClauseEvaluation:
        reference, earliest, latest, length = self._window(clause, binding)
        first, last = earliest, latest
        if reach > 1:
            first, last = min(earliest, reference - reach * length), max(latest, min(order.due, reference + reach * length))
        stream = self.history.stream_of(clause.role.source)
        looked_at = self.history.between(stream, first, min(last, order.due)) if first <= last else ()
        found = [self._candidate(place, clause, each, binding, order, (reference, earliest, latest)) for each in looked_at]
        if reach > 1 and first <= last:
            found += self._filtered_out(place, clause, binding, order, (first, min(last, order.due)), (reference, earliest, latest))
            found.sort(key=lambda each: each.event.time)
        candidates = _with_choice(clause, found)
        chosen = [each.event for each in candidates if each.chosen]
        role = clause.role.label
        match clause:
            case Choose():
                branches = binding.branches * len(chosen)
                bindings = tuple(
                    [
                        replace(binding, events={**binding.events, role: each}, used={**binding.used, role: (each,)}, branches=branches)
                        for each in chosen
                    ]
                    if branches <= self.matches
                    else ()
                )
                return ClauseEvaluation(clause, binding, earliest, latest, candidates, None, bindings)
            case Absent():
                return ClauseEvaluation(clause, binding, earliest, latest, candidates, None, () if chosen else (binding,))
            case Aggregate():
                value = _aggregated(clause, chosen)
                result = {} if value is None else {clause.variable: value}
                after = replace(
                    binding,
                    aggregates={**binding.aggregates, **result},
                    results={**binding.results, role: result},
                    used={**binding.used, role: tuple(chosen)},
                )
                return ClauseEvaluation(clause, binding, earliest, latest, candidates, value, (after,))
            case _:
                assert_never(clause)

    def _filtered_out(
        self,
        place: int,
        clause: Clause,
        binding: Binding,
        order: AnchorOrder,
        looked_at: tuple[Micros, Micros],
        window: tuple[Micros, Micros, Micros],
    ) -> list[CandidateEvaluation]:
        """The candidates that the filters of the clause's query reject."""
        role = clause.role
        unfiltered = self.unfiltered.get(role.source) if isinstance(role.source, FactSource) else None
        if unfiltered is None:
            return []
        candidates = [
            self._candidate(place, clause_with_filters(clause, unfiltered), each, binding, order, window)
            for each in self.history.between(self.history.stream_of(unfiltered.source), *looked_at)
        ]
        number = len(unfiltered.filters)
        return [each for each in candidates if any(outcome.holds is not True for outcome in each.conditions[:number])]

    def filtered_out(self, earliest: Micros, latest: Micros) -> Sequence[AnchorEvaluation]:
        """Evaluations of the facts that the filters of the anchor's query reject, from `earliest`
        to `latest` (µs since 1970, both included).
        """
        source = self.rule.anchor.source
        unfiltered = self.unfiltered.get(source) if isinstance(source, FactSource) else None
        if unfiltered is None:
            return ()
        changed = replace(self, rule=replace(self.rule, anchor=role_with_filters(self.rule.anchor, unfiltered)))
        facts = changed.anchors(earliest, latest)
        return [AnchorEvaluation(each, changed.order_of(each), changed.own_conditions(each), (), (), ()) for each in facts]

    def _window(self, clause: Clause, binding: Binding) -> tuple[Micros, Micros, Micros, Micros]:
        """The reference time of a clause, the earliest and latest time of its window, both included
        (all in µs since 1970), and the length of the window in µs.
        """
        match scope_of(clause):
            case Window(interval, reference):
                at = self._reference_time(reference, binding)
                low, high = interval.bounds
                return at, at - high, at - low, max(high, 1)
            case Between(first, second):
                before, after = sorted((self._reference_time(first, binding), self._reference_time(second, binding)))
                return after, before + 1, after - 1, max(after - before, 1)
            case scope:
                assert_never(scope)

    def _reference_time(self, label: str, binding: Binding) -> Micros:
        event = binding.events[label]
        return self.stands_at(event) if label == self.rule.anchor.label else event.time

    def _candidate(
        self,
        place: int,
        clause: Clause,
        event: RecordedEvent,
        binding: Binding,
        order: AnchorOrder,
        window: tuple[Micros, Micros, Micros],
    ) -> CandidateEvaluation:
        reference, earliest, latest = window
        outside = max(earliest - event.time, event.time - latest, 0)
        return CandidateEvaluation(
            event,
            reference - event.time,
            outside,
            self._outcomes(place, clause.role, event, binding),
            self.consumed.before(clause.role.label, event, order),
            None if isinstance(clause, Choose) and clause.also else self.role_of(clause, event, binding),
            not isinstance(clause, Aggregate) or clause.attribute is None or event.attributes.get(clause.attribute) is not None,
        )

    def role_of(self, clause: Clause, event: RecordedEvent, binding: Binding) -> str | None:
        """The label under which the match has an event of a clause already; None for negations and
        aggregates."""
        if not isinstance(clause, Choose):
            return None
        origins = {self.rule.anchor.label: self.rule.anchor.origin} | {each.role.label: each.role.origin for each in self.rule.clauses}
        return next((label for label, other in binding.events.items() if other == event and origins[label] == clause.role.origin), None)

    # --- conditions ---

    def _outcomes(self, place: int, role: Role, event: RecordedEvent, binding: Binding) -> tuple[ConditionOutcome, ...]:
        if not role.constraints:
            return ()
        attributes, spans = event.attributes, self._spans(place)

        def term_of(part: Var | Attribute | TimeOf | Exists) -> Term | None:
            match part:
                case Var(name):
                    return attributes.get(name)
                case TimeOf(label) if label == role.label:
                    return time_term(event.time, self.clock)
                case _:
                    return self._bound_term(part, binding)

        return tuple([outcome_of(each, term_of, spans) for constraint in role.constraints for each in conjuncts(constraint)])

    def _final(self, binding: Binding) -> FinalCondition:
        condition = self.rule.condition
        if condition is None:
            return FinalCondition(binding, ())
        spans: Mapping[Expression, Span] = self.places.condition if self.places else {}
        return FinalCondition(binding, tuple([outcome_of(each, self.terms_of(binding), spans) for each in conjuncts(condition)]))

    def terms_of(self, binding: Binding) -> TermOf:
        """The terms of variables, attributes and times in `if` and `with`."""

        def term_of(part: Var | Attribute | TimeOf | Exists) -> Term | None:
            return binding.aggregates.get(part.name) if isinstance(part, Var) else self._bound_term(part, binding)

        return term_of

    def _bound_term(self, part: Attribute | TimeOf | Exists | Var, binding: Binding) -> Term | None:
        match part:
            case Attribute(label, name):
                if label in binding.results:
                    return binding.results[label].get(name)
                return _attribute(binding.events[label], name)
            case TimeOf(label):
                return time_term(binding.events[label].time, self.clock)
            case _:
                return None

    def _spans(self, place: int) -> Mapping[Expression, Span]:
        return self.places.roles[place].conditions if self.places else {}


def role_with_filters(role: Role, unfiltered: UnfilteredSource) -> Role:
    """A role that reads the unfiltered source, with the filters as constraints."""
    return replace(role, source=unfiltered.source, constraints=(*unfiltered.filters, *role.constraints))


def clause_with_filters(clause: Clause, unfiltered: UnfilteredSource) -> Clause:
    """A clause that reads the unfiltered source, with the filters as constraints."""
    return replace(clause, role=role_with_filters(clause.role, unfiltered))


def _attribute(event: RecordedEvent, name: Variable) -> Term | None:
    return event.values[event.names.index(name)] if name in event.names else None


def _with_choice(clause: Clause, candidates: Sequence[CandidateEvaluation]) -> tuple[CandidateEvaluation, ...]:
    """The candidates, with `chosen` set for those that the clause selects, matches or
    aggregates."""
    fitting = [place for place, each in enumerate(candidates) if not each.failures]
    if isinstance(clause, Choose) and clause.mode is not Mode.EACH:
        count = 1 if clause.count is None else clause.count
        fitting = fitting[-count:] if clause.mode is Mode.LAST else fitting[:count]
    marked = set(fitting)
    return tuple([replace(each, chosen=True) if place in marked else each for place, each in enumerate(candidates)])


def _aggregated(clause: Aggregate, chosen: Sequence[RecordedEvent]) -> Term | None:
    """The value of an aggregate; over no events, COUNT and SUM are 0, the others have no value."""
    if clause.attribute is None:
        return aggregate_terms("COUNT", False, ['""'] * len(chosen))
    terms = [_attribute(each, clause.attribute) for each in chosen]
    return aggregate_terms(clause.function.upper(), clause.distinct, terms, clause.fraction)
