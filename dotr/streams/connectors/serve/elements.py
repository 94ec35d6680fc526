"""Elements of a published stream in the formats of their readers, and the choice of a format.

Invariant: in each format an element has the same quads: the graph BASE + ID, and beside it in the
default graph its time, its rule where it is an event, and its number. They are made of its line of
NDJSON alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, assert_never

from dotr.model.terms import Triple
from dotr.streams.connectors.serve.kept import KeptElement
from dotr.streams.formats.rdf.named_graphs import NamedGraph, TrigWriter, jsonld_texts, nquads_texts
from dotr.streams.records import Format
from dotr.streams.sinks.events import OutputTerms


class ElementFormat(Enum):
    """Formats of elements, by the names that the parameter `format` has."""

    TRIG = "trig"
    NQUADS = "nquads"
    JSONLD = "jsonld"
    TURTLE = "turtle"
    NDJSON = "ndjson"
    JELLY = "jelly"

    @property
    def media_type(self) -> str:
        """The media type.

        >>> ElementFormat.TRIG.media_type
        'application/trig'
        """
        return Format(self.value).media_type


OF_ELEMENT: Final = (ElementFormat.TRIG, ElementFormat.NQUADS, ElementFormat.JSONLD, ElementFormat.TURTLE)
"""The formats of one element, the first one where a reader accepts any."""

OF_ELEMENTS: Final = (ElementFormat.TRIG, ElementFormat.NQUADS, ElementFormat.JSONLD, ElementFormat.NDJSON)
"""The formats of a list of elements, likewise."""


class ElementWriter:
    """Writer of the elements of a stream with the IRI `base`.

    >>> from dotr.model.time import Clock
    >>> write = ElementWriter("http://e/fire/", OutputTerms(Clock()))
    >>> line = b'{"time": 12, "rule": "R", "event": "Fire", "attributes": {}, "graph": "<http://e/a> <http://e/p> _:b ."}'
    >>> print(write.text(KeptElement(7, 12_000_000, 0, "Fire", line), ElementFormat.NQUADS).decode(), end="")
    <http://e/fire/12000000-0> <http://www.w3.org/ns/prov#generatedAtTime> "12"^^<http://www.w3.org/2001/XMLSchema#integer> .
    <http://e/fire/12000000-0> <http://www.w3.org/ns/prov#wasGeneratedBy> <urn:dotr:rule:R> .
    <http://e/fire/12000000-0> <urn:dotr:number> "7"^^<http://www.w3.org/2001/XMLSchema#integer> .
    <http://e/a> <http://e/p> _:b <http://e/fire/12000000-0> .
    """

    def __init__(self, base: str, terms: OutputTerms) -> None:
        self._base = base
        self._clock = terms.clock
        self._trig = TrigWriter(terms.clock, terms.prefixes)
        self._turtle = TrigWriter(terms.clock, terms.prefixes, blocks=False)
        self._prefixes = self._trig.take_header()
        self._turtle.take_header()

    def text(self, element: KeptElement, form: ElementFormat) -> bytes:
        """An element as a document of its own; in JSON-LD it is an object, in Jelly a frame behind its
        length."""
        return self._object(element) if form is ElementFormat.JSONLD else self.texts([element], form)

    def texts(self, elements: Sequence[KeptElement], form: ElementFormat) -> bytes:
        """Some elements as one document, in their order; in JSON-LD it is an array."""
        match form:
            case ElementFormat.NDJSON:
                return b"".join([b'%s, "id": "%s"}\n' % (each.line[:-1], each.id.encode()) for each in elements])
            case ElementFormat.JSONLD:
                return b"[" + b",\n".join(map(self._object, elements)) + b"]\n"
            case ElementFormat.NQUADS:
                return "".join(nquads_texts(map(self.graph, elements), self._clock)).encode()
            case ElementFormat.TRIG | ElementFormat.TURTLE:
                write = self._trig if form is ElementFormat.TRIG else self._turtle
                return "".join([self._prefixes, *write([*map(self.graph, elements)])]).encode()
            case ElementFormat.JELLY:
                from dotr.streams.formats.rdf.jelly_frames import delimited, frames  # loads pyjelly

                return b"".join(map(delimited, frames(map(self.graph, elements), self._clock)))
            case _:
                assert_never(form)

    def graph(self, element: KeptElement) -> NamedGraph:
        """An element as a named graph."""
        content = json.loads(element.line)
        name = f"<{self._base}{element.id}>"
        return NamedGraph(name, element.time, content.get("rule", ""), _triples(content["graph"]), element.number)

    def _object(self, element: KeptElement) -> bytes:
        return jsonld_texts([self.graph(element)], self._clock)[0].encode()


def _triples(text: str) -> tuple[Triple, ...]:
    return tuple(map(_triple, text.split("\n"))) if text else ()


def _triple(line: str) -> Triple:
    subject, predicate, value = line.split(" ", 2)
    return subject, predicate, value[:-2]


def accepted(accept: str, media_types: Iterable[str]) -> str | None:
    """The media type that a header Accept likes best, the first of several; None if it accepts none.

    The most specific range that fits a media type decides; a range that is broken fits none.

    >>> types = ["application/trig", "application/ld+json", "text/turtle"]
    >>> [accepted(text, types) for text in ("", "*/*", "text/*, */*;q=0.1", "text/html", "application/*;q=0.5, application/trig;q=0")]
    ['application/trig', 'application/trig', 'text/turtle', None, 'application/ld+json']
    """
    ranges: dict[str, float] = {}
    for item in accept.split(","):
        name, *parameters = [part.strip().lower() for part in item.split(";")]
        quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            ranges[name] = max(ranges.get(name, 0.0), float(quality))
        except ValueError:
            continue
    ranges.pop("", None)
    if not accept.strip():
        ranges["*/*"] = 1.0

    def quality_of(media_type: str) -> float:
        group = media_type.partition("/")[0]
        return next((ranges[each] for each in (media_type, f"{group}/*", "*/*") if each in ranges), 0.0)

    best = max(media_types, key=quality_of)  # the first one of equal quality
    return best if quality_of(best) > 0 else None
