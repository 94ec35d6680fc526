"""The horizon closure equals the brute force of lars.md, section 6, on random rules, inserts, cuts and points."""

from __future__ import annotations

import random
from collections.abc import Sequence
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, DatalogRule, FilterItem, Not, RelationAtom
from dotr.temporal.horizons.closure import ClosureView, HorizonClosure
from dotr.temporal.horizons.facts import StaticFacts
from dotr.temporal.horizons.rules import FOREVER, Atom, FactChanges, WindowFact, WindowRule
from tests.oracle.horizons import FOREVER as NO_END
from tests.oracle.horizons import WindowOracle
from tests.support.properties import examples

TERMS = ["<a>", "<b>", "<c>", "<d>"]
PREDICATES = [["<p>", "<q>"], ["<r>"], ["<s>"]]
RELATIONS = [[("R", 2), ("N", 0)], [("S", 1)], [("T", 3)]]


class Random:
    """Generator of random rules and facts.

    `negation`: rules may have NOT. `relations`: atoms may be of relations. `free_predicates`: the predicate of a triple pattern may be a
    variable.
    """

    def __init__(self, seed: int, *, negation: bool, relations: bool, free_predicates: bool = False) -> None:
        self.random = random.Random(seed)
        self.negation = negation
        self.relations = relations
        self.free_predicates = free_predicates

    def slot(self, names: Sequence[str], constants: float = 0.15) -> Slot:
        if self.random.random() < constants or not names:
            return Const(self.random.choice(TERMS))
        return Var(self.random.choice(names))

    def atom(self, level: int, names: Sequence[str], *, head: bool = False) -> Atom:
        level = level if head else self.random.randint(0, level)
        if self.relations and self.random.random() < 0.4:
            relation, arity = self.random.choice(RELATIONS[level])
            return RelationAtom(relation, tuple(self.slot(names) for _ in range(arity)))
        free = self.free_predicates and self.random.random() < 0.2
        predicate = self.slot(names, 0) if free and names else Const(self.random.choice(PREDICATES[level]))
        return TriplePattern(self.slot(names), predicate, self.slot(names))

    def rule(self, number: int) -> WindowRule:
        level = self.random.choice([0, 0, 1, 2]) if self.negation else self.random.choice([0, 0, 0, 1])
        atoms = [self.atom(level, "xyz") for _ in range(self.random.choice([1, 2, 2, 3]))]
        bound = sorted({slot.name for atom in atoms for slot in slots(atom) if isinstance(slot, Var)})
        body: list[JoinItem] = list(atoms)
        if self.negation and level and self.random.random() < 0.7:
            for _ in range(self.random.choice([1, 1, 2])):
                negated = tuple(self.atom(level - 1, [*bound, "n"]) for _ in range(self.random.choice([1, 1, 2])))
                body.append(Not(negated))  # type: ignore[arg-type]
        if len(bound) > 1 and self.random.random() < 0.2:
            body.append(FilterItem(Call("!", (Call("SAMETERM", (Var(bound[0]), Var(bound[1]))),))))
        if bound and self.random.random() < 0.15:
            body.append(Bind(Var(bound[0]), "w"))
            bound.append("w")
        self.random.shuffle(body)
        heads = tuple(self.atom(level, bound, head=True) for _ in range(self.random.choice([1, 1, 1, 2])))
        return WindowRule(f"r{number}", heads, tuple(body))

    def fact(self) -> WindowFact:
        level = self.random.choice([0, 0, 0, 1, 2])
        if self.relations and self.random.random() < 0.4:
            relation, arity = self.random.choice(RELATIONS[level])
            return (relation, tuple(self.random.choice(TERMS) for _ in range(arity)))
        return (self.random.choice(TERMS), self.random.choice(PREDICATES[level]), self.random.choice(TERMS))


def slots(atom: Atom) -> tuple[Slot, ...]:
    return (atom.subject, atom.predicate, atom.object) if isinstance(atom, TriplePattern) else atom.slots


def static_facts(facts: Sequence[WindowFact]) -> StaticFacts:
    rows: dict[str, list[tuple[str, ...]]] = {}
    for fact in facts:
        if len(fact) == 2:
            rows.setdefault(fact[0], []).append(fact[1])
    return StaticFacts(TripleIndex(fact for fact in facts if len(fact) == 3), rows)


def shown(facts: dict[WindowFact, float], least: int) -> dict[WindowFact, float]:
    return {fact: (FOREVER if horizon == NO_END else horizon) for fact, horizon in facts.items() if horizon >= least}


def check_index(closure: HorizonClosure | ClosureView, facts: dict[WindowFact, float]) -> None:
    triples = {fact for fact in facts if len(fact) == 3}
    index = closure.index
    assert set(index) == set(index.triples) == triples
    assert len(index) == len(triples)
    for subject, predicate, object in triples:
        assert object in index.by_subject[predicate][subject]
        assert subject in index.by_object[predicate].get(object, [])
        assert (predicate, object) in index.all_from(subject)
        assert (subject, predicate) in index.edges_to[object]
    for predicate in ("<p>", "<q>", "<r>", "<s>"):
        assert (predicate in index.by_subject) == any(triple[1] == predicate for triple in triples)


def check_renewed(changes: FactChanges, before: dict[WindowFact, float], now: dict[WindowFact, float]) -> None:
    """Checks that renewed facts are in `before` and `now`, each once, and include all whose horizon differs."""
    renewed = list(changes.renewed)
    assert len(set(renewed)) == len(renewed)
    assert set(renewed) <= before.keys() & now.keys()
    assert {fact for fact, horizon in now.items() if fact in before and before[fact] != horizon} <= set(renewed)


def run(source: Random, *, as_datalog: bool = False) -> None:
    random, rules = source.random, [source.rule(number) for number in range(source.random.randint(1, 5))]
    static = [source.fact() for _ in range(random.choice([0, 0, 3, 6]))]
    oracle = WindowOracle(rules, static)
    given_rules: list[WindowRule | DatalogRule] = (
        [DatalogRule(rule.name, rule.head, rule.body) for rule in rules] if as_datalog else [*rules]  # type: ignore[arg-type]
    )
    closure = HorizonClosure(given_rules, static_facts(static))
    views: list[tuple[ClosureView, dict[WindowFact, float]]] = []
    point, held = random.randint(-5, 5), dict[WindowFact, float]()
    cuts = random.choice([0, 0, 0.2, 0.5])
    two_clocks = random.random() < 0.3
    for _ in range(random.randint(2, 9)):
        inputs: list[tuple[WindowFact, int, int] | WindowFact] = []  # inserts, and facts to cut
        for _ in range(random.randint(0, 5)):
            fact = source.fact()
            start = point + random.choice([0, 0, 0, -2, 1, 3])
            end = FOREVER if random.random() < 0.1 else start + random.randint(-1, 7)
            inputs.append((fact, point, point + random.randint(0, 6)) if two_clocks else (fact, start, end))
        if random.random() < cuts:
            inputs += [random.choice([source.fact(), *held]) for _ in range(random.randint(1, 3))]
        for each in inputs:
            if isinstance(each[-1], int):
                oracle.inserts.append((point, each[0], each[1], NO_END if each[2] == FOREVER else each[2]))
            else:
                oracle.cuts.append((point, each))
        random.shuffle(inputs)
        for each in inputs:
            if isinstance(each[-1], int):
                closure.insert(*each)
            else:
                closure.cut(each)
        changes = closure.advance(point)
        before, held = held, shown(oracle.model(point), -100)
        assert dict(closure.facts()) == held
        assert sorted(map(repr, changes.began)) == sorted(map(repr, held.keys() - before.keys()))
        assert sorted(map(repr, changes.ended)) == sorted(map(repr, before.keys() - held.keys()))
        check_index(closure, held)
        if random.random() < 0.3:
            views.append((closure.view(), {}))
        for number, (view, members) in enumerate(views):
            if random.random() < 0.8:
                least = max(point, point if view.point is None else view.point) + random.choice([0, 0, 1, 2])
                now = shown(held, least)
                changes = view.advance(least)
                assert sorted(map(repr, changes.began)) == sorted(map(repr, now.keys() - members.keys()))
                assert sorted(map(repr, changes.ended)) == sorted(map(repr, members.keys() - now.keys()))
                check_renewed(changes, members, now)
                assert {fact for fact in view.members() if fact[0] not in closure.auxiliary} == now.keys()
                check_index(view, now)
                views[number] = (view, now)
        following = closure.next_change()
        for each_point in range(point, min(point + 12, point + 12 if following is None else following)):
            assert oracle.model(each_point).keys() == held.keys()
        point += random.choice([0, 1, 1, 2, 5])


@given(st.integers(0, 10**9))
@examples(75)
def test_closure_of_triples(seed: int) -> None:
    run(Random(seed, negation=False, relations=False))


@given(st.integers(0, 10**9))
@examples(75)
def test_closure_of_datalog_rules_with_free_predicates(seed: int) -> None:
    run(Random(seed, negation=False, relations=False, free_predicates=True), as_datalog=True)


@given(st.integers(0, 10**9))
@examples(100)
def test_views_that_compact_at_every_step(seed: int) -> None:
    with mock.patch("dotr.temporal.horizons.closure._COMPACT_ABOVE", 0):
        run(Random(seed, negation=seed % 2 == 0, relations=True))


@given(st.integers(0, 10**9))
@examples(75)
def test_closure_of_relations(seed: int) -> None:
    run(Random(seed, negation=False, relations=True, free_predicates=True))


@given(st.integers(0, 10**9))
@examples(100)
def test_closure_with_negation(seed: int) -> None:
    run(Random(seed, negation=True, relations=True))


@given(st.integers(0, 10**9))
@examples(75)
def test_closure_of_datalog_rules_with_negation(seed: int) -> None:
    run(Random(seed, negation=True, relations=False), as_datalog=True)
