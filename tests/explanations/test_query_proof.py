"""Proofs of facts: every answer of a query has a proof, and no other row has one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.proofs import prove_fact
from dotr.instant.queries.evaluate import AlgebraCompiler, evaluate
from dotr.instant.queries.evidence import (
    ComputedTerm,
    Evidence,
    HeldFilter,
    SolutionGroup,
    UnmatchedPattern,
    UsedPath,
    UsedTriple,
    used_triples,
)
from dotr.instant.queries.graph import Graph
from dotr.model.places import Document, Span
from dotr.model.terms import Triple
from dotr.syntax.rendering import expression_text
from dotr.syntax.sparql import parse_select
from tests.instant.queries.test_queries_plans import Author

pytestmark = pytest.mark.core


def test_every_answer_of_a_random_query_has_a_proof() -> None:
    proved = 0
    for seed in range(600):
        author = Author(seed, monotone=False)
        query, graph = author.query(), author.graph()
        background, delta = TripleIndex(graph[::2]), TripleIndex(graph[1::2])
        answers = set(evaluate(query, background, delta))
        for row in answers:
            attributes = {name: term for name, term in zip(query.projection, row, strict=True) if term is not None}
            evidence = prove_fact(query, attributes, Graph(background, delta), lambda triple: 0)
            assert evidence is not None, (seed, query, row)
            assert set(used_triples(evidence)) <= set(graph)
            proved += 1
        missing = ("<n:nothing>",) * len(query.projection)
        if query.projection and missing not in answers:
            assert prove_fact(query, dict(zip(query.projection, missing, strict=True)), Graph(background, delta), lambda triple: 0) is None
    assert proved > 400


def test_traced_solutions_are_those_of_the_evaluation() -> None:
    for seed in range(600):
        author = Author(seed, monotone=False)
        query, graph = author.query(), author.graph()
        over, operator = Graph(TripleIndex(graph[::2]), TripleIndex(graph[1::2])), AlgebraCompiler().compile(query)
        traced = {frozenset(solution.items()) for solution, _ in operator.traced(over, {}, {})}
        assert traced == {frozenset(solution.items()) for solution in operator.solutions(over, {}, {})}, (seed, query)


def proof(query: str, facts: list[Triple], attributes: dict[str, str]) -> list[str]:
    text = f"SELECT {query}"
    select = parse_select(Span(Document("q", text), 0, len(text)), {"": ""})
    bound = {name: f"<{term}>" if term.isalpha() else term for name, term in attributes.items()}
    evidence = prove_fact(select, bound, Graph(TripleIndex(), TripleIndex(facts)), lambda triple: 0)
    assert evidence is not None
    return list(lines(evidence))


def lines(evidence: Evidence) -> Iterator[str]:
    for item in evidence:
        match item:
            case UsedTriple(triple, _):
                yield shown(triple)
            case UsedPath(subject, _, value, triples):
                yield f"path {shown((subject, value))}: {', '.join(map(shown, triples))}"
            case UnmatchedPattern(operator, _, bindings):
                yield f"{operator.value} {sorted(bindings)}"
            case SolutionGroup(keys, results, members):
                yield f"{len(members)} of {shown(tuple(keys.values()))}: {[(call.function, term and term[:4]) for call, term in results]}"
            case HeldFilter(expression, bindings):
                yield f"{expression_text(expression, {})} {sorted(bindings)}"
            case ComputedTerm(variable, _, term, _):
                yield f"?{variable} = {term[:4]}"


def shown(terms: tuple[str, ...]) -> str:
    return " ".join(terms).replace("<", "").replace(">", "")


def triple(text: str) -> Triple:
    subject, predicate, value = (f"<{word}>" for word in text.split())
    return subject, predicate, value


FACTS = [triple(text) for text in ("a in b", "b in c", "c in d", "a at x", "b at y", "s near a", "s near b")]


def test_paths_show_their_triples() -> None:
    assert proof("?x ?y WHERE { ?x :in+ ?y }", FACTS, {"x": "a", "y": "d"}) == ["path a d: a in b, b in c, c in d"]
    assert proof("?x ?y WHERE { ?x :in*/:at ?y }", FACTS, {"x": "a", "y": "x"}) == ["a at x"]
    assert proof("?x ?y WHERE { ?x (:in/:in)+ ?y }", FACTS, {"x": "a", "y": "c"}) == ["path a c: a in b, b in c"]
    assert proof("?x ?y WHERE { ?x ^:near/:near ?y }", FACTS, {"x": "b", "y": "a"}) == ["s near b", "s near a"]
    assert proof("?x ?y WHERE { ?x !:in ?y }", FACTS, {"x": "a", "y": "x"}) == ["path a x: a at x"]


def test_patterns_without_a_match_are_evidence() -> None:
    assert proof("?x ?z WHERE { ?x :in ?y OPTIONAL { ?y :near ?z } }", FACTS, {"x": "a"}) == ["a in b", "OPTIONAL ['y']"]
    assert proof("?x WHERE { ?x :in ?y MINUS { ?y :at ?w } }", FACTS, {"x": "b"}) == ["b in c", "MINUS ['y']"]
    assert proof("?x WHERE { ?x :in ?y FILTER NOT EXISTS { ?y :at ?w } }", FACTS, {"x": "b"}) == ["b in c", "NOT EXISTS ['y']"]
    assert proof("?x WHERE { ?x :in ?y FILTER EXISTS { ?y :at ?w } }", FACTS, {"x": "a"}) == ["a in b", "b at y"]


def test_an_existing_pattern_is_evidence_with_the_conditions_on_terms_from_outside() -> None:
    query = "?x WHERE { ?x :in ?y FILTER EXISTS { ?z :at ?w FILTER(?z = ?y) } }"
    assert proof(query, FACTS, {"x": "a"}) == ["a in b", "b at y", "?z = ?y ['y', 'z']"]


def test_groups_have_members_and_computed_terms_their_values() -> None:
    query = "?x (COUNT(?y) AS ?n) WHERE { ?x :near ?y } GROUP BY ?x HAVING(COUNT(?y) > 1)"
    two = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
    found = proof(query, FACTS, {"x": "s", "n": two})
    assert found[0] == "2 of s: [('COUNT', '\"2\"^')]"
    assert proof("?x ?t WHERE { ?x :at ?y BIND(STR(?y) AS ?t) FILTER(STRLEN(?t) < 9) }", FACTS, {"x": "a", "t": '"x"'}) == [
        "a at x",
        '?t = "x"',
        "STRLEN(?t) < 9 ['t']",
    ]


def test_least_solution_in_the_tie_order_is_kept() -> None:
    assert proof("?x WHERE { ?x :near ?y }", FACTS[::-1], {"x": "s"}) == ["s near a"]
    assert proof("?x WHERE { { ?x :at ?y } UNION { ?x :in ?y } }", FACTS, {"x": "a"}) == ["a at x"]
