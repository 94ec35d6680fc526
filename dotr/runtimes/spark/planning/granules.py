"""A sparse index of an input: granules of consecutive records, found by ranges of a file.

Idea: the next record of ndjson, csv and N-Quads is a function of the place where one starts. So a
range is scanned from its first line end on, though that may be inside of a record. The scan of the
previous range continues beyond its end until it finds a record where a granule of this range
starts. From there on both scans agree, and granules of this range before that record are discarded.
TriG, whose prefixes are declared earlier in the file, and compressed files are scanned from their
start, in parts.
Example: a range starts at the offset 100, inside of a quoted field of several lines. Its scan takes
a line of the field, at 105, for a record, and later finds the record at 150. The scan of the
previous range reads the whole record from 80 to 150. If the range has a granule at 150, it is valid
from there on, and its granule at 105 is discarded.
Invariant: the granules of the pieces, each from its link on, are those of one scan of the file from
the base on, whatever the ranges are.
Cost: one scan of times for each record, and a second one for those between the end of a range and
the first agreed start, which is mostly one record.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Final, NamedTuple

from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.runtimes.spark.exchange.positions import BEGINNING, ORDINARY_BYTES
from dotr.streams.formats.content import whole_reason
from dotr.streams.formats.lines import DAMAGED, MAGIC
from dotr.streams.formats.rdf.logs import is_log
from dotr.streams.formats.reading import Reader
from dotr.streams.records import Format, InputFile, Position, Record

MOST_RECORDS: Final = 4_096
"""Records of a granule, at most, in units of ordinary length."""

_LARGEST: Final = 32
"""The longest range, as a multiple of the first."""

_PIECE: Final = 1 << 16
_NO_END: Final = 1 << 62


class Granule(NamedTuple):
    """Consecutive records: offset and line of the first, their number in units of ordinary length,
    and their greatest time (µs; BEGINNING without one). The last one reaches to the next granule.
    `ties`: the number of records with the greatest time, where they are set apart; else 0.
    """

    offset: int
    line: int
    weight: int
    greatest: Micros
    ties: int = 0


class PieceLink(NamedTuple):
    """The continuation of a piece: the number of the next piece, and offset and line of the record
    from which on that piece is valid. The line is counted as in the piece before."""

    piece: int
    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A scanned range of an input. `link` is None where the input ends with it."""

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
    """The number of records of a granule: a quarter of an input's share of one task's part of a
    batch.

    >>> [records_of_granule(200_000, 16, inputs) for inputs in (1, 10, 100, 10_000)]
    [3125, 312, 31, 1]
    """
    return max(1, min(MOST_RECORDS, batch // (4 * tasks * max(1, inputs))))


def range_starts(start: int, size: int, first: int) -> tuple[int, ...]:
    """The offsets at which the ranges of a file begin, from an offset on: ranges of 1, 2, 4 … 32,
    32 times `first` bytes.

    >>> range_starts(10, 100, 4)
    (10, 14, 22, 38, 70)
    """
    starts = [start]
    length = first
    while starts[-1] + length < size:
        starts.append(starts[-1] + length)
        length = min(2 * length, _LARGEST * first)
    return tuple(starts)


def has_ranges(file: InputFile) -> bool:
    """True if a file can be scanned by ranges: the next record is a function of the place."""
    if file.format not in (Format.NDJSON, Format.CSV, Format.TEXT, Format.NQUADS) or whole_reason(file):
        return False
    try:
        with Location(file.path).open() as start:
            compressed = start.read(len(MAGIC)) == MAGIC
    except OSError:  # reported by the reader
        return False
    return not compressed and not (file.format is Format.NQUADS and is_log(file))


class _Granules:
    """Divides consecutive records into granules; `found` are the complete ones."""

    __slots__ = ("_apart", "_greatest", "_offset_and_line", "_size", "_ties", "_weight", "found")

    def __init__(self, size: int, *, apart: bool) -> None:
        self._size = size
        self._apart = apart
        self._ties = 0
        self._weight = size  # the next record begins a granule
        self._greatest = BEGINNING
        self._offset_and_line: tuple[int, int] | None = None
        self.found: list[Granule] = []

    def extend(self, records: Iterator[Record], until: int) -> Record | None:
        """Add the records before the offset `until`; returns the first record from there on, if
        any."""
        size, weight, greatest, ties = self._size, self._weight, self._greatest, self._ties
        for record in records:
            offset, end, line, time, _, _, _, stamp, _, _ = record
            if offset >= until:
                self._weight, self._greatest, self._ties = weight, greatest, ties
                return record
            if weight >= size:
                self._weight, self._greatest, self._ties = weight, greatest, ties
                self._begin(offset, line)
                weight, greatest, ties = 0, BEGINNING, 0
            if time is None:
                time = stamp
            if time is not None:
                if time > greatest:
                    greatest, ties = time, 1
                elif time == greatest:
                    ties += 1
            weight += 1 + (end - offset) // ORDINARY_BYTES
        self._weight, self._greatest, self._ties = weight, greatest, ties
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
            self.found.append(Granule(*self._offset_and_line, self._weight, self._greatest, self._ties * self._apart))
            self._offset_and_line = None

    def all(self) -> tuple[Granule, ...]:
        """All granules; the last one is closed."""
        self._close()
        self._weight = self._size
        return tuple(self.found)


def scan_range(file: InputFile, start: Position, starts: Sequence[int], piece: int, size: int) -> Piece:
    """The piece of one range.

    `start` is the start of a record, from which on the file is indexed, `starts` are the offsets of
    all ranges from there on, and `size` is the number of records of a granule. Lines are counted
    from the range's first record on, those of the first range from `start`. Raises `Refused` where
    the file cannot be opened.
    """
    granules = _Granules(size, apart=file.apart)
    with closing(_records_of_range(file, start, starts, piece)) as records:
        behind = granules.extend(records, _end_of_range(starts, piece))
        if behind is None:
            return Piece(granules.all(), None)
        with closing(_Following(file, start, starts, piece + 1, size)) as following:
            for record in chain((behind,), records):
                number = following.begins_with(record.offset)
                if number is not None:
                    return Piece(granules.all(), PieceLink(number, record.offset, record.line))
                granules.add(record)
    return Piece(granules.all(), None)


def scan_parts(file: InputFile, start: Position, size: int, first: int) -> Iterator[Piece]:
    """The pieces of a file that is scanned from a record on to its end; they grow in length as
    ranges do.

    `size` is the number of records of a granule, `first` are the bytes of the first piece. Lines
    are the file's. Raises `Refused` where the file cannot be opened.
    """
    granules = _Granules(size, apart=file.apart)
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
            granules = _Granules(size, apart=file.apart)
            granules.add(record)
            length = min(2 * length, _LARGEST * first)
            until = record.offset + length
    yield Piece(granules.all(), None)


def _end_of_range(starts: Sequence[int], piece: int) -> int:
    return starts[piece + 1] if piece + 1 < len(starts) else _NO_END


def _records_of_range(file: InputFile, start: Position, starts: Sequence[int], piece: int) -> Generator[Record, None, None]:
    """The records from the first line end in a range on (the first range: from `start`), to the end
    of the file."""
    position: Position | None = start
    if piece:
        position = _behind_line_end(file.path, starts[piece], _end_of_range(starts, piece))
    if position is not None:
        with Reader(file, position, elements=False) as reader:
            yield from reader.records()


def _behind_line_end(path: str, offset: int, until: int) -> Position | None:
    """The position behind the first line end from `offset` on, with line number 1; None where there
    is no line end before `until`."""
    try:
        with Location(path).open(offset) as file:
            while offset < until and (piece := file.readline(_PIECE)):
                offset += len(piece)
                if piece.endswith(b"\n"):
                    return Position(offset, 1) if offset < until else None
    except DAMAGED:  # reported by the reader of the range before
        pass
    return None


class _Following:
    """The starts of the granules of the ranges from `piece` on, scanned as they are needed."""

    def __init__(self, file: InputFile, start: Position, starts: Sequence[int], piece: int, size: int) -> None:
        self._file, self._start, self._starts, self._size = file, start, starts, size
        self._piece = piece
        self._granule_starts: Generator[int, None, None] | None = None
        self._next = BEGINNING

    def begins_with(self, offset: int) -> int | None:
        """The number of the range that has a granule starting at an offset; None without one.
        Offsets ascend from call to call."""
        while self._piece < len(self._starts):
            if self._granule_starts is None:
                self._granule_starts = self._starts_of(self._piece)
            while self._next < offset:
                found = next(self._granule_starts, None)
                if found is None:
                    break
                self._next = found
            else:
                return self._piece if self._next == offset else None
            self.close()
            self._piece += 1
        return None

    def _starts_of(self, piece: int) -> Generator[int, None, None]:
        granules = _Granules(self._size, apart=self._file.apart)
        until = _end_of_range(self._starts, piece)
        with closing(_records_of_range(self._file, self._start, self._starts, piece)) as records:
            for record in records:
                if record.offset >= until:
                    return
                if granules.add(record):
                    yield record.offset

    def close(self) -> None:
        """Close the open file."""
        if self._granule_starts is not None:
            self._granule_starts.close()
            self._granule_starts = None
