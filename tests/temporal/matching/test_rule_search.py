"""Rows found by search against a test of every row, and the number of tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.expressions import condition
from dotr.evaluation.expressions.ordered_domains import domain_of
from dotr.model.algebra import Attribute, Call, Const, Expression, Var
from dotr.model.event_order import AttributeValues
from dotr.model.terms import XSD, Term, literal
from dotr.temporal.matching.rule_search import (
    Comparison,
    IntervalTree,
    RangeItem,
    RowBound,
    RowFinder,
    SearchableComparison,
    TableRow,
    comparison,
    fold_constants,
    searchable_comparison,
)

pytestmark = pytest.mark.core

COMPARED = {sign: condition(Call(sign, (Var("a"), Var("b"))), (Var("a"), Var("b"))) for sign in ("<", "<=", ">", ">=", "=")}
INTEGERS = [literal(str(n), XSD + "integer") for n in range(6)]
NUMBERS = [*INTEGERS, *(literal(text, XSD + "decimal") for text in ("0.7", "2.5", "9007199254740993"))]
TEXTS = [literal(text) for text in ("", "a", "b", "ba", "c")]
TIMES = [literal(f"2024-01-0{day}T00:00:00{zone}", XSD + "dateTime") for day in (1, 2, 3) for zone in ("Z", "", "-02:00")]
NODES = [f"<http://example.org/{name}>" for name in "abc"]
ODD = [literal("0.7", XSD + "float"), literal("2e0", XSD + "double"), literal("NaN", XSD + "double"), literal("INF", XSD + "float"), "_:x"]
GIVEN: list[Term | None] = [*NUMBERS, *TEXTS, *TIMES, *NODES, *ODD, literal("9007199254740992", XSD + "double"), '"b"@en', None]


class CountingTest:
    """A test of all bounds that counts its calls."""

    def __init__(self, bounds: Sequence[RowBound]) -> None:
        self.bounds, self.times = bounds, 0

    def holds(self, values: AttributeValues, row: TableRow) -> bool:
        return all(
            (value := values[bound.position]) is not None and COMPARED[bound.operator](value, row[bound.cell]) for bound in self.bounds
        )

    def __call__(self, values: AttributeValues, row: TableRow) -> bool:
        self.times += 1
        return self.holds(values, row)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_finder_returns_exactly_the_rows_that_hold(data: st.DataObject) -> None:
    """Rows of up to three columns and a number, and two attributes; the constants of a bound's
    column share a domain."""
    columns, bounds = [], []
    size = data.draw(st.integers(1, 8))
    for cell in range(1, data.draw(st.integers(2, 4))):
        kind = data.draw(st.sampled_from([NUMBERS, INTEGERS, NUMBERS, TEXTS, TIMES, NODES]))
        sign = "=" if kind is NODES else data.draw(st.sampled_from(["<", "<=", ">", ">=", ">", "<", "="]))
        bounds.append(RowBound(data.draw(st.sampled_from([0, 0, 1])), sign, cell))
        columns.append(data.draw(st.lists(st.sampled_from(kind), min_size=size, max_size=size)))
    numbers = data.draw(st.permutations(range(size)))
    rows: list[TableRow] = list(zip([0] * size, *columns, numbers, strict=True))
    order = data.draw(st.sampled_from([None, len(columns) + 1]))
    asked = CountingTest(bounds)
    finder = RowFinder(rows, bounds, asked, order)
    for _ in range(6):
        values = (data.draw(st.sampled_from(GIVEN)), data.draw(st.sampled_from(GIVEN)))
        found = list(finder(values))
        wanted = [row for row in rows if asked.holds(values, row)]
        assert sorted(found, key=str) == sorted(wanted, key=str)
        ranged = any(bound.operator != "=" for bound in bounds)
        assert order is None or not ranged or found == sorted(wanted, key=lambda row: int(str(row[-1])))


@pytest.mark.parametrize("signs", [("<",), (">=",), (">", "<"), ("<=", ">="), (">=", "<"), (">", "<=")])
def test_conditions_that_the_search_decides_are_not_tested(signs: tuple[str, ...]) -> None:
    for equal, kind in ((False, NODES), (True, NODES), (True, INTEGERS)):
        bounds = [RowBound(0, sign, cell) for cell, sign in enumerate(signs, 1)] + [RowBound(1, "=", 3)] * equal
        spread = [(INTEGERS[a], INTEGERS[b], kind[c]) for a, b, c in product(range(6), range(6), range(2))]
        rows: list[TableRow] = [(number, *cells) for number, cells in enumerate(spread)]
        asked = CountingTest(bounds)
        finder = RowFinder(rows, bounds, asked)
        for given_, other in product([*INTEGERS, ODD[1], None, TEXTS[0], TIMES[0]], [kind[0], kind[1], kind[2], None]):
            found = finder((given_, other))
            assert list(map(str, sorted(found, key=str))) == list(
                map(str, sorted((row for row in rows if asked.holds((given_, other), row)), key=str))
            )
            assert asked.times <= len(found) * (equal and kind is INTEGERS)
            asked.times = 0


@pytest.mark.parametrize("signs", [("<",), ("<=",), (">",), (">=",), (">", "<"), (">=", "<="), ("=",)])
def test_numbers_are_compared_by_type(signs: tuple[str, ...]) -> None:
    """With one row and with many."""
    bounds = [RowBound(0, sign, cell) for cell, sign in enumerate(signs)]
    exact = [
        literal(text, XSD + "decimal") for text in ("0.7", "0.69999999", "0.70000001", "9007199254740993", "9007199254740992", "16777217")
    ]
    given_ = [*exact, *(literal(text, XSD + kind) for text in ("0.7", "9007199254740992", "16777216") for kind in ("double", "float"))]
    rows: list[TableRow] = list(product(exact, repeat=len(signs)))
    for some in (rows, *([row] for row in rows)):
        asked = CountingTest(bounds)
        finder = RowFinder(some, bounds, asked)
        for value in (*given_, *reversed(given_)):
            assert sorted(finder((value,)), key=str) == sorted((row for row in some if asked.holds((value,), row)), key=str)


def test_second_attribute_is_tested_on_the_rows_found() -> None:
    bounds = [RowBound(0, ">=", 1), RowBound(1, "<", 2)]
    rows: list[TableRow] = [(n, INTEGERS[n], INTEGERS[5 - n]) for n in range(6)]
    asked = CountingTest(bounds)
    assert [row[0] for row in RowFinder(rows, bounds, asked)((INTEGERS[2], INTEGERS[4]))] == [0]
    assert asked.times == 3


def test_rows_without_bounds_are_all_found() -> None:
    rows: list[TableRow] = [(0, 1), (1, 2)]
    assert list(RowFinder(rows, [], CountingTest([]))((None,))) == rows
    only = [RowBound(0, "=", 1)]
    one: list[TableRow] = [(7, NODES[0])]
    assert [list(RowFinder(one, only, CountingTest(only))((term,))) for term in (NODES[0], NODES[1], None)] == [one, [], []]


@pytest.mark.parametrize(("low_closed", "high_closed"), list(product([False, True], repeat=2)))
def test_interval_tree_finds_the_ranges_that_contain_a_rank(low_closed: bool, high_closed: bool) -> None:
    lists = [
        [(1, 1)],
        [(1, 3), (3, 5), (5, 5), (4, 2)],
        [(a, b) for a in range(0, 9, 2) for b in range(0, 9, 2)],
        [(2 * n, 2 * n + 3) for n in range(20)],
        [],
    ]
    lists.append([(2, 6), (2, 6), (6, 6), (2, 6), (6, 6), (2, 2)])
    lists.append([(0, 40), (10, 12), (10, 30), (12, 12), (28, 30), (2, 4), (36, 38), (4, 10)])
    for ends in lists:
        ranges = IntervalTree([RangeItem(low, high, complex(number)) for number, (low, high) in enumerate(ends)], low_closed, high_closed)
        for mark in range(-1, 46):
            wanted = [
                number
                for number, (low, high) in enumerate(ends)
                if (low < mark or (low_closed and low == mark)) and (mark < high or (high_closed and mark == high))
            ]
            assert sorted(int(thing.real) for thing in ranges.containing(mark)) == wanted


class Counted(int):
    """A rank that counts its comparisons."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > other


def test_interval_tree_compares_few_ranges() -> None:
    ranges = IntervalTree([RangeItem(10 * n, 10 * n + 5, n) for n in range(1000)], True, True)
    for mark in (-1, 0, 3, 7, 4_999, 5_003, 9_995, 10_000):
        Counted.compared = 0
        assert ranges.containing(Counted(mark)) == ([mark // 10] if 0 <= mark < 9_996 and mark % 10 <= 5 else [])
        assert Counted.compared <= 60


def test_comparisons_with_a_constant_are_recognized() -> None:
    v, five, row = Var("v"), Const(INTEGERS[5]), Attribute("row", "0")
    for sign, mirrored in {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}.items():
        for constant in (five, row):
            assert comparison(Call(sign, (v, constant))) == comparison(Call(mirrored, (constant, v))) == Comparison("v", sign, constant)
    others: list[Expression] = [
        v,
        Call("!=", (v, five)),
        Call("<", (v, v)),
        Call("<", (five, five)),
        Call("<", (Call("+", (v, five)), five)),
    ]
    assert [comparison(each) for each in others] == [None] * 5
    assert [searchable_comparison(each) for each in others] == [None] * 5
    assert searchable_comparison(Call("<", (v, row))) is None
    assert (
        searchable_comparison(Call("<", (v, five)))
        == searchable_comparison(Call(">=", (five, v)))
        == SearchableComparison(domain_of(INTEGERS[5]))
    )
    assert searchable_comparison(Call("<", (v, Const(NODES[0])))) is None
    assert searchable_comparison(Call("=", (v, Const(NODES[0])))) == SearchableComparison(None)


def test_constants_are_folded() -> None:
    v, two, three = Var("v"), Const(INTEGERS[2]), Const(INTEGERS[3])
    product_ = Call("+", (two, Call("*", (two, Call("-", (three, two))))))
    assert fold_constants(product_) == Const(INTEGERS[4])
    assert fold_constants(Call("<", (v, product_))) == Call("<", (v, Const(INTEGERS[4])))
    erring = Call("/", (two, Const(INTEGERS[0])))
    assert fold_constants(erring) is erring
    assert fold_constants(Call("+", (erring, Call("+", (two, two))))) == Call("+", (erring, Const(INTEGERS[4])))
    kept = Call("<", (v, two))
    assert fold_constants(kept) is kept
    assert fold_constants(Call("NOW", ())) == Call("NOW", ())
