"""A batch's firings and dead letters on their way to its end: few of them as a row of Spark's, many as files that rows name.

Idea: an external merge sort (Knuth, *The Art of Computer Programming*, vol. 3, section 5.4). A task sorts what it has found whenever
that is a run's length, and writes it down beside the checkpoint; the driver merges the runs as it writes the output, and removes them.
Invariant: what is written is a function of what was found alone, not of how many runs it came in. What is left behind by a task that
failed is removed with the next batch that has runs, or at the next start.
Cost: a task holds one run, the driver a block of each; everything is written and read once more, where there is more than `ROW`.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.outputs import output_order
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.planning import ORDINARY
from dotr.runtimes.spark.rows import Kind, Line, dead_of, dead_payload, firings_of, firings_payload

T = TypeVar("T")

WAITING: Final = "waiting"
"""The folder, in the checkpoint's."""

ROW: Final = 5_000
"""So many go as a row: some megabytes of text."""

RUN: Final = 50_000
"""So many does a task hold before it writes them down. A dead letter with a long text counts as several."""

BLOCK: Final = 10_000
"""Firings that are written at a time, or more where an instant has more."""

_MERGED: Final = 200
"""Runs that are read at a time."""


@dataclass(frozen=True)
class Form(Generic[T]):
    """How things of a kind wait: the kinds of their rows, the order in which they are written, their text, and how many stand in a line of
    a run."""

    row: Kind
    run: Kind
    order: Callable[[T], Any]
    write: Callable[[Iterable[T]], bytes]
    read: Callable[[bytes], list[T]]
    line: int


FIRINGS: Final[Form[Firing]] = Form(Kind.FIRINGS, Kind.RUN, output_order, firings_payload, firings_of, 200)
LETTERS: Final[Form[DeadLetter]] = Form(Kind.DEAD, Kind.DEAD_RUN, attrgetter("input", "file", "line"), dead_payload, dead_of, 10)


class Waiting(Generic[T]):
    """What a task has found of a kind in a batch so far."""

    def __init__(self, form: Form[T], job: Job, run: int = RUN) -> None:
        self._form = form
        self._folder = folder_of(job)
        self._run = run
        self._held: list[T] = []
        self._weight = 0
        self._runs: list[tuple[Path, int]] = []

    def add(self, found: Sequence[T], weight: int) -> None:
        """Takes some more, which count as so many."""
        self._held += found
        self._weight += weight
        if self._weight >= self._run:
            self._write()

    def lines(self, key: int) -> list[Line]:
        """The rows for all of it, under a key below 0."""
        if self._held and (self._runs or self._weight > ROW):
            self._write()
        out = [Line(key, self._form.run, length, str(path).encode("utf-8", "surrogateescape")) for path, length in self._runs]
        if self._held:
            out.append(Line(key, self._form.row, len(self._held), self._form.write(self._held)))
        return out

    def _write(self) -> None:
        self._held.sort(key=self._form.order)
        self._runs.append((write_run(self._form, self._folder, self._held), len(self._held)))
        self._held, self._weight = [], 0


class Letters:
    """The dead letters of a task, counted by their reasons."""

    def __init__(self, job: Job) -> None:
        self._waiting = Waiting(LETTERS, job)
        self.counted: Counter[Reason] = Counter()

    def append(self, letter: DeadLetter) -> None:
        """One more."""
        self._waiting.add((letter,), 1 + len(letter.text) // ORDINARY)
        self.counted[letter.reason] += 1

    def extend(self, letters: Iterable[DeadLetter]) -> None:
        """Some more."""
        for letter in letters:
            self.append(letter)

    def lines(self, key: int) -> list[Line]:
        """The rows for them, under a key below 0."""
        return self._waiting.lines(key)


def folder_of(job: Job) -> Path:
    """Where a job's runs wait: beside Spark's own folder in the checkpoint, which all machines see."""
    return Path(job.run).parent / WAITING


def run_of(payload: bytes) -> Path:
    """The file that a row of a run names."""
    return Path(payload.decode("utf-8", "surrogateescape"))


def write_run(form: Form[T], folder: Path, found: Iterable[T]) -> Path:
    """What was found, in its order, as a file of a name that nobody else has."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid4().hex}.json"
    rest = iter(found)
    with path.open("xb") as file:
        while some := list(islice(rest, form.line)):
            file.write(form.write(some) + b"\n")
    return path


def read_run(form: Form[T], path: Path) -> Iterator[T]:
    """The inverse of `write_run`."""
    with path.open("rb") as file:
        for line in file:
            yield from form.read(line)


def merged(form: Form[T], held: list[T], runs: Sequence[Path], most: int = _MERGED) -> Iterator[T]:
    """Everything in the order in which it is written; runs are read so many at a time."""
    held.sort(key=form.order)
    waiting = list(runs)
    while len(waiting) > most:
        some, waiting = waiting[:most], waiting[most:]
        waiting.append(write_run(form, some[0].parent, merge(*(read_run(form, path) for path in some), key=form.order)))
        for path in some:
            path.unlink()
    return merge(held, *(read_run(form, path) for path in waiting), key=form.order) if waiting else iter(held)


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
