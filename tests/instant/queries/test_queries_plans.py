"""Plans = full evaluation = the oracle, for random queries, graphs, and splits into background and delta."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from dotr.evaluation.joins.scope import possible
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.evaluation.triples.masked_index import MaskedIndex
from dotr.instant.queries import QueryPlan, plan
from dotr.instant.queries.evaluate import evaluate
from dotr.model.algebra import (
    AggregateCall,
    Alternative,
    Bgp,
    Call,
    Const,
    Direction,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    Negated,
    OrderKey,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    Slot,
    TriplePattern,
    Union,
    Values,
    Var,
)
from dotr.model.terms import XSD, Term, Triple, literal
from dotr.model.traverse import certain
from tests.oracle.algebra import select as by_oracle

NODES = ["<n:a>", "<n:b>", "<n:c>", "_:z"]
PREDICATES = ["<p:p>", "<p:q>", "<p:r>"]
NUMBERS = [literal(text, XSD + "integer") for text in ("1", "2", "02")] + [literal("3.5", XSD + "decimal"), literal("x")]
NAMES = ["u", "v", "w", "x"]

Row = tuple[Term | None, ...]


class Author:
    """A generator of random queries; with `monotone` only of constructs that distribute into conjunctions."""

    def __init__(self, seed: int, *, monotone: bool) -> None:
        self.random = random.Random(seed)
        self.monotone = monotone
        self.fresh = 0
        # The oracle matches a path of length zero at a predicate, so that only queries without paths have variable predicates.
        self.paths = not monotone and self.random.random() < 0.5

    def graph(self) -> list[Triple]:
        """A graph with some of the predicates: those of a stream are seldom in the background."""
        predicates = self.random.sample(PREDICATES, self.random.randint(1, 3))
        triples = [self.triple(predicates) for _ in range(self.random.randint(0, 14))]
        return list(dict.fromkeys(triples))

    def triple(self, predicates: list[Term]) -> Triple:
        object_ = self.random.choice(NODES + NUMBERS if self.random.random() < 0.6 else NODES)
        return self.random.choice(NODES), self.random.choice(predicates), object_

    def query(self) -> Select:
        pattern = self.pattern(self.random.choice([0, 1, 1, 2, 2, 3]))
        names = sorted(n for n in possible(pattern) if n[0] != "_")
        chosen = tuple(self.random.sample(names, self.random.randint(min(1, len(names)), len(names))))
        distinct = self.random.random() < 0.3
        if not self.monotone and names and self.random.random() < 0.2:
            order = tuple(
                OrderKey(Var(self.random.choice(names)), self.random.choice(list(Direction))) for _ in range(self.random.randint(0, 2))
            )
            return Select(chosen, pattern, distinct, order, self.random.randint(0, 2), self.random.choice([None, 1, 3]))
        return Select(chosen, pattern, distinct)

    def pattern(self, depth: int) -> Pattern:
        if depth == 0:
            return self.values() if self.random.random() < 0.1 else self.bgp()
        kinds: list[Callable[[int], Pattern]] = [self.join, self.join, self.union, self.filter, self.filter, self.extend, self.sub_select]
        if not self.monotone:
            kinds += [self.left_join, self.left_join, self.minus, self.exists, self.group]
        return self.random.choice(kinds)(depth - 1)

    def slot(self, constants: list[Term], chance: float) -> Slot:
        return Const(self.random.choice(constants)) if self.random.random() < chance else Var(self.random.choice(NAMES))

    def bgp(self) -> Pattern:
        return Bgp(tuple(self.triple_pattern() for _ in range(self.random.choice([1, 1, 2, 2, 3]))))

    def triple_pattern(self) -> TriplePattern | PathPattern:
        subject, object_ = self.slot(NODES, 0.15), self.slot(NODES + NUMBERS, 0.25)
        if self.paths and self.random.random() < 0.3:
            return PathPattern(subject, self.path(2), object_)
        return TriplePattern(subject, self.slot(PREDICATES, 1.0 if self.paths else 0.9), object_)

    def path(self, depth: int) -> Path:
        link = Link(self.random.choice(PREDICATES))
        if depth == 0:
            return link
        match self.random.randrange(6):
            case 0:
                return Inverse(self.path(depth - 1))
            case 1:
                return Sequence(self.path(depth - 1), self.path(depth - 1))
            case 2:
                return Alternative(self.path(depth - 1), self.path(depth - 1))
            case 3 | 4:
                least, many = self.random.choice([(0, True), (1, True), (0, False)])
                return Repeat(self.path(depth - 1), least, many)
            case _:
                return Negated(*self.random.choice([((link.predicate,), None), (None, (link.predicate,)), ((), (link.predicate,))]))

    def join(self, depth: int) -> Pattern:
        return Join(self.pattern(depth), self.pattern(self.random.randint(0, depth)))

    def union(self, depth: int) -> Pattern:
        return Union(self.pattern(depth), self.pattern(self.random.randint(0, depth)))

    def left_join(self, depth: int) -> Pattern:
        return LeftJoin(self.pattern(depth), self.pattern(self.random.randint(0, depth)), self.random.choice([None, self.condition()]))

    def minus(self, depth: int) -> Pattern:
        return Minus(self.pattern(depth), self.pattern(self.random.randint(0, depth)))

    def filter(self, depth: int) -> Pattern:
        return Filter(self.pattern(depth), tuple(self.condition() for _ in range(self.random.choice([1, 1, 2]))))

    def exists(self, depth: int) -> Pattern:
        return Filter(self.pattern(depth), (Exists(self.pattern(self.random.randint(0, depth)), self.random.random() < 0.5),))

    def extend(self, depth: int) -> Pattern:
        inner = self.pattern(depth)
        self.fresh += 1
        left: Expression = Var(self.random.choice(NAMES))
        return Extend(
            inner, f"k{self.fresh}", self.random.choice([left, Call("+", (left, Var(self.random.choice(NAMES)))), self.condition()])
        )

    def sub_select(self, depth: int) -> Pattern:
        inner = self.pattern(depth)
        names = sorted(n for n in possible(inner) if n[0] != "_")
        distinct = not self.monotone and self.random.random() < 0.3
        return Select(tuple(n for n in names if self.random.random() < 0.7), inner, distinct)

    def group(self, depth: int) -> Pattern:
        inner = self.pattern(depth)
        self.fresh += 1
        keys = tuple((n, Var(n)) for n in sorted(possible(inner)) if n in NAMES and self.random.random() < 0.3)
        function = self.random.choice(["COUNT", "SUM", "MIN", "MAX", "SAMPLE"])
        argument = None if function == "COUNT" and self.random.random() < 0.5 else Var(self.random.choice(NAMES))
        if function in ("MIN", "MAX"):  # SPARQL leaves MIN and MAX of an error open
            bound = sorted(n for n in certain(inner) if n in NAMES)
            function, argument = (function, Var(self.random.choice(bound))) if bound else ("COUNT", None)
        call = AggregateCall(function, self.random.random() < 0.3, argument)
        grouped = Group(inner, keys, ((f"g{self.fresh}", call),))
        return Select((*(n for n, _ in keys), f"g{self.fresh}"), grouped)

    def values(self) -> Pattern:
        names = tuple(self.random.sample(NAMES, self.random.randint(1, 2)))
        cells = [*NODES[:3], *NUMBERS, None]
        return Values(names, tuple(tuple(self.random.choice(cells) for _ in names) for _ in range(self.random.randint(0, 4))))

    def condition(self) -> Expression:
        left = Var(self.random.choice(NAMES))
        right = self.slot(NODES[:3] + NUMBERS, 0.6)
        simple = Call(self.random.choice(["=", "!=", "<", ">="]), (left, right))
        match self.random.randrange(6):
            case 0:
                return Call("BOUND", (left,))
            case 1:
                return Call("||", (simple, Call("BOUND", (Var(self.random.choice(NAMES)),))))
            case 2:
                return Call("!", (simple,))
            case _:
                return simple


def bag(rows: list[Row] | tuple[Row, ...]) -> Counter[Row]:
    return Counter(rows)


def check(author: Author, rounds: int) -> QueryPlan:
    """Checks one query on a few splits of a few graphs, with one plan for each background."""
    query = author.query()
    for _ in range(rounds):
        background = author.graph()
        known = TripleIndex(background)
        query_plan = plan(query, known)
        for _ in range(3):
            delta = [t for t in author.graph() if t not in set(background)]
            delta_index = TripleIndex(delta)
            expected = bag([tuple([s.get(n) for n in query.projection]) for s in by_oracle(query, frozenset(background + delta))])
            assert bag(evaluate(query, known, delta_index)) == expected, (query, background, delta)
            assert bag(query_plan.answers(delta_index)) == expected, (query, background, delta)
            if query_plan.reads is not None and not any(_touches(query_plan, t) for t in delta):
                assert expected == bag(query_plan.static), (query, background, delta)
            chance = random.Random(len(background) * 31 + len(delta))  # separate, so that the generated queries stay the same
            removed = chance.sample(background, chance.randint(0, min(3, len(background))))
            view = MaskedIndex(known, dict.fromkeys(removed))
            left = frozenset(background).difference(removed).union(delta)
            expected = bag([tuple([s.get(n) for n in query.projection]) for s in by_oracle(query, left)])
            assert bag(evaluate(query, view, delta_index)) == expected, (query, background, delta, removed)
            assert bag(query_plan.answers_over_view(view, delta_index, TripleIndex(removed))) == expected, (
                query,
                background,
                delta,
                removed,
            )
            if query_plan.reads is not None and not any(_touches(query_plan, t) for t in [*delta, *removed]):
                assert expected == bag(query_plan.static), (query, background, delta, removed)
    return query_plan


def _touches(query_plan: QueryPlan, triple: Triple) -> bool:
    assert query_plan.reads is not None
    return (triple[1], None) in query_plan.reads or (triple[1], triple[2]) in query_plan.reads


@pytest.mark.parametrize("chunk", range(20))
def test_monotone_queries_are_incremental_and_exact(chunk: int) -> None:
    planned = [check(Author(chunk * 1000 + i, monotone=True), 2).is_incremental for i in range(40)]
    assert sum(planned) > 30  # the others join on a value that BIND computes


@pytest.mark.parametrize("chunk", range(20))
def test_any_query_is_exact(chunk: int) -> None:
    for i in range(40):
        check(Author(chunk * 1000 + i, monotone=False), 2)


@pytest.mark.parametrize("negated", [False, True], ids=["exists", "not exists"])
@pytest.mark.parametrize("limits", [Limits(probes=1_000), None], ids=["counted", "uncounted"])
def test_an_exists_ends_at_the_first_partner(negated: bool, limits: Limits | None) -> None:
    """For each of 200 solutions, one of 5,000 partners is visited."""
    sections = TriplePattern(Var("s"), Const("<first>"), Var("n"))
    found = Filter(Bgp((TriplePattern(Var("o"), Const("<value>"), Var("v")),)), (Exists(Bgp((sections,)), negated),))
    background = TripleIndex([(f"<s{n}>", "<first>", f"<n{n}>") for n in range(5_000)])
    delta = TripleIndex([(f"<o{n}>", "<value>", f"<v{n}>") for n in range(200)])
    query_plan = plan(Select(("v",), found), background, limits=limits)
    assert query_plan.is_incremental
    assert len(query_plan.answers(delta)) == (0 if negated else 200)
    assert len(query_plan.answers_over_view(background, delta, TripleIndex())) == (0 if negated else 200)
