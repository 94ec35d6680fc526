"""Stops on Spark, tested without Spark: wait for the batch under way, up to a timeout."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from dotr.evaluation.files.stores import Location
from dotr.model.stream import DeadLetter, Firing
from dotr.model.time import Clock
from dotr.runtimes.spark.exchange.rows import RowKind, encode_firings
from dotr.runtimes.spark.query import _finish_batch, _Interrupts
from dotr.runtimes.spark.sink import BatchAbandoned, Sink


class Query:
    isActive = True


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The second of two batches is under way."""
    for name in ("offsets/0", "offsets/1", "commits/0"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def finished(checkpoint: Path, patience: float, times: int = 1) -> bool:
    interrupted = _Interrupts()
    interrupted.count = times
    return _finish_batch(cast(StreamingQuery, Query()), Location(str(checkpoint)), interrupted, patience)


def test_stop_waits_for_the_batch_under_way(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: (checkpoint / "commits/1").write_text(""))
    assert finished(checkpoint, 60)


def test_stop_ends_after_the_timeout(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not finished(checkpoint, 0.1)
    assert caplog.messages[-1] == "The batch under way takes long: it is left, and done again at the next start."
    assert not finished(checkpoint, 60, times=2)


def test_abandoned_batch_is_not_written_to_its_end() -> None:
    wrote: list[int] = []

    def write(number: int, firings: Iterable[Sequence[Firing]], letters: Iterable[DeadLetter]) -> None:
        wrote.extend(len(block) for block in firings)

    sink = Sink(write, lambda totals: None, lambda letter: letter, Clock())
    rows = [(int(RowKind.FIRINGS), encode_firings([Firing(time, "R", "E", (), (), 0) for time in range(3)]))]
    sink.process(0, rows)
    assert wrote == [3]
    sink.abandoned = True
    with pytest.raises(BatchAbandoned):
        sink.process(1, rows)


def test_batch_that_no_server_takes_is_left_soon_after_a_stop(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink(lambda number, firings, letters: None, lambda totals: None, lambda letter: letter, Clock())
    sink.check_destination()
    sink.stopped_at = time.monotonic()
    sink.check_destination()
    sink.stopped_at -= 1
    sink.check_abandoned()  # what computes goes on
    with pytest.raises(BatchAbandoned):
        sink.check_destination()
    assert caplog.messages == ["An output does not take the batch under way: it is left, and done again at the next start."]
    assert sink.abandoned
