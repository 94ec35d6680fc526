"""The keys `time` and `time_format` of a configuration: templates, lists, numbers since 1970."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

RULE = "PREFIX : <http://e/>\nrule R define Out = [ [] :v ?v ] from A = [ SELECT ?v WHERE { ?x :v ?v } ] with Out.?v = A.?v\n"
CONFIG = """\
name: times
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: log, format: csv, path: log.csv, map: "[] :v {v} .", time: TIME }
output: [ { path: out.ndjson } ]
dead_letter: dead.ndjson
engine: local
"""


@pytest.fixture
def log(project: Project) -> Project:
    project.write("r.dotr", RULE)
    project.write("log.csv", "day,hour,v\n2023-02-05,07,1\n2023-02-05,24,2\n")
    return project


def outcome(log: Project, time: str) -> list[object]:
    log.write("c.yaml", CONFIG.replace("TIME", time))
    answer = log.dotr("run", "c.yaml", "--fresh")
    if answer.code == 2:
        return [line for line in answer.err.splitlines() if " C20" in line or line.startswith(("A time", "If", "Name", "Leave"))]
    return [json.loads(line)["time"] for line in log.read("out.ndjson").splitlines()]


def test_template_with_a_format(log: Project) -> None:
    assert outcome(log, '"{day} {hour}", time_format: "%Y-%m-%d %H", time_zone: Asia/Tokyo') == [
        "2023-02-04T22:00:00Z",
        "2023-02-05T15:00:00Z",
    ]
    assert outcome(log, '["{day}T{hour}:00"]') == ["2023-02-05T07:00:00Z", "2023-02-06T00:00:00Z"]


@pytest.mark.parametrize(
    ("time", "reported"),
    [
        ('"{day} {}"', "C203 time: {day} {} has a pair of braces without a name"),
        ('[day, "{hour"]', "C203 time: {hour has a brace that opens or closes no cell"),
        ('"{day} {hour:integer}"', 'C203 time: {hour:integer} has a type, and a time has none: write {"hour:integer"} if that is its name'),
        ('"{$timestamp} {hour}"', "C203 time: {$timestamp} stands alone, or in a list"),
        ('"{$key} {hour}"', "C203 time: {$key} is no part of a time"),
        ('[day, ""]', "C203 input.0.time.1"),
        ("[]", "C203 input.0.time"),
        ("[day, $timestamp]", "C204 $timestamp is the time that Kafka gives a message, and this input is by path"),
        ('day, time_format: "%H:%M"', "C203 input.0.time_format cannot be used: %H:%M has no year"),
        ('day, time_format: "%Y-%m-%d %Z"', "C203 input.0.time_format cannot be used: the name of a zone (%Z) tells no time"),
    ],
)
def test_time_that_cannot_be_read_is_refused_at_its_place(log: Project, time: str, reported: str) -> None:
    (first, *_) = outcome(log, time)
    assert reported.partition(" ")[2] in str(first), first
    assert str(first).startswith("c.yaml:5:")


def test_list_of_times_belongs_to_records_with_cells(log: Project) -> None:
    log.write(
        "c.yaml",
        CONFIG.replace("TIME", "[a, b]").replace("csv, path: log.csv", "ndjson, path: log.csv").replace('map: "[] :v {v} .", ', ""),
    )
    assert "C204 a list of times belongs to csv, json, text and parquet, not to ndjson" in log.dotr("check", "c.yaml").err


def test_numbers_since_1970_are_no_integers_of_the_unit(log: Project) -> None:
    log.write("log.csv", "at,v\n1709294400.5,1\n1709294400.7500009,2\n")
    assert outcome(log, "at, time_format: unix") == ["2024-03-01T12:00:00.5Z", "2024-03-01T12:00:00.75Z"]
    log.write("log.csv", "at,v\n12.0,1\n1.4e1,2\n")
    assert outcome(log, "at") == [12, 14]


def test_numbers_since_1970_beside_integers_of_the_unit_are_refused(log: Project) -> None:
    log.write("log.csv", "at,v\n1709294400,1\n")
    log.write("other.ndjson", '{"time": 5, "graph": ""}\n')
    other = "at, time_format: unix_ms }\n  - { name: other, format: ndjson, path: other.ndjson"
    told = outcome(log, other)
    assert "C204 the times of input log (unix_ms) are date-times, and those of other are integers" in str(told[0])
    assert told[1] == "If those of other count from 1970 too, write time_format for it as well: unix, unix_ms, unix_us, unix_ns."
    log.write("other.ndjson", '{"time": "2024-03-01T12:00:00Z", "graph": ""}\n')
    assert outcome(log, other) == ["1970-01-20T18:48:14.4Z"]


def test_unreadable_time_of_several_cells_is_a_dead_letter(log: Project) -> None:
    log.write("log.csv", "day,hour,v\n2023-02-05,07,1\n2023-02-05,,2\n2023-02-05,seven,3\n")
    assert outcome(log, '"{day} {hour}:00"') == ["2023-02-05T07:00:00Z"]
    letters = [json.loads(line) for line in log.read("dead.ndjson").splitlines()]
    assert [(letter["reason"], letter["line"], letter["error"]) for letter in letters] == [
        ("unreadable", 3, "it has no time: day or hour is not there"),
        ("unreadable", 4, "its time, {day} {hour}:00: '2023-02-05 seven:00' is no ISO 8601 date-time"),
    ]
