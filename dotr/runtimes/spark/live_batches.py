"""Batch boundaries while inputs grow: cuts by time, as in `planner`, whenever something has closed.

Idea: an instant closes when every input has passed it, has ended, or is idle (`dotr.sources.live_merge`
has the rule). Idleness depends on the clock, so what closed by it is written into the offset: a floor
names the record of the idle input from which on elements up to the cut came too late. With the floors
a batch is judged again from its offsets alone.
Invariant: as in `planner`; a record is late, second, idle, or an element of exactly one cut, and which
of these depends on the offsets alone.
Cost: one scan of each record. Memory: what is pending.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.planner import END, ORDINARY_BYTES, Cut, Floor, InputPlace, Offset
from dotr.sources.feeds import Feed, InputPoint
from dotr.sources.lateness import Lateness
from dotr.sources.live_merge import Channel, bound
from dotr.sources.rate_limits import NoRateLimit, RateLimit

_CHUNK: Final = 1_024

ALL_INPUTS_IDLE: Final[Micros] = LAST_MICRO - 1
"""Every input is idle: what waits closes."""


@dataclass
class ScannedInput:
    """An input and what is pending of it: time, place and the greatest time before; of elements of long texts also the times again, as
    often as they count again (`planning`). `bounded`: it is a single file. `rejected`: something was met since the last cut that is to be
    reported."""

    channel: Channel
    bounded: bool = False
    pending: list[tuple[Micros, InputPoint, Micros]] = field(default_factory=list)
    long_times: list[Micros] = field(default_factory=list)
    floors: tuple[Floor, ...] = ()
    has_rejected: bool = False

    @staticmethod
    def starting_at(
        place: InputPlace, feed: Feed, delay: Micros, *, single: bool, idle: Micros | None, pace: RateLimit | NoRateLimit, bounded: bool
    ) -> ScannedInput:
        """An input that is read from a place on."""
        lateness = Lateness(delay, place.greatest, single=single)
        return ScannedInput(Channel(feed, lateness, idle, pace, not bounded), bounded, floors=place.floors)

    def scan(self, most: int, now: float, closed: Micros) -> bool:
        """Read on a little, if there is something now; False: nothing."""
        taken = self.channel.take(most, now)
        if taken is None:
            return self.channel.feed.ended
        lateness, add = self.channel.lateness, self.pending.append
        for record in taken.records:
            before = lateness.greatest
            if record.time is None or lateness.verdict(record.time, closed) is not None:
                self.has_rejected = True
            else:
                add((record.time, InputPoint(taken.number, record.offset, record.line), before))
                if record.end - record.offset > ORDINARY_BYTES:
                    self.long_times += [record.time] * ((record.end - record.offset) // ORDINARY_BYTES)
        self.channel.waiting = len(self.pending)
        return True

    def cut(self, until: Micros, *, idle: bool) -> tuple[InputPlace, tuple[int, int]]:
        """Forget what is up to a time; where reading goes on, and where reading up to it may stop. `idle`: it was not waited for."""
        lateness, end = self.channel.lateness, self.channel.feed.end
        self.pending = [entry for entry in self.pending if entry[0] > until]
        self.long_times = [each for each in self.long_times if each > until]
        self.channel.waiting = len(self.pending)
        over = self.bounded and self.channel.feed.ended
        if idle and lateness.passed < until:
            before_it = [floor for floor in self.floors if floor[:2] != (end.file, end.offset)]
            self.floors = (*before_it, Floor(end.file, end.offset, until))
        if self.pending:
            _, point, before = self.pending[0]
        else:
            point, before = end, lateness.greatest
        beyond = until + lateness.delay
        stop = next(((at.file, at.offset) for when, at, _ in self.pending if when > beyond), (0, END) if over else (end.file, end.offset))
        if over and not self.pending:
            return InputPlace(END, 0, before), stop
        self.floors = _needed_floors(self.floors, (point.file, point.offset), before - lateness.delay)
        return InputPlace(point.offset, point.line, before, point.file, self.floors), stop


def _needed_floors(floors: Sequence[Floor], point: tuple[int, int], late: Micros) -> tuple[Floor, ...]:
    """The floors that can still matter behind a point, where what is before `late` is late anyhow.

    >>> _needed([Floor(0, 0, 3), Floor(0, 5, 7), Floor(0, 9, 8)], (0, 6), 4)
    (Floor(file=0, offset=5, until=7), Floor(file=0, offset=9, until=8))
    """
    kept = [floor for floor in floors if floor.until >= late]
    passed = [floor for floor in kept if floor[:2] <= point]
    return (*passed[-1:], *kept[len(passed) :])


class GrowingPlan:
    """Cuts over inputs that grow, from an offset on. `size` is how many elements of ordinary length a batch has, about, in up to `tasks`
    cuts."""

    def __init__(
        self, inputs: Sequence[ScannedInput], start: Offset, size: int, tasks: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.inputs = inputs
        self.position = start
        self._size = size
        self._tasks = tasks
        self._clock = clock
        self._unchanged_bound: Micros | None = None

    @property
    def pending(self) -> int:
        """How many elements wait."""
        return sum(len(each.pending) for each in self.inputs)

    def scan(self) -> bool:
        """Read on in the inputs that others wait for, and in those that grow; False: there is nothing now."""
        now, closed = self._clock(), self.position.time
        slowest = bound([each.channel for each in self.inputs], now, LAST_MICRO)
        read = False
        for each in self.inputs:
            channel = each.channel
            behind = channel.lateness.passed <= slowest or (channel.growing and channel.waiting < max(_CHUNK, 2 * self._size))
            if behind and not channel.feed.ended:
                read = each.scan(_CHUNK, now, closed) or read
        if read:
            self._unchanged_bound = None
        return read

    def cuts(self) -> list[Cut]:
        """The cuts of a batch of what has closed; none where nothing has, and nothing is to be reported."""
        now, after = self._clock(), self.position.time
        if after == LAST_MICRO:
            return []
        channels = [each.channel for each in self.inputs]
        until = bound(channels, now, ALL_INPUTS_IDLE)
        if until == self._unchanged_bound:
            return []
        self._unchanged_bound = until
        if until == ALL_INPUTS_IDLE:
            until = max((entry[0] for each in self.inputs for entry in each.pending), default=after)
        times = [entry[0] for each in self.inputs for entry in each.pending if entry[0] <= until]
        times += [when for each in self.inputs for when in each.long_times if when <= until]
        times.sort()
        ended = until == LAST_MICRO and len(times) <= self._size
        if not times and not ended:
            return self._cut_of_rejected()
        idle = [not channel.feed.ended and channel.idles(now) for channel in channels]
        ends = self._cut_times(times, after, ended=ended)
        found, done = [], 0
        for end in ends:
            upto = len(times) if end == ends[-1] and ended else _count(times, end)
            found.append(self._cut(end, upto - done, idle))
            done = upto
        for each in self.inputs:
            each.has_rejected = False
        self.position = Offset(found[-1].time, found[-1].places)
        self._unchanged_bound = None
        return found

    def _cut_of_rejected(self) -> list[Cut]:
        """A cut that closes nothing, where reading goes on behind something that is to be reported."""
        if not any(each.has_rejected for each in self.inputs):
            return []
        cut = self._cut(self.position.time, 0, [False for _ in self.inputs])
        for each in self.inputs:
            each.has_rejected = False
        if all(new.point == old.point for new, old in zip(cut.places, self.position.places, strict=True)):
            return []
        self.position = Offset(cut.time, cut.places)
        return [cut]

    def _cut_times(self, times: Sequence[Micros], after: Micros, *, ended: bool) -> list[Micros]:
        """The times at which the cuts are made."""
        times = times[: self._size]
        if not times:
            return [LAST_MICRO if ended else after]
        share = -(-len(times) // self._tasks)
        ends = sorted({times[min(len(times), upto) - 1] for upto in range(share, len(times) + share, share)})
        return [*ends[:-1], LAST_MICRO] if ended else ends

    def _cut(self, until: Micros, elements: int, idle: Sequence[bool]) -> Cut:
        places, stops = [], []
        for each, idles in zip(self.inputs, idle, strict=True):
            place, stop = each.cut(until, idle=idles)
            places.append(place)
            stops.append(stop)
        files, offsets = zip(*stops, strict=True)
        return Cut(until, tuple(places), offsets, elements, files)

    def replan(self, until: Offset) -> Cut:
        """The one cut up to an offset that was planned before, from where this plan stands."""
        stops = []
        for each, place in zip(self.inputs, until.places, strict=True):
            floor = next((floor for floor in place.floors if floor.until == until.time), None)
            if floor is not None:
                stops.append(max((floor.file, floor.offset), place.point))
                continue
            channel = each.channel
            while not channel.feed.ended and (channel.lateness.passed < until.time or channel.feed.end[:2] < place.point):
                if not each.scan(_CHUNK, self._clock(), until.time):
                    break
            over = each.bounded and channel.feed.ended
            stops.append((0, END) if over else (channel.feed.end.file, channel.feed.end.offset))
        self.position = until
        files, offsets = zip(*stops, strict=True)
        return Cut(until.time, until.places, offsets, 0, files)


def _count(times: Sequence[Micros], until: Micros) -> int:
    return sum(time <= until for time in times)
