"""Times as text and as terms: ISO 8601 in UTC, or integers of a unit (interface.md, Configuration)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from dotr.model.terms import XSD, Term
from dotr.model.time import Clock, Micros

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso(micros: Micros) -> str:
    """The date-time in UTC, with a fraction only where there is one.

    >>> iso(1_406_879_400_000_000), iso(1_500_000)
    ('2014-08-01T07:50:00Z', '1970-01-01T00:00:01.5Z')
    """
    text = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def format_time(micros: Micros, clock: Clock) -> str | int:
    """A time as the pipeline writes it; a time that the unit cannot hold is a date-time.

    >>> written(12_000_000, Clock()), written(12_500_000, Clock())
    (12, '1970-01-01T00:00:12.5Z')
    """
    if clock.dated or micros % clock.unit.value:
        return iso(micros)
    return micros // clock.unit.value


@lru_cache(maxsize=4096)
def time_term(micros: Micros, clock: Clock) -> Term:
    """`time(L)`: an xsd:dateTime, or an xsd:integer where the pipeline writes integers.

    >>> time_term(12_000_000, Clock())
    '"12"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    value = format_time(micros, clock)
    return f'"{value}"^^<{XSD}integer>' if isinstance(value, int) else f'"{value}"^^<{XSD}dateTime>'
