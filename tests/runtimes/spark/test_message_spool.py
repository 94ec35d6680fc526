"""The spool of messages: durable before it is acknowledged, read as far as it is published, bounded, mended after a crash."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.runtimes.spark.checkpoint.message_spool import MessageSpool, receiving
from dotr.streams.connectors.receivers import MessageQueue, deliver
from dotr.streams.formats.segments import (
    DRAINED,
    MAGIC,
    PUBLISHED,
    RECEIVED,
    SPOOL_END,
    Segments,
    encode_frame,
    last_place,
    published,
    segment_names,
    spool_folder,
)
from dotr.streams.merge.feeds import BEGIN, InputPoint, SegmentsFeed, open_segment
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.records import AllEnded, Format, Inbox, InputFile, Message, Record
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.core

LIKE = InputFile("in", "http://127.0.0.1:8081/in", Format.NDJSON)
NO_LIMIT = 1 << 40


@contextmanager
def opened(folder: Path, limit: int = NO_LIMIT) -> Iterator[MessageSpool]:
    spool = MessageSpool(LIKE, folder, limit)
    try:
        yield spool
    finally:
        spool.close()


def message(number: int, size: int = 0) -> Message:
    return Message(b'{"time": %d, "graph": ""}' % number + b" " * size, 0, topic="t" if number % 2 else "")


def send(spool: MessageSpool, *numbers: int) -> None:
    assert deliver(spool, [message(number) for number in numbers], 10)


def read(feed: SegmentsFeed, most: int = 100) -> list[Record]:
    records: list[Record] = []
    while (chunk := feed.read(most)) is not None:
        records += chunk.records
    return records


def read_all(folder: Path, start: InputPoint = BEGIN) -> list[Record]:
    feed = SegmentsFeed(Segments(LIKE, folder), start)
    try:
        return read(feed)
    finally:
        feed.close()


def places(records: list[Record]) -> list[tuple[int, int]]:
    return [(record.line, (record.time or 0) // 1_000_000) for record in records]


def test_messages_are_read_while_they_arrive_and_after_restarts(tmp_path: Path) -> None:
    feed = SegmentsFeed(Segments(LIKE, tmp_path))
    assert feed.read(10) is None
    with opened(tmp_path) as spool:
        send(spool, 5)
        assert places(read(feed)) == [(1, 5)]
        send(spool, 6, 7)
        send(spool, 8)
        assert places(read(feed, 1)) == [(2, 6), (3, 7), (4, 8)]
        assert feed.read(1) is None
    with opened(tmp_path) as spool:
        send(spool, 9)
        assert places(read(feed)) == [(5, 9)]
    feed.close()
    assert places(read_all(tmp_path)) == [(1, 5), (2, 6), (3, 7), (4, 8), (5, 9)]
    assert (last_place(tmp_path), last_place(tmp_path / "none")) == (5, 0)
    assert list(segment_names(tmp_path).values()) == ["000000000000-000000000001.messages", "000000000001-000000000005.messages"]


def test_earlier_messages_are_those_of_the_segments_the_newest_first(tmp_path: Path) -> None:
    with opened(tmp_path, 1 << 20) as spool:
        assert list(spool.earlier()) == []
        for number in range(8):
            assert deliver(spool, [message(number, 100_000)], 10)
    with opened(tmp_path, 1 << 20) as spool:
        found = [[each.place for each in messages] for messages in spool.earlier()]
    assert sorted(place for places in found for place in places) == list(range(1, 9))
    assert len(found) > 1
    assert [places[0] for places in found] == sorted([places[0] for places in found], reverse=True)


def test_written_form_of_messages() -> None:
    """Messages in checkpoints of earlier releases stay readable."""
    assert (MAGIC, PUBLISHED, RECEIVED, str(spool_folder(Path("cp"), "a b"))) == (b"dotr msg", "published", "received", "cp/spool/of-a%20b")
    plain = "15166e27000000000100000007000000000000000c000000000000000000000000000080" + b"x".hex()
    assert encode_frame(Message(b"x", 7, received=12)).hex() == plain
    described = Message(b"x", 7, 5, 12, b"k", (("h", b"v"),), "t", 3)
    assert encode_frame(described)[36:] == b'["aw==", [["h", "dg=="]], "t", 3]x'
    told = Message(b"x", 7, why="gone", reason=Reason.LOST)
    assert encode_frame(told)[36:] == b'[null, [], "", 0, "gone", "lost"]x'
    assert LIKE.to_json() == InputFile("in", LIKE.path, Format.NDJSON).to_json()
    framed = replace(LIKE, framed=True)
    assert InputFile.from_json(framed.to_json()) == framed


def test_dead_letters_among_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        assert deliver(
            spool, [Message(b"", 0, key=b"7", why="gone", reason=Reason.LOST), message(5), Message(b"\xff", 0, why="no text")], 10
        )
    found = [(record.line, record.reason.value, record.why, record.raw) for record in read_all(tmp_path) if record.time is None]
    assert found == [(1, "lost", "gone", b""), (3, "unreadable", "no text", b"\xff")]


def test_last_message_of_earlier_runs(tmp_path: Path) -> None:
    """A run that was killed before its first message leaves a segment without one, in whose place the one before stays."""
    with opened(tmp_path) as spool:
        assert spool.last is None
        send(spool, 5, 6)
    (tmp_path / "000000000001-000000000003.messages").write_bytes(MAGIC)
    for _ in range(2):
        with opened(tmp_path) as spool:
            assert spool.last is not None
            assert (spool.last.place, spool.last.body) == (2, message(6).body)
    with opened(tmp_path) as spool:
        send(spool, 7)
    with opened(tmp_path) as spool:
        assert spool.last is not None
        assert spool.last.place == 3
    assert places(read_all(tmp_path)) == [(1, 5), (2, 6), (3, 7)]


def test_end_of_what_is_sent(tmp_path: Path) -> None:
    """Readers end behind the last message, and the sender is not asked again."""
    feed, receiver = SegmentsFeed(Segments(LIKE, tmp_path)), SilentReceiver()
    with opened(tmp_path) as spool:
        spool.receiver = receiver
        send(spool, 5)
        assert places(read(feed)) == [(1, 5)]
        assert (feed.ended, spool.has_ended) == (False, False)
        assert spool.offer([message(6)], lambda: None)
        receiver.ended = True
        until = time.monotonic() + PATIENCE
        while not spool.has_ended:
            assert time.monotonic() < until
            time.sleep(0.01)
    assert places(read(feed)) == [(2, 6)]
    assert feed.ended
    feed.close()
    source = SilentSource()
    with receiving([GrowingInput(LIKE, source=source)], tmp_path.parent / "other") as reception:
        assert reception.receivers == {"in": source.made[0]}
    folder = spool_folder(tmp_path.parent / "other", "in")
    (folder / SPOOL_END).touch()
    with receiving([GrowingInput(LIKE, source=source)], tmp_path.parent / "other") as reception:
        assert (reception.receivers, len(source.made)) == ({}, 1)
        with pytest.raises(AllEnded):
            reception.first_has_dates()


class SilentSource:
    """A source of receivers, which are counted."""

    address = "http://h"

    def __init__(self) -> None:
        self.made: list[SilentReceiver] = []

    def receiver(self) -> SilentReceiver:
        self.made.append(SilentReceiver())
        return self.made[-1]


def test_reading_continues_at_any_position(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        for number in range(8):
            send(spool, number)
    whole = SegmentsFeed(Segments(LIKE, tmp_path))
    ends: list[InputPoint] = [whole.end]
    while whole.read(1) is not None:
        ends.append(whole.end)
    whole.close()
    assert ends[0] == BEGIN
    for number, end in enumerate(ends):
        assert [line for line, _ in places(read_all(tmp_path, end))] == list(range(number + 1, 9))


def test_records_are_those_of_a_task(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        send(spool, *range(5))
    found = read_all(tmp_path)
    file = Segments(LIKE, tmp_path).open(0)
    for stop in [record.offset for record in found] + [found[-1].end]:
        segment = open_segment(file, BEGIN, elements=False)
        with segment.stream:
            task: list[Record] = []
            while (records := segment.reader.next(stop)) is not None:
                task += records
        assert task == [record for record in found if record.offset < stop]


def test_message_is_not_acknowledged_before_the_disk_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = threading.Event(), os.fsync

    def slow(file: int) -> None:
        assert synced.wait(10)
        fsync(file)

    with opened(tmp_path) as spool:
        send(spool, 1)
        before = published(tmp_path)
        monkeypatch.setattr(os, "fsync", slow)
        kept = threading.Event()
        assert spool.offer([message(2)], kept.set)
        assert not kept.wait(0.1)
        assert published(tmp_path) == before
        synced.set()
        assert kept.wait(10)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_torn_message_is_cut_off_at_the_next_start(tmp_path: Path, cut: int) -> None:
    with opened(tmp_path) as spool:
        send(spool, 1)
        whole = published(tmp_path)
        send(spool, 2)
    path = tmp_path / segment_names(tmp_path)[0]
    os.truncate(path, os.path.getsize(path) - cut)
    (tmp_path / PUBLISHED).write_text(f"{whole[0]} {whole[1]}")
    with opened(tmp_path) as spool:
        send(spool, 3)
    assert places(read_all(tmp_path)) == [(1, 1), (2, 3)]


def test_whole_message_that_was_not_published_is_part_of_the_stream(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        send(spool, 1)
        before = (tmp_path / PUBLISHED).read_text()
        send(spool, 2)
    (tmp_path / PUBLISHED).write_text(before)
    with opened(tmp_path) as spool:
        send(spool, 3)
    assert places(read_all(tmp_path)) == [(1, 1), (2, 2), (3, 3)]


def test_damaged_acknowledged_message_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        send(spool, 1, 2)
    path = tmp_path / segment_names(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[len(MAGIC) + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(Refused, match=r"S114 .*no whole message at byte 8"):
        read_all(tmp_path)
    with pytest.raises(Refused, match="S114"), opened(tmp_path):
        pass


def test_full_spool_accepts_nothing_until_segments_are_released(tmp_path: Path) -> None:
    with opened(tmp_path, 1 << 20) as spool:
        sent = 0
        while deliver(spool, [message(sent, 10_000)], 10):
            sent += 1
        assert 90 < sent < 105
        assert not spool.wait_for_capacity(0.01, 10_000)
        feed, segments = SegmentsFeed(Segments(LIKE, tmp_path)), Segments(LIKE, tmp_path)
        assert len(read(feed)) == sent
        segments.remove(feed.end.file)
        assert spool.wait_for_capacity(10, 10_000)
        send(spool, sent)
        assert places(read(feed)) == [(sent + 1, sent)]
    assert len(segment_names(tmp_path)) == 1
    with opened(tmp_path, 1 << 20) as spool:
        send(spool, 0)
    assert places(read(feed)) == [(sent + 2, 0)]
    feed.close()


def test_failure_of_the_disk_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(tmp_path) as spool:
        send(spool, 1)
        monkeypatch.setattr(os, "fsync", full)
        assert not deliver(spool, [message(2)], 0.5)
        assert str(spool.failure).startswith(f"messages cannot be spooled to {tmp_path}: no space left on device")
        assert not spool.offer([message(3)], lambda: None)


def test_many_senders_share_the_disk(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:

        def send_fifty() -> None:
            for _ in range(50):
                send(spool, 1)

        threads = [threading.Thread(target=send_fifty) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [line for line, _ in places(read_all(tmp_path))] == list(range(1, 401))


def test_queue_is_bounded_in_process() -> None:
    queue = MessageQueue(LIKE, most=3)
    assert queue.offer([message(1), message(2)], lambda: None)
    assert not queue.offer([message(3), message(4)], lambda: None)
    assert queue.offer([message(3)], lambda: None)
    assert not queue.wait_for_capacity(0.01)
    chunk = queue.read(2)
    assert chunk is not None
    assert places(chunk.records) == [(1, 1), (2, 2)]
    assert queue.wait_for_capacity(0)
    assert queue.read(5) is not None
    assert queue.offer([message(number) for number in range(9)], lambda: None)  # more than its bound, into an empty queue


class SilentReceiver:
    """A receiver in whose socket something waits, or nothing."""

    connected = True
    failure = None

    def __init__(self) -> None:
        self.drained = True
        self.ended = False

    def is_drained(self) -> bool:
        return self.drained

    def start(self, inbox: Inbox) -> None:
        """Does nothing: the test offers the messages."""

    def stop(self) -> None:
        """Does nothing."""


def test_spool_tells_up_to_when_nothing_was_left(tmp_path: Path) -> None:
    """The planner's clock goes on only with what the spool has told before an empty read; in the socket nothing is overtaken."""
    segments, receiver = Segments(LIKE, tmp_path), SilentReceiver()
    with opened(tmp_path) as spool:
        time.sleep(0.3)
        assert not (tmp_path / DRAINED).exists(), "no clock asks for it"
        receiver.drained = False
        spool.receiver, spool.marks = receiver, True
        send(spool, 5)
        time.sleep(0.3)
        assert not (tmp_path / DRAINED).exists(), "something waits in the socket"
        before = time.time_ns() // 1_000
        receiver.drained = True
        segments.drained()
        until(lambda: segments.drained() >= before)
    told = int((tmp_path / DRAINED).read_bytes())
    assert Segments(LIKE, tmp_path).drained() < before, "what is told at the first look may have come after the read before it"
    assert told <= time.time_ns() // 1_000
    assert places(read_all(tmp_path)) == [(1, 5)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
