"""The tree of operators on the examples of ep-sparql.md, section 9, with patterns constructed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from dotr.evaluation.limits import Limits
from dotr.model.algebra import Bgp, Call, Const, Expression, Var
from dotr.model.places import Document, Span
from dotr.model.terms import XSD
from dotr.model.time import Clock, Micros
from dotr.temporal.intervals.nodes import TreeMoment
from dotr.temporal.intervals.patterns import (
    DURATION,
    Chain,
    Combination,
    InstantGroup,
    IntervalPattern,
    TemporalOperator,
    UsePolicy,
    operand_reads,
)
from dotr.temporal.intervals.solutions import IntervalSolution, LeafSolution
from dotr.temporal.intervals.tree import PatternTree

pytestmark = pytest.mark.core

NOWHERE = Span(Document("", ""), 0, 0)
SECOND = 1_000_000
Arrivals = Mapping[int, Sequence[tuple[str, ...]]]
"""The rows of a leaf by second."""

SEQ, EQUALS, AND = TemporalOperator.SEQ, TemporalOperator.EQUALS, TemporalOperator.AND
OPTIONALSEQ, EQUALSOPTIONAL = TemporalOperator.OPTIONALSEQ, TemporalOperator.EQUALSOPTIONAL


def number(value: float | str) -> str:
    return f'"{value}"^^<{XSD}{"decimal" if "." in str(value) else "integer"}>'


def group(*names: str) -> InstantGroup:
    return InstantGroup(Bgp(()), names, frozenset(names), (), NOWHERE)


def pair(
    left: IntervalPattern, operator: TemporalOperator, right: IntervalPattern, seconds: float | None, condition: Sequence[Expression] = ()
) -> Combination:
    bound = None if seconds is None else int(seconds * SECOND)
    return Combination(operator, left, right, tuple(condition), bound, bound, NOWHERE)


def at(second: float, names: Mapping[int, Sequence[tuple[str, ...]]]) -> tuple[Micros, dict[int, list[IntervalSolution]]]:
    now = int(second * SECOND)
    return now, {leaf: [(now, now, tuple(row), ()) for row in rows] for leaf, rows in names.items()}


def run(
    pattern: IntervalPattern, leaves: Sequence[Arrivals], policy: UsePolicy = UsePolicy.UNRESTRICTED, restart: bool = False
) -> list[tuple[int, int, tuple[str | None, ...]]]:
    """The solutions (end, start, values) in seconds; `restart`: the state is written and read after each moment."""
    tree = PatternTree(pattern, policy, Clock())
    found = []
    for second in sorted({time for leaf in leaves for time in leaf}):
        now, arrived = at(second, {place: leaf[second] for place, leaf in enumerate(leaves) if second in leaf})
        moment = TreeMoment(now, arrived)
        found += sorted([(end // SECOND, start // SECOND, values) for end, start, values, _ in tree.new(moment)], key=str)
        tree.keep(moment)
        assert moment.exceeded is None
        if restart:
            text = tree.to_json(whole=True)
            tree = PatternTree(pattern, policy, Clock())
            tree.restore(text)
    return found


def spans(found: Sequence[tuple[float, float, object]]) -> list[tuple[float, float]]:
    return sorted((start, end) for end, start, _ in found)


def points(*seconds: int) -> Arrivals:
    return {second: [()] for second in seconds}


def prices(**at_second: object) -> Arrivals:
    return {int(second[1:]): [("<a>", number(str(value)))] for second, value in at_second.items()}


# --- the examples ---

FALL = Chain(
    pair(group("c", "p"), SEQ, group("c", "q"), 10 - 1e-6),
    (),
    (
        Call("<", (Var("q"), Call("*", (Var("p"), Const(number(0.7)))))),
        Call("<", (Var(DURATION), Const(f'"PT10S"^^<{XSD}duration>'))),
    ),
    None,
    NOWHERE,
)


@pytest.mark.parametrize(("second", "found"), [(5, [(1, 5)]), (11, []), (1, [])])
def test_falling_prices(second: int, found: list[tuple[int, int]]) -> None:
    both = {1: [("<a>", number(10))]}
    both[second] = [*both.get(second, []), ("<a>", number(6))]
    assert spans(run(FALL, [both, both])) == found


def test_falling_prices_are_compared_within_a_key() -> None:
    stream = {1: [("<a>", number(10))], 2: [("<b>", number(6))], 3: [("<a>", number(6))]}
    assert run(FALL, [stream, stream]) == [(3, 1, ("<a>", number(10), number(6)))]


@pytest.mark.parametrize(("last", "solutions"), [(9, 2), (11, 2), (12, 0)])
def test_sequence_of_three(last: int, solutions: int) -> None:
    pattern = pair(pair(group(), SEQ, group(), 10), SEQ, group(), 10)
    assert spans(run(pattern, [points(1), points(3, 5), points(last)])) == [(1, last)] * solutions


def test_intervals_of_inner_groups() -> None:
    inner = pair(group(), SEQ, pair(group(), SEQ, group(), 10), 10)
    assert run(inner, [points(3), points(2), points(5)]) == []
    both = pair(pair(group(), SEQ, group(), 10), AND, group(), 10)
    assert spans(run(both, [points(3), points(5), points(2)])) == [(2, 5)]
    assert spans(run(both, [points(3), points(5), points(7)])) == [(3, 7)]


@pytest.mark.parametrize(
    ("rated", "price", "found"), [(1, 4, (4, 1, True)), (1, 8, (8, 8, False)), (4, 4, (4, 4, False)), (5, 4, (4, 4, False))]
)
def test_optional_sequence(rated: int, price: int, found: tuple[int, int, bool]) -> None:
    shorter = Call("<", (Var(DURATION), Const(f'"PT5S"^^<{XSD}duration>')))
    pattern = pair(group("c", "r"), OPTIONALSEQ, group("c", "p"), 5 - 1e-6, [shorter])
    got = run(pattern, [{rated: [("<a>", '"A"')]}, {price: [("<a>", number(1))]}])
    assert [(end, start, values[2] is not None) for end, start, values in got] == [found]


@pytest.mark.parametrize(("second", "found"), [(1, [(1, 3)]), (2, [])])
def test_negation_by_an_optional_part(second: int, found: list[tuple[int, int]]) -> None:
    inner = pair(pair(group(), SEQ, group("c"), 9), SEQ, group(), 9)
    pattern = Chain(
        pair(pair(group(), SEQ, group(), 9), EQUALSOPTIONAL, inner, 9), (), (Call("!", (Call("BOUND", (Var("c"),)),)),), 9 * SECOND, NOWHERE
    )
    assert spans(run(pattern, [points(1), points(3), points(1), {second: [("<c>",)]}, points(3)])) == found


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (UsePolicy.UNRESTRICTED, [(1, 3), (1, 4), (2, 3), (2, 4)]),
        (UsePolicy.CHRONOLOGICAL, [(1, 3), (2, 4)]),
        (UsePolicy.RECENT, [(1, 4), (2, 3)]),
    ],
)
def test_policies(policy: UsePolicy, found: list[tuple[int, int]], restart: bool) -> None:
    assert spans(run(pair(group(), SEQ, group(), 9), [points(1, 2), points(3, 4)], policy, restart)) == found


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (UsePolicy.UNRESTRICTED, [(1, 5), (1, 9), (8, 9)]),
        (UsePolicy.CHRONOLOGICAL, [(1, 5), (8, 9)]),
        (UsePolicy.RECENT, [(1, 9)]),
    ],
)
def test_policies_choose_before_filters(policy: UsePolicy, found: list[tuple[int, int]]) -> None:
    pattern = Chain(pair(group("a"), SEQ, group("b"), 9), (), (Call(">", (Var("b"), Var("a"))),), 9 * SECOND, NOWHERE)
    leaves: list[Arrivals] = [{1: [(number(1),)], 2: [(number(8),)]}, {3: [(number(5),)], 4: [(number(9),)]}]
    shown = sorted((int(str(a).split('"')[1]), int(str(b).split('"')[1])) for _, _, (a, b) in run(pattern, leaves, policy))
    assert shown == found


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (UsePolicy.CHRONOLOGICAL, [("1", "3", "5"), ("2", "4", "6")]),
        (UsePolicy.RECENT, [("1", "4", "5"), ("2", "3", "6")]),
    ],
)
def test_policies_of_three(policy: UsePolicy, found: list[tuple[str, str, str]]) -> None:
    pattern = pair(pair(group("a"), SEQ, group("b"), 9), SEQ, group("c"), 9)
    leaves: list[Arrivals] = [{n: [(str(n),)] for n in pairs} for pairs in ((1, 2), (3, 4), (5, 6))]
    assert sorted(values for _, _, values in run(pattern, leaves, policy)) == found


# --- limits ---


def test_a_moment_over_a_limit_has_no_solutions() -> None:
    pattern = pair(group(), SEQ, group(), 9)
    tree = PatternTree(pattern, limits=Limits(rows=2))
    for second in (1, 2, 3):
        tree.keep(TreeMoment(*at(second, {0: [()]})))
    over = TreeMoment(*at(4, {1: [()]}))
    assert tree.new(over) == []
    assert str(over.exceeded) == "more than 2 combinations"
    assert [start for _, start, _, _ in tree.new(TreeMoment(*at(11, {1: [()]})))] == [3 * SECOND, 2 * SECOND]


def test_traced_solutions_hold_their_leaf_solutions() -> None:
    pattern = pair(group("a"), AND, pair(group("a"), SEQ, group("b"), 9), 9)
    tree = PatternTree(pattern, traced=True)

    def leaf(place: int, second: int, *values: str) -> dict[int, list[IntervalSolution]]:
        now = second * SECOND
        return {place: [(now, now, values, (LeafSolution(place, now, now, values),))]}

    tree.keep(TreeMoment(SECOND, leaf(1, 1, "x")))
    tree.new(TreeMoment(3 * SECOND, leaf(2, 3, "y")))
    (solution,) = tree.new(TreeMoment(4 * SECOND, leaf(0, 4, "x")))
    assert [(part.leaf, part.end // SECOND) for part in solution[3]] == [(0, 4), (1, 1), (2, 3)]


def test_operands_are_numbered_in_the_order_of_the_text() -> None:
    pattern = pair(pair(group("a"), SEQ, group("b"), 1), EQUALS, group("c"), None)
    assert [read.now for read in operand_reads(pattern)] == [False, True, True]
