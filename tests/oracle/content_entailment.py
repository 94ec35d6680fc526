"""The triples that a graph entails, given another: V(X | Y) of continuous.md, section 5, by the premises of every conclusion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dotr.model.algebra import Bgp, Const, TriplePattern
from dotr.model.datalog import DatalogRule
from dotr.model.terms import OWL, RDF_FIRST, RDF_NIL, RDF_REST, RDF_TYPE, RDFS, Term, Triple, iri
from tests.oracle.algebra import Solution, solutions
from tests.oracle.closure import body_solutions, close, is_rdf, stratified
from tests.oracle.entailment import REFLEXIVE, TABLES, members
from tests.oracle.triple_terms import whole

Step = tuple[frozenset[Triple], Triple]
"""Premises and a conclusion."""


def entailed_given(what: Iterable[Triple], given: Iterable[Triple], rules: Sequence[DatalogRule], entailment: str) -> frozenset[Triple]:
    """V(what | given): `what`; conclusions of a rule with a premise in V; triples that the closure has only because of `what`."""
    what, given = frozenset(what), frozenset(given)
    if not rules and entailment == "none":
        return what
    known = close(given | what, rules, entailment)
    found = what | (known - close(given, rules, entailment))
    steps = [*datalog_steps(rules, given | what, entailment, known), *entailment_steps(entailment, known)]
    while True:
        more = {conclusion for premises, conclusion in steps if premises & found and conclusion in known} - found
        if not more:
            return found
        found |= more


def put_in(atom: TriplePattern, solution: Solution) -> Triple:
    s, p, o = (slot.term if isinstance(slot, Const) else solution[slot.name] for slot in (atom.subject, atom.predicate, atom.object))
    return s, p, o


def datalog_steps(rules: Sequence[DatalogRule], given: frozenset[Triple], entailment: str, known: frozenset[Triple]) -> Iterator[Step]:
    """Every application of a rule in the model. NOT and AGGREGATE are evaluated below the rule's stratum, and are no premises."""
    strata = stratified(rules)
    below = {
        level: close(given, [r for r, s in zip(rules, strata, strict=True) if s < level], entailment) if level else known
        for level in set(strata)
    }
    for rule, stratum in zip(rules, strata, strict=True):
        for solution in body_solutions(rule.body, sorted(known), sorted(below[stratum])):
            premises = frozenset(put_in(item, solution) for item in rule.body if isinstance(item, TriplePattern))
            for head in rule.head:
                if is_rdf(put_in(head, solution)):
                    yield premises, put_in(head, solution)


def entailment_steps(rule_set: str, known: frozenset[Triple]) -> Iterator[Step]:
    graph = sorted(known)
    steps: list[Step] = []
    for body, heads in TABLES[rule_set]:
        for solution in solutions(Bgp(body.patterns), graph, {}):
            premises = frozenset(put_in(item, solution) for item in body.patterns if isinstance(item, TriplePattern))
            steps += [(premises, put_in(head, solution)) for head in heads]
    if rule_set == "owl2rl":
        steps += list_steps(known)
    for premises, (s, p, o) in steps:
        if whole(s, p, o) is not None and not (s == o and p in REFLEXIVE):
            yield premises, (s, p, o)


def spine(node: Term, known: frozenset[Triple]) -> frozenset[Triple]:
    """The triples of a proper list."""
    found: set[Triple] = set()
    while node != RDF_NIL:
        first, rest = (min(o for s, p, o in known if s == node and p == q) for q in (RDF_FIRST, RDF_REST))
        found |= {(node, RDF_FIRST, first), (node, RDF_REST, rest)}
        node = rest
    return frozenset(found)


def list_steps(known: frozenset[Triple]) -> Iterator[Step]:
    """The rows whose bodies hold `LIST[…]`, with the triples of the list among the premises."""
    sub, same = iri(RDFS + "subClassOf"), iri(OWL + "sameAs")
    for c, q, node in sorted(known):
        name = q.removeprefix("<" + OWL).removesuffix(">")
        if name not in ("propertyChainAxiom", "hasKey", "intersectionOf", "unionOf", "oneOf"):
            continue
        parts = members(node, known)
        if not parts:
            continue
        axiom = frozenset({(c, q, node)}) | spine(node, known)
        match name:
            case "propertyChainAxiom":
                ways: list[tuple[Term, Term, frozenset[Triple]]] = [(s, o, axiom | {(s, p, o)}) for s, p, o in known if p == parts[0]]
                for link in parts[1:]:
                    ways = [(a, o, used | {(s, p, o)}) for a, b, used in ways for s, p, o in known if p == link and s == b]
                yield from ((used, (a, c, b)) for a, b, used in ways)
            case "hasKey":
                things = sorted(s for s, p, o in known if p == RDF_TYPE and o == c)
                for x in things:
                    for y in things:
                        uses: list[frozenset[Triple]] = [axiom | {(x, RDF_TYPE, c), (y, RDF_TYPE, c)}]
                        for key in parts:
                            values = [o for s, p, o in known if s == x and p == key and (y, key, o) in known]
                            uses = [used | {(x, key, o), (y, key, o)} for used in uses for o in values]
                        yield from ((used, (x, same, y)) for used in uses)
            case "intersectionOf":
                for y in {s for s, p, o in known if p == RDF_TYPE}:
                    types = {(y, RDF_TYPE, part) for part in parts}
                    if types <= known:
                        yield axiom | types, (y, RDF_TYPE, c)
                    if (y, RDF_TYPE, c) in known:
                        yield from ((axiom | {(y, RDF_TYPE, c)}, (y, RDF_TYPE, part)) for part in parts)
                yield from ((axiom, (c, sub, part)) for part in parts)
            case "unionOf":
                yield from ((axiom | {(s, p, o)}, (s, RDF_TYPE, c)) for s, p, o in known if p == RDF_TYPE and o in parts)
                yield from ((axiom, (part, sub, c)) for part in parts)
            case "oneOf":
                yield from ((axiom, (part, RDF_TYPE, c)) for part in parts)
