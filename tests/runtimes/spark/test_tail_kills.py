"""The planner of files that go on, killed with -9 while a writer appends and rotates: each whole row is in the copy once.

`DOTR_KILLS=20` kills it that often.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.planning.live_planner import GrowingInputs
from dotr.streams.formats.reading import Reader
from dotr.streams.formats.segments import SeriesMark, segment_names
from dotr.streams.merge.folders import TAILED
from tests.streams.merge.test_tails import Writer
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.tail_planner import LIKE, SETTLE

KILLS = int(os.environ.get("DOTR_KILLS", "4"))
STEPS = 30
"""Steps of the writer for each kill."""


class KilledPlanner:
    """The copy of a planner in a process of its own, in the place of the input in process that a `Writer` knows."""

    like = LIKE
    now = 0.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "in"
        self.folder.mkdir()
        self._checkpoint = folder / "checkpoint"
        self._checkpoint.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._read: dict[str, int] = {}

    def write(self, name: str, text: str, mode: str = "a") -> None:
        with (self.folder / name).open(mode) as file:
            file.write(text)

    def start(self) -> None:
        """Start the planner, unless it runs."""
        if self._process is not None:
            return
        command = [sys.executable, "-m", "tests.support.tail_planner", str(self.folder.parent)]
        self._process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def kill(self) -> None:
        """Kill the planner, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def runs(self) -> bool:
        return self._process is not None

    def values(self, seconds: float = 0.0) -> list[int]:
        """The times of the rows that were copied since the last call."""
        found = []
        for folder in sorted(self._checkpoint.glob("spool/*/*")):
            mark, names = SeriesMark.of(folder), segment_names(folder)
            for number in range(self._read.get(folder.name, 0), mark.next):
                with Reader(LIKE.__class__(LIKE.input, str(folder / names[number]), LIKE.format, map=LIKE.map)) as reader:
                    found += [-1 if record.time is None else record.time // 1_000_000 for record in reader.records()]
            self._read[folder.name] = mark.next
        return found


class PatientWriter(Writer):
    """A writer that lets what is removed be copied first."""

    planner: KilledPlanner

    def read(self, *, at_once: bool = False) -> None:
        if not at_once and self.planner.runs:
            self.catch_up()

    def catch_up(self) -> None:
        """Wait until all rows are copied."""
        if not self.planner.runs:
            self.planner.start()
        deadline = time.monotonic() + PATIENCE
        while True:
            self.found.update(value for value in self.planner.values() if value >= 0)
            if self.due <= self.found.keys():
                break
            assert time.monotonic() < deadline, sorted(self.due - self.found.keys())[:5]
            time.sleep(0.02)
        self.seen = True

    def rename(self) -> None:
        if (self.folder / "app.3").exists():
            self.catch_up()
        super().rename()

    def replace(self) -> None:
        self.catch_up()
        self.begin("x", "new")
        os.rename(self.folder / "new", self.folder / "app")

    def remove(self) -> None:
        self.catch_up()
        os.remove(self.folder / "app")
        self.begin()

    def overwrite(self) -> None:
        self.catch_up()
        self.begin("w")


def test_each_row_is_copied_once_over_kills(tmp_path: Path) -> None:
    choose, planner = random.Random(11), KilledPlanner(tmp_path)
    writer = PatientWriter(planner, choose)  # type: ignore[arg-type]
    writer.planner = planner
    writer.begin()
    steps = [writer.append, writer.read, writer.rename, writer.copy, writer.replace, writer.remove, writer.overwrite]
    try:
        for _ in range(KILLS):
            planner.start()
            for step in choose.choices(steps, [30, 4, 4, 4, 1, 1, 1], k=STEPS):
                step()
                time.sleep(choose.choice([0, 0, 0.02]))
            planner.kill()
            for step in choose.choices([writer.append, writer.rename, writer.copy], k=2):  # while it is stopped
                step()
        writer.catch_up()
        time.sleep(2 * SETTLE)
        writer.catch_up()
    finally:
        planner.kill()
    assert [number for number, times in writer.found.items() if times > 1] == []
    journal = (tmp_path / "checkpoint" / "partitions.ndjson").read_text().splitlines()
    assert {json.loads(line)[0] for line in journal} == {"partition"}


@pytest.mark.core
def test_planner_reads_segments_behind_lines_that_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "app").write_text('logger "7\nt,v\n1,1\nbroken\n# a "\n3,3\n')
    assert LIKE.map is not None
    like = replace(LIKE, map=replace(LIKE.map, skip=1, comment="#"))
    growing = json.dumps([f"{TAILED}{tmp_path}/app*", 0, 0, False])
    run = str(tmp_path / "checkpoint" / "query")
    inputs = GrowingInputs(Job("{}", (like.to_json(),), (0,), "s", False, 0, 1, 1, 10_000, 1, run, growing=(growing,)), Offset.start(1))
    inputs.add_appeared()
    while inputs.plan.scan():
        pass
    assert [entry[0] for each in inputs.plan.inputs for entry in each.pending] == [1_000_000, 3_000_000]
    inputs.close()
