"""Rate limits of inputs in records a second: a token bucket with the tokens of one second."""

from __future__ import annotations

from typing import Final

_MANY: Final = 1 << 62


class RateLimit:
    """Token bucket of at most `rate` records a second over all files of an input.

    >>> pace = RateLimit(100)
    >>> pace.allowance(7.0)
    10
    >>> pace.consume(10); pace.allowance(7.0), pace.allowance(7.0625), pace.allowance(60.0)
    (0, 6, 100)
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._tokens = max(1.0, rate / 10)
        self._at: float | None = None

    def allowance(self, now: float) -> int:
        """Number of records that may be read at a time `now` (s)."""
        if self._at is not None:
            self._tokens = min(float(max(1, self._rate)), self._tokens + (now - self._at) * self._rate)
        self._at = now
        return int(self._tokens)

    def consume(self, records: int) -> None:
        """Take the tokens of the records read."""
        self._tokens -= records


class NoRateLimit:
    """An unlimited rate."""

    def allowance(self, now: float) -> int:
        """The number of records that may be read now: any number."""
        return _MANY

    def consume(self, records: int) -> None:
        """Does nothing."""
