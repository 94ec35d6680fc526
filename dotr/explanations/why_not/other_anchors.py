"""Late elements that would have been anchors of a rule, and those at which it would have fired.

Idea: each late element is closed as an instant of its own, whose facts are candidate anchors. After
the replay the rule is evaluated at them, over the history of the elements that arrived in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dotr.engine.driver import close_instant
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.replay.history import RecordedEvent
from dotr.explanations.replay.recording import Recorder
from dotr.explanations.replay.stream import ElementPlace, RejectedElement
from dotr.explanations.why_not.survey import MOST_BINDINGS, RequestedAnchors
from dotr.model.rules import FactSource
from dotr.model.stream import Reason

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
    def text(self) -> str:
        """The counts as a sentence.

        >>> LateElements(5, 2, (ElementPlace("export.csv", 5),)).text
        'Of 5 late elements (dead letters), 2 would have been anchors, and export.csv:5 would have fired.'
        """
        start = "Of 1 late element (a dead letter)" if self.number == 1 else f"Of {self.number:,} late elements (dead letters)"
        if self.number > _MOST_KEPT:
            start += f", of which the first {_MOST_KEPT:,} were looked at"
        text = f"{start}, {self.anchors:,} would have been {'an anchor' if self.anchors == 1 else 'anchors'}"
        if not self.firing:
            return f"{text}, and none would have fired."
        listed = ", ".join(map(str, self.firing[:_MOST_LISTED]))
        further = len(self.firing) - _MOST_LISTED
        return f"{text}, and {listed}{f' and {further:,} more' if further > 0 else ''} would have fired."

    def to_json(self) -> dict[str, object]:
        """The values as a JSON object."""
        return {"number": self.number, "anchors": self.anchors, "would_have_fired": list(map(str, self.firing))}


class LateSearch:
    """Collector of the late elements of a replay."""

    def __init__(self, evaluator: RuleEvaluator, recorder: Recorder, requested: RequestedAnchors) -> None:
        self._evaluator = evaluator
        self._recorder = recorder
        self._requested = requested
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
        found = [each for each in events if self._requested.includes(each, time + anchor.delay)]
        return [each for each in found if all(outcome.holds is True for outcome in self._evaluator.own_conditions(each))]


_AFTER_ALL: Final = 1 << 40
"""First number of the facts of late elements, above those of facts that arrived in time."""
