"""The parsed map of an input: sent along with the specification, or parsed from its text."""

from __future__ import annotations

from functools import lru_cache

from dotr.model.places import Document, Span
from dotr.model.templates import ParsedMap
from dotr.streams.records import InputFile


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
