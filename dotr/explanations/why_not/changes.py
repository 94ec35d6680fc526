"""Single changes of a rule with which it fires at an anchor: a window, a bound, a condition moved.

Idea: the nearest miss proposes the change, such as `?v >= 75` for `?v > 75` and a value of 75.
Invariant: every proposed change is verified: the changed rule is evaluated at the anchor and fires.
Cost: one evaluation of the rule at the anchor for each change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from dotr.evaluation.expressions import term_in
from dotr.explanations.evidence.evaluations import (
    AnchorEvaluation,
    CandidateEvaluation,
    ClauseEvaluation,
    ConditionOutcome,
    FinalCondition,
    truth_in,
)
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator, clause_with_filters, role_with_filters
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.text.event_text import EventWriter, distance_text
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Const, Expression, TimeOf, Var, chain
from dotr.model.rules import Absent, Choose, Clause, FactSource, Mode, Role, Rule, Window
from dotr.model.time import Clock, Interval, Micros
from dotr.model.traverse import conjuncts, parameters_of, subexpressions, transform
from dotr.syntax.rendering import duration_text
from dotr.temporal.layout.retention import scope_of

_LOOSER: Final = {">": ">=", ">=": ">=", "<": "<=", "<=": "<="}
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class MovedCondition:
    """A condition of `if` as a constraint of the clause that selects the event.

    Attributes:
        clause: the clause with the added constraint.
        place: the position of the clause in the rule, from 1 on.
        chosen: the event that the clause selects without the constraint.
        other: the event that it selects with the constraint.
        moved: the condition as a constraint of the clause.
    """

    clause: Choose
    place: int
    chosen: RecordedEvent
    other: RecordedEvent
    moved: Expression


class Proposal(NamedTuple):
    """A change in the rule's syntax; `halves`: it cuts a bound or a window by more than half, so
    that it proposes another rule rather than a correction."""

    text: str
    halves: bool = False


def in_order(proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """The first proposal and, if that cuts a bound by more than half, the first other one before
    it.

    >>> three, four, seventy = Proposal("?v >= 3", True), Proposal("?v >= 4", True), Proposal("?v >= 70")
    >>> in_order([three, four, seventy, Proposal("?v >= 60")]) == (seventy, three), in_order([seventy, three]) == (seventy,)
    (True, True)
    """
    found: list[Proposal] = []
    for each in proposals:
        if not each.halves:
            return each, *found
        found = found or [each]
    return tuple(found)


@dataclass(frozen=True)
class Changes:
    """Search for single changes at one anchor."""

    evaluator: RuleEvaluator
    writer: EventWriter

    @property
    def _rule(self) -> Rule:
        return self.evaluator.rule

    def _fires(self, rule: Rule, anchor: RecordedEvent) -> AnchorEvaluation | None:
        """The evaluation of a changed rule at an anchor; None where it does not fire."""
        found = replace(self.evaluator, rule=rule).evaluate(anchor, most=_MOST)
        return found if found.fired else None

    # --- windows and bounds of clauses ---

    def of_candidate(
        self, anchor: RecordedEvent, place: int, clause: ClauseEvaluation, candidate: CandidateEvaluation
    ) -> Iterator[Proposal]:
        """The first change of a clause with which a candidate is chosen, if one suffices."""
        if candidate.failures != 1:
            return
        tried = self._of_window(clause, candidate) if candidate.outside else self._of_bound(clause, candidate)
        label = clause.clause.role.label
        for proposal, changed in tried:
            found = self._fires(_with_clause(self._rule, place, changed), anchor)
            if found is not None and any(each.events.get(label) == candidate.event for each in found.bindings):
                yield proposal
                return

    def _of_window(self, clause: ClauseEvaluation, candidate: CandidateEvaluation) -> Iterator[tuple[Proposal, Clause]]:
        scope, clock = scope_of(clause.clause), self.evaluator.clock
        if not isinstance(scope, Window) or candidate.distance < 0:
            return
        interval = scope.interval
        low, high = interval.bounds
        if candidate.distance > high:
            changed = replace(interval, high=candidate.distance, high_closed=True)
        elif candidate.distance < low:
            changed = replace(interval, low=candidate.distance, low_closed=True)
        else:
            return
        yield Proposal(within_text(changed, clock, interval)), _with_window(clause.clause, replace(scope, interval=changed))

    def _of_bound(self, clause: ClauseEvaluation, candidate: CandidateEvaluation) -> Iterator[tuple[Proposal, Clause]]:
        source = clause.clause.role.source
        unfiltered = self.evaluator.unfiltered.get(source) if isinstance(source, FactSource) else None
        for outcome in candidate.failing:
            looser = looser_bound(outcome)
            if looser is not None:
                filtered = unfiltered is not None and outcome.expression in unfiltered.filters
                before = clause_with_filters(clause.clause, unfiltered) if unfiltered is not None and filtered else clause.clause
                changed = replace(before, role=_with_constraint(before.role, outcome.expression, looser))
                yield Proposal(self.writer.expression(looser), halves_bound(outcome.expression, looser)), changed

    # --- negations ---

    def of_refusal(self, anchor: RecordedEvent, place: int, clause: ClauseEvaluation) -> Iterator[Proposal]:
        """The windows of a negation without the events that it matches: a shorter one, and one that
        begins later."""
        scope, clock = scope_of(clause.clause), self.evaluator.clock
        if not isinstance(clause.clause, Absent) or not isinstance(scope, Window):
            return
        interval, distances = scope.interval, [each.distance for each in clause.chosen]
        nearest, farthest = min(distances), max(distances)
        shorter = replace(interval, high=nearest, high_closed=False)
        tried = [shorter]
        if interval.low == 0 and any(each.event == anchor for each in clause.chosen):  # `[0, 10 min)`, as in the language's guide
            tried = [replace(shorter, low_closed=True), shorter]
        later = [replace(interval, low=farthest, low_closed=False)] if farthest < interval.high else []
        for several in (tried, later):
            for changed in several:
                if changed.bounds[0] > changed.bounds[1]:
                    continue
                rule = _with_clause(self._rule, place, _with_window(clause.clause, replace(scope, interval=changed)))
                if self._fires(rule, anchor):
                    halves = 2 * (changed.high - changed.low) < interval.high - interval.low
                    yield Proposal(within_text(changed, clock, interval), halves)
                    break

    # --- the anchor's own constraints, and `if` ---

    def of_anchor(self, anchor: RecordedEvent, failing: ConditionOutcome) -> Iterator[Proposal]:
        """The bound with which a fact is an anchor and the rule fires, if one suffices."""
        looser = looser_bound(failing)
        if looser is None:
            return
        source = self._rule.anchor.source
        unfiltered = self.evaluator.unfiltered.get(source) if isinstance(source, FactSource) else None
        filtered = unfiltered is not None and failing.expression in unfiltered.filters
        before = role_with_filters(self._rule.anchor, unfiltered) if unfiltered is not None and filtered else self._rule.anchor
        role = _with_constraint(before, failing.expression, looser)
        if self._fires(replace(self._rule, anchor=role), anchor):
            yield Proposal(self.writer.expression(looser), halves_bound(failing.expression, looser))

    def of_final(self, anchor: RecordedEvent, failing: ConditionOutcome) -> Iterator[Proposal]:
        """The bound in `if` with which the rule fires, if one suffices."""
        looser = looser_bound(failing)
        if looser is None or self._rule.condition is None:
            return
        parts = [looser if each == failing.expression else each for each in conjuncts(self._rule.condition)]
        changed = replace(self._rule, condition=_conjunction(parts))
        if self._fires(changed, anchor):
            yield Proposal(self.writer.expression(looser))

    def moved(self, evaluation: AnchorEvaluation, final: FinalCondition) -> MovedCondition | None:
        """A condition of `if` with which the rule fires once it is a constraint of a `last` or
        `first` clause; None: there is none.
        """
        failing = [each.expression for each in final.conditions if each.holds is not True]
        rule = self._rule
        for place, clause in reversed(list(enumerate(rule.clauses, 1))):
            if not isinstance(clause, Choose) or clause.mode is Mode.EACH or clause.count is not None:
                continue
            label = clause.role.label
            before = {rule.anchor.label, *(each.role.label for each in rule.clauses[: place - 1]), label}
            if not all(_labels(each) <= before and label in _labels(each) for each in failing):
                continue
            moved = [solved(_own(each, label)) for each in failing]
            changed_clause = replace(clause, role=replace(clause.role, constraints=(*clause.role.constraints, *moved)))
            kept = [each for each in conjuncts(rule.condition) if each not in failing] if rule.condition is not None else []
            changed = replace(_with_clause(rule, place, changed_clause), condition=_conjunction(kept))
            found = self._fires(changed, evaluation.anchor)
            if found is not None:
                other = found.bindings[-1].events[label]
                return MovedCondition(changed_clause, place, final.binding.events[label], other, _present(_conjunction(moved)))
        return None


_MOST: Final = 200
"""Maximum number of bindings of a clause that the evaluation of a change follows."""


def within_text(interval: Interval, clock: Clock, written: Interval) -> str:
    """The text of a window; a bound that the written window has keeps its form.

    >>> written = Interval(0, 120_000_000, False, True)
    >>> within_text(replace(written, high=132_000_000), Clock(), written), within_text(replace(written, low_closed=True), Clock(), written)
    ('within 132 s', 'within [0, 2 min]')
    """

    def length(micros: Micros) -> str:
        return duration_text(micros) if micros in (0, written.low, written.high) else distance_text(micros, clock)

    if interval.low == 0 and not interval.low_closed and interval.high_closed:
        return f"within {length(interval.high)}"
    opened, closed = "[" if interval.low_closed else "(", "]" if interval.high_closed else ")"
    return f"within {opened}{length(interval.low)}, {length(interval.high)}{closed}"


def looser_bound(outcome: ConditionOutcome) -> Expression | None:
    """The tightest comparison of the same kind that holds: `?v >= 70` for `?v > 75` and 70.

    None unless the outcome is false and compares with a constant by <, <=, > or >=.

    >>> from dotr.model.terms import XSD
    >>> seventy = f'"70"^^<{XSD}integer>'
    >>> above = Call(">", (Var("v"), Const(f'"75"^^<{XSD}integer>')))
    >>> looser_bound(ConditionOutcome(above, False, ((Var("v"), seventy),))) == Call(">=", (Var("v"), Const(seventy)))
    True
    """
    terms = dict(outcome.operands)
    match outcome.expression:
        case Call(function, (left, Const())) if function in _LOOSER and outcome.holds is False:
            term = term_in(left, terms.get)
            return None if term is None else Call(_LOOSER[function], (left, Const(term)))
        case Call(function, (Const(), right)) if function in _LOOSER and outcome.holds is False:
            term = term_in(right, terms.get)
            return None if term is None else Call(_LOOSER[function], (Const(term), right))
        case _:
            return None


def halves_bound(written: Expression, looser: Expression) -> bool:
    """True if the constant of a comparison is cut by more than half.

    >>> bounds = [Call(">", (Var("v"), Const(f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'))) for number in (80, 40, 39)]
    >>> [halves_bound(bounds[0], bound) for bound in bounds]
    [False, False, True]
    """
    assert isinstance(written, Call)
    assert isinstance(looser, Call)
    [(before, after)] = [(a, b) for a, b in zip(written.arguments, looser.arguments, strict=True) if isinstance(a, Const)]
    two = Const('"2"^^<http://www.w3.org/2001/XMLSchema#integer>')
    size = Call("<", (Call("*", (two, Call("ABS", (after,)))), Call("ABS", (before,))))
    return truth_in(size, lambda _: None) is True


def clause_text(clause: Choose, writer: EventWriter) -> str:
    """A clause without its window: `last Temp as Before [ FILTER(?room = Now.?room) ]`."""
    role = clause.role
    conditions = " && ".join(writer.expression(each) for each in role.constraints)
    label = role.origin if role.origin == role.label else f"{role.origin} as {role.label}"
    return f"{clause.mode.value} {label}" + (f" [ FILTER({conditions}) ]" if conditions else "")


def solved(condition: Expression) -> Expression:
    """A comparison of sums, solved for its only variable; other conditions are unchanged.

    >>> ten = Const('"10"')
    >>> solved(Call(">=", (Call("-", (Attribute("Now", "v"), Var("v"))), ten)))
    Call(function='<=', arguments=(Var(name='v'), Call(function='-', arguments=(Attribute(label='Now', name='v'), Const(term='"10"')))))
    """
    if not isinstance(condition, Call) or condition.function not in _MIRRORED or len(condition.arguments) != 2:
        return condition
    function, (left, right) = condition.function, condition.arguments
    if sum(isinstance(part, Var) for part in subexpressions(condition)) != 1:
        return condition
    if not any(isinstance(part, Var) for part in subexpressions(left)):
        function, left, right = _MIRRORED[function], right, left
    while not isinstance(left, Var):
        match left:
            case Call("-", (first, second)) if _has_variable(second):
                function, left, right = _MIRRORED[function], second, Call("-", (first, right))
            case Call("-", (first, second)):
                left, right = first, Call("+", (second, right))
            case Call("+", (first, second)) if _has_variable(first):
                left, right = first, Call("-", (right, second))
            case Call("+", (first, second)):
                left, right = second, Call("-", (right, first))
            case _:
                return condition
    return Call(function, (left, right))


def _has_variable(expression: Expression) -> bool:
    return any(isinstance(part, Var) for part in subexpressions(expression))


def _own(condition: Expression, label: str) -> Expression:
    """A condition of `if` as a constraint of one label."""
    return transform(condition, lambda part: Var(part.name) if isinstance(part, Attribute) and part.label == label else part)


def _labels(condition: Expression) -> set[str]:
    """The labels that a condition names; `?`, which is no label, for a variable of an aggregate."""
    return {part.label if isinstance(part, Attribute | TimeOf) else "?" for part in parameters_of([condition])}


def _with_clause(rule: Rule, place: int, clause: Clause) -> Rule:
    return replace(rule, clauses=(*rule.clauses[: place - 1], clause, *rule.clauses[place:]))


def _with_window(clause: Clause, window: Window) -> Clause:
    return replace(clause, window=window) if isinstance(clause, Choose) else replace(clause, scope=window)


def _with_constraint(role: Role, old: Expression, new: Expression) -> Role:
    """The role with a conjunct of its constraints replaced."""
    parts = [part for constraint in role.constraints for part in conjuncts(constraint)]
    return replace(role, constraints=tuple([new if part == old else part for part in parts]))


def _conjunction(parts: list[Expression]) -> Expression | None:
    return chain(["&&"] * (len(parts) - 1), parts) if parts else None


def _present(expression: Expression | None) -> Expression:
    assert expression is not None
    return expression
