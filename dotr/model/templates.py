"""Graph templates: `define` of a rule, and `map` of an input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from dotr.model import dataclass
from dotr.model.algebra import Const, Var
from dotr.model.terms import Term


@dataclass(frozen=True, slots=True)
class Fresh:
    """A `dotr_id…` name: an IRI that is new for each firing."""

    name: str


@dataclass(frozen=True, slots=True)
class Blank:
    """A blank node of the template (`[]`, `[ … ]`, `_:b`, a list node): new per instantiation."""

    name: str


class CellType(Enum):
    """The type of a cell, as it is written behind the last colon: `{Wert:decimal}`."""

    DECIMAL = "decimal"
    INTEGER = "integer"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    DATE = "date"
    DATE_TIME = "dateTime"
    IRI = "iri"
    STRING = "string"


_TYPED: Final = re.compile(rf"(.*):({'|'.join(each.value for each in CellType)})(\??)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cell:
    """`{column}` as a term of its own.

    Without a type a JSON number becomes an integer, decimal or double; any other text becomes a
    string. `optional`: a text that is not of the type leaves out the triples of the cell.
    """

    column: str
    type: CellType | None = None
    optional: bool = False

    @staticmethod
    def of(text: str) -> Cell:
        """The cell of the text in braces.

        >>> Cell.of("Wert:decimal?"), Cell.of("ex:Wert").column, Cell.of('"Wert:decimal"').column
        (Cell(column='Wert', type=<CellType.DECIMAL: 'decimal'>, optional=True), 'ex:Wert', '"Wert:decimal"')
        """
        found = _TYPED.fullmatch(text)
        return Cell(text) if found is None else Cell(found[1], CellType(found[2]), bool(found[3]))


@dataclass(frozen=True, slots=True)
class CellIri:
    """An IRI with cells: text and cells in turn; cell contents are percent-encoded.

    A cell alone holds a whole absolute IRI, which stays unchanged.
    """

    parts: tuple[str | Cell, ...]


@dataclass(frozen=True, slots=True)
class CellLiteral:
    """A quoted literal with cells, with its datatype IRI or language tag."""

    parts: tuple[str | Cell, ...]
    datatype: str
    language: str


@dataclass(frozen=True, slots=True)
class TemplateTerm:
    """A triple term with a variable part; it has no value where the parts form no RDF triple."""

    subject: TemplateSlot
    predicate: TemplateSlot
    object: TemplateSlot


TemplateLeaf: TypeAlias = Var | Const | Fresh | Blank | Cell | CellIri | CellLiteral
TemplateSlot: TypeAlias = TemplateLeaf | TemplateTerm
TemplateTriple: TypeAlias = tuple[TemplateSlot, TemplateSlot, TemplateSlot]


@dataclass(frozen=True, slots=True)
class Template:
    """Triples in the order of the text."""

    triples: tuple[TemplateTriple, ...]


@dataclass(frozen=True, slots=True)
class ParsedMap:
    """The template of a `map`; `bracketed`: its blank nodes with a property list, `[ … ]`."""

    template: Template
    bracketed: tuple[Blank, ...]


def leaves(template: Template) -> Iterator[TemplateLeaf]:
    """Yield the slots of a template in the order of the text, also those inside triple terms."""
    for triple in template.triples:
        yield from _leaves(triple)


def _leaves(slots: TemplateTriple) -> Iterator[TemplateLeaf]:
    for slot in slots:
        if isinstance(slot, TemplateTerm):
            yield from _leaves((slot.subject, slot.predicate, slot.object))
        else:
            yield slot


# Shapes of graphs: predicates and classes, in order, common to all elements of a mapped input.


class ShapedTriple(NamedTuple):
    """A triple of a shape.

    - `object`: the same in all graphs of the shape; None: any term.
    """

    predicate: Term
    object: Term | None = None


class GraphShape(NamedTuple):
    """Common shape of graphs: `_:0` is the subject of all triples, whose predicates are these.

    Each predicate occurs once, in this order.

    >>> from dotr.model.terms import RDF_TYPE
    >>> GraphShape((ShapedTriple(RDF_TYPE, "<http://e/Reading>"), ShapedTriple("<http://e/value>"))).position("<http://e/value>")
    1
    """

    triples: tuple[ShapedTriple, ...]

    def position(self, predicate: Term) -> int | None:
        """The number of the triple with a predicate, counted from 0; None without one."""
        return next((number for number, each in enumerate(self.triples) if each.predicate == predicate), None)
