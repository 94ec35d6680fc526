"""Hostile elements among good ones never stop a run, in process and on Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dotr.model.stream import Reason
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests import hostile
from tests.support import faults
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.fallbacks("instant", "query")


def test_hostile_elements_do_not_stop_a_local_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = hostile.write(tmp_path)
    for where, name, value in faults.PATCHES:
        monkeypatch.setattr(where, name, value)
    totals = run_local(build(read_config("local.yaml"), fresh=False, on_spark=False), lambda totals: None)
    hostile.check(tmp_path, "local", expected)
    assert totals.dead_letters[Reason.EMPTY] == 2
    assert sum(totals.dead_letters.values()) == len(expected.letters) + 2


def test_elements_far_ahead_do_not_stop_a_local_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile.write_far(tmp_path)
    run_local(build(read_config("far-local.yaml"), fresh=False, on_spark=False), lambda totals: None)
    told = [(each["time"][:4].removesuffix("-"), each["rule"]) for each in map(json.loads, hostile.check_far(tmp_path, "local"))]
    assert Counter(told) == {
        **{("0001", rule): number for rule, number in (("Counted", 4), ("Late", 2), ("Left", 2), ("Seen", 2), ("Shown", 4), ("Still", 5))},
        **{("0001", rule): 1 for rule in ("Pairs", "Then", "Tick")},
        **{("2026", rule): 1 for rule in ("Counted", "Late", "Left", "Seen", "Still", "Tick")},
        **{("2026", rule): 2 for rule in ("Gone", "Shown")},
        **{("9999", rule): 1 for rule in ("Counted", "Gone", "Seen", "Still")},
        **{("1000", rule): number for rule, number in (("Counted", 1), ("Late", 1), ("Left", 1), ("Shown", 2))},
    }


@pytest.mark.spark
def test_elements_far_ahead_do_not_stop_a_spark_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    hostile.write_far(tmp_path)
    run_local(build(read_config("far-local.yaml"), fresh=False, on_spark=False), lambda totals: None)
    run_spark(build(read_config("far-spark.yaml"), fresh=False, on_spark=True), lambda totals: None)
    assert hostile.check_far(tmp_path, "spark") == hostile.check_far(tmp_path, "local")


@pytest.mark.spark
@pytest.mark.usefixtures("spark", "no_spark")  # a JVM of its own, since the environment of its workers stays as it was at the start
def test_hostile_elements_do_not_stop_a_spark_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # where the workers find the module of faults
    monkeypatch.chdir(tmp_path)
    expected = hostile.write(tmp_path)
    totals = run_spark(build(read_config("spark.yaml"), fresh=False, on_spark=True), lambda totals: None)
    hostile.check(tmp_path, "spark", expected)
    assert totals.dead_letters[Reason.EMPTY] == 2
    assert sum(totals.dead_letters.values()) == len(expected.letters) + 2
