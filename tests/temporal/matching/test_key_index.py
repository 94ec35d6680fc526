"""Runs of a key index against a plain evaluation of each event of the slice."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from math import inf, nan, nextafter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.expressions import VALUES, write
from dotr.evaluation.expressions.operators import to_double
from dotr.evaluation.expressions.values.exact_sums import Moments, SortedNumbers, rounded_once
from dotr.evaluation.expressions.values.terms import NUMERIC
from dotr.model.terms import XSD, Term, literal
from dotr.temporal.matching.event_store import trim
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.sums import DistinctRun, EventRun, ExtremumRun, SkipRun, StatisticRun, SumRun, aggregate_terms
from tests.oracle.algebra import quantile, spread


def integer(text: str) -> Term:
    return literal(text, XSD + "integer")


def double(text: str) -> Term:
    return literal(text, XSD + "double")


def single(text: str) -> Term:
    return literal(text, XSD + "float")


def decimal(text: str) -> Term:
    return literal(text, XSD + "decimal")


INTEGERS = [literal(text, XSD + "integer") for text in ("0", "1", "01", "-7", "16777217", "1" + "0" * 400)]
DECIMALS = [literal(text, XSD + "decimal") for text in ("0.1", "0.10", "-2.5", "1000000000000000000000000000000.000000000000000001")]
DOUBLES = [literal(text, XSD + "double") for text in ("1e0", "0.1e0", "1e16", "-1e16", "1e308", "5e-324", "-0e0")]
SPECIAL = [literal(text, XSD + "double") for text in ("INF", "-INF", "NaN")]
FLOATS = [literal(text, XSD + "float") for text in ("0.1", "16777216", "3e38", "NaN")]
OTHERS = ['"1"', "<http://example.org/a>", "_:b", '"a"@en', literal("x", XSD + "integer")]


def lists() -> st.SearchStrategy[list[Term]]:
    kinds = [INTEGERS[:4], INTEGERS, DECIMALS, DOUBLES, FLOATS[:3], INTEGERS[:4] + DECIMALS, INTEGERS + DOUBLES, FLOATS + DOUBLES[:2]]
    kinds += [INTEGERS[:4] + FLOATS, DOUBLES + SPECIAL, INTEGERS + DECIMALS + DOUBLES + SPECIAL + FLOATS + OTHERS, OTHERS + INTEGERS]
    return st.sampled_from(kinds).flatmap(lambda kind: st.lists(st.sampled_from(kind), max_size=12))


def numbered(terms: list[Term], times: list[int]) -> list[StoredEvent]:
    return [(time, n, (term,)) for n, (term, time) in enumerate(zip(terms, sorted(times), strict=False))]


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_every_slice_of_every_run_is_aggregated_exactly(data: st.DataObject) -> None:
    terms = data.draw(lists())
    events = numbered(terms, data.draw(st.lists(st.integers(0, 9), min_size=len(terms), max_size=len(terms))))
    runs: list[EventRun] = [EventRun(), SumRun(0), ExtremumRun(0, False), ExtremumRun(0, True), DistinctRun(0)]
    begin, now = 0, -1
    for number, event in enumerate(events):
        for run in runs:
            run.append(event)
        if data.draw(st.integers(0, 4)) == 0:
            dropped = 1 << data.draw(st.integers(0, 1))
            if dropped <= number + 1 - begin:
                begin += dropped
                for run in runs:
                    run.drop(dropped)
        low, high = sorted(data.draw(st.tuples(st.integers(-1, 10), st.integers(-1, 10))))
        inside = [e[2][0] for e in events[begin : number + 1] if low <= e[0] <= high]
        counting, summing, least, greatest, distinct = runs
        assert counting.count_between(low, high) == len(inside)
        assert isinstance(summing, SumRun)
        assert summing.sum(low, high) == aggregate_terms("SUM", False, inside)
        assert summing.avg(low, high) == aggregate_terms("AVG", False, inside)
        assert isinstance(least, ExtremumRun)
        assert isinstance(greatest, ExtremumRun)
        assert least.extremum(low, high) == aggregate_terms("MIN", False, inside)
        assert greatest.extremum(low, high) == aggregate_terms("MAX", False, inside)
        now = max(now, event[0])
        recent = [e[2][0] for e in events[begin : number + 1] if now - 3 <= e[0] <= now - 1]
        assert isinstance(distinct, DistinctRun)
        for function in ("COUNT", "SUM", "AVG"):
            assert distinct.distinct(function, now, 1, 3) == aggregate_terms(function, True, recent)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_quantiles_and_variances_of_windows_that_move_in_any_way_are_those_of_the_judge(data: st.DataObject) -> None:
    terms = data.draw(lists())
    events = numbered(terms, data.draw(st.lists(st.integers(0, 9), min_size=len(terms), max_size=len(terms))))
    ordered, moments = StatisticRun(0, SortedNumbers), StatisticRun(0, Moments)
    fraction, distinct = data.draw(st.sampled_from(["0", "0.25", "0.5", "0.95", "1"])), data.draw(st.booleans())
    begin = 0
    for number, event in enumerate(events):
        ordered.append(event)
        moments.append(event)
        if data.draw(st.integers(0, 4)) == 0 and number > begin:
            begin += 1
            ordered.drop(1)
            moments.drop(1)
        low, high = sorted(data.draw(st.tuples(st.integers(-1, 10), st.integers(-1, 10))))
        inside = [term for e in events[begin : number + 1] if low <= e[0] <= high and (term := e[2][0]) is not None]
        members = sorted(set(inside)) if distinct else inside
        sorted_numbers, sums = ordered.statistic("w", distinct, low, high), moments.statistic("w", distinct, low, high)
        assert isinstance(sorted_numbers, SortedNumbers)
        assert isinstance(sums, Moments)
        assert write(sorted_numbers.quantile(Fraction(fraction))) == quantile(members, Fraction(fraction))
        assert write(sums.variance()) == spread(members, root=False)
        assert write(sums.deviation()) == spread(members, root=True)
        assert aggregate_terms("QUANTILE", distinct, inside, fraction) == quantile(members, Fraction(fraction))
        assert aggregate_terms("STDDEV", distinct, inside) == spread(members, root=True)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(lists(), st.booleans(), st.data())
def test_skipping_visits_every_event_that_a_threshold_accepts(terms: list[Term], below: bool, data: st.DataObject) -> None:
    run = SkipRun(0, below)
    for event in numbered(terms, [0] * len(terms)):
        run.append(event)
        if run.is_built:
            run.add_rank(event)
        bound = data.draw(st.sampled_from([-7.0, 0.0, 0.1, 1.0, 16777216.0]))
        values = [VALUES[e[2][0]] for e in run]
        numbers = [to_double(v) if type(v) in NUMERIC else nan for v in values]  # type: ignore[arg-type]
        accepted = [n for n, v in enumerate(numbers) if (v <= bound if below else v >= bound)]
        i = data.draw(st.integers(0, len(run)))
        before, after = run.last_before(i, bound), run.first_from(i, bound)
        earlier, later = [n for n in accepted if n < i], [n for n in accepted if n >= i]
        assert (max(earlier) if earlier else -1) <= before < max(i, 1)
        assert i <= after <= (min(later) if later else len(run))


def test_trimming_keeps_live_events() -> None:
    run = SumRun(0)
    for time in range(300):
        run.append((time, 0, (INTEGERS[1],)))
    trim(run)
    assert len(run) == 300 - 128
    assert run[bisect_left(run, (150,))][0] == 150
    assert run.sum(150, 299) == literal("150", XSD + "integer")


class Counted(float):
    """A bound that counts its comparisons."""

    compared = 0

    def __lt__(self, other: float) -> bool:
        Counted.compared += 1
        return float(self) < other

    def __neg__(self) -> Counted:
        return Counted(-float(self))


def skip_run(numbers: list[int], below: bool) -> SkipRun:
    run = SkipRun(0, below)
    for time, number in enumerate(numbers):
        run.append((time, 0, (literal(str(number), XSD + "integer"),)))
        if run.is_built:
            run.add_rank(run[-1])
    return run


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 9), max_size=40), st.sampled_from([0.5, 6.5, 8.5, 9.5]), st.booleans(), st.integers(0, 3))
def test_skipping_finds_the_next_event_above_the_bound(numbers: list[int], bound: float, below: bool, dropped: int) -> None:
    signed = [-number for number in numbers] if below else numbers
    run = skip_run(signed[: len(signed) // 2], below)
    bound = -bound if below else bound
    made = [run.is_built]
    run.last_before(0, bound)
    assert [*made, run.is_built] == [False, True]
    for time, number in enumerate(signed[len(signed) // 2 :], len(run)):
        run.append((time, 0, (literal(str(number), XSD + "integer"),)))
        run.add_rank(run[-1])
    if len(run) >= 1 << dropped:
        run.drop(1 << dropped)
        numbers = numbers[1 << dropped :]
    above = [place for place, number in enumerate(numbers) if number > abs(bound)]
    for i in range(len(numbers) + 1):
        assert run.last_before(i, bound) == max((place for place in above if place < i), default=-1)
        assert run.first_from(i, bound) == min((place for place in above if place >= i), default=len(run))


def test_skipping_reads_few_events() -> None:
    for below in (False, True):
        run = skip_run([0] * 5 + [9 - 18 * below] + [0] * 1018, below)
        for start in (0, 1, 5, 6, 7, 511, 512, 1000, 1023, 1024):
            Counted.compared = 0
            assert run.last_before(start, Counted(5 - 10 * below)) == (5 if start > 5 else -1)
            assert run.first_from(start, Counted(5 - 10 * below)) == (5 if start <= 5 else 1024)
            assert Counted.compared <= 2 * 20
    assert skip_run([1] * 4, False).first_from(2, 0.5) == 2


def test_non_numbers_and_numbers_within_the_bound_are_skipped() -> None:
    run = SkipRun(0, False)
    for event in numbered(['"a"', DOUBLES[0], literal("NaN", XSD + "double")], [0, 1, 2]):
        run.append(event)
    beyond = nextafter(1.0, inf)
    assert (run.first_from(0, 1.0), run.last_before(3, 1.0)) == (1, 1)
    assert (run.first_from(0, beyond), run.last_before(3, beyond)) == (3, -1)
    pairs = SkipRun(0, False)
    for event in numbered([DOUBLES[0]] * 4, [0] * 4):
        pairs.append(event)
    assert (pairs.first_from(0, beyond), pairs.last_before(4, beyond)) == (4, -1)
    mixed = SkipRun(0, False)
    for event in numbered([double("2"), DOUBLES[0], DOUBLES[0], double("2")], [0] * 4):
        mixed.append(event)
    assert (mixed.first_from(1, beyond), mixed.first_from(2, beyond), mixed.last_before(3, beyond), mixed.last_before(2, beyond)) == (
        3,
        3,
        0,
        0,
    )


def test_floats_are_never_skipped() -> None:
    """0.7 as a float is less than 0.7, and equal to it where the two are compared as floats."""
    run = SkipRun(0, False)
    run.append((0, 0, (literal("0.7", XSD + "float"),)))
    assert (run.first_from(0, 0.7), run.last_before(1, 0.7)) == (0, 0)


def test_trimmed_run_still_finds_the_next_event() -> None:
    for asked in (False, True):
        run = skip_run([number % 100 for number in range(300)], False)
        if asked:
            assert run.first_from(0, 98.5) == 99
        trim(run)
        assert len(run) == 300 - 128
        assert run[0][0] == 128
        assert (run.first_from(0, 98.5), run.first_from(72, 98.5), run.last_before(71, 98.5), run.last_before(170, 98.5)) == (
            71,
            171,
            -1,
            71,
        )


GREAT, LONG = integer("1" + "0" * 400), decimal("1" + "0" * 999_998)
SUMS: list[tuple[list[Term], Term | None, Term | None]] = [
    ([GREAT, double("1")], double("INF"), double("INF")),
    ([double("1"), integer("-1" + "0" * 400)], double("-INF"), double("-INF")),
    ([GREAT, single("1")], single("INF"), single("INF")),
    ([integer("-1" + "0" * 39), single("1")], single("-INF"), single("-INF")),
    ([single("3e38"), single("3e38"), single("-3e38")], single("3.0E38"), single("1.0E38")),
    ([single("3e38"), single("2.9e38")], single("INF"), single("INF")),
    ([single("3e38"), double("1e308")], double("1.0E308"), double("5.0E307")),
    ([single("1"), double("INF")], double("INF"), double("INF")),
    ([single("1"), single("-INF")], single("-INF"), single("-INF")),
    ([double("INF"), single("-INF"), integer("1")], double("NaN"), double("NaN")),
    ([double("NaN"), integer("1")], double("NaN"), double("NaN")),
    ([double("1e308"), double("1.5e308")], double("INF"), double("INF")),
    ([double("-1e308"), double("-1.5e308")], double("-INF"), double("-INF")),
    ([double("1e308"), double("1.5e308"), double("-1.5e308")], double("1.0E308"), double("3.3333333333333333E307")),
    ([double("1e16"), double("1"), double("-1e16"), double("5e-324")], double("1.0E0"), double("2.5E-1")),
    ([integer("16777217"), single("1")], single("1.6777218E7"), single("8388609")),
    ([decimal("0.1"), single("0.25")], single("3.5E-1"), single("0.175")),
    ([integer("1"), decimal("2.5")], decimal("3.5"), decimal("1.75")),
    ([decimal("1.5"), decimal("2.5")], decimal("4"), decimal("2")),
    ([integer("1"), integer("2")], integer("3"), decimal("1.5")),
    ([integer("1"), '"a"'], None, None),
    ([double("1"), "<a>"], None, None),
    ([LONG, decimal("0.01")], None, None),
    ([decimal("0.01"), LONG, integer("1")], None, None),
]


@pytest.mark.parametrize("queried_before", [False, True])
@pytest.mark.parametrize(("terms", "total", "mean"), SUMS, ids=range(len(SUMS)))
def test_sums_and_averages_of_mixed_types(terms: list[Term], total: Term | None, mean: Term | None, queried_before: bool) -> None:
    """Each value by itself, then between values outside the window."""
    mean = mean and write(VALUES[mean])
    run, distinct = SumRun(0), DistinctRun(0)
    noise = [double("1e300"), single("1e30"), integer("7"), double("INF"), '"x"', decimal("0.5")]
    for time, some in enumerate((noise, terms, noise)):
        for term in some:
            for each in (run, distinct):
                each.append((time, 0, (term,)))
            if queried_before:
                run.sum(time, time)
                distinct.distinct("SUM", time, 0, 0)
        if time == 1:
            assert (run.sum(1, 1), run.avg(1, 1)) == (total, mean)
            if len(set(terms)) == len(terms):
                assert (distinct.distinct("SUM", 1, 0, 0), distinct.distinct("AVG", 1, 0, 0)) == (total, mean)
    assert (run.sum(1, 1), run.avg(1, 1)) == (total, mean)
    run.drop(len(noise))
    assert (run.sum(1, 1), run.avg(1, 1)) == (total, mean)
    assert (run.sum(5, 9), run.avg(5, 9)) == (integer("0"), None)


def test_sum_of_doubles_is_rounded_once() -> None:
    assert (rounded_once(1 << 3000), rounded_once(-(1 << 3000)), rounded_once(0), rounded_once(-(3 << 1074))) == (inf, -inf, 0.0, -3.0)


def test_distinct_values_follow_a_moving_window() -> None:
    """A value enters and leaves the window, events are dropped before and inside the window, and one
    run has two windows."""
    run = DistinctRun(0)
    values = [integer(str(n)) for n in (1, 2, 1, 3, 3, 1, 5, 2, 1, 4, 4, 4, 1, 2, 2, 7)]
    begin = 0
    for now, value in enumerate(values):
        run.append((now, 0, (value,)))
        for near, far in ((0, 3), (1, 3), (2, 5)):
            inside = [values[n] for n in range(max(begin, now - far), now - near + 1)]
            for function in ("COUNT", "SUM", "AVG"):
                assert run.distinct(function, now, near, far) == aggregate_terms(function, True, inside)
        if now in (6, 9, 13):
            run.drop(4)
            begin += 4
    followed = run._followers[0, 3]
    assert (followed.i, followed.j, sum(followed.counts.values())) == (0, 4, 4)


def test_repeated_window_is_moved_incrementally() -> None:
    run = DistinctRun(0)
    for now in range(20):
        run.append((now, 0, (integer(str(now)),)))
        before = run._followers.get((0, 5))
        run.distinct("COUNT", now, 0, 5)
        assert before is None or run._followers[0, 5] is before
