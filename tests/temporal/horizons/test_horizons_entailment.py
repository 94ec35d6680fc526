"""RDFS, OWL 2 RL and transitive rules over windows: the horizon closure equals the brute force, with the schema in the background or in
the window."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_TYPE, RDFS, Triple, iri
from dotr.syntax.datalog import parse_datalog
from dotr.temporal.horizons.closure import HorizonClosure
from dotr.temporal.horizons.facts import StaticFacts
from dotr.temporal.horizons.rules import CONTRADICTION, WindowFact, WindowRule
from tests.oracle.horizons import WindowOracle
from tests.support.properties import examples

SUBCLASS, SUBPROPERTY, DOMAIN, RANGE = (iri(RDFS + name) for name in ("subClassOf", "subPropertyOf", "domain", "range"))
TRANSITIVE, SYMMETRIC, FUNCTIONAL = (iri(OWL + name) for name in ("TransitiveProperty", "SymmetricProperty", "FunctionalProperty"))
INVERSE, SAME, DIFFERENT = (iri(OWL + name) for name in ("inverseOf", "sameAs", "differentFrom"))
CLASSES, PROPERTIES, NAMES = ["<A>", "<B>", "<C>"], ["<p>", "<q>", "<r>"], ["<a>", "<b>", "<c>", "<d>"]


def schema(source: random.Random, regime: Entailment) -> Triple:
    kinds = [
        (CLASSES, SUBCLASS, CLASSES),
        (PROPERTIES, SUBPROPERTY, PROPERTIES),
        (PROPERTIES, DOMAIN, CLASSES),
        (PROPERTIES, RANGE, CLASSES),
    ]
    if regime is Entailment.OWL2RL:
        kinds += [(PROPERTIES, RDF_TYPE, [TRANSITIVE, SYMMETRIC, FUNCTIONAL]), (PROPERTIES, INVERSE, PROPERTIES)]
    subjects, predicate, objects = source.choice(kinds)
    return (source.choice(subjects), predicate, source.choice(objects))


def data(source: random.Random, regime: Entailment) -> Triple:
    chance = source.random()
    if chance < 0.1:
        return schema(source, regime)
    if chance < 0.3:
        return (source.choice(NAMES), RDF_TYPE, source.choice(CLASSES))
    if chance < 0.35 and regime is Entailment.OWL2RL:
        return (source.choice(NAMES), source.choice([SAME, DIFFERENT]), source.choice(NAMES))
    return (source.choice(NAMES), source.choice(PROPERTIES), source.choice(NAMES))


def run(source: random.Random, rules: tuple[DatalogRule, ...], regime: Entailment, points: int) -> None:
    given_static = [schema(source, regime) for _ in range(source.randint(0, 4))] + [data(source, Entailment.NONE) for _ in range(2)]
    static = Knowledge.load(given_static, rules).background
    oracle = WindowOracle([WindowRule.of(rule) for rule in rules if WindowRule.of(rule).atoms], list(static))
    closure = HorizonClosure(rules, StaticFacts(static))
    held: dict[WindowFact, float] = {}
    cuts = source.random() < 0.5
    for point in range(points):
        for _ in range(source.randint(0, 3)):
            fact, end = data(source, regime), point + source.randint(0, 4)
            oracle.inserts.append((point, fact, point, end))
            closure.insert(fact, point, end)
        if cuts and held and source.random() < 0.5:
            fact = source.choice(sorted(fact for fact in held if len(fact) == 3))
            oracle.cuts.append((point, fact))
            closure.cut(fact)
        changes = closure.advance(point)
        before, held = held, oracle.model(point)
        assert dict(closure.facts()) == held
        assert set(changes.began) == held.keys() - before.keys()
        assert set(changes.ended) == before.keys() - held.keys()


@given(st.integers(0, 10**9))
@examples(30)
def test_rdfs(seed: int) -> None:
    run(random.Random(seed), rule_set(Entailment.RDFS), Entailment.RDFS, 6)


@given(st.integers(0, 10**9))
@examples(10)
def test_owl2rl(seed: int) -> None:
    """The facts with a horizon of l or more, without the background, equal the closure of the items from l on as an instant."""
    source, rules = random.Random(seed), rule_set(Entailment.OWL2RL)
    given_static = [schema(source, Entailment.OWL2RL) for _ in range(source.randint(0, 6))] + [
        data(source, Entailment.NONE) for _ in range(3)
    ]
    knowledge = Knowledge.load(given_static, rules)
    closure = HorizonClosure(rules, StaticFacts(knowledge.background))
    items: list[tuple[int, Triple]] = []
    for point in range(5):
        items += [(point, data(source, Entailment.OWL2RL)) for _ in range(source.randint(0, 3))]
        least = max(0, point - 3)
        for time, triple in items:
            if time == point:
                closure.insert(triple, least, time)
        closure.advance(least)
        for each in range(least, point + 1):
            expected = knowledge.close([triple for time, triple in items if time >= each])
            facts = {fact for fact, horizon in closure.facts() if horizon >= each}
            triples = {fact for fact in facts if len(fact) == 3}
            assert triples - set(knowledge.background.triples) == set(expected.delta.triples)
            assert {triple for time, triple in items if time >= each} <= triples
            assert {fact[1][0] for fact in facts if fact[0] == CONTRADICTION} >= {each.rule for each in expected.contradictions}


TEXT = """
[?x, <http://e/p>, ?z] :- [?x, <http://e/p>, ?y], [?y, <http://e/p>, ?z] .
[?x, <http://e/p>, ?y] :- [?y, <http://e/q>, ?x] .
[?x, <http://e/r>, ?y] :- [?x, <http://e/p>, ?y], [?x, <http://e/s>, ?x] .
[?x, <http://e/q>, ?y] :- [?x, <http://e/r>, ?y] .
"""


ABOVE_NOT = """
[?x, <http://e/p>, ?z] :- [?x, <http://e/p>, ?y], [?y, <http://e/p>, ?z] .
[?x, <http://e/p>, ?y] :- [?x, <http://e/s>, ?y], NOT [?y, <http://e/q>, ?x] .
[?x, <http://e/r>, ?y] :- [?x, <http://e/p>, ?y], NOT [?y, <http://e/s>, ?y] .
"""


@pytest.mark.parametrize("text", [TEXT, ABOVE_NOT])
@given(seed=st.integers(0, 10**9))
@examples(60)
def test_transitive_rule(text: str, seed: int) -> None:
    source, rules = random.Random(seed), tuple(parse_datalog(Document("transitive.dlog", text), {}))
    nodes = [f"<n{number}>" for number in range(6)]

    def triple() -> Triple:
        return (source.choice(nodes), f"<http://e/{source.choice('ppppqqss')}>", source.choice(nodes))

    static = Knowledge.load([triple() for _ in range(source.choice([0, 2, 4]))], rules).background
    oracle = WindowOracle([WindowRule.of(rule) for rule in rules], list(static))
    closure = HorizonClosure(rules, StaticFacts(static))
    for point in range(8):
        for _ in range(source.randint(0, 3)):
            fact, end = triple(), point + source.randint(0, 5)
            oracle.inserts.append((point, fact, point, end))
            closure.insert(fact, point, end)
        if seed % 2 and source.random() < 0.4:
            fact = triple()
            oracle.cuts.append((point, fact))
            closure.cut(fact)
        closure.advance(point)
        assert dict(closure.facts()) == oracle.model(point)
