"""Parsed maps of inputs, sent along with the specification or parsed from its text, and the shapes
of the graphs that they generate."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from dotr.model.algebra import Const
from dotr.model.places import Document, Span
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, GraphShape, ParsedMap, ShapedTriple, Template
from dotr.streams.records import Format, InputFile


def parsed_map(file: InputFile) -> ParsedMap:
    """The map of an input of CSV rows or JSON objects.

    >>> from dotr.streams.records import ElementMap, Format
    >>> file = InputFile("in", "a.csv", Format.CSV, map=ElementMap("t", Document("map", "<x:s> <x:p> {x}")))
    >>> parsed_map(file).template.triples[0][2]
    Cell(column='x')

    Raises:
        Refused: with all errors in the text of the map.
    """
    assert file.map is not None
    return file.map.parsed or _parsed(file.map.template, file.prefixes)


@lru_cache(256)
def _parsed(document: Document, prefixes: tuple[tuple[str, str], ...]) -> ParsedMap:
    from dotr.syntax.turtle.parser import parse_map  # imported here, since Spark's workers receive parsed maps

    return parse_map(Span(document, 0, len(document.text)), dict(prefixes))


def shape_of(template: Template) -> GraphShape | None:
    """The shape of a map's graphs, for rows without empty cells.

    None unless all triples have the same blank node as subject, and distinct predicates.

    >>> from dotr.syntax.turtle.parser import parse_template
    >>> from dotr.model.places import Document, Span
    >>> def shape(text: str) -> GraphShape | None:
    ...     return shape_of(parse_template(Span(Document("map", text), 0, len(text)), {"": "http://e/"}, cells=True))
    >>> [(each.predicate, each.object) for each in shape("[] a :Reading ; :value {value} .").triples][1]
    ('<http://e/value>', None)
    >>> shape(":room{room} :value {value} .") is shape("[] :value {low}, {high} .") is None
    True
    """
    triples: list[ShapedTriple] = []
    subjects = {subject for subject, _, _ in template.triples}
    for subject, predicate, value in template.triples:
        if (
            not isinstance(subject, Blank)
            or not isinstance(predicate, Const)
            or not isinstance(value, Const | Cell | CellIri | CellLiteral)
        ):
            return None
        triples.append(ShapedTriple(predicate.term, value.term if isinstance(value, Const) else None))
    is_plain = len(subjects) == 1 and len({each.predicate for each in triples}) == len(triples)
    return GraphShape(tuple(triples)) if is_plain else None


def shapes_of(files: Iterable[InputFile]) -> list[GraphShape]:
    """The distinct shapes of the graphs of CSV inputs."""
    maps = {(file.map, file.prefixes): file for file in files if file.map is not None and file.format is Format.CSV}
    shapes = dict.fromkeys(shape_of(parsed_map(file).template) for file in maps.values())
    return [shape for shape in shapes if shape is not None]
