"""Reasons of the events of a program's units, of any language.

Each language has one finder of reasons. An event in the evidence of another event is followed to
the reasons of its own unit. A further language is a further case of `UnitReasons.of`.
"""

from __future__ import annotations

from typing import Final

from dotr.explanations.evidence.event_reasons import EventReasons, ProofsByTime
from dotr.explanations.evidence.reasons import UnitReason
from dotr.explanations.replay.cached_replay import CachedReplay
from dotr.explanations.replay.firings import AnyFiring, FiringRecorder, NamedFiring, UnitFiring
from dotr.model.terms import Term
from dotr.temporal.layout.units import StreamQuery

_MOST_NESTED: Final = 12
"""Maximum depth to which composite events are followed."""


class UnitReasons:
    """Finder of the reasons of recorded firings.

    Args:
        recorder: the recorder, after the instant of the firings.
        proofs: proofs at the instants of the replay.
        cached: the replay.
    """

    def __init__(self, recorder: FiringRecorder, proofs: ProofsByTime, cached: CachedReplay) -> None:
        self._rules = EventReasons(recorder, proofs, self.follow)
        self._recorder = recorder
        self._proofs = proofs
        self._cached = cached
        self._nested = 0

    def of(self, firing: AnyFiring, name: Term | None = None) -> UnitReason:
        """The reasons of an event; `name`: only of the part that creates this fresh name."""
        match firing:
            case NamedFiring():
                return self._rules.of(firing)
            case UnitFiring(StreamQuery()):
                from dotr.languages.continuous.explanation.reasons import ReportReasons
                from dotr.languages.continuous.explanation.window_elements import WindowElements

                return ReportReasons(self._recorder, self._proofs, WindowElements(self._cached), self.follow).of(firing, name)
            case _:
                return self._of_points_or_intervals(firing)

    def _of_points_or_intervals(self, firing: UnitFiring) -> UnitReason:
        """The reasons of an event of a lazily loaded language."""
        from dotr.languages.lars.unit import LarsUnit

        if isinstance(firing.unit, LarsUnit):
            from dotr.languages.lars.explanation.reasons import LarsReasons

            return LarsReasons(self._recorder, self._proofs, self.follow).of(firing)
        from dotr.languages.epsparql.explanation.reasons import IntervalReasons

        return IntervalReasons(self._recorder, self._proofs, self.follow).of(firing)

    def follow(self, firing: AnyFiring) -> UnitReason | None:
        """The reasons of an event in the evidence of another one; None beyond the maximum depth."""
        if self._nested == _MOST_NESTED:
            return None
        self._nested += 1
        try:
            return self.of(firing)
        finally:
            self._nested -= 1
