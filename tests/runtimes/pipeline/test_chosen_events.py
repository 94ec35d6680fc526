"""Outputs that name their events, and outputs without internal events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from dotr.model.stream import DeadLetter, Firing
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.connectors import opening
from dotr.streams.connectors.opening import ChosenEvents, Output, event_batches
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import BatchHistory, Check, check_nothing
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.files import PathDestination
from tests.conftest import Project

RULES = """\
PREFIX : <http://e/>
query A = [ SELECT ?x ?n WHERE { ?x :n ?n } ]
rule Rough define internal Level = [ [] :level ?n ] from A with Level.?n = A.?n, Level.?x = A.?x
rule Fire define Fire = [ [] :burns ?room ] from Level [ FILTER(?n > 1) ] with Fire.?room = Level.?x
rule Spread define Spread = [ [] :spread ?far ] from Fire and last Fire as Before within 9 s from Fire with Spread.?far = Before.?room
"""
UNITS = {
    "seen.rspql": "PREFIX : <http://e/>\nREGISTER RSTREAM Seen AS SELECT ?x FROM WINDOW ON <a> [NOW] { ?x :n ?n }\n",
    "high.lars": "PREFIX : <http://e/>\nhigh(?x) :- EVENT Level(?n, ?x), FILTER(?n > 2) .\nREPORT ALL high(?x) .\n",
    "pair.epsparql": "PREFIX : <http://e/>\nREGISTER QUERY Pair AS SELECT ?x WHERE EVENT Level(?x)\n",
}
DATA = "".join(f'{{"time": {time}, "graph": ":r{time} :n {time} ."}}\n' for time in (1, 2, 3))
OUTPUTS = """\
output:
  - { path: all.ndjson }
  - { path: fire.ndjson, events: [Fire] }
  - { path: level.ndjson, events: [Level, Spread] }
  - { path: fire.csv, format: csv, events: [Fire] }
  - { path: all.csv, format: csv }
  - { path: spread.trig, format: trig, events: [Spread] }
  - { path: fire.nq, format: nquads, events: [Fire] }
  - { path: level.parquet, format: parquet, events: [Level] }
"""


@pytest.fixture
def rules(project: Project) -> Project:
    project.write("r.dotr", RULES)
    project.write("a.ndjson", DATA)
    project.change("c.yaml", "output:\n  - { path: out.ndjson }\n", OUTPUTS)
    return project


def labels(path: Path) -> list[str]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [json.loads(line)["event"] for file in files for line in file.read_text().splitlines()]


def text(path: Path) -> bytes:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return b"".join(file.read_bytes() for file in files)


@pytest.mark.core
def test_each_output_has_its_events_alone(rules: Project) -> None:
    answer = rules.dotr("run", "c.yaml")
    assert answer.code == 0
    assert "3 elements, 3 instants, 3 facts, 6 events (3 internal) -> all.ndjson, fire.ndjson, " in answer.err
    assert labels(rules.folder / "all.ndjson") == ["Fire", "Fire", "Spread"]
    assert labels(rules.folder / "fire.ndjson") == ["Fire", "Fire"]
    assert labels(rules.folder / "level.ndjson") == ["Level", "Level", "Level", "Spread"]
    assert rules.read("fire.csv").splitlines()[0] == "time,rule,event,room"
    assert rules.read("all.csv").splitlines()[0] == "time,rule,event,far,room"
    assert "burns" in rules.read("fire.nq")
    assert "level" not in rules.read("fire.nq")
    assert "spread" in rules.read("spread.trig")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(rules.folder / "level.parquet")
    assert (table.column_names, table.num_rows) == (["time", "rule", "event", "graph", "n", "x"], 3)


DOORS = """\
query Door = [ SELECT ?no ?s WHERE { ?d :no ?no ; :state ?s } ]
rule Then define Then = [ [] :no ?no ; :before ?before ]
from Door and last Door as Before [ FILTER(?s != Door.?s) ] within 9 s from Door with Then.?no = Door.?no, Then.?before = Before.?no
"""
ROWS = 't,s\n1,open\n1,shut\n1,open\n3,shut\n"3","open\nwide"\n2,late\n3,shut\n4,open\n'


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_outputs_on_spark_have_the_same_events(rules: Project) -> None:
    """With them a file whose rows of one time are set apart, and have numbers: batches end amid the rows of a time."""
    from dotr.runtimes.spark.run import run_spark

    rules.write("r.dotr", RULES + DOORS)
    rules.write("doors.csv", ROWS)
    doors = (
        "  - { name: doors, format: csv, path: doors.csv, time: t, one_per_instant: apart, map: \"[] :no {$number} ; :state '{s}' .\" }\n"
    )
    rules.change("c.yaml", "output:\n", doors + "output:\n")
    rules.change("c.yaml", "name: small\n", "name: small\ntime: { unit: us }\n")
    rules.change("c.yaml", OUTPUTS, f"{OUTPUTS}  - {{ of: [doors, Fire, a] }}\n  - {{ of: [a], format: trig }}\n")
    names = ("all.ndjson", "fire.ndjson", "level.ndjson", "fire.csv", "spread.trig", "fire.nq", "dead", "of.ndjson", "of.trig")
    for engine in ("local", "spark"):
        moved = [
            f"output.{number}.path={engine}/{name}"
            for number, name in enumerate([*names[:4], "all.csv", *names[4:6], "l.parquet", *names[7:]])
        ]
        options = [*moved, f"dead_letter={engine}/dead", f"spark.checkpoint={engine}/checkpoint", "spark.batch=2"]
        pipeline = build(read_config("c.yaml", options), fresh=False, on_spark=engine == "spark")
        (run_spark if engine == "spark" else run_local)(pipeline, lambda totals: None)
    for name in names:
        header = b"time,rule,event,room\n" if name == "fire.csv" else b""
        here, there = text(rules.folder / "local" / name), text(rules.folder / "spark" / name)
        if name == "of.ndjson":
            assert there == here
            found = [json.loads(line) for line in there.splitlines()]
            assert [("event" in each, each["time"]) for each in found if each["time"] == 3] == [(False, 3)] * 2 + [(True, 3)]
            assert sum("event" not in each for each in found) == 3 + 4
        elif name.endswith(".trig"):
            assert b"wasGeneratedBy" in there if name == "spread.trig" else there.count(b"generatedAtTime") == 3
        else:
            assert sorted(there.replace(header, b"").splitlines()) == sorted(here.replace(header, b"").splitlines()), name
    assert b"level" not in text(rules.folder / "spark" / "all.ndjson")
    found = [json.loads(line) for line in text(rules.folder / "local" / "all.ndjson").splitlines()]
    then = [
        (each["time"], *(int(each["attributes"][name].split('"')[1]) for name in ("no", "before")))
        for each in found
        if "no" in each["attributes"]
    ]
    assert then == [(2, 2, 1), (3, 4, 1), (4, 8, 4)]
    dead = [json.loads(line) for line in text(rules.folder / "local" / "dead").splitlines()]
    assert sorted((each["line"], each["time"], each["reason"]) for each in dead) == [
        (4, 1, "second"),
        (6, 3, "second"),
        (8, 2, "late"),
        (9, 3, "second"),
    ]


@pytest.mark.core
def test_labels_of_every_language(rules: Project) -> None:
    for name, unit in UNITS.items():
        rules.write(name, unit)
    rules.change("c.yaml", "rules: [r.dotr]", "rules: [r.dotr, seen.rspql, high.lars, pair.epsparql]")
    rules.change(
        "c.yaml", OUTPUTS, "output:\n" + "".join(f"  - {{ path: {each}.nd, events: [{each}] }}\n" for each in ("Seen", "high", "Pair"))
    )
    answer = rules.dotr("run", "c.yaml")
    assert answer.code == 0, answer
    assert [labels(rules.folder / f"{each}.nd") for each in ("Seen", "high", "Pair")] == [["Seen"] * 3, ["high"], ["Pair"] * 3]


@pytest.mark.core
@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("[Fier]", "C268 no event is called Fier\n"),
        ("[Fire, fire]", "C268 no event is called fire\n"),
        ("[]", "C268 events is an empty list\n"),
        ("[A]", "C268 no event is called A\n"),
        ("Fire", "C203 output.0.events should be a list\n"),
    ],
)
def test_wrong_lists_are_refused(rules: Project, command: str, events: str, expected: str) -> None:
    rules.change("c.yaml", OUTPUTS, f"output:\n  - {{ path: out.ndjson, events: {events} }}\n")
    answer = rules.dotr(command, "c.yaml")
    assert answer.code == 2
    assert expected in answer.err + answer.out
    assert "c.yaml:7:" in answer.err + answer.out


@pytest.mark.core
def test_key_is_an_attribute_of_the_events_of_its_output(rules: Project) -> None:
    kafka = "{ kafka: { bootstrap.servers: localhost:1, topic: t, key: far }, events: [Fire] }"
    rules.change("c.yaml", OUTPUTS, f"output:\n  - {kafka}\n")
    answer = rules.dotr("check", "c.yaml")
    assert "C204 no event has an attribute far\n" in answer.err + answer.out
    assert "There are room." in answer.err + answer.out


@pytest.mark.core
@pytest.mark.parametrize(("events", "told"), [("", True), ("events: [Fire]", True), ("events: [Level]", False)])
def test_internal_event_that_nothing_reads_is_told(rules: Project, events: str, told: bool) -> None:
    rules.write("r.dotr", RULES.replace("from Level [ FILTER(?n > 1) ] with Fire.?room = Level.?x", "from A with Fire.?room = A.?x"))
    rules.change("c.yaml", OUTPUTS, f"output:\n  - {{ path: out.ndjson, {events} }}\n")
    answer = rules.dotr("check", "c.yaml")
    assert ("D331 warning: Level is internal" in answer.err + answer.out) is told


@pytest.mark.core
def test_output_that_leaves_no_event_out_filters_nothing(rules: Project) -> None:
    rules.write("r.dotr", RULES.replace("internal ", ""))
    rules.change("c.yaml", OUTPUTS, "output:\n  - { path: one.ndjson }\n  - { path: b.ndjson, events: [Spread, Fire, Level] }\n")
    pipeline = build(read_config("c.yaml"), fresh=False, on_spark=False)
    assert [each.chosen for each in pipeline.outputs] == [None, None]


class _Batches:
    """A sink of batches that keeps what it is given, in a first attempt and a second one."""

    def __init__(self) -> None:
        self.written: list[list[list[str]]] = []

    def open(self, check: Check) -> int | None:
        return 7

    def write_batch(self, number: int, blocks: Iterable[Sequence[Firing]], check: Check) -> Sequence[DeadLetter]:
        self.written = [[[each.event for each in block] for block in blocks] for _ in range(2)]
        return ()

    def close(self) -> None:
        self.written = []


@pytest.mark.core
def test_a_batch_that_is_sent_again_has_the_same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = _Batches()
    monkeypatch.setattr(opening, "FileBatches", lambda folders, terms: inner)
    output = Output(StreamFormat.NDJSON, PathDestination("out"), ChosenEvents(frozenset(["Fire"]), ("room",)))
    [sink] = event_batches([output], OutputTerms(clock=None), BatchHistory("a"))  # type: ignore[arg-type]
    assert sink.open(check_nothing) == 7
    fire, level = (Firing(1, "R", label, (), (), 0) for label in ("Fire", "Level"))
    sink.write_batch(0, [[fire, level], [level], [level, fire, fire]], check_nothing)
    assert inner.written == [[["Fire"], ["Fire", "Fire"]]] * 2
    sink.close()
    assert inner.written == []
