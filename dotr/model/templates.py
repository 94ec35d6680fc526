"""Graph templates as data: `define`, and the `map` of a CSV input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dotr.model.algebra import Const, Var


@dataclass(frozen=True, slots=True)
class Fresh:
    """A `dotr_id…` name: an IRI that no other firing has."""

    name: str


@dataclass(frozen=True, slots=True)
class Blank:
    """A blank node of the template (`[]`, `[ … ]`, `_:b`, a list's node): fresh for every instance of the template."""

    name: str


@dataclass(frozen=True, slots=True)
class Cell:
    """`{column}` as a whole term: a JSON number becomes an integer, decimal or double, other text a string."""

    column: str


@dataclass(frozen=True, slots=True)
class CellIri:
    """An IRI with cells in it, percent-encoded: text and cells in turn."""

    parts: tuple[str | Cell, ...]


@dataclass(frozen=True, slots=True)
class CellLiteral:
    """Quoted text with cells in it, with its datatype IRI or language tag."""

    parts: tuple[str | Cell, ...]
    datatype: str
    language: str


@dataclass(frozen=True, slots=True)
class TemplateTerm:
    """`<<( s p o )>>` with something in it that is not settled; where its parts are no triple, there is no term."""

    subject: TemplateSlot
    predicate: TemplateSlot
    object: TemplateSlot


TemplateLeaf: TypeAlias = Var | Const | Fresh | Blank | Cell | CellIri | CellLiteral
TemplateSlot: TypeAlias = TemplateLeaf | TemplateTerm
TemplateTriple: TypeAlias = tuple[TemplateSlot, TemplateSlot, TemplateSlot]


@dataclass(frozen=True, slots=True)
class Template:
    """The triples in the order in which the text states them."""

    triples: tuple[TemplateTriple, ...]


def leaves(template: Template) -> Iterator[TemplateLeaf]:
    """What stands in a template's triples, and inside of its triple terms, in the order of the text."""
    for triple in template.triples:
        yield from _leaves(triple)


def _leaves(slots: TemplateTriple) -> Iterator[TemplateLeaf]:
    for slot in slots:
        if isinstance(slot, TemplateTerm):
            yield from _leaves((slot.subject, slot.predicate, slot.object))
        else:
            yield slot
