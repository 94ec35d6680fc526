"""Inputs merged by time while they grow: an instant closes when every input has passed it by its delay, has ended, or is idle.

Idea: what is not late waits in a heap until every input that counts has passed its time. An input is idle when nothing has come from it
for its declared while, counted from the first look that found nothing; with the next element it counts again. What then comes for an
instant not after the last that closed is a dead letter. Where all inputs are idle, what waits closes, and nothing beyond it.
Invariant: instants are given in time order; an element is given, waits, or is a dead letter.
Cost: an element costs a push and a pop of a heap. Memory: what lies between the slowest input and the next of the others' reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final

from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO, Micros
from dotr.sources.feeds import Feed, FeedRecords
from dotr.sources.lateness import Lateness
from dotr.sources.merge import OnReject
from dotr.sources.rate_limits import NoRateLimit, RateLimit
from dotr.sources.records import SourcedElement

_CHUNK: Final = 256
_AHEAD: Final = 100_000
"""So many elements of an input wait for the others; it is not read any further ahead."""

_WAIT_SECONDS: Final = 0.01


@dataclass
class Channel:
    """An input at work: `growing`: it is read as soon as there is something, not only when others wait for it.
    `quiet` is when a look found nothing after the last record. `waiting` counts what was read and has not closed."""

    feed: Feed
    lateness: Lateness
    idle: Micros | None = None
    pace: RateLimit | NoRateLimit = field(default_factory=NoRateLimit)
    growing: bool = True
    quiet: float | None = None
    waiting: int = 0

    def idles(self, now: float) -> bool:
        """Whether nothing has come for the declared while."""
        return self.idle is not None and self.quiet is not None and (now - self.quiet) * 1_000_000 >= self.idle

    def take(self, most: int, now: float) -> FeedRecords | None:
        """What there is now, up to so many records; takes note of quiet."""
        most = min(most, self.pace.allowance(now))
        if most <= 0:
            return None
        taken = self.feed.take(most)
        if taken is not None:
            self.pace.took(len(taken.records))
            self.quiet = None
        elif self.quiet is None:
            self.quiet = now
        return taken


def bound(channels: Sequence[Channel], now: float, last: Micros) -> Micros:
    """Up to which time instants close; `last` is the time of the last element that waits.

    With every input ended it is the end of time; with every other one idle, what waits.
    """
    open_ones = [channel for channel in channels if not channel.feed.ended]
    if not open_ones:
        return LAST_MICRO
    return min([channel.lateness.passed for channel in open_ones if not channel.idles(now)], default=last)


def live(
    channels: Sequence[Channel],
    dead: OnReject,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[Micros, list[Element]]]:
    """The instants of the channels as they close, each with its elements, which are `SourcedElement`. Ends when all inputs have."""
    waiting: list[tuple[Micros, int, int, Element]] = []
    closed = -LAST_MICRO
    numbers = count()
    last = -LAST_MICRO
    while True:
        now = clock()
        read = False
        slowest = bound(channels, now, LAST_MICRO)
        for place, channel in enumerate(channels):
            behind = channel.lateness.passed <= slowest or (channel.growing and channel.waiting < _AHEAD)
            if channel.feed.ended or not behind:
                continue
            taken = channel.take(_CHUNK, now)
            if taken is None:
                read = read or channel.feed.ended
                continue
            read = True
            file, lateness = taken.file, channel.lateness
            for record in taken.records:
                letter = lateness.rejection(file, record, closed)
                if letter is not None:
                    dead(letter)
                else:
                    assert record.element is not None
                    moment = record.element.time
                    kept = SourcedElement(*record.element)
                    kept.file, kept.record = file, record
                    heappush(waiting, (moment, place, next(numbers), kept))
                    channel.waiting += 1
                    if moment > last:
                        last = moment
        until = bound(channels, now, last)
        while waiting and waiting[0][0] <= until:
            closed = waiting[0][0]
            together: list[Element] = []
            while waiting and waiting[0][0] == closed:
                _, place, _, element = heappop(waiting)
                channels[place].waiting -= 1
                together.append(element)
            yield closed, together
        if all(channel.feed.ended for channel in channels):
            return
        if not read:
            wait(_WAIT_SECONDS)
