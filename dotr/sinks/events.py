"""Sinks of firings: text and Parquet, behind one interface for each runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from dotr.model.places import Span
from dotr.model.stream import Firing
from dotr.model.terms import Prefixes, Variable
from dotr.model.time import Clock
from dotr.outputs.writing import StreamFormat, Writer, compile_writer
from dotr.sinks.files import BatchFile, FileSink
from dotr.sinks.parquet import ParquetBatch, ParquetFile


class TableFormat(Enum):
    """Formats of outputs that are tables and no text."""

    PARQUET = "parquet"


OutputFormat: TypeAlias = StreamFormat | TableFormat


def output_format(name: str) -> OutputFormat:
    """The format of this name; raises ValueError.

    >>> output_format("parquet"), output_format("trig")
    (<TableFormat.PARQUET: 'parquet'>, <StreamFormat.TRIG: 'trig'>)
    """
    return TableFormat.PARQUET if name == TableFormat.PARQUET.value else StreamFormat(name)


@dataclass(frozen=True, slots=True)
class OutputTerms:
    """Common to all outputs of a pipeline: the format of times, the attributes that events can have,
    and the prefixes of TriG.
    """

    clock: Clock
    attributes: Sequence[Variable] = ()
    prefixes: Prefixes = field(default_factory=dict)

    def writer(self, form: StreamFormat) -> Writer:
        """A new writer of a text format."""
        return compile_writer(form, self.clock, self.attributes, self.prefixes)


class EventBatch(Protocol):
    """The file of a batch, complete at the exit of the context."""

    def write_firings(self, firings: Sequence[Firing]) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None: ...


class EventSink(EventBatch, Protocol):
    """The output of a run in process.

    `mark` gives an offset for `truncate`, or None where what is written cannot be taken back.
    """

    def flush(self) -> None: ...

    def mark(self) -> int | None: ...

    def truncate(self, mark: int, /) -> None: ...

    def discard(self) -> None: ...


class TextEvents(FileSink):
    """Firings as text in a file."""

    __slots__ = ("_texts",)

    def __init__(self, path: str, form: StreamFormat, terms: OutputTerms, place: Span | None = None) -> None:
        super().__init__(path, place)
        self._texts = terms.writer(form)

    def write_firings(self, firings: Sequence[Firing]) -> None:
        """Append the text of firings; raises `WriteFailed`."""
        self.write(self._texts(firings))


class TextBatch(BatchFile):
    """Firings as text in the file of a batch."""

    __slots__ = ("_texts",)

    def __init__(self, folder: str, batch: int, form: StreamFormat, terms: OutputTerms) -> None:
        super().__init__(folder, batch, f".{form.value}")
        self._texts = terms.writer(form)

    def write_firings(self, firings: Sequence[Firing]) -> None:
        """Append the text of firings; raises `WriteFailed`."""
        self.write(self._texts(firings))


def open_sink(path: str, form: OutputFormat, terms: OutputTerms, place: Span | None = None) -> EventSink:
    """Open the output of a run in process; raises `Refused` where it exists or cannot be written."""
    if isinstance(form, TableFormat):
        return ParquetFile(path, terms.clock, terms.attributes, place)
    return TextEvents(path, form, terms, place)


def open_batch(folder: str, batch: int, form: OutputFormat, terms: OutputTerms) -> EventBatch:
    """The file of a batch, to be opened by its first firing."""
    if isinstance(form, TableFormat):
        return ParquetBatch(folder, batch, terms.clock, terms.attributes)
    return TextBatch(folder, batch, form, terms)
