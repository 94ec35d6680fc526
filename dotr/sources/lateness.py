"""Which elements of an input cannot be used any more (semantics.md, section 6): by their own input's order alone.

Invariant: the greatest time is that of all readable records before, late ones too (which never change it).
"""

from __future__ import annotations

from dotr.model.stream import Reason
from dotr.model.time import LAST_MICRO, Micros


class Lateness:
    """Judges the times of one input in their order.

    >>> lateness = Lateness(delay=5)
    >>> [lateness.late(time) for time in (10, 5, 4, 12, 8)]
    [False, False, True, False, False]
    >>> lateness.greatest, lateness.passed
    (12, 6)

    `single`: every element is an instant of its own, so its time is passed with it, and a second one of that time is too many.

    >>> one_each = Lateness(delay=0, single=True)
    >>> [one_each.verdict(time) for time in (10, 10, 12, 11)] == [None, Reason.SECOND, None, Reason.LATE]
    True
    >>> one_each.passed
    12
    """

    __slots__ = ("delay", "greatest", "single")

    def __init__(self, delay: Micros, greatest: Micros = -LAST_MICRO, *, single: bool = False) -> None:
        self.delay = delay
        self.greatest = greatest
        self.single = single

    def late(self, time: Micros) -> bool:
        """Whether an element of this time came after one more than the delay beyond it; takes note of the time."""
        if time >= self.greatest:
            self.greatest = time
            return False
        return self.greatest - time > self.delay

    def verdict(self, time: Micros) -> Reason | None:
        """Why an element of this time cannot be used, None where it can; takes note of the time."""
        greatest = self.greatest
        if time > greatest:
            self.greatest = time
            return None
        if time == greatest:
            return Reason.SECOND if self.single else None
        return Reason.LATE if greatest - time > self.delay else None

    def why(self, time: Micros) -> str:
        """Why an element of this time cannot be used, in words."""
        if time == self.greatest:
            return "an element of the same time came before it, where every element is an instant (one_per_instant)"
        allowed = f", more than its input's lateness of {self.delay / 1_000_000:g} s" if self.delay else ""
        return f"an element {(self.greatest - time) / 1_000_000:g} s later came before it{allowed}"

    @property
    def passed(self) -> Micros:
        """No element of this time, or of an earlier one, can come any more that could be used."""
        return self.greatest - self.delay - (not self.single)
