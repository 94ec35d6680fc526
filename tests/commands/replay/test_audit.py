"""Command `dotr audit`: what a run has written beside what a replay gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dotr.runtimes import external_sort
from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://example.org/tank#>
query Level = [ SELECT ?tank ?level WHERE { ?r :of ?tank ; :level ?level } ]
rule Full define Full = [ dotr_id a :Full ; :tank ?tank ; :level ?level ]
from Level [ FILTER(?level > 90) ]
with Full.?tank = Level.?tank, Full.?level = Level.?level
rule Still define Still = [ [] a :Still ; :tank ?tank ]
from Full delayed by 5 s and not Level [ FILTER(?tank = Full.?tank) ] within [0, 5 s) from Full
with Still.?tank = Full.?tank
"""
CONFIG = """\
name: tanks
prefixes: { "": "http://example.org/tank#" }
rules: [tank.dotr]
input:
  - { name: levels, format: ndjson, path: in.ndjson }
output:
  - { format: FORMAT, path: PATH }
"""
LEVELS = [(10, "a", 95), (12, "b", 80), (12, "a", 91), (20, "b", 99), (20, "a", 5), (40, "c", 93)]


def write(project: Project, form: str = "ndjson", path: str = "out.ndjson") -> None:
    project.write("tank.dotr", RULES)
    project.write("tanks.yaml", CONFIG.replace("FORMAT", form).replace("PATH", path))
    lines = [json.dumps({"time": time, "graph": f"[] :of :{tank} ; :level {level} ."}) for time, tank, level in LEVELS]
    project.write("in.ndjson", "".join(f"{line}\n" for line in lines))
    assert project.dotr("run", "tanks.yaml", "--engine", "local", "--quiet").code == 0


def test_run_that_wrote_all(project: Project) -> None:
    write(project)
    answer = project.dotr("audit", "tanks.yaml")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == (
        "out.ndjson: up to 45 (the last event written)\n  Full   4 the same, 0 missing, 0 more\n  Still  3 the same, 0 missing, 0 more\n"
    )


def test_missing_and_further_events(project: Project) -> None:
    write(project)
    lines = project.read("out.ndjson").splitlines(keepends=True)
    assert '"level": "\\"91\\"' in lines[1]
    lines[1] = lines[1].replace('\\"91\\"', '\\"92\\"')
    project.write("out.ndjson", "".join([lines[0], lines[0], *lines[1:-1]]))
    answer = project.dotr("audit", "tanks.yaml")
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "out.ndjson: up to 40 (the last event written)",
        "  Full   3 the same, 1 missing, 2 more",
        "  Still  2 the same, 0 missing, 0 more",
        "  missing: Full at 12: level 91, tank :a",
        "    dotr why tanks.yaml --rule Full --at 12",
        "  more: Full at 10 out.ndjson:2: level 95, tank :a",
        "    dotr why-not tanks.yaml --rule Full --at 10",
        "  more: Full at 12 out.ndjson:3: level 92, tank :a",
        "    dotr why-not tanks.yaml --rule Full --at 12",
        "  beyond that time: 0 written, 1 in the replay",
    ]


@pytest.mark.parametrize("to", ["10", "11"])
def test_events_up_to_a_time(project: Project, to: str) -> None:
    write(project)
    project.write("out.ndjson", "".join(project.read("out.ndjson").splitlines(keepends=True)[:1]))
    assert project.dotr("audit", "tanks.yaml", "--to", to).code == 0
    answer = project.dotr("audit", "tanks.yaml", "--to", "12", "--format", "json", "--show", "1")
    assert answer.code == 1
    assert json.loads(answer.out) == {
        "differs": True,
        "to": 12,
        "bound": "--to",
        "outputs": [
            {
                "output": "out.ndjson",
                "differs": True,
                "rules": [{"rule": "Full", "same": 1, "missing": 1, "more": 0}],
                "missing": [{"time": 12, "rule": "Full", "text": "level 91, tank :a", "place": None}],
                "more": [],
                "beyond": {"written": 0, "replayed": 5},
            }
        ],
        "not_compared": [],
    }


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ("csv", "out.csv"),
        ("trig", "out.trig"),
        ("nquads", "out.nq"),
        ("jsonld", "out.jsonld"),
        ("jelly", "out.jelly.gz"),
        ("ndjson", "out.ndjson.gz"),
        ("parquet", "out.parquet"),
    ],
)
def test_other_formats(project: Project, form: str, path: str) -> None:
    write(project, form, path)
    answer = project.dotr("audit", "tanks.yaml")
    assert (answer.code, answer.err) == (0, "")
    assert "Full   4 the same, 0 missing, 0 more\n  Still  3 the same, 0 missing, 0 more" in answer.out
    if form == "parquet":
        return
    if path.endswith(".gz"):
        before, after = (b"\x12\x01b", b"\x12\x01d") if form == "jelly" else (b"tank#b", b"tank#d")  # a name of one letter
        packed = gzip.decompress((project.folder / path).read_bytes()).replace(before, after, 1)
        project.write(path, gzip.compress(packed))
    else:
        text = project.read(path)
        old, new = (":tank :b", ":tank :d") if form == "trig" else ("tank#b", "tank#d")
        project.write(path, text.replace(old, new, 1))
    answer = project.dotr("audit", "tanks.yaml")
    assert answer.code == 1
    assert "Full   3 the same, 1 missing, 1 more" in answer.out


def test_text_that_is_no_event_and_a_line_that_is_being_written(project: Project) -> None:
    write(project)
    text = project.read("out.ndjson")
    project.write("out.ndjson", text[:-20])
    assert "beyond that time: 0 written, 1 in the replay" in project.dotr("audit", "tanks.yaml").out
    project.write("out.ndjson", text + "something else\n")
    answer = project.dotr("audit", "tanks.yaml")
    assert answer.code == 1
    assert "  more: (no event) at 45 out.ndjson:8: something else" in answer.out


def test_empty_output_of_a_stream_that_has_ended_lacks_all(project: Project) -> None:
    write(project)
    project.write("out.ndjson", "")
    answer = project.dotr("audit", "tanks.yaml", "--show", "0")
    assert (answer.code, answer.out.splitlines()[:2]) == (1, ["out.ndjson: to the end", "  Full   0 the same, 4 missing, 0 more"])


def test_chosen_events_and_outputs_that_are_not_there(project: Project) -> None:
    write(project)
    project.change(
        "tanks.yaml", "ndjson, path: out.ndjson }", "ndjson, path: out.ndjson, events: [Full] }\n  - { format: csv, path: no.csv }"
    )
    answer = project.dotr("audit", "tanks.yaml", "--show", "0")
    assert answer.err == "Not compared: no.csv, which is not there.\n"
    assert answer.out.splitlines()[1:] == ["  Full   4 the same, 0 missing, 0 more", "  Still  0 the same, 0 missing, 3 more"]
    (project.folder / "out.ndjson").unlink()
    assert project.refused("audit", "tanks.yaml").startswith(
        "C224 there is nothing to compare the replay with: out.ndjson, which is not there; no.csv, which is not there"
    )


def test_comparison_of_more_events_than_memory_holds(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_sort.SortedRuns.__init__, "__defaults__", (2,))
    write(project)
    folder = project.folder / "batches"
    folder.mkdir()
    for number, line in enumerate(project.read("out.ndjson").splitlines(keepends=True)):
        Path(folder, f"{number:05}.ndjson").write_text(line)
    answer = project.dotr("audit", "tanks.yaml", "--set", f"output.0.path={folder}")
    assert (answer.code, answer.out.splitlines()[1]) == (0, "  Full   4 the same, 0 missing, 0 more")


def test_a_recording_in_place_of_the_inputs(project: Project) -> None:
    """The recording of a run that was stopped bounds the comparison by its last line."""
    project.write("r.dotr", "rule R define E = [ [] :is ?v ] from A = [ SELECT ?v WHERE { ?s :v ?v } ] with E.?v = A.?v")
    project.write(
        "c.yaml",
        'name: c\nprefixes: { "": "http://e/" }\nrules: [r.dotr]\nclock: 1 s\nrecord: run.ndjson\n'
        'input: [{ name: in, format: ndjson, path: "-" }]\noutput: [{ format: ndjson, path: out.ndjson }]\n',
    )
    lines = [f'{{"time": {at}, "input": "in", "stream": "in", "graph": "<http://e/s> <http://e/v> \\"{at}\\" ."}}\n' for at in (1, 2, 3)]
    project.write("run.ndjson", "".join(lines))
    assert project.dotr("run", "c.yaml", "--engine", "local", "--recording", "run.ndjson").code == 0
    project.write("run.ndjson", "".join(lines[:2]))
    answer = project.dotr("audit", "c.yaml", "--recording", "run.ndjson")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("out.ndjson: up to 2 (the recording's last line)\n  R  2 the same, 0 missing, 0 more")
    assert "1 written" in answer.out or "beyond" in answer.out


def test_commands_read_what_the_audit_reads(project: Project) -> None:
    write(project)
    project.change("tanks.yaml", "rules:", "record: run.ndjson\nrules:")
    assert project.dotr("run", "tanks.yaml", "--engine", "local", "--quiet", "--fresh").code == 0
    lines = project.read("out.ndjson").splitlines(keepends=True)
    project.write("other.ndjson", "".join(lines[1:]))
    answer = project.dotr("audit", "tanks.yaml", "--recording", "run.ndjson", "--set", "output.0.path=other.ndjson")
    assert answer.code == 1
    command = next(line for line in answer.out.splitlines() if "dotr why " in line).split()[1:]
    assert command == ["why", "tanks.yaml", "--recording=run.ndjson", "--set", "output.0.path=other.ndjson", "--rule", "Full", "--at", "10"]
    (project.folder / "in.ndjson").unlink()
    assert "run.ndjson:1" in project.dotr(*command).out
