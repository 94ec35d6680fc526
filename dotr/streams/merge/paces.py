"""Paces of inputs: limits of the seconds of event time a second of the clock, to replay a file in
real time, or faster.

Idea: the first record with a time maps event time to the clock. Each record is held until the clock
has reached its time, and delays the records behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dotr.model.time import Micros
from dotr.streams.formats.reading import Reader
from dotr.streams.merge.feeds import Feed, FeedRecords, InputPoint
from dotr.streams.records import InputFile, Record

_AHEAD: Final = 256
"""Limit of the records read at once."""


class EventClock:
    """Mapping of event time to the clock, over all files of an input.

    `pace` is in seconds of event time a second of the clock.


    >>> clock = EventClock(60.0)
    >>> clock.reached(7_000_000, 100.0), clock.reached(67_000_000, 100.9), clock.reached(67_000_000, 101.0)
    (True, False, True)
    """

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._start: tuple[Micros, float] | None = None

    @staticmethod
    def of_files(pace: float, files: Iterable[InputFile]) -> EventClock:
        """A clock that begins at the first time in some files, now; with the first record that comes
        where they have none."""
        clock, times = EventClock(pace), list[Micros]()
        for file in files:
            with Reader(file, elements=False) as reader:
                times += next(([at] for record in reader.records() if (at := record.judged_time) is not None), [])
        if times:
            clock.reached(min(times), time.monotonic())
        return clock

    def time(self, now: float) -> Micros | None:
        """The event time (µs since 1970) that the clock has reached at `now` (s); None before the
        first call of `reached`."""
        return None if self._start is None else self._start[0] + int((now - self._start[1]) * 1_000_000 * self._pace)

    def reached(self, moment: Micros, now: float) -> bool:
        """True if the clock, at `now` (s), has reached an event time (µs since 1970)."""
        if self._start is None:
            self._start = moment, now
        first, start = self._start
        return moment - first <= (now - start) * 1_000_000 * self._pace


class PacedFeed:
    """Feed whose records are held until the clock has reached their times.

    `holding` is True while a record is held. `held_back` may be set to False, which turns the pace
    off.
    """

    def __init__(self, feed: Feed, clock: EventClock, now: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._clock = clock
        self._now = now
        self._held: FeedRecords | None = None
        self.held_back = True

    @property
    def holding(self) -> bool:
        """True while a record is held."""
        return self._held is not None

    @property
    def ended(self) -> bool:
        """True if the feed has ended and no record is held."""
        return self._held is None and self._feed.ended

    @property
    def end(self) -> InputPoint:
        """Position of the next record."""
        if self._held is None:
            return self._feed.end
        first = self._held.records[0]
        return InputPoint(self._held.number, first.offset, first.line)

    def read(self, most: int) -> FeedRecords | None:
        """At most `most` records whose times are reached; None where there is none."""
        chunk = self._held or self._feed.read(min(most, _AHEAD))
        self._held = None
        if chunk is None:
            return None
        count = min(self._ready(chunk.records) if self.held_back else len(chunk.records), most)
        records = chunk.records
        if count < len(records):
            self._held = chunk._replace(records=records[count:])
        return chunk._replace(records=records[:count]) if count else None

    def _ready(self, records: Sequence[Record]) -> int:
        """The number of records before the first one whose time is not reached."""
        now = self._now()
        for number, record in enumerate(records):
            if (time := record.judged_time) is not None and not self._clock.reached(time, now):
                return number
        return len(records)

    def close(self) -> None:
        """Close the feed."""
        self._feed.close()


# Rate limits of inputs in records a second: a token bucket with the tokens of one second.

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
