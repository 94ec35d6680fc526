"""The buffer of the matches of a moment: the size at which it is emitted, ordinals, and composite events."""

from __future__ import annotations

import pytest

from dotr.temporal.matching.events import Match, MatchBuffer, StoredEvent

pytestmark = pytest.mark.core

ANCHORS: list[StoredEvent] = [(0, number, ()) for number in range(5)]


@pytest.fixture(autouse=True)
def _small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotr.temporal.matching.events.FLUSH_SIZE", 3)


def match(rule: int, ordinal: int) -> Match:
    return rule, ordinal, (), (f'"{ordinal}"',)


class Emitted:
    """Receiver of matches, which copies each part."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []

    def __call__(self, matches: list[Match]) -> None:
        self.parts.append([ordinal for _, ordinal, _, _ in matches])


def fill(buffer: MatchBuffer, many: int, rule: int = 0) -> None:
    for _ in range(many):
        buffer.matches.append(match(rule, buffer.base + len(buffer.matches)))


def test_full_buffer_is_emitted_and_ordinals_continue() -> None:
    emitted = Emitted()
    buffer = MatchBuffer([], 100, emitted)
    for many in (2, 1, 4, 2):
        fill(buffer, many)
        buffer.flush()
    assert emitted.parts == [[100, 101, 102], [103, 104, 105, 106]]
    assert (buffer.base, [ordinal for _, ordinal, _, _ in buffer.matches]) == (107, [107, 108])


def test_buffer_without_a_receiver_keeps_all_matches() -> None:
    buffer = MatchBuffer([], 0, None)
    fill(buffer, 7)
    buffer.flush()
    assert (buffer.base, len(buffer.matches)) == (0, 7)
    assert list(buffer.until_full(ANCHORS)) == ANCHORS


def test_anchors_end_with_the_one_that_fills_the_buffer() -> None:
    buffer = MatchBuffer([], 0, Emitted())
    seen = []
    for anchor in buffer.until_full(ANCHORS):
        seen.append(anchor)
        fill(buffer, 1)
    assert seen == ANCHORS[:3]


def test_composite_events_are_collected_once_across_parts() -> None:
    emitted = Emitted()
    buffer = MatchBuffer([], 0, emitted, [None, "B"])
    fill(buffer, 1, rule=1)
    buffer.collect_events()
    buffer.collect_events()
    fill(buffer, 2, rule=0)
    buffer.flush()
    fill(buffer, 1, rule=1)
    buffer.collect_events()
    assert buffer.events == {"B": [(0, ('"0"',)), (3, ('"3"',))]}
    assert emitted.parts == [[0, 1, 2]]
