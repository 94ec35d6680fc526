"""The files that have appeared in watched folders, in the order in which they were taken: written down before an offset names them.

An offset knows a file by its number; the journal says which one that is, so that a batch can be planned again after a crash. It is a file
beside the query's folder, one JSON line for each file. Lines of files that are read to their end and are gone are left out when it is
opened, so that it is as long as the folders are full.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Refused, refuse
from dotr.sources.records import InputFile
from dotr.sources.watched_folders import Folder, GrowingInput

NAME: Final = "watched.ndjson"
SPOOL: Final = "spool"
SPOOL_END: Final = "end"
SEGMENT: Final = re.compile(r"([0-9]{12})-([0-9]{12})(?:-([0-9]{12}))?(\..*)?")
"""Its number, the first of its lines, and the line that follows its last (which older releases do not say)."""


class Journal:
    """The numbers and paths of the files of each growing input, by the input's name; `done` says how many of them are read to the end."""

    def __init__(self, folder: Path, done: Mapping[str, int]) -> None:
        self._path = folder / NAME
        if self._path.exists() and not self._path.read_bytes().endswith(b"\n"):
            with self._path.open("ab") as file:
                file.write(b"\n")
        self.paths: dict[str, dict[int, str]] = {}
        self.next: dict[str, int] = {}
        lines = self._path.read_text(errors="replace").splitlines() if self._path.exists() else []
        for line_number, line in enumerate(lines, 1):
            if line.endswith("]"):  # else it was cut off by a crash, before any offset named it
                try:
                    name, number, path = json.loads(line)
                    self.next[name] = number + 1
                except (ValueError, TypeError):
                    raise self._damaged(f"its line {line_number} is no entry") from None
                self.paths.setdefault(name, {})[number] = path
        for name, paths in self.paths.items():
            for number in [n for n in paths if n < done.get(name, 0) and n + 1 < self.next[name] and not os.path.exists(paths[n])]:
                del paths[number]
        if 2 * sum(map(len, self.paths.values())) < len(lines):
            self._write([[name, number, path] for name, paths in self.paths.items() for number, path in paths.items()], anew=True)

    def known(self, name: str, number: int) -> str:
        """The path of a file that an offset names."""
        try:
            return self.paths[name][number]
        except KeyError:
            raise self._damaged(f"it does not know file {number} of the input {name}, which a batch needs") from None

    def _damaged(self, why: str) -> Refused:
        hint = "Put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."
        return refuse("S114", f"the checkpoint is damaged: {self._path}: {why}", hint=hint)

    def add(self, name: str, paths: Sequence[str]) -> None:
        """Number files and write them down."""
        first = self.next.get(name, 0)
        self._write([[name, number, path] for number, path in enumerate(paths, first)])
        self.paths.setdefault(name, {}).update(enumerate(paths, first))
        self.next[name] = first + len(paths)

    def _write(self, entries: Sequence[Sequence[object]], *, anew: bool = False) -> None:
        path = self._path.with_suffix(".new") if anew else self._path
        with path.open("w" if anew else "a") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
            file.flush()
            os.fsync(file.fileno())
        if anew:
            path.replace(self._path)


class Journaled:
    """The files that appear in a watched folder, numbered by the journal. Without `watching`, those that are there now are the last."""

    def __init__(
        self, growing: GrowingInput, journal: Journal, known: Sequence[str], *, watching: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._growing = growing
        self._journal = journal
        self._name = growing.like.input
        paths = journal.paths.get(self._name, {})
        self._folder = Folder(growing.pattern, growing.settle if watching else 0, [*known, *paths.values()], clock)
        self._watching = watching
        self.closed = False

    def file(self, number: int) -> InputFile | None:
        """A file; looks for new ones where the number is the next."""
        name = self._name
        if number >= self._journal.next.get(name, 0) and not self.closed:
            found = self._folder.look()
            if found:
                self._journal.add(name, found)
            self.closed = not self._watching
        path = self._journal.paths.get(name, {}).get(number)
        return None if path is None else replace(self._growing.like, path=path)

    def paths(self, first: int, last: int) -> tuple[str, ...]:
        """The files with these numbers."""
        return tuple(self._journal.known(self._name, number) for number in range(first, last + 1))


class Spooled:
    """Standard input as it was copied into the checkpoint: numbered segments, and a mark where it has ended."""

    def __init__(self, like: InputFile, folder: Path) -> None:
        self._like = like
        self._folder = folder
        self._names: dict[int, str] = {}
        self._ended = False

    @property
    def closed(self) -> bool:
        """Whether standard input has ended: asked before the segments are looked for, since the mark comes last."""
        return self._ended

    def file(self, number: int) -> InputFile | None:
        """A segment, where it is there."""
        if number not in self._names:
            self._ended = (self._folder / SPOOL_END).exists()
            with os.scandir(self._folder) as entries:
                found = [entry.name for entry in entries if SEGMENT.fullmatch(entry.name)]
            self._names = {int(name[:12]): name for name in found}
        name = self._names.get(number)
        return None if name is None else replace(self._like, path=str(self._folder / name))

    def paths(self, first: int, last: int) -> tuple[str, ...]:
        """The segments with these numbers."""
        found = [self.file(number) for number in range(first, last + 1)]
        assert None not in found
        return tuple(file.path for file in found if file is not None)

    def forget(self, before: int) -> None:
        """Remove the segments that nobody needs any more."""
        for number in [number for number in self._names if number < before]:
            (self._folder / self._names.pop(number)).unlink(missing_ok=True)
