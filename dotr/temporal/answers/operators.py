"""Operators whose solutions are kept from report to report (continuous.md, section 11).

Idea: incremental view maintenance with signed deltas (Gupta, Mumick, Subrahmanian, 1993). An
operator receives the inserted and deleted triples of its graphs and returns the inserted and
deleted rows, as bags. It keeps only the state that this needs. A conjunction keeps nothing: it has
one delta join for each of its patterns. The insertions are the delta joins of the inserted triples,
over the unchanged and the inserted ones; the deletions those of the deleted triples, over the
unchanged and the deleted ones. DISTINCT keeps counts; joins of different graphs are in
`dotr.temporal.answers.joins`.

Example: `?x <p> ?y . ?y <q> ?z` where `b <q> c` is unchanged, `a <p> b` is deleted and `d <p> b`
inserted:

    delta join of a <p> b, over unchanged and deleted triples      (a, b, c) is deleted
    delta join of d <p> b, over unchanged and inserted triples     (d, b, c) is inserted

Invariant: the sum of all insertions minus the sum of all deletions is the bag of solutions over the
graphs of the report. Rows hold the terms of `names` in their order, None where unbound.
Cost: the matches that use an inserted or deleted triple; at the first report, all matches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

from dotr.evaluation.expressions import condition, evaluator
from dotr.evaluation.joins.branch_loops import AnswerRow, BranchFunction, compile_branch, with_known_terms
from dotr.evaluation.joins.branches import Branch
from dotr.evaluation.joins.deltas import Conjunction, trigger_of
from dotr.evaluation.joins.order import Side
from dotr.evaluation.joins.scope import query_parameters
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.algebra import Expression, TriplePattern, Values, Var
from dotr.model.terms import Term, Variable
from dotr.temporal.answers.changes import NO_ROWS, NO_TRIPLES, GraphChange, GraphChanges, GraphName, ReportWork, RowChanges

RowFunction: TypeAlias = Callable[[AnswerRow], AnswerRow]
RowLookup: TypeAlias = Callable[..., list[AnswerRow]]
"""A function of two indexes and bound terms to rows."""

_Result = TypeVar("_Result")


class MaintainedOperator(ABC):
    """A pattern whose solutions are maintained from report to report.

    `names`: the variables of a row.
    """

    __slots__ = ("names",)

    def __init__(self, names: Sequence[Variable]) -> None:
        self.names: Final = tuple(names)

    @abstractmethod
    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        """The inserted and deleted rows of a report. The caller may not change the lists.

        Either all graphs are anew (the first report, or after `clear`), or none is. Raises
        `LimitExceeded`, after which the operator must be cleared.
        """

    @abstractmethod
    def clear(self) -> None:
        """Discards all state; the next report is evaluated from scratch."""


def columns_getter(names: Sequence[Variable], projection: Sequence[Variable]) -> RowFunction:
    """The projection from rows of `names` to rows of other names; None for missing columns.

    >>> columns_getter(("x", "y"), ("y", "z", "x"))(("<a>", "<b>"))
    ('<b>', None, '<a>')
    """
    places = [names.index(name) if name in names else None for name in projection]
    known = [place for place in places if place is not None]
    if len(known) == len(places) == 1:
        (only,) = known
        return lambda row: (row[only],)
    if len(known) == len(places) > 1:
        return itemgetter(*known)
    return lambda row: tuple([None if place is None else row[place] for place in places])


class ConjunctionScan(MaintainedOperator):
    """A union of conjunctions over one graph.

    Only the answers over the background alone are cached. `limits`: those of one join.
    """

    __slots__ = ("_branches", "_static", "computed", "graph", "size")

    def __init__(self, graph: GraphName, branches: Iterable[Branch], names: Sequence[Variable], limits: Limits) -> None:
        super().__init__(names)
        self.graph: Final = graph
        parts = list(branches)
        self.computed: Final = frozenset(name for part in parts for name in part.computed)
        """The variables that BIND computes."""
        self._branches = [_BranchJoins(branch, self.names, limits) for branch in parts]
        self._static: list[AnswerRow] | None = None
        self.size = 0

    def clear(self) -> None:
        self.size = 0

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        change = graphs[self.graph]
        if change.is_initial:
            self.size = 0
            changes = RowChanges(self._anew(change), [])
        else:
            changes = self.deltas(change)
        work.look_at(len(changes.inserted) + len(changes.deleted))
        self.size += len(changes.inserted) - len(changes.deleted)
        work.keep(self.size)
        return changes

    def _anew(self, change: GraphChange) -> list[AnswerRow]:
        background = change.background
        if not len(background):
            return [row for branch in self._branches for row in branch.over_delta(NO_TRIPLES, change.began)]
        if self._static is None:
            self._static = [row for branch in self._branches for row in branch.over(background).static_answers()]
        rows = self._static.copy()
        for branch in self._branches:
            for query in branch.over(background).delta_queries:
                rows += query.join(background, change.began)
        return rows

    def deltas(self, change: GraphChange) -> RowChanges:
        """The inserted and deleted rows for a change of the graph."""
        return RowChanges(self._deltas(change.rest, change.began), self._deltas(change.rest, change.ended))

    def _deltas(self, rest: TripleIndex, delta: TripleIndex) -> list[AnswerRow]:
        predicates = delta.by_subject
        rows: list[AnswerRow] = []
        if predicates:
            for branch in self._branches:
                for trigger, join in branch.deltas:
                    if trigger is None or trigger in predicates:
                        rows += join(rest, delta)
        return rows

    def lookup(self, names: Sequence[Variable]) -> RowLookup:
        """The look-up of rows by the terms of `names`, over the union of two indexes."""
        functions = [branch.lookup(names) for branch in self._branches]
        if len(functions) == 1:
            return functions[0]
        return lambda rest, delta, *terms: [row for function in functions for row in function(rest, delta, *terms)]


class _BranchJoins:
    """The joins of a branch, compiled when they are first needed."""

    def __init__(self, branch: Branch, names: Sequence[Variable], limits: Limits) -> None:
        self._branch = with_known_terms(branch)
        self._names = names
        self._limits = limits
        self._over: Conjunction | None = None

    def _compiled(self, sides: Side | Sequence[Side], bound: Sequence[Variable] = ()) -> BranchFunction:
        return compile_branch(self._branch, sides, self._names, None, self._limits, bound)

    @cached_property
    def over_delta(self) -> BranchFunction:
        return self._compiled([Side.DELTA if isinstance(each, TriplePattern) else Side.BOTH for each in self._branch.patterns])

    def lookup(self, names: Sequence[Variable]) -> BranchFunction:
        return self._compiled(Side.BOTH, names)

    def over(self, background: TripleIndex) -> Conjunction:
        """The branch over a background. Every call must have the same background."""
        if self._over is None:
            self._over = Conjunction(self._branch, self._names, background, self._limits)
        return self._over

    @cached_property
    def deltas(self) -> list[tuple[Term | None, BranchFunction]]:
        """For each pattern its predicate (None: any) and its delta join.

        The pattern reads the delta, the patterns before it the rest, those after it both. So a row
        that uses several triples of the delta is found once.
        """
        patterns = self._branch.patterns
        return [
            (
                trigger_of(pattern),
                self._compiled([Side.BACKGROUND] * number + [Side.DELTA] + [Side.BOTH] * (len(patterns) - number - 1)),
            )
            for number, pattern in enumerate(patterns)
        ]


class MaintainedTable(MaintainedOperator):
    """VALUES."""

    __slots__ = ("_rows",)

    def __init__(self, table: Values) -> None:
        super().__init__(table.variables)
        self._rows = list(table.rows)

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        return RowChanges(self._rows, []) if any(change.is_initial for change in graphs.values()) else NO_ROWS

    def clear(self) -> None:
        pass


class MaintainedUnion(MaintainedOperator):
    """UNION."""

    __slots__ = ("_columns", "_parts")

    def __init__(self, parts: Sequence[MaintainedOperator]) -> None:
        super().__init__(list(dict.fromkeys(name for part in parts for name in part.names)))
        self._parts = parts
        self._columns = [columns_getter(part.names, self.names) for part in parts]

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        inserted: list[AnswerRow] = []
        deleted: list[AnswerRow] = []
        for part, columns in zip(self._parts, self._columns, strict=True):
            changes = part.changes(graphs, work)
            inserted += map(columns, changes.inserted)
            deleted += map(columns, changes.deleted)
        return RowChanges(inserted, deleted)

    def clear(self) -> None:
        for part in self._parts:
            part.clear()


class _MaintainedOver(MaintainedOperator):
    """An operator with one input operator."""

    __slots__ = ("_inner",)

    def __init__(self, names: Sequence[Variable], inner: MaintainedOperator) -> None:
        super().__init__(names)
        self._inner = inner

    def clear(self) -> None:
        self._inner.clear()


class MaintainedFilter(_MaintainedOver):
    """FILTER, and HAVING over a group."""

    __slots__ = ("_tests",)

    def __init__(self, inner: MaintainedOperator, conditions: Sequence[Expression]) -> None:
        super().__init__(inner.names, inner)
        self._tests = [over_rows(condition, each, inner.names) for each in conditions]

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        inserted, deleted = self._inner.changes(graphs, work)
        for test in self._tests:
            inserted, deleted = list(filter(test, inserted)), list(filter(test, deleted))
        return RowChanges(inserted, deleted)


class MaintainedExtend(_MaintainedOver):
    """BIND: an expression that errs leaves its variable unbound."""

    __slots__ = ("_value",)

    def __init__(self, inner: MaintainedOperator, variable: Variable, expression: Expression) -> None:
        super().__init__((*inner.names, variable), inner)
        self._value = over_rows(evaluator, expression, inner.names)

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        value = self._value
        inserted, deleted = self._inner.changes(graphs, work)
        return RowChanges([(*row, value(row)) for row in inserted], [(*row, value(row)) for row in deleted])


def over_rows(
    compiled: Callable[..., Callable[..., _Result]], expression: Expression, names: Sequence[Variable]
) -> Callable[[AnswerRow], _Result]:
    """Compiles an expression without EXISTS to a function of rows of `names`.

    `compiled` compiles it to a function of terms: `evaluator` or `condition`.
    """
    parameters = query_parameters(expression)
    function = compiled(expression, parameters)
    arguments = columns_getter(names, [parameter.name for parameter in parameters if isinstance(parameter, Var)])
    if len(parameters) == 1:
        (only,) = (parameter.name for parameter in parameters if isinstance(parameter, Var))
        place = names.index(only) if only in names else None
        return (lambda row: function(row[place])) if place is not None else (lambda row: function(None))
    return lambda row: function(*arguments(row))


class MaintainedProjection(_MaintainedOver):
    """Projection without DISTINCT."""

    __slots__ = ("_columns",)

    def __init__(self, inner: MaintainedOperator, names: Sequence[Variable]) -> None:
        super().__init__(names, inner)
        self._columns = columns_getter(inner.names, names)

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        inserted, deleted = self._inner.changes(graphs, work)
        columns = self._columns
        return RowChanges(list(map(columns, inserted)), list(map(columns, deleted)))


class MaintainedDistinct(_MaintainedOver):
    """DISTINCT: a row is inserted with its first copy and deleted with its last."""

    __slots__ = ("_counts",)

    def __init__(self, inner: MaintainedOperator) -> None:
        super().__init__(inner.names, inner)
        self._counts: dict[AnswerRow, int] = {}

    def clear(self) -> None:
        super().clear()
        self._counts.clear()

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        counts = self._counts
        inserted: list[AnswerRow] = []
        deleted: list[AnswerRow] = []
        changes = self._inner.changes(graphs, work)
        for row in changes.inserted:
            number = counts.get(row, 0)
            if not number:
                inserted.append(row)
            counts[row] = number + 1
        for row in changes.deleted:
            number = counts[row] - 1
            if number:
                counts[row] = number
            else:
                del counts[row]
                deleted.append(row)
        return RowChanges(inserted, deleted)
