"""Rows of DataFrames as elements: times, records, and the triples that a worker reads of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dotr import Limits, Program
from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.model.terms import literal
from dotr.model.time import Unit
from dotr.runtimes.frames.reading import RowSource, read_record, why_unreadable
from dotr.runtimes.frames.stream import Background, Stream, selected, sources_of
from dotr.spark import attributes_of, events
from dotr.streams.formats.reading import Reader
from dotr.streams.records import ElementMap, Format, InputFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

XSD = "http://www.w3.org/2001/XMLSchema#"
RULE = 'PREFIX : <http://e/> rule R "" define Seen = [ [] a :Seen ] from T = [ SELECT ?v WHERE { ?r :v ?v } ]'


@pytest.fixture(scope="module")
def program() -> Program:
    return Program.load(text=RULE, prefixes={"": "http://e/"})


@pytest.fixture
def session(spark: None) -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def frame(session: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    return session.createDataFrame(list(rows), schema)


def source_of(program: Program, stream: Stream) -> RowSource:
    [source] = sources_of(program, [stream])
    return RowSource.from_json(source.to_json())


def triples(program: Program, stream: Stream) -> list[list[str]]:
    """The objects of the triples of each row."""
    source = source_of(program, stream)
    return [[value for _, _, value in read_record(source, row.record)] for row in selected(stream.df, source).collect()]


def times(program: Program, stream: Stream) -> list[int | None]:
    return [row.time for row in selected(stream.df, source_of(program, stream)).collect()]


def problems(program: Program, *given: Stream | Background) -> list[str]:
    with pytest.raises(Refused) as refused:
        sources_of(program, given)
    return [f"{each.code} {each.message} | {each.hint}" for each in refused.value.diagnostics]


def test_types_decide_the_literal(program: Program, session: SparkSession) -> None:
    values = (7, 2**62, Decimal("7.50"), 21.5, 1.5, True, "007", datetime(2024, 3, 1, 12, 0, 0, 5), date(2024, 3, 1), None)
    schema = "i INT, l LONG, d DECIMAL(10,2), x DOUBLE, f FLOAT, b BOOLEAN, s STRING, n TIMESTAMP_NTZ, day DATE, missing STRING, at LONG"
    rows = frame(session, [(*values, 10)], schema)
    cells = ", ".join(f"{{{name.split()[0]}}}" for name in schema.split(", ")[:-1])
    assert triples(program, Stream(rows, time="at", map=f":s :p {cells} .")) == [
        [
            f'"7"^^<{XSD}integer>',
            f'"{2**62}"^^<{XSD}integer>',
            f'"7.50"^^<{XSD}decimal>',
            f'"21.5"^^<{XSD}double>',
            f'"1.5"^^<{XSD}float>',
            f'"true"^^<{XSD}boolean>',
            '"007"',
            f'"2024-03-01T12:00:00.000005"^^<{XSD}dateTime>',
            f'"2024-03-01"^^<{XSD}date>',
        ]
    ]


def test_timestamps_are_in_utc_whatever_the_zone_of_the_session(program: Program, session: SparkSession) -> None:
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = frame(
            session, [(datetime(2024, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC), datetime(2024, 3, 10, 2, 30))], "t TIMESTAMP, n TIMESTAMP_NTZ"
        )
        stream = Stream(rows, time="t", map=":s :p {t}, {n} .")
        assert triples(program, stream) == [[f'"2024-03-01T12:00:00.250000Z"^^<{XSD}dateTime>', f'"2024-03-10T02:30:00"^^<{XSD}dateTime>']]
        assert times(program, stream) == [1_709_294_400_250_000]
        assert times(program, Stream(rows, time="n", map=":s :p 1 .")) == [1_710_037_800_000_000]
    finally:
        session.conf.unset("spark.sql.session.timeZone")


HOSTILE = [
    '"',
    "\\",
    "\u0000",
    "\u0001\b\f\n\r\t",
    "\u2028\u2029",
    "\x7f\u0085",
    "𝔘😀",
    "é\u0301",
    "{room}",
    "%41",
    "NaN",
    "null",
    "</x>",
    "1e400",
    "",
]


def test_strings_arrive_with_every_character(program: Program, session: SparkSession) -> None:
    rows = frame(session, [(number, text) for number, text in enumerate(HOSTILE)], "at LONG, s STRING")
    source = source_of(program, Stream(rows, time="at", map=":s :p {s} ."))
    found = {row.time // 1_000_000: read_record(source, row.record) for row in selected(rows, source).collect()}
    assert {number: [value for _, _, value in triples] for number, triples in found.items()} == {
        number: [literal(text)] for number, text in enumerate(HOSTILE)
    }


def test_doubles_and_floats_keep_their_value(program: Program, session: SparkSession) -> None:
    values = [0.1 + 0.2, 1e-7, 1e300, 5e-324, -0.0, 123456789.125, 1e14, float("nan"), float("inf"), float("-inf"), 20.0]
    rows = frame(session, [(0, value) for value in values], "at LONG, x DOUBLE").coalesce(1)
    found = [each[0].partition('"^^')[0][1:] for each in triples(program, Stream(rows, time="at", map=":s :p {x} ."))]
    assert [repr(float(text)) for text in found] == [repr(value) for value in values]
    assert found[-4:] == ["NaN", "INF", "-INF", "20"]
    narrow = rows.selectExpr("at", "CAST(x AS FLOAT) AS x").where("x = 123456792 OR isnan(x) OR x = 20")
    assert [each[0].partition('"^^')[0][1:] for each in triples(program, Stream(narrow, time="at", map=":s :p {x} ."))] == [
        "123456790",
        "NaN",
        "20",
    ]


def test_decimals_keep_all_digits(program: Program, session: SparkSession) -> None:
    values = ["12345678901234567890.123456789012345678", "0E-18", "-0.000000000000000001", None]
    rows = frame(session, [(0, None if value is None else Decimal(value)) for value in values], "at LONG, d DECIMAL(38,18)").coalesce(1)
    assert triples(program, Stream(rows, time="at", map=":s :p {d} .")) == [
        [f'"12345678901234567890.123456789012345678"^^<{XSD}decimal>'],
        [f'"0.000000000000000000"^^<{XSD}decimal>'],
        [f'"-0.000000000000000001"^^<{XSD}decimal>'],
        [],
    ]


def test_cells_name_fields_and_items(program: Program, session: SparkSession) -> None:
    schema = "at LONG, device STRUCT<id: STRING, pos: STRUCT<x: DOUBLE>>, tags ARRAY<STRING>, "
    schema += "parts ARRAY<STRUCT<n: INT, t: TIMESTAMP_NTZ>>, `a.b` INT"
    rows = frame(
        session,
        [
            (1, ("d/1", (1.5,)), ["a", None, "b"], [(1, datetime(2024, 3, 1)), (None, None), None], 7),
            (2, None, None, None, None),
        ],
        schema,
    ).coalesce(1)
    template = ":{device.id} :x {device.pos.x} ; :tag {tags[]} ; :part [ :n {parts[].n} ; :t {parts[].t} ] ; "
    template += ':first {tags[0]} ; :ab {a.b}, {"a.b"} .'
    source = source_of(program, Stream(rows, time="at", map=template))
    first, second = [read_record(source, row.record) for row in selected(rows, source).collect()]
    assert [(s, p.removeprefix("<http://e/")[:-1], o.partition("^^")[0]) for s, p, o in first] == [
        ("<http://e/d%2F1>", "x", '"1.5"'),
        ("<http://e/d%2F1>", "tag", '"a"'),
        ("<http://e/d%2F1>", "tag", '"b"'),
        ("<http://e/d%2F1>", "part", "_:0"),
        ("_:0", "n", '"1"'),
        ("_:0", "t", '"2024-03-01T00:00:00"'),
        ("<http://e/d%2F1>", "part", "_:1"),
        ("<http://e/d%2F1>", "part", "_:2"),
        ("<http://e/d%2F1>", "first", '"a"'),
        ("<http://e/d%2F1>", "ab", '"7"'),
    ]
    assert second == ()


def test_names_are_those_of_spark_whatever_their_case(program: Program, session: SparkSession) -> None:
    rows = frame(session, [(1, ("x",), 7)], "At LONG, Device STRUCT<Id: STRING>, Value INT")
    assert triples(program, Stream(rows, time="at", map=":{device.id} :p {VALUE}, '{value} K' .")) == [[f'"7"^^<{XSD}integer>', '"7 K"']]


def test_typed_cells_read_texts(program: Program, session: SparkSession) -> None:
    rows = frame(session, [(1, " 7.50 ", "n/a", 1e-7)], "at LONG, c STRING, d STRING, x DOUBLE")
    assert triples(program, Stream(rows, time="at", map=":s :p {c:decimal}, {d:decimal?}, {x:decimal}, {c:string} .")) == [
        [f'"7.5"^^<{XSD}decimal>', f'"0.0000001"^^<{XSD}decimal>', '" 7.50 "']
    ]
    with pytest.raises(ValueError, match="d: 'n/a' is no decimal"):
        triples(program, Stream(rows, time="at", map=":s :p {d:decimal} ."))


def test_times_of_every_kind(session: SparkSession) -> None:
    minutes = Program.load(text=RULE, unit="min")
    rows = frame(
        session,
        [
            (5, 5, date(1970, 1, 2), datetime(1970, 1, 1, 0, 1)),
            (None, None, None, None),
            (2**62, -1, date(1969, 12, 31), datetime(1969, 12, 31)),
        ],
        "l LONG, i INT, d DATE, n TIMESTAMP_NTZ",
    ).coalesce(1)
    found = {name: times(minutes, Stream(rows, time=name, map="<x:s> <x:p> 1 .")) for name in "lidn"}
    day = 86_400_000_000
    assert found == {
        "l": [300_000_000, None, None],
        "i": [300_000_000, None, -60_000_000],
        "d": [day, None, -day],
        "n": [60_000_000, None, -day],
    }
    least = session.sql("SELECT named_struct('at', -9223372036854775808L) AS deep")
    assert times(Program.load(text=RULE, unit="us"), Stream(least, time="deep.at", map="<x:s> <x:p> 1 .")) == [None]
    moments = [row.moment for row in selected(rows, source_of(minutes, Stream(rows, time="l", map="<x:s> <x:p> 1 ."))).collect()]
    assert moments[1] == moments[2] == datetime.fromtimestamp(0)


def test_graphs_are_read_in_their_format(program: Program, session: SparkSession) -> None:
    texts = {
        "turtle": ":a :p 1 . # as in a configuration",
        "ntriples": '<http://e/a> <http://e/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        "trig": ":g { :a :p 1 }",
        "jsonld": '{"@id": "http://e/a", "http://e/p": 1}',
    }
    for form, text in texts.items():
        rows = frame(session, [(1, text)], "at LONG, g STRING")
        source = source_of(program, Stream(rows, time="at", graph="g", format=form))
        assert [read_record(source, row.record) for row in selected(rows, source).collect()] == [
            (("<http://e/a>", "<http://e/p>", f'"1"^^<{XSD}integer>'),)
        ], form


def test_times_are_whole_in_the_legacy_policy_of_spark_too(program: Program, session: SparkSession) -> None:
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        moments = "TIMESTAMP'2024-03-01 12:00:00.000250Z' AS t, TIMESTAMP_NTZ'2024-03-01 12:00:00.25' AS n, DATE'2024-03-01' AS d"
        rows = session.sql(f"SELECT {moments}")
        assert [
            [text.partition("^^")[0] for text in each] for each in triples(program, Stream(rows, time="t", map=":s :p {t}, {n}, {d} ."))
        ] == [['"2024-03-01T12:00:00.000250Z"', '"2024-03-01T12:00:00.250000"', '"2024-03-01"']]
    finally:
        session.conf.unset("spark.sql.legacy.timeParserPolicy")


def test_rows_of_a_map_without_cells_are_elements(program: Program, session: SparkSession) -> None:
    assert triples(program, Stream(session.range(2), time="id", map=":s :p 1 .")) == [[f'"1"^^<{XSD}integer>']] * 2


def test_rows_are_the_elements_of_a_file_of_parquet(program: Program, session: SparkSession, tmp_path: Path) -> None:
    from pyarrow import parquet

    rng = random.Random(7)

    def number(spread: int) -> float:
        return rng.choice([-1, 1]) * rng.random() * 10.0 ** rng.randint(-spread, spread)

    made = [
        (
            number_ * 1_000_000,
            rng.randint(-(2**63), 2**63 - 1),
            number(300),
            number(30),
            Decimal(rng.randint(-(10**20), 10**20)).scaleb(-rng.randint(0, 6)),
            datetime(1970, 1, 2, tzinfo=UTC) + timedelta(microseconds=rng.randint(-(10**16), 10**16)),
            datetime(1970, 1, 2) + timedelta(microseconds=rng.choice([0, 250_000, 1]), days=rng.randint(-700_000, 2_900_000)),
            date(1970, 1, 1) + timedelta(days=rng.randint(-700_000, 2_900_000)),
            rng.choice([True, False, None]),
            "".join(rng.choices(["a", '"', "\\", "\n", "é", "😀", "{", "7"], k=rng.randint(0, 6))),
            ([number(3) for _ in range(rng.randint(0, 3))], rng.choice([None, rng.random()])),
        )
        for number_ in range(300)
    ]
    schema = "at LONG, l LONG, x DOUBLE, f FLOAT, d DECIMAL(27,6), t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, b BOOLEAN, s STRING, "
    rows = session.createDataFrame(made, schema + "deep STRUCT<many: ARRAY<FLOAT>, one: DOUBLE>").coalesce(1)
    names = ("l", "x", "f", "d", "t", "n", "day", "b", "s", "deep.one", "deep.many[]")
    template = f"[] {' ; '.join(f':p{place} {{{name}}}' for place, name in enumerate(names))} ; :text 'of {{x}}, {{t}}' ."
    parquet.write_table(rows.toArrow(), tmp_path / "rows.parquet")
    mapped = ElementMap("at", Document("map", template))
    file = InputFile("rows", str(tmp_path / "rows.parquet"), Format.PARQUET, Unit.MICROSECOND, prefixes=(("", "http://e/"),), map=mapped)
    with Reader(file) as reader:
        elements = [each.element for each in reader.records()]
    source = source_of(Program.load(text=RULE, prefixes={"": "http://e/"}, unit="us"), Stream(rows, time="at", map=template))
    for row, element in zip(selected(rows, source).collect(), elements, strict=True):
        assert element is not None
        assert (row.time, read_record(source, row.record)) == (element.time, element.triples)


RML = """@prefix rr: <http://www.w3.org/ns/r2rml#> . @prefix rml: <http://w3id.org/rml/> .
<#room> rml:logicalSource [ ] ; rr:subjectMap [ rr:template "http://e/{room}" ] ;
  rr:predicateObjectMap [ rr:predicate <http://e/value> ; rr:objectMap [ rr:column "V" ] ] ."""


def test_a_mapping_of_rml_stands_for_a_map(program: Program, rows: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "rooms.rml.ttl"
    path.write_text(RML)
    columns = source_of(program, Stream(rows, time="ts", map=str(path))).columns
    assert [field["name"] for field in json.loads(columns)["fields"]] == ["room", "v"]
    assert problems(program, Stream(rows, time="ts", map=str(tmp_path / "none.ttl")))[0].startswith("C302 cannot read ")


# --- refusals ---


@pytest.fixture
def rows(session: SparkSession) -> DataFrame:
    schema = "ts TIMESTAMP, room STRING, v DOUBLE, tags ARRAY<STRING>, parts ARRAY<STRUCT<n: INT>>, device STRUCT<id: STRING>, raw BINARY, "
    return frame(session, [], schema + "kept MAP<STRING, INT>, gap INTERVAL DAY TO SECOND, at LONG")


def test_columns_that_are_not_there_are_told_all_at_once(program: Program, rows: DataFrame) -> None:
    found = problems(
        program,
        Stream(rows, time="tss", map=":{rom} :v {device.ID}, {device.name} .", name="readings"),
        Background(rows, map=":s :p {w} ."),
    )
    columns = "Its columns are ts, room, v, tags, parts, device, raw, kept, gap, at."
    assert found == [
        f"I103 the DataFrame has no column tss, which time of stream readings names | Did you mean ts? {columns}",
        f"I103 the DataFrame has no column rom, which map names | Did you mean room? {columns}",
        "I103 device has no field name, which map names | Its fields are id.",
        f"I103 the DataFrame has no column w, which map names | {columns}",
    ]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("tags", "C290 tags is an array, and the map needs one value | Write {tags[]} for each item, or {tags[0]} for the first."),
        ("parts[]", "C290 parts[] is a struct, and the map needs one value | Name one of its fields, such as {parts[].n}: it has n."),
        (
            "parts.n",
            "C290 parts is an array, whose items may have a field n | Write {parts[].n} for each item, or {parts[0].n} for the first.",
        ),
        ("tags.n", "C290 tags is an array, whose items have no field n | Write {tags[]} for each item, or {tags[0]} for the first."),
        ("device", "C290 device is a struct, and the map needs one value | Name one of its fields, such as {device.id}: it has id."),
        ("room[]", "C290 room is of type string, and no array | Write {room}."),
        ("room.x", 'C290 room is of type string, and has no field x | Write {room}, or {"room.x"} for a column of that name.'),
        ("raw", 'C290 raw is of type binary, which is no term | Make it text first: F.base64("raw"), or F.decode("raw", "UTF-8").'),
        ("kept", 'C290 kept is of type map, which is no term | Select its values as columns first: F.col("kept")["KEY"].alias("KEY").'),
        ("kept.a", 'C290 kept is of type map, and has no field a | Select its values as columns first: F.col("kept")["KEY"].alias("KEY").'),
        (
            "gap",
            "C290 gap is of type interval day to second, which is no term | "
            'Make it a number first, such as F.expr("extract(SECOND FROM gap)").',
        ),
        ("a..b", 'T107 a member\'s name is missing after a. | A path is written a.b, a[0] or a[]; a name with a dot {"a.b"}.'),
        (
            "$topic",
            "T107 $topic is of messages and files, and a row of a DataFrame has columns alone | "
            'A column of that name is written in quotes: {"$topic"}.',
        ),
    ],
)
def test_cells_that_are_no_value_are_refused_at_their_place(program: Program, rows: DataFrame, cell: str, message: str) -> None:
    stream = Stream(rows, time="ts", map=f":s :v {{v}} ;\n :p {{{cell}}} .", name="readings")
    assert problems(program, stream) == [message]
    with pytest.raises(Refused, match=r"map of readings:2:5: "):
        sources_of(program, [stream])


def test_columns_of_another_type_are_refused(program: Program, rows: DataFrame) -> None:
    assert problems(program, Stream(rows, time="room", graph="v", format="ttl", lateness="soon")) == [
        "C290 room, which time of the stream names, is of type string | A time is a TIMESTAMP, or a whole number in the program's unit: "
        'F.to_timestamp("room"), or F.col("room").cast("long").',
        "C205 lateness of the stream: 'soon' is no length of time: write 0 s, 30 s or 5 min | "
        'Write a duration, such as lateness="30 seconds".',
        "C203 format of the stream should be turtle, ntriples, trig or jsonld, not 'ttl' | Did you mean turtle?",
        'C290 v, which graph of the stream names, is of type double | A graph is text, a STRING: F.decode("v", "UTF-8"), or '
        'F.to_json("v") for format="jsonld".',
    ]


def test_ways_out_are_texts_that_spark_accepts(program: Program, session: SparkSession) -> None:
    from pyspark.sql import functions as F

    rows = session.sql("SELECT named_struct('a.b', 1.5D) AS `the device`, array(1) AS tags, binary('x') AS `raw``data`")
    stream = Stream(rows, time='"the device"."a.b"', map=":s :p {raw`data} .", lateness=timedelta(seconds=5))  # type: ignore[arg-type]
    found = problems(program, stream, Stream(rows, time="tags[0]", map=":s :p 1 .", name="b"))
    assert [each.partition(" | ")[2] for each in found] == [
        "A time is a TIMESTAMP, or a whole number in the program's unit: "
        'F.to_timestamp("`the device`.`a.b`"), or F.col("`the device`.`a.b`").cast("long").',
        'Write a duration, such as lateness="30 seconds".',
        'Make it text first: F.base64("`raw``data`"), or F.decode("`raw``data`", "UTF-8").',
        'Make an item a column first: df.withColumn("NAME", F.col("ARRAY")[0]).',
    ]
    assert found[1].startswith("C205 lateness of stream stream1: datetime.timedelta(seconds=5) is no length of time: write 0 s, ")
    assert rows.select(F.col("`the device`.`a.b`").cast("long"), F.base64("`raw``data`")).count() == 1


def test_inputs_that_do_not_fit_together_are_refused(program: Program, rows: DataFrame, session: SparkSession) -> None:
    live = session.readStream.format("rate").load()
    found = problems(
        program,
        Stream(rows, time="ts", map=":s :v {v} .", name="a"),
        Stream(live, time="timestamp", graph="value", name="a"),
        Stream(live, time="timestamp", name="b"),
        Stream(live, time="timestamp", map=":s :v {value} .", graph="value", name="c"),
        Background(live, map=":s :v {value} ."),
        Stream(live, time="timestamp", map=":s :v {value} .", format="jsonld", name="d"),
    )
    assert [each[:60] for each in found] == [
        "C291 a Background is a streaming DataFrame, and it is read o",
        "C291 batch and streaming DataFrames are mixed: of 5, a is ba",
        "C290 value, which graph of stream a names, is of type long |",
        "C202 stream b has neither map nor graph | A template makes g",
        "C204 stream c has both map and graph | Leave one out: map ma",
        "C204 stream d has the format 'jsonld' of graphs, and a map |",
        "C203 2 streams have the name a | Give each a name of its own",
    ]
    assert problems(program)[0].startswith("C202 inputs have no Stream")
    assert problems(program, rows)[0] == (  # type: ignore[arg-type]
        "C203 inputs should be a list of Stream and Background, and has a DataFrame | "
        "Write Stream(df, time=…, map=…) or Background(df, map=…)."
    )
    wrong: Any = []
    assert problems(program, Stream(wrong, time="a", map="<x:s> <x:p> 1 ."))[0].startswith(
        "C203 df of Stream should be a DataFrame of Spark"
    )


def test_names_of_columns_that_are_not_unique_are_refused(program: Program, session: SparkSession) -> None:
    rows = frame(session, [], "at LONG, v INT, V STRING")
    stream = Stream(rows, time="at", map=":s :p {v} .")
    assert problems(program, stream)[0].startswith("I104 the DataFrame has 2 columns v and V | ")
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert source_of(program, stream).columns == '{"type": "struct", "fields": [{"name": "v", "type": "integer"}]}'
        assert problems(program, Stream(rows, time="AT", map=":s :p {V} ."))[0].startswith("I103 the DataFrame has no column AT")
    finally:
        session.conf.unset("spark.sql.caseSensitive")
    twice = rows.select("at", "at")
    assert problems(program, Stream(twice, time="at", map=":s :p 1 ."))[0].startswith("I104 the DataFrame has 2 columns at | ")


def test_maps_that_cannot_be_parsed_are_refused_at_their_place(program: Program, rows: DataFrame) -> None:
    with pytest.raises(Refused, match=r"map of readings:1:4: T103 "):
        sources_of(program, [Stream(rows, time="ts", map=":s b:p {v} .", name="readings")])


# --- streams of continuous queries ---


def test_streams_of_queries_are_fed_by_name(rows: DataFrame) -> None:
    query = "PREFIX : <http://e/> REGISTER RSTREAM :q AS SELECT ?r FROM NAMED WINDOW :w ON {stream} [RANGE PT5S STEP PT5S] "
    query += "WHERE {{ WINDOW :w {{ ?r :v 1 }} }}"
    one = Program.load(text={"q.rspql": query.format(stream=":temp")}, prefixes={"": "http://e/"})

    def fed(program: Program, **named: str) -> str:
        return source_of(program, Stream(rows, time="ts", map=":s :p 1 .", **named)).stream

    assert [fed(one), fed(one, name=":temp"), fed(one, name="readings", stream=":temp"), fed(one, name="other")] == [
        "http://e/temp",
        "http://e/temp",
        "http://e/temp",
        "other",
    ]
    assert problems(one, Stream(rows, time="ts", map=":s :p 1 .", name=":tmep")) == [
        "C203 stream :tmep feeds no stream of the program | Did you mean :temp?"
    ]


def test_one_stream_without_a_list_is_refused(program: Program, rows: DataFrame) -> None:
    with pytest.raises(Refused, match="C203 inputs should be a list, not a Stream"):
        sources_of(program, Stream(rows, time="ts", map=":s :p 1 ."))


def test_what_is_no_program_and_no_result_is_refused(program: Program, rows: DataFrame) -> None:
    stream = Stream(rows, time="ts", map=":s :p 1 .")
    for wrong in ("pipeline.yaml", program.session(), [stream]):
        with pytest.raises(Refused, match=f"C203 program should be a Program, not a {type(wrong).__name__}"):
            events(wrong, [stream])  # type: ignore[arg-type]
    with pytest.raises(Refused, match="C203 program should be a Program, not a str"):
        attributes_of(rows, "Seen", "Seen")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="C203 found has no column event, dead\nGive it what events"):
        attributes_of(rows.selectExpr("ts AS time", "room AS rule", "kept AS attributes"), program, "Seen")


def test_records_over_a_limit_are_told_as_such(session: SparkSession) -> None:
    narrow = Program.load(text=RULE, prefixes={"": "http://e/"}, limits=Limits(record=40, nesting=2))
    rows = frame(session, [(1, ":s :p " + "'é'" * 20), (2, ":s :p [ :p [ :p [] ] ] .")], "at LONG, g STRING").coalesce(1)
    source = source_of(narrow, Stream(rows, time="at", graph="g"))
    found = []
    for row in selected(rows, source).collect():
        with pytest.raises(ValueError, match=r"limit|nest") as error:
            read_record(source, row.record)
        found.append(why_unreadable(error.value))
    deep = frame(session, [(1, ([(1,)],))], "at LONG, deep STRUCT<parts: ARRAY<STRUCT<n: INT>>>")
    with pytest.raises(ValueError, match="nest") as error:
        triples(narrow, Stream(deep, time="at", map=":s :p {deep.parts[].n} ."))
    found.append(why_unreadable(error.value))
    assert [reason for reason, _ in found] == [Reason.LIMIT] * 3
    with pytest.raises(ValueError, match="its graph is NULL"):
        read_record(source, None)
