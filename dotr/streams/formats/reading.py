"""Readers of one file of an input: full records, or a scan of times only.

Invariant: a scan and a full reading give the same records, with the same `judged_time`. A scan
makes no elements, so a record that is readable in a scan may have an unreadable graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final

from pyoxigraph import NamedNode, RdfFormat, parse

from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.model.places import Span
from dotr.model.time import Clock, Unit
from dotr.streams.formats.content import open_text
from dotr.streams.formats.json import lines as ndjson
from dotr.streams.formats.json import records as json_records
from dotr.streams.formats.mapping.maps import FILES, check_origins, parsed_map
from dotr.streams.formats.segments import TOLD, segment_records, told_records
from dotr.streams.lateness import EVERY_TIME, TimeFilter, moved_records
from dotr.streams.records import START, Format, InputFile, LaterModule, Position, Record
from dotr.streams.times import other_unit, unit_by_size
from dotr.syntax.turtle.graphs import parser_message

if TYPE_CHECKING:
    from dotr.streams.formats import parquet
    from dotr.streams.formats.csv import map as csv_map
    from dotr.streams.formats.csv import rows as csv_rows
    from dotr.streams.formats.csv import text
    from dotr.streams.formats.rdf import jelly, jsonld
    from dotr.streams.formats.rdf import logs as message_logs
else:
    parquet, csv_map, csv_rows, text, jelly, jsonld, message_logs = (
        LaterModule(f"dotr.streams.formats.{name}")
        for name in ("parquet", "csv.map", "csv.rows", "csv.text", "rdf.jelly", "rdf.jsonld", "rdf.logs")
    )

_READERS: Final[dict[Format, Callable[[], Callable[..., Iterator[Record]]]]] = {
    Format.NDJSON: lambda: ndjson.records,
    Format.TRIG: lambda: message_logs.trig_file_records,
    Format.NQUADS: lambda: message_logs.nquads_file_records,
    Format.CSV: lambda: csv_rows.records,
    Format.JSON: lambda: json_records.records,
    Format.TEXT: lambda: text.records,
    Format.PARQUET: lambda: parquet.records,
    Format.TURTLE: lambda: message_logs.graph_file_records,
    Format.NTRIPLES: lambda: message_logs.graph_file_records,
    Format.JSONLD: lambda: jsonld.records,
    Format.JELLY: lambda: jelly.records,
    Format.RECORDING: lambda: ndjson.recorded,
}
"""The readers by format; the module of one is loaded where an input has its format."""


_TIMED: Final = frozenset((Format.NDJSON, Format.CSV, Format.JSON, Format.TEXT, Format.PARQUET))
"""The formats whose times are beside the graphs, so that a time is read first: their readers take a
`TimeFilter`."""


def records_of(
    lines: BinaryIO, file: InputFile, position: Position, elements: bool, time_filter: TimeFilter = EVERY_TIME
) -> Iterator[Record]:
    """The records of an open file from a position on: the start of the file or of a record.

    `elements`: with their elements; where the format allows it, only those that pass `time_filter`.
    """
    if file.shift:
        own = time_filter.before(file.shift)
        return moved_records(records_of(lines, replace(file, replayed=None), position, elements, own), file.shift, own, time_filter)
    if file.framed:
        return segment_records(lines, file, position, elements)
    if file.path.endswith(TOLD):
        return told_records(lines)
    if time_filter is not EVERY_TIME and file.format in _TIMED:
        return _READERS[file.format]()(lines, file, position, elements, time_filter)
    return _READERS[file.format]()(lines, file, position, elements)


class Reader:
    """An open file, read forward from a position: the start of the file or of a record.

    `elements=False` is a scan. Each call of `records` resumes behind the last record of the
    previous call. Records that do not pass `time_filter` may be those of a scan, without elements.
    """

    __slots__ = ("_ahead", "_elements", "_lines", "_records", "file")

    def __init__(self, file: InputFile, position: Position = START, *, elements: bool = True, time_filter: TimeFilter = EVERY_TIME) -> None:
        self.file = file
        self._elements = elements
        self._lines = open_text(file, position)
        self._ahead: Record | None = None
        try:
            self._records = records_of(self._lines, file, position, elements, time_filter)
        except BaseException:
            self._lines.close()
            raise

    def records(self, stop: int | None = None) -> Iterator[Record]:
        """Records up to the first one at or behind the offset `stop`; None: to the end."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            if stop is not None and ahead.offset >= stop:
                self._ahead = ahead
                return
            yield ahead
        if stop is None:
            yield from self._records
            return
        for record in self._records:
            if record.offset >= stop:
                self._ahead = record
                return
            yield record

    def move(self, position: Position) -> None:
        """Move to the start of another record; in a compressed file, cheap only forward."""
        ahead = self._ahead
        if ahead is None or (ahead.offset, ahead.line) != position:
            self._ahead = None
            self._lines.seek(position.offset)
            self._records = records_of(self._lines, self.file, position, self._elements)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def check_prefixes(prefixes: Iterable[tuple[str, str]]) -> None:
    """Check prefixes; raises `Refused` (I105) with every invalid prefix name, and every namespace
    that is no IRI.
    """
    problems: list[Diagnostic] = []
    for prefix, iri in prefixes:
        try:
            NamedNode(iri)
            list(parse(f"@prefix {prefix}: <{iri}> .", RdfFormat.TURTLE))
        except (ValueError, SyntaxError) as error:
            problems.append(
                Diagnostic("I105", f"prefix {prefix}: <{iri}> cannot be used: {parser_message(error)}", None, "Give the whole IRI.")
            )
    if problems:
        raise Refused(problems)


def check_input(file: InputFile, place: Span | None = None, *, transport: str = FILES) -> None:
    """Check an input before a record is read; raises `Refused` with all errors found.

    Without a path, only the specification is checked, and no file. `place` is that of the input in
    the configuration, and `transport` the input's, by which its map may name the origin of a
    record.
    """
    problems: list[Diagnostic] = []
    checks: list[Callable[[], object]] = [lambda: check_prefixes(file.prefixes)]
    if file.format is Format.JELLY:
        checks.append(lambda: jelly.check_library(place))
    if file.path:
        checks.append(lambda: open_text(file, START, place).close())
    if file.format is Format.CSV:
        checks.append(lambda: parsed_map(file))
        if file.path or (file.map is not None and file.map.columns):
            checks.append(lambda: csv_map.check_header(file, place))
    if file.format is Format.TEXT:
        checks.append(lambda: text.check_cells(file, place))
    if file.format is Format.PARQUET:
        checks.append(lambda: parsed_map(file))
        if file.path:
            checks.append(lambda: parquet.records(None, file, place=place))
    if file.format is Format.JSON:
        checks.append(lambda: json_records.check_paths(file, place))
    if file.map is not None:
        checks.append(lambda: check_origins(file, transport, place))
    for check in checks:
        try:
            check()
        except Refused as refused:
            problems += [problem for problem in refused.diagnostics if problem not in problems]
    if problems:
        raise Refused(problems)


def clock_of(files: Sequence[InputFile], unit: Unit, notices: list[Diagnostic] | None = None) -> Clock:
    """Output format of times for a pipeline over these files: date-times if any input has them,
    else integers of the unit.

    The first readable record with a time other than 0 decides for a file. A warning is appended to
    `notices` for each input whose integers look like another unit.
    """
    dates = [has_date_times(file, notices) for file in files]
    return Clock(unit, any(dates))


def has_date_times(file: InputFile, notices: list[Diagnostic] | None = None) -> bool | None:
    """True if a file has date-times; None without a readable record. `notices` as in `clock_of`."""
    found: bool | None = None
    # An integer has two different times in two units, and a date-time the same one.
    with (
        Reader(replace(file, unit=Unit.MICROSECOND, replayed=None)) as fine,
        Reader(replace(file, unit=Unit.DAY, replayed=None)) as coarse,
    ):
        for one, other in zip(fine.records(), coarse.records(), strict=True):
            if one.time != other.time:
                if notices is not None and one.time is not None and (unit := unit_by_size(one.time, file.unit)):
                    _notice(file, one, unit, notices)
                return False
            if one.time:  # not midnight of 1970-01-01, which may be an integer too
                return True
            found = found if one.time is None else False
    return found


def _notice(file: InputFile, record: Record, unit: str, notices: list[Diagnostic]) -> None:
    begin = f"integer times of input {file.input} "
    if not any(each.message.startswith(begin) for each in notices):
        told, hint = other_unit(unit, file.unit, mapped=file.map is not None)
        notices.append(Diagnostic("I106", f"{begin}{told}: {record.time} ({file.path}:{record.line})", None, hint, Severity.WARNING))
