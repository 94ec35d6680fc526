"""CSV reader: a row is an element, one column has its time, and a map makes its graph
(interface.md, A stream element).

Idea: a line without quotes is split at the delimiter. A line with quotes is parsed by the csv
module, with the following lines if a field holds line ends. A record with all quotes closed is
consumed whole, readable or not. With an unclosed quote, or text behind a closing quote, only the
first line is rejected, and reading resumes at the second: a stray quote costs one line. Quoting is
strict, since a stray quote in lenient parsing would extend to the next quoted field, and merge the
rows between. A record beyond the limit is scanned in pieces, and only the state of quoting is kept.
After a stray quote its text is read again; standard input is not seekable, so there the text is
skipped.
Invariant: a row has the same time in a scan, which makes no terms, as when read.
Cost: about 3 µs a row with four triples.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache, partial
from typing import Any, BinaryIO, Final, assert_never

from dotr.model.stream import Element, Reason
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Micros
from dotr.streams.formats.content import open_text
from dotr.streams.formats.csv.map import (
    RecordTooLong,
    RowTime,
    compile_map,
    encoding_title,
    first_line,
    header_of,
    is_comment,
    positions,
    read_header,
)
from dotr.streams.formats.lines import DAMAGED, LINE_END, STANDARD_INPUT, bounded_lines, damage, damaged, skip_line
from dotr.streams.formats.mapping.map_terms import columns_of
from dotr.streams.formats.mapping.maps import (
    RecordNumbers,
    cells_of_time,
    is_origin,
    origin_cells,
    origin_of,
    origin_value,
    parsed_map,
    time_cells,
)
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import COLUMNS, START, ElementMap, InputFile, Message, Position, Record, beginning, limit_reason
from dotr.streams.time_formats import local_zone, note_repeated_hour, time_parser

_QUOTE: Final = ord('"')
_RETURN: Final = ord("\r")

csv.field_size_limit(sys.maxsize)  # the default of 128 KiB would reject long quoted fields


def header_in(file: InputFile, rows: bytes) -> tuple[list[str], Position] | None:
    """Columns of a file that begins with some whole rows, and the position of its first row; None
    where its header is not among them. Raises `Refused` as `header_of`."""
    return read_header(file, io.BytesIO(rows)) if first_line(file, io.BytesIO(rows))[0] else None


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME) -> Iterator[Record]:
    """Records from a position on, which is the start of the file or of a row.

    `elements`: with the elements of the records that pass `time_filter`.
    """
    assert spec.map is not None
    numbers = RecordNumbers.of(spec, position, partial(_scanned, spec)) if elements else None
    if spec.path == STANDARD_INPUT and (spec.map.skip or not spec.map.columns):
        header, first = read_header(spec, lines)
        position = first
    else:
        header, first = header_of(spec)
        if position.offset < first.offset:
            lines.read(first.offset - position.offset)
            position = first
    if not header:
        return iter((Record(0, 0, 1, None, None, b"", f"{spec.path} has no header"),))
    origins = origin_cells(spec) if elements else ()
    origin = origin_of(spec) if origins or any(map(is_origin, cells_of_time(spec))) else None
    if spec.map.each == COLUMNS:
        start = _row_start(lines, position, first) if position.offset > first.offset else position
        rows = _rows(lines, spec, header, start, True, origin=origin)
        columns = _columns(rows, spec, header, elements, time_filter, origins, origin, numbers)
        rows = (each for each in columns if each.offset >= position.offset)
    else:
        rows = _rows(lines, spec, header, position, elements, None, time_filter, origins, origin, numbers)
    return rows if numbers is None else numbers.counted(rows)


def _scanned(spec: InputFile, position: Position) -> Generator[Record]:
    with open_text(spec, position) as lines:
        yield from records(lines, spec, position, False)


def _columns(
    rows: Iterator[Record],
    spec: InputFile,
    header: Sequence[str],
    elements: bool,
    time_filter: TimeFilter,
    origins: Sequence[str],
    origin: Message | None,
    numbers: RecordNumbers | None,
) -> Iterator[Record]:
    """Records of the columns of rows, of which `_rows` has the cells in place of triples, but for
    columns that the map or `time` names and for empty cells.

    Record n of the row at offset m has the offset m + n, in the first line of the row: a row of
    lines b"1,2,\"" and b"\",,7" at 100 has records at 100 and 101. So a position amid a row is
    behind the last line end before it.
    """
    assert spec.map is not None
    greatest, lowest, until, distance = time_filter.greatest, time_filter.lowest(spec), time_filter.until, time_filter.distance(spec)
    index, make, delimiter, codec = positions(header), compile_map(spec, header), spec.map.delimiter, spec.map.codec
    named = {index(written) for written in (*cells_of_time(spec), *columns_of(parsed_map(spec).template))}
    others = [(number, column) for number, column in enumerate(header) if number not in named]
    for row in rows:
        time, cells = row.element or (row.judged_time, ())
        is_wanted = elements and time is not None and lowest < time <= until
        if time is not None and time > greatest:
            greatest, lowest = time, max(lowest, time - distance)
        if row.element is None:
            yield row
            continue
        values: list[str | None] = list(cells)  # type: ignore[arg-type]  # the cells of the row are the triples of its element
        found = [(number, column) for number, column in others if values[number]]
        in_line = row.offset + (row.raw.find(b"\n") + 1 or len(row.raw)) - 1
        for item, (number, column) in enumerate(found):
            offset = min(row.offset + item, in_line)
            end = row.end if item == len(found) - 1 else min(row.offset + item + 1, in_line)
            cell = values[number]
            raw = f"{column}{delimiter}{cell}".encode(codec)
            element, why = None, ""
            if is_wanted and time is not None:
                known = origin if origin is None or numbers is None else origin._replace(place=numbers.last + 1)
                try:
                    element = Element(time, make([*values, column, cell, *[origin_value(known, each) for each in origins]])[0])
                except ValueError as error:
                    why = f"column {column}: {error}"
            yield Record(offset, end, row.line, None if why else time, element, raw, why, time if why else None)
    time_filter.greatest = greatest


def _row_start(lines: BinaryIO, position: Position, first: Position) -> Position:
    """The start of the row that a position is in, behind that of the `first` row; the stream is
    moved there."""
    at, size = position.offset, _PIECE
    while at > first.offset:
        at, size = max(first.offset, position.offset - size), 4 * size
        lines.seek(at)
        end = lines.read(position.offset - at).rfind(b"\n")
        if end >= 0:
            at += end + 1
            break
    lines.seek(at)
    return Position(at, position.line)


def _rows(
    lines: BinaryIO,
    spec: InputFile,
    header: Sequence[str],
    position: Position,
    elements: bool,
    sent: Micros | None = None,
    time_filter: TimeFilter = EVERY_TIME,
    origins: Sequence[str] = (),
    origin: Message | None = None,
    numbers: RecordNumbers | None = None,
) -> Iterator[Record]:
    """Records of rows under a header; without a column of times, `sent` (µs) is the time of all.

    `origins`: the cells of the map that are of the rows' `origin`; `numbers`: the count of the rows
    before, where the map has their numbers.
    """
    assert spec.map is not None
    rows = _RowReader(lines, spec, header, elements, sent)
    if isinstance(rows.parse_time, RowTime):
        rows.parse_time.message = origin
    if spec.map.each == COLUMNS:
        rows.to_triples = lambda cells: (cells, 0)  # type: ignore[assignment, return-value]  # for `_columns`
    elif origins and origin is not None:
        to_triples, known = rows.to_triples, origin

        def with_origin(cells: Sequence[str | None]) -> tuple[tuple[Triple, ...], int]:
            row = known if numbers is None else known._replace(place=numbers.last + 1)
            return to_triples([*cells, *[origin_value(row, cell) for cell in origins]])

        rows.to_triples = with_origin
    rows.lowest, rows.until = time_filter.lowest(spec), time_filter.until
    greatest, lowest, until, distance = time_filter.greatest, rows.lowest, time_filter.until, time_filter.distance(spec)
    delimiter, columns, time_at, unit = spec.map.delimiter, len(header), rows.time_at, spec.unit
    make, parse, encoding = rows.to_triples, rows.parse_time, spec.map.codec
    new = tuple.__new__  # takes a third of the time of a constructor; called twice a row
    end, line = position
    zone = local_zone(spec.map.time_format, spec.map.time_zone)
    if time_filter is EVERY_TIME:
        greatest = -LAST_MICRO  # not that of another file
    # A scan splits a plain row of ASCII bytes only up to the time: b"7,12:00,a,b\n" with the time in
    # column 1 is split into the cells b"7", b"12:00", b"a,b\n". A time of several cells needs all.
    in_ascii = not elements and delimiter.isascii() and is_like_ascii(encoding) and not isinstance(time_at, slice)
    comma, commas, comment = delimiter.encode(), columns - 1, rows.comment
    try:
        for raw in bounded_lines(lines, spec.record):
            offset, end = end, end + len(raw)
            if comment and raw.startswith(comment):
                end += rows.rest_of(raw)
                line += 1
                continue
            is_plain = in_ascii and raw.isascii() and raw.count(comma) == commas and raw[-1] == LINE_END and _QUOTE not in raw
            if is_plain and (_RETURN not in raw or raw.find(b"\r", 0, -2) < 0):
                try:
                    cell = raw.split(comma, time_at + 1)[time_at]
                    time = parse((cell.rstrip(b"\r\n") if time_at == commas else cell).decode(), unit)
                except ValueError:  # reported below
                    pass
                else:
                    yield Record(offset, end, line, time, None, raw)
                    line += 1
                    continue
            try:
                text = raw.decode(encoding)
                if text[-2:] == "\r\n":
                    cells = text[:-2].split(delimiter)
                elif text[-1] == "\n":
                    cells = text[:-1].split(delimiter)
                else:  # the last line, or the beginning of a long one
                    raise _NotPlain
                if len(cells) != columns or '"' in text or text.find("\r", 0, -2) >= 0:
                    raise _NotPlain
                time = parse(cells[time_at], unit)
                element = new(Element, (time, make(cells)[0])) if elements and lowest < time <= until else None
            except (_NotPlain, ValueError):
                for record, next_line in rows.quoted_or_broken(raw, offset, line):
                    end, line = record.end, next_line
                    stamp = record.stamp if record.time is None else record.time
                    if stamp is not None and stamp > greatest:
                        greatest = stamp
                        rows.lowest = lowest = max(lowest, stamp - distance)
                    elif stamp is not None and zone and stamp < greatest:
                        note_repeated_hour(spec.input, spec.path, record.line, stamp, zone, record.decoded(encoding))
                    if record.raw.strip() or record.reason is Reason.LIMIT:
                        yield record
                continue
            if time > greatest:
                greatest = time
                if time - distance > lowest:
                    rows.lowest = lowest = time - distance
            elif zone and time < greatest:
                note_repeated_hour(spec.input, spec.path, line, time, zone, text)
            yield new(Record, (offset, end, line, time, element, raw, "", None, Reason.UNREADABLE, ""))
            line += 1
        time_filter.greatest = greatest
        if (broken := damage(lines)) and not rows.damaged:
            raise broken
    except DAMAGED as error:
        yield damaged(end, line, error)


def row_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> Callable[[Message, bool], Iterable[Record]]:
    """Decoder of messages of one or several rows, with the elements of those that pass
    `time_filter`.

    Without declared columns a message begins with a header.
    """
    is_wanted = time_filter.test_for(spec)
    assert spec.map is not None
    clock, declared, encoding, delimiter = spec.map.sent_time, spec.map.columns, spec.map.codec, spec.map.delimiter
    origins = origin_cells(spec)
    plain = _RowReader(io.BytesIO(), spec, declared, elements=False) if declared and not spec.map.each else None

    def decode(message: Message, elements: bool) -> Iterable[Record]:
        body, place = message.body, message.place
        sent = None if clock is None else message.time_by(clock)
        if plain is not None and b'"' not in body and b"\n" not in body and b"\r" not in body:  # a row without quotes
            greatest = time_filter.greatest
            if isinstance(plain.parse_time, RowTime):
                plain.parse_time.message = message
            try:
                cells = body.decode(encoding).split(delimiter)
                if len(cells) == len(declared):
                    time = plain.parse_time(cells[plain.time_at], spec.unit) if sent is None else sent
                    row: Sequence[str | None] = [*cells, *[origin_value(message, cell) for cell in origins]] if origins else cells
                    element = Element(time, plain.to_triples(row)[0]) if is_wanted(time) and elements else None
                    return (Record(place, place + 1, place, time, element, body),)
            except ValueError:  # reported below, with the greatest time before the message
                time_filter.greatest = greatest
        return several(message, elements, sent)

    def several(message: Message, elements: bool, sent: Micros | None) -> Iterator[Record]:
        assert spec.map is not None
        lines, position, header, place = io.BytesIO(message.body), START, list(declared), message.place
        if not declared:
            header, position = read_header(spec, lines)
            if not header:
                raise ValueError("it has no header")
        if spec.map.each == COLUMNS:
            rows = _rows(lines, spec, header, position, True, sent, origin=message)
            records = list(_columns(rows, spec, header, elements, time_filter, origins, message, None))
        else:
            records = list(_rows(lines, spec, header, position, elements, sent, time_filter, origins, message))
        for record in records or [Record(0, 0, 0, None, None, message.body, "it has no row")]:
            yield record._replace(offset=place, end=place + 1, line=place)

    return decode


@lru_cache(64)
def is_like_ascii(encoding: str) -> bool:
    """True if text in ASCII has the same bytes in an encoding.

    >>> is_like_ascii("latin-1"), is_like_ascii("utf-16-le"), is_like_ascii("utf-7")
    (True, False, False)
    """
    every = "".join(map(chr, range(128)))
    return every.encode(encoding, "replace") == every.encode()


class _NotPlain(Exception):
    """Signal that a line is not a plain row."""


class _CsvCut(Exception):
    """Signal that damage of the file cuts off the last line."""


class _RowReader:
    """Reader of rows with quotes or errors.

    `damaged`: True once a record has reported damage of the file. Elements are made of rows with
    times in (`lowest`, `until`] (µs since 1970).
    """

    def __init__(self, lines: BinaryIO, spec: InputFile, header: Sequence[str], elements: bool, sent: Micros | None = None) -> None:
        assert spec.map is not None
        self._lines = lines
        self._unit = spec.unit
        self._limit = spec.record
        self._delimiter = spec.map.delimiter
        self._header = header
        texts = time_cells(spec.map.time)
        # The cells of a row from which its time is read: cells[2], or all of them, cells[:], where `parse_time` is a `RowTime`.
        alone = not (len(texts) != 1 or texts[0].is_template or any(map(is_origin, texts[0].cells)))
        self.time_at: Any = positions(header)(texts[0].cells[0]) if alone and not texts[0].sent else 0
        self._encoding = spec.map.codec
        self._encoding_name = encoding_title(spec)
        self.parse_time: Any = time_parser(spec.map.time_format, spec.map.time_zone, fractions=True)
        if sent is not None:
            self.parse_time = lambda cell, unit: sent
        elif not alone:
            self.time_at, self.parse_time = slice(None), RowTime(spec, header, self.parse_time)
        self._elements = elements
        self.comment = spec.map.comment.encode(self._encoding)
        self.damaged = False
        self.lowest, self.until = -LAST_MICRO, LAST_MICRO
        self.to_triples = compile_map(spec, header)

    def quoted_or_broken(self, raw: bytes, offset: int, line: int) -> Iterator[tuple[Record, int]]:
        """Records of a line that is no plain row, empty lines included, each with the number of the
        next line.

        Following lines are read while a quoted field is open.
        """
        waiting = deque([raw])
        while waiting:
            if is_comment(waiting[0], self.comment):  # among lines that are read again; it has no text
                end = offset + len(waiting[0]) + self.rest_of(waiting.popleft())
                record, line = Record(offset, end, line, None, None, b""), line + 1
            else:
                record, line = self._record(waiting, offset, line)
            offset = record.end
            yield record, line

    def rest_of(self, raw: bytes) -> int:
        """Skip the rest of a line that is longer than a record may be; returns its bytes."""
        return skip_line(self._lines)[0] if len(raw) > self._limit and raw[-1] != LINE_END else 0

    def _record(self, waiting: deque[bytes], offset: int, line: int) -> tuple[Record, int]:
        lines_read: list[bytes] = []
        size = 0
        ran_out = False
        invalid_at = -1  # offset of the first byte that is invalid in the encoding

        def feed() -> Iterator[str]:
            nonlocal ran_out, size, invalid_at
            while True:
                raw = waiting.popleft() if waiting else self._lines.readline(self._limit + 1)
                if not raw:
                    ran_out = True
                    return
                lines_read.append(raw)
                size += len(raw)
                if raw[-1] != LINE_END:
                    if size <= self._limit and damage(self._lines):
                        raise _CsvCut
                elif size == self._limit + 1:
                    size -= 1  # the line end does not count
                if size > self._limit:
                    raise RecordTooLong
                try:
                    yield raw.decode(self._encoding)
                except UnicodeDecodeError as error:
                    invalid_at = size - len(raw) + error.start if invalid_at < 0 else invalid_at
                    yield raw.decode(self._encoding, "replace")

        why = ""
        time: Micros | None = None
        stamp: Micros | None = None
        triples: tuple[Triple, ...] = ()
        complete, is_wanted = True, False
        cells: list[str] = []
        try:
            cells = next(csv.reader(feed(), delimiter=self._delimiter, strict=True), [])
            if invalid_at >= 0:
                raise ValueError
            if len(cells) != len(self._header):
                plural = "" if len(cells) == 1 else "s"
                raise ValueError(f"it has {len(cells)} column{plural} where the header has {len(self._header)}")
            try:
                time = self.parse_time(cells[self.time_at], self._unit)
            except ValueError as error:
                if isinstance(self.time_at, slice):
                    raise
                raise ValueError(f"its time, {self._header[self.time_at]}: {error}") from None
            is_wanted = self._elements and self.lowest < time <= self.until
            triples = self.to_triples(cells)[0] if is_wanted else ()
        except RecordTooLong:
            return self._long(lines_read, waiting, offset, line)
        except _CsvCut:
            if len(lines_read) == 1:
                self.damaged = True
                broken = damage(self._lines)
                assert broken is not None
                return damaged(offset, line, broken, lines_read[0]), line + 1
            complete, why = False, _UNCLOSED_QUOTE
        except csv.Error as error:
            complete = len(lines_read) == 1 or str(error).startswith("new-line character")
            why = _UNCLOSED_QUOTE if ran_out else f"it is no row: {error}"
        except ValueError as error:
            why, stamp, time = str(error), time, None
        if not complete:  # lines behind the first are read again as separate records
            waiting.extendleft(reversed(lines_read[1:]))
            del lines_read[1:]
        raw = b"".join(lines_read)
        if 0 <= invalid_at < len(raw):
            why = f"it is not {self._encoding_name} (byte {invalid_at})"
        element = Element(time, triples) if is_wanted and time is not None else None
        return Record(offset, offset + len(raw), line, time, element, raw, why, stamp), line + len(lines_read)

    def _long(self, lines_read: list[bytes], waiting: deque[bytes], offset: int, line: int) -> tuple[Record, int]:
        """Record beyond the limit that begins with the lines read so far."""
        state, end, after, delimiter = QuoteState.START, offset, line, self._delimiter.encode()
        second: int | None = None  # where the second line starts
        pieces = deque([*lines_read, *waiting])
        waiting.clear()
        while piece := pieces.popleft() if pieces else self._lines.readline(_PIECE):
            state = quote_state(piece, state, delimiter)
            end += len(piece)
            if piece[-1] == LINE_END:
                after += 1
                second = end if second is None else second
                if state is not QuoteState.INSIDE:
                    break
        raw, why, reason = beginning(b"".join(lines_read), self._limit), limit_reason(self._limit), Reason.LIMIT
        if state in (QuoteState.ODD, QuoteState.INSIDE) and second is not None and second < end and self._lines.seekable():
            self._lines.seek(second)
            end, after = second, line + 1
            if len(lines_read[0]) <= self._limit + 1 and lines_read[0][-1] == LINE_END:
                raw, why, reason = lines_read[0], _UNCLOSED_QUOTE, Reason.UNREADABLE
            else:
                raw = beginning(lines_read[0], self._limit)
        else:
            waiting.extend(pieces)
        return Record(offset, end, line, None, None, raw, why, reason=reason), after


_UNCLOSED_QUOTE: Final = "a quote is never closed"
_PIECE: Final = 1 << 16
_INSIDE: Final = re.compile(rb'(?>(?:[^"]++|"")*)')


class QuoteState(Enum):
    """State of quoting at the end of a piece of a record.

    - QUOTE: behind a quote inside a quoted field, either the closing one or the first of two.
    - ODD: behind text that follows a closing quote.
    """

    START = 0
    PLAIN = 1
    INSIDE = 2
    QUOTE = 3
    ODD = 4


def quote_state(piece: bytes, state: QuoteState, delimiter: bytes) -> QuoteState:
    r'''State of quoting at the end of a piece of a record, from the state at its start.

    >>> [quote_state(b'1,"a', QuoteState.START, b",").name, quote_state(b'b""",2', QuoteState.INSIDE, b",").name]
    ['INSIDE', 'PLAIN']
    >>> [quote_state(b'x"y', QuoteState.INSIDE, b",").name, quote_state(b'"\r\n', QuoteState.QUOTE, b",").name]
    ['ODD', 'INSIDE']
    '''
    at = 0
    while at < len(piece):
        match state:
            case QuoteState.INSIDE:
                found = _INSIDE.match(piece, at)
                assert found is not None
                at = found.end() + 1
                state = QuoteState.QUOTE if at <= len(piece) else state
            case QuoteState.QUOTE:
                if piece.startswith(b'"', at):
                    state, at = QuoteState.INSIDE, at + 1
                elif piece.startswith(delimiter, at):
                    state, at = QuoteState.START, at + len(delimiter)
                else:
                    return QuoteState.PLAIN if piece[at:].strip(b"\r\n") == b"" else QuoteState.ODD
            case QuoteState.START if piece.startswith(b'"', at):
                state, at = QuoteState.INSIDE, at + 1
            case QuoteState.START | QuoteState.PLAIN:
                at = piece.find(delimiter + b'"', at)
                if at < 0:
                    return QuoteState.START if piece.endswith(delimiter) else QuoteState.PLAIN
                state, at = QuoteState.INSIDE, at + len(delimiter) + 1
            case QuoteState.ODD:
                return state
            case _:
                assert_never(state)
    return state


_UNQUOTED: Final = rb'[^"%s\n][^%s\n]*+'
_QUOTED: Final = rb'"(?>(?:[^"]++|"")*)"'


@lru_cache(16)
def _rows_pattern(delimiter: bytes) -> re.Pattern[bytes]:
    """Pattern of whole rows without text behind a closing quote, as many as there are."""
    mark = re.escape(delimiter)
    cell = rb"(?:%s|%s|)" % (_QUOTED, _UNQUOTED % (mark, mark))
    return re.compile(rb"(?>(?:(?>(?:%s%s)*)%s\r?\n)*)" % (cell, mark, cell))


def whole_rows(data: bytes, spec: ElementMap, limit: int) -> int:
    r"""Length of the whole rows at the beginning of some bytes, which begin with a row.

    A row whose quote is open is whole at its first line end where it has more bytes than the limit.

    >>> from dotr.model.places import Document
    >>> rooms = ElementMap("t", Document("map", "[] a {x}"))
    >>> rows = b'1,"a\nb"\n2,c\n3,"d\n'
    >>> rows[: whole_rows(rows, rooms, 100)], rows[: whole_rows(rows, rooms, 2)]
    (b'1,"a\nb"\n2,c\n', b'1,"a\nb"\n2,c\n3,"d\n')
    """
    if b'"' not in data:
        return data.rfind(b"\n") + 1
    delimiter, comment, at = spec.delimiter.encode(spec.codec), spec.comment.encode(spec.codec), 0
    while True:
        if len(delimiter) == 1 and (found := _rows_pattern(delimiter).match(data, at)) is not None:
            at = found.end()
        first = end = data.find(b"\n", at) + 1
        if first and is_comment(data[at:first], comment):
            at = first
            continue
        state = quote_state(data[at:end], QuoteState.START, delimiter)
        while end and state is QuoteState.INSIDE:
            begin, end = end, data.find(b"\n", end) + 1
            state = quote_state(data[begin:end], state, delimiter) if end else state
        if not first or (not end and len(data) - at <= limit):
            return at
        # Behind a closing quote with text the first line alone is a row, as in `_RowReader`; so it is with an open quote.
        at = end if end and state is not QuoteState.ODD else first
