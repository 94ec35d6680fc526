"""A graph as Turtle text, read to triples: what an element's `graph`, a test and a session hold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pyoxigraph import RdfFormat, parse

from dotr.model.terms import Triple


@lru_cache(maxsize=64)
def _header(prefixes: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"@prefix {prefix}: <{namespace}> . " for prefix, namespace in prefixes)


def read_graph(text: str, prefixes: Mapping[str, str]) -> tuple[Triple, ...]:
    """The triples of Turtle text in the order it states them; blank nodes are `_:0`, `_:1`, … in order of appearance.

    >>> read_graph('[] :p "a", _:x .', {"": "http://e/"})
    (('_:0', '<http://e/p>', '"a"'), ('_:0', '<http://e/p>', '_:1'))

    Raises SyntaxError (a ValueError's kind of message in its `msg`) for text that is no Turtle.
    """
    names: dict[str, str] = {}
    triples: list[Triple] = []
    for quad in parse(_header(tuple(prefixes.items())) + text, RdfFormat.TURTLE):
        subject, object_ = str(quad.subject), str(quad.object)
        if subject[0] == "_":
            subject = names.setdefault(subject, f"_:{len(names)}")
        if object_[0] == "_":
            object_ = names.setdefault(object_, f"_:{len(names)}")
        triples.append((subject, str(quad.predicate), object_))
    return tuple(triples)
