"""Files that change after they were opened, in process: what is read, and what is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dotr.model.stream import Reason
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests.conftest import Project

pytestmark = pytest.mark.core

ROWS = "format: csv, time: t, map: '[] a :A ; :x {x} .'"


def run(project: Project, change: object = None, head: int | None = None) -> Totals:
    """A run, before which something changes once the inputs are opened."""
    pipeline = build(read_config("c.yaml"), fresh=True, on_spark=False)
    if callable(change):
        change()
    return run_local(pipeline, lambda totals: None, head=head)


def letters(project: Project) -> list[tuple[str, str, int]]:
    return [(each["reason"], each["file"], each["line"]) for each in map(json.loads, project.read("dead.ndjson").splitlines())]


def element(time: int) -> str:
    return json.dumps({"time": time, "graph": ":a a :A ."}) + "\n"


@pytest.mark.parametrize("setting", ["", ", rate: 1000"])
def test_appended_lines_are_not_read_and_told(project: Project, setting: str) -> None:
    project.write("a.ndjson", element(1))
    project.change("c.yaml", "path: a.ndjson }", f"path: a.ndjson{setting} }}")

    def append() -> None:
        with Path("a.ndjson").open("a") as file:
            file.write(element(2))

    totals = run(project, append)
    assert (totals.elements, totals.dead_letters) == (1, {Reason.CHANGED: 1})
    assert letters(project) == [("changed", "a.ndjson", 1)]
    assert "tail: true" in project.read("dead.ndjson")


def test_touched_files_and_the_beginning_of_a_run_are_not_told(project: Project) -> None:
    project.write("a.ndjson", element(1) + element(2))
    assert run(project, lambda: os.utime("a.ndjson", (0, 0))).dead_letters == {}
    assert run(project, lambda: project.write("a.ndjson", element(1) + element(2) + element(3)), head=1).dead_letters == {}


def test_a_run_that_reads_nothing_new_has_not_failed(project: Project) -> None:
    project.write("a.ndjson", "")
    totals = run(project, lambda: project.write("a.ndjson", element(1)))
    assert totals.dead_letters == {Reason.CHANGED: 1}
    assert not totals.all_rejected


@pytest.mark.parametrize("change", [os.remove, lambda path: Path(path).write_text("")])
def test_a_file_that_is_gone_does_not_end_a_run(project: Project, change: object) -> None:
    """The elements of an instant over a limit are read a second time, for their texts."""
    project.write("a.ndjson", element(1) + "".join(element(at).replace(":a a :A", ":a a :A . :b a :A") for at in (2, 3)))
    project.change("c.yaml", "rules:", "limits: { rows: 1 }\nrules:")
    pipeline = build(read_config("c.yaml"), fresh=True, on_spark=False)
    assert callable(change)
    seen: list[Totals] = []

    def first(totals: Totals) -> None:
        if not seen:
            change("a.ndjson")
        seen.append(totals)

    totals = run_local(pipeline, first)
    assert totals.dead_letters[Reason.LIMIT] == 2
    found = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    assert [(each["file"], each["time"]) for each in found if each["reason"] == "limit"] == [("", 2), ("", 3)]


def test_the_command_tells_in_its_summary(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def changing(*arguments: object, **named: object) -> Totals:
        project.write("a.ndjson", element(1) + element(2))
        return run_local(*arguments, **named)  # type: ignore[arg-type]

    project.write("a.ndjson", element(1))
    monkeypatch.setattr("dotr.runtimes.local.run.run_local", changing)
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0
    assert "a.ndjson:1: dead letter (changed): the file has changed since it was opened" in answer.err
    assert "Dead letters: 1 changed -> dead.ndjson" in answer.err


@pytest.mark.parametrize("rows", ["t,x\n1,2\n", ""])
def test_an_empty_file_with_a_header_due_is_a_dead_letter(project: Project, rows: str) -> None:
    project.write("d/a.csv", "")
    project.write("d/b.csv", rows)
    project.change("c.yaml", "format: ndjson, path: a.ndjson", f'{ROWS}, path: "d/*.csv"')
    assert project.dotr("check", "c.yaml").code == 0
    answer = project.dotr("run", "c.yaml")
    assert answer.code == (0 if rows else 1)
    assert letters(project) == [("unreadable", f"d/{name}.csv", 1) for name in ("ab" if not rows else "a")]
    assert "d/a.csv has no header" in answer.err


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("format: ndjson", 0),
        ("format: json, time: t, map: '[] :x {x} .'", 0),
        ("format: nquads", 0),
        ("format: trig", 0),
        ("format: turtle", 0),
        ("format: jsonld", 0),
        (f"{ROWS}, columns: [t, x]", 0),
        (ROWS.replace("csv", "parquet"), 1),
    ],
)
def test_an_empty_file_of_any_format_is_no_error_at_a_start(project: Project, entry: str, expected: int) -> None:
    project.write("a.ndjson", "")
    project.change("c.yaml", "format: ndjson", entry)
    assert run(project).elements == 0
    assert len(letters(project)) == expected
