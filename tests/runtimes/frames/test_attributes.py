"""Attributes of one event as columns with types."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from dotr import Program
from dotr.errors.diagnostics import Refused
from dotr.runtimes.frames.results import attribute_types
from dotr.spark import Stream, attributes_of, events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RULES = """PREFIX : <http://e/>
rule Seen "" define Seen = [ [] a :Seen ]
from T = [ SELECT ?room ?text ?v ?hot WHERE { ?t :room ?room ; :text ?text ; :value ?v BIND(?v > 50 AS ?hot) } ]
and ?n = count(*) of Before = [ SELECT ?v WHERE { ?t :value ?v FILTER(?v >= 0) } ] within 1 min from T
and ?mean = avg(Further.?v) of Further = [ SELECT ?v WHERE { ?t :value ?v FILTER(?v >= 0) } ] within 1 min from T
with Seen.?room = T.?room, Seen.?text = T.?text, Seen.?v = T.?v, Seen.?hot = T.?hot, Seen.?n = ?n, Seen.?mean = ?mean,
     Seen.?at = time(T), Seen.?time = ?n + 1
rule Again "" define Twice = [ [] a :Twice ] from Seen with Twice.?n = Seen.?n * 2, Twice.?what = IF(Seen.?hot, Seen.?n, Seen.?text)
"""


@pytest.fixture
def session(spark: None) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def test_types_follow_from_what_assigns_an_attribute() -> None:
    program = Program.load(text=RULES, prefixes={"": "http://e/"})
    assert attribute_types(program, "Seen") == {
        "at": "timestamp",
        "hot": "boolean",
        "mean": "double",
        "n": "bigint",
        "room": "string",
        "text": "string",
        "time": "bigint",
        "v": "string",
    }
    assert attribute_types(program, "Twice") == {"n": "double", "what": "string"}


def test_terms_become_values_of_their_column(session: SparkSession) -> None:
    program = Program.load(text=RULES, prefixes={"": "http://e/"})
    text = 'say "hi"\\\n\t\u0001é😀'
    rows = session.createDataFrame([(10, "a", text, 70.5), (20, "b", "", 2.5)], "ts long, room string, text string, v double")
    found = events(program, [Stream(rows, time="ts", map="[] :room :{room} ; :text {text} ; :value {v} .")])
    seen = attributes_of(found, program, "Seen")
    assert [f"{field.name} {field.dataType.simpleString()}" for field in seen.schema] == [
        "time timestamp",
        "rule string",
        "at timestamp",
        "hot boolean",
        "mean double",
        "n bigint",
        "room string",
        "text string",
        "attribute_time bigint",
        "v string",
    ]
    assert [tuple(row)[3:] for row in seen.orderBy("time").collect()] == [
        (True, None, 0, "http://e/a", text, 1, "70.5"),
        (False, 70.5, 1, "http://e/b", "", 2, "2.5"),
    ]
    assert [row.at.timestamp() - row.time.timestamp() for row in seen.collect()] == [0, 0]
    assert [tuple(row)[1:] for row in attributes_of(found, program, "Twice").orderBy("time").collect()] == [
        ("Again", 0, "0"),
        ("Again", 2, ""),
    ]


def test_times_of_date_times_are_timestamps(session: SparkSession) -> None:
    program = Program.load(text=RULES, prefixes={"": "http://e/"})
    rows = session.createDataFrame([(datetime(2024, 3, 1, 12, 0, 0, 250_000), 1)], "ts timestamp, v int")
    found = events(program, [Stream(rows, time="ts", map="[] :room :a ; :text 'x' ; :value {v} .")])
    assert [row.at == row.time for row in attributes_of(found, program, "Seen").collect()] == [True]


def test_an_unknown_event_is_refused(session: SparkSession) -> None:
    program = Program.load(text=RULES, prefixes={"": "http://e/"})
    with pytest.raises(Refused, match=r"C268 no event is called Sen\nDid you mean Seen\?"):
        attributes_of(session.range(1), program, "Sen")
