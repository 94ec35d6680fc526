"""Rows of the W3C tables, one test for each: all premises, in background or instant, are sufficient
and necessary.
"""

from __future__ import annotations

from functools import cache

import pytest
from pyoxigraph import RdfFormat
from pyoxigraph import parse as parse_rdf

from dotr.evaluation.triples.index import is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.datalog import DatalogRule
from dotr.model.terms import OWL, RDF, RDFS, XSD, Triple

PROLOGUE = f"@prefix : <http://e/> . @prefix rdf: <{RDF}> . @prefix rdfs: <{RDFS}> . @prefix owl: <{OWL}> . @prefix xsd: <{XSD}> ."
AUXILIARY = ("list-", "reflexive", "literals")


def graph(turtle: str) -> set[Triple]:
    return {(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in parse_rdf(f"{PROLOGUE} {turtle} .", RdfFormat.TURTLE)}


def split(triples: set[Triple]) -> list[tuple[set[Triple], set[Triple]]]:
    """Divisions of triples into (background, instant): all triples on one side; and each (of many, about eight) alone on one side."""
    alone = [(triples - {t}, {t}) for t in sorted(triples)[:: max(1, len(triples) // 8)]]
    return [(triples, set()), (set(), triples), *alone, *((b, a) for a, b in alone)]


def closed(background: set[Triple], instant: set[Triple], rules: tuple[DatalogRule, ...]) -> tuple[set[Triple], set[str]]:
    """The closure, and the names of the rows that derive `false`."""
    knowledge = Knowledge.load(background, rules)
    closure = knowledge.close(instant)
    empty = knowledge.close(set())
    assert not empty.delta.triples, "an instant leaves triples behind"
    assert not empty.contradictions
    known = {*closure.background, *closure.delta}
    contradictions = {c.rule for c in (*knowledge.contradictions, *closure.contradictions)}
    return {t for t in known if not is_hidden(t[1])}, contradictions


def row(name: str, entailment: Entailment = Entailment.OWL2RL) -> tuple[DatalogRule, ...]:
    rules = tuple(rule for rule in rule_set(entailment) if rule.name == name)
    assert rules, f"no row {name}"
    auxiliary = tuple(rule for rule in rule_set(entailment) if rule.name.startswith(AUXILIARY))
    return rules + auxiliary


@cache
def whole(entailment: Entailment) -> Knowledge:
    """A rule set over an empty background, compiled once."""
    return Knowledge.load((), rule_set(entailment))


def concludes(name: str, premises: str, conclusions: str, entailment: Entailment = Entailment.OWL2RL) -> None:
    rules, given, expected = row(name, entailment), graph(premises), graph(conclusions)
    for background, instant in split(given):
        known, contradictions = closed(background, instant, rules)
        assert known == given | expected
        assert not contradictions
    for missing in sorted(given):
        known, _ = closed(set(), given - {missing}, rules)
        assert not expected <= known, f"follows without {missing}"
    # With all rows and an empty background: at each such instant, and not at an empty one.
    for _ in range(2):
        assert given | expected <= set(whole(entailment).close(given).delta)
        assert not whole(entailment).close(()).delta.triples


def contradicts(name: str, premises: str) -> None:
    rules, given = row(name), graph(premises)
    assert all(rule.head == () for rule in rules if rule.name == name)
    for background, instant in split(given):
        known, contradictions = closed(background, instant, rules)
        assert known == given
        assert contradictions == {name}
    for missing in sorted(given):
        assert closed(set(), given - {missing}, rules)[1] == set(), f"follows without {missing}"
    for _ in range(2):
        assert name in {c.rule for c in whole(Entailment.OWL2RL).close(given).contradictions}
        assert not whole(Entailment.OWL2RL).close(()).contradictions


def concludes_nothing(name: str, premises: str) -> None:
    rules, given = row(name), graph(premises)
    for background, instant in split(given):
        assert closed(background, instant, rules) == (given, set())


# --- RDFS ---


def test_rdfs2() -> None:
    concludes("rdfs2", ":p rdfs:domain :C . :x :p :y", ":x a :C", Entailment.RDFS)


def test_rdfs3() -> None:
    concludes("rdfs3", ":p rdfs:range :C . :x :p :y", ":y a :C", Entailment.RDFS)


def test_rdfs5() -> None:
    concludes("rdfs5", ":p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :r", ":p rdfs:subPropertyOf :r", Entailment.RDFS)


def test_rdfs7() -> None:
    concludes("rdfs7", ":p rdfs:subPropertyOf :q . :x :p 5", ":x :q 5", Entailment.RDFS)


def test_rdfs9() -> None:
    concludes("rdfs9", ":C rdfs:subClassOf :D . :x a :C", ":x a :D", Entailment.RDFS)


def test_rdfs11() -> None:
    concludes("rdfs11", ":C rdfs:subClassOf :D . :D rdfs:subClassOf :E", ":C rdfs:subClassOf :E", Entailment.RDFS)


@pytest.mark.parametrize("entailment", [Entailment.RDFS, Entailment.OWL2RL])
def test_cycle_derives_no_reflexive_triples(entailment: Entailment) -> None:
    given = graph(":C rdfs:subClassOf :D . :D rdfs:subClassOf :C . :p rdfs:subPropertyOf :q . :q rdfs:subPropertyOf :p")
    for background, instant in split(given):
        known, _ = closed(background, instant, rule_set(entailment))
        assert given <= known
        assert not {t for t in known if t[0] == t[2]}


def test_loaded_reflexive_triple_is_kept() -> None:
    given = graph(":C rdfs:subClassOf :C")
    assert closed(given, set(), rule_set(Entailment.RDFS))[0] == given
    assert closed(set(), given, rule_set(Entailment.RDFS))[0] == given


# --- table 4 ---


def test_eq_sym() -> None:
    concludes("eq-sym", ":x owl:sameAs :y", ":y owl:sameAs :x")


def test_eq_trans() -> None:
    concludes("eq-trans", ":x owl:sameAs :y . :y owl:sameAs :z", ":x owl:sameAs :z")


def test_eq_rep_s() -> None:
    concludes("eq-rep-s", ":s owl:sameAs :s2 . :s :p 5", ":s2 :p 5")


def test_eq_rep_p() -> None:
    concludes("eq-rep-p", ":p owl:sameAs :p2 . :s :p :o", ":s :p2 :o")


def test_eq_rep_o() -> None:
    concludes("eq-rep-o", ":o owl:sameAs :o2 . :s :p :o", ":s :p :o2")


def test_eq_diff1() -> None:
    contradicts("eq-diff1", ":x owl:sameAs :y . :x owl:differentFrom :y")


def test_eq_diff2() -> None:
    contradicts(
        "eq-diff2",
        "_:a a owl:AllDifferent ; owl:members _:1 . _:1 rdf:first :x ; rdf:rest _:2 . _:2 rdf:first :y ; rdf:rest () . :x owl:sameAs :y",
    )
    contradicts("eq-diff2", "_:a a owl:AllDifferent ; owl:members ( :u :x :v :y ) . :y owl:sameAs :x")


def test_eq_diff3() -> None:
    contradicts("eq-diff3", "_:a a owl:AllDifferent ; owl:distinctMembers ( :x :y ) . :x owl:sameAs :y")
    contradicts("eq-diff3", "_:a a owl:AllDifferent ; owl:distinctMembers ( :x :u :y ) . :y owl:sameAs :x")


# --- table 5 ---


def test_prp_dom() -> None:
    concludes("prp-dom", ":p rdfs:domain :C . :x :p 5", ":x a :C")


def test_prp_rng() -> None:
    concludes("prp-rng", ":p rdfs:range :C . :x :p :y", ":y a :C")


def test_prp_fp() -> None:
    concludes("prp-fp", ":p a owl:FunctionalProperty . :x :p :y1 , :y2", ":y1 owl:sameAs :y2 . :y2 owl:sameAs :y1")


def test_prp_ifp() -> None:
    concludes("prp-ifp", ":p a owl:InverseFunctionalProperty . :x1 :p 5 . :x2 :p 5", ":x1 owl:sameAs :x2 . :x2 owl:sameAs :x1")


def test_prp_irp() -> None:
    contradicts("prp-irp", ":p a owl:IrreflexiveProperty . :x :p :x")
    concludes_nothing("prp-irp", ":p a owl:IrreflexiveProperty . :x :p :y")


def test_prp_symp() -> None:
    concludes("prp-symp", ":p a owl:SymmetricProperty . :x :p :y", ":y :p :x")


def test_prp_asyp() -> None:
    contradicts("prp-asyp", ":p a owl:AsymmetricProperty . :x :p :y . :y :p :x")
    contradicts("prp-asyp", ":p a owl:AsymmetricProperty . :x :p :x")


def test_prp_trp() -> None:
    concludes("prp-trp", ":p a owl:TransitiveProperty . :x :p :y . :y :p :z", ":x :p :z")
    concludes("prp-trp", ":p a owl:TransitiveProperty . :x :p :y . :y :p :x", ":x :p :x . :y :p :y")


def test_prp_spo1() -> None:
    concludes("prp-spo1", ":p1 rdfs:subPropertyOf :p2 . :x :p1 :y", ":x :p2 :y")
    concludes("prp-spo1", ":p1 rdfs:subPropertyOf owl:sameAs . :x :p1 :y", ":x owl:sameAs :y")
    concludes_nothing("prp-spo1", ":p1 rdfs:subPropertyOf owl:sameAs . :x :p1 :x")


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_prp_spo2(length: int) -> None:
    names = [f":p{i}" for i in range(1, length + 1)]
    steps = " . ".join(f":u{i} :p{i} :u{i + 1}" for i in range(1, length + 1))
    concludes("prp-spo2", f":p owl:propertyChainAxiom ({' '.join(names)}) . {steps}", f":u1 :p :u{length + 1}")


def test_prp_spo2_of_one_property() -> None:
    concludes("prp-spo2", ":p owl:propertyChainAxiom (:q :q :q) . :a :q :b . :b :q :c . :c :q :d", ":a :p :d")


def test_prp_spo2_chains_with_one_rest() -> None:
    given = ":p owl:propertyChainAxiom (:q :r :s) . :p2 owl:propertyChainAxiom (:q2 :r :s) . :a :q :b . :a2 :q2 :b . :b :r :c . :c :s 5"
    assert graph(":a :p 5 . :a2 :p2 5") <= closed(set(), graph(given), row("prp-spo2"))[0]


def test_prp_eqp1() -> None:
    concludes("prp-eqp1", ":p1 owl:equivalentProperty :p2 . :x :p1 :y", ":x :p2 :y")


def test_prp_eqp2() -> None:
    concludes("prp-eqp2", ":p1 owl:equivalentProperty :p2 . :x :p2 :y", ":x :p1 :y")


def test_prp_pdw() -> None:
    contradicts("prp-pdw", ":p1 owl:propertyDisjointWith :p2 . :x :p1 :y ; :p2 :y")


def test_prp_adp() -> None:
    contradicts("prp-adp", "_:a a owl:AllDisjointProperties ; owl:members (:p1 :p2 :p3) . :x :p1 :y ; :p3 :y")
    concludes_nothing("prp-adp", "_:a a owl:AllDisjointProperties ; owl:members (:p1 :p2 :p3) . :x :p1 :y ; :p3 :z")


def test_prp_inv1() -> None:
    concludes("prp-inv1", ":p1 owl:inverseOf :p2 . :x :p1 :y", ":y :p2 :x")


def test_prp_inv2() -> None:
    concludes("prp-inv2", ":p1 owl:inverseOf :p2 . :x :p2 :y", ":y :p1 :x")


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_prp_key(length: int) -> None:
    names = " ".join(f":p{i}" for i in range(length))
    values = " . ".join(f":x :p{i} {i} . :y :p{i} {i}" for i in range(length))
    concludes("prp-key", f":C owl:hasKey ({names}) . :x a :C . :y a :C . {values}", ":x owl:sameAs :y . :y owl:sameAs :x")


def test_prp_npa1() -> None:
    contradicts("prp-npa1", "_:n owl:sourceIndividual :i1 ; owl:assertionProperty :p ; owl:targetIndividual :i2 . :i1 :p :i2")


def test_prp_npa2() -> None:
    contradicts("prp-npa2", "_:n owl:sourceIndividual :i ; owl:assertionProperty :p ; owl:targetValue 5 . :i :p 5")


# --- table 6 ---


def test_cls_nothing2() -> None:
    contradicts("cls-nothing2", ":x a owl:Nothing")


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6])
def test_cls_int1(length: int) -> None:
    names = [f":C{i}" for i in range(length)]
    concludes("cls-int1", f":C owl:intersectionOf ({' '.join(names)}) . :y a {', '.join(names)}", ":y a :C")


def test_cls_int2() -> None:
    concludes("cls-int2", ":C owl:intersectionOf (:C1 :C2 :C3) . :y a :C", ":y a :C1 , :C2 , :C3")


@pytest.mark.parametrize("member", [":C1", ":C2", ":C3"])
def test_cls_uni(member: str) -> None:
    concludes("cls-uni", f":C owl:unionOf (:C1 :C2 :C3) . :y a {member}", ":y a :C")


def test_cls_com() -> None:
    contradicts("cls-com", ":C1 owl:complementOf :C2 . :x a :C1 , :C2")


def test_cls_svf1() -> None:
    concludes("cls-svf1", ":R owl:someValuesFrom :C ; owl:onProperty :p . :u :p :v . :v a :C", ":u a :R")


def test_cls_svf2() -> None:
    concludes("cls-svf2", ":R owl:someValuesFrom owl:Thing ; owl:onProperty :p . :u :p 5", ":u a :R")


def test_cls_avf() -> None:
    concludes("cls-avf", ":R owl:allValuesFrom :C ; owl:onProperty :p . :u a :R . :u :p :v", ":v a :C")


def test_cls_hv1() -> None:
    concludes("cls-hv1", ":R owl:hasValue 5 ; owl:onProperty :p . :u a :R", ":u :p 5")


def test_cls_hv2() -> None:
    concludes("cls-hv2", ":R owl:hasValue 5 ; owl:onProperty :p . :u :p 5", ":u a :R")


def test_cls_maxc1() -> None:
    contradicts("cls-maxc1", ':R owl:maxCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p . :u a :R ; :p 5')


def test_cls_maxc2() -> None:
    concludes(
        "cls-maxc2",
        ':R owl:maxCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :p . :u a :R ; :p :y1 , :y2',
        ":y1 owl:sameAs :y2 . :y2 owl:sameAs :y1",
    )


def test_cls_maxqc1() -> None:
    contradicts(
        "cls-maxqc1",
        ':R owl:maxQualifiedCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p ; owl:onClass :C . :u a :R ; :p :y . :y a :C',
    )


def test_cls_maxqc2() -> None:
    contradicts(
        "cls-maxqc2",
        ':R owl:maxQualifiedCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p ; owl:onClass owl:Thing . :u a :R ; :p :y',
    )


def test_cls_maxqc3() -> None:
    concludes(
        "cls-maxqc3",
        ':R owl:maxQualifiedCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :p ; owl:onClass :C . '
        ":u a :R ; :p :y1 , :y2 . :y1 a :C . :y2 a :C",
        ":y1 owl:sameAs :y2 . :y2 owl:sameAs :y1",
    )


def test_cls_maxqc4() -> None:
    concludes(
        "cls-maxqc4",
        ':R owl:maxQualifiedCardinality "1"^^xsd:nonNegativeInteger ; owl:onProperty :p ; owl:onClass owl:Thing . :u a :R ; :p :y1 , :y2',
        ":y1 owl:sameAs :y2 . :y2 owl:sameAs :y1",
    )


def test_cls_oo() -> None:
    concludes("cls-oo", ":C owl:oneOf (:y1 :y2 :y3)", ":y1 a :C . :y2 a :C . :y3 a :C")


# --- table 7 ---


def test_cax_sco() -> None:
    concludes("cax-sco", ":C1 rdfs:subClassOf :C2 . :x a :C1", ":x a :C2")


def test_cax_eqc1() -> None:
    concludes("cax-eqc1", ":C1 owl:equivalentClass :C2 . :x a :C1", ":x a :C2")


def test_cax_eqc2() -> None:
    concludes("cax-eqc2", ":C1 owl:equivalentClass :C2 . :x a :C2", ":x a :C1")


def test_cax_dw() -> None:
    contradicts("cax-dw", ":C1 owl:disjointWith :C2 . :x a :C1 , :C2")


def test_cax_adc() -> None:
    contradicts("cax-adc", "_:a a owl:AllDisjointClasses ; owl:members (:C1 :C2 :C3) . :x a :C1 , :C3")
    concludes_nothing("cax-adc", "_:a a owl:AllDisjointClasses ; owl:members (:C1 :C2 :C3) . :x a :C1 . :y a :C2 , :C4")


# --- table 9 ---


def test_scm_cls() -> None:
    concludes("scm-cls", ":C a owl:Class", ":C rdfs:subClassOf owl:Thing . owl:Nothing rdfs:subClassOf :C")


def test_scm_sco() -> None:
    concludes("scm-sco", ":C1 rdfs:subClassOf :C2 . :C2 rdfs:subClassOf :C3", ":C1 rdfs:subClassOf :C3")


def test_scm_eqc1() -> None:
    concludes("scm-eqc1", ":C1 owl:equivalentClass :C2", ":C1 rdfs:subClassOf :C2 . :C2 rdfs:subClassOf :C1")


def test_scm_eqc2() -> None:
    both = ":C1 owl:equivalentClass :C2 . :C2 owl:equivalentClass :C1"
    concludes("scm-eqc2", ":C1 rdfs:subClassOf :C2 . :C2 rdfs:subClassOf :C1", both)


def test_scm_op() -> None:
    assert not [rule for rule in rule_set(Entailment.OWL2RL) if rule.name == "scm-op"]


def test_scm_dp() -> None:
    assert not [rule for rule in rule_set(Entailment.OWL2RL) if rule.name == "scm-dp"]


def test_scm_spo() -> None:
    concludes("scm-spo", ":p1 rdfs:subPropertyOf :p2 . :p2 rdfs:subPropertyOf :p3", ":p1 rdfs:subPropertyOf :p3")


def test_scm_eqp1() -> None:
    concludes("scm-eqp1", ":p1 owl:equivalentProperty :p2", ":p1 rdfs:subPropertyOf :p2 . :p2 rdfs:subPropertyOf :p1")


def test_scm_eqp2() -> None:
    both = ":p1 owl:equivalentProperty :p2 . :p2 owl:equivalentProperty :p1"
    concludes("scm-eqp2", ":p1 rdfs:subPropertyOf :p2 . :p2 rdfs:subPropertyOf :p1", both)


def test_scm_dom1() -> None:
    concludes("scm-dom1", ":p rdfs:domain :C1 . :C1 rdfs:subClassOf :C2", ":p rdfs:domain :C2")


def test_scm_dom2() -> None:
    concludes("scm-dom2", ":p2 rdfs:domain :C . :p1 rdfs:subPropertyOf :p2", ":p1 rdfs:domain :C")


def test_scm_rng1() -> None:
    concludes("scm-rng1", ":p rdfs:range :C1 . :C1 rdfs:subClassOf :C2", ":p rdfs:range :C2")


def test_scm_rng2() -> None:
    concludes("scm-rng2", ":p2 rdfs:range :C . :p1 rdfs:subPropertyOf :p2", ":p1 rdfs:range :C")


def test_scm_hv() -> None:
    restrictions = ":R1 owl:hasValue 5 ; owl:onProperty :p1 . :R2 owl:hasValue 5 ; owl:onProperty :p2 ."
    concludes("scm-hv", f"{restrictions} :p1 rdfs:subPropertyOf :p2", ":R1 rdfs:subClassOf :R2")
    same = ":R1 owl:hasValue 5 ; owl:onProperty :p . :R2 owl:hasValue 5 ; owl:onProperty :p ."
    concludes("scm-hv", f"{same} :p a owl:DatatypeProperty", ":R1 rdfs:subClassOf :R2 . :R2 rdfs:subClassOf :R1")


def test_scm_svf1() -> None:
    restrictions = ":R1 owl:someValuesFrom :C1 ; owl:onProperty :p . :R2 owl:someValuesFrom :C2 ; owl:onProperty :p ."
    concludes("scm-svf1", f"{restrictions} :C1 rdfs:subClassOf :C2", ":R1 rdfs:subClassOf :R2")
    same = ":R1 owl:someValuesFrom :C ; owl:onProperty :p . :R2 owl:someValuesFrom :C ; owl:onProperty :p ."
    concludes("scm-svf1", f"{same} :C a owl:Class", ":R1 rdfs:subClassOf :R2 . :R2 rdfs:subClassOf :R1")


@pytest.mark.parametrize(
    "premises",
    [
        ":C a owl:Class",
        ":C owl:equivalentClass :C",
        ":C owl:intersectionOf (:D :C)",
        ":C owl:unionOf (:C :D)",
        ":C owl:someValuesFrom owl:Thing ; owl:onProperty :q",
        ":C owl:allValuesFrom :D ; owl:onProperty :q . :D a owl:Class",
        ":C owl:hasValue :v ; owl:onProperty :q . :q owl:equivalentProperty :q",
        ":C owl:someValuesFrom :D ; owl:onProperty :q . :q a owl:ObjectProperty",
        ":C owl:allValuesFrom :D ; owl:onProperty :q . :q a owl:DatatypeProperty",
    ],
)
def test_class_is_its_own_subclass_for_other_rows(premises: str) -> None:
    """`:C rdfs:subClassOf :C` is not shown, but what scm-svf1 concludes from it."""
    same = ":R1 owl:someValuesFrom :C ; owl:onProperty :p . :R2 owl:someValuesFrom :C ; owl:onProperty :p ."
    shown = set(whole(Entailment.OWL2RL).close(graph(f"{same} {premises}")).delta)
    assert graph(":R1 rdfs:subClassOf :R2 . :R2 rdfs:subClassOf :R1") <= shown
    assert not graph(":C rdfs:subClassOf :C") & shown


def test_scm_svf2() -> None:
    restrictions = ":R1 owl:someValuesFrom :C ; owl:onProperty :p1 . :R2 owl:someValuesFrom :C ; owl:onProperty :p2 ."
    concludes("scm-svf2", f"{restrictions} :p1 rdfs:subPropertyOf :p2", ":R1 rdfs:subClassOf :R2")
    same = ":R1 owl:someValuesFrom :C ; owl:onProperty :p . :R2 owl:someValuesFrom :C ; owl:onProperty :p ."
    concludes("scm-svf2", f"{same} :p a owl:ObjectProperty", ":R1 rdfs:subClassOf :R2 . :R2 rdfs:subClassOf :R1")


def test_scm_avf1() -> None:
    restrictions = ":R1 owl:allValuesFrom :C1 ; owl:onProperty :p . :R2 owl:allValuesFrom :C2 ; owl:onProperty :p ."
    concludes("scm-avf1", f"{restrictions} :C1 rdfs:subClassOf :C2", ":R1 rdfs:subClassOf :R2")
    same = ":R1 owl:allValuesFrom :C ; owl:onProperty :p . :R2 owl:allValuesFrom :C ; owl:onProperty :p ."
    concludes("scm-avf1", f"{same} :C a owl:Class", ":R1 rdfs:subClassOf :R2 . :R2 rdfs:subClassOf :R1")


def test_scm_avf2() -> None:
    restrictions = ":R1 owl:allValuesFrom :C ; owl:onProperty :p1 . :R2 owl:allValuesFrom :C ; owl:onProperty :p2 ."
    concludes("scm-avf2", f"{restrictions} :p1 rdfs:subPropertyOf :p2", ":R2 rdfs:subClassOf :R1")
    same = ":R1 owl:allValuesFrom :C ; owl:onProperty :p . :R2 owl:allValuesFrom :C ; owl:onProperty :p ."
    concludes("scm-avf2", f"{same} :p a owl:ObjectProperty", ":R1 rdfs:subClassOf :R2 . :R2 rdfs:subClassOf :R1")


def test_scm_int() -> None:
    concludes("scm-int", ":C owl:intersectionOf (:C1 :C2 :C3)", ":C rdfs:subClassOf :C1 , :C2 , :C3")


def test_scm_uni() -> None:
    concludes("scm-uni", ":C owl:unionOf (:C1 :C2 :C3)", ":C1 rdfs:subClassOf :C . :C2 rdfs:subClassOf :C . :C3 rdfs:subClassOf :C")


# --- malformed lists ---


def test_list_without_end_derives_nothing() -> None:
    for name, of, typed in (
        ("cls-uni", "unionOf", ":C2"),
        ("cls-int2", "intersectionOf", ":C"),
        ("cls-int1", "intersectionOf", ":C1 , :C2"),
    ):
        concludes_nothing(name, f":C owl:{of} _:1 . _:1 rdf:first :C1 ; rdf:rest _:2 . _:2 rdf:first :C2 ; rdf:rest _:3 . :y a {typed}")


def test_cyclic_list_terminates() -> None:
    bite = "_:1 rdf:first :q ; rdf:rest _:1"
    for name, of in (("prp-spo2", "propertyChainAxiom"), ("prp-key", "hasKey"), ("cls-int1", "intersectionOf"), ("cls-uni", "unionOf")):
        concludes_nothing(name, f":p owl:{of} _:1 . {bite} . :a :s :b")


@pytest.mark.parametrize("predicate", ["propertyChainAxiom", "hasKey", "intersectionOf"])
def test_list_with_two_rests_terminates(predicate: str) -> None:
    rules = rule_set(Entailment.OWL2RL)
    given = graph(f":p owl:{predicate} _:1 . _:1 rdf:first :q ; rdf:rest _:1 , () . :a :q :b . :b :q :c . :c :q :d")
    knowledge = Knowledge.load(set(), rules)
    assert len(list(knowledge.close(given).delta)) < 200


def test_every_row_has_a_test() -> None:
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    rows = {rule.name for entailment in Entailment for kept in (False, True) for rule in rule_set(entailment, axiomatic=kept)}
    assert {name for name in rows if not name.startswith(AUXILIARY)} <= tested


# --- axiomatic: true ---


def axiomatic(name: str, entailment: Entailment) -> set[Triple]:
    """The triples that the rules of an axiomatic row derive from nothing."""
    rules = tuple(rule for rule in rule_set(entailment, axiomatic=True) if rule.name == name)
    assert rules, f"no row {name}"
    assert all(rule.name != name for rule in rule_set(entailment))
    return closed(set(), set(), rules)[0]


def test_rdf_axioms() -> None:
    properties = ("rdf:type", "rdf:subject", "rdf:predicate", "rdf:object", "rdf:first", "rdf:rest", "rdf:value")
    expected = graph(" . ".join(f"{name} a rdf:Property" for name in properties) + " . rdf:nil a rdf:List")
    assert axiomatic("rdf-axioms", Entailment.RDFS) == expected


def test_rdfs_axioms() -> None:
    found = axiomatic("rdfs-axioms", Entailment.RDFS)
    assert len(found) == 16 + 16 + 6  # domains, ranges, and the rest, as section 9 of RDF 1.1 Semantics lists them
    assert graph("rdfs:range rdfs:domain rdf:Property . rdf:type rdfs:range rdfs:Class . rdf:Alt rdfs:subClassOf rdfs:Container") <= found
    assert graph("rdfs:isDefinedBy rdfs:subPropertyOf rdfs:seeAlso . rdfs:Datatype rdfs:subClassOf rdfs:Class") <= found


def reflexive_row(name: str, premise: str, conclusion: str) -> None:
    rules = tuple(rule for rule in rule_set(Entailment.RDFS, axiomatic=True) if rule.name == name)
    for background, instant in split(graph(premise)):
        assert closed(background, instant, rules)[0] == graph(premise) | graph(conclusion)
    assert not [rule for rule in rule_set(Entailment.RDFS) if rule.name == name]


def test_rdfs6() -> None:
    reflexive_row("rdfs6", ":p a rdf:Property", ":p rdfs:subPropertyOf :p")


def test_rdfs10() -> None:
    reflexive_row("rdfs10", ":C a rdfs:Class", ":C rdfs:subClassOf :C")


def by_value(premises: str) -> tuple[set[Triple], set[str]]:
    """Conclusions of the whole rule set from some premises, and the rows that derive `false`."""
    given = graph(premises)
    closure = whole(Entailment.OWL2RL).close(given)
    return {t for t in closure.delta if not is_hidden(t[1])} - given, {each.rule for each in closure.contradictions}


def test_dt_type2() -> None:
    given = ":C owl:onProperty :p ; owl:someValuesFrom {} . :x :p 300"
    assert by_value(given.format("xsd:decimal")) == (graph(":x a :C"), set())
    assert by_value(given.format("xsd:byte")) == (set(), set())


def test_dt_eq() -> None:
    given = ":C owl:onProperty :p ; owl:hasValue 7 . :x :p {}"
    assert by_value(given.format("'07'^^xsd:long")) == (graph(":x a :C ; :p 7"), set())
    assert by_value(given.format("7e0")) == (set(), set())


def test_dt_diff() -> None:
    given = ":p a owl:FunctionalProperty . :x :p 7, {}"
    assert by_value(given.format("8")) == (set(), {"dt-diff"})
    assert by_value(given.format("7.0")) == (set(), set())


def test_prp_ap() -> None:
    names = "rdfs:label rdfs:comment rdfs:seeAlso rdfs:isDefinedBy owl:deprecated owl:versionInfo owl:priorVersion"
    names += " owl:backwardCompatibleWith owl:incompatibleWith"
    assert axiomatic("prp-ap", Entailment.OWL2RL) == graph(" . ".join(f"{name} a owl:AnnotationProperty" for name in names.split()))


def test_cls_thing() -> None:
    assert axiomatic("cls-thing", Entailment.OWL2RL) == graph("owl:Thing a owl:Class")


def test_cls_nothing1() -> None:
    assert axiomatic("cls-nothing1", Entailment.OWL2RL) == graph("owl:Nothing a owl:Class")


TABLES = """
eq-sym eq-trans eq-rep-s eq-rep-p eq-rep-o eq-diff1 eq-diff2 eq-diff3
prp-ap prp-dom prp-rng prp-fp prp-ifp prp-irp prp-symp prp-asyp prp-trp prp-spo1 prp-spo2 prp-eqp1 prp-eqp2 prp-pdw prp-adp
prp-inv1 prp-inv2 prp-key prp-npa1 prp-npa2
cls-thing cls-nothing1 cls-nothing2 cls-int1 cls-int2 cls-uni cls-com cls-svf1 cls-svf2 cls-avf cls-hv1 cls-hv2
cls-maxc1 cls-maxc2 cls-maxqc1 cls-maxqc2 cls-maxqc3 cls-maxqc4 cls-oo
cax-sco cax-eqc1 cax-eqc2 cax-dw cax-adc
dt-type2 dt-eq dt-diff
scm-cls scm-sco scm-eqc1 scm-eqc2 scm-op scm-dp scm-spo scm-eqp1 scm-eqp2 scm-dom1 scm-dom2 scm-rng1 scm-rng2
scm-hv scm-svf1 scm-svf2 scm-avf1 scm-avf2 scm-int scm-uni
"""
"""Tables 4 to 9 of the recommendation, but eq-ref, dt-type1 and dt-not-type."""


def test_rule_set_has_every_row_of_the_tables() -> None:
    ours = {rule.name for rule in rule_set(Entailment.OWL2RL, axiomatic=True)}
    assert {name for name in ours if not name.startswith(AUXILIARY)} == set(TABLES.split())


def test_axiomatic_rdfs() -> None:
    known, _ = closed(graph(":C a rdfs:Class . :p a rdf:Property"), set(), rule_set(Entailment.RDFS, axiomatic=True))
    assert (
        graph(":C rdfs:subClassOf :C . :p rdfs:subPropertyOf :p . rdf:type a rdf:Property . rdfs:range rdfs:domain rdf:Property") <= known
    )


def test_axiomatic_owl2rl() -> None:
    known, _ = closed(graph(":C a owl:Class . :p a owl:ObjectProperty"), set(), rule_set(Entailment.OWL2RL, axiomatic=True))
    assert graph(":C rdfs:subClassOf :C ; owl:equivalentClass :C . :p owl:equivalentProperty :p . owl:Thing a owl:Class") <= known
    assert graph("owl:Nothing rdfs:subClassOf owl:Thing . rdfs:label a owl:AnnotationProperty") <= known


def test_default_rule_set_derives_nothing_visible_from_nothing() -> None:
    for entailment in Entailment:
        assert closed(set(), set(), rule_set(entailment)) == (set(), set())
