"""Generalised triples between the rows of a rule set: what follows from them is there, they themselves are in no answer."""

from __future__ import annotations

import pytest

from dotr.evaluation.joins.compile import Side, compile_join
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_TYPE, XSD, Triple, iri, is_literal
from dotr.syntax.datalog import parse_datalog
from dotr.temporal.horizons.closure import HorizonClosure
from dotr.temporal.horizons.facts import StaticFacts
from dotr.temporal.horizons.rules import CONTRADICTION
from tests.instant.datalog.test_entailment_rows import graph

RULES = rule_set(Entailment.OWL2RL)
EMPTY = Knowledge.load((), RULES)

INVERSES = {
    "domain": ("[ owl:inverseOf :feeds ] rdfs:domain :Fed . :pump :feeds :tank", ":tank a :Fed"),
    "range": ("[ owl:inverseOf :feeds ] rdfs:range :Feeder . :pump :feeds :tank", ":pump a :Feeder"),
    "a subproperty below the inverse": ("[ owl:inverseOf :feeds ] rdfs:subPropertyOf :fedBy . :pump :feeds :tank", ":tank :fedBy :pump"),
    "a functional inverse": (
        "[ owl:inverseOf :feeds ] a owl:FunctionalProperty . :pump :feeds :tank . :engine :feeds :tank",
        ":pump owl:sameAs :engine . :engine owl:sameAs :pump",
    ),
    "the inverse as the last link of a chain": (
        ":beside owl:propertyChainAxiom ( :in [ owl:inverseOf :in ] ) . :cup :in :box . :lid :in :box",
        ":cup :beside :lid, :cup . :lid :beside :cup, :lid",
    ),
    "the inverse in the middle of a chain": (
        ":r owl:propertyChainAxiom ( :a [ owl:inverseOf :b ] :c ) . :x :a :y . :z :b :y ; :c :w",
        ":x :r :w",
    ),
    "the inverse as the last link of three": (
        ":r owl:propertyChainAxiom ( :a :b [ owl:inverseOf :c ] ) . :x :a :y . :y :b :z . :w :c :z",
        ":x :r :w",
    ),
    "an equal value before an inverse": (
        ":r owl:propertyChainAxiom ( :a [ owl:inverseOf :b ] :c ) . :x :a 5.0 . :z :b 5 ; :c :w",
        ":x :r :w",
    ),
    "values inside a chain of four": (
        ":r owl:propertyChainAxiom ( :p [ owl:inverseOf :q ] :q [ owl:inverseOf :p ] ) . :x :p 5 . :y :q 5.0, 6 . :z :p 06",
        ":x :r :x, :z . :z :r :x, :z",
    ),
    "a key of two, one an inverse": (
        ":Part owl:hasKey ( :slot [ owl:inverseOf :holds ] ) . :rack :holds :p, :q . :p a :Part ; :slot :one . :q a :Part ; :slot :one",
        ":p owl:sameAs :q . :q owl:sameAs :p . :rack :holds :p",
    ),
    "an inverse of an inverse": (
        ":back owl:inverseOf [ owl:inverseOf :on ] . :R owl:onProperty :back ; owl:someValuesFrom owl:Thing . :x :on :y",
        ":x :back :y ; a :R",
    ),
    "at most one of an inverse, qualified": (
        ":One owl:onProperty [ owl:inverseOf :owns ] ; owl:maxQualifiedCardinality 1 ; owl:onClass :Firm . "
        ":car a :One . :f :owns :car . :g :owns :car . :f a :Firm . :g a :Firm",
        ":f owl:sameAs :g . :g owl:sameAs :f",
    ),
}
VALUES = {
    "someValuesFrom a datatype": (":C owl:onProperty :p ; owl:someValuesFrom xsd:short . :x :p 7 . :y :p 70000", ":x a :C"),
    "someValuesFrom a range": (":p rdfs:range :Code . :C owl:onProperty :p ; owl:someValuesFrom :Code . :x :p 'k7'", ":x a :C"),
    "an enumeration": (":E owl:oneOf ( 1 2 ) . :C owl:onProperty :p ; owl:someValuesFrom :E . :x :p '02'^^xsd:byte . :y :p 2e0", ":x a :C"),
    "hasValue": (":C owl:onProperty :p ; owl:hasValue 3.50 . :x :p 3.5 . :y :p 3.5e0", ":x a :C ; :p 3.50"),
    "a data range of two": (
        ":E owl:intersectionOf ( xsd:integer :Low ) . :p rdfs:range :Low . :C owl:onProperty :p ; owl:someValuesFrom :E . "
        ":x :p 4 . :y :p 4.5",
        ":x a :C",
    ),
    "a key": (":K owl:hasKey ( :nr ) . :a a :K ; :nr 8 . :b a :K ; :nr '8'^^xsd:long . :c a :K ; :nr 8e0", ":a owl:sameAs :b"),
    "the inverse of data": ("[ owl:inverseOf :nr ] a owl:FunctionalProperty . :a :nr 8 . :b :nr 8.0 . :c :nr 9", ":a owl:sameAs :b"),
    "a range through an inverse": (":of owl:inverseOf :nr . :of rdfs:range :Numbered . :a :nr 8", ":a a :Numbered"),
    "a datatype below a class": (
        "xsd:short rdfs:subClassOf :Small . :C owl:onProperty :p ; owl:someValuesFrom :Small . :x :p 7 ; :q 8 . :y :p 70000",
        ":x a :C",
    ),
    "a datatype of one's own below a class": (
        ":Code a rdfs:Datatype ; rdfs:subClassOf :Text . :C owl:onProperty :p ; owl:someValuesFrom :Text . :x :p 'k'^^:Code . :y :p 'k'",
        ":x a :C",
    ),
    "a cardinality as a decimal": (":R owl:onProperty :p ; owl:maxCardinality 1.0 . :x a :R ; :p :y, :z", ":y owl:sameAs :z"),
}
FALSE = {
    "dt-diff of a functional property": ("dt-diff", ":p a owl:FunctionalProperty . :x :p 1, 2"),
    "dt-diff of a cardinality": ("dt-diff", ":R owl:onProperty :p ; owl:maxCardinality 1 . :x a :R ; :p 'a', 'b'"),
    "dt-diff of sameAs": ("dt-diff", ":x owl:sameAs 1, 2"),
    "eq-ref": ("eq-diff1", ":x owl:differentFrom :x"),
    "listed twice": ("eq-diff2", "[] a owl:AllDifferent ; owl:members ( :x :y :x )"),
    "one value listed twice": ("eq-diff3", "[] a owl:AllDifferent ; owl:distinctMembers ( 1 :y 1.0 )"),
    "disjoint properties": ("prp-pdw", ":p owl:propertyDisjointWith :q . :x :p 1 ; :q 1.0"),
    "a negative assertion": ("prp-npa2", "[] owl:sourceIndividual :x ; owl:assertionProperty :p ; owl:targetValue 1 . :x :p 1.0"),
    "a complement of a datatype": ("cls-com", ":T owl:complementOf xsd:string . :p rdfs:range :T . :x :p 'a'"),
    "at most none": ("cls-maxc1", ":R owl:onProperty :p ; owl:maxCardinality 0 . :x a :R ; :p 1"),
}
CONSISTENT = {
    "one value twice": ":p a owl:FunctionalProperty . :x :p 1, 1.0, '01'^^xsd:byte",
    "an ill-formed value": ":p a owl:FunctionalProperty . :x :p 1, 'one'^^xsd:integer",
    "unknown datatypes": ":p a owl:FunctionalProperty . :x :p 'a'^^:t, 'b'^^:t",
    "out of range": ":p rdfs:range xsd:integer . :x :p 'a'",
}


def closures(triples: set[Triple]) -> list[tuple[str, set[Triple], set[str]]]:
    """The visible conclusions and contradictions of a graph as background, as instant, as a window, and of half of it in each."""
    stated = sorted(triples)
    found = []
    for place, background, instant in (("background", stated, []), ("instant", [], stated), ("both", stated[::2], stated[1::2])):
        knowledge = Knowledge.load(background, RULES)
        closure = knowledge.close(instant)
        false = {each.rule for each in (*knowledge.contradictions, *closure.contradictions)}
        found.append((place, {*closure.background, *closure.delta}, false))
        window = HorizonClosure(RULES, StaticFacts(knowledge.background))
        window.insert_all(instant, 0, 5)
        window.advance(0)
        held = [fact for fact, _ in window.facts()]
        clashes = {each.rule for each in knowledge.contradictions} | {fact[1][0] for fact in held if fact[0] == CONTRADICTION}
        found.append((f"window, {place}", {*closure.background, *(fact for fact in held if len(fact) == 3)}, clashes))
    return [(place, {t for t in known if not is_hidden(t[1])}, false) for place, known, false in found]


@pytest.mark.parametrize(("given", "expected"), [*INVERSES.values(), *VALUES.values()], ids=[*INVERSES, *VALUES])
def test_plain_conclusions_of_generalised_triples(given: str, expected: str) -> None:
    for place, known, false in closures(graph(given)):
        assert graph(expected) <= known, place
        assert not false, place
        assert all(t[0][0] in "<_" and t[1][0] == "<" for t in known), place
        assert {t for t in known if t[:2] == ("<http://e/y>", RDF_TYPE)} <= graph(f"{given} . {expected}"), place


@pytest.mark.parametrize(("row", "given"), FALSE.values(), ids=FALSE)
def test_contradictions_by_value(row: str, given: str) -> None:
    for place, _, false in closures(graph(given)):
        assert false == {row}, place


def test_a_contradiction_of_values_tells_the_axiom_that_the_background_has() -> None:
    """The inverse of `:nr` has literals as subjects, and its name is found through the background's axioms alone."""
    inverse = graph("_:v owl:inverseOf :nr ; a owl:InverseFunctionalProperty . :w :nr 3")
    (axiom,) = (each for each in inverse if each[1] == RDF_TYPE)
    knowledge = Knowledge.load(sorted(inverse), RULES)
    values = graph(":x :nr 1, 2")
    found = knowledge.close(sorted(values)).contradictions
    assert found
    assert all(None not in triple for each in found for triple in each.triples)
    assert any(axiom in each.triples for each in found if each.rule == "dt-diff")


@pytest.mark.parametrize("given", CONSISTENT.values(), ids=CONSISTENT)
def test_no_contradiction(given: str) -> None:
    for place, known, false in closures(graph(given)):
        assert not false, place
        assert known == graph(given), place


def test_no_literal_is_put_for_another() -> None:
    given = graph(":of owl:inverseOf :nr . :K owl:hasKey ( :nr ) . :a :nr 8 . :b :nr 8.0 . :c owl:sameAs 8 . :d owl:sameAs 8")
    for place, known, _ in closures(given):
        assert known == given, place


def test_the_type_of_a_literal_gives_an_equal_one_no_triples() -> None:
    given = graph(
        ":out owl:inverseOf :nr . :nr a owl:InverseFunctionalProperty . "
        ":R owl:onProperty :nr, :out ; owl:hasValue 5.0 ; owl:someValuesFrom owl:Thing . :j a :R"
    )
    for place, known, _ in closures(given):
        assert {t[2] for t in known if is_literal(t[2])} == {f'"5.0"^^<{XSD}decimal>'}, place


def test_the_canonical_form_of_a_literal_is_no_literal_of_the_data() -> None:
    given = graph(
        ":Odd owl:oneOf ( '05'^^xsd:byte '7'^^xsd:byte ) ; owl:intersectionOf ( xsd:integer :R ) . "
        ":R owl:onProperty [ owl:inverseOf :nr ] ; owl:hasValue :i"
    )
    for place, known, _ in closures(given):
        assert {t[2] for t in known if t[1] == "<http://e/nr>"} == {f'"05"^^<{XSD}byte>', f'"7"^^<{XSD}byte>'}, place


HEADED = graph(
    "[ owl:inverseOf :p ] a owl:ObjectProperty . :R owl:onProperty [ owl:inverseOf :p ] ; owl:someValuesFrom owl:Thing . :x :p :y"
)


def test_datalog_meets_no_generalised_triple() -> None:
    texts = (
        "[?p, :seen, ?y] :- [?r, owl:onProperty, ?p], [?x, ?p, ?y] .",
        "[?x, :any, ?p] :- [?x, ?p, ?y] .",
        "[?y, ?p, ?x] :- [?r, owl:onProperty, ?p], [?x, :p, ?y] .",
    )
    own = [rule for text in texts for rule in parse_datalog(Document("a.dlog", text), {"": "http://e/", "owl": OWL})]
    for background, instant in ((sorted(HEADED), []), ([], sorted(HEADED))):
        closure = Knowledge.load(background, [*own, *RULES]).close(instant)
        known = {*closure.background, *closure.delta}
        assert not {t for t in known if t[1] == "<http://e/seen>"}
        assert all(t[2][0] == "<" for t in known if t[1] == "<http://e/any>")
        assert {t for t in known if t[1][0] == "_"} == {(t[2], p, t[0]) for t in HEADED if t[1] == "<http://e/p>" for p in _blanks()}


def _blanks() -> set[str]:
    return {t[0] for t in HEADED if t[1] == iri(OWL + "inverseOf")}


def test_a_query_meets_no_generalised_triple() -> None:
    closure = EMPTY.close(sorted(HEADED))
    body = [TriplePattern(Var("r"), Const(iri(OWL + "onProperty")), Var("p")), TriplePattern(Var("x"), Var("p"), Var("y"))]
    join = compile_join(body, [], Side.BOTH, ["x", "y"])
    assert join(closure.background, closure.delta) == []
    assert all(t[1][0] == "<" for t in closure.delta.visible())


@pytest.mark.parametrize("given", [":p rdfs:range xsd:integer . :C rdfs:subClassOf :D", ":q owl:inverseOf :p . :p rdfs:domain :C"])
def test_ordinary_axioms_add_no_hidden_triple_of_data(given: str) -> None:
    knowledge = Knowledge.load(sorted(graph(given)), RULES)
    closure = knowledge.close(sorted(graph(":x :p :y . :z :r 5 . :x :t 7")))
    assert not {t for t in closure.delta if is_hidden(t[1])}


def test_index_counts_no_generalised_triple() -> None:
    index = TripleIndex([("<a>", "_:b", "<c>"), ("<a>", "<p>", "<c>")])
    assert index.visible_count() == 1
    assert list(index.match("<a>", None, None)) == [("<a>", "<p>", "<c>")]
