"""The inputs of a job, read a stretch at a time, and judged.

A worker reads a file in stretches that mostly follow each other, so its open files are kept: a compressed one is then decompressed
once in a process, not from its start for every batch. Lateness is judged as in `planning`: by the greatest time before, in the input's
own order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from dotr.io.lateness import Lateness
from dotr.io.lines import open_lines
from dotr.io.reading import _READERS as READERS
from dotr.io.reading import Reader
from dotr.io.records import InputFile, Position, Record, traced
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.model.time import Micros
from dotr.runtimes.spark.compiled import input_of
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.planning import END, Scan
from dotr.runtimes.spark.tasks import Stretch

_OPEN: Final[dict[str, BinaryIO]] = {}
_MOST_OPEN: Final = 256


def scan_inputs(job: Job) -> Scan:
    """The scan that `plan` wants."""

    def scan(number: int, offset: int, line: int) -> Iterator[tuple[int, int, Micros | None]]:
        with Reader(input_of(job, number), Position(offset, line), elements=False) as reader:
            for record in reader.records():
                yield record.offset, record.line, record.time

    return scan


def _records(file: InputFile, offset: int, line: int, stop: int) -> Iterator[Record]:
    position = Position(offset, line)
    lines = _OPEN.pop(file.path, None)
    if lines is not None and lines.tell() > offset:
        lines.close()
        lines = None
    if lines is None:
        lines = open_lines(file.path, position)
    else:
        lines.seek(offset)
    for record in READERS[file.format](lines, file, position, True):
        if record.offset >= stop != END:
            break
        yield record
        if record.end >= stop != END:
            break
    else:
        lines.close()
        return
    _OPEN[file.path] = lines
    if len(_OPEN) > _MOST_OPEN:
        _OPEN.pop(next(iter(_OPEN))).close()


def judge(
    file: InputFile, stretch: Stretch, after: Micros, until: Micros, elements: list[Element], dead: list[DeadLetter], *, trace: bool
) -> None:
    """Adds a stretch's elements with times in (after, until], `Traced` where asked for, and what of it is this task's to reject."""
    lateness, own = Lateness(file.delay, stretch.greatest), stretch.own
    late = lateness.late
    records = _records(file, stretch.offset, stretch.line, stretch.stop)
    for record in traced(file, records) if trace else records:
        time = record.time
        if time is None:
            if own == END or record.offset < own:
                dead.append(record.letter(file, Reason.UNREADABLE))
        elif late(time):
            if own == END or record.offset < own:
                dead.append(record.letter(file, Reason.LATE, lateness.why(time)))
        elif after < time <= until:
            assert record.element is not None
            elements.append(record.element)
