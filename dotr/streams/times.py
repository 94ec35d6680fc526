"""Parsers of input times: ISO 8601 date-times, and integers of a unit (interface.md, A stream
element).

Idea: a date-time is the sum of its day and its time of day, zone included. Both repeat in a stream,
so each is cached by its text.
Cost: 0.25 µs where both are cached, a few µs otherwise; memory is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from typing import Final, Never, TypeAlias

from dotr.model.time import LAST_MICRO, UNITS, Micros, Unit
from dotr.syntax.quantities import InvalidDuration, parse_duration

_DAY: Final = Unit.DAY.value
_MINUTE: Final = Unit.MINUTE.value
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}+")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}+(\.[0-9]{1,30}(?:[eE][+-]?[0-9]{1,4})?|[eE][+-]?[0-9]{1,4})?")
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+\.?)\s*")
_LONGEST: Final = 200
"""Limit of the characters of an integer or a duration."""
LEAST: Final = (date(1, 1, 1).toordinal() - _EPOCH) * _DAY
BEYOND: Final = (date(9999, 12, 31).toordinal() + 1 - _EPOCH) * _DAY
_BOUND: Final = 1 << 17
"""Limit of the cached days and times of day: more than the seconds of a day."""

_days: dict[str, Micros] = {}
_clocks: dict[str, Micros] = {}


def parse_date_time(text: str) -> Micros:
    """Time of an ISO 8601 date-time (µs since 1970), UTC without a zone; raises ValueError with the
    reason.

    Digits beyond microseconds are cut off; second 60, a leap second, is the first instant of the
    next minute.

    >>> parse_date_time("2014-08-01T07:50:00"), parse_date_time("2014-08-01 09:50:00+02:00")
    (1406879400000000, 1406879400000000)
    >>> parse_date_time("1969-12-31T23:59:59.9999999Z")
    -1
    >>> parse_date_time("2016-12-31T23:59:60Z") == parse_date_time("2017-01-01T00:00:00Z") == parse_date_time("2016-12-31T24:00:00Z")
    True
    >>> parse_date_time("2014-02-30T00:00:00")
    Traceback (most recent call last):
    ValueError: there is no 2014-02-30
    """
    try:
        return _days[text[:11]] + _clocks[text[11:]]
    except KeyError:
        return _parse_and_cache(text)


def _parse_and_cache(text: str) -> Micros:
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise ValueError(f"{shown!r} is no ISO 8601 date-time" if shown else "it is empty")
    try:
        day = (date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH) * _DAY
    except ValueError:
        raise ValueError(f"there is no {text[:10]}") from None
    hour, minute, second = int(found[4]), int(found[5]), int(found[6] or 0)
    fraction = int((found[7] or "")[:6].ljust(6, "0"))
    seconds = (hour * 60 + minute) * 60 + second
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and (seconds > 86_400 or fraction)):
        raise ValueError(f"there is no time of day {text[11:]}")
    clock = seconds * 1_000_000 + fraction - _zone(found[8] or "Z") * _MINUTE
    if not LEAST <= day + clock < BEYOND:
        raise ValueError(f"{text} lies outside the years 1 to 9999")
    if found[1] not in ("0001", "9999"):  # not cached: the sum may be out of range, and is checked each time
        for known, key, value in ((_days, text[:11], day), (_clocks, text[11:], clock)):
            if len(known) >= _BOUND:
                known.clear()
            known[key] = value
    return day + clock


def _zone(text: str) -> int:
    """Minutes of a zone east of UTC."""
    if text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[-2:] if len(text) > 3 else 0)
    if minutes > 14 * 60 or int(text[-2:] if len(text) > 3 else 0) > 59:
        raise ValueError(f"there is no zone {text}")
    return -minutes if text[0] == "-" else minutes


def has_zone(text: str) -> bool:
    """True if a text is a date-time with a zone.

    >>> has_zone("2024-03-01T07:00:00Z"), has_zone("2024-03-01 07:00"), has_zone("1709276400")
    (True, False, False)
    """
    found = _DATE_TIME.fullmatch(text)
    return found is not None and found[8] is not None


def zoneless(text: str, time: Micros) -> bool:
    """True if a text contains a time as a date-time without a zone.

    >>> zoneless("7,2014-08-01 07:50", 1406879400_000_000), zoneless("7,2014-08-01 09:50+02:00", 1406879400_000_000)
    (True, False)
    """
    return date_times_in(text).get(time) is False


def date_times_in(text: str) -> dict[Micros, bool]:
    """Times (µs since 1970) of the date-times in a text, with True for one that has a zone.

    A comma behind the seconds may begin their fraction or the next column, so both readings count.

    >>> date_times_in("7,2014-08-01 07:50,x"), date_times_in('{"at": "2014-08-01T09:50+02:00"}')
    ({1406879400000000: False}, {1406879400000000: True})
    >>> list(date_times_in("1970-01-01T00:00:01,5"))
    [1500000, 1000000]
    """
    times: dict[Micros, bool] = {}
    for found in _DATE_TIME.finditer(text):
        comma = found.start(7) - 1
        readings = [found[0]] if found[7] is None or text[comma] == "." else [found[0], text[found.start() : comma]]
        for reading in readings:
            try:
                time = parse_date_time(reading)
            except ValueError:
                continue
            times[time] = found[8] is not None or times.get(time, False)
    return times


def parse_integer(value: int, unit: Unit) -> Micros:
    """Time (µs since 1970) of an integer of a unit; raises ValueError beyond the range of times.

    >>> parse_integer(-3, Unit.SECOND)
    -3000000
    """
    micros = value * unit._value_  # `value` is a property, three times as slow
    if not -LAST_MICRO < micros < LAST_MICRO:
        raise ValueError(f"{value} is no time: it is out of range; is time.unit right?")
    return micros


_SIZES: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WORDS: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def unit_by_size(value: int, unit: Unit) -> str:
    """The unit (s, ms, us or ns) in which an integer since 1970 lies between 1990 and 2100; empty
    where that is the declared one, or none.

    >>> unit_by_size(1709294400, Unit.SECOND), unit_by_size(1709294400_000, Unit.SECOND), unit_by_size(1709294400, Unit.MILLISECOND)
    ('', 'ms', 's')
    """
    found = next((word for word, size in _SIZES.items() if 631_152_000 * size <= value < 4_102_444_800 * size), "")
    return "" if found and UNITS.get(found) is unit else found


def other_unit(found: str, unit: Unit, *, mapped: bool) -> tuple[str, str]:
    """The warning of integers of a unit found by `unit_by_size`, and the way out.

    `mapped`: the input has a map, and so may have a format of times.

    >>> print(*other_unit("ns", Unit.MICROSECOND, mapped=True), sep="; ")
    look like nanoseconds since 1970, and are read as microseconds; If they are, write time_format: unix_ns for this input.
    >>> print(*other_unit("ms", Unit.SECOND, mapped=False), sep="; ")
    look like milliseconds since 1970, and are read as seconds; If they are, write time: { unit: ms }.
    """
    declared = next(word for word, each in UNITS.items() if each is unit)
    told = f"look like {_WORDS[found]} since 1970, and are read as {_WORDS.get(declared, f'{unit.name.lower()}s')}"
    form = f"time_format: unix{'' if found == 's' else f'_{found}'} for this input"
    of_all = f"time: {{ unit: {found} }}"
    if not mapped:
        return told, f"If they are, write {of_all}." if found in UNITS else "If they are, write them as date-times, or as microseconds."
    return told, f"If they are, write {form}{f', or {of_all} for all' if found in UNITS else ''}."


def parse_number(digits: str, unit: Unit) -> Micros:
    """Time of a number of a unit, with a fraction or an exponent, cut to whole µs; raises
    ValueError beyond the range of times.

    >>> parse_number("1.5", Unit.SECOND), parse_number("1.7e3", Unit.MILLISECOND)
    (1500000, 1700000)
    """
    if len(digits) > 40 or abs(int(digits.lower().partition("e")[2] or 0)) > 40:
        raise ValueError(f"{digits[:40]} is no time: it is out of range; is time.unit right?")
    micros = int(Fraction(digits) * unit.value // 1)
    if not -LAST_MICRO < micros < LAST_MICRO:
        raise ValueError(f"{digits} is no time: it is out of range; is time.unit right?")
    return micros


def parse_time(value: str | int, unit: Unit) -> Micros:
    """Time (µs since 1970) of an integer, or of a text with an integer or a date-time.

    Raises ValueError with the reason.

    >>> parse_time("10", Unit.SECOND), parse_time(10, Unit.MILLISECOND), parse_time("1970-01-01 00:00:10", Unit.SECOND)
    (10000000, 10000, 10000000)
    >>> parse_time("soon", Unit.SECOND)
    Traceback (most recent call last):
    ValueError: 'soon' is neither an integer nor an ISO 8601 date-time
    """
    if not isinstance(value, str):
        return parse_integer(value, unit)
    try:
        return _days[value[:11]] + _clocks[value[11:]]
    except KeyError:
        if _INTEGER.fullmatch(value):
            return parse_integer(int(value), unit)
        return _parse_and_cache(value if value[:1].isdigit() else _no_time(value))


def _no_time(text: str) -> Never:
    raise ValueError(f"{text[:40]!r} is neither an integer nor an ISO 8601 date-time" if text else "it is empty") from None


def parse_cell_time(value: str, unit: Unit) -> Micros:
    """Time (µs since 1970) of a text as `parse_time` reads it, or as a number with a fraction or an
    exponent.

    >>> parse_cell_time("1709294400.5", Unit.SECOND), parse_cell_time("1.5e3", Unit.MILLISECOND), parse_cell_time("10", Unit.DAY)
    (1709294400500000, 1500000, 864000000000)
    """
    try:
        return _days[value[:11]] + _clocks[value[11:]]
    except KeyError:
        found = _NUMBER.fullmatch(value)
        if found is not None:
            return parse_number(value, unit) if found[1] else parse_integer(int(value), unit)
        return _parse_and_cache(value if value[:1].isdigit() else _no_time(value))


def parse_delay(value: str | int, unit: Unit = Unit.SECOND) -> Micros:
    """Declared lateness in µs: quantities with units, or an integer of the stream's unit.

    Raises ValueError with the reason.

    >>> parse_delay("0 s"), parse_delay("1.5 min"), parse_delay("1 h 30 min"), parse_delay(2), parse_delay("2")
    (0, 90000000, 5400000000, 2000000, 2000000)
    >>> parse_delay("5 mim")
    Traceback (most recent call last):
    ValueError: unknown unit mim: units are us, ms, s, min, h and d. Did you mean min?
    """
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no length of time: write 0 s, 30 s or 5 min")
    try:
        delay = parse_duration(value, bare=unit) if isinstance(value, str) else value * unit.value
    except InvalidDuration as error:
        if error.unit:
            raise ValueError(
                f"unknown unit {error.unit}: units are us, ms, s, min, h and d. {error.hint.partition('. ')[2]}".rstrip()
            ) from None
        raise ValueError(f"{value!r} is {error}" if error.is_general else str(error)) from None
    if delay < 0:
        raise ValueError("a delay is not negative")
    if delay >= LAST_MICRO:
        raise ValueError(f"{value!r} is longer than time")
    return delay


ParseTime: TypeAlias = Callable[[str, Unit], Micros]
"""A function from the text of a time and the unit of integers to µs since 1970; raises ValueError
with the reason."""
