"""Stored checkpoints of units of all four languages, in one bucket and in three, continue with the output of an undisturbed run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.engine.state.migration import StateFate
from dotr.runtimes.local.run import run_local
from dotr.runtimes.spark.checkpoint.folder import Checkpoint
from tests.support.stored_spark_folders import UNITS_FOLDER, project, unpack
from tests.support.stored_units import LABELS, UNITS

pytestmark = pytest.mark.spark

SECOND = 1_000_000


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("packed", sorted(UNITS.glob("spark-*.tar.xz")), ids=lambda path: str(path.name))
def test_stored_units_continue(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    buckets = int(packed.name.removesuffix(".tar.xz").rpartition("-")[2])
    unpack(packed, tmp_path)
    run_local(project("all", on_spark=False, stored=UNITS_FOLDER), lambda totals: None)
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    position = checkpoint.offset()
    assert position is not None
    prepared = project("rest", on_spark=True, batch=1000, stored=UNITS_FOLDER, buckets=buckets)
    found = checkpoint.state_change(prepared.program)
    assert {verdict.fate for verdict in found.verdicts} == {StateFate.KEPT}
    assert not found.moves
    run_spark(prepared, lambda totals: None)
    written = [line for path in sorted((tmp_path / "rest").iterdir()) for line in path.read_text().splitlines()]
    everything = (tmp_path / "all").read_text().splitlines()
    assert written == [line for line in everything if json.loads(line)["time"] * SECOND > position.time]
    assert {json.loads(line)["event"] for line in written} == LABELS
    layout = Checkpoint(str(tmp_path / "checkpoint")).layout
    assert layout is not None
    assert (layout.generation, layout.buckets) == (0, buckets)


def test_stored_units_have_one_bucket_and_three() -> None:
    assert {path.name.removesuffix(".tar.xz").rpartition("-")[2] for path in UNITS.glob("spark-*.tar.xz")} == {"1", "3"}
