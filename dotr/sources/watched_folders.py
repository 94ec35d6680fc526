"""Growing inputs: a folder in which files appear, standard input, and what is received (semantics.md,
section 6).

The files of a folder continue one input, in the order of their names within one listing. A file is
complete when its size and modification time have not changed for a declared duration. With a
duration of 0 a file is complete when first listed, which suits files renamed into place. An
incomplete file delays the files with later names.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dotr.model.time import Micros
from dotr.sources.lines import STANDARD_INPUT
from dotr.sources.records import InputFile

if TYPE_CHECKING:
    from dotr.sources.receivers import MessageSource

SPOOL_BYTES: Final = 10 << 30
"""Bytes of the spool of an input, unless said otherwise."""

_LOOK_SECONDS: Final = 0.01
_SHARE: Final = 10
"""Listing a folder takes at most one part in so many of the time."""


@dataclass(frozen=True, slots=True)
class GrowingInput:
    """A growing input.

    `like` holds the common properties of its files; its path is empty, or that of standard input.
    `pattern` is the glob of a watched folder.
    `settle` is the duration (µs) without change after which a file is complete.
    `idle` is the declared duration (µs) of silence after which the input is idle; None: never.
    `source` is the source of the messages of an input that receives them, whose spool on Spark has
    at most `spool` bytes.
    """

    like: InputFile
    pattern: str = ""
    settle: Micros = 0
    idle: Micros | None = None
    source: MessageSource | None = None
    spool: int = SPOOL_BYTES

    @property
    def standard(self) -> bool:
        return self.like.path == STANDARD_INPUT


class Folder:
    """Listing of the new complete files of a folder; `known` are the files to skip."""

    def __init__(self, pattern: str, settle: Micros, known: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._pattern = pattern
        self._settle = settle / 1_000_000
        self._known = set(known)
        self._clock = clock
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}
        self._next = -1.0

    def new_files(self) -> list[str]:
        """New complete files, in the order of their names."""
        started = self._clock()
        if started < self._next:
            return []
        complete: list[str] = []
        candidates = sorted(path for path in glob.glob(self._pattern, recursive=True) if path not in self._known)
        self._seen = {path: self._seen[path] for path in candidates if path in self._seen}
        for path in candidates:
            if not self._is_complete(path, started):
                break
            complete.append(path)
        for path in candidates[len(complete) :]:  # their time without change starts now
            self._is_complete(path, started)
        self._known.update(complete)
        now = self._clock()
        self._next = now + max(_LOOK_SECONDS, _SHARE * (now - started))
        return complete

    def _is_complete(self, path: str, now: float) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return False
        if not os.path.isfile(path):
            return False
        version = status.st_size, status.st_mtime_ns
        before, since = self._seen.get(path, (None, now))
        if version != before:
            self._seen[path], since = (version, now), now
        return now - since >= self._settle


def stable_files(paths: Iterable[str], settle: Micros) -> None:
    """Wait until no file has changed for `settle` µs. Files unchanged for a minute count as stable."""
    versions: dict[str, tuple[int, int]] = {}
    while True:
        recent = {}
        for path in paths:
            status = os.stat(path)
            if time.time() - status.st_mtime < 60:
                recent[path] = status.st_size, status.st_mtime_ns
        if not settle or recent == versions:
            return
        versions = recent
        time.sleep(settle / 1_000_000)
