"""Paces: records are held until the clock reaches their times, and the position is that of the first held one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.streams.lateness import Lateness
from dotr.streams.merge.feeds import FilesFeed, OneFile
from dotr.streams.merge.live import Channel
from dotr.streams.merge.paces import EventClock, PacedFeed, RateLimit
from dotr.streams.records import Format, InputFile

pytestmark = pytest.mark.core


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_records_are_read_when_the_clock_reaches_their_times(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    lines = ['{"time": 10, "graph": ""}', "broken", '{"time": 70, "graph": ""}', '{"time": 20, "graph": ""}', '{"time": 130, "graph": ""}']
    path.write_text("\n".join(lines))
    clock = Clock()
    feed = PacedFeed(FilesFeed(OneFile(InputFile("a", str(path), Format.NDJSON))), EventClock(60), clock)

    def read(most: int = 10) -> list[int]:
        chunk = feed.read(most)
        return [record.line for record in chunk.records] if chunk else []

    assert read() == [1, 2]
    assert (feed.holding, feed.ended, feed.end.line, feed.end.offset) == (True, False, 3, len("\n".join(lines[:2])) + 1)
    assert read() == []
    clock.now += 1
    assert read(1) == [3]
    assert feed.end.line == 4
    assert read() == [4]  # its time is earlier, but the record before it was held
    assert read() == []
    feed.held_back = False
    assert read() == [5]
    assert (feed.holding, feed.ended) == (False, True)


def test_input_held_back_by_its_pace_is_not_idle(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text("".join(f'{{"time": {60 * n}, "graph": ""}}\n' for n in range(4)))
    clock = Clock()
    feed = PacedFeed(FilesFeed(OneFile(InputFile("a", str(path), Format.NDJSON))), EventClock(1), clock)
    channel = Channel(feed, Lateness(0), idle=1_000_000, pace=RateLimit(1))
    assert channel.read(10, clock.now) is not None
    clock.now += 50
    assert channel.read(10, clock.now) is None
    clock.now += 5
    assert not channel.is_idle(clock.now)
    with channel.unlimited():
        chunks = [channel.read(10, clock.now) for _ in range(2)]
        assert [record.line for chunk in chunks if chunk for record in chunk.records] == [2, 3, 4]
    assert isinstance(channel.pace, RateLimit)
    assert feed.held_back
