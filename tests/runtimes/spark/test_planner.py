"""Cuts of many inputs by time: for all sizes, delays and restarts, each element and each late
record is in one cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.exchange.names import bucket_keys, hash_partition
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, ORDINARY_BYTES, Cut, InputPosition, Offset
from dotr.runtimes.spark.planning.planner import ScannedInput, ScannedPlan
from dotr.streams.merge.feeds import FeedRecords, InputPoint
from dotr.streams.merge.paces import NoRateLimit
from dotr.streams.records import Format, InputFile, Record

Input = list[Micros | None]
ScanTimes: TypeAlias = Callable[[int, int, int], Iterator[tuple[int, int, Micros | None]]]
"""`scan(input, offset, line)`: offset, line and time (None: unreadable) of each record from a position on."""


class ScannedFeed:
    """The records of a scan; a record ends where the next one begins."""

    def __init__(self, scanned: Sequence[tuple[int, int, Micros | None]]) -> None:
        ends = [offset for offset, _, _ in scanned[1:]] + [offset + 1 for offset, _, _ in scanned[-1:]]
        self._left = [
            Record(offset, end, line, time, None, b"", "" if time is not None else "!")
            for (offset, line, time), end in zip(scanned, ends, strict=True)
        ]

    @property
    def ended(self) -> bool:
        return not self._left

    @property
    def end(self) -> InputPoint:
        return InputPoint(0, self._left[0].offset, self._left[0].line) if self._left else InputPoint(1, 0, 1)

    def read(self, most: int) -> FeedRecords | None:
        found, self._left = self._left[:most], self._left[most:]
        return FeedRecords(0, InputFile("", "", Format.NDJSON), found) if found else None

    def close(self) -> None:
        """Does nothing: there is no file."""


def plan(scan: ScanTimes, delays: Sequence[Micros], start: Offset, size: int, until: Micros = LAST_MICRO) -> Iterator[Cut]:
    """The cuts of scanned inputs that end."""
    inputs = []
    for number, (position, delay) in enumerate(zip(start.positions, delays, strict=True)):
        feed = ScannedFeed([] if position.offset == END else list(scan(number, position.offset, position.line)))
        inputs.append(ScannedInput.starting_at(position, feed, delay, single=False, idle=None, pace=NoRateLimit(), bounded=True))
    return ScannedPlan(inputs, start, size, 1).bounded_cuts(until)


def scan_of(inputs: Sequence[Input]) -> ScanTimes:
    def scan(number: int, offset: int, line: int) -> Iterator[tuple[int, int, Micros | None]]:
        assert line == offset + 1
        return iter([(i, i + 1, time) for i, time in enumerate(inputs[number])][offset:])

    return scan


def expected(inputs: Sequence[Input], delays: Sequence[Micros]) -> tuple[list[tuple[Micros, int, int]], list[tuple[int, int]]]:
    """By definition: elements as (time, input, position), and the positions of late or unreadable
    records."""
    good, dead = [], []
    for number, (times, delay) in enumerate(zip(inputs, delays, strict=True)):
        for position, time in enumerate(times):
            before = [earlier for earlier in times[:position] if earlier is not None]
            if time is None or any(earlier > time + delay for earlier in before):
                dead.append((number, position))
            else:
                good.append((time, number, position))
    return sorted(good), sorted(dead)


def read(
    inputs: Sequence[Input], delays: Sequence[Micros], start: Offset, cut: Cut
) -> tuple[list[tuple[Micros, int, int]], list[tuple[int, int]]]:
    """The elements and rejected records that a task reads for a cut."""
    good, dead = [], []
    for number, (times, delay, place, after, stop) in enumerate(
        zip(inputs, delays, start.positions, cut.positions, cut.stops, strict=True)
    ):
        if place.offset == END:
            continue
        greatest = place.greatest
        for position in range(place.offset, len(times) if stop == END else stop):
            time = times[position]
            late = time is None or time + delay < greatest
            if time is not None and not late:
                if start.time < time <= cut.time:
                    good.append((time, number, position))
                greatest = max(greatest, time)
            elif late and (after.offset == END or position < after.offset):
                dead.append((number, position))
    return good, dead


inputs_and_delays = st.lists(
    st.tuples(st.lists(st.one_of(st.none(), st.integers(-20, 40)), max_size=20), st.integers(0, 9)), min_size=1, max_size=4
)


@given(inputs_and_delays, st.integers(1, 9), st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_record_is_owned_once_in_time_order(described: list[tuple[Input, Micros]], size: int, ordered: bool) -> None:
    inputs = [sorted(times, key=lambda t: -100 if t is None else t) if ordered else times for times, _ in described]
    delays = [delay for _, delay in described]
    good, dead = [], []
    offset = Offset.start(len(inputs))
    while not offset.ended:
        # As after a restart each time: the plan is made from the offset alone.
        first = next(iter(plan(scan_of(inputs), delays, offset, size)))
        found, rejected = read(inputs, delays, offset, first)
        assert len(found) == first.elements
        good += sorted(found)
        dead += rejected
        offset = Offset.of_json(Offset(first.time, first.positions).to_json())
    assert (good, sorted(dead)) == expected(inputs, delays)


@given(inputs_and_delays, st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_batch_is_replanned_from_its_offsets(described: list[tuple[Input, Micros]], size: int) -> None:
    inputs, delays = [times for times, _ in described], [delay for _, delay in described]
    cuts = list(plan(scan_of(inputs), delays, Offset.start(len(inputs)), size))
    assert cuts[-1].time == LAST_MICRO
    assert [cut.time for cut in cuts] == sorted({cut.time for cut in cuts})
    for before, cut in pairwise([Cut(BEGINNING, Offset.start(len(inputs)).positions, (), 0), *cuts]):
        again = list(plan(scan_of(inputs), delays, Offset(before.time, before.positions), size, until=cut.time))
        assert again == [cut]


def test_batch_has_about_the_required_size() -> None:
    inputs: list[Input] = [list(range(start, 3000, step)) for start, step in ((0, 1), (5, 7), (2000, 2), (1, 600))]
    cuts = list(plan(scan_of(inputs), [0] * 4, Offset.start(4), 200))
    assert all(200 <= cut.elements <= 203 for cut in cuts[:-1])


def test_long_element_counts_several_times() -> None:
    """One of two inputs has elements of ten times the ordinary length, which count as eleven."""

    def scan(number: int, offset: int, line: int) -> Iterator[tuple[int, int, Micros | None]]:
        long = 10 * ORDINARY_BYTES if number else 100
        return iter([(i * long, i + 1, i) for i in range(3000)][offset // long :])

    cuts = list(plan(scan, [0, 0], Offset.start(2), 220))
    assert {cut.elements for cut in cuts[:-1]} == {19 * 12}
    assert {after.time - before.time for before, after in pairwise(cuts[:-1])} == {19}
    for before, cut in pairwise(cuts):
        assert list(plan(scan, [0, 0], Offset(before.time, before.positions), 220, until=cut.time)) == [cut]


def test_empty_input_is_one_final_cut() -> None:
    assert list(plan(scan_of([[]]), [0], Offset.start(1), 5)) == [Cut(LAST_MICRO, (InputPosition(END, 0, BEGINNING),), (END,), 0, (0,))]


def test_bucket_keys_are_spread_evenly() -> None:
    keys = bucket_keys(8, 4)
    assert len(set(keys)) == 8
    assert sorted(hash_partition(key, 4) for key in keys) == [0, 0, 1, 1, 2, 2, 3, 3]
