"""The main job over Kafka has the events of the main job over files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from data.city.over_kafka import CONFIG, EVENTS, INPUTS, REJECTED, Replay, create_topics, replay
from dotr.commands import main
from dotr.evaluation.files.stores import Location
from dotr.runtimes.spark.checkpoint.figures import read_totals
from tests.support.interrupted import run_until
from tests.support.kafka_broker import Broker
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.kafka


@contextmanager
def topics(kafka: Broker) -> Iterator[None]:
    """The topics of the city, for as long as the context is open."""
    try:
        yield
    finally:
        for name in (EVENTS, REJECTED, *(f"city-{name}" for name in INPUTS)):
            kafka.delete(name)


def check(kafka: Broker, folder: Path) -> None:
    """Compare the topics with the output of the main job over files."""
    found = Counter(kafka.values(EVENTS))
    sets = [("output.0.path", "events.ndjson"), ("output.1.path", "events.trig"), ("dead_letter", "rejected.ndjson")]
    settings = [word for key, name in sets for word in ("--set", f"{key}={folder}/{name}")]
    assert main(["run", str(ROOT / "configs" / "city.yaml"), "--engine", "local", "--quiet", *settings]) == 0
    assert found == Counter((folder / "events.ndjson").read_text().splitlines())
    assert found.total() > 100
    assert len(kafka.values(REJECTED)) == 4


def test_events_are_those_of_the_files(kafka: Broker, tmp_path: Path) -> None:
    with topics(kafka):
        assert replay(kafka, 0, ["--engine", "local"], quiet=True) == 0
        check(kafka, tmp_path)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_events_on_spark_are_those_of_the_files(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of `replay`, in this process."""
    monkeypatch.setenv("CITY_KAFKA", kafka.servers)
    monkeypatch.setenv("CITY_IDLE", "10 s")
    day = Replay(kafka, 0)

    def is_read() -> bool:
        stored = read_totals(Location(str(tmp_path / "checkpoint")))
        return stored is not None and stored.totals.elements + sum(stored.totals.dead_letters.values()) >= len(day.day)

    def until_all_is_read() -> None:
        day.start()
        deadline = time.monotonic() + PATIENCE
        while not is_read():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    with topics(kafka):
        create_topics(kafka)
        words = ["run", str(CONFIG), "--fresh", "--quiet", "--engine", "spark", "--set", f"spark.checkpoint={tmp_path}/checkpoint"]
        assert run_until(words, until_all_is_read) == 0
        check(kafka, tmp_path)


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
