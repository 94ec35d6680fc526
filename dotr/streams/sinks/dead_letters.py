"""Dead letters as text: one JSON line each (semantics.md, section 6)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.files.private_files import remove_leftovers
from dotr.model.places import Span
from dotr.model.stream import DeadLetter
from dotr.model.time import Clock
from dotr.streams.sinks.batches import Check
from dotr.streams.sinks.files import BatchFile, FileSink


def dead_letter_line(dead_letter: DeadLetter, clock: Clock) -> str:
    r"""JSON line of a dead letter, without a line end.

    `reason` is the kind of the error and `error` its text; `encoding` is given only where `text` is
    encoded bytes.

    >>> from dotr.model.stream import Reason
    >>> print(dead_letter_line(DeadLetter(Reason.UNREADABLE, "in", "a.csv", 7, None, 'x,"y', "a quote is never closed"), Clock()))
    {"reason": "unreadable", "input": "in", "file": "a.csv", "line": 7, "time": null, "text": "x,\"y", "error": "a quote is never closed"}
    """
    return json.dumps(
        {
            "reason": dead_letter.reason.value,
            "input": dead_letter.input,
            "file": dead_letter.file,
            "line": dead_letter.line,
            "time": None if dead_letter.time is None else format_time(dead_letter.time, clock),
            "text": dead_letter.text,
            **({"encoding": dead_letter.encoding} if dead_letter.encoding else {}),
            "error": dead_letter.why,
        },
        ensure_ascii=False,
    )


class DeadLetterFile(FileSink):
    """File of the dead letters of a run in process."""

    __slots__ = ("_clock",)

    def __init__(self, path: str, clock: Clock, place: Span | None = None) -> None:
        super().__init__(path, place)
        self._clock = clock

    def write_items(self, items: Sequence[DeadLetter]) -> None:
        """Append dead letters; raises `WriteFailed`."""
        self.write([dead_letter_line(letter, self._clock) + "\n" for letter in items])


class DeadLetterFiles:
    """Folder of the dead letters of a run on Spark, with a file for each batch that has any."""

    def __init__(self, folder: str, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def open(self, check: Check) -> int | None:
        """Returns None, as a repeated batch replaces its file; removes that of a killed run."""
        remove_leftovers(Path(self._folder))
        return None

    def write_batch(self, number: int, blocks: Iterable[Sequence[DeadLetter]], check: Check) -> Sequence[DeadLetter]:
        """Write the file of a batch; returns no dead letters."""
        with BatchFile(self._folder, number, ".ndjson") as file:
            for block in blocks:
                file.write([dead_letter_line(letter, self._clock) + "\n" for letter in block])
        return ()

    def close(self) -> None:
        """Does nothing: files are closed with their batches."""
