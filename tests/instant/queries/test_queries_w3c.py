"""W3C SPARQL 1.1 evaluation tests of SELECT on one default graph, by full evaluation and by plans.

Each test runs with all data as background, with all data as delta, and with the data split between the two.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyoxigraph as ox
import pytest

from dotr.evaluation.expressions import VALUES, write
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries import plan
from dotr.instant.queries.evaluate import evaluate
from dotr.model.algebra import Select
from dotr.model.places import Document, Span
from dotr.model.terms import Term, Triple, blank, iri, literal
from dotr.syntax.sparql import parse_select
from tests.support.paths import DATA as PATHS_DATA

DATA = PATHS_DATA / "w3c-sparql11"
FOLDERS = (
    "aggregates",
    "bind",
    "bindings",
    "exists",
    "functions",
    "grouping",
    "negation",
    "project-expression",
    "property-path",
    "subquery",
)
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"

KNOWN_FAILURES = {
    "aggregates/agg-empty-group2": "expects a solution for GROUP BY over no solutions; section 18.5.1 gives none, nor do other engines",
    "functions/bnode01": "BNODE is refused (semantics.md, section 3)",
    "functions/bnode02": "BNODE is refused (semantics.md, section 3)",
    "functions/struuid01": "STRUUID is refused (semantics.md, section 3)",
    "functions/uuid01": "UUID is refused (semantics.md, section 3)",
}
"""Reasons of failures by test."""

_ASK = "an ASK: the result is no table"
_NAMED = "a query over named graphs: an instant is one graph"
_CONSTRUCT = "a CONSTRUCT: the result is a graph"
EXCLUDED = {
    "aggregates/agg-groupconcat-01": _ASK,
    "aggregates/agg-groupconcat-03": _ASK,
    "aggregates/agg-sample-01": _ASK,
    "exists/exists03": _NAMED,
    "functions/in01": _ASK,
    "functions/in02": _ASK,
    "functions/notin01": _ASK,
    "functions/notin02": _ASK,
    "functions/now01": _ASK,
    "functions/rand01": _ASK,
    "property-path/pp06": _NAMED,
    "property-path/pp07": _NAMED,
    "property-path/pp08": _ASK,
    "property-path/pp34": _NAMED,
    "property-path/pp35": _NAMED,
    "subquery/subquery01": _NAMED,
    "subquery/subquery02": _NAMED,
    "subquery/subquery03": _NAMED,
    "subquery/subquery04": _NAMED,
    "subquery/subquery05": _NAMED,
    "subquery/subquery07": _NAMED,
    "subquery/subquery12": _CONSTRUCT,
    "subquery/subquery14": _CONSTRUCT,
}
"""Evaluation tests of these folders that are no SELECT on one default graph, with the reasons."""

OTHER_FOLDERS = {"construct": _CONSTRUCT, "syntax-query": "nothing is evaluated"}
"""Other folders of the manifest of the query language. (Entailment regimes have a test module of their own.)"""

Row = tuple[Term | None, ...]


@dataclass(frozen=True)
class Case:
    name: str
    query: Path
    data: Path | None
    result: Path


def term_of(node: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple) -> Term:
    match node:
        case ox.NamedNode():
            return iri(node.value)
        case ox.BlankNode():
            return blank(node.value)
        case ox.Literal():
            return literal(node.value, node.datatype.value, node.language or "")
        case _:
            raise AssertionError(node)


def triples_of(path: Path) -> list[Triple]:
    quads = ox.parse(path=str(path), base_iri=path.absolute().as_uri())
    return list(dict.fromkeys((term_of(q.subject), term_of(q.predicate), term_of(q.object)) for q in quads))


def cases() -> Iterator[Case]:
    """Entries of the manifests, by their RDF: SELECT queries, on no named graph, whose results are in the SPARQL results format."""
    for folder in FOLDERS:
        manifest = DATA / folder / "manifest.ttl"
        store = ox.Store()
        store.load(path=str(manifest), base_iri=manifest.absolute().as_uri())
        found = store.query(
            f"""SELECT ?test ?query ?data ?result (EXISTS {{ ?action <{QT}graphData> ?g }} AS ?named) WHERE {{
            ?test a <{MF}QueryEvaluationTest> ; <{MF}action> ?action ; <{MF}result> ?result . ?action <{QT}query> ?query
            OPTIONAL {{ ?action <{QT}data> ?data }} }} ORDER BY ?test"""
        )
        assert isinstance(found, ox.QuerySolutions)
        for row in found:
            query, result, data = (
                None if row[n] is None else Path(row[n].value.removeprefix("file://")) for n in ("query", "result", "data")
            )
            assert query is not None
            assert result is not None
            if row["named"].value == "false" and result.suffix == ".srx" and "<boolean>" not in result.read_text(encoding="utf-8"):
                yield Case(f"{folder}/{row['test'].value.rsplit('#')[-1]}", query, data, result)


CASES = {case.name: case for case in cases()} if DATA.is_dir() else {}


def rows_of(path: Path) -> tuple[list[str], list[Row]]:
    """Variables and solutions of a result file."""
    results = ox.parse_query_results(path=str(path))
    assert isinstance(results, ox.QuerySolutions)
    names = [variable.value for variable in results.variables]
    return names, [tuple(None if row[n] is None else term_of(row[n]) for n in names) for row in results]


def canonical(rows: list[Row]) -> list[Row]:
    """Numbers in XSD 1.1's canonical form (`2`, not `2.0`): computed ones are written so here, and the W3C's results are not."""
    return [tuple([t if t is None or type(VALUES[t]) not in (int, Decimal, float) else write(VALUES[t]) for t in row]) for row in rows]


def isomorphic(left: list[Row], right: list[Row]) -> bool:
    """Equal bags up to the names of blank nodes, which are matched greedily row by row with backtracking."""
    if len(left) != len(right):
        return False
    without_blanks = [Counter(tuple("_:" if t and t[0] == "_" else t for t in row) for row in rows) for rows in (left, right)]
    if without_blanks[0] != without_blanks[1]:
        return False

    def assign(position: int, free: list[Row], names: dict[Term, Term]) -> bool:
        if position == len(left):
            return True
        for i, candidate in enumerate(free):
            extended = dict(names)
            if all(_same(a, b, extended) for a, b in zip(left[position], candidate, strict=True)) and assign(
                position + 1, free[:i] + free[i + 1 :], extended
            ):
                return True
        return False

    return assign(0, right, {})


def _same(a: Term | None, b: Term | None, names: dict[Term, Term]) -> bool:
    if a is None or b is None or a[0] != "_" or b[0] != "_":
        return a == b
    if a not in names and b in names.values():
        return False
    return names.setdefault(a, b) == b


def parsed(case: Case) -> Select:
    text = case.query.read_text(encoding="utf-8")
    return parse_select(Span(Document(case.query.name, text), 0, len(text)), {})


ABSENT = "the W3C SPARQL 1.1 tests are not here: https://github.com/w3c/rdf-tests, sparql/sparql11; set DOTR_DATA to the folder above"


@pytest.mark.skipif(not CASES, reason=ABSENT)
def test_every_other_test_is_listed_with_a_reason() -> None:
    """Every evaluation test of the query language runs, or is listed with a reason that still holds."""
    includes = ox.Store()
    includes.load(path=str(DATA / "manifest-sparql11-query.ttl"), base_iri=DATA.absolute().as_uri() + "/")
    found = includes.query(f"SELECT ?each {{ ?m <{MF}include>/(<{RDF}rest>*/<{RDF}first>) ?each }}")
    assert isinstance(found, ox.QuerySolutions)
    folders = {row["each"].value.removesuffix("/manifest.ttl").rsplit("/")[-1] for row in found}
    assert folders == {*FOLDERS, *OTHER_FOLDERS}
    tests: dict[str, str] = {}
    for folder in FOLDERS:
        manifest = DATA / folder / "manifest.ttl"
        store = ox.Store()
        store.load(path=str(manifest), base_iri=manifest.absolute().as_uri())
        listed = store.query(
            f"""SELECT ?test ?query (EXISTS {{ ?action <{QT}graphData> ?g }} AS ?named)
            {{ ?test a <{MF}QueryEvaluationTest> ; <{MF}action> ?action . ?action <{QT}query> ?query }}"""
        )
        assert isinstance(listed, ox.QuerySolutions)
        for row in listed:
            text = Path(row["query"].value.removeprefix("file://")).read_text(encoding="utf-8")
            words = [word for line in text.splitlines() for word in line.partition("#")[0].upper().replace("{", " ").split()]
            form = next(word for word in words if word in ("SELECT", "ASK", "CONSTRUCT"))
            reason = {"ASK": _ASK, "CONSTRUCT": _CONSTRUCT}.get(form, _NAMED if row["named"].value == "true" else "")
            tests[f"{folder}/{row['test'].value.rsplit('#')[-1]}"] = reason
    assert {name: reason for name, reason in tests.items() if reason} == EXCLUDED
    assert {name for name, reason in tests.items() if not reason} == set(CASES)
    assert set(CASES) >= set(KNOWN_FAILURES)


@pytest.mark.parametrize("name", sorted(CASES) or [pytest.param("none", marks=pytest.mark.skip(reason=ABSENT))])
def test_w3c(name: str, request: pytest.FixtureRequest) -> None:
    case = CASES[name]
    if name in KNOWN_FAILURES:
        request.applymarker(pytest.mark.xfail(reason=KNOWN_FAILURES[name], strict=True))
    select = parsed(case)
    names, rows = rows_of(case.result)
    triples = [] if case.data is None else triples_of(case.data)
    chosen = random.Random(name)
    halves: tuple[list[Triple], list[Triple]] = ([], [])
    for triple in triples:
        halves[chosen.random() < 0.5].append(triple)
    order = [select.projection.index(n) for n in names]
    for background, delta in ((triples, []), ([], triples), halves):
        for answers in (
            evaluate(select, TripleIndex(background), TripleIndex(delta)),
            plan(select, TripleIndex(background)).answers(TripleIndex(delta)),
        ):
            found = [tuple(row[i] for i in order) for row in answers]
            assert isomorphic(canonical(found), canonical(rows)), (background, delta, sorted(map(str, found)), sorted(map(str, rows)))
