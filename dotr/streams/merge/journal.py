"""Journal of the files found in watched folders, in reading order.

An entry is written before an offset refers to it. An offset holds the number of a file, and the
journal maps the number to a path, so that a batch can be repeated after a crash. The journal is a
file in the folder of the checkpoint, with one JSON line per file. Entries of files that were read
to the end and removed since are dropped when the journal is opened, which bounds its length by that
of the folders.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.files.private_files import replace_file, without_links
from dotr.streams.merge.folders import Folder, GrowingInput
from dotr.streams.records import InputFile

NAME: Final = "watched.ndjson"


class Journal:
    """Numbers and paths of the files of each growing input, by the name of the input.

    `folder` is that of the checkpoint, `done` the number of files of each input that were read to
    the end. Raises `Refused` (S114) where the journal is damaged.
    """

    def __init__(self, folder: Path, done: Mapping[str, int]) -> None:
        self._path = folder / NAME
        if self._path.exists() and not self._path.read_bytes().endswith(b"\n"):
            with open(self._path, "ab", opener=without_links) as file:
                file.write(b"\n")
        self.paths: dict[str, dict[int, str]] = {}
        self.next: dict[str, int] = {}
        lines = self._path.read_text(errors="replace").splitlines() if self._path.exists() else []
        for line_number, line in enumerate(lines, 1):
            if line.endswith("]"):  # no offset refers to an entry that a crash has cut off
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
        """Path of the file that an offset refers to; raises `Refused` (S114) without an entry."""
        try:
            return self.paths[name][number]
        except KeyError:
            raise self._damaged(f"it does not know file {number} of the input {name}, which a batch needs") from None

    def _damaged(self, why: str) -> Refused:
        hint = "Put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."
        return refuse("S114", f"the checkpoint is damaged: {self._path}: {why}", hint=hint)

    def add(self, name: str, paths: Sequence[str]) -> None:
        """Number files of an input, and write their entries to the disk (fsync)."""
        first = self.next.get(name, 0)
        self._write([[name, number, path] for number, path in enumerate(paths, first)])
        self.paths.setdefault(name, {}).update(enumerate(paths, first))
        self.next[name] = first + len(paths)

    def _write(self, entries: Sequence[Sequence[object]], *, anew: bool = False) -> None:
        lines = [f"{json.dumps(entry)}\n".encode() for entry in entries]
        if anew:
            replace_file(self._path, lines, sync=True)
            return
        with open(self._path, "ab", opener=without_links) as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())


class JournaledFiles:
    """Files of a watched folder, numbered by the journal.

    `known` are paths to skip. With `watching=False`, only the files present now are read.
    """

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
        """File of this number; lists the folder where the number is the next one."""
        name = self._name
        if number >= self._journal.next.get(name, 0) and not self.closed:
            new_paths = self._folder.new_files()
            if new_paths:
                self._journal.add(name, new_paths)
            self.closed = not self._watching
        path = self._journal.paths.get(name, {}).get(number)
        return None if path is None else replace(self._growing.like, path=path)

    def paths(self, first: int, last: int) -> tuple[str, ...]:
        """Paths of the files `first` to `last`, inclusive."""
        return tuple(self._journal.known(self._name, number) for number in range(first, last + 1))
