"""Contexts of JSON-LD documents. Remote contexts are declared in the configuration, and inlined
before a document is parsed: nothing is ever fetched.

Idea: a document whose contexts are all objects is unchanged. In any other, a context's IRI is
replaced by the declared context, without the terms that the document does not use, so that the cost
does not depend on the size of the vocabulary.
Cost: a search of the text; with a remote context, that of `json.loads` and `json.dumps`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urljoin

from dotr.streams.formats.json.records import refuse_constant
from dotr.streams.records import GraphSettings

_NOT_AN_OBJECT: Final = re.compile(rb'"@context"\s*+:\s*+(?![{n])|"@import"|\\u00[0-7]')
"""A context that may be remote, or an escape, which may spell one."""

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


@lru_cache(64)
def context_inliner(settings: GraphSettings) -> Callable[[str], str]:
    """Function that replaces the remote contexts of a document by the declared ones.

    It raises ValueError where the document is no JSON, or has an undeclared context.

    >>> declared = '{"@context": {"name": "http://e/name"}}'
    >>> inlined = context_inliner(GraphSettings(contexts=(("http://e/", declared),)))
    >>> inlined('{"@context": "http://e/", "name": "a"}')
    '{"@context": [{"name": "http://e/name"}], "name": "a"}'
    >>> inlined('{"@context": "http://f/", "name": "a"}')
    Traceback (most recent call last):
    ValueError: its context http://f/ is not declared (contexts), and nothing is fetched
    """
    contexts = _Contexts({iri: context_of(text) for iri, text in settings.contexts})
    default = context_of(settings.context) if settings.context else None

    def inlined(text: str) -> str:
        if not settings.context and not _NOT_AN_OBJECT.search(text.encode("utf-8", "surrogatepass")):
            return text
        document = _DECODE(text)
        if settings.context:
            document = _with_context(document, default)
        words = frozenset(_words(document))
        return json.dumps(_inlined(document, contexts, words), ensure_ascii=False, allow_nan=False)

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


def _inlined(value: Any, contexts: _Contexts, words: frozenset[str]) -> Any:
    """A part of a document, with all contexts inlined; JSON literals are unchanged."""
    if isinstance(value, list):
        return [_inlined(item, contexts, words) for item in value]
    if not isinstance(value, dict) or "@value" in value:
        return value
    return {
        key: contexts.used(contexts.resolved(item, "", ()), words) if key == _CONTEXT else _inlined(item, contexts, words)
        for key, item in value.items()
    }


class _Contexts:
    """Declared contexts by IRI."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared
        self._resolved: dict[str, list[Any]] = {}

    def resolved(self, context: Any, base: str, within: Sequence[str]) -> Any:
        """A context with all remote ones inlined; raises ValueError where one is not declared.

        `base` is the IRI of the enclosing remote context (empty: none), and `within` the IRIs of
        all enclosing ones.
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
