"""Rows of DataFrames as triples of the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dotr import Program
from dotr.errors.diagnostics import Refused
from dotr.spark import Background, Stream, events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ABOVE = """PREFIX : <http://e/>
rule Above "" define Hot = [ [] a :Hot ; :floor ?floor ]
from T = [ SELECT ?room ?floor WHERE { ?t :room ?room ; :value ?v . ?room :floor ?floor ; :limit ?max FILTER(?v > ?max) } ]
with Hot.?floor = T.?floor
"""
FLOORS = ":{room} :floor {floor} ; :limit {limit} ; :seen [ :in {room} ] ."


@pytest.fixture
def session(spark: None) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


def test_rows_are_part_of_the_background(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("background")
    (folder / "limits.ttl").write_text("@prefix : <http://e/> . :lab :limit 90 .")
    (folder / "attic.csv").write_text("room,limit\nattic,20\n")
    program = Program.load(
        text=ABOVE,
        graphs=folder / "limits.ttl",
        tables=[{"path": str(folder / "attic.csv"), "format": "csv", "map": ":{room} :limit {limit} ."}],
        prefixes={"": "http://e/"},
    )
    floors = session.createDataFrame(
        [("hall", 0, 50), ("lab", 1, None), ("attic", 2, None), (None, 3, 1)], "room string, floor int, limit int"
    )
    readings = session.createDataFrame(
        [(1, "hall", 60), (2, "lab", 60), (3, "attic", 30), (4, "cellar", 99)], "ts long, room string, v int"
    )
    stream = Stream(readings, time="ts", map="[] :room :{room} ; :value {v} .")
    found = events(program, [stream, Background(floors, map=FLOORS)]).collect()
    assert sorted((row.time.timestamp(), row.attributes["floor"].partition("^^")[0]) for row in found) == [(1, '"0"'), (3, '"2"')]


def test_a_row_that_cannot_be_read_is_told_at_the_start(session: SparkSession) -> None:
    program = Program.load(text=ABOVE, prefixes={"": "http://e/"})
    floors = session.createDataFrame([("hall", "n/a"), ("lab", "1")], "room string, floor string")
    stream = Stream(session.range(1), time="id", map="[] :room {id} .")
    with pytest.raises(Refused, match=r"K104 background 1: floor: 'n/a' is no integer: .*\"hall\""):
        events(program, [stream, Background(floors, map=":{room} :floor {floor:integer} .")])
