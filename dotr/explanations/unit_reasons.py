"""Reasons of the events of a program's units, whatever their language.

Each kind of unit has one finder of reasons; an event that another event used is followed to the
reason of its own unit. A unit of another language is one more case of `UnitReasons.of`.
"""

from __future__ import annotations

from typing import Final

from dotr.errors.diagnostics import refuse
from dotr.explanations.event_reasons import EventReasons, ProofsByTime
from dotr.explanations.firings import AnyFiring, FiringRecorder, NamedFiring, UnitFiring
from dotr.explanations.reasons import UnitReason
from dotr.explanations.remembered_replay import RememberedReplay
from dotr.layout.units import StreamQuery
from dotr.model.terms import Term

_MOST_NESTED: Final = 12
"""Number of composite events in each other that are followed."""
_HINT: Final = "dotr run, test and check know it; ask about the units that it reads."


def is_explained(firing: AnyFiring) -> bool:
    """True for an event of a unit whose language explanations know."""
    return isinstance(firing, NamedFiring) or isinstance(firing.unit, StreamQuery)


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
                raise refuse("C240", f"the events of {firing.label} cannot be explained yet", firing.unit.span, _HINT)

    def follow(self, firing: AnyFiring) -> UnitReason | None:
        """The reasons of an event that another one used, to a bounded depth."""
        if self._nested == _MOST_NESTED or not is_explained(firing):
            return None
        self._nested += 1
        try:
            return self.of(firing)
        finally:
            self._nested -= 1
