"""Merge of growing inputs by time: an instant closes when every input has passed it by its delay,
has ended, or is idle.

Idea: admitted elements are buffered, by time, until the watermarks of all inputs that are not idle
have passed them. An input is idle after its declared duration without a record, counted from the
first empty read; its next record makes it active again. Elements of an idle input for an instant
already closed are dead letters. Where all inputs are idle, the buffered instants close, but no
later ones.
Invariant: instants are emitted in time order; an element is emitted, buffered, or a dead letter.
Cost: a push and a pop of a heap per instant. Memory: the elements between the slowest input and the
read-ahead of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final, TypeAlias

from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO, Micros
from dotr.streams.lateness import Apart, Decided, Lateness
from dotr.streams.merge.bounded import OnReject
from dotr.streams.merge.feeds import Feed, FeedRecords
from dotr.streams.merge.paces import NoRateLimit, PacedFeed, RateLimit
from dotr.streams.records import InputFile, Record, SourcedElement

_CHUNK: Final = 256
_AHEAD: Final = 100_000
"""Limit of the buffered elements of an input that is ahead of others."""

_WAIT_SECONDS: Final = 0.01


@dataclass
class Channel:
    """An active input of the merge.

    - `idle`: the declared duration (µs) without a record after which the input is idle; None:
      never.
    - `growing`: True if it is read as soon as records arrive, not only when it holds back the
      merge.
    - `quiet`: time (s, of the merge's clock) of the first empty read after the last record.
    - `waiting`: number of buffered elements, whose instants are open.
    - `ahead`: limit of `waiting` while other inputs are behind.
    - `is_behind`: returns True while the source may have records that an empty read did not find.
    - `name`: the name of the input.
    """

    feed: Feed
    lateness: Lateness
    idle: Micros | None = None
    pace: RateLimit | NoRateLimit = field(default_factory=NoRateLimit)
    growing: bool = True
    quiet: float | None = None
    waiting: int = 0
    ahead: int = _AHEAD
    is_behind: Callable[[], bool] | None = None
    name: str = ""

    def is_idle(self, now: float) -> bool:
        """True if no record has arrived for the declared duration; `now` in s."""
        return self.idle is not None and self.quiet is not None and (now - self.quiet) * 1_000_000 >= self.idle

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Context in which reads are limited neither by rate nor by pace."""
        pace, self.pace = self.pace, NoRateLimit()
        paced = self.feed if isinstance(self.feed, PacedFeed) else None
        if paced is not None:
            paced.held_back = False
        yield
        self.pace = pace
        if paced is not None:
            paced.held_back = True

    def read(self, most: int, now: float) -> FeedRecords | None:
        """At most `most` records within the rate limit, or None. Updates `quiet`."""
        most = min(most, self.pace.allowance(now))
        if most <= 0:
            return None
        chunk = self.feed.read(most)
        if chunk is not None:
            self.pace.consume(len(chunk.records))
            self.quiet = None
        elif self.quiet is None and not self._may_have_more():
            self.quiet = now
        return chunk

    def _may_have_more(self) -> bool:
        """True if an empty read does not mean silence: the pace holds a record back, or the broker
        may have further ones."""
        if isinstance(self.feed, PacedFeed) and self.feed.holding:
            return True
        return self.is_behind is not None and self.is_behind()


def combined_watermark(channels: Sequence[Channel], now: float, last: Micros) -> Micros:
    """Combined watermark: the time (µs since 1970) up to which instants close.

    `last` is the time of the last buffered element, returned if all open inputs are idle. If every
    input has ended, the result is the end of time. `now` is in s.
    """
    open_ones = [channel for channel in channels if not channel.feed.ended]
    if not open_ones:
        return LAST_MICRO
    return min([channel.lateness.passed for channel in open_ones if not channel.is_idle(now)], default=last)


_BufferedRecord: TypeAlias = tuple[int, InputFile, Record]
"""An admitted record: the number of its channel, its file, and itself."""

_NUMBER: Final = itemgetter(0)


class LiveElements(list[Element]):
    """The elements of an instant; `sourced` adds their records."""

    def __init__(self, records: list[_BufferedRecord]) -> None:
        super().__init__([record[4] for _, _, record in records if record[4] is not None])
        self._records = records

    def sourced(self) -> list[SourcedElement]:
        """The elements as `SourcedElement`, with their records and files."""
        found = []
        for (_, file, record), element in zip(self._records, self, strict=True):
            sourced = SourcedElement(*element)
            sourced.file, sourced.record = file, record
            found.append(sourced)
        return found


def live_instants(
    channels: list[Channel],
    on_reject: OnReject,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
    appeared: Callable[[], Iterable[Channel]] | None = None,
) -> Iterator[tuple[Micros, LiveElements]]:
    """Instants of the channels in time order: each time (µs since 1970) with its elements.

    `on_reject` receives the dead letters of rejected records. The iteration ends when all inputs
    have ended. `appeared` returns the channels that are new since its last call; they are appended
    to `channels`.
    """
    buffered: dict[Micros, list[_BufferedRecord]] = {}
    times: list[Micros] = []
    closed = -LAST_MICRO
    last = -LAST_MICRO

    def add(number: int, decided: Iterable[Decided]) -> None:
        """Buffer or reject records of an input whose elements are set apart."""
        for at, file, _, record, letter in decided:
            if letter is not None:
                on_reject(letter)
                continue
            channels[number].waiting += 1
            if at not in buffered:
                buffered[at] = []
                heappush(times, at)
            buffered[at].append((number, file, record))

    while True:
        if appeared is not None:
            channels += appeared()
        now = clock()
        read = False
        watermark = combined_watermark(channels, now, LAST_MICRO)
        for number, channel in enumerate(channels):
            behind = channel.lateness.passed <= watermark or (channel.growing and channel.waiting < channel.ahead)
            if channel.feed.ended or not behind:
                continue
            chunk = channel.read(_CHUNK, now)
            if chunk is None:
                read = read or channel.feed.ended
                continue
            read = True
            file, lateness = chunk.file, channel.lateness
            if isinstance(lateness, Apart):
                for record in chunk.records:
                    add(number, lateness.decided(file, record, closed))
                    last = max(last, lateness.greatest + lateness.shift)
                continue
            verdict, admitted = lateness.verdict, 0
            for record in chunk.records:
                event_time = record[3]
                if event_time is None:
                    on_reject(lateness.of_unreadable(file, record, closed))
                elif (reason := verdict(event_time, closed)) is not None:
                    on_reject(lateness.dead_letter(file, record, reason))
                else:
                    admitted += 1
                    instant = buffered.get(event_time)
                    if instant is None:
                        buffered[event_time] = [(number, file, record)]
                        heappush(times, event_time)
                        if event_time > last:
                            last = event_time
                    else:
                        instant.append((number, file, record))
            channel.waiting += admitted
        until = combined_watermark(channels, now, last)
        for number, channel in enumerate(channels):
            if isinstance(channel.lateness, Apart) and channel.lateness.held:
                add(number, channel.lateness.released(until))
        while times and times[0] <= until:
            closed = heappop(times)
            instant = buffered.pop(closed)
            instant.sort(key=_NUMBER)
            for number, _, _ in instant:
                channels[number].waiting -= 1
            yield closed, LiveElements(instant)
        if all(channel.feed.ended for channel in channels):
            return
        if not read:
            wait(_WAIT_SECONDS)
