"""Differences between dotr's closure and owlrl's that have a known reason.

They are the rows of the table in `docs/entailment.md`, section "Against another implementation": a
test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final, NamedTuple, TypeAlias

from dotr.evaluation.expressions.values.terms import READERS, Unknown, read
from dotr.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, Term, Triple, is_blank, is_literal, literal_parts

OWLRL: Final = "owlrl"
DOTR: Final = "dotr"

GivenTerms: TypeAlias = Set[Term]
"""All terms of what is given."""


def _terms(namespace: str, names: str) -> frozenset[Term]:
    return frozenset(f"<{namespace}{name}>" for name in names.split())


SAME: Final = f"<{OWL}sameAs>"
_REFLEXIVE: Final = _terms(OWL, "sameAs equivalentClass equivalentProperty") | _terms(RDFS, "subClassOf subPropertyOf")
_RESOURCES: Final = _terms(RDFS, "Resource Literal Class member") | _terms(RDF, "Property")
_DATATYPES: Final = _terms(RDF, "langString PlainLiteral XMLLiteral HTML") | _terms(RDFS, "Literal Datatype") | _terms(OWL, "real rational")
_LISTS: Final = _terms(OWL, "AllDifferent AllDisjointProperties")
_DIFFERENT: Final = _terms(OWL, "AllDifferent differentFrom")
_SINGLE_VALUES: Final = _terms(OWL, "FunctionalProperty maxCardinality maxQualifiedCardinality")


def _never(*_: object) -> bool:
    return False


class KnownDifference(NamedTuple):
    """A row of the page.

    - `row`: the text of its first cell.
    - `by`: which of the two derives the triple, or finds the contradiction.
    - `explains`: whether the row is the reason for a triple, by the terms of what is given. What
      follows from such triples has the same reason.
    - `contradicts`: whether it may be the reason for a contradiction.
    """

    row: str
    by: str
    explains: Callable[[Triple, GivenTerms], bool] = _never
    contradicts: Callable[[GivenTerms], bool] = _never


def _is_of_datatypes(triple: Triple, _: GivenTerms) -> bool:
    about_types = any(term.startswith(f"<{XSD}") or term in _DATATYPES for term in (triple[0], triple[2]))
    return about_types or (is_literal(triple[0]) and triple[1] in (SAME, f"<{OWL}differentFrom>"))


def _is_ill_formed(term: Term) -> bool:
    return is_literal(term) and type(read(term)) is Unknown and literal_parts(term)[1] in READERS


def _is_axiomatic(triple: Triple, _: GivenTerms) -> bool:
    is_class = triple[0] in _terms(OWL, "Thing Nothing") and triple[2] == f"<{OWL}Class>"
    return triple[1] == RDF_TYPE and (is_class or triple[2] == f"<{OWL}AnnotationProperty>")


def _is_reflexive(triple: Triple, _: GivenTerms) -> bool:
    return triple[0] == triple[2] and triple[1] in _REFLEXIVE


KNOWN: Final = (
    KnownDifference("`x owl:sameAs x` for every term", OWLRL, lambda t, _: t[1] == SAME and t[0] == t[2]),
    KnownDifference(
        "types, subsumption and disjointness of datatypes; a literal of a wrong form is an inconsistency",
        OWLRL,
        _is_of_datatypes,
        lambda terms: any(map(_is_ill_formed, terms)),
    ),
    KnownDifference("`10` as integer is copied to `10` as byte, and back", OWLRL),  # the comparison is by value
    KnownDifference(
        "two different values of a functional property are no inconsistency",
        DOTR,
        contradicts=lambda terms: not _SINGLE_VALUES.isdisjoint(terms) and any(map(is_literal, terms)),
    ),
    KnownDifference("restricted datatypes (its extras)", OWLRL),  # only in its extension, which is not compared
    KnownDifference("other reflexive triples", OWLRL, _is_reflexive),
    KnownDifference("`owl:Thing` and `owl:Nothing` are classes; the annotation properties", OWLRL, _is_axiomatic),
    KnownDifference("x is no subclass of itself in a cycle of subclasses", DOTR, _is_reflexive),
    KnownDifference(
        "`rdf:Property` counts as `owl:ObjectProperty`",
        OWLRL,
        lambda t, terms: _is_reflexive(t, terms) and f"<{RDF}Property>" in terms,
    ),
    KnownDifference("the last property of a key is not compared", OWLRL, lambda t, terms: t[1] == SAME and f"<{OWL}hasKey>" in terms),
    KnownDifference(
        "the last member of `owl:AllDifferent` and `owl:AllDisjointProperties` is not compared",
        DOTR,
        contradicts=lambda terms: not _LISTS.isdisjoint(terms),
    ),
    KnownDifference(
        "a member that `owl:AllDifferent` lists twice is not compared with itself; `x owl:differentFrom x` is consistent before its eq-ref",
        DOTR,
        contradicts=lambda terms: not _DIFFERENT.isdisjoint(terms),
    ),
    KnownDifference(
        "triples with literals as subjects, and with blank nodes as predicates", OWLRL, lambda t, _: is_literal(t[0]) or is_blank(t[1])
    ),
    KnownDifference("rdfs1, rdfs4a, rdfs4b, rdfs8, rdfs12, rdfs13 under RDFS", OWLRL, lambda t, _: t[2] in _RESOURCES),
)
"""The rows in the order of the page; of several that explain a triple the first one counts."""
