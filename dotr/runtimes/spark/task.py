"""What one task of a batch reads, as data: a range of time, and of each input a stretch of records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from dotr.model.time import Micros
from dotr.runtimes.spark.planner import END, Cut, Floor, Offset

PathsOfInput: TypeAlias = Callable[[int, int, int], tuple[str, ...]]
"""`paths(input, first, last)`: the files with these numbers of an input that grows; nothing for one that is a single file."""


def single_files(number: int, first: int, last: int) -> tuple[str, ...]:
    """No input grows."""
    return ()


@dataclass(frozen=True, slots=True)
class InputRange:
    """What a task reads of one input: from a record up to `stop`, of which it owns what stands before `own` (END: all). Where the input
    grows, `paths` are its files from number `file` on, `stop` and `own` stand in files of their own, and `floors` are the start's."""

    input: int
    offset: int
    line: int
    greatest: Micros
    stop: int
    own: int
    file: int = 0
    stop_file: int = 0
    own_file: int = 0
    paths: tuple[str, ...] = ()
    floors: tuple[Floor, ...] = ()


_PLAIN_MEMBERS: Final = 6
"""So many members say all of a stretch of a single file."""


@dataclass(frozen=True, slots=True)
class Task:
    """The elements with times in (after, until]. `closed` is the batch's last time in its last task, which tells it to all buckets."""

    after: Micros
    until: Micros
    closed: Micros | None
    ranges: tuple[InputRange, ...]

    @staticmethod
    def of_cut(start: Offset, cut: Cut, closed: Micros, paths: PathsOfInput = single_files) -> Task:
        """The task of a cut: what is between two places."""
        ranges = []
        for number, (place, after, (stop_file, stop)) in enumerate(zip(start.places, cut.places, cut.points, strict=True)):
            if place.offset == END or place.point == (stop_file, stop):
                continue
            files = paths(number, place.file, stop_file if stop else stop_file - 1)
            ranges.append(
                InputRange(
                    *(number, place.offset, place.line, place.greatest, stop, after.offset, place.file, stop_file, after.file, files),
                    place.floors,
                )
            )
        return Task(start.time, cut.time, closed if cut.time == closed else None, tuple(ranges))

    def to_json(self) -> str:
        ranges: list[list[object]] = []
        for s in self.ranges:
            plain: list[object] = [s.input, s.offset, s.line, s.greatest, s.stop, s.own]
            ranges.append([*plain, s.file, s.stop_file, s.own_file, s.paths, s.floors] if s.paths or s.floors else plain)
        return json.dumps([self.after, self.until, self.closed, ranges])

    @staticmethod
    def of_json(text: str) -> Task:
        """The inverse of `to_json`.

        >>> grown = InputRange(1, 10, 2, 1, 90, 80, 3, 4, 4, ("c", "d"), (Floor(3, 50, 7),))
        >>> task = Task(1, 5, None, (InputRange(0, 10, 2, 1, 90, 80), grown))
        >>> Task.of_json(task.to_json()) == task
        True
        """
        after, until, closed, stretches = json.loads(text)
        return Task(after, until, closed, tuple(map(_range_from_json, stretches)))


def _range_from_json(listed: list[object]) -> InputRange:
    plain, further = listed[:_PLAIN_MEMBERS], listed[_PLAIN_MEMBERS:]
    if not further:
        return InputRange(*plain)  # type: ignore[arg-type]
    file, stop_file, own_file, paths, floors = further
    return InputRange(*plain, file, stop_file, own_file, tuple(paths), tuple(Floor(*floor) for floor in floors))  # type: ignore
