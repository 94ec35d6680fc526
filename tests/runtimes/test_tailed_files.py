"""Files that go on in a run: what a configuration may say, and what is read and told."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from dotr.commands import main
from tests.conftest import Project
from tests.support.interrupted import run_until
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.core

ROWS = "format: csv, time: t, map: '[] a :A ; :x {x} .'"


def tail(project: Project, text: str) -> None:
    """Replace the input of the project's configuration."""
    config = Path("c.yaml").read_text().splitlines()
    start = next(number for number, line in enumerate(config) if line.startswith("input:"))
    end = next(number for number in range(start + 1, len(config)) if not config[number].startswith((" ", "-")))
    Path("c.yaml").write_text("\n".join([*config[:start], f"input: [{{ name: i, {text} }}]", *config[end:]]) + "\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{ROWS}, path: '-', tail: true", "standard input goes on by itself"),
        (f"{ROWS}, path: a.csv.gz, tail: true", "a.csv.gz is compressed"),
        (f"{ROWS}, path: 's3://lake/a.csv', tail: true", "tail is of files"),
        (f"{ROWS}, path: a.csv, encoding: utf-16, tail: true", "utf-16 is recoded from its start"),
        (
            "format: csv, time: t, map: '[] :x {$number} .', path: a.csv, tail: true",
            "{$number} is the number of a record in its whole file",
        ),
        (f"{ROWS}, path: dir, tail: true", "tail is of files, and dir is none"),
        (f"{ROWS}, path: pipe, tail: true", "tail is of files, and pipe is none"),
        ("format: turtle, path: a.ttl, tail: true", "has no line end of its own"),
        ("format: nquads, path: a.nq, tail: true", "has no line end of its own"),
    ],
)
def test_what_excludes_tail_is_refused(project: Project, capsys: pytest.CaptureFixture[str], text: str, reason: str) -> None:
    os.mkdir("dir")
    os.mkfifo("pipe")
    tail(project, text)
    assert main(["check", "c.yaml"]) == 2
    told = capsys.readouterr()
    assert "C204" in told.out + told.err
    assert reason in told.out + told.err


def test_silent_files_that_delay_all_others_are_warned_of(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    tail(project, f"{ROWS}, path: a.csv, tail: true")
    main(["check", "c.yaml"])
    assert "no instant closes while a file of input i is silent" in "".join(capsys.readouterr())
    tail(project, f"{ROWS}, path: a.csv, tail: true, idle: 1 s")
    main(["check", "c.yaml"])
    assert "I113" not in "".join(capsys.readouterr())


def test_present_ends_without_watch(project: Project) -> None:
    project.write("a1.csv", "t,x\n1,1\n3,3\n4")
    project.write("a2.csv", "t,x\n2,2\nbroken\n")
    project.write("a3.csv", "")
    project.write("a4.csv.gz", "")
    tail(project, f"{ROWS}, path: 'a?.csv*', tail: true, watch: false")
    assert main(["run", "c.yaml", "--fresh"]) == 0
    letters = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    assert [(each["reason"], each["file"], each["line"], each["text"]) for each in letters] == [
        ("unreadable", "a2.csv", 3, "broken"),
        ("unreadable", "a1.csv", 4, "4"),
    ]


def test_files_go_on_over_rotations(project: Project) -> None:
    tail(project, f"{ROWS}, path: 'in/app*', tail: true, settle: 0.2 s, idle: 0.2 s")
    os.mkdir("in")
    dead = Path("dead.ndjson")

    def told(number: int) -> None:
        """Wait for so many dead letters, which rows without a time are."""
        deadline = time.monotonic() + PATIENCE
        while not dead.exists() or len(dead.read_text().splitlines()) < number:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def world() -> None:
        app = Path("in/app.csv")
        app.write_text("t,x\n1,1\na,0\n")
        told(1)
        with app.open("a") as file:
            file.write("b,")
            file.flush()
            time.sleep(0.1)
            file.write("1\nc,2\n")
        told(3)
        os.rename(app, "in/app.csv.1")
        app.write_text("t,x\nd,3\n")
        told(4)
        shutil.copy(app, "in/app.csv.2")
        app.write_text("t,x\ne,4\n")
        told(5)

    run_until(["run", "c.yaml", "--fresh"], world)
    letters = [json.loads(line) for line in dead.read_text().splitlines()]
    assert [each["text"] for each in letters] == ["a,0", "b,1", "c,2", "d,3", "e,4"]
    assert {each["file"] for each in letters} == {"in/app.csv"}


def test_integers_of_files_that_go_on_beside_numbers_since_1970_are_refused(project: Project) -> None:
    project.write("log.csv", "t,x\n1709294400,1\n")
    unix = f"{ROWS}, path: log.csv, time_format: unix }}, {{ name: j, {ROWS}, path: b.csv, tail: true, watch: false"
    tail(project, unix)
    project.write("b.csv", "t,")  # a header that is not complete yet
    assert main(["check", "c.yaml"]) == 0
    project.write("b.csv", "t,x\n7,1\n")
    assert "C204 the times of input i (unix) are date-times, and those of j are integers" in project.refused("check", "c.yaml")
