"""The command benchmarks/run: without programs or a network, and stopped in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import benchmarks.field.__main__ as command
from benchmarks.field import flame, machine, pages, peers, results
from benchmarks.field.measuring import Case, Effort, measure
from benchmarks.field.peers import ESPER_9, ROOT, Command, Missing, java, node
from benchmarks.field.works import Scale, Work, works

SLEEPING = """
import json, sys, time
print(json.dumps({"ready": "1"}), flush=True)
for line in sys.stdin:
    break
time.sleep(600)
"""


def small(tmp_path: Path) -> Case:
    """The first case of `field`, with a peer on the JVM."""
    case = next(iter(works()["field"].cases(Scale.HUNDREDTH, tmp_path)))
    esper = {"Esper 9.0": partial(java, ESPER_9, *case.own[1:])}
    return Case(
        case.name, {}, case.unit, case.units, case.expected, case.own, esper, effort=Effort(repeats=1, own_warm_runs=3, warm_runs=3)
    )


def test_without_java_ours_is_measured_and_the_rest_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    told: list[str] = []
    own, esper = measure(small(tmp_path), told.append)
    assert own.repeats
    assert esper.reason == "missing: Java is not installed"
    assert [line.split()[0] for line in told] == ["dotr", "Esper"]


def test_earlier_commit_takes_part_with_its_own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"dotr/__init__.py": "", "benchmarks/old.py": ""}.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True)
        (tmp_path / "root" / name).write_text(text)
    git = partial(subprocess.run, cwd=tmp_path / "root", check=True, capture_output=True, text=True)
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm a"):
        git(["git", *words.split()])
    commit = git(["git", "rev-parse", "HEAD"]).stdout.strip()
    (tmp_path / "root" / "benchmarks" / "old.py").rename(tmp_path / "root" / "benchmarks" / "new.py")
    monkeypatch.setattr(peers, "OUT", tmp_path / "out")
    monkeypatch.setattr(peers, "ROOT", tmp_path / "root")
    name, start = list(small(tmp_path).beside(commit).systems().items())[1]
    folder = start().folder
    assert name == f"dotr before, {commit[:9]}"
    assert {each.relative_to(folder).as_posix() for each in folder.glob("*/*.py")} == {"dotr/__init__.py", "benchmarks/new.py"}
    assert start().folder == folder, "made once"


def test_dotr_on_spark_is_missing_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    case = Case("on Spark", {}, "event", 1, 1, ("benchmarks.field.spark:ours", "x.yaml", "local[1]"), needs_java=True)
    (found,) = measure(case, lambda line: None)
    assert found.reason == "missing: Java is not installed"


@pytest.mark.parametrize(
    ("program", "start", "told"),
    [
        ("mvn", lambda: java(ESPER_9), "its jars cannot be had (mvn): "),
        ("npm", lambda: node("rsp-js@1.3.5", "rsp.js"), "rsp-js@1.3.5 cannot be had: "),
    ],
)
def test_a_registry_that_does_not_answer_is_told(
    program: str, start: partial[Command], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("java", "node", "mvn", "npm"):
        (folder / name).write_text(f'#!/bin/sh\necho "Error: {name} finds no network"; exit 1\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(peers, "OUT", tmp_path / "out")
    with pytest.raises(Missing) as missing:
        start()
    assert str(missing.value).startswith(told), program


@pytest.mark.parametrize("start", ["", "time.sleep(2)"], ids=["while it works", "while it is started"])
def test_a_kill_ends_the_systems_and_leaves_no_result(start: str, tmp_path: Path) -> None:
    script = f"""
import sys, time
import benchmarks.field.__main__ as command
from benchmarks.field import measuring, results, works
from tests.benchmarks.test_command import SLEEPING
from pathlib import Path
class Started(measuring.subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        {start or "pass"}
measuring.subprocess.Popen = Started
asleep = measuring.Case("asleep", {{}}, "event", 1, 1, ())
measuring.Case.systems = lambda self: {{"sleeper": lambda: measuring.Command((sys.executable, "-c", SLEEPING))}}
results.RESULTS = Path({str(tmp_path)!r})
command.works = lambda: {{"w": works.Work("w", "W", ("dotr",), 1, lambda scale, folder: iter([asleep]))}}
sys.argv = ["benchmarks/run", "all"]
sys.exit(command.main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        lines = [running.stdout.readline(), running.stdout.readline()]
        assert "asleep" in lines[1]
        children = _wait_for_child(running.pid)
        running.send_signal(signal.SIGTERM)
        rest = running.stdout.read()
        assert running.wait(30) == 130
        assert "stopped: " in rest
        assert [*tmp_path.iterdir()] == []
        assert not [pid for pid in children if _is_running(pid)]


def _wait_for_child(pid: int) -> list[int]:
    """The processes that a process has started, as soon as there are some."""
    for _ in range(600):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        sleeping = [int(child) for child in found if b"sleep" in Path(f"/proc/{child}/cmdline").read_bytes()]
        if sleeping:
            return sleeping
        signal.sigtimedwait([], 0.05)
    raise AssertionError("nothing was started")


def _is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.is_file() and status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def test_all_goes_on_with_what_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def cases_of(name: str, scale: Scale, folder: Path) -> Iterator[Case]:
        begun.append(name)
        yield replace(next(iter(works()["field"].cases(Scale.HUNDREDTH, tmp_path))), others={}, effort=Effort(repeats=1, own_warm_runs=3))
        if begun == ["first", "second"]:
            raise KeyboardInterrupt

    def profiled() -> None:
        begun.append("flame")

    known = {name: Work(name, name, ("dotr",), 1, partial(cases_of, name)) for name in ("first", "second")}
    page = tmp_path / "page.txt"
    page.write_text("a page without tables", encoding="utf-8")
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(pages, "PAGES", ())
    monkeypatch.setattr(pages, "APPENDIX", page)
    monkeypatch.setattr(flame, "profile", profiled)
    monkeypatch.setattr(machine, "commit", lambda: "1" * 40)
    with pytest.raises(KeyboardInterrupt):
        command.run_all(known, again=False)
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["first.json", "first.md", "first.svg"]
    command.run_all(known, again=False)
    assert [name for name in begun if name != "flame"] == ["first", "second", "second"]
    assert {path.name for path in (tmp_path / "results").glob("*.json")} == {"first.json", "second.json"}


def test_a_work_without_a_case_leaves_the_result_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = Work("w", "W", ("dotr",), 1, lambda scale, folder: iter(()), nothing="its data are not here")
    assert command.run(work, Scale.FULL, tmp_path, "benchmarks/run w") is None
    assert [*tmp_path.iterdir()] == []
    assert "nothing to measure: its data are not here" in capsys.readouterr().out


def test_all_works_take_half_an_hour_at_most() -> None:
    assert sum(work.minutes for work in works().values()) <= 30
