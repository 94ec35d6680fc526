"""Ends of batches: a merge by time over many inputs, of time stamps alone.

Idea: every input is scanned in its own order, a little ahead. An input has *passed* t when its
greatest time is more than its delay beyond t, or when it has ended; later records with times up to
t are late (semantics.md, section 6). A cut at T is possible when all inputs have passed T. For each
input it needs the position where reading continues (the first record that is neither late nor up to
T) and the greatest time before it. An offset holds nothing else, so that a batch can be replayed
from its offsets alone.
Invariant: each record is owned by one cut, between whose start and end positions it lies; the
elements of a cut's time range are between its start position and its stop.
Cost: one scan of each record, and one sort of a nearly sorted list per cut. Memory: the pending
elements, a few cuts' worth; the memory of a task is bounded too, since a long element counts
several times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, ORDINARY_BYTES, Cut, InputPosition, Offset
from dotr.streams.lateness import Lateness

if TYPE_CHECKING:
    from dotr.runtimes.spark.tasks.inputs import ScanTimes


class _ScannedTimes:
    """The scan of one input. `pending` are the elements after the last cut that are not late, in
    the input's order; `long_times` repeats the times of long ones as often as they count again."""

    __slots__ = ("_last", "_scan", "ended", "lateness", "long_times", "pending")

    def __init__(self, scan: Iterator[tuple[int, int, Micros | None]], delay: Micros, greatest: Micros, ended: bool) -> None:
        self._scan = scan
        self.lateness = Lateness(delay, greatest)
        self.ended = ended
        self.pending: list[tuple[Micros, int, int, Micros]] = []
        self.long_times: list[Micros] = []
        self._last: tuple[int, Micros | None] = 0, None

    @property
    def passed(self) -> Micros:
        """The last passed time."""
        return LAST_MICRO if self.ended else self.lateness.passed

    def advance(self, goal: Micros, after: Micros, max_records: int) -> None:
        """Scan until `goal` is passed, or `max_records` records are scanned."""
        lateness, add = self.lateness, self.pending.append
        start, element = self._last
        for count, (offset, line, time) in enumerate(self._scan, 1):
            if offset - start > ORDINARY_BYTES and element is not None:
                self.long_times += [element] * ((offset - start) // ORDINARY_BYTES)
            start, element = offset, None
            greatest = lateness.greatest
            if time is not None and lateness.verdict(time) is None and time > after:
                add((time, offset, line, greatest))
                element = time
            if count >= max_records or lateness.passed >= goal:
                break
        else:
            self.ended = True
        self._last = start, element

    def cut(self, time: Micros) -> tuple[InputPosition, int]:
        """Remove pending elements up to `time`; the position where reading continues, and the
        offset where reading up to `time` may stop."""
        pending = self.pending = [entry for entry in self.pending if entry[0] > time]
        if self.long_times:
            self.long_times = [each for each in self.long_times if each > time]
        if not pending:
            assert self.ended
            return InputPosition(END, 0, self.lateness.greatest), END
        _, offset, line, before = pending[0]
        beyond = time + self.lateness.delay
        return InputPosition(offset, line, before), next((entry[1] for entry in pending if entry[0] > beyond), END)


def plan(scan: ScanTimes, delays: Sequence[Micros], start: Offset, size: int, until: Micros = LAST_MICRO) -> Iterator[Cut]:
    """Cuts of about `size` elements of ordinary length from an offset on, the last one at `until`
    (µs). A cut never divides an instant.

    >>> times = [[1, 2, 9, 4], [1, 1, 3]]               # 4 is late
    >>> def scan(number, offset, line):
    ...     return iter([(i, i + 1, time) for i, time in enumerate(times[number])][offset:])
    >>> for cut in plan(scan, [0, 0], Offset.start(2), 3):
    ...     print(cut.time, [position.offset for position in cut.positions], cut.stops, cut.elements)
    1 [1, 2] (1, 2) 3
    4611686018427387904 [-1, -1] (-1, -1) 3
    """
    inputs = [
        _ScannedTimes(
            scan(number, position.offset, position.line) if position.offset != END else iter(()),
            delay,
            position.greatest,
            position.offset == END,
        )
        for number, (position, delay) in enumerate(zip(start.positions, delays, strict=True))
    ]
    after = start.time
    max_records = max(64, 2 * size // max(1, len(inputs)))
    while after < until:
        goal = after
        while True:
            passed = min([until, *(each.passed for each in inputs)])
            times = [entry[0] for each in inputs for entry in each.pending if entry[0] <= passed]
            times += [time for each in inputs for time in each.long_times if time <= passed]
            if len(times) >= size or passed == until:
                break
            # Extrapolate the rate of elements since the last cut; without a rate, one step of the
            # slowest input.
            goal = passed + 1
            if times:
                goal += (passed - (min(times) if after == BEGINNING else after)) * (size - len(times)) // len(times)
            for each in inputs:
                if each.passed < goal and not each.ended:
                    each.advance(goal, after, max_records)
        times.sort()
        time = until if len(times) < size or (passed == until and len(times) == size) else times[size - 1]
        count = bisect_right(times, time)
        positions, stops = [], []
        for each in inputs:
            position, stop = each.cut(time)
            positions.append(position)
            stops.append(stop)
        yield Cut(time, tuple(positions), tuple(stops), count)
        after = time
