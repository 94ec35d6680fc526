"""Python processes of Spark's that are late, as on a busy machine: the run goes on without a loss, and tests start few sessions at once."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest

pytest.importorskip("pyspark")

from tests.conftest import Project
from tests.support.spark_starts import AT_ONCE, turn

DELAYED = ("python_streaming_source_runner", "transform_with_state_driver_worker")
"""Processes that Spark starts by itself, and waits ten seconds for: the planner, and the driver's worker of the state."""
PYTHON = """\
#!/bin/sh
case "$*" in
*{first}*|*{second}*)
    echo "$SPARK_AUTH_SOCKET_TIMEOUT" >>"{folder}/seconds"
    mkdir "{folder}/$2" 2>/dev/null && sleep 12
esac
exec "{python}" "$@"
"""
"""An interpreter of which each of the two processes is late once."""
RULE = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x ?k WHERE { ?s :v ?x ; :k ?k } ]
and last B = [ SELECT ?y ?k2 WHERE { ?s :v ?y ; :k ?k2 . FILTER(?k2 = A.?k) } ] within 10 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
LINE = "Spark gave up waiting for a Python process to start, as on a busy machine: the query starts again from its checkpoint."


def lines(folder: Path) -> list[str]:
    return [line for path in sorted(folder.glob("*.ndjson")) for line in path.read_text().splitlines()]


@pytest.mark.spark
@pytest.mark.usefixtures("no_spark")
def test_late_workers_cost_time_and_nothing_else(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("r.dotr", RULE)
    project.write("a.ndjson", "".join(json.dumps({"time": at, "graph": f"[] :v {at} ; :k :k{at % 5} ."}) + "\n" for at in range(60)))
    project.change("c.yaml", "out.ndjson", "local.ndjson")
    assert project.dotr("run", "c.yaml", "--quiet").code == 0
    first, second = DELAYED
    python = project.write("python", PYTHON.format(first=first, second=second, folder=project.folder, python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    project.change("c.yaml", "local.ndjson", "out")
    project.change("c.yaml", "engine: local", 'spark: { master: "local[2]", checkpoint: ck, restarts: 0 }')
    answer = project.dotr("run", "c.yaml", "--engine", "spark", "--fresh")
    assert (answer.code, answer.err.count(LINE), answer.err.count("Spark stopped")) == (0, 2, 0), answer.err
    written = lines(project.folder / "out")
    assert written == project.read("local.ndjson").splitlines()
    assert len(written) > 40
    assert set(project.read("seconds").split()) == {"600"}


@pytest.mark.core
def test_few_sessions_start_at_once(tmp_path: Path) -> None:
    lock, now, most = Lock(), 0, 0

    def start(number: int) -> None:
        nonlocal now, most
        with turn(tmp_path):
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.02)
            with lock:
                now -= 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(start, range(6)))
    assert (now, most) == (0, AT_ONCE)
