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
from dotr.streams.formats.lines import BOM, READABLE, line_records
from dotr.streams.formats.mapping.map_terms import columns_of
from dotr.streams.formats.mapping.maps import (
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

_new: Final = tuple.__new__  # takes a third of the time of a constructor; called twice a record


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
    """Records of the lines from a position on; `elements`: with the elements of those that pass
    `time_filter`."""
    own = time_filter.of_file()
    yield from line_records(lines, position, spec.record, _reader(spec, own), elements)
    time_filter.greatest = own.greatest


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
    read = _reader(spec, time_filter)

    def decode(message: Message, elements: bool) -> list[Record]:
        place = message.place
        return [read(message.body, place, place + 1, place, elements, message)]

    return decode


def _reader(spec: InputFile, time_filter: TimeFilter) -> Callable[..., Record]:
    """The reader of consecutive lines of a file, or messages (`ReadLine`)."""
    assert spec.map is not None
    is_wanted, make, encoding, unit = time_filter.test_for(spec), compile_map(spec, (VALUE,)), spec.map.codec, spec.unit
    cells, of_file, clock = origin_cells(spec), origin_of(spec), spec.map.sent_time
    numbered = NUMBER in cells
    parse: ParseTime = time_parser(spec.map.time_format, spec.map.time_zone, fractions=True)
    beside = None if spec.map.time == VALUE else RowTime(spec, (VALUE,), parse)

    def time_beside(value: str, origin: Message, read: RowTime) -> Micros:
        if clock is not None:
            return origin.time_by(clock)
        read.message = origin
        return read((value,), unit)

    def record(raw: bytes, offset: int, end: int, line: int, elements: bool, message: Message | None = None) -> Record:
        time: Micros | None = None
        element: Element | None = None
        if not offset or message is not None:
            raw = raw.removeprefix(BOM)
        try:
            value = raw.decode(encoding).rstrip("\r\n")
            stripped = value.strip()
            if not stripped:
                return Record(offset, end, line, None, None, raw, "it is blank", reason=Reason.EMPTY)
            origin = message or (of_file._replace(place=line) if numbered else of_file)
            time = parse(stripped, unit) if beside is None else time_beside(stripped, origin, beside)
            if is_wanted(time) and elements:
                row = [value, *[origin_value(origin, cell) for cell in cells]] if cells else (value,)
                element = _new(Element, (time, make(row)[0]))
        except UnicodeDecodeError as error:
            why = f"it is not {'UTF-8' if encoding == 'utf-8' else encoding} (byte {error.start})"
            return Record(offset, end, line, None, None, raw, why)
        except ValueError as error:
            why = f"its time: {error}" if time is None and beside is None else str(error)
            return Record(offset, end, line, None, None, raw, why, time)
        return _new(Record, (offset, end, line, time, element, raw, *READABLE))

    return record
