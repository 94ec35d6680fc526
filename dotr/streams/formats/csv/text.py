"""Text reader: a line of a file, or a whole message, is one value, `{$value}` of the map.

Idea: the map is compiled as that of a CSV row with one column. A JSON number, `true` and `false`
are terms as in JSON, other text is a string. The time is the value, or outside of it.
Invariant: a line has the same time in a scan, which makes no terms, as in a full reading.
Cost: less than that of a CSV row of two cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.places import Span
from dotr.model.stream import Element, Reason
from dotr.model.time import Micros
from dotr.streams.formats.csv.map import RowTime, compile_map
from dotr.streams.formats.lines import BOM, line_records
from dotr.streams.formats.map_terms import columns_of
from dotr.streams.formats.maps import (
    NUMBER,
    VALUE,
    cell_problem,
    cells_of_time,
    is_origin,
    origin_cells,
    origin_of,
    origin_value,
    parsed_map,
)
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import InputFile, Message, Position, Record
from dotr.streams.time_formats import time_parser
from dotr.streams.times import ParseTime

_READABLE: Final = Record(0, 0, 0, None, None, b"")[6:]
"""The further fields of a readable record."""

_new: Final = tuple.__new__  # takes a third of the time of a constructor; called twice a record


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
    """Records of the lines from a position on; `elements`: with the elements of those that pass
    `time_filter`."""
    values, origin = _ValueReader(spec, time_filter), origin_of(spec)

    def record(raw: bytes, offset: int, end: int, line: int) -> Record:
        return values.record(raw if offset else raw.removeprefix(BOM), offset, end, line, elements, origin)

    yield from line_records(lines, position, spec.record, record)
    time_filter.greatest = values.greatest


def check_cells(file: InputFile, place: Span | None) -> None:
    """Check the time and the cells of the map; raises `Refused` (T107)."""
    assert file.map is not None
    hint = f"A text is one value, {{{VALUE}}}; beside it are cells of its origin, such as {{$topic[1]}} or {{$file}}."
    cells, timed = (
        [cell for cell in named if cell != VALUE and not is_origin(cell)]
        for named in (columns_of(parsed_map(file).template), cells_of_time(file))
    )
    problems = [cell_problem(file.map.template, cell, "T107", f"a text has no {cell}", hint) for cell in cells]
    problems += [Diagnostic("T107", f"time: a text has no {cell}", place, hint) for cell in timed]
    if problems:
        raise Refused(problems)


def value_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one value each, with the elements of those that pass `time_filter`."""
    record = _ValueReader(spec, time_filter).record

    def decode(message: Message, elements: bool) -> list[Record]:
        place = message.place
        return [record(message.body.removeprefix(BOM), place, place + 1, place, elements, message)]

    return decode


class _ValueReader:
    """Reader of consecutive values. `greatest`: the greatest time so far, in µs since 1970."""

    __slots__ = (
        "_clock", "_distance", "_encoding", "_lowest", "_make", "_numbered", "_origins", "_parse", "_time", "_unit", "_until", "greatest",
    )  # fmt: skip

    def __init__(self, spec: InputFile, time_filter: TimeFilter) -> None:
        assert spec.map is not None
        self.greatest, self._lowest, self._until = time_filter.greatest, time_filter.lowest(spec), time_filter.until
        self._distance = time_filter.distance(spec)
        self._make = compile_map(spec, (VALUE,))
        self._origins = origin_cells(spec)
        self._numbered = NUMBER in self._origins
        self._clock = spec.map.sent_time
        self._parse: ParseTime = time_parser(spec.map.time_format, spec.map.time_zone, fractions=True)
        self._time = None if spec.map.time == VALUE else RowTime(spec, (VALUE,), self._parse)
        self._encoding = spec.map.codec
        self._unit = spec.unit

    def record(self, raw: bytes, offset: int, end: int, line: int, elements: bool, origin: Message) -> Record:
        """The record of the bytes [offset, end); `line` is its number."""
        time: Micros | None = None
        element: Element | None = None
        try:
            value = raw.decode(self._encoding).rstrip("\r\n")
            if self._numbered and not origin.body:
                origin = origin._replace(place=line)
            time = self._parse(value.strip(), self._unit) if self._time is None else self._time_beside(origin, value, self._time)
            is_wanted = elements and self._lowest < time <= self._until
            if time > self.greatest:
                self.greatest = time
                if time - self._distance > self._lowest:
                    self._lowest = time - self._distance
            if is_wanted:
                row = [value, *[origin_value(origin, cell) for cell in self._origins]] if self._origins else (value,)
                element = _new(Element, (time, self._make(row)[0]))
        except UnicodeDecodeError as error:
            why = f"it is not {'UTF-8' if self._encoding == 'utf-8' else self._encoding} (byte {error.start})"
            return Record(offset, end, line, None, None, raw, why)
        except ValueError as error:
            if time is None and not value.strip():
                return Record(offset, end, line, None, None, raw, "it is blank", reason=Reason.EMPTY)
            why = f"its time: {error}" if time is None and self._time is None else str(error)
            return Record(offset, end, line, None, None, raw, why, time)
        return _new(Record, (offset, end, line, time, element, raw, *_READABLE))

    def _time_beside(self, origin: Message, value: str, read: RowTime) -> Micros:
        """The time of a value by cells beside it, in µs since 1970; raises ValueError with the
        reason, or where the value is blank."""
        if not value.strip():
            raise ValueError
        if self._clock is not None:
            return origin.time_by(self._clock)
        read.message = origin
        return read((value.strip(),), self._unit)
