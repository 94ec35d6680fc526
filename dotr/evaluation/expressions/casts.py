"""Casts to XML Schema data types (SPARQL 1.1, section 17.5; XPath functions, section 19.1).

Casts map values to values; None is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import isnan
from typing import Any, Final

from dotr.evaluation.expressions.operators import to_double, to_single
from dotr.evaluation.expressions.values.datetimes import Date, DateTime, DayTime, Duration, TemporalValue, Time, YearMonth
from dotr.evaluation.expressions.values.decimals import plain
from dotr.evaluation.expressions.values.terms import (
    NUMERIC,
    NUMERIC_READERS,
    READERS,
    BlankNode,
    Iri,
    Lang,
    Single,
    TripleTerm,
    Unknown,
    Value,
    scientific,
    shortest_digits,
)
from dotr.evaluation.limits import fits
from dotr.model.terms import XSD, literal_parts

_SPACE: Final = " \t\n\r"


def to_string(value: Any) -> str | None:
    """xsd:string of a literal or an IRI; a double between 1e-6 and 1e6 is written without exponent.

    None for other terms, and for a text above the limit of literals (`literal_limits`).

    >>> to_string(1.0), to_string(1e7), to_string(Decimal("2.50")), to_string(True)
    ('1', '1.0E7', '2.5', 'true')
    """
    text = _text(value)
    return text if text is not None and fits(text) else None


def _text(value: Any) -> str | None:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Decimal:
        return plain(value)
    if kind is float or kind is Single:
        if not value:
            return "-0" if str(float(value))[0] == "-" else "0"
        return plain(Decimal(shortest_digits(value))) if 1e-6 <= abs(value) < 1e6 else scientific(value)
    if kind is Iri:
        return str(value.term[1:-1])
    if kind is Unknown:
        return literal_parts(value.term)[0]
    if kind is Lang:
        return str(value.text)
    return None if kind is BlankNode or kind is TripleTerm else str(value)


def _to_number(datatype: str, value: Any) -> Value | None:
    kind = type(value)
    if kind is str:
        return NUMERIC_READERS[datatype](value.strip(_SPACE))
    if kind is bool:
        value = int(value)
    elif kind not in NUMERIC:
        return None
    name = datatype.removeprefix(XSD)
    if name == "double":
        return to_double(value)
    if name == "float":
        return to_single(value)
    if isinstance(value, float):
        if value - value != 0:
            return None
        value = Decimal(value)
    if name == "decimal":
        return Decimal(value)
    return NUMERIC_READERS[datatype](plain(int(value)))


def to_boolean(value: Any) -> bool | None:
    """xsd:boolean of a boolean, a number or a string."""
    kind = type(value)
    if kind is bool:
        return bool(value)
    if kind in NUMERIC:
        return bool(value != 0 and not isnan(value))
    read = READERS[XSD + "boolean"](value.strip(_SPACE)) if kind is str else None
    return read if isinstance(read, bool) else None


def _to_temporal(datatype: str, value: Any) -> Value | None:
    kind = type(value)
    if kind is str:
        return READERS[datatype](value.strip(_SPACE))
    if not isinstance(value, TemporalValue):
        return None
    if kind.datatype == datatype:
        return value  # type: ignore[return-value]
    text = str(value)
    zone = text[len(text) - (0 if value.zone is None else 1 if value.zone == 0 else 6) :]
    if datatype == XSD + "dateTime" and kind is Date:
        return READERS[datatype](f"{text[: len(text) - len(zone)]}T00:00:00{zone}")
    if kind is DateTime and datatype in (Date.datatype, Time.datatype):
        date, _, time = text.partition("T")
        return READERS[datatype](date + zone if datatype == Date.datatype else time)
    return None


def _to_duration(datatype: str, value: Any) -> Value | None:
    if type(value) is str:
        return READERS[datatype](value.strip(_SPACE))
    if not isinstance(value, Duration):
        return None
    if datatype == DayTime.datatype:
        return DayTime(0, value.seconds)
    return YearMonth(value.months, 0) if datatype == YearMonth.datatype else Duration(value.months, value.seconds)


def _to_datatype(cast: Callable[[str, Any], Value | None], datatype: str) -> Callable[[Any], Value | None]:
    return lambda value: cast(datatype, value)


CASTS: Final[dict[str, Callable[[Any], Value | None]]] = {
    f"<{datatype}>": cast
    for datatype, cast in {
        XSD + "string": to_string,
        XSD + "boolean": to_boolean,
        **{name: _to_datatype(_to_number, name) for name in NUMERIC_READERS},
        **{kind.datatype: _to_datatype(_to_temporal, kind.datatype) for kind in (DateTime, Date, Time)},
        **{kind.datatype: _to_datatype(_to_duration, kind.datatype) for kind in (Duration, DayTime, YearMonth)},
    }.items()
}
"""The cast to each data type, by its name in an expression: the IRI in angle brackets."""
