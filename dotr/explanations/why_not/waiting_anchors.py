"""Delayed anchors whose due time is not closed, and the input that holds back the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.evidence.conditions import failing
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.replay.stream import InputProgress, Replay
from dotr.explanations.why_not.survey import RequestedAnchors
from dotr.model.time import LAST_MICRO, Clock


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
    def text(self) -> str:
        """`1 anchor waits until 240. All is closed up to 130: …`."""
        waits = (
            f"1 anchor waits until {self.until}" if self.anchors == 1 else f"{self.anchors:,} anchors wait, the first until {self.until}"
        )
        return f"{waits}. {self.closed}"

    def to_json(self) -> dict[str, object]:
        """The values as a JSON object."""
        return {"anchors": self.anchors, "until": self.until, "closed": self.closed}


def waiting_anchors(replay: Replay, evaluator: RuleEvaluator, requested: RequestedAnchors) -> WaitingAnchors | None:
    """The delayed anchors that are not yet due at the end of a replay; None: there is none.

    Args:
        replay: the replay, after its last instant.
        evaluator: the evaluator of the rule, with the history up to the last instant.
        requested: the requested anchors.
    """
    delay, last = evaluator.rule.anchor.delay, evaluator.history.passed
    if not delay or last is None or replay.ended:
        return None
    waiting = [
        each
        for each in evaluator.anchors(last - delay + 1, LAST_MICRO)
        if requested.includes(each, each.time + delay) and not failing(evaluator.own_conditions(each))
    ]
    if not waiting:
        return None
    until = format_time(waiting[0].time + delay, replay.clock)
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
