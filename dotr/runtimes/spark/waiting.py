"""A batch's firings on their way to its end: few of them as a row of Spark's, many as files beside the checkpoint that a row names.

Idea: an external merge sort (Knuth, *The Art of Computer Programming*, vol. 3, section 5.4). A bucket sorts what it has found whenever
that is a run's length, and writes it down; the driver merges the runs as it writes the output, and removes them.
Invariant: what is written is a function of the firings alone, not of how many runs they came in. What is left behind by a task that
failed is removed with the next batch that has runs, or at the next start.
Cost: a worker holds one run, the driver a block of each; every firing is written and read once more, where there are more than `ROW`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import uuid4

from dotr.model.stream import Firing
from dotr.outputs import output_order
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import Kind, Line, firings_of, firings_payload

WAITING: Final = "waiting"
"""The folder, in the checkpoint's."""

ROW: Final = 5_000
"""Firings that go as a row: some megabytes of text."""

RUN: Final = 50_000
"""Firings that a worker holds before it writes them down."""

BLOCK: Final = 10_000
"""Firings that are written at a time, or more where an instant has more."""

_A_LINE: Final = 200
_MERGED: Final = 200
"""Runs that are read at a time."""


class Waiting:
    """What a bucket has found in a batch so far."""

    def __init__(self, job: Job, run: int = RUN) -> None:
        self._folder = folder_of(job)
        self._run = run
        self._held: list[Firing] = []
        self._runs: list[tuple[Path, int]] = []

    def add(self, firings: Sequence[Firing]) -> None:
        """Takes what a step has found."""
        self._held += firings
        if len(self._held) >= self._run:
            self._write()

    def lines(self, key: int) -> list[Line]:
        """The rows for all of it, under a key below 0."""
        if self._held and (self._runs or len(self._held) > ROW):
            self._write()
        out = [Line(key, Kind.RUN, length, str(path).encode("utf-8", "surrogateescape")) for path, length in self._runs]
        if self._held:
            out.append(Line(key, Kind.FIRINGS, len(self._held), firings_payload(self._held)))
        return out

    def _write(self) -> None:
        self._held.sort(key=output_order)
        self._runs.append((write_run(self._folder, self._held), len(self._held)))
        self._held = []


def folder_of(job: Job) -> Path:
    """Where a job's runs wait: beside Spark's own folder in the checkpoint, which all machines see."""
    return Path(job.run).parent / WAITING


def run_of(payload: bytes) -> Path:
    """The file that a row of kind RUN names."""
    return Path(payload.decode("utf-8", "surrogateescape"))


def write_run(folder: Path, firings: Iterable[Firing]) -> Path:
    """Firings in their order as a file of a name that nobody else has."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid4().hex}.json"
    with path.open("xb") as file:
        rest = iter(firings)
        while some := list(islice(rest, _A_LINE)):
            file.write(firings_payload(some) + b"\n")
    return path


def read_run(path: Path) -> Iterator[Firing]:
    """The inverse of `write_run`."""
    with path.open("rb") as file:
        for line in file:
            yield from firings_of(line)


def merged(held: list[Firing], runs: Sequence[Path], most: int = _MERGED) -> Iterator[Firing]:
    """All firings in the order of the output; runs are read so many at a time."""
    held.sort(key=output_order)
    waiting = list(runs)
    while len(waiting) > most:
        some, waiting = waiting[:most], waiting[most:]
        waiting.append(write_run(some[0].parent, merge(*map(read_run, some), key=output_order)))
        for path in some:
            path.unlink()
    return merge(held, *map(read_run, waiting), key=output_order) if waiting else iter(held)


def blocks(firings: Iterable[Firing], size: int = BLOCK) -> Iterator[list[Firing]]:
    """Firings in the order of time as lists of so many, or of some more, since instants are not divided."""
    block: list[Firing] = []
    for firing in firings:
        if len(block) >= size and firing.time != block[-1].time:
            yield block
            block = []
        block.append(firing)
    if block:
        yield block


def clear(folder: Path) -> None:
    """Removes all that waits in a folder, and the folder."""
    shutil.rmtree(folder, ignore_errors=True)
