"""Journal of the files found in watched folders, in reading order.

An entry is written before an offset refers to it. An offset holds the number of a file, and the
journal maps the number to a path, so that a batch can be repeated after a crash. The journal is a
file in the folder of the checkpoint, with one JSON line per file, or change of a file. Entries of
files that were read to the end and removed since are dropped when the journal is opened, which
bounds its length by that of the folders.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.files.stores import AppendedLines, Location
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.merge.folders import Folder, GrowingInput
from dotr.streams.records import InputFile

NAME: Final = "watched.ndjson"


class Journal:
    """Numbers and files of each growing input, by the name of the input.

    `home` is the checkpoint, `done` the number of files of each input that were read to
    the end. Raises `Refused` (S114) where the journal is damaged.
    """

    def __init__(self, home: Location, done: Mapping[str, int]) -> None:
        self._written = AppendedLines(home / NAME)
        self.files: dict[str, dict[int, FoundFile]] = {}
        self.next: dict[str, int] = {}
        lines = self._written.read()
        for line_number, line in enumerate(lines, 1):
            if line.endswith("]"):  # no offset refers to an entry that a crash has cut off
                try:
                    name, number, *members = json.loads(line)
                    self.next[name] = number + 1
                    self.files.setdefault(name, {})[number] = FoundFile.of_json(*members)
                except (ValueError, TypeError):
                    raise self._damaged(f"its line {line_number} is no entry") from None
        for name, files in self.files.items():
            for number in [n for n in files if n < done.get(name, 0) and n + 1 < self.next[name] and not os.path.exists(files[n].path)]:
                del files[number]
        if 2 * sum(map(len, self.files.values())) < len(lines):
            kept = [[name, number, *file.to_json()] for name, files in self.files.items() for number, file in files.items()]
            self._written.shorten(list(map(json.dumps, kept)))

    def known(self, name: str, number: int) -> FoundFile:
        """The file that an offset refers to; raises `Refused` (S114) without an entry."""
        try:
            return self.files[name][number]
        except KeyError:
            raise self._damaged(f"it does not know file {number} of the input {name}, which a batch needs") from None

    def _damaged(self, why: str) -> Refused:
        hint = "Put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."
        return refuse("S114", f"the checkpoint is damaged: {self._written.place}: {why}", hint=hint)

    def add(self, name: str, files: Sequence[FoundFile]) -> None:
        """Number files of an input, and write their entries to the disk (fsync)."""
        first = self.next.get(name, 0)
        self._written.append([json.dumps([name, number, *file.to_json()]) for number, file in enumerate(files, first)])
        self.files.setdefault(name, {}).update(enumerate(files, first))
        self.next[name] = first + len(files)


class JournaledFiles:
    """Files of a watched folder, numbered by the journal.

    `known` are files that are read elsewhere, whose changes are found here. With `watching=False`,
    only the files present now are read.
    """

    def __init__(
        self,
        growing: GrowingInput,
        journal: Journal,
        known: Sequence[FoundFile],
        *,
        watching: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._growing = growing
        self._journal = journal
        self._name = growing.like.input
        files = journal.files.get(self._name, {})
        self._folder = Folder(growing.pattern, growing.settle if watching else 0, [*known, *files.values()], clock)
        self._watching = watching
        self.closed = False

    def file(self, number: int) -> InputFile | None:
        """File of this number; lists the folder where the number is the next one."""
        name = self._name
        if number >= self._journal.next.get(name, 0) and not self.closed:
            found = self._folder.new_files()
            if found:
                self._journal.add(name, found)
            self.closed = not self._watching
        file = self._journal.files.get(name, {}).get(number)
        return None if file is None else self._growing.like.found(file)

    def is_drained(self) -> bool:
        """True if the latest look at the folder has listed it, and no file is new."""
        return self._folder.is_drained

    def paths(self, first: int, last: int) -> tuple[FoundFile, ...]:
        """The files `first` to `last`, inclusive."""
        return tuple(self._journal.known(self._name, number) for number in range(first, last + 1))
