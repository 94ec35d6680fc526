"""Merge of growing inputs by time: an instant closes when every input has passed it by its delay,
has ended, or is idle.

Idea: admitted elements are buffered, by time, until the watermarks of all inputs that are not idle
have passed them. An input is idle after its declared duration without a record, counted from the
first empty read; its next record makes it active again. Elements of an idle input for an instant
already closed are dead letters. Where all inputs are idle, the buffered instants close, but no
later ones.
With the pipeline's clock, instants also close up to the last heartbeat (`Heartbeats`), which is
emitted among them.
Invariant: instants are emitted in time order; an element is emitted, buffered, or a dead letter.
Cost: a push and a pop of a heap per instant. Memory: the elements between the slowest input and the
read-ahead of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final, TypeAlias

from dotr.model import dataclass
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

_LOOK: Final = 100_000
"""Least time (µs) between two looks at a source that count for heartbeats."""

_LEAST_DISTANCE: Final = 1_000_000
"""Distance (µs) of heartbeats at which nothing is due, at least."""

FAR: Final = 86_400_000_000
"""The distance (µs) ahead of the machine's time from which a warning tells of a time."""


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
    - `is_drained`: called after an empty read, it returns True if the read has looked at the source
      itself (a folder, a pipe, a socket), and nothing was left there; asked for heartbeats alone.
    - `spooled`: of an input that is read from a spool, the machine's time up to which its source
      was left empty.
    - `name`: the name of the input.
    - `drained`: the machine's time (µs since 1970) before the last read that left nothing unread.
    - `is_limited`: the rate limit has permitted no record at the last read.
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
    is_drained: Callable[[], bool] | None = None
    spooled: Callable[[], Micros] | None = None
    name: str = ""
    drained: Micros = -LAST_MICRO
    is_limited: bool = False

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
        self.is_limited = most <= 0
        if self.is_limited:
            return None
        chunk = self.feed.read(most)
        if chunk is not None:
            self.pace.consume(len(chunk.records))
            self.quiet = None
        elif self.quiet is None and not self._may_have_more():
            self.quiet = now
        return chunk

    def look(self, machine: Micros) -> None:
        """Note that an empty read has left nothing unread, if so; `machine` is the machine's time
        (µs since 1970) before the read."""
        next_look = self.drained + (1 if self.is_drained is None and self.spooled is None else _LOOK)
        if self.is_limited or self.feed.ended or machine < next_look:
            return
        is_held = isinstance(self.feed, PacedFeed) and self.feed.holding  # by its time, which the machine has not reached
        if is_held or (not self._may_have_more() and (self.is_drained is None or self.is_drained())):
            self.drained = machine if self.spooled is None else max(self.drained, min(machine, self.spooled()))

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


@dataclass
class Heartbeats:
    """Heartbeats of the pipeline's clock: a heartbeat h (µs since 1970) says that no element of that
    time or an earlier one is admitted any more, from any input.

    h = min over the open inputs of max(what its own order has passed, e - delay), where e is the
    machine's time before the last read that left nothing unread (`Channel.drained`). A heartbeat
    comes where the clock alone closes an instant, where something is due, and at least every
    max(1 s, a tenth of the delay); the first one, once nothing was left in any input.

    - `delay`: how far (µs) the pipeline's time is behind the machine's.
    - `machine`: returns the machine's time (µs since 1970); None while a paced one has not begun.
    - `due`: returns the next time at which something is due; None: nothing is.
    - `warn_ahead`: receives the file and the record with the first time that is more than a day
      ahead of the machine's.
    - `last`: the last heartbeat.

    >>> from dotr.streams.merge.feeds import FilesFeed, OneFile
    >>> from dotr.streams.records import Format
    >>> a, b = (Channel(FilesFeed(OneFile(InputFile(name, "", Format.NDJSON))), Lateness(0)) for name in "ab")
    >>> a.drained = b.drained = 12_000_000
    >>> b.lateness.greatest = 2_500_000
    >>> Heartbeats(10_000_000).bound([a, b]), Heartbeats(10_000_000).bound([b])
    (2000000, 2499999)
    """

    delay: Micros
    machine: Callable[[], Micros | None] = lambda: time.time_ns() // 1_000
    due: Callable[[], Micros | None] = lambda: None
    warn_ahead: Callable[[InputFile, Record], object] = lambda file, record: None
    last: Micros = -LAST_MICRO
    has_warned: bool = False

    def bound(self, channels: Iterable[Channel]) -> Micros:
        """The time up to which the inputs allow a heartbeat."""
        bounds = [max(each.lateness.passed, each.drained - self.delay) for each in channels if not each.feed.ended]
        return min(bounds, default=-LAST_MICRO)

    def is_wanted(self, at: Micros, first_open: Micros | None, channels: Iterable[Channel]) -> bool:
        """True if a heartbeat is to come at a time; `first_open`: the first instant that is open."""
        if at <= self.last:
            return False
        if first_open is not None and first_open <= at:
            return True
        if self.last == -LAST_MICRO:
            return all(each.drained > -LAST_MICRO for each in channels if not each.feed.ended)
        return at - self.last >= max(_LEAST_DISTANCE, self.delay // 10) or ((due := self.due()) is not None and due <= at)

    def beat(self, at: Micros, channels: Iterable[Channel]) -> None:
        """Note a heartbeat, up to which the inputs admit no further element."""
        self.last = at
        for each in channels:
            each.lateness.heartbeat = at


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
    heartbeats: Heartbeats | None = None,
) -> Iterator[tuple[Micros, LiveElements]]:
    """Instants of the channels in time order: each time (µs since 1970) with its elements; a
    heartbeat is a time without elements.

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
        machine = None if heartbeats is None else heartbeats.machine()
        if appeared is not None:
            for channel in appeared():
                channel.lateness.heartbeat = -LAST_MICRO if heartbeats is None else heartbeats.last
                channels.append(channel)
        now = clock()
        read = False
        watermark = combined_watermark(channels, now, LAST_MICRO)
        if heartbeats is not None:  # a file that holds the clock back is read on, whatever else is silent
            watermark = max(watermark, heartbeats.bound(channels))
        for number, channel in enumerate(channels):
            behind = channel.lateness.passed <= watermark or (channel.growing and channel.waiting < channel.ahead)
            if channel.feed.ended or not behind:
                continue
            chunk = channel.read(_CHUNK, now)
            if chunk is None:
                read = read or channel.feed.ended
                if machine is not None:
                    channel.look(machine)
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
        beat: Micros | None = None
        if heartbeats is not None and machine is not None:
            bound = heartbeats.bound(channels)
            held = [channel.lateness.held[0].time for channel in channels if isinstance(channel.lateness, Apart) and channel.lateness.held]
            if bound > max(until, closed) and heartbeats.is_wanted(bound, min([*times[:1], *held], default=None), channels):
                until = beat = bound
                heartbeats.beat(beat, channels)
            if last > machine + FAR and not heartbeats.has_warned and last in buffered:
                heartbeats.has_warned = True
                heartbeats.warn_ahead(*buffered[last][0][1:])
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
        if beat is not None:
            closed = beat
            yield beat, LiveElements([])
        if all(channel.feed.ended for channel in channels):
            return
        if not read:
            wait(_WAIT_SECONDS)
