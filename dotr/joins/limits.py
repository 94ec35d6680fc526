"""How much work an instant may make: counted, never timed, so that the same instant goes over a limit wherever it is evaluated.

Idea: joins count what their inner loops are about to look at, and compare it with a bound below which no limit can have been met; only a
join that passes it asks `passed`, which looks at rows and probes. Cost: one addition and one comparison an inner loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from dotr.errors.fallbacks import ExpectedError

LimitCheck: TypeAlias = Callable[[int, Any], int]
"""Work done and rows found so far, to the work up to which neither need be looked at again. Raises `LimitExceeded`."""


class LimitExceeded(ExpectedError):
    """More than there may be."""

    def __init__(self, limit: int, what: str = "triples") -> None:
        super().__init__(f"more than {limit:,} {what}")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one instant, one record and one match.

    `triples`: triples of an instant beyond the background, given and derived. `rows`: solutions of
    a query at an instant, intermediate ones included. `probes`: triples and solutions that a query
    looks at for them, and candidates that one anchor of a rule tries. `matches`: the product of the
    numbers of events that the clauses on a branch of a match have chosen. `literal`: characters of
    a literal that an expression computes. `nesting`: the depth of brackets in a record. `record`:
    bytes of a record, decompressed.

    >>> Limits(rows=10_000).rows
    10000
    """

    triples: int = 1_000_000
    rows: int = 1_000_000
    probes: int = 20_000_000
    matches: int = 100_000
    literal: int = 1 << 20
    nesting: int = 64
    record: int = 8 << 20

    @property
    def fingerprint(self) -> list[tuple[str, int]]:
        """The limits that a program's fingerprint covers: the first three, and each later one where
        it differs from its default, since checkpoints were made before there were any others.

        >>> Limits(matches=7).fingerprint
        [('matches', 7), ('probes', 20000000), ('rows', 1000000), ('triples', 1000000)]
        """
        old, usual = ("triples", "rows", "probes"), LIMITS.to_json()
        return sorted((name, value) for name, value in self.to_json().items() if name in old or value != usual[name])

    def to_json(self) -> dict[str, int]:
        """The limits under their written names, which specifications and fingerprints hold.

        >>> Limits.of_json(Limits(matches=7).to_json()) == Limits(matches=7)
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
            nesting=data["nesting"],
            record=data["record"],
        )

    @property
    def for_background(self) -> Limits:
        """What a query may keep and look at on the way to its answers over the background alone,
        once. As many answers as at an instant, each of which has them too, is all that it may have.

        >>> Limits().beforehand
        Limits(triples=1000000, rows=10000000, probes=1000000000, matches=100000, literal=1048576, nesting=64, record=8388608)
        """
        return replace(self, rows=10 * self.rows, probes=50 * self.probes)

    @property
    def uncounted_work(self) -> int:
        """The work that no query can be refused for: each row is at least one probe."""
        return min(self.rows, self.probes)

    def check_rows(self, count: int) -> None:
        """
        >>> Limits(rows=2).check_rows(2)
        >>> Limits(rows=2).check_rows(3)
        Traceback (most recent call last):
        dotr.joins.limits.LimitExceeded: more than 2 rows
        """
        if count > self.rows:
            raise LimitExceeded(self.rows, "rows")

    def check_probes(self, count: int) -> None:
        """Raises `LimitExceeded` where there are more."""
        if count > self.probes:
            raise LimitExceeded(self.probes, "triples and rows looked at")

    def next_check(self, work: int, rows: Sequence[object]) -> int:
        """As `Passed`, for the rows of one query.

        >>> Limits(rows=10, probes=50).passed(11, range(4)), Limits(rows=10, probes=50).passed(48, range(4))
        (18, 50)
        """
        self.check_probes(work)
        self.check_rows(len(rows))
        return min(self.probes, work + self.rows - len(rows) + 1)

    def next_check_of_several(self, work: int, rows: Sequence[Sequence[object]]) -> int:
        """As `passed`, for the rows of several queries."""
        return min([self.next_check(work, each) for each in rows])


LIMITS: Final = Limits()
NO_LIMITS: Final = replace(LIMITS, triples=sys.maxsize, rows=sys.maxsize, probes=sys.maxsize)
