"""A replay that is read once: instants come from memory, and again from the source where they are too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dotr.engine.replay import CachedReplay, ElementPlace, RejectedElement, Replay, ReplayedInstant
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.time import Clock

pytestmark = pytest.mark.core


class Source:
    """Ten instants of one triple each, and how many of them were read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for time in range(10):
            self.reads += 1
            yield ReplayedInstant(time, [(("<a>", "<b>", f'"{time}"'),)], [ElementPlace("s", time + 1)])


def cached(source: Source, most: int) -> CachedReplay:
    return CachedReplay(Replay("s", compile_program(ProgramSpec()), Clock(), {}, source.read), most)


def test_instants_are_read_once() -> None:
    source = Source()
    replay = cached(source, 100)
    first = replay.replay.instants()
    assert [next(first).time for _ in range(4)] == [0, 1, 2, 3]
    assert source.reads == 4
    found = replay.instant(2)
    assert found is not None
    assert found.places == [ElementPlace("s", 3)]
    assert source.reads == 4
    assert [each.time for each in replay.replay.instants()] == list(range(10))
    assert [each.time for each in replay.replay.instants()] == list(range(10))
    assert source.reads == 10
    assert replay.instant(10) is None


def test_of_many_instants_the_latest_are_kept() -> None:
    source = Source()
    replay = cached(source, 4)
    assert [each.time for each in replay.replay.instants()] == list(range(10))
    assert source.reads == 10
    assert replay.instant(9) is not None
    assert source.reads == 10
    assert replay.instant(1) is not None
    assert source.reads == 12
    assert [each.time for each in replay.replay.instants()] == list(range(10))


def test_instant_beyond_the_cache_is_read_from_the_stream() -> None:
    source = Source()
    replay = cached(source, 100)
    assert replay.instant(5) is not None
    assert source.reads == 6
    assert [each.time for each in replay.replay.instants()] == list(range(10))


def test_time_without_an_instant_is_searched_up_to_the_next_instant() -> None:
    source = Source()
    replay = cached(source, 100)
    assert replay.instant(-1) is None
    assert source.reads == 1
