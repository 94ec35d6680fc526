"""Reading and admission of input ranges in a worker.

Consecutive ranges of a file mostly follow each other in a worker, so that its open files are kept:
a compressed file is decompressed once per process, not from its start for each batch. Lateness is
judged as in `planner`: by the greatest earlier time in the input's own order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeAlias

from dotr.errors.diagnostics import Refused
from dotr.model.stream import DeadLetter, Element
from dotr.model.time import Micros
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, Floor
from dotr.runtimes.spark.exchange.task import InputRange, RangePartition, Task
from dotr.runtimes.spark.exchange.worker_cache import input_of
from dotr.streams.connectors.kafka.topics import SERIES
from dotr.streams.formats.content import open_text
from dotr.streams.formats.mapping.maps import cells_of_time, is_origin, origin_cells
from dotr.streams.formats.reading import records_of
from dotr.streams.formats.segments import SEGMENT, SeriesMark
from dotr.streams.lateness import BY_TIME, EVERY_TIME, Apart, Decided, Lateness, TimeFilter
from dotr.streams.merge.feeds import InputPoint, open_segment, unopened
from dotr.streams.records import START, InputFile, Position, Record, with_sources

if TYPE_CHECKING:
    from dotr.runtimes.spark.tasks.kafka_ranges import FetchedRange

_OPEN_FILES: Final[dict[str, BinaryIO]] = {}
_MAX_OPEN_FILES: Final = 256


def _messages(file: InputFile, point: InputPoint, stop: int, time_filter: TimeFilter) -> Iterator[Record]:
    """The records of a segment of spooled messages from a position up to `stop`, which may be amid
    the records of a message."""
    segment = open_segment(file, point, elements=True, time_filter=time_filter)
    size, reader = segment.size(), segment.reader
    with segment.stream:
        while (stop == END or reader.offset < stop) and (records := reader.next(size)) is not None:
            for record in records:
                if record.offset >= stop != END:
                    return
                yield record


def _records(file: InputFile, offset: int, line: int, stop: int, time_filter: TimeFilter) -> Iterator[Record]:
    position = Position(offset, line)
    stream = _OPEN_FILES.pop(file.path, None)
    if stream is not None and stream.tell() > offset:
        stream.close()
        stream = None
    if stream is None:
        stream = open_text(file, position)
    else:
        stream.seek(offset)
    for record in records_of(stream, file, position, True, time_filter):
        if record.offset >= stop != END:
            break
        yield record
        if record.end >= stop != END:
            break
    else:
        stream.close()
        return
    _OPEN_FILES[file.path] = stream
    if len(_OPEN_FILES) > _MAX_OPEN_FILES:
        _OPEN_FILES.pop(next(iter(_OPEN_FILES))).close()


FileRecords: TypeAlias = Iterator[tuple[int, InputFile, Iterator[Record]]]
"""Files of an input in turn: number, specification, and the records of the range."""


class TaskInputs:
    """The inputs of a task. Its messages of Kafka are fetched from all partitions together, and
    kept while the task runs."""

    def __init__(self, job: Job, task: Task) -> None:
        self._job = job
        self._fetched: Mapping[int, FetchedRange] = {}
        sent = [each for each in task.ranges if each.partition is not None and each.partition.number != SERIES]
        if sent:
            from dotr.runtimes.spark.tasks.kafka_ranges import fetched_ranges

            self._fetched = fetched_ranges(job, sent)

    def files(self, input_range: InputRange, *, trace: bool, times: tuple[Micros, Micros] | None = None) -> FileRecords:
        """The files of a range, a partition among them. `trace`: elements are `SourcedElement`.
        `times`: only the graphs of elements with times in (after, until] (µs) are parsed."""
        fetched = self._fetched.get(input_range.input)
        time_filter = TimeFilter(input_range.greatest, *times) if times is not None else EVERY_TIME
        if fetched is None:
            like = (
                input_of(self._job, input_range.input) if input_range.partition is None else _input_named(self._job, input_range.partition)
            )
            return range_files(like, input_range, trace=trace, time_filter=time_filter)
        records = fetched.records(time_filter)
        return iter([(0, fetched.file, with_sources(fetched.file, records) if trace else records)])


def _input_named(job: Job, series: RangePartition) -> InputFile:
    """The input of a series of files."""
    return next(file for number in range(len(job.inputs)) if (file := input_of(job, number)).input == series.name)


def range_files(like: InputFile, input_range: InputRange, *, trace: bool, time_filter: TimeFilter = EVERY_TIME) -> FileRecords:
    """The files of a range. A file that cannot be opened is one unreadable record. `trace`:
    elements are `SourcedElement`; `time_filter`: the times whose graphs are parsed."""
    for number, file, records in _range_files(like, input_range, time_filter):
        yield number, file, with_sources(file, records) if trace else records


def _range_files(like: InputFile, input_range: InputRange, time_filter: TimeFilter) -> FileRecords:
    if not input_range.paths:
        yield input_range.file, like, _records(like, input_range.offset, input_range.line, input_range.stop, time_filter)
        return
    for number, found in enumerate(input_range.paths, input_range.file):
        point = InputPoint(number, input_range.offset, input_range.line) if number == input_range.file else InputPoint(number, *START)
        stop = input_range.stop if number == input_range.stop_file else END
        file = _with_source(like.found(found)) if input_range.partition is not None else like.found(found).in_round(number)
        yield number, file, _messages(file, point, stop, time_filter) if file.framed else _open_records(file, point, stop, time_filter)


def _with_source(file: InputFile) -> InputFile:
    """The segment of a series of files with the name of its file, where the map has it."""
    if file.map is None or not (origin_cells(file) or any(map(is_origin, cells_of_time(file)))):
        return file
    segment = SEGMENT.fullmatch(os.path.basename(file.path))
    assert segment is not None
    source, _ = SeriesMark.of(Path(file.path).parent).place(int(segment[1]), 1, 1, told=True)
    return replace(file, copied_from=source)


def _open_records(file: InputFile, point: InputPoint, stop: int, time_filter: TimeFilter) -> Iterator[Record]:
    if file.change:
        yield file.record_of_change
        return
    records = _records(file, point.offset, point.line, stop, time_filter)
    try:
        first = next(records, None)
    except Refused as refused:
        yield unopened(point, refused)
        return
    if first is not None:
        yield first
        yield from records


class DeadLetterBuffer(Protocol):
    """A collection of dead letters."""

    def append(self, dead_letter: DeadLetter, /) -> None: ...

    def extend(self, dead_letters: Iterable[DeadLetter], /) -> None: ...


def admit(
    files: FileRecords, input_range: InputRange, after: Micros, until: Micros, elements: list[Element], dead_letters: DeadLetterBuffer
) -> None:
    """Append the admitted elements with times in (after, until] (µs) to `elements`, and the dead
    letters that the range owns to `dead_letters`.

    A record with a readable time that is not late, but an unreadable graph, belongs to the range of
    its time. Any other rejected record belongs to the range of its position.
    """
    lateness: Lateness | None = None
    for number, file, records in files:
        if lateness is None:
            lateness = Lateness.of(file, input_range.greatest, input_range.shift)
        rejection = lateness.rejection
        floors = [floor for floor in input_range.floors if floor.file <= number]
        own = END if input_range.own == END or number < input_range.own_file else input_range.own if number == input_range.own_file else 0
        if isinstance(lateness, Apart):
            for record in records:
                closed, lateness.heartbeat = _closed_before(floors, number, record.offset)
                decided = lateness.decided(file, record, closed, number)
                _admit_decided(decided, input_range, after, until, elements, dead_letters)
            continue
        for record in records:
            closed = BEGINNING
            if floors:
                closed, lateness.heartbeat = _closed_before(floors, number, record.offset)
            dead_letter = rejection(file, record, closed)
            if dead_letter is not None:
                stamp = record.stamp
                if record.judged_time is not None and dead_letter.reason not in BY_TIME and stamp is not None:  # as an element of its time
                    owned = after < stamp <= until
                else:
                    owned = own == END or record.offset < own
                if owned:
                    dead_letters.append(dead_letter)
                continue
            time = record.time
            assert time is not None
            if after < time <= until:
                element = record.element
                assert element is not None
                elements.append(element)

    if isinstance(lateness, Apart):
        # What is held beyond `until` belongs to a later range, whose position is before it; or the planner, which has seen
        # the input's next time, has left it out.
        rest = [each if each.time <= until else each._replace(letter=lateness.second(each)) for each in lateness.held]
        _admit_decided(rest, input_range, after, until, elements, dead_letters)


def _admit_decided(
    decided: Iterable[Decided],
    input_range: InputRange,
    after: Micros,
    until: Micros,
    elements: list[Element],
    dead_letters: DeadLetterBuffer,
) -> None:
    """Admit records of an input whose elements are set apart, as `admit` does."""
    for time, _, number, record, letter in decided:
        element = record.element
        if letter is not None:
            by_position = letter.reason in BY_TIME or record.stamp is None or record.judged_time is None
            is_before = input_range.own == END or (number, record.offset) < (input_range.own_file, input_range.own)
            if is_before if by_position else after < time <= until:
                dead_letters.append(letter)
        elif after < time <= until:
            assert element is not None
            elements.append(element)


def _closed_before(floors: Sequence[Floor], number: int, offset: int) -> tuple[Micros, Micros]:
    """The last instant (µs) that had closed before the record at an offset of a file arrived, and
    the last heartbeat before it, from the floors."""
    before = [floor for floor in floors if (floor.file, floor.offset) <= (number, offset)]
    heartbeat = max([floor.until for floor in before if floor.by_clock], default=BEGINNING)
    return max([heartbeat, *(floor.until for floor in before)]), heartbeat
