"""`dotr new DIR --from FILE`: a project over one's own file, which runs and passes its test."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core


def made(project: Project, export: str) -> str:
    """Make, check, run and test a project; return the sentences on the guesses."""
    new = project.dotr("new", "own", "--from", export)
    assert new.code == 0, new.err
    run = project.dotr("run", "own/config.yaml")
    assert run.code == 0, run.err
    assert "0 events" not in run.err
    assert "no events" not in run.err
    assert "rejected" not in run.err
    test = project.dotr("test", "own/tests")
    assert (test.code, test.out.splitlines()[-1]) == (0, "1 passed, 0 failed")
    check = project.dotr("check", "own", "--strict")
    assert check.code == 0, check.err
    return new.err


def test_csv_of_a_german_spreadsheet(project: Project) -> None:
    rows = "".join(f"{number:02d}.03.2024 08:15:00;s{number % 3};2{number % 10},{number % 7};\r\n" for number in range(1, 29))
    project.write("e.csv", ("Zeit;Fühler;Temperatur (°C);Notiz\r\n" + rows).encode("cp1252"))
    guesses = made(project, "e.csv")
    assert guesses.startswith(
        "e.csv is CSV: 4 columns, separated by a semicolon.\n"
        "Decimals have a comma.\n"
        "It is not UTF-8: it is read as windows-1252 (encoding).\n"
        "The time is Zeit, in the form %d.%m.%Y %H:%M:%S.\n"
        "Its times have no zone and are read as UTC: time_zone: Europe/Berlin, for example, changes that.\n"
    )
    config = project.read("own/config.yaml")
    assert 'decimal: ","' in config
    assert 'encoding: "cp1252"' in config
    assert 'path: "../e.csv"' in config
    assert config.startswith("# yaml-language-server: $schema=.dotr/config.schema.json\n")
    assert json.loads(project.read("own/.dotr/config.schema.json"))["title"] == "Settings"


def test_csv_with_integer_milliseconds_that_are_out_of_order(project: Project) -> None:
    times = [1_709_276_400_000 + 1_000 * number - (5_000 if number == 7 else 0) for number in range(20)]
    project.write("e.csv", "ts,id,value\n" + "".join(f"{time},a{time % 3},{time % 17}\n" for time in times))
    guesses = made(project, "e.csv")
    assert "The time is ts, an integer in ms.\n" in guesses
    assert "the latest comes 4 s behind (lateness)" in guesses
    assert "time: { unit: ms }" in project.read("own/config.yaml")
    assert 'lateness: "4 s"' in project.read("own/config.yaml")


def test_json_lines_of_devices(project: Project) -> None:
    messages = [
        {"id": f"urn:dev:{number % 4}", "meta": {"at": f"2024-03-01T07:{number:02d}:00Z"}, "temperature": {"value": number / 2}, "ok": True}
        for number in range(40)
    ]
    project.write("devices.json", "".join(json.dumps(message) + "\n" for message in messages))
    guesses = made(project, "devices.json")
    assert guesses.startswith("devices.json is JSON: each object is an element.\nThe time is meta.at, a date-time.\n")
    assert 'map: "<{id}> :temperatureValue {temperature.value} ; :ok {ok} ."' in project.read("own/config.yaml")


def test_json_notifications_with_a_list_of_items(project: Project) -> None:
    items = [{"at": 1_709_276_400 + number, "a.b": number} for number in range(30)]
    project.write(
        "n.json", json.dumps([{"kind": "notification", "data": items[:20]}, {"kind": "notification", "data": items[20:]}], indent=2)
    )
    guesses = made(project, "n.json")
    assert guesses.startswith("n.json is JSON: each item of data[] is an element.\nThe time is at, an integer in s.\n")


def test_lists_of_values_and_names_of_every_script(project: Project) -> None:
    content = [{"zeit": f"2024-03-01T07:{n:02d}:00Z", "тэги": ["a", "b"], "Größe\\m": n, 'say "hi"': "x"} for n in range(20)]
    project.write("e.json", json.dumps(content, ensure_ascii=False))
    made(project, "e.json")
    assert ":тэги {тэги[]} ; :größeM" in project.read("own/config.yaml")


def test_a_column_that_is_called_as_the_rule_calls_its_rows(project: Project) -> None:
    project.write("e.csv", "row,at,record\n" + "".join(f"{n},2024-03-01T07:{n:02d}:00Z,r{n % 3}\n" for n in range(20)))
    made(project, "e.csv")


def test_a_second_rule_leaves_the_test_as_it_is(project: Project) -> None:
    project.write("e.csv", "at,v\n" + "".join(f"2024-03-01T07:{n:02d}:00Z,{n}\n" for n in range(20)))
    made(project, "e.csv")
    rule = (
        project.read("own/rules/HighV.dotr").replace("HighV", "Other").replace("v > 17", "v > 0").replace("query Reading", "query Second")
    )
    project.write("own/rules/Other.dotr", rule.replace("Reading", "Second"))
    assert project.dotr("test", "own/tests").code == 0


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "C308 e.csv is empty"),
        ("a,b\n1,x\n", "C308 e.csv has no column of times: a, b"),
        ("one column\n1\n", "C308 e.csv has no rows of several columns"),
        ("time\0,b\n1,x\n", "C308 e.csv is neither CSV nor JSON"),
        ("{broken", "C308 e.csv has no JSON object that can be read"),
        ("time,v\n2024-03-01T07:00:00Z,\n", "C308 e.csv has nothing but times"),
    ],
)
def test_file_without_times_or_values_is_refused(project: Project, text: str, reported: str) -> None:
    project.write("e.csv", text)
    assert reported in project.refused("new", "own", "--from", "e.csv")
    assert not (project.folder / "own").exists()


def test_missing_file_is_refused(project: Project) -> None:
    assert "I101 cannot read none.csv" in project.refused("new", "own", "--from", "none.csv")
