"""Figures of a run in this process: progress, metrics by HTTP, progress as JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.progress import BatchFigures, Figures, InputProgress, LatestFigures, RunProgress, StoredCount
from dotr.runtimes.monitoring.prometheus import exposition, serve_metrics
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.sinks.batches import ServedCounts
from dotr.temporal.matching.rule_counts import RuleCounts
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 4 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG = """
name: figures
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: fast, format: ndjson, path: "fast*.ndjson" }
  - { name: slow, format: ndjson, path: slow.ndjson }
output: [{ path: out.ndjson }]
dead_letter: dead.ndjson
engine: local
"""
PROGRESS = RunProgress(
    12_500_000,
    (InputProgress("a", 12_500_000, connected=True), InputProgress('quoted "b"', 9_000_000), InputProgress("c", None)),
    (StoredCount(0, "Smoke", 4), StoredCount(1, "Fire", 2)),
    321,
    BatchFigures(7, 1_250, 4, 999),
    heartbeat=12_000_000,
    served=(ServedCounts("http://e/", 3, Counter(events=1), Counter(events=90), Counter(ws=1), Counter({404: 2})),),
)
TOTALS = Totals(
    10, 9, 8, 7, {Reason.LATE: 6, Reason.SECOND: 5}, 4, 3, rules={"Fire": RuleCounts(5, 7, errors={1: 2})}, left_out={("a", "v"): 2}
)
FIGURES = Figures("p", "spark", 3.25, TOTALS, PROGRESS, ("Fire", "Flood"))


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
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def scraped(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def samples(page: str) -> dict[tuple[str, ...], float]:
    """Samples of a page by name and values of the labels, in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


class TestExposition:
    def test_every_figure_is_a_sample(self) -> None:
        found = samples(exposition(FIGURES))
        assert {key[1:3] for key in found if len(key) == 3} == {("spark", "p")}
        assert found["dotr_elements_total", "spark", "p"] == 10
        assert found["dotr_rule_anchors_total", "spark", "p", "Fire"] == 5
        assert found["dotr_rule_events_total", "spark", "p", "Flood"] == 0
        assert found["dotr_dead_letters_total", "spark", "p", "late"] == 6
        assert found["dotr_dead_letters_total", "spark", "p", "failed"] == 0
        assert found["dotr_closed_timestamp_seconds", "spark", "p"] == 12.5
        assert found["dotr_input_lag_seconds", "spark", 'quoted "b"', "p"] == 3.5
        assert ("dotr_input_lag_seconds", "spark", "c", "p") not in found
        assert found["dotr_state_events", "spark", "Fire", "1", "p"] == 2
        assert found["dotr_batch_seconds", "spark", "p"] == 1.25

    def test_counters_are_typed_as_counters(self) -> None:
        types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", exposition(FIGURES), re.MULTILINE))
        assert {kind for name, kind in types.items() if name.endswith("_total")} == {"counter"}
        assert {kind for name, kind in types.items() if not name.endswith("_total")} == {"gauge"}

    def test_every_metric_is_documented(self) -> None:
        text = (ROOT / "docs" / "operation.md").read_text(encoding="utf-8")
        assert set(re.findall(r"`(dotr_\w+)`", text)) == {name for name, *_ in samples(exposition(FIGURES))}


class TestEndpoint:
    def test_page_is_served_until_the_run_ends(self) -> None:
        with serve_metrics(0, lambda: FIGURES) as port:
            assert scraped(port) == exposition(FIGURES)
            with pytest.raises(urllib.error.HTTPError, match="404"):
                scraped(port, "/other")
        with pytest.raises(OSError, match="refused"):
            scraped(port)

    @pytest.mark.parametrize(
        "request_line", ["GET /metrics HTTP/1.1", "GET /other HTTP/1.1", "BREW / HTTP/1.1", "GET / HTTP/9.9", "nonsense"]
    )
    def test_answers_do_not_tell_versions(self, request_line: str) -> None:
        with serve_metrics(0, lambda: FIGURES) as port, socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(f"{request_line}\r\n\r\n".encode())
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: client.recv(65_536), b""))
        assert answer
        assert not any(word in answer.lower() for word in (b"python", b"wsgi", b"basehttp"))

    def test_openmetrics_is_served_on_request(self) -> None:
        with serve_metrics("[::1]:0", lambda: FIGURES) as port:
            request = urllib.request.Request(
                f"http://[::1]:{port}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
            )
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
                assert b'dotr_elements_total{engine="spark",pipeline="p"} 10.0\n' in answer.read()

    def test_taken_port_is_refused(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with serve_metrics(0, lambda: FIGURES) as port:
            assert main(["run", "c.yaml", "--set", f"metrics.prometheus={port}"]) == 2
        assert "C215 metrics cannot be served" in capsys.readouterr().err
        assert not (folder / "out.ndjson").exists()

    @pytest.mark.parametrize("address", ["host", "1:2:x", "127.0.0.1:70000"])
    def test_bad_address_is_refused(self, folder: Path, address: str) -> None:
        with pytest.raises(Refused, match=r"C203 metrics\.prometheus cannot be used"):
            read_config("c.yaml", [f"metrics.prometheus={address}"])


class TestLocal:
    def test_progress_is_reported(self, folder: Path) -> None:
        reports: list[RunProgress] = []
        run_local(build(read_config("c.yaml"), fresh=False, on_spark=False), lambda totals: None, reports.append)
        assert reports[-1].closed == 9_000_000
        assert [(each.name, each.ended) for each in reports[-1].inputs] == [("fast", True), ("slow", True)]
        assert sum(each.events for each in reports[-1].stored) == 2

    def test_input_that_delays_others_has_a_lag(self, folder: Path) -> None:
        """Elements of a watched folder wait for the slower one, which ends at 5; a signal then ends
        the run with code 0."""
        text = CONFIG.replace('path: "fast*.ndjson"', 'path: "fast*.ndjson", watch: true, settle: 0 s')
        (folder / "c.yaml").write_text(text.replace("path: slow.ndjson", 'path: "slow*.ndjson", watch: true, settle: 0 s'))
        command = [sys.executable, "-m", "dotr", "run", "c.yaml", "--progress", "json", "--set", "metrics.prometheus=0"]
        for name in ("fast", "slow"):
            (folder / f"{name}.ndjson").rename(folder / name)
            (folder / f"{name}1.ndjson").write_text(lines(0))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        try:
            until((folder / "out.ndjson").exists)  # existing files are read as inputs of their own
            for name in ("fast", "slow"):
                (folder / name).rename(folder / f"{name}2.ndjson")
            until(lambda: (folder / "dead.ndjson").exists() and len((folder / "dead.ndjson").read_text().splitlines()) == 2)
            until(lambda: '"time": 3' in (folder / "out.ndjson").read_text())
        finally:
            process.send_signal(signal.SIGTERM)
            _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        reports = [json.loads(line) for line in stderr.splitlines()]
        assert {"level": "warning", "message": "Stopped: the output holds all instants so far."} in reports
        final = reports[-1]
        assert (final["final"], final["closed"], final["elements"], final["dead"]) == (True, 3, 6, {"late": 1, "unreadable": 1})
        assert [(each["name"], each["lag"], each["ended"]) for each in final["inputs"]] == [("fast", 0.0, False), ("slow", 4.0, False)]


class TestJson:
    def test_every_line_is_an_object(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "c.yaml", "--progress", "json"]) == 0
        written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert written[-1]["final"] is True
        assert written[-1]["elements"] == 6
        messages = [each["message"] for each in written if "level" in each]
        assert messages[0].startswith("1 warning of the rules")
        assert messages[1].startswith("fast.ndjson:4: dead letter (late)")

    def test_quiet_run_writes_nothing_to_stderr(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "c.yaml", "--progress", "json", "--quiet"]) == 0
        assert capsys.readouterr().err == ""

    def test_refusal_is_an_object(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "none.yaml", "--progress", "json"]) == 2
        written = json.loads(capsys.readouterr().err)
        assert written["level"] == "error"
        assert "C302" in written["message"]

    def test_every_field_is_documented(self) -> None:
        from dotr.runtimes.monitoring.display import json_report

        written = (ROOT / "docs" / "operation.md").read_text(encoding="utf-8")
        assert [field for field in json.loads(json_report(FIGURES)) if f"`{field}`" not in written] == []


def test_latest_figures_are_read() -> None:
    figures = LatestFigures("p", "local")
    changes: list[int] = []
    figures.on_change = lambda: changes.append(figures.read().totals.elements)
    figures.update_progress(PROGRESS)
    figures.update_totals(Totals(elements=2))
    assert (changes, figures.read().progress) == ([2], PROGRESS)
