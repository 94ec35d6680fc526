"""Heartbeats of the pipeline's clock in the live merge, with a machine's clock that a script sets."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings

from dotr.model.stream import DeadLetter
from dotr.model.time import Micros
from dotr.streams.lateness import Lateness
from dotr.streams.merge.live import Channel, Heartbeats, live_instants
from dotr.streams.merge.paces import RateLimit
from dotr.streams.records import InputFile, Record
from tests.oracle.arrivals import Arrives, Elapse, Ends, Input, Step
from tests.support.scripts import Stopped, World, worlds

SECOND = 1_000_000
START = 100


def in_seconds(step: Step) -> Step:
    return Arrives(step.input, step.time * SECOND) if isinstance(step, Arrives) and step.time is not None else step


class Clocked(World):
    """A script whose times are seconds; the machine's clock begins at 100 s."""

    def __init__(self, inputs: Sequence[Input], script: Sequence[Step], delay: float = 10.0) -> None:
        scaled = [Input(each.delay * SECOND, each.idle, each.single, each.apart) for each in inputs]
        super().__init__(scaled, map(in_seconds, script))
        self.channels = [
            Channel(feed, Lateness.of(feed.spec), None if spec.idle is None else int(spec.idle * SECOND), name=feed.spec.input)
            for feed, spec in zip(self.feeds, inputs, strict=True)
        ]
        self.set_back = 0.0
        self.heartbeats = Heartbeats(int(delay * SECOND), self.machine)
        self.dead: list[DeadLetter] = []
        self.found: list[tuple[Micros, int]] = []

    def machine(self) -> Micros:
        return int((START + self.now - self.set_back) * SECOND)

    def run(self) -> None:
        """Merge until the end of the script."""
        with suppress(Stopped):
            for time, elements in live_instants(self.channels, self.dead.append, self.clock, self.go_on, heartbeats=self.heartbeats):
                self.found.append((time, len(elements)))

    @property
    def instants(self) -> list[float]:
        return [time / SECOND for time, size in self.found if size]

    @property
    def beats(self) -> list[float]:
        return [time / SECOND for time, size in self.found if not size]


def elapse(seconds: int, step: float = 0.25) -> list[Step]:
    return [Elapse(step)] * int(seconds / step)


def test_an_instant_closes_while_nothing_comes() -> None:
    world = Clocked([Input()], [*elapse(1), Arrives(0, 100), *elapse(12)])
    world.run()
    assert world.instants == [100.0]
    closing = world.found.index((100 * SECOND, 1))
    assert world.found[closing + 1] == (100 * SECOND, 0)
    assert world.beats == sorted(world.beats)


def test_heartbeats_come_at_least_every_second_or_tenth_of_the_clock() -> None:
    for delay, most in ((5.0, 1.25), (60.0, 6.25)):
        world = Clocked([Input()], elapse(40), delay)
        world.run()
        assert world.beats[0] == START - delay
        distances = [later - earlier for earlier, later in zip(world.beats, world.beats[1:], strict=False)]
        assert max(distances) <= most
        assert min(distances) >= most - 0.25


def test_what_is_due_does_not_wait_for_the_next_second() -> None:
    world = Clocked([Input()], elapse(5))
    world.heartbeats.due = lambda: int(92.25 * SECOND)
    world.run()
    assert 92.25 in world.beats


def test_an_element_behind_the_clock_is_a_dead_letter() -> None:
    world = Clocked([Input()], [*elapse(10), Arrives(0, 96), Arrives(0, 101), Elapse(0.25), Arrives(0, 97), Elapse(0.25)])
    world.run()
    assert [(each.reason.value, each.time, each.why) for each in world.dead] == [
        ("clock", 96 * SECOND, "behind the clock by 4 s"),
        ("late", 97 * SECOND, "an element of 101 came before this one of 97"),
    ]


def test_integers_from_zero_are_told_the_way_out() -> None:
    world = Clocked([Input()], [Elapse(40_000_000.0), Elapse(0.25), Arrives(0, 7), Elapse(0.25)])
    world.run()
    [letter] = world.dead
    assert letter.why.endswith("; integers count from 1970 (a replay of others: the same pace for all inputs)")


def test_the_slowest_input_holds_the_clock() -> None:
    world = Clocked([Input(), Input()], [Arrives(0, 95), Arrives(1, 90), *elapse(20)])
    world.channels[1].is_drained = lambda: False  # further records of it may wait
    world.run()
    assert world.instants == []
    assert world.beats == []
    world = Clocked([Input(), Input()], [Arrives(0, 85), Arrives(1, 90), *elapse(20)])
    world.channels[1].is_drained = lambda: False
    world.run()
    assert world.instants == [85.0]  # what the order of the other has passed


def test_what_a_rate_holds_back_holds_the_clock() -> None:
    world = Clocked([Input()], [Arrives(0, 95), *elapse(2), Arrives(0, 96), *elapse(20)])
    world.channels[0].pace = RateLimit(1)
    world.channels[0].pace.allowance(0.0)
    world.channels[0].pace.consume(40)
    world.run()
    assert world.beats == []


def test_inputs_that_have_ended_do_not_hold_the_clock() -> None:
    world = Clocked([Input(), Input()], [Arrives(0, 95), Ends(0), *elapse(20)])
    world.run()
    assert world.instants == [95.0]
    assert world.beats[-1] > 105


def test_a_file_is_read_on_while_another_input_is_silent() -> None:
    world = Clocked([Input(), Input()], [*[Arrives(0, time) for time in range(20, 60)], Ends(0), *elapse(1)])
    world.channels[0].growing, world.channels[0].is_drained = False, lambda: False
    world.run()
    assert world.instants == [float(time) for time in range(20, 60)]


def test_the_end_of_all_inputs_ends_heartbeats() -> None:
    world = Clocked([Input()], [*elapse(2), Ends(0), *elapse(20)])
    world.run()
    assert world.beats[-1] <= START - 10 + 2


def test_a_clock_that_is_set_back_holds_heartbeats_until_it_has_caught_up() -> None:
    world = Clocked([Input()], elapse(30))

    def machine() -> Micros:
        return int((START + world.now - (20 if world.now > 5 else 0)) * SECOND)

    world.heartbeats.machine = machine
    world.run()
    assert world.beats == sorted(world.beats)
    assert len(world.beats) < 15


def test_idle_releases_one_input_and_the_clock_all() -> None:
    world = Clocked([Input(idle=2.0), Input()], [Arrives(0, 99), *elapse(1), Arrives(1, 100), *elapse(12), Arrives(0, 99), Elapse(0.25)])
    world.run()
    assert world.instants == [99.0, 100.0]
    assert [each.reason.value for each in world.dead] == ["clock"]


def test_elements_set_apart_close_by_the_clock() -> None:
    world = Clocked([Input(apart=True)], [Arrives(0, 100), Arrives(0, 100), *elapse(11), Arrives(0, 100), Elapse(0.25)])
    world.run()
    assert world.instants == [100.0, 100.000001]
    assert [each.reason.value for each in world.dead] == ["clock"]


def test_a_time_far_ahead_is_taken_and_told_once() -> None:
    told: list[int] = []

    def tell(file: InputFile, record: Record) -> None:
        told.append(record.line)

    world = Clocked([Input()], [Arrives(0, 100), Arrives(0, 100 + 90_000), Elapse(0.25), Arrives(0, 100 + 180_000), *elapse(12)])
    world.heartbeats.warn_ahead = tell
    world.run()
    assert world.instants == [100.0, 90_100.0]
    assert told == [2]
    assert world.dead == []


@pytest.mark.random
@given(worlds())
@settings(max_examples=100, deadline=None)
def test_no_element_is_taken_after_its_heartbeat(world: tuple[list[Input], list[Step]]) -> None:
    inputs, script = world
    clocked = Clocked(inputs, [*script, *elapse(2)], delay=5.0)
    clocked.heartbeats.machine = lambda: int((10 + clocked.now) * SECOND)
    clocked.run()
    times = [time for time, _ in clocked.found]
    assert times == sorted(times)  # a heartbeat may be at the time of an instant, behind it
    taken = sum(size for _, size in clocked.found)
    read = sum(feed.place for feed in clocked.feeds)
    assert taken + len(clocked.dead) + sum(each.waiting for each in clocked.channels) + _held(clocked) == read


def _held(world: Clocked) -> int:
    return sum(len(getattr(each.lateness, "held", ())) for each in world.channels)
