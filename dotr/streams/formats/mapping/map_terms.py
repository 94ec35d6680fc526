"""Generated code of the terms of a map: of the cells of a CSV row, or the values of a JSON object.

    Cell("value")                          cell_term(c0)
    CellIri(("http://e/", Cell("room")))   iri4(c1), where iri4("A") is "<http://e/A>"
    CellLiteral((Cell("x"), " K"), …)      ('"' + escaped(c2) + ' K' + '"')

Idea: terms made of one whole cell, and IRIs with one cell, are cached by the text of the cell.
Cost: about 0.1 µs for a cached cell, a few µs otherwise; memory is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import ClassVar, Final, assert_never, cast
from urllib.parse import quote

from pyoxigraph import NamedNode

from dotr.evaluation.codegen.triples import TermCode, triple_term_code
from dotr.model import dataclass
from dotr.model.algebra import Const, Var
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, Fresh, Template, TemplateSlot, TemplateTerm, leaves
from dotr.model.terms import RDF, XSD, Term, escaped, literal

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_COMMA_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(,[0-9]+)?([eE][+-]?[0-9]+)?")
_CACHED: Final = 1 << 14
_STRINGS: Final = ("$topic", "$key", "$header.", "$file", "$stem")
"""Beginnings of the cells that are strings in every format, `7` too."""


class JsonNumber(str):
    """The lexical form of a JSON number; of a typed column, its subclass has a `datatype`."""

    __slots__ = ()
    datatype: ClassVar[str]


@lru_cache(_CACHED)
def string_term(text: str) -> Term:
    """The plain literal of a text."""
    return literal(text)


@lru_cache(_CACHED)
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


@lru_cache(_CACHED)
def comma_cell_term(cell: str) -> Term:
    """Term of a whole cell where decimals have a comma; the literal has a dot.

    >>> comma_cell_term("-7,40"), comma_cell_term("1.000"), comma_cell_term("54")[:4]
    ('"-7.40"^^<http://www.w3.org/2001/XMLSchema#decimal>', '"1.000"', '"54"')
    """
    return literal(cell) if "." in cell else cell_term(cell.replace(",", ".")) if _COMMA_NUMBER.fullmatch(cell) else literal(cell)


@lru_cache(_CACHED)
def text_term(text: str) -> Term:
    """Term of a whole text: a number of JSON, `true` and `false` as in JSON, between blanks, too;
    any other text a string.

    >>> text_term(" 21.5"), text_term("true")[:6], text_term("null"), text_term(" ON")
    ('"21.5"^^<http://www.w3.org/2001/XMLSchema#decimal>', '"true"', '"null"', '" ON"')
    """
    value = text.strip()
    number = _NUMBER.fullmatch(value)
    if number is None:
        return literal(value, XSD + "boolean") if value in ("true", "false") else literal(text)
    return literal(value, XSD + ("double" if number[2] else "decimal" if number[1] else "integer"))


@lru_cache(_CACHED)
def encoded(cell: str) -> str:
    """Percent-encode a cell for an IRI: all characters but the unreserved ones of RFC 3986.

    >>> encoded("Århus N/1.a")
    '%C3%85rhus%20N%2F1.a'
    """
    return quote(cell, safe="")


@lru_cache(_CACHED)
def absolute_iri(text: str) -> Term:
    """IRI of a cell that holds the whole IRI; raises ValueError where it is not absolute.

    >>> absolute_iri("urn:ngsi-ld:Room:1")
    '<urn:ngsi-ld:Room:1>'
    >>> absolute_iri("Room 1")
    Traceback (most recent call last):
    ValueError: 'Room 1' is no absolute IRI
    """
    try:
        return str(NamedNode(text))
    except ValueError:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise ValueError(f"{shown!r} is no absolute IRI") from None


@lru_cache(256)
def _iri_of_cell(before: str, after: str) -> Callable[[str], Term]:
    """Function from a cell to the IRI of the cell between two texts."""

    @lru_cache(_CACHED)
    def made(cell: str) -> Term:
        return f"{before}{quote(cell, safe='')}{after}"

    return made


def columns_of(template: Template) -> tuple[str, ...]:
    """Columns or paths used by a template, in order of appearance."""
    found: dict[str, None] = {}
    for slot in leaves(template):
        found.update(dict.fromkeys(columns_of_slot(slot)))
    return tuple(found)


def columns_of_slot(slot: TemplateSlot) -> tuple[str, ...]:
    """Columns or paths used by a term of a template, in order of appearance.

    >>> columns_of_slot(CellIri(("http://e/", Cell("room"), "/", Cell("n"))))
    ('room', 'n')
    """
    match slot:
        case Cell(column):
            return (column,)
        case CellIri(parts) | CellLiteral(parts=parts):
            return tuple(dict.fromkeys(part.column for part in parts if isinstance(part, Cell)))
        case TemplateTerm(subject, predicate, value):
            return tuple(dict.fromkeys([*columns_of_slot(subject), *columns_of_slot(predicate), *columns_of_slot(value)]))
        case Var() | Const() | Fresh() | Blank():
            return ()
        case _:
            assert_never(slot)


@dataclass
class MapTerms:
    """Generator of the code of a map's terms.

    - `variable`: returns the variable of the generated code for a column's cell or a path's value.
    - `guard`: returns the condition under which a variable has a value.
    - `blank`: returns the code of a blank node, with its fixed label, if it has one.
    - `whole_cell`: makes the term of a whole cell; called by the generated code.
    - `text`: makes the text of a cell inside an IRI or a literal; None where cells are texts.
    - `typed`: returns the variable of the term of a typed cell, which the code before the triples
      has assigned (`typed_code`).
    - `names`: the functions that the code calls, by name; `code` adds to it.
    """

    variable: Callable[[str], str]
    guard: Callable[[str], str]
    blank: Callable[[Blank], TermCode]
    whole_cell: Callable[[str], Term]
    text: Callable[[str], str] | None = None
    typed: Callable[[Cell], str] = lambda cell: ""
    names: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text = self.text
        self.names |= {"cell_term": self.whole_cell, "encoded": encoded, "escaped": escaped, "absolute_iri": absolute_iri}
        if text is not None:
            self.names["text_of"] = text

    def code(self, slot: TemplateSlot) -> TermCode:
        """The code of a term.

        >>> terms = MapTerms(lambda column: f"c_{column}", lambda variable: variable, lambda blank: TermCode("'_:0'"), cell_term)
        >>> terms.code(Cell("room"))
        TermCode(code='cell_term(c_room)', guards=('c_room',), fixed=None)
        >>> terms.code(Cell("$topic[1]")).code
        'string_term(c_$topic[1])'
        >>> terms.code(CellIri(("http://e/", Cell("room"), "/", Cell("n")))).code
        "('<' + 'http://e/' + encoded(c_room) + '/' + encoded(c_n) + '>')"
        """
        match slot:
            case Const(term):
                return TermCode(repr(term), fixed=term)
            case Blank():
                return self.blank(slot)
            case Cell(column, None):
                made = "string_term" if column.startswith(_STRINGS) else "cell_term"
                self.names.setdefault(made, string_term)
                return TermCode(f"{made}({self.variable(column)})", self._guards([slot]))
            case Cell():
                return TermCode(self.typed(slot), (self.typed(slot),))
            case CellIri((Cell(column),)):
                return TermCode(f"absolute_iri({self._text(column)})", self._guards([Cell(column)]))
            case CellIri(parts):
                return self._iri(parts)
            case CellLiteral(parts, datatype, language):
                suffix = f"@{language}" if language else "" if datatype in (XSD + "string", RDF + "langString") else f"^^<{datatype}>"
                texts = [escaped(part) if isinstance(part, str) else part for part in parts]
                return TermCode(self._joined('"', texts, "escaped", f'"{suffix}'), self._guards(parts))
            case TemplateTerm(subject, predicate, value):
                return triple_term_code((self.code(subject), self.code(predicate), self.code(value)))
            case Var() | Fresh():
                raise ValueError("a map has no variables and no fresh names")
            case _:
                assert_never(slot)

    def _iri(self, parts: Sequence[str | Cell]) -> TermCode:
        cells = [part for part in parts if isinstance(part, Cell)]
        if len(cells) > 1:
            return TermCode(self._joined("<", parts, "encoded", ">"), self._guards(parts))
        at = next(number for number, part in enumerate(parts) if isinstance(part, Cell))
        around = f"iri{len(self.names)}"
        self.names[around] = _iri_of_cell(
            "<" + "".join(cast(Sequence[str], parts[:at])), "".join(cast(Sequence[str], parts[at + 1 :])) + ">"
        )
        return TermCode(f"{around}({self._text(cells[0].column)})", self._guards(parts))

    def _text(self, column: str) -> str:
        variable = self.variable(column)
        return variable if self.text is None else f"text_of({variable})"

    def _guards(self, parts: Sequence[str | Cell]) -> tuple[str, ...]:
        return tuple(self.guard(self.variable(part.column)) for part in parts if isinstance(part, Cell))

    def _joined(self, start: str, parts: Sequence[str | Cell], made: str, end: str) -> str:
        codes = [repr(part) if isinstance(part, str) else f"{made}({self._text(part.column)})" for part in (start, *parts, end)]
        return "(" + " + ".join(codes) + ")"
