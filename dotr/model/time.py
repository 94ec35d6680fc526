"""Time: microseconds since 1970-01-01T00:00:00Z, and intervals that look back in time.

Source: semantics.md, sections 1 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from dotr.model import dataclass

Micros: TypeAlias = int
"""A time in µs since 1970, or a length of time in µs."""


class TimeForm(NamedTuple):
    """Form of a value in either form of times, integers and date-times: a time, or a length between
    two times.

    - `is_length`: a length, which is a number or a duration.
    - `remedy`: of a length its text in seconds, of a time its label; empty if there is none.
    - `is_duration`: a length that is a duration in both forms, as `getDURATION()`.
    """

    is_length: bool
    remedy: str = ""
    is_duration: bool = False


Forms: TypeAlias = Mapping[str, TimeForm]
"""The forms of variables, or of the attributes of events; those without one are neither."""


class Unit(Enum):
    """Unit of integer times; the value is its length in µs.

    `Program.load` and the configuration also accept the words us, ms, s, min, h and d.

    >>> Unit.MINUTE.value
    60000000
    """

    MICROSECOND = 1
    MILLISECOND = 1_000
    SECOND = 1_000_000
    MINUTE = 60_000_000
    HOUR = 3_600_000_000
    DAY = 86_400_000_000

    @property
    def written(self) -> str:
        """Name of the unit in checkpoints, specifications and digests; it never changes.

        >>> Unit.from_written(Unit.SECOND.written)
        <Unit.SECOND: 1000000>
        """
        return _WRITTEN_UNITS[self.value]

    @staticmethod
    def from_written(text: str) -> Unit:
        """Return the unit of a written name; raises KeyError."""
        return Unit(_UNITS_WRITTEN[text])


_WRITTEN_UNITS: Final[Mapping[int, str]] = {
    1: "MICROSECOND",
    1_000: "MILLISECOND",
    1_000_000: "SECOND",
    60_000_000: "MINUTE",
    3_600_000_000: "HOUR",
    86_400_000_000: "DAY",
}
_UNITS_WRITTEN: Final = {text: length for length, text in _WRITTEN_UNITS.items()}

UNITS: Final[Mapping[str, Unit]] = {
    "us": Unit.MICROSECOND,
    "ms": Unit.MILLISECOND,
    "s": Unit.SECOND,
    "min": Unit.MINUTE,
    "h": Unit.HOUR,
    "d": Unit.DAY,
}
"""Units by the words of configurations, rule tests and the command line."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Format of times in a pipeline: integers of a unit, or (dated) ISO 8601 date-times.

    `zone`: the name of the zone in which date-times are shown; empty: UTC. Terms are in UTC always.
    """

    unit: Unit = Unit.SECOND
    dated: bool = False
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Interval:
    """The range of a clause: the accepted distances `reference - candidate`, in µs.

    >>> within = Interval(0, 5_000_000, low_closed=False, high_closed=True)       # within 5 s: (0, 5 s]
    >>> within.holds(reference=12_000_000, candidate=7_000_000)
    True
    >>> within.holds(reference=12_000_000, candidate=12_000_000)
    False
    """

    low: Micros
    high: Micros
    low_closed: bool
    high_closed: bool

    def holds(self, *, reference: Micros, candidate: Micros) -> bool:
        """Return whether `reference - candidate` (times in µs) is in the interval."""
        distance = reference - candidate
        above = self.low <= distance if self.low_closed else self.low < distance
        return above and (distance <= self.high if self.high_closed else distance < self.high)

    @property
    def bounds(self) -> tuple[Micros, Micros]:
        """The least and the greatest accepted distance in µs, both inclusive.

        >>> Interval(0, 5, low_closed=False, high_closed=True).bounds
        (1, 5)
        """
        return self.low if self.low_closed else self.low + 1, self.high if self.high_closed else self.high - 1


LAST_MICRO: Final[Micros] = 1 << 62
"""A time after every instant: the end of a bounded stream."""

EVER: Final = Interval(0, LAST_MICRO, low_closed=False, high_closed=True)
"""The interval of `before R`: every earlier time, (0, ∞)."""
