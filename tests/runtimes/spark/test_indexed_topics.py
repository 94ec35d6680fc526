"""Partitions of bounded topics in the index that tasks make, without a broker: which jobs have one, and its granules."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.evaluation.files.stores import Location
from dotr.model.time import LAST_MICRO
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import BEGINNING, END, Floor, InputPosition, Offset
from dotr.runtimes.spark.exchange.task import RangePartition
from dotr.runtimes.spark.planning.granules import Piece
from dotr.runtimes.spark.planning.indexed_plan import indexed_plan
from dotr.runtimes.spark.planning.indexed_topics import IndexedTopics, offset_range_starts, piece_of_partition
from dotr.runtimes.spark.source import InstantsReader
from dotr.streams.connectors.kafka.topics import LATEST, KafkaInput, LostRange, Partition, PartitionJournal
from dotr.streams.lateness import Lateness
from dotr.streams.records import Format, InputFile, Record

pytestmark = pytest.mark.core

PLAIN = KafkaInput(InputFile("k", "", Format.NDJSON, delay=5), (("bootstrap.servers", "b:1"),), ("t",), end=LATEST)
PARTITIONS = (Partition("t", 0, "", 3, 10), Partition("t", 1, "", 0, 0))


def job_of(topics: KafkaInput, folder: Path) -> Job:
    run = str(folder / "query")
    return Job("{}", ("a",), (0,), "SECOND", False, 1, 2, 2, 1000, 2, run, topics=(topics.to_json(),), granule=7)


def topics_of(topics: KafkaInput, folder: Path, partitions: tuple[Partition, ...] = PARTITIONS) -> IndexedTopics:
    PartitionJournal(Location(str(folder))).add("k", partitions)
    return IndexedTopics(job_of(topics, folder))


def test_partitions_follow_the_other_inputs(tmp_path: Path) -> None:
    topics = topics_of(PLAIN, tmp_path)
    assert (topics.delays, topics.records) == ((5, 5), [7, 0])
    assert (topics.partition(0), topics.partition(1)) == (None, RangePartition("k", "t", 0, 10))
    padded = topics.padded(Offset.start(0))
    assert padded.positions[1:] == (InputPosition(3, 3, BEGINNING), InputPosition(0, 0, BEGINNING))
    assert topics.padded(padded) == padded
    assert topics.can_be_indexed([Offset.start(0), padded])


CHANGED = {
    "it grows": replace(PLAIN, end=""),
    "it may be idle": replace(PLAIN, idle=5),
    "it may lose records": replace(PLAIN, fails_on_loss=False),
}


@pytest.mark.parametrize("topics", CHANGED.values(), ids=CHANGED)
def test_topics_that_need_the_planner_of_growing_inputs_have_no_index(topics: KafkaInput, tmp_path: Path) -> None:
    assert not topics_of(topics, tmp_path).can_be_indexed([])


def test_offsets_with_floors_or_lost_ranges_have_no_index(tmp_path: Path) -> None:
    topics = topics_of(PLAIN, tmp_path)
    padded = topics.padded(Offset.start(0))
    idle = padded.positions[2]._replace(floors=(Floor(0, 0, 7),))
    assert not topics.can_be_indexed([Offset(9, (*padded.positions[:2], idle))])
    assert not topics.can_be_indexed([Offset(9, padded.positions[:2])]), "the last partition is new since"
    PartitionJournal(Location(str(tmp_path))).add_lost(0, LostRange(3, 5))
    assert not IndexedTopics(job_of(PLAIN, tmp_path)).can_be_indexed([])


def test_a_job_with_an_index_ends_and_one_without_is_live(tmp_path: Path) -> None:
    indexed = job_of(PLAIN, tmp_path)
    assert not indexed.live
    assert replace(indexed, granule=0).live


def _records(offsets_and_times: list[tuple[int, int | None]], begin: int, end: int) -> Iterator[Record]:
    for offset, time in offsets_and_times:
        if begin <= offset < end:
            yield Record(offset, offset + 1, offset, time, None, b"")


def test_random_partitions_give_each_element_and_each_dead_letter_once() -> None:
    """Messages of several records, offsets without one, times out of order, a new index at every cut."""
    chance = random.Random(3)
    for _ in range(300):
        length, delay, size = chance.randint(0, 60), chance.choice((0, 2, 5)), chance.randint(1, 6)
        offsets = sorted(chance.choices(range(length), k=length)) if length else []
        stream = [(at, chance.choice((None, at // 2 + chance.randint(-6, 6)))) for at in offsets]
        partition = RangePartition("k", "t", 0, length)
        position, after = InputPosition(0, 0, BEGINNING), BEGINNING
        found: list[tuple[int, int | None]] = []
        until = BEGINNING
        while until < LAST_MICRO:
            starts = offset_range_starts(partition, position.offset, 512 * chance.randint(1, 9))
            ends = (*starts[1:], length)

            def read(_: int, piece: int, starts: tuple[int, ...] = starts, ends: tuple[int, ...] = ends, size: int = size) -> Piece:
                return piece_of_partition(_records(stream, starts[piece], ends[piece]), starts, piece, size)  # noqa: B023

            cut = next(indexed_plan(read, Offset(after, (position,)), [delay], Offset(after, (position,)), 2 * size))
            until, (own,), (stop,) = cut.time, cut.positions, cut.stops
            lateness = Lateness(delay, position.greatest)
            for at, time in _records_between(stream, position.offset, length if stop == END else stop):
                if time is not None and lateness.verdict(time) is None:
                    if after < time <= until:
                        found.append((at, time))
                elif own.offset == END or at < own.offset:
                    found.append((at, time))
            position, after = own, until
            if position.offset == END:
                break
        assert sorted(found, key=repr) == sorted(stream, key=repr)


def _records_between(stream: list[tuple[int, int | None]], begin: int, end: int) -> list[tuple[int, int | None]]:
    return [each for each in stream if begin <= each[0] < end]


def test_batch_of_dead_letters_alone_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner of growing inputs ends such a batch at the time of its start, since no instant closes."""
    from dotr.runtimes.spark import source

    topics_of(PLAIN, tmp_path)
    monkeypatch.setattr(source, "_cuts", lambda *_: iter(()))
    start = Offset(9, (InputPosition(END, 0, 0), InputPosition(4, 4, 20), InputPosition(END, 0, 0)))
    end = Offset(9, (InputPosition(END, 0, 0), InputPosition(6, 6, 20), InputPosition(END, 0, 0)))
    (task,) = InstantsReader(job_of(PLAIN, tmp_path)).partitions(start.to_json(), end.to_json())
    after, until, closed, ranges = json.loads(task.text)
    assert (after, until, closed, [each[:6] for each in ranges]) == (9, 9, 9, [[1, 4, 4, 20, 6, 6]])
    assert ranges[0][-1] == ["k", "t", 0, 10, []]


def test_thread_of_the_planner_starts_after_the_watch_of_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both import modules late; of two threads that import those of one package, one may find a module without its names."""
    from pyspark.sql.streaming.datasource import ReadMaxRows

    from dotr.runtimes.spark import source
    from dotr.runtimes.spark.planning.planned_topics import PlannedTopics

    topics_of(PLAIN, tmp_path)
    order: list[str] = []

    def planned(*_: object) -> object:
        order.append("thread")
        raise InterruptedError

    monkeypatch.setattr(source, "_PlanAhead", planned)
    monkeypatch.setattr(PlannedTopics, "watch", lambda _: order.append("watch"))
    job = job_of(PLAIN, tmp_path)
    with pytest.raises(InterruptedError):
        InstantsReader(job).latestOffset(Offset.start(len(job.inputs)).to_json(), ReadMaxRows(1))
    assert order == ["watch", "thread"]
