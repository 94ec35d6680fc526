"""Replays of files: the key `replay`, runs in process, and explanations of them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.commands.why.questions import open_replays
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.inputs import read_inputs

pytestmark = pytest.mark.core


RULES = """PREFIX : <http://e/>
define Pair = [ ?x :then ?y ] from B = [ SELECT ?y WHERE { ?y a :S } ]
and last A = [ SELECT ?x WHERE { ?x a :S } ] within 3 s from B with Pair.?x = A.?x, Pair.?y = B.?y
"""
SENSORS = "{ name: s, format: ndjson, path: s.ndjson, pace: 100000, replay: { %s } }"


def project(folder: Path, inputs: str, *keys: str, times: tuple[object, ...] = (10, 12, 20)) -> str:
    (folder / "r.dotr").write_text(RULES)
    for name in ("s", "t"):
        lines = [json.dumps({"time": at, "graph": f":{name}{number} a :S ."}) for number, at in enumerate(times)]
        (folder / f"{name}.ndjson").write_text("\n".join(lines) + "\n")
    text = ["name: x", 'prefixes: { "": "http://e/" }', "rules: [r.dotr]", f"input: [{inputs}]", "output: [{ path: out.ndjson }]"]
    (folder / "c.yaml").write_text("\n".join([*text, "dead_letter: dead.ndjson", "engine: local", *keys, ""]))
    return str(folder / "c.yaml")


def problems(config: str) -> list[str]:
    found: list[Diagnostic] = []
    try:
        read_inputs(read_config(config), found)
    except Refused as refused:
        found += refused.diagnostics
    return [f"{each.code} {each.message}" for each in found]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (SENSORS % "", []),
        (SENSORS % "start: 5, every: 1 d", []),
        (SENSORS % "every: soon", ["C205 replay.every: 'soon' is no length of time: write 0 s, 30 s or 5 min"]),
        (SENSORS % "every: 0", ["C205 replay.every: a round takes time"]),
        (SENSORS % "start: tomorrow", ["C205 replay.start: 'tomorrow' is neither an integer nor an ISO 8601 date-time"]),
        ((SENSORS % "").replace("pace: 100000, ", ""), ["C204 replay goes with the clock, and this input has no pace"]),
        ((SENSORS % "").replace("s.ndjson", "'-'"), ["C204 replay is of files that are there in full, and this input goes on"]),
        (
            (SENSORS % "").replace("path: s.ndjson", "path: '*.ndjson', watch: true"),
            ["C204 replay is of files that are there in full, and this input goes on"],
        ),
        (
            f"{SENSORS % 'start: 5'}, {(SENSORS % 'start: 6').replace('name: s', 'name: t')}",
            ["C204 inputs s and t are replayed each in its own way, and all that have `replay` move as one"],
        ),
        (
            f"{SENSORS % ''}, {(SENSORS % '').replace('name: s', 'name: t').replace('100000', '7')}",
            ["C204 inputs s and t are replayed each in its own way, and all that have `replay` move as one"],
        ),
    ],
)
def test_conflicts_of_a_replay(tmp_path: Path, inputs: str, expected: list[str]) -> None:
    assert problems(project(tmp_path, inputs)) == expected


def events(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "out.ndjson").read_text().splitlines()]


def test_files_move_as_one_and_others_stay(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = (SENSORS % "start: 1000").replace("name: s", "name: t").replace("s.ndjson", "t.ndjson")
    config = project(tmp_path, f"{SENSORS % 'start: 1000'}, {other}, {{ name: u, format: ndjson, path: u.ndjson }}")
    (tmp_path / "t.ndjson").write_text('{"time": 8, "graph": ":t a :S ."}\n')
    (tmp_path / "u.ndjson").write_text('{"time": 1013, "graph": ":u a :S ."}\n')
    assert main(["run", config]) == 0
    assert [(each["time"], each["attributes"]) for each in events(tmp_path)] == [
        (1002, {"x": "<http://e/t>", "y": "<http://e/s0>"}),
        (1004, {"x": "<http://e/s0>", "y": "<http://e/s1>"}),
        (1013, {"x": "<http://e/s2>", "y": "<http://e/u>"}),
    ], "u has no replay, and stays where it is"
    assert "The replay starts at 1000. With --start 1000 it has" in capfd.readouterr().err


def test_a_round_begins_where_every_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = project(tmp_path, SENSORS % "start: 1000, every: 10 s")
    assert main(["run", config, "--head", "7", "--quiet"]) == 0
    assert [(each["time"], each["attributes"]) for each in events(tmp_path)] == [
        (1002, {"x": "<http://e/s0>", "y": "<http://e/s1>"}),
        (1012, {"x": "<http://e/s2>", "y": "<http://e/s1>"}),
    ], "at 1010 the last element of a round and the first of the next one are one instant"
    assert capfd.readouterr().err == ""
    config = project(tmp_path, SENSORS % "start: 1000, every: 9 s")
    assert main(["run", config, "--fresh"]) == 2
    assert "c.yaml:4:96: C288 the files of the replay span 10 s, and every is 9 s" in capfd.readouterr().err
    config = project(tmp_path, SENSORS % "start: 1000, every: 10500 ms")
    assert main(["run", config, "--fresh"]) == 2
    assert "C204 every is 10 s 500 ms, and integer times count in s" in capfd.readouterr().err


def test_now_is_told_and_explained(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    times = ("2014-08-01T00:00:00Z", "2014-08-01T00:00:01.5Z")
    config = project(tmp_path, SENSORS % "", times=times)
    before = datetime.now(UTC)
    assert main(["run", config]) == 0
    found = re.search(r"The replay starts at (\S+)\. With --start", capfd.readouterr().err)
    assert found is not None
    start = datetime.fromisoformat(found[1])
    assert before <= start <= datetime.now(UTC)
    [event] = events(tmp_path)
    assert datetime.fromisoformat(str(event["time"])) == start + timedelta(seconds=1.5)
    assert main(["why", config, "--rule", "Pair"]) == 2
    assert "C289 input s is replayed from now on, and each run has another now" in capfd.readouterr().err
    assert main(["why", config, "--rule", "Pair", "--at", str(event["time"]), "--start", found[1]]) == 0
    assert f"{event['time']}" in capfd.readouterr().out
    assert (
        open_replays(config, options=[f"--start={found[1]}"])[0].why_not_command("R")
        == f"dotr why-not {config} --start {found[1]} --rule R"
    )
    assert main(["audit", config, "--start", found[1]]) == 0
    assert main(["facts", config, "--at", found[1], "--start", found[1]]) == 0
    assert main(["run", config, "--fresh", "--quiet", "--start", found[1]]) == 0
    assert events(tmp_path) == [event]


def test_a_recording_needs_no_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = project(tmp_path, SENSORS % "", "record: taken.rec")
    assert main(["run", config, "--quiet"]) == 0
    assert main(["audit", config]) == 0


def test_the_clock_goes_with_a_replay(tmp_path: Path) -> None:
    config = project(tmp_path, SENSORS % "start: 1000", "clock: 1 min")
    assert main(["run", config, "--quiet"]) == 0
    assert [each["time"] for each in events(tmp_path)] == [1002]
