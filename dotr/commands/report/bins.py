"""Counts over time in bounded memory.

Idea: counts are kept by bin of time. The first width of a bin is 1 µs. Whenever there are more bins
than allowed, the width becomes the next one of a list, and adjacent bins are added up.
Cost: amortised constant for a count; memory is bounded by the number of bins for each key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from dotr.model.time import Micros

Key = TypeVar("Key")

_SECOND: Final = 1_000_000
_WIDTHS: Final = (
    *(1_000, 10_000, 100_000),
    *(seconds * _SECOND for seconds in (1, 2, 10, 30, 60, 120, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)),
)
"""Widths of bins in µs after the first one, each a multiple of the one before; then they double."""


class TimeBins(Generic[Key]):
    """Counts of keys by bin of time, with at most `limit` bins that are not empty.

    >>> bins = TimeBins[str](limit=2)
    >>> for time in (10, 11, 17):
    ...     bins.add(time, "a", 1)
    >>> bins.width, dict(bins.of("a"))
    (1000, {0: 3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.width: Micros = 1
        self._used: set[int] = set()
        self._counts: defaultdict[Key, dict[int, int]] = defaultdict(dict)

    def add(self, time: Micros, key: Key, count: int) -> None:
        """Add to the count of a key at a time in µs since 1970."""
        number = time // self.width
        counts = self._counts[key]
        counts[number] = counts.get(number, 0) + count
        if number not in self._used:
            self._used.add(number)
            while len(self._used) > self.limit:
                self._widen()

    def _widen(self) -> None:
        before = self.width
        self.width = next((width for width in _WIDTHS if width > before), before * 2)
        factor = self.width // before
        self._used = {number // factor for number in self._used}
        for key, counts in self._counts.items():
            wider: dict[int, int] = {}
            for number, count in counts.items():
                wider[number // factor] = wider.get(number // factor, 0) + count
            self._counts[key] = wider

    def of(self, key: Key) -> Mapping[int, int]:
        """The counts of a key by number of bin; empty where it was never added. A bin begins at its
        number times the width.
        """
        return self._counts.get(key, {})
