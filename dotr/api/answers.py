"""Answers of `Session.why` and `Session.why_not`, and the RDF terms of Python values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from math import isinf, isnan

from dotr.api.html import preformatted
from dotr.evaluation.limits import LIMITS
from dotr.model.terms import XSD, Prefixes, Term
from dotr.syntax.turtle.graphs import Misread, read_graph


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The answer of `Session.why` or `Session.why_not`. `str`, `repr` and notebooks show its text.

    Attributes:
        text: the output of `dotr why` or `dotr why-not`, lines without the last line end.
        data: the same as plain data (dictionaries, lists, texts, numbers): that of `--format json`.

    >>> Answer("Leak: 1 anchor, 0 after Hot", {"fired": False})
    Leak: 1 anchor, 0 after Hot
    """

    text: str
    data: Mapping[str, object]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return preformatted(self.text)


def term_of(value: object, prefixes: Prefixes) -> Term:
    """The RDF term of a Python value; raises `ValueError` if there is none.

    A `str` is parsed as a term in Turtle with the prefixes, unless it is an `IRI`. A `bool`, number
    or `datetime` is a literal. Terms of pyoxigraph and rdflib are converted.

    >>> from dotr import IRI
    >>> term_of(IRI("http://e/lab"), {}), term_of(":lab", {"": "http://e/"})
    ('<http://e/lab>', '<http://e/lab>')
    >>> [term_of(value, {}).partition("^^")[0] for value in (True, 7, Decimal("1.50"), 2.5, float("-inf"), '"warm"@en')]
    ['"true"', '"7"', '"1.50"', '"2.5"', '"-INF"', '"warm"@en']
    >>> term_of("lab", {})
    Traceback (most recent call last):
    ValueError: 'lab' is no term in Turtle: write :name, or '"lab"' for a text
    """
    match value:
        case bool():
            return f'"{str(value).lower()}"^^<{XSD}boolean>'
        case int():
            return f'"{value}"^^<{XSD}integer>'
        case Decimal():
            return f'"{value:f}"^^<{XSD}decimal>'
        case float():
            text = "NaN" if isnan(value) else f"{'-' if value < 0 else ''}INF" if isinf(value) else repr(value)
            return f'"{text}"^^<{XSD}double>'
        case datetime():
            return f'"{value.isoformat()}"^^<{XSD}dateTime>'
        case _:
            return _parsed(value, prefixes)


def _parsed(value: object, prefixes: Prefixes) -> Term:
    n3 = getattr(value, "n3", None)
    text = str(n3() if callable(n3) else value)
    try:
        triples = read_graph(f"<urn:x> <urn:x> {text}\n.", prefixes, LIMITS.nesting)
    except (Misread, ValueError):
        triples = ()
    if len(triples) != 1 or triples[0][:2] != ("<urn:x>", "<urn:x>"):
        raise ValueError(f"{text!r} is no term in Turtle: write :name, or '\"{text}\"' for a text")
    return triples[0][2]
