"""JSON-LD documents to quads by pyoxigraph, with declared contexts and without relative IRIs.

Idea: a document whose contexts are all objects is unchanged. In any other, a context's IRI is
replaced by the declared context, without the terms that the document does not use, so that the cost
does not depend on the size of the vocabulary: nothing is ever fetched. pyoxigraph drops a triple
with a relative IRI if there is no base; so a document without one gets `_NO_BASE`, and an IRI that
begins with it was relative.
Cost: a search of the text, and 0.2 µs a quad; with a remote context, that of `json.loads` and
`json.dumps`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NoReturn
from urllib.parse import urljoin

from pyoxigraph import Literal, Quad, RdfFormat, parse

_NOT_AN_OBJECT: Final = re.compile(rb'"@context"\s*+:\s*+(?![{n])|"@import"|"@base"\s*+:\s*+n|\\u00[0-7]')
"""A context that may be remote, a base that is null, or an escape, which may spell one."""

_NO_BASE: Final = "dotr-no-base:"
_RELATIVE: Final = re.compile(rf"<{_NO_BASE}(?:/(?!/))?([^>]*)>")
KEEPS_DIRECTIONS: Final = '{"rdfDirection":"urn:dotr:rdfDirection"}'
"""The context of a document that dotr has written, whose base directions belong to its texts. To any
other reader it is a term that is not used."""

_KEEPS: Final = re.compile(r'"rdfDirection":\s*"urn:dotr:rdfDirection"')

_QUOTED: Final = re.compile(r'"(?>(?:[^"\\]|\\.)*)"', re.DOTALL)


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN or Infinity."""
    raise ValueError(f"{name} is no JSON")


_DECODE: Final = json.JSONDecoder(parse_constant=refuse_constant).decode
_CONTEXT: Final = "@context"


def context_of(text: str) -> Any:
    """The context in a document that declares a remote one; raises ValueError without a context.

    >>> context_of('{"@context": {"name": "http://e/name"}}')
    {'name': 'http://e/name'}
    """
    document = json.loads(text)
    if not isinstance(document, dict) or _CONTEXT not in document:
        raise ValueError("it is no object with an @context")
    return document[_CONTEXT]


def parse_jsonld(document: str, base: str = "") -> Iterator[Quad]:
    """Quads of a document whose contexts are inlined; the iteration raises SyntaxError for what is
    no JSON-LD, and ValueError for a relative IRI without a base (empty: none).

    The base direction of a text is left out, since `rdfDirection` is not set (JSON-LD 1.1 API,
    8.2.2), but in documents with the context `KEEPS_DIRECTIONS`.

    >>> [str(quad) for quad in parse_jsonld('{"@id": "pump/7", "http://e/p": 1}', "http://e/")]
    ['<http://e/pump/7> <http://e/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer>']
    >>> list(parse_jsonld('{"@id": "pump/7", "http://e/p": 1}'))
    Traceback (most recent call last):
    ValueError: it has the relative IRI <pump/7> and no base: write @base in its context, or declare it (base)
    """
    parser: Iterator[Quad] = parse(document, RdfFormat.JSON_LD, base_iri=base or f"{_NO_BASE}/")
    if "@direction" in document and not _KEEPS.search(document):
        parser = map(_without_direction, parser)
    while quads := list(islice(parser, 1000)):
        if _NO_BASE in str(quads):
            for quad in quads:
                if relative := _RELATIVE.search(_QUOTED.sub("", str(quad))):
                    why = f"it has the relative IRI <{relative[1][:200]}> and no base"
                    raise ValueError(f"{why}: write @base in its context, or declare it (base)")
        yield from quads


def _without_direction(quad: Quad) -> Quad:
    """A quad without the base direction of its text.

    >>> document = '{"http://e/p": {"@value": "x", "@language": "ar", "@direction": "rtl"}}'
    >>> [str(_without_direction(quad).object) for quad in parse(document, RdfFormat.JSON_LD)]
    ['"x"@ar']
    """
    value = quad.object
    if not isinstance(value, Literal) or value.direction is None:
        return quad
    return Quad(quad.subject, quad.predicate, Literal(value.value, language=value.language), quad.graph_name)


@lru_cache(64)
def context_inliner(contexts: tuple[tuple[str, str], ...], context: str = "", base: str = "") -> Callable[[str], str]:
    """Function that replaces the remote contexts of a document by the declared ones.

    It raises ValueError where the document is no JSON, or has an undeclared context.

    Args:
        contexts: the documents that stand for remote contexts, by IRI.
        context: the document with the context of documents without one; empty: none.
        base: the IRI that a relative IRI of a context is resolved against; empty: none.

    >>> declared = '{"@context": {"name": "http://e/name"}}'
    >>> inlined = context_inliner((("http://e/", declared),))
    >>> inlined('{"@context": "http://e/", "name": "a"}')
    '{"@context": [{"name": "http://e/name"}], "name": "a"}'
    >>> inlined('{"@context": "http://f/", "name": "a"}')
    Traceback (most recent call last):
    ValueError: its context http://f/ is not declared (contexts), and nothing is fetched
    """
    known = _Contexts({iri: context_of(text) for iri, text in contexts})
    default = context_of(context) if context else None

    def inlined(text: str) -> str:
        if not context and not _NOT_AN_OBJECT.search(text.encode("utf-8", "surrogatepass")):
            return text
        document = _DECODE(text)
        if context:
            document = _with_context(document, default)
        words = frozenset(_words(document))
        return json.dumps(_inlined(document, known, words, base), ensure_ascii=False, allow_nan=False)

    return inlined


def _with_context(document: Any, context: Any) -> Any:
    """The document, with the context unless it has one."""
    if isinstance(document, list):
        return [_with_context(item, context) for item in document]
    return {_CONTEXT: context, **document} if isinstance(document, dict) and _CONTEXT not in document else document


def _words(value: Any) -> Iterator[str]:
    """The texts of a value that may be terms or compact IRIs, and the prefixes of the latter."""
    if isinstance(value, str):
        yield value
        prefix, colon, _ = value.partition(":")
        if colon:
            yield prefix
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _words(key)
            yield from _words(item)


def _inlined(value: Any, contexts: _Contexts, words: frozenset[str], base: str) -> Any:
    """A part of a document, with all contexts inlined; JSON literals are unchanged."""
    if isinstance(value, list):
        return [_inlined(item, contexts, words, base) for item in value]
    if not isinstance(value, dict) or "@value" in value:
        return value
    return {
        key: contexts.used(contexts.resolved(item, base, ()), words) if key == _CONTEXT else _inlined(item, contexts, words, base)
        for key, item in value.items()
    }


class _Contexts:
    """Declared contexts by IRI."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared
        self._resolved: dict[str, list[Any]] = {}

    def resolved(self, context: Any, base: str, within: Sequence[str]) -> Any:
        """A context with all remote ones inlined; raises ValueError where one is not declared.

        `base` is the IRI of the enclosing remote context, or that of the document (empty: none),
        and `within` the IRIs of all enclosing remote contexts.
        """
        match context:
            case str():
                return self._remote(urljoin(base, context) if base else context, within)
            case list():
                return [each for item in context for each in _listed(self.resolved(item, base, within))]
            case dict():
                return self._object(context, base, within)
            case _:  # null, or a value that the parser rejects
                return context

    def _remote(self, iri: str, within: Sequence[str]) -> list[Any]:
        if iri in within:
            raise ValueError(f"its context {iri} refers to itself")
        found = self._resolved.get(iri)
        if found is None:
            if iri not in self._declared:
                raise ValueError(f"its context {iri[:200]} is not declared (contexts), and nothing is fetched")
            resolved = _listed(self.resolved(self._declared[iri], iri, (*within, iri)))
            found = [_without(each, "@base") for each in resolved]  # the base of a remote context has no effect
            self._resolved[iri] = found
        return found

    def _object(self, context: dict[str, Any], base: str, within: Sequence[str]) -> dict[str, Any]:
        made = {
            term: {**definition, _CONTEXT: self.resolved(definition[_CONTEXT], base, within)}
            if isinstance(definition, dict) and _CONTEXT in definition
            else definition
            for term, definition in context.items()
        }
        if made.get("@base", "") is None:  # pyoxigraph would drop the triples with relative IRIs
            made["@base"] = f"{_NO_BASE}/"
        imported = made.pop("@import", None)
        if imported is None:
            return made
        if not isinstance(imported, str):
            raise ValueError("its @import is no IRI")
        others = self._remote(urljoin(base, imported) if base else imported, within)
        if len(others) != 1 or not isinstance(others[0], dict):
            raise ValueError(f"its @import {imported[:200]} is no single context")
        return {**others[0], **made}

    def used(self, context: Any, words: frozenset[str]) -> Any:
        """A context with only the terms that a document uses, directly or by other terms."""
        objects = [each for each in _listed(context) if isinstance(each, dict)]
        if sum(map(len, objects)) <= _FEW_TERMS:
            return context
        needed, waiting = set(words), list[Any]()
        for word in words:
            waiting += [each[word] for each in objects if word in each]
        waiting += [value for each in objects for term, value in each.items() if term.startswith("@")]
        while waiting:
            for word in _words(waiting.pop()):
                if word not in needed:
                    needed.add(word)
                    waiting += [each[word] for each in objects if word in each]
        return [
            {term: value for term, value in each.items() if term in needed or term.startswith("@")} if isinstance(each, dict) else each
            for each in _listed(context)
        ]


_FEW_TERMS: Final = 20
"""Contexts with at most this many terms are inlined completely."""


def _listed(context: Any) -> list[Any]:
    return context if isinstance(context, list) else [context]


def _without(context: Any, key: str) -> Any:
    return {term: value for term, value in context.items() if term != key} if isinstance(context, dict) else context
