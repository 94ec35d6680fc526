"""Full evaluation of a SELECT over an instant: all of SPARQL 1.1's algebra, on one default graph.

Exact for every query, as the general case behind incremental plans.
Cost: that of the query over background and instant together.
"""

from __future__ import annotations

from typing import assert_never

from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.modifiers import GroupOperator, SelectOperator
from dotr.instant.queries.operators import (
    EMPTY,
    AlgebraOperator,
    BgpOperator,
    ExtendOperator,
    FilterOperator,
    JoinOperator,
    LeftJoinOperator,
    MinusOperator,
    UnionOperator,
    ValuesOperator,
)
from dotr.instant.queries.solution_expressions import CompiledCondition, CompiledExpression
from dotr.instant.queries.window_operators import MatchOperator, WindowOperator
from dotr.model.algebra import (
    Bgp,
    Exists,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    MatchPattern,
    Minus,
    Pattern,
    Select,
    Union,
    Values,
    WindowBlock,
)
from dotr.model.terms import Term


def evaluate(select: Select, background: TripleIndex, delta: TripleIndex) -> list[tuple[Term | None, ...]]:
    """The bag of solutions over background and delta together, with values in the order of the
    projection.
    """
    solutions = AlgebraCompiler().compile(select).solutions(Graph(background, delta), EMPTY, EMPTY)
    return [tuple([solution.get(name) for name in select.projection]) for solution in solutions]


class AlgebraCompiler:
    """Compiler of patterns to operators."""

    def compile(self, pattern: Pattern) -> AlgebraOperator:
        """The operator that evaluates a pattern."""
        match pattern:
            case Bgp(patterns):
                return BgpOperator(pattern, patterns)
            case Join(Bgp(left), Bgp(right)):
                return BgpOperator(pattern, left + right)
            case Join(first, second):
                return JoinOperator(pattern, self.compile(first), self.compile(second))
            case LeftJoin(first, second, condition):
                test = None if condition is None else CompiledCondition(condition, self.compile_exists)
                return LeftJoinOperator(pattern, self.compile(first), self.compile_lookup(second, first), test)
            case Union(first, second):
                return UnionOperator(pattern, self.compile(first), self.compile(second))
            case Minus(first, second):
                return MinusOperator(pattern, self.compile(first), self.compile_lookup(second, first))
            case Filter(inner, conditions):
                return FilterOperator(
                    pattern, self.compile(inner), tuple(CompiledCondition(each, self.compile_exists) for each in conditions)
                )
            case Extend(inner, variable, expression):
                return ExtendOperator(pattern, self.compile(inner), variable, CompiledExpression(expression, self.compile_exists))
            case Values():
                return ValuesOperator(pattern)
            case Group(inner, _, _):
                return GroupOperator(pattern, self.compile(inner), self.compile_exists)
            case Select(_, inner):
                return SelectOperator(pattern, self.compile(inner), self.compile_exists)
            case WindowBlock(window, inner):
                return WindowOperator(pattern, window, self.compile(inner))
            case MatchPattern(number):
                return MatchOperator(pattern, number)
            case _:
                assert_never(pattern)

    def compile_lookup(self, pattern: Pattern, left: Pattern) -> AlgebraOperator:
        """Compiles a pattern that will be looked up for each solution of the pattern `left`."""
        return self.compile(pattern)

    def compile_exists(self, exists: Exists) -> AlgebraOperator:
        """The operator of the pattern of an EXISTS."""
        return AlgebraCompiler().compile(exists.pattern)
