"""Elements that are ahead of the timestamp of their message: dead letters, whatever the format, the transport and the reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Reason
from dotr.streams.connectors.receivers import MessageQueue
from dotr.streams.formats.messages import message_decoder
from dotr.streams.formats.segments import MAGIC, SegmentReader, encode_frame
from dotr.streams.lateness import Lateness, TimeFilter
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.records import START, ElementMap, Format, InputFile, Message, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

SECOND = 1_000_000
DAY = 86_400 * SECOND
SPEC = InputFile("in", "t/0", Format.NDJSON, ahead=DAY)


def ndjson(time: int, graph: str = "") -> bytes:
    return f'{{"time": {time}, "graph": "{graph}"}}'.encode()


def test_element_at_the_bound_is_taken_and_one_beyond_it_is_none() -> None:
    decode = message_decoder(SPEC)
    for message in (Message(b"", 0, timestamp=5 * SECOND), Message(b"", 0, received=5 * SECOND), Message(b"", 0, 5 * SECOND, 9 * DAY)):
        [taken] = decode(message._replace(body=ndjson(86_405)), True)
        assert (taken.time, taken.element) == (DAY + 5 * SECOND, Element(DAY + 5 * SECOND, ()))
        [ahead] = decode(message._replace(body=ndjson(86_406)), True)
        assert (ahead.time, ahead.judged_time, ahead.reason) == (None, None, Reason.AHEAD)
        letter = ahead.dead_letter(SPEC)
        assert (letter.reason, letter.time, letter.text) == (Reason.AHEAD, DAY + 6 * SECOND, ndjson(86_406).decode())
        assert letter.why == (
            "its time is 86,401 s after the timestamp of its message, 1970-01-01T00:00:05Z, more than its input's ahead of 86,400 s"
        )


def test_message_without_a_timestamp_is_never_ahead() -> None:
    [record] = message_decoder(SPEC)(Message(ndjson(10**9), 0), True)
    assert record.time == 10**9 * SECOND


@pytest.mark.parametrize("graph", ["", "broken"])
def test_scan_and_reading_find_the_same_elements_ahead(graph: str) -> None:
    decode = message_decoder(SPEC)
    message = Message(ndjson(10**9, graph), 0, timestamp=0)
    records = decode(message, True)
    assert [each.reason for each in records] == [Reason.AHEAD]
    assert_scan_of(decode(message, False), records)


def test_element_ahead_makes_no_other_late() -> None:
    csv = ElementMap("t", Document("map", "<http://e/s> <http://e/p> {v} ."), columns=("t", "v"))
    items = ElementMap("t", Document("map", "<http://e/s> <http://e/p> {v} ."), each="items[]")
    for spec, bodies in (
        (SPEC, [ndjson(1), ndjson(10**9), ndjson(2)]),
        (replace(SPEC, format=Format.CSV, map=csv), [b"1,7\n1000000000,7\n2,7"]),
        (replace(SPEC, format=Format.JSON, map=items), [b'{"items": [{"t": 1, "v": 7}, {"t": 1000000000, "v": 7}, {"t": 2, "v": 7}]}']),
    ):
        decode, lateness = message_decoder(spec, TimeFilter()), Lateness(0)
        found: list[Record | DeadLetter] = []
        for body in bodies:
            found += [lateness.rejection(spec, each) or each for each in decode(Message(body, 0, timestamp=0), True)]
        first, letter, last = found
        assert isinstance(letter, DeadLetter)
        assert letter.reason is Reason.AHEAD
        assert isinstance(first, Record)
        assert isinstance(last, Record)
        assert (first.element is not None, last.element is not None) == (True, True)


def test_queue_in_process_counts_from_reception() -> None:
    queue = MessageQueue(replace(SPEC, ahead=0))
    queue.offer([Message(ndjson(0), 0), Message(ndjson(10**10), 0)], lambda: None)
    chunk = queue.read(10)
    assert chunk is not None
    assert [each.reason for each in chunk.records if each.time is None] == [Reason.AHEAD]
    assert [each.time for each in chunk.records] == [0, None]


def test_tasks_of_spark_read_a_spool_again_as_it_was_received(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from dotr.runtimes.spark.exchange.positions import END
    from dotr.runtimes.spark.exchange.task import InputRange
    from dotr.runtimes.spark.tasks.inputs import admit, range_files

    path = tmp_path / "0-1.messages"
    times = (1, 10**9, 2)
    path.write_bytes(MAGIC + b"".join(encode_frame(Message(ndjson(time), place, received=0)) for place, time in enumerate(times, 1)))
    spec = InputFile.from_json(replace(SPEC, path=str(path), framed=True).to_json())
    with path.open("rb") as stream:
        reader, offsets = SegmentReader(stream, spec, START, elements=False), list[int]()
        while records := reader.next():
            offsets += [record.offset for record in records]
    for after, until, own, letters in ((0, SECOND, offsets[1], 0), (SECOND, 2 * SECOND, END, 1), (0, 2 * SECOND, END, 1)):
        task = InputRange(0, 0, 1, -(1 << 62), END, own, paths=(FoundFile(str(path)),))
        if own != END:
            task = task._replace(own_file=0)
        elements: list[Element] = []
        found: list[DeadLetter] = []
        admit(range_files(spec, task, trace=False), task, after, until, elements, found)
        assert [each.time // SECOND for each in elements] == [time for time in (1, 2) if after < time * SECOND <= until]
        assert [each.reason for each in found] == [Reason.AHEAD] * letters
        assert [each.time for each in found] == [10**9 * SECOND] * letters
