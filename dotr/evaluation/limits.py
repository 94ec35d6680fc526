"""Limits on the work of an instant, in counts instead of seconds, so that every runtime exceeds
them at the same instant.

Idea: joins add up the items that their inner loops are about to visit, and compare the sum with a
bound below which no limit can be exceeded. Only above it `next_check` compares rows and probes with
the limits.
Cost: one addition and one comparison for each inner loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from dotr.evaluation.literal_limits import LONGEST_TEXT, MOST_TEXT
from dotr.evaluation.literal_limits import LimitExceeded as LimitExceeded

LimitCheck: TypeAlias = Callable[[int, Any], int]
"""A function of work and rows so far to the amount of work at which the next check is due. Raises
`LimitExceeded`.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one instant, one record and one match.

    `triples`: triples of an instant beyond the background, stated and derived. `rows`: solutions of
    a query at an instant, intermediate ones included. `probes`: triples and solutions that a query
    visits for them, and candidates that one anchor of a rule tries. `matches`: the product of the
    numbers of events that the clauses on a branch of a match have chosen. `literal`: characters of
    a literal that an expression computes. `nesting`: the depth of brackets in a record. `record`:
    bytes of a record, decompressed. `text`: bytes of the terms that are computed at an instant,
    report or point, or by a rule at one anchor. `gap`: ticks, reports or points of a unit between
    two instants.

    >>> Limits(rows=10_000).rows
    10000
    """

    triples: int = 1_000_000
    rows: int = 1_000_000
    probes: int = 20_000_000
    matches: int = 100_000
    literal: int = LONGEST_TEXT
    nesting: int = 64
    record: int = 8 << 20
    text: int = MOST_TEXT
    gap: int = 1_000_000

    @property
    def fingerprint(self) -> list[tuple[str, int]]:
        """The limits that a program's fingerprint covers: the first three, and each other limit
        that differs from its default, since the oldest checkpoints know the first three only.

        >>> Limits(matches=7).fingerprint
        [('matches', 7), ('probes', 20000000), ('rows', 1000000), ('triples', 1000000)]
        """
        original, defaults = ("triples", "rows", "probes"), LIMITS.to_json()
        return sorted((name, value) for name, value in self.to_json().items() if name in original or value != defaults.get(name))

    def to_json(self) -> dict[str, int]:
        """The limits under their written names, which specifications and fingerprints hold; `gap`
        only where it is not the default, as in older releases.

        >>> Limits.from_json(Limits(matches=7).to_json()) == Limits(matches=7)
        True
        """
        return {
            "triples": self.triples,
            "rows": self.rows,
            "probes": self.probes,
            "matches": self.matches,
            "literal": self.literal,
            "nesting": self.nesting,
            "record": self.record,
            **{name: value for name, value in (("text", self.text), ("gap", self.gap)) if value != getattr(LIMITS, name)},
        }

    @staticmethod
    def from_json(data: Mapping[str, int]) -> Limits:
        """The inverse of `to_json`."""
        return Limits(
            triples=data["triples"],
            rows=data["rows"],
            probes=data["probes"],
            matches=data["matches"],
            literal=data["literal"],
            text=data.get("text", LIMITS.text),
            nesting=data["nesting"],
            record=data["record"],
            gap=data.get("gap", LIMITS.gap),
        )

    @property
    def for_background(self) -> Limits:
        """The limits of the one evaluation of a query over the background alone.

        Intermediate rows and probes get 10 and 50 times the limits of an instant. The number of
        answers keeps the limit of an instant, since every instant repeats them.

        >>> Limits().for_background.rows, Limits().for_background.probes
        (10000000, 1000000000)
        """
        return replace(self, rows=10 * self.rows, probes=50 * self.probes)

    @property
    def uncounted_work(self) -> int:
        """The work below which no limit can be exceeded, since each row is at least one probe."""
        return min(self.rows, self.probes)

    def check_rows(self, count: int) -> None:
        """Raises `LimitExceeded` for more rows than the limit.

        >>> Limits(rows=2).check_rows(2)
        >>> Limits(rows=2).check_rows(3)
        Traceback (most recent call last):
        dotr.evaluation.literal_limits.LimitExceeded: more than 2 rows
        """
        if count > self.rows:
            raise LimitExceeded(self.rows, "rows")

    def check_probes(self, count: int) -> None:
        """Raises `LimitExceeded` for more probes than the limit."""
        if count > self.probes:
            raise LimitExceeded(self.probes, "triples and rows looked at")

    def next_check(self, work: int, rows: Sequence[object]) -> int:
        """The `LimitCheck` of one query's rows.

        >>> Limits(rows=10, probes=50).next_check(11, range(4))
        18
        >>> Limits(rows=10, probes=50).next_check(48, range(4))
        50
        """
        self.check_probes(work)
        self.check_rows(len(rows))
        return min(self.probes, work + self.rows - len(rows) + 1)

    def next_check_of_several(self, work: int, rows: Sequence[Sequence[object]]) -> int:
        """The `LimitCheck` of several queries' rows, whose work is counted together."""
        return min([self.next_check(work, each) for each in rows])


LIMITS: Final = Limits()
NO_LIMITS: Final = replace(LIMITS, triples=sys.maxsize, rows=sys.maxsize, probes=sys.maxsize)
