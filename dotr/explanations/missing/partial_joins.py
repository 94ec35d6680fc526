"""The first part of a graph pattern that leaves no solution over one closed instant (its stop).

Idea: a conjunction is joined greedily in the order of its text. A pattern with which no solution is
left is set aside, and the join continues with the others. The joined patterns are then a maximal
part with solutions, and each pattern set aside removes all of them. Patterns that match a triple of
the instant are joined first, since the other ones may have solutions over the background alone.
Other operators are examined from the outside in: the innermost one without a row is the stop.

Requested terms restrict all of this to the solutions that have them: a part that binds such a
variable is joined with its term, and the others follow from there, so that no row is about another
entity. Example: with ?m = :press1, of `?r :of ?m ; :temp ?v` over a reading of :press2 the pattern
`?r :of ?m` is missing, and `?r :temp ?v`, which only ?r connects, is not joined.

Invariant: the rows of a stop are the SPARQL solutions of its joined part, by full evaluation.
Cost: one query for each pattern of the conjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

from dotr.evaluation.joins.scope import mentioned
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Solution
from dotr.instant.queries.operators import EMPTY, AlgebraOperator
from dotr.instant.queries.solution_expressions import CompiledExpression
from dotr.model import dataclass
from dotr.model.algebra import (
    Bgp,
    BgpItem,
    Call,
    Const,
    Expression,
    Filter,
    Group,
    Join,
    LeftJoin,
    Link,
    MatchPattern,
    Minus,
    PathPattern,
    Pattern,
    Select,
    Slot,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    slots_of,
)
from dotr.model.terms import TRUE, Term, Variable
from dotr.model.traverse import in_scope, joined_parts, required_parts, subpatterns, walk

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

    def solutions(self, pattern: Pattern, closed: ClosedGraph, terms: Solution = EMPTY) -> Sequence[Solution]:
        """The bag of solutions of a pattern, with these terms for the variables that it has.

        Raises `LimitExceeded`.
        """
        operator = self._operators.get(pattern)
        if operator is None:
            operator = self._operators[pattern] = AlgebraCompiler().compile(pattern)
        if not terms:
            return operator.solutions(closed.graph(), EMPTY, EMPTY)
        own = {name: term for name, term in terms.items() if name in operator.variables}
        return [row for row in operator.solutions(closed.graph(), own, EMPTY) if own.keys() <= row.keys()]


def requiring(pattern: Pattern, terms: Solution) -> Pattern:
    """A pattern whose solutions with requested terms are those of `pattern`: an OPTIONAL that alone
    binds such a variable is a part of the conjunction.

    >>> from dotr.model.algebra import LeftJoin
    >>> left, right = (Bgp((TriplePattern(Var("x"), Const(f"<{p}>"), Var(p)),)) for p in "ab")
    >>> requiring(LeftJoin(left, right, None), {"b": "<urn:1>"}) == Join(left, right)
    True
    """
    if not isinstance(pattern, LeftJoin) or terms.keys() <= in_scope(pattern.left).keys():
        return pattern
    joined = Join(pattern.left, pattern.right)
    return joined if pattern.condition is None else Filter(joined, (pattern.condition,))


def in_scope_of(pattern: Pattern, terms: Solution) -> Solution:
    """The terms of the variables that a pattern has in scope."""
    if not terms:
        return terms
    names = in_scope(pattern)
    return {name: term for name, term in terms.items() if name in names}


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


@dataclass(frozen=True, slots=True)
class TermStop:
    """A pattern that computes other terms for requested variables than the requested ones, or none.

    `rows`: its solutions with the requested terms of the other variables; `names`: the variables.
    """

    pattern: Pattern
    rows: tuple[Solution, ...]
    names: tuple[Variable, ...]


QueryStop: TypeAlias = JoinStop | FilterStop | OperatorStop | UnionStop | TermStop


def find_stop(pattern: Pattern, closed: ClosedGraph, solver: PatternSolver, terms: Solution = EMPTY) -> QueryStop | None:
    """The stop of a pattern, of its solutions with requested terms; None if it has such a solution.

    Raises `LimitExceeded`.
    """
    terms = in_scope_of(pattern, terms)
    pattern = requiring(pattern, terms)
    parts = joined_parts(pattern)
    if parts != [pattern]:
        return _join_stop(parts, closed, solver, terms)
    if isinstance(pattern, Union):
        stops: list[QueryStop] = []
        for side in (pattern.left, pattern.right):
            if terms.keys() <= in_scope(side).keys():
                stop = find_stop(side, closed, solver, terms)
                if stop is None:
                    return None
                stops += stop.sides if isinstance(stop, UnionStop) else (stop,)
        return UnionStop(tuple(stops)) if stops else TermStop(pattern, (), tuple(terms))
    within = closed.window(pattern.window) if isinstance(pattern, WindowBlock) else closed
    for part in required_parts(pattern):
        stop = find_stop(part, within, solver, terms)
        if stop is not None:
            return stop
    stop = _own_stop(pattern, closed, solver, terms)
    if stop is not None or not terms or solver.solutions(pattern, closed, terms):
        return stop
    carried: Solution = {}
    for part in required_parts(pattern):
        carried |= in_scope_of(part, terms)
    return TermStop(pattern, tuple(solver.solutions(pattern, closed, carried)), tuple(terms.keys() - carried.keys()))


def _own_stop(pattern: Pattern, closed: ClosedGraph, solver: PatternSolver, terms: Solution) -> QueryStop | None:
    """The stop of the outermost operator of a pattern, whose required parts have solutions."""
    match pattern:
        case Filter(inner, conditions):
            return _filter_stop(inner, conditions, closed, solver, terms)
        case Minus(left, _):
            return _operator_stop("MINUS", pattern, left, closed, solver, terms)
        case Select(_, inner, _, _, offset, limit) if offset or limit is not None:
            name = f"OFFSET {offset}" if limit is None or (limit and not terms) else f"LIMIT {limit}"
            return _operator_stop(name, pattern, inner, closed, solver, terms)
        case Values(_, rows):
            return None if rows else OperatorStop("VALUES", pattern, ())
        case MatchPattern():
            return _operator_stop("MATCH", pattern, Bgp(()), closed, solver, terms)
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
        case TermStop(pattern, _, _):
            return _weight(pattern) - 1
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


def at_most_reached(part: Part, closure: Closure | None, terms: Solution = EMPTY) -> int:
    """An upper bound of `reached` at an instant, from the predicates that have triples, and from
    triples with requested terms. Without a closure: the bound of all instants.
    """
    match part:
        case TriplePattern() if closure is not None:
            here = substituted(part, terms)
            if here != part:
                slots = [slot.term if isinstance(slot, Const) else None for slot in slots_of(here)]
                return any(next(index.match(*slots), None) is not None for index in (closure.delta, closure.background))
            predicate = part.predicate
            if not isinstance(predicate, Const):
                return 1
            return predicate.term in closure.delta.by_subject or predicate.term in closure.background.by_subject
        case TriplePattern() | PathPattern() | TermPattern():
            return 1
        case Union(left, right):
            return max(at_most_reached(left, closure, terms), at_most_reached(right, closure, terms))
        case _:
            scoped = in_scope_of(part, terms)
            return _passed(requiring(part, scoped), lambda inner: at_most_reached(inner, closure, scoped))


def most_reached(query: Pattern, terms: Solution) -> int:
    """An upper bound of `reached` at all instants without a solution: all hold but one, unless an
    operator removes solutions in which all hold."""
    removes = any(
        isinstance(node, Minus | MatchPattern) or (isinstance(node, Select) and (node.offset or node.limit)) for node in walk(query)
    )
    return at_most_reached(query, None, terms) - (not removes)


def substituted(atom: TriplePattern, bound: Mapping[Variable, Term]) -> TriplePattern:
    """A pattern in which bound variables are replaced by their terms."""

    def slot(each: Slot) -> Slot:
        return Const(bound[each.name]) if isinstance(each, Var) and each.name in bound else each

    return TriplePattern(slot(atom.subject), slot(atom.predicate), slot(atom.object)) if bound else atom


def _passed(pattern: Pattern, of_part: Callable[[Part], int]) -> int:
    """The sum over the parts of a pattern that its solutions satisfy, without OPTIONAL, MINUS and
    EXISTS.
    """
    parts = joined_parts(pattern)
    if parts == [pattern]:  # what is aggregated as a whole counts nothing, since it may have no solution
        parts = [] if isinstance(pattern, Group) and not pattern.keys else [*subpatterns(pattern)[:1]]
    return sum(map(of_part, parts)) + (len(pattern.conditions) if isinstance(pattern, Filter) else 0)


def _operator_stop(
    name: str, pattern: Pattern, inner: Pattern, closed: ClosedGraph, solver: PatternSolver, terms: Solution
) -> QueryStop | None:
    if solver.solutions(pattern, closed, terms):
        return None
    removed = pattern.right if isinstance(pattern, Minus) else None
    return OperatorStop(name, inner, tuple(solver.solutions(inner, closed, terms)), removed)


# --- conjunctions ---


def _join_stop(parts: list[Part], closed: ClosedGraph, solver: PatternSolver, terms: Solution) -> QueryStop | None:
    if len(parts) == 1 and not isinstance(parts[0], TriplePattern | PathPattern | TermPattern):
        return find_stop(parts[0], closed, solver, terms)
    joined, rows, missing = join_greedily(parts, closed, solver, terms)
    if not missing:
        return None
    first = missing[0]
    if isinstance(first, TriplePattern | PathPattern | TermPattern):
        return JoinStop(joined, rows, missing)
    inside = find_stop(first, closed, solver, terms)
    return inside if inside is not None and not joined else JoinStop(joined, rows, missing, inside)


def join_greedily(
    parts: Sequence[Part], closed: ClosedGraph, solver: PatternSolver, terms: Solution = EMPTY
) -> tuple[tuple[Part, ...], tuple[Solution, ...], tuple[Part, ...]]:
    """Join the parts of a conjunction greedily; of solutions with requested terms, those parts
    first that have one of their variables.

    Returns:
        The joined parts, their solutions, and the parts that leave no solution, in the order of
        `parts`. A part that shares variables only with a missing part is in neither, as is a part
        that exceeds a limit.

    Raises:
        LimitExceeded: a part exceeds a limit, and none is missing.
    """
    of_instant = [
        number
        for number, part in enumerate(parts)
        if closed.of_instant(substituted(part, terms) if isinstance(part, TriplePattern) else part)
    ]
    waiting = [*of_instant, *(number for number in range(len(parts)) if number not in of_instant)]
    joined: list[int] = []
    missing: list[int] = []
    rows: Sequence[Solution] = (dict(terms),)
    known: frozenset[Variable] = frozenset(terms)
    exceeded: LimitExceeded | None = None
    while waiting:
        number = next((each for each in waiting if _is_connected(parts[each], known)), None)
        if number is None:
            if missing:
                break  # only a missing pattern connects the others; without it the join is a product
            number = next((each for each in waiting if not isinstance(parts[each], TermPattern)), waiting[0])
        waiting.remove(number)
        try:
            found = solver.solutions(joined_pattern([parts[each] for each in sorted([*joined, number])]), closed, terms)
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


def _filter_stop(
    inner: Pattern, conditions: tuple[Expression, ...], closed: ClosedGraph, solver: PatternSolver, terms: Solution
) -> QueryStop | None:
    rows = solver.solutions(inner, closed, terms)
    if not rows and terms:
        return None
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
