"""Where batches end: a merge by time over many inputs, of time stamps alone.

Idea: every input is scanned in its own order, a little ahead. An input has *passed* t when its greatest time lies more than its
delay beyond t, or when it has ended; what comes later with a time up to t is late, whatever it is (semantics.md, section 6). A cut
at time T may be made when all inputs have passed T. It needs, for each input, only where reading goes on: the first record that is
neither late nor up to T, and the greatest time before it. That is all an offset holds, so that a batch can be planned and judged
again from its offsets alone.

Invariant: `Cut` number n owns, of every input, the records from its start to its end place, each record being owned once; the elements of
its time range lie between its start place and its stop.
Cost: one scan of each record, and one sort of a nearly sorted list a cut. Memory: what is pending, a few cuts' worth. What a task then
holds is bounded too: an element of a long text counts as several.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from dotr.model.time import LAST_MICRO, Micros
from dotr.sources.lateness import Lateness

ScanTimes: TypeAlias = Callable[[int, int, int], Iterator[tuple[int, int, Micros | None]]]
"""`scan(input, offset, line)`: for each record from there on its offset, its line and its time (None: unreadable)."""

END: Final = -1
"""The offset behind the last record."""

ORDINARY_BYTES: Final = 512
"""Bytes of text: an element that has n times as many counts for n more. Read, they take some 8 KB of memory."""

BEGINNING: Final[Micros] = -LAST_MICRO
"""Earlier than any instant."""


class Floor(NamedTuple):
    """Instants up to `until` closed without waiting for the input, which was idle: what stands in it from this file and offset on, and is
    not later, came too late for them."""

    file: int
    offset: int
    until: Micros


class InputPlace(NamedTuple):
    """Where the reading of one input goes on: the offset and line of a record, and the greatest time before it. An input that grows has
    several files, numbered, and perhaps floors."""

    offset: int
    line: int
    greatest: Micros
    file: int = 0
    floors: tuple[Floor, ...] = ()

    @property
    def point(self) -> tuple[int, int]:
        """The file and the offset in it."""
        return self.file, self.offset

    def to_json(self) -> list[object]:
        """As short as it can be."""
        return list(self if self.file or self.floors else self[:3])

    @staticmethod
    def of_json(offset: int, line: int, greatest: Micros, file: int = 0, floors: Sequence[Sequence[int]] = ()) -> InputPlace:
        """The inverse of `to_json`.

        >>> place = InputPlace(5, 1, 7, 2, (Floor(1, 9, 4),))
        >>> InputPlace.of_json(*place.to_json()) == place
        True
        """
        return InputPlace(offset, line, greatest, file, tuple(Floor(*floor) for floor in floors))


START: Final = InputPlace(0, 1, BEGINNING)


class Cut(NamedTuple):
    """All up to `time`: where each input goes on afterwards, where the reading for it may stop (END: at the end), and how many elements
    of ordinary length it adds to the cut before it."""

    time: Micros
    places: tuple[InputPlace, ...]
    stops: tuple[int, ...]
    elements: int
    files: tuple[int, ...] = ()
    """The file that each stop stands in, where inputs grow."""

    @property
    def points(self) -> tuple[tuple[int, int], ...]:
        """Where the reading may stop: the file, and the offset in it."""
        return tuple(zip(self.files, self.stops, strict=True)) if self.files else tuple((0, stop) for stop in self.stops)


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a query is: the time closed so far and a place for each input. As JSON it is what Spark keeps in its log."""

    time: Micros
    places: tuple[InputPlace, ...]

    def to_json(self) -> dict[str, object]:
        """Numbers go as text where Spark's JSON might turn them into floats: nowhere, so they stay numbers.

        >>> Offset(5, (START,)).to_json()
        {'version': 1, 'time': 5, 'places': [[0, 1, -4611686018427387904]]}
        """
        return {"version": 1, "time": self.time, "places": [place.to_json() for place in self.places]}

    @staticmethod
    def of_json(value: dict[str, object]) -> Offset:
        """The inverse of `to_json`.

        >>> Offset.of_json(Offset(5, (START,)).to_json()) == Offset(5, (START,))
        True
        """
        time, places = value["time"], value["places"]
        assert value["version"] == 1
        assert isinstance(time, int)
        assert isinstance(places, list)
        return Offset(time, tuple(InputPlace.of_json(*place) for place in places))

    def padded(self, inputs: int) -> Offset:
        """With the start of inputs that were not there when the offset was made."""
        return Offset(self.time, (*self.places, *[START] * (inputs - len(self.places))))

    @staticmethod
    def start(inputs: int) -> Offset:
        return Offset(BEGINNING, (START,) * inputs)

    @property
    def ended(self) -> bool:
        return self.time == LAST_MICRO


class _ScannedTimes:
    """The scan of one input: what is pending (neither late nor behind the last cut), in the input's own order; and of long elements among
    that the times once more, for each time that they count again."""

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
        """All times up to it are passed."""
        return LAST_MICRO if self.ended else self.lateness.passed

    def advance(self, goal: Micros, after: Micros, max_records: int) -> None:
        """Scans until `goal` is passed, or `most` records were seen."""
        lateness, add = self.lateness, self.pending.append
        begin, element = self._last
        for count, (offset, line, time) in enumerate(self._scan, 1):
            if offset - begin > ORDINARY_BYTES and element is not None:
                self.long_times += [element] * ((offset - begin) // ORDINARY_BYTES)
            begin, element = offset, None
            greatest = lateness.greatest
            if time is not None and lateness.verdict(time) is None and time > after:
                add((time, offset, line, greatest))
                element = time
            if count >= max_records or lateness.passed >= goal:
                break
        else:
            self.ended = True
        self._last = begin, element

    def cut(self, time: Micros) -> tuple[InputPlace, int]:
        """Forgets what is up to `time`; the place where reading goes on, and where reading up to `time` may stop."""
        pending = self.pending = [entry for entry in self.pending if entry[0] > time]
        if self.long_times:
            self.long_times = [each for each in self.long_times if each > time]
        if not pending:
            assert self.ended
            return InputPlace(END, 0, self.lateness.greatest), END
        _, offset, line, before = pending[0]
        beyond = time + self.lateness.delay
        return InputPlace(offset, line, before), next((entry[1] for entry in pending if entry[0] > beyond), END)


def plan(scan: ScanTimes, delays: Sequence[Micros], start: Offset, size: int, until: Micros = LAST_MICRO) -> Iterator[Cut]:
    """Cuts of about `size` elements of ordinary length each, from an offset on; the last one is at `until`. A cut never divides an instant.

    >>> times = [[1, 2, 9, 4], [1, 1, 3]]               # the 4 is late
    >>> def scan(number, offset, line):
    ...     return iter([(i, i + 1, time) for i, time in enumerate(times[number])][offset:])
    >>> for cut in plan(scan, [0, 0], Offset.start(2), 3):
    ...     print(cut.time, [place.offset for place in cut.places], cut.stops, cut.elements)
    1 [1, 2] (1, 2) 3
    4611686018427387904 [-1, -1] (-1, -1) 3
    """
    inputs = [
        _ScannedTimes(
            scan(number, place.offset, place.line) if place.offset != END else iter(()), delay, place.greatest, place.offset == END
        )
        for number, (place, delay) in enumerate(zip(start.places, delays, strict=True))
    ]
    after = start.time
    stretch = max(64, 2 * size // max(1, len(inputs)))
    while after < until:
        goal = after
        while True:
            passed = min([until, *(each.passed for each in inputs)])
            times = [entry[0] for each in inputs for entry in each.pending if entry[0] <= passed]
            times += [time for each in inputs for time in each.long_times if time <= passed]
            if len(times) >= size or passed == until:
                break
            # As far again as it takes at the pace seen since the last cut; without a pace, one step of the slowest input.
            goal = passed + 1
            if times:
                goal += (passed - (min(times) if after == BEGINNING else after)) * (size - len(times)) // len(times)
            for each in inputs:
                if each.passed < goal and not each.ended:
                    each.advance(goal, after, stretch)
        times.sort()
        time = until if len(times) < size or (passed == until and len(times) == size) else times[size - 1]
        count = bisect_right(times, time)
        places, stops = [], []
        for each in inputs:
            place, stop = each.cut(time)
            places.append(place)
            stops.append(stop)
        yield Cut(time, tuple(places), tuple(stops), count)
        after = time
