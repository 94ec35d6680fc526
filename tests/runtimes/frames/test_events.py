"""Events over DataFrames, batch and streaming."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dotr import Program
from dotr.spark import Stream, events
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HEATED = """PREFIX : <http://e/>
rule Heated "" define Fire = [ [] a :Fire ; :room ?room ]
from Smoke = [ SELECT ?room WHERE { ?s a :Smoke ; :room ?room } ]
and last Hot = [ SELECT ?room ?v WHERE { ?t :room ?room ; :value ?v FILTER(?v > 50 && ?room = Smoke.?room) } ] within 5 min from Smoke
with Fire.?room = Smoke.?room, Fire.?v = Hot.?v
"""


@pytest.fixture
def session(spark: None) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


def test_batch_gives_the_events_of_all_rows(session: SparkSession) -> None:
    program = Program.load(text=HEATED, prefixes={"": "http://e/"})
    readings = session.createDataFrame([(10, "a", 70), (11, "b", 40), (20, "b", 60), (None, "c", 1)], "ts long, room string, value int")
    smoke = session.createDataFrame([(12, "a"), (15, "b"), (400, "b")], "ts long, room string")
    session.conf.set("spark.sql.shuffle.partitions", "200")
    found = events(
        program,
        [
            Stream(readings, time="ts", map="[] :room '{room}' ; :value {value} .", name="readings"),
            Stream(smoke, time="ts", map="[] a :Smoke ; :room '{room}' .", name="smoke"),
        ],
    )
    session.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        rows = found.collect()
        tasks = found.rdd.getNumPartitions()
    finally:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.adaptive.enabled", "false")
    assert tasks <= 2  # Spark fits them to the rows
    fired = [(row.time.timestamp(), row.rule, row.event, row.attributes["room"], row.attributes["v"]) for row in rows if row.dead is None]
    assert fired == [(12, "Heated", "Fire", '"a"', '"70"^^<http://www.w3.org/2001/XMLSchema#integer>')]
    assert [(row.time, row.dead.reason, row.dead.input) for row in rows if row.dead] == [(None, "unreadable", "readings")]


def test_workers_of_the_driver_find_the_package(session: SparkSession, tmp_path: Path) -> None:
    """As under spark-submit with `--py-files`, which executors alone have: the worker that opens a stateful operator would find no dotr."""
    environment = session.sparkContext.environment
    before = environment.pop("PYTHONPATH", "")
    try:
        rows = session.readStream.schema("ts long, room string").json(str(tmp_path))
        events(Program.load(text=HEATED, prefixes={"": "http://e/"}), [Stream(rows, time="ts", map="[] a :Smoke ; :room '{room}' .")])
        assert str(ROOT) in environment["PYTHONPATH"].split(os.pathsep)
    finally:
        environment["PYTHONPATH"] = before or str(ROOT)


def test_explained_events_have_the_events_of_their_match(session: SparkSession) -> None:
    program = Program.load(text=HEATED, prefixes={"": "http://e/"})
    rows = session.createDataFrame([(10, "a", 70, None), (12, "a", None, "Smoke")], "ts long, room string, value int, kind string")
    stream = Stream(rows, time="ts", map="[] :room '{room}' ; :value {value} ; a :{kind} .")
    found = events(program, [stream], explain=True)
    assert found.columns[-1] == "because"
    [row] = found.collect()
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    assert json.loads(row.because) == {
        "Smoke": {"time": 12, "attributes": {"room": '"a"'}},
        "Hot": {"time": 10, "attributes": {"room": '"a"', "v": f'"70"{integer}'}},
    }
    assert list(json.loads(row.because)) == ["Smoke", "Hot"]
    assert dict(row.attributes) == {"room": '"a"', "v": f'"70"{integer}'}
    [plain] = events(program, [stream]).collect()
    assert row.graph == plain.graph
    assert "because" not in plain.asDict()
