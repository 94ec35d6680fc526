"""A sparse index of an input: granules of consecutive records, found by ranges of a file.

Idea: the next record of ndjson, csv and N-Quads is a function of the place where one starts. So a
range is scanned from its first line end on, though that may be inside of a record; the scan of the
range before goes on beyond its end until it meets a start of a granule of this one. From there both
are the same, and what was found here before that start is left out. TriG, whose prefixes are
declared before, and compressed files are scanned from their start, in parts.
Invariant: the granules of the pieces, each from its link on, are those of one scan of the file from
the base on, whatever the ranges are.
Cost: one scan of times for each record, and of the records between the end of a range and a start
that the next one has found, which mostly is one.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from dotr.model.time import Micros
from dotr.runtimes.spark.planner import BEGINNING, ORDINARY_BYTES
from dotr.sources.gzip_bytes import MAGIC
from dotr.sources.lines import DAMAGED
from dotr.sources.message_logs import is_log
from dotr.sources.reading import Reader
from dotr.sources.records import Format, InputFile, Position, Record

MOST_RECORDS: Final = 4_096
"""Records of a granule, at most, in units of ordinary length."""

_LARGEST: Final = 32
"""The longest range, as a multiple of the first."""

_PIECE: Final = 1 << 16
_NO_END: Final = 1 << 62


class Granule(NamedTuple):
    """Consecutive records: offset and line of the first, their number in units of ordinary length,
    and their greatest time (µs; BEGINNING without one). The last one reaches to the next granule.
    """

    offset: int
    line: int
    weight: int
    greatest: Micros


class PieceLink(NamedTuple):
    """The piece that goes on behind one: its number, and offset and line of the record from which
    on it holds. The line is counted as in the piece before."""

    piece: int
    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of an input, scanned. `link` is None where the input ends with it."""

    granules: tuple[Granule, ...]
    link: PieceLink | None

    def to_json(self) -> str:
        """JSON text.

        >>> piece = Piece((Granule(0, 1, 5, 7),), PieceLink(1, 90, 6))
        >>> Piece.of_json(piece.to_json()) == piece
        True
        """
        return json.dumps([self.granules, self.link])

    @staticmethod
    def of_json(text: str) -> Piece:
        """The inverse of `to_json`. Raises ValueError for other text."""
        granules, link = json.loads(text)
        return Piece(tuple([Granule(*each) for each in granules]), None if link is None else PieceLink(*link))


def records_of_granule(batch: int, tasks: int, inputs: int) -> int:
    """Records of a granule: a quarter of an input's share of a cut.

    >>> [records_of_granule(200_000, 16, inputs) for inputs in (1, 10, 100, 10_000)]
    [3125, 312, 31, 1]
    """
    return max(1, min(MOST_RECORDS, batch // (4 * tasks * max(1, inputs))))


def begins_of_ranges(start: int, size: int, first: int) -> tuple[int, ...]:
    """The offsets at which the ranges of a file begin, from an offset on: ranges of 1, 2, 4 … 32, 32
    times `first` bytes.

    >>> begins_of_ranges(10, 100, 4)
    (10, 14, 22, 38, 70)
    """
    begins = [start]
    length = first
    while begins[-1] + length < size:
        begins.append(begins[-1] + length)
        length = min(2 * length, _LARGEST * first)
    return tuple(begins)


def has_ranges(file: InputFile) -> bool:
    """True if a file can be scanned by ranges: the next record is a function of the place."""
    if file.format not in (Format.NDJSON, Format.CSV, Format.NQUADS):
        return False
    try:
        with open(file.path, "rb") as start:
            compressed = start.read(len(MAGIC)) == MAGIC
    except OSError:  # told by the reader
        return False
    return not compressed and not (file.format is Format.NQUADS and is_log(file))


class _Granules:
    """The granules of records, as they come."""

    __slots__ = ("_greatest", "_offset_and_line", "_size", "_weight", "found")

    def __init__(self, size: int) -> None:
        self._size = size
        self._weight = size  # the next record begins a granule
        self._greatest = BEGINNING
        self._offset_and_line: tuple[int, int] | None = None
        self.found: list[Granule] = []

    def extend(self, records: Iterator[Record], until: int) -> Record | None:
        """Add the records before an offset; the first one behind it, if there is one."""
        size, weight, greatest = self._size, self._weight, self._greatest
        for record in records:
            offset, end, line, time, _, _, _, stamp, _ = record
            if offset >= until:
                self._weight, self._greatest = weight, greatest
                return record
            if weight >= size:
                self._weight, self._greatest = weight, greatest
                self._begin(offset, line)
                weight, greatest = 0, BEGINNING
            if time is None:
                time = stamp
            if time is not None and time > greatest:
                greatest = time
            weight += 1 + (end - offset) // ORDINARY_BYTES
        self._weight, self._greatest = weight, greatest
        return None

    @property
    def is_full(self) -> bool:
        """True if the next record begins a granule."""
        return self._weight >= self._size

    def add(self, record: Record) -> bool:
        """Add one record; True if it begins a granule."""
        begins = self.is_full
        self.extend(iter((record,)), record.offset + 1)
        return begins

    def _begin(self, offset: int, line: int) -> None:
        self._close()
        self._offset_and_line = offset, line

    def _close(self) -> None:
        if self._offset_and_line is not None:
            self.found.append(Granule(*self._offset_and_line, self._weight, self._greatest))
            self._offset_and_line = None

    def all(self) -> tuple[Granule, ...]:
        """All granules; the last one is closed."""
        self._close()
        self._weight = self._size
        return tuple(self.found)


def scan_range(file: InputFile, start: Position, begins: Sequence[int], piece: int, size: int) -> Piece:
    """The piece of one range.

    `start` is the start of a record, from which on the file is indexed, `begins` are the offsets of
    all ranges from there on, and `size` is the number of records of a granule. Lines are counted
    from the range's first record on, those of the first range from `start`. Raises `Refused` where
    the file cannot be opened.
    """
    granules = _Granules(size)
    with closing(_records_of_range(file, start, begins, piece)) as records:
        behind = granules.extend(records, _end_of_range(begins, piece))
        if behind is None:
            return Piece(granules.all(), None)
        with closing(_Following(file, start, begins, piece + 1, size)) as following:
            for record in chain((behind,), records):
                number = following.begins_with(record.offset)
                if number is not None:
                    return Piece(granules.all(), PieceLink(number, record.offset, record.line))
                granules.add(record)
    return Piece(granules.all(), None)


def scan_parts(file: InputFile, start: Position, size: int, first: int) -> Iterator[Piece]:
    """The pieces of a file that is scanned from a record on to its end, as far apart as ranges.

    `size` is the number of records of a granule, `first` are the bytes of the first piece. Lines
    are the file's. Raises `Refused` where the file cannot be opened.
    """
    granules = _Granules(size)
    until = length = first
    until += start.offset
    number = 0
    with Reader(file, start, elements=False) as reader:
        records = reader.records()
        while (record := granules.extend(records, until)) is not None:
            while not granules.is_full:  # a piece ends with a granule
                granules.add(record)
                record = next(records, None)
                if record is None:
                    yield Piece(granules.all(), None)
                    return
            number += 1
            yield Piece(granules.all(), PieceLink(number, record.offset, record.line))
            granules = _Granules(size)
            granules.add(record)
            length = min(2 * length, _LARGEST * first)
            until = record.offset + length
    yield Piece(granules.all(), None)


def _end_of_range(begins: Sequence[int], piece: int) -> int:
    return begins[piece + 1] if piece + 1 < len(begins) else _NO_END


def _records_of_range(file: InputFile, start: Position, begins: Sequence[int], piece: int) -> Generator[Record, None, None]:
    """The records from the first line end in a range on, or from the start; without an end."""
    position: Position | None = start
    if piece:
        position = _behind_line_end(file.path, begins[piece], _end_of_range(begins, piece))
    if position is not None:
        with Reader(file, position, elements=False) as reader:
            yield from reader.records()


def _behind_line_end(path: str, offset: int, until: int) -> Position | None:
    """The place behind the first line end from an offset on, with the line 1; None where there is
    none before another offset."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            while offset < until and (piece := file.readline(_PIECE)):
                offset += len(piece)
                if piece.endswith(b"\n"):
                    return Position(offset, 1) if offset < until else None
    except DAMAGED:  # told by the reader of the range before
        pass
    return None


class _Following:
    """The starts of granules of the ranges behind one, as far as they are needed."""

    def __init__(self, file: InputFile, start: Position, begins: Sequence[int], piece: int, size: int) -> None:
        self._file, self._start, self._begins, self._size = file, start, begins, size
        self._piece = piece
        self._starts: Generator[int, None, None] | None = None
        self._next = BEGINNING

    def begins_with(self, offset: int) -> int | None:
        """The range that has found the start of a granule at an offset; offsets ascend."""
        while self._piece < len(self._begins):
            if self._starts is None:
                self._starts = self._starts_of(self._piece)
            while self._next < offset:
                found = next(self._starts, None)
                if found is None:
                    break
                self._next = found
            else:
                return self._piece if self._next == offset else None
            self.close()
            self._piece += 1
        return None

    def _starts_of(self, piece: int) -> Generator[int, None, None]:
        granules = _Granules(self._size)
        until = _end_of_range(self._begins, piece)
        with closing(_records_of_range(self._file, self._start, self._begins, piece)) as records:
            for record in records:
                if record.offset >= until:
                    return
                if granules.add(record):
                    yield record.offset

    def close(self) -> None:
        """Close the open file."""
        if self._starts is not None:
            self._starts.close()
            self._starts = None
