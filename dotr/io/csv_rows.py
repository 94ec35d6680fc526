"""CSV: a row is an element, its time a column, its graph made by a map (interface.md, A stream element).

Idea: a line without a quote is split; one with a quote goes to the csv module, with the lines that follow it if a field holds line ends.
Where what it makes of several lines cannot be a row, the first line alone is given up and reading goes on with the second: an odd quote
costs one line. Quoting is strict, or an odd quote would end in the next quoted field and swallow the rows between.
Invariant: a row is unreadable in a scan exactly if it is when read. Cost: about 3 µs a row with four triples.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from dotr.diagnostics import refuse
from dotr.io.csv_map import check_columns, compile_map
from dotr.io.lines import DAMAGED, STANDARD_INPUT, damaged, open_lines
from dotr.io.records import START, InputFile, Position, Record
from dotr.io.times import parse_time
from dotr.model.places import Span
from dotr.model.stream import Element

_BOM: Final = b"\xef\xbb\xbf"


def header_of(file: InputFile, place: Span | None = None) -> tuple[list[str], Position]:
    """The file's columns, checked against its map, and where its first row starts."""
    with open_lines(file.path, START, place) as lines:
        return _header(file, lines, place)


def _header(file: InputFile, lines: BinaryIO, place: Span | None = None) -> tuple[list[str], Position]:
    assert file.csv is not None
    taken: list[bytes] = []
    try:
        cells = next(csv.reader(_decoded(lines, taken), delimiter=file.csv.delimiter, strict=True), [])
    except UnicodeDecodeError as error:
        raise refuse("I102", f"the header of {file.path} is not UTF-8 (byte {error.start})", place, "Save it as UTF-8.") from None
    except (csv.Error, *DAMAGED) as error:
        raise refuse("I102", f"the header of {file.path} cannot be read: {error}", place) from None
    if not cells:
        raise refuse("I102", f"{file.path} has no header", place, "The first line of a CSV file names its columns.")
    check_columns(file, cells, place)
    return cells, Position(sum(map(len, taken)), len(taken) + 1)


def _decoded(lines: BinaryIO, taken: list[bytes]) -> Iterator[str]:
    for raw in lines:
        taken.append(raw)
        yield (raw if len(taken) > 1 else raw.removeprefix(_BOM)).decode()


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """The records from a position on (the start, or where a row starts); their elements too, if asked for."""
    assert spec.csv is not None
    if spec.path == STANDARD_INPUT:
        header, position = _header(spec, lines)
    else:
        header, first = header_of(spec)
        if position.offset < first.offset:
            lines.read(first.offset - position.offset)
            position = first
    rows = _Rows(lines, spec, header, elements)
    delimiter, width, time_at, unit = spec.csv.delimiter, len(header), header.index(spec.csv.time), spec.unit
    make, parse = rows.make, parse_time
    end, line = position
    try:
        for raw in lines:
            offset, end = end, end + len(raw)
            try:
                text = raw.decode()
                cells = (text[:-2] if text[-2:] == "\r\n" else text[:-1] if text[-1:] == "\n" else text).split(delimiter)
                if len(cells) != width or '"' in text or "\r" in text[:-2]:
                    raise _Special
                time = parse(cells[time_at], unit)
            except (_Special, ValueError):
                for record in rows.special(raw, offset, line):
                    end, line = record.end, record.line + record.raw.count(b"\n")
                    if record.raw.strip():
                        yield record
                continue
            yield Record(offset, end, line, time, Element(time, make(cells)[0]) if elements else None, raw)
            line += 1
    except DAMAGED as error:
        yield damaged(end, line, error)


class _Special(Exception):
    """Not a plain row."""


class _Rows:
    """Reads what is no plain row."""

    def __init__(self, lines: BinaryIO, spec: InputFile, header: Sequence[str], elements: bool) -> None:
        assert spec.csv is not None
        self._lines = lines
        self._unit = spec.unit
        self._delimiter = spec.csv.delimiter
        self._header = header
        self._time_at = header.index(spec.csv.time)
        self._elements = elements
        self.make = compile_map(spec, header)

    def special(self, raw: bytes, offset: int, line: int) -> Iterator[Record]:
        """The records of a line that is no plain row, and of the lines that had to be read to say so; empty lines too."""
        waiting = deque([raw])
        while waiting:
            taken: list[bytes] = []
            record = self._record(waiting, taken, offset, line)
            if not record.why or len(taken) == 1:
                yield record
            else:  # the lines behind the first are read again, each for itself
                waiting.extendleft(reversed(taken[1:]))
                yield record._replace(end=offset + len(taken[0]), raw=taken[0])
            offset += len(record.raw) if not record.why else len(taken[0])
            line += record.raw.count(b"\n") if not record.why else 1

    def _record(self, waiting: deque[bytes], taken: list[bytes], offset: int, line: int) -> Record:
        ran_out = False

        def feed() -> Iterator[str]:
            nonlocal ran_out
            while True:
                raw = waiting.popleft() if waiting else self._lines.readline()
                if not raw:
                    ran_out = True
                    return
                taken.append(raw)
                yield raw.decode()

        why = ""
        time = None
        cells: list[str] = []
        try:
            cells = next(csv.reader(feed(), delimiter=self._delimiter, strict=True), [])
            if len(cells) != len(self._header):
                plural = "" if len(cells) == 1 else "s"
                raise ValueError(f"it has {len(cells)} column{plural} where the header has {len(self._header)}")
            time = parse_time(cells[self._time_at], self._unit)
        except UnicodeDecodeError as error:
            why = f"it is not UTF-8 (byte {error.start})"
        except csv.Error as error:
            why = "a quote is never closed" if ran_out else f"it is no row: {error}"
        except ValueError as error:
            why = str(error) if len(cells) != len(self._header) else f"its time, {self._header[self._time_at]}: {error}"
        raw = b"".join(taken)
        element = Element(time, self.make(cells)[0]) if self._elements and time is not None else None
        return Record(offset, offset + len(raw), line, time, element, raw, why)
