"""Four languages that read each other, over hours of the synthetic city: a run on Spark that is killed and then continues from
its checkpoint has the output of one run in process.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dotr.model.stream import Reason
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from tests.support.outputs import joined
from tests.support.paths import ROOT

pytestmark = pytest.mark.spark

FROM, UNTIL = "2024-05-14T06:00", "2024-05-14T08:30"
CONFIG = "configs/mixed.yaml"
INPUTS = ("traffic", "weather", "parking")
MADE = {
    "city.dotr": {"SlowDown", "Warning", "Spread"},
    "city.rspql": {"HourOfTraffic"},
    "city.lars": {"Jam", "JamOver"},
    "city.epsparql": {"Recovery", "Fall", "FallInWind"},
    "mixed.dotr": {"Relief"},
    "mixed.rspql": {"HourOfFalls"},
    "mixed.epsparql": {"FallBeforeJam"},
}
"""Events of these hours, by the file that makes them; those of mixed.* are of events of other languages."""


def write_hours(folder: Path) -> None:
    """The city's inputs of some hours, and one report that cannot be read."""
    for name in INPUTS:
        header, *rows = gzip.decompress((ROOT / f"data/city/{name}.csv.gz").read_bytes()).decode().splitlines()
        chosen = [row for row in rows if FROM <= row[: len(UNTIL)] < UNTIL]
        if name == "parking":
            chosen.insert(len(chosen) // 2, "at noon,none,0,0")
        (folder / f"{name}.csv").write_text("\n".join([header, *chosen]) + "\n")


def settings(folder: Path, out: str) -> list[str]:
    """The settings of a run, beside those of configs/mixed.yaml."""
    return [
        *(f"input.{number}.path={folder / name}.csv" for number, name in enumerate(INPUTS)),
        f"output.0.path={folder / out / 'events.ndjson'}",
        f"dead_letter={folder / out / 'rejected.ndjson'}",
        f"spark.checkpoint={folder / out / 'checkpoint'}",
        "spark.master=local[2]",
        "spark.batch=220",
    ]


def pipeline(folder: Path, out: str, *, on_spark: bool) -> Pipeline:
    return build(read_config(CONFIG, settings(folder, out)), fresh=False, on_spark=on_spark)


def kill_amid(folder: Path, out: str, batches: int) -> int:
    """Start the command on Spark, and kill all its processes once it has written `batches` batches; returns the number of written ones."""
    command = [sys.executable, "-m", "dotr", "run", CONFIG, "--engine", "spark", "--quiet"]
    options = [word for each in settings(folder, out) for word in ("--set", each)]
    process = subprocess.Popen([*command, *options], start_new_session=True, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    commits = folder / out / "checkpoint" / "query" / "commits"
    done = 0
    try:
        while process.poll() is None and done < batches:
            time.sleep(0.02)
            done = sum(1 for each in commits.glob("*") if each.name.isdecimal())
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    return done


@pytest.mark.usefixtures("spark")
def test_four_languages_on_spark_after_a_kill_equal_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(ROOT)
    write_hours(tmp_path)
    here = run_local(pipeline(tmp_path, "local", on_spark=False), lambda totals: None)
    killed_after = kill_amid(tmp_path, "spark", batches=2)
    there = run_spark(pipeline(tmp_path, "spark", on_spark=True), lambda totals: None)
    for output in ("events.ndjson", "rejected.ndjson"):
        assert joined(sorted((tmp_path / "spark" / output).iterdir())) == (tmp_path / "local" / output).read_text()
    events = (tmp_path / "local" / "events.ndjson").read_text()
    assert {json.loads(line)["event"] for line in events.splitlines()} >= set().union(*MADE.values())
    assert here.dead_letters[Reason.UNREADABLE] == 1
    assert killed_after >= 2
    assert 0 < there.elements < here.elements, "the first run has done a part"
    assert "has changed" not in caplog.text
