"""Totals of a run, counted in the same way by every runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias

from dotr.errors.diagnostics import DotrError
from dotr.model import dataclass
from dotr.model.stream import Reason
from dotr.model.terms import Term
from dotr.streams.time_formats import RepeatedHour
from dotr.temporal.matching.rule_counts import RuleCounts, added_counts


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a run.

    - `elements`: read and not rejected.
    - `instants`: closed and processed.
    - `facts`: facts of interest.
    - `events`: written.
    - `dead_letters`: rejected records, by reason.
    - `dropped`: output triples that cannot be written.
    - `inconsistent`: instants that contradict themselves or the background.
    - `fallbacks`: see `dotr.errors.fallbacks`; they depend on the division of a run into batches,
      so equality ignores them.
    - `rules`: the counts of the rules with any, by name.
    - `repeated_hours`: times of files that go back within an hour that their zone has twice; which
      of a file's is the first may depend on the division into tasks, so equality ignores them.
    - `left_out`: texts of optional typed cells that are of another type, by input and column.
    - `terms`: the predicates and classes of elements, recorded until every term that an anchor
      needs has occurred (`dotr.engine.stream_terms`); ignored by equality.
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
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)
    repeated_hours: tuple[RepeatedHour, ...] = field(default=(), compare=False)

    @property
    def all_rejected(self) -> bool:
        """True if elements were read, and all were rejected. An empty message is no element, nor is
        a file that has changed."""
        no_elements = (Reason.EMPTY, Reason.CHANGED)
        return not self.elements and any(count for reason, count in self.dead_letters.items() if reason not in no_elements)

    def __add__(self, other: Totals) -> Totals:
        """Sum of both totals.

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
            {key: self.left_out.get(key, 0) + other.left_out.get(key, 0) for key in sorted({*self.left_out, *other.left_out})},
            self.repeated_hours + tuple(each for each in other.repeated_hours if each not in self.repeated_hours),
        )


ReportTotals: TypeAlias = Callable[[Totals], None]
"""Callback that receives the totals so far from time to time."""


ReportActivity: TypeAlias = Callable[[str], None]
"""Callback that receives the activity of a run before its first totals; empty when it ends."""


def ignore_activity(activity: str) -> None:
    """Discard the activity."""


class RunFailed(DotrError):
    """Failure of a run for a reason outside of the user's files.

    The message is one sentence, and the path of the log.
    """


class InputLost(RunFailed):
    """Failure of a run whose input cannot be read further, so that a retry would fail too."""
