"""Query plans: the evaluation of a query at every instant over a fixed background.

Three strategies, each exact: delta queries for a union of conjunctions; for other queries,
operators whose leading parts start from the delta; and where no part can, the same operators at the
cost of the background.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.joins.branches import Unplannable, branches
from dotr.evaluation.joins.deltas import Conjunction, DeltaQuery, bag_difference
from dotr.evaluation.joins.scope import Reads, union_of_reads
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.terms import Term

Answers = Callable[[TripleIndex], list[AnswerRow]]
AnswersOverView = Callable[[TripleIndex, TripleIndex, TripleIndex], list[AnswerRow]]
StaticAnswers = Callable[[Select, Callable[[], Sequence[AnswerRow]]], Sequence[AnswerRow]]


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The plan of a query over one background.

    - `static`: the solutions over the background alone, with values in the order of the projection.
    - `answers(delta)`: the bag of solutions over background and delta, which share no triple.
    - `answers_over_view(view, delta, removed)`: the same over a view of the background without the
      triples `removed`.
    - `reads`: the kinds of triples (a predicate, with an object or with None for any object) that
      affect the answers; None if any triple may. A delta and a removal without such triples leave
      `static`.
    - `triggers`: the predicates of `reads`, or None.
    - `is_incremental`: the answers cost the size of delta and removal instead of the background's.
    - `reason`: if not incremental, the construct that prevents it; if evaluated by operators, the
      part that is no union of conjunctions; else empty.
    """

    select: Select
    static: tuple[AnswerRow, ...]
    answers: Answers
    answers_over_view: AnswersOverView
    reads: Reads | None
    triggers: frozenset[Term] | None
    is_incremental: bool
    reason: str
    delta_queries: tuple[DeltaQuery, ...] | None = None
    """The delta queries of a union of conjunctions, which `dotr.instant.queries.shared_joins` groups; else
    None.
    """

    def answers_at(self, closure: Closure) -> list[AnswerRow]:
        """The bag of solutions over a closed instant."""
        if closure.removed is None:
            return self.answers(closure.delta)
        return self.answers_over_view(closure.background, closure.delta, closure.removed)

    def with_static(self, rows: list[AnswerRow]) -> list[AnswerRow]:
        """The answers of an instant whose delta queries returned these rows."""
        if not self.static and not self.select.distinct:
            return rows
        return list(dict.fromkeys([*self.static, *rows])) if self.select.distinct else [*self.static, *rows]


def compute_static(select: Select, compute: Callable[[], Sequence[AnswerRow]]) -> Sequence[AnswerRow]:
    """Computes the static answers of a query, without a cache."""
    return compute()


def plan(select: Select, background: TripleIndex, static: StaticAnswers = compute_static, limits: Limits | None = None) -> QueryPlan:
    """Plans a query over a closed background, which must not change while the plan is in use.

    `static(select, compute)`: returns the static answers, by `compute()` or from a cache. `limits`:
    bound the work at an instant; the planning itself is bounded by `Limits.for_background`.
    Raises `LimitExceeded` during planning or evaluation.

    >>> from dotr.model.algebra import Bgp, Const, TriplePattern, Var
    >>> sensor = TriplePattern(Var("read"), Const("<from>"), Var("sensor"))
    >>> room = TriplePattern(Var("sensor"), Const("<in>"), Var("room"))
    >>> query_plan = plan(Select(("room",), Bgp((sensor, room))), TripleIndex([("<s1>", "<in>", "<A>")]))
    >>> query_plan.answers(TripleIndex([("<r>", "<from>", "<s1>")])), query_plan.static, query_plan.triggers
    ([('<A>',)], (), frozenset({'<from>'}))
    """
    try:
        parts = conjunctions(select, background, limits)
    except Unplannable as reason:
        return _by_operators(select, background, str(reason), static, limits)
    return _by_conjunctions(select, background, parts, static, limits)


def _by_conjunctions(
    select: Select, background: TripleIndex, parts: list[Conjunction], find_static: StaticAnswers, limits: Limits | None
) -> QueryPlan:
    static: list[AnswerRow] = []
    if not all(part.is_static_empty for part in parts):
        static += find_static(select, lambda: [row for part in parts for row in part.static_answers()])
    if select.distinct:
        static = list(dict.fromkeys(static))
    if limits is not None:
        limits.check_rows(len(static))
    delta_queries = tuple(query for part in parts for query in part.delta_queries)
    joins = tuple(query.join for query in delta_queries)
    reads: Reads | None = frozenset()
    for part in parts:
        reads = union_of_reads(reads, part.reads)

    def distinct(delta: TripleIndex) -> list[AnswerRow]:
        return list(dict.fromkeys([*static, *(row for join in joins for row in join(background, delta))]))

    def bag_union(delta: TripleIndex) -> list[AnswerRow]:
        rows = static.copy()
        for join in joins:
            rows += join(background, delta)
        return rows

    answers: Answers = distinct if select.distinct else bag_union
    if len(joins) == 1 and not static and not select.distinct:
        answers = partial(joins[0], background)

    @cache
    def static_bag() -> tuple[AnswerRow, ...]:
        return tuple(row for part in parts for row in part.static_answers()) if select.distinct else tuple(static)

    def answers_over_view(view: TripleIndex, delta: TripleIndex, removed: TripleIndex) -> list[AnswerRow]:
        rows = bag_difference(static_bag(), (row for part in parts for row in part.retracted_answers(view, removed)))
        rows += [row for part in parts for join in part.deltas_over_view for row in join(view, delta)]
        return list(dict.fromkeys(rows)) if select.distinct else rows

    return _query_plan(
        select, static, answers, answers_over_view, reads, "", tuple(query for part in parts for query in part.delta_queries)
    )


def _by_operators(select: Select, background: TripleIndex, construct: str, find_static: StaticAnswers, limits: Limits | None) -> QueryPlan:
    from dotr.instant.queries.incremental import OperatorPlan

    operators = OperatorPlan.of(select, background, limits)
    static = find_static(select, operators.static_answers)
    if limits is not None:
        limits.check_rows(len(static))
    reason = operators.full_scan_reason
    return _query_plan(
        select,
        static,
        operators.answers,
        operators.answers_over_view,
        operators.reads,
        f"{construct}; {reason}" if reason else construct,
        is_incremental=not reason,
    )


def conjunctions(select: Select, background: TripleIndex, limits: Limits | None) -> list[Conjunction]:
    """The branches of a query, with rows in the order of its projection.

    Raises `Unplannable` for a query that does not distribute, `LimitExceeded` as `Conjunction`
    does.
    """
    if select.offset or select.limit is not None:
        raise Unplannable("LIMIT or OFFSET")
    return [Conjunction(branch, select.projection, background, limits) for branch in branches(select.pattern)]


def _query_plan(
    select: Select,
    static: Sequence[AnswerRow],
    answers: Answers,
    answers_over_view: AnswersOverView,
    reads: Reads | None,
    reason: str,
    delta_queries: tuple[DeltaQuery, ...] | None = None,
    *,
    is_incremental: bool = True,
) -> QueryPlan:
    triggers = None if reads is None else frozenset(predicate for predicate, _ in reads)
    return QueryPlan(select, tuple(static), answers, answers_over_view, reads, triggers, is_incremental, reason, delta_queries)
