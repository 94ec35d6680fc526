"""OPTIONAL, MINUS and EXISTS, kept from report to report.

Idea: each row of the left side has a number of *partners*, the rows of the right side that it
meets. A row that comes to the right side gives one more to the rows that it meets, one that goes
one less; what the pattern gives changes where a number begins or ceases to be 0.

    left (a, 1)      without a partner, OPTIONAL gives (a, 1, -), MINUS (a, 1)
    right (a, 7) comes                  OPTIONAL gives (a, 1, 7) in its place, MINUS nothing
    right (a, 8) comes                  OPTIONAL gives (a, 1, 8) too, MINUS nothing new

Invariant: after `changes` the number of each left row is that of its partners, and both sides are
kept as they are.
Cost: a row that comes or goes on one side looks at those of the other with its terms in the
variables that both sides always bind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

from dotr.expressions import condition
from dotr.joins.branch_loops import AnswerRow
from dotr.model.algebra import Expression
from dotr.model.terms import Variable
from dotr.queries.kept_changes import NO_ROWS, GraphChanges, ReportWork, RowChanges
from dotr.queries.kept_joins import RowBag, RowMerge
from dotr.queries.kept_operators import KeptOperator, over_rows


class _KeptPartners(KeptOperator):
    """A left side whose rows have partners on the right.

    `conditions`: what merged rows of partners fulfil. `sharing`: partners both bind some variable.
    """

    __slots__ = ("_left", "_left_rows", "_merge", "_numbers", "_right", "_right_rows", "_shared", "_tests", "size")

    def __init__(
        self,
        left: KeptOperator,
        right: KeptOperator,
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
        self._numbers: dict[AnswerRow, int] = {}
        self.size = 0
        super().__init__(self._given_names())

    @abstractmethod
    def _given_names(self) -> Sequence[Variable]:
        """The variables of the rows that the pattern gives."""

    @abstractmethod
    def _given(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        """What a left row gives; `partners` are merged with it."""

    @abstractmethod
    def _partnered(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        """What changes where a left row gets one more partner; `is_first`: it had none."""

    def clear(self) -> None:
        self._left.clear()
        self._right.clear()
        self._left_rows.clear()
        self._right_rows.clear()
        self._numbers.clear()
        self.size = 0

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        left, right = self._left.changes(graphs, work), self._right.changes(graphs, work)
        if not left and not right:
            return NO_ROWS
        if not self._left_rows:  # the right side has come, then: all that is given comes, and nothing goes
            self._right_rows.change(right)
            right = NO_ROWS
        came, went = (self._from_left(rows, work) for rows in left)
        mine = self._left_rows
        mine.change(left)
        for row in left.went:
            if row not in mine.get(mine.key_of(row), ()):
                self._numbers.pop(row, None)
        for rows, step in ((right.came, 1), (right.went, -1)):
            for other in rows:
                changes = self._from_right(other, step, work)
                came += changes.came
                went += changes.went
                work.keep(self.size + len(came) - len(went))
        self._right_rows.change(right)
        self.size += len(came) - len(went)
        work.keep(self.size)
        return RowChanges(came, went)

    def _meet(self, row: AnswerRow, other: AnswerRow) -> AnswerRow | None:
        """The merged row of partners; None where the rows are none."""
        merged = self._merge(row, other)
        if merged is None or (self._shared and all(row[mine] is None or other[place] is None for mine, place in self._shared)):
            return None
        return merged if all(test(merged) for test in self._tests) else None

    def _from_left(self, rows: list[AnswerRow], work: ReportWork) -> list[AnswerRow]:
        """What rows of the left side give, with the right side as it was."""
        found: list[AnswerRow] = []
        others, key_of = self._right_rows, self._left_rows.key_of
        for row in rows:
            group = others.get(key_of(row), {})
            met = [merged for other, times in group.items() if (merged := self._meet(row, other)) is not None for _ in range(times)]
            self._numbers[row] = len(met)
            found += self._given(row, met)
            work.look_at(1 + len(group))
            work.keep(len(found) - self.size)
        return found

    def _from_right(self, other: AnswerRow, step: int, work: ReportWork) -> RowChanges:
        """What changes with a row that comes to the right side (`step` 1), or goes (-1), the left side
        being as it is now."""
        group = self._left_rows.get(self._right_rows.key_of(other))
        if not group:
            return NO_ROWS
        found = RowChanges([], [])
        work.look_at(len(group))
        numbers = self._numbers
        for row, times in group.items():
            merged = self._meet(row, other)
            if merged is None:
                continue
            number = numbers[row]
            numbers[row] = number + step
            came, went = self._partnered(row, merged, is_first=not number if step > 0 else number == 1)
            if step < 0:
                came, went = went, came
            found.came.extend(came * times)
            found.went.extend(went * times)
        return found


class KeptOptional(_KeptPartners):
    """OPTIONAL."""

    __slots__ = ()

    def _given_names(self) -> Sequence[Variable]:
        return self._merge.names

    def _alone(self, row: AnswerRow) -> AnswerRow:
        return row + (None,) * (len(self.names) - len(row))

    def _given(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        return list(partners) or [self._alone(row)]

    def _partnered(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        return RowChanges([merged], [self._alone(row)] if is_first else [])


class KeptWithPartner(_KeptPartners):
    """FILTER EXISTS: the left rows that have a partner."""

    __slots__ = ()

    def _given_names(self) -> Sequence[Variable]:
        return self._left.names

    def _given(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        return [row] if partners else []

    def _partnered(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        return RowChanges([row], []) if is_first else NO_ROWS


class KeptWithoutPartner(_KeptPartners):
    """MINUS and FILTER NOT EXISTS: the left rows that have no partner."""

    __slots__ = ()

    def _given_names(self) -> Sequence[Variable]:
        return self._left.names

    def _given(self, row: AnswerRow, partners: Sequence[AnswerRow]) -> list[AnswerRow]:
        return [] if partners else [row]

    def _partnered(self, row: AnswerRow, merged: AnswerRow, *, is_first: bool) -> RowChanges:
        return RowChanges([], [row]) if is_first else NO_ROWS
