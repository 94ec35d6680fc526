"""Structure of queries (joins, OPTIONAL, UNION, MINUS, EXISTS, paths, sub-queries) compared with pyoxigraph, and costs of plans.

Terms are IRIs and strings, so that the comparison is independent of arithmetic.
"""

from __future__ import annotations

import random
from collections import Counter

import pyoxigraph as ox
import pytest

from dotr.evaluation.triples.index import Ends, TripleIndex
from dotr.instant.queries import plan, same_query
from dotr.instant.queries.evaluate import evaluate
from dotr.model.algebra import Select
from dotr.model.places import Document, Span
from dotr.model.terms import RDF_TYPE, Term, Triple, iri, literal
from dotr.syntax.sparql import parse_select

pytestmark = pytest.mark.core

EX = "http://e/"
NODES = [iri(EX + name) for name in "abcde"]

QUERIES = [
    "SELECT ?x ?z { ?x :p ?y . ?y :q ?z }",
    "SELECT ?x { ?x :p ?x }",
    "SELECT ?p ?z { :a ?p ?y . ?y ?p ?z }",
    "SELECT DISTINCT ?y { ?x :p ?y . ?x :q [] }",
    "SELECT ?x ?z { ?x :p ?y OPTIONAL { ?y :q ?z } }",
    "SELECT ?x ?z ?w { ?x :p ?y OPTIONAL { ?y :q ?z OPTIONAL { ?z :r ?w } } }",
    "SELECT ?x ?z ?w { ?x :p ?y OPTIONAL { ?y :q ?z } OPTIONAL { ?z :r ?w } }",
    "SELECT ?x ?z { ?x :p ?y OPTIONAL { ?y :q ?z FILTER(?z != ?x) } }",
    "SELECT ?x ?z { ?x :p ?y OPTIONAL { { ?y :q ?z } UNION { ?y :r ?z } } }",
    "SELECT * { { ?x :p ?y } UNION { ?x :q ?z } ?x :r ?w }",
    "SELECT * { ?x :r ?w { ?x :p ?y } UNION { ?y :q ?x } FILTER(?w != ?x) }",
    "SELECT * { ?x :p ?y MINUS { ?y :q ?x } }",
    "SELECT * { ?x :p ?y MINUS { ?a :q ?b } }",
    "SELECT * { ?x :p ?y MINUS { { ?x :q ?b } UNION { ?c :r ?y } } }",
    "SELECT * { ?x :r ?y FILTER EXISTS { ?y :q ?z FILTER(?z != ?x) } }",
    "SELECT * { ?x :r ?y FILTER NOT EXISTS { ?y :q ?x } }",
    "SELECT * { ?x :r ?y FILTER NOT EXISTS { ?y :q ?z FILTER NOT EXISTS { ?z :p ?x } } }",
    "SELECT * { ?x :r ?y FILTER(?x = :a || EXISTS { ?y :q [] }) }",
    "SELECT * { ?x :p+ ?y }",
    "SELECT * { ?x :p* ?y }",
    "SELECT * { :a :r ?z . :a (:p|:q)* ?y }",
    "SELECT * { ?x (:p/:q)+ :b }",
    "SELECT * { ?x ^:p/:q? ?y }",
    "SELECT * { ?x !(:p|:q) ?y . ?y !(^:r) ?z }",
    "SELECT * { ?x :r ?y . ?y :p* ?z . ?z :q ?w }",
    "SELECT * { VALUES (?x ?y) { (:a UNDEF) (:b :c) (UNDEF :d) } ?x :p ?y }",
    "SELECT * { ?x :p ?y } VALUES ?y { :a :b :b }",
    "SELECT * { ?x :r ?y { SELECT ?x (COUNT(*) AS ?n) { ?x :p ?z } GROUP BY ?x } }",
    "SELECT ?x (COUNT(?y) AS ?n) (COUNT(DISTINCT ?z) AS ?m) { ?x :p ?y OPTIONAL { ?y :q ?z } } GROUP BY ?x HAVING (COUNT(?y) > 1)",
    "SELECT * { ?x :r ?y { SELECT ?x { ?x :p ?y } } }",
    "SELECT * { ?x :p ?y BIND(STR(?y) AS ?s) FILTER(?s != STR(?x)) }",
    "SELECT * { { ?x :p ?y BIND(STR(?y) AS ?s) } ?z :q ?s }",
    "SELECT * { { ?x :p ?y OPTIONAL { ?y :q ?z } } ?z :r ?w }",
    "SELECT * { ?x :r ?y { ?z :p ?w FILTER(BOUND(?x)) } }",
    "SELECT (COUNT(*) AS ?n) { ?x :r ?y . ?y :p ?z }",
]


def parsed(text: str) -> Select:
    return parse_select(Span(Document("query", text), 0, len(text)), {"": EX})


def triples_of(chosen: random.Random, predicates: str) -> list[Triple]:
    objects = [*NODES, literal("s"), literal(EX + "a")]
    triples = [(chosen.choice(NODES), iri(EX + chosen.choice(predicates)), chosen.choice(objects)) for _ in range(chosen.randint(0, 18))]
    return list(dict.fromkeys(triples))


def by_oxigraph(text: str, triples: list[Triple], names: tuple[str, ...]) -> Counter[tuple[Term | None, ...]]:
    store = ox.Store()
    store.load("\n".join(f"{' '.join(triple)} ." for triple in triples), format=ox.RdfFormat.N_TRIPLES)
    solutions = store.query(text, prefixes={"": EX})
    assert isinstance(solutions, ox.QuerySolutions)
    return Counter(tuple(None if solution[n] is None else str(solution[n]) for n in names) for solution in solutions)


@pytest.mark.parametrize("text", QUERIES)
def test_structure_agrees_with_pyoxigraph(text: str) -> None:
    query = parsed(text)
    chosen = random.Random(text)
    for _ in range(12):
        background = triples_of(chosen, chosen.choice(["pqr", "pq", "q", "qr"]))
        known = TripleIndex(background)
        query_plan = plan(query, known)
        for _ in range(3):
            delta = [triple for triple in triples_of(chosen, "pqr") if triple not in known]
            expected = by_oxigraph(text, background + delta, query.projection)
            assert Counter(evaluate(query, known, TripleIndex(delta))) == expected, (background, delta)
            assert Counter(query_plan.answers(TripleIndex(delta))) == expected, (background, delta)


# --- cost and reads of plans ---

SENSOR = "?r a :Smoke ; :from ?s . ?s :in ?room . "


class Counted(dict[Term, list[Term]]):
    """The ends of a predicate, with a count of look-ups."""

    probes = 0

    def get(self, key: Term, default: list[Term] | None = None) -> list[Term]:  # type: ignore[override]
        Counted.probes += 1
        return super().get(key, default or [])

    def items(self) -> object:  # type: ignore[override]
        Counted.probes += len(self)
        return super().items()


def building(sensors: int) -> TripleIndex:
    rooms = TripleIndex((iri(f"{EX}s{i}"), iri(EX + "in"), iri(f"{EX}room{i % 50}")) for i in range(sensors))
    for index in (rooms.by_subject, rooms.by_object):
        for predicate, ends in index.items():
            counted: Ends = Counted(ends)
            index[predicate] = counted
    return rooms


SMOKE = TripleIndex([(iri(EX + "r1"), RDF_TYPE, iri(EX + "Smoke")), (iri(EX + "r1"), iri(EX + "from"), iri(EX + "s7"))])


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT ?r ?room {{ {SENSOR} }}",
        f"SELECT DISTINCT ?room {{ {SENSOR} FILTER(?room != :room1) BIND(STR(?room) AS ?name) }}",
        "SELECT ?r ?room { ?r a :Smoke ; :from ?s OPTIONAL { ?s :in ?room } }",
        f"SELECT ?r {{ {SENSOR} FILTER NOT EXISTS {{ ?s :in :room1 }} }}",
        f"SELECT ?r {{ {SENSOR} MINUS {{ ?s :in :room1 }} }}",
        f"SELECT ?room (COUNT(?r) AS ?n) {{ {SENSOR} }} GROUP BY ?room",
        f"SELECT ?room {{ {SENSOR} }} ORDER BY ?room LIMIT 1",
        "SELECT ?r ?room { ?r a :Smoke ; :from/:in+ ?room }",
        "SELECT ?r ?room { { ?r a :Smoke } UNION { ?r a :Heat } ?r :from ?s OPTIONAL { ?s :in ?room OPTIONAL { ?room :on ?floor } } }",
    ],
)
def test_incremental_query_costs_the_size_of_the_delta(text: str) -> None:
    costs = []
    for sensors in (100, 5_000):
        query_plan = plan(parsed(text), building(sensors))
        assert query_plan.is_incremental, query_plan.reason
        assert query_plan.triggers == frozenset({RDF_TYPE})
        Counted.probes = 0
        assert len(query_plan.answers(SMOKE)) == 1
        costs.append(Counted.probes)
    assert costs[0] == costs[1] <= 12


def test_reads_contain_the_constant_object() -> None:
    query_plan = plan(parsed(f"SELECT ?r {{ {SENSOR} }}"), building(100))
    assert query_plan.reads == frozenset({(RDF_TYPE, iri(EX + "Smoke"))})


def test_variable_predicate_reads_any_triple() -> None:
    known = TripleIndex([(NODES[0], iri(EX + "p"), NODES[1])])
    query_plan = plan(parsed("SELECT ?x ?o { ?x ?p ?o }"), known)
    assert query_plan.triggers is None
    assert query_plan.is_incremental
    assert query_plan.static == ((NODES[0], NODES[1]),)


def test_delta_triple_retracts_a_static_answer() -> None:
    known = TripleIndex([(NODES[0], iri(EX + "p"), NODES[1])])
    query_plan = plan(parsed("SELECT ?x { ?x :p ?y FILTER NOT EXISTS { ?x :broken ?z } }"), known)
    assert query_plan.static == ((NODES[0],),)
    assert query_plan.triggers == frozenset({iri(EX + "p"), iri(EX + "broken")})
    assert query_plan.answers(TripleIndex([(NODES[0], iri(EX + "broken"), NODES[2])])) == []


def test_full_evaluation_has_a_reason() -> None:
    query_plan = plan(parsed("SELECT (COUNT(?s) AS ?n) { ?s :in ?room }"), building(2_000))
    assert not query_plan.is_incremental
    assert query_plan.reason == "aggregates; a graph pattern is matched against the whole background"
    assert query_plan.static == ((literal("2000", "http://www.w3.org/2001/XMLSchema#integer"),),)


def test_queries_are_equal_up_to_variable_names() -> None:
    one = parsed("SELECT ?x (COUNT(?y) AS ?n) { ?x :p ?y OPTIONAL { ?y :q ?z } FILTER NOT EXISTS { ?y :r ?w } } GROUP BY ?x")
    same = parsed("SELECT ?a (COUNT(?b) AS ?c) { ?a :p ?b OPTIONAL { ?b :q ?x } FILTER NOT EXISTS { ?b :r ?y } } GROUP BY ?a")
    other = parsed("SELECT ?a (COUNT(?x) AS ?c) { ?a :p ?b OPTIONAL { ?b :q ?x } FILTER NOT EXISTS { ?b :r ?y } } GROUP BY ?a")
    assert same_query(one, same)
    assert not same_query(one, other)
    assert not same_query(parsed("SELECT ?x ?y { ?x :p ?y } LIMIT 1"), parsed("SELECT ?y ?x { ?y :p ?x } LIMIT 1"))
