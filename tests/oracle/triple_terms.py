"""Triple terms (RDF 1.2) by an independent parser: pyoxigraph decomposes them and names their blank nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from pyoxigraph import RdfFormat, parse
from pyoxigraph import Triple as TripleTerm

from dotr.model.terms import Term, Triple


def is_triple_term(term: Term) -> bool:
    return term.startswith("<<(")


@lru_cache(1 << 14)
def parts(term: Term) -> Triple:
    """
    >>> parts('<<( <http://e/a> <http://e/p> "b )>>" )>>')
    ('<http://e/a>', '<http://e/p>', '"b )>>"')
    """
    (quad,) = parse(f"<urn:s> <urn:p> {term} .", RdfFormat.N_TRIPLES, lenient=True)
    assert isinstance(quad.object, TripleTerm)
    return tuple(f"<<( {part} )>>" if isinstance(part, TripleTerm) else str(part) for part in quad.object)  # type: ignore[return-value]


def whole(subject: Term, predicate: Term, value: Term) -> Term | None:
    """The triple term of three terms, if they are a triple."""
    if subject.startswith('"') or is_triple_term(subject) or not predicate.startswith("<") or is_triple_term(predicate):
        return None
    return f"<<( {subject} {predicate} {value} )>>"


def held(terms: Iterable[Term]) -> set[Term]:
    """The triple terms among the terms, and those inside of them."""
    found: set[Term] = set()
    for term in terms:
        while is_triple_term(term):
            found.add(term)
            term = parts(term)[2]
    return found


def with_names(term: Term, name: Callable[[Term], Term]) -> Term:
    """The term with renamed blank nodes, also inside."""
    if is_triple_term(term):
        subject, predicate, value = parts(term)
        subject = with_names(subject, name)
        return f"<<( {subject} {predicate} {with_names(value, name)} )>>"
    return name(term) if term.startswith("_:") else term


def anonymous(term: Term) -> Term:
    """The term with all blank nodes equal."""
    return with_names(term, lambda _: "_:")


def blanks(term: Term) -> set[Term]:
    """The blank nodes of a term."""
    found: set[Term] = set()

    def note(node: Term) -> Term:
        found.add(node)
        return node

    with_names(term, note)
    return found
