"""Graphs of one report of a continuous query, and the operators of WINDOW blocks and MATCH.

The default graph is the union of the background and the default windows. A WINDOW block is
evaluated over the graph of its window alone. The solutions of MATCH are an input (continuous.md,
sections 5 and 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dotr.evaluation.joins.scope import Variables
from dotr.evaluation.limits import NO_LIMITS, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evidence import TracedSolution, UsedMapping, UsedWindow
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution
from dotr.instant.queries.operators import AlgebraOperator, are_compatible
from dotr.model.algebra import Pattern
from dotr.model.terms import Term


class ReportGraph(Graph):
    """The default graph of a report, the graph of each window, and the solutions of each MATCH."""

    __slots__ = ("matches", "windows")

    def __init__(
        self,
        background: TripleIndex,
        delta: TripleIndex,
        windows: Mapping[Term, Graph],
        matches: Sequence[Sequence[Solution]],
        limits: Limits = NO_LIMITS,
    ) -> None:
        super().__init__(background, delta, None, limits)
        self.windows = windows
        self.matches = matches


def report_graph(graph: Graph) -> ReportGraph:
    """A cast: queries with windows are evaluated over report graphs only."""
    assert isinstance(graph, ReportGraph), "a WINDOW block or MATCH outside a report"
    return graph


class WindowOperator(AlgebraOperator):
    """`WINDOW w { P }`."""

    __slots__ = ("_inner", "_window")

    def __init__(self, pattern: Pattern, window: Term, inner: AlgebraOperator) -> None:
        super().__init__(pattern)
        self._window = window
        self._inner = inner

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        return self._inner.solutions(report_graph(graph).windows[self._window], bound, outer)

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        for solution, evidence in self._inner.traced(report_graph(graph).windows[self._window], bound, outer):
            yield solution, (UsedWindow(self._window, evidence),)

    def size(self, graph: Graph) -> float:
        return self._inner.size(report_graph(graph).windows[self._window])

    def full_scan_reason(self, bound: Variables) -> str:
        return self._inner.full_scan_reason(bound)


class MatchOperator(AlgebraOperator):
    """`MATCH { … }`."""

    __slots__ = ("_number",)

    def __init__(self, pattern: Pattern, number: int) -> None:
        super().__init__(pattern)
        self._number = number

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        return self.compatible_with(report_graph(graph).matches[self._number], {**outer, **bound}, self.variables)

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        for mapping, solution in enumerate(report_graph(graph).matches[self._number]):
            if are_compatible(solution, {**outer, **bound}):
                yield solution, (UsedMapping(self._number, mapping),)

    def size(self, graph: Graph) -> float:
        return float(len(report_graph(graph).matches[self._number]))

    def full_scan_reason(self, bound: Variables) -> str:
        return ""
