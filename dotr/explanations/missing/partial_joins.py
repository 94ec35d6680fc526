"""The first part of a graph pattern that leaves no solution over one closed instant (its stop).

Idea: a conjunction is joined greedily in the order of its text. A pattern with which no solution is
left is set aside, and the join continues with the others. The joined patterns are then a maximal
part with solutions, and each pattern set aside removes all of them. Patterns that match a triple of
the instant are joined first, since the other ones may have solutions over the background alone.
Other operators are examined from the outside in: the innermost one without a row is the stop.

Invariant: the rows of a stop are the SPARQL solutions of its joined part, by full evaluation.
Cost: one query for each pattern of the conjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from dotr.evaluation.joins.scope import mentioned
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Solution
from dotr.instant.queries.operators import EMPTY, AlgebraOperator
from dotr.instant.queries.solution_expressions import CompiledExpression
from dotr.model.algebra import (
    Bgp,
    BgpItem,
    Call,
    Const,
    Expression,
    Filter,
    Group,
    Join,
    Link,
    MatchPattern,
    Minus,
    PathPattern,
    Pattern,
    Select,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    slots_of,
)
from dotr.model.terms import TRUE, Term, Variable
from dotr.model.traverse import joined_parts, required_parts, subpatterns, walk

Part: TypeAlias = BgpItem | Pattern
"""An operand of a conjunction: an item of a basic graph pattern, or a group with an operator."""

_MAX_ROWS: Final = 1_000
"""Maximum number of rows for which failed conditions are kept."""


class ClosedGraph:
    """A closed instant, over which any number of patterns can be evaluated."""

    def __init__(self, closure: Closure, limits: Limits) -> None:
        self.background = closure.background
        self.delta = closure.delta
        self._removed = closure.removed
        self._limits = limits

    def graph(self) -> Graph:
        """The instant as one graph with a fresh budget."""
        return Graph(self.background, self.delta, self._removed, self._limits)

    def window(self, name: Term) -> ClosedGraph:
        """The graph of a WINDOW block. An instant has no windows: the whole graph."""
        return self

    def of_instant(self, part: Part) -> bool:
        """True if a triple of the instant, stated or derived, matches a pattern of a part."""
        return any(
            next(self.delta.match(*(slot.term if isinstance(slot, Const) else None for slot in slots_of(node))), None) is not None
            if isinstance(node, TriplePattern)
            else isinstance(node, Link) and node.predicate in self.delta.by_subject
            for node in walk(part)
        )


class PatternSolver:
    """Evaluator of patterns over closed instants, which caches compiled patterns."""

    def __init__(self) -> None:
        self._operators: dict[Pattern, AlgebraOperator] = {}

    def solutions(self, pattern: Pattern, closed: ClosedGraph) -> Sequence[Solution]:
        """The bag of solutions of a pattern. Raises `LimitExceeded`."""
        operator = self._operators.get(pattern)
        if operator is None:
            operator = self._operators[pattern] = AlgebraCompiler().compile(pattern)
        return operator.solutions(closed.graph(), EMPTY, EMPTY)


def joined_pattern(parts: Iterable[Part]) -> Pattern:
    """The conjunction of some parts."""
    items: list[BgpItem] = []
    groups: list[Pattern] = []
    for part in parts:
        if isinstance(part, TriplePattern | PathPattern | TermPattern):
            items.append(part)
        else:
            groups.append(part)
    pattern: Pattern | None = Bgp(tuple(items)) if items or not groups else None
    for group in groups:
        pattern = group if pattern is None else Join(pattern, group)
    assert pattern is not None
    return pattern


def variables_in(part: Part) -> frozenset[Variable]:
    """The variables that a part shares with the parts joined to it."""
    if isinstance(part, TriplePattern | PathPattern | TermPattern):
        return frozenset(slot.name for slot in slots_of(part) if isinstance(slot, Var))
    return mentioned(part)


@dataclass(frozen=True, slots=True)
class JoinStop:
    """A conjunction without a solution.

    - `joined`, `rows`: a maximal part with solutions, and its solutions; if no pattern is joined,
      one empty row.
    - `missing`: the patterns that each remove all solutions, in the order of the text.
    - `inside`: the stop of the first missing pattern if that is a group without a solution of its
      own.
    """

    joined: tuple[Part, ...]
    rows: tuple[Solution, ...]
    missing: tuple[Part, ...]
    inside: QueryStop | None = None


@dataclass(frozen=True, slots=True)
class FailedCondition:
    """A condition that is false for a row or (`errs`) an error."""

    condition: Expression
    row: Solution
    errs: bool


@dataclass(frozen=True, slots=True)
class FilterStop:
    """A FILTER, or HAVING if `pattern` is a group, that accepts no row of a pattern.

    - `pattern`, `rows`: the filtered pattern and its solutions.
    - `failed`: for each row with the fewest failed conditions, the first of them.
    - `held`: the number of conditions that hold for these rows.
    """

    pattern: Pattern
    rows: tuple[Solution, ...]
    failed: tuple[FailedCondition, ...]
    held: int


@dataclass(frozen=True, slots=True)
class OperatorStop:
    """An operator (`MINUS`, `OFFSET 5`, `LIMIT 0`, …) that removes all rows of a pattern.

    `removed`: the right side of a MINUS; None for other operators.
    """

    operator: str
    pattern: Pattern
    rows: tuple[Solution, ...]
    removed: Pattern | None = None


@dataclass(frozen=True, slots=True)
class UnionStop:
    """A UNION without a solution on any side."""

    sides: tuple[QueryStop, ...]


QueryStop: TypeAlias = JoinStop | FilterStop | OperatorStop | UnionStop


def find_stop(pattern: Pattern, closed: ClosedGraph, solver: PatternSolver) -> QueryStop | None:
    """The stop of a pattern; None if the pattern has a solution. Raises `LimitExceeded`."""
    parts = joined_parts(pattern)
    if parts != [pattern]:
        return _join_stop(parts, closed, solver)
    if isinstance(pattern, Union):
        first = find_stop(pattern.left, closed, solver)
        second = find_stop(pattern.right, closed, solver) if first is not None else None
        if first is None or second is None:
            return None
        firsts, seconds = (each.sides if isinstance(each, UnionStop) else (each,) for each in (first, second))
        return UnionStop(firsts + seconds)
    within = closed.window(pattern.window) if isinstance(pattern, WindowBlock) else closed
    for part in required_parts(pattern):
        stop = find_stop(part, within, solver)
        if stop is not None:
            return stop
    match pattern:
        case Filter(inner, conditions):
            return _filter_stop(inner, conditions, closed, solver)
        case Minus(left, _):
            return _operator_stop("MINUS", pattern, left, closed, solver)
        case Select(_, inner, _, _, offset, limit):
            return _operator_stop("LIMIT 0" if limit == 0 else f"OFFSET {offset}", pattern, inner, closed, solver)
        case Values(_, rows):
            return None if rows else OperatorStop("VALUES", pattern, ())
        case MatchPattern():
            return _operator_stop("MATCH", pattern, Bgp(()), closed, solver)
        case _:
            return None


def reached(stop: QueryStop) -> int:
    """The number of patterns and conditions that hold up to a stop, to compare instants."""
    match stop:
        case JoinStop(joined, _, _, inside):
            return sum(map(_weight, joined)) + (0 if inside is None else reached(inside))
        case FilterStop(pattern, _, _, held):
            return _weight(pattern) + held
        case OperatorStop(_, pattern, _, _):
            return _weight(pattern)
        case UnionStop(sides):
            return max(map(reached, sides))
        case _:
            assert_never(stop)


def _weight(part: Part) -> int:
    """The least number of patterns and conditions that a solution of a part satisfies."""
    match part:
        case TriplePattern() | PathPattern() | TermPattern():
            return 1
        case Union(left, right):
            return min(_weight(left), _weight(right))
        case _:
            return _passed(part, _weight)


def at_most_reached(part: Part, closure: Closure) -> int:
    """An upper bound of `reached` at an instant, from the predicates that have triples."""
    match part:
        case TriplePattern(_, Const(predicate), _):
            return predicate in closure.delta.by_subject or predicate in closure.background.by_subject
        case TriplePattern() | PathPattern() | TermPattern():
            return 1
        case Union(left, right):
            return max(at_most_reached(left, closure), at_most_reached(right, closure))
        case _:
            return _passed(part, lambda inner: at_most_reached(inner, closure))


def _passed(pattern: Pattern, of_part: Callable[[Part], int]) -> int:
    """The sum over the parts of a pattern that its solutions satisfy, without OPTIONAL, MINUS and
    EXISTS.
    """
    parts = joined_parts(pattern)
    if parts == [pattern]:  # a WINDOW block counts nothing, nor does what is aggregated as a whole, which may have no solution
        counts_nothing = isinstance(pattern, WindowBlock) or (isinstance(pattern, Group) and not pattern.keys)
        parts = [] if counts_nothing else [*subpatterns(pattern)[:1]]
    return sum(map(of_part, parts)) + (len(pattern.conditions) if isinstance(pattern, Filter) else 0)


def _operator_stop(name: str, pattern: Pattern, inner: Pattern, closed: ClosedGraph, solver: PatternSolver) -> QueryStop | None:
    if solver.solutions(pattern, closed):
        return None
    removed = pattern.right if isinstance(pattern, Minus) else None
    return OperatorStop(name, inner, tuple(solver.solutions(inner, closed)), removed)


# --- conjunctions ---


def _join_stop(parts: list[Part], closed: ClosedGraph, solver: PatternSolver) -> QueryStop | None:
    if len(parts) == 1 and not isinstance(parts[0], TriplePattern | PathPattern | TermPattern):
        return find_stop(parts[0], closed, solver)
    joined, rows, missing = join_greedily(parts, closed, solver)
    if not missing:
        return None
    first = missing[0]
    if isinstance(first, TriplePattern | PathPattern | TermPattern):
        return JoinStop(joined, rows, missing)
    inside = find_stop(first, closed, solver)
    return inside if inside is not None and not joined else JoinStop(joined, rows, missing, inside)


def join_greedily(
    parts: Sequence[Part], closed: ClosedGraph, solver: PatternSolver
) -> tuple[tuple[Part, ...], tuple[Solution, ...], tuple[Part, ...]]:
    """Join the parts of a conjunction greedily.

    Returns:
        The joined parts, their solutions, and the parts that leave no solution, in the order of
        `parts`. A part that shares variables only with a missing part is in neither, as is a part
        that exceeds a limit.

    Raises:
        LimitExceeded: a part exceeds a limit, and none is missing.
    """
    of_instant = [number for number, part in enumerate(parts) if closed.of_instant(part)]
    waiting = [*of_instant, *(number for number in range(len(parts)) if number not in of_instant)]
    joined: list[int] = []
    missing: list[int] = []
    rows: Sequence[Solution] = (EMPTY,)
    known: frozenset[Variable] = frozenset()
    exceeded: LimitExceeded | None = None
    while waiting:
        number = next((each for each in waiting if _is_connected(parts[each], known)), None)
        if number is None:
            if missing:
                break  # only a missing pattern connects the others; without it the join is a product
            number = next((each for each in waiting if not isinstance(parts[each], TermPattern)), waiting[0])
        waiting.remove(number)
        try:
            found = solver.solutions(joined_pattern([parts[each] for each in sorted([*joined, number])]), closed)
        except LimitExceeded as error:
            exceeded = error
            continue
        if found:
            joined.append(number)
            rows = found
            known |= variables_in(parts[number])
        else:
            missing.append(number)
    if exceeded is not None and not missing:
        raise exceeded
    return tuple(parts[each] for each in sorted(joined)), tuple(rows), tuple(parts[each] for each in sorted(missing))


def _is_connected(part: Part, known: frozenset[Variable]) -> bool:
    if isinstance(part, TermPattern):
        return part.term.name in known  # joined earlier, it would construct terms that no triple has
    names = variables_in(part)
    return not names or not names.isdisjoint(known)


# --- conditions ---


def _filter_stop(inner: Pattern, conditions: tuple[Expression, ...], closed: ClosedGraph, solver: PatternSolver) -> QueryStop | None:
    rows = solver.solutions(inner, closed)
    tests = [CompiledExpression(_truth(each), AlgebraCompiler().compile_exists) for each in conditions]
    failures: list[tuple[FailedCondition, ...]] = []
    for row in rows:
        outcomes: list[Term | None] = [test.evaluate(closed.graph(), row, EMPTY) for test in tests]
        failed = [
            FailedCondition(condition, row, outcome is None)
            for condition, outcome in zip(conditions, outcomes, strict=True)
            if outcome != TRUE
        ]
        if not failed:
            return None
        if len(failures) < _MAX_ROWS:
            failures.append(tuple(failed))
    fewest = min(map(len, failures))
    nearest = tuple(failed[0] for failed in failures if len(failed) == fewest)
    return FilterStop(inner, tuple(rows), nearest, len(conditions) - fewest)


def _truth(condition: Expression) -> Expression:
    """An expression for the effective boolean value of a condition: `!!condition`."""
    return Call("!", (Call("!", (condition,)),))
