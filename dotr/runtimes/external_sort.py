"""External merge sort of items beyond memory.

Idea: whenever the buffer has the size of a run, it is sorted and written as a file; finally the
files are merged.
Invariant: the result depends on the items alone, not on the number of runs.
Cost: memory for one run, and for one line of each run while merging; every item is written and read
once more.
Source: Knuth, *The Art of Computer Programming*, vol. 3, section 5.4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from uuid import uuid4

from dotr.model import dataclass
from dotr.model.stream import Firing, output_order
from dotr.model.terms import Triple

if TYPE_CHECKING:
    from dotr.evaluation.files.stores import Location

RunPlace: TypeAlias = "Path | Location"
"""The place of a run: a file of this machine, or an object of a store."""

T = TypeVar("T")

RUN_SIZE: Final = 50_000
"""The number of buffered items at which a run is written."""

BLOCK_SIZE: Final = 10_000
"""The number of firings in a block; an instant is not divided unless it is long."""

_MAX_BLOCKS: Final = 4
"""The number of blocks after which an instant is divided."""

_FAN_IN: Final = 200
"""The number of runs merged at a time."""


@dataclass(frozen=True)
class SpillFormat(Generic[T]):
    """The written form of items: sort key, encoder, decoder, and the number of items per line of
    a run."""

    order: Callable[[T], Any]
    write: Callable[[Iterable[T]], bytes]
    read: Callable[[bytes], list[T]]
    items_per_line: int


class SortedRuns(Generic[T]):
    """The items added so far: `buffered` in memory and `runs` as files, each with its number of
    items.

    `folder` is called at the first run and returns the folder of the files.
    """

    def __init__(self, format: SpillFormat[T], folder: Callable[[], RunPlace], run: int = RUN_SIZE) -> None:
        self.format = format
        self._folder = folder
        self._run = run
        self.buffered: list[T] = []
        self.buffered_weight = 0
        self.runs: list[tuple[RunPlace, int]] = []

    def add(self, items: Sequence[T], weight: int) -> None:
        """Adds items that count `weight` towards the size of a run."""
        self.buffered += items
        self.buffered_weight += weight
        if self.buffered_weight >= self._run:
            self.spill()

    def __bool__(self) -> bool:
        return bool(self.buffered or self.runs)

    def spill(self) -> None:
        """Writes the buffer as a sorted run."""
        self.buffered.sort(key=self.format.order)
        self.runs.append((write_run(self.format, self._folder(), self.buffered), len(self.buffered)))
        self.buffered, self.buffered_weight = [], 0


def write_run(format: SpillFormat[T], folder: RunPlace, items: Iterable[T]) -> RunPlace:
    """Writes sorted items to a new file, or object, with a unique name."""
    place = folder / f"{uuid4().hex}.json"
    if isinstance(place, Path):
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.writelines(_lines(format, items))
    else:
        place.put(_lines(format, items))
    return place


def _lines(format: SpillFormat[T], items: Iterable[T]) -> Iterator[bytes]:
    remaining = iter(items)
    while some := list(islice(remaining, format.items_per_line)):
        yield format.write(some) + b"\n"


def read_run(format: SpillFormat[T], place: RunPlace) -> Iterator[T]:
    """The inverse of `write_run`."""
    with place.open("rb") if isinstance(place, Path) else place.open() as file:
        for line in file:
            yield from format.read(line)


class MergedRuns(Generic[T]):
    """All items in sorted order, which can be read several times, merging at most `fan_in` runs at
    a time. Merged runs are deleted if there are more.
    """

    def __init__(self, format: SpillFormat[T], buffered: list[T], runs: Sequence[RunPlace], fan_in: int = _FAN_IN) -> None:
        self._format = format
        self._buffered = buffered
        self._pending = list(runs)
        self._fan_in = fan_in
        self._is_sorted = False

    def __iter__(self) -> Iterator[T]:
        format, fan_in = self._format, self._fan_in
        if not self._is_sorted:
            self._buffered.sort(key=format.order)
            self._is_sorted = True
        while len(self._pending) > fan_in:
            some, self._pending = self._pending[:fan_in], self._pending[fan_in:]
            merged = merge(*(read_run(format, path) for path in some), key=format.order)
            self._pending.append(write_run(format, some[0].parent, merged))
            for place in some:
                place.unlink() if isinstance(place, Path) else place.remove()
        if not self._pending:
            return iter(self._buffered)
        return merge(self._buffered, *(read_run(format, path) for path in self._pending), key=format.order)


def merge_runs(format: SpillFormat[T], buffered: list[T], runs: Sequence[RunPlace], fan_in: int = _FAN_IN) -> Iterator[T]:
    """All items in sorted order, once (`MergedRuns`)."""
    return iter(MergedRuns(format, buffered, runs, fan_in))


def blocks(firings: Iterable[Firing], size: int = BLOCK_SIZE) -> Iterator[list[Firing]]:
    """Firings in the order of time, as lists of about `size`; an instant is divided only if it
    is long."""
    block: list[Firing] = []
    for firing in firings:
        if len(block) >= size and (firing.time != block[-1].time or len(block) >= _MAX_BLOCKS * size):
            yield block
            block = []
        block.append(firing)
    if block:
        yield block


def encode_firings(firings: Iterable[Firing]) -> bytes:
    """The inverse of `decode_firings`."""
    return json.dumps(list(firings), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_firings(payload: bytes) -> list[Firing]:
    """The firings of an encoded list.

    >>> fired = Firing(5, "R", "E", (("a", '"1"'),), (("<s>", "<p>", "<o>"),), 0)
    >>> decode_firings(encode_firings([fired])) == [fired]
    True
    """
    return [
        Firing(time, rule, event, tuple((n, v) for n, v in attributes), _graph(graph), dropped)
        for time, rule, event, attributes, graph, dropped in json.loads(payload)
    ]


def _graph(triples: list[Triple] | None) -> tuple[Triple, ...] | None:
    return None if triples is None else tuple((s, p, o) for s, p, o in triples)


FIRING_FORMAT: Final[SpillFormat[Firing]] = SpillFormat(output_order, encode_firings, decode_firings, 200)
