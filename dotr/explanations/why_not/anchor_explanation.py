"""Explanation of one anchor at which a rule did not fire: the reason, and a change that suffices.

Idea: the first clause (or `if`) that leaves no binding is the reason. Its candidates are ranked by
the number of conditions that fail, then by their distance in time. The last line names the single
change of the rule that suffices for the best-ranked candidate that has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from dotr.engine.replay import ElementPlace, ReplayedInstant
from dotr.explanations.evidence.evaluations import (
    AnchorEvaluation,
    Binding,
    CandidateEvaluation,
    ClauseEvaluation,
    ConditionOutcome,
    HeldBack,
)
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.text.event_text import ConditionText, EventText, EventWriter, distance_text, erring_operands, is_number
from dotr.explanations.text.narrative import Narrative, NarrativePart, sentences
from dotr.explanations.why_not.changes import Changes, Proposal, clause_text, in_order
from dotr.explanations.why_not.survey import MOST_BINDINGS
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Expression, TimeOf, Var
from dotr.model.rules import Absent, Aggregate, Between, Choose, FactSource, Mode, Window
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import EVER, LAST_MICRO
from dotr.model.traverse import parameters_of
from dotr.syntax.rendering import scope_text, step_names
from dotr.temporal.layout.retention import scope_of

_MOST_CANDIDATES: Final = 5
_MOST_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class ErringValue:
    """A value of an event with which a condition is an error.

    - `label`, `name`: those of the event's attribute.
    - `term`: the value; None: unbound.
    - `text`: a clause on it, such as `Now.?v is "n/a" at 60`.
    - `place`: the place of its element, where it has been looked for.
    """

    label: Label
    name: Variable
    term: Term | None
    event: RecordedEvent
    text: str
    place: ElementPlace | None = None

    @property
    def told(self) -> Narrative:
        """The value with the place of its element."""
        place = None if self.place is None else str(self.place)
        return Narrative(f"{self.text}{f' ({place})' if place else ''}.", parts={"label": self.label, "name": self.name, "place": place})


def with_places(values: Sequence[ErringValue], instants: Iterable[ReplayedInstant]) -> list[ErringValue]:
    """The values, each with its place: of the elements with the time of its event the one with most of the
    event's terms; of a value that none of them has, the last element before with that text."""
    found: list[tuple[tuple[bool, bool, int], ElementPlace] | None] = [None] * len(values)
    last = max((each.event.time for each in values), default=-LAST_MICRO)
    for instant in instants:
        if instant.time > last:
            break
        for place, graph in zip(instant.places, instant.graphs, strict=False):
            terms = {term for triple in graph for term in triple}
            for number, each in enumerate(values):
                best, is_now, has_term = found[number], each.event.time == instant.time, each.term in terms
                if instant.time > each.event.time or not (has_term or is_now):
                    continue
                rank = has_term or each.term is None, is_now, len(terms.intersection(each.event.values)) if is_now else 0
                if best is None or (rank > best[0] if is_now else rank >= best[0]):
                    found[number] = rank, place
    return [value if each is None else replace(value, place=each[1]) for value, each in zip(values, found, strict=True)]


@dataclass(frozen=True, slots=True)
class AnchorExplanation:
    """Text of an anchor, and the reason for which the rule did not fire there.

    Attributes:
        event: the anchor.
        due: the time at which a delayed anchor is due, as the output writes times; None: it is not
            delayed.
        bound: events of earlier clauses to which the stopping clause refers.
        stopped_by: the stopping clause: a label, `not L`, `if`, `once`; empty for the anchor's own
            constraints.
        reason: a sentence on the stopping clause.
        conditions: the conditions of `if`, or of the anchor, that fail.
        candidates: the candidates of the clause, at most five.
        others: the number of further candidates.
        too_far: a sentence on the distance of the best candidate, if only its distance fails.
        changes: changes of the rule with which it fires here, in its syntax; a second one only if
            it cuts a bound by more than half.
        remarks: further sentences.
        erring: the values with which conditions are errors.
    """

    event: EventText
    due: str | int | None = None
    bound: tuple[EventText, ...] = ()
    stopped_by: str = ""
    reason: str = ""
    conditions: tuple[ConditionText, ...] = ()
    candidates: tuple[Narrative, ...] = ()
    others: int = 0
    too_far: str = ""
    changes: tuple[Proposal, ...] = ()
    remarks: tuple[str, ...] = ()
    erring: tuple[ErringValue, ...] = ()

    def told(self, *, with_change: bool = True) -> tuple[Narrative, ...]:
        """The explanation: its first sentence, with the candidates below it, then remarks.

        `with_change`: it includes the change in its text; its parts always do.
        """
        due = "" if self.due is None else f", stands at {self.due}"
        head = "; ".join([f"{self.event}{due}", *map(str, self.bound)])
        text = f"{head}: {self.reason}"
        change = changes_text(self.changes) if with_change else ""
        if change and self.reason.endswith(".") and not self.candidates:  # a sentence, and the change in the same line
            text, change = f"{text} {change}", ""
        place = self.conditions[0].place if self.conditions and not self.stopped_by else ""
        below = (*self.candidates, *sentences([f"and {self.others:,} more"] if self.others else []))
        parts: dict[str, NarrativePart] = {
            **self.event.parts,
            "stands": self.due,
            "bound": [each.parts for each in self.bound],
            "stopped_by": self.stopped_by or None,
            "reason": self.reason,
            "conditions": [each.told for each in self.conditions],
            "candidates": self.candidates,
            "other_candidates": self.others,
            "fires_with": self.changes[0].text if self.changes else None,
            **({"or_with": self.changes[1].text} if len(self.changes) > 1 else {}),
            "remarks": self.remarks,
        }
        values = tuple([each.told for each in self.erring])
        if values:
            parts["erring"] = values
        return Narrative(text, below, parts, place), *sentences(self.remarks), *values, *sentences([change] if change else [])


def changes_text(changes: Sequence[Proposal]) -> str:
    """The sentence on changes of a rule; empty for none.

    >>> changes_text([Proposal("?v >= 70"), Proposal("?v >= 3", True)])
    'It fires with `?v >= 70`, or with `?v >= 3`.'
    """
    return f"It fires with {', or with '.join(f'`{each.text}`' for each in changes)}." if changes else ""


@dataclass(frozen=True)
class AnchorExplainer:
    """Explainer of the anchors of one rule."""

    evaluator: RuleEvaluator
    writer: EventWriter

    def explain(self, evaluation: AnchorEvaluation) -> AnchorExplanation:
        """The explanation of an anchor at which the rule did not fire."""
        if not evaluation.is_anchor:
            return self._own_constraints(evaluation)
        passed = evaluation.passed
        if passed == len(evaluation.clauses):
            return self._final_condition(evaluation)
        if evaluation.held:
            return self._held_back(evaluation, evaluation.held[0])
        return self._clause(evaluation, passed + 1)

    def _anchor(self, evaluation: AnchorEvaluation) -> tuple[EventText, str | int | None]:
        delay = self.evaluator.rule.anchor.delay
        return self.writer.event(evaluation.anchor, 0), self.writer.time(evaluation.order.due) if delay else None

    # --- the anchor's own constraints ---

    def _own_constraints(self, evaluation: AnchorEvaluation) -> AnchorExplanation:
        event, due = self._anchor(evaluation)
        failing = [each for each in evaluation.conditions if each.holds is not True]
        conditions = tuple([self.writer.constraint(each) for each in failing])
        changes = in_order(Changes(self.evaluator, self.writer).of_anchor(evaluation.anchor, failing[0]) if len(failing) == 1 else ())
        reason, binding = "; ".join(each.text for each in conditions), Binding({self.evaluator.rule.anchor.label: evaluation.anchor})
        erring = self._erring(failing, (evaluation.anchor, 0), binding)
        return AnchorExplanation(event, due, reason=reason, conditions=conditions, changes=changes, erring=erring)

    # --- once ---

    def _held_back(self, evaluation: AnchorEvaluation, held: HeldBack) -> AnchorExplanation:
        """An anchor of which each firing is held back; `held` is the first."""
        event, due = self._anchor(evaluation)
        rule, once, writer = self.evaluator.rule, self.evaluator.rule.once, self.writer
        assert once is not None
        values = ", ".join(
            f"?{key} {'unbound' if term is None else writer.term(term)}" for key, term in zip(once.keys, held.keys, strict=True)
        )
        at, until = writer.time(held.by.due), writer.time(held.by.due + once.pause)
        firing = f"{rule.event} at {at}" + (f" ({values})" if values else "")
        reason = f"held back by {firing}" + (f", until {until}." if once.pause else ", at the same moment.")
        return AnchorExplanation(event, due, (), "once", reason)

    # --- if ---

    def _final_condition(self, evaluation: AnchorEvaluation) -> AnchorExplanation:
        event, due = self._anchor(evaluation)
        final = min(reversed(evaluation.final), key=lambda each: sum(outcome.holds is not True for outcome in each.conditions))
        failing = [each for each in final.conditions if each.holds is not True]
        conditions = tuple([self.writer.final(each) for each in failing])
        sentences = [each.text.removesuffix(".") for each in conditions]
        reason = "; ".join(sentences)
        changes = Changes(self.evaluator, self.writer)
        remarks = self._aggregates(evaluation, final.binding)
        if any(each.holds is None for each in failing):
            erring = self._erring(failing, None, final.binding)
            return AnchorExplanation(event, due, (), "if", f"{reason}.", conditions, remarks=remarks, erring=erring)
        moved = changes.moved(evaluation, final)
        if moved is not None:
            label, writer = moved.clause.role.label, self.writer
            named = {part.name for part in parameters_of([moved.moved]) if isinstance(part, Var)}
            other = writer.event(moved.other, moved.place)
            values = ", ".join(f"{name} {value}" for name, value in other.attributes if name in named)
            word = "last" if moved.clause.mode is Mode.LAST else "first"
            reason += f"; {label} is the {word} one, at {writer.time(moved.chosen.time)}."
            reason += f" It would hold with that at {other.time}" + (f" ({values})." if values else ".")
            placement = self._placement(moved.clause, moved.moved)
            return AnchorExplanation(event, due, (), "if", reason, conditions, remarks=(*remarks, placement))
        proposals = tuple(changes.of_final(evaluation.anchor, failing[0]) if len(failing) == 1 else ())
        return AnchorExplanation(event, due, (), "if", f"{reason}.", conditions, changes=proposals, remarks=remarks)

    def _erring(
        self, outcomes: Sequence[ConditionOutcome], own: tuple[RecordedEvent, int] | None, binding: Binding | None = None
    ) -> tuple[ErringValue, ...]:
        """The values with which conditions are errors; `own`: the event of plain variables, with the
        place of its clause. That of an aggregate is a value that it takes in."""
        rule = self.evaluator.rule
        aggregates = [each for each in rule.clauses if isinstance(each, Aggregate)]
        found = dict[tuple[Label, Variable, RecordedEvent], Term | None]()
        for leaf, term in [operand for outcome in outcomes for operand in erring_operands(outcome)]:
            if isinstance(leaf, Var) and own is not None:
                role = rule.anchor if own[1] == 0 else rule.clauses[own[1] - 1].role
                found[role.label, leaf.name, own[0]] = term
            elif isinstance(leaf, Attribute) and binding is not None and leaf.label in binding.events:
                found[leaf.label, leaf.name, binding.events[leaf.label]] = term
            elif isinstance(leaf, Var | Attribute) and binding is not None:
                for each in aggregates:
                    if each.variable == leaf.name and each.attribute is not None:
                        taken = [(event, event.attributes.get(each.attribute)) for event in binding.used.get(each.role.label, ())]
                        wrong = [(event, value) for event, value in taken if value is not None and not is_number(value)]
                        for event, value in wrong[-1:]:
                            found[each.role.label, each.attribute, event] = value
        term_text, time = self.writer.term, self.writer.time
        texts = [f"{label}.?{name} is {term_text(term)} at {time(event.time)}" for (label, name, event), term in found.items()]
        return tuple([ErringValue(*key[:2], term, key[2], text) for (key, term), text in zip(found.items(), texts, strict=True)])

    def _placement(self, clause: Choose, moved: Expression) -> str:
        role = clause.role
        if isinstance(role.source, FactSource) and role.label not in self.writer.shared and role.origin == role.label:
            return f"What chooses stands in the clause: FILTER({self.writer.expression(moved)}) in the query of {role.label}"
        return f"What chooses stands in the clause: {clause_text(clause, self.writer)}"

    def _aggregates(self, evaluation: AnchorEvaluation, binding: Binding) -> tuple[str, ...]:
        """The values of aggregates, each with its number of events."""
        lines = []
        for clauses in evaluation.clauses:
            for each in clauses:
                if isinstance(each.clause, Aggregate) and each.clause.role.label in binding.results:
                    if binding.used.get(each.clause.role.label) != tuple([candidate.event for candidate in each.chosen]):
                        continue
                    value = "unbound" if each.value is None else self.writer.term(each.value)
                    events = f"{len(each.chosen):,} {each.clause.role.origin} {self._range(each)}"
                    lines.append(f"  ?{each.clause.variable} is {value}, of {events}")
                    break
        return tuple(lines)

    # --- clauses ---

    def _clause(self, evaluation: AnchorEvaluation, place: int) -> AnchorExplanation:
        event, due = self._anchor(evaluation)
        nearest = min(reversed(evaluation.clauses[place - 1]), key=_failures)
        clause = nearest.clause
        if not isinstance(clause, Absent) and not self._shown(nearest, evaluation):
            nearest = self._with_the_nearest(evaluation, place, nearest)
        name = step_names([clause], has_condition=False)[0]
        bound = self._referred(nearest)
        if isinstance(clause, Absent):
            return self._refused(evaluation, place, nearest, AnchorExplanation(event, due, bound, name))
        if nearest.chosen:  # more events than `limits: { matches }` permits
            reason = f"{len(nearest.chosen):,} {clause.role.label} {self._range(nearest)}, more than `limits: {{ matches }}` allows."
            return AnchorExplanation(event, due, bound, name, reason)
        ranked = sorted(self._shown(nearest, evaluation), key=lambda each: (each.failures, abs(each.distance), -each.event.number))
        shown = ranked[:_MOST_CANDIDATES]
        changes = Changes(self.evaluator, self.writer)
        proposals = in_order(each for candidate in shown for each in changes.of_candidate(evaluation.anchor, place, nearest, candidate))
        number = len(nearest.inside)
        reason = f"nothing for {clause.role.label}{f' among {number:,}' if number else ''} {self._range(nearest)}"
        candidates = tuple([self._candidate(each, place, nearest) for each in shown])
        too_far = self._too_far(shown[0], nearest) if shown else ""
        failing = [
            (each.failing, (each.event, place)) for each in shown if all(one.holds is None for one in each.failing) and not each.outside
        ]
        erring = tuple(dict.fromkeys([value for outcomes, own in failing for value in self._erring(outcomes, own, nearest.binding)]))
        others = len(ranked) - len(shown)
        return AnchorExplanation(event, due, bound, name, reason, (), candidates, others, too_far, proposals, erring=erring)

    def _with_the_nearest(self, evaluation: AnchorEvaluation, place: int, clause: ClauseEvaluation) -> ClauseEvaluation:
        """The evaluation of a clause with its latest event before the examined range as a
        candidate."""
        history = self.evaluator.history
        event = history.last_before(history.stream_of(clause.clause.role.source), clause.earliest)
        if event is None:
            return clause
        length = max(clause.latest - clause.earliest, 1)
        farther = self.evaluator.evaluate(evaluation.anchor, (clause.latest - event.time) // length + 2, MOST_BINDINGS)
        return min(reversed(farther.clauses[place - 1]), key=_failures)

    def _shown(self, clause: ClauseEvaluation, evaluation: AnchorEvaluation) -> Sequence[CandidateEvaluation]:
        """The candidates to list. Outside the window, events of the match itself are left out, and
        composite events of the rule at the time of the anchor.
        """
        own, now = self.evaluator.rule.event, evaluation.order.due

        def is_of_match(candidate: CandidateEvaluation) -> bool:
            event = candidate.event
            return candidate.taken_as is not None or (event.stream == own and event.time == now)

        return [each for each in clause.candidates if not each.outside or not is_of_match(each)]

    def _too_far(self, candidate: CandidateEvaluation, clause: ClauseEvaluation) -> str:
        """`T at 0 is 132 s before, 12 s too far`; empty unless only the distance fails."""
        if candidate.failures != 1 or candidate.event.time >= clause.earliest or not isinstance(scope_of(clause.clause), Window):
            return ""
        event, clock = f"{clause.clause.role.origin} at {self.writer.time(candidate.event.time)}", self.evaluator.clock
        return f"{event} is {distance_text(candidate.distance, clock)} before, {distance_text(candidate.outside, clock)} too far"

    def _referred(self, clause: ClauseEvaluation) -> tuple[EventText, ...]:
        """Events of earlier clauses to which a clause refers, without the anchor."""
        rule = self.evaluator.rule
        labels = {part.label for part in parameters_of(clause.clause.role.constraints) if isinstance(part, Attribute | TimeOf)}
        match scope_of(clause.clause):
            case Window(_, reference):
                labels.add(reference)
            case Between(first, second):
                labels |= {first, second}
        places = {each.role.label: place for place, each in enumerate(rule.clauses, 1)}
        events = clause.binding.events
        return tuple([self.writer.event(events[label], places[label]) for label in events if label in labels and label in places])

    def _refused(self, evaluation: AnchorEvaluation, place: int, clause: ClauseEvaluation, start: AnchorExplanation) -> AnchorExplanation:
        refusing = sorted(clause.chosen, key=lambda each: abs(each.distance))
        changes = in_order(Changes(self.evaluator, self.writer).of_refusal(evaluation.anchor, place, clause))
        if len(refusing) == 1 and self._is_anchor(refusing[0], evaluation, clause):
            distance = distance_text(refusing[0].distance, self.evaluator.clock)
            reason = f"refused by itself, {distance} before." if refusing[0].distance else "refused by itself."
            return replace(start, reason=reason, changes=changes)
        shown = refusing[:_MOST_CANDIDATES]
        number = len(clause.inside)
        reason = f"refused by {len(refusing):,}{f' among {number:,}' if number > len(refusing) else ''} {self._range(clause)}"
        candidates = tuple([self._candidate(each, place, clause) for each in shown])
        return replace(start, reason=reason, candidates=candidates, others=len(refusing) - len(shown), changes=changes)

    def _is_anchor(self, candidate: CandidateEvaluation, evaluation: AnchorEvaluation, clause: ClauseEvaluation) -> bool:
        return candidate.event == evaluation.anchor and clause.clause.role.origin == self.evaluator.rule.anchor.origin

    def _range(self, clause: ClauseEvaluation) -> str:
        """The range of times of a clause: `in [12, 132)`."""
        scope = scope_of(clause.clause)
        if isinstance(scope, Between):
            return f"between {self.writer.time(clause.earliest - 1)} and {self.writer.time(clause.latest + 1)}"
        interval = scope.interval
        if interval == EVER:
            return f"before {self.writer.time(clause.latest + 1)}"
        opened, closed = "[" if interval.high_closed else "(", "]" if interval.low_closed else ")"
        first = clause.earliest if interval.high_closed else clause.earliest - 1
        last = clause.latest if interval.low_closed else clause.latest + 1
        return f"in {opened}{self.writer.time(first)}, {self.writer.time(last)}{closed}"

    # --- candidates ---

    def _candidate(self, candidate: CandidateEvaluation, place: int, clause: ClauseEvaluation) -> Narrative:
        """A candidate, with the conditions that fail below it; for an event that a negation
        matches, all conditions hold.
        """
        event = self.writer.event(candidate.event, place, clause.clause.role.origin)
        refuses = isinstance(clause.clause, Absent)
        outcomes = candidate.conditions if refuses else candidate.failing
        conditions = tuple([self.writer.constraint(each) for each in outcomes])
        reasons = list(self._reasons(candidate, clause))
        if refuses or (not candidate.failing and candidate.conditions):
            holding = [each.text for each in conditions][:_MOST_LISTED]
            reasons.insert(0, "every condition holds" + (f": {', '.join(holding)}" if refuses and holding else ""))
            if not candidate.conditions:
                reasons = reasons[1:] or ["it is there"]
        parts: dict[str, NarrativePart] = {
            **event.parts,
            "conditions": [each.told for each in conditions],
            "reasons": reasons,
            "failures": candidate.failures,
        }
        failing = [each.told for each in conditions if each.holds is not True]
        if not failing:
            return Narrative(f"{event}: {'; '.join(reasons)}", parts=parts)
        first, *others = failing
        return Narrative(f"{event}: {first.text}", (*others, *sentences(reasons)), parts, first.place)

    def _reasons(self, candidate: CandidateEvaluation, clause: ClauseEvaluation) -> Sequence[str]:
        reasons = []
        if candidate.outside:
            reasons.append(self._distance(candidate, clause))
        elif isinstance(clause.clause, Absent):
            reasons.append(self._how_far(candidate, clause))
        if candidate.consumed_by is not None:
            consumed_at = self.writer.time(candidate.consumed_by.due)
            reasons.append(f"used up by the firing at {consumed_at} (consuming {clause.clause.role.label})")
        if candidate.taken_as is not None:
            reasons.append(f"it is {candidate.taken_as} already")
        return reasons

    def _how_far(self, candidate: CandidateEvaluation, clause: ClauseEvaluation) -> str:
        scope = scope_of(clause.clause)
        reference = scope.reference if isinstance(scope, Window) else scope.second
        if candidate.distance == 0:
            return f"at the instant of {reference}"
        word = "before" if candidate.distance > 0 else "after"
        return f"{distance_text(abs(candidate.distance), self.evaluator.clock)} {word} {reference}"

    def _distance(self, candidate: CandidateEvaluation, clause: ClauseEvaluation) -> str:
        scope, clock = scope_of(clause.clause), self.evaluator.clock
        if isinstance(scope, Between):
            return f"not between {scope.first} and {scope.second}"
        left_out = f"which `{self._written(scope)}` leaves out"
        if candidate.distance == 0:
            is_anchor = scope.reference == self.evaluator.rule.anchor.label
            instant = "the anchor's own instant" if is_anchor else f"the instant of {scope.reference}"
            return f"at {instant}, {left_out}"
        how_far, (_, high) = self._how_far(candidate, clause), scope.interval.bounds
        if candidate.distance < 0:
            return how_far
        is_far = candidate.distance > high
        beyond = candidate.distance - scope.interval.high if is_far else scope.interval.low - candidate.distance
        return f"{how_far}, {distance_text(beyond, clock)} too {'far' if is_far else 'near'}" if beyond else f"{how_far}, {left_out}"

    def _written(self, scope: Window) -> str:
        """The window in its shortest form: `within 2 min`, not `within (0, 2 min]`."""
        interval = scope.interval
        if interval == EVER:
            return "before"
        if interval.low == 0 and not interval.low_closed and interval.high_closed:
            return scope_text(scope).replace("(0, ", "").replace("]", "").rpartition(" from ")[0]
        return scope_text(scope).rpartition(" from ")[0]


def _failures(clause: ClauseEvaluation) -> int:
    if isinstance(clause.clause, Absent):
        return len(clause.chosen)
    return min((each.failures for each in clause.candidates), default=1_000)
