"""Rows over generalised triples and literals by value: background, instants and windows equal the oracle on random axioms."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.triples.index import is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, Triple, is_blank, is_literal
from dotr.temporal.horizons.closure import HorizonClosure
from dotr.temporal.horizons.facts import StaticFacts
from dotr.temporal.horizons.rules import CONTRADICTION
from tests.oracle.generalised import model
from tests.support.properties import examples

PREFIXES = {"": "http://e/", "rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD}
RULES = rule_set(Entailment.OWL2RL)
EMPTY = Knowledge.load((), RULES)
TURNED = ("_:v", "_:w")
CLASSES = ("A", "B", "R", "S", "xsd:integer", "xsd:string")
NUMBERS = (("5", "integer"), ("5.0", "decimal"), ("05", "byte"), ("6", "integer"), ("5", "double"), ("x", "integer"), ("a", "token"))
LITERALS = ('"a"', *(f'"{text}"^^<{XSD}{kind}>' for text, kind in NUMBERS))
NAMES = {
    "C": CLASSES,
    "P": ("p", "q", "r", *TURNED),
    "N": ("p", "q", "r"),
    "I": ("i", "j", "k"),
    "L": LITERALS,
    "V": ("i", "j", *LITERALS),
    "0": (f'"0"^^<{XSD}nonNegativeInteger>', f'"0"^^<{XSD}integer>'),
    "1": (f'"1"^^<{XSD}nonNegativeInteger>', f'"01"^^<{XSD}int>'),
}
SHAPES = """
    A rdfs:subClassOf C | C rdfs:subClassOf B | A owl:equivalentClass C | A owl:disjointWith C | B owl:complementOf C
    P rdfs:subPropertyOf P | P owl:equivalentProperty P | P owl:inverseOf P | P owl:propertyDisjointWith P
    P rdfs:domain C | P rdfs:range C | P rdfs:range C | P a owl:SymmetricProperty | P a owl:TransitiveProperty
    P a owl:FunctionalProperty | P a owl:InverseFunctionalProperty | P a owl:AsymmetricProperty | P a owl:IrreflexiveProperty
    R owl:onProperty P ; owl:someValuesFrom C | R owl:onProperty P ; owl:allValuesFrom C | R owl:onProperty P ; owl:hasValue V
    R owl:onProperty P ; owl:someValuesFrom owl:Thing | R owl:onProperty P ; owl:maxCardinality 1
    R owl:onProperty P ; owl:maxCardinality 0
    R owl:onProperty P ; owl:maxQualifiedCardinality 1 ; owl:onClass C | R owl:onProperty P ; owl:maxQualifiedCardinality 0 ; owl:onClass C
    S owl:onProperty P ; owl:someValuesFrom C | S owl:onProperty P ; owl:allValuesFrom C | S owl:onProperty P ; owl:hasValue V
    A owl:intersectionOf ( C C ) | B owl:intersectionOf ( C C C C ) | B owl:unionOf ( C C C ) | B owl:oneOf ( V V )
    P owl:propertyChainAxiom ( P P ) | P owl:propertyChainAxiom ( P P P ) | C owl:hasKey ( P ) | C owl:hasKey ( P P )
    X a owl:AllDisjointClasses ; owl:members ( C C C ) | X a owl:AllDifferent ; owl:members ( V V V )
    X a owl:AllDisjointProperties ; owl:members ( P P )
    X owl:sourceIndividual I ; owl:assertionProperty P ; owl:targetValue L
    I owl:sameAs I | I owl:differentFrom I | I owl:sameAs L
    I a A | I a B | I a R | I N I | I N I | I N L | I N L | I N L | I N L
"""
DECLARED = (("_:v", "owl:inverseOf", "p"), ("_:w", "owl:inverseOf", "q"))


def term(word: str) -> str:
    if is_literal(word) or is_blank(word):
        return word
    prefix, _, name = ("rdf:type" if word == "a" else word).rpartition(":")
    return f"<{PREFIXES[prefix]}{name}>"


def ontology(random: Random) -> frozenset[Triple]:
    shapes = [shape.split() for line in SHAPES.strip().splitlines() for shape in line.split(" | ")]
    triples = [tuple(map(term, each)) for each in DECLARED[: random.randrange(3)]]
    for number in range(random.randrange(3, 13)):
        words = [random.choice(NAMES[word]) if word in NAMES else f"x{number}" if word == "X" else word for word in random.choice(shapes)]
        subject, words = words[0], words[1:]
        while words:
            predicate, value, words = words[0], words[1], words[2:]
            if value == "(":
                end = words.index(")")
                cells = [f"l{number}_{at}" for at in range(end)]
                for cell, member, after in zip(cells, words, [*cells[1:], "rdf:nil"], strict=False):
                    triples += [(term(cell), term("rdf:first"), term(member)), (term(cell), term("rdf:rest"), term(after))]
                value, words = cells[0], words[end + 1 :]
            triples.append((term(subject), term(predicate), term(value)))
            words = words[1:]
    return frozenset(triples)  # type: ignore[arg-type]


def plain(triples: object) -> set[Triple]:
    return {t for t in triples if not is_hidden(t[1]) and not is_literal(t[0]) and not is_blank(t[1])}  # type: ignore[attr-defined]


def differences(triples: frozenset[Triple], instant: list[Triple]) -> list[str]:
    """Differences of background, instant and window from the oracle."""
    expected, false = model("owl2rl", triples)
    background = sorted(triples - set(instant))
    found: list[str] = []

    def compare(place: str, known: set[Triple], is_false: bool) -> None:
        found.extend(
            f"{place}: {sign} {' '.join(t)}" for t in sorted(known ^ plain(expected)) for sign in "+-" if (t in known) == (sign == "+")
        )
        if is_false != false:
            found.append(f"{place}: false is {is_false}")

    for place, stated, new in (("both", background, instant), ("background", sorted(triples), []), ("instant", [], sorted(triples))):
        knowledge = Knowledge.load(stated, RULES) if stated else EMPTY
        closure = knowledge.close(new)
        compare(place, plain([*closure.background, *closure.delta]), bool(knowledge.contradictions or closure.contradictions))
    knowledge = Knowledge.load(background, RULES)
    window = HorizonClosure(RULES, StaticFacts(knowledge.background))
    window.insert_all(instant, 0, 5)
    window.advance(0)
    held = [fact for fact, _ in window.facts()]
    is_false = bool(knowledge.contradictions) or any(fact[0] == CONTRADICTION for fact in held)
    compare("window", plain([*knowledge.background, *(fact for fact in held if len(fact) == 3)]), is_false)
    return found


@examples(12)
@given(st.integers(0, 2**32))
def test_rows_over_generalised_triples_equal_the_oracle(seed: int) -> None:
    random = Random(seed)
    triples = ontology(random)
    assert not differences(triples, [each for each in sorted(triples) if random.random() < 0.5])


def test_type_is_written_once() -> None:
    assert term("a") == RDF_TYPE
