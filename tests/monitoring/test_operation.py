"""What is told of a run while it goes on: standing, metrics by HTTP, progress as JSON; in this process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from dotr.cli import main
from dotr.config import read_config
from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.monitoring.latest_figures import Figures, LatestFigures
from dotr.monitoring.progress import BatchFigures, HeldEvents, InputProgress, RunProgress
from dotr.monitoring.prometheus import exposition, served
from dotr.monitoring.totals import Totals
from dotr.runtimes.local import run_local
from dotr.runtimes.pipeline import build
from tests.support.paths import ROOT

RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 4 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG = """
name: told
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: fast, format: ndjson, path: "fast*.ndjson" }
  - { name: slow, format: ndjson, path: slow.ndjson }
output: [{ path: out.ndjson }]
dead_letter: dead.ndjson
engine: local
"""
STANDING = RunProgress(
    12_500_000,
    (InputProgress("a", 12_500_000), InputProgress('quoted "b"', 9_000_000), InputProgress("c", None)),
    (HeldEvents(0, "Smoke", 4), HeldEvents(1, "Fire", 2)),
    321,
    BatchFigures(7, 1_250, 4, 999),
)
READING = Figures("p", "spark", 3.25, Totals(10, 9, 8, 7, {Reason.LATE: 6, Reason.SECOND: 5}, 4, 3), STANDING)


def lines(*times: int | None) -> str:
    return "".join((json.dumps({"time": at, "graph": f"[] :v {at} ."}) if at is not None else "broken") + "\n" for at in times)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "c.yaml").write_text(CONFIG)
    (tmp_path / "fast.ndjson").write_text(lines(1, 2, 3, 1, None, 9))
    (tmp_path / "slow.ndjson").write_text(lines(2, 5))
    return tmp_path


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def scraped(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def samples(page: str) -> dict[str, float]:
    """The samples of a page that is as the exposition format wants it: a HELP and a TYPE once before the samples of each metric."""
    found: dict[str, float] = {}
    name = ""
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert not any(known.startswith(name + "{") for known in found)
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {name} {METRICS[name][0]}"
        else:
            matched = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)+)\} (-?[0-9.e+]+)', line)
            assert matched is not None
            assert matched[1] == name
            found[f"{name}{{{matched[2]}}}"] = float(matched[3])
    return found


class TestExposition:
    def test_every_figure_is_a_sample(self) -> None:
        found = samples(exposition(READING))
        assert {name.partition("{")[0] for name in found} == set(METRICS)
        p = 'pipeline="p",engine="spark"'
        assert found[f"dotr_elements_total{{{p}}}"] == 10
        assert found[f'dotr_dead_letters_total{{{p},reason="late"}}'] == 6
        assert found[f'dotr_dead_letters_total{{{p},reason="failed"}}'] == 0
        assert found[f"dotr_closed_timestamp_seconds{{{p}}}"] == 12.5
        assert found[f'dotr_input_lag_seconds{{{p},input="quoted \\"b\\""}}'] == 3.5
        assert f'dotr_input_lag_seconds{{{p},input="c"}}' not in found
        assert found[f'dotr_state_events{{{p},layer="1",label="Fire"}}'] == 2
        assert found[f"dotr_batch_seconds{{{p}}}"] == 1.25

    def test_the_documentation_lists_every_metric(self) -> None:
        told = (ROOT / "docs" / "operation.md").read_text(encoding="utf-8")
        assert set(re.findall(r"`(dotr_\w+)`", told)) == set(METRICS)


class TestEndpoint:
    def test_it_answers_while_it_is_open(self) -> None:
        with served(0, lambda: READING) as port:
            assert scraped(port) == exposition(READING)
            with pytest.raises(urllib.error.HTTPError, match="404"):
                scraped(port, "/other")
        with pytest.raises(OSError, match="refused"):
            scraped(port)

    def test_a_port_that_is_taken_is_refused(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with served(0, lambda: READING) as port:
            assert main(["run", "c.yaml", "--set", f"metrics.prometheus={port}"]) == 2
        assert "C215 metrics cannot be served" in capsys.readouterr().err
        assert not (folder / "out.ndjson").exists()

    @pytest.mark.parametrize("address", ["host", "1:2:x", "127.0.0.1:70000"])
    def test_what_is_no_address_is_told_with_its_place(self, folder: Path, address: str) -> None:
        with pytest.raises(Refused, match=r"C203 metrics\.prometheus cannot be used"):
            read_config("c.yaml", [f"metrics.prometheus={address}"])


class TestLocal:
    def test_it_tells_where_it_stands(self, folder: Path) -> None:
        told: list[RunProgress] = []
        run_local(build(read_config("c.yaml"), fresh=False, on_spark=False), lambda totals: None, told.append)
        assert told[-1].closed == 9_000_000
        assert [(each.name, each.ended) for each in told[-1].inputs] == [("fast", True), ("slow", True)]
        assert sum(each.events for each in told[-1].stored) == 2

    def test_an_input_that_holds_up_the_others_shows(self, folder: Path) -> None:
        """The elements of one watched folder wait for the other, which has stopped at 5; and a signal ends it in good order."""
        text = CONFIG.replace('path: "fast*.ndjson"', 'path: "fast*.ndjson", watch: true, settle: 0 s')
        (folder / "c.yaml").write_text(text.replace("path: slow.ndjson", 'path: "slow*.ndjson", watch: true, settle: 0 s'))
        command = [sys.executable, "-m", "dotr", "run", "c.yaml", "--progress", "json", "--set", "metrics.prometheus=0"]
        for name in ("fast", "slow"):
            (folder / f"{name}.ndjson").rename(folder / name)
            (folder / f"{name}1.ndjson").write_text(lines(0))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        try:
            until((folder / "out.ndjson").exists)  # the files that are there are inputs of their own; those that come go on behind
            for name in ("fast", "slow"):
                (folder / name).rename(folder / f"{name}2.ndjson")
            until(lambda: (folder / "dead.ndjson").exists() and len((folder / "dead.ndjson").read_text().splitlines()) == 2)
            until(lambda: '"time": 3' in (folder / "out.ndjson").read_text())
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        assert process.returncode == 0
        reports = [json.loads(line) for line in said.splitlines()]
        assert {"level": "warning", "message": "Stopped: the output holds all instants so far."} in reports
        final = reports[-1]
        assert (final["final"], final["closed"], final["elements"], final["dead"]) == (True, 3, 6, {"late": 1, "unreadable": 1})
        assert [(each["name"], each["lag"], each["ended"]) for each in final["inputs"]] == [("fast", 0.0, False), ("slow", 4.0, False)]


class TestJson:
    def test_every_line_is_an_object(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "c.yaml", "--progress", "json"]) == 0
        told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert told[-1]["final"] is True
        assert told[-1]["elements"] == 6
        said = [each["message"] for each in told if "level" in each]
        assert said[0].startswith("1 warning of the rules")
        assert said[1].startswith("fast.ndjson:4: dead letter (late)")

    def test_quiet_is_quiet(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "c.yaml", "--progress", "json", "--quiet"]) == 0
        assert capsys.readouterr().err == ""

    def test_a_refusal_is_an_object_too(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "none.yaml", "--progress", "json"]) == 2
        told = json.loads(capsys.readouterr().err)
        assert told["level"] == "error"
        assert "C302" in told["message"]

    def test_the_documentation_has_every_field(self) -> None:
        from dotr.monitoring.display import json_report

        told = (ROOT / "docs" / "operation.md").read_text(encoding="utf-8")
        assert [field for field in json.loads(json_report(READING)) if f"`{field}`" not in told] == []


def test_the_meter_reads_what_it_was_told_last() -> None:
    meter = LatestFigures("p", "local")
    heard: list[int] = []
    meter.on_change = lambda: heard.append(meter.read().totals.elements)
    meter.update_progress(STANDING)
    meter.update_totals(Totals(elements=2))
    assert (heard, meter.read().progress) == ([2], STANDING)
