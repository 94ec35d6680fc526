"""Description of one reading task: a range of time, and a range of records of each input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.runtimes.spark.exchange.positions import END, Cut, Floor, Offset, floors_of_json
from dotr.streams.connectors.kafka.topics import LostRange
from dotr.streams.merge.file_marks import FoundFile

PathsOfInput: TypeAlias = Callable[[int, int, int], tuple[FoundFile, ...]]
"""`paths(input, first, last)`: the files of a growing input with these numbers; empty for a single
file."""


def single_files(number: int, first: int, last: int) -> tuple[FoundFile, ...]:
    """`PathsOfInput` without growing inputs."""
    return ()


class RangePartition(NamedTuple):
    """The partition of a range: the input's name, the topic and number, the offset behind its last
    one (None: it grows), and the ranges known to be lost."""

    name: str
    topic: str
    number: int
    end: int | None
    lost: tuple[LostRange, ...] = ()

    @staticmethod
    def of_json(name: str, topic: str, number: int, end: int | None, lost: Sequence[Sequence[int]]) -> RangePartition:
        """The partition of the members as JSON has them."""
        return RangePartition(name, topic, number, end, tuple(LostRange(*each) for each in lost))


PartitionOfInput: TypeAlias = Callable[[int], RangePartition | None]
"""`partition(input)`: the partition with the number of an input; None for files."""


def no_partition(number: int) -> RangePartition | None:
    """`PartitionOfInput` of files."""
    return None


class InputRange(NamedTuple):
    """The records of one input that a task reads: from `offset` up to `stop` (END: to the end).

    `greatest` is the greatest time before the range (µs), and `shift` the distance by which the
    last element of that time was set apart. The task reports rejected records before `own` only
    (END: all), so that each is reported once. For growing inputs, `paths` are the files from number
    `file` on, `stop_file` and `own_file` are the files of `stop` and `own`, and `floors` are those
    of the start offset. `partition` is that of a topic, whose lines are offsets; None for files.
    """

    input: int
    offset: int
    line: int
    greatest: Micros
    stop: int
    own: int
    file: int = 0
    stop_file: int = 0
    own_file: int = 0
    paths: tuple[FoundFile, ...] = ()
    floors: tuple[Floor, ...] = ()
    partition: RangePartition | None = None
    shift: Micros = 0

    def to_json(self) -> Sequence[object]:
        """The members as a list, without trailing defaults."""
        if self.shift:
            return self
        if self.partition is not None:
            return self[:-1]
        return self[:-2] if self.paths or self.floors else self[:_PLAIN_MEMBERS]

    def without_lists(self) -> InputRange:
        """A range that is read from JSON, with tuples in the place of its lists."""
        partition = None if self.partition is None else RangePartition.of_json(*self.partition)
        paths = tuple(FoundFile.of_json(*each) for each in self.paths)
        return self._replace(paths=paths, floors=floors_of_json(self.floors), partition=partition)


_PLAIN_MEMBERS: Final = 6
"""Number of members written for a range of a single file."""


@dataclass(frozen=True, slots=True)
class Task:
    """The elements with times in (after, until] (µs). The last task of a batch has the batch's last
    time as `closed`, and sends it to all buckets; `is_heartbeat`: that time is one."""

    after: Micros
    until: Micros
    closed: Micros | None
    ranges: tuple[InputRange, ...]
    is_heartbeat: bool = False

    @staticmethod
    def of_cut(
        start: Offset,
        cut: Cut,
        closed: Micros,
        paths: PathsOfInput = single_files,
        partition: PartitionOfInput = no_partition,
        *,
        is_heartbeat: bool = False,
    ) -> Task:
        """The task between an offset and the next cut; `is_heartbeat`: `closed`, the end of the
        batch, is a heartbeat."""
        ranges = []
        for number, (position, after, (stop_file, stop)) in enumerate(zip(start.positions, cut.positions, cut.points, strict=True)):
            if position.offset == END or position.point == (stop_file, stop):
                continue
            files = paths(number, position.file, stop_file if stop else stop_file - 1)
            offset, line, greatest, file, floors, shift = position
            where = number, offset, line, greatest, stop, after.offset, file, stop_file, after.file
            floors = (*floors, *[each for each in after.floors if each.by_clock and each not in floors])
            ranges.append(InputRange(*where, files, floors, partition(number), shift))
        is_last = cut.time == closed
        return Task(start.time, cut.time, closed if is_last else None, tuple(ranges), is_last and is_heartbeat)

    def to_json(self) -> str:
        """JSON text, without trailing defaults."""
        written = [self.after, self.until, self.closed, [each.to_json() for each in self.ranges]]
        return json.dumps([*written, True] if self.is_heartbeat else written)

    @staticmethod
    def of_json(text: str) -> Task:
        """The inverse of `to_json`.

        >>> grown = InputRange(1, 10, 2, 1, 90, 80, 3, 4, 4, (FoundFile("c"), FoundFile("d")), (Floor(3, 50, 7),))
        >>> read = InputRange(2, 7, 7, 1, 9, 9, partition=RangePartition("k", "t", 0, None, (LostRange(7, 8),)))
        >>> task = Task(1, 5, None, (InputRange(0, 10, 2, 1, 90, 80), grown, read))
        >>> Task.of_json(task.to_json()) == task
        True
        """
        after, until, closed, ranges, *is_heartbeat = json.loads(text)
        return Task(after, until, closed, tuple(InputRange(*each).without_lists() for each in ranges), bool(is_heartbeat))
