"""Paths beside other patterns: joined from a bound end, exact, at a cost that does not depend on the background."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path as FilePath

import pytest

from dotr.evaluation.limits import LIMITS, LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries import QueryPlan, plan
from dotr.model.algebra import Bgp, Const, Filter, Path, PathPattern, Pattern, Select, Slot, TriplePattern, Var
from dotr.model.places import Document, Span
from dotr.model.terms import Term, Triple
from dotr.syntax.sparql import parse_select
from tests.evaluation.triples.test_store_index import mapped
from tests.instant.queries.test_queries_plans import NAMES, NODES, NUMBERS, PREDICATES, Author, check
from tests.instant.queries.test_queries_structure import by_oxigraph

EX = "http://e/"


def parsed(text: str) -> Select:
    return parse_select(Span(Document("query", text), 0, len(text)), {"": EX})


def triple(subject: str, predicate: str, object_: str) -> Triple:
    return f"<{EX}{subject}>", f"<{EX}{predicate}>", f"<{EX}{object_}>"


def rows(query_plan: QueryPlan, *delta: Triple) -> Counter[tuple[Term | None, ...]]:
    return Counter(query_plan.answers(TripleIndex(delta)))


class PathAuthor(Author):
    """A generator of queries in which most paths have a bound end."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, monotone=False)
        self.paths = True

    def bgp(self) -> Pattern:
        items: list[TriplePattern | PathPattern] = [self.triple_pattern()]
        for _ in range(self.random.choice([1, 1, 2, 3])):
            subject, object_ = self.slot(NODES[:3], 0.05), self.slot(NODES[:3] + NUMBERS, 0.1)
            path: Path = self.path(2)
            if self.random.random() < 0.6:
                items.append(PathPattern(subject, path, object_))
            else:
                items.append(TriplePattern(subject, Const(self.random.choice(PREDICATES)), object_))
        self.random.shuffle(items)
        return Bgp(tuple(items))

    def triple_pattern(self) -> TriplePattern:
        ends: list[Slot] = [Var(name) for name in self.random.sample(NAMES, 2)]
        return TriplePattern(ends[0], Const(self.random.choice(PREDICATES)), ends[1])


@pytest.mark.parametrize("chunk", range(10))
def test_queries_with_paths_are_exact(chunk: int) -> None:
    planned = [check(PathAuthor(chunk * 1000 + i), 1) for i in range(25)]
    assert sum(each.delta_queries is not None for each in planned) >= 7, "many are joined"


@pytest.mark.parametrize("seed", range(60))
def test_joined_paths_agree_with_pyoxigraph(seed: int) -> None:
    """Of `|` and `!()`, pyoxigraph has each end once: the comparison is of sets."""
    chosen = random.Random(seed)
    paths = [":p+", ":p*", ":p?", "(:p/:q)+", "(:p|^:q)*", "^:p/:q?", "!(:p|:t)", "!(^:q)/:p", "(:p|:q)/:p*", "(!:p)+"]
    ends = ["?x", "?y", "?z", ":a"]
    items = [f"{chosen.choice(ends[:3])} {chosen.choice(paths)} {chosen.choice(ends)}" for _ in range(chosen.randint(1, 2))]
    text = f"SELECT DISTINCT * {{ ?x :{chosen.choice('pq')} ?y . {' . '.join(items)} . ?z :t ?t }}"
    query = parsed(text)
    nodes = [triple("k", "t", name) for name in "abcde"]  # pyoxigraph has no path of length zero at a constant beside the graph
    for _ in range(6):
        made = [triple(chosen.choice("abcde"), chosen.choice("pqt"), chosen.choice("abcde")) for _ in range(chosen.randint(3, 14))]
        triples = list(dict.fromkeys([*nodes, *made]))
        cut = chosen.randint(5, len(triples))
        query_plan = plan(query, TripleIndex(triples[:cut]))
        assert rows(query_plan, *triples[cut:]) == by_oxigraph(text, triples, query.projection), triples


def building(rooms: int, values: int = 0) -> TripleIndex:
    """Beds in rooms, 20 rooms on a floor, floors in one house; classes with superclasses; names."""
    triples = [triple(f"bed{n}", "value", "0") for n in range(values)]
    for n in range(rooms):
        triples += [triple(f"bed{n}", "in", f"room{n}"), triple(f"room{n}", "in", f"floor{n // 20}")]
        triples += [triple(f"room{n}", "has", f"bed{n}"), triple(f"floor{n // 20}", "has", f"room{n}")]
        triples += [triple(f"room{n}", "name", f"r{n}"), triple(f"bed{n}", "a", f"C{n}"), triple(f"C{n}", "sub", f"D{n}")]
        triples += [triple(f"D{n}", "limit", f"l{n}")]
    for n in range(rooms // 20):
        triples += [triple(f"floor{n}", "in", "house"), triple("house", "has", f"floor{n}"), triple(f"floor{n}", "name", f"f{n}")]
        triples += [triple(f"floor{n}", "a", "Floor")]
    return TripleIndex(dict.fromkeys(triples))


def probes(query: Select, background: TripleIndex, delta: list[Triple]) -> int:
    """The least limit of probes under which the instant is answered."""
    low, high = 0, 1_000_000
    while low < high:
        middle = (low + high) // 2
        try:
            plan(query, background, limits=Limits(probes=middle)).answers(TripleIndex(delta))
            high = middle
        except LimitExceeded:
            low = middle + 1
    return low


VALUE = "?z :value ?v . "


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("?z :in+ ?f . ?f :name ?l", 2),
        ("?z :in* ?f . ?f :name ?l", 2),
        ("?z :in? ?f . ?f :name ?l", 1),
        ("?z :in+ ?f . ?f :a :Floor", 1),
        ("?f :has+ ?z . ?f :a :Floor", 1),
        ("?z :in+/:name ?l", 2),
        ("?z (:in|:near) ?f . ?f :name ?l", 1),
        ("?z !(:value|^:has) ?f . ?f :name ?l", 1),
        ("?z :a/:sub* ?c . ?c :limit ?l", 1),
        ("?z :in/(:in|:near)+ ?f OPTIONAL { ?f :name ?l }", 2),
        ("FILTER EXISTS { ?z :in+ ?f . ?f :a :Floor }", 1),
        ("FILTER NOT EXISTS { ?z :in+ :floor9 }", 1),
        ("MINUS { ?z :in+ ?f . ?f :name :f9 }", 1),
        ("?z :in+ :house", 1),
    ],
)
def test_a_path_costs_what_the_instant_reaches(text: str, answers: int) -> None:
    query = parsed(f"SELECT * {{ {VALUE}{text} }}")
    costs = []
    for rooms in (200, 2_000):
        background = building(rooms)
        query_plan = plan(query, background)
        assert query_plan.is_incremental, query_plan.reason
        assert sum(rows(query_plan, triple("bed7", "value", "1")).values()) == answers
        costs.append(probes(query, background, [triple("bed7", "value", "1")]))
    assert costs[0] == costs[1] <= 40


@pytest.mark.parametrize(
    ("edges", "added"),
    [
        ([triple("bed7", "in", "room9")], 1),  # room 9, on the floor of room 7
        ([triple("bed7", "in", "room150")], 2),
        ([triple("house", "in", "campus"), triple("campus", "name", "c")], 3),
        ([triple("floor1", "name", "again")], 0),
        ([triple("floor0", "name", "again")], 3),
        ([triple("bed7", "in", "house")], 0),
    ],
)
def test_an_edge_of_the_instant_costs_what_it_adds(edges: list[Triple], added: int) -> None:
    """Three beds have a value in the background."""
    query = parsed("SELECT * { ?z :value ?v . ?z :in+ ?f . ?f :name ?l }")
    values = [triple(f"bed{n}", "value", "0") for n in (3, 7, 9)]
    costs = []
    for rooms in (200, 2_000):
        background = TripleIndex([*building(rooms), *values])
        query_plan = plan(query, background)
        assert len(query_plan.static) == 6
        assert sum(rows(query_plan, *edges).values()) == 6 + added
        costs.append(probes(query, background, edges))
    assert costs[0] == costs[1] <= 60


def test_repetition_has_each_end_once_and_other_paths_each_way() -> None:
    diamond = [triple("a", "p", "b"), triple("a", "p", "c"), triple("b", "p", "d"), triple("c", "p", "d"), triple("a", "q", "b")]
    for text, expected in ((":p+", 1), (":p/:p", 2), ("(:p/:p)?", 1)):
        query_plan = plan(parsed(f"SELECT ?y {{ ?x :value ?v . ?x {text} ?y . ?y :last ?l }}"), TripleIndex(diamond))
        assert sum(rows(query_plan, triple("a", "value", "1"), triple("d", "last", "1")).values()) == expected
    for text in ("(:p|:q)", "!(:value)"):
        query_plan = plan(parsed(f"SELECT ?y {{ ?x :value ?v . ?x {text} ?y . ?y :last ?l }}"), TripleIndex(diamond))
        assert sum(rows(query_plan, triple("a", "value", "1"), triple("b", "last", "1")).values()) == 2


def test_a_path_without_a_bound_end_stays_with_the_operators() -> None:
    for text in ("?x :p+ ?y", "?z :value ?v . ?x :p* ?y", "VALUES ?x { :a :b } ?x :p+ ?y"):
        query_plan = plan(parsed(f"SELECT * {{ {text} }}"), TripleIndex([triple("a", "p", "b")]))
        assert query_plan.delta_queries is None
        assert "a property path" in query_plan.reason


def test_walks_are_limited() -> None:
    """A walk over 5,000 edges ends at the limit, and so do the pairs that an edge adds."""
    chain = TripleIndex([triple(f"n{n}", "next", f"n{n + 1}") for n in range(5_000)])
    for text, delta in (
        ("?x :value ?v . ?x :next+ ?y", triple("n0", "value", "1")),
        ("?x :value ?v . ?x :next+ :nowhere", triple("n0", "value", "1")),
        ("?x :value ?v FILTER NOT EXISTS { ?x :next+ :nowhere }", triple("n0", "value", "1")),
        ("?x :next+ ?y . ?y :last ?l", triple("n5000", "last", "1")),
    ):
        query = parsed(f"SELECT * {{ {text} }}")
        plan(query, chain, limits=LIMITS).answers(TripleIndex([delta]))
        if ":nowhere" in text:  # nothing leads there: the walk from it ends at once
            continue
        with pytest.raises(LimitExceeded):
            plan(query, chain, limits=Limits(probes=1_000)).answers(TripleIndex([delta]))


def test_a_filter_reads_the_ends_of_a_path() -> None:
    query = parsed("SELECT ?f { ?z :value ?v . ?z :in+ ?f FILTER(?f != :house) }")
    assert isinstance(query.pattern, Filter)
    assert sum(rows(plan(query, building(40)), triple("bed7", "value", "1")).values()) == 2


def test_paths_over_a_mapped_background_are_those_in_memory(tmp_path: FilePath) -> None:
    """Long lists of a mapped background are decoded lazily: a house has 100 floors."""
    triples = list(building(2_000))
    delta = [triple("bed7", "value", "1"), triple("annex", "has", "house"), triple("shed", "in", "house"), triple("house", "near", "shed")]
    for text in (
        "?z :value ?v . ?z :in+ ?f . ?f :has+ ?x . ?x :value ?w",
        "?z :value ?v . ?z :in+ ?f . ?f !(:has) ?x",
        "?z :value ?v . ?z :in+ ?f . ?f (:has|:near)/:name ?x",
        "?f :has+ ?z . ?z :value ?v",
        "?z :value ?v . ?z (:in|:near|^:has)* ?f . ?f :a :Floor",
        "?y :in ?r . ?r :in* ?h . ?h :near ?s",
        "?f :has+ ?z . ?f :a ?c",
    ):
        query = parsed(f"SELECT * {{ {text} }}")
        found = plan(query, mapped(triples, tmp_path / "background"))
        assert rows(found, *delta) == rows(plan(query, TripleIndex(triples)), *delta)
        assert found.delta_queries is not None
