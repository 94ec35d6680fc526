"""Documents in RDF that describe a published stream: those of files (its vocabulary, the shape of its
elements), and those made of nodes of JSON-LD, nested as people write it.

pyoxigraph would write JSON-LD expanded, which readers of TripleWave's JSON do not understand.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

from pyoxigraph import BlankNode, RdfFormat, Triple, parse, serialize

from dotr.errors.diagnostics import refuse
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.terms import PROV, XSD, Prefixes
from dotr.syntax.turtle.graphs import parser_message
from dotr.syntax.turtle.nesting import check_json_nesting

RDF_TYPES: Final = {
    "text/turtle": RdfFormat.TURTLE,
    "application/ld+json": RdfFormat.JSON_LD,
    "application/n-triples": RdfFormat.N_TRIPLES,
}
"""The serializations of a document by media type."""

DescribedNode: TypeAlias = dict[str, Any]
"""Node of JSON-LD, with prefixed names."""

PREFIXES: Final[Prefixes] = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "formats": "http://www.w3.org/ns/formats/",
    "ldes": "https://w3id.org/ldes#",
    "prov": PROV,
    "sld": "http://streamreasoning.org/ontologies/SLD4TripleWave#",
    "tree": "https://w3id.org/tree#",
    "vocals": "http://w3id.org/rsp/vocals#",
    "vsd": "http://w3id.org/rsp/vocals-sd#",
    "xsd": XSD,
}
"""Prefixes of all descriptions."""

_NESTING: Final = 64


def with_context(node: DescribedNode) -> DescribedNode:
    """A node with the prefixes that it has.

    >>> with_context({"@id": "http://e/a", "@type": "tree:Node"})
    {'@context': {'tree': 'https://w3id.org/tree#'}, '@id': 'http://e/a', '@type': 'tree:Node'}
    """
    text = json.dumps(node)
    return {"@context": {prefix: iri for prefix, iri in PREFIXES.items() if f"{prefix}:" in text}, **node}


def node_text(nodes: Sequence[DescribedNode], media_type: str) -> bytes:
    """Nodes as a document of one of `RDF_TYPES`; the cells of lists are `_:l0`, `_:l1` and so on.

    >>> print(node_text([{"@id": "http://e/a", "tree:view": {"@list": ["x"]}}], "application/n-triples").decode(), end="")
    <http://e/a> <https://w3id.org/tree#view> _:l0 .
    _:l0 <http://www.w3.org/1999/02/22-rdf-syntax-ns#first> "x" .
    _:l0 <http://www.w3.org/1999/02/22-rdf-syntax-ns#rest> <http://www.w3.org/1999/02/22-rdf-syntax-ns#nil> .
    """
    made = [with_context(node) for node in nodes]
    text = json.dumps(made[0] if len(made) == 1 else made, ensure_ascii=False, indent=1).encode() + b"\n"
    if RDF_TYPES[media_type] == RdfFormat.JSON_LD:
        return text
    cells: dict[object, BlankNode] = {}

    def named(term: Any) -> Any:
        return cells.setdefault(term, BlankNode(f"l{len(cells)}")) if isinstance(term, BlankNode) else term

    triples = [Triple(named(quad.subject), quad.predicate, named(quad.object)) for quad in parse(text, RdfFormat.JSON_LD, lenient=True)]
    order = {each.subject: place for place, each in reversed([*enumerate(triples)])}
    triples.sort(key=lambda each: order[each.subject])  # what is nested stands behind what it is nested in
    return RdfDocument(tuple(triples), {prefix: iri for node in made for prefix, iri in node["@context"].items()}).text(media_type)


@dataclass(frozen=True, slots=True)
class RdfDocument:
    """Triples, with the prefixes of their file.

    >>> print(RdfDocument().text("application/ld+json").decode())
    []
    """

    triples: tuple[Triple, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    _texts: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    def text(self, media_type: str) -> bytes:
        """The document in one of `RDF_TYPES`; it is serialized once."""
        if media_type not in self._texts:
            text = serialize(self.triples, format=RDF_TYPES[media_type], prefixes=dict(self.prefixes)) or b""
            lines = text.splitlines(keepends=True)
            declared = sum(line.startswith(b"@prefix ") for line in lines[: len(self.prefixes)])
            self._texts[media_type] = b"".join([*sorted(lines[:declared]), *lines[declared:]])  # they come in any order
        return self._texts[media_type]


def read_document(path: str, base: str, span: Span | None = None) -> RdfDocument:
    """The document of a file, whose format is that of its extension, also with .gz; relative IRIs
    are relative to `base`. Raises `Refused` (C301) where it cannot be read."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        if path.endswith(".gz"):
            content = gzip.decompress(content)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse("C301", f"cannot read {path}: {reason.lower()}", span, "Name a file that is there.") from None
    suffix = os.path.splitext(path.removesuffix(".gz"))[1].lstrip(".").lower()
    format = RdfFormat.RDF_XML if suffix == "owl" else RdfFormat.from_extension(suffix)
    if format is None:
        hint = "Name a file of Turtle (.ttl), N-Triples (.nt), JSON-LD (.jsonld) or RDF/XML (.rdf), or write an IRI."
        raise refuse("C301", f"no RDF syntax is known by the extension of {path}", span, hint)
    try:
        if format == RdfFormat.JSON_LD:
            check_json_nesting(content, _NESTING)  # far deeper text would end the process
        parser = parse(content, format, base_iri=base)
        triples = tuple(dict.fromkeys(quad.triple for quad in parser))
    except (SyntaxError, ValueError) as error:
        raise refuse("C301", f"{path} is no {format.name}: {parser_message(error)}", span, "Mend the file.") from None
    return RdfDocument(triples, parser.prefixes)
