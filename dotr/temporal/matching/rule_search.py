"""Search for the rows of a constant table whose conditions a value satisfies.

Idea: rows are grouped by the keys of the constants that they equate. The rows of a group are sorted
by one bound, or are in an interval tree where an attribute is bounded on both sides. Further
conditions are tested on the rows found.
Invariant: exactly the rows whose conditions all hold are returned, each once.
Cost: O(log n) per value plus the rows found by keys and bounds; O(n) memory.
Source: Edelsbrunner, *Dynamic data structures for orthogonal intersection queries* (1980).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from dotr.evaluation.expressions import VALUES, equality_key, evaluator
from dotr.evaluation.expressions.ordered_domains import OrderedDomain, domain_and_rank, domain_of, rank_in
from dotr.evaluation.expressions.values.terms import value_of
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Const, Expression, Var
from dotr.model.event_order import AttributeValues
from dotr.model.terms import Term, Variable, is_iri
from dotr.model.traverse import transform

TableCell: TypeAlias = int | Decimal | float | Term | None
TableRow: TypeAlias = tuple[TableCell, ...]

FindRows: TypeAlias = Callable[[Any], Sequence[TableRow]]

MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


class Comparison(NamedTuple):
    """`attribute operator constant`; in a template the constant is a column of the table."""

    attribute: Variable
    operator: str
    constant: Const | Attribute


def comparison(condition: Expression) -> Comparison | None:
    """A condition on an event as a comparison with a constant, which may be on either side.

    >>> comparison(Call("<", (Const('"5"'), Var("v"))))
    Comparison(attribute='v', operator='>', constant=Const(term='"5"'))
    """
    match condition:
        case Call(operator, (Var(name), (Const() | Attribute()) as constant)) if operator in MIRRORED:
            return Comparison(name, operator, constant)
        case Call(operator, ((Const() | Attribute()) as constant, Var(name))) if operator in MIRRORED:
            return Comparison(name, MIRRORED[operator], constant)
        case _:
            return None


def fold_constants(expression: Expression) -> Expression:
    """The expression with calls of constants replaced by their value; a call that raises an error
    is kept.

    >>> from dotr.model.terms import XSD, literal
    >>> two = Const(literal("2", XSD + "integer"))
    >>> fold_constants(Call("<", (Var("v"), Call("+", (two, two)))))
    Call(function='<', arguments=(Var(name='v'), Const(term='"4"^^<http://www.w3.org/2001/XMLSchema#integer>')))
    """
    return transform(expression, _fold_call)


def _fold_call(part: Expression) -> Expression:
    """The value of a call of constants; any other part unchanged."""
    if not isinstance(part, Call) or not part.arguments:
        return part
    terms = [argument.term for argument in part.arguments if isinstance(argument, Const)]
    if len(terms) < len(part.arguments):
        return part
    term = _function_of(part.function, len(terms))(*terms)
    return part if term is None else Const(term)


@lru_cache(256)
def _function_of(function: str, count: int) -> Callable[..., Term | None]:
    """A function of `count` terms, shared by the rules that apply it to different constants."""
    parameters = tuple([Var(str(number)) for number in range(count)])
    return evaluator(Call(function, parameters), parameters)


class SearchableComparison(NamedTuple):
    """A comparison that `RowFinder` can search; `domain` is the ordered domain of the constant,
    None for `=`."""

    domain: OrderedDomain | None


def searchable_comparison(condition: Expression) -> SearchableComparison | None:
    """The comparison with a constant that a search supports; None for any other condition."""
    compared = comparison(condition)
    if compared is None or not isinstance(compared.constant, Const):
        return None
    if compared.operator == "=":
        return SearchableComparison(None)
    domain = domain_of(compared.constant.term)
    return None if domain is None else SearchableComparison(domain)


@dataclass(frozen=True, slots=True)
class ConstantTable:
    """Comparisons of an event with the constants of a table.

    Column `c` is `Attribute(…, "c")`. An index with a table has a run of the matching events for
    each row. With the conditions `?v > column 0` and the table 10, 20: an event with `?v = 15` is
    in the run of row 0 alone.
    """

    conditions: tuple[Expression, ...]
    table: tuple[tuple[Term, ...], ...]


class RowBound(NamedTuple):
    """`attribute operator row[cell]`, with the attribute by its position."""

    position: int
    operator: str
    cell: int


class RowFinder:
    """Finds the rows of a table whose conditions hold for the values of an event.

    `bounds` are the conditions; `test` evaluates all of them for values and a row. Rows are
    returned in the order of the numbers in the cell `order`, if given.
    """

    def __init__(
        self,
        rows: Sequence[TableRow],
        bounds: Sequence[RowBound],
        test: Callable[[AttributeValues, TableRow], bool],
        order: int | None = None,
    ) -> None:
        equal = [bound for bound in bounds if bound.operator == "="]
        self._keys = tuple(bound.position for bound in equal)
        self._test = test
        self._order = None if order is None else itemgetter(order)
        low, high = _bound_pair(rows, [bound for bound in bounds if bound.operator != "="])
        first = low or high
        self._position = 0 if first is None else first.position
        parts: dict[object, list[TableRow]] = {}
        for row in rows:
            parts.setdefault(tuple([equality_key(row[bound.cell]) for bound in equal]), []).append(row)  # type: ignore[arg-type]
        self._rows_of_key: dict[object, list[TableRow]] = {}
        self._bounded_of_key: dict[object, _BoundedRows] = {}
        for key, part in parts.items():
            self._rows_of_key[key] = part
            if low or high:
                self._bounded_of_key[key] = _BoundedRows(part, low, high)
        nodes = all(_is_iri(row[bound.cell]) for row in rows for bound in equal)
        self._needs_no_test = nodes and len(bounds) == len(equal) + bool(low) + bool(high)

    def __call__(self, values: AttributeValues) -> Sequence[TableRow]:
        key = []
        for position in self._keys:
            term = values[position]
            if term is None:
                return ()
            key.append(equality_key(term))
        keys = tuple(key)
        rows: Sequence[TableRow] | None = self._rows_of_key.get(keys)
        if rows is None:
            return ()
        if self._bounded_of_key:
            bounded = values[self._position]
            is_short = bounded is None or len(bounded) < 51  # `value_of` without its call
            rows = self._bounded_of_key[keys](VALUES[bounded] if is_short else value_of(bounded))
            if self._order is not None and len(rows) > 1:
                rows = sorted(rows, key=self._order)
        if self._needs_no_test:
            return rows
        test = self._test
        return [row for row in rows if test(values, row)]


def _is_iri(cell: TableCell) -> bool:
    return isinstance(cell, str) and is_iri(cell)


def _bound_pair(rows: Sequence[TableRow], bounds: Sequence[RowBound]) -> tuple[RowBound | None, RowBound | None]:
    """A lower and an upper bound on one attribute in one domain; otherwise the first bound
    alone."""

    def scale(bound: RowBound) -> OrderedDomain | None:
        return domain_of(rows[0][bound.cell])  # type: ignore[arg-type]

    for low in bounds:
        for high in bounds:
            if low.operator in (">", ">=") and high.operator in ("<", "<=") and low.position == high.position and scale(low) is scale(high):
                return low, high
    first = bounds[0] if bounds else None
    return (None, first) if first is not None and first.operator in ("<", "<=") else (first, None)


class _BoundedRows:
    """The rows of one key, searched by one or two bounds. The search structure of a domain is
    built at its first value."""

    def __init__(self, rows: Sequence[TableRow], low: RowBound | None, high: RowBound | None) -> None:
        self._rows, self._low, self._high = rows, low, high
        first = low or high
        assert first is not None
        domain = domain_of(rows[0][first.cell])  # type: ignore[arg-type]
        assert domain is not None
        self._domain = domain
        self._finders: dict[int, FindRows] = {}

    def __call__(self, value: object) -> Sequence[TableRow]:
        domain_and_value_rank = domain_and_rank(self._domain, value)
        if domain_and_value_rank is None:
            return ()
        domain, rank = domain_and_value_rank
        find = self._finders.get(domain)
        if find is None:
            find = self._finders[domain] = self._build(domain)
        return find(rank)

    def _build(self, domain: int) -> FindRows:
        def ranks(bound: RowBound) -> list[Any]:
            return [rank_in(row[bound.cell], domain) for row in self._rows]  # type: ignore[arg-type]

        low, high = self._low, self._high
        if low is not None and high is not None:
            ranges = [RangeItem(a, b, row) for a, b, row in zip(ranks(low), ranks(high), self._rows, strict=True)]
            return IntervalTree(ranges, low.operator == ">=", high.operator == "<=").containing
        if low is not None:
            return _above_bound(ranks(low), self._rows, bisect_right if low.operator == ">=" else bisect_left)
        assert high is not None
        return _below_bound(ranks(high), self._rows, bisect_left if high.operator == "<=" else bisect_right)


def _sorted_by_rank(ranks: Sequence[Any], rows: Sequence[TableRow]) -> tuple[list[Any], list[TableRow]]:
    order = sorted(range(len(rows)), key=ranks.__getitem__)
    return [ranks[i] for i in order], [rows[i] for i in order]


def _above_bound(ranks: Sequence[Any], rows: Sequence[TableRow], bisect: Callable[[list[Any], Any], int]) -> FindRows:
    ordered, ordered_rows = _sorted_by_rank(ranks, rows)
    return lambda rank: ordered_rows[: bisect(ordered, rank)]


def _below_bound(ranks: Sequence[Any], rows: Sequence[TableRow], bisect: Callable[[list[Any], Any], int]) -> FindRows:
    ordered, ordered_rows = _sorted_by_rank(ranks, rows)
    return lambda rank: ordered_rows[bisect(ordered, rank) :]


Item = TypeVar("Item")


class RangeItem(NamedTuple, Generic[Item]):
    """An item with the range from `low` to `high`."""

    low: Any
    high: Any
    item: Item


class _IntervalNode(NamedTuple, Generic[Item]):
    """A node of the tree: the ranges that contain `center`, sorted by start and by end; subtrees
    before and after it."""

    center: Any
    lows: list[Any]
    by_low: list[Item]
    highs: list[Any]
    by_high: list[Item]
    ranges: list[RangeItem[Item]]
    before: _IntervalNode[Item] | None
    after: _IntervalNode[Item] | None


class IntervalTree(Generic[Item]):
    """Ranges, queried for the items whose range contains a rank; all are open or closed alike at
    each end.

    >>> ranges = IntervalTree([RangeItem(1, 3, "a"), RangeItem(2, 9, "b"), RangeItem(3, 2, "none"), RangeItem(3, 4, "c")], True, False)
    >>> [sorted(ranges.containing(rank)) for rank in (0, 1, 2, 3, 4, 9)]
    [[], ['a'], ['a', 'b'], ['b', 'c'], ['b'], []]
    """

    def __init__(self, ranges: Sequence[RangeItem[Item]], low_closed: bool, high_closed: bool) -> None:
        self._low_closed, self._high_closed = low_closed, high_closed
        self._root = _build_tree([each for each in ranges if not each.high < each.low])

    def containing(self, rank: Any) -> list[Item]:
        """The items whose range contains `rank`, in no order."""
        found: list[Item] = []
        node = self._root
        while node is not None:
            if rank < node.center:
                end = bisect_right(node.lows, rank) if self._low_closed else bisect_left(node.lows, rank)
                found += node.by_low[:end]
                node = node.before
            elif rank > node.center:
                end = bisect_left(node.highs, rank) if self._high_closed else bisect_right(node.highs, rank)
                found += node.by_high[end:]
                node = node.after
            else:
                for low, high, item in node.ranges:
                    if (low < rank or (self._low_closed and low == rank)) and (rank < high or (self._high_closed and high == rank)):
                        found.append(item)
                break
        return found


def _build_tree(ranges: Sequence[RangeItem[Item]]) -> _IntervalNode[Item] | None:
    if not ranges:
        return None
    ends = sorted([end for each in ranges for end in each[:2]])
    center = ends[len(ends) // 2]
    here = [each for each in ranges if not each.high < center and not each.low > center]
    by_low, by_high = sorted(here, key=itemgetter(0)), sorted(here, key=itemgetter(1))
    return _IntervalNode(
        center,
        [each.low for each in by_low],
        [each.item for each in by_low],
        [each.high for each in by_high],
        [each.item for each in by_high],
        here,
        _build_tree([each for each in ranges if each.high < center]),
        _build_tree([each for each in ranges if each.low > center]),
    )
