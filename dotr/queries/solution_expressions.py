"""Expressions over solutions: the bridge from algebra to `dotr.expressions` (SPARQL 1.1, section 17).

EXISTS is evaluated here: the values of the solution are substituted into its pattern (section 18.6) and its answer is handed to the
expression as a boolean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dotr.expressions import condition, evaluator
from dotr.joins.scope import Variables, mentioned, query_parameters
from dotr.model.algebra import Exists, Expression, Var
from dotr.model.terms import FALSE, TRUE, Term
from dotr.queries.graph import Graph
from dotr.queries.matching import Bindings, Solution


class Existence(Protocol):
    """What EXISTS asks of a compiled pattern."""

    def has_solution(self, graph: Graph, outer: Bindings) -> bool: ...

    def full_scan_reason(self, bound: Variables) -> str: ...


class _Argument:
    """The value of one parameter of an expression for a solution."""

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
    """An expression and where its arguments come from."""

    __slots__ = ("_arguments",)

    def __init__(self, parameters: tuple[Var | Exists, ...], compiled: Callable[[Exists], Existence]) -> None:
        self._arguments = tuple(_Argument(parameter, compiled) for parameter in parameters)

    @property
    def has_exists(self) -> bool:
        return any(argument.pattern is not None for argument in self._arguments)

    def full_scan_reason(self, bound: Variables) -> str:
        """Why an EXISTS inside can cost the size of the background, given values of `bound`; empty where it cannot."""
        why = next(filter(None, (a.pattern.full_scan_reason(bound) for a in self._arguments if a.pattern is not None)), "")
        return why and f"EXISTS: {why}"


class CompiledCondition(_Expression):
    """A condition of FILTER or OPTIONAL."""

    __slots__ = ("_holds",)

    def __init__(self, expression: Expression, compiled: Callable[[Exists], Existence]) -> None:
        parameters = query_parameters(expression)
        super().__init__(parameters, compiled)
        self._holds = condition(expression, parameters)

    def holds(self, graph: Graph, solution: Solution, outer: Bindings) -> bool:
        return self._holds(*[argument.evaluate(graph, solution, outer) for argument in self._arguments])


class CompiledExpression(_Expression):
    """The value of an expression; None where it errs."""

    __slots__ = ("_value",)

    def __init__(self, expression: Expression, compiled: Callable[[Exists], Existence]) -> None:
        parameters = query_parameters(expression)
        super().__init__(parameters, compiled)
        self._value = evaluator(expression, parameters)

    def evaluate(self, graph: Graph, solution: Solution, outer: Bindings) -> Term | None:
        return self._value(*[argument.evaluate(graph, solution, outer) for argument in self._arguments])
