"""GROUP BY with its aggregates, kept from report to report (continuous.md, section 11).

Idea: a group keeps, for each aggregate, the multiset of its values: a sum that values join and
leave, exactly; an order for MIN and MAX; and nothing but the multiset for the others, which are
evaluated over it where the group has changed. The result of an aggregate never depends on the
order of its values (`dotr.expressions.aggregates`), so it is the one that evaluation in full gives.

    AVG of 3, 5        the sum is 8 of 2 values
    5 goes, 1 comes    the sum is 4 of 2 values: (3 + 1) / 2

Cost: a step a value that comes or goes, and the groups that changed; MIN and MAX bisect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from dotr.expressions import VALUES, aggregate, evaluator, order_key, write
from dotr.expressions.decimals import quotient
from dotr.expressions.exact_sums import ExactSum
from dotr.expressions.operators import divide
from dotr.expressions.sort_keys import OrderBy
from dotr.joins.branch_loops import AnswerRow
from dotr.model.algebra import AggregateCall, Group, Var, is_hidden
from dotr.model.terms import Term, Variable
from dotr.queries.kept_changes import NO_ROWS, GraphChanges, ReportWork, RowChanges
from dotr.queries.kept_operators import KeptOperator, columns_getter, over_rows


class GroupValues(ABC):
    """The values of one aggregate in one group."""

    __slots__ = ()

    @abstractmethod
    def change(self, value: Term | AnswerRow | None, times: int) -> None:
        """Takes in a value (`times` 1) or gives one back (-1); None is an error."""

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
    """COUNT of terms, or with DISTINCT of terms or rows: what differs, without errors."""

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
    """Changes a multiset; returns 1 where the value is new, -1 where it is gone, else 0."""
    before = counts.get(value, 0)
    after = before + times
    if after:
        counts[value] = after
    else:
        del counts[value]
    return (after > 0) - (before > 0)


class ValueMultiset(GroupValues):
    """An aggregate that is evaluated over its values anew: SAMPLE and GROUP_CONCAT."""

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
        turn = _change(self._counts, value, times)
        if self._is_distinct:
            times = turn
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
        turn = _change(self._counts, value, times)
        if turn > 0:
            insort(self._ordered, (order_key(value), value))
        elif turn < 0:
            del self._ordered[bisect_left(self._ordered, (order_key(value), value))]

    def result(self) -> Term | None:
        if self._errors or not self._ordered:
            return None
        return self._ordered[-1 if self._is_greatest else 0][1]


def _no_value(row: AnswerRow) -> None:
    return None


class _GroupColumn:
    """An aggregate of a group: the value that a row gives it, and where its values are kept."""

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


class _KeptGroupState:
    """A group: the number of its rows, its values by aggregate, and its row as it was given."""

    __slots__ = ("given", "number", "values")

    def __init__(self, values: list[GroupValues]) -> None:
        self.number = 0
        self.values = values
        self.given: AnswerRow | None = None


class KeptGroups(KeptOperator):
    """GROUP BY: a row for each group, keys first; without keys one for all rows, or for none."""

    __slots__ = ("_columns", "_groups", "_has_keys", "_inner", "_key_of")

    def __init__(self, inner: KeptOperator, group: Group) -> None:
        super().__init__([name for name, _ in (*group.keys, *group.aggregates)])
        self._inner = inner
        self._has_keys = bool(group.keys)
        self._key_of = _key_function(group, inner.names)
        self._columns = [_GroupColumn(call, inner.names) for _, call in group.aggregates]
        self._groups: dict[AnswerRow, _KeptGroupState] = {}

    def clear(self) -> None:
        self._inner.clear()
        self._groups.clear()

    def changes(self, graphs: GraphChanges, work: ReportWork) -> RowChanges:
        changes = self._inner.changes(graphs, work)
        touched: dict[AnswerRow, _KeptGroupState] = {}
        if not self._has_keys and () not in self._groups:
            touched[()] = self._group(())
        if not changes and not touched:
            return NO_ROWS
        key_of, values_of = self._key_of, [(number, column.value_of) for number, column in enumerate(self._columns)]
        for rows, times in ((changes.came, 1), (changes.went, -1)):
            for row in rows:
                key = key_of(row)
                group = touched.get(key)
                if group is None:
                    group = touched[key] = self._group(key)
                group.number += times
                values = group.values
                for number, value_of in values_of:
                    values[number].change(value_of(row), times)
        work.keep(len(self._groups))
        return self._given(touched)

    def _group(self, key: AnswerRow) -> _KeptGroupState:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _KeptGroupState([column.make() for column in self._columns])
        return group

    def _given(self, touched: dict[AnswerRow, _KeptGroupState]) -> RowChanges:
        """The rows of groups that changed, and those that they had."""
        came: list[AnswerRow] = []
        went: list[AnswerRow] = []
        for key, group in touched.items():
            row = (*key, *[values.result() for values in group.values]) if group.number or not self._has_keys else None
            if not group.number and self._has_keys:
                del self._groups[key]
            if row != group.given:
                if group.given is not None:
                    went.append(group.given)
                if row is not None:
                    came.append(row)
                group.given = row
        return RowChanges(came, went)
