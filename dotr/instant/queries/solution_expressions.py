"""Expressions over solutions: the bridge from algebra to `dotr.evaluation.expressions` (SPARQL 1.1,
section 17).

EXISTS is evaluated here, with the values of the solution substituted into its pattern (section
18.6); its answer is a boolean argument of the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from dotr.evaluation.expressions import condition, evaluator
from dotr.evaluation.joins.scope import Variables, mentioned, query_parameters
from dotr.instant.queries.evidence import Evidence, EvidenceItem, HeldFilter, TracedSolution, Unmatchable, terms_of, unmatched
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution
from dotr.model.algebra import Call, Exists, Expression, Var
from dotr.model.terms import FALSE, TRUE, Term
from dotr.model.traverse import conjuncts


class Existence(Protocol):
    """The part of a compiled pattern that EXISTS needs."""

    def has_solution(self, graph: Graph, outer: Bindings) -> bool: ...

    def full_scan_reason(self, bound: Variables) -> str: ...

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]: ...


class _Argument:
    """One parameter of an expression: a variable, or an EXISTS with its compiled `pattern`."""

    __slots__ = ("_name", "_names", "_negated", "parameter", "pattern")

    def __init__(self, parameter: Var | Exists, compiled: Callable[[Exists], Existence]) -> None:
        self.parameter = parameter
        self._name = parameter.name if isinstance(parameter, Var) else ""
        self.pattern = compiled(parameter) if isinstance(parameter, Exists) else None
        self._names = tuple(sorted(mentioned(parameter.pattern))) if isinstance(parameter, Exists) else ()
        self._negated = isinstance(parameter, Exists) and parameter.negated

    def evaluate(self, graph: Graph, solution: Solution, outer: Bindings) -> Term | None:
        if self.pattern is None:
            return solution.get(self._name) or outer.get(self._name)
        inner = {name: value for name in self._names if (value := solution.get(name) or outer.get(name)) is not None}
        return TRUE if self.pattern.has_solution(graph, inner) is not self._negated else FALSE

    def evidence(self, graph: Graph, bindings: Bindings) -> Evidence:
        """The evidence of the first solution of the EXISTS, for the terms of a solution."""
        assert self.pattern is not None
        inner = {name: bindings[name] for name in self._names if name in bindings}
        return next((evidence for _, evidence in self.pattern.traced(graph, {}, inner)), ())


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

    __slots__ = ("_expression", "_holds")

    def __init__(self, expression: Expression, compiled: Callable[[Exists], Existence]) -> None:
        parameters = query_parameters(expression)
        super().__init__(parameters, compiled)
        self._expression = expression
        self._holds = condition(expression, parameters)

    def holds(self, graph: Graph, solution: Solution, outer: Bindings) -> bool:
        return self._holds(*[argument.evaluate(graph, solution, outer) for argument in self._arguments])

    def evidence(self, graph: Graph, solution: Solution, outer: Bindings) -> Iterator[EvidenceItem]:
        """The evidence of the condition, which holds: that of each operand of its `&&`."""
        bindings = {**outer, **solution}
        for part in conjuncts(self._expression):
            match part:
                case (Exists() as exists) | Call("!", (Exists() as exists,)):
                    if exists.negated is isinstance(part, Exists):
                        yield unmatched(Unmatchable.NOT_EXISTS, exists.pattern, bindings)
                    else:
                        yield from next(each for each in self._arguments if each.parameter == exists).evidence(graph, bindings)
                case _:
                    yield HeldFilter(part, terms_of(part, bindings))


class CompiledExpression(_Expression):
    """An expression of BIND, GROUP BY or ORDER BY; an error is None."""

    __slots__ = ("_value",)

    def __init__(self, expression: Expression, compiled: Callable[[Exists], Existence]) -> None:
        parameters = query_parameters(expression)
        super().__init__(parameters, compiled)
        self._value = evaluator(expression, parameters)

    def evaluate(self, graph: Graph, solution: Solution, outer: Bindings) -> Term | None:
        return self._value(*[argument.evaluate(graph, solution, outer) for argument in self._arguments])
