"""`dotr check --data`: the first records of the inputs, checked against rules and configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import Project

RULE = """\
PREFIX : <http://e/>
rule R
define Out = [ dotr_id a :Out ]
from A = [ SELECT ?x WHERE { ?x a :Report ; :speed ?s FILTER(?s > 10) } ]
"""
CONFIG = """\
name: cars
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - name: cars
    format: csv
    path: cars.csv
    time: at
    lateness: 10 min
    map: "[] a :Report ; :speed {speed} ; :road {road} ."
output:
  - { path: out.ndjson }
engine: local
"""
ROWS = "at,speed,road\n2024-03-01 10:00Z,12,A1\n2024-03-01 11:00Z,13,A1\n2024-03-01 10:50Z,13,A1\n2024-03-01 10:55Z,14,A1\n"


@pytest.fixture
def cars(project: Project) -> Project:
    project.write("r.dotr", RULE)
    project.write("c.yaml", CONFIG)
    project.write("cars.csv", ROWS)
    return project


def warnings(project: Project, *more: str) -> list[str]:
    """The first lines of warnings without their places."""
    answer = project.dotr("check", *more, "--data", "c.yaml")
    assert answer.code == 0, answer
    return [line.partition(" warning: ")[2] for line in answer.err.splitlines() if " warning: " in line]


def test_data_that_fit_give_one_line_an_input(cars: Project) -> None:
    line = "Input cars: 4 rows of 1 file, from 2024-03-01T10:00:00Z to 2024-03-01T11:00:00Z; lateness: 10 min loses none.\n"
    state = "State of c.yaml: none, every anchor is on its own\n"
    assert cars.dotr("check", "--data", "c.yaml") == (0, state + line, "1 file checked: no errors, no warnings.\n")
    assert cars.dotr("check", "c.yaml") == (0, state, "1 file checked: no errors, no warnings.\n")


def test_least_lateness_without_late_records_is_shown(cars: Project) -> None:
    cars.change("c.yaml", "10 min", "5 min")
    answer = cars.dotr("check", "--data", "--strict", "c.yaml")
    assert answer.code == 2
    assert answer.err == (
        "c.yaml:9:15: I107 warning: input cars: lateness: 5 min loses 1 of 4 rows, 10 min none\n"
        "  9 |     lateness: 5 min\n"
        "    |               ^^^^^\n"
        "Write lateness: 10 min to lose none of them; instants close that much later.\n\n"
        "1 file checked: no errors, 1 warning.\n"
    )
    cars.change("c.yaml", "lateness: 5 min\n", "one_per_instant: true\n")
    assert warnings(cars) == ["input cars: one_per_instant loses 2 of 4 rows: 2 behind a later one, 0 of the same time"]


def test_default_lateness_is_zero_and_relative_to_each_file(cars: Project) -> None:
    cars.change("c.yaml", "    lateness: 10 min\n", "")
    cars.change("c.yaml", "cars.csv", "cars*.csv")
    cars.write("cars2.csv", "at,speed,road\n2024-02-01 10:00Z,12,A1\n")
    assert warnings(cars) == ["input cars: lateness: 0 s loses 2 of 5 rows, 10 min none"]


def late(project: Project, times: list[int], lateness: str) -> list[str]:
    """The warnings of an input of integer times, with a lateness."""
    project.write("cars.csv", "at,speed,road\n" + "".join(f"{time},12,A1\n" for time in times))
    project.write("c.yaml", CONFIG.replace("10 min", lateness))
    return [each for each in warnings(project) if "input cars" in each]


def test_lateness_by_the_bulk_of_the_records(cars: Project) -> None:
    day = 86_400
    ordered = list(range(20_000 * day, 20_000 * day + 60))
    with_jitter = [*ordered[:40], ordered[40] + 120, *ordered[41:]]
    clocks = [*with_jitter, 0, 5, *range(ordered[-1] + 1, ordered[-1] + 200)]
    two = "2 of 261 rows come 20,000 days late (first: cars.csv:62): their clock was not set?"
    assert late(cars, clocks, "5 min") == [f"input cars: {two} lateness: 5 min loses these 2 alone"]
    assert late(cars, clocks, "0 s") == [f"input cars: {two} lateness: 1 min 59 s loses these 2 alone"]
    assert "Write lateness: 1 min 59 s. Correct their times, or accept the loss" in cars.dotr("check", "--data", "c.yaml").err
    one = "1 of 3 rows comes 20,000 days late (first: cars.csv:3): its clock was not set? lateness: 0 s loses this one alone"
    assert late(cars, [20_000 * day, 0, 20_000 * day + 1], "0 s") == [f"input cars: {one}"]
    # Most of them late: one clock was ahead. A day for a few of many: a clock; for one of three: no wrong clock.
    assert late(cars, [20_000 * day, 0, 1, 2, 3], "0 s") == ["input cars: lateness: 0 s loses 4 of 5 rows, 20000 d none"]
    assert late(cars, [3 * day, 0, 3 * day], "0 s") == ["input cars: lateness: 0 s loses 1 of 3 rows, 3 d none"]
    assert late(cars, [*range(9 * day, 9 * day + 200), 0], "0 s") == [
        "input cars: 1 of 201 rows comes 9 days late (first: cars.csv:202): its clock was not set? lateness: 0 s loses this one alone"
    ]


def test_number_bounds_the_records_of_each_input(cars: Project) -> None:
    cars.change("c.yaml", "10 min", "0 s")
    answer = cars.dotr("check", "--data", "2", "c.yaml")
    assert (answer.code, answer.err) == (0, "1 file checked: no errors, no warnings.\n")
    assert "Input cars: the first 2 rows of 1 file, from " in answer.out
    assert "dotr check: error: 0 is no whole number of at least 1" in cars.refused("check", "--data", "0", "c.yaml")
    assert "the following arguments are required: PATH" in cars.refused("check", "--data", "5")


def test_text_that_looks_like_a_number(cars: Project) -> None:
    cars.write("cars.csv", 'at,speed,road\n2024-03-01 10:00Z,"12,5",A1\n2024-03-01 10:00Z,"1,5",0042\n')
    answer = cars.dotr("check", "--data", "c.yaml")
    assert 'I108 warning: input cars: text that looks like a number: :speed "12,5" (all its texts)\n' in answer.err
    assert answer.err.count("warning: ") == 1
    assert 'Write decimal: ",".\n' in answer.err
    cars.change("c.yaml", "lateness: 10 min", 'lateness: 10 min\n    decimal: ","')
    assert warnings(cars) == []


def test_texts_among_numbers_are_told_with_the_first_place(cars: Project) -> None:
    def row(number: int, text: str) -> str:
        return f"2024-03-01 10:{number:02}Z,{text},A1\n"

    cars.write("cars.csv", "at,speed,road\n" + "".join(row(n, "defekt" if n in (7, 9) else f"{n}.5") for n in range(20)))
    answer = cars.dotr("check", "--data", "c.yaml")
    assert 'I118 warning: input cars: 2 of 20 values of :speed are text ("defekt", cars.csv:9)\n' in answer.err
    assert (
        "Write {speed:decimal?}, which leaves such a text out, or {speed:decimal}, which rejects its element; or accept it: " in answer.err
    )
    assert answer.err.count("warning: ") == 1
    cars.change("c.yaml", "{speed}", "{speed:decimal?}")
    assert warnings(cars) == []
    cars.change("c.yaml", "{speed:decimal?}", "{speed}")
    cars.change("c.yaml", "engine:", "report: { accept: [I118] }\nengine:")
    assert warnings(cars) == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["1", "2", '"off"'], '1 of 3 values of :speed is text ("off", a.ndjson:3)'),
        (["1", '2.5 , 3e0 , "x"@en', ":none", '"off"'], None),
        (["1", '2.5 , 3e0 , "x"@en', '"off"'], '1 of 5 values of :speed is text ("off", a.ndjson:3)'),
        (["1", "2", '"12"'], '1 of 3 values of :speed is text ("12", a.ndjson:3)'),
        (["1", '"off"'], None),
        (["1", "2", ":none"], None),
        (["1", "2", '"2024-03-01"^^xsd:date'], None),
        (['"on"', '"off"', '"off"'], None),
    ],
)
def test_texts_among_numbers_of_graphs(cars: Project, values: list[str], told: str | None) -> None:
    start = CONFIG.index("input:")
    head = CONFIG[:start].replace('"": ', 'xsd: "http://www.w3.org/2001/XMLSchema#", "": ')
    cars.write("c.yaml", f"{head}input:\n  - {{ name: a, format: ndjson, path: a.ndjson }}\noutput: [ {{ path: o }} ]\nengine: local\n")
    lines = [json.dumps({"time": n, "graph": f"[] a :Report ; :speed {value} ."}) for n, value in enumerate(values)]
    cars.write("a.ndjson", "\n".join(lines) + "\n")
    found = [each for each in warnings(cars) if "values of" in each]
    assert found == ([f"input a: {told}"] if told else [])


def test_times_without_a_zone(cars: Project) -> None:
    cars.write("cars.csv", ROWS.replace("Z", ""))
    assert warnings(cars) == ["input cars: its times have no zone (cars.csv:2)"]
    cars.write("cars.csv", ROWS.replace("10:50Z", "10:50").replace("10:55Z", "10:55"))
    assert warnings(cars) == ["input cars: times without a zone (2, as in cars.csv:4) and with one (2, cars.csv:2)"]
    cars.change("c.yaml", "lateness: 10 min", "lateness: 10 h\n    time_zone: Europe/Berlin")
    assert warnings(cars) == []
    cars.write("cars.csv", "at,speed,road\n01.03.2024 10:00,12,A1\n")
    cars.change("c.yaml", "time_zone: Europe/Berlin", 'time_format: "%d.%m.%Y %H:%M"')
    assert warnings(cars) == ["input cars: its times have no zone (cars.csv:2)"]


def test_number_after_a_time_is_not_its_fraction(cars: Project) -> None:
    cars.write("cars.csv", "at,speed,road\n2024-03-01T10:00:00,7.6,A1\n")
    assert warnings(cars) == ["input cars: its times have no zone (cars.csv:2)"]


def test_integers_that_look_like_milliseconds(cars: Project) -> None:
    cars.write("cars.csv", "at,speed,road\n1709276400,12,A1\n1709276400000,12,A1\n")
    assert warnings(cars) == ["input cars: integer times look like milliseconds since 1970, and are read as seconds (cars.csv:3)"]


@pytest.mark.parametrize(
    ("unit", "time", "read", "form"),
    [
        ("s", 1709276400_000_000_000, "nanoseconds since 1970, and are read as seconds", "unix_ns for this input."),
        ("us", 1709276400_000_000_000, "nanoseconds since 1970, and are read as microseconds", "unix_ns for this input."),
        ("ms", 1709276400, "seconds since 1970, and are read as milliseconds", "unix for this input, or time: { unit: s } for all."),
        ("h", 1709276400, "seconds since 1970, and are read as hours", "unix for this input, or time: { unit: s } for all."),
        ("ms", 1709276400_000, "", ""),
        ("s", 12, "", ""),
        ("d", 19_000, "", ""),
    ],
)
def test_integers_that_look_like_another_unit(cars: Project, unit: str, time: int, read: str, form: str) -> None:
    cars.write("cars.csv", f"at,speed,road\n{time},12,A1\n{time},12,A1\n")
    cars.write("c.yaml", CONFIG.replace("rules:", f"time: {{ unit: {unit} }}\nrules:"))
    told = cars.dotr("check", "--data", "c.yaml").err
    assert (f"integer times look like {read} (cars.csv:2)" in told) == bool(read) == ("I106" in told)
    assert f"If they are, write time_format: {form}" in told or not form


def test_numbers_since_1970_and_times_of_several_cells_are_date_times(cars: Project) -> None:
    cars.change("c.yaml", "time: at", "time: at\n    time_format: unix_ms")
    cars.write("cars.csv", "at,speed,road\n1709276400000,12,A1\n1709276400250.5,12,A1\n")
    answer = cars.dotr("check", "--data", "c.yaml")
    assert ", from 2024-03-01T07:00:00Z to 2024-03-01T07:00:00.2505Z; " in answer.out
    assert "warning" not in answer.err.partition("checked")[0]
    cars.change("c.yaml", "time: at\n    time_format: unix_ms", 'time: "{at} {speed}:00"')
    cars.write("cars.csv", "at,speed,road\n2024-03-01,12,A1\n2024-03-01,13,A1\n")
    assert warnings(cars) == ["input cars: its times have no zone (cars.csv:2)"]


def test_unreadable_records_are_counted(cars: Project) -> None:
    cars.write("cars.csv", ROWS + "x,1,A\ny,2,B\n")
    assert warnings(cars) == [
        "input cars: 2 of 6 rows cannot be read; cars.csv:6: its time, at: 'x' is neither an integer nor an ISO 8601 date-time"
    ]


def test_missing_terms_have_the_nearest_spelling(cars: Project) -> None:
    cars.change("r.dotr", ":speed", ":spede")
    answer = cars.dotr("check", "--data", "c.yaml")
    assert answer.err == (
        "r.dotr:4:45: I111 warning: a query asks for :spede, and no record brings it\n"
        "  4 | from A = [ SELECT ?x WHERE { ?x a :Report ; :spede ?s FILTER(?s > 10) } ]\n"
        "    |                                             ^^^^^^\n"
        "Did you mean :speed?\n\n"
        "1 file checked: no errors, 1 warning.\n"
    )
    cars.change("c.yaml", "engine: local\n", "engine: local\nreport: { accept: [I111] }\n")
    assert cars.dotr("check", "--data", "c.yaml").err == "1 file checked: no errors, no warnings (1 accepted).\n"


@pytest.mark.parametrize(
    ("form", "record", "kind"),
    [
        ("trig", '<a:g> prov:generatedAtTime "2024-03-01T10:00:00"^^xsd:dateTime . <a:g> { [] :speed "12" }\n', "trig"),
        ("ndjson", '{"time": "2024-03-01T10:00:00", "graph": "[] :speed \\"12\\" ."}\n', "ndjson"),
    ],
)
def test_warnings_of_all_formats(cars: Project, form: str, record: str, kind: str) -> None:
    start = CONFIG.index("input:")
    head = CONFIG[:start].replace('"": ', 'prov: "http://www.w3.org/ns/prov#", xsd: "http://www.w3.org/2001/XMLSchema#", "": ')
    cars.write("c.yaml", f"{head}input:\n  - {{ name: a, format: {form}, path: a.{kind} }}\noutput: [ {{ path: o }} ]\nengine: local\n")
    declared = "@prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix : <http://e/> .\n"
    cars.write(f"a.{kind}", (declared if form == "trig" else "") + record)
    found = warnings(cars)
    assert len(found) == 3
    assert found[0].startswith("input a: its times have no zone")
    assert found[1:] == [
        'input a: text that looks like a number: :speed "12" (all its texts)',
        "a query asks for :Report, and no record brings it",
    ]


def test_watched_folders_and_standard_input_are_read_to_their_present_end(cars: Project) -> None:
    cars.change("c.yaml", "path: cars.csv", "path: in/*.csv\n    watch: true")
    (cars.folder / "in").mkdir()
    assert "Input cars: no file matches in/*.csv yet.\n" in cars.dotr("check", "--data", "c.yaml").out
    cars.write("in/1.csv", ROWS)
    assert "Input cars: 4 rows of 1 file, from " in cars.dotr("check", "--data", "c.yaml").out
    cars.change("c.yaml", "path: in/*.csv\n    watch: true", 'path: "-"')
    command = [sys.executable, "-m", "dotr", "check", "--data", "c.yaml"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, input=ROWS, capture_output=True, text=True, env=environment, check=False)
    assert "Input cars: 4 rows, from 2024-03-01T10:00:00Z to 2024-03-01T11:00:00Z; lateness: 10 min loses none.\n" in ended.stdout
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as open_pipe:
        assert open_pipe.stdin is not None
        assert open_pipe.stdout is not None
        open_pipe.stdin.write(ROWS)
        open_pipe.stdin.flush()
        assert "Input cars: 4 rows, from " in open_pipe.stdout.read()  # it ends while the pipe is open


LOAD = """\
name: load
prefixes: { "": "http://e/" }
rules: [r.dotr]
input: [{ name: load, format: csv, path: load.csv, time: at, map: ":{host} a :Report ; :speed {idle} ; :user {user} ; :of <x:{rack}> ." }]
output: [{ path: out.ndjson }]
engine: local
"""


@pytest.mark.parametrize(
    ("rows", "places"),
    [
        (
            ["10:00,h1,5,1,a", "10:00,h1,6,2,a"],
            "load.csv:2 and :3 both say :speed and :user of :h1 at 2024-03-01T10:00:00Z: their",
        ),
        (["10:00,h1,5,1,a", "10:00,h2,5,1,a", "10:00,h1,5,2,b"], "load.csv:2 and :4 both say :user and :of of :h1"),
        (["10:00,h1,,1,a", "10:00,h1,5,2,", "10:00,h1,6,,b"], ""),
        (["10:00,h1,,1,a", "10:00,h1,5,2,", "10:00,h1,6,3,b"], "load.csv:2 and :4 both say :user and :of"),
        (["10:00,h1,5,1,a", "10:00,h1,6,1,a"], ""),
        (["10:00,h1,5,1,a", "10:00,h2,6,2,b"], ""),
        (["10:00,h1,5,1,a", "10:01,h1,6,2,b"], ""),
        (["10:00,h1,5,1,a", "10:00,h1,5,1,a"], ""),
    ],
)
def test_values_of_two_records_that_mix_are_told(project: Project, rows: list[str], places: str) -> None:
    project.write("r.dotr", RULE)
    project.write("c.yaml", LOAD)
    project.write("load.csv", "\n".join(["at,host,idle,user,rack", *(f"2024-03-01T{row.replace(',', 'Z,', 1)}" for row in rows), ""]))
    answer = project.dotr("check", "--data", "--", "c.yaml")
    assert (f"I119 warning: input load: {places}" in answer.err) if places else ("I119" not in answer.err)
    for key in ("one_per_instant: true, map", "one_per_instant: apart, map"):
        project.write("c.yaml", LOAD.replace("map", key))
        assert "I119" not in project.dotr("check", "--data", "--", "c.yaml").err
    project.write("c.yaml", LOAD.replace("engine", "report: { accept: [I119, I120] }\nengine"))
    assert "I119" not in project.dotr("check", "--data", "--", "c.yaml").err


def test_values_of_blank_nodes_do_not_mix(project: Project) -> None:
    project.write("r.dotr", RULE)
    project.write("c.yaml", LOAD.replace(":{host} a", "[] :host :{host} ; a"))
    project.write("load.csv", "at,host,idle,user,rack\n1,h1,5,1,a\n1,h1,6,2,b\n")
    assert "I119" not in project.dotr("check", "--data", "--", "c.yaml").err


AIR = "Date;Time;speed;road\n" + "".join(f"0{day}/03/2024;{hour:02}.30.00;1;a\n" for day in (1, 2) for hour in range(24))


def air(project: Project, time: str, rows: str = AIR) -> Project:
    project.write("r.dotr", RULE)
    project.write(
        "c.yaml", CONFIG.replace("time: at", f'time: {time}\n    time_format: "%d/%m/%Y"\n    time_zone: UTC\n    delimiter: ";"')
    )
    project.write("cars.csv", rows)
    return project


def test_midnights_beside_a_time_of_day_are_told_with_the_template(project: Project) -> None:
    answer = air(project, "Date").dotr("check", "--data", "c.yaml")
    assert "I125 warning: input cars: 24 records of each day share the time 00:00, beside a column Time\n" in answer.err
    assert 'Write time: "{Date} {Time}" and time_format: "%d/%m/%Y %H.%M.%S".' in answer.err
    project.change("c.yaml", "time: Date", 'time: "{Date} {Time}"')
    project.change("c.yaml", '"%d/%m/%Y"', '"%d/%m/%Y %H.%M.%S"')
    assert warnings(project) == []


def test_midnights_without_a_time_of_day_or_one_a_day_are_not_told(project: Project) -> None:
    assert "I125" not in air(project, "Date", AIR.replace(".30.00", "")).dotr("check", "--data", "c.yaml").err
    assert "I125" not in air(project, "Date", "".join(AIR.splitlines(keepends=True)[::24])).dotr("check", "--data", "c.yaml").err


def test_midnights_of_json_are_told_by_the_path_beside_the_time(project: Project) -> None:
    air(project, "at.day", '{"at": {"day": "01/03/2024", "clock": "7:30 pm"}}\n' * 2)
    project.change("c.yaml", "format: csv", "format: json")
    project.change("c.yaml", '\n    delimiter: ";"', "")
    answer = project.dotr("check", "--data", "c.yaml")
    assert 'Write time: "{at.day} {at.clock}" and time_format: "%d/%m/%Y %I:%M %p".' in answer.err


@pytest.mark.parametrize(
    ("time", "each", "message", "proposal"),
    [
        ("day", "rows[]", {"rows": [{"day": "01/03/2024", "of day": "07:30", "v": 1}] * 3}, '"{day} {of day}"'),
        ("at.day", "a[].b[]", {"a": [{"b": [{"at": {"day": "01/03/2024", "h.m": "07:30"}}] * 3}]}, """'{at.day} {at."h.m"}'"""),
        ('"[0]"', "rows[]", {"rows": [["01/03/2024", "a", "07:30"]] * 3}, '"{[0]} {[2]}"'),
        ("^.days[]", '["days[]", "hours[]"]', {"days": ["01/03/2024"] * 3, "hours": ["07:30"] * 3}, '"{^.days[]} {^.hours[]}"'),
    ],
)
def test_midnights_of_items_are_told(project: Project, time: str, each: str, message: object, proposal: str) -> None:
    air(project, time, json.dumps(message))
    project.change("c.yaml", "format: csv", f"format: json\n    each: {each}")
    project.change("c.yaml", '\n    delimiter: ";"', "")
    assert f'Write time: {proposal} and time_format: "%d/%m/%Y %H:%M".' in project.dotr("check", "--data", "c.yaml").err


@pytest.mark.parametrize(("time", "template"), [("[Date, Time]", "{Date} {Time}"), ('["{Date}", Time]', "{Date} {Time}")])
def test_list_of_a_date_and_a_time_of_day_is_refused_where_data_are_checked(project: Project, time: str, template: str) -> None:
    answer = air(project, time).dotr("check", "--data", "c.yaml")
    told = "time is the first of a list that is there: {} is there in every record (48), and Time is a time of day (00.30.00)"
    assert f"I124 {told.format('Date' if time == '[Date, Time]' else '{Date}')}\n" in answer.err
    assert f'Date and time of day are one text: time: "{template}".' in answer.err
    assert answer.code == 2
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 0
    assert "I124 warning: time is the first of a list" in answer.err


def test_list_whose_later_entry_never_counts_or_does(project: Project) -> None:
    answer = air(project, "[Date, road]").dotr("check", "--data", "c.yaml")
    assert "I124 time is the first of a list that is there: Date is there in every record (48), and road never counts\n" in answer.err
    assert "Else leave road out." in answer.err
    assert air(project, "[Time, Date]").dotr("check", "--data", "c.yaml").code == 2
    assert "I124" not in air(project, "[road, Date]", AIR.replace(";a\n", ";\n", 1)).dotr("check", "c.yaml").err
    assert "I124" not in project.dotr("check", "--data", "c.yaml").err
    answer = air(project, "[road, Time]", AIR.replace(";a\n", ";\n", 1)).dotr("check", "--data", "c.yaml")
    assert "I124 time is the first of a list that is there, and Time is a time of day (00.30.00)\n" in answer.err


@pytest.mark.parametrize("quote", ["", '"'])
def test_hour_that_comes_twice_is_told_where_it_goes_back(cars: Project, quote: str) -> None:
    cars.change("c.yaml", "lateness: 10 min", "lateness: 1 h\n    time_zone: Europe/Madrid")
    times = ["2021-10-31T02:15", "2021-10-31T02:45", "2021-10-31T02:05", "2021-10-31T02:00"]
    cars.write("cars.csv", "at,speed,road\n" + "".join(f"{quote}{time}{quote},12,A1\n" for time in times))
    assert warnings(cars) == ["input cars: cars.csv:4 goes back; from here on it may be the second 02:00 of Europe/Madrid"]
    cars.write("cars.csv", "at,speed,road\n" + "".join(f"{time}+02:00,12,A1\n" for time in times))
    assert warnings(cars) == []
    cars.write("cars.csv", "at,speed,road\n" + "".join(f"{time},12,A1\n" for time in sorted(times)))
    assert warnings(cars) == []
