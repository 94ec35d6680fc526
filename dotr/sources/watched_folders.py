"""Inputs that are not all there when a run starts: a folder in which files appear, standard input (semantics.md, section 6).

The files that appear in a folder continue one input, in the order of their names among those found at one look; a file is taken when it is
complete, which is when its size and its time of change have stood still for a declared while. With a while of 0 it is complete when
it is seen: right where files are renamed into place. A file that is not complete holds back those whose names come after its own.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dotr.model.time import Micros
from dotr.sources.lines import STANDARD_INPUT
from dotr.sources.records import InputFile

_LOOK_SECONDS: Final = 0.01
_SHARE: Final = 10
"""Looking at a folder takes one part in so many of the time, at most."""


@dataclass(frozen=True, slots=True)
class GrowingInput:
    """One further input. `like` is what its files have in common: as its path, nothing, or that of standard input. `pattern` is the glob
    of a watched folder, `settle` how long a file stands still before it is complete, and `idle` the declared while, None for ever."""

    like: InputFile
    pattern: str = ""
    settle: Micros = 0
    idle: Micros | None = None

    @property
    def standard(self) -> bool:
        return self.like.path == STANDARD_INPUT


class Folder:
    """Looks for files that have appeared and are complete; `known` are those that are not to be found again."""

    def __init__(self, pattern: str, settle: Micros, known: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._pattern = pattern
        self._settle = settle / 1_000_000
        self._known = set(known)
        self._clock = clock
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}
        self._next = -1.0

    def look(self) -> list[str]:
        """The files that are complete now and were not before, in the order of their names."""
        started = self._clock()
        if started < self._next:
            return []
        found: list[str] = []
        there = sorted(path for path in glob.glob(self._pattern, recursive=True) if path not in self._known)
        self._seen = {path: self._seen[path] for path in there if path in self._seen}
        for path in there:
            if not self._complete(path, started):
                break
            found.append(path)
        for path in there[len(found) :]:  # how long they have stood still counts from now on
            self._complete(path, started)
        self._known.update(found)
        now = self._clock()
        self._next = now + max(_LOOK_SECONDS, _SHARE * (now - started))
        return found

    def _complete(self, path: str, now: float) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return False
        if not os.path.isfile(path):
            return False
        looks = status.st_size, status.st_mtime_ns
        before, since = self._seen.get(path, (None, now))
        if looks != before:
            self._seen[path], since = (looks, now), now
        return now - since >= self._settle


def stable_files(paths: Iterable[str], settle: Micros) -> None:
    """Waits until none of the files has changed for a while; what has not changed for a minute has not to be waited for."""
    looked: dict[str, tuple[int, int]] = {}
    while True:
        recent = {}
        for path in paths:
            status = os.stat(path)
            if time.time() - status.st_mtime < 60:
                recent[path] = status.st_size, status.st_mtime_ns
        if not settle or recent == looked:
            return
        looked = recent
        time.sleep(settle / 1_000_000)
