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
from dotr.evaluation.codegen.tree import Assign
from dotr.evaluation.codegen.triples import TermCode, TripleCode, compile_triples, return_triples
from dotr.model.places import Span
from dotr.model.templates import Blank, Template, leaves
from dotr.model.terms import Triple
from dotr.streams.formats.map_terms import MapTerms, cell_term, columns_of, comma_cell_term, text_term
from dotr.streams.formats.maps import VALUE, cell_problem, column_name, is_origin, parsed_map, written_name
from dotr.streams.records import Format, InputFile
from dotr.syntax.turtle.graphs import number_blanks

MakeRow: TypeAlias = Callable[[Sequence[str | None]], tuple[tuple[Triple, ...], int]]
"""Function from the cells of a row to its triples, and the number omitted for an empty cell."""

_MOST_NAMED: Final = 50


def check_columns(file: InputFile, header: Sequence[str], place: Span | None = None) -> None:
    """Check that the header has each column of the input once; raises `Refused` (I103, I104)."""
    assert file.map is not None
    problems: list[Diagnostic] = []
    named = "columns" if file.map.columns else file.path or "the message"
    timed = [] if file.map.sent_time else [("time", file.map.time)]
    known = [written_name(column) for column in header]
    for use, cell in dict.fromkeys([*timed, *(("map", cell) for cell in columns_of(parsed_map(file).template))]):
        try:
            column = cell if cell in header and file.format is Format.PARQUET else column_name(cell)
        except ValueError as error:
            problems.append(cell_problem(file.map.template, cell, "T107", str(error), 'A column x" is written {"x\\""}.'))
            continue
        count = 0 if cell.startswith("$") else header.count(column)
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
    return _compiled(parsed_map(file).template, tuple(header), file.map.decimal)


@lru_cache(256)
def _compiled(template: Template, header: tuple[str, ...], decimal: str) -> MakeRow:
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
    triples: list[TripleCode] = [(terms.code(s), terms.code(p), terms.code(o)) for s, p, o in template.triples]
    cells_used = [Assign(f"c{number}", f"row[{number}]") for number in used]
    names = {**terms.names, "numbered": number_blanks}
    return compile_triples("map", "row", [*cells_used, *return_triples(triples, "numbered({})" if blanks else "{}")], names)
