"""The rows of RDFS and OWL 2 RL over generalised triples, literals by value (semantics.md, section 2), naively.

A blank node may be a predicate and a literal a subject. A variable that is bound to a literal matches every literal of its value; the first
one stays its term. Types, equality and difference of literals are tests.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.terms import (
    OWL,
    RDF_FIRST,
    RDF_NIL,
    RDF_REST,
    RDF_TYPE,
    RDFS,
    XSD,
    Term,
    Triple,
    can_be_subject,
    iri,
    is_iri,
    is_literal,
    is_triple,
    literal_parts,
)
from tests.oracle.entailment import REFLEXIVE, TABLES, patterns
from tests.oracle.values import BOUNDS, Number, value_of

FALSE_ROWS = """
?x owl:sameAs ?y . ?x owl:differentFrom ?y
?x owl:differentFrom ?x
?p a owl:IrreflexiveProperty . ?x ?p ?x
?p a owl:AsymmetricProperty . ?x ?p ?y . ?y ?p ?x
?p owl:propertyDisjointWith ?q . ?x ?p ?y . ?x ?q ?y
?n owl:sourceIndividual ?x . ?n owl:assertionProperty ?p . ?n owl:targetIndividual ?y . ?x ?p ?y
?n owl:sourceIndividual ?x . ?n owl:assertionProperty ?p . ?n owl:targetValue ?y . ?x ?p ?y
?x a owl:Nothing
?c owl:complementOf ?d . ?x a ?c . ?x a ?d
?c owl:disjointWith ?d . ?x a ?c . ?x a ?d
?x owl:maxCardinality =0 . ?x owl:onProperty ?p . ?u a ?x . ?u ?p ?y
?x owl:maxQualifiedCardinality =0 . ?x owl:onProperty ?p . ?x owl:onClass ?c . ?u a ?x . ?u ?p ?y . ?y a ?c
?x owl:maxQualifiedCardinality =0 . ?x owl:onProperty ?p . ?x owl:onClass owl:Thing . ?u a ?x . ?u ?p ?y
"""
SAME, THING = iri(OWL + "sameAs"), iri(OWL + "Thing")
FALSE = [patterns(line) for line in FALSE_ROWS.strip().splitlines()]
SUBCLASS, SUBPROPERTY = iri(RDFS + "subClassOf"), iri(RDFS + "subPropertyOf")
UNSEEN: dict[str, tuple[Term, ...]] = {"none": (), "rdfs": (), "owl2rl": (SUBCLASS, SUBPROPERTY)}
"""Predicates whose reflexive conclusions are not shown, but count for other rows."""
STRING_TYPES = {
    "string": ".*",
    "normalizedString": r"[^\t\n\r]*",
    "token": r"(\S+( \S+)*)?",
    "language": "[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*",
}


def key(term: Term) -> object:
    """A term, or the value of a literal that has one."""
    if not is_literal(term):
        return term
    text, datatype, tag = literal_parts(term)
    value = value_of(term)
    if tag:
        return ("text", text, tag)
    if datatype in {XSD + name for name in STRING_TYPES}:
        return ("text", text)
    if isinstance(value, Number):
        return ("number", value.value) if isinstance(value.value, Fraction) else (value.kind, repr(value.value))
    if isinstance(value, bool):
        return ("boolean", value)
    return term


def has_value(term: Term) -> bool:
    return key(term) != term


def is_of(term: Term, datatype: Term) -> bool:
    """True if a literal has a type of OWL 2 RL (numbers, booleans and strings)."""
    value = key(term)
    name = datatype[1:-1].removeprefix(XSD)
    if not isinstance(value, tuple):
        return False
    if datatype == iri(RDFS + "Literal"):
        return True
    if value[0] == "number":
        low, high = BOUNDS.get(name, (1, 0))
        whole = value[1].denominator == 1
        return name == "decimal" or (name in BOUNDS and whole and (low is None or value[1] >= low) and (high is None or value[1] <= high))
    if value[0] == "text":
        return len(value) == 2 and name in STRING_TYPES and re.fullmatch(STRING_TYPES[name], value[1], re.DOTALL) is not None
    return bool(name == value[0])


class Model:
    """Generalised triples, by predicate and by each end's key."""

    def __init__(self) -> None:
        self.triples: set[Triple] = set()
        self.by: dict[object, dict[Triple, None]] = defaultdict(dict)

    def add(self, triple: Triple) -> bool:
        if triple in self.triples:
            return False
        self.triples.add(triple)
        s, p, o = triple
        for place in (p, (p, 0, key(s)), (p, 2, key(o)), (0, key(s)), (2, key(o)), None):
            self.by[place][triple] = None
        return True

    def match(self, body: Sequence[TriplePattern], bound: dict[str, Term]) -> Iterator[dict[str, Term]]:
        if not body:
            yield bound
            return
        first, *rest = body
        s, p, o = (term_of(slot, bound) for slot in (first.subject, first.predicate, first.object))
        if p is not None:
            place: object = (p, 0, key(s)) if s is not None else (p, 2, key(o)) if o is not None else p
        else:
            place = (0, key(s)) if s is not None else (2, key(o)) if o is not None else None
        for triple in list(self.by.get(place, ())):
            further = dict(bound)
            for slot, term in zip((first.subject, first.predicate, first.object), triple, strict=True):
                known = term_of(slot, further)
                if known is None:
                    further[slot.name] = term  # type: ignore[union-attr]
                elif known != term and key(known) != key(term):
                    break
            else:
                yield from self.match(rest, further)


def term_of(slot: Slot, bound: dict[str, Term]) -> Term | None:
    return slot.term if isinstance(slot, Const) else bound.get(slot.name)


def model(rule_set: str, given: Iterable[Triple]) -> tuple[set[Triple], bool]:
    """All generalised triples of the rows, and whether they derive `false`."""
    known, false = Model(), False
    stated = set(given)
    for triple in stated:
        known.add(triple)
    changed = True
    while changed:
        changed = False
        found: set[Triple] = set()
        for body, heads in TABLES[rule_set]:
            is_replacing = any(p.predicate == Const(SAME) for p in body.patterns)  # type: ignore[union-attr]
            for bound in list(known.match(body.patterns, {})):  # type: ignore[arg-type]
                for head in heads:
                    s, p, o = (term_of(slot, bound) for slot in (head.subject, head.predicate, head.object))
                    if is_replacing and any(is_literal(t) for t in _changed(body.patterns, head, bound)):  # type: ignore[arg-type]
                        continue
                    assert s is not None and p is not None and o is not None  # noqa: PT018
                    found.add((s, p, o))
        if rule_set == "owl2rl":
            more, clash = with_lists(known)
            found |= more
            false = false or clash
            found |= {(s, p, s) for s, p in reflexive(known)}
            found |= {(lit, RDF_TYPE, d) for lit in literals(known) for d in datatypes(known) if is_of(lit, d)}
        for s, p, o in sorted(found):
            if is_literal(p) or is_triple(p) or is_triple(s) or (s == o and p in REFLEXIVE and p not in UNSEEN[rule_set]):
                continue
            if p == SAME and is_literal(s):
                false = false or (is_literal(o) and has_value(s) and has_value(o) and key(s) != key(o))
            else:
                changed |= known.add((s, p, o))
    if rule_set == "owl2rl":
        false = false or any(True for body in FALSE for _ in known.match(body, {}))
        values: dict[Term, set[object]] = {}
        for s, _, o in known.by.get(SAME, ()):
            if is_literal(o) and has_value(o):
                values.setdefault(s, set()).add(key(o))
        false = false or any(len(each) > 1 for each in values.values())
    return {(s, p, o) for s, p, o in known.triples if s != o or p not in UNSEEN[rule_set] or (s, p, o) in stated}, false


def reflexive(known: Model) -> set[tuple[Term, Term]]:
    """The classes and properties that are below themselves by scm-cls, scm-op and scm-dp, or axiomatic."""
    classes = {s for s, _, _ in known.by.get((RDF_TYPE, 2, iri(OWL + "Class")), ())} | {THING, iri(OWL + "Nothing")}
    kinds = [iri(OWL + name) for name in ("ObjectProperty", "DatatypeProperty")]
    properties = {s for kind in kinds for s, _, _ in known.by.get((RDF_TYPE, 2, kind), ())}
    return {(c, SUBCLASS) for c in classes} | {(p, SUBPROPERTY) for p in properties}


def entailed(rule_set: str, known: Iterable[Triple]) -> set[Triple]:
    """The RDF triples among all that the rows of a rule set derive."""
    return set() if rule_set == "none" else {t for t in model(rule_set, known)[0] if can_be_subject(t[0]) and is_iri(t[1])}


def _changed(body: Sequence[TriplePattern], head: TriplePattern, bound: dict[str, Term]) -> list[Term]:
    """The literals that eq-* would put for another, or join names by."""
    same = next(p for p in body if p.predicate == Const(SAME))
    if len(body) == 1:  # eq-sym
        return []
    if head.predicate == Const(SAME):  # eq-trans: the middle
        return [bound[same.object.name]]  # type: ignore[union-attr]
    return [bound[same.subject.name], bound[same.object.name]]  # type: ignore[union-attr]


def literals(known: Model) -> set[Term]:
    return {t for s, _, o in known.triples for t in (s, o) if is_literal(t)}


def datatypes(known: Model) -> set[Term]:
    names = {t for s, _, o in known.triples for t in (s, o)}
    return {iri(XSD + name) for name in (*BOUNDS, *STRING_TYPES, "decimal", "boolean", "double", "float")} & names


def members(node: Term, known: Model) -> list[Term] | None:
    result: list[Term] = []
    seen: set[Term] = set()
    while node != RDF_NIL:
        firsts = [o for _, _, o in known.by.get((RDF_FIRST, 0, node), ())]
        rests = [o for _, _, o in known.by.get((RDF_REST, 0, node), ())]
        if node in seen or not firsts or not rests:
            return None
        seen.add(node)
        result.append(firsts[0])
        node = rests[0]
    return result


def with_lists(known: Model) -> tuple[set[Triple], bool]:
    """The rows whose bodies hold `LIST[…]`, and whether one derives `false`."""
    found: set[Triple] = set()
    false = False
    sub = iri(RDFS + "subClassOf")

    def lists(predicate: str) -> list[tuple[Term, list[Term]]]:
        pairs = [(s, members(o, known)) for s, _, o in known.by.get(iri(OWL + predicate), ())]
        return [(s, m) for s, m in pairs if m]

    def instances(of: Term) -> list[Term]:
        return [s for s, _, _ in known.by.get((RDF_TYPE, 2, of), ())]

    def keys_of(of: Term) -> set[object]:
        return set(map(key, instances(of)))

    def pairs_of(p: Term) -> set[tuple[object, object]]:
        return {(key(s), key(o)) for s, _, o in known.by.get(p, ())}

    def typed(subject: Term, of: str) -> bool:
        return (subject, RDF_TYPE, iri(OWL + of)) in known.triples

    for p, links in lists("propertyChainAxiom"):
        rows = [(s, o) for s, _, o in known.by.get(links[0], ())]
        for link in links[1:]:
            rows = [(a, o) for a, b in rows for _, _, o in known.by.get((link, 0, key(b)), ())]
        found |= {(a, p, b) for a, b in rows}
    for c, keys in lists("hasKey"):
        of = [term for term in instances(c) if not is_literal(term)]
        values = {(x, k): {b for a, b in pairs_of(k) if a == x} for x in of for k in keys}
        found |= {(x, SAME, y) for x in of for y in of if x != y and all(values[x, k] & values[y, k] for k in keys)}
    for c, parts in lists("intersectionOf"):
        shared = set.intersection(*map(keys_of, parts))
        found |= {(y, RDF_TYPE, c) for part in parts for y in instances(part) if key(y) in shared}
        found |= {(y, RDF_TYPE, part) for y in instances(c) for part in parts}
        found |= {(c, sub, part) for part in parts}
    for c, parts in lists("unionOf"):
        found |= {(y, RDF_TYPE, c) for part in parts for y in instances(part)}
        found |= {(part, sub, c) for part in parts}
    for c, parts in lists("oneOf"):
        found |= {(part, RDF_TYPE, c) for part in parts}
    for x, parts in [*lists("members"), *lists("distinctMembers")]:
        for i, a in enumerate(parts):
            for b in parts[i + 1 :]:
                same = key(a) == key(b) or (a, SAME, b) in known.triples or (b, SAME, a) in known.triples
                false = false or (typed(x, "AllDifferent") and same)
                false = false or (typed(x, "AllDisjointClasses") and bool(keys_of(a) & keys_of(b)))
                false = false or (typed(x, "AllDisjointProperties") and bool(pairs_of(a) & pairs_of(b)))
    return found, false
