"""Senders that die while a pipeline with a clock runs: the event comes without an element, and the run's recording repeats it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.support.kafka_broker import Broker
from tests.support.kafka_inputs import kafka_section, send
from tests.support.mosquitto import Mosquitto, wait_until
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

RULES = """\
PREFIX : <http://e/>
rule Left
define Left = [ dotr_id a :Left ; :of ?s ]
from R = [ SELECT ?s WHERE { ?s :temp ?v } ] delayed by 1 s
and not N = [ SELECT ?s WHERE { ?s :temp ?v FILTER(?s = R.?s) } ] within [0, 1 s) from R
with Left.?s = R.?s
"""
LARS = """\
PREFIX : <http://e/>
Seen(?s) :- :temp(?s, ?v) IN [1 s] .
REPORT ENDED Seen(?s) AS Silent .
"""
QUERY = """\
PREFIX : <http://e/>
REGISTER RSTREAM <Count> AS
SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <a> [RANGE 1s STEP 1s]
WHERE { WINDOW <w> { ?s :temp ?v } }
"""
CONFIG = """\
name: small
prefixes: {{ "": "http://e/" }}
rules: [r.dotr, l.lars, q.rspql]
clock: 3 s
record: run.ndjson
input: [{{ name: a, format: ndjson, {} }}]
output: [{{ path: out.ndjson }}]
dead_letter: dead.ndjson
engine: local
"""


def element(name: str, behind: float = 0.0, now: float | None = None) -> str:
    at = datetime.fromtimestamp((time.time() if now is None else now) - behind, UTC).isoformat()
    return json.dumps({"time": at, "graph": f":{name} :temp 1 ."})


class Running:
    """A run in a process of its own, in the folder of a project; `backlog` is in its standard input before it starts."""

    def __init__(self, project: Project, given: str, backlog: str = "") -> None:
        for name, text in (("r.dotr", RULES), ("l.lars", LARS), ("q.rspql", QUERY), ("c.yaml", CONFIG.format(given))):
            project.write(name, text)
        self.project = project
        command = [sys.executable, "-m", "dotr", "run", "c.yaml", "--quiet"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        read, write = os.pipe()
        os.write(write, backlog.encode())
        self.process = subprocess.Popen(command, stdin=read, env=environment, cwd=project.folder, text=True)
        os.close(read)
        self.process.stdin = os.fdopen(write, "w")

    def lines(self, name: str) -> list[dict[str, object]]:
        path = self.project.folder / name
        written = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in written.splitlines()]

    def wait_for(self, rule: str, subject: str) -> None:
        """Wait for an event about a subject."""
        wait_until(lambda: any(each["rule"] == rule and subject in str(each["attributes"]) for each in self.lines("out.ndjson")))

    def stop(self) -> None:
        """Stop the run, and check that its recording repeats it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        assert self.process.returncode == 0
        again = ["--set", "output.0.path=again.ndjson", "--set", "dead_letter=d2.ndjson", "--quiet"]
        assert self.project.dotr("run", "c.yaml", "--recording", "run.ndjson", *again).code == 0
        assert self.project.read("again.ndjson") == self.project.read("out.ndjson")
        assert {"Left", "Silent", "Count"} == {each["rule"] for each in self.lines("out.ndjson")}

    def close(self) -> None:
        """Kill the run, if it still runs."""
        self.process.kill()
        self.process.communicate()


def post(port: int, *lines: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/in", "\n".join(lines).encode(), {"Content-Type": "application/x-ndjson"})
    status = connection.getresponse().status
    connection.close()
    return status


def is_open(port: int) -> bool:
    try:
        return post(port, element("first")) == 202
    except OSError:
        return False


def test_an_http_client_that_sends_no_more(project: Project) -> None:
    port = free_port()
    run = Running(project, f"http: {{ listen: '127.0.0.1:{port}/in' }}")
    try:
        wait_until(lambda: is_open(port))
        run.wait_for("Left", "first")
        run.wait_for("Silent", "first")
        run.process.send_signal(signal.SIGSTOP)  # what comes while the run is paused waits unread
        paused = time.time()
        sending = threading.Thread(target=post, args=(port, element("paused", now=paused)))
        sending.start()
        time.sleep(5)
        run.process.send_signal(signal.SIGCONT)
        sending.join(PATIENCE)
        run.wait_for("Left", "paused")
        assert run.lines("dead.ndjson") == []
        post(port, element("behind", now=paused + 0.5))
        wait_until(lambda: run.lines("dead.ndjson"))
        assert [each["reason"] for each in run.lines("dead.ndjson")] == ["clock"]
        run.stop()
    finally:
        run.close()


@pytest.mark.kafka
def test_a_topic_to_which_nothing_comes(kafka: Broker, project: Project) -> None:
    topic = kafka.topic(partitions=2)
    send(kafka, topic, [[element(f"old{number}", 60 - number) for number in range(60)], []])  # a backlog, and an empty partition
    run = Running(project, kafka_section(kafka, topic))
    try:
        run.wait_for("Left", "old59")
        run.wait_for("Silent", "old59")
        run.process.send_signal(signal.SIGSTOP)
        send(kafka, topic, [[element("paused")], []])
        time.sleep(5)
        run.process.send_signal(signal.SIGCONT)
        run.wait_for("Left", "paused")
        assert run.lines("dead.ndjson") == []
        run.stop()
    finally:
        run.close()


@pytest.mark.mosquitto
def test_a_broker_that_is_killed(project: Project, tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "broker") as broker:
        run = Running(project, f"mqtt: {{ url: '{broker.url}', topics: [t], session: 1 h }}")
        try:
            wait_until(lambda: (project.folder / "run.ndjson").exists() and run.lines("run.ndjson"))
            broker.publish(("t", element("last")))
            wait_until(lambda: any("input" in each for each in run.lines("run.ndjson")))
            broker.kill()
            run.wait_for("Left", "last")
            run.wait_for("Silent", "last")
            assert run.lines("dead.ndjson") == []
            run.stop()
        finally:
            run.close()


def test_a_silent_pipe_that_is_a_backlog_first(project: Project) -> None:
    backlog = "".join(element(f"old{number}", 600 - number) + "\n" for number in range(600)) + element("half")[:20]
    run = Running(project, 'path: "-"', backlog)  # the backlog waits in the pipe, so none of it is behind the clock
    try:
        run.wait_for("Left", "old599")
        run.wait_for("Silent", "old599")
        assert run.lines("dead.ndjson") == []
        run.stop()
    finally:
        run.close()
