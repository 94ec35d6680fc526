"""Tables of background knowledge, whose rows are triples by a map, and what they share with inputs.

Idea: a table is an input whose rows have no time, read by the readers of inputs. Its settings
travel as text beside the paths of graphs (`Reading.tables`), and its reader with them, since the
engine knows no format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.files.stores import Location, absolute
from dotr.model.places import Document, Span
from dotr.model.stream import Reason
from dotr.model.terms import Prefixes, Triple
from dotr.streams.formats.csv.map import header_of
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.records import COLUMNS, WIDE, ElementMap, Format, InputFile, Record
from dotr.syntax.quantities import parse_size

if TYPE_CHECKING:  # Spark's workers read rows, and no configuration
    from dotr.runtimes.pipeline.sections import InputSection, TableSection

MAPPED: Final = ("csv", "json", "text", "parquet")
_GRAPHS: Final = ("turtle", "ntriples", "jsonld", "jelly", "trig", "nquads")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "time": (*MAPPED, *_GRAPHS),
    "times": _GRAPHS,
    "map": MAPPED,
    "time_format": MAPPED,
    "time_zone": MAPPED,
    "each": ("csv", "json", "parquet"),
    "delimiter": ("csv",),
    "decimal": ("csv",),
    "encoding": ("csv", "json", "text"),
    "columns": ("csv",),
    "skip": ("csv",),
    "comment": ("csv",),
    "contexts": ("jsonld",),
    "context": ("jsonld",),
    "base": ("jsonld",),
}
"""The formats that accept a setting."""

_MOST_ROWS: Final = 10
"""Unreadable rows of a table that are shown."""


def rows_map(
    section: InputSection | TableSection, name: str, time: str | tuple[str, ...], folder: Location, zone: str | None = None
) -> ElementMap:
    """The map of a section with `map`.

    `name`: that of its text in messages; `time`: the cells of times, none of a table; `folder`:
    that of the configuration;
    `zone`: the pipeline's, of times without one where the section names none.
    """
    return ElementMap(
        time,
        Document(name, section.map or ""),
        section.delimiter,
        section.time_format,
        section.time_zone or zone,
        section.decimal,
        section.encoding,
        section.each if isinstance(section.each, str) else ", ".join(section.each or ()),
        columns=tuple(section.columns or ()),
        skip=section.skip,
        comment=section.comment or "",
        folder=absolute(folder.text) if "$file" in f"{section.map} {time}" else "",
    )


def row_conflicts(section: InputSection | TableSection) -> Iterator[tuple[str, str, str]]:
    """Keys that the format of a section does not go with, each with a message and a way out."""
    if (section.comment or "").encode(section.encoding, "ignore").decode(section.encoding) != (section.comment or ""):
        yield "comment", f"comment cannot be written in {section.encoding}", "Write characters that the file can have."
    if section.format in ("csv", "parquet") and section.each not in (None, COLUMNS):
        hint = "Write each: columns, or leave it out: a row is a record."
        yield "each", f"each of {section.format} is columns, and {section.each} is the path of a list", hint
    if section.format == "json" and section.encoding not in ("utf-8", *WIDE):
        yield "encoding", f"json is in UTF-8 or UTF-16, not in {section.encoding}", "Leave it out, or recode the data."
    for key, formats in _KEYS.items():
        if section.is_given(key) and section.format not in formats:
            message = f"{key} belongs to {', '.join(formats[:-1])}{' and ' if formats[1:] else ''}{formats[-1]}, not to {section.format}"
            yield key, message, f"Leave it out, or write format: {' or format: '.join(formats)}"


def with_place(problem: Diagnostic, text: str | None, around: Span, prefixes: Span) -> Diagnostic:
    """A problem with its span in the configuration, where it is in a map or in the prefixes.

    `text`: the map, and `around` its span in the configuration; `prefixes`: that of the prefixes.
    """
    if problem.code == "I105":
        return replace(problem, span=prefixes)
    span = problem.span
    if span is None or text is None or span.document.text != text:
        return problem
    start = around.text.find(text)
    if start >= 0:  # otherwise the YAML folds or escapes the map, and the span in the map itself is shown
        problem = replace(problem, span=Span(around.document, around.start + start + span.start, around.start + start + span.end))
    hint = problem.hint.replace("eclare it: PREFIX", "eclare it under `prefixes`:") if problem.code == "T103" else problem.hint
    return replace(problem, hint=hint)


def table_settings(section: TableSection, paths: Sequence[str], prefixes: Prefixes, folder: Location, place: Span, zone: str | None) -> str:
    """The settings of a table as text, checked against the headers of its files.

    `place`: the span of the table in the configuration; `zone`: the pipeline's. Raises `Refused`.
    """
    mapped = rows_map(section, f"map of table {section.path}", (), folder, zone)
    file = InputFile(section.path, "", Format(section.format), prefixes=tuple(prefixes.items()), map=mapped)
    if section.max_bytes is not None:
        file = replace(file, record=parse_size(section.max_bytes))
    problems: dict[Diagnostic, None] = {}
    for path in paths:
        try:
            check_input(replace(file, path=path), place)
        except Refused as refused:
            problems |= dict.fromkeys(refused.diagnostics)
    if problems:
        raise Refused(problems)
    return file.to_json()


def rows_of_table(path: str, settings: str) -> Iterator[tuple[int, tuple[Triple, ...]]]:
    r"""The line and the triples of each row of a table, whose blank nodes are `_:0`, `_:1`, ….

    Raises `Refused` at the end (K104), with the place and the reason of each unreadable row.

    >>> settings = InputFile("rooms", "", Format.CSV, map=ElementMap((), Document("map", "<x:{room}> <x:floor> {floor} ."))).to_json()
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("room,floor\nhall,2\n"), file.flush()
    ...     list(rows_of_table(file.name, settings))
    [(2, (('<x:hall>', '<x:floor>', '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'),))]
    """
    file = replace(InputFile.from_json(settings), path=path)
    problems: list[Diagnostic] = []
    count = 0
    with Reader(file) as reader:
        for record in reader.records():
            if record.element is not None:
                yield record.line, record.element.triples
            elif record.reason is not Reason.EMPTY:
                count += 1
                if len(problems) < _MOST_ROWS:
                    problems.append(_unreadable(file, record))
    if count > len(problems):
        problems[-1] = replace(problems[-1], message=f"{problems[-1].message}; and {count - len(problems):,} more rows of {path}")
    if problems:
        raise Refused(problems)


def _unreadable(file: InputFile, record: Record) -> Diagnostic:
    """The problem of a row, at the cell that is wrong, else at the row's beginning."""
    assert file.map is not None
    text = record.decoded(file.map.codec)
    column, cells = record.why.partition(": ")[0], text.split(file.map.delimiter)
    start, size = _shown_value(text, record.why)
    header = header_of(file)[0] if file.format is Format.CSV and '"' not in text else ()
    if column in header and (number := header.index(column)) < len(cells):
        start, size = sum(len(cell) + 1 for cell in cells[:number]), len(cells[number])
    before = "\n" * (record.line - 1)  # the lines before are not read again: the place alone tells their number
    span = Span(Document(file.path, before + text), len(before) + start, len(before) + start + max(size, 1))
    return Diagnostic("K104", record.why, span, "Mend the row, or let its cell be wrong ({CELL:TYPE?}); nothing of the table was loaded.")


def _shown_value(text: str, why: str) -> tuple[int, int]:
    """The place and length of the value in quotes in a reason; the beginning where it has none.

    >>> _shown_value('{"a": "n/a"}', "a: 'n/a' is no decimal"), _shown_value("1,2", "it has 2 columns")
    ((7, 3), (0, 1))
    """
    value = why.partition(": '")[2].rpartition("' is ")[0]
    at = max(text.find(json.dumps(value)) + 1, text.find(value)) if value else 0
    return (at, len(value)) if value and at > 0 else (0, 1)
