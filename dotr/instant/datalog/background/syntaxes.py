"""Syntaxes of RDF files: by a declared format, by the extension, and by the opening of the text.

Idea: published files often have the syntax of another extension. The first characters tell XML,
JSON and Turtle from each other, and RDF from syntaxes of ontologies that are no RDF.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pyoxigraph import RdfFormat

from dotr.errors.diagnostics import refuse

_EXTENSIONS: Final = {
    ".ttl": RdfFormat.TURTLE,
    ".nt": RdfFormat.N_TRIPLES,
    ".n3": RdfFormat.N3,
    ".nq": RdfFormat.N_QUADS,
    ".trig": RdfFormat.TRIG,
    ".rdf": RdfFormat.RDF_XML,
    ".xml": RdfFormat.RDF_XML,
    ".owl": RdfFormat.RDF_XML,
    ".jsonld": RdfFormat.JSON_LD,
    ".json": RdfFormat.JSON_LD,
}
FORMATS: Final = {re.sub(r"\W", "", form.name).lower(): form for form in _EXTENSIONS.values()}
"""The syntaxes by the values of `format` in a configuration: `rdfxml` is RDF/XML."""
_ROBOT: Final = "Convert it, for example with ROBOT: robot convert --input {path} --output {stem}.ttl"
_DOWNLOAD: Final = "Download the RDF instead of the page about it: curl -L -H 'Accept: text/turtle' -o {stem}.ttl …"
_COMMENTS: Final = rb"(?:\s|#[^\n]*+)*+"
_XML: Final = rb"(?>\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*+(?:\[.*?\]\s*+)?>)*+"
_TURTLES: Final = (RdfFormat.TURTLE, RdfFormat.TRIG, RdfFormat.N3)
_OPENINGS: Final = (
    (_XML + rb"<[\w.-]++(?::[\w.-]++)?\s+[\w.:-]++\s*=|\s*<\?xml\s", (RdfFormat.RDF_XML,)),
    (rb'\s*(?:\{\s*["}]|\[\s*\{)', (RdfFormat.JSON_LD,)),
    (_COMMENTS + rb"(?:@(?:prefix|base|version)\s|(?i:prefix\s+[^\s:]*:\s*<|base\s*<))", _TURTLES),
    (_COMMENTS + rb'(?:<[^\s<>"{}|^`\\]*>\s|_:\w|\[\s*(?:\]\s*)?(?:a\s|<))', (*_TURTLES, RdfFormat.N_TRIPLES, RdfFormat.N_QUADS)),
)
"""Openings of texts, each with the syntaxes that have it, first the one by which it is read."""
_NO_RDF: Final = (
    (rb"(?>\s|<\?.*?\?>|<!--.*?-->)*+<(?i:!DOCTYPE\s+)?(?i:html)\b", "an HTML page", _DOWNLOAD),
    (_XML + rb"<(?:[\w.-]+:)?Ontology\s(?![^>]*\b(?:about|ID|nodeID)\s*=)", "OWL/XML", _ROBOT),
    (_COMMENTS + rb"(?:Prefix|Ontology)\s*\(", "OWL functional syntax", _ROBOT),
    (_COMMENTS + rb"(?:Prefix:\s+[\w.-]*:\s*<|Ontology:\s)", "OWL Manchester syntax", _ROBOT),
    (rb"\s*format-version:", "OBO", _ROBOT),
)
"""Openings of what is no RDF, each with its name and the way out."""
_HEAD: Final = 1 << 16
_JSONLD_KEY: Final = re.compile(rb'"(?:@|[^"]*:)[^"]*"\s*:')
"""A keyword or an IRI as a member's name, without which JSON makes no triple."""


def syntaxes_of(path: Path, content: bytes, declared: str = "") -> list[tuple[RdfFormat, str]]:
    """The syntaxes of a file in the order in which they are tried, each with what says it.

    `declared`: the format of the configuration; empty: that of the extension. Raises `Refused`
    where there is none (K102), or the text is no RDF (K108).

    >>> syntaxes_of(Path("a.owl"), b"@prefix : <http://e/> .")
    [(<RdfFormat Turtle>, 'its opening'), (<RdfFormat RDF/XML>, '.owl')]
    >>> syntaxes_of(Path("a.trig"), b"@prefix : <http://e/> .")
    [(<RdfFormat TriG>, '.trig')]
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    form = FORMATS[declared] if declared else _EXTENSIONS.get(suffix)
    found = [] if form is None else [(form, "format" if declared else suffix)]
    head = content[:_HEAD]
    for pattern, name, hint in _NO_RDF:
        if re.match(pattern, head, re.DOTALL):
            raise refuse("K108", f"{path}: {name}, which is no RDF", hint=hint.format(path=path, stem=path.with_suffix("")))
    opened = next((forms for pattern, forms in _OPENINGS if re.match(pattern, head, re.DOTALL)), ())
    if opened and form not in opened:
        found.insert(0, (opened[0], "its opening"))
    if found and found[0][1] == ".json" and content and not _JSONLD_KEY.search(content):
        hint = "Give it an @context, which makes it JSON-LD, or read it as an input (format: json, with a map)."
        raise refuse("K108", f"{path}: JSON without a context, which is no RDF", hint=hint)
    if not found:
        hint = f"Known are {', '.join(_EXTENSIONS)}, each also with .gz; for another one, write {{ path: {path.name}, format: … }}."
        raise refuse("K102", f"{path}: no RDF syntax is known by this extension", hint=hint)
    return found
