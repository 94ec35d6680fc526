"""Survey of a rule's anchors over a replay: counts of bindings, and the anchor with most progress.

Idea: the bindings after each clause are counted at every anchor. Of the anchors that did not fire,
the latest ones of each level of progress are kept. After the replay, those of the highest level are
evaluated with all candidates, and the one with the most progress is explained.
Memory: the history holds a bounded number of events. Before its older half is discarded, the anchor
with the most progress so far is explained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from dotr.engine.replay import RejectedElement
from dotr.evaluation.expressions import has_terms
from dotr.explanations.evidence.evaluations import AnchorEvaluation, AnchorOrder
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.replay.recording import Recorder, Step
from dotr.model import dataclass
from dotr.model.rules import Absent, Aggregate
from dotr.model.terms import Term, Variable
from dotr.model.time import Micros
from dotr.temporal.layout.retention import lookbacks

REACH: Final = 10
"""Distance in window lengths within which events are candidates of an explanation."""
MOST_BINDINGS: Final = 200
"""Maximum number of bindings of a clause that an explanation follows."""
_MOST_EVENTS: Final = 400_000
"""Number of events of a history above which its older half is discarded."""
_MOST_STEPS: Final = 512
"""Maximum number of times that are kept for each level of progress."""
_MOST_EVALUATED: Final = 500
"""Maximum number of anchors of one level that are compared."""
_MOST_CANDIDATES: Final = 200_000
"""Maximum number of candidates that are evaluated to compare anchors."""

_Explained = TypeVar("_Explained")


class AnchorTimes(Enum):
    """The times of a delayed anchor that a question is about: its own, that at which it is due, or
    either."""

    OWN = "own"
    DUE = "due"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the anchors of a rule, or the events of a unit; without values about all.

    Attributes:
        first, last: times in µs since 1970, both included; None: no bound.
        where: attributes that equal a term, by SPARQL's `=`.
        every: explain every anchor that did not fire, not only the one with the most progress.
        times: the times of an anchor that count.
    """

    first: Micros | None = None
    last: Micros | None = None
    where: tuple[tuple[Variable, Term], ...] = ()
    every: bool = False
    times: AnchorTimes = AnchorTimes.EITHER

    def covers(self, time: Micros) -> bool:
        """True for a requested time."""
        return (self.first is None or self.first <= time) and (self.last is None or time <= self.last)

    def includes(self, time: Micros, attributes: Mapping[Variable, Term]) -> bool:
        """True for an event with a requested time and the requested attributes."""
        return self.covers(time) and (not self.where or has_terms(attributes, self.where))

    def selects(self, anchor: RecordedEvent, due: Micros) -> bool:
        """True for a requested anchor, which is due at a time in µs since 1970.

        >>> lab = RecordedEvent(0, 60, 0, ("room",), ("<http://e/lab>",))
        >>> Question(60, 60).selects(lab, 60), Question(where=(("room", "<http://e/attic>"),)).selects(lab, 60)
        (True, False)
        """
        is_own = self.times is not AnchorTimes.DUE and self.covers(anchor.time)
        is_due = self.times is not AnchorTimes.OWN and self.covers(due)
        return (is_own or is_due) and (not self.where or has_terms(anchor.attributes, self.where))


class Progress(NamedTuple):
    """Progress of the evaluation at an anchor, ordered by its fields.

    - `passed`: the number of leading clauses that leave a binding.
    - `nearness`: minus the number of failing conditions of the best candidate of the next clause.
    - `order`: the position of the anchor; of equal progress, the latest anchor is the greatest.
    """

    passed: int
    nearness: int
    order: AnchorOrder


@dataclass
class Survey(Generic[_Explained]):
    """Counts of a rule's anchors, and explanations of anchors that did not fire.

    Attributes:
        recorder: the replay and the history.
        evaluator: the evaluator over this history.
        question: the requested anchors.
        explain: explains an anchor that did not fire; called while the history has its events.
        facts: the number of requested events of the anchor's stream.
        anchors: the number of those whose own constraints hold.
        after: the number of bindings after each clause, and after `if` if there is one.
        errors: the number of bindings at which `if` errs.
        events: the number of firings at these anchors.
        explained: the explanations.
    """

    recorder: Recorder
    evaluator: RuleEvaluator
    question: Question
    explain: Callable[[AnchorEvaluation], _Explained]
    facts: int = 0
    anchors: int = 0
    after: list[int] = field(default_factory=list)
    errors: int = 0
    events: int = 0
    explained: list[_Explained] = field(default_factory=list)
    _kept: dict[int, deque[Sequence[RecordedEvent]]] = field(default_factory=dict)
    _non_anchors: deque[RecordedEvent] = field(default_factory=lambda: deque(maxlen=_MOST_EVALUATED))
    _furthest: tuple[Progress, _Explained] | None = None
    _threshold: int = _MOST_EVENTS

    def run(self, on_reject: Callable[[RejectedElement], None] | None = None, on_instant: Callable[[Micros], None] | None = None) -> None:
        """Run the whole replay; the counts and explanations are then complete.

        Args:
            on_reject: called with each element that an input rejects.
            on_instant: called with the time (µs since 1970) of each instant.
        """
        rule = self.evaluator.rule
        self.after = [0] * (len(rule.clauses) + (rule.condition is not None))
        consumes_aggregated = any(isinstance(each, Aggregate) and each.role.label in rule.consuming for each in rule.clauses)
        for step in self.recorder.steps(on_reject, on_instant):
            self._note_consumed(step, consumes_aggregated)
            self._note(step)
            if self.recorder.history.count() > self._threshold:
                self._discard(step.time)
        if not self.question.every:
            self._explain_furthest()
            if self._furthest is not None:
                self.explained.append(self._furthest[1])

    @property
    def non_anchors(self) -> Sequence[RecordedEvent]:
        """The latest events of the anchor's stream whose own constraints fail; empty if there is an
        anchor.
        """
        return () if self.anchors else tuple(self._non_anchors)

    # --- one time ---

    def _note(self, step: Step) -> None:
        question = self.question
        is_of_all = not question.where and question.first is None and question.last is None
        events = step.events if is_of_all else [each for each in step.events if question.selects(each, step.time)]
        if not events:
            return
        self.facts += len(events)
        label = self.evaluator.rule.anchor.label
        fired = {firing.events[label] for firing in step.firings}
        if len(events) == len(step.events):
            anchors, after, errors, fired_here = step.anchors, step.after, step.errors, len(fired)
            self.events += len(step.firings)
        else:
            anchors, after, errors, fired_here = self._evaluated(events)
            self.events += sum(firing.events[label] in events for firing in step.firings)
        self.anchors += anchors
        self.errors += errors
        self.after = [before + more for before, more in zip(self.after, after, strict=True)]
        if not self.anchors:
            self._non_anchors += events
        if anchors == fired_here:
            return
        unfired = [each for each in events if each not in fired] if fired else events
        if self.question.every:
            evaluations = [self.evaluator.evaluate(each, REACH, MOST_BINDINGS) for each in unfired]
            self.explained += [self.explain(each) for each in evaluations if each.is_anchor and not each.fired]
        else:
            level = len(after) - 1 if fired else next((place for place, number in enumerate(after) if not number), len(after))
            self._kept.setdefault(level, deque(maxlen=_MOST_STEPS)).append(unfired)

    def _evaluated(self, events: Sequence[RecordedEvent]) -> tuple[int, Sequence[int], int, int]:
        """The counts for some of the events of a time: anchors, bindings after each clause, errors,
        anchors that fired.
        """
        evaluations = [self.evaluator.evaluate(each) for each in events]
        anchors = [each for each in evaluations if each.is_anchor]
        after = [sum(each.reached[place] for each in anchors) for place in range(len(self.after))]
        errors = sum(final.errs for each in anchors for final in each.final)
        return len(anchors), after, errors, sum(each.fired for each in anchors)

    def _note_consumed(self, step: Step, consumes_aggregated: bool) -> None:
        evaluator = self.evaluator
        rule = evaluator.rule
        if not step.firings or not (rule.consuming or rule.once is not None):
            return
        label = rule.anchor.label
        if consumes_aggregated or rule.once is not None:
            for anchor in sorted({firing.events[label] for firing in step.firings}, key=lambda each: each.number):
                evaluator.consume(evaluator.evaluate(anchor))
            return
        for firing in step.firings:
            order = evaluator.order_of(firing.events[label])
            for consumed in rule.consuming:
                if consumed != label:
                    evaluator.consumed.add(consumed, firing.events[consumed], order)

    # --- the furthest ---

    def _explain_furthest(self) -> None:
        """Find the kept anchor with the most progress, and explain it if no earlier one has
        more."""
        found: tuple[Progress, AnchorEvaluation] | None = None
        evaluated = candidates = 0
        for level in sorted(self._kept, reverse=True):
            if found is not None and found[0].passed >= level:
                break
            for step in reversed(self._kept[level]):
                for anchor in reversed(step):
                    evaluation = self.evaluator.evaluate(anchor, REACH, MOST_BINDINGS)
                    progress = progress_of(evaluation)
                    if evaluation.is_anchor and not evaluation.fired and (found is None or progress > found[0]):
                        found = progress, evaluation
                    evaluated += 1
                    candidates += sum(len(each.candidates) for clause in evaluation.clauses for each in clause)
                is_nearest = found is not None and found[0].passed >= level and found[0].nearness >= -1
                if is_nearest or evaluated >= _MOST_EVALUATED or candidates >= _MOST_CANDIDATES:
                    break
        self._kept.clear()
        if found is not None and (self._furthest is None or found[0] > self._furthest[0]):
            self._furthest = found[0], self.explain(found[1])

    def _discard(self, now: Micros) -> None:
        """Discard the older half of the history, except events within the reach of later
        anchors."""
        history, rule = self.recorder.history, self.evaluator.rule
        if not self.question.every:
            self._explain_furthest()
        reach = max(each.far for each in lookbacks(rule)) + rule.anchor.delay
        if rule.once is not None:
            reach = max(reach, rule.once.pause)
        before = min(history.middle(), now - reach)
        history.discard_before(before)
        self.evaluator.consumed.discard_before(before)
        self._threshold = max(_MOST_EVENTS, 2 * history.count())


def progress_of(evaluation: AnchorEvaluation) -> Progress:
    """The progress of the evaluation at an anchor."""
    passed = evaluation.passed
    if passed >= len(evaluation.clauses):
        failing = [sum(each.holds is not True for each in final.conditions) for final in evaluation.final]
        return Progress(passed, -min(failing, default=0), evaluation.order)
    failing = []
    for clause in evaluation.clauses[passed]:
        if isinstance(clause.clause, Absent):
            failing.append(len(clause.chosen))
        else:
            failing.append(min((each.failures for each in clause.candidates), default=_NO_CANDIDATE))
    return Progress(passed, -min(failing, default=_NO_CANDIDATE), evaluation.order)


_NO_CANDIDATE: Final = 1_000
"""Number of failing conditions of a clause without candidates: more than any candidate has."""
