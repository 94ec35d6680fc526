"""Streaming DataFrames on Spark: watermarks, late rows, restarts, the clock."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dotr import Program
from dotr.errors.diagnostics import Refused
from dotr.spark import Stream, events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

PREFIXES = {"": "http://e/"}
HEATED = """PREFIX : <http://e/>
rule Heated "" define Fire = [ [] a :Fire ; :room ?room ]
from Smoke = [ SELECT ?room WHERE { ?s a :Smoke ; :room ?room } ]
and last Hot = [ SELECT ?room ?v WHERE { ?t :room ?room ; :value ?v FILTER(?v > 50 && ?room = Smoke.?room) } ] within 5 min from Smoke
with Fire.?room = Smoke.?room, Fire.?v = Hot.?v
"""
SCHEMA = "ts long, room string, value int"
READING = "[] :room '{room}' ; :value {value} ."
SMOKE = "[] a :Smoke ; :room '{room}' ."

Row = tuple[int | None, str, int | None]
"""Time in seconds, room, and value; smoke without one."""


@pytest.fixture
def session(spark: None) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.fixture
def program() -> Program:
    return Program.load(text=HEATED, prefixes=PREFIXES)


def put(folder: Path, number: int, rows: Sequence[Row]) -> None:
    """The file of a batch, in the order of numbers."""
    folder.mkdir(exist_ok=True)
    written = folder / f".{number}"
    written.write_text("".join(json.dumps({"ts": ts, "room": room, "value": value}) + "\n" for ts, room, value in rows))
    os.utime(written, (1_000 + number, 1_000 + number))
    written.rename(folder / f"{number:03}.json")


class Found(NamedTuple):
    """Events and dead letters of a query by batch: time in seconds, then the room of a fire, or reason, input and record."""

    fires: dict[int, list[tuple[float | None, str]]]
    dead: dict[int, list[tuple[float | None, str, str, str]]]

    def add(self, batch: DataFrame, number: int) -> None:
        for row in batch.collect():
            time = None if row.time is None else row.time.timestamp()
            if row.dead is None:
                self.fires.setdefault(number, []).append((time, row.attributes["room"].strip('"')))
            else:
                self.dead.setdefault(number, []).append((time, row.dead.reason, row.dead.input, row.dead.record))


def read(session: SparkSession, folder: Path) -> DataFrame:
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def run(found: DataFrame, checkpoint: Path, into: Found) -> StreamingQuery:
    """Run a query over all files that are there."""
    writer = found.writeStream.foreachBatch(into.add).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def dropped(query: StreamingQuery) -> int:
    """The rows that Spark itself has left out for their times."""
    return sum(operator["numRowsDroppedByWatermark"] for progress in query.recentProgress for operator in progress["stateOperators"])


def test_late_rows_are_dead_letters_and_none_is_lost(session: SparkSession, program: Program, tmp_path: Path) -> None:
    batches: list[list[Row]] = [
        [(10, "a", 70), (12, "a", None)],
        [(30, "b", 60), (9, "c", 51)],  # the watermark is 10, by the slower stream
        [(50, "b", None), (10, "d", 55), (8, "d", 55)],
        [(29, "e", 1), (8, "e", 2), (60, "e", 3), (None, "e", 4)],  # it is 48, and was 10: 29 is between the two, 8 behind both
        [(48, "f", 6), (100, "a", None)],
        [(500, "z", 1)],
        [(501, "z", None)],  # it is 98, and 499 in a batch without rows behind this one
    ]
    for number, rows in enumerate(batches):
        put(tmp_path / "in", number, rows)
    found = Found({}, {})
    stream = Stream(read(session, tmp_path / "in"), time="ts", map=f"{READING} [] a :Of{{value}} .", lateness="2 s", name="readings")
    both = Stream(read(session, tmp_path / "in").where("value is null"), time="ts", map=SMOKE, lateness="2 seconds", name="smoke")
    query = run(events(program, [stream, both]), tmp_path / "checkpoint", found)
    assert dropped(query) == 0
    late: dict[int, list[tuple[float | None, str]]] = {
        number: [(time, reason) for time, reason, name, _ in letters if name == "readings"] for number, letters in found.dead.items()
    }
    assert {number: sorted(letters, key=str) for number, letters in late.items()} == {
        1: [(9.0, "late")],
        2: [(8.0, "late")],
        3: [(29.0, "late"), (8.0, "late"), (None, "unreadable")],
    }
    assert found.fires == {3: [(12.0, "a")], 5: [(50.0, "b")], 7: [(100.0, "a")]}


def test_query_goes_on_from_its_checkpoint(session: SparkSession, program: Program, tmp_path: Path) -> None:
    found = Found({}, {})
    rows: list[list[Row]] = [
        [(10, "a", 70)],
        [(12, "a", None), (12, "a", None)],
        [(40, "b", 70), (41, "b", None), (40, "b", 70)],
        [(90, "a", 1)],
        [(95, "a", None)],
    ]

    def made() -> DataFrame:
        """A stream that has a watermark of its own, which removes duplicates."""
        given = read(session, tmp_path / "in").selectExpr("timestamp_seconds(ts) as ts", "room", "value")
        given = given.withWatermark("ts", "1 second").dropDuplicates()
        return events(program, [Stream(given, time="ts", map=f"{READING} {SMOKE}", name="readings")])

    for number, batch in enumerate(rows):
        put(tmp_path / "in", number, batch)
        if number in (1, 4):  # the query stops, and starts again
            run(made(), tmp_path / "checkpoint", found)
    assert sorted(each for fires in found.fires.values() for each in fires) == [(12.0, "a"), (41.0, "b"), (90.0, "a")]
    assert found.dead == {}
    session.conf.set("spark.sql.shuffle.partitions", "3")
    put(tmp_path / "in", 9, [(200, "a", 1)])
    with pytest.raises(Exception, match=r"C296 the plan is made for 3 partitions, and the query has 2"):
        run_into_nothing(made(), tmp_path / "checkpoint")
    session.conf.set("spark.sql.shuffle.partitions", "2")


def run_into_nothing(found: DataFrame, checkpoint: Path) -> None:
    writer = found.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_settings_under_which_nothing_can_stream_are_refused(session: SparkSession, program: Program, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    one = Stream(read(session, tmp_path / "in"), time="ts", map=READING, name="one", lateness="1 min")
    two = Stream(read(session, tmp_path / "in"), time="ts", map=READING, name="two")
    planned = events(program, [one, two])
    store = "spark.sql.streaming.stateStore.providerClass"
    before = session.conf.get(store)
    session.conf.set(store, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    session.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        with pytest.raises(Refused) as refused:
            events(program, [one, two])
        assert [(each.code, each.message.partition(":")[0]) for each in refused.value.diagnostics] == [
            ("C295", f"streams need the state store RocksDB, and {store} is {session.conf.get(store)}"),
            ("C295", "spark.sql.streaming.multipleWatermarkPolicy is max"),
        ]
        session.conf.set(store, str(before))
        put(tmp_path / "in", 1, [(10, "a", 1)])
        with pytest.raises(Exception, match=r"C295 spark\.sql\.streaming\.multipleWatermarkPolicy is max"):  # set since the plan
            run_into_nothing(planned, tmp_path / "checkpoint")
    finally:
        session.conf.set(store, str(before))
        session.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "min")
    marked = (
        read(session, tmp_path / "in")
        .selectExpr("timestamp_seconds(ts) as ts", "ts as at", "room", "value")
        .withWatermark("ts", "5 seconds")
    )
    for stream, clock, why in (
        (Stream(marked, time="at", map=READING), None, "and its times are in at"),
        (Stream(marked, time="ts", map=READING, lateness="2 s"), None, "and lateness is 2 s"),
        (Stream(marked, time="ts", map=READING), "10 s", "which a clock cannot move"),
    ):
        with pytest.raises(Refused, match=f"C295 stream has a watermark of its column ts, 5 s behind it, {why}"):
            events(program, [stream], clock=clock)
    with pytest.raises(Refused, match="C204 clock is 10 s, and one has a lateness of 60 s"):
        events(program, [one, two], clock="10 s")


CLOCKED = """PREFIX : <http://e/>
rule Ticked "" define Tick = [ [] a :Tick ] from every 1 s as T
rule Silent "" define Silence = [ [] a :Silence ; :room ?room ] from A = [ SELECT ?room WHERE { ?x :room ?room } ] delayed by 1 s
and not B = [ SELECT ?room WHERE { ?x :room ?room FILTER(?room = A.?room) } ] within (0, 1 s) from A
with Silence.?room = A.?room
"""


def test_clock_goes_on_while_no_row_comes(session: SparkSession, tmp_path: Path) -> None:
    program = Program.load(text=CLOCKED, prefixes=PREFIXES)
    now = int(time.time())
    put(tmp_path / "in", 0, [(now, "a", 1), (now - 60, "b", 1)])
    stream = Stream(read(session, tmp_path / "in"), time="ts", map=READING, name="readings")
    made: list[tuple[str, float]] = []

    def add(batch: DataFrame, number: int) -> None:
        made.extend((row.event, row.time.timestamp()) for row in batch.collect())

    writer = events(program, [stream], clock="1 s").writeStream.foreachBatch(add)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime="0 seconds").start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and query.isActive and ("Silence", now + 1.0) not in made:
        time.sleep(0.1)
    query.stop()
    assert [each for each in made if each[0] == "Silence"] == [("Silence", now - 59.0), ("Silence", now + 1.0)]
    ticks = [at for event, at in made if event == "Tick"]
    assert ticks == [float(each) for each in range(now - 60, int(ticks[-1]) + 1)]
