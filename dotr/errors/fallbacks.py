"""Fallbacks: unforeseen errors after which a slower path computed the result; users are warned.

A fallback makes two calls. `reraise_in_tests` is the first statement of the `except` clause: with
DOTR_FALLBACKS=raise in the environment, as in tests, it raises the error again. `record_fallback`
follows once the slower path has computed the whole result. A path that loses content writes dead
letters instead, and records nothing. Records stay in the process until a runtime drains them;
workers of Spark send them with the rows of a batch.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from traceback import walk_tb
from typing import Final, NamedTuple

from dotr.errors.diagnostics import DotrError

RAISE: Final = "DOTR_FALLBACKS"
"""Environment variable; its value `raise` disables fallbacks."""
EXPECTED: Final = "DOTR_FALLBACKS_EXPECTED"
"""Environment variable: comma-separated kinds whose fallbacks remain enabled, or `all`."""

_PACKAGE: Final = Path(__file__).parent.parent.parent


class ExpectedError(DotrError):
    """An error raised on purpose, such as an exceeded limit; never recorded as a fallback."""


class FallbackKind(Enum):
    """A place in the code that has a fallback; the value describes it to users."""

    TOGETHER = "the joint evaluation of several queries failed, and each query was evaluated separately"
    QUERY = "a query failed, and was evaluated again"
    INSTANT = "an instant failed, and was evaluated again"
    RULES = "rules failed at an event, and were matched again one by one"
    GRAPHS = "output graphs failed to build, and were built again one by one"
    STORE = "a compiled background could not be used, and its sources were read and closed again"
    ANSWERS = "answers stored beside a compiled background could not be used, and were computed again"
    TOTALS = "the totals of earlier runs could not be read, and start from zero"
    RESTART = "Spark ended the query, which was restarted"

    @property
    def is_reported_at_once(self) -> bool:
        """Return whether the code with the fallback warns the user itself."""
        return self is FallbackKind.RESTART

    @property
    def is_fault(self) -> bool:
        """Return whether the cause is a fault of dotr, and not its input or environment."""
        return self in (FallbackKind.TOGETHER, FallbackKind.QUERY, FallbackKind.INSTANT, FallbackKind.RULES, FallbackKind.GRAPHS)


class Fallback(NamedTuple):
    """A recorded fallback: kind, error in one line, place of the error, and count."""

    kind: FallbackKind
    error: str
    place: str
    times: int

    def __str__(self) -> str:
        fault = "a fault of dotr's own: " if self.kind.is_fault else ""
        return f"{fault}{self.kind.value} ({self.error}, {self.place})"


def error_line(error: BaseException) -> str:
    """Return type and message of an error in one line of at most 300 characters.

    >>> error_line(RecursionError("maximum recursion depth exceeded"))
    'RecursionError: maximum recursion depth exceeded'
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else text[:299] + "…"


_records: Final[dict[tuple[FallbackKind, str, str], Fallback]] = {}
"""Records by kind, type of the error, and place; each holds the text of its first error."""
reraised: Final[list[str]] = []
"""Errors raised again, for tests in which other code has caught them."""


def reraise_in_tests(error: BaseException, kind: FallbackKind) -> None:
    """Raise the error again if fallbacks of its kind are disabled, except an `ExpectedError`."""
    if isinstance(error, ExpectedError) or os.environ.get(RAISE) != "raise":
        return
    if not {kind.name.lower(), "all"} & set(os.environ.get(EXPECTED, "").split(",")):
        reraised.append(f"{kind.name}: {error_line(error)}")
        raise error


def record_fallback(error: BaseException, kind: FallbackKind) -> None:
    """Record an error after which a fallback has computed the whole result."""
    if isinstance(error, ExpectedError):
        return
    place = _raise_location(error)
    key = kind, type(error).__name__, place
    before = _records.get(key, Fallback(kind, error_line(error), place, 0))
    _records[key] = before._replace(times=before.times + 1)


def drain_fallbacks() -> list[Fallback]:
    """Return the records and remove them."""
    if not _records:
        return []
    fallbacks = list(_records.values())
    _records.clear()
    return fallbacks


def _raise_location(error: BaseException) -> str:
    """Return the innermost frame of the traceback: `dotr/engine/driver.py:12 in close_instant`."""
    place = "nowhere"
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        path = Path(code.co_filename)
        name = path.relative_to(_PACKAGE).as_posix() if path.is_relative_to(_PACKAGE) else path.name
        place = f"{name}:{line} in {code.co_name}"
    return place
