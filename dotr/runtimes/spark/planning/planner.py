"""Ends of batches from a scan of the inputs: a merge by time, of time stamps alone.

Idea: every input is scanned in its own order, a little ahead. An input has *passed* t when its
greatest time is more than its delay beyond t, or when it has ended; later records with times up to
t are late (semantics.md, section 6). A cut at T is possible when all inputs have passed T, or are
idle (the rule of `dotr.streams.merge.live`). For each input it needs the position where reading
continues (the first record that is neither late nor up to T) and the greatest time before it.
Idleness depends on the clock, so that its effect is written into the offset: a floor marks the
records of an idle input, from a position on, as too late for instants up to a time. A heartbeat of
the pipeline's clock is the time of an offset with a floor of each input that has not passed it. An
offset holds nothing else, so that a batch can be replayed from its offsets alone. Growing inputs
are cut whenever instants have closed, those that end by numbers of elements; for a heartbeat alone
only where something is due, or an element was behind it.
Invariant: each record is either rejected (late, a second one of its time, or of an idle input) or
an element of exactly one cut, as a function of the offsets. It is owned by one cut, between whose
start and end positions it lies; the elements of a cut are between its start position and its stop.
Cost: one scan of each record, and one sort of a nearly sorted list per cut. Memory: the pending
elements, a few cuts' worth; the memory of a task is bounded too, since a long element counts
several times.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from dotr.model import dataclass
from dotr.model.stream import Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, ORDINARY_BYTES, Cut, Floor, InputPosition, Offset
from dotr.streams.lateness import Apart, Lateness
from dotr.streams.merge.feeds import Feed, FilesFeed, InputPoint, OneFile
from dotr.streams.merge.live import FAR, Channel, Heartbeats, combined_watermark
from dotr.streams.merge.paces import NoRateLimit, RateLimit
from dotr.streams.merge.replays import files_of_input
from dotr.streams.records import InputFile

if TYPE_CHECKING:
    from dotr.streams.connectors.kafka.feed import KafkaFeed

_CHUNK: Final = 1_024
_FEW: Final = 128
"""Records scanned at once where a scan ends at a time: what is beyond it waits for the next cut."""

_WAIT_SECONDS: Final = 0.01

ALL_INPUTS_IDLE: Final[Micros] = LAST_MICRO - 1
"""The bound when every input is idle: all pending elements close."""


@dataclass
class ScannedInput:
    """An input and its pending elements: time, file, offset, line, and the greatest time before.

    `long_times` repeats the times of long elements as often as they count again. `bounded`: the
    input is a single file. `has_rejected`: a record was rejected since the last cut. `shifts`: by
    how much the last element before the message of a pending one was set apart. `divided`: the
    offsets of messages that have several records. `behind`: the floors of records that were behind
    the clock since the last batch, which that of the end of the batch needs too. `closed_before`:
    the time (µs) closed before the plan began: up to it the floors of the offset decide, since what
    was read is read again. `ahead`: the input, file, line and time (µs) of the first element that
    is far ahead of the machine's time.
    """

    channel: Channel
    bounded: bool = False
    pending: list[tuple[Micros, int, int, int, Micros]] = field(default_factory=list)
    long_times: list[Micros] = field(default_factory=list)
    floors: tuple[Floor, ...] = ()
    has_rejected: bool = False
    partition: KafkaFeed | None = None
    shifts: dict[Micros, Micros] = field(default_factory=dict)
    divided: set[int] = field(default_factory=set)
    behind: list[Floor] = field(default_factory=list)
    closed_before: Micros = BEGINNING
    ahead: tuple[str, str, int, Micros] | None = None

    @staticmethod
    def starting_at(
        position: InputPosition,
        feed: Feed,
        delay: Micros,
        *,
        single: bool,
        idle: Micros | None,
        pace: RateLimit | NoRateLimit,
        bounded: bool,
        name: str = "",
        partition: KafkaFeed | None = None,
        apart: bool = False,
        is_drained: Callable[[], bool] | None = None,
        spooled: Callable[[], Micros] | None = None,
    ) -> ScannedInput:
        """An input that is read from a position on; `partition` is the feed of a topic's partition
        itself, where `feed` limits its pace.
        """
        lateness = Apart(position.greatest, position.shift) if apart else Lateness(delay, position.greatest, single=single)
        is_behind = None if partition is None else partition.is_behind
        channel = Channel(feed, lateness, idle, pace, not bounded, None, 0, is_behind=is_behind, name=name)
        channel.is_drained, channel.spooled = is_drained, spooled
        return ScannedInput(channel, bounded, floors=position.floors, partition=partition)

    def scan_to(self, goal: Micros, max_records: int, closed: Micros) -> None:
        """Scan until `goal` (µs) is passed, or about `max_records` records are scanned."""
        channel = self.channel
        while max_records > 0 and channel.lateness.passed < goal and not channel.feed.ended:
            self.scan(min(max_records, _FEW), 0.0, closed)
            max_records -= _FEW

    def await_records(self, now: float, closed: Micros) -> bool:
        """Scan records again that were there before; False where none is left. For a partition, the
        call waits until its end."""
        while not self.scan(_CHUNK, now, closed):
            if self.partition is None or self.partition.is_at_end:
                return False
            time.sleep(_WAIT_SECONDS)
        return True

    def scan(self, max_records: int, now: float, closed: Micros, machine: Micros | None = None) -> bool:
        """Scan about `max_records` records; False where none is available now. `now` is the clock
        in seconds, `closed` the last closed time (µs), `machine` the machine's time (µs) before the
        scan."""
        chunk = self.channel.read(max_records, now)
        if chunk is None:
            if machine is not None:
                self.channel.look(machine)
            return self.channel.feed.ended
        lateness, add, number = self.channel.lateness, self.pending.append, chunk.number
        verdict, apart, shift, last = lateness.verdict, isinstance(lateness, Apart), 0, -1
        messages = self.partition is not None  # whose offsets count messages, not bytes
        for record in chunk.records:
            offset, end, line, time, _, raw, _, _, _, _ = record
            if offset == last:  # the records of a message share its offset, at which reading continues
                self.divided.add(offset)
            else:
                last, before = offset, lateness.greatest
                if apart:
                    shift = lateness.shift
            if time is None:
                time = record.judged_time
            if apart and time is not None and time > lateness.greatest:
                self._drop(time)
            if time is None or (reason := verdict(time, closed)) is not None:
                self.has_rejected = True
                if time is not None and time > self.closed_before and reason is Reason.CLOCK:
                    self._note_behind(Floor(chunk.number, offset, lateness.heartbeat, by_clock=True))
            else:
                if apart:
                    time += lateness.shift
                    self.shifts[time] = shift
                add((time, number, offset, line, before))
                length = len(raw) if messages else end - offset
                if length > ORDINARY_BYTES:
                    self.long_times += [time] * (length // ORDINARY_BYTES)
        self.channel.waiting = len(self.pending)
        if machine is not None and self.ahead is None and lateness.greatest > machine + FAR:
            lines = ((each.line, time) for each in chunk.records if (time := each.judged_time) is not None and time > machine + FAR)
            self.ahead = next(((chunk.file.input, chunk.file.path, *each) for each in lines), None)
        return True

    def _note_behind(self, floor: Floor) -> None:
        """Note that a record was behind the clock, of whose heartbeat no floor tells yet."""
        if floor.until > max([each.until for each in self.floors if each.by_clock], default=BEGINNING):
            self.floors = (*self.floors, floor)
            self.behind.append(floor)

    def _drop(self, time: Micros) -> None:
        """Drop the pending elements that were set apart up to the input's next time."""
        while self.pending and (dropped := self.pending[-1][0]) >= time:
            self.pending.pop()
            self.shifts.pop(dropped, None)
            self.long_times = [each for each in self.long_times if each != dropped]
            self.has_rejected = True

    def cut(self, until: Micros, *, idle: bool, by_clock: bool = False) -> tuple[InputPosition, tuple[int, int]]:
        """Remove pending elements up to `until`; the position where reading continues, and the
        position where reading up to `until` may stop. `idle`: the cut did not wait for the input;
        `by_clock`: since a heartbeat is not before it.
        """
        lateness, end = self.channel.lateness, self.channel.feed.end
        self.pending = [entry for entry in self.pending if entry[0] > until]
        self.long_times = [each for each in self.long_times if each > until]
        self.channel.waiting = len(self.pending)
        over = self.bounded and self.channel.feed.ended
        if (idle or by_clock) and lateness.passed < until:
            before_it = [floor for floor in self.floors if floor[:2] != (end.file, end.offset) or floor.by_clock != by_clock]
            self.floors = (*before_it, Floor(end.file, end.offset, until, by_clock))
        if self.pending:
            first, file, offset, line, before = self.pending[0]
            shift = self.shifts.get(first, 0)
        else:
            (file, offset, line), before, shift = end, lateness.greatest, lateness.shift
        self.shifts = {time: each for time, each in self.shifts.items() if time > until}
        beyond = until + lateness.delay
        stop = next((each[1:3] for each in self.pending if each[0] > beyond), (0, END) if over else (end.file, end.offset))
        if stop[1] in self.divided:  # a message with a record up to `until` and one beyond it
            stop = stop[0], stop[1] + 1
        self.divided = {each for each in self.divided if each >= offset}
        if over and not self.pending:
            return InputPosition(END, 0, before, 0, tuple(self.behind)), stop
        needed = _needed_floors(self.floors, (file, offset), before - lateness.delay)
        self.floors = tuple(each for each in self.floors if each in needed or each in self.behind) if self.behind else needed
        return InputPosition(offset, line, before, file, self.floors, shift), stop


def _needed_floors(floors: Sequence[Floor], point: tuple[int, int], late: Micros) -> tuple[Floor, ...]:
    """The floors that still matter behind a position, where times before `late` are late anyway.

    >>> _needed_floors([Floor(0, 0, 3), Floor(0, 5, 7), Floor(0, 9, 8)], (0, 6), 4)
    (Floor(file=0, offset=5, until=7, by_clock=False), Floor(file=0, offset=9, until=8, by_clock=False))
    """
    needed = [floor for floor in floors if floor.until >= late]
    passed = [floor for floor in needed if floor[:2] <= point]
    last = {floor.by_clock: floor for floor in passed}  # of each kind, the last one has the greatest time
    return (*(floor for floor in passed if floor is last[floor.by_clock]), *(floor for floor in needed if floor[:2] > point))


class ScannedPlan:
    """Cuts over scanned inputs from an offset on; a batch has about `size` elements of ordinary
    length, in up to `tasks` cuts."""

    def __init__(
        self,
        inputs: list[ScannedInput],
        start: Offset,
        size: int,
        tasks: int,
        clock: Callable[[], float] = time.monotonic,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.inputs = inputs
        self.heartbeats = heartbeats
        if heartbeats is not None:
            heartbeats.beat(start.time if start.is_heartbeat else BEGINNING, self._channels)
            for each in inputs:
                each.closed_before = start.time
        self.offset = start
        self._size = size
        self._tasks = tasks
        self._clock = clock
        self._unchanged_bound: Micros | None = None

    def add(self, scanned: ScannedInput, position: InputPosition) -> None:
        """Add an input that has appeared, at its first position."""
        self.inputs.append(scanned)
        if self.heartbeats is not None:
            scanned.channel.lateness.heartbeat = self.heartbeats.last
        self.offset = replace(self.offset, positions=(*self.offset.positions, position))
        self._unchanged_bound = None

    @property
    def _channels(self) -> list[Channel]:
        return [each.channel for each in self.inputs]

    @property
    def pending(self) -> int:
        """The number of pending elements."""
        return sum(len(each.pending) for each in self.inputs)

    def scan(self, *, full: bool = False, machine: Micros | None = None) -> bool:
        """Scan the inputs that others wait for, and the growing ones; False where nothing is
        available now. `full`: enough elements are pending, so that only the inputs that others wait
        for are scanned, and only while no pending element can close. Without these the pending
        elements might never close. `machine`: the machine's time (µs), with a clock.
        """
        now, closed = self._clock(), self.offset.time
        slowest = combined_watermark(self._channels, now, LAST_MICRO)
        if self.heartbeats is not None:
            bound = self.heartbeats.bound(self._channels)
            first = min((each.pending[0][0] for each in self.inputs if each.pending), default=None)
            if self.heartbeats.is_wanted(bound, first, self._channels):
                self.heartbeats.beat(bound, self._channels)
                self._unchanged_bound = None
            slowest, closed = max(slowest, bound), max(closed, self.heartbeats.last)
        if full and any(each.pending and each.pending[0][0] <= slowest for each in self.inputs):
            return False
        read = False
        for each in self.inputs:
            channel = each.channel
            behind = channel.lateness.passed <= slowest or (not full and channel.growing and channel.waiting < max(_CHUNK, 2 * self._size))
            if behind and not channel.feed.ended:
                read = each.scan(_CHUNK, now, closed, machine) or read
        if read:
            self._unchanged_bound = None
        return read

    def cuts(self) -> list[Cut]:
        """The cuts of a batch of the closed instants; empty where none has closed and nothing is
        rejected."""
        now, after = self._clock(), self.offset.time
        if after == LAST_MICRO:
            return []
        channels = self._channels
        until = combined_watermark(channels, now, ALL_INPUTS_IDLE)
        if until == self._unchanged_bound:
            return []
        self._unchanged_bound = until
        if until == ALL_INPUTS_IDLE:
            until = max((entry[0] for each in self.inputs for entry in each.pending), default=after)
        heartbeat = BEGINNING if self.heartbeats is None else self.heartbeats.last
        acts = heartbeat > after and self._acts_at(heartbeat, ended=until == LAST_MICRO)
        until = heartbeat if acts and until == LAST_MICRO else max(until, heartbeat)  # before the end, the last heartbeat
        times = sorted(self._times(until))
        ended = until == LAST_MICRO and len(times) <= self._size
        if not times and not ended and not acts:
            return self._cut_of_rejected()
        idle = [not channel.feed.ended and channel.is_idle(now) for channel in channels]
        ends = self._cut_times(times, after, ended=ended)
        if len(times) <= self._size and ends[-1] < heartbeat:
            ends[-1] = heartbeat
        cuts, done = [], 0
        for end in ends:
            upto = bisect_right(times, end)
            cuts.append(self._cut(end, upto - done, idle))
            done = upto
        self._begin_batch(Offset(cuts[-1].time, cuts[-1].positions, cuts[-1].time == heartbeat))
        self._unchanged_bound = None
        return cuts

    def _acts_at(self, heartbeat: Micros, *, ended: bool) -> bool:
        """True if a heartbeat (µs) is to be a batch though no instant is open before it: something
        is due, an element was behind it, or it is the last one of all."""
        due = None if self.heartbeats is None else self.heartbeats.due()
        return (due is not None and (ended or due <= heartbeat)) or any(each.behind for each in self.inputs)

    def _begin_batch(self, end: Offset) -> None:
        """Continue behind the end of a batch."""
        for each in self.inputs:
            each.has_rejected = False
            each.behind.clear()
        self.offset = end

    def bounded_cuts(self, until: Micros = LAST_MICRO) -> Iterator[Cut]:
        """Cuts of about `size` elements each over inputs that end, the last one at `until` (µs)."""
        channels, size = [each.channel for each in self.inputs], self._size
        max_records = max(64, 2 * size // max(1, len(channels)))
        while (after := self.offset.time) < until:
            while True:
                passed = min(until, combined_watermark(channels, 0.0, LAST_MICRO))
                times = self._times(passed)
                if len(times) >= size or passed == until:
                    break
                # Extrapolate the rate of elements since the last cut; without a rate, one step of
                # the slowest input.
                goal = passed + 1
                if times:
                    goal += (passed - (min(times) if after == BEGINNING else after)) * (size - len(times)) // len(times)
                for each in self.inputs:
                    each.scan_to(goal, max_records, after)
            times.sort()
            time = until if len(times) < size or (passed == until and len(times) == size) else times[size - 1]
            cut = self._cut(time, bisect_right(times, time), [False for _ in channels])
            self.offset = Offset(cut.time, cut.positions)
            yield cut

    def _times(self, until: Micros) -> list[Micros]:
        """The times of the pending elements up to `until`; of long ones several times."""
        times = [entry[0] for each in self.inputs for entry in each.pending if entry[0] <= until]
        times += [when for each in self.inputs for when in each.long_times if when <= until]
        return times

    def _cut_of_rejected(self) -> list[Cut]:
        """A cut that closes no instant, but reports rejected records."""
        if not any(each.has_rejected for each in self.inputs):
            return []
        cut = self._cut(self.offset.time, 0, [False for _ in self.inputs])
        for each in self.inputs:
            each.has_rejected = False
        if all(new.point == old.point for new, old in zip(cut.positions, self.offset.positions, strict=True)):
            return []
        self._begin_batch(replace(self.offset, positions=cut.positions))
        return [cut]

    def _cut_times(self, times: Sequence[Micros], after: Micros, *, ended: bool) -> list[Micros]:
        """The times of at most `tasks` cuts, with about equal numbers of elements. Of the times 1,
        2, 2, 3 and 4, two cuts end at 2 and 4."""
        times = times[: self._size]
        if not times:
            return [LAST_MICRO if ended else after]
        share = -(-len(times) // self._tasks)
        ends = sorted({times[min(len(times), upto) - 1] for upto in range(share, len(times) + share, share)})
        return [*ends[:-1], LAST_MICRO] if ended else ends

    def _cut(self, until: Micros, elements: int, idle: Sequence[bool]) -> Cut:
        positions, stops = [], []
        by_clock = self.heartbeats is not None and self.offset.time < until <= self.heartbeats.last
        for each, idles in zip(self.inputs, idle, strict=True):
            position, stop = each.cut(until, idle=idles, by_clock=by_clock)
            positions.append(position)
            stops.append(stop)
        files, offsets = zip(*stops, strict=True)
        return Cut(until, tuple(positions), offsets, elements, files)

    def replan(self, until: Offset) -> Cut:
        """The one cut up to an offset that was planned before, from this plan's position."""
        stops = []
        for each, position in zip(self.inputs, until.positions, strict=True):
            floor = next((floor for floor in position.floors if floor.until == until.time), None)
            if floor is not None:
                stops.append(max((floor.file, floor.offset), position.point))
                continue
            channel = each.channel
            with channel.unlimited():  # a planned batch is repeated without limits of rate or pace
                while not channel.feed.ended and (channel.lateness.passed < until.time or channel.feed.end[:2] < position.point):
                    if not each.await_records(self._clock(), until.time):
                        break
            over = each.bounded and channel.feed.ended
            stops.append((0, END) if over else (channel.feed.end.file, channel.feed.end.offset))
        self.offset = until
        files, offsets = zip(*stops, strict=True)
        return Cut(until.time, until.positions, offsets, 0, files)


def feed_of_file(file: InputFile, position: InputPosition) -> FilesFeed:
    """The feed of an input of a single file from a position on."""
    if position.offset == END:
        return FilesFeed(OneFile(file), elements=False, ended=True)
    return FilesFeed(files_of_input(file), InputPoint(position.file, position.offset, position.line), elements=False)


def scanned_cuts(files: Sequence[InputFile], start: Offset, size: int, until: Micros = LAST_MICRO) -> Iterator[Cut]:
    r"""Cuts of files from an offset on, of about `size` elements of ordinary length each, the last
    one at `until` (µs). A cut never divides an instant.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from dotr.streams.records import Format
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [InputFile(name, f"{folder}/{name}", Format.NDJSON) for name in "ab"]
    ...     for file, times in zip(files, [(1, 2, 9, 4), (1, 1, 3)]):  # 4 is late
    ...         _ = Path(file.path).write_text("".join(f'{{"time": {time}, "graph": ""}}\n' for time in times))
    ...     for cut in scanned_cuts(files, Offset.start(2), 3):
    ...         print(cut.time, [position.line for position in cut.positions], cut.stops, cut.elements)
    1000000 [2, 3] (25, 50) 3
    4611686018427387904 [0, 0] (-1, -1) 3
    """
    inputs = [
        # Of the records of one time all count, also where an input may have one of them only.
        ScannedInput.starting_at(
            position, feed_of_file(file, position), file.delay, single=False, idle=None, pace=NoRateLimit(), bounded=True, apart=file.apart
        )
        for file, position in zip(files, start.positions, strict=True)
    ]
    try:
        yield from ScannedPlan(inputs, start, size, 1).bounded_cuts(until)
    finally:
        for each in inputs:
            each.channel.feed.close()
