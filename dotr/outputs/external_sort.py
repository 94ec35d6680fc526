"""More than memory should hold, put in order: an external merge sort (Knuth, *The Art of Computer Programming*, vol. 3, section 5.4).

Whenever there is a run's length of what was found it is sorted and written down as a file; in the end the files are merged. What
comes out is a function of what went in alone, not of how many runs it was written in.
Cost: memory for one run, and for a line of each when they are merged; everything is written and read once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

from dotr.model.stream import Firing
from dotr.outputs.writing import output_order

T = TypeVar("T")

RUN_SIZE: Final = 50_000
"""So many are held before they are written down."""

BLOCK_SIZE: Final = 10_000
"""Firings that are written at a time, or some more where an instant has more."""

_MAX_BLOCKS: Final = 4
"""So many blocks may one be long that does not divide an instant."""

_FAN_IN: Final = 200
"""Runs that are read at a time."""


@dataclass(frozen=True)
class SpillFormat(Generic[T]):
    """How things of a kind are written down: the order in which they come out, their text, and how many stand in a line of a run."""

    order: Callable[[T], Any]
    write: Callable[[Iterable[T]], bytes]
    read: Callable[[bytes], list[T]]
    items_per_line: int


class SortedRuns(Generic[T]):
    """What has been found of a kind so far: `held` in memory, and `written` as runs, each with how many there are in it. `folder` is called
    for the folder that the runs stand in when there is one."""

    def __init__(self, format: SpillFormat[T], folder: Callable[[], Path], run: int = RUN_SIZE) -> None:
        self.form = format
        self._folder = folder
        self._run = run
        self.buffered: list[T] = []
        self.buffered_weight = 0
        self.runs: list[tuple[Path, int]] = []

    def add(self, items: Sequence[T], weight: int) -> None:
        """Takes some more, which count as so many."""
        self.buffered += items
        self.buffered_weight += weight
        if self.buffered_weight >= self._run:
            self.spill()

    def __bool__(self) -> bool:
        return bool(self.buffered or self.runs)

    def spill(self) -> None:
        """Writes down what is held."""
        self.buffered.sort(key=self.form.order)
        self.runs.append((write_run(self.form, self._folder(), self.buffered), len(self.buffered)))
        self.buffered, self.buffered_weight = [], 0


def write_run(form: SpillFormat[T], folder: Path, items: Iterable[T]) -> Path:
    """What was found, in its order, as a file of a name that nobody else has."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid4().hex}.json"
    remaining = iter(items)
    with path.open("xb") as file:
        while some := list(islice(remaining, form.items_per_line)):
            file.write(form.write(some) + b"\n")
    return path


def read_run(form: SpillFormat[T], path: Path) -> Iterator[T]:
    """The inverse of `write_run`."""
    with path.open("rb") as file:
        for line in file:
            yield from form.read(line)


def merge_runs(form: SpillFormat[T], buffered: list[T], runs: Sequence[Path], fan_in: int = _FAN_IN) -> Iterator[T]:
    """Everything in the order in which it is written; runs are read so many at a time."""
    buffered.sort(key=form.order)
    pending = list(runs)
    while len(pending) > fan_in:
        some, pending = pending[:fan_in], pending[fan_in:]
        pending.append(write_run(form, some[0].parent, merge(*(read_run(form, path) for path in some), key=form.order)))
        for path in some:
            path.unlink()
    return merge(buffered, *(read_run(form, path) for path in pending), key=form.order) if pending else iter(buffered)


def blocks(firings: Iterable[Firing], size: int = BLOCK_SIZE) -> Iterator[list[Firing]]:
    """Firings in the order of time as lists of so many, or of some more, since instants are not divided where they are not long."""
    block: list[Firing] = []
    for firing in firings:
        if len(block) >= size and (firing.time != block[-1].time or len(block) >= _MAX_BLOCKS * size):
            yield block
            block = []
        block.append(firing)
    if block:
        yield block


def encode_firings(firings: Iterable[Firing]) -> bytes:
    """The inverse of `firings_of`."""
    return json.dumps(list(firings), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_firings(payload: bytes) -> list[Firing]:
    """
    >>> fired = Firing(5, "R", "E", (("a", '"1"'),), (("<s>", "<p>", "<o>"),), 0)
    >>> firings_of(firings_payload([fired])) == [fired]
    True
    """
    return [
        Firing(time, rule, event, tuple((n, v) for n, v in attributes), tuple((s, p, o) for s, p, o in graph), dropped)
        for time, rule, event, attributes, graph, dropped in json.loads(payload)
    ]


FIRING_FORMAT: Final[SpillFormat[Firing]] = SpillFormat(output_order, encode_firings, decode_firings, 200)
