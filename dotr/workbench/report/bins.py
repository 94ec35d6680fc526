"""Counts over time in bounded memory.

Idea: counts are kept by bin of time. A bin is one time (1 µs) at first; whenever there are more bins
than allowed, the width is doubled and neighbours are added up.
Cost: amortised constant for a count; memory is bounded by the number of bins for each key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from dotr.model.time import Micros

Key = TypeVar("Key")


class TimeBins(Generic[Key]):
    """Counts of keys by bin of time, with at most `limit` bins that are not empty.

    >>> bins = TimeBins[str](limit=2)
    >>> for time in (10, 11, 17):
    ...     bins.add(time, "a", 1)
    >>> bins.width, dict(bins.counts())
    (2, {'a': {5: 2, 8: 1}})
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
        self.width *= 2
        self._used = {number // 2 for number in self._used}
        for key, counts in self._counts.items():
            wider: dict[int, int] = {}
            for number, count in counts.items():
                wider[number // 2] = wider.get(number // 2, 0) + count
            self._counts[key] = wider

    def counts(self) -> Iterator[tuple[Key, Mapping[int, int]]]:
        """The counts of each key by number of bin: a bin begins at its number times the width."""
        yield from self._counts.items()

    def of(self, key: Key) -> Mapping[int, int]:
        """The counts of a key by number of bin; empty where it was never added."""
        return self._counts.get(key, {})
