"""Numbers of batches in a checkpoint, over all generations of its query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout
from dotr.streams.sinks.batches import BatchHistory

pytestmark = pytest.mark.core


def checkpoint(folder: Path, layout: CheckpointLayout, commits: int, offsets: int) -> Checkpoint:
    found = Checkpoint(str(folder))
    found.create()
    found._write(layout)
    for log, number in (("commits", commits), ("offsets", offsets)):
        (Path(found.query) / log).mkdir(parents=True)
        for batch in range(number):
            (Path(found.query) / log / str(batch)).touch()
    return Checkpoint(str(folder))


LAYOUT = CheckpointLayout("p", "f", (), 0, 2, 2, identity="a1")


def test_a_new_checkpoint_has_no_batch(tmp_path: Path) -> None:
    assert Checkpoint(str(tmp_path)).batch_history("a1") == BatchHistory("a1")


def test_batches_are_counted_from_the_first_generation_on(tmp_path: Path) -> None:
    first = checkpoint(tmp_path / "first", LAYOUT, commits=2, offsets=3)
    assert first.batch_history("a1") == BatchHistory("a1", written=2, planned=3)
    later = checkpoint(tmp_path / "later", replace(LAYOUT, generation=2, first=5), commits=2, offsets=2)
    assert later.batch_history("a1", 4) == BatchHistory("a1", written=7, planned=7, last_written=4)


def test_identity_of_a_checkpoint_is_written_if_it_has_one(tmp_path: Path) -> None:
    assert CheckpointLayout.of_json(LAYOUT.to_json()).identity == "a1"
    assert "identity" not in CheckpointLayout("p", "f", (), 0, 2, 2).to_json()
