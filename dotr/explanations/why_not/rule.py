"""Explanation of a rule that did not fire: a funnel, and the anchor with the most progress.

Idea: the rule, and the units whose events it reads, are replayed
(`dotr.explanations.why_not.survey`). Without an anchor, the facts that fail the anchor's own
constraints are shown; without a fact, the stop of its query (`dotr.explanations.missing.fact`).
Cost: a replay of the rule; for a query without a fact, a second one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from dotr.engine.driver import close_instant
from dotr.engine.replay import CachedReplay, ElementPlace, InputProgress, RejectedElement, Replay
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.evaluations import ConsumedEvents, failing
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.missing.fact import MissingFacts, explain_missing_facts
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.replay.recording import Recorder
from dotr.explanations.text.event_text import EventWriter, unit_name
from dotr.explanations.text.narrative import Narrative, NarrativePart, WhyNot, sentences
from dotr.explanations.text.tree import counted
from dotr.explanations.why_not.anchor_explanation import AnchorExplainer, AnchorExplanation, changes_text, with_places
from dotr.explanations.why_not.changes import in_order
from dotr.explanations.why_not.survey import MOST_BINDINGS, REACH, Question, Survey
from dotr.model import dataclass
from dotr.model.algebra import Attribute
from dotr.model.rules import EventSource, FactSource, Role, Rule
from dotr.model.stream import DeadLetter, Reason
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import LAST_MICRO, Clock, Micros, Unit
from dotr.syntax.rendering import TermWriter, step_names
from dotr.temporal.layout.retention import roles
from dotr.temporal.layout.units import units_by_label

# Late elements that would have been anchors of a rule, and those at which it would have fired.
#
# Idea: each late element is closed as an instant of its own, whose facts are candidate anchors. After
# the replay the rule is evaluated at them, over the history of the elements that arrived in time.


_MOST_KEPT: Final = 2_000
"""Maximum number of late elements that are examined."""
_MOST_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class LateElements:
    """Late elements of a replay.

    Attributes:
        number: the number of all late elements.
        anchors: the number of those that would have been anchors.
        firing: the places of those at which the rule would have fired.
    """

    number: int
    anchors: int
    firing: tuple[ElementPlace, ...]

    @property
    def told(self) -> Narrative:
        """The counts as a sentence.

        >>> LateElements(5, 2, (ElementPlace("export.csv", 5),)).told.text
        'Of 5 late elements (dead letters), 2 would have been anchors, and export.csv:5 would have fired.'
        """
        start = "Of 1 late element (a dead letter)" if self.number == 1 else f"Of {self.number:,} late elements (dead letters)"
        if self.number > _MOST_KEPT:
            start += f", of which the first {_MOST_KEPT:,} were looked at"
        text = f"{start}, {self.anchors:,} would have been {'an anchor' if self.anchors == 1 else 'anchors'}"
        listed = ", ".join(map(str, self.firing[:_MOST_LISTED])) or "none"
        further = len(self.firing) - _MOST_LISTED
        text += f", and {listed}{f' and {further:,} more' if further > 0 else ''} would have fired."
        return Narrative(text, parts={"number": self.number, "anchors": self.anchors, "would_have_fired": [*map(str, self.firing)]})


class LateSearch:
    """Collector of the late elements of a replay."""

    def __init__(self, evaluator: RuleEvaluator, recorder: Recorder, question: Question) -> None:
        self._evaluator = evaluator
        self._recorder = recorder
        self._question = question
        self._number = 0
        self._late: list[RejectedElement] = []

    def note(self, rejected: RejectedElement) -> None:
        """Record an element that an input has rejected."""
        if rejected.dead_letter.reason is Reason.LATE:
            self._number += 1
            if len(self._late) < _MOST_KEPT:
                self._late.append(rejected)

    def result(self) -> LateElements | None:
        """The late elements, after the end of the replay; None if none would have been an
        anchor."""
        anchors, firing = 0, []
        for rejected in self._late:
            found = self._anchors(rejected)
            anchors += bool(found)
            if any(self._evaluator.evaluate(each, most=MOST_BINDINGS).fired for each in found):
                firing.append(ElementPlace(rejected.dead_letter.file, rejected.dead_letter.line))
        return LateElements(self._number, anchors, tuple(firing)) if anchors else None

    def _anchors(self, rejected: RejectedElement) -> Sequence[RecordedEvent]:
        """The anchors that an element would have been."""
        anchor, time = self._evaluator.rule.anchor, rejected.dead_letter.time
        if rejected.triples is None or time is None or not isinstance(anchor.source, FactSource):
            return ()
        stream = self._recorder.history.stream_of(anchor.source)
        assert isinstance(stream, int)
        facts = close_instant(self._recorder.program, time, [rejected.triples]).facts.facts.get(stream, ())
        events = [RecordedEvent(stream, time, _AFTER_ALL + number, anchor.source.attributes, values) for number, values in enumerate(facts)]
        found = [each for each in events if self._question.selects(each, self._evaluator.stands_at(each))]
        return [each for each in found if all(outcome.holds is True for outcome in self._evaluator.own_conditions(each))]


_AFTER_ALL: Final = 1 << 40
"""First number of the facts of late elements, above those of facts that arrived in time."""


# Delayed anchors whose due time is not closed, and the input that holds back the watermark.


@dataclass(frozen=True, slots=True)
class WaitingAnchors:
    """Delayed anchors that are not yet due at the end of a replay.

    Attributes:
        anchors: their number.
        until: the time at which the first of them is due, as the output writes it.
        closed: a sentence on the watermark, and on the input that holds it back.
    """

    anchors: int
    until: str | int
    closed: str

    @property
    def told(self) -> Narrative:
        """`1 anchor waits until 240. All is closed up to 130: …`."""
        waits = (
            f"1 anchor waits until {self.until}" if self.anchors == 1 else f"{self.anchors:,} anchors wait, the first until {self.until}"
        )
        return Narrative(f"{waits}. {self.closed}", parts={"anchors": self.anchors, "until": self.until, "closed": self.closed})


def waiting_anchors(replay: Replay, evaluator: RuleEvaluator, question: Question) -> WaitingAnchors | None:
    """The delayed anchors that are not yet due at the end of a replay; None: there is none.

    Args:
        replay: the replay, after its last instant.
        evaluator: the evaluator of the rule, with the history up to the last instant.
        question: the requested anchors.
    """
    delay, last = evaluator.rule.anchor.delay, evaluator.history.passed
    if not delay or last is None or replay.ended:
        return None
    waiting = [
        due
        for each in evaluator.anchors(last - delay + 1, LAST_MICRO)
        for due in [evaluator.stands_at(each)]
        if due > last and question.selects(each, due) and not failing(evaluator.own_conditions(each))
    ]
    if not waiting:
        return None
    until = format_time(min(waiting), replay.clock)
    return WaitingAnchors(len(waiting), until, closed_text(replay.progress(), replay.clock))


def closed_text(inputs: Sequence[InputProgress], clock: Clock) -> str:
    """A sentence on the watermark of all inputs, and on the input that holds it back.

    >>> inputs = [InputProgress("weather", 129_999_999, False), InputProgress("doors", 179_999_999, False)]
    >>> closed_text(inputs, Clock())
    'All is closed up to 130: input weather has passed no more, and holds the others, which have passed 180 (`idle` lets them go).'
    >>> closed_text(inputs[:1], Clock())
    'All is closed up to 130: input weather has passed no more.'
    >>> closed_text([InputProgress("", 129_999_999, False)], Clock())
    'All is closed up to 130.'
    """
    # The watermark of an input is 1 µs below the time of its latest element, less its lateness.
    growing = [each for each in inputs if not each.ended]
    if not growing:
        return "All is closed."
    slowest = min(growing, key=lambda each: -LAST_MICRO if each.passed is None else each.passed)
    if slowest.passed is None:
        text = f"Nothing is closed: input {slowest.name} has no element"
        others = [each.passed for each in inputs if each.passed is not None]
    else:
        text = f"All is closed up to {format_time(slowest.passed + 1, clock)}"
        if slowest.name:
            text += f": input {slowest.name} has passed no more"
        others = [each.passed for each in inputs if each.passed is not None and each.passed > slowest.passed]
    if not others:
        return f"{text}."
    times = dict.fromkeys([format_time(time + 1, clock) for time in (min(others), max(others))])
    return f"{text}, and holds the others, which have passed {' to '.join(map(str, times))} (`idle` lets them go)."


@dataclass(frozen=True, slots=True)
class Funnel:
    """The bindings of a rule, from its anchors to its events.

    Attributes:
        rule: the name of the rule.
        anchors: the number of anchors.
        steps: for each clause, and for `if`, its name and the number of bindings after it.
        errors: the number of bindings at which `if` errs.
        events: the number of firings.
        held_back: the number of firings that `once` holds back.
    """

    rule: str
    anchors: int
    steps: tuple[tuple[str, int], ...]
    errors: int
    events: int
    held_back: int = 0

    def __str__(self) -> str:
        """Return the text up to the first step that leaves nothing.

        >>> print(Funnel("Leak", 2, (("Hot", 1),), 0, 1))
        Leak: 2 anchors, 1 after Hot, 1 event
        >>> print(Funnel("Rise", 2, (("Before", 1), ("if", 0)), 1, 0))
        Rise: 2 anchors, 1 after Before, 0 after if (1 error)
        >>> print(Funnel("Page", 2, (), 0, 1, 1))
        Page: 2 anchors, 1 held back by once, 1 event
        """
        parts = [f"{self.rule}: {counted(self.anchors, 'anchor')}"]
        if not self.anchors:
            return parts[0]
        for name, number in self.steps:
            errors = f" ({counted(self.errors, 'error')})" if name == "if" and self.errors else ""
            parts.append(f"{number:,} after {name}{errors}")
            if not number:
                return ", ".join(parts)
        held = [f"{self.held_back:,} held back by once"] if self.held_back else []
        return ", ".join([*parts, *held, counted(self.events, "event")])

    @property
    def parts(self) -> Mapping[str, NarrativePart]:
        """The parts of the funnel for JSON."""
        steps: list[NarrativePart] = [{"after": name, "bindings": number} for name, number in self.steps]
        held: Mapping[str, NarrativePart] = {"held_back": self.held_back} if self.held_back else {}
        return {"anchors": self.anchors, "steps": steps, "errors": self.errors, "events": self.events, **held}


@dataclass(frozen=True)
class _RuleFindings:
    """The findings on a rule in one replay.

    Attributes:
        funnel: the bindings of the requested anchors.
        anchors: explanations of anchors that did not fire: of that with the most progress, or of
            all; without an anchor, of the facts that fail the anchor's own constraints.
        facts: the number of requested facts of the anchor's query.
        label: the label of the query or event that the anchor reads.
        missing: the explanation of a query without a fact; None if it has facts, or is not the
            cause.
        waiting: delayed anchors that are not yet due.
        late: the late elements that would have been anchors.
        unit: a question on the unit of times, if they are beyond the year 3000.
        remarks: further sentences.
    """

    funnel: Funnel
    anchors: tuple[AnchorExplanation, ...]
    facts: int
    label: Label
    missing: MissingFacts | None = None
    waiting: WaitingAnchors | None = None
    late: LateElements | None = None
    unit: str = ""
    remarks: tuple[str, ...] = ()

    def answer(self, case: str) -> WhyNot:
        """The answer; its first sentence has the funnel."""
        funnel, missing = self.funnel, self.missing
        below = (*self._anchors(), *self._missing(), *sentences([*self.remarks, *([self.unit] if self.unit else [])]))
        head = self._head()
        if self.unit and self.anchors and self.anchors[0].too_far and len(self.anchors) == 1:
            head, below = f"{head}. {self.anchors[0].too_far}. {self.unit}", ()
        return WhyNot.of(
            case,
            funnel.rule,
            funnel.events > 0,
            head,
            below,
            funnel=funnel.parts,
            facts=self.facts,
            not_fired=[each.told()[0] for each in self.anchors],
            missing=None if missing is None else missing.told,
            waiting=None if self.waiting is None else self.waiting.told,
            late=None if self.late is None else self.late.told,
            unit=self.unit or None,
            remarks=self.remarks,
        )

    def _head(self) -> str:
        """The funnel, with late elements and delayed anchors."""
        head, anchors = str(self.funnel), self.funnel.anchors
        if self.waiting is not None:
            head = f"{head}; {self.waiting.told.text}" if anchors else f"{self.funnel.rule}: {self.waiting.told.text}"
        elif not anchors and self.missing is not None:
            head += f" ({self.missing.summary})"
        elif not anchors and self.facts:
            head += f" (of {self.facts:,} {self.label})"
        if self.late is not None:
            head += f"{'' if head.endswith('.') else '.'} {self.late.told.text}"
        return head

    def _anchors(self) -> Iterator[Narrative]:
        """The anchors that did not fire; or facts that are no anchors, and a change that suffices
        for one of them."""
        for each in self.anchors:
            yield from each.told(with_change=self.funnel.anchors > 0)
        changes = in_order(change for each in self.anchors for change in each.changes)
        if changes and not self.funnel.anchors:
            yield Narrative(changes_text(changes))

    def _missing(self) -> Iterator[Narrative]:
        """The query without a fact, whose summary is in the first sentence if there is no
        anchor."""
        if self.missing is not None:
            yield self.missing.told if self.funnel.anchors else replace(self.missing.told, text="")


def why_not(replay: Replay, rule: str, question: Question | None = None) -> WhyNot:
    """The reason for which a rule did not fire.

    Args:
        replay: the program and its stream.
        rule: the name of a rule of the program.
        question: the requested anchors; None: all.

    Returns:
        The funnel of these anchors, and the explanation of the one with the most progress that did
        not fire.

    Raises:
        KeyError: there is no such rule.

    >>> from dotr.commands.why.questions import open_replays
    >>> [replay] = open_replays("tests/cases/rule_r.yaml", "1")
    >>> print(why_not(replay, "R").lines()[0])
    R: 1 anchor, 1 after HighTemp, 1 event
    """
    return _Inquiry(replay, rule, question or Question()).findings().answer(replay.case)


class _Inquiry:
    """Search for the answer to one question."""

    def __init__(self, replay: Replay, rule: str, question: Question) -> None:
        self._replay = replay = CachedReplay(replay).replay
        self._question = question
        self._recorder = Recorder.of(replay, rule)
        program = replay.program
        self._rule: Rule = self._recorder.rule
        places = program.rules.places[rule]
        limits = program.spec.limits
        history = self._recorder.history
        self._evaluator = RuleEvaluator(
            self._rule, history, ConsumedEvents(), replay.clock, places, limits.matches, self._recorder.unfiltered
        )
        self._terms = TermWriter(replay.prefixes)
        shared = frozenset(each.label for each in program.rules.queries)
        self._writer = EventWriter(self._rule, places, replay.clock, self._terms, shared)
        self._explainer = AnchorExplainer(self._evaluator, self._writer)

    def findings(self) -> _RuleFindings:
        """Run the replay, and explain what is found; values with which conditions are errors are looked
        up in a second one."""
        found = self._found()
        values = [value for each in found.anchors for value in each.erring]
        if not values:
            return found
        located = iter(with_places(values, self._replay.instants()))
        return replace(found, anchors=tuple([replace(each, erring=tuple(islice(located, len(each.erring)))) for each in found.anchors]))

    def _found(self) -> _RuleFindings:
        question, rule = self._question, self._rule
        survey = Survey(self._recorder, self._evaluator, question, self._explainer.explain)
        late = LateSearch(self._evaluator, self._recorder, question)
        instants = RequestedInstants(question, rule.anchor.least_delay, rule.anchor.delay)

        def reject(rejected: RejectedElement) -> None:
            late.note(rejected)
            instants.note_rejected(rejected)

        survey.run(reject, instants.note)
        names = step_names(rule.clauses, has_condition=rule.condition is not None)
        complete = survey.after[-1] if survey.after else survey.anchors
        held_back = complete - survey.events if rule.once is not None and not self._recorder.failed else 0
        funnel = Funnel(rule.name, survey.anchors, tuple(zip(names, survey.after, strict=True)), survey.errors, survey.events, held_back)
        found = _RuleFindings(funnel, tuple(survey.explained), survey.facts, rule.anchor.origin)
        waiting = waiting_anchors(self._replay, self._evaluator, question)
        found = replace(found, waiting=waiting, late=late.result(), unit=self._unit(survey))
        if self._recorder.failed:
            found = replace(found, remarks=self._failures())
        is_of_unit = _event_of(rule.anchor) in units_by_label(self._replay.program.units)  # also at times without an instant
        if not instants.number and not funnel.anchors and not is_of_unit:
            return replace(found, remarks=(*found.remarks, *instants.remarks(self._replay.clock)))
        if not funnel.anchors and waiting is None:
            return self._without_anchor(found, survey)
        stopping = next((role for role in self._stopping_roles(found) if self._recorder.is_empty(role.source)), None)
        if stopping is None:
            return found
        return replace(found, missing=self._missing_facts(stopping), remarks=self._missing_events(stopping))

    def _failures(self) -> tuple[str, ...]:
        """A sentence on the anchors at which the rule failed or exceeded a limit."""
        failed = self._recorder.failed
        first, others = failed[0], len(failed) - 1
        why = first.why[first.why.rindex("more than") :] if first.reason is Reason.LIMIT else first.why
        time = "" if first.time is None else f" at {self._writer.time(first.time)}"
        further = f" (and at {counted(others, 'further anchor')})" if others else ""
        word = "goes over a limit" if first.reason is Reason.LIMIT else "fails"
        return (f"The rule {word}{time}{further}: {why}.",)

    def _stopping_roles(self, found: _RuleFindings) -> Sequence[Role]:
        """The roles of the clauses that stopped the explained anchors and had no candidate."""
        labels = {each.stopped_by for each in found.anchors if not each.candidates}
        return [clause.role for clause in self._rule.clauses if clause.role.label in labels]

    def _unit(self, survey: Survey[AnchorExplanation]) -> str:
        """A question on the unit of times; empty unless times are beyond the year 3000."""
        clock, latest = self._replay.clock, self._recorder.history.passed
        if clock.dated or latest is None or latest < _YEAR_3000 or survey.events:
            return ""
        finer = next((unit for unit in _FINER if latest // clock.unit.value * unit.value < _YEAR_3000), None)
        if finer is None:
            return ""
        return f"Are times beyond the year 3000 {_FINER[finer]}? time: {{ unit: {unit_name(finer)} }}"

    def _without_anchor(self, found: _RuleFindings, survey: Survey[AnchorExplanation]) -> _RuleFindings:
        non_anchors = [self._evaluator.evaluate(each, REACH) for each in survey.non_anchors]
        facts = survey.facts
        if not non_anchors:
            every = self._evaluator.filtered_out(-LAST_MICRO, LAST_MICRO)
            filtered_out = [each for each in every if self._question.selects(each.anchor, each.order.due)]
            non_anchors, facts = filtered_out[-_MOST_LATEST:], len(filtered_out)
        if non_anchors:
            found = replace(found, facts=facts)
            non_anchors.sort(key=lambda each: (sum(outcome.holds is not True for outcome in each.conditions), -each.order.due))
            return replace(found, anchors=tuple([self._explainer.explain(each) for each in non_anchors[:_MOST_FACTS]]))
        anchor, where = self._rule.anchor, self._question.where
        return replace(found, missing=self._missing_facts(anchor, where), remarks=self._missing_events(anchor, where))

    def _missing_facts(self, role: Role, where: Where = ()) -> MissingFacts | None:
        """The explanation of the facts that a role lacks; of a role of events, of those that the
        first query with the requested terms lacks, of a rule that makes such an event."""
        queries = [(self._rule, role, where, False)] if isinstance(role.source, FactSource) else self._first_queries(role, where)
        for rule, first, terms, is_before in queries:
            earliest, latest = self._question.first, self._question.last
            if earliest is not None and first.delay:
                earliest -= first.delay  # the question may name the time at which a delayed anchor stands
            earliest = None if is_before else earliest
            missing = explain_missing_facts(self._replay, rule, self._terms, role=first, first=earliest, last=latest, where=terms)
            if missing is not None:
                return missing
        return None

    def _first_queries(self, role: Role, where: Where) -> Iterator[tuple[Rule, Role, Where, bool]]:
        """The roles of facts from which rules copy requested terms to the events of a role, directly
        or through further events: `m` is that of `Now` after `with Alarm.?m = Now.?m`. The last
        value is True for facts before the time of the event."""
        waiting, passed = [(role, where, role.delay > 0 or role != self._rule.anchor)], {self._rule.name}
        while waiting:
            of, terms, is_before = waiting.pop(0)
            making = [each for each in self._replay.program.rules.rules if each.event == _event_of(of) and each.name not in passed]
            for rule in making if terms else ():
                passed.add(rule.name)
                sources = copied_terms(rule, terms)
                first = next((each for each in roles(rule) if each.label in sources), None)
                if first is not None and isinstance(first.source, FactSource):
                    yield rule, first, sources[first.label], is_before or first != rule.anchor
                elif first is not None:
                    waiting.append((first, sources[first.label], is_before or first != rule.anchor or first.delay > 0))

    def _missing_events(self, role: Role, where: Where = ()) -> tuple[str, ...]:
        """A remark on the rules or units that produce the events of a role; empty for a role of
        facts."""
        label = _event_of(role)
        if label is None:
            return ()
        making = [each for each in self._replay.program.rules.rules if each.event == label]
        commands = []
        for rule in making:
            terms = copied_terms(rule, where).get(rule.anchor.label, ())
            options = "".join(f" --where {shlex.quote(f'{name}={self._terms.text(term)}')}" for name, term in terms)
            commands.append(self._replay.why_not_command(rule.name) + (options if self._replay.name else ""))
        given = f" with {', '.join(f'{name} {self._terms.text(term)}' for name, term in where)}" if where else ""
        waiting = [text for rule in making if (text := self._waiting(rule, where))]
        return (f"There is no event {label}{given} here: {', '.join(commands or [self._replay.why_not_command(label)])}", *waiting)

    def _waiting(self, rule: Rule, where: Where) -> str:
        """A sentence on the anchors of a rule that wait with requested terms; empty: there is none,
        or the terms are not those of its anchor."""
        terms = copied_terms(rule, where).get(rule.anchor.label, ())
        if not rule.anchor.delay or self._replay.ended or len(terms) < len(where):
            return ""
        other = _Inquiry(self._replay, rule.name, replace(self._question, where=tuple(terms)))
        for _ in other._recorder.steps():
            pass
        waiting = waiting_anchors(self._replay, other._evaluator, other._question)
        return "" if waiting is None else f"{rule.name}: {waiting.told.text}"


Where: TypeAlias = Sequence[tuple[Variable, Term]]
"""Attributes of an event, and the terms that are requested of them."""


def copied_terms(rule: Rule, where: Where) -> dict[Label, list[tuple[Variable, Term]]]:
    """The requested terms of a rule's events as attributes of the roles from which `with` copies
    them, by the label of the role."""
    found: dict[Label, list[tuple[Variable, Term]]] = {}
    copies = {each.variable: each.expression for each in rule.assignments}
    for name, term in where:
        copied = copies.get(name)
        if isinstance(copied, Attribute):
            found.setdefault(copied.label, []).append((copied.name, term))
    return found


def _event_of(role: Role) -> Label | None:
    """The label of the events of a role; None for one of facts."""
    return role.source.event if isinstance(role.source, EventSource) else None


_MOST_FACTS: Final = 5
_MOST_LATEST: Final = 500
"""Maximum number of facts that are compared if all fail the anchor's constraints."""
_YEAR_3000: Final = 32_503_680_000 * Unit.SECOND.value
_FINER: Final = {Unit.SECOND: "seconds", Unit.MILLISECOND: "milliseconds", Unit.MICROSECOND: "microseconds"}
"""Alternative units of times, the coarsest first."""


# Remarks for questions whose times include no instant: the nearest instants, or rejected
# elements.


class RequestedInstants:
    """Counter of the requested instants, with the nearest other instants and the rejected elements.

    Args:
        question: the requested times.
        least, delay: the least and the greatest delay of the anchor in µs.

    Attributes:
        number: the number of requested instants so far.

    >>> instants = RequestedInstants(Question(61_000_000, 61_000_000), 0, 0)
    >>> instants.note(60_000_000)
    >>> instants.note(120_000_000)
    >>> instants.remarks(Clock())
    ('There is no instant at 61: the nearest are 60 and 120.',)
    """

    def __init__(self, question: Question, least: Micros, delay: Micros) -> None:
        self._first = -LAST_MICRO if question.first is None else question.first
        self._last = LAST_MICRO if question.last is None else question.last
        self._least = least
        self._delay = delay
        self._before: Micros | None = None
        self._after: Micros | None = None
        self._rejected = 0
        self._first_rejected: DeadLetter | None = None
        self.number = 0

    def note(self, time: Micros) -> None:
        """Record an instant, by its time in µs since 1970."""
        delayed = self._first <= time + self._delay and time + self._least <= self._last
        if self._first <= time <= self._last or delayed:
            self.number += 1
        elif time < self._first:
            self._before = time
        elif self._after is None:
            self._after = time

    def note_rejected(self, rejected: RejectedElement) -> None:
        """Record an element that an input rejects."""
        self._rejected += 1
        self._first_rejected = self._first_rejected or rejected.dead_letter

    def remarks(self, clock: Clock) -> tuple[str, ...]:
        """Sentences on the nearest instants or on rejected elements; empty if an instant is
        requested."""
        if self.number:
            return ()
        nearest = [str(format_time(time, clock)) for time in (self._before, self._after) if time is not None]
        if nearest:
            first, last = format_time(self._first, clock), format_time(self._last, clock)
            where = f"at {first}" if first == last else "between the times asked about"
            return (f"There is no instant {where}: the nearest {'is' if len(nearest) == 1 else 'are'} {' and '.join(nearest)}.",)
        if self._first_rejected is None:
            return ("There is no instant: no element has come.",)
        letter = self._first_rejected
        place = ElementPlace(letter.file, letter.line)
        return (f"There is no instant: all {self._rejected:,} elements are dead letters, the first {place}: {letter.why}.",)
