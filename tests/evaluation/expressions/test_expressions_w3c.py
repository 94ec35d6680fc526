"""W3C SPARQL 1.1 tests of functions, assignments and aggregates, with a minimal evaluation of queries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pyoxigraph as ox
import pytest

from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions import Parameter, aggregate, condition, evaluator
from dotr.evaluation.expressions.values.terms import NUMERIC, VALUES, write
from dotr.model.algebra import (
    Bgp,
    Call,
    Const,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Pattern,
    Select,
    TriplePattern,
    Union,
    Values,
    Var,
)
from dotr.model.places import Document, Span
from dotr.model.terms import TRUE, Term, Triple, Variable, blank, iri, literal
from dotr.model.traverse import in_scope
from dotr.syntax.sparql import parse_select
from tests.support.paths import ROOT

SUITE: Final = Path(os.environ.get("DOTR_DATA", ROOT / "../shared/data")) / "w3c-sparql11"
ABSENT: Final = (
    f"no W3C tests in {SUITE}: get https://github.com/w3c/rdf-tests (sparql/sparql11) and set DOTR_DATA to the folder above w3c-sparql11"
)

Solution: TypeAlias = dict[Variable, Term]

REFUSED: Final = {"bnode01", "bnode02", "now01", "rand01", "struuid01", "uuid01"}
"""Tests of functions whose values depend on more than the input."""


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


def triples(path: Path) -> list[Triple]:
    text = path.read_text(encoding="utf-8")
    found = ox.parse(text, format=ox.RdfFormat.TURTLE, base_iri="http://example.org/", rename_blank_nodes=True)
    return [(term_of(q.subject), term_of(q.predicate), term_of(q.object)) for q in found]


def match(slot: Var | Const, term: Term, solution: Solution) -> Solution | None:
    if isinstance(slot, Const):
        return solution if slot.term == term else None
    if slot.name in solution:
        return solution if solution[slot.name] == term else None
    return {**solution, slot.name: term}


def leaves(expression: Expression) -> Iterator[Parameter]:
    match expression:
        case Call(_, arguments):
            for argument in arguments:
                yield from leaves(argument)
        case Const() | Exists():
            pass
        case _:
            yield expression


def value(expression: Expression, solution: Solution) -> Term | None:
    parameters = list(dict.fromkeys(leaves(expression)))
    return evaluator(expression, parameters)(*(solution.get(p.name) for p in parameters if isinstance(p, Var)))


def holds(expression: Expression, solution: Solution) -> bool:
    parameters = list(dict.fromkeys(leaves(expression)))
    return condition(expression, parameters)(*(solution.get(p.name) for p in parameters if isinstance(p, Var)))


def solutions(pattern: Pattern, graph: list[Triple]) -> list[Solution]:
    match pattern:
        case Bgp(patterns):
            found: list[Solution] = [{}]
            for triple in patterns:
                assert isinstance(triple, TriplePattern)
                found = [
                    third
                    for solution in found
                    for s, p, o in graph
                    if (first := match(triple.subject, s, solution)) is not None
                    and (second := match(triple.predicate, p, first)) is not None
                    and (third := match(triple.object, o, second)) is not None
                ]
            return found
        case Filter(inner, conditions):
            return [s for s in solutions(inner, graph) if all(holds(c, s) for c in conditions)]
        case Extend(inner, name, expression):
            return [{**s, name: t} if (t := value(expression, s)) is not None else s for s in solutions(inner, graph)]
        case Join(left, right):
            pairs = ((a, b) for a in solutions(left, graph) for b in solutions(right, graph))
            return [{**a, **b} for a, b in pairs if all(a.get(k, v) == v for k, v in b.items())]
        case LeftJoin(left, right, test):
            joined: list[Solution] = []
            for solution in solutions(left, graph):
                more = [{**solution, **b} for b in solutions(right, graph) if all(solution.get(k, v) == v for k, v in b.items())]
                more = [s for s in more if test is None or holds(test, s)]
                joined += more or [solution]
            return joined
        case Union(left, right):
            return solutions(left, graph) + solutions(right, graph)
        case Values(names, rows):
            return [{n: t for n, t in zip(names, row, strict=True) if t is not None} for row in rows]
        case Group(inner, keys, aggregates):
            groups: dict[tuple[Term | None, ...], list[Solution]] = {}
            for solution in solutions(inner, graph):
                groups.setdefault(tuple(value(e, solution) for _, e in keys), []).append(solution)
            groups = groups or {tuple(None for _ in keys): []}  # agg-empty-group2: no solutions are one empty group
            return [
                {
                    **{name: t for (name, _), t in zip(keys, key, strict=True) if t is not None},
                    **{
                        name: t
                        for name, call in aggregates
                        if (t := aggregate(call)([TRUE if call.argument is None else value(call.argument, s) for s in members])) is not None
                    },
                }
                for key, members in groups.items()
            ]
        case Select():
            return [{v: s[v] for v in pattern.projection if v in s} for s in solutions(pattern.pattern, graph)]
        case _:
            pytest.skip(f"{type(pattern).__name__} is for the tests of queries")


def canonical(solution: Solution) -> frozenset[tuple[Variable, Term]]:
    """Numbers by value (the suite writes 4.0 where the canonical form is 4), blank nodes as one."""
    return frozenset(
        (name, (write(VALUES[t]) or "") if type(VALUES[t]) in NUMERIC else "_:" if t[0] == "_" else t) for name, t in solution.items()
    )


def cases() -> Iterator[tuple[str, str, Path, Path, list[Path]]]:
    """Folder, name, query, result and data of each evaluation test in the manifests."""
    manifest = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
    query = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
    for folder in ("functions", "aggregates", "bind", "project-expression", "grouping"):
        base = SUITE / folder
        if not (base / "manifest.ttl").exists():
            continue
        store = ox.Store()
        store.load((base / "manifest.ttl").read_bytes(), format=ox.RdfFormat.TURTLE, base_iri="file:///")

        def one(subject: ox.NamedNode | ox.BlankNode, name: str, store: ox.Store = store) -> ox.NamedNode | ox.BlankNode | None:
            found = next(store.quads_for_pattern(subject, ox.NamedNode(name), None), None)
            return found.object if found and isinstance(found.object, ox.NamedNode | ox.BlankNode) else None

        for quad in store.quads_for_pattern(None, ox.NamedNode(manifest + "action"), None):
            assert isinstance(quad.subject, ox.NamedNode | ox.BlankNode)
            result = one(quad.subject, manifest + "result")
            if result is None or not isinstance(quad.object, ox.BlankNode):
                continue
            text, data = one(quad.object, query + "query"), one(quad.object, query + "data")
            assert text is not None
            files = [base / Path(data.value).name] if data is not None else []
            if result.value.endswith(".srx"):
                yield folder, Path(text.value).stem, base / Path(text.value).name, base / Path(result.value).name, files


@pytest.mark.skipif(not SUITE.exists(), reason=ABSENT)
@pytest.mark.parametrize(
    ("folder", "name", "query", "result", "data"), [pytest.param(*c, id=f"{c[0]}-{c[1]}-{c[3].stem}") for c in cases()]
)
def test_query_has_the_result_of_the_w3c(folder: str, name: str, query: Path, result: Path, data: list[Path]) -> None:
    text = query.read_text(encoding="utf-8")
    ask = "ASK" in text
    if ask:
        text = text.replace("ASK", "SELECT *", 1)
    if "BASE" not in text.upper():
        text = f"BASE <http://example.org/>\n{text}"
    if name in REFUSED:  # not a function of the input
        with pytest.raises(Refused, match="Q108"):
            parse_select(Span(Document(query.name, text), 0, len(text)), {})
        return
    parsed = parse_select(Span(Document(query.name, text), 0, len(text)), {})
    found = solutions(parsed, triples(data[0]) if data else [])
    expected = ox.parse_query_results(result.read_bytes(), format=ox.QueryResultsFormat.XML)
    if isinstance(expected, ox.QueryBoolean):
        assert bool(found) is bool(expected)
        return
    assert isinstance(expected, ox.QuerySolutions)
    names = [v.value for v in expected.variables]
    rows: list[Solution] = [{n: term_of(t) for n, t in zip(names, row, strict=True) if t is not None} for row in expected]
    assert set(names) <= set(in_scope(parsed))
    assert Counter(map(canonical, found)) == Counter(map(canonical, rows))
