"""Proof of a fact: the triples and conditions of one solution of its query.

Idea: the operators of the SELECT return the solutions over the closed instant with the fact's
attributes bound, each with its evidence (`dotr.instant.queries.evidence`). Of the solutions for the
fact, that with the triples of least height is kept, then the first in the tie order.
Cost: that of the query with bound attributes; sub-queries with LIMIT are evaluated in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.evidence import Evidence, used_triples
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY
from dotr.model.algebra import Select
from dotr.model.terms import Term, Triple, Variable

_MAX_SOLUTIONS: Final = 1_000
"""Maximum number of solutions that are compared for one fact."""

Height: TypeAlias = Callable[[Triple], int]


def prove_fact(select: Select, attributes: Mapping[Variable, Term], graph: Graph, height: Height) -> Evidence | None:
    """The evidence of the best solution for a fact; None if no solution has its attributes.

    Args:
        select: the query.
        attributes: the bound attributes of the fact; the others of the projection are unbound.
        graph: the closed instant.
        height: the height of the proof of a triple.

    >>> from dotr.model.algebra import Bgp, Const, TriplePattern, Var
    >>> from dotr.evaluation.triples.index import TripleIndex
    >>> at, inside = (TriplePattern(Var("x"), Const(p), Var(o)) for p, o in (("<at>", "y"), ("<in>", "z")))
    >>> graph = Graph(TripleIndex([("<a>", "<in>", "<r>")]), TripleIndex([("<a>", "<at>", "<d>")]))
    >>> [item.triple for item in prove_fact(Select(("x",), Bgp((at, inside))), {"x": "<a>"}, graph, lambda triple: 0)]
    [('<a>', '<at>', '<d>'), ('<a>', '<in>', '<r>')]
    """

    def order(evidence: Evidence) -> tuple[int, list[Triple]]:
        triples = list(used_triples(evidence))
        return max(map(height, triples), default=0), triples

    return prove_solution(select, attributes, graph, order)


def prove_solution(
    select: Select, attributes: Mapping[Variable, Term], graph: Graph, order: Callable[[Evidence], tuple[int, Sequence[object]]]
) -> Evidence | None:
    """The evidence of the solution with these attributes that is first in an order.

    Args:
        select: the query.
        attributes: the bound attributes; the others of the projection are unbound.
        graph: the graph.
        order: the sort key of a solution's evidence.

    Returns:
        None if no solution has these attributes.
    """
    operator = AlgebraCompiler().compile(select)

    def proofs(given: Mapping[Variable, Term]) -> list[Evidence]:
        found = islice(operator.traced(graph, given, EMPTY), _MAX_SOLUTIONS)
        return [evidence for solution, evidence in found if solution == attributes]

    # With its end bound, a path of length 0 from a constant that is no node of the graph has no solution: evaluate it unbound.
    return min(proofs(attributes) or proofs({}), key=order, default=None)
