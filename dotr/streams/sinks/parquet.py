"""Parquet outputs: a row for each firing, in one file in process, or a file for each batch on
Spark.

Columns: `time` (a timestamp in UTC where times are date-times, else an integer of the clock's
unit), `rule`, `event`, `graph` (N-Triples), and a text column for each attribute. The cell of an
attribute has an IRI or the text of a literal, as in CSV; it is null where the firing lacks the
attribute.
Invariant: a file is complete or absent, and the same firings give the same bytes.
Memory: the rows of one row group.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, BinaryIO, Final

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.files.private_files import remove_leftovers
from dotr.evaluation.files.stores import Location
from dotr.model.places import Span
from dotr.model.stream import Firing
from dotr.model.terms import Variable
from dotr.model.time import Clock
from dotr.streams.formats.writing import ntriples, plain_text
from dotr.streams.sinks.files import UnfinishedFile, WriteFailed, batch_file, check_new, write_errors

MADE_BY: Final = b"dotr.output"
"""Key in the metadata of files that a run has written."""

_ROWS: Final = 65_536
_TEXT: Final = 32 << 20
"""Limit of the characters of a row group."""
_FIXED: Final = ("time", "rule", "event", "graph")


def parquet_problem(path: str, span: Span | None) -> Diagnostic | None:
    """The reason why Parquet cannot be written, or None."""
    if find_spec("pyarrow") is None:
        return Diagnostic("I203", f"{path} is to be Parquet, and pyarrow is not installed", span, "Run pip install 'dotr[parquet]'.")
    if path.startswith("/dev/") or path.endswith(".gz"):
        message = f"a Parquet output is a file that is read from its end and compressed by itself, and {path} is none"
        return Diagnostic("C204", message, span, "Name a file such as out/fire.parquet.")
    return None


def column_names(attributes: Sequence[Variable]) -> list[str]:
    """The column names of attributes; the prefix `attribute_` avoids those of the fixed columns.

    >>> column_names(["room", "time"])
    ['room', 'attribute_time']
    """
    names: list[str] = []
    for attribute in attributes:
        name = attribute
        while name in _FIXED or name in names or (name != attribute and name in attributes):
            name = f"attribute_{name}"
        names.append(name)
    return names


class _ParquetRows:
    """Writer of the rows of firings, in row groups."""

    def __init__(self, file: BinaryIO, clock: Clock, attributes: Sequence[Variable]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        self._pa = pa
        self._clock = clock
        self._attributes = attributes
        time_type = pa.timestamp("us", tz="UTC") if clock.dated else pa.int64()
        fields = [pa.field("time", time_type, nullable=False), *(pa.field(name, pa.string(), nullable=False) for name in _FIXED[1:])]
        fields += [pa.field(name, pa.string()) for name in column_names(attributes)]
        self._schema = pa.schema(fields, metadata={MADE_BY: b"events"})
        self._writer: Any = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._clear()

    def _clear(self) -> None:
        self._columns: list[list[Any]] = [[] for _ in self._schema]
        self._size = 0

    def write(self, firings: Sequence[Firing]) -> None:
        """Add firings, and write the row group when it is full."""
        clock = self._clock
        for time, rule, event, attributes, graph, _ in firings:
            if graph is None:
                continue
            cells = {name: plain_text(value) for name, value in attributes}
            row = [time if clock.dated else time // clock.unit.value, rule, event, ntriples(graph)]
            row += [cells.get(name) for name in self._attributes]
            for column, cell in zip(self._columns, row, strict=True):
                column.append(cell)
            self._size += sum(map(len, cells.values())) + len(str(row[3]))
            if len(self._columns[0]) >= _ROWS or self._size >= _TEXT:
                self._write_group()

    def _write_group(self) -> None:
        pa = self._pa
        arrays = [pa.array(column, field.type) for column, field in zip(self._columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._clear()

    def close(self) -> None:
        """Write the last row group and the footer of the file."""
        if self._columns[0]:
            self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """End without the footer: no more is written."""
        self._writer.is_open = False


class ParquetFile:
    """The Parquet output of a run in process, written under a temporary name until it is closed.

    Raises `Refused` where the file exists or cannot be written, `WriteFailed` where the disk is
    full.
    """

    def __init__(self, path: str, clock: Clock, attributes: Sequence[Variable], place: Span | None = None) -> None:
        check_new(path, place)
        self.path = path
        self._target = Location(path)
        self._whole = True
        with write_errors(self._target):
            if not self._target.is_url:
                remove_leftovers(self._target.path.parent, self._target.name)
            self._file = UnfinishedFile(self._target, is_new=True)
            self._rows = _ParquetRows(self._file.file, clock, attributes)

    def write_items(self, firings: Sequence[Firing]) -> None:
        """Add firings."""
        self._whole = False
        with write_errors(self._target):
            self._rows.write(firings)
        self._whole = True

    def flush(self) -> None:
        """Does nothing: a Parquet file is readable only when complete."""

    def mark(self) -> None:
        """Returns None: output cannot be withdrawn."""

    def truncate(self, mark: int) -> None:
        """Never called: there are no marks."""

    def close(self) -> None:
        """Complete the file, and rename it to its target."""
        with write_errors(self._target):
            self._rows.close()
            self._file.complete()

    def discard(self) -> None:
        """Remove the unfinished file."""
        self._rows.abandon()
        self._file.discard()

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if not self._whole:  # a row group may be written partly
            self.discard()
            return
        try:
            self.close()
        except BaseException as error:
            self.discard()
            if kind is None or not isinstance(error, WriteFailed):  # otherwise the first error is reported
                raise


class ParquetBatch:
    """The Parquet file of a batch in a folder, with the guarantees of `BatchFile`.

    A batch without a firing has no file. `part`: the task that writes it, in its name.
    """

    def __init__(self, folder: str, batch: int, clock: Clock, attributes: Sequence[Variable], part: str = "") -> None:
        self._target = batch_file(folder, batch, f"{part}.parquet")
        self._clock = clock
        self._attributes = attributes
        self._file: UnfinishedFile | None = None
        self._rows: _ParquetRows | None = None

    def write_items(self, firings: Sequence[Firing]) -> None:
        """Add firings."""
        if not firings:
            return
        with write_errors(self._target.parent):
            if self._rows is None:
                self._file = UnfinishedFile(self._target)
                self._rows = _ParquetRows(self._file.file, self._clock, self._attributes)
            self._rows.write(firings)

    def __enter__(self) -> ParquetBatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        rows, file = self._rows, self._file
        if kind is not None:
            if rows is not None and file is not None:
                rows.abandon()
                file.discard()
            return
        with write_errors(self._target.parent):
            if rows is None or file is None:
                self._target.remove()
                return
            rows.close()
            file.complete()
