"""The main job over Kafka has the events of the main job over files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from data.city.over_kafka import EVENTS, INPUTS, REJECTED, replay
from dotr.commands import main
from tests.support.kafka_broker import Broker
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_events_are_those_of_the_files(engine: str, kafka: Broker, tmp_path: Path) -> None:
    options = ["--engine", engine, "--set", f"spark.checkpoint={tmp_path}/checkpoint"]
    try:
        assert replay(kafka, 0, options, quiet=True) == 0
        found = Counter(kafka.values(EVENTS))
        rejected = len(kafka.values(REJECTED))
    finally:
        for name in (EVENTS, REJECTED, *(f"city-{name}" for name in INPUTS)):
            kafka.delete(name)
    sets = [("output.0.path", "events.ndjson"), ("output.1.path", "events.trig"), ("dead_letter", "rejected.ndjson")]
    settings = [word for key, name in sets for word in ("--set", f"{key}={tmp_path}/{name}")]
    assert main(["run", str(ROOT / "configs" / "city.yaml"), "--engine", "local", "--quiet", *settings]) == 0
    assert found == Counter((tmp_path / "events.ndjson").read_text().splitlines())
    assert found.total() > 100
    assert rejected == 4


def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "data.city.over_kafka", "--engine", "local", "--speed", "1440"]
    environment = {**os.environ, "HOME": os.environ.get("HOME", str(tmp_path))}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert "2024-05-14T" in process.stdout.readline()  # the first event
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert "reports sent" in stderr
