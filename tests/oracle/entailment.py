"""RDFS and OWL 2 RL as tables (RDF Semantics 1.1, section 9.2.1; OWL 2 Profiles, section 4.3, tables 4 to 7 and 9).

Without axiomatic and reflexive triples (semantics.md, section 2): eq-ref, prp-ap, cls-thing and cls-nothing1 are left out, and no rule
derives `x sameAs x`, `x ⊑ x` or `x ≡ x`. `generalised.py` applies them.
"""

from __future__ import annotations

from dotr.model.algebra import Bgp, Const, Slot, TriplePattern, Var
from dotr.model.terms import OWL, RDF, RDF_FIRST, RDF_NIL, RDF_REST, RDFS, Term, Triple, iri

RDFS_RULES = """
rdfs2:  ?p rdfs:domain ?c . ?x ?p ?y => ?x a ?c
rdfs3:  ?p rdfs:range ?c . ?x ?p ?y => ?y a ?c
rdfs5:  ?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?r => ?p rdfs:subPropertyOf ?r
rdfs7:  ?p rdfs:subPropertyOf ?q . ?x ?p ?y => ?x ?q ?y
rdfs9:  ?c rdfs:subClassOf ?d . ?x a ?c => ?x a ?d
rdfs11: ?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?e => ?c rdfs:subClassOf ?e
"""

OWL2RL_RULES = """
eq-sym: ?x owl:sameAs ?y => ?y owl:sameAs ?x
eq-trans: ?x owl:sameAs ?y . ?y owl:sameAs ?z => ?x owl:sameAs ?z
eq-rep-s: ?s owl:sameAs ?t . ?s ?p ?o => ?t ?p ?o
eq-rep-p: ?p owl:sameAs ?q . ?s ?p ?o => ?s ?q ?o
eq-rep-o: ?o owl:sameAs ?t . ?s ?p ?o => ?s ?p ?t
prp-dom: ?p rdfs:domain ?c . ?x ?p ?y => ?x a ?c
prp-rng: ?p rdfs:range ?c . ?x ?p ?y => ?y a ?c
prp-fp: ?p a owl:FunctionalProperty . ?x ?p ?y . ?x ?p ?z => ?y owl:sameAs ?z
prp-ifp: ?p a owl:InverseFunctionalProperty . ?x ?p ?z . ?y ?p ?z => ?x owl:sameAs ?y
prp-symp: ?p a owl:SymmetricProperty . ?x ?p ?y => ?y ?p ?x
prp-trp: ?p a owl:TransitiveProperty . ?x ?p ?y . ?y ?p ?z => ?x ?p ?z
prp-spo1: ?p rdfs:subPropertyOf ?q . ?x ?p ?y => ?x ?q ?y
prp-eqp1: ?p owl:equivalentProperty ?q . ?x ?p ?y => ?x ?q ?y
prp-eqp2: ?p owl:equivalentProperty ?q . ?x ?q ?y => ?x ?p ?y
prp-inv1: ?p owl:inverseOf ?q . ?x ?p ?y => ?y ?q ?x
prp-inv2: ?p owl:inverseOf ?q . ?x ?q ?y => ?y ?p ?x
cls-svf1: ?x owl:someValuesFrom ?y . ?x owl:onProperty ?p . ?u ?p ?v . ?v a ?y => ?u a ?x
cls-svf2: ?x owl:someValuesFrom owl:Thing . ?x owl:onProperty ?p . ?u ?p ?v => ?u a ?x
cls-avf: ?x owl:allValuesFrom ?y . ?x owl:onProperty ?p . ?u a ?x . ?u ?p ?v => ?v a ?y
cls-hv1: ?x owl:hasValue ?y . ?x owl:onProperty ?p . ?u a ?x => ?u ?p ?y
cls-hv2: ?x owl:hasValue ?y . ?x owl:onProperty ?p . ?u ?p ?y => ?u a ?x
cls-maxc2: ?x owl:maxCardinality =1 . ?x owl:onProperty ?p . ?u a ?x . ?u ?p ?y . ?u ?p ?z => ?y owl:sameAs ?z
cls-maxqc3: ?x owl:maxQualifiedCardinality =1 . ?x owl:onProperty ?p . ?x owl:onClass ?c . ?u a ?x . ?u ?p ?y .
    ?y a ?c . ?u ?p ?z . ?z a ?c
    => ?y owl:sameAs ?z
cls-maxqc4: ?x owl:maxQualifiedCardinality =1 . ?x owl:onProperty ?p . ?x owl:onClass owl:Thing . ?u a ?x .
    ?u ?p ?y . ?u ?p ?z
    => ?y owl:sameAs ?z
cax-sco: ?c rdfs:subClassOf ?d . ?x a ?c => ?x a ?d
cax-eqc1: ?c owl:equivalentClass ?d . ?x a ?c => ?x a ?d
cax-eqc2: ?c owl:equivalentClass ?d . ?x a ?d => ?x a ?c
scm-cls: ?c a owl:Class => ?c rdfs:subClassOf owl:Thing . owl:Nothing rdfs:subClassOf ?c
scm-sco: ?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?e => ?c rdfs:subClassOf ?e
scm-eqc1: ?c owl:equivalentClass ?d => ?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?c
scm-eqc2: ?c rdfs:subClassOf ?d . ?d rdfs:subClassOf ?c => ?c owl:equivalentClass ?d
scm-spo: ?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?r => ?p rdfs:subPropertyOf ?r
scm-eqp1: ?p owl:equivalentProperty ?q => ?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?p
scm-eqp2: ?p rdfs:subPropertyOf ?q . ?q rdfs:subPropertyOf ?p => ?p owl:equivalentProperty ?q
scm-dom1: ?p rdfs:domain ?c . ?c rdfs:subClassOf ?d => ?p rdfs:domain ?d
scm-dom2: ?q rdfs:domain ?c . ?p rdfs:subPropertyOf ?q => ?p rdfs:domain ?c
scm-rng1: ?p rdfs:range ?c . ?c rdfs:subClassOf ?d => ?p rdfs:range ?d
scm-rng2: ?q rdfs:range ?c . ?p rdfs:subPropertyOf ?q => ?p rdfs:range ?c
scm-hv: ?c owl:hasValue ?i . ?c owl:onProperty ?p . ?d owl:hasValue ?i .
    ?d owl:onProperty ?q . ?p rdfs:subPropertyOf ?q
    => ?c rdfs:subClassOf ?d
scm-svf1: ?c owl:someValuesFrom ?x . ?c owl:onProperty ?p . ?d owl:someValuesFrom ?y .
    ?d owl:onProperty ?p . ?x rdfs:subClassOf ?y
    => ?c rdfs:subClassOf ?d
scm-svf2: ?c owl:someValuesFrom ?y . ?c owl:onProperty ?p . ?d owl:someValuesFrom ?y .
    ?d owl:onProperty ?q . ?p rdfs:subPropertyOf ?q
    => ?c rdfs:subClassOf ?d
scm-avf1: ?c owl:allValuesFrom ?x . ?c owl:onProperty ?p . ?d owl:allValuesFrom ?y .
    ?d owl:onProperty ?p . ?x rdfs:subClassOf ?y
    => ?c rdfs:subClassOf ?d
scm-avf2: ?c owl:allValuesFrom ?y . ?c owl:onProperty ?p . ?d owl:allValuesFrom ?y .
    ?d owl:onProperty ?q . ?p rdfs:subPropertyOf ?q
    => ?d rdfs:subClassOf ?c
"""


def slot(word: str) -> Slot:
    if word.startswith("?"):
        return Var(word[1:])
    if word[0] == "=":
        return Const(f'"{word[1:]}"^^<http://www.w3.org/2001/XMLSchema#nonNegativeInteger>')
    prefix, _, name = "rdf:type".partition(":") if word == "a" else word.partition(":")
    return Const(iri({"rdf": RDF, "rdfs": RDFS, "owl": OWL}[prefix] + name))


def patterns(text: str) -> tuple[TriplePattern, ...]:
    return tuple(TriplePattern(slot(s), slot(p), slot(o)) for s, p, o in (part.split() for part in text.split(" . ")))


def table(text: str) -> list[tuple[Bgp, tuple[TriplePattern, ...]]]:
    rows = []
    for row in text.strip().replace("\n    ", " ").splitlines():
        body, _, head = row.partition(": ")[2].strip().partition(" => ")
        rows.append((Bgp(patterns(body)), patterns(head)))
    return rows


REFLEXIVE = {
    iri(OWL + "sameAs"),
    iri(RDFS + "subClassOf"),
    iri(RDFS + "subPropertyOf"),
    iri(OWL + "equivalentClass"),
    iri(OWL + "equivalentProperty"),
}

TABLES = {"none": [], "rdfs": table(RDFS_RULES), "owl2rl": table(OWL2RL_RULES)}


def members(node: Term, known: frozenset[Triple]) -> list[Term] | None:
    """The members of an RDF list, None if it is not a well-formed list."""
    result: list[Term] = []
    seen: set[Term] = set()
    while node != RDF_NIL:
        firsts = sorted(o for s, p, o in known if s == node and p == RDF_FIRST)
        rests = sorted(o for s, p, o in known if s == node and p == RDF_REST)
        if node in seen or not firsts or not rests:
            return None
        seen.add(node)
        result.append(firsts[0])
        node = rests[0]
    return result
