"""Journal of the partitions that a checkpoint reads.

An entry is written before an offset refers to it. Its number identifies the partition for the life
of the checkpoint; the entry has the id of the topic and the first offset to read. Ranges that the
broker has deleted are entries too, so that a repeated batch is planned with the same ranges. The
journal is a file beside `dotr.json`, one JSON list a line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import refuse
from dotr.evaluation.files.private_files import without_links
from dotr.streams.connectors.kafka.topics import LostRange, Partition

NAME: Final = "partitions.ndjson"


class PartitionJournal:
    """Partitions by number, each with the name of its input, and their deleted ranges.

    `folder` is that of the checkpoint. Raises `Refused` (S114) where the journal is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self.entries: list[tuple[str, Partition]] = []
        self._lost: dict[int, list[LostRange]] = {}
        text = self._path.read_text(errors="replace") if self._path.exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            if not line.endswith("]"):  # no offset refers to an entry that a crash has cut off
                continue
            try:
                self._read(*json.loads(line))
            except (TypeError, ValueError):
                hint = "Put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."
                raise refuse("S114", f"the checkpoint is damaged: {self._path}: its line {number} is no entry", None, hint) from None
        self._is_cut_off = bool(text) and not text.endswith("\n")

    def _read(self, kind: str, *members: object) -> None:
        if kind == "partition":
            name, topic, number, identity, first, end = members
            self.entries.append((str(name), Partition(str(topic), _whole(number), str(identity), _whole(first), _whole_or_none(end))))
        elif kind == "lost":
            partition, first, end = map(_whole, members)
            self._lost.setdefault(partition, []).append(LostRange(first, end))
        else:
            raise ValueError(kind)

    def names(self) -> list[str]:
        """The name of the input of each partition, by number."""
        return [name for name, _ in self.entries]

    def number(self, name: str, partition: Partition) -> int:
        """The number of a partition of an input; -1 where it has no entry."""
        return next((n for n, (own, each) in enumerate(self.entries) if own == name and each.key == partition.key), -1)

    def lost(self, number: int) -> tuple[LostRange, ...]:
        """The deleted ranges of a partition, in the order in which they were added."""
        return tuple(self._lost.get(number, ()))

    def add(self, name: str, partitions: Sequence[Partition]) -> None:
        """Number partitions of an input, and write their entries to the disk (fsync)."""
        self._write([["partition", name, each.topic, each.number, each.identity, each.first, each.end] for each in partitions])
        self.entries += [(name, each) for each in partitions]

    def add_lost(self, number: int, lost: LostRange) -> None:
        """Add a deleted range of a partition, and write it to the disk (fsync)."""
        self._write([["lost", number, *lost]])
        self._lost.setdefault(number, []).append(lost)

    def _write(self, entries: Sequence[Sequence[object]]) -> None:
        with open(self._path, "a", opener=without_links) as file:
            if self._is_cut_off:
                file.write("\n")
                self._is_cut_off = False
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
            file.flush()
            os.fsync(file.fileno())


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(value)
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)
