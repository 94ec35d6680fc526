"""Joins of patterns over different graphs, kept from report to report.

Idea: the delta of the left side is joined with the old right side, then the delta of the right side
with the new left side. Each side is indexed by the terms of the variables that both sides always
bind, so each row finds its join partners in one look-up. A conjunction over the default graph is
looked up instead of kept, since the background may be large.

    left {(a, 1)}, right {(a, 7)}      the join is {(a, 1, 7)}
    left inserts (a, 2)                joined with the old right side: (a, 2, 7) is inserted
    right deletes (a, 7)               joined with the new left side: both rows are deleted

Cost: the joined pairs of which at least one row was inserted or deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.terms import Variable
from dotr.temporal.answers.changes import NO_ROWS, GraphChanges, ReportWork, RowChanges
from dotr.temporal.answers.operators import ConjunctionScan, MaintainedOperator, RowFunction, columns_getter

_RowCounts: TypeAlias = dict[AnswerRow, int]
_MergeRows: TypeAlias = Callable[[AnswerRow, AnswerRow], AnswerRow | None]


class RowBag(dict[AnswerRow, _RowCounts]):
    """A bag of rows, indexed by the terms of some variables: key to row to multiplicity."""

    __slots__ = ("key_of",)

    def __init__(self, names: tuple[Variable, ...], keys: list[Variable]) -> None:
        super().__init__()
        self.key_of: RowFunction = columns_getter(names, keys)

    def change(self, changes: RowChanges) -> None:
        """Applies a delta: insertions, then deletions."""
        key_of = self.key_of
        for row in changes.inserted:
            group = self.setdefault(key_of(row), {})
            group[row] = group.get(row, 0) + 1
        for row in changes.deleted:
            key = key_of(row)
            group = self[key]
            if group[row] > 1:
                group[row] -= 1
            elif len(group) > 1:
                del group[row]
            else:
                del self[key]

    def joined(self, rows: Iterable[AnswerRow], key_of: RowFunction, merge: _MergeRows, work: ReportWork, kept: int) -> list[AnswerRow]:
        """The join of rows with the bag on equal keys. Raises `LimitExceeded`.

        `kept`: the size of the join before the report. As many of the found rows are not counted
        against the limit, since they may be deletions.
        """
        found: list[AnswerRow] = []
        for row in rows:
            group = self.get(key_of(row))
            if group:
                for partner, times in group.items():
                    merged = merge(row, partner)
                    if merged is not None:
                        found += [merged] * times
                work.look_at(len(group))
                work.keep(len(found) - kept)
        return found


class RowMerge:
    """The function from two rows to that of their join; None where they bind a variable to
    different terms.

    `keys`: variables in which the rows are known to agree.

    >>> merge = RowMerge(("x", "y"), ("x", "y", "z"), ["x"])
    >>> merge(("<a>", None), ("<a>", "<b>", "<c>")), merge(("<a>", "<d>"), ("<a>", "<b>", "<c>"))
    (('<a>', '<b>', '<c>'), None)
    """

    __slots__ = ("_of_right", "_tested", "names")

    def __init__(self, left: tuple[Variable, ...], right: tuple[Variable, ...], keys: Collection[Variable]) -> None:
        self.names = (*left, *(name for name in right if name not in left))
        self._of_right = columns_getter(right, self.names[len(left) :])
        self._tested = [(number, right.index(name)) for number, name in enumerate(left) if name in right and name not in keys]

    def __call__(self, left: AnswerRow, right: AnswerRow) -> AnswerRow | None:
        if self._tested:
            bound = list(left)
            for in_left, in_right in self._tested:
                term = right[in_right]
                if term is not None:
                    if bound[in_left] is None:
                        bound[in_left] = term
                    elif bound[in_left] != term:
                        return None
            left = tuple(bound)
        return left + self._of_right(right)

    def reversed(self, right: AnswerRow, left: AnswerRow) -> AnswerRow | None:
        """The merge of a row of the right side with one of the left."""
        return self(left, right)


class MaintainedJoin(MaintainedOperator):
    """Join of two patterns over different graphs, or on values that BIND computes.

    `merge`: the join condition with the merged row; None for equality of the common variables.
    """

    __slots__ = ("_left", "_left_rows", "_merge", "_right", "_right_rows", "size")

    def __init__(
        self, left: MaintainedOperator, right: MaintainedOperator, certain_in_both: Iterable[Variable], merge: RowMerge | None = None
    ) -> None:
        keys = sorted(certain_in_both)
        self._merge = RowMerge(left.names, right.names, keys) if merge is None else merge
        super().__init__(self._merge.names)
        self._left, self._right = left, right
        self._left_rows = RowBag(left.names, keys)
        self._right_rows = RowBag(right.names, keys)
        self.size = 0

    def clear(self) -> None:
        self._left.clear()
        self._right.clear()
        self._left_rows.clear()
        self._right_rows.clear()
        self.size = 0

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        left, right = self._left.changes(graphs, work), self._right.changes(graphs, work)
        if not left and not right:
            return NO_ROWS
        left_rows, right_rows, merge = self._left_rows, self._right_rows, self._merge
        inserted, deleted = (right_rows.joined(rows, left_rows.key_of, merge, work, self.size) for rows in left)
        left_rows.change(left)
        inserted += left_rows.joined(right.inserted, right_rows.key_of, merge.reversed, work, self.size)
        deleted += left_rows.joined(right.deleted, right_rows.key_of, merge.reversed, work, self.size)
        right_rows.change(right)
        self.size += len(inserted) - len(deleted)
        work.keep(self.size)
        return RowChanges(inserted, deleted)


class MaintainedLookup(MaintainedOperator):
    """Join of a pattern with a conjunction over a graph with a background.

    The conjunction is not kept: it is looked up by the variables that both sides always bind.
    """

    __slots__ = ("_key_of_right", "_left", "_left_rows", "_lookup", "_merge", "_right", "size")

    def __init__(self, left: MaintainedOperator, right: ConjunctionScan, certain_in_both: Iterable[Variable]) -> None:
        keys = sorted(certain_in_both)
        self._merge = RowMerge(left.names, right.names, keys)
        super().__init__(self._merge.names)
        self._left, self._right = left, right
        self._lookup = right.lookup(keys)
        self._left_rows = RowBag(left.names, keys)
        self._key_of_right = columns_getter(right.names, keys)
        self.size = 0

    def clear(self) -> None:
        self._left.clear()
        self._left_rows.clear()
        self.size = 0

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        left = self._left.changes(graphs, work)
        change = graphs[self._right.graph]
        if change.is_initial:  # the kept left side is empty, so that its delta over the new graph gives the whole join
            inserted, deleted = self._from_left(left.inserted, change.rest, change.began, work), list[AnswerRow]()
            self._left_rows.change(left)
        else:
            inserted = self._from_left(left.inserted, change.rest, change.ended, work)
            deleted = self._from_left(left.deleted, change.rest, change.ended, work)
            self._left_rows.change(left)
            right = self._right.deltas(change)
            inserted += self._left_rows.joined(right.inserted, self._key_of_right, self._merge.reversed, work, self.size)
            deleted += self._left_rows.joined(right.deleted, self._key_of_right, self._merge.reversed, work, self.size)
        self.size += len(inserted) - len(deleted)
        work.keep(self.size)
        return RowChanges(inserted, deleted)

    def _from_left(self, rows: list[AnswerRow], rest: TripleIndex, delta: TripleIndex, work: ReportWork) -> list[AnswerRow]:
        found: list[AnswerRow] = []
        key_of, lookup, merge = self._left_rows.key_of, self._lookup, self._merge
        for row in rows:
            partners = lookup(rest, delta, *key_of(row))
            for partner in partners:
                merged = merge(row, partner)
                if merged is not None:
                    found.append(merged)
            work.look_at(1 + len(partners))
            work.keep(len(found) - self.size)
        return found
