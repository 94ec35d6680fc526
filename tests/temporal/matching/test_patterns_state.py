"""State: expiration, the written form, and refusal of malformed ones."""

from __future__ import annotations

import json
import random

import pytest

from dotr.model.time import Micros
from dotr.temporal.matching.event_store import (
    SLACK,
    TRIM,
    VISITS,
    EventCondition,
    IndexKey,
    IndexSpec,
    KeyIndex,
    Measure,
    NewestEvents,
    PortStore,
    RunStore,
    StandingStore,
    compile_insert,
)
from dotr.temporal.matching.events import AnchorQueue, StoredEvent
from dotr.temporal.matching.state import STATE_VERSION, SWEEP, State, StateError
from dotr.temporal.matching.sums import DistinctRun, EventRun, ExtremumRun, SkipRun, SumRun

pytestmark = pytest.mark.core


def store(retention: Micros, *specs: IndexSpec) -> PortStore:
    return PortStore(retention, len(specs), compile_insert(specs, [None] * len(specs), [None] * len(specs)))


def stored_event(time: Micros, *values: str | None) -> StoredEvent:
    return (time, 0, values)


def test_events_are_stored_for_the_retention() -> None:
    kept = store(10, IndexSpec((0,)))
    kept.add([stored_event(0, "<a>")])
    kept.add([stored_event(10, "<a>")])
    assert [time for time, _, _ in kept] == [0, 10]
    kept.add([stored_event(11, "<a>")])
    assert [time for time, _, _ in kept] == [10, 11]
    kept.expire(20)
    assert [time for time, _, _ in kept] == [10, 11]
    kept.expire(21)
    assert [time for time, _, _ in kept] == [11]
    assert kept.indexes[0]
    kept.expire(22)
    assert not kept.indexes[0]
    assert len(kept) == 0
    kept.add([stored_event(30, "<a>")])
    kept.add([stored_event(41, "<b>")])
    assert [time for time, _, _ in kept] == [41]


NUMBER = "http://www.w3.org/2001/XMLSchema#integer"


@pytest.mark.parametrize("measure", [None, *Measure])
@pytest.mark.parametrize("seed", range(5))
def test_extend_equals_add_time_by_time(measure: Measure | None, seed: int) -> None:
    chosen = random.Random(seed)
    specs = [IndexSpec((0,), (), measure, None if measure is None else 1), IndexSpec((), (), measure, None if measure is None else 1)]
    one, many = store(300, *specs), store(300, *specs)
    times = sorted(chosen.randrange(3_000) for _ in range(3_000))
    events = [
        stored_event(time, chosen.choice(["<a>", "<b>", f"<{time}>", None]), f'"{chosen.randrange(50)}"^^<{NUMBER}>') for time in times
    ]
    while events:
        number = chosen.choice((1, 20, 700))
        some, events = events[:number], events[number:]
        for event in some:
            one.add([event])
        if number == 1:
            many.add(some)
        else:
            many.extend(some)
        horizon = some[-1][0] - 300
        assert many.log == one.log
        for ours, theirs in zip(many.indexes, one.indexes, strict=True):
            assert live(ours, horizon) == live(theirs, horizon)
            assert len(ours) <= 2 * len(many.log) + TRIM
            for key in live(ours, horizon):
                assert answers(ours[key], measure, horizon, some[-1][0]) == answers(theirs[key], measure, horizon, some[-1][0])


def live(index: KeyIndex, horizon: Micros) -> dict[IndexKey, list[StoredEvent]]:
    found = {key: [event for event in run if event[0] >= horizon] for key, run in index.items()}
    return {key: events for key, events in found.items() if events}


def answers(run: list[StoredEvent], measure: Measure | None, low: Micros, high: Micros) -> object:
    match run:
        case SumRun():
            return run.sum(low, high), run.avg(low, high)
        case ExtremumRun():
            return run.extremum(low, high)
        case DistinctRun():
            return run.distinct("SUM", high, 0, high - low)
        case SkipRun():
            start = run.slice_between(low, high)[0]
            return [run[place][0] for bound in (10.0, 40.0) if (place := run.first_from(start, bound)) < len(run)]
        case EventRun():
            return run.count_between(low, high)
        case _:
            return measure


def test_state_without_stores_is_empty() -> None:
    state = State([], [{(4, 0), (5, 0)}], [])
    state.expire(5)
    assert state.consumed == ({(5, 0)},)


def test_consumed_events_expire_with_the_longest_retention() -> None:
    state = State([store(5), store(10)], [{(0, 7), (9, 0), (10, 0), (30, 0)}, {(10, 1)}], [])
    kept = state.consumed
    state.expire(20)
    assert state.consumed == ({(10, 0), (30, 0)}, {(10, 1)})
    assert state.consumed[0] is kept[0]
    assert state.consumed[1] is kept[1]


def test_sweep_expires_events_and_restarts_the_countdown() -> None:
    kept = store(10)
    kept.add([stored_event(0, "<a>")])
    state = State([kept], [], [])
    assert state.countdown == SWEEP == 1024
    state.countdown = 0
    state.sweep(11)
    assert (len(state), state.countdown) == (0, SWEEP)


def test_empty_runs_are_removed_once_most_events_have_expired() -> None:
    kept = store(10, IndexSpec((0,)), IndexSpec((), measure=Measure.COUNT))
    for time in range(1000):
        kept.add([stored_event(time, f"<{time}>")])
        assert len(kept.indexes[0]) <= TRIM + 2 * len(kept) + 1
    assert len(kept) == 11
    assert f"<{999}>" in kept.indexes[0]
    assert all(f"<{time}>" in kept.indexes[0] for time in range(989, 1000))
    assert len(kept.indexes[0]) > 11


def test_empty_runs_are_swept_only_above_the_threshold() -> None:
    kept = store(1, IndexSpec((0,)))
    for time in range(TRIM + 4):
        kept.add([stored_event(time, f"<{time}>")])
    assert len(kept.indexes[0]) == TRIM + 4
    kept.add([stored_event(TRIM + 4, "<last>")])  # at this insertion, 131 events are expired and 2 are left; its own run does not exist yet
    assert set(kept.indexes[0]) == {f"<{TRIM + 3}>", "<last>"}
    for time in range(TRIM + 5, 2 * TRIM + 7):
        kept.add([stored_event(time, f"<{time}>")])
    assert len(kept.indexes[0]) == TRIM + 4


def test_run_is_trimmed_by_a_power_of_two_once_half_has_expired() -> None:
    kept = store(100, IndexSpec(()), IndexSpec((), measure=Measure.COUNT))
    lengths = []
    for time in range(260):
        kept.add([stored_event(time, "<a>")])
        lengths.append([len(runs[None]) for runs in kept.indexes])
    # At the insertion of 202, the middle event of 203 is that of 101, before the horizon 102: the first 64 are removed.
    assert lengths[:202] == [[n, n] for n in range(1, 203)]
    assert lengths[202] == [203 - 64, 203 - 64]
    assert kept.indexes[0][None][0][0] == kept.indexes[1][None][0][0] == 64


def test_short_run_is_not_trimmed() -> None:
    kept = store(1, IndexSpec(()), IndexSpec((), measure=Measure.ABOVE, measured=0))
    lengths = []
    for time in range(130):
        kept.add([stored_event(time, None)])
        lengths.append([len(runs[None]) for runs in kept.indexes])
    assert lengths[TRIM - 1 :] == [[n, n] for n in (TRIM, TRIM + 1 - 64, TRIM + 2 - 64)]


def full() -> State:
    kept, used = store(10, IndexSpec((0,))), {(3, 1), (2, 0)}
    kept.add([(3, 0, ("<ä>", None)), (3, 1, ('"b"', "<c>"))])
    state = State([kept], [used], [], [AnchorQueue(0)])
    state.waiting[0].append((4, 2, (None,)))
    state.passed = 7
    return state


def empty() -> State:
    return State([store(10, IndexSpec((0,)))], [set()], [], [AnchorQueue(0)])


def test_written_state_is_restored() -> None:
    written = full().encode()
    assert written.decode() == (
        '{"version":2,"events":[[[3,0,["<ä>",null]],[3,1,["\\"b\\"","<c>"]]]],"consumed":[[[2,0],[3,1]]],"waiting":[[[4,2,[null]]]],"passed":7}'
    )
    state = empty().restore(written)
    assert list(state.stores[0]) == [(3, 0, ("<ä>", None)), (3, 1, ('"b"', "<c>"))]
    assert set(state.stores[0].indexes[0]) == {"<ä>", '"b"'}
    assert state.consumed == ({(2, 0), (3, 1)},)
    assert list(state.waiting[0]) == [(4, 2, (None,))]
    assert all(type(event) is tuple for event in state.waiting[0])
    assert state.passed == 7
    assert len(state) == 3


@pytest.mark.parametrize("part", ["version", "events", "consumed", "waiting", "passed"])
def test_state_with_a_missing_part_is_refused(part: str) -> None:
    data = json.loads(full().encode())
    del data[part]
    with pytest.raises(StateError, match=f"it cannot be read .'{part}'"):
        empty().restore(json.dumps(data).encode())


@pytest.mark.parametrize("part", ["events", "consumed", "waiting"])
def test_state_of_another_program_is_refused(part: str) -> None:
    data = json.loads(full().encode())
    data[part] = [*data[part], []]
    with pytest.raises(StateError, match=r"^it belongs to another program$"):
        empty().restore(json.dumps(data).encode())


@pytest.mark.parametrize("written", [b"{", b"[]", b'{"version": 2, "events": 1}'])
def test_malformed_state_is_refused(written: bytes) -> None:
    with pytest.raises(StateError, match=r"^it cannot be read "):
        empty().restore(written)


def test_state_of_another_version_is_refused() -> None:
    data = {**json.loads(full().encode()), "version": STATE_VERSION + 1}
    with pytest.raises(StateError, match=r"^its version is 3, this release reads 2$"):
        empty().restore(json.dumps(data).encode())


def newest(*needed: tuple[tuple[int, ...], Micros], whole: Micros | None = None) -> StandingStore:
    insert = compile_insert([IndexSpec((0,))], [None], [None])
    return StandingStore(1_000_000, 1, insert, whole, [NewestEvents(positions, None, far) for positions, far in needed])


def test_the_newest_of_each_key_stays_and_what_is_of_the_present() -> None:
    kept = newest(((0,), 1_000))
    for time, key in ((3, "<a>"), (5, "<b>"), (7, "<a>"), (9, "<a>"), (9, "<a>")):
        kept.add([stored_event(time, key)])
    kept.drop_replaced(9)
    assert [(time, values[0]) for time, _, values in kept] == [(5, "<b>"), (7, "<a>"), (9, "<a>"), (9, "<a>")]
    assert [time for time, _, _ in kept.indexes[0]["<a>"]] == [7, 9, 9]
    kept.drop_replaced(10)
    assert [(time, values[0]) for time, _, values in kept] == [(5, "<b>"), (9, "<a>")]
    kept.drop_replaced(1_006)
    assert [values[0] for _, _, values in kept] == ["<a>"]


def test_every_event_stays_for_the_windows_that_need_all() -> None:
    kept = newest(((0,), 1_000), whole=3)
    for time in range(8):
        kept.add([stored_event(time, "<a>"), stored_event(time, None)])
    kept.drop_replaced(8)
    assert [time for time, _, _ in kept] == [5, 5, 6, 6, 7, 7]


def test_the_events_kept_are_in_proportion_to_the_keys() -> None:
    """Whatever the number of elements; under the `standing` key alone, of no key there is one."""
    kept, one = newest(((0,), 10**15)), newest(((), 10**15))
    most = 0
    for time in range(20_000):
        for store_ in (kept, one):
            store_.add_one(stored_event(time, f"<{time * 7 % 50}>"))
        most = max(most, len(kept))
    assert most <= 2 * 51 + SLACK + 1
    assert len(one) <= 2 + SLACK + 1
    kept.drop_replaced(20_000)
    assert len(kept) == 50


def drop_log(held: list[PortStore], spec: IndexSpec, test: EventCondition | None = None) -> RunStore:
    """A store without a log in the place of the one in a list, to which the latter returns once its log is put back."""

    def put_back() -> None:
        held[0] = without.with_log()

    without = RunStore(held[0], compile_insert([spec], [test], [None], takes_all=True), put_back)
    held[0] = without
    return without


@pytest.mark.parametrize("standing", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_store_without_a_log_has_the_events_of_one_with_a_log(standing: bool, seed: int) -> None:
    """Whatever is asked when, and however many events come at a time. The index leaves events of value 0 out."""
    chosen, spec, test = random.Random(seed), IndexSpec((0,), (), Measure.ABOVE, 1), EventCondition(lambda value: value != '"0"', "v[1]")
    insert = compile_insert([spec], [test], [None])
    needs = [NewestEvents((0,), None, 60)]
    expected, logged = [StandingStore(60, 1, insert, None, needs) if standing else PortStore(60, 1, insert) for _ in range(2)]
    held, now, times_dropped, times_back = [logged], 0, 0, 0
    for _ in range(1_500):
        now += chosen.choice((1, 1, 2, 3, 9, 90 if not chosen.randrange(20) else 4))
        many = chosen.choice((1, 1, 1, 1, 4, 40 if not chosen.randrange(20) else 2))
        keys = [None, "<a>", "<b>", "<c>", f"<{now}>"]
        events = [(now, n, (chosen.choice(keys), f'"{chosen.randrange(3)}"')) for n in range(many)]
        was_dropped = isinstance(held[0], RunStore)
        for each in (expected, held[0]):
            if many == 1:
                each.add_one(events[0])
            else:
                each.add(events)
        if not chosen.randrange(90):
            now += chosen.randrange(50)
            for each in (expected, held[0]):
                each.expire(now)
        if isinstance(held[0], RunStore) and not chosen.randrange(200):
            held[0].put_back()
        times_back += was_dropped and not isinstance(held[0], RunStore)
        assert list(held[0]) == list(expected)
        assert len(held[0]) == len(expected)
        found = dict(held[0].indexes[0])
        found.pop(..., None)
        assert live(found, now - 60) == live(expected.indexes[0], now - 60)
        if not isinstance(held[0], RunStore) and RunStore.can_replace(held[0]) and not chosen.randrange(20):
            drop_log(held, spec, test)
            times_dropped += 1
    assert times_back > 3
    assert times_dropped > 3


def test_a_log_without_an_order_of_ordinals_is_kept() -> None:
    kept = store(10, IndexSpec((0,)))
    kept.add([(3, 1, ("<a>",)), (3, 2, ("<b>",))])
    assert RunStore.can_replace(kept)
    kept.add([(4, 2, ("<a>",)), (4, 1, ("<b>",))])
    assert not RunStore.can_replace(kept)


def test_runs_that_have_ended_are_removed_as_events_come() -> None:
    """Each event has a key of its own: there are at most as many ended runs as live ones, and some."""
    kept = drop_log([store(1_000, IndexSpec((0,)))], IndexSpec((0,)))
    for time in range(9_000):
        kept.add_one(stored_event(time, f"<{time}>"))
        assert len(kept.indexes[0]) <= 2 * 1_001 + 2 * TRIM
    for time in range(9_000, 15_000):  # one key alone comes again
        kept.add_one(stored_event(time, "<a>"))
    assert set(kept.indexes[0]) == {"<a>"}


def test_runs_that_have_ended_are_removed_without_events() -> None:
    kept = drop_log([store(VISITS, IndexSpec((0,)))], IndexSpec((0,)))
    for time in range(VISITS):
        kept.add_one(stored_event(time, f"<{time}>"))
    state = State([kept], [], [])
    for _ in range(3):
        state.sweep(3 * VISITS)
    assert not kept.indexes[0]
    assert list(kept) == []


def test_the_written_state_of_a_store_without_a_log_is_that_of_one_with_a_log() -> None:
    logged, state = store(10, IndexSpec((0,))), State([store(10, IndexSpec((0,)))], [], [])
    kept = drop_log(list(state.stores), IndexSpec((0,)))
    state.stores = (kept,)
    kept.put_back = lambda: setattr(state, "stores", (kept.with_log(),))
    for time, key in ((0, "<a>"), (1, None), (6, "<b>"), (11, "<a>"), (12, None)):
        for each in (logged, kept):
            each.add([(time, 0, (key, None)), (time, 1, ("<c>", None))])
    assert len(state) == len(logged) == 6
    assert state.event_counts == [6]
    assert state.encode() == State([logged], [], []).encode()
