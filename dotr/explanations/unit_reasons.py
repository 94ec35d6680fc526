"""Reasons of the events of a program's units, whatever their language.

Each kind of unit has one finder of reasons; an event that another event used is followed to the
reason of its own unit. A unit of another language is one more case of `UnitReasons.of`.
"""

from __future__ import annotations

from typing import Final

from dotr.explanations.event_reasons import EventReasons, ProofsByTime
from dotr.explanations.firings import AnyFiring, FiringRecorder, NamedFiring, UnitFiring
from dotr.explanations.reasons import UnitReason
from dotr.explanations.remembered_replay import RememberedReplay
from dotr.layout.units import StreamQuery
from dotr.model.terms import Term

_MOST_NESTED: Final = 12
"""Number of composite events in each other that are followed."""


class UnitReasons:
    """Finder of the reasons of firings that a recorder has seen.

    Args:
        recorder: the recorder.
        proofs: proofs at the instants of the replay.
        remembered: the replay.
    """

    def __init__(self, recorder: FiringRecorder, proofs: ProofsByTime, remembered: RememberedReplay) -> None:
        self._rules = EventReasons(recorder, proofs, self.follow)
        self._recorder = recorder
        self._proofs = proofs
        self._remembered = remembered
        self._nested = 0

    def of(self, firing: AnyFiring, name: Term | None = None) -> UnitReason:
        """The reasons of an event; with a name that it makes, of the part that makes it."""
        match firing:
            case NamedFiring():
                return self._rules.of(firing)
            case UnitFiring(StreamQuery()):
                from dotr.explanations.report_reasons import ReportReasons
                from dotr.explanations.window_elements import WindowElements

                return ReportReasons(self._recorder, self._proofs, WindowElements(self._remembered), self.follow).of(firing, name)
            case _:
                return self._of_points_or_intervals(firing)

    def _of_points_or_intervals(self, firing: UnitFiring) -> UnitReason:
        """The reasons of an event of a language that is loaded only where a program has it."""
        from dotr.layout.lars_units import LarsUnit

        if isinstance(firing.unit, LarsUnit):
            from dotr.explanations.lars_reasons import LarsReasons

            return LarsReasons(self._recorder, self._proofs, self.follow).of(firing)
        from dotr.explanations.interval_reasons import IntervalReasons

        return IntervalReasons(self._recorder, self._proofs, self.follow).of(firing)

    def follow(self, firing: AnyFiring) -> UnitReason | None:
        """The reasons of an event that another one used, to a bounded depth."""
        if self._nested == _MOST_NESTED:
            return None
        self._nested += 1
        try:
            return self.of(firing)
        finally:
            self._nested -= 1
