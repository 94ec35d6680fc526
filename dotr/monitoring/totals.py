"""What a run has done so far, counted the same way by every runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dotr.errors.diagnostics import DotrError
from dotr.model.stream import Reason


@dataclass(frozen=True, slots=True)
class Totals:
    """Elements read and not rejected, the instants they made, facts of interest, events written, dead letters by reason, the triples
    that firings had to drop, how many of the instants were inconsistent, and how many fallbacks there were (`dotr.errors.fallbacks`): the last
    depends on how a run is divided, so that two runs are equal whatever it is."""

    elements: int = 0
    instants: int = 0
    facts: int = 0
    events: int = 0
    dead_letters: Mapping[Reason, int] = field(default_factory=dict)
    dropped: int = 0
    inconsistent: int = 0
    fallbacks: int = field(default=0, compare=False)

    @property
    def all_rejected(self) -> bool:
        """Whether elements were read and every one was rejected."""
        return not self.elements and any(self.dead_letters.values())

    def __add__(self, other: Totals) -> Totals:
        """
        >>> Totals(elements=2, dead={Reason.LATE: 1}) + Totals(elements=3, dead={Reason.LATE: 2})
        Totals(elements=5, instants=0, facts=0, events=0, dead={<Reason.LATE: 'late'>: 3}, dropped=0, inconsistent=0, fallbacks=0)
        """
        reasons = [reason for reason in Reason if reason in self.dead_letters or reason in other.dead_letters]
        return Totals(
            self.elements + other.elements,
            self.instants + other.instants,
            self.facts + other.facts,
            self.events + other.events,
            {reason: self.dead_letters.get(reason, 0) + other.dead_letters.get(reason, 0) for reason in reasons},
            self.dropped + other.dropped,
            self.inconsistent + other.inconsistent,
            self.fallbacks + other.fallbacks,
        )


ReportTotals: TypeAlias = Callable[[Totals], None]
"""Told the totals so far, now and then."""


ReportActivity: TypeAlias = Callable[[str], None]
"""Told what a run is doing before it has totals: a few words, or none once it has."""


def ignore_activity(doing: str) -> None:
    """Nobody asks what a run is doing."""


class RunFailed(DotrError):
    """A run that could not go on for a reason that is not the user's text: one sentence, and where the log is."""
