"""Runs on Spark whose inputs are indexed by tasks: the planner reads no record, and the output is that of one process."""

from __future__ import annotations

import gzip
import json
import random
import threading
from pathlib import Path

import pytest

from dotr.runtimes.spark.planning import index_scans
from tests.conftest import Project

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
SETTINGS = ("--engine", "spark", "--set", "spark.checkpoint=ck", "--set", "spark.master=local[2]", "--set", "spark.batch=1000")

CONFIG = """\
name: indexed
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: a, path: "a*.ndjson", format: ndjson, lateness: 2 s }
  - { name: b, path: b.csv, format: csv, time: t, map: "<{id}> a :A ; :note {note} ." }
  - { name: c, path: c.trig, format: trig }
  - { name: d, path: d.ndjson.gz, format: ndjson, lateness: 1 s }
  - { name: e, path: e.csv, format: csv, time: $0, map: ":{$column} a :A ; :note {$cell} .", each: columns, skip: 2, comment: "#" }
  - { name: f, path: f.csv, format: csv, time: t, map: "<urn:f:{n}> a :A .", encoding: utf-16 }
  - { name: g, path: g.csv, format: csv, time: t, map: "<urn:g:{n}> a :A ." }
output: [ { path: out.ndjson } ]
dead_letter: dead.ndjson
engine: local
"""


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_scans, "INDEXED_BYTES", 0)
    monkeypatch.setattr(index_scans, "FIRST_RANGE", 1_000)


def write_inputs(project: Project) -> None:
    """Inputs with late and broken records, and rows of several lines."""
    chance = random.Random(5)

    def times() -> list[int]:
        return [max(0, number // 3 + chance.choice((0, 0, 0, -1, -4))) for number in range(600)]

    def line(number: int, time: int) -> str:
        return json.dumps({"time": time, "graph": f":x{number} a :A ." if number % 50 else "<"})

    for name in ("a1.ndjson", "a2.ndjson"):
        project.write(name, "".join(f"{line(number, time)}\n" for number, time in enumerate(times())))
    rows = [f'{time},urn:b:{number},"a ""note"",\n{time},urn:no:{number},x\n"\n' for number, time in enumerate(sorted(times()))]
    project.write("b.csv", "t,id,note\n" + "".join(rows))
    graphs = [f":g{number} {{ :c{number} a :A }} :g{number} prov:generatedAtTime {time} ." for number, time in enumerate(times())]
    project.write("c.trig", "@prefix : <http://e/> . @prefix prov: <http://www.w3.org/ns/prov#> .\n" + "\n".join(graphs))
    lines = [f"{line(number + 1000, time)}\n".encode() for number, time in enumerate(times())]
    project.write("d.ndjson.gz", b"".join(gzip.compress(b"".join(lines[at : at + 100])) for at in range(0, 600, 100)))
    wide = [f'{time},"{number}\n,9",,x{number % 7}\n# 1,2,3,4\n' if number % 40 else f"{time}\n" for number, time in enumerate(times())]
    project.write("e.csv", "logger\n,\n\n#\n,c1,,c3\n" + "".join(wide))
    rows = [f"{time},{number}\n" for number, time in enumerate(times())]
    project.write("f.csv", "".join(["t,n\n", *rows]).encode("utf-16"))
    project.write("g.csv", "".join(["t,n\n", *rows]).replace("\n", "\r"))
    project.write("c.yaml", CONFIG)


def outputs() -> tuple[list[str], list[str]]:
    """The lines of the output, and the dead letters."""
    found = []
    for name in ("out.ndjson", "dead.ndjson"):
        path = Path(name)
        files = sorted(path.glob("*.ndjson")) if path.is_dir() else [path]
        found.append("".join(file.read_text() for file in files).splitlines())
    return found[0], sorted(found[1])


def test_output_is_that_of_one_process(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(project)
    assert project.dotr("run", "c.yaml", "--quiet").code == 0
    expected = outputs()
    assert expected[0]
    assert expected[1]
    for name in ("out.ndjson", "dead.ndjson"):
        Path(name).unlink()
    scanned: list[str] = []
    run = index_scans._IndexScans._run

    def noted(self: index_scans._IndexScans, work: list[dict[str, object]]) -> None:
        scanned.extend(map(json.dumps, work))
        run(self, work)

    monkeypatch.setattr(index_scans._IndexScans, "_run", noted)
    answer = project.dotr("run", "c.yaml", *SETTINGS, "--quiet")
    assert answer.code == 0, answer.err
    assert outputs() == expected
    assert len(scanned) > 3
    assert not Path("ck/index").exists()
    assert not [each for each in threading.enumerate() if "_IndexScans" in each.name]


def test_scan_that_fails_ends_the_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(project)

    def failing(self: index_scans._IndexScans, work: list[dict[str, object]]) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(index_scans._IndexScans, "_run", failing)
    answer = project.dotr("run", "c.yaml", *SETTINGS, "--quiet")
    assert answer.code == 1
    assert "S150 the times of the inputs could not be read by tasks: RuntimeError: no room" in answer.err
