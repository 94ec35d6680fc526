"""Parquet inputs: terms by the types of columns, times, places, and files that cannot be read."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.model.terms import XSD
from dotr.streams.formats.reading import Reader, check_input, has_date_times
from dotr.streams.lateness import TimeFilter
from dotr.streams.records import START, ElementMap, Format, InputFile, Position, Record
from tests.conftest import Project

pytestmark = pytest.mark.core

NOON = 1_709_294_400_000_000
"""2024-03-01T12:00:00Z in µs since 1970."""


def file_of(path: Path, template: str, at: str = "t", zone: str | None = None, **settings: Any) -> InputFile:
    mapped = ElementMap(at, Document("map", template), time_zone=zone)
    return InputFile("in", str(path), Format.PARQUET, prefixes=(("", "http://e/"),), map=mapped, **settings)


def write(path: Path, columns: Mapping[str, Any], rows: int = 2) -> Path:
    parquet.write_table(pa.table(dict(columns)), path, row_group_size=rows)
    return path


def read(file: InputFile, position: Position = START, *, elements: bool = True) -> list[Record]:
    with Reader(file, position, elements=elements) as reader:
        return list(reader.records())


def objects(file: InputFile) -> list[list[str]]:
    return [[value for _, _, value in record.element.triples] if record.element else [record.why] for record in read(file)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(pa.array([-5], pa.int8()), f'"-5"^^<{XSD}integer>', id="int8"),
        pytest.param(pa.array([2**64 - 1], pa.uint64()), f'"18446744073709551615"^^<{XSD}integer>', id="uint64"),
        pytest.param(pa.array([Decimal("7.00")]), f'"7.00"^^<{XSD}decimal>', id="decimal"),
        pytest.param(pa.array([Decimal("0.00000001")]), f'"0.00000001"^^<{XSD}decimal>', id="small decimal"),
        pytest.param(pa.array([20.0]), f'"20"^^<{XSD}double>', id="double"),
        pytest.param(pa.array([float("-inf")]), f'"-INF"^^<{XSD}double>', id="infinity"),
        pytest.param(pa.array([0.1], pa.float32()), f'"0.1"^^<{XSD}float>', id="float"),
        pytest.param(pa.array([False]), f'"false"^^<{XSD}boolean>', id="false"),
        pytest.param(pa.array(["007"]), '"007"', id="string"),
        pytest.param(pa.array([""]), '""', id="empty string"),
        pytest.param(pa.array(["a"]).dictionary_encode(), '"a"', id="dictionary"),
        pytest.param(pa.array([date(2024, 2, 29)]), f'"2024-02-29"^^<{XSD}date>', id="date"),
        pytest.param(pa.array([time(7, 30, 0, 5)]), f'"07:30:00.000005"^^<{XSD}time>', id="time of day"),
        pytest.param(pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), f'"2024-03-01T12:00:00Z"^^<{XSD}dateTime>', id="with a zone"),
        pytest.param(pa.array([NOON], pa.timestamp("us")), f'"2024-03-01T12:00:00"^^<{XSD}dateTime>', id="without a zone"),
        pytest.param(pa.array([b"\0\1"]), f'"AAE="^^<{XSD}base64Binary>', id="bytes"),
    ],
)
def test_a_term_has_the_type_of_its_column(tmp_path: Path, values: pa.Array, expected: str) -> None:
    path = write(tmp_path / "a.parquet", {"t": pa.array([1]), "v": values})
    assert objects(file_of(path, "[] :v {v} .")) == [[expected]]


def test_null_leaves_out_its_triples_and_text_is_that_of_the_value(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"t": pa.array([1, 2]), "v": pa.array([1.5, None]), "of": pa.array(["a b", "c"])})
    file = file_of(path, ":{of} :v {v} ; :text '{v} in {of}' ; :of {of} .")
    assert objects(file) == [[f'"1.5"^^<{XSD}double>', '"1.5 in a b"', '"a b"'], ['"c"']]


def test_cells_are_columns_by_name_and_paths_into_them(tmp_path: Path) -> None:
    columns = {
        "t": pa.array([1]),
        "CO(GT)": pa.array([3]),
        "a.b": pa.array(["column"]),
        "a": pa.array([{"b": "field", "c": "other"}]),
        "tags": pa.array([["x", None, "y"]]),
        "of": pa.array([[("k", NOON)]], pa.map_(pa.string(), pa.timestamp("us"))),
    }
    file = file_of(write(tmp_path / "a.parquet", columns), "[] :a {CO(GT)} ; :b {a.b} ; :c {a.c} ; :d {tags[]} ; :e {of.k} .")
    noon = f'"2024-03-01T12:00:00"^^<{XSD}dateTime>'
    assert objects(file) == [[f'"3"^^<{XSD}integer>', '"column"', '"other"', '"x"', '"y"', noon]]
    [record] = read(file)
    assert json.loads(record.raw) == {
        "t": 1,
        "CO(GT)": 3,
        "a.b": "column",
        "a": {"b": "field", "c": "other"},
        "tags": ["x", None, "y"],
        "of": {"k": "2024-03-01T12:00:00"},
    }


@pytest.mark.parametrize(
    ("values", "zone", "expected"),
    [
        pytest.param(pa.array([NOON * 1_000 + 999], pa.timestamp("ns", "UTC")), None, NOON, id="ns"),
        pytest.param(pa.array([-1], pa.timestamp("ns", "UTC")), None, -1, id="ns before 1970"),
        pytest.param(pa.array([NOON // 1_000], pa.timestamp("ms")), None, NOON, id="ms"),
        pytest.param(pa.array([NOON], pa.timestamp("us")), "Europe/Berlin", NOON - 3_600_000_000, id="local"),
        pytest.param(pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), "Europe/Berlin", NOON, id="with a zone"),
        pytest.param(pa.array([NOON // 1_000_000]), None, NOON, id="integer"),
        pytest.param(pa.array([NOON / 1_000_000 + 0.5]), None, NOON + 500_000, id="double"),
        pytest.param(pa.array(["2024-03-01 12:00:00Z"]), None, NOON, id="text"),
    ],
)
def test_times_by_the_type_of_their_column(tmp_path: Path, values: pa.Array, zone: str | None, expected: int) -> None:
    file = file_of(write(tmp_path / "a.parquet", {"t": values, "v": pa.array([1])}), "[] :v {v} .", zone=zone)
    assert [record.time for record in read(file)] == [record.time for record in read(file, elements=False)] == [expected]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        pytest.param(pa.array([None], pa.timestamp("us")), "it has no t", id="null"),
        pytest.param(pa.array([2**62], pa.timestamp("us")), "its time, t: '4611686018427387904 µs since 1970' is", id="beyond the years"),
        pytest.param(pa.array([True]), "its time, t, is neither text nor a number", id="boolean"),
        pytest.param(pa.array([[1]]), "its time, t, is neither text nor a number", id="list"),
        pytest.param(pa.array([float("nan")]), "its time, t: ", id="NaN"),
        pytest.param(pa.array(["soon"]), "its time, t: 'soon' is neither", id="text"),
    ],
)
def test_a_row_without_a_time_is_unreadable_in_its_place(tmp_path: Path, values: pa.Array, reason: str) -> None:
    file = file_of(write(tmp_path / "a.parquet", {"v": pa.array([7]), "t": values}), "[] :v {v} .")
    [record] = read(file)
    assert (record.line, record.reason, record.time) == (1, Reason.UNREADABLE, None)
    assert record.why.startswith(reason)
    assert record.text.startswith('{"v": 7, "t": ')
    assert [each.judged_time for each in read(file, elements=False)] == [None]


def test_a_value_that_is_none_and_text_that_is_not_utf_8(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"ok"]).buffers())
    columns = {"t": pa.array([1, 2]), "v": broken, "o": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))}
    path = write(tmp_path / "a.parquet", columns)
    assert objects(file_of(path, "[] :v {v} .")) == [["text that is not UTF-8 is found where the map needs a value"], ['"ok"']]
    assert objects(file_of(path, "[] :t {t} ; :v {o} ."))[0] == ["an object is found where the map needs a value"]


def test_cells_have_types_and_times_are_of_several_columns(tmp_path: Path) -> None:
    columns = {
        "day": pa.array([date(2023, 6, 5), date(2023, 6, 5), None, None]),
        "clock": pa.array([time(7, 30), None, time(8, 0), None]),
        "t": pa.array([None, 1_685_950_200, 1_685_950_201, None], pa.int64()),
        "v:date": pa.array(["007", "1e3", " 2.0", "8"]),
        "d": pa.array([Decimal("7.50"), None, Decimal("8.00"), None]),
    }
    path = write(tmp_path / "in.parquet", columns)
    mapped = ElementMap(("{day}T{clock}Z", "t"), Document("map", '[] :v {"v:date":integer?} ; :d {d:decimal} ; :s {d:string} .'))
    file = InputFile("in", str(path), Format.PARQUET, prefixes=(("", "http://e/"),), map=mapped)
    check_input(file)
    records, scanned = read(file), read(file, elements=False)
    assert [record.time for record in records] == [record.time for record in scanned]
    assert [record.time for record in records][:3] == [1_685_950_200_000_000, 1_685_950_200_000_000, 1_685_950_201_000_000]
    assert records[3].why == "it has no time: {day}T{clock}Z and t are not there"
    assert [each[:1] if len(each) == 1 else each for each in objects(file)][:3] == [
        [f'"7"^^<{XSD}integer>', f'"7.5"^^<{XSD}decimal>', '"7.50"'],
        [],
        [f'"2"^^<{XSD}integer>', f'"8"^^<{XSD}decimal>', '"8.00"'],
    ]


def test_records_begin_at_any_row(tmp_path: Path) -> None:
    rows = 2_500
    path = write(tmp_path / "a.parquet", {"t": pa.array(range(rows)), "v": pa.array(range(rows))}, rows=1_100)
    file = file_of(path, "[] :v {v} ; :n {$number} .")
    every = read(file)
    assert [(each.offset, each.end, each.line, each.time) for each in every] == [(n, n + 1, n + 1, n * 1_000_000) for n in range(rows)]
    for start in (0, 1, 1_024, 1_099, 1_100, 2_124, 2_499, 2_500):
        assert read(file, Position(start, start + 1)) == every[start:]
    assert every[7].element is not None
    assert [value.partition("^")[0] for _, _, value in every[7].element.triples] == ['"7"', '"8"']
    with Reader(file, time_filter=TimeFilter(after=5_000_000, until=8_000_000)) as reader:
        assert [each.line for each in reader.records() if each.element] == [7, 8, 9]


def test_a_scan_judges_rows_beyond_the_limit_as_a_full_reading_does(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"t": pa.array([1, 2]), "v": pa.array(["x" * 99, "y"])})
    full, scan = (read(file_of(path, "[] :v {v} .", record=50), elements=elements) for elements in (True, False))
    assert [each.reason for each in full] == [Reason.LIMIT, Reason.UNREADABLE]
    assert (full[0].time, full[1].time) == (None, 2_000_000)
    assert [each.judged_time for each in full] == [each.judged_time for each in scan] == [1_000_000, 2_000_000]


def test_a_record_a_column_begins_anywhere(tmp_path: Path) -> None:
    columns = {"t": pa.array([1, 2, 3]), "of": pa.array(["a", "b", "c"]), "x": pa.array([5, None, 7]), "y": pa.array([0.5, 1.5, None])}
    file = file_of(write(tmp_path / "a.parquet", columns), "[] :of {of} ; :name '{$column}' ; :v {$cell} ; :row {$number} .")
    assert file.map is not None
    file = replace(file, map=replace(file.map, each="columns"))
    every = read(file)
    found = [
        (each.offset, each.line, each.text, [value.partition("^")[0] for _, _, value in each.element.triples])
        for each in every
        if each.element
    ]
    assert found == [
        (2, 1, '{"x": 5}', ['"a"', '"x"', '"5"', '"1"']),
        (3, 1, '{"y": 0.5}', ['"a"', '"y"', '"0.5"', '"1"']),
        (7, 2, '{"y": 1.5}', ['"b"', '"y"', '"1.5"', '"2"']),
        (10, 3, '{"x": 7}', ['"c"', '"x"', '"7"', '"3"']),
    ]
    for start in range(12):
        assert read(file, Position(start, 1)) == [each for each in every if each.offset >= start]
    assert [each.judged_time for each in read(file, elements=False)] == [each.time for each in every]


def test_the_form_of_times_is_told_by_the_type(tmp_path: Path) -> None:
    columns = {"t": pa.array([NOON], pa.timestamp("us")), "n": pa.array([5])}
    path = write(tmp_path / "a.parquet", columns)
    assert (has_date_times(file_of(path, "[] :n {n} .")), has_date_times(file_of(path, "[] :n {n} .", at="n"))) == (True, False)


@pytest.mark.parametrize(
    ("columns", "template", "code", "message"),
    [
        pytest.param({"t": [1], "speed": [2]}, "[] :v {sped} .", "I103", "has no column sped, which map names", id="missing"),
        pytest.param({"at": [1]}, "[] :v {at} .", "I103", "has no column t, which time names", id="time"),
        pytest.param({"t": [1], "v": [[1]]}, "[] :v ({v[]}) .", "T108", "cannot repeat", id="repeated"),
        pytest.param({"t": [1], "v": [[[[1]]]]}, "[] :t {t} .", "I101", "nest 4 deep, and limits.nesting is 3", id="nesting"),
    ],
)
def test_a_file_that_does_not_fit_its_map_is_refused(
    tmp_path: Path, columns: dict[str, list[Any]], template: str, code: str, message: str
) -> None:
    path = write(tmp_path / "a.parquet", {name: pa.array(values) for name, values in columns.items()})
    with pytest.raises(Refused) as raised:
        check_input(file_of(path, template, nesting=3))
    assert [each.code for each in raised.value.diagnostics] == [code]
    assert message in raised.value.diagnostics[0].message


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 3, ["t", "v", "v"]), path)
    with pytest.raises(Refused, match="two columns v"):
        check_input(file_of(path, "[] :v {v} ."))
    check_input(file_of(path, "[] :v {t} ."))


@pytest.mark.parametrize("content", [b"P", b"t,v\n1,2\n", b"PAR1PAR1", b"PAR1" + bytes(range(256)) + b"PAR1"])
def test_what_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(Refused) as raised:
        check_input(file_of(path, "[] :v {v} ."))
    assert [each.code for each in raised.value.diagnostics] == ["I101"]


def test_damaged_bytes_end_a_file_with_one_record_or_change_values(tmp_path: Path) -> None:
    rows = 200
    columns = {"t": pa.array(range(rows)), "v": pa.array([f"text {n}" for n in range(rows)])}
    path = write(tmp_path / "a.parquet", columns, rows=50)
    whole = path.read_bytes()
    for at in range(4, len(whole) - 8, 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            records = read(file_of(path, "[] :v {v} ."))
        except Refused:
            continue
        ends = [record for record in records if record.why.startswith("the file cannot be read from here on")]
        assert ends in ([], records[-1:])


PIPELINE = """name: p
prefixes: { "": "http://e/" }
rules: [r.dotr]
input: [ { name: i, format: parquet, path: "in/*.parquet", time: at, time_zone: Europe/Berlin, map: "[] :v {v} ." } ]
output: [ { format: csv, path: out.csv } ]
dead_letter: dead.ndjson
"""
RULE = "PREFIX : <http://e/>\nrule A define A = [ [] :v ?v ] from R = [ SELECT ?v WHERE { ?x :v ?v } ] with A.?v = R.?v\n"


@pytest.fixture
def pipeline(project: Project) -> Project:
    project.write("r.dotr", RULE)
    project.write("c.yaml", PIPELINE)
    (project.folder / "in").mkdir()
    for name, times in (("a", [0, 10, None]), ("b", [5])):
        at = pa.array([None if each is None else NOON + each * 1_000_000 for each in times], pa.timestamp("us"))
        write(project.folder / f"in/{name}.parquet", {"at": at, "v": pa.array(range(len(times)))})
    return project


def test_a_run_over_a_glob(pipeline: Project) -> None:
    assert pipeline.dotr("run", "c.yaml", "--engine", "local").code == 0
    lines = pipeline.read("out.csv").splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == ["2024-03-01T11:00:00Z", "2024-03-01T11:00:05Z", "2024-03-01T11:00:10Z"]
    [dead] = map(json.loads, pipeline.read("dead.ndjson").splitlines())
    assert (dead["reason"], dead["line"], dead["text"], dead["error"]) == ("unreadable", 3, '{"at": null, "v": 2}', "it has no at")
    assert dead["file"].endswith("a.parquet")


def test_check_with_data(pipeline: Project) -> None:
    answer = pipeline.dotr("check", "--data", "c.yaml")
    assert "4 rows of 2 files, from 2024-03-01T11:00:00Z to 2024-03-01T11:00:10Z" in answer.out + answer.err
    assert "one task" in answer.out


def test_extras_and_transports(pipeline: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.change("c.yaml", 'path: "in/*.parquet"', 'path: "-"')
    assert "C204 Parquet is read from its end, and standard input can only be read on" in pipeline.refused("check", "c.yaml")
    pipeline.change("c.yaml", 'path: "-"', 'http: { listen: "127.0.0.1:8080" }')
    assert "C204 Parquet is read from its end, and messages by http" in pipeline.refused("check", "c.yaml")
    pipeline.write("c.yaml", PIPELINE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = pipeline.refused("check", "c.yaml")
    assert "C226 Parquet needs the Python package pyarrow, which is not installed" in told
    assert "pip install 'dotr[parquet]'" in told
