"""OPTIONAL, MINUS and EXISTS, kept from report to report.

Idea: each left row has a count of its *partners*, the right rows that it joins with. A row inserted
on the right increments the counts of its partners on the left, a deleted one decrements them. The
answers of MINUS and EXISTS change where a count becomes or ceases to be 0.

    left (a, 1)                  no partner: OPTIONAL yields (a, 1, -), MINUS (a, 1)
    right (a, 7) is inserted     OPTIONAL yields (a, 1, 7) instead, MINUS nothing
    right (a, 8) is inserted     OPTIONAL also yields (a, 1, 8), MINUS is unchanged

Invariant: after `changes` the count of each left row is the number of its partners, and both sides
are kept as of the report.
Cost: an inserted or deleted row probes the rows of the other side that have the same terms in the
variables that both sides always bind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.expressions import condition
from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.joins.scope import Variables
from dotr.model.algebra import Exists, Expression, Extend, Filter, Group, LeftJoin, MatchPattern, Minus, Pattern, Select, WindowBlock
from dotr.model.terms import Term, Variable
from dotr.model.traverse import certain, free_variables, has_exists, walk
from dotr.temporal.answers.changes import NO_ROWS, GraphChanges, ReportWork, RowChanges
from dotr.temporal.answers.joins import RowBag, RowMerge
from dotr.temporal.answers.operators import MaintainedOperator, over_rows


class _MaintainedPartners(MaintainedOperator):
    """A left side whose rows have partners on the right.

    `conditions`: the conditions on the merged row of two partners. `sharing`: partners must both
    bind at least one common variable (MINUS).
    """

    __slots__ = ("_counts", "_left", "_left_rows", "_merge", "_right", "_right_rows", "_shared", "_tests", "size")

    def __init__(
        self,
        left: MaintainedOperator,
        right: MaintainedOperator,
        certain_in_both: Iterable[Variable],
        conditions: Sequence[Expression] = (),
        *,
        sharing: bool = False,
    ) -> None:
        keys = sorted(certain_in_both)
        self._merge = RowMerge(left.names, right.names, keys)
        self._left, self._right = left, right
        self._left_rows = RowBag(left.names, keys)
        self._right_rows = RowBag(right.names, keys)
        self._tests: list[Callable[[AnswerRow], bool]] = [over_rows(condition, each, self._merge.names) for each in conditions]
        common = [(place, right.names.index(name)) for place, name in enumerate(left.names) if name in right.names]
        self._shared = common if sharing and not keys else []
        self._counts: dict[AnswerRow, int] = {}
        self.size = 0
        super().__init__(self._output_names())

    @abstractmethod
    def _output_names(self) -> Sequence[Variable]:
        """The variables of the pattern's rows."""

    @abstractmethod
    def _output_rows(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        """The rows that a left row yields. `partners`: its partners, merged with it."""

    @abstractmethod
    def _partner_delta(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        """The delta where a left row gets a further partner; `is_first`: it had none.

        The delta of a deleted partner is the reverse.
        """

    def clear(self) -> None:
        self._left.clear()
        self._right.clear()
        self._left_rows.clear()
        self._right_rows.clear()
        self._counts.clear()
        self.size = 0

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        left, right = self._left.changes(graphs, work), self._right.changes(graphs, work)
        if not left and not right:
            return NO_ROWS
        if not self._left_rows:  # no left row to update: the delta of the left side is joined with the new right side
            self._right_rows.change(right)
            right = NO_ROWS
        inserted, deleted = (self._from_left(rows, work) for rows in left)
        left_rows = self._left_rows
        left_rows.change(left)
        for row in left.deleted:
            if row not in left_rows.get(left_rows.key_of(row), ()):
                self._counts.pop(row, None)
        for rows, step in ((right.inserted, 1), (right.deleted, -1)):
            for row in rows:
                changes = self._from_right(row, step, work)
                inserted += changes.inserted
                deleted += changes.deleted
                work.keep(self.size + len(inserted) - len(deleted))
        self._right_rows.change(right)
        self.size += len(inserted) - len(deleted)
        work.keep(self.size)
        return RowChanges(inserted, deleted)

    def _merged_partners(self, row: AnswerRow, other: AnswerRow) -> AnswerRow | None:
        """The merged row where the rows are partners; else None."""
        merged = self._merge(row, other)
        if merged is None or (self._shared and all(row[left] is None or other[right] is None for left, right in self._shared)):
            return None
        return merged if all(test(merged) for test in self._tests) else None

    def _from_left(self, rows: list[AnswerRow], work: ReportWork) -> list[AnswerRow]:
        """The rows that left rows yield with the kept right side; sets their counts."""
        found: list[AnswerRow] = []
        right_rows, key_of = self._right_rows, self._left_rows.key_of
        for row in rows:
            group = right_rows.get(key_of(row), {})
            partners: list[AnswerRow] = []
            for other, times in group.items():
                if (merged := self._merged_partners(row, other)) is not None:
                    partners += [merged] * times
            self._counts[row] = len(partners)
            found += self._output_rows(row, partners)
            work.look_at(1 + len(group))
            work.keep(len(found) - self.size)
        return found

    def _from_right(self, other: AnswerRow, step: int, work: ReportWork) -> RowChanges:
        """The delta for a row inserted on the right (`step` 1) or deleted there (-1), over the new
        left side."""
        group = self._left_rows.get(self._right_rows.key_of(other))
        if not group:
            return NO_ROWS
        found = RowChanges([], [])
        work.look_at(len(group))
        counts = self._counts
        for row, times in group.items():
            merged = self._merged_partners(row, other)
            if merged is None:
                continue
            count = counts[row]
            counts[row] = count + step
            inserted, deleted = self._partner_delta(row, merged, is_first=not count if step > 0 else count == 1)
            if step < 0:
                inserted, deleted = deleted, inserted
            found.inserted.extend(inserted * times)
            found.deleted.extend(deleted * times)
        return found


class MaintainedOptional(_MaintainedPartners):
    """OPTIONAL."""

    __slots__ = ()

    def _output_names(self) -> Sequence[Variable]:
        return self._merge.names

    def _alone(self, row: AnswerRow) -> AnswerRow:
        return row + (None,) * (len(self.names) - len(row))

    def _output_rows(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        return list(partners) or [self._alone(row)]

    def _partner_delta(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        return RowChanges([merged], [self._alone(row)] if is_first else [])


class MaintainedWithPartner(_MaintainedPartners):
    """FILTER EXISTS: the left rows that have a partner."""

    __slots__ = ()

    def _output_names(self) -> Sequence[Variable]:
        return self._left.names

    def _output_rows(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        return [row] if partners else []

    def _partner_delta(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        return RowChanges([row], []) if is_first else NO_ROWS


class MaintainedWithoutPartner(_MaintainedPartners):
    """MINUS and FILTER NOT EXISTS: the left rows that have no partner."""

    __slots__ = ()

    def _output_names(self) -> Sequence[Variable]:
        return self._left.names

    def _output_rows(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        return [] if partners else [row]

    def _partner_delta(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        return RowChanges([], [row]) if is_first else NO_ROWS


# EXISTS as a semijoin: a row has a partner among the solutions of the pattern of an EXISTS.
#
#     { ?s :has ?v } FILTER EXISTS { ?s :limit ?w FILTER(?v > ?w) }
#
# is the semijoin of `?s :has ?v` with `?s :limit ?w` on ?s, with the condition `?v > ?w`.


class NotASemijoin(DotrError):
    """An EXISTS that is no semijoin; the message names the construct."""


class ExistsPartner(NamedTuple):
    """The right side of a semijoin: a pattern, and the conditions on the merged row of two
    partners."""

    pattern: Pattern
    conditions: tuple[Expression, ...]

    @property
    def mentioned(self) -> Variables:
        """The variables of the conditions."""
        return frozenset(name for each in self.conditions for name in free_variables(each))


def partner_of(exists: Exists, outer: Variables) -> ExistsPartner:
    """The semijoin partner of an EXISTS: its pattern without the FILTERs of its group, which are
    the conditions.

    `outer`: the variables that may be bound outside the EXISTS. EXISTS substitutes the values of
    the row into its pattern (SPARQL 1.1, 18.6). This is a semijoin unless an inner FILTER or BIND
    reads a variable of the row that its own pattern may leave unbound. Then, and for patterns of
    more than conjunctions and unions, raises `NotASemijoin`.
    """
    pattern, conditions, windows = exists.pattern, list[Expression](), list[Term]()
    while isinstance(pattern, Filter | WindowBlock):
        if isinstance(pattern, Filter):
            conditions += pattern.conditions
        else:
            windows.append(pattern.window)
        pattern = pattern.pattern
    for node in walk(pattern):
        match node:
            case LeftJoin() | Minus() | Select() | Group() | MatchPattern() | Exists():
                raise NotASemijoin("EXISTS of more than a conjunction or UNION")
            case Filter(inner, tests):
                read = frozenset(name for each in tests for name in free_variables(each))
            case Extend(inner, variable, expression):
                read = frozenset((variable, *free_variables(expression)))
            case _:
                continue
        if not read & outer <= certain(inner):
            raise NotASemijoin("EXISTS that uses variables from outside in its parts")
    if any(map(has_exists, conditions)):
        raise NotASemijoin("EXISTS in EXISTS")
    for window in reversed(windows):
        pattern = WindowBlock(window, pattern)
    return ExistsPartner(pattern, tuple(conditions))
