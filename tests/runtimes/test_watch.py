"""Growing inputs in a pipeline: settings, watched folders, standard input, rates, in this
process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE


def element(at: object, name: str = "a") -> str:
    return json.dumps({"time": at, "graph": f":{name} a :A ."}) + "\n"


def start(project: Project, *options: str) -> subprocess.Popen[str]:
    words = [word for option in options for word in ("--set", option)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "dotr", "run", "c.yaml", *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=project.folder)


def times(project: Project, name: str = "out.ndjson") -> list[object]:
    path = project.folder / name
    return [json.loads(line)["time"] for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(project: Project, expected: list[object], name: str = "out.ndjson") -> None:
    deadline = time.monotonic() + PATIENCE
    while times(project, name) != expected:
        assert time.monotonic() < deadline, (times(project, name), expected)
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("setting", "reported"),
    [
        ("watch: true", "C204 watch waits for files to appear, and a.ndjson is no pattern"),
        ("settle: 1 s", "C204 settle says when a file of a watched folder is complete"),
        ("idle: 1 s", "C204 an input that is there in full is never idle"),
        ("one_per_instant: true, lateness: 1 s", "C204 an input whose every element is an instant has no lateness"),
        ("rate: 0", "C203 input.0.rate cannot be used: input should be greater than 0"),
    ],
)
def test_conflicting_settings_are_refused(project: Project, setting: str, reported: str) -> None:
    project.change("c.yaml", "path: a.ndjson }", f"path: a.ndjson, {setting} }}")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 2
    assert reported in answer.err


def test_check_does_not_wait_for_standard_input(project: Project) -> None:
    project.change("c.yaml", "path: a.ndjson }", 'path: "-", idle: 5 s }')
    assert project.dotr("check", "c.yaml").code == 0


def test_two_inputs_cannot_share_standard_input(project: Project) -> None:
    project.change("c.yaml", "- { name: a,", '- { name: b, format: ndjson, path: "-" }\n  - { name: a,')
    assert project.dotr("check", "c.yaml").code == 0
    project.change("c.yaml", "path: a.ndjson", 'path: "-"')
    assert "C204 standard input can be read by one input only" in project.dotr("check", "c.yaml").err


def test_watched_folder_runs_until_stopped(project: Project) -> None:
    project.write("d/b.ndjson", element(2) + element(4))
    project.write("d/c.ndjson", element(1) + element(5))
    run = start(project, "input.0.path=d/*.ndjson", "input.0.watch=true", "input.0.settle=0.2 s", "input.0.idle=1 s")
    wait_for(project, [1, 2, 4, 5])  # the folder is idle: all instants so far close
    project.write("d/e.ndjson", element(3) + element(7) + element(9))
    project.write("d/d.ndjson", element(6) + element(8) + "broken\n" + element(7))
    wait_for(project, [1, 2, 4, 5, 6, 8, 9])
    run.send_signal(signal.SIGTERM)
    _, reported = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0
    assert "Stopped: the output holds all instants so far." in reported
    dead = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    assert {(each["reason"], Path(each["file"]).name, each["line"]) for each in dead} >= {("unreadable", "d.ndjson", 3)}
    assert len(dead) == 4  # the 7 behind the 8, the 3, and the 7 of the next file; or fewer 8s, had the files been seen one by one


def test_late_element_after_idle_is_a_dead_letter(project: Project) -> None:
    project.write("b.ndjson", element(5) + element(6) + element(7))
    project.change("c.yaml", "- { name: a,", "- { name: b, format: ndjson, path: b.ndjson }\n  - { name: a,")
    options = ("input.1.path=d/*", "input.1.watch=true", "input.1.settle=0 s", "input.1.idle=300 ms")
    (project.folder / "d").mkdir()
    run = start(project, *options)
    wait_for(project, [5, 6, 7])
    project.write("new", element(6) + element(8))
    (project.folder / "new").rename(project.folder / "d" / "1")
    wait_for(project, [5, 6, 7, 8])
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=PATIENCE)
    (dead,) = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    assert (dead["reason"], dead["line"], dead["time"]) == ("idle", 1, 6)


def test_standard_input_is_streamed(project: Project) -> None:
    run = start(project, "input.0.path=-", "input.0.one_per_instant=true")
    assert run.stdin is not None
    run.stdin.write(element("2014-08-01T00:00:01"))
    run.stdin.flush()
    wait_for(project, ["2014-08-01T00:00:01Z"])  # at once: no other element can have that time
    run.stdin.write(element("2014-08-01T00:00:01") + element("2014-08-01T00:00:00") + element("2014-08-01T00:00:02")[:-1])
    run.communicate(timeout=PATIENCE)
    assert run.returncode == 0
    assert times(project) == ["2014-08-01T00:00:01Z", "2014-08-01T00:00:02Z"]
    dead = [json.loads(line) for line in project.read("dead.ndjson").splitlines()]
    assert [(each["reason"], each["file"], each["line"]) for each in dead] == [("second", "-", 2), ("late", "-", 3)]


def test_csv_is_read_from_standard_input(project: Project) -> None:
    run = start(project, "input.0.path=-", "input.0.format=csv", "input.0.time=t", 'input.0.map=":{x} a :A ."')
    run.communicate("t,x\n1,a\n2,b\n", timeout=PATIENCE)
    assert times(project) == [1, 2]


def test_integers_of_standard_input_beside_numbers_since_1970_are_refused(project: Project) -> None:
    project.write("log.csv", "t,x\n1709294400,a\n")
    log = '- { name: log, format: csv, path: log.csv, time: t, time_format: unix, map: "[] :x {x} ." }'
    project.change("c.yaml", "- { name: a,", f"{log}\n  - {{ name: a,")
    run = start(project, "input.1.path=-")
    _, told = run.communicate(element(7), timeout=PATIENCE)
    assert (run.returncode, "C204 the times of input log (unix) are date-times, and those of a are integers" in told) == (2, True)
    run = start(project, "input.1.path=-")
    run.communicate(element("2024-03-01T12:00:01Z"), timeout=PATIENCE)
    assert run.returncode == 0


def test_rate_limit_is_respected(project: Project) -> None:
    project.write("a.ndjson", "".join(element(at) for at in range(60)))
    began = time.monotonic()
    assert project.dotr("run", "c.yaml", "--set", "input.0.rate=50").err.startswith("60 elements, 60 instants")
    assert time.monotonic() - began > 1  # five at once, then fifty a second
    assert times(project) == list(range(60))
