"""Columns of a CSV file: its header, what names them, and the compiler of its `map` to Python, from
the cells of a row to triples, without an RDF parser (interface.md, A stream element).

Idea: the columns of the header become indexes of the row, and the template a function
(`compile_map` shows one). Terms made of one whole cell, and IRIs with one cell, are cached by the
text of the cell. With `each: columns` a row has the column and the cell of a record behind its own.
Cost: about 0.1 µs for a cached cell, a few µs otherwise; memory is bounded, and shared by all files
of one map.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import BinaryIO, Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic, DotrError, Refused, did_you_mean, refuse
from dotr.evaluation.codegen.tree import Assign, CodeNode
from dotr.evaluation.codegen.triples import TermCode, TripleCode, compile_triples, return_triples
from dotr.model.places import Span
from dotr.model.templates import Blank, Template, leaves
from dotr.model.terms import Triple
from dotr.model.time import Micros, Unit
from dotr.streams.formats.content import open_text
from dotr.streams.formats.lines import BOM, DAMAGED, LINE_END, bounded_lines, damage, skip_line
from dotr.streams.formats.mapping.map_terms import MapTerms, cell_term, columns_of, comma_cell_term, text_term
from dotr.streams.formats.mapping.maps import (
    VALUE,
    cells_of_time,
    column_name,
    is_origin,
    no_time,
    origin_cells,
    origin_value,
    parsed_map,
    time_cells,
    written_name,
)
from dotr.streams.formats.mapping.typed_cells import CellSettings, typed_cells, typed_code, typed_variable
from dotr.streams.records import START, WIDE, Format, InputFile, Message, Position, limit_reason
from dotr.streams.times import ParseTime
from dotr.syntax.turtle.graphs import number_blanks

MakeRow: TypeAlias = Callable[[Sequence[str | None]], tuple[tuple[Triple, ...], int]]
"""Function from the cells of a row to its triples, and the number omitted for an empty cell."""

_MOST_NAMED: Final = 50
_ROWS_COMPARED: Final = 20
_NUMBERED: Final = re.compile(r"\$(0|[1-9][0-9]{0,8})")
OF_COLUMNS: Final = ("$column", "$cell")
"""The cells of a record of `each: columns`: the name of its column, and what stands there."""


class RecordTooLong(DotrError):
    """Signal that a record has more bytes than its limit."""


# --- names of columns ---


def positions(header: Sequence[str], further: Sequence[str] = ()) -> Callable[[str], int | None]:
    """Function from what names a column to its index; None where no column, or several have the
    name. `further` are the cells behind those of the row.

    >>> [positions(["t", "v", "v"], ["$stem"])(each) for each in ("t", "v", "$1", "$3", '"t"', "$stem")]
    [0, None, 1, None, 0, 3]
    """
    count = Counter(header)
    named = {column: number for number, column in enumerate(header) if count[column] == 1}
    behind = {cell: len(header) + number for number, cell in enumerate(further)}

    def position(written: str) -> int | None:
        if written.startswith("$") and not (written == VALUE and len(header) == 1 == len(named) and VALUE in named):
            number = _NUMBERED.fullmatch(written)
            return behind.get(written) if number is None else int(number[1]) if int(number[1]) < len(header) else None
        return named.get(column_name(written))

    return position


def further_cells(file: InputFile) -> tuple[str, ...]:
    """The cells that a row of a file has behind its own."""
    assert file.map is not None
    return (*(OF_COLUMNS if file.map.each else ()), *origin_cells(file))


def check_columns(file: InputFile, header: Sequence[str], place: Span | None = None) -> None:
    """Check that the header has each column of the input once; raises `Refused` (I103, I104)."""
    assert file.map is not None
    problems: list[Diagnostic] = []
    named = "columns" if file.map.columns else file.path or "the message"
    timed = [("time", cell) for cell in cells_of_time(file)]
    position, behind = positions(header), further_cells(file)
    for use, written in dict.fromkeys([*timed, *(("map", column) for column in columns_of(parsed_map(file).template))]):
        if position(written) is not None or is_origin(written) or (use == "map" and written in behind):
            continue
        if file.format is Format.PARQUET and header.count(written) == 1:
            continue
        column = column_name(written)
        if column in header and written[:1] != "$":
            number = header.index(column)
            hint = f"Which of them is meant? Rename one, or write its number, such as {f'{{${number}}}' if use == 'map' else f'${number}'}."
            problems.append(Diagnostic("I104", f"{named} has two columns {column}", place, hint))
            continue
        known = [written_name(each) for each in header[:_MOST_NAMED]]
        more = f" and {len(header) - _MOST_NAMED:,} more" if len(header) > _MOST_NAMED else ""
        hint = did_you_mean(column, list(map(written_name, header))) or f"Its columns are {', '.join(known)}{more}."
        if written[:1] == "$" and written in header:
            hint = f"A name that begins with $ is written in quotes: {written_name(written)}."
        elif written in OF_COLUMNS:
            hint = "It is there with each: columns."
        elif _NUMBERED.fullmatch(written):
            hint = f"Columns are numbered from $0 to ${len(header) - 1}."
        elif header[0].startswith("#") and not file.map.comment:
            hint = 'Its first line begins with #: write comment: "#", and columns if no other line names them.'
        elif header[0].startswith("sep="):
            hint = f"Its first line, {header[0]}, is a note for Excel: write skip: 1."
        elif len(header) == 1 and file.format is Format.CSV:
            hint = f"Its only column is {header[0]}: is the delimiter {file.map.delimiter!r}? Or is the header further down (skip: 1)?"
        elif hint.startswith("Did"):
            hint += f" Its columns are {', '.join(known)}{more}."
        problems.append(Diagnostic("I103", f"{named} has no column {column}, which {use} names", place, hint))
    if problems:
        raise Refused(problems)


# --- header ---


def header_of(file: InputFile, place: Span | None = None) -> tuple[list[str], Position]:
    """Columns of a file, checked against its map, and the position of its first row; no columns of
    an empty file.

    `place` is that of the input in the configuration, for errors. Raises `Refused` where the header
    cannot be read or lacks a column.
    """
    assert file.map is not None
    if file.map.columns and not file.map.skip:
        check_columns(file, file.map.columns, place)
        return list(file.map.columns), START
    with open_text(file, START, place) as lines:
        return read_header(file, lines, place)


def read_header(file: InputFile, lines: BinaryIO, place: Span | None = None) -> tuple[list[str], Position]:
    """Columns of a file that is open at its start, as those of `header_of`."""
    assert file.map is not None
    try:
        raw, position = first_line(file, lines)
        if file.map.columns:
            check_columns(file, file.map.columns, place)
            return list(file.map.columns), position
        lines_read: list[bytes] = []
        decoded = _decoded(chain([raw] if raw else [], bounded_lines(lines, file.record)), lines_read, file, position)
        cells = next(csv.reader(decoded, delimiter=file.map.delimiter, strict=True), [])
        if not cells and (broken := damage(lines)):
            raise broken
    except UnicodeDecodeError as error:
        hint = "Name its encoding, such as encoding: latin-1, or save it as UTF-8."
        if file.map.encoding in WIDE or b"\0" in error.object:
            hint = "Is it text? If so, save it as UTF-8."
        raise refuse("I102", f"the header of {file.path} is not {encoding_title(file)} (byte {error.start})", place, hint) from None
    except (csv.Error, RecordTooLong, *DAMAGED) as error:
        raise refuse("I102", f"the header of {file.path} cannot be read: {error}", place) from None
    if not cells and not raw and position == START:
        return [], START
    if not cells:
        raise refuse("I102", f"{file.path} has no header", place, "The first line of a CSV file names its columns.")
    check_columns(file, cells, place)
    return cells, Position(position.offset + sum(map(len, lines_read)), position.line + len(lines_read))


def first_line(file: InputFile, lines: BinaryIO) -> tuple[bytes, Position]:
    """The first line of the header of a file that is open at its start, behind lines to skip, blank
    ones and comments, with its position; with declared columns the position behind those to skip.
    """
    assert file.map is not None
    offset, line, raw, comment = 0, 1, b"", file.map.comment.encode(file.map.codec)
    while not (file.map.columns and line > file.map.skip) and (raw := lines.readline(file.record + 1)):
        text = raw if offset else raw.removeprefix(BOM)
        if line > file.map.skip and text.strip() and not is_comment(text, comment):
            break
        offset, line = offset + len(raw) + (skip_line(lines)[0] if raw[-1] != LINE_END else 0), line + 1
    return raw, Position(offset, line)


def _decoded(lines: Iterable[bytes], lines_read: list[bytes], file: InputFile, position: Position) -> Iterator[str]:
    assert file.map is not None
    size = 0
    for raw in lines:
        lines_read.append(raw)
        size += len(raw)
        if size > file.record:
            raise RecordTooLong(limit_reason(file.record))
        yield (raw.removeprefix(BOM) if position == START and len(lines_read) == 1 else raw).decode(file.map.codec)


def is_comment(raw: bytes, comment: bytes) -> bool:
    """True if a line begins as comments do.

    >>> is_comment(b"# logger 7", b"#"), is_comment(b"1,2", b"#"), is_comment(b"1,2", b"")
    (True, False, False)
    """
    return bool(comment) and raw.startswith(comment)


def check_header(file: InputFile, place: Span | None = None) -> None:
    """Check the header of a file; raises `Refused`, also where its first rows all have other
    numbers of cells, the first one more (I103).
    """
    assert file.map is not None
    header, position = header_of(file, place)
    if file.map.columns or not file.path or not header:
        return
    with open_text(file, position, place) as lines:
        comment = file.map.comment.encode(file.map.codec)
        texts = (
            raw.decode(file.map.codec, "replace")
            for raw in bounded_lines(lines, file.record)
            if raw.strip() and not is_comment(raw, comment)
        )
        rows = csv.reader(texts, delimiter=file.map.delimiter)
        try:
            counts = [len(row) for row, _ in zip(rows, range(_ROWS_COMPARED), strict=False)]
        except (csv.Error, *DAMAGED):  # dead letters
            return
    if counts and counts[0] > len(header) and len(header) not in counts:
        named = ["row" if counts[0] == len(header) + 1 else "…", *map(written_name, header)]
        message = f"{file.path}: the first row has {counts[0]} columns where the header has {len(header)}"
        hint = f"Name all columns: skip: {file.map.skip + 1} and columns: [{', '.join(named)}]; or correct the header."
        raise refuse("I103", message, place, hint)


def encoding_title(file: InputFile) -> str:
    """The name of the encoding of a CSV file, for messages."""
    assert file.map is not None
    return file.map.encoding.upper() if file.map.codec == "utf-8" else file.map.encoding


# --- map ---


def compile_map(file: InputFile, header: Sequence[str]) -> MakeRow:
    """Compile the map of a file with this header to a function from rows to triples. A row has the
    cells of `further_cells` at its end, None where the record's origin has none.

    Raises `Refused` with all errors of the map.

    Blank nodes are `_:0`, `_:1`, … in order of appearance.

    >>> from inspect import getsource
    >>> from dotr.model.places import Document
    >>> from dotr.streams.records import ElementMap, Format
    >>> rooms = ElementMap("t", Document("map", "<http://e/{room}> <http://e/value> {value} ."))
    >>> make = compile_map(InputFile("in", "a.csv", Format.CSV, map=rooms), ["t", "room", "value"])
    >>> make(["12", "hall", ""])
    ((), 1)
    >>> print(getsource(make))
    def make(row):
        c1 = row[1]
        c2 = row[2]
        if c1 and c2:
            return ((iri4(c1), '<http://e/value>', cell_term(c2)), ), 0
        triples = []
        dropped = 0
        if c1 and c2:
            triples.append((iri4(c1), '<http://e/value>', cell_term(c2)))
        else:
            dropped = dropped + 1
        return tuple(dict.fromkeys(triples)), dropped
    <BLANKLINE>
    """
    assert file.map is not None
    template = parsed_map(file).template
    return _compiled(template, tuple(header), further_cells(file), file.map.decimal, CellSettings.of(file, template))


@lru_cache(256)
def _compiled(template: Template, header: tuple[str, ...], further: tuple[str, ...], decimal: str, settings: CellSettings) -> MakeRow:
    index = positions(header, further)
    position = {written: index(written) or 0 for written in columns_of(template)}
    used = sorted(set(position.values()))
    blanks = dict.fromkeys(slot for slot in leaves(template) if isinstance(slot, Blank))
    labels = {slot: f"_:{number}" for number, slot in enumerate(blanks)}

    def blank(slot: Blank) -> TermCode:
        return TermCode(repr(labels[slot]), fixed=labels[slot])

    whole_cell = text_term if header == (VALUE,) else comma_cell_term if decimal == "," else cell_term
    terms = MapTerms(
        lambda column: f"c{position[column]}",
        lambda variable: variable if int(variable[1:]) < len(header) else f"{variable} is not None",
        blank,
        whole_cell,
    )
    terms.typed = lambda cell: typed_variable(f"c{position[cell.column]}", cell)
    triples: list[TripleCode] = [(terms.code(s), terms.code(p), terms.code(o)) for s, p, o in template.triples]
    cells_used: list[CodeNode] = [Assign(f"c{number}", f"row[{number}]") for number in used]
    for cell in dict.fromkeys(cell for triple in template.triples for slot in triple for cell in typed_cells(slot)):
        cells_used += typed_code(cell, f"c{position[cell.column]}", settings, terms.names)
    names = {**terms.names, "numbered": number_blanks}
    return compile_triples("map", "row", [*cells_used, *return_triples(triples, "numbered({})" if blanks else "{}")], names)


class RowTime:
    """The time of a row by several cells: the first of some texts of which all cells are there; 0
    for a row of a table, which has no texts.

    - `message`: the message of a transport in which the row is, or the origin of the rows of a
      file, for times and cells of its own.

    >>> from dotr.model.places import Document
    >>> from dotr.streams.records import ElementMap, Format
    >>> from dotr.streams.times import parse_cell_time
    >>> spec = InputFile("in", "a.csv", Format.CSV, map=ElementMap(("{day}T{hour}:00Z", "at"), Document("map", "")))
    >>> time = RowTime(spec, ["day", "hour", "at"], parse_cell_time)
    >>> [time(cells, spec.unit) for cells in (["1970-01-02", "01", ""], ["1970-01-02", "", "7"])]
    [90000000000, 7000000]
    """

    def __init__(self, spec: InputFile, header: Sequence[str], parse: ParseTime) -> None:
        assert spec.map is not None
        self._parse = parse
        index = positions(header)
        # Of the header ["day", "v"] and the time "{day} {$stem}" the places are (0, "$stem").
        self._texts = [
            (each, tuple(cell if is_origin(cell) else index(cell) or 0 for cell in each.cells)) for each in time_cells(spec.map.time)
        ]
        self.message: Message | None = None

    def __call__(self, cells: Sequence[str], unit: Unit) -> Micros:
        """The time of a row in µs since 1970; raises ValueError with the reason."""
        for text, places in self._texts:
            values = tuple([cells[place] if isinstance(place, int) else origin_value(self.message, place) or "" for place in places])
            if text.sent is not None:
                if self.message is not None and (time := self.message.at(text.sent)) is not None:
                    return time
            elif "" not in values:
                try:
                    return self._parse(text.pattern % values, unit)
                except ValueError as error:
                    raise ValueError(f"its time, {text.written}: {error}") from None
        if not self._texts:
            return 0
        raise ValueError(f"it has no time: {no_time([text for text, _ in self._texts])}")
