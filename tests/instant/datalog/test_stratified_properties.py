"""Programs with NOT and AGGREGATE: the closure of every instant equals the perfect model of
background and instant.

Queries over the closure equal queries over that model, with the background in memory or mapped.
Programs are the same in every run; `DOTR_EXAMPLES=5000` generates 5,000 others.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from dotr.errors.diagnostics import Refused
from dotr.evaluation.triples import mapped_index as index
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.background.compiled_store import CompiledStore, write_store
from dotr.instant.datalog.background.knowledge import ClosedTriples, Knowledge, check_safety, close_background
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.datalog.strata.stratification import strata
from dotr.instant.queries import plan
from dotr.model.algebra import AggregateCall, Bgp, Call, Const, Exists, Filter, LeftJoin, Pattern, Select, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem, GroupAggregate, Not
from dotr.model.terms import OWL, RDF_TYPE, RDFS, XSD, Term, Triple, iri, literal
from tests.oracle.algebra import select
from tests.oracle.closure import close, stratified

EXAMPLES = os.environ.get("DOTR_EXAMPLES")
NODES = ["<a>", "<b>", "<c>"]
NUMBERS = [literal(str(n), XSD + "integer") for n in range(3)]
CLASSES = [f"<C{n}>" for n in range(6)]
PROPERTIES = [f"<p{n}>" for n in range(6)]
SUBCLASS, SAME, DOMAIN = iri(RDFS + "subClassOf"), iri(OWL + "sameAs"), iri(RDFS + "domain")
STRATA = 3
"""The number of strata. The number in the name of a class or property is 2n or 2n + 1 if stratum n derives it."""


class Author:
    """Generator of random stratified programs, most of whose rules can fire; and of graphs and queries for them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def term(self, names: Sequence[str], constants: Sequence[Term]) -> Slot:
        return Const(self.random.choice(constants)) if self.chance(0.06) else Var(self.random.choice(names))

    def atom(self, most: int, names: Sequence[str], first: str, *, least: int = 0, wide: float = 0.0) -> TriplePattern:
        """An atom that strata from `least` to `most` derive, with the subject `first`, mostly."""
        number = self.random.randint(2 * least, 2 * most + 1)
        subject = self.term([first], NODES)
        if self.chance(wide):
            return TriplePattern(subject, Var("e"), self.term(names, NODES))
        if self.chance(0.5):
            return TriplePattern(subject, Const(RDF_TYPE), Const(CLASSES[number]))
        return TriplePattern(subject, Const(PROPERTIES[number]), self.term(names, [*NODES, *NUMBERS]))

    def aggregate(self, most: int) -> GroupAggregate:
        body: list[TriplePattern | FilterItem | Bind] = [
            TriplePattern(Var("x"), Const(self.random.choice(PROPERTIES[: 2 * most + 2])), Var("v"))
        ]
        inner = ["x", "v"]
        if self.chance(0.4):
            body.append(self.atom(most, ["v", "u"], self.random.choice(inner)))
            inner = sorted({s.name for a in body if isinstance(a, TriplePattern) for s in (a.subject, a.object) if isinstance(s, Var)})
        if self.chance(0.2):
            body.append(FilterItem(Call("!=", (Var("v"), Const(self.random.choice([*NODES, *NUMBERS]))))))
        if self.chance(0.1):
            body.append(Bind(Call("+", (Var("v"), Const(NUMBERS[1]))), "t"))
            inner.append("t")
        results = []
        for result in ["n", "m"][: 1 + self.chance(0.2)]:
            function = self.random.choice(["COUNT", "COUNT", "SUM", "MIN", "MAX", "AVG"])
            argument = None if function == "COUNT" and self.chance(0.5) else Var(self.random.choice(inner))
            results.append((result, AggregateCall(function, self.chance(0.3), argument)))
        keys = self.random.choice([("x",), ("x",), ("v",), ("x", "v"), ()])
        return GroupAggregate(tuple(body), keys, tuple(results))

    def rule(self) -> DatalogRule:
        stratum = self.random.choice([0, 1, 1, 1, 2, 2])
        names = ["x", "y"]
        body: list[BodyItem] = [self.atom(max(0, stratum - 1) if self.chance(0.6) else stratum, names, "x", wide=0.05)]
        if self.chance(0.3):
            body.append(self.atom(stratum, [*names, "z"], self.random.choice(names), wide=0.05))
        numbers = []
        if stratum and self.chance(0.35):
            aggregate = self.aggregate(stratum - 1)
            if self.chance(0.3):
                body.clear()
            body.append(aggregate)
            numbers = [name for name, _ in aggregate.results]
            if self.chance(0.3):  # the two may share names of their local variables
                other = self.aggregate(stratum - 1)
                body.append(replace(other, results=tuple((f"{name}2", call) for name, call in other.results)))
                numbers.append("n2")
            if self.chance(0.3):
                body.append(FilterItem(Call(self.random.choice([">", "<", "="]), (Var("n"), Const(NUMBERS[1])))))
        if stratum and (not numbers or self.chance(0.2)):
            for _ in range(self.random.choice([1, 1, 1, 2])):
                atoms = [self.atom(stratum - 1, [*names, "o"], "x")]
                if self.chance(0.3):
                    atoms.append(self.atom(stratum - 1, names, self.random.choice(["x", "o"])))
                body.append(Not(tuple(atoms)))
        if numbers and self.chance(0.6):
            head = TriplePattern(
                self.term(["x"], NODES), Const(PROPERTIES[2 * stratum + self.chance(0.5)]), Var(self.random.choice(numbers))
            )
        else:
            head = self.atom(stratum, names, "x", least=stratum)
        self.random.shuffle(body)
        return DatalogRule(f"r{self.random.randint(0, 99)}", (head,), tuple(body))

    def program(self) -> list[DatalogRule]:
        program: list[DatalogRule] = []
        size = self.random.randint(2, 8)
        for _ in range(4 * size):
            rule = self.rule()
            if len(program) < size and not check_safety(rule) and is_stratified([*program, rule]):
                program.append(rule)
        return program

    def graph(self, least: int, most: int) -> list[Triple]:
        found = []
        for _ in range(self.random.randint(least, most)):
            number = self.random.choice([0, 1, 0, 1, 0, 1, 2, 3, 4, 5])
            subject = self.random.choice(NODES)
            if self.chance(0.5):
                found.append((subject, RDF_TYPE, CLASSES[number]))
            else:
                found.append((subject, PROPERTIES[number], self.random.choice([*NODES, *NUMBERS])))
        return list(dict.fromkeys(found))

    def schema(self, most: int) -> list[Triple]:
        found = []
        for _ in range(self.random.randint(0, most)):
            c, d, p = self.random.choice(CLASSES), self.random.choice(CLASSES), self.random.choice(PROPERTIES)
            found.append(self.random.choice([(c, SUBCLASS, d), (c, SUBCLASS, d), (p, DOMAIN, c), (NODES[0], SAME, NODES[1])]))
        return list(dict.fromkeys(found))

    def query(self) -> Select:
        names = ["x", "y"]
        pattern: Pattern = Bgp(tuple(self.atom(STRATA - 1, names, "x", wide=0.05) for _ in range(self.random.choice([1, 1, 2]))))
        other = Bgp((self.atom(STRATA - 1, ["x", "z"], "x"),))
        match self.random.randint(0, 5):
            case 0:
                pattern = Filter(pattern, (Exists(other, negated=self.chance(0.7)),))
            case 1:
                pattern = LeftJoin(pattern, other, None)
            case _:
                pass
        return Select(("x", "y", "z"), pattern, self.chance(0.3))


def is_stratified(program: list[DatalogRule]) -> bool:
    try:
        strata(program)
    except Refused:
        return False
    return True


def consistent(found: TripleIndex) -> bool:
    forward = [(s, p, o) for p, ends in found.by_subject.items() for s, others in ends.items() for o in others]
    backward = [(s, p, o) for p, ends in found.by_object.items() for o, others in ends.items() for s in others]
    return sorted(forward) == sorted(backward) == sorted(found.triples) == sorted(found) and len(found) == len(forward)


def visible(found: TripleIndex) -> set[Triple]:
    return {triple for triple in found if not is_hidden(triple[1])}


def mapped(closed: ClosedTriples, rules: Sequence[DatalogRule], path: Path) -> Knowledge:
    """Knowledge over a compiled store."""
    write_store(path, bytes(16), closed, 0.0)
    return CompiledStore(path, bytes(16)).knowledge(rules)


def check(seed: int, entailment: Entailment, folder: Path) -> list[Closure]:
    """Compares one program over several instants, with the background in memory and mapped; returns its closures in memory."""
    author = Author(seed)
    program = author.program()
    assert strata(program) == stratified(program)
    background = author.graph(4, 14) + ([] if entailment is Entailment.NONE else author.schema(3))
    rules = [*rule_set(entailment), *program]
    closed = close_background(background, rules)
    static = close(background, program, entailment.value)
    assert sum(closed.by_rule.values()) == len(closed.triples) - closed.loaded
    queries = [author.query() for _ in range(3)]
    instants = [author.graph(0, 5) + (author.schema(1) if number == 1 and entailment is not Entailment.NONE else []) for number in range(3)]
    models = [close([*background, *instant], program, entailment.value) for instant in instants]
    # Of a mapped index, tables are promoted or looked up by term, and lists of two are decoded or lazy.
    with patch.multiple(index, _MAX_PROMOTED=30_000 * (seed % 3 == 0), _LAZY_FROM=1 + seed % 2, _MAX_CACHED=6):
        closures = [
            over(knowledge, static, instants, models, queries)
            for knowledge in (Knowledge.from_closed(closed, rules), mapped(closed, rules, folder / f"{seed}"))
        ]
        for here, there in zip(*closures, strict=True):
            assert set(here.delta) == set(there.delta)
            assert here.contradictions == there.contradictions
        return closures[0]


def over(
    knowledge: Knowledge,
    static: frozenset[Triple],
    instants: Sequence[list[Triple]],
    models: Sequence[frozenset[Triple]],
    queries: Sequence[Select],
) -> list[Closure]:
    assert visible(knowledge.background) == static
    plans = [plan(query, knowledge.background) for query in queries]
    closures = []
    for number, (instant, model) in enumerate(zip(instants, models, strict=True)):
        closure = knowledge.close(instant)
        known = visible(closure.background) | visible(closure.delta)
        assert known == model, (number, "missing", model - known, "too much", known - model)
        assert visible(closure.background).isdisjoint(visible(closure.delta))
        assert set(closure.removed or ()) == {t for t in knowledge.background if t not in closure.background}
        assert consistent(closure.background)
        assert consistent(closure.delta)
        for each in plans:
            expected = Counter(tuple(s.get(name) for name in each.select.projection) for s in select(each.select, model))
            assert Counter(each.answers_at(closure)) == expected, (number, each.select)
        closures.append(closure)
    assert visible(knowledge.background) == static
    return closures


@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.parametrize("entailment", Entailment, ids=lambda entailment: entailment.value)
def test_closure_equals_perfect_model(entailment: Entailment, chunk: int, tmp_path: Path) -> None:
    count = 100 if entailment is Entailment.NONE else 30
    seeds = range(chunk * count, (chunk + 1) * count)
    if EXAMPLES:
        first = random.SystemRandom().randrange(10**9)
        seeds = range(first, first + int(EXAMPLES))
    closures = [closure for seed in seeds for closure in check(seed, entailment, tmp_path)]
    assert sum(closure.removed is not None for closure in closures) > len(closures) / 25
