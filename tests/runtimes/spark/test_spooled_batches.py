"""Batches over spooled messages of several elements have, however they are cut, the elements of the messages in one piece."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element
from dotr.runtimes.spark.checkpoint.message_spool import MessageSpool
from dotr.runtimes.spark.exchange.positions import Cut, Offset
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.planning.planner import ScannedInput, ScannedPlan
from dotr.runtimes.spark.tasks.inputs import admit, range_files
from dotr.streams.connectors.receivers import deliver
from dotr.streams.formats.messages import message_decoder
from dotr.streams.formats.segments import Segments
from dotr.streams.lateness import Lateness
from dotr.streams.merge.feeds import InputPoint, SegmentsFeed
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.merge.paces import NoRateLimit
from dotr.streams.records import ElementMap, Format, InputFile, Message
from tests.support.properties import examples

LAST = 1_000_000
SECOND = 1_000_000

Found = tuple[list[tuple[int, str]], list[tuple[int, str, str]]]
"""Times and subjects of elements; line, reason and error of dead letters."""


def like(delay: int, *, single: bool) -> InputFile:
    mapped = ElementMap("t", Document("map", "<http://e/{n}> <http://e/at> {t} ."), each="data[]")
    return InputFile("in", "http://127.0.0.1/", Format.JSON, delay=delay * SECOND, map=mapped, single=single)


def body(number: int, items: Sequence[int | None] | None) -> bytes:
    """A message of items with times; None: one that cannot be read."""
    if items is None:
        return b"broken"
    data = [{"n": f"{number}-{place}", "t": at} if at is not None else {"n": "x"} for place, at in enumerate(items)]
    return json.dumps({"data": data}).encode()


def in_one_piece(spec: InputFile, bodies: Sequence[bytes]) -> Found:
    decode, lateness = message_decoder(spec), Lateness(spec.delay, single=spec.single)
    found: list[tuple[int, str]] = []
    dead: list[tuple[int, str, str]] = []
    for place, each in enumerate(bodies, 1):
        for record in decode(Message(each, place), True):
            letter = lateness.rejection(spec, record)
            if letter is not None:
                dead.append((letter.line, letter.reason.value, letter.why))
            elif record.element is not None:
                found.append((record.element.time, record.element.triples[0][0]))
    return sorted(each for each in found if each[0] < LAST * SECOND), sorted(dead)


def plan_from(spec: InputFile, folder: Path, start: Offset, size: int, tasks: int) -> ScannedPlan:
    at = start.positions[0]
    feed = SegmentsFeed(Segments(spec, folder), InputPoint(at.file, at.offset, at.line))
    scanned = ScannedInput.starting_at(at, feed, spec.delay, single=spec.single, idle=None, pace=NoRateLimit(), bounded=False)
    return ScannedPlan([scanned], start, size, tasks)


def read_batch(spec: InputFile, folder: Path, start: Offset, cuts: Sequence[Cut]) -> Found:
    segments, framed = Segments(spec, folder), Segments(spec, folder).like
    found: list[tuple[int, str]] = []
    dead: list[DeadLetter] = []
    for cut in cuts:
        task = Task.of_json(
            Task.of_cut(start, cut, cuts[-1].time, lambda _, first, last: tuple(map(FoundFile, segments.paths(first, last)))).to_json()
        )
        start = Offset.of_json(Offset(cut.time, cut.positions).to_json())
        for input_range in task.ranges:
            elements: list[Element] = []
            admit(range_files(framed, input_range, trace=False), input_range, task.after, task.until, elements, dead)
            found += [(each.time, each.triples[0][0]) for each in elements]
    return sorted(found), sorted((letter.line, letter.reason.value, letter.why) for letter in dead)


def in_batches(spec: InputFile, folder: Path, parts: Sequence[Sequence[bytes]], size: int, tasks: int) -> Found:
    """Each part is spooled by a new spool. Each batch is planned by a new plan, and then again from its offsets."""
    found: list[tuple[int, str]] = []
    dead: list[tuple[int, str, str]] = []
    offset = Offset.start(1)
    for part in parts:
        spool = MessageSpool(spec, folder, 1 << 30)
        for each in part:
            assert deliver(spool, [Message(each, 0)], 10)
        spool.close()
        while True:
            plan = plan_from(spec, folder, offset, size, tasks)
            while plan.scan():
                pass
            cuts = plan.cuts()
            plan.inputs[0].channel.feed.close()
            if not cuts:
                break
            batch = read_batch(spec, folder, offset, cuts)
            again = plan_from(spec, folder, offset, size, tasks)
            assert read_batch(spec, folder, offset, [again.replan(plan.offset)]) == batch
            again.inputs[0].channel.feed.close()
            found += batch[0]
            dead += batch[1]
            offset = Offset.of_json(plan.offset.to_json())
        Segments(spec, folder).remove(offset.positions[0].file)
    return sorted(each for each in found if each[0] < LAST * SECOND), sorted(dead)


ITEMS = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 12), st.none()), max_size=4)
PARTS = st.lists(st.lists(st.one_of(ITEMS, ITEMS, ITEMS, st.none()), max_size=5), min_size=1, max_size=3)


@given(PARTS, st.integers(0, 6), st.booleans(), st.integers(1, 5), st.integers(1, 3))
@examples(40)
def test_any_batching_is_one_batch(parts: list[list[list[int | None] | None]], delay: int, single: bool, size: int, tasks: int) -> None:
    spec = like(0 if single else delay, single=single)
    bodies = [[body(100 * number + place, items) for place, items in enumerate(part)] for number, part in enumerate(parts)]
    bodies[-1].append(body(9_999, [LAST]))
    with tempfile.TemporaryDirectory() as folder:
        found = in_batches(spec, Path(folder), bodies, size, tasks)
    assert found == in_one_piece(spec, [each for part in bodies for each in part])
