"""Mistakes of users: each ends with one message with place and remedy and exit code 2, or in a dead
letter."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.conftest import CONFIG, DATA, Project

pytestmark = pytest.mark.core

CSV = "{ name: a, format: csv, path: a.csv, time: t, map: ':{x} a :A .' }"
NDJSON = "{ name: a, format: ndjson, path: a.ndjson }"


# --- the configuration file ---


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "C102 c.yaml is empty"),
        ("# nothing\n", "C102 c.yaml is empty"),
        ("- a\n", "c.yaml:1:1: C102 a configuration is a mapping"),
        ("just text", "c.yaml:1:1: C102 a configuration is a mapping"),
        ("a: [1, 2", "c.yaml:1:9: C102 this is not YAML: expected ',' or ']'"),
        ("name: x\n---\nname: y\n", "c.yaml:2:1: C102 this is not YAML: found another document"),
        ("name: &x [*x]\n", "c.yaml:1:7: C102 this cannot be read: an alias stands inside what it names"),
        ("? [1, 2]\n: 3\n", "c.yaml:1:3: C102 a key is a word"),
        ("name: !!python/object:os.system x\n", "c.yaml:1:7: C102 this is not YAML: could not determine a constructor"),
        ("name: !!int x\n", "c.yaml:1:7: C102 this is no int"),
        ("name: \x00\n", "c.yaml:1:7: C102 this is not YAML: the character U+0000 may not stand in it"),
        ("\tname: x\n", "Indent with spaces."),
        (b"name: \xff", "C302 cannot read c.yaml: it is not UTF-8 (byte 6)\nSave it as UTF-8."),
        ("name: x".encode("utf-16"), "C302 cannot read c.yaml: it is not UTF-8 (byte 0)\nSave it as UTF-8."),
        ("[" * 1000, "C102 c.yaml is nested too deeply"),
    ],
)
def test_non_configuration_file_is_refused(project: Project, text: str | bytes, reported: str) -> None:
    project.write("c.yaml", text)
    assert reported in project.refused("run", "c.yaml")
    assert reported in project.refused("check", "c.yaml")


def test_yaml_with_many_aliases_is_refused(project: Project) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    project.write("c.yaml", "\n".join(lines))
    assert "it has more than 100,000 values" in project.refused("run", "c.yaml")


def test_missing_configuration_and_folder_are_refused(project: Project) -> None:
    assert project.refused("run", "none.yaml").startswith("C302 cannot read none.yaml: there is no such file\n")
    assert project.refused("run", ".") == "C302 cannot read .: is a directory\nName a file that may be read.\n"


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("engine: local", "engine: locla", "c.yaml:9:9: C203 engine should be spark or local\n"),
        ("engine: local", "engin: local", "c.yaml:9:1: C201 unknown key engin\n"),
        ("rules: [r.dotr]", "rules: r.dotr", "c.yaml:3:8: C203 rules should be a list\n"),
        ("rules: [r.dotr]", "rules: []", "c.yaml:3:8: C203 rules needs at least one entry\n"),
        ("rules: [r.dotr]", "rules:", "C203 rules is empty\n"),
        ("name: small", "name: 7", "c.yaml:1:7: C203 name should be text\n"),
        ("name: small", "name: ''", "c.yaml:1:7: C203 name is empty\n"),
        ("name: small", "name: ${DOTR_TEST_NEVER_SET}", "c.yaml:1:7: C104 the environment has no variable DOTR_TEST_NEVER_SET\n"),
        ("name: small", "name: small\ntime: 5", "c.yaml:2:7: C203 time should be a mapping\n"),
        ("name: small", "name: small\nspark: { batch: 0 }", "C203 spark.batch cannot be used: input should be greater than 0\n"),
        ('"http://e/"', '"not an iri"', "c.yaml:2:11: I105 prefix : <not an iri> cannot be used"),
        ('"": "http://e/"', '"a b": "http://e/"', "c.yaml:2:11: I105 prefix a b: <http://e/> cannot be used"),
    ],
)
def test_wrong_value_is_refused_at_its_place(project: Project, old: str, new: str, reported: str) -> None:
    project.change("c.yaml", old, new)
    assert reported in project.refused("run", "c.yaml")


@pytest.mark.parametrize(
    ("option", "reported"),
    [
        ("output.0.path", "C105 --set output.0.path is not key.path=value\n"),
        ("output.0.pth=x", "--set:1:14: C201 unknown key pth\n"),
        ("output.x.path=1", "--set:1:1: C105 the configuration has no place output.x.path\n"),
        ("output.7.path=1", "--set:1:1: C105 the configuration has no place output.7.path\n"),
        ("time.unit=fortnight", "--set:1:11: C203 time.unit should be us, ms, s, min, h or d\n"),
        ("rules=r.dotr", "--set:1:7: C203 rules should be a list\n"),
        ("rules.0=none.dotr", "--set:1:9: C301 there is no file none.dotr\n"),
        ("name=[1", "--set:1:8: C102 this is not YAML"),
        ("name=", "--set:1:6: C203 name is empty\n"),
        ("input.0.lateness=x", "--set:1:18: C205 lateness: 'x' is no length of time"),
        ("spark.trigger=soon", "--set:1:15: C203 spark.trigger cannot be used: 'soon' is no length of time: write 0 s, 30 s or 5 min"),
    ],
)
def test_wrong_option_is_refused(project: Project, option: str, reported: str) -> None:
    assert reported in project.refused("run", "c.yaml", "--set", option)


def test_all_wrong_options_are_reported(project: Project) -> None:
    reported = project.refused("run", "c.yaml", "--set", "name", "--set", "a.b", "--set", "output.9=x")
    assert reported.count("C105") == 3


@pytest.mark.parametrize("arguments", [[], ["rnu"], ["run"], ["run", "c.yaml", "--frsh"], ["run", "c.yaml", "--engine", "flink"]])
def test_wrong_usage_ends_with_2(project: Project, arguments: list[str]) -> None:
    assert "usage: dotr" in project.refused(*arguments)


# --- files that are missing or cannot be read ---


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("rules: [r.dotr]", "rules: [none.dotr]", "c.yaml:3:9: C301 there is no file none.dotr\n"),
        ("rules: [r.dotr]", "rules: [r.dotr, 'x*.dotr']", "c.yaml:3:17: C301 no file matches x*.dotr\n"),
        ("rules: [r.dotr]", "rules: ['.']", "c.yaml:3:9: C301 . is a folder\n"),
        ("path: a.ndjson", "path: none.ndjson", "c.yaml:5:38: C301 there is no file none.ndjson\n"),
        ("path: a.ndjson", "path: 'none*.ndjson'", "c.yaml:5:38: C301 no file matches none*.ndjson\n"),
        ("path: a.ndjson", "path: .", "c.yaml:5:38: C301 . is a folder\n"),
        ("path: a.ndjson", "path: /dev/null", "c.yaml:5:38: C301 /dev/null is no regular file\n"),
        ("rules:", "knowledge: { graphs: [none.ttl] }\nrules:", "c.yaml:3:23: C301 there is no file none.ttl\n"),
        ("rules:", "knowledge: { datalog: [none.dlog] }\nrules:", "c.yaml:3:24: C301 there is no file none.dlog\n"),
    ],
)
def test_missing_file_is_refused(project: Project, old: str, new: str, reported: str) -> None:
    project.change("c.yaml", old, new)
    message = project.refused("run", "c.yaml")
    assert reported in message
    assert "out.ndjson" not in project.files()
    assert reported in project.refused("check", "c.yaml")


def test_all_missing_files_are_reported_together(project: Project) -> None:
    project.write(
        "c.yaml", CONFIG.replace("r.dotr", "none.dotr").replace("path: a.ndjson", "path: none.ndjson") + "knowledge: { graphs: [x] }\n"
    )
    assert project.refused("run", "c.yaml").count("C301") == 3


@pytest.mark.parametrize(
    ("name", "text", "reported"),
    [
        ("g.ttl", "<http://e/a> <http://e/b> .", "g.ttl:1:27: K104"),
        ("g.ttl", b"\x00\x01\xff\xff", "g.ttl:1:1: K104"),
        ("g.xyz", "", "g.xyz: no RDF syntax is known by this extension"),
        ("g.ttl.gz", b"<a> <b> .", "damaged gzip file"),
        ("g.ttl.gz", gzip.compress(b"<http://a> <http://b> <http://c> .", mtime=0)[:-12], "damaged gzip file"),
    ],
)
def test_unreadable_graph_is_refused(project: Project, name: str, text: str | bytes, reported: str) -> None:
    project.write(name, text)
    project.change("c.yaml", "rules:", f"knowledge: {{ graphs: [{name}] }}\nrules:")
    message = project.refused("run", "c.yaml")
    assert reported in message
    assert "\x00" not in message


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("@prefix : <http://e/> .\n:a(?x, ?z) :- :b(?x, ?y) .\n", "d.dlog:2:1: K301 rule d.dlog:2: no atom of the body binds ?z"),
        ("@prefix : <http://e/> .\n:a(?x, ?z :- :b(?x, ?y) .\n", "d.dlog:2:11: K201 expected `,` or `)`, found :-"),
        (":a(?x) :- p:b(?x) .", "d.dlog:1:11: "),
        (b"\xff", "c.yaml:3:24: C302 cannot read d.dlog: it is not UTF-8"),
    ],
)
def test_wrong_datalog_is_refused(project: Project, text: str | bytes, reported: str) -> None:
    project.write("d.dlog", text)
    project.change("c.yaml", "rules:", "knowledge: { datalog: [d.dlog] }\nrules:")
    assert reported in project.refused("run", "c.yaml")


def test_wrong_rules_are_refused(project: Project) -> None:
    project.change("r.dotr", "from A", "form A")
    reported = project.refused("run", "c.yaml")
    assert reported.startswith("r.dotr:4:1: D101 expected 'from', found 'form'\n")
    assert reported.endswith("Did you mean from?\n")
    project.write("r.dotr", b"\xff")
    assert "c.yaml:3:9: C302 cannot read r.dotr: it is not UTF-8 (byte 0)" in project.refused("run", "c.yaml")


# --- inputs ---


@pytest.mark.parametrize(
    ("entry", "reported"),
    [
        (NDJSON.replace("ndjson, p", "csv, p"), "c.yaml:5:5: C202 a csv input needs time\n"),
        (NDJSON.replace("ndjson, p", "csv, p"), "c.yaml:5:5: C202 a csv input needs map\n"),
        (
            NDJSON.replace(" }", ", time: t }"),
            "c.yaml:5:48: C204 time belongs to csv, json, text, parquet, turtle, ntriples, jsonld, jelly, trig and nquads, not to nd",
        ),
        (CSV.replace("{x}", "{y}"), "I103 a.csv has no column y, which map names\n"),
        (CSV.replace("time: t", "time: u"), "I103 a.csv has no column u, which time names\n"),
        (CSV.replace("a :A", "a p:A"), "c.yaml:5:64: T103 unknown prefix p:\n"),
        (CSV.replace("a :A .", "a :A :B"), "c.yaml:5:67: T101 expected `.`, `;` or `,`"),
        (CSV.replace("map", "delimiter: ';;', map"), "c.yaml:5:62: C203 input.0.delimiter should be a single character\n"),
        (CSV.replace("map", "delimiter: '\"', map"), "c.yaml:5:62: C203 input.0.delimiter cannot be used: a quote or a line end"),
        (CSV.replace("map", "delimiter: ';', map"), "is the delimiter ';'?"),
        (CSV.replace("map", "lateness: 5 mim, map"), "c.yaml:5:61: C205 lateness: unknown unit mim"),
        (CSV.replace("map", "lateness: -5, map"), "c.yaml:5:61: C205 lateness: a delay is not negative\n"),
        (CSV.replace("map", "lateness: [5], map"), "c.yaml:5:61: C203 input.0.lateness should be text\n"),
    ],
)
def test_wrong_input_is_refused(project: Project, entry: str, reported: str) -> None:
    project.write("a.csv", "t,x\n1,a\n")
    project.change("c.yaml", NDJSON, entry)
    assert reported in project.refused("run", "c.yaml")
    assert reported in project.refused("check", "c.yaml")


@pytest.mark.parametrize(
    ("header", "reported"),
    [
        ("\n", "I102 a.csv has no header\n"),
        ("t,t,x\n", "I104 a.csv has two columns t\n"),
        (b"t,\xe5\n", "I102 the header of a.csv is not UTF-8 (byte 2)\n"),
    ],
)
def test_wrong_csv_header_is_refused(project: Project, header: str | bytes, reported: str) -> None:
    project.write("a.csv", header)
    project.change("c.yaml", NDJSON, CSV)
    assert reported in project.refused("run", "c.yaml")


def test_problem_in_multiline_map_has_its_place(project: Project) -> None:
    project.write("a.csv", "t,x\n1,a\n")
    project.change(
        "c.yaml", NDJSON, "name: a\n    format: csv\n    path: a.csv\n    time: t\n    map: |\n      [] a :A ;\n         p:b {x} .\n"
    )
    assert "map of input a:2:4: T103 unknown prefix p:" in project.refused("run", "c.yaml")


def test_broken_lines_become_dead_letters(project: Project) -> None:
    lines = [
        ('{"time": "soon", "graph": ""}', "unreadable", None),
        ('{"time": 1}', "unreadable", 1),
        ('{"graph": ":a a :A ."}', "unreadable", None),
        ("not json", "unreadable", None),
        ("[1]", "unreadable", None),
        ('{"time": 2, "graph": ":a a"}', "unreadable", 2),
        ('{"time": 2.5, "graph": ""}', "unreadable", None),
        ('{"time": 3, "graph": "p:a a :A ."}', "unreadable", 3),
        ('{"time": 3, "graph": ":a a :A ."}', "", 3),
        ('{"time": 1, "graph": ":a a :A ."}', "late", 1),
    ]
    project.write("a.ndjson", "".join(f"{text}\n" for text, _, _ in lines))
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    assert answer.err.endswith("1 element, 1 instant, 1 fact, 1 event -> out.ndjson\nDead letters: 1 late, 8 unreadable -> dead.ndjson\n")
    assert "a.ndjson:1: dead letter (unreadable): its time cannot be read: 'soon'" in answer.err
    assert "a: more dead letters (unreadable) follow and are only counted here" in answer.err
    letters = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    expected = [(reason, number, time, text) for number, (text, reason, time) in enumerate(lines, 1) if reason]
    assert [(d["reason"], d["line"], d["time"], d["text"]) for d in letters] == expected
    assert {(d["input"], d["file"]) for d in letters} == {("a", "a.ndjson")}


def test_broken_rows_become_dead_letters(project: Project) -> None:
    project.write("a.csv", "t,x\n1,a\n2\n3,b,c\nsoon,d\n4,e\n")
    project.change("c.yaml", NDJSON, CSV)
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    assert "a.csv:3: dead letter (unreadable): it has 1 column where the header has 2" in answer.err
    assert [json.loads(line)["text"] for line in project.read("dead.ndjson").splitlines()] == ["2", "3,b,c", "soon,d"]
    assert len(project.read("out.ndjson").splitlines()) == 2


@pytest.mark.parametrize("data", [b"", b'\xff\xfe{"time"', gzip.compress(DATA.encode(), mtime=0)[:-9], b"\x00" * 100])
def test_unreadable_input_gives_dead_letters_alone(project: Project, data: bytes) -> None:
    project.write("a.ndjson", data)
    answer = project.dotr("run", "c.yaml")
    assert answer.code == (1 if data else 0), "it rejected all that it read, if there was anything"
    assert "0 elements, 0 instants" in answer.err or "1 element, 1 instant" in answer.err


def test_two_inputs_may_read_one_file(project: Project) -> None:
    project.change("c.yaml", NDJSON, f"{NDJSON}\n  - {NDJSON}")
    answer = project.dotr("run", "c.yaml")
    assert answer.err == "2 elements, 1 instant, 1 fact, 1 event -> out.ndjson\n"


# --- outputs ---


@pytest.mark.parametrize(
    ("path", "reported"),
    [
        ("/proc/none/out.ndjson", "c.yaml:7:13: I202 cannot write /proc/none/out.ndjson"),
        ("a.ndjson/out.ndjson", "c.yaml:7:13: I202 cannot write a.ndjson/out.ndjson"),
        ("ftp://host/out", "c.yaml:7:13: C203 no store has the scheme ftp://\n"),
        (".", "c.yaml:7:13: C206 the output . holds c.yaml, the configuration\n"),
        ("/", "c.yaml:7:13: C206 the output / holds c.yaml, the configuration\n"),
        ("a.ndjson", "c.yaml:7:13: C206 the output a.ndjson is the input a\n"),
        ("r.dotr", "c.yaml:7:13: C206 the output r.dotr is named by rules\n"),
        ("c.yaml", "c.yaml:7:13: C206 the output c.yaml is the configuration\n"),
        ("dead.ndjson", "c.yaml:8:14: C206 the dead letters dead.ndjson and the output dead.ndjson stand in each other's way\n"),
        ("dead.ndjson/out", "c.yaml:8:14: C206 the dead letters dead.ndjson and the output dead.ndjson/out stand in each other's way\n"),
    ],
)
@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_impossible_output_is_refused(project: Project, path: str, reported: str, fresh: list[str]) -> None:
    project.change("c.yaml", "path: out.ndjson", f"path: {path}")
    before = project.files()
    message = project.refused("run", "c.yaml", *fresh)
    assert reported in message
    assert message.count("C206") <= 1
    assert project.files() == before


def test_impossible_output_leaves_no_files_of_other_outputs(project: Project) -> None:
    project.change("c.yaml", "output:", "output:\n  - { path: first.ndjson }")
    project.change("c.yaml", "dead.ndjson", "/proc/none/dead.ndjson")
    before = project.files()
    assert "c.yaml:9:14: I202 cannot write /proc/none/dead.ndjson" in project.refused("run", "c.yaml")
    assert project.files() == before


def test_duplicate_output_is_refused(project: Project) -> None:
    project.change("c.yaml", "output:", "output:\n  - { path: ./out.ndjson, format: trig }")
    assert "c.yaml:8:13: C206 the output out.ndjson and the output out.ndjson stand in each other's way" in project.refused("run", "c.yaml")


def test_full_disk_ends_with_one_line(project: Project) -> None:
    project.change("c.yaml", "path: out.ndjson", "path: /dev/full")
    answer = project.dotr("run", "c.yaml")
    assert answer == (1, "", "The run failed: cannot write /dev/full: no space left on device (the output before that is kept)\n")


# --- Java ---


def without_java(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def test_client_of_spark_connect_is_no_driver(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    reported = project.refused("run", "c.yaml", "--engine", "spark")
    assert reported.startswith("S101 Spark cannot run here: SPARK_REMOTE names a server of Spark Connect")


def test_missing_java_is_refused_where_spark_is_requested(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    without_java(monkeypatch, project.folder)
    reported = project.refused("run", "c.yaml", "--engine", "spark")
    assert reported.startswith("S101 Spark cannot run here: there is no java on the PATH")
    assert "Install Java 17 or later" in reported
    assert "out.ndjson" not in project.files()


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_missing_java_falls_back_to_local(project: Project, monkeypatch: pytest.MonkeyPatch, quiet: list[str]) -> None:
    without_java(monkeypatch, project.folder)
    project.change("c.yaml", "engine: local", "engine: spark")
    answer = project.dotr("run", "c.yaml", *quiet)
    assert answer.code == 0
    assert "there is no java on the PATH, and JAVA_HOME is not set. So the run goes on in this process" in answer.err
    assert (project.folder / "out.ndjson").is_file()


def test_wrong_java_home_is_reported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    without_java(monkeypatch, project.folder)
    monkeypatch.setenv("JAVA_HOME", "/none")
    assert "JAVA_HOME is /none, but there is no /none/bin/java" in project.refused("run", "c.yaml", "--engine", "spark")


def test_old_java_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    without_java(monkeypatch, project.folder)
    project.write("java", "#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n").chmod(0o755)
    assert "java is version 11; Spark needs 17 or later" in project.refused("run", "c.yaml", "--engine", "spark")
