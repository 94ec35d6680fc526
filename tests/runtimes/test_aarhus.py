"""Main job on real input: two months of Aarhus give the same output in process and on Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from dotr.model.stream import Reason
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from tests.support.paths import ROOT

DATA: Final = Path(os.environ.get("DOTR_DATA") or ROOT.parent / "shared" / "data")

pytestmark = pytest.mark.skipif(
    not (DATA / "citybench" / "streams").is_dir(),
    reason="needs CityBench's data (github.com/CityBench/Benchmark) in the folder that DOTR_DATA names",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the background and the output of the run in process."""
    folder = tmp_path_factory.mktemp("aarhus")
    command = [sys.executable, str(ROOT / "kb/aarhus.py"), "--data", str(DATA), "--output", str(folder / "background.ttl")]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def pipeline(folder: Path, engine: str) -> Pipeline:
    options = {
        "knowledge.graphs.0": folder / "background.ttl",
        "output.0.path": folder / engine / "events.ndjson",
        "dead_letter": folder / engine / "rejected.ndjson",
        "spark.checkpoint": folder / engine / "checkpoint",
        "spark.master": "local[2]",
    }
    config = read_config(str(ROOT / "configs/aarhus.yaml"), [f"{key}={value}" for key, value in options.items()])
    return build(config, fresh=False, on_spark=engine == "spark")


@pytest.fixture(scope="module")
def here(folder: Path) -> Totals:
    return run_local(pipeline(folder, "local"), lambda totals: None)


def text(path: Path) -> list[str]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [line for file in files for line in file.read_text().splitlines()]


def test_background_has_sections_and_surroundings(folder: Path) -> None:
    background = (folder / "background.ttl").read_text()
    assert background.count("city:watches") == 59
    assert sum("city:near" in block for block in background.split("section:")) == 11


def test_every_report_is_an_element_or_a_dead_letter(folder: Path, here: Totals) -> None:
    letters = [json.loads(line) for line in text(folder / "local" / "rejected.ndjson")]
    assert Counter((letter["input"], letter["reason"]) for letter in letters) == {("traffic", "late"): 111}
    traffic, weather, parking = 936_310, 4_357, 8 * 6_908
    assert here.elements == traffic + weather + parking - 111
    assert here.dead_letters == {Reason.LATE: 111}


def test_every_rule_has_events(folder: Path, here: Totals) -> None:
    found = Counter(json.loads(line)["event"] for line in text(folder / "local" / "events.ndjson"))
    assert found.keys() == {"SlowDown", "Warning", "Spread", "WindHazard", "Queue"}
    assert found.total() == here.events


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_gives_the_same_output(folder: Path, here: Totals) -> None:
    from dotr.runtimes.spark.run import run_spark

    assert run_spark(pipeline(folder, "spark"), lambda totals: None) == here
    assert text(folder / "spark" / "events.ndjson") == text(folder / "local" / "events.ndjson")
    assert sorted(text(folder / "spark" / "rejected.ndjson")) == sorted(text(folder / "local" / "rejected.ndjson"))
