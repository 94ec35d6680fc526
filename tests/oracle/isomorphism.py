"""Graphs and events up to the names of blank nodes and of generated (`urn:dotr:`) names, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyoxigraph import BlankNode, CanonicalizationAlgorithm, Dataset, Literal, NamedNode, Quad

from dotr.model.terms import Term, Triple, Variable
from tests.oracle.triple_terms import held, is_triple_term, parts

ROW = "urn:row:"


def canonical(graph: Iterable[Triple], attributes: Mapping[Variable, Term] | None = None) -> str:
    """A text that two events share exactly if a renaming of blank and generated names makes them equal.

    A triple or a triple term becomes a node with three places, so that a generated name may be at any place; an attribute a node with two.

    >>> ring = canonical([("_:a", "<p>", "_:b"), ("_:b", "<p>", "_:a")])
    >>> ring == canonical([("_:x", "<p>", "<urn:dotr:1>"), ("<urn:dotr:1>", "<p>", "_:x")])
    True
    >>> canonical([("_:a", "<p>", "_:a")]) == canonical([("_:a", "<p>", "_:b")])
    False
    """
    dataset = Dataset()
    rows = [*sorted(set(graph)), *((f'"{name}"', term) for name, term in sorted((attributes or {}).items()))]
    for number, row in enumerate(rows):
        for place, term in enumerate(row):
            dataset.add(Quad(BlankNode(f"row{number}"), NamedNode(f"{ROW}{len(row)}-{place}"), encoded(term)))
            for whole in held([term]):
                for inner, part in enumerate(parts(whole)):
                    dataset.add(Quad(node(whole), NamedNode(f"{ROW}4-{inner}"), encoded(part)))
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return "\n".join(sorted(map(str, dataset)))


def node(term: Term) -> BlankNode:
    """The node of a triple term."""
    return BlankNode("t" + term.encode().hex())


def encoded(term: Term) -> BlankNode | Literal:
    """The encoding of a term: a blank node for a name that may be renamed, a node with parts for a triple term, else the text."""
    if is_triple_term(term):
        return node(term)
    if term.startswith("_:"):
        return BlankNode("b" + term[2:].encode().hex())
    if term.startswith("<urn:dotr:"):
        return BlankNode("g" + term[10:-1].encode().hex())
    return Literal(term)
