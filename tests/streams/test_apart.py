"""Elements of one time that are set apart: configurations, dead letters, rule tests, explanations and the check of data."""

from __future__ import annotations

import json

import pytest

from dotr.streams.lateness import Lateness
from dotr.streams.merge.bounded import merged
from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
query Door = [ SELECT ?d ?s WHERE { ?d :state ?s } ]
rule Touched define Touch = [ ?d a :Touched ]
from Door as Shut [ FILTER(?s = "shut") ]
and last Door as Open [ FILTER(?d = Shut.?d && ?s = "open") ] within 5 s from Shut
with Touch.?d = Shut.?d
"""
DAY = "2024-03-01T10:00:"
ROWS = [f"{DAY}00Z,a,open", f"{DAY}00Z,a,shut", f"{DAY}07Z,a,shut", f"{DAY}07Z,a,open", f"{DAY}09Z,b,shut"]


@pytest.fixture
def doors(project: Project) -> Project:
    project.write("r.dotr", RULES)
    project.write("a.csv", "\n".join(["t,d,s", *ROWS, ""]))
    given = "format: csv, path: a.csv, time: t, one_per_instant: apart, map: \":{d} :state '{s}' .\""
    project.change("c.yaml", "format: ndjson, path: a.ndjson", given)
    return project


def events(project: Project) -> list[object]:
    return [json.loads(line)["time"] for line in project.read("out.ndjson").splitlines()]


def test_rows_of_a_second_are_in_their_order(doors: Project) -> None:
    assert doors.dotr("run", "c.yaml").code == 0
    assert events(doors) == [f"{DAY}00.000001Z"]
    assert doors.read("dead.ndjson") == ""


def test_what_reaches_the_next_time_is_a_dead_letter(doors: Project) -> None:
    rows = [
        *ROWS[:2],
        f"{DAY}00Z,a,open",
        f"{DAY}00Z,a",
        f"{DAY}00Z,a,shut",
        f"{DAY}00Z,,open",
        f"{DAY}00.000003Z,a,shut",
        f"{DAY}00Z,a,open",
    ]
    doors.write("a.csv", "\n".join(["t,d,s", *rows, ""]))
    assert doors.dotr("run", "c.yaml").code == 0
    dead = [json.loads(line) for line in doors.read("dead.ndjson").splitlines()]
    assert [(each["line"], each["time"], each["reason"]) for each in dead] == [
        (5, None, "unreadable"),
        (6, f"{DAY}00Z", "second"),
        (7, f"{DAY}00Z", "second"),
        (9, f"{DAY}00Z", "late"),
    ]
    assert dead[1]["error"].endswith("it would reach the input's next time (one_per_instant: apart)")
    assert events(doors) == [f"{DAY}00.000001Z", f"{DAY}00.000003Z"]


def test_unreadable_record_with_a_time_has_a_place_among_those_of_its_time(doors: Project) -> None:
    lines = [{"time": at, "graph": graph} for at, graph in ((1, ":x :state 'open' ."), (1, "<"), (1, ":x :state 'shut' ."))]
    doors.write("a.ndjson", "\n".join(map(json.dumps, lines)))
    doors.change("c.yaml", "format: csv, path: a.csv, time: t,", "format: ndjson, path: a.ndjson,")
    doors.change("c.yaml", ", map: \":{d} :state '{s}' .\"", "")
    doors.change("c.yaml", "name: small\n", "name: small\ntime: { unit: us }\n")
    assert doors.dotr("run", "c.yaml").code == 0
    assert events(doors) == [3]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("one_per_instant: apart", "one_per_instant: apart, lateness: 1 s", "C204 an input whose elements are set apart has no lateness\n"),
        ("a.csv", "b.csv", "C204 input a has integer times, which cannot be a microsecond apart (one_per_instant: apart)\n"),
        ("apart", "appart", "C203 input.0.one_per_instant should be true or false, or 'apart'\n"),
    ],
)
def test_wrong_settings_are_refused(doors: Project, old: str, new: str, told: str) -> None:
    doors.write("b.csv", "t,d,s\n1,a,open\n")
    doors.change("c.yaml", old, new)
    for command in ("check", "run"):
        message = doors.refused(command, "c.yaml")
        assert told in message
        assert "c.yaml:5:" in message
    assert doors.dotr("run", "c.yaml", "--set", "time.unit=us").code == (0 if new == "b.csv" else 2)


def test_integers_of_a_watched_folder_are_refused(doors: Project) -> None:
    doors.write("in/b.csv", "t,d,s\n1,a,open\n")
    doors.change("c.yaml", "path: a.csv", "path: 'in/*.csv', watch: true, settle: 0 s")
    assert "C204 input a has integer times" in doors.refused("run", "c.yaml")


TEST = """\
config: c.yaml
cases:
  - name: a second
    stream: {{ file: a.csv, input: a }}
    expect: [ {{ at: "2024-03-01T10:00:{at}Z", event: Touch, attributes: {{ d: ":a" }} }} ]
"""


@pytest.mark.parametrize(("at", "code"), [("00", 0), ("00.000001", 0), ("00.000002", 1), ("01", 1)])
def test_expectations_have_the_time_of_the_file_or_of_the_event(doors: Project, at: str, code: int) -> None:
    doors.write("t.yaml", TEST.format(at=at))
    answer = doors.dotr("test", "t.yaml")
    assert answer.code == code
    if code:
        assert doors.dotr("test", "t.yaml", "--update").code == 0
        assert f"{DAY}00.000001Z" in doors.read("t.yaml")
        assert doors.dotr("test", "t.yaml").code == 0


def test_explanations_have_the_times_of_events(doors: Project) -> None:
    answer = doors.dotr("why", "c.yaml", "--rule", "Touched")
    assert f"from Shut at {DAY}00.000001Z" in answer.out
    assert "1 us before" in answer.out
    facts = doors.dotr("facts", "c.yaml")
    assert f"{DAY}00.000001Z   a.csv:3" in facts.out


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ROWS, "2 of 5 rows share their time with one before, and are about the same thing"),
        ([f"{DAY}00Z,a,open", f"{DAY}00Z,b,open", f"{DAY}00Z,a,shut"], "1 of 3 rows share their time"),
        ([f"{DAY}00Z,a,open", f"{DAY}00Z,b,open"], ""),
        ([f"{DAY}00Z,a,open", f"{DAY}00Z,a,open"], ""),
        ([f"{DAY}00.1Z,a,open", f"{DAY}00.1Z,a,shut"], ""),
        (["1,a,open", "1,a,shut"], ""),
    ],
)
def test_records_of_one_key_and_time_are_told(doors: Project, rows: list[str], told: str) -> None:
    doors.write("a.csv", "\n".join(["t,d,s", *rows, ""]))
    doors.change("c.yaml", "one_per_instant: apart, ", "")
    answer = doors.dotr("check", "--data", "--", "c.yaml")
    assert ("I120 warning: input a: " + told in answer.out + answer.err) if told else ("I120" not in answer.out + answer.err)


def test_windows_that_just_miss_a_moved_record_are_told(doors: Project) -> None:
    doors.change("r.dotr", "within 5 s", "within 7 s")
    told = "I120 warning: input a: rule Touched looks back 7 s, and 1 of what is set apart just misses something that is 7 s before"
    assert told in doors.dotr("check", "--data", "--", "c.yaml").err
    doors.change("r.dotr", "within 7 s", "within 7001 ms")
    assert "I120" not in doors.dotr("check", "--data", "--", "c.yaml").err


def test_late_records_are_told_with_what_helps_here(doors: Project) -> None:
    doors.write("a.csv", "\n".join(["t,d,s", *reversed(ROWS), ""]))
    answer = doors.dotr("check", "--data", "--", "c.yaml")
    assert (
        "Elements that are set apart have no lateness: sort them by time, or write lateness: 9 s in place of one_per_instant." in answer.err
    )


def test_elements_with_records_are_moved_as_those_without(doors: Project) -> None:
    from dotr.runtimes.pipeline.config import read_config
    from dotr.runtimes.pipeline.inputs import read_inputs

    (file,) = read_inputs(read_config("c.yaml"), []).files
    plain, traced = (
        [(time, [tuple(each) for each in found]) for time, found in merged([file], print, trace=trace)] for trace in (False, True)
    )
    assert plain == traced
    assert all(element[0] == time for time, found in plain for element in found)
    assert Lateness.of(file).passed < 0
