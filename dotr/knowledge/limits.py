"""How much work an instant may make: counted, never timed, so that the same instant goes over a limit wherever it is evaluated.

Idea: joins count what their inner loops are about to look at, and compare it with a bound below which no limit can have been met; only a
join that passes it asks `passed`, which looks at rows and probes. Cost: one addition and one comparison an inner loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

Passed: TypeAlias = Callable[[int, Any], int]
"""Work done and rows found so far, to the work up to which neither need be looked at again. Raises `LimitExceeded`."""


class LimitExceeded(Exception):
    """More than there may be."""

    def __init__(self, limit: int, what: str = "triples") -> None:
        super().__init__(f"more than {limit:,} {what}")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Limits:
    """`triples`: how many an instant may have beyond the background, those that it is given among them. `rows`: how many solutions a query
    may have there, or keep on the way to them. `probes`: how many triples and solutions it may look at for them."""

    triples: int = 1_000_000
    rows: int = 1_000_000
    probes: int = 20_000_000

    @property
    def beforehand(self) -> Limits:
        """What a query may keep and look at on the way to its answers over the background alone, once. As many answers as at an instant,
        each of which has them too, is all that it may have.

        >>> Limits().beforehand
        Limits(triples=1000000, rows=10000000, probes=1000000000)
        """
        return replace(self, rows=10 * self.rows, probes=50 * self.probes)

    @property
    def least(self) -> int:
        """The work that no query can be refused for: each row is at least one probe."""
        return min(self.rows, self.probes)

    def check_rows(self, count: int) -> None:
        """
        >>> Limits(rows=2).check_rows(2)
        >>> Limits(rows=2).check_rows(3)
        Traceback (most recent call last):
        dotr.knowledge.limits.LimitExceeded: more than 2 rows
        """
        if count > self.rows:
            raise LimitExceeded(self.rows, "rows")

    def check_probes(self, count: int) -> None:
        """Raises `LimitExceeded` where there are more."""
        if count > self.probes:
            raise LimitExceeded(self.probes, "triples and rows looked at")

    def passed(self, work: int, rows: Sequence[object]) -> int:
        """As `Passed`, for the rows of one query.

        >>> Limits(rows=10, probes=50).passed(11, range(4)), Limits(rows=10, probes=50).passed(48, range(4))
        (18, 50)
        """
        self.check_probes(work)
        self.check_rows(len(rows))
        return min(self.probes, work + self.rows - len(rows) + 1)

    def passed_by_some(self, work: int, rows: Sequence[Sequence[object]]) -> int:
        """As `passed`, for the rows of several queries."""
        return min([self.passed(work, each) for each in rows])


LIMITS: Final = Limits()
NO_LIMITS: Final = Limits(sys.maxsize, sys.maxsize, sys.maxsize)
