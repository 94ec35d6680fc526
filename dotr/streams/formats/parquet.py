"""Parquet reader: a row is an element, a column has its time, and a map makes its graph
(docs/inputs.md).

Idea: pyarrow decodes batches of rows, and each row becomes the object of which the reader of JSON
makes a record. A number of a column is a `JsonNumber`, another typed value a `TypedText`.
Invariant: the offset of a record is the number of rows before it (with `each` `_records`). A scan
decodes the column of the time alone, so a record beyond its limit has its time.
Cost: about 1 µs a cell; in a scan 3 µs a row.
"""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, BinaryIO, Final

from dotr.errors.diagnostics import refuse
from dotr.evaluation.files.stores import Location
from dotr.model.places import Span
from dotr.model.stream import Reason
from dotr.model.terms import XSD
from dotr.streams.formats.csv.map import OF_COLUMNS, check_columns
from dotr.streams.formats.json.map import TypedText
from dotr.streams.formats.json.records import ObjectReader
from dotr.streams.formats.lines import damaged
from dotr.streams.formats.mapping.json_paths import parse_path
from dotr.streams.formats.mapping.map_terms import JsonNumber, columns_of
from dotr.streams.formats.mapping.maps import RecordNumbers, cells_of_time, is_origin, parsed_map
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.objects import ObjectBytes
from dotr.streams.records import START, InputFile, Position, Record, beginning, limit_reason

_ROWS: Final = 1_024
"""Rows of a batch."""

_EPOCH: Final = datetime(1970, 1, 1)
_UNITS: Final = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""Microseconds of a unit of timestamps, as a fraction."""


def records(
    lines: BinaryIO | None,
    spec: InputFile,
    position: Position = START,
    elements: bool = True,
    time_filter: TimeFilter = EVERY_TIME,
    place: Span | None = None,
) -> Iterator[Record]:
    """Records from a position on, whose offset is a number of rows; `elements`: with the elements
    of those that pass `time_filter`. The file is opened by its path, whatever `lines` is.

    Raises:
        Refused: where the file cannot be read (I101), a column is missing (I103) or there twice
            (I104), a path is wrong (T107, T108), or pyarrow is not installed (C226).
    """
    assert spec.map is not None
    if _is_empty(spec):
        return iter((Record(0, 0, 1, None, None, b"", f"{spec.path} is empty, and no Parquet file"),))
    opened = _opened(spec.path, place)
    names = opened.schema_arrow.names
    depth = 1 + max(map(_depth, opened.schema_arrow.types), default=0)
    if depth > spec.nesting:
        message = f"cannot read {spec.path}: its columns nest {depth} deep, and limits.nesting is {spec.nesting}"
        raise refuse("I101", message, place, "Raise limits.nesting, or leave these columns out of the file.")
    further = OF_COLUMNS if spec.map.each else ()
    paths = {cell for cell in (*cells_of_time(spec), *columns_of(parsed_map(spec).template)) if column_of(cell, names) not in (cell, "")}
    check_columns(spec, [*names, *paths, *further], place)
    numbers = RecordNumbers(0)
    whole = replace(spec, map=replace(spec.map, each=""))
    reader = ObjectReader(whole, time_filter, numbers, frozenset([*names, *further]))
    return _records(opened, spec, position.offset, elements, reader, numbers, time_filter)


def _is_empty(spec: InputFile) -> bool:
    if Location(spec.path).is_url:
        return spec.size == 0
    return os.path.isfile(spec.path) and not os.path.getsize(spec.path)


def _opened(path: str, place: Span | None) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        return ParquetFile(io.BufferedReader(ObjectBytes(path)) if Location(path).is_url else path)
    except ImportError:
        reason = "Parquet needs the Python package pyarrow, which is not installed"
        raise refuse("C226", reason, place, "pip install 'dotr[parquet]'") from None
    except (ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise refuse("I101", f"cannot read {path} as Parquet: {reason}", place, "Is it a complete Parquet file?") from None


def rows_of(path: str) -> Iterator[dict[str, Any]]:
    """The rows of a file as objects of typed values; raises `Refused` as `records` does."""
    with _opened(path, None) as opened:
        yield from _rows(opened, 0, None)


def column_of(cell: str, names: list[str]) -> str:
    """The column that a cell names, or goes into: of `a` and `a.b`, {a.b} is the second; else
    empty."""
    try:
        return cell if cell in names else next(str(step) for step in parse_path(cell).steps[:1] if step in names)
    except (ValueError, StopIteration):
        return ""


def _depth(kind: Any) -> int:
    """Levels of lists and objects in the values of a type."""
    return max([1 + _depth(kind.field(number).type) for number in range(kind.num_fields)], default=0)


def _records(
    opened: Any, spec: InputFile, start: int, elements: bool, reader: ObjectReader, numbers: RecordNumbers, time_filter: TimeFilter
) -> Iterator[Record]:
    """The records of an open file from the offset `start` on; the file is closed at their end.

    With `each`, item n of row m of a file with c columns has the offset m * c + n.
    """
    from pyarrow import ArrowException

    assert spec.map is not None
    names = opened.schema_arrow.names
    times = {column for cell in cells_of_time(spec) if not is_origin(cell) and (column := column_of(cell, names))}
    named = times | {column_of(cell, names) for cell in columns_of(parsed_map(spec).template)}
    others = [(number, name) for number, name in enumerate(names) if name not in named] if spec.map.each else None
    width = 1 if others is None else len(names)
    numbers.last = start // width
    try:
        with opened:
            for row in _rows(opened, numbers.last, list(times) if others is None and not elements else None):
                for number, shown in _items(row, others):
                    offset, line = numbers.last * width + number, numbers.last + 1
                    if offset < start:
                        continue
                    raw = json_text(shown).encode() if elements else b""
                    is_wanted = elements and len(raw) <= spec.record
                    record = reader.record(offset, offset + 1, line, raw, row, (row,), is_wanted, None, b"\\u" in raw)
                    if len(raw) > spec.record:
                        text, stamp = beginning(raw, spec.record), record.judged_time
                        record = Record(offset, offset + 1, line, None, None, text, limit_reason(spec.record), stamp, Reason.LIMIT)
                    yield record
                numbers.last += 1
            time_filter.greatest = reader.greatest
    except (ArrowException, OSError) as error:
        yield damaged(max(start, numbers.last * width), numbers.last + 1, error)


def _items(row: dict[str, Any], others: Sequence[tuple[int, str]] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a row, each with its number and what is shown of it: the row, or its cells of
    other columns that are not null, which are added to the row in turn."""
    if others is None:
        yield 0, row
    for number, name in others or ():
        if (cell := row[name]) is not None:
            row["$column"], row["$cell"] = name, cell
            yield number, {name: cell}


def _rows(opened: Any, skipped: int, columns: list[str] | None) -> Iterator[dict[str, Any]]:
    """Rows behind the skipped ones as objects; row groups before them are not read."""
    sizes = [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]
    first = 0
    while first < len(sizes) and skipped >= sizes[first]:
        skipped, first = skipped - sizes[first], first + 1
    for batch in opened.iter_batches(_ROWS, row_groups=range(first, len(sizes)), columns=columns, use_threads=False):
        rest = batch.slice(min(skipped, batch.num_rows))
        skipped -= batch.num_rows - rest.num_rows
        for cells in zip(*map(typed_values, rest.columns), strict=True):
            yield dict(zip(rest.schema.names, cells, strict=True))


def typed_values(column: Any) -> list[Any]:
    """The typed values of a column of Arrow; None for null, and bytes for text that is not UTF-8."""
    import pyarrow as pa

    stored, convert = _conversion(column.type)
    column = column if stored == column.type else column.cast(stored)
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        decoded = [(raw, raw and raw.decode("utf-8", "replace")) for raw in column.cast(pa.binary()).to_pylist()]
        values = [raw if raw and raw != text.encode() else text for raw, text in decoded]
    return [_converted(each, convert) for each in values]


def _converted(value: Any, convert: Callable[[Any], Any]) -> Any:
    return None if value is None else convert(value)


def _typed(name: str, kind: type[str]) -> type[str]:
    """A class of texts with a datatype of XSD."""
    return type(f"Xsd{name}", (kind,), {"__slots__": (), "datatype": XSD + name})


DECIMAL, DOUBLE, FLOAT = (_typed(name, JsonNumber) for name in ("decimal", "double", "float"))
DATE_TIME, DATE, _TIME, _BASE64 = (_typed(name, TypedText) for name in ("dateTime", "date", "time", "base64Binary"))


@lru_cache(256)
def _conversion(kind: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The type that the values of a type are cast to, and the function that makes typed values of
    these. Timestamps are cast to integers, since Python's dates end in 9999."""
    import pyarrow as pa
    from pyarrow import types

    match kind:
        case pa.DictionaryType():
            return _conversion(kind.value_type)
        case pa.BaseExtensionType():
            return _conversion(kind.storage_type)
        case pa.TimestampType():
            (times, parts), zone = _UNITS[kind.unit], "Z" if kind.tz else ""
            return pa.int64(), lambda value: DATE_TIME(moment_text(value * times // parts) + zone)
        case pa.StructType():
            fields = [(kind.field(number).name, *_conversion(kind.field(number).type)) for number in range(kind.num_fields)]
            stored = pa.struct([(name, inner) for name, inner, _ in fields])
            return stored, lambda value: {name: _converted(value[name], convert) for name, _, convert in fields}
        case pa.MapType():
            (keys, key_of), (items, item_of) = _conversion(kind.key_type), _conversion(kind.item_type)
            return pa.map_(keys, items), lambda value: {str(key_of(key)): _converted(item, item_of) for key, item in value}
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType():
            stored, convert = _conversion(kind.value_type)
            return pa.large_list(stored), lambda value: [_converted(each, convert) for each in value]
    if types.is_integer(kind):
        return pa.string(), JsonNumber
    if types.is_decimal(kind):
        return kind, lambda value: DECIMAL(f"{value:f}")
    if types.is_floating(kind):
        made = DOUBLE if types.is_float64(kind) else FLOAT
        return pa.string(), lambda text: made(text.replace("nan", "NaN").replace("inf", "INF"))
    if types.is_date(kind):
        return pa.string(), DATE
    if types.is_time(kind):  # 07:30:00.500000000 is 07:30:00.5
        return pa.string(), lambda text: _TIME(text[:15].rstrip("0").rstrip(".") if "." in text else text)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary(), lambda value: _BASE64(base64.b64encode(value).decode())
    return kind, lambda value: value if isinstance(value, bool | bytes) else str(value)


def moment_text(micros: int) -> str:
    """ISO 8601 text of a time in µs since 1970, without a zone."""
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat()
    except OverflowError:
        return f"{micros} µs since 1970"


def json_text(value: Any) -> str:
    """The JSON text of a row or a value.

    >>> json_text({"at": DATE_TIME("2024-03-01T12:00:00Z"), "v": [JsonNumber("5"), DOUBLE("NaN"), True, None]})
    '{"at": "2024-03-01T12:00:00Z", "v": [5, "NaN", true, null]}'
    """
    match value:
        case JsonNumber() if value[-1] not in "FN":
            return value
        case dict():
            return "{" + ", ".join([f"{json.dumps(name, ensure_ascii=False)}: {json_text(each)}" for name, each in value.items()]) + "}"
        case list():
            return f"[{', '.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False, default=lambda raw: raw.decode("utf-8", "replace"))
