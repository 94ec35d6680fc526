"""Compiler of the `map` of a CSV input to Python: cells of a row to triples, without an RDF parser
(interface.md, A stream element).

Idea: terms made of one whole cell, and IRIs with one cell, are cached by the text of the cell.
Cost: about 0.1 µs for a cached cell, a few µs otherwise; memory is bounded, and shared by all files
of one map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, assert_never, cast
from urllib.parse import quote

from dotr.codegen.tree import Assign
from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.turtle import parse_template
from dotr.languages.turtle.graphs import number_blanks
from dotr.model.algebra import Const, Var
from dotr.model.places import Span
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, Fresh, Template, TemplateSlot, TemplateTerm, leaves
from dotr.model.terms import RDF, XSD, Term, Triple, escaped, literal
from dotr.outputs.triple_code import TermCode, TripleCode, compile_triples, return_triples, triple_term_code
from dotr.sources.records import InputFile

MakeRow: TypeAlias = Callable[[Sequence[str]], tuple[tuple[Triple, ...], int]]
"""Function from the cells of a row to its triples, and the number of triples omitted for an empty cell."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_COMMA_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(,[0-9]+)?([eE][+-]?[0-9]+)?")
_REMEMBERED: Final = 1 << 14
_MOST_NAMED: Final = 50


@lru_cache(_REMEMBERED)
def cell_term(cell: str) -> Term:
    r"""Term of a whole cell: a JSON number is an integer, a decimal (with a dot) or a double (with
    an exponent), other text a string.

    >>> cell_term("54"), cell_term("-7.40")
    ('"54"^^<http://www.w3.org/2001/XMLSchema#integer>', '"-7.40"^^<http://www.w3.org/2001/XMLSchema#decimal>')
    >>> cell_term("1.5e3"), cell_term("007"), cell_term("NaN"), cell_term(" 1")
    ('"1.5e3"^^<http://www.w3.org/2001/XMLSchema#double>', '"007"', '"NaN"', '" 1"')
    """
    number = _NUMBER.fullmatch(cell)
    if number is None:
        return literal(cell)
    return literal(cell, XSD + ("double" if number[2] else "decimal" if number[1] else "integer"))


@lru_cache(_REMEMBERED)
def comma_cell_term(cell: str) -> Term:
    """Term of a whole cell where decimals have a comma; the literal has a dot.

    >>> comma_cell_term("-7,40"), comma_cell_term("1.000"), comma_cell_term("54")[:4]
    ('"-7.40"^^<http://www.w3.org/2001/XMLSchema#decimal>', '"1.000"', '"54"')
    """
    return literal(cell) if "." in cell else cell_term(cell.replace(",", ".")) if _COMMA_NUMBER.fullmatch(cell) else literal(cell)


@lru_cache(_REMEMBERED)
def encoded(cell: str) -> str:
    """Percent-encode a cell for an IRI: all characters but the unreserved ones of RFC 3986.

    >>> encoded("Århus N/1.a")
    '%C3%85rhus%20N%2F1.a'
    """
    return quote(cell, safe="")


@lru_cache(256)
def _iri_of_cell(before: str, after: str) -> Callable[[str], Term]:
    """Function from a cell to the IRI of the cell between two texts."""

    @lru_cache(_REMEMBERED)
    def made(cell: str) -> Term:
        return f"{before}{quote(cell, safe='')}{after}"

    return made


@lru_cache(256)
def template_of(file: InputFile) -> Template:
    """Template of the map; raises `Refused` with all its errors."""
    assert file.map is not None
    document = file.map.template
    return parse_template(Span(document, 0, len(document.text)), dict(file.prefixes), cells=True)


def columns_of(template: Template) -> tuple[str, ...]:
    """Columns used by a template, in order of appearance."""
    found: dict[str, None] = {}
    for slot in leaves(template):
        match slot:
            case Cell(column):
                found[column] = None
            case CellIri(parts) | CellLiteral(parts=parts):
                found.update(dict.fromkeys(part.column for part in parts if isinstance(part, Cell)))
            case Var() | Const() | Fresh() | Blank():
                pass
            case _:
                assert_never(slot)
    return tuple(found)


def check_columns(file: InputFile, header: Sequence[str], place: Span | None = None) -> None:
    """Check that every column of `time` and `map` is in the header exactly once; raises `Refused`."""
    assert file.map is not None
    problems: list[Diagnostic] = []
    for use, column in dict.fromkeys([("time", file.map.time), *(("map", column) for column in columns_of(template_of(file)))]):
        if header.count(column) == 1:
            continue
        if column in header:
            problems.append(Diagnostic("I104", f"{file.path} has two columns {column}", place, "Which of them is meant? Rename one."))
            continue
        columns = (
            ", ".join(header) if len(header) <= _MOST_NAMED else f"{', '.join(header[:_MOST_NAMED])} and {len(header) - _MOST_NAMED:,} more"
        )
        hint = did_you_mean(column, header) or f"Its columns are {columns}."
        if len(header) == 1:
            hint = f"Its only column is {header[0]}: is the delimiter {file.map.delimiter!r}?"
        elif hint.startswith("Did"):
            hint += f" Its columns are {columns}."
        problems.append(Diagnostic("I103", f"{file.path} has no column {column}, which {use} names", place, hint))
    if problems:
        raise Refused(problems)


def compile_map(file: InputFile, header: Sequence[str]) -> MakeRow:
    """Compile the map of a file with this header to a function from rows to triples.

    Blank nodes are `_:0`, `_:1`, … in order of appearance.
    """
    assert file.map is not None
    return _compiled(template_of(file), tuple(header), file.map.decimal)


@lru_cache(256)
def _compiled(template: Template, header: tuple[str, ...], decimal: str) -> MakeRow:
    position = {column: number for number, column in enumerate(header)}
    used = sorted(position[column] for column in columns_of(template))
    blanks = list(dict.fromkeys(slot for slot in leaves(template) if isinstance(slot, Blank)))
    names: dict[str, object] = {
        "cell_term": comma_cell_term if decimal == "," else cell_term,
        "encoded": encoded,
        "escaped": escaped,
        "numbered": number_blanks,
    }

    def cells(parts: Sequence[str | Cell]) -> tuple[str, ...]:
        return tuple(f"c{position[part.column]}" for part in parts if isinstance(part, Cell))

    def joined(start: str, parts: Sequence[str | Cell], made: str, end: str) -> str:
        codes = [repr(part) if isinstance(part, str) else f"{made}(c{position[part.column]})" for part in (start, *parts, end)]
        return "(" + " + ".join(codes) + ")"

    def piece(slot: TemplateSlot) -> TermCode:
        match slot:
            case Const(term):
                return TermCode(repr(term), fixed=term)
            case Blank():
                label = f"_:{blanks.index(slot)}"
                return TermCode(repr(label), fixed=label)
            case Cell(column):
                return TermCode(f"cell_term(c{position[column]})", cells([slot]))
            case CellIri(parts):
                inside = cells(parts)
                if len(inside) > 1:
                    return TermCode(joined("<", parts, "encoded", ">"), inside)
                at = next(number for number, part in enumerate(parts) if isinstance(part, Cell))
                around = f"iri{len(names)}"
                names[around] = _iri_of_cell(
                    "<" + "".join(cast(Sequence[str], parts[:at])), "".join(cast(Sequence[str], parts[at + 1 :])) + ">"
                )
                return TermCode(f"{around}({inside[0]})", inside)
            case CellLiteral(parts, datatype, language):
                suffix = f"@{language}" if language else "" if datatype in (XSD + "string", RDF + "langString") else f"^^<{datatype}>"
                texts = [escaped(part) if isinstance(part, str) else part for part in parts]
                return TermCode(joined('"', texts, "escaped", f'"{suffix}'), cells(parts))
            case TemplateTerm(subject, predicate, object):
                return triple_term_code((piece(subject), piece(predicate), piece(object)))
            case Var() | Fresh():
                raise ValueError("a map has no variables and no fresh names")
            case _:
                assert_never(slot)

    triples: list[TripleCode] = [(piece(s), piece(p), piece(o)) for s, p, o in template.triples]
    cells_used = [Assign(f"c{number}", f"row[{number}]") for number in used]
    return compile_triples("map", "row", [*cells_used, *return_triples(triples, "numbered({})" if blanks else "{}")], names)
