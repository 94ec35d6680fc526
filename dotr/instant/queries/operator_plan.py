"""Plans by operators, for queries that are no union of conjunctions.

A module of its own, since most programs have no such query and need not load the operators.
"""

from __future__ import annotations

from dataclasses import dataclass

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.joins.scope import NOTHING, Reads
from dotr.evaluation.limits import NO_LIMITS, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.incremental import IncrementalCompiler
from dotr.instant.queries.operators import EMPTY, AlgebraOperator
from dotr.model.algebra import Select


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
