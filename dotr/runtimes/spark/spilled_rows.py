"""A batch's firings and dead letters on their way to its end: few of them as a row of Spark's, many as files that rows name.

Idea: an external merge sort (`outputs.runs`). A task sorts what it has found whenever that is a run's length, and writes it down beside
the checkpoint; the driver merges the runs as it writes the output, and removes them.
Invariant: what is written is a function of what was found alone, not of how many runs it came in. What is left behind by a task that
failed is removed with the next batch that has runs, or at the next start.
Cost: a task holds one run, the driver a block of each; everything is written and read once more, where there is more than `ROW`.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final, Generic, TypeVar

from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.outputs import output_order
from dotr.outputs.external_sort import RUN_SIZE as RUN_SIZE
from dotr.outputs.external_sort import SortedRuns, SpillFormat
from dotr.outputs.external_sort import blocks as blocks
from dotr.outputs.external_sort import merge_runs as merge_runs
from dotr.outputs.external_sort import read_run as read_run
from dotr.outputs.external_sort import write_run as write_run
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.planner import ORDINARY_BYTES
from dotr.runtimes.spark.rows import RowKind, SparkRow, decode_dead_letters, encode_dead_letters, decode_firings, encode_firings

T = TypeVar("T")

WAITING: Final = "waiting"
"""The folder, in the checkpoint's."""

MAX_ROW_WEIGHT: Final = 5_000
"""So many go as a row: some megabytes of text. A dead letter with a long text counts as several."""


@dataclass(frozen=True)
class SpilledKind(SpillFormat[T]):
    """How things of a kind wait: as a form of runs, and as the kinds of their rows."""

    row: RowKind
    run: RowKind


FIRINGS: Final[SpilledKind[Firing]] = SpilledKind(output_order, encode_firings, decode_firings, 200, RowKind.FIRINGS, RowKind.RUN)
DEAD_LETTERS: Final[SpilledKind[DeadLetter]] = SpilledKind(attrgetter("input", "file", "line"), encode_dead_letters, decode_dead_letters, 10, RowKind.DEAD, RowKind.DEAD_RUN)


class SpillBuffer(Generic[T]):
    """What a task has found of a kind in a batch so far."""

    def __init__(self, form: SpilledKind[T], job: Job, run: int = RUN_SIZE) -> None:
        self._form = form
        self._runs = SortedRuns(form, lambda: run_folder(job), run)

    def add(self, found: Sequence[T], weight: int) -> None:
        """Takes some more, which count as so many."""
        self._runs.add(found, weight)

    def rows(self, key: int) -> list[SparkRow]:
        """The rows for all of it, under a key below 0."""
        runs = self._runs
        if runs.buffered and (runs.runs or runs.buffered_weight > MAX_ROW_WEIGHT):
            runs.spill()
        out = [SparkRow(key, self._form.run, length, str(path).encode("utf-8", "surrogateescape")) for path, length in runs.runs]
        if runs.buffered:
            out.append(SparkRow(key, self._form.row, len(runs.buffered), self._form.write(runs.buffered)))
        return out


class SpilledDeadLetters:
    """The dead letters of a task, counted by their reasons."""

    def __init__(self, job: Job) -> None:
        self._buffer = SpillBuffer(DEAD_LETTERS, job)
        self.counted: Counter[Reason] = Counter()

    def append(self, letter: DeadLetter) -> None:
        """One more."""
        self._buffer.add((letter,), 1 + len(letter.text) // ORDINARY_BYTES)
        self.counted[letter.reason] += 1

    def extend(self, letters: Iterable[DeadLetter]) -> None:
        """Some more."""
        for letter in letters:
            self.append(letter)

    def rows(self, key: int) -> list[SparkRow]:
        """The rows for them, under a key below 0."""
        return self._buffer.rows(key)


def run_folder(job: Job) -> Path:
    """Where a job's runs wait: beside Spark's own folder in the checkpoint, which all machines see."""
    return Path(job.run).parent / WAITING


def run_path(payload: bytes) -> Path:
    """The file that a row of a run names."""
    return Path(payload.decode("utf-8", "surrogateescape"))


def remove_runs(folder: Path) -> None:
    """Removes all that waits in a folder, and the folder."""
    shutil.rmtree(folder, ignore_errors=True)
