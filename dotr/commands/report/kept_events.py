"""Bounded sample of the events of a stream, which a report lists.

Invariant: the first and the last events of the stream are kept, half of the limit each, and the
first and the last ones of every rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from dotr.model.stream import Firing, output_order

_OF_A_RULE: Final = 5
"""Number of the first and of the last events of a rule that are kept in any case."""


class KeptEvents:
    """Events in bounded memory: about `limit`, and ten for each rule.

    >>> kept = KeptEvents(limit=2)
    >>> for time in range(30):
    ...     kept.add(Firing(time, "R", "E", (), (), 0))
    >>> [firing.time for firing in kept.events()]
    [0, 1, 2, 3, 4, 25, 26, 27, 28, 29]
    """

    def __init__(self, limit: int) -> None:
        self._half = -(-limit // 2)
        self._count = 0
        self._first: list[tuple[int, Firing]] = []
        self._last: deque[tuple[int, Firing]] = deque(maxlen=self._half)
        self._by_rule: dict[str, tuple[list[tuple[int, Firing]], deque[tuple[int, Firing]]]] = {}

    def add(self, firing: Firing) -> None:
        """Add the next event."""
        numbered = self._count, firing
        self._count += 1
        (self._first if len(self._first) < self._half else self._last).append(numbered)
        of_rule = self._by_rule.get(firing.rule)
        if of_rule is None:
            of_rule = self._by_rule[firing.rule] = [], deque(maxlen=_OF_A_RULE)
        first, last = of_rule
        (first if len(first) < _OF_A_RULE else last).append(numbered)

    def events(self) -> Sequence[Firing]:
        """The events that are kept, in the order of the output."""
        kept = dict(self._first) | dict(self._last)
        for first, last in self._by_rule.values():
            kept |= dict(first) | dict(last)
        return sorted(kept.values(), key=output_order)
