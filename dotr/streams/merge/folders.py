"""Growing inputs: a folder in which files appear, standard input, and received messages
(semantics.md, section 6).

The files of a folder are consecutive parts of one input, ordered by name within a listing. A file
is complete when its size and modification time have not changed for a declared duration. With a
duration of 0 a file is complete when first listed, for files that are renamed into the folder. An
incomplete file delays the files with later names. A file that changes after it was found is found
once more, as its change. Objects at a URL have a tag in place of a modification time; one listing
tells all of them.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from stat import S_ISREG
from typing import Final

from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.streams.formats.lines import STANDARD_INPUT, FileVersion
from dotr.streams.merge.file_marks import FileMark, FoundFile, changes, mark_of_object
from dotr.streams.objects import store_failures
from dotr.streams.records import InputFile, MessageSource

SPOOL_BYTES: Final = 10 << 30
"""Default limit of the bytes of an input's spool."""

TAILED: Final = "tail:"
"""Beginning of the pattern of files that go on, in a checkpoint and in a job."""

_LISTING_SECONDS: Final = 0.01
_STORE_SECONDS: Final = 1.0
"""Least time between two listings of a store, which may cost money."""

_SHARE: Final = 10
"""Listing a folder takes at most 1/10 of the time."""


@dataclass(frozen=True, slots=True)
class GrowingInput:
    """A growing input.

    - `like`: the specification that its files share; its path is empty, or that of standard input.
    - `pattern`: the glob of a watched folder; empty for other inputs.
    - `settle`: the duration (µs) without change after which a file is complete.
    - `idle`: the declared duration (µs) without a record after which the input is idle; None:
      never.
    - `source`: the receiver of an input of messages; None for other inputs.
    - `spool`: limit of the bytes of its spool on Spark.
    - `tail`: its files go on; `watching`: until the run is stopped.
    """

    like: InputFile
    pattern: str = ""
    settle: Micros = 0
    idle: Micros | None = None
    source: MessageSource | None = None
    spool: int = SPOOL_BYTES
    tail: bool = False
    watching: bool = True

    @property
    def standard(self) -> bool:
        """True for standard input."""
        return self.like.path == STANDARD_INPUT


class Folder:
    """Listing of the new complete files of a folder, and of the changes of those found before.

    `settle` as in `GrowingInput`; `known` are the files and changes found before. `is_drained`: the
    latest call of `new_files` has listed the folder, and no file is new, complete or not.
    """

    def __init__(self, pattern: str, settle: Micros, known: Iterable[FoundFile], clock: Callable[[], float] = time.monotonic) -> None:
        self._pattern = pattern
        self._is_stored = Location(pattern).is_url
        self._settle = settle / 1_000_000
        self._known: dict[str, FoundFile] = {}
        self._clock = clock
        self._versions: dict[str, tuple[FileVersion, float]] = {}
        self._next = -1.0
        self.is_drained = False
        for file in known:
            self.watch(file)

    def watch(self, file: FoundFile) -> None:
        """Look at each listing whether a file has changed; a file whose change is known is not
        looked at."""
        self._known[file.path] = file

    def changes(self) -> list[FoundFile]:
        """The changes of known files. Raises `InputFailed` where a store fails."""
        return self._changes_among(self._objects()) if self._is_stored else changes(self._known.values())

    def _objects(self) -> dict[str, FileMark]:
        """The objects that match the pattern at a URL, by name."""
        with store_failures(self._pattern):
            return {each.location.text: mark_of_object(each) for each in Location(self._pattern).matching()}

    def _changes_among(self, objects: Mapping[str, FileMark]) -> list[FoundFile]:
        known = (file.changed_to(objects[path]) for path, file in self._known.items() if path in objects)
        return [change for change in known if change is not None]

    def new_files(self) -> list[FoundFile]:
        """The changes of known files, then the new complete files, ordered by name. Raises
        `InputFailed` where a store fails."""
        started = self._clock()
        self.is_drained = False
        if started < self._next:
            return []
        before, self._versions = self._versions, {}
        objects = self._objects() if self._is_stored else {}
        versions: Iterable[tuple[str, FileVersion]] = objects.items() if self._is_stored else _versions_of_files(self._pattern)
        for path, version in versions:
            if path not in self._known:
                known, since = before.get(path, (None, started))
                self._versions[path] = version, since if version == known else started
        complete = takewhile(lambda path: started - self._versions[path][1] >= self._settle, self._versions)
        if self._is_stored:
            found = [*self._changes_among(objects), *(FoundFile(path, objects[path]) for path in complete)]
        else:
            found = [*self.changes(), *map(FoundFile.at, complete)]
        for file in found:
            self.watch(file)
        self.is_drained = not found and not self._versions
        now = self._clock()
        self._next = now + max(_STORE_SECONDS if self._is_stored else _LISTING_SECONDS, _SHARE * (now - started))
        return found


class CompressedFiles:
    """Compressed files beside files that go on, which are left out. Each is told once, by `tell`."""

    def __init__(self, growing: GrowingInput, tell: Callable[[str], object]) -> None:
        self._input, self._pattern = growing.like.input, growing.pattern
        self._tell = tell
        self._told: set[str] = set()

    def look(self) -> None:
        """Tell of the files that have appeared."""
        for path in sorted(glob.glob(self._pattern, recursive=True)):
            if path.endswith(".gz") and os.path.isfile(path):
                self.leaves_out(path)

    def leaves_out(self, path: str) -> bool:
        """True for a compressed file, which is told if it is new."""
        if not path.endswith(".gz"):
            return False
        if path not in self._told:
            self._told.add(path)
            self._tell(f"input {self._input}: {path} is left out: a compressed file does not go on (tail: true)")
        return True


def present(pattern: str) -> Iterator[tuple[str, os.stat_result]]:
    """The entries that match a pattern, in the order of the names; without links that lead
    nowhere."""
    for path in sorted(glob.glob(pattern, recursive=True)):
        with suppress(OSError):
            yield path, os.stat(path)


def _versions_of_files(pattern: str) -> Iterator[tuple[str, FileVersion]]:
    return ((path, (status.st_size, status.st_mtime_ns)) for path, status in present(pattern) if S_ISREG(status.st_mode))


def stable_files(paths: Iterable[str], settle: Micros) -> None:
    """Wait until no file has changed for `settle` µs; one unchanged for a minute is stable, and an
    object at a URL is there as a whole."""
    versions: dict[str, tuple[int, int]] = {}
    paths = [path for path in paths if not Location(path).is_url]
    while True:
        recent = {}
        for path in paths:
            with suppress(OSError):  # it was removed meanwhile
                status = os.stat(path)
                if time.time() - status.st_mtime < 60:
                    recent[path] = status.st_size, status.st_mtime_ns
        if not settle or recent == versions:
            return
        versions = recent
        time.sleep(settle / 1_000_000)
