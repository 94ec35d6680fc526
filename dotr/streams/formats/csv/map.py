"""Compiler of the `map` of a CSV input to Python: cells of a row to triples, without an RDF parser
(interface.md, A stream element).

Idea: the columns of the header become indexes of the row, and the template a function
(`compile_map` shows one). Terms made of one whole cell, and IRIs with one cell, are cached by the
text of the cell.
Cost: about 0.1 µs for a cached cell, a few µs otherwise; memory is bounded, and shared by all files
of one map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.evaluation.codegen.tree import Assign, CodeNode
from dotr.evaluation.codegen.triples import TermCode, TripleCode, compile_triples, return_triples
from dotr.model.places import Span
from dotr.model.templates import Blank, Template, leaves
from dotr.model.terms import Triple
from dotr.model.time import Micros, Unit
from dotr.streams.formats.map_terms import MapTerms, cell_term, columns_of, comma_cell_term, text_term
from dotr.streams.formats.maps import (
    VALUE,
    cells_of_time,
    column_name,
    is_origin,
    no_time,
    origin_value,
    parsed_map,
    time_cells,
    written_name,
)
from dotr.streams.formats.typed_cells import CellSettings, typed_cells, typed_code, typed_variable
from dotr.streams.records import Format, InputFile, Message
from dotr.streams.times import ParseTime
from dotr.syntax.turtle.graphs import number_blanks

MakeRow: TypeAlias = Callable[[Sequence[str | None]], tuple[tuple[Triple, ...], int]]
"""Function from the cells of a row to its triples, and the number omitted for an empty cell."""

_MOST_NAMED: Final = 50


def check_columns(file: InputFile, header: Sequence[str], place: Span | None = None) -> None:
    """Check that the header has each column of the input once; raises `Refused` (I103, I104)."""
    assert file.map is not None
    problems: list[Diagnostic] = []
    named = "columns" if file.map.columns else file.path or "the message"
    timed = [("time", cell) for cell in cells_of_time(file)]
    known = [written_name(column) for column in header]
    for use, cell in dict.fromkeys([*timed, *(("map", cell) for cell in columns_of(parsed_map(file).template))]):
        column = cell if cell in header and file.format is Format.PARQUET else column_name(cell)
        count = 0 if cell.startswith("$") and file.format is not Format.PARQUET else header.count(column)
        if count == 1 or is_origin(cell):
            continue
        count = 0 if cell.startswith("$") and file.format is not Format.PARQUET else header.count(column)
        if count == 1 or is_origin(cell):
            continue
        if count:
            problems.append(Diagnostic("I104", f"{named} has two columns {column}", place, "Which of them is meant? Rename one."))
            continue
        columns = (
            ", ".join(known) if len(known) <= _MOST_NAMED else f"{', '.join(known[:_MOST_NAMED])} and {len(known) - _MOST_NAMED:,} more"
        )
        hint = did_you_mean(cell, known) or f"Its columns are {columns}."
        if len(header) == 1 and file.format is Format.CSV:
            hint = f"Its only column is {known[0]}: is the delimiter {file.map.delimiter!r}?"
        elif hint.startswith("Did"):
            hint += f" Its columns are {columns}."
        problems.append(Diagnostic("I103", f"{named} has no column {cell}, which {use} names", place, hint))
    if problems:
        raise Refused(problems)


def compile_map(file: InputFile, header: Sequence[str]) -> MakeRow:
    """Compile the map of a file with this header to a function from rows to triples. Cells of the
    record's origin (`origin_cells`) stand at the end of a row, None where there is none.

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
    return _compiled(template, tuple(header), file.map.decimal, CellSettings.of(file, template))


@lru_cache(256)
def _compiled(template: Template, header: tuple[str, ...], decimal: str, settings: CellSettings) -> MakeRow:
    cells = columns_of(template)
    origins = [cell for cell in cells if is_origin(cell)]
    # The header ["t", "room"] and the cells room, $topic, $key have the places 1, 2, 3.
    at = {column: number for number, column in enumerate(header)}
    position = {cell: len(header) + origins.index(cell) if cell in origins else at[column_name(cell)] for cell in cells}
    used = sorted(set(position.values()))
    blanks = list(dict.fromkeys(slot for slot in leaves(template) if isinstance(slot, Blank)))

    def blank(slot: Blank) -> TermCode:
        label = f"_:{blanks.index(slot)}"
        return TermCode(repr(label), fixed=label)

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
    """The time of a row by several cells: the first of some texts of which all cells are there.

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
        # Of the header ["day", "v"] and the time "{day} {$stem}" the places are (0, "$stem").
        self._texts = [
            (each, tuple(cell if is_origin(cell) else header.index(column_name(cell)) for cell in each.cells))
            for each in time_cells(spec.map.time)
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
        raise ValueError(f"it has no time: {no_time([text for text, _ in self._texts])}")
