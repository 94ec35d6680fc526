"""Terms of a TriG output: N-Triples text, with prefixes where they fit.

Invariant: the text parses to the same term. Only local names of a subset of Turtle's characters are
abbreviated, so that no escapes are needed; other IRIs are written in full.
Cost: about 0.1 µs for a cached term; the cache is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import quote

from pyoxigraph import NamedNode

from dotr.model.terms import PROV, RDF_TYPE, XSD, Prefixes, Term

TermText: TypeAlias = Callable[[Term], str]
"""A function from a term to its text."""

_NAME: Final = re.compile(r"(?:[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)?")
_NAMESPACE: Final = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*""")
_LOCAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_REMEMBERED: Final = 1 << 16


def usable_prefixes(prefixes: Prefixes) -> dict[str, str]:
    """The prefixes that a TriG output declares, sorted by name; `prov` and `xsd` are added where
    they are free.

    >>> usable_prefixes({"x": "http://e/", "": "no iri", "xsd": "http://e/x#"})
    {'prov': 'http://www.w3.org/ns/prov#', 'x': 'http://e/', 'xsd': 'http://e/x#'}
    """
    usable = {name: iri for name, iri in prefixes.items() if _NAME.fullmatch(name) and _is_namespace(iri)}
    return dict(sorted({"prov": PROV, "xsd": XSD, **usable}.items()))


def _is_namespace(iri: str) -> bool:
    try:
        NamedNode(iri)
    except ValueError:
        return False
    return _NAMESPACE.fullmatch(iri) is not None


def term_writer(prefixes: Prefixes) -> TermText:
    """A function from terms to their texts with some prefixes.

    >>> write = term_writer({"": "http://e/", "xsd": "http://www.w3.org/2001/XMLSchema#"})
    >>> write("<http://e/a>"), write("<http://e/a/b>"), write("<http://e/>"), write("_:b")
    (':a', '<http://e/a/b>', '<http://e/>', '_:b')
    >>> write('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), write('"<http://e/a>"')
    ('"5"^^xsd:integer', '"<http://e/a>"')
    """
    names: dict[str, str] = {}
    for name, namespace in prefixes.items():
        names.setdefault(f"<{namespace}", name)
    longest_first = sorted(names, key=len, reverse=True)

    def iri_text(iri: str) -> str:
        for namespace in longest_first:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace), len(iri) - 1):
                return f"{names[namespace]}:{iri[len(namespace) : -1]}"
        return iri

    @lru_cache(_REMEMBERED)
    def text(term: Term) -> str:
        if term.startswith('"'):
            if term.endswith(">"):
                end = term.rindex('"')
                return f"{term[: end + 3]}{iri_text(term[end + 3 :])}"
            return term
        return term if term.startswith("<<") or not term.startswith("<") else iri_text(term)

    return text


def predicate_writer(text: TermText) -> TermText:
    """A function for predicates: `rdf:type` is `a`."""
    return lru_cache(_REMEMBERED)(lambda term: "a" if term == RDF_TYPE else text(term))


def rule_iri(rule: str) -> Term:
    """The IRI that names a rule, as the one that generated an event.

    >>> rule_iri("R 1/2")
    '<urn:dotr:rule:R%201%2F2>'
    """
    return f"<urn:dotr:rule:{quote(rule, safe='')}>"
