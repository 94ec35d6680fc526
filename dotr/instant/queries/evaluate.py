"""Full evaluation of a SELECT over an instant: all of SPARQL 1.1's algebra, on one default graph.

Exact for every query, as the general case behind incremental plans.
Cost: that of the query over background and instant together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, assert_never

from dotr.evaluation.expressions import aggregate, sort_key
from dotr.evaluation.joins.scope import NOTHING, Variables
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evidence import Evidence, SolutionGroup, TracedSolution
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution
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
from dotr.instant.queries.solution_expressions import CompiledCondition, CompiledExpression, Existence
from dotr.instant.queries.window_operators import MatchOperator, WindowOperator
from dotr.model.algebra import (
    AggregateCall,
    Bgp,
    Direction,
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
    Var,
    WindowBlock,
    is_hidden,
)
from dotr.model.terms import Term, Variable, without_blank_labels
from dotr.model.traverse import expressions_in, has_exists


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
            case Extend(inner, _, expression):
                return ExtendOperator(pattern, self.compile(inner), CompiledExpression(expression, self.compile_exists))
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


# Grouping, and the solution modifiers of a SELECT (SPARQL 1.1, sections 11, 15 and 18.5).
#
# Solutions that SPARQL leaves unordered are ordered by their (name, value) pairs, with blank nodes
# equal at first (semantics.md, section 4).

SolutionKey: TypeAlias = tuple[tuple[tuple[Variable, Term], ...], tuple[tuple[Variable, Term], ...]]
CompileExists: TypeAlias = Callable[[Exists], Existence]


def tie_key(solution: Solution) -> SolutionKey:
    """The sort key of solutions that SPARQL leaves unordered.

    >>> tie_key({"x": "_:b9", "y": "<a>"}) < tie_key({"y": "<b>", "x": "_:b1"})
    True
    """
    pairs = tuple(sorted((name, value) for name, value in solution.items() if not is_hidden(name)))
    return tuple([(name, without_blank_labels(value)) for name, value in pairs]), pairs


def distinct(solutions: Sequence[Solution]) -> list[Solution]:
    """The distinct solutions, in order of first appearance."""
    unique: dict[frozenset[tuple[Variable, Term]], Solution] = {}
    for solution in solutions:
        unique.setdefault(frozenset(solution.items()), solution)
    return list(unique.values())


class _GroupAggregate:
    """A compiled aggregate of a group's solutions."""

    __slots__ = ("_argument", "_combine", "_distinct")

    def __init__(self, call: AggregateCall, compiled: CompileExists) -> None:
        self._argument = None if call.argument is None else CompiledExpression(call.argument, compiled)
        self._combine = aggregate(call)
        self._distinct = call.distinct

    def evaluate(self, graph: Graph, group: list[Solution], outer: Bindings) -> Term | None:
        if self._argument is not None:
            return self._combine([self._argument.evaluate(graph, solution, outer) for solution in group])
        if self._distinct:
            group = distinct([{name: value for name, value in s.items() if not is_hidden(name)} for s in group])
        return self._combine([f"_:{i}" for i in range(len(group))])  # COUNT(*): a term a solution


class GroupOperator(AlgebraOperator):
    """GROUP BY with its aggregates (section 18.5.1)."""

    __slots__ = ("_aggregates", "_aliases", "_inner", "_keys", "_plain", "_summaries")

    def __init__(self, pattern: Group, inner: AlgebraOperator, compiled: CompileExists) -> None:
        super().__init__(pattern)
        self._inner = inner
        self._aggregates = pattern.aggregates
        self.is_static_empty = inner.is_static_empty and bool(pattern.keys)
        self._keys = tuple((name, CompiledExpression(key, compiled)) for name, key in pattern.keys)
        self._plain = frozenset(name for name, key in pattern.keys if isinstance(key, Var) and key.name == name)
        self._aliases = self.variables - self._plain
        self._summaries = tuple((name, _GroupAggregate(call, compiled)) for name, call in pattern.aggregates)
        if inner.is_static_empty or not any(map(has_exists, expressions_in(pattern))):
            self.reads = inner.reads

    def full_scan_reason(self, bound: Variables) -> str:
        return self._inner.full_scan_reason(bound & self._plain)

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        inside = {name: value for name, value in outer.items() if name not in self._aliases}
        pushed = {name: bound[name] for name in self._plain if name in bound}
        groups: dict[tuple[Term | None, ...], list[Solution]] = {} if self._keys else {(): []}
        for solution in self._inner.solutions(graph, pushed, inside):
            groups.setdefault(tuple([key.evaluate(graph, solution, inside) for _, key in self._keys]), []).append(solution)
        result: list[Solution] = []
        for key, members in groups.items():
            values = [(name, value) for (name, _), value in zip(self._keys, key, strict=True)]
            values += [(name, summary.evaluate(graph, members, inside)) for name, summary in self._summaries]
            result.append({name: value for name, value in values if value is not None})
        return self.compatible_with(self.compatible_with(result, bound, self.variables), outer, self._aliases)

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        inside = {name: value for name, value in outer.items() if name not in self._aliases}
        pushed = {name: bound[name] for name in self._plain if name in bound}
        members: dict[tuple[Term | None, ...], list[Evidence]] = {}
        for solution, evidence in self._inner.traced(graph, pushed, inside):
            members.setdefault(tuple([key.evaluate(graph, solution, inside) for _, key in self._keys]), []).append(evidence)
        for row in self.solutions(graph, bound, outer):
            keys = {name: row[name] for name, _ in self._keys if name in row and not is_hidden(name)}
            results = tuple((call, row.get(name)) for name, call in self._aggregates)
            yield row, (SolutionGroup(keys, results, tuple(members.get(tuple(row.get(name) for name, _ in self._keys), ()))),)

    def size(self, graph: Graph) -> float:
        return self._inner.size(graph) if self._keys else 1.0


class SelectOperator(AlgebraOperator):
    """Projection, DISTINCT, and ORDER BY with LIMIT and OFFSET of a SELECT."""

    __slots__ = ("_inner", "_order", "_select", "_sliced")

    def __init__(self, pattern: Select, inner: AlgebraOperator, compiled: CompileExists) -> None:
        super().__init__(pattern)
        self._inner, self._select = inner, pattern
        self.is_static_empty = inner.is_static_empty
        if inner.is_static_empty or not any(map(has_exists, expressions_in(pattern))):
            self.reads = inner.reads
        self._sliced = bool(pattern.offset) or pattern.limit is not None
        self._order = tuple((CompiledExpression(key.expression, compiled), key.direction) for key in pattern.order) if self._sliced else ()

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        select = self._select
        inside = {name: outer[name] for name in select.projection if name in outer}
        pushed = EMPTY if self._sliced else {name: bound[name] for name in select.projection if name in bound}
        solutions = self._inner.solutions(graph, pushed, inside)
        if self._sliced:
            solutions = self._ordered(solutions, graph, inside)
        rows: Sequence[Solution] = [{name: solution[name] for name in select.projection if name in solution} for solution in solutions]
        if select.distinct:
            rows = distinct(rows)
        if not self._sliced:
            return rows
        return self.compatible_with(rows[select.offset :][: select.limit], bound, self.variables)

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        names = self._select.projection
        inside, pushed = ({name: each[name] for name in names if name in each} for each in (outer, bound))
        rows = self.solutions(graph, bound, outer) if self._sliced else None
        for solution, evidence in self._inner.traced(graph, pushed, inside):
            row = {name: solution[name] for name in names if name in solution}
            if rows is None or row in rows:
                yield row, evidence

    def full_scan_reason(self, bound: Variables) -> str:
        return self._inner.full_scan_reason(NOTHING if self._sliced else bound & self.variables)

    def _ordered(self, solutions: Sequence[Solution], graph: Graph, outer: Bindings) -> list[Solution]:
        names = self._select.projection
        ordered = sorted(solutions, key=lambda s: tie_key({name: s[name] for name in names if name in s}))
        for computed, direction in reversed(self._order):
            ordered.sort(key=lambda s, c=computed: sort_key(c.evaluate(graph, s, outer)), reverse=direction is Direction.DESCENDING)  # type: ignore[misc]
        return ordered

    def size(self, graph: Graph) -> float:
        size = self._inner.size(graph)
        return size if self._select.limit is None else min(size, float(self._select.limit))
