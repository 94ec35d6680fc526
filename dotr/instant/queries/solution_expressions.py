"""Expressions over solutions: the bridge from algebra to `dotr.evaluation.expressions` (SPARQL 1.1,
section 17).

EXISTS is evaluated here, with the values of the solution substituted into its pattern (section
18.6); its answer is a boolean argument of the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dotr.evaluation.expressions import condition, evaluator
from dotr.evaluation.joins.scope import Variables, mentioned, query_parameters
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution
from dotr.model.algebra import Exists, Expression, Var
from dotr.model.terms import FALSE, TRUE, Term


class Existence(Protocol):
    """The part of a compiled pattern that EXISTS needs."""

    def has_solution(self, graph: Graph, outer: Bindings) -> bool: ...

    def full_scan_reason(self, bound: Variables) -> str: ...


class _Argument:
    """One parameter of an expression: a variable, or an EXISTS with its compiled `pattern`."""

    __slots__ = ("_name", "_names", "_negated", "pattern")

    def __init__(self, parameter: Var | Exists, compiled: Callable[[Exists], Existence]) -> None:
        self._name = parameter.name if isinstance(parameter, Var) else ""
        self.pattern = compiled(parameter) if isinstance(parameter, Exists) else None
        self._names = tuple(sorted(mentioned(parameter.pattern))) if isinstance(parameter, Exists) else ()
        self._negated = isinstance(parameter, Exists) and parameter.negated

    def evaluate(self, graph: Graph, solution: Solution, outer: Bindings) -> Term | None:
        if self.pattern is None:
            return solution.get(self._name) or outer.get(self._name)
        inner = {name: value for name in self._names if (value := solution.get(name) or outer.get(name)) is not None}
        return TRUE if self.pattern.has_solution(graph, inner) is not self._negated else FALSE


class _Expression:
    """The parameters of a compiled expression."""

    __slots__ = ("_arguments",)

    def __init__(self, parameters: tuple[Var | Exists, ...], compiled: Callable[[Exists], Existence]) -> None:
        self._arguments = tuple(_Argument(parameter, compiled) for parameter in parameters)

    @property
    def has_exists(self) -> bool:
        return any(argument.pattern is not None for argument in self._arguments)

    def full_scan_reason(self, bound: Variables) -> str:
        """The reason why an EXISTS with values of `bound` can cost the size of the background;
        empty without one.
        """
        reason = next(filter(None, (a.pattern.full_scan_reason(bound) for a in self._arguments if a.pattern is not None)), "")
        return reason and f"EXISTS: {reason}"


class CompiledCondition(_Expression):
    """A condition of FILTER or OPTIONAL; an error is false."""

    __slots__ = ("_holds",)

    def __init__(self, expression: Expression, compiled: Callable[[Exists], Existence]) -> None:
        parameters = query_parameters(expression)
        super().__init__(parameters, compiled)
        self._holds = condition(expression, parameters)

    def holds(self, graph: Graph, solution: Solution, outer: Bindings) -> bool:
        return self._holds(*[argument.evaluate(graph, solution, outer) for argument in self._arguments])


class CompiledExpression(_Expression):
    """An expression of BIND, GROUP BY or ORDER BY; an error is None."""

    __slots__ = ("_value",)

    def __init__(self, expression: Expression, compiled: Callable[[Exists], Existence]) -> None:
        parameters = query_parameters(expression)
        super().__init__(parameters, compiled)
        self._value = evaluator(expression, parameters)

    def evaluate(self, graph: Graph, solution: Solution, outer: Bindings) -> Term | None:
        return self._value(*[argument.evaluate(graph, solution, outer) for argument in self._arguments])
