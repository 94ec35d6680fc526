"""Replays of files that are there in full: their times move, and they are read in rounds.

Idea: all files of a replay move by one distance, so that their least time comes to lie at the
start. A file with rounds is an input of files without end: file n is the same one, n times `every`
later. So its position, in a checkpoint too, is the number of the round and a place in the file.
Invariant: the distance is known before the first element, and never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from dotr.errors.diagnostics import InputFailed
from dotr.model.time import Micros
from dotr.streams.formats.reading import Reader, has_date_times
from dotr.streams.lateness import Lateness
from dotr.streams.merge.feeds import InputFiles, OneFile
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.records import InputFile, Replayed


class TimeSpan(NamedTuple):
    """The least and the greatest time (µs since 1970) of the elements of a file."""

    least: Micros
    greatest: Micros


def time_span(file: InputFile, *, whole: bool) -> TimeSpan | None:
    """The span of a file by its own times; None without an element. Late elements do not count.

    Without `whole` the file is read only as far as the least time may lie, and the greatest one is
    unknown. Raises `Refused` where it cannot be read.

    >>> import tempfile
    >>> from dotr.streams.records import Format
    >>> with tempfile.NamedTemporaryFile("w") as written:
    ...     _ = written.write("".join(f'{{"time": {time}, "graph": ""}}\\n' for time in (12, 9, 30, 8, 31))), written.flush()
    ...     time_span(InputFile("in", written.name, Format.NDJSON, delay=5_000_000), whole=True)
    TimeSpan(least=9000000, greatest=31000000)
    """
    lateness, least = Lateness(file.delay), None
    with Reader(replace(file, replayed=None), elements=False) as reader:
        for record in reader.records():
            time = record.judged_time
            if time is None or lateness.verdict(time) is not None:
                continue
            least = time if least is None else min(least, time)
            if not whole and least <= lateness.passed + 1:
                break
    return None if least is None else TimeSpan(least, lateness.greatest)


class Moves(NamedTuple):
    """The files of a replay, with the distance by which their times move.

    - `start`: where the least time comes to lie (µs since 1970); None where there is no element.
    - `length`: from the least time to the greatest one (µs); 0 unless there are rounds.
    """

    files: Sequence[InputFile]
    start: Micros | None
    length: Micros = 0


def moved_files(files: Sequence[InputFile], start: Callable[[], Micros], every: Micros, shift: Micros | None = None) -> Moves:
    """The files of a replay, moved to a start (µs since 1970), with rounds unless `every` is 0.

    Where a file has integer times, the distance is a whole number of units, so that the least time
    lies at the start or less than a unit before it. `shift`: the distance (µs) of a run that goes
    on; None: it is found. Raises `Refused` where a file cannot be read.
    """
    spans = [time_span(file, whole=bool(every)) for file in files]
    found = [span for span in spans if span is not None]
    if not found:
        return Moves([replace(file, replayed=Replayed(0)) for file in files], None)
    least = min(span.least for span in found)
    if shift is None:
        shift = start() - least
        if any(has_date_times(file) is False for file in files):
            shift -= shift % files[0].unit.value
    # A file without an element has one round: an endless series of them would never yield anything.
    moved = [replace(file, replayed=Replayed(shift, every if span else 0)) for file, span in zip(files, spans, strict=True)]
    return Moves(moved, least + shift, max(span.greatest for span in found) - least)


def files_of_input(file: InputFile) -> InputFiles:
    """A file as an input: read once, or in rounds."""
    return OneFile(file) if file.replayed is None or not file.replayed.every else Rounds(file)


class Rounds:
    """The files of an input that is one file, read again and again (`InputFiles`)."""

    closed = False

    def __init__(self, file: InputFile) -> None:
        self._file = file

    def file(self, number: int) -> InputFile:
        """The file in a round, from 0 on; raises `InputFailed` (C288) for a further round of a file
        whose bytes are not those of the first one."""
        if number and not self._is_unchanged():
            raise InputFailed(
                "C288",
                f"input {self._file.input}: {self._file.path} has changed since its first round",
                "A replay with `every` reads a file again and again: replay a copy that nobody changes.",
            )
        return self._file.in_round(number)

    def _is_unchanged(self) -> bool:
        mark = self._file.mark
        try:
            return mark is None or mark.is_continued_by(self._file.path)
        except OSError:
            return False

    def paths(self, first: int, last: int) -> tuple[FoundFile, ...]:
        """The files of the rounds `first` to `last`, inclusive."""
        return (FoundFile(self._file.path, self._file.mark),) * (last - first + 1)
