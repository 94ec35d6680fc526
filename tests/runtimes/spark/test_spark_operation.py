"""Operation on Spark: configuration, progress of a run, a stop that finishes its batch, status of a
checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.model.time import LAST_MICRO
from dotr.runtimes.monitoring.progress import RunProgress
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests.support.interrupted import run_until
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.standalone import with_archive

pytestmark = pytest.mark.spark

RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x ?k WHERE { ?s :v ?x ; :k ?k } ]
and last B = [ SELECT ?y ?k2 WHERE { ?s :v ?y ; :k ?k2 . FILTER(?k2 = A.?k) } ] within 10 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG = """
name: told
prefixes: { "": "http://e/" }
rules: [r.dotr]
input: [{ name: a, format: ndjson, path: a.ndjson }]
output: [{ path: out/out.ndjson }]
dead_letter: out/dead.ndjson
spark: { master: "local[2]", checkpoint: out/checkpoint, batch: 40, conf: { spark.sql.streaming.numRecentProgressUpdates: 7 } }
"""
CONF = """
import sys
from pathlib import Path
from dotr.runtimes.spark.start.session import start
session = start("conf", None, {"spark.sql.streaming.numRecentProgressUpdates": "7"}, Path("spark.log"))
keys = ["numRecentProgressUpdates", "minBatchesToRetain", "stateStore.providerClass", "metricsEnabled"]
values = [session.conf.get("spark.sql.streaming." + key).split(".")[-1] for key in keys]
print("conf", *values, session.conf.get("spark.sql.adaptive.enabled"))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "c.yaml").write_text(CONFIG)
    elements = [json.dumps({"time": at, "graph": f"[] :v {at} ; :k :k{at % 5} ."}) for at in range(200)]
    (tmp_path / "a.ndjson").write_text("\n".join([*elements, elements[0]]))
    return tmp_path


class Foreign(StreamingQueryListener):
    """A listener of the user's."""

    def __init__(self) -> None:
        self.received: list[StreamingQueryProgress] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.received.append(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...

    def batches(self) -> list[StreamingQueryProgress]:
        """The received progress of batches with input rows."""
        return [progress for progress in self.received if progress.numInputRows]


@pytest.mark.usefixtures("spark")
def test_progress_of_a_run_and_status_of_its_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dotr.runtimes.spark.run import run_spark

    session = SparkSession.active()
    reported: list[RunProgress] = []
    counted: list[Totals] = []
    foreign = Foreign()
    session.streams.addListener(foreign)
    try:
        totals = run_spark(build(read_config("c.yaml"), fresh=False, on_spark=True), counted.append, reported.append)
        last = reported[-1]
        assert [(each.name, each.watermark, each.ended) for each in last.inputs] == [("a", 199_000_000, True)]
        assert any(progress.closed is not None and progress.closed < 199_000_000 for progress in reported)
        assert any(progress.batch is not None and progress.batch.state_rows == 2 for progress in reported)
        assert any(each.events >= 10 for progress in reported for each in progress.stored)
        assert last.stored == ()  # the stream has ended: all events are expired
        deadline = time.monotonic() + PATIENCE
        while not (batches := foreign.batches()) or json.loads(batches[-1].sources[0].endOffset)["time"] != LAST_MICRO:
            assert time.monotonic() < deadline, "Spark notifies listeners in a thread of its own"
            time.sleep(0.1)
        observed = [progress.observedMetrics["dotr"].asDict() for progress in batches]
        summed = {name: sum(each[name] for each in observed) for name in observed[0]}
        assert summed.pop("state_bytes_changed") >= 2
        counts = {
            "elements": 200,
            "instants": 200,
            "facts": totals.facts,
            "events": totals.events,
            "late": 1,
            "dead_letters": 1,
            "fallbacks": 0,
        }
        assert summed == counts
        assert {len(progress.stateOperators) for progress in batches} == {1}, "no rule reads another's events"
        assert "FileSystemBased" in str(session.conf.get("spark.sql.streaming.checkpointFileManagerClass"))
        capsys.readouterr()
        assert main(["status", "out/checkpoint", "--format", "json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["ended"], status["under_way"], status["inputs"][0]["files"][0]["read"]) == (True, None, True)
        assert status["totals"]["elements"] == totals.elements == 200
        assert status["totals"]["dead"] == {"late": 1}
        state = status["state"]
        assert state["source"] == "store"
        assert (state["values"], state["bytes"], state["held"]) == (2, last.state_bytes, [])
    finally:
        session.streams.removeListener(foreign)
    assert main(["status", "out/checkpoint", "--quick"]) == 0
    assert "Totals of all runs: 200 elements, 200 instants" in capsys.readouterr().out
    assert main(["audit", "c.yaml"]) == 0
    assert capsys.readouterr().out == f"out/out.ndjson: to the end\n  R  {totals.events:,} the same, 0 missing, 0 more\n"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_stop_finishes_the_batch_under_way(folder: Path, by: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGTERM is sent to the driver alone, which is this process, and SIGINT to the group of a driver of its own: JVM and workers, too."""
    words = ["run", "c.yaml", "--engine", "spark", "--set", "spark.batch=4"]
    query = folder / "out/checkpoint/query"
    under_way: list[int] = []

    def last(log: str) -> int:
        return max((int(path.name) for path in (query / log).glob("[0-9]*") if path.name.isdecimal()), default=-1)

    def wait_for_a_batch() -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not (last("offsets") >= 2 and last("offsets") > last("commits")):
            time.sleep(0.02)
        under_way.append(last("offsets"))

    if by is signal.SIGTERM:
        code = run_until(words, wait_for_a_batch, by)
        stderr = capsys.readouterr().err
    else:
        process = subprocess.Popen(
            [sys.executable, "-m", "dotr", *words],
            start_new_session=True, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        wait_for_a_batch()
        os.killpg(process.pid, by)
        _, stderr = process.communicate()
        code = process.returncode
    assert code == 0, stderr
    assert stderr.splitlines()[-1].startswith("Stopped: the output holds all batches so far; the same command goes on"), stderr
    assert "Traceback" not in stderr
    assert (query / "commits" / str(under_way[0])).exists()
    assert last("commits") < 49
    assert main(["status", "out/checkpoint", "--quick", "--format", "json"]) == 0
    quick = json.loads(capsys.readouterr().out)
    assert quick["batch"] == last("commits")
    assert main(["audit", "c.yaml", "--format", "json"]) == 0
    audit = json.loads(capsys.readouterr().out)
    assert (audit["to"], audit["bound"]) == (quick["closed"], "closed in the checkpoint")
    assert (audit["outputs"][0]["beyond"]["written"], audit["outputs"][0]["beyond"]["replayed"] > 0) == (0, True)
    [held] = quick["state"]["held"]
    assert 10 <= held["events"] <= 12
    if by is signal.SIGTERM:
        assert main(["status", "out/checkpoint", "--format", "json"]) == 0
        state = json.loads(capsys.readouterr().out)["state"]
        assert state["source"] == "store"
        assert state["held"] == [{**held, "keys": 5}]


@pytest.mark.fallbacks("totals")
def test_configuration_overrides_spark_submit_and_defaults(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text(CONF)
    conf = {
        "spark.master": "local[1]",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        "spark.sql.streaming.minBatchesToRetain": "4",
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    }
    given = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = with_archive({**os.environ, "PYTHONPATH": str(ROOT), "PATH": path})
    done = subprocess.run(
        [str(Path(sys.executable).parent / "spark-submit"), *given, "conf.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "conf 7 4 RocksDBStateStoreProvider true false" in done.stdout, done.stderr


class TestStatusWithoutSpark:
    def test_missing_checkpoint_is_one_message(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["status", str(tmp_path / "none")]) == 2
        assert "S111 there is no checkpoint at" in capsys.readouterr().err

    @pytest.mark.fallbacks("totals")
    def test_status_of_checkpoint_without_a_batch(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        layout = {"format": 1, "pipeline": "p", "program": "x", "inputs": [["a", 0, "a.nt"]], "layers": 1, "buckets": 2, "partitions": 2}
        (tmp_path / "dotr.json").write_text(json.dumps(layout))
        (tmp_path / "progress.json").write_text("torn")
        assert main(["status", str(tmp_path)]) == 0
        output = capsys.readouterr().out
        assert "No batch is written yet." in output
        assert "Totals: none stored." in output

    def test_missing_worker_python_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from dotr.runtimes.spark.start.session import start

        monkeypatch.setenv("PYSPARK_PYTHON", "./env/bin/python")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(Refused, match="S113"):
            start("tests", "local[1]", {}, tmp_path / "spark.log")
