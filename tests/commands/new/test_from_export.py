"""Guesses of `dotr new --from` for files of many shapes: the keys of the input, the map, the sentences."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dotr.commands.new.from_export import ExportGuess, guess
from dotr.errors.diagnostics import Refused
from tests.conftest import CONFIG, Project

pytestmark = pytest.mark.core

MINUTES = [f"2024-05-04T09:{minute:02d}:00Z" for minute in range(20)]


def table(header: str, row: str, mark: str = ",") -> str:
    """A CSV text of 20 rows; `{at}` and `{n}` of a row are its time and its number."""
    rows = [row.format(at=at, local=at[:-1].replace("T", " "), n=n) for n, at in enumerate(MINUTES)]
    return "\n".join([*([header] if header else []), *rows, ""])


def guessed(folder: Path, content: object, name: str = "own.txt") -> ExportGuess:
    path = folder / name
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return guess(str(path))


def keys(found: ExportGuess) -> Mapping[str, object]:
    return {key: value for key, value in found.settings.items() if value is not None}


def mapped(found: ExportGuess) -> dict[str, str]:
    return {value.predicate: value.cell for value in found.values}


ACCESS = '10.1.1.{n} - ann [04/May/2024:09:{n:02d}:00 +0200] "GET /{n} HTTP/1.1" 200 7 "-" "curl (like, others)"'
TABLES = [
    pytest.param(
        table("Day|Hour|flow", "4.5.2024|{n}:30|{n}"),
        {"delimiter": "|", "time": "{Day} {Hour}", "time_format": "%d.%m.%Y %H:%M"},
        id="day and clock",
    ),
    pytest.param(table("date,clock,v", "2024-05-04,09:{n:02d}:00,{n}"), {"time": "{date} {clock}"}, id="ISO date and clock"),
    pytest.param(
        "year,month,day,v\n" + "".join(f"2024,5,{n},{n}\n" for n in range(1, 20)),
        {"time": "{year}-{month}-{day}", "time_format": "%Y-%m-%d"},
        id="parts of a date",
    ),
    pytest.param(table("t,v", "04/May/2024:09:{n:02d}:00 -0300,{n}"), {"time": "t", "time_format": "%d/%b/%Y:%H:%M:%S %z"}, id="offset"),
    pytest.param(table("t,v", "5/30/24 1:{n:02d} PM,{n}"), {"time": "t", "time_format": "%m/%d/%y %I:%M %p"}, id="month first"),
    pytest.param(table("x,v", "171481{n:02d}00.25,{n}"), {"time": "x", "time_format": "unix"}, id="epoch with a fraction"),
    pytest.param(table("x,v", "171481{n:02d}00000000001,{n}"), {"time": "x", "time_format": "unix_ns"}, id="epoch in ns"),
    pytest.param(table(",when,v", "{n},{local},{n}"), {"time": "when"}, id="index"),
    pytest.param(table(",host,v", "{local},a,{n}"), {"time": "$0"}, id="index of times"),
    pytest.param(table("when,v", '"{n}",{at},{n}'), {"time": "when", "columns": ["row", "when", "v"], "skip": 1}, id="short header"),
    pytest.param("sep=;\n" + table("when;v", "{at};{n}"), {"time": "when", "delimiter": ";", "skip": 1}, id="sep"),
    pytest.param("\n\n" + table("when,v", "{at},{n}"), {"time": "when"}, id="blank lines"),
    pytest.param("# a\n# b\n" + table("when,v", "{at},{n}"), {"time": "when", "comment": "#"}, id="comments"),
    pytest.param(
        "#fields\twhen\tv\n" + table("", "{at}\t{n}"),
        {"time": "when", "comment": "#", "columns": ["when", "v"], "delimiter": "\t"},
        id="named by a comment",
    ),
    pytest.param("Station 7\n\n" + table("when,v", "{at},{n}"), {"time": "when", "skip": 2}, id="title"),
    pytest.param(table("", "{at},a,{n}"), {"time": "column1", "columns": ["column1", "column2", "column3"]}, id="without a header"),
    pytest.param(
        table("", ACCESS),
        {
            "columns": ["host", "ident", "user", "time", "zone", "request", "status", "bytes", "referer", "agent"],
            "delimiter": " ",
            "time": "{time} {zone}",
            "time_format": "[%d/%b/%Y:%H:%M:%S %z]",
        },
        id="access log",
    ),
    pytest.param(table("when\tv", "{at}\t{n}").encode("utf-16"), {"time": "when", "delimiter": "\t", "encoding": "utf-16"}, id="UTF-16"),
    pytest.param(table("", "{at}"), {"format": "text", "time": "$value"}, id="text"),
]


@pytest.mark.parametrize(("content", "expected"), TABLES)
def test_keys_of_a_table(tmp_path: Path, content: str | bytes, expected: dict[str, object]) -> None:
    assert keys(guessed(tmp_path, content)) == {"format": "csv", **expected}


def bundle() -> dict[str, Any]:
    person = {"resource": {"resourceType": "Patient", "birthDate": "1980-02-03"}}
    seen = [{"resource": {"resourceType": "Observation", "effectiveDateTime": at, "value": n}} for n, at in enumerate(MINUTES[:3])]
    return {"resourceType": "Bundle", "timestamp": MINUTES[9], "link": [{"url": "http://e/"}], "entry": [person, *seen]}


def logs() -> dict[str, Any]:
    records = [{"timeUnixNano": f"17148132{n:02d}000000000", "severityNumber": n} for n in range(9)]
    return {"resourceLogs": [{"resource": {"name": "shop"}, "scopeLogs": [{"scope": {"name": "x"}, "logRecords": records}]}]}


def listed(name: str, **own: str) -> dict[str, Any]:
    return {
        "next": "http://e/2",
        name: [{"n": n, **{key: value.format(at=at) for key, value in own.items()}} for n, at in enumerate(MINUTES)],
    }


OBJECTS = [
    pytest.param(bundle(), {"each": "entry[]", "time": "resource.effectiveDateTime"}, id="FHIR"),
    pytest.param(logs(), {"each": "resourceLogs[].scopeLogs[].logRecords[]", "time": "timeUnixNano", "time_format": "unix_ns"}, id="OTLP"),
    pytest.param(listed("Records", eventTime="{at}"), {"each": "Records[]", "time": "eventTime"}, id="Records"),
    pytest.param(listed("value", createdDateTime="{at}"), {"each": "value[]", "time": "createdDateTime"}, id="OData"),
    pytest.param({"at": MINUTES[0], "samples": [{"n": 1}, {"n": 2}]}, {"each": "samples[]", "time": "^.at"}, id="time around"),
    pytest.param({"data": {"values": [[1714813200000 + n, n] for n in range(9)]}}, {"each": "data.values[]", "time": "[0]"}, id="pairs"),
    pytest.param(
        {"hourly": {"time": MINUTES, "rain": list(range(20))}},
        {"each": ["hourly.time[]", "hourly.rain[]"], "time": "^.hourly.time[]"},
        id="side by side",
    ),
    pytest.param(
        [
            {"at": at, "gateway": "a", "power": n, "seen": [{"by": "x"}], "readings": [{"id": i, "v": n + i} for i in range(3)]}
            for n, at in enumerate(MINUTES)
        ],
        {"each": "readings[]", "time": "^.at"},
        id="lists in records",
    ),
    pytest.param(
        [{"at": at, "sites": [{"in": [{"at": at, "v": n}]}]} for n, at in enumerate(MINUTES)],
        {"each": "sites[].in[]", "time": "at"},
        id="lists in lists in records",
    ),
    pytest.param(
        [{"at": at, "v": n, "parts": [{"n": n}] if n else [], "tags": [{"k": "a"}]} for n, at in enumerate(MINUTES)],
        {"time": "at"},
        id="lists of some records, and of names",
    ),
    pytest.param([[{"s": "1", "at": at} for at in MINUTES], [{"s": "x", "at": MINUTES[0]}]], {"time": "at"}, id="lists in a list"),
    pytest.param("".join(json.dumps({"at": at, "v": n}) for n, at in enumerate(MINUTES)), {"time": "at"}, id="one after the other"),
    pytest.param([{"n": "a", "t": 1.7148132e9 + n, "v": n} for n in range(5)], {"time": "t", "time_format": "unix"}, id="SenML, resolved"),
    pytest.param(
        [{"n": n, "eventTime": at if n % 2 else None, "seen": None if n % 2 else at} for n, at in enumerate(MINUTES)],
        {"time": ["eventTime", "seen"]},
        id="one or the other",
    ),
]


@pytest.mark.parametrize(("content", "expected"), OBJECTS)
def test_keys_of_objects(tmp_path: Path, content: object, expected: dict[str, object]) -> None:
    assert keys(guessed(tmp_path, content)) == {"format": "json", **expected}


def test_the_time_is_what_most_have_and_ascends_most_in_the_finest_steps(tmp_path: Path) -> None:
    text = table("due,changed,seen,other,v", "2024-0{n}-01,{at},{at},{at},x").replace("2024-010", "2024-10")
    rows = text.splitlines()
    rows[1:] = [row if number % 5 else row.replace(MINUTES[number - 1], MINUTES[5], 1) for number, row in enumerate(rows[1:], 1)]
    found = guessed(tmp_path, "\n".join(rows) + "\n")
    assert found.time.written == ("seen",)
    assert "The time is seen, a date-time (also: due (20 of 20), changed (20 of 20), other (20 of 20))." in found.sentences
    assert "(also: resource.birthDate (1 of 4), " in guessed(tmp_path, bundle()).sentences[1]


def test_names_are_legal_and_their_own(tmp_path: Path) -> None:
    found = guessed(tmp_path, table("t,Température,温度,rel. hum %,v,v,a{{b}},$x,2nd", "{at}" + ",{n}" * 8))
    assert mapped(found) == {
        "Température": "Température:decimal",
        "温度": "温度:decimal",
        "relHum": "rel. hum %:decimal",
        "v": "$4:decimal",
        "v2": "$5:decimal",
        "aB": "$6:decimal",
        "x": "$7:decimal",
        "n2nd": "2nd:decimal",
    }


def test_types_are_written_with_a_question_mark_where_a_cell_does_not_fit(tmp_path: Path) -> None:
    csv = table("t,v,w,x,note", "{at},{n},{n}.5,1e{n},{n}").replace(",3,", ",NA,").replace(",4,", ",-,").replace(",1e7,", ",?,")
    assert mapped(guessed(tmp_path, csv)) == {"v": "v:decimal?", "w": "w:decimal", "x": "x:double?", "note": "note:decimal"}
    states = [{"t": at, "state": str(n) if n != 7 else "unavailable", "n": str(n), "v": n, "s": "a"} for n, at in enumerate(MINUTES)]
    assert mapped(guessed(tmp_path, states)) == {"state": "state:decimal?", "n": "n:decimal", "v": "v", "s": "s"}


def test_each_item_of_a_list_of_values_is_mapped(tmp_path: Path) -> None:
    content = [{"t": at, "tags": ["a", "b"][: n % 3], "v": n, "none": [], "mixed": [1, {}]} for n, at in enumerate(MINUTES)]
    assert mapped(guessed(tmp_path, content)) == {"v": "v", "tags": "tags[]"}


def test_what_is_around_the_items_is_mapped_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    content = logs()
    content["resourceLogs"][0]["resource"]["attributes"] = [{"key": "a"}]
    found = guessed(tmp_path, content)
    assert mapped(found) == {
        "severityNumber": "severityNumber",
        "resourceLogsResourceName": "^.resourceLogs[].resource.name",
        "resourceLogsScopeLogsScopeName": "^.resourceLogs[].scopeLogs[].scope.name",
    }
    assert "Lists that are left out: resourceLogs[].resource.attributes[]." in found.sentences
    side = {"station": "a", "hourly": {"time": MINUTES, "rain": list(range(20))}}
    assert mapped(guessed(tmp_path, side)) == {"hourlyRain": "^.hourly.rain[]", "station": "^.station"}


def test_parquet(tmp_path: Path) -> None:
    at = [datetime(2024, 5, 4, 9, minute) for minute in range(9)]
    parquet.write_table(pa.table({"when": at, "room": ["a"] * 9, "dev": [{"id": n} for n in range(9)]}), tmp_path / "a.parquet")
    found = guess(str(tmp_path / "a.parquet"))
    assert (keys(found), mapped(found)) == ({"format": "parquet", "time": "when"}, {"room": "room", "devId": "dev.id"})


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("a,b\n1,x\n2,y\n", "has no column of times: a, b", "a: 1 is outside of the years 1980 to 2100; b: 'x' is no date-time."),
        ("21.5\nON\n", "has no rows of several columns", "without a time beside it"),
        ('[{"bn": "urn:a:", "bt": 1.7e9, "v": 1}, {"v": 2, "t": 60}]', "is SenML whose base names or base times", "RFC 8428"),
    ],
)
def test_a_file_without_times_says_why(tmp_path: Path, content: str, message: str, hint: str) -> None:
    with pytest.raises(Refused) as raised:
        guessed(tmp_path, content)
    [told] = raised.value.diagnostics
    assert message in told.message
    assert hint in told.hint


@pytest.mark.parametrize(
    ("content", "triples"),
    [
        ("pump;hall;limit\nP 1;north;7,5\nP2;north;n/a\nP3;;8\n", 4),
        ("hall,floor\nnorth,1\nnorth,2\n", 2),
        ('[{"name": "north", "of": {"floor": 1}}, {"name": "south", "tags": ["a", "b"]}]', 3),
    ],
)
def test_a_table_without_times_is_offered_as_background(project: Project, content: str, triples: int) -> None:
    project.write("own.txt", content)
    offered = project.refused("new", "own", "--from", "own.txt").partition("it is background:\n")[2]
    project.write("c.yaml", f"{offered}\n" + "".join(line for line in CONFIG.splitlines(keepends=True) if not line.startswith("prefixes:")))
    assert f"triples    {triples}: {triples} loaded" in project.dotr("kb", "info", "c.yaml").out


@pytest.mark.parametrize("content", [pytest.param(*case.values[:1], id=case.id) for case in (*TABLES, *OBJECTS)])
def test_the_project_reads_every_record_and_passes_its_test(project: Project, content: object) -> None:
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    project.write("own.txt", text)
    new = project.dotr("new", "own", "--from", "own.txt")
    assert new.code == 0, new.err
    unread = "1 of the first 4 records cannot be read" if "Patient" in str(text) else ""
    assert unread in new.err
    assert "cannot be read" not in new.err.replace(unread, "")
    test = project.dotr("test", "own/tests")
    assert (test.code, test.out.splitlines()[-1]) == (0, "1 passed, 0 failed")


PIECES = (
    b'"',
    b"{",
    b"[[",
    b"\n\n",
    b",,",
    b";",
    b"#",
    b"$",
    b"\0",
    b"\xff",
    b"null",
    b"1e999",
    b"9" * 400,
    b"sep=;\n",
    "é".encode(),
    b"PAR1",
)


def test_a_damaged_file_is_guessed_or_refused(tmp_path: Path) -> None:
    chance = random.Random(7)
    contents = [case.values[0] for case in (*TABLES, *OBJECTS)]
    for _ in range(60):
        content = chance.choice(contents)
        text = bytearray(content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode())
        for _ in range(chance.randrange(5)):
            at = chance.randrange(len(text) + 1)
            text[at : at + chance.randrange(30)] = chance.choice(PIECES) * chance.randrange(3)
        with suppress(Refused):
            guessed(tmp_path, bytes(text))
