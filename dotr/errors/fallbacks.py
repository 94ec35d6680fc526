"""Errors of dotr's own after which something else gave the answer, at a higher cost: recorded, so that no fault stays unseen.

A fallback takes two calls. `caught` comes first in an `except` that catches what nobody foresaw; with DOTR_FALLBACKS=raise in the
environment it raises the error again, which is how tests run. `answered` comes where the fallback has given a whole answer, and records
the error. Where content is lost instead, there are dead letters, and nothing is recorded.
Records stay in the process until a runtime takes them: Spark's workers hand them on with the rows of a batch.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from traceback import walk_tb
from typing import Final, NamedTuple

from dotr.errors.diagnostics import DotrError

RAISE: Final = "DOTR_FALLBACKS"
"""The variable of the environment that has errors raised again where it is `raise`."""
EXPECTED: Final = "DOTR_FALLBACKS_EXPECTED"
"""Names of kinds, with commas between them, that are not raised all the same; `all` names each of them."""

_PACKAGE: Final = Path(__file__).parent.parent


class ExpectedError(DotrError):
    """An error that code raises on purpose, and that is no fault: a limit, say."""


class FallbackKind(Enum):
    """A place that has a fallback, with what is done instead."""

    TOGETHER = "queries that are asked together failed, and each was asked by itself"
    QUERY = "a query failed, and was asked again"
    INSTANT = "an instant failed, and was evaluated again"
    RULES = "rules failed at an event, and were tried again one by one"
    GRAPHS = "output graphs could not be made, and were made again one by one"
    STORE = "a compiled background could not be used, and its sources were closed again"
    ANSWERS = "answers kept beside a compiled background could not be used, and were found again"
    TOTALS = "the totals of earlier runs could not be read, and begin anew"
    RESTART = "Spark gave up the query, and it was started again"

    @property
    def is_reported_at_once(self) -> bool:
        """Whether the user is told of it where it happens."""
        return self is FallbackKind.RESTART

    @property
    def is_fault(self) -> bool:
        """Whether the program is at fault, and not what it was given or where it runs."""
        return self in (FallbackKind.TOGETHER, FallbackKind.QUERY, FallbackKind.INSTANT, FallbackKind.RULES, FallbackKind.GRAPHS)


class Fallback(NamedTuple):
    """A kind of fallback, the error before it in a line, where that was raised, and how often."""

    kind: FallbackKind
    error: str
    place: str
    times: int

    def __str__(self) -> str:
        fault = "a fault of dotr's own: " if self.kind.is_fault else ""
        return f"{fault}{self.kind.value} ({self.error}, {self.place})"


def error_line(error: BaseException) -> str:
    """An error in a line.

    >>> error_line(RecursionError("maximum recursion depth exceeded"))
    'RecursionError: maximum recursion depth exceeded'
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else text[:299] + "…"


_records: Final[dict[tuple[FallbackKind, str, str], Fallback]] = {}
"""By kind, type of the error and place, with the text of the first."""
reraised: Final[list[str]] = []
"""What was raised again, for tests in which somebody else has caught it."""


def reraise_in_tests(error: BaseException, kind: FallbackKind) -> None:
    """Take note of an error before a fallback begins. Raises it again where nobody expects it."""
    if isinstance(error, ExpectedError) or os.environ.get(RAISE) != "raise":
        return
    if not {kind.name.lower(), "all"} & set(os.environ.get(EXPECTED, "").split(",")):
        reraised.append(f"{kind.name}: {error_line(error)}")
        raise error


def record_fallback(error: BaseException, kind: FallbackKind) -> None:
    """Record an error in whose place a fallback has given the whole answer."""
    if isinstance(error, ExpectedError):
        return
    place = _raise_location(error)
    key = kind, type(error).__name__, place
    before = _records.get(key, Fallback(kind, error_line(error), place, 0))
    _records[key] = before._replace(times=before.times + 1)


def drain_fallbacks() -> list[Fallback]:
    """The records since they were last taken."""
    if not _records:
        return []
    found = list(_records.values())
    _records.clear()
    return found


def _raise_location(error: BaseException) -> str:
    """The innermost line of code that an error passed, below the folder of the package."""
    place = "nowhere"
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        path = Path(code.co_filename)
        name = path.relative_to(_PACKAGE).as_posix() if path.is_relative_to(_PACKAGE) else path.name
        place = f"{name}:{line} in {code.co_name}"
    return place
