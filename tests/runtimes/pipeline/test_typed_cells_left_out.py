"""Counts of texts that optional typed cells leave out, and of errors of conditions: summary, progress and metrics, in process and on
Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dotr.runtimes.monitoring.progress import Figures
from dotr.runtimes.monitoring.prometheus import exposition
from dotr.runtimes.monitoring.totals import Totals
from tests.conftest import Project

RULE = "PREFIX : <http://e/>\nrule R define Out = [ [] :v ?v ] from A = [ SELECT ?v WHERE { ?x :v ?v } ] with Out.?v = A.?v\n"
ERRING = """
query B = [ SELECT ?v WHERE { ?x :v ?v } ]
rule Final define Final = [ [] :v 1 ] from B if B.?v > STR(B.?v)
rule Clause define Clause = [ [] :v 1 ] from B and each B as C [ FILTER(STR(?v) > B.?v) ] within 9 h from B
"""
CHAIN = "PREFIX : <http://e/>\nREGISTER QUERY Chain AS SELECT ?v WHERE { ?x :v ?v } SEQ { ?y :v ?w } FILTER(STR(?v) < ?w) WITHIN 9 h\n"
CONFIG = """\
name: cells
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: rows, format: csv, path: rows.csv, time: "{day} {hour}:00", map: "[] :v {v:decimal?} ; :w {w:boolean?} ." }
  - { name: objects, format: json, path: objects.json, time: [at, seen], map: "[] :v {v:integer?} ; :u {u:iri} ." }
  - { name: local, format: csv, path: local.csv, time: t, time_zone: Europe/Berlin, lateness: 2 h, map: "[] :v {v:integer} ." }
output: [ { path: out } ]
dead_letter: dead
spark: { master: "local[2]", checkpoint: ck }
"""
ROWS = "day,hour,v,w\n" + "".join(
    f"2023-02-05,{each}\n" for each in ("01,07.50,1", "02,n/a,true", "03,,yes", "05,-,", "04,late,late", ",9,1")
)
OBJECTS = [
    {"seen": "2023-02-05T01:00", "v": "x"},
    {"at": None, "seen": "2023-02-05T06:00", "v": 1, "u": "a b"},
    {"at": "2023-02-05T07:00", "seen": "never", "v": "8"},
]
LEFT_OUT = {("rows", "v"): 2, ("rows", "w"): 1, ("objects", "v"): 1}


@pytest.fixture
def cells(project: Project) -> Project:
    project.write("r.dotr", RULE)
    project.write("c.yaml", CONFIG)
    project.write("rows.csv", ROWS)
    project.write("local.csv", "t,v\n" + "".join(f"2023-10-29 0{each},1\n" for each in ("1:30", "1:20", "2:40", "2:10", "2:50")))
    project.write("objects.json", "".join(json.dumps(each) + "\n" for each in OBJECTS))
    return project


def run(cells: Project, engine: str) -> tuple[list[Any], list[Any], dict[tuple[str, str], int], dict[str, Any]]:
    """The events, the dead letters, and the counts of cells and of rules of a run."""
    answer = cells.dotr("run", "c.yaml", "--engine", engine, "--fresh", "--progress", "json")
    assert answer.code == 0, answer.err
    out, dead = (
        [json.loads(line) for path in sorted(files) if path.is_file() for line in path.read_text().splitlines()]
        for files in ([cells.folder / name, *cells.folder.glob(f"{name}/*.ndjson")] for name in ("out", "dead"))
    )
    assert answer.err.count("I126") == 1
    assert "input local: local.csv:5 goes back; from here on it may be the second 02:00 of Europe/Berlin" in answer.err
    letters = sorted((each["input"], each["line"], each["reason"], each["error"]) for each in dead)
    final = json.loads(answer.err.splitlines()[-1])
    left_out = {(each["input"], each["column"]): each["cells"] for each in final["left_out"]}
    return out, letters, left_out, {each.pop("rule"): each for each in final["rules"]}


@pytest.mark.core
def test_left_out_cells_are_counted_by_column(cells: Project) -> None:
    told = (
        "Input objects: 1 cell of v is of another type, and was left out.\nInput rows: 2 cells of v are of another type, and were left out."
    )
    assert told in cells.dotr("run", "c.yaml", "--engine", "local").err
    events, letters, left_out, _ = run(cells, "local")
    assert [each["attributes"]["v"].partition("^")[0] for each in events] == ['"7.5"', '"8"', *['"1"'] * 5]
    assert letters == [
        ("objects", 2, "unreadable", "u: 'a b' is no absolute IRI"),
        (
            *("rows", 6, "late"),
            "an element of 2023-02-05T05:00:00Z came before this one of 2023-02-05T04:00:00Z",
        ),
        ("rows", 7, "unreadable", "it has no time: day or hour is not there"),
    ]
    assert left_out == LEFT_OUT
    page = exposition(Figures("p", "local", 1.0, Totals(left_out=left_out)))
    assert 'dotr_cells_left_out_total{column="v",engine="local",input="rows",pipeline="p"} 2.0' in page


@pytest.mark.core
def test_cells_are_counted_once_where_an_instant_is_read_again(cells: Project) -> None:
    cells.change("c.yaml", "rules:", "limits: { triples: 1 }\nrules:")
    _, letters, left_out, _ = run(cells, "local")
    assert ("rows", 2, "limit") in [each[:3] for each in letters]
    assert left_out == LEFT_OUT


@pytest.mark.spark
def test_spark_counts_and_writes_the_same(cells: Project) -> None:
    cells.change("c.yaml", "rules: [", "limits: { triples: 1 }\nrules: [q.epsparql, ")
    cells.write("r.dotr", RULE + ERRING)
    cells.write("q.epsparql", CHAIN)
    here = run(cells, "local")
    assert run(cells, "spark") == here  # five values of one morning, one of another day
    assert {name: each.get("errors") for name, each in here[3].items()} == {
        "R": None,
        "Final": {"if": 6},
        "Clause": {"C": 4},
        "Chain": {"FILTER": 10},
    }
