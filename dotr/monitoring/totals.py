"""Totals of a run, counted alike by every runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dotr.errors.diagnostics import DotrError
from dotr.model.stream import Reason
from dotr.model.terms import Term
from dotr.patterns.rule_counts import RuleCounts, added_counts


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a run.

    `elements` are those read and not rejected, `instants` those processed, `facts` those of
    interest, `events` those written, `dropped` output triples that cannot be written. `fallbacks`
    (`dotr.errors.fallbacks`) depend on how a run is divided into batches, so equality ignores them.
    `rules` has the counts of the rules that have found anything, by name; `terms` the predicates
    and classes that elements bring, while a rule waits for any (`dotr.monitoring.stream_terms`).
    """

    elements: int = 0
    instants: int = 0
    facts: int = 0
    events: int = 0
    dead_letters: Mapping[Reason, int] = field(default_factory=dict)
    dropped: int = 0
    inconsistent: int = 0
    fallbacks: int = field(default=0, compare=False)
    rules: Mapping[str, RuleCounts] = field(default_factory=dict)
    terms: frozenset[Term] = field(default=frozenset(), compare=False)

    @property
    def all_rejected(self) -> bool:
        """True where elements were read and every one was rejected. An empty message is no element."""
        return not self.elements and any(count for reason, count in self.dead_letters.items() if reason is not Reason.EMPTY)

    def __add__(self, other: Totals) -> Totals:
        """
        >>> both = Totals(elements=2, dead_letters={Reason.LATE: 1}) + Totals(elements=3, dead_letters={Reason.LATE: 2})
        >>> both == Totals(elements=5, dead_letters={Reason.LATE: 3})
        True
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
            added_counts(self.rules, other.rules),
            self.terms | other.terms,
        )


ReportTotals: TypeAlias = Callable[[Totals], None]
"""Callback that receives the totals so far from time to time."""


ReportActivity: TypeAlias = Callable[[str], None]
"""Callback that receives the activity of a run before its first totals: a few words, empty once
there are totals."""


def ignore_activity(activity: str) -> None:
    """Discard the activity."""


class RunFailed(DotrError):
    """Failure of a run for a reason outside the user's files; the message is one sentence and the
    place of the log."""


class InputLost(RunFailed):
    """Failure of a run whose input cannot be read any further, so that another try would fail
    too."""
