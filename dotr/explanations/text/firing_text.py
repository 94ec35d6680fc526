"""Text of firings: a match as a tree of reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, assert_never

from dotr.engine.replay import ElementPlace, Replay
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.evaluations import CandidateEvaluation, ClauseEvaluation, ConditionOutcome
from dotr.explanations.evidence.reasons import FactReason, FiringReason, SourceReason, UnitReason
from dotr.explanations.replay.firings import NamedFiring
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.text.event_text import distance_text
from dotr.explanations.text.reason_text import ReasonWriter, outcome_text
from dotr.explanations.text.tree import JsonValue, ReasonKind, WhyTree, first_of
from dotr.model import dataclass
from dotr.model.rules import Absent, Aggregate, Between, Choose, FactSource, Mode, Rule, Window
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import EVER, Micros
from dotr.syntax.rendering import duration_text, once_text, period_text, scope_text
from dotr.temporal.layout.retention import scope_of

_MOST_REASONS: Final = 3
"""Maximum number of distinct reasons that a negation lists."""
_MOST_LISTED: Final = 1_000
"""Maximum number of events of an aggregate or a negation that are listed as details."""
_WORDS: Final = {Mode.LAST: "the latest", Mode.FIRST: "the earliest", Mode.EACH: "one"}


@dataclass(frozen=True, eq=False)
class FiringWriter:
    """Writer of firings as trees.

    Args:
        replay: the replay, for the form of times and the places of rules.
        reasons: the writer of facts and triples.
        places: the places of the elements at a time in µs since 1970.
        of: writes the reasons of another unit's event.
    """

    replay: Replay
    reasons: ReasonWriter
    places: Callable[[Micros], Sequence[ElementPlace]]
    of: Callable[[UnitReason], WhyTree]

    def tree(self, reason: FiringReason) -> WhyTree:
        """The reasons of a firing."""
        firing, rule = reason.firing, reason.firing.rule
        children = [self._anchor(reason)]
        for clause in rule.clauses:
            evaluation = next((each for each in reason.clauses if each.clause == clause), None)
            children.append(self._clause(reason, clause.role.label, evaluation))
        if reason.conditions:
            text = ", ".join(outcome_text(each, self.reasons.terms) for each in reason.conditions)
            children.append(WhyTree(ReasonKind.CONDITION, f"if {text}"))
        if rule.once is not None:
            keys = [f"?{key} {self._key(firing.attributes.get(key))}" for key in rule.once.keys]
            pause = f"in the {duration_text(rule.once.pause)} before" if rule.once.pause else "before at this moment"
            same = f" with {', '.join(keys)}" if keys else ""
            children.append(WhyTree(ReasonKind.CONDITION, f"{once_text(rule.once)}: no firing{same} {pause}"))
        attributes = event_attributes(firing)
        fields: dict[str, JsonValue] = {
            "event": rule.event,
            "rule": rule.name,
            **({"internal": True} if rule.internal else {}),
            "time": self._time(firing.time),
            "name": firing.names[0][1:-1] if firing.names else None,
            "attributes": {name: self.reasons.terms.text(term) for name, term in attributes},
        }
        return WhyTree(ReasonKind.EVENT, self.headline(firing), _rule_place(rule), tuple(children), fields=fields)

    def headline(self, firing: NamedFiring) -> str:
        """An event in one line: its label, time, name and attributes."""
        rule = firing.rule
        remarks = ", ".join([*([f"rule {rule.name}"] if rule.event != rule.name else []), *(["internal"] if rule.internal else [])])
        label = f"{rule.event} ({remarks})" if remarks else rule.event
        name = f", {firing.names[0][1:-1]}" if firing.names else ""
        return _joined(f"{label} at {self._time(firing.time)}{name}", [self._attributes(event_attributes(firing))])

    # --- anchor and clauses ---

    def _key(self, term: Term | None) -> str:
        return "unbound" if term is None else self.reasons.terms.text(term)

    def _anchor(self, reason: FiringReason) -> WhyTree:
        rule, label = reason.firing.rule, reason.firing.rule.anchor.label
        event = reason.firing.events[label]
        source = rule.anchor.source
        parts = [self._attributes(self._attributes_of(rule, 0, event)), self._outcomes(reason.anchor.conditions)]
        if rule.anchor.delay:
            time = reason.firing.time
            parts.append(f"stands at {self._time(time)}, {duration_text(time - event.time)} later")
        if isinstance(source, FactSource) and source.period is not None:
            parts.append(f"every {period_text(source.period)}")
        if label in rule.consuming:
            parts.append("used up now")
        text = _joined(f"from {label} at {self._time(event.time)}", parts)
        return WhyTree(ReasonKind.ANCHOR, text, "", self._source(reason.sources.get(label)), fields=self._event_fields(rule, 0, event))

    def _clause(self, reason: FiringReason, label: Label, evaluation: ClauseEvaluation | None) -> WhyTree:
        rule = reason.firing.rule
        place = 1 + next(number for number, clause in enumerate(rule.clauses) if clause.role.label == label)
        clause = rule.clauses[place - 1]
        match clause:
            case Choose():
                event = reason.firing.events[label]
                parts = [self._attributes(self._attributes_of(rule, place, event))]
                distance = ""
                if evaluation is not None:
                    chosen = next((each for each in evaluation.candidates if each.event == event), None)
                    if chosen is not None:
                        distance = f", {self._distance(clause, chosen, rule)}"
                        parts.append(self._outcomes(chosen.conditions))
                    passed = [each for each in evaluation.inside if each.taken_as is not None and each.failures == 1]
                    parts.append(_choice(clause, evaluation) + (" that has no role yet" if passed else ""))
                    parts += [self._passed_over(rule, place, each) for each in passed[-_MOST_LISTED:]]
                if label in rule.consuming:
                    parts.append("used up now")
                count = "" if clause.count is None else f"{clause.count} "
                mode = f"{'also ' if clause.also else ''}{clause.mode.value}"
                text = _joined(f"{mode} {count}{label} at {self._time(event.time)}{distance}", parts)
                fields = self._event_fields(rule, place, event)
                return WhyTree(ReasonKind.CLAUSE, text, "", self._source(reason.sources.get(label)), fields=fields)
            case Absent():
                return self._negation(rule, place, clause, evaluation)
            case Aggregate():
                return self._aggregate(rule, place, clause, evaluation)
            case _:
                assert_never(clause)

    def _negation(self, rule: Rule, place: int, clause: Absent, evaluation: ClauseEvaluation | None) -> WhyTree:
        head = f"not {clause.role.label} {_window_text(clause, rule)}"
        inside = evaluation.inside if evaluation is not None else ()
        if not inside:
            return WhyTree(ReasonKind.NEGATION, f"{head}: no {clause.role.origin} in the window")
        reasons = list(dict.fromkeys(reason for each in inside for reason in self._failures(each)[:1]))
        listed = first_of(reasons, _MOST_REASONS)
        details = tuple(self._listed(rule, place, each, self._failures(each)) for each in inside[:_MOST_LISTED])
        text = f"{head}: none of {len(inside):,} {clause.role.origin} in the window ({listed})"
        return WhyTree(ReasonKind.NEGATION, text, details=details)

    def _aggregate(self, rule: Rule, place: int, clause: Aggregate, evaluation: ClauseEvaluation | None) -> WhyTree:
        window = _window_text(clause, rule)
        chosen = evaluation.chosen if evaluation is not None else ()
        value = None if evaluation is None or evaluation.value is None else self.reasons.terms.text(evaluation.value)
        head = f"?{clause.variable} = {value}" if value is not None else f"?{clause.variable} is unbound"
        noun = "event" if clause.attribute is None else "value"
        if not chosen:
            return WhyTree(ReasonKind.AGGREGATE, f"{head}: no {noun}s {window}", fields={"variable": clause.variable, "value": value})
        first, last = (self._clock_time(each.event.time, evaluation) for each in (chosen[0], chosen[-1]))
        span = first if first == last else f"{first} to {last}"
        text = f"{head} of {len(chosen):,} {noun}{'' if len(chosen) == 1 else 's'} {window}, {span}"
        if clause.role.label in rule.consuming:
            text += "; used up now"
        details = tuple(self._listed(rule, place, each, []) for each in chosen[:_MOST_LISTED])
        return WhyTree(ReasonKind.AGGREGATE, text, details=details, fields={"variable": clause.variable, "value": value})

    def _listed(self, rule: Rule, place: int, candidate: CandidateEvaluation, failures: Sequence[str]) -> WhyTree:
        """A candidate as a detail of its clause."""
        event = candidate.event
        text = _joined(
            f"{rule.clauses[place - 1].role.origin} at {self._time(event.time)}",
            [self._attributes(self._attributes_of(rule, place, event)), ", ".join(failures)],
        )
        places = list(dict.fromkeys(map(str, self.places(event.time)))) if isinstance(event.stream, int) else []
        fields = self._event_fields(rule, place, event)
        return WhyTree(ReasonKind.MEMBER, text, places[0] if len(places) == 1 else "", fields=fields)

    def _passed_over(self, rule: Rule, place: int, candidate: CandidateEvaluation) -> str:
        """The text of a candidate that has a role already: `v 2 at 5 is Now already`."""
        event = candidate.event
        attributes = self._attributes(self._attributes_of(rule, place, event)) or rule.clauses[place - 1].role.origin
        return f"{attributes} at {self._time(event.time)} is {candidate.taken_as} already"

    def _failures(self, candidate: CandidateEvaluation) -> list[str]:
        reasons = [outcome_text(each, self.reasons.terms) for each in candidate.failing]
        if candidate.consumed_by is not None:
            reasons.append(f"used up by the firing at {self._time(candidate.consumed_by.due)}")
        if candidate.taken_as is not None:
            reasons.append(f"it is {candidate.taken_as} already")
        return reasons

    def _source(self, source: SourceReason | None) -> tuple[WhyTree, ...]:
        match source:
            case None:
                return ()
            case FactReason():
                return tuple(self.reasons.evidence(source.evidence, source.proofs))
            case _:
                return (self.of(source),)

    # --- parts of the text ---

    def _distance(self, clause: Choose, candidate: CandidateEvaluation, rule: Rule) -> str:
        reference = clause.window.reference
        of = "" if reference == rule.anchor.label else f" {reference}"
        if not candidate.distance:
            return f"at the same time{f' as{of}' if of else ''}"
        length = distance_text(abs(candidate.distance), self.replay.clock)
        return f"{length} {'before' if candidate.distance > 0 else 'after'}{of}"

    def _attributes_of(self, rule: Rule, place: int, event: RecordedEvent) -> list[tuple[Variable, Term]]:
        """The visible attributes of an event, in the order of the SELECT or of `with`."""
        places = self.replay.program.rules.places.get(rule.name)
        bound = event.attributes
        names = places.roles[place].attributes if places is not None else tuple(bound)
        return [(name, bound[name]) for name in names if name in bound]

    def _attributes(self, attributes: Sequence[tuple[Variable, Term]]) -> str:
        return self.reasons.attributes(dict(attributes))

    def _event_fields(self, rule: Rule, place: int, event: RecordedEvent) -> Mapping[str, JsonValue]:
        role = rule.anchor if place == 0 else rule.clauses[place - 1].role
        attributes = {name: self.reasons.terms.text(term) for name, term in self._attributes_of(rule, place, event)}
        return {"label": role.label, "of": role.origin, "time": self._time(event.time), "attributes": attributes}

    def _outcomes(self, outcomes: Sequence[ConditionOutcome]) -> str:
        return ", ".join(outcome_text(each, self.reasons.terms) for each in outcomes)

    def _time(self, time: Micros) -> str | int:
        return format_time(time, self.replay.clock)

    def _clock_time(self, time: Micros, evaluation: ClauseEvaluation | None) -> str:
        """A time, without its date if that equals the date of the window's end."""
        text = str(self._time(time))
        date, separator, clock = text.partition("T")
        if separator and evaluation is not None and str(self._time(evaluation.latest)).startswith(date):
            return clock.removesuffix("Z")
        return text


def event_attributes(firing: NamedFiring) -> list[tuple[Variable, Term]]:
    """The bound attributes of an event in the order of `with`."""
    order = [each.variable for each in firing.rule.assignments]
    return [(name, firing.attributes[name]) for name in order if name in firing.attributes]


def _joined(head: str, parts: Sequence[str]) -> str:
    text = "; ".join(filter(None, parts))
    return f"{head}: {text}" if text else head


def _choice(clause: Choose, evaluation: ClauseEvaluation) -> str:
    """The text for the selection of an event: `the only one`, `the latest of 3`."""
    fitting = sum(not each.failures for each in evaluation.inside)
    if fitting == 1:
        return "the only one"
    if clause.count is not None and clause.count > 1:
        return f"one of {_WORDS[clause.mode]} {clause.count} of {fitting:,}"
    return f"{_WORDS[clause.mode]} of {fitting:,}"


def _window_text(clause: Absent | Aggregate, rule: Rule) -> str:
    scope = scope_of(clause)
    match scope:
        case Window():
            text = scope_text(scope).removeprefix("within ")
            if scope.interval == EVER:
                return text
            return f"in {text.removesuffix(f' from {rule.anchor.label}')}"
        case Between():
            return scope_text(scope)
        case _:
            assert_never(scope)


def _rule_place(rule: Rule) -> str:
    line, _ = rule.span.line_column
    return f"{rule.span.document.name}:{line}"
