"""Graph templates: `define` of a rule, and `map` of an input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dotr.model.algebra import Const, Var


@dataclass(frozen=True, slots=True)
class Fresh:
    """A `dotr_id…` name: an IRI that is new for each firing."""

    name: str


@dataclass(frozen=True, slots=True)
class Blank:
    """A blank node of the template (`[]`, `[ … ]`, `_:b`, a list node): new per instantiation."""

    name: str


@dataclass(frozen=True, slots=True)
class Cell:
    """`{column}` as a term of its own.

    A JSON number becomes an integer, decimal or double; any other text becomes a string.
    """

    column: str


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
