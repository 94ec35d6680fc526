"""Full evaluation of a SELECT over an instant: all of SPARQL 1.1's algebra, on one default graph.

What no plan covers is answered here, exactly; cost: that of the query over background and instant together.
"""

from __future__ import annotations

from typing import assert_never

from dotr.model.algebra import Bgp, Exists, Extend, Filter, Group, Join, LeftJoin, Minus, Pattern, Select, Union, Values
from dotr.model.terms import Term
from dotr.queries.graph import Graph
from dotr.queries.modifiers import GroupOperator, SelectOperator
from dotr.queries.operators import (
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
from dotr.queries.solution_expressions import CompiledCondition, CompiledExpression
from dotr.store.triples import TripleIndex


def evaluate(select: Select, background: TripleIndex, new: TripleIndex) -> list[tuple[Term | None, ...]]:
    """The bag of solutions over background and new triples together, values in the order of the projection."""
    solutions = AlgebraCompiler().compiled(select).solutions(Graph(background, new), EMPTY, EMPTY)
    return [tuple([solution.get(name) for name in select.projection]) for solution in solutions]


class AlgebraCompiler:
    """Makes the operator that evaluates a pattern."""

    def compiled(self, pattern: Pattern) -> AlgebraOperator:
        match pattern:
            case Bgp(patterns):
                return BgpOperator(pattern, patterns)
            case Join(Bgp(left), Bgp(right)):
                return BgpOperator(pattern, left + right)
            case Join(first, second):
                return JoinOperator(pattern, self.compiled(first), self.compiled(second))
            case LeftJoin(first, second, condition):
                test = None if condition is None else CompiledCondition(condition, self.existence)
                return LeftJoinOperator(pattern, self.compiled(first), self.looked_up(second, first), test)
            case Union(first, second):
                return UnionOperator(pattern, self.compiled(first), self.compiled(second))
            case Minus(first, second):
                return MinusOperator(pattern, self.compiled(first), self.looked_up(second, first))
            case Filter(inner, conditions):
                return FilterOperator(pattern, self.compiled(inner), tuple(CompiledCondition(each, self.existence) for each in conditions))
            case Extend(inner, variable, expression):
                return ExtendOperator(pattern, self.compiled(inner), variable, CompiledExpression(expression, self.existence))
            case Values():
                return ValuesOperator(pattern)
            case Group(inner, _, _):
                return GroupOperator(pattern, self.compiled(inner), self.existence)
            case Select(_, inner):
                return SelectOperator(pattern, self.compiled(inner), self.existence)
            case _:
                assert_never(pattern)

    def looked_up(self, pattern: Pattern, given: Pattern) -> AlgebraOperator:
        """The operator of a pattern that is asked about solutions of another."""
        return self.compiled(pattern)

    def existence(self, exists: Exists) -> AlgebraOperator:
        return AlgebraCompiler().compiled(exists.pattern)
