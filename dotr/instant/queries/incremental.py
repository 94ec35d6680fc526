"""Operators that start from the delta of an instant.

Idea: at an instant, the answers of a union of conjunctions are its static answers, computed once
and cached, and the answers of its delta queries. The operators above it take these as their input
and look up everything else, so that OPTIONAL, NOT EXISTS, MINUS and aggregates cost what their
input costs.
Invariant: exact on all data, since the cached answers of a part are complete.
Cost: that of the whole background for a part with more than `MAX_STATIC_ROWS` static answers, or
without a variable in common with its input; `AlgebraOperator.full_scan_reason` reports such parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.joins.branches import Unplannable, branches
from dotr.evaluation.joins.deltas import Conjunction, bag_difference
from dotr.evaluation.joins.scope import NOTHING, Reads, Variables, possible, union_of_reads, variables_of
from dotr.evaluation.limits import NO_LIMITS, LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.evidence import TracedSolution
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution
from dotr.instant.queries.operators import EMPTY, AlgebraOperator, JoinOperator
from dotr.model import dataclass
from dotr.model.algebra import Bgp, BgpItem, Join, Pattern, Select, TermPattern, TriplePattern, Values
from dotr.model.terms import Variable
from dotr.model.traverse import certain

MAX_STATIC_ROWS: Final = 1_000
"""A part of a query with more static answers is evaluated in full instead of cached."""

_MAX_STATIC_SIZE: Final = 50_000.0


class DeltaScan(AlgebraOperator):
    """A union of conjunctions, answered from cached static rows and delta queries.

    `general` evaluates the pattern when some of its variables are bound.
    """

    __slots__ = ("_delta_joins", "_general", "_names", "_parts", "_static_rows", "_static_solutions")

    def __init__(
        self,
        pattern: Pattern,
        names: tuple[Variable, ...],
        parts: list[Conjunction],
        static_rows: list[AnswerRow],
        general: AlgebraOperator,
    ) -> None:
        super().__init__(pattern)
        self._names = names
        self._general = general
        self._static_rows, self._parts = static_rows, parts
        self._static_solutions = [self._solution(row) for row in static_rows]
        self._delta_joins = tuple(query.join for part in parts for query in part.delta_queries)
        self.is_static_empty = not static_rows
        self.reads = frozenset()
        for part in parts:
            self.reads = union_of_reads(self.reads, part.reads)

    def _solution(self, row: AnswerRow) -> Solution:
        return {name: term for name, term in zip(self._names, row, strict=True) if term is not None}

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        if outer or not self.variables.isdisjoint(bound):
            return self._general.solutions(graph, bound, outer)
        background, delta = graph.indexes
        if graph.removed is not None:
            rows = bag_difference(
                self._static_rows, (row for part in self._parts for row in part.retracted_answers(background, graph.removed))
            )
            rows += [row for part in self._parts for join in part.deltas_over_view for row in join(background, delta)]
            return list(map(self._solution, rows))
        found = [*self._static_solutions, *(self._solution(row) for join in self._delta_joins for row in join(background, delta))]
        graph.limits.check_rows(len(found))
        return found

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        return self._general.traced(graph, bound, outer)

    def size(self, graph: Graph) -> float:
        return float(len(self._static_solutions) + min(len(graph.delta), 8))

    def full_scan_reason(self, bound: Variables) -> str:
        return self._general.full_scan_reason(bound) if bound & self.variables else ""


class IncrementalCompiler(AlgebraCompiler):
    """Compiler of patterns to operators, with a `DeltaScan` for each part that distributes."""

    def __init__(self, background: TripleIndex, limits: Limits | None) -> None:
        self._background = background
        self._limits = limits

    def compile(self, pattern: Pattern) -> AlgebraOperator:
        if isinstance(pattern, Join) and isinstance(pattern.left, Bgp) and isinstance(pattern.right, Bgp):
            pattern = Bgp(pattern.left.patterns + pattern.right.patterns)
        scan = self._delta_scan(pattern)
        if scan is None and isinstance(pattern, Bgp):
            triples, paths = split_paths(pattern)
            if triples.patterns and paths.patterns:  # the paths start at terms that the triples bind
                return JoinOperator(pattern, self.compile(triples), AlgebraCompiler().compile(paths))
        return scan or super().compile(pattern)

    def compile_lookup(self, pattern: Pattern, left: Pattern) -> AlgebraOperator:
        if certain(left) & possible(pattern):
            return AlgebraCompiler().compile(pattern)
        return self.compile(pattern)

    def _delta_scan(self, pattern: Pattern) -> AlgebraOperator | None:
        if isinstance(pattern, Values) or pattern == Bgp(()):
            return None
        names = tuple(sorted(possible(pattern)))
        try:
            parts = [Conjunction(branch, names, self._background, self._limits) for branch in branches(pattern)]
        except (Unplannable, LimitExceeded):  # the full evaluation counts its own work
            return None
        general = AlgebraCompiler().compile(pattern)
        if all(part.is_static_empty for part in parts):
            return DeltaScan(pattern, names, parts, [], general)
        if general.size(Graph(self._background, TripleIndex())) > _MAX_STATIC_SIZE:
            return None
        static_rows = [row for part in parts for row in part.static_answers()]
        return DeltaScan(pattern, names, parts, static_rows, general) if len(static_rows) <= MAX_STATIC_ROWS else None


def split_paths(pattern: Bgp) -> tuple[Bgp, Bgp]:
    """The triple patterns with all triple terms, nested ones included, that they bind; and the
    rest.
    """
    joined: list[BgpItem] = [each for each in pattern.patterns if isinstance(each, TriplePattern)]
    rest = [each for each in pattern.patterns if not isinstance(each, TriplePattern)]
    bound = variables_of(joined)
    while inner := [each for each in rest if isinstance(each, TermPattern) and each.term.name in bound]:
        joined += inner
        rest = [each for each in rest if each not in inner]
        bound = variables_of(joined)
    return Bgp(tuple(joined)), Bgp(tuple(rest))


# Plans by operators, for queries that are no union of conjunctions.
#
# A module of its own, since most programs have no such query and need not load the operators.


@dataclass(frozen=True, slots=True, eq=False)
class OperatorPlan:
    """A query over one background as a tree of operators."""

    select: Select
    background: TripleIndex
    limits: Limits | None
    operator: AlgebraOperator

    @staticmethod
    def of(select: Select, background: TripleIndex, limits: Limits | None) -> OperatorPlan:
        """The plan of a query; parts of it start from the delta where they can."""
        return OperatorPlan(select, background, limits, IncrementalCompiler(background, limits).compile(select))

    @property
    def reads(self) -> Reads | None:
        """The kinds of triples that affect the answers; None if any triple may."""
        return self.operator.reads

    @property
    def full_scan_reason(self) -> str:
        """The part that costs the size of the background at every instant; empty without one."""
        return self.operator.full_scan_reason(NOTHING)

    def static_answers(self) -> list[AnswerRow]:
        """The solutions over the background alone."""
        return self._evaluate(Graph(self.background, TripleIndex(), None, self.limits.for_background if self.limits else NO_LIMITS))

    def answers(self, delta: TripleIndex) -> list[AnswerRow]:
        """The bag of solutions over background and delta."""
        return self._evaluate(Graph(self.background, delta, None, self.limits or NO_LIMITS))

    def answers_over_view(self, view: TripleIndex, delta: TripleIndex, removed: TripleIndex) -> list[AnswerRow]:
        """The same over a view of the background without the triples `removed`."""
        return self._evaluate(Graph(view, delta, removed, self.limits or NO_LIMITS))

    def _evaluate(self, graph: Graph) -> list[AnswerRow]:
        names = self.select.projection
        return [tuple([solution.get(name) for name in names]) for solution in self.operator.solutions(graph, EMPTY, EMPTY)]
