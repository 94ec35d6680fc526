"""Events as a pandas DataFrame (needs the extra `dotr[pandas]`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from math import isinf
from typing import TYPE_CHECKING, Final

from dotr.api.events import IRI, Event, PythonValue
from dotr.errors.diagnostics import refuse

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
