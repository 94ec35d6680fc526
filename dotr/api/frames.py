"""Events as a pandas DataFrame (needs the extra `dotr[pandas]`), and rows of frames as elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isinf
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

from dotr.api.events import EPOCH, IRI, MICROSECOND, Event, PythonValue
from dotr.errors.diagnostics import refuse
from dotr.model.stream import Element
from dotr.model.time import Unit
from dotr.streams.records import InputFile

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_COLUMNS: Final = ("time", "rule", "type")


def frame(events: Iterable[Event]) -> DataFrame:
    """Convert events to a pandas DataFrame: one row for each event, in their order.

    The columns are `time`, `rule` and `type`, then the attributes in the order in which they first
    occur. An attribute named `time`, `rule` or `type` has the column `?time`, `?rule` or `?type`.
    The value of an attribute that an event lacks is missing (`NA`, or `NaT` among date-times).

    | values of a column (`Event.values`) | type of the column |
    | --- | --- |
    | `datetime` with a zone | datetime64[ns, UTC]; [us, UTC] with years before 1678 or after 2261 |
    | `datetime` without a zone | datetime64[ns], or [us] likewise |
    | `int` | Int64 (of `time` int64); object where one has more than 64 bits |
    | numbers with a `Decimal` or `float` | Float64, rounded; `Event.values` has the exact ones |
    | `bool` | boolean |
    | `IRI` and `str` | string |
    | a mixture | object |

    Args:
        events: the results of `Session.advance` and `Session.finish`, or any other events.

    Returns:
        A new DataFrame with a default index.

    Raises:
        DotrError: pandas is not installed (`pip install 'dotr[pandas]'`).

    >>> import dotr
    >>> number = '"21"^^<http://www.w3.org/2001/XMLSchema#integer>'
    >>> lab = dotr.Event(12, "Heat", "Heat", {"room": "<http://example.org/lab>", "v": number}, "")
    >>> hall = dotr.Event(15, "Heat", "Heat", {"room": "<http://example.org/hall>"}, "")
    >>> print(dotr.frame([lab, hall]).to_string())
       time  rule  type                     room     v
    0    12  Heat  Heat   http://example.org/lab    21
    1    15  Heat  Heat  http://example.org/hall  <NA>
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise refuse("C502", "dotr.frame needs pandas, which is not installed", hint="Install it: pip install 'dotr[pandas]'") from None
    found = list(events)
    values = [event.values for event in found]
    names = dict.fromkeys(name for each in values for name in each)
    times = [event.time for event in found]
    return pd.DataFrame(
        {
            "time": pd.Series(times, dtype="int64") if times and all(isinstance(time, int) for time in times) else _column(times),
            "rule": pd.Series([event.rule for event in found], dtype="string"),
            "type": pd.Series([event.type for event in found], dtype="string"),
            **{f"?{name}" if name in _COLUMNS else name: _column([each.get(name) for each in values]) for name in names},
        }
    )


def _column(values: Sequence[PythonValue | None]) -> Series:
    """The column of some values, in the most specific type that holds all of them; None is missing."""
    import numpy as np
    import pandas as pd

    kinds = {type(value) for value in values} - {type(None)}
    if kinds and kinds <= {IRI, str}:
        return pd.Series([str(value) if isinstance(value, str) else pd.NA for value in values], dtype="string")
    if kinds == {bool}:
        return pd.Series([pd.NA if value is None else value for value in values], dtype="boolean")
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values if isinstance(value, int)):
        return pd.Series([pd.NA if value is None else value for value in values], dtype="Int64")
    if kinds and kinds <= {int, Decimal, float} and kinds != {int}:
        numbers = [_float(value) for value in values]
        if None not in numbers:
            missing = np.array([value is None for value in values])
            return pd.Series(pd.arrays.FloatingArray(np.array(numbers, dtype="float64"), missing))
    if kinds == {datetime}:
        moments = [value for value in values if isinstance(value, datetime)]
        zones = {moment.tzinfo is not None for moment in moments}
        if len(zones) == 1:
            precision = "ns" if all(1678 <= moment.year <= 2261 for moment in moments) else "us"
            plain = [_without_zone(value) if isinstance(value, datetime) else None for value in values]
            column = pd.Series(np.array(plain, dtype=f"datetime64[{precision}]"))
            return column.dt.tz_localize("UTC") if zones == {True} else column
    return pd.Series([pd.NA if value is None else value for value in values], dtype="object")


def _without_zone(moment: datetime) -> datetime:
    """The date-time in UTC, or as it is where it has no zone."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _float(value: PythonValue | None) -> float | None:
    """A number rounded to a float; 0 if it is missing, None if it is too large."""
    if value is None:
        return 0.0
    assert isinstance(value, int | Decimal | float)
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if isinf(number) and not isinstance(value, float) else number


# --- rows of a frame as elements ---


def frame_elements(frame: object, spec: InputFile) -> tuple[bool, list[Element]]:
    """The elements of the rows of a frame, in the order of time, and True if their times are
    date-times.

    `frame`: a DataFrame of pandas, or a table or record batch of Arrow. `spec`: the map and the
    column of times, as for a file of Parquet, with the unit of integer times.

    Raises:
        ValueError: it is no frame, or a row cannot be read.
        Refused: the map is wrong, or names a column that the frame lacks.
    """
    from dotr.streams.formats.csv.map import check_columns
    from dotr.streams.formats.json.records import ObjectReader
    from dotr.streams.formats.mapping.map_terms import columns_of
    from dotr.streams.formats.mapping.maps import cells_of_time, check_origins, parsed_map
    from dotr.streams.formats.parquet import column_of, json_text

    names, rows = _rows(frame)
    check_origins(spec, "frame", None)
    paths = {cell for cell in (*cells_of_time(spec), *columns_of(parsed_map(spec).template)) if column_of(cell, names) not in (cell, "")}
    check_columns(spec, [*names, *paths])
    reader = ObjectReader(spec, columns=frozenset(names))
    # An integer has another time in another unit, and a date-time the same one.
    other = ObjectReader(replace(spec, unit=Unit.DAY if spec.unit is not Unit.DAY else Unit.SECOND), columns=frozenset(names))
    dated: bool | None = None
    elements: list[Element] = []
    for number, row in enumerate(rows):
        record = reader.record(number, number + 1, number, b"", row, (row,), True, None, False)
        if record.element is None:
            raise ValueError(f"row {number} of the frame, counted from 0: {record.why}: {json_text(row)}")
        if record.element.time or dated is None:
            dated = other.record(0, 1, 0, b"", row, (row,), False, None, False).time == record.element.time
        elements.append(record.element)
    return bool(dated), sorted(elements, key=lambda element: element.time)


def _rows(frame: object) -> tuple[list[str], Iterable[dict[str, Any]]]:
    """The names of the columns of a frame, and its rows as objects of typed values; None is empty."""
    from dotr.streams.formats.parquet import typed_values

    source: Any = frame
    package = type(frame).__module__.partition(".")[0]
    if package == "pyarrow" and hasattr(frame, "schema") and hasattr(frame, "columns"):
        names = [str(name) for name in source.schema.names]
        columns = [
            [None if value == "NaN" and hasattr(value, "datatype") else value for value in typed_values(each)] for each in source.columns
        ]
    elif package == "pandas" and hasattr(frame, "columns"):
        named = [name for name in source.index.names if name is not None and name not in source.columns]
        table = source.reset_index(level=named) if named else source
        names = [str(name) for name in table.columns]
        columns = [list(map(_typed, table.iloc[:, number].tolist())) for number in range(len(names))]
    else:
        raise ValueError(f"frame is no DataFrame of pandas and no table of Arrow, but a {type(frame).__name__}")
    return names, (dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True))


def _typed(value: Any) -> Any:
    """The typed value of a value in Python; None for None, NaN, NaT and NA.

    >>> [str(_typed(value)) for value in (7, 2.50, 1e-7, Decimal("1.50"), datetime(2024, 3, 1, 12, tzinfo=UTC), "7", float("nan"), True)]
    ['7', '2.5', '1e-7', '1.50', '2024-03-01T12:00:00Z', '7', 'None', 'True']
    """
    from dotr.streams.formats.mapping.map_terms import JsonNumber
    from dotr.streams.formats.parquet import DATE, DATE_TIME, DECIMAL, DOUBLE, moment_text

    if value is None or type(value).__name__ == "NAType" or (isinstance(value, float | datetime | Decimal) and value != value):
        return None
    match value:
        case bool() | str():
            return value
        case Integral():
            return JsonNumber(int(value))
        case float():
            text = repr(value).removesuffix(".0").replace("e-0", "e-")
            return DOUBLE(text.replace("inf", "INF"))
        case Decimal():
            return DECIMAL(f"{value:f}")
        case datetime():
            micros = (_without_zone(value) - EPOCH.replace(tzinfo=None)) // MICROSECOND
            return DATE_TIME(moment_text(micros) + ("" if value.tzinfo is None else "Z"))
        case date():
            return DATE(value.isoformat())
        case dict():
            return {str(name): _typed(each) for name, each in value.items()}
        case list() | tuple():
            return list(map(_typed, value))
        case _ if hasattr(value, "tolist"):  # an array or a number of numpy
            return _typed(value.tolist())
        case _:
            return str(value)
