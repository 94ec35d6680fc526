"""The progress that a run on Spark shows before its first batch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from dotr.runtimes.spark.checkpoint.figures import InputFigures, write_inputs
from dotr.runtimes.spark.figures.progress import FirstBatchProgress

pytestmark = pytest.mark.core


def test_run_waits_for_records_while_no_watermark_moves(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: None))
    checkpoint: Any = SimpleNamespace(folder=tmp_path, planned_batch=None, committed_batch=lambda: None)
    shown: list[str] = []
    first = FirstBatchProgress(session, checkpoint, shown.append)
    for passed in (None, 7, 8, 8, 9):  # None: the planner has not scanned yet, or the inputs are files
        if passed is not None:
            write_inputs(tmp_path, InputFigures([("a", passed, False)]))
        first.report(batch_written=False)
    reading = "reading ahead, to plan the first batch"
    assert shown == [reading, reading, reading, "waiting for records", reading]
