"""Firings and dead letters of a batch between tasks and sink: rows while few, files named by rows
when many.

Idea: an external merge sort (`runtimes.external_sort`). A task sorts a run's length at a time and
writes it into the checkpoint; the driver merges the runs while writing the output, and removes
them.
Invariant: the output depends on the firings alone, not on their division into runs. Files of a
failed task are removed with the next batch that has runs, or at the next start.
Cost: a task holds one run, the driver one block of each run; above `MAX_ROW_WEIGHT` everything is
written and read once more.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final, Generic, TypeVar

from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.stream import DeadLetter, Firing, Reason, output_order
from dotr.runtimes.external_sort import RUN_SIZE as RUN_SIZE
from dotr.runtimes.external_sort import MergedRuns as MergedRuns
from dotr.runtimes.external_sort import RunPlace as RunPlace
from dotr.runtimes.external_sort import SortedRuns, SpillFormat
from dotr.runtimes.external_sort import blocks as blocks
from dotr.runtimes.external_sort import merge_runs as merge_runs
from dotr.runtimes.external_sort import read_run as read_run
from dotr.runtimes.external_sort import write_run as write_run
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import ORDINARY_BYTES
from dotr.runtimes.spark.exchange.rows import RowKind, SparkRow, decode_dead_letters, decode_firings, encode_dead_letters, encode_firings

T = TypeVar("T")

WAITING: Final = "waiting"
"""Folder of the runs, inside the checkpoint."""

MAX_ROW_WEIGHT: Final = 5_000
"""Most items of one row, some megabytes of text. A dead letter with a long text counts several
times."""


@dataclass(frozen=True)
class SpilledKind(SpillFormat[T]):
    """The form of a kind of items in runs, and the kinds of its rows."""

    row: RowKind
    run: RowKind


FIRINGS: Final[SpilledKind[Firing]] = SpilledKind(output_order, encode_firings, decode_firings, 200, RowKind.FIRINGS, RowKind.RUN)
ELEMENTS: Final[SpilledKind[Firing]] = SpilledKind(output_order, encode_firings, decode_firings, 200, RowKind.ELEMENTS, RowKind.ELEMENT_RUN)
DEAD_LETTERS: Final[SpilledKind[DeadLetter]] = SpilledKind(
    attrgetter("input", "file", "line"), encode_dead_letters, decode_dead_letters, 10, RowKind.DEAD, RowKind.DEAD_RUN
)


class SpillBuffer(Generic[T]):
    """The items of one kind that a task has found in a batch.

    A job without a folder has no file of its own: its items are rows, however many they are.
    """

    def __init__(self, form: SpilledKind[T], job: Job, run: int = RUN_SIZE) -> None:
        self._form = form
        self._rows: list[SparkRow] = []
        self._has_folder = bool(job.run)
        self._runs = SortedRuns(form, lambda: run_folder(job), run if job.run else sys.maxsize)

    def add(self, items: Sequence[T], weight: int) -> None:
        """Add items of a total weight."""
        self._runs.add(items, weight)
        if not self._has_folder and self._runs.buffered_weight > MAX_ROW_WEIGHT:
            self._rows.append(self._row(-1))
            self._runs.buffered, self._runs.buffered_weight = [], 0

    def _row(self, key: int) -> SparkRow:
        items = self._runs.buffered
        return SparkRow(key, self._form.row, len(items), self._form.write(items))

    def rows(self, key: int) -> list[SparkRow]:
        """All items as rows under a key below 0."""
        runs = self._runs
        if self._has_folder and runs.buffered and (runs.runs or runs.buffered_weight > MAX_ROW_WEIGHT):
            runs.spill()
        out = [SparkRow(key, self._form.run, length, str(path).encode("utf-8", "surrogateescape")) for path, length in runs.runs]
        out += [row._replace(key=key) for row in self._rows]
        return [*out, self._row(key)] if runs.buffered else out


class SpilledDeadLetters:
    """The dead letters of a task, counted by reason."""

    def __init__(self, job: Job) -> None:
        self._buffer = SpillBuffer(DEAD_LETTERS, job)
        self.counted: Counter[Reason] = Counter()

    def append(self, dead_letter: DeadLetter) -> None:
        """Add a dead letter."""
        self._buffer.add((dead_letter,), 1 + len(dead_letter.text) // ORDINARY_BYTES)
        self.counted[dead_letter.reason] += 1

    def extend(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Add dead letters."""
        for letter in dead_letters:
            self.append(letter)

    def rows(self, key: int) -> list[SparkRow]:
        """All dead letters as rows under a key below 0."""
        return self._buffer.rows(key)


def run_folder(job: Job) -> RunPlace:
    """The folder of a job's runs, in the checkpoint, which all machines can read."""
    return job.home / WAITING if job.home.is_url else job.home.path / WAITING


def run_place(payload: bytes) -> RunPlace:
    """The file or object in the payload of a row."""
    place = Location(payload.decode("utf-8", "surrogateescape"))
    return place if place.is_url else place.path


def remove_runs(folder: RunPlace) -> None:
    """Remove the folder with all its runs; what cannot be removed now is with the next batch that
    has runs, or at the next start."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with suppress(OSError):
            folder.remove_below()
