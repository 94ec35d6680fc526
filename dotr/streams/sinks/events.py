"""Outputs to files, text and Parquet: one file in process, one for each batch on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.files.private_files import remove_leftovers
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Prefixes, Variable
from dotr.model.time import Clock
from dotr.streams.formats.writing import StreamFormat, compile_writer, frame_writer
from dotr.streams.sinks.batches import Check
from dotr.streams.sinks.files import BatchFile, FileSink, encoded
from dotr.streams.sinks.parquet import ParquetBatch, ParquetFile


class TableFormat(Enum):
    """Formats of outputs that are tables."""

    PARQUET = "parquet"


OutputFormat: TypeAlias = StreamFormat | TableFormat


def output_format(name: str) -> OutputFormat:
    """The format with this name; raises ValueError for an unknown one.

    >>> output_format("parquet"), output_format("trig")
    (<TableFormat.PARQUET: 'parquet'>, <StreamFormat.TRIG: 'trig'>)
    """
    return TableFormat.PARQUET if name == TableFormat.PARQUET.value else StreamFormat(name)


@dataclass(frozen=True, slots=True)
class OutputTerms:
    """Settings that all outputs of a pipeline share.

    - `clock`: the format of times.
    - `attributes`: those that events can have, in the order of columns.
    - `prefixes`: of TriG.
    - `pipeline`: its name, a part of the IDs of messages.
    - `part`: of names of files behind the number of the batch: the task that writes them.
    """

    clock: Clock
    attributes: Sequence[Variable] = ()
    prefixes: Prefixes = field(default_factory=dict)
    pipeline: str = ""
    part: str = ""

    def writer(self, form: StreamFormat) -> Callable[[Sequence[Firing]], bytes]:
        """A new writer of consecutive firings: their texts with line ends, or their frames."""
        if form is StreamFormat.JELLY:
            frames = frame_writer(self.clock)
            return lambda firings: b"".join(frames(firings))
        texts = compile_writer(form, self.clock, self.attributes, self.prefixes)
        return lambda firings: encoded("".join(texts(firings)))

    def body_writer(self, form: StreamFormat) -> Callable[[Sequence[Firing]], list[bytes]]:
        """A new writer of messages: self-contained texts without line ends, or frames."""
        if form is StreamFormat.JELLY:
            return frame_writer(self.clock, messages=True)
        texts = compile_writer(form, self.clock, self.attributes, self.prefixes, messages=True)
        return lambda firings: [encoded(text) for text in texts(firings)]


class TextEvents(FileSink):
    """Firings as text or frames in a file."""

    __slots__ = ("_written",)

    def __init__(self, path: str, form: StreamFormat, terms: OutputTerms, place: Span | None = None) -> None:
        super().__init__(path, place)
        self._written = terms.writer(form)

    def write_items(self, firings: Sequence[Firing]) -> None:
        """Append the text of firings; raises `WriteFailed`."""
        self.write_bytes(self._written(firings))


class TextBatch(BatchFile):
    """Firings as text or frames in the file of a batch."""

    __slots__ = ("_written",)

    def __init__(self, folder: str, batch: int, form: StreamFormat, terms: OutputTerms) -> None:
        super().__init__(folder, batch, f"{terms.part}.{form.value}")
        self._written = terms.writer(form)

    def write_items(self, firings: Sequence[Firing]) -> None:
        """Append the text of firings; raises `WriteFailed`."""
        self.write_bytes(self._written(firings))


def open_file(path: str, form: OutputFormat, terms: OutputTerms, place: Span | None = None) -> TextEvents | ParquetFile:
    """Open the output file of a run in process; raises `Refused` where that is impossible."""
    if isinstance(form, TableFormat):
        return ParquetFile(path, terms.clock, terms.attributes, place)
    return TextEvents(path, form, terms, place)


def open_batch(folder: str, batch: int, form: OutputFormat, terms: OutputTerms) -> TextBatch | ParquetBatch:
    """The file of a batch, which its first firing creates."""
    if isinstance(form, TableFormat):
        return ParquetBatch(folder, batch, terms.clock, terms.attributes, terms.part)
    return TextBatch(folder, batch, form, terms)


def _remove_leftovers(folder: str) -> None:
    if not (location := Location(folder)).is_url:  # what is put there is whole
        remove_leftovers(location.path)


class FileBatches:
    """A `BatchSink` of all outputs to folders, each with a file for each batch.

    It iterates the firings of a batch once, for all folders.
    """

    def __init__(self, folders: Sequence[tuple[str, OutputFormat]], terms: OutputTerms) -> None:
        self._folders = folders
        self._terms = terms

    def open(self, check: Check) -> int | None:
        """Returns None, as a repeated batch replaces its files; removes those of a killed run."""
        for folder, _ in self._folders:
            _remove_leftovers(folder)
        return None

    def write_batch(self, number: int, blocks: Iterable[Sequence[Firing]], check: Check) -> Sequence[DeadLetter]:
        """Write the files of a batch; there is none for an output without a firing."""
        with ExitStack() as stack:
            files: list[TextBatch | ParquetBatch] = []
            for folder, form in self._folders:
                file = open_batch(folder, number, form, self._terms)
                stack.enter_context(file)
                files.append(file)
            for block in blocks:
                for file in files:
                    file.write_items(block)
        return ()

    def close(self) -> None:
        """Does nothing: files are closed with their batches."""


# Dead letters as text: one JSON line each (semantics.md, section 6).


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
        _remove_leftovers(self._folder)
        return None

    def write_batch(self, number: int, blocks: Iterable[Sequence[DeadLetter]], check: Check) -> Sequence[DeadLetter]:
        """Write the file of a batch; returns no dead letters."""
        with BatchFile(self._folder, number, ".ndjson") as file:
            for block in blocks:
                file.write([dead_letter_line(letter, self._clock) + "\n" for letter in block])
        return ()

    def close(self) -> None:
        """Does nothing: files are closed with their batches."""
