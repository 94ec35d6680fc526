"""Lanes against the plainest answer: all events of the stretch, one by one."""

from __future__ import annotations

from bisect import bisect_left
from math import nan

from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.expressions import VALUES
from dotr.expressions.operators import to_double
from dotr.expressions.values import NUMERIC
from dotr.model.terms import XSD, Term, literal
from dotr.patterns.happened import Happened
from dotr.patterns.lanes import Lane, OrderLane, SkipLane
from dotr.patterns.store import trim
from dotr.patterns.sums import DistinctLane, SumLane, aggregate_terms

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


def numbered(terms: list[Term], times: list[int]) -> list[Happened]:
    return [Happened(time, n, (term,)) for n, (term, time) in enumerate(zip(terms, sorted(times), strict=False))]


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_every_stretch_of_every_lane(data: st.DataObject) -> None:
    terms = data.draw(lists())
    events = numbered(terms, data.draw(st.lists(st.integers(0, 9), min_size=len(terms), max_size=len(terms))))
    lanes: list[Lane] = [Lane(), SumLane(0), OrderLane(0, False), OrderLane(0, True), DistinctLane(0)]
    begin, now = 0, -1
    for number, event in enumerate(events):
        for lane in lanes:
            lane.append(event)
        if data.draw(st.integers(0, 4)) == 0:
            dropped = 1 << data.draw(st.integers(0, 1))
            if dropped <= number + 1 - begin:
                begin += dropped
                for lane in lanes:
                    lane.drop(dropped)
        low, high = sorted(data.draw(st.tuples(st.integers(-1, 10), st.integers(-1, 10))))
        inside = [e[2][0] for e in events[begin : number + 1] if low <= e[0] <= high]
        counting, summing, least, greatest, distinct = lanes
        assert counting.number(low, high) == len(inside)
        assert isinstance(summing, SumLane)
        assert summing.sum(low, high) == aggregate_terms("SUM", False, inside)
        assert summing.avg(low, high) == aggregate_terms("AVG", False, inside)
        assert isinstance(least, OrderLane)
        assert isinstance(greatest, OrderLane)
        assert least.best(low, high) == aggregate_terms("MIN", False, inside)
        assert greatest.best(low, high) == aggregate_terms("MAX", False, inside)
        now = max(now, event[0])
        recent = [e[2][0] for e in events[begin : number + 1] if now - 3 <= e[0] <= now - 1]
        assert isinstance(distinct, DistinctLane)
        for function in ("COUNT", "SUM", "AVG"):
            assert distinct.distinct(function, now, 1, 3) == aggregate_terms(function, True, recent)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(lists(), st.booleans(), st.data())
def test_skipping_passes_over_no_event_that_a_threshold_wants(terms: list[Term], below: bool, data: st.DataObject) -> None:
    lane = SkipLane(0, below)
    for event in numbered(terms, [0] * len(terms)):
        lane.append(event)
        if lane.made:
            lane.note(event)
        bound = data.draw(st.sampled_from([-7.0, 0.0, 0.1, 1.0, 16777216.0]))
        values = [VALUES[e[2][0]] for e in lane]
        numbers = [to_double(v) if type(v) in NUMERIC else nan for v in values]  # type: ignore[arg-type]
        wanted = [n for n, v in enumerate(numbers) if (v <= bound if below else v >= bound)]
        i = data.draw(st.integers(0, len(lane)))
        before, after = lane.before(i, bound), lane.after(i, bound)
        earlier, later = [n for n in wanted if n < i], [n for n in wanted if n >= i]
        assert (max(earlier) if earlier else -1) <= before < max(i, 1)
        assert i <= after <= (min(later) if later else len(lane))


def test_trimming_keeps_what_is_not_expired() -> None:
    lane = SumLane(0)
    for time in range(300):
        lane.append(Happened(time, 0, (INTEGERS[1],)))
    trim(lane)
    assert len(lane) == 300 - 128
    assert lane[bisect_left(lane, (150,))][0] == 150
    assert lane.sum(150, 299) == literal("150", XSD + "integer")
