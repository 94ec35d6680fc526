"""Default limits that the code under test goes over: a million triples take seconds, and twenty thousand take the same path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from dotr.evaluation.limits import LIMITS, MOST_TEXT_OF_BACKGROUND, LimitExceeded
from dotr.instant.datalog.closure.instant import DERIVATIONS

DEFAULTS: Final = frozenset(
    (
        *(factor * LIMITS.triples for factor in (1, DERIVATIONS)),
        *(limit for each in (LIMITS, LIMITS.for_background) for limit in (each.rows, each.probes)),
        *(LIMITS.text, MOST_TEXT_OF_BACKGROUND),
    )
)
"""The default limits of the work of an instant and of a background."""


@contextmanager
def defaults_exceeded() -> Iterator[list[str]]:
    """The messages of all errors about a default limit that this process makes in the block, raised or answered by dead letters."""
    reached: list[str] = []
    exceed = LimitExceeded.__init__

    def noted(error: LimitExceeded, limit: int, what: str = "triples") -> None:
        exceed(error, limit, what)
        if limit in DEFAULTS:
            reached.append(str(error))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LimitExceeded, "__init__", noted)
        yield reached
