"""Input formats on the command line: misplaced keys, dead letters, sizes, paces, checks of data before a run."""

from __future__ import annotations

import base64
import json
import time

import pytest

from tests.conftest import Project
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.core

RULES = """PREFIX : <http://e/>
rule Seen define Seen = [ [] :x ?x ] from S = [ SELECT ?x WHERE { ?x :v ?v } ] with Seen.?x = S.?x
"""
CONFIG = """name: formats
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: a, INPUT }
output: [{ path: out.ndjson }]
dead_letter: dead.ndjson
report: { dead_letters: 0 }
engine: local
"""


def configured(project: Project, settings: str) -> None:
    project.write("r.dotr", RULES)
    project.write("c.yaml", CONFIG.replace("INPUT", settings))


def letters(project: Project) -> list[dict[str, object]]:
    return [json.loads(line) for line in project.read("dead.ndjson").splitlines()]


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ("format: turtle, path: a.ttl, time: as:published", "C203 time names no predicate: the prefix as: has not been declared\n"),
        ("format: turtle, path: a.ttl, time: published", "C203 time names no predicate: published is no name with a prefix\n"),
        ("format: turtle, path: a.ttl, time: <a b>", "C203 time names no predicate: "),
        ("format: turtle, path: a.ttl, map: x", "C204 map belongs to csv, json, text and parquet, not to turtle\n"),
        ("format: turtle, path: a.ttl, contexts: { x: y }", "C204 contexts belongs to jsonld, not to turtle\n"),
        ("format: turtle, path: a.ttl, columns: [a]", "C204 columns belongs to csv, not to turtle\n"),
        (
            "format: turtle, path: a.ttl, time: $timestamp",
            "C204 $timestamp is the time that Kafka gives a message, and this input is by",
        ),
        (
            "format: ndjson, path: a.ttl, time: $received",
            "C204 $received is the time that what is copied when it arrives (mqtt, http, sse, websocket, ldes) has",
        ),
        ("format: turtle, path: a.ttl, time: $timestap", "Did you mean $timestamp?"),
        ("format: turtle, path: a.ttl, max_bytes: many", "C203 input.0.max_bytes cannot be used: many is no size"),
        ("format: turtle, path: a.ttl, pace: 0", "C203 input.0.pace"),
        ("format: turtle, path: a.ttl, time: prov:used/at", "prov:used/at is no path: write prov:used/prov:at, or for one predicate <"),
        ("format: turtle, path: a.ttl, time: prov:used/ex:at", "C203 time names no predicate: the prefix ex: has not been declared\n"),
        (
            "format: turtle, path: a.ttl, time: prov:used/prov:at*",
            "C203 time names no predicate: prov:at* is no part of a path of / and ^\n",
        ),
        ("format: turtle, path: a.ttl, time: prov:used/^prov:at", "C203 time names no predicate: prov:used/^prov:at ends at a subject"),
        (
            "format: ndjson, path: a.ttl, times: latest",
            "C204 times belongs to turtle, ntriples, jsonld, jelly, trig and nquads, not to ndjson\n",
        ),
        ("format: turtle, path: a.ttl, times: newest", "C203 input.0.times"),
        ("format: turtle, path: a.ttl, time: ^http://e/a", "C203 time names no predicate: the prefix http: has not been declared"),
        ("format: turtle, path: a.ttl, time: prov:used/", "prov:used/ is no path: write prov:used, or for one predicate <"),
        ("format: turtle, path: a.ttl, base: http://e/", "C204 base belongs to jsonld, not to turtle\n"),
        ("format: jsonld, path: a.ttl, base: plant/", "C203 base is no IRI: no scheme found"),
        ("format: jsonld, path: a.ttl, context: none.jsonld", "C301 cannot read none.jsonld: no such file or directory\n"),
        ("format: jsonld, path: a.ttl, contexts: { 'http://c/': a.ttl }", "C203 a.ttl is no JSON-LD context: "),
        ("format: csv, path: a.ttl, time: t, columns: [t, x], map: ':s :v {y}'", "I103 columns has no column y, which map names\n"),
        ("format: turtle, path: a.ttl, skip: 1", "C204 skip belongs to csv, not to turtle\n"),
        ("format: turtle, path: a.ttl, encoding: utf-16", "C204 encoding belongs to csv, json and text, not to turtle\n"),
        ("format: csv, path: a.ttl, time: t, map: ':s :v {x}', skip: -1", "C203 input.0.skip"),
        (
            "format: csv, path: a.ttl, time: t, map: ':s :v {x}', comment: ' '",
            "C203 input.0.comment cannot be used: blanks begin no comment\n",
        ),
        (
            "format: csv, path: a.ttl, time: t, map: ':s :v {x}', comment: Ω, encoding: latin-1",
            "C204 comment cannot be written in iso8859-1\n",
        ),
        (
            "format: csv, path: a.ttl, time: t, map: ':s :v {x}', each: 'a[]'",
            "C204 each of csv is columns, and a[] is the path of a list\n",
        ),
        ("format: json, path: a.ttl, time: t, map: ':s :v {x}', encoding: latin-1", "C204 json is in UTF-8 or UTF-16, not in iso8859-1\n"),
        (
            "format: csv, mqtt: { url: 'mqtt://localhost:1', topics: [a] }, time: t, map: ':s :v {x}', columns: [t, x], skip: 2",
            "C204 skip is of lines of a file, and this input is by mqtt\n",
        ),
        (
            "format: csv, kafka: { bootstrap.servers: x, subscribe: a }, time: t, map: ':s :v {x}', comment: '#'",
            "C204 comment is of lines of a",
        ),
        (
            "format: json, kafka: { bootstrap.servers: x, subscribe: a }, time: t, map: ':s :v {x}', encoding: utf-16",
            "C204 encoding is of lines of a file",
        ),
        ("format: jelly, sse: { url: 'http://localhost:1/' }", "C204 an event is text, and a frame of Jelly is bytes\n"),
        ("format: csv, path: a.ttl, time: $x, map: ':s :v {x}'", "C204 a message has no $x\n"),
        ("format: csv, path: a.ttl, time: $9, map: ':s :v {$0}', columns: [t, x]", "I103 columns has no column $9, which time names\n"),
        ("format: json, path: a.ttl, time: t, map: ':s :v {$key}'", "T107 $key is a property of messages of a broker, not of files\n"),
    ],
)
def test_invalid_settings_of_formats_are_refused(project: Project, settings: str, reported: str) -> None:
    project.write("a.ttl", "")
    configured(project, settings)
    assert reported in project.refused("run", "c.yaml")
    assert reported in project.refused("check", "c.yaml")


def test_undecodable_text_is_written_in_base64(project: Project) -> None:
    raw = b'<http://e/a> <http://e/v> "\xff" .\n' + b" " * 100_000
    project.write("a.nt", raw)
    configured(project, "format: ntriples, path: a.nt")
    assert project.dotr("run", "c.yaml").code == 1
    [letter] = letters(project)
    assert (letter["reason"], letter["encoding"], letter["error"]) == ("unreadable", "base64", "it is not UTF-8 (byte 27)")
    assert base64.b64decode(str(letter["text"])) == raw[: 64 << 10]
    configured(project, "format: ndjson, path: a.nt")
    assert project.dotr("run", "c.yaml", "--fresh").code == 1
    assert base64.b64decode(str(letters(project)[0]["text"])) == raw.splitlines()[0]


def test_message_beyond_the_limit_of_its_input_is_a_dead_letter(project: Project) -> None:
    project.write("a.ndjson", "".join(json.dumps({"time": n, "graph": ":a :v 1 ." + " " * 50 * n}) + "\n" for n in range(4)))
    configured(project, "format: ndjson, path: a.ndjson, max_bytes: 100")
    assert project.dotr("run", "c.yaml").code == 0
    assert [(each["reason"], each["line"]) for each in letters(project)] == [("limit", 3), ("limit", 4)]
    assert letters(project)[0]["error"] == "it has more than 100 bytes (limits.record, or the input's max_bytes)"


def test_empty_messages_are_counted(project: Project) -> None:
    project.write("a.ttl", 'VERSION "1.2-messages"\nPREFIX : <http://e/>\nMESSAGE\nMESSAGE\n:a :v 1 ; :at 5 .\nMESSAGE\n')
    configured(project, "format: turtle, path: a.ttl, time: ':at'")
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    assert "2 empty" in answer.err
    assert project.read("dead.ndjson") == ""
    assert "Input a: 1 record of 1 file, from 5 to 5;" in project.dotr("check", "--data", "c.yaml").out


def test_input_is_read_at_its_pace(project: Project) -> None:
    """Three seconds of stream time at a pace of 3 take one second; elements of equal times take none."""
    for end, least, most in ((3, 0.9, PATIENCE), (0, 0, PATIENCE)):
        lines = [json.dumps({"time": n * end // 3, "graph": ":a :v 1 ."}) for n in range(4)]
        project.write("a.ndjson", "\n".join(lines))
        configured(project, "format: ndjson, path: a.ndjson, pace: 3")
        start = time.monotonic()
        assert project.dotr("run", "c.yaml", "--fresh").code == 0
        assert least <= time.monotonic() - start < most
        assert len(project.read("out.ndjson").splitlines()) == len({n * end // 3 for n in range(4)})


def test_predicate_of_time_may_be_written_in_three_ways(project: Project) -> None:
    project.write("a.ttl", "@prefix : <http://e/> . :a :v 1 ; :at 5 .")
    for written in ("':at'", "<http://e/at>", "http://e/at"):
        configured(project, f"format: turtle, path: a.ttl, time: {written}")
        assert project.dotr("run", "c.yaml", "--fresh").code == 0
        assert json.loads(project.read("out.ndjson"))["time"] == 5


def test_base_of_an_input(project: Project) -> None:
    project.write("a.jsonld", '{"@context": {"v": "http://e/v", "at": "http://e/at"}, "@id": "pump/7", "v": {"@id": "."}, "at": 5}')
    settings = "format: jsonld, path: a.jsonld, time: ':at'"
    configured(project, settings)
    assert project.dotr("run", "c.yaml", "--fresh").code == 1
    [letter] = map(json.loads, project.read("dead.ndjson").splitlines())
    assert letter["error"] == "it has the relative IRI <pump/7> and no base: write @base in its context, or declare it (base)"
    assert "(base)" in project.dotr("check", "--data", "c.yaml").err
    configured(project, f"{settings}, base: 'http://e/plant/'")
    assert project.dotr("run", "c.yaml", "--fresh").code == 0
    assert json.loads(project.read("out.ndjson"))["attributes"] == {"x": "<http://e/plant/pump/7>"}
    assert "http://e/plant/pump/7" in project.dotr("facts", "c.yaml", "--at", "5").out


@pytest.mark.parametrize(("engine", "told"), [("spark", True), ("local", False)])
def test_check_names_files_that_tasks_cannot_divide(project: Project, engine: str, told: bool) -> None:
    mapped = "format: csv, time: t, map: ':s :v {v}'"
    configured(project, f"{mapped}, encoding: utf-16, path: a.csv }}\n  - {{ name: b, {mapped}, path: b.csv")
    project.write("a.csv", "t,v\n1,2\n".encode("utf-16"))
    project.write("b.csv", b"t,v\r1,2\r")
    project.change("c.yaml", "engine: local", f"engine: {engine}")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 0, answer.err
    lines = [
        "one task on Spark reads a.csv, since it is in UTF-16",
        "one task on Spark reads b.csv, since its lines end with a carriage return alone",
    ]
    assert [line in answer.out for line in lines] == [told, told]


def test_logger_file_is_read_to_its_end(project: Project) -> None:
    configured(
        project,
        "format: csv, path: a.csv, skip: 1, comment: '#', each: columns, time: $0, encoding: utf-16, "
        "map: '[] :v {$cell} ; :of :{$column} ; :line {$number} .'",
    )
    project.write(
        "a.csv", "TOA5\n\nTIMESTAMP,T1,T2\n# units: C\n2026-03-01 12:00:00,20.5,\n2026-03-01 12:00:01,,x\nbroken,1,2\n".encode("utf-16")
    )
    answer = project.dotr("run", "c.yaml")
    assert "2 elements" in answer.err
    [letter] = letters(project)
    assert (letter["file"], letter["line"], letter["reason"], letter["text"]) == ("a.csv", 7, "unreadable", "broken,1,2")
