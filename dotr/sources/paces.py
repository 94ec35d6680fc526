"""Paces of inputs: so many seconds of event time a second of the clock at most, to replay a file as
it came.

Idea: the first record with a time fixes where event time stands at what clock; records with later
times are held until the clock has come so far. What is held delays what comes behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from dotr.model.time import Micros
from dotr.sources.feeds import Feed, FeedRecords, InputPoint
from dotr.sources.records import Record

_AHEAD: Final = 256
"""Records read at once."""


class EventClock:
    """The event time that has come, over all files of an input.

    >>> clock = EventClock(60.0)
    >>> clock.reached(7_000_000, 100.0), clock.reached(67_000_000, 100.9), clock.reached(67_000_000, 101.0)
    (True, False, True)
    """

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._start: tuple[Micros, float] | None = None

    def reached(self, moment: Micros, now: float) -> bool:
        """True if a time (µs since 1970) may be read at a time `now` of the clock (s)."""
        if self._start is None:
            self._start = moment, now
        first, start = self._start
        return moment - first <= (now - start) * 1_000_000 * self._pace


class PacedFeed:
    """Feed whose records are held until their time has come. `holding`: a record is held now;
    `held_back`: False where they are to be read at once.
    """

    def __init__(self, feed: Feed, clock: EventClock, now: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._clock = clock
        self._now = now
        self._held: FeedRecords | None = None
        self.held_back = True

    @property
    def holding(self) -> bool:
        return self._held is not None

    @property
    def ended(self) -> bool:
        return self._held is None and self._feed.ended

    @property
    def end(self) -> InputPoint:
        """Position of the next record."""
        if self._held is None:
            return self._feed.end
        first = self._held.records[0]
        return InputPoint(self._held.number, first.offset, first.line)

    def read(self, most: int) -> FeedRecords | None:
        """At most `most` records whose time has come; None: nothing now."""
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
        """The number of records before the first one whose time has not come."""
        now = self._now()
        for number, record in enumerate(records):
            if (time := record.judged_time) is not None and not self._clock.reached(time, now):
                return number
        return len(records)

    def close(self) -> None:
        """Close the feed."""
        self._feed.close()
