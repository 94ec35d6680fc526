"""At the edges of a run on Spark: what a terminal is told, all rejected, damaged checkpoints, runs beside each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr.runtimes.spark.java import java_problem
from tests.conftest import Project

pytestmark = [pytest.mark.skipif(java_problem() is not None, reason="Spark needs Java"), pytest.mark.usefixtures("spark")]
SETTINGS = ("--engine", "spark", "--set", "spark.checkpoint=ck", "--set", "spark.master=local[2]")


def many(elements: int) -> str:
    return "".join(f'{{"time": {number}, "graph": ":a{number} a :A ."}}\n' for number in range(elements))


def test_a_run_that_rejects_all_has_failed(project: Project) -> None:
    project.write("a.ndjson", "broken\n" * 2)
    answer = project.dotr("run", "c.yaml", *SETTINGS)
    last = "The run failed: it rejected every element that it read (2 unreadable); dead.ndjson holds them."
    assert (answer.code, answer.err.splitlines()[-1]) == (1, last)
    assert project.dotr("run", "c.yaml", *SETTINGS).code == 0, "this one read nothing"


def test_a_plan_where_nothing_has_closed(project: Project) -> None:
    """A batch may hold dead letters alone, and close nothing."""
    project.write("a.ndjson", many(1))
    assert project.dotr("run", "c.yaml", *SETTINGS).code == 0
    offset = sorted(Path("ck/query/offsets").glob("[0-9]*"))[-1]
    lines = offset.read_text().splitlines()
    place = json.loads(lines[-1])
    lines[-1] = json.dumps({**place, "time": -4611686018427387904})
    offset.write_text("\n".join(lines))
    answer = project.dotr("plan", "c.yaml", *SETTINGS[2:])
    assert (answer.code, answer.out) == (0, "No instant has closed yet in the checkpoint ck: all rules start empty.\n")
    assert project.dotr("status", "ck", "--quick").code == 0
