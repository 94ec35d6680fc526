"""GROUP BY with its aggregates, kept from report to report (continuous.md, section 11).

Idea: a group keeps the multiset of values of each aggregate. SUM and AVG also keep an exact sum, to
which values are added and from which they are subtracted; MIN and MAX keep the values sorted. Any
other aggregate is evaluated over the multiset when its group has changed. The result of an
aggregate does not depend on the order of its values (`dotr.evaluation.expressions.aggregates`), so
it equals that of full evaluation.

    AVG of 3, 5                    the sum is 8 of 2 values
    5 is deleted, 1 is inserted    the sum is 4 of 2 values: (3 + 1) / 2

Cost: O(1) per inserted or deleted value (MIN and MAX: a bisection), and one result per changed
group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from dotr.evaluation.expressions import VALUES, aggregate, evaluator, order_key, write
from dotr.evaluation.expressions.operators import divide
from dotr.evaluation.expressions.sort_keys import OrderBy
from dotr.evaluation.expressions.values.decimals import quotient
from dotr.evaluation.expressions.values.exact_sums import ExactSum
from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.model.algebra import AggregateCall, Group, Var, is_hidden
from dotr.model.terms import Term, Variable
from dotr.temporal.answers.changes import NO_ROWS, GraphChanges, ReportWork, RowChanges
from dotr.temporal.answers.operators import MaintainedOperator, columns_getter, over_rows


class GroupValues(ABC):
    """The values of one aggregate in one group."""

    __slots__ = ()

    @abstractmethod
    def change(self, value: Term | AnswerRow | None, times: int) -> None:
        """Adds (`times` 1) or removes (-1) a value; None stands for an error of the expression."""

    @abstractmethod
    def result(self) -> Term | None:
        """The value of the aggregate; None where it errs."""


class CountedRows(GroupValues):
    """COUNT(*)."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = 0

    def change(self, value: Term | AnswerRow | None, times: int) -> None:
        self._number += times

    def result(self) -> Term | None:
        return write(self._number)


class CountedValues(GroupValues):
    """COUNT of terms, or with DISTINCT of different terms or rows; errors are not counted."""

    __slots__ = ("_counts", "_is_distinct", "_number")

    def __init__(self, *, is_distinct: bool) -> None:
        self._is_distinct = is_distinct
        self._number = 0
        self._counts: Counter[Term | AnswerRow] = Counter()

    def change(self, value: Term | AnswerRow | None, times: int) -> None:
        if value is None:
            return
        if self._is_distinct:
            times = _change(self._counts, value, times)
        self._number += times

    def result(self) -> Term | None:
        return write(self._number)


def _change(counts: dict[Term | AnswerRow, int], value: Term | AnswerRow, times: int) -> int:
    """Changes a value's multiplicity in a multiset; returns the change of the number of distinct
    values: 1, 0 or -1."""
    before = counts.get(value, 0)
    after = before + times
    if after:
        counts[value] = after
    else:
        del counts[value]
    return (after > 0) - (before > 0)


class ValueMultiset(GroupValues):
    """An aggregate that is recomputed over all its values: SAMPLE and GROUP_CONCAT."""

    __slots__ = ("_combine", "_counts", "_errors")

    def __init__(self, combine: Callable[[Sequence[Term | None]], Term | None]) -> None:
        self._combine = combine
        self._counts: Counter[Term | AnswerRow] = Counter()
        self._errors = 0

    def change(self, value: Term | AnswerRow | None, times: int) -> None:
        if value is None:
            self._errors += times
        else:
            _change(self._counts, value, times)

    def result(self) -> Term | None:
        return self._combine([*self._counts.elements(), *[None] * self._errors])  # type: ignore[list-item]  # rows are counted alone


class SummedValues(ValueMultiset):
    """SUM, or AVG where `is_mean`."""

    __slots__ = ("_is_distinct", "_is_mean", "_number", "_sum")

    def __init__(self, combine: Callable[[Sequence[Term | None]], Term | None], *, is_mean: bool, is_distinct: bool) -> None:
        super().__init__(combine)
        self._is_mean, self._is_distinct = is_mean, is_distinct
        self._number = 0
        self._sum = ExactSum()

    def change(self, value: Term | AnswerRow | None, times: int) -> None:
        if value is None:
            self._errors += times
            return
        distinct_change = _change(self._counts, value, times)
        if self._is_distinct:
            times = distinct_change
        if times:
            self._number += times
            self._sum.change(VALUES[value], times)  # type: ignore[index]

    def result(self) -> Term | None:
        if self._errors or self._sum.has_overflowed:
            return super().result()
        total, number = self._sum.total(), self._number
        if not self._is_mean or not number or total is None:
            return write(total)
        return write(divide(total, number) if isinstance(total, float) else quotient(total, number))


class OrderedValues(GroupValues):
    """MIN, or MAX where `is_greatest`."""

    __slots__ = ("_counts", "_errors", "_is_greatest", "_ordered")

    def __init__(self, *, is_greatest: bool) -> None:
        self._is_greatest = is_greatest
        self._counts: Counter[Term | AnswerRow] = Counter()
        self._errors = 0
        self._ordered: list[tuple[OrderBy, Term]] = []

    def change(self, value: Term | AnswerRow | None, times: int) -> None:
        if value is None:
            self._errors += times
            return
        assert isinstance(value, str)
        distinct_change = _change(self._counts, value, times)
        if distinct_change > 0:
            insort(self._ordered, (order_key(value), value))
        elif distinct_change < 0:
            del self._ordered[bisect_left(self._ordered, (order_key(value), value))]

    def result(self) -> Term | None:
        if self._errors or not self._ordered:
            return None
        return self._ordered[-1 if self._is_greatest else 0][1]


def _no_value(row: AnswerRow) -> None:
    return None


class _GroupColumn:
    """An aggregate of a group: the function from a row to its value, and the factory of its
    `GroupValues`."""

    __slots__ = ("make", "value_of")

    def __init__(self, call: AggregateCall, names: Sequence[Variable]) -> None:
        self.value_of: Callable[[AnswerRow], Term | AnswerRow | None]
        if isinstance(call.argument, Var) and call.argument.name in names:
            self.value_of = itemgetter(names.index(call.argument.name))
        elif call.argument is not None:
            self.value_of = over_rows(evaluator, call.argument, names)
        elif call.distinct:
            self.value_of = columns_getter(names, [name for name in names if not is_hidden(name)])
        else:
            self.value_of = _no_value
        self.make: Final = _maker(call)


def _maker(call: AggregateCall) -> Callable[[], GroupValues]:
    combine, is_distinct = aggregate(call), call.distinct
    match call.function:
        case "COUNT" if call.argument is None and not is_distinct:
            return CountedRows
        case "COUNT":
            return lambda: CountedValues(is_distinct=is_distinct)
        case "SUM" | "AVG":
            return lambda: SummedValues(combine, is_mean=call.function == "AVG", is_distinct=is_distinct)
        case "MIN" | "MAX":
            return lambda: OrderedValues(is_greatest=call.function == "MAX")
        case _:
            return lambda: ValueMultiset(combine)


def _key_function(group: Group, names: Sequence[Variable]) -> Callable[[AnswerRow], AnswerRow]:
    """The function from a row to the key of its group."""
    variables = [key.name for _, key in group.keys if isinstance(key, Var)]
    if len(variables) == len(group.keys):
        return columns_getter(names, variables)
    keys = [over_rows(evaluator, key, names) for _, key in group.keys]
    return lambda row: tuple([key(row) for key in keys])


class _MaintainedGroupState:
    """A group: the number of its rows, its values by aggregate, and the output row last
    returned."""

    __slots__ = ("number", "output", "values")

    def __init__(self, values: list[GroupValues]) -> None:
        self.number = 0
        self.values = values
        self.output: AnswerRow | None = None


class MaintainedGroups(MaintainedOperator):
    """GROUP BY: a row for each group, keys first; without keys exactly one row, even over no
    rows."""

    __slots__ = ("_columns", "_groups", "_has_keys", "_inner", "_key_of")

    def __init__(self, inner: MaintainedOperator, group: Group) -> None:
        super().__init__([name for name, _ in (*group.keys, *group.aggregates)])
        self._inner = inner
        self._has_keys = bool(group.keys)
        self._key_of = _key_function(group, inner.names)
        self._columns = [_GroupColumn(call, inner.names) for _, call in group.aggregates]
        self._groups: dict[AnswerRow, _MaintainedGroupState] = {}

    def clear(self) -> None:
        self._inner.clear()
        self._groups.clear()

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        changes = self._inner.changes(graphs, work)
        changed: dict[AnswerRow, _MaintainedGroupState] = {}
        if not self._has_keys and () not in self._groups:
            changed[()] = self._group(())
        if not changes and not changed:
            return NO_ROWS
        key_of, values_of = self._key_of, [(number, column.value_of) for number, column in enumerate(self._columns)]
        for rows, times in ((changes.inserted, 1), (changes.deleted, -1)):
            for row in rows:
                key = key_of(row)
                group = changed.get(key)
                if group is None:
                    group = changed[key] = self._group(key)
                group.number += times
                values = group.values
                for number, value_of in values_of:
                    values[number].change(value_of(row), times)
        work.keep(len(self._groups))
        return self._output_changes(changed)

    def _group(self, key: AnswerRow) -> _MaintainedGroupState:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _MaintainedGroupState([column.make() for column in self._columns])
        return group

    def _output_changes(self, changed: dict[AnswerRow, _MaintainedGroupState]) -> RowChanges:
        """The delta of the output: new rows of changed groups are inserted, their old ones
        deleted."""
        inserted: list[AnswerRow] = []
        deleted: list[AnswerRow] = []
        for key, group in changed.items():
            row = (*key, *[values.result() for values in group.values]) if group.number or not self._has_keys else None
            if not group.number and self._has_keys:
                del self._groups[key]
            if row != group.output:
                if group.output is not None:
                    deleted.append(group.output)
                if row is not None:
                    inserted.append(row)
                group.output = row
        return RowChanges(inserted, deleted)
