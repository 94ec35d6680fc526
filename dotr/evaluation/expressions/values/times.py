"""Times of the stream as text and as terms: ISO 8601 in UTC, or integers of a unit (interface.md,
Configuration).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from dotr.model.calendars import zone_of
from dotr.model.terms import XSD, Term
from dotr.model.time import Clock, Micros, Unit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LAST_TIME: Final[Micros] = 253_402_300_800_000_000 - 1
"""The last microsecond of the year 9999."""

_FIRST_TIME: Final[Micros] = -62_135_596_800_000_000
"""The first microsecond of the year 1."""

_CYCLE: Final[Micros] = 146_097 * 86_400_000_000
"""The length of 400 years, after which dates repeat."""


def iso(micros: Micros, zone: str = "") -> str:
    """The ISO 8601 date-time of a time in µs since 1970, with the shortest fraction, in UTC or a
    zone. A year after 9999, in which no element is, but what comes after the last one may be, has
    more digits.

    >>> iso(1_406_879_400_000_000), iso(1_500_000), iso(LAST_TIME + 1)
    ('2014-08-01T07:50:00Z', '1970-01-01T00:00:01.5Z', '10000-01-01T00:00:00Z')
    >>> iso(1_406_879_400_000_000, "Europe/Berlin"), iso(0, "Europe/Lisbon"), iso(1, "UTC"), iso(_FIRST_TIME, "America/Lima")
    ('2014-08-01T09:50:00+02:00', '1970-01-01T01:00:00+01:00', '1970-01-01T00:00:00.000001Z', '0001-01-01T00:00:00Z')
    """
    if zone and (found := zone_of(zone)).offsets != (0,):
        minutes = found.minutes(micros)
        if (local := micros + minutes * Unit.MINUTE.value) >= _FIRST_TIME:
            return f"{iso(local)[:-1]}{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    cycles = max(0, micros - LAST_TIME + _CYCLE - 1) // _CYCLE
    text = (_EPOCH + timedelta(microseconds=micros - cycles * _CYCLE)).replace(tzinfo=None).isoformat()
    if cycles:
        text = f"{int(text[:4]) + 400 * cycles}{text[4:]}"
    return (text.rstrip("0") if "." in text else text) + "Z"


def format_time(micros: Micros, clock: Clock) -> str | int:
    """A time in µs since 1970 in the format of a clock, as it is shown: a date-time in its zone, or
    an integer of its unit.

    A time that is no multiple of the unit is a date-time.

    >>> format_time(12_000_000, Clock()), format_time(12_500_000, Clock())
    (12, '1970-01-01T00:00:12.5Z')
    """
    if clock.dated or micros % clock.unit.value:
        return iso(micros, clock.zone)
    return micros // clock.unit.value


@lru_cache(maxsize=4096)
def time_term(micros: Micros, clock: Clock) -> Term:
    """The term of `time(L)`: an xsd:integer, or an xsd:dateTime in UTC.

    >>> time_term(12_000_000, Clock(zone="Europe/Berlin")), time_term(1, Clock(zone="Europe/Berlin"))[1:28]
    ('"12"^^<http://www.w3.org/2001/XMLSchema#integer>', '1970-01-01T00:00:00.000001Z')
    """
    return shown_time_term(micros, replace(clock, zone="") if clock.zone else clock)


def shown_time_term(micros: Micros, clock: Clock) -> Term:
    """The result of `format_time` as an xsd:integer or an xsd:dateTime."""
    value = format_time(micros, clock)
    return f'"{value}"^^<{XSD}integer>' if isinstance(value, int) else f'"{value}"^^<{XSD}dateTime>'
