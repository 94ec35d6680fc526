"""Contents and reports of windows: random extents, policies and elements agree with the oracle;
cost of an element."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.languages.continuous.model import (
    AskForm,
    ContinuousQuery,
    ContinuousWindow,
    ElementsExtent,
    EntailmentLevel,
    Extent,
    LandmarkExtent,
    Level,
    NowExtent,
    RangeExtent,
    RelationToStream,
    ReportPolicies,
    StreamLevel,
    TriplesExtent,
)
from dotr.languages.continuous.windows.content import WindowContent, WindowLimitExceeded
from dotr.languages.continuous.windows.extents import TimeSeries
from dotr.languages.continuous.windows.reports import WindowReports
from dotr.model.algebra import Bgp, Select
from dotr.model.places import Document, Span
from dotr.model.terms import Triple
from tests.oracle import continuous as brute
from tests.support.properties import examples

NOWHERE = Span(Document("", ""), 0, 0)
LENGTHS = st.integers(1, 9)
STARTS = st.none() | st.integers(-12, 12)


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    match draw(st.integers(0, 5)):
        case 0 | 1:
            width = draw(LENGTHS)
            return RangeExtent(width, draw(LENGTHS), draw(st.integers(0, width - 1)), draw(STARTS))
        case 2:
            return LandmarkExtent(draw(LENGTHS), draw(st.none() | LENGTHS), None, draw(STARTS))
        case 3:
            return ElementsExtent(draw(st.integers(1, 5)), draw(st.integers(1, 4)))
        case 4:
            return TriplesExtent(draw(st.integers(1, 7)), draw(st.integers(1, 4)))
        case _:
            return NowExtent()


@st.composite
def windows(draw: st.DrawFn) -> ContinuousWindow:
    extent = draw(extents())
    policies = ReportPolicies(
        draw(st.booleans()) and not isinstance(extent, NowExtent), draw(st.booleans()), draw(st.booleans()), draw(st.none() | LENGTHS)
    )
    if not (policies.window_close or policies.period):
        policies = replace(policies, content_change=True)
    is_counted = isinstance(extent, ElementsExtent | TriplesExtent)
    levels: list[Level | None] = [None, EntailmentLevel.NONE, *([] if is_counted else [StreamLevel(13)])]
    level = draw(st.sampled_from(levels))
    return ContinuousWindow("<w>", "s", extent, level, policies, NOWHERE, NOWHERE)


def graph(size: int) -> tuple[Triple, ...]:
    return tuple(("<s>", "<p>", f'"{number}"') for number in range(size))


ARRIVALS = st.dictionaries(st.integers(-15, 25), st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=12)


@given(windows(), ARRIVALS, st.integers(-3, 3), st.booleans())
@examples(300)
def test_contents_and_reports_agree_with_the_oracle(
    window: ContinuousWindow, arrivals: dict[int, list[int]], origin: int, reloads: bool
) -> None:
    content = WindowContent(window, origin)
    reports = WindowReports(content, origin)
    stream: list[brute.Streamed] = []
    reported: Counter[brute.Streamed] = Counter()
    due = reports.next_time(-17)
    for time in range(-16, 40):
        sizes = arrivals.get(time, [])
        content.add(time, [graph(size) for size in sizes])
        stream += [brute.Streamed(time, frozenset(graph(size)), len(stream) + number) for number, size in enumerate(sizes)]
        held = brute.content(window, time, stream, origin)
        view = content.view(time)
        assert [(each.time, frozenset(each.triples)) for each in view.content] == [(each.time, each.triples) for each in held]
        if isinstance(window.level, StreamLevel):
            assert [each.time for each in view.history] == [each.time for each in stream if time - 13 < each.time]
        expected = reports_by_brute_force(window, time, stream, reported, origin)
        assert reports.reports(time, arrived=bool(sizes)) == expected
        # Without arrivals the window reports only at times that `next_time` returned.
        assert not expected or sizes or due == time
        if expected:
            reports.note(time)
            reported = Counter(held)
        content.expire(time)
        if reloads:
            written, kept, was_reported = content.to_json(), list(content.elements), reports.reported
            content = WindowContent(window, origin)
            content.restore(written, kept)
            reports = WindowReports(content, origin)
            reports.reported = was_reported
        if due is None or due <= time or sizes:
            due = reports.next_time(time)


def reports_by_brute_force(
    window: ContinuousWindow, time: int, stream: list[brute.Streamed], reported: Counter[brute.Streamed], origin: int
) -> bool:
    form = AskForm(Select((), Bgp(())))
    query = ContinuousQuery("q", "q", RelationToStream.RSTREAM, form, (window,), (), NOWHERE, NOWHERE)
    state = brute.ContinuousQueryState(query, brute.Knowledge(origin=origin), reported={0: reported})
    return state.window_reports(0, time, brute.Streams({"s": stream}))


@given(windows(), ARRIVALS, st.integers(-3, 3))
@examples(200)
def test_will_hold_agrees_with_later_contents_of_the_oracle(window: ContinuousWindow, arrivals: dict[int, list[int]], origin: int) -> None:
    content = WindowContent(window, origin)
    for time, sizes in sorted(arrivals.items()):
        content.add(time, [graph(size) for size in sizes])
        content.expire(time)
    now = max(arrivals, default=0)
    stream = [brute.Streamed(time, frozenset(), number) for time, sizes in arrivals.items() for number, _ in enumerate(sizes)]
    later = any(brute.content(window, time, stream, origin) for time in range(now, now + 30))
    assert content.will_hold(now) == (later and isinstance(window.extent, RangeExtent))


def test_limit_of_a_landmark_window_counts_from_its_restart() -> None:
    window = ContinuousWindow("<w>", "s", LandmarkExtent(5, None, 2), None, ReportPolicies(window_close=True), NOWHERE, NOWHERE)
    content = WindowContent(window, 0)
    content.add(1, [(), ()])
    with pytest.raises(WindowLimitExceeded):
        content.add(2, [()])


@given(LENGTHS, LENGTHS, st.integers(-9, 9), st.integers(-9, 9), STARTS, STARTS)
@examples(200)
def test_common_times_of_two_series(
    step: int, other_step: int, base: int, other_base: int, first: int | None, other_first: int | None
) -> None:
    first = None if first is None else base + step * first
    other_first = None if other_first is None else other_base + other_step * other_first
    one, other = TimeSeries(base, step, first), TimeSeries(other_base, other_step, other_first)
    both = one.common(other)
    for time in range(-200, 200):
        assert (both is not None and both.has(time)) == (one.has(time) and other.has(time))


class CountedTimes(list[int]):
    """A list of times that counts how often its items are read."""

    reads = 0

    def __getitem__(self, index: object) -> object:  # type: ignore[override]
        CountedTimes.reads += 1
        return super().__getitem__(index)  # type: ignore[call-overload]


@pytest.mark.parametrize("extent", [RangeExtent(10**4, 1), LandmarkExtent(1, 10**6, None), ElementsExtent(10**4, 1), NowExtent()], ids=repr)
def test_cost_of_an_element_is_independent_of_the_size_of_the_window(extent: Extent) -> None:
    window = ContinuousWindow("<w>", "s", extent, None, ReportPolicies(content_change=True, non_empty=True), NOWHERE, NOWHERE)
    content = WindowContent(window, 0)
    reports = WindowReports(content, 0)
    content._times = CountedTimes()
    costs = []
    for time in range(1, 10**4):
        CountedTimes.reads = 0
        content.add(time, [graph(1)])
        assert reports.reports(time, arrived=True)
        reports.note(time)
        content.expire(time)
        costs.append(CountedTimes.reads)
    assert max(costs) <= 60  # a few bisections of 10,000 times
