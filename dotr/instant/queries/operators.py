"""Operators of SPARQL's algebra, compiled once and evaluated per graph (SPARQL 1.1, section 18.5,
bag semantics).

Idea: an operator evaluates to the solutions that are compatible with some bindings, so that a join
looks its right side up for each left solution (index nested loops); if the left side has more
solutions than the right side is expected to have, it is a hash join.
Invariant of `solutions(graph, bound, outer)`: exactly the solutions, with multiplicity, of the
pattern with `outer` substituted (EXISTS, section 18.6; empty elsewhere) that are compatible with
`bound`. `bound` restricts solutions and is not in scope of expressions, which read the solutions of
their own group and `outer`. A returned solution is never modified.
`traced` yields the same solutions with evidence; a row that DISTINCT or LIMIT makes of several
solutions, once for each of them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from dotr.evaluation.joins.scope import NOTHING, Reads, Variables, can_look_up, possible, reads, union_of_reads, variables_of
from dotr.instant.queries.evidence import ComputedTerm, TracedSolution, Unmatchable, matched, terms_of, unmatched
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution, expected_matches, matches, most_selective_first
from dotr.instant.queries.solution_expressions import CompiledCondition, CompiledExpression
from dotr.model.algebra import BgpItem, Extend, Pattern, Values, Var, is_hidden
from dotr.model.terms import Term, Variable
from dotr.model.traverse import certain

EMPTY: Final[Solution] = {}
_FEW: Final = 16
"""Up to this number of left solutions a join always looks up one by one."""


class AlgebraOperator(ABC):
    """A compiled pattern.

    `variables`, `certain`: the variables that solutions may bind, and always bind.
    `is_static_empty`: known to have no solution over the background alone. `reads`: a delta without
    triples of these kinds (None: any) leaves the static solutions unchanged.
    """

    __slots__ = ("certain", "is_static_empty", "pattern", "reads", "variables")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.variables: frozenset[Variable] = possible(pattern)
        self.certain: frozenset[Variable] = certain(pattern)
        self.is_static_empty = False
        self.reads: Reads | None = reads(pattern)

    @abstractmethod
    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        """The bag of solutions, by the module's invariant. Raises `LimitExceeded`."""

    @abstractmethod
    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        """The solutions, each with its evidence, by the module's invariant. They are made as they
        are requested; operators over the whole bag, such as LIMIT, evaluate it first.
        """

    @abstractmethod
    def size(self, graph: Graph) -> float:
        """The estimated number of solutions without bindings."""

    @abstractmethod
    def full_scan_reason(self, bound: Variables) -> str:
        """The reason why evaluation with values of `bound` can cost the size of the background;
        empty if it costs the size of the delta.
        """

    def has_solution(self, graph: Graph, outer: Bindings) -> bool:
        return bool(self.solutions(graph, EMPTY, outer))

    def compatible_with(self, solutions: Sequence[Solution], bound: Bindings, names: frozenset[Variable]) -> Sequence[Solution]:
        """The solutions that are compatible with the bindings; only `names` need a test."""
        tested = [name for name in names if name in bound]
        if not tested:
            return solutions
        return [s for s in solutions if all(s.get(name, bound[name]) == bound[name] for name in tested)]


def are_compatible(left: Solution, right: Bindings) -> bool:
    """Compatible solution mappings (section 18.3).

    >>> are_compatible({"x": "<a>"}, {"y": "<b>"}), are_compatible({"x": "<a>"}, {"x": "<b>"})
    (True, False)
    """
    return all(left.get(name, value) == value for name, value in right.items())


def partners(
    operator: AlgebraOperator, certain_left: frozenset[Variable], rows: Sequence[Solution], graph: Graph, bound: Bindings, outer: Bindings
) -> Iterator[tuple[Solution, Sequence[Solution]]]:
    """Pairs of each row with the operator's solutions that are compatible with the row and with
    `bound`.

    `certain_left`: the variables that every row binds.
    """
    if len(rows) > _FEW and operator.size(graph) <= len(rows):
        yield from _hashed_partners(operator, certain_left, rows, graph, bound, outer)
        return
    names = tuple(sorted(operator.variables))
    seen: dict[tuple[Term | None, ...], Sequence[Solution]] = {}
    for row in rows:
        key = tuple([row.get(name) or bound.get(name) for name in names])
        found = seen.get(key)
        if found is None:
            inner = {name: value for name, value in zip(names, key, strict=True) if value is not None}
            found = seen[key] = operator.solutions(graph, inner, outer)
        graph.spend(1 + len(found))
        yield row, found


def _hashed_partners(
    operator: AlgebraOperator, certain_left: frozenset[Variable], rows: Sequence[Solution], graph: Graph, bound: Bindings, outer: Bindings
) -> Iterator[tuple[Solution, Sequence[Solution]]]:
    shared = tuple(sorted(operator.certain & certain_left))
    table: dict[tuple[Term, ...], list[Solution]] = {}
    for solution in operator.solutions(graph, bound, outer):
        table.setdefault(tuple([solution[name] for name in shared]), []).append(solution)
    for row in rows:
        found = table.get(tuple([row[name] for name in shared]), ())
        graph.spend(1 + len(found))
        yield row, [solution for solution in found if are_compatible(row, solution)]


class BgpOperator(AlgebraOperator):
    """A basic graph pattern, by nested loops."""

    __slots__ = ("_orders", "_size", "patterns")

    def __init__(self, pattern: Pattern, patterns: tuple[BgpItem, ...]) -> None:
        super().__init__(pattern)
        self.patterns = patterns
        self._orders: dict[Variables, tuple[BgpItem, ...]] = {}
        self._size: float | None = None

    def _ordered(self, graph: Graph, bound: Variables) -> tuple[BgpItem, ...]:
        """The best order for the first graph evaluated; the sizes of the background decide."""
        best = self._orders.get(bound)
        if best is None:
            best = self._orders[bound] = most_selective_first(graph, self.patterns, bound)
        return best

    def _matches(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[Solution]:
        return matches(graph, self._ordered(graph, self.variables.intersection((*bound, *outer))), bound, outer)

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        found = list(islice(self._matches(graph, bound, outer), graph.max_rows + 1 if graph.max_rows < sys.maxsize else None))
        graph.limits.check_rows(len(found))
        return found

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        for solution in self._matches(graph, bound, outer):
            yield solution, tuple(matched(graph, self.patterns, solution))

    def has_solution(self, graph: Graph, outer: Bindings) -> bool:
        return next(self._matches(graph, EMPTY, outer), None) is not None

    def size(self, graph: Graph) -> float:
        if self._size is None:
            known: set[Variable] = set()
            total = self._size = 1.0
            for pattern in self._ordered(graph, NOTHING):
                total *= expected_matches(graph, pattern, known)
                self._size = max(self._size, total)
                known |= variables_of((pattern,))
        return self._size

    def full_scan_reason(self, bound: Variables) -> str:
        known, rest = set(bound), list(self.patterns)
        while rest:
            reachable = [pattern for pattern in rest if can_look_up(pattern, known)]
            if not reachable:
                return "a graph pattern is matched against the whole background"
            rest = [pattern for pattern in rest if pattern not in reachable]
            known |= variables_of(reachable)
        return ""


class JoinOperator(AlgebraOperator):
    """Join of two patterns; the side with fewer expected solutions is the outer one."""

    __slots__ = ("left", "right")

    def __init__(self, pattern: Pattern, left: AlgebraOperator, right: AlgebraOperator) -> None:
        super().__init__(pattern)
        self.left, self.right = left, right
        self.is_static_empty = left.is_static_empty or right.is_static_empty
        self.reads = (
            left.reads if left.is_static_empty else right.reads if right.is_static_empty else union_of_reads(left.reads, right.reads)
        )

    def full_scan_reason(self, bound: Variables) -> str:
        forward = self.left.full_scan_reason(bound) or self.right.full_scan_reason(bound | self.left.certain)
        return forward and (self.right.full_scan_reason(bound) or self.left.full_scan_reason(bound | self.right.certain)) and forward

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        first, second = self.left, self.right
        if first.size(graph) > second.size(graph):
            first, second = second, first
        rows = first.solutions(graph, bound, outer)
        result: list[Solution] = []
        for row, found in partners(second, first.certain, rows, graph, bound, outer):
            result += [{**row, **right} for right in found]
            if len(result) > graph.max_rows:
                graph.limits.check_rows(len(result))
        return result

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        for row, evidence in self.left.traced(graph, bound, outer):
            for right, more in self.right.traced(graph, {**bound, **row}, outer):
                yield {**row, **right}, evidence + more

    def size(self, graph: Graph) -> float:
        return (
            max(self.left.size(graph), self.right.size(graph))
            if self.left.certain.isdisjoint(self.right.certain)
            else min(self.left.size(graph), self.right.size(graph))
        )


class LeftJoinOperator(AlgebraOperator):
    """OPTIONAL; `test` is the condition inside, or None."""

    __slots__ = ("left", "right", "test")

    def __init__(self, pattern: Pattern, left: AlgebraOperator, right: AlgebraOperator, test: CompiledCondition | None) -> None:
        super().__init__(pattern)
        self.left, self.right, self.test = left, right, test
        self.is_static_empty = left.is_static_empty
        if left.is_static_empty:
            self.reads = left.reads

    def full_scan_reason(self, bound: Variables) -> str:
        reason = self.right.full_scan_reason(self.left.certain)
        existence = "" if self.test is None else self.test.full_scan_reason(self.certain | self.right.certain)
        return self.left.full_scan_reason(bound) or (reason and f"OPTIONAL: {reason}") or existence

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        rows = self.left.solutions(graph, bound, outer)
        result: list[Solution] = []
        for row, found in partners(self.right, self.left.certain, rows, graph, EMPTY, outer):
            merged = [{**row, **right} for right in found]
            if self.test is not None:
                merged = [solution for solution in merged if self.test.holds(graph, solution, outer)]
            result += merged or [row]
            if len(result) > graph.max_rows:
                graph.limits.check_rows(len(result))
        return self.compatible_with(result, bound, self.right.variables)

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        for row, evidence in self.left.traced(graph, bound, outer):
            found: list[TracedSolution] = []
            for right, more in self.right.traced(graph, row, outer):
                merged = {**row, **right}
                if self.test is None:
                    found.append((merged, evidence + more))
                elif self.test.holds(graph, merged, outer):
                    found.append((merged, (*evidence, *more, *self.test.evidence(graph, merged, outer))))
            alone = (row, (*evidence, unmatched(Unmatchable.OPTIONAL, self.right.pattern, row)))
            yield from (each for each in found or [alone] if are_compatible(each[0], bound))

    def size(self, graph: Graph) -> float:
        return self.left.size(graph)


class UnionOperator(AlgebraOperator):
    """UNION as concatenation of bags."""

    __slots__ = ("left", "right")

    def __init__(self, pattern: Pattern, left: AlgebraOperator, right: AlgebraOperator) -> None:
        super().__init__(pattern)
        self.left, self.right = left, right
        self.is_static_empty = left.is_static_empty and right.is_static_empty
        self.reads = union_of_reads(left.reads, right.reads)

    def full_scan_reason(self, bound: Variables) -> str:
        return self.left.full_scan_reason(bound) or self.right.full_scan_reason(bound)

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        return [*self.left.solutions(graph, bound, outer), *self.right.solutions(graph, bound, outer)]

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        yield from self.left.traced(graph, bound, outer)
        yield from self.right.traced(graph, bound, outer)

    def size(self, graph: Graph) -> float:
        return self.left.size(graph) + self.right.size(graph)


class MinusOperator(AlgebraOperator):
    """MINUS: removes left solutions with a compatible right solution that shares a bound
    variable."""

    __slots__ = ("left", "right")

    def __init__(self, pattern: Pattern, left: AlgebraOperator, right: AlgebraOperator) -> None:
        super().__init__(pattern)
        self.left, self.right = left, right
        self.is_static_empty = left.is_static_empty
        if left.is_static_empty or left.variables.isdisjoint(right.variables):
            self.reads = left.reads

    def full_scan_reason(self, bound: Variables) -> str:
        reason = "" if self.left.variables.isdisjoint(self.right.variables) else self.right.full_scan_reason(self.left.certain)
        return self.left.full_scan_reason(bound) or (reason and f"MINUS: {reason}")

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        rows = self.left.solutions(graph, bound, outer)
        if self.left.variables.isdisjoint(self.right.variables):
            return rows
        pairs = partners(self.right, self.left.certain, rows, graph, EMPTY, outer)
        return [row for row, found in pairs if not any(name in row for right in found for name in right)]

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        for row, evidence in self.left.traced(graph, bound, outer):
            if not any(name in row for right, _ in self.right.traced(graph, row, outer) for name in right):
                yield row, (*evidence, unmatched(Unmatchable.MINUS, self.right.pattern, row))

    def size(self, graph: Graph) -> float:
        return self.left.size(graph)


class FilterOperator(AlgebraOperator):
    """FILTER by a conjunction of conditions."""

    __slots__ = ("inner", "tests")

    def __init__(self, pattern: Pattern, inner: AlgebraOperator, tests: tuple[CompiledCondition, ...]) -> None:
        super().__init__(pattern)
        self.inner, self.tests = inner, tests
        self.is_static_empty = inner.is_static_empty
        if inner.is_static_empty or not any(test.has_exists for test in tests):
            self.reads = inner.reads

    def full_scan_reason(self, bound: Variables) -> str:
        return self.inner.full_scan_reason(bound) or next(
            filter(None, (test.full_scan_reason(self.inner.certain) for test in self.tests)), ""
        )

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        found = self.inner.solutions(graph, bound, outer)
        for test in self.tests:
            found = [solution for solution in found if test.holds(graph, solution, outer)]
        return found

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        for solution, evidence in self.inner.traced(graph, bound, outer):
            if all(test.holds(graph, solution, outer) for test in self.tests):
                yield solution, (*evidence, *(item for test in self.tests for item in test.evidence(graph, solution, outer)))

    def size(self, graph: Graph) -> float:
        return self.inner.size(graph)


class ExtendOperator(AlgebraOperator):
    """BIND: leaves the variable unbound if the expression errs."""

    __slots__ = ("computed", "expression", "inner", "variable")

    def __init__(self, pattern: Extend, inner: AlgebraOperator, computed: CompiledExpression) -> None:
        super().__init__(pattern)
        self.inner, self.computed = inner, computed
        self.variable, self.expression = pattern.variable, pattern.expression
        self.is_static_empty = inner.is_static_empty
        if inner.is_static_empty or not computed.has_exists:
            self.reads = inner.reads

    def full_scan_reason(self, bound: Variables) -> str:
        return self.inner.full_scan_reason(bound - {self.variable}) or self.computed.full_scan_reason(self.inner.certain)

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        name = self.variable
        without = {other: value for other, value in outer.items() if other != name}
        result: list[Solution] = []
        for solution in self.inner.solutions(graph, {other: value for other, value in bound.items() if other != name}, without):
            value = self.computed.evaluate(graph, solution, without)
            result.append(solution if value is None else {**solution, name: value})
        own = frozenset((name,))
        return self.compatible_with(self.compatible_with(result, bound, own), outer, own)

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        name, expression = self.variable, self.expression
        inside, without = ({other: value for other, value in each.items() if other != name} for each in (bound, outer))
        # The copy of an aggregate's value is shown with its group.
        is_renaming = isinstance(expression, Var) and is_hidden(expression.name)
        for solution, evidence in self.inner.traced(graph, inside, without):
            value = self.computed.evaluate(graph, solution, without)
            if value is None:
                yield solution, evidence
            elif bound.get(name, value) == value == outer.get(name, value):
                computed = ComputedTerm(name, expression, value, terms_of(expression, {**without, **solution}))
                yield {**solution, name: value}, evidence if is_renaming else (*evidence, computed)

    def size(self, graph: Graph) -> float:
        return self.inner.size(graph)


class ValuesOperator(AlgebraOperator):
    """VALUES: the rows of an inline table."""

    __slots__ = ("rows",)

    def __init__(self, pattern: Values) -> None:
        super().__init__(pattern)
        self.rows: list[Solution] = [
            {name: term for name, term in zip(pattern.variables, row, strict=True) if term is not None} for row in pattern.rows
        ]
        self.is_static_empty = not self.rows

    def full_scan_reason(self, bound: Variables) -> str:
        return ""

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        return self.compatible_with(self.compatible_with(self.rows, bound, self.variables), outer, self.variables)

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        return ((row, ()) for row in self.solutions(graph, bound, outer))

    def size(self, graph: Graph) -> float:
        return float(len(self.rows))
