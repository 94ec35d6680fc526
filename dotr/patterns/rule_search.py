"""Which rows of a table of constants a value satisfies, found by search: by key for `=`, by bisection for `<` and its like.

Idea: the rows are parted by the keys of all that they equate. Those of a part are sorted by one bound, or, where an attribute is bounded on
both sides, held in an interval tree (Edelsbrunner 1980). What is compared besides is tested of the rows that were found.
Invariant: exactly the rows whose conditions all hold are found, each once. Cost: O(log n) a value and what is found by its keys and bounds;
O(n) memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from dotr.expressions import VALUES, equality_key, evaluator
from dotr.expressions.ordered_domains import OrderedDomain, domain_and_rank, domain_of, rank_in
from dotr.layout.event_order import AttributeValues
from dotr.model.algebra import Attribute, Call, Const, Expression, Var
from dotr.model.terms import Term, Variable, is_iri
from dotr.model.traverse import transform

TableCell: TypeAlias = int | Decimal | float | Term | None
TableRow: TypeAlias = tuple[TableCell, ...]

FindRows: TypeAlias = Callable[[Any], Sequence[TableRow]]

MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


class Comparison(NamedTuple):
    """`attribute operator constant`, the constant being a term or (in a table's shape) a column."""

    attribute: Variable
    operator: str
    constant: Const | Attribute


def comparison(condition: Expression) -> Comparison | None:
    """A condition on an event as a comparison with a constant, whichever side that stands on.

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


def folded(expression: Expression) -> Expression:
    """An expression in which what is computed from constants alone is a constant; what errs stays as it is.

    >>> from dotr.model.terms import XSD, literal
    >>> two = Const(literal("2", XSD + "integer"))
    >>> folded(Call("<", (Var("v"), Call("+", (two, two)))))
    Call(function='<', arguments=(Var(name='v'), Const(term='"4"^^<http://www.w3.org/2001/XMLSchema#integer>')))
    """
    return transform(expression, _computed)


def _computed(part: Expression) -> Expression:
    """A call of constants as the constant that it gives."""
    if not isinstance(part, Call) or not part.arguments:
        return part
    terms = [argument.term for argument in part.arguments if isinstance(argument, Const)]
    if len(terms) < len(part.arguments):
        return part
    term = _applied(part.function, len(terms))(*terms)
    return part if term is None else Const(term)


@lru_cache(256)
def _applied(function: str, count: int) -> Callable[..., Term | None]:
    """A function of so many terms: many rules compute the same of other constants."""
    parameters = tuple([Var(str(number)) for number in range(count)])
    return evaluator(Call(function, parameters), parameters)


class SearchableComparison(NamedTuple):
    """What a search needs of the constants of a comparison to be of one kind; None for `=`, where any will do."""

    scale: OrderedDomain | None


def searched(condition: Expression) -> SearchableComparison | None:
    """A comparison with a constant of such a kind that a search finds, among many like it, those that hold."""
    compared = comparison(condition)
    if compared is None or not isinstance(compared.constant, Const):
        return None
    if compared.operator == "=":
        return SearchableComparison(None)
    scale = domain_of(compared.constant.term)
    return None if scale is None else SearchableComparison(scale)


@dataclass(frozen=True, slots=True)
class ConstantTable:
    """Comparisons of an event with the constants of a table, in which column `c` is `Attribute(…, "c")`: an index has a lane for every row,
    of those events that satisfy it."""

    conditions: tuple[Expression, ...]
    table: tuple[tuple[Term, ...], ...]


class RowBound(NamedTuple):
    """`attribute operator row[cell]`."""

    position: int
    operator: str
    cell: int


class RowFinder:
    """Finds rows. `bounds` are the conditions, `test` says of values and a row whether all hold; the rows come in the order of the
    numbers in the cell `order`, if there is one."""

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
        low, high = _pair(rows, [bound for bound in bounds if bound.operator != "="])
        first = low or high
        self._position = 0 if first is None else first.position
        parts: dict[object, list[TableRow]] = {}
        for row in rows:
            parts.setdefault(tuple([equality_key(row[bound.cell]) for bound in equal]), []).append(row)  # type: ignore[arg-type]
        self._parts: dict[object, list[TableRow]] = {}
        self._bounded: dict[object, _Bounded] = {}
        for key, part in parts.items():
            self._parts[key] = part
            if low or high:
                self._bounded[key] = _Bounded(part, low, high)
        nodes = all(_is_iri(row[bound.cell]) for row in rows for bound in equal)
        self._exact = nodes and len(bounds) == len(equal) + bool(low) + bool(high)

    def __call__(self, values: AttributeValues) -> Sequence[TableRow]:
        key = []
        for position in self._keys:
            term = values[position]
            if term is None:
                return ()
            key.append(equality_key(term))
        keys = tuple(key)
        found: Sequence[TableRow] | None = self._parts.get(keys)
        if found is None:
            return ()
        if self._bounded:
            found = self._bounded[keys](VALUES[values[self._position]])
            if self._order is not None and len(found) > 1:
                found = sorted(found, key=self._order)
        if self._exact:
            return found
        test = self._test
        return [row for row in found if test(values, row)]


def _is_iri(cell: TableCell) -> bool:
    return isinstance(cell, str) and is_iri(cell)


def _pair(rows: Sequence[TableRow], bounds: Sequence[RowBound]) -> tuple[RowBound | None, RowBound | None]:
    """A bound from below and one from above on one attribute and one scale; else the first bound alone."""

    def scale(bound: RowBound) -> OrderedDomain | None:
        return domain_of(rows[0][bound.cell])  # type: ignore[arg-type]

    for low in bounds:
        for high in bounds:
            if low.operator in (">", ">=") and high.operator in ("<", "<=") and low.position == high.position and scale(low) is scale(high):
                return low, high
    first = bounds[0] if bounds else None
    return (None, first) if first is not None and first.operator in ("<", "<=") else (first, None)


class _Bounded:
    """The rows whose bound, or two bounds, a value keeps to; what finds them is made when a value of its domain comes first."""

    def __init__(self, rows: Sequence[TableRow], low: RowBound | None, high: RowBound | None) -> None:
        self._rows, self._low, self._high = rows, low, high
        first = low or high
        assert first is not None
        scale = domain_of(rows[0][first.cell])  # type: ignore[arg-type]
        assert scale is not None
        self._scale = scale
        self._domains: dict[int, FindRows] = {}

    def __call__(self, value: object) -> Sequence[TableRow]:
        stood = domain_and_rank(self._scale, value)
        if stood is None:
            return ()
        domain, mark = stood
        find = self._domains.get(domain)
        if find is None:
            find = self._domains[domain] = self._made(domain)
        return find(mark)

    def _made(self, domain: int) -> FindRows:
        def marks(bound: RowBound) -> list[Any]:
            return [rank_in(row[bound.cell], domain) for row in self._rows]  # type: ignore[arg-type]

        low, high = self._low, self._high
        if low is not None and high is not None:
            ranges = [Range(a, b, row) for a, b, row in zip(marks(low), marks(high), self._rows, strict=True)]
            return Ranges(ranges, low.operator == ">=", high.operator == "<=").around
        if low is not None:
            return _above(marks(low), self._rows, bisect_right if low.operator == ">=" else bisect_left)
        assert high is not None
        return _below(marks(high), self._rows, bisect_left if high.operator == "<=" else bisect_right)


def _sorted(marks: Sequence[Any], rows: Sequence[TableRow]) -> tuple[list[Any], list[TableRow]]:
    order = sorted(range(len(rows)), key=marks.__getitem__)
    return [marks[i] for i in order], [rows[i] for i in order]


def _above(marks: Sequence[Any], rows: Sequence[TableRow], place: Callable[[list[Any], Any], int]) -> FindRows:
    ordered, lasting = _sorted(marks, rows)
    return lambda mark: lasting[: place(ordered, mark)]


def _below(marks: Sequence[Any], rows: Sequence[TableRow], place: Callable[[list[Any], Any], int]) -> FindRows:
    ordered, lasting = _sorted(marks, rows)
    return lambda mark: lasting[place(ordered, mark) :]


Thing = TypeVar("Thing")


class Range(NamedTuple, Generic[Thing]):
    """A thing that lies from `low` to `high`."""

    low: Any
    high: Any
    thing: Thing


class _IntervalNode(NamedTuple, Generic[Thing]):
    """The ranges around a center, by where they begin and by where they end; those before and behind it."""

    center: Any
    lows: list[Any]
    by_low: list[Thing]
    highs: list[Any]
    by_high: list[Thing]
    ranges: list[Range[Thing]]
    before: _IntervalNode[Thing] | None
    behind: _IntervalNode[Thing] | None


class Ranges(Generic[Thing]):
    """Ranges, and which of them lie around a mark; all are open or closed alike at each end.

    >>> ranges = Ranges([Range(1, 3, "a"), Range(2, 9, "b"), Range(3, 2, "none"), Range(3, 4, "c")], True, False)
    >>> [sorted(ranges.around(mark)) for mark in (0, 1, 2, 3, 4, 9)]
    [[], ['a'], ['a', 'b'], ['b', 'c'], ['b'], []]
    """

    def __init__(self, ranges: Sequence[Range[Thing]], low_closed: bool, high_closed: bool) -> None:
        self._low_closed, self._high_closed = low_closed, high_closed
        self._root = _tree([each for each in ranges if not each.high < each.low])

    def around(self, mark: Any) -> list[Thing]:
        found: list[Thing] = []
        node = self._root
        while node is not None:
            if mark < node.center:
                place = bisect_right(node.lows, mark) if self._low_closed else bisect_left(node.lows, mark)
                found += node.by_low[:place]
                node = node.before
            elif mark > node.center:
                place = bisect_left(node.highs, mark) if self._high_closed else bisect_right(node.highs, mark)
                found += node.by_high[place:]
                node = node.behind
            else:
                for low, high, thing in node.ranges:
                    if (low < mark or (self._low_closed and low == mark)) and (mark < high or (self._high_closed and high == mark)):
                        found.append(thing)
                break
        return found


def _tree(ranges: Sequence[Range[Thing]]) -> _IntervalNode[Thing] | None:
    if not ranges:
        return None
    ends = sorted([end for each in ranges for end in each[:2]])
    center = ends[len(ends) // 2]
    here = [each for each in ranges if not each.high < center and not each.low > center]
    by_low, by_high = sorted(here, key=itemgetter(0)), sorted(here, key=itemgetter(1))
    return _IntervalNode(
        center,
        [each.low for each in by_low],
        [each.thing for each in by_low],
        [each.high for each in by_high],
        [each.thing for each in by_high],
        here,
        _tree([each for each in ranges if each.high < center]),
        _tree([each for each in ranges if each.low > center]),
    )
