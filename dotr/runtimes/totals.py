"""What a run has done so far, counted the same way by every runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dotr.diagnostics import DotrError
from dotr.model.stream import Reason


@dataclass(frozen=True, slots=True)
class Totals:
    """Elements read and not rejected, the instants they made, facts of interest, events written, dead letters by reason, the triples
    that firings had to drop, and how many of the instants were inconsistent."""

    elements: int = 0
    instants: int = 0
    facts: int = 0
    events: int = 0
    dead: Mapping[Reason, int] = field(default_factory=dict)
    dropped: int = 0
    inconsistent: int = 0

    def __add__(self, other: Totals) -> Totals:
        """
        >>> Totals(elements=2, dead={Reason.LATE: 1}) + Totals(elements=3, dead={Reason.LATE: 2})
        Totals(elements=5, instants=0, facts=0, events=0, dead={<Reason.LATE: 'late'>: 3}, dropped=0, inconsistent=0)
        """
        reasons = [reason for reason in Reason if reason in self.dead or reason in other.dead]
        return Totals(
            self.elements + other.elements,
            self.instants + other.instants,
            self.facts + other.facts,
            self.events + other.events,
            {reason: self.dead.get(reason, 0) + other.dead.get(reason, 0) for reason in reasons},
            self.dropped + other.dropped,
            self.inconsistent + other.inconsistent,
        )


Progress: TypeAlias = Callable[[Totals], None]
"""Told the totals so far, now and then."""


class RunFailed(DotrError):
    """A run that could not go on for a reason that is not the user's text: one sentence, and where the log is."""
