"""Runs in process whose output is served: the same events as in a file, whole instants, ends and stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Final

import pytest

from dotr.runtimes.local import run as local
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.streams.connectors.serve.kept import NewElement
from dotr.streams.connectors.serve.stream import PublishedStream
from tests.conftest import Project
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

pytestmark = pytest.mark.core

RULES: Final = """\
PREFIX : <http://e/>
rule Fire define Fire = [ [] :burns ?x ] from A = [ SELECT ?x ?n WHERE { ?x :n ?n } ] with Fire.?x = A.?x
rule High define High = [ [] :high ?x ] from B = [ SELECT ?x ?n WHERE { ?x :n ?n FILTER(?n > 1) } ] with High.?x = B.?x
"""
DATA: Final = "".join(f'{{"time": {time}, "graph": ":r{time} :n {time} . :s{time} :n 0 ."}}\n' for time in range(1, 8))


@pytest.fixture
def port(project: Project) -> int:
    """The port at which / is served, and /high the events High, beside a file with all events."""
    number = free_port()
    project.write("r.dotr", RULES)
    project.write("a.ndjson", DATA)
    outputs = (
        f"- {{ path: out.ndjson }}\n  - {{ serve: {{ listen: {number} }} }}\n  - {{ serve: {{ listen: '{number}/high' }}, events: [High] }}"
    )
    project.change("c.yaml", "- { path: out.ndjson }", outputs)
    return number


def get(port: int, path: str) -> list[dict[str, object]]:
    """The elements at a path, in NDJSON."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Accept": "application/x-ndjson"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return [json.loads(line) for line in answer.read().splitlines()]
    finally:
        connection.close()


def eventually(read: Callable[[], object], expected: object) -> None:
    """Wait until a value is the expected one."""
    until = time.monotonic() + PATIENCE
    found: object = None
    while time.monotonic() < until:
        try:
            if (found := read()) == expected:
                return
        except OSError:
            pass
        time.sleep(0.02)
    assert found == expected


@contextmanager
def running(project: Project, *options: str) -> Iterator[subprocess.Popen[str]]:
    words = [word for option in options for word in ("--set", option)]
    command = [sys.executable, "-m", "dotr", "run", "c.yaml", "--engine", "local", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=project.folder)
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def test_events_are_those_of_the_file_while_the_run_lingers(project: Project, port: int) -> None:
    with running(project, "output.1.serve.linger=1 h", "output.2.serve.linger=1 h") as run:
        eventually(lambda: len(get(port, "/elements")), 20)
        file = [json.loads(line) for line in project.read("out.ndjson").splitlines()]  # it is complete, and closed
        served = get(port, "/elements")
        assert [{key: value for key, value in each.items() if key != "id"} for each in served] == file
        assert [each["id"] for each in served[:4]] == ["1000000-0", "1000000-1", "2000000-0", "2000000-1"]
        # an event has one ID in every output
        assert get(port, "/high/elements") == [each for each in served if each["event"] == "High"]
        assert "C216 all inputs have ended" in project.refused("reload", "c.yaml")
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0, told
        assert f"Serving http://127.0.0.1:{port}/\n" in told
        assert f"Serving http://127.0.0.1:{port}/high/\n" in told


def test_run_ends_with_its_input_where_nothing_lingers(project: Project, port: int) -> None:
    answer = project.dotr("run", "c.yaml", "--engine", "local")
    assert answer.code == 0
    assert f"-> out.ndjson, http://127.0.0.1:{port}/, http://127.0.0.1:{port}/high/" in answer.err
    again = project.dotr("run", "c.yaml", "--engine", "local", "--fresh")
    assert again.code == 0, "the port is free again"


def test_instant_is_served_once_it_is_closed(project: Project, port: int) -> None:
    listening = free_port()
    project.change("c.yaml", "path: a.ndjson", f"http: {{ listen: {listening} }}")

    def post(time: int) -> None:
        connection = HTTPConnection("127.0.0.1", listening, timeout=PATIENCE)
        body = json.dumps({"time": time, "graph": f":r{time} :n {time} ."})
        connection.request("POST", "/", body, {"Content-Type": "application/x-ndjson"})
        assert connection.getresponse().status == 202
        connection.close()

    with running(project) as run:
        eventually(lambda: get(port, "/elements"), [])
        for now in (1, 2, 3):
            post(now)
            eventually(lambda now=now: [each["time"] for each in get(port, "/elements?label=Fire")], [*range(1, now)])  # type: ignore[misc]
        run.send_signal(signal.SIGTERM)
        _, told = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0, told


def test_instant_in_blocks_is_served_whole(project: Project, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(
        "a.ndjson", "".join(f'{{"time": {time}, "graph": "{" ".join(f":r{n} :n {n} ." for n in range(60))}"}}\n' for time in (1, 2))
    )
    monkeypatch.setattr(local, "RUN_SIZE", 7)
    published: list[Sequence[NewElement]] = []
    monkeypatch.setattr(
        PublishedStream, "publish", lambda self, elements: published.append([*elements]) if not self.base.endswith("high/") else None
    )
    run_local(build(read_config("c.yaml"), fresh=False, on_spark=False), lambda totals: None)
    assert [len({each.time for each in block}) for block in published] == [1, 1]
    assert [[each.ordinal for each in block] for block in published] == [[*range(118)]] * 2


def test_counts_are_metrics(project: Project, port: int) -> None:
    metrics = free_port()
    options = [f"metrics.prometheus={metrics}", "output.1.serve.linger=1 h"]
    with running(project, *options, "output.2.serve.linger=1 h") as run:
        eventually(lambda: len(get(port, "/elements")), 20)
        for path in ("/none", "/elements?x=1", "/elements?x=2"):
            with pytest.raises(AssertionError):
                get(port, path)
        connection = HTTPConnection("127.0.0.1", metrics, timeout=PATIENCE)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        labels = f'engine="local",pipeline="small",stream="http://127.0.0.1:{port}/'
        assert f'dotr_serve_elements_total{{{labels}"}} 20.0\n' in page
        assert f'dotr_serve_elements_total{{{labels}high/"}} 6.0\n' in page
        for status, number in ((400, 2), (404, 1)):
            assert f'dotr_serve_refusals_total{{{labels.replace("stream", f"""status="{status}",stream""")}"}} {number}.0\n' in page
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=PATIENCE)
        assert run.returncode == 0
