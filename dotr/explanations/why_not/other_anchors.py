"""Late elements that would have been anchors of a rule, and those at which it would have fired.

Idea: each late element is closed as an instant of its own, whose facts are candidate anchors. After
the replay the rule is evaluated at them, over the history of the elements that arrived in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dotr.engine.driver import close_instant
from dotr.engine.replay import ElementPlace, InputProgress, RejectedElement, Replay
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.evaluations import failing
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.replay.recording import Recorder
from dotr.explanations.text.narrative import Narrative
from dotr.explanations.why_not.survey import MOST_BINDINGS, Question
from dotr.model.rules import FactSource
from dotr.model.stream import Reason
from dotr.model.time import LAST_MICRO, Clock

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
