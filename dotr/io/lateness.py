"""Which elements are late (semantics.md, section 6): by their own file's order alone.

Invariant: the greatest time is that of all readable records before, late ones too (which never change it).
"""

from __future__ import annotations

from dotr.model.time import LAST_MICRO, Micros


class Lateness:
    """Judges the times of one file in their order.

    >>> lateness = Lateness(delay=5)
    >>> [lateness.late(time) for time in (10, 5, 4, 12, 8)]
    [False, False, True, False, False]
    >>> lateness.greatest
    12
    """

    __slots__ = ("delay", "greatest")

    def __init__(self, delay: Micros, greatest: Micros = -LAST_MICRO) -> None:
        self.delay = delay
        self.greatest = greatest

    def late(self, time: Micros) -> bool:
        """Whether an element of this time came after one more than the delay beyond it; takes note of the time."""
        if time >= self.greatest:
            self.greatest = time
            return False
        return self.greatest - time > self.delay

    def why(self, time: Micros) -> str:
        """Why an element of this time is late, in words."""
        return f"an element {(self.greatest - time) / 1_000_000:g} s later came before it"
