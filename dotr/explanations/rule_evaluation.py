"""Plain evaluation of one rule at one anchor, with everything that was looked at (semantics.md, 4).

Idea: clause by clause, every event in reach is a candidate; each condition of it is evaluated and
kept, and selection follows from the outcomes. Nothing is generated and nothing is indexed, since
few anchors are ever explained.
Invariant: for a history that holds what the engine has seen, the bindings are the engine's matches.
Cost: proportional to the candidates in reach times the bindings that reach a clause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from dotr.explanations.conditions import ConditionOutcome, TermOf, outcome_of
from dotr.explanations.evaluations import (
    AnchorEvaluation,
    AnchorOrder,
    Binding,
    CandidateEvaluation,
    ClauseEvaluation,
    ConsumedEvents,
    FinalCondition,
)
from dotr.explanations.history import History, RecordedEvent
from dotr.explanations.unfiltered_queries import UnfilteredSource
from dotr.expressions import AGGREGATES
from dotr.expressions.times import time_term
from dotr.joins.limits import LIMITS
from dotr.layout.retention import scope_of
from dotr.model.algebra import Attribute, Exists, Expression, TimeOf, Var
from dotr.model.places import Span
from dotr.model.rule_places import RulePlaces
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, FactSource, Mode, Role, Rule, Window
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock, Micros
from dotr.model.traverse import conjuncts

ALL: Final = 1 << 62
"""A number of bindings that no anchor has."""


@dataclass(frozen=True)
class RuleEvaluator:
    """Evaluator of one rule.

    Attributes:
        rule: the rule as it is written (of `CompiledProgram.rules`, whose queries are not shared).
        history: the events seen up to the anchors that are evaluated.
        consumed: what firings of the rule have used up.
        clock: the form of `time(L)`.
        places: the places of the rule's conditions, for messages.
        unfiltered: sources without filters of their queries, whose facts are candidates beyond the
            rule's own where candidates are looked for in more than one length of the window.
        matches: the number of bindings of one branch from which on the engine gives up.
    """

    rule: Rule
    history: History
    consumed: ConsumedEvents
    clock: Clock
    places: RulePlaces | None = None
    matches: int = LIMITS.matches
    unfiltered: Mapping[FactSource, UnfilteredSource] = field(default_factory=dict)

    def anchors(self, earliest: Micros, latest: Micros) -> Sequence[RecordedEvent]:
        """The events of the anchor's stream with times in µs from the earliest to the latest, both
        included. Those whose own constraints fail are among them.
        """
        return self.history.between(self.history.stream_of(self.rule.anchor.source), earliest, latest)

    def order_of(self, anchor: RecordedEvent) -> AnchorOrder:
        """The place of an anchor in the order in which the rule takes its anchors."""
        return AnchorOrder(anchor.time + self.rule.anchor.delay, anchor.number)

    def own_conditions(self, anchor: RecordedEvent) -> tuple[ConditionOutcome, ...]:
        """The outcome of the anchor's own constraints."""
        start = Binding({self.rule.anchor.label: anchor})
        return self._outcomes(0, self.rule.anchor, anchor, start)

    def evaluate(self, anchor: RecordedEvent, reach: int = 1, most: int = ALL) -> AnchorEvaluation:
        """Evaluate the rule at an event of the anchor's stream.

        Args:
            anchor: the event.
            reach: how far candidates are looked for, in lengths of the window. 1: those inside
                the window; more: those beyond it and at its other side too.
            most: the number of bindings of a clause that are followed. Where there are more, the
                last ones are, and the result is a part of what the engine finds.
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
        return AnchorEvaluation(anchor, order, own, tuple(clauses), final, tuple([each.binding for each in final if each.holds]))

    def consume(self, evaluation: AnchorEvaluation) -> None:
        """Note what the firings of an anchor use up."""
        for binding in evaluation.bindings:
            for label in self.rule.consuming:
                if label != self.rule.anchor.label:
                    for event in binding.used.get(label, ()):
                        self.consumed.add(label, event, evaluation.order)

    # --- clauses ---

    def _clause(self, place: int, clause: Clause, binding: Binding, order: AnchorOrder, reach: int) -> ClauseEvaluation:
        reference, earliest, latest, length = self._window(clause, binding)
        first, last = earliest, latest
        if reach > 1:
            first, last = min(earliest, reference - reach * length), max(latest, min(order.stands, reference + reach * length))
        stream = self.history.stream_of(clause.role.source)
        looked_at = self.history.between(stream, first, min(last, order.stands)) if first <= last else ()
        found = [self._candidate(place, clause, each, binding, order, (reference, earliest, latest)) for each in looked_at]
        if reach > 1 and first <= last:
            found += self._filtered_out(place, clause, binding, order, (first, min(last, order.stands)), (reference, earliest, latest))
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
        """The candidates that the filters of the clause's query turn away."""
        role = clause.role
        wide = self.unfiltered.get(role.source) if isinstance(role.source, FactSource) else None
        if wide is None:
            return []
        candidates = [
            self._candidate(place, wide_clause(clause, wide), each, binding, order, window)
            for each in self.history.between(self.history.stream_of(wide.source), *looked_at)
        ]
        number = len(wide.filters)
        return [each for each in candidates if any(outcome.holds is not True for outcome in each.conditions[:number])]

    def filtered_out(self, earliest: Micros, latest: Micros) -> Sequence[AnchorEvaluation]:
        """Evaluations of the facts that the filters of the anchor's query turn away, with times in
        µs from the earliest to the latest, both included.
        """
        source = self.rule.anchor.source
        wide = self.unfiltered.get(source) if isinstance(source, FactSource) else None
        if wide is None:
            return ()
        changed = replace(self, rule=replace(self.rule, anchor=wide_role(self.rule.anchor, wide)))
        facts = changed.anchors(earliest, latest)
        return [AnchorEvaluation(each, changed.order_of(each), changed.own_conditions(each), (), (), ()) for each in facts]

    def _window(self, clause: Clause, binding: Binding) -> tuple[Micros, Micros, Micros, Micros]:
        """The reference time of a clause, the earliest and the latest time inside, and the length
        of the window, in µs.
        """
        match scope_of(clause):
            case Window(interval, reference):
                at = self._stands(reference, binding)
                low, high = interval.bounds
                return at, at - high, at - low, max(high, 1)
            case Between(first, second):
                before, after = sorted((self._stands(first, binding), self._stands(second, binding)))
                return after, before + 1, after - 1, max(after - before, 1)
            case scope:
                assert_never(scope)

    def _stands(self, label: str, binding: Binding) -> Micros:
        anchor = self.rule.anchor
        return binding.events[label].time + (anchor.delay if label == anchor.label else 0)

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
            self._taken(clause, event, binding),
            not isinstance(clause, Aggregate) or clause.attribute is None or event.attributes.get(clause.attribute) is not None,
        )

    def _taken(self, clause: Clause, event: RecordedEvent, binding: Binding) -> str | None:
        """The label under which the match has the event already, of clauses that choose one."""
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


def wide_role(role: Role, wide: UnfilteredSource) -> Role:
    """The role with the filters of its query as constraints."""
    return replace(role, source=wide.source, constraints=(*wide.filters, *role.constraints))


def wide_clause(clause: Clause, wide: UnfilteredSource) -> Clause:
    """The clause with the filters of its query as constraints."""
    return replace(clause, role=wide_role(clause.role, wide))


def _attribute(event: RecordedEvent, name: Variable) -> Term | None:
    return event.values[event.names.index(name)] if name in event.names else None


def _with_choice(clause: Clause, candidates: Sequence[CandidateEvaluation]) -> tuple[CandidateEvaluation, ...]:
    """The candidates, marked where the clause chooses them, refuses for them, or aggregates them."""
    fitting = [place for place, each in enumerate(candidates) if not each.failures]
    if isinstance(clause, Choose) and clause.mode is not Mode.EACH:
        count = 1 if clause.count is None else clause.count
        fitting = fitting[-count:] if clause.mode is Mode.LAST else fitting[:count]
    marked = set(fitting)
    return tuple([replace(each, chosen=True) if place in marked else each for place, each in enumerate(candidates)])


def _aggregated(clause: Aggregate, chosen: Sequence[RecordedEvent]) -> Term | None:
    """The value of an aggregate; of no events count and sum are 0, the others have none."""
    if clause.attribute is None:
        terms: list[Term | None] = ['""'] * len(chosen)
    else:
        terms = [_attribute(each, clause.attribute) for each in chosen]
    function = clause.function.upper()
    return AGGREGATES[function](terms, clause.distinct and clause.attribute is not None) if terms or function != "AVG" else None
