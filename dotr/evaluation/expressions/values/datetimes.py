"""xsd:dateTime, xsd:date, xsd:time and durations as values (XSD 1.1 part 2, appendices D and E).

Kept by hand: Python's `datetime` has no years beyond 1 to 9999, no `24:00:00`, no seconds finer
than microseconds and no durations of months.
Invariant: `instant` is the exact number of seconds since 1970-01-01T00:00:00Z; a value without a
zone counts as UTC (as in the stream; XPath leaves the implicit zone to the implementation). Values
compare by instant.
Cost: reading a text takes a few µs.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias, TypeVar

from dotr.evaluation.expressions.values.decimals import EXACT, plain
from dotr.model import dataclass
from dotr.model.terms import XSD

Seconds: TypeAlias = int | Decimal


@dataclass(frozen=True, slots=True)
class TemporalValue:
    """A date, a time, or both, with the fields as written.

    `zone`: the offset from UTC in minutes, or None. `instant`: seconds since 1970-01-01T00:00:00Z.
    The setters of the slots take half as long as the constructor of a frozen class, which calls
    `object.__setattr__`.
    """

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: Seconds
    zone: int | None
    instant: Seconds

    datatype: ClassVar[str] = ""

    def __init__(
        self, year: int, month: int, day: int, hour: int, minute: int, second: Seconds, zone: int | None, instant: Seconds
    ) -> None:
        _set_year(self, year)
        _set_month(self, month)
        _set_day(self, day)
        _set_hour(self, hour)
        _set_minute(self, minute)
        _set_second(self, second)
        _set_zone(self, zone)
        _set_instant(self, instant)


_set_year, _set_month, _set_day, _set_hour, _set_minute, _set_second, _set_zone, _set_instant = [
    getattr(TemporalValue, name).__set__ for name in TemporalValue.__slots__
]


class DateTime(TemporalValue):
    """An xsd:dateTime."""

    __slots__ = ()
    datatype = XSD + "dateTime"

    def __str__(self) -> str:
        return f"{_date(self)}T{_time(self)}{_zone(self.zone)}"


class Date(TemporalValue):
    """An xsd:date; its instant is that of its start."""

    __slots__ = ()
    datatype = XSD + "date"

    def __str__(self) -> str:
        return f"{_date(self)}{_zone(self.zone)}"


class Time(TemporalValue):
    """An xsd:time; its date is 1972-12-31, as in XPath."""

    __slots__ = ()
    datatype = XSD + "time"

    def __str__(self) -> str:
        return f"{_time(self)}{_zone(self.zone)}"


@dataclass(frozen=True, slots=True)
class Duration:
    """An xsd:duration: months and seconds, both of one sign."""

    months: int
    seconds: Seconds

    datatype: ClassVar[str] = XSD + "duration"

    def __str__(self) -> str:
        """The canonical lexical form.

        >>> print(Duration(14, 93784), DayTime(0, Decimal("-0.5")), YearMonth(-2, 0), DayTime(0, 0), YearMonth(0, 0))
        P1Y2M1DT2H3M4S -PT0.5S -P2M PT0S P0M
        """
        years, months = divmod(abs(self.months), 12)
        absolute = Decimal(self.seconds).copy_abs()
        whole_seconds = int(absolute)
        seconds = EXACT.subtract(absolute, Decimal(whole_seconds - whole_seconds % 60))
        hours, minutes = divmod(whole_seconds // 60, 60)
        days, hours = divmod(hours, 24)
        date = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
        time = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M")) if n) + (f"{plain(seconds)}S" if seconds else "")
        sign = "-" if self.months < 0 or self.seconds < 0 else ""
        if not date and not time:
            return "P0M" if isinstance(self, YearMonth) else "PT0S"
        return f"{sign}P{date}{'T' + time if time else ''}"


class DayTime(Duration):
    """An xsd:dayTimeDuration: seconds only."""

    __slots__ = ()
    datatype = XSD + "dayTimeDuration"


class YearMonth(Duration):
    """An xsd:yearMonthDuration: months only."""

    __slots__ = ()
    datatype = XSD + "yearMonthDuration"


_YMD: Final = r"(-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-([0-9]{2})-([0-9]{2})"
_HMS: Final = r"([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)"
_ZONE: Final = r"(Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])?"
_DATE_TIME: Final = re.compile(f"{_YMD}T{_HMS}{_ZONE}")
_DATE: Final = re.compile(f"{_YMD}{_ZONE}")
_TIME: Final = re.compile(f"{_HMS}{_ZONE}")
_ZONE_TEXT: Final = re.compile(_ZONE)
_DURATION: Final = re.compile(
    r"(-)?P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_LONGEST_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar (eras of 400 years that begin on 1
    March).

    >>> days(1970, 1, 1), days(2000, 3, 1), days(0, 1, 1)
    (0, 11017, -719528)
    """
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil(number: int) -> tuple[int, int, int]:
    """Year, month and day of a day number: the inverse of `days`."""
    era, of_era = divmod(number + 719468, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year + era * 400 + (month <= 2), month, day


def read_date_time(text: str) -> DateTime | None:
    """The value of the text of an xsd:dateTime; None if ill-formed.

    >>> read_date_time("2014-08-01T24:00:00+02:00").instant == read_date_time("2014-08-01T22:00:00").instant
    True
    """
    match = _DATE_TIME.fullmatch(text)
    return _temporal_value(DateTime, match[1], match[2], match[3], match[4], match[5], match[6], match[7]) if match else None


_EPOCH_DAY: Final = 719_163
"""1970-01-01 as `datetime` counts days."""


def read_usual_date_time(text: str) -> DateTime | None:
    """The value of a text such as `2014-08-01T12:34:56.250+02:00`; None for any other: an
    ill-formed one, the year 0, one of five digits, or 24 o'clock.

    >>> read_usual_date_time("2014-08-01T12:34:56Z") == read_date_time("2014-08-01T12:34:56Z")
    True
    """
    if text[4:17:3] != "--T::" or not text.isascii():  # the signs of "2014-08-01T12:34:56", every third character
        return None
    try:
        moment = datetime.fromisoformat(text[:19])
    except ValueError:
        return None
    second: Seconds = moment.second
    start = (moment.toordinal() - _EPOCH_DAY) * 86400 + moment.hour * 3600 + moment.minute * 60
    end, zone = len(text), None
    if text[-1] == "Z":
        end, zone = end - 1, 0
    elif text[-6] in "+-":
        end, zone = end - 6, _offset(text[-6:])
        if zone is None or abs(zone) > 840:
            return None
        start -= zone * 60
    instant: Seconds = start + moment.second
    if end > 19:
        if text[19] != "." or not (fraction := text[20:end]).isdigit():
            return None
        if fraction.strip("0"):
            second = Decimal(text[17:end])
            instant = EXACT.add(second, start)
    return DateTime(moment.year, moment.month, moment.day, moment.hour, moment.minute, second, zone, instant)


def read_date(text: str) -> Date | None:
    """The value of the text of an xsd:date; None if ill-formed."""
    match = _DATE.fullmatch(text)
    return _temporal_value(Date, match[1], match[2], match[3], "00", "00", "00", match[4]) if match else None


def read_time(text: str) -> Time | None:
    """The value of the text of an xsd:time; None if ill-formed."""
    match = _TIME.fullmatch(text)
    value = _temporal_value(Time, "1972", "12", "31", match[1], match[2], match[3], match[4]) if match else None
    if value is None or value.day == 31:
        return value
    return _temporal_value(Time, "1972", "12", "31", "00", "00", "00", match[4] if match else None)


_Kind = TypeVar("_Kind", bound=TemporalValue)


def _temporal_value(kind: type[_Kind], *parts: str | None) -> _Kind | None:
    """A temporal value from the parts of its text: year, month, day, hour, minute, second, zone."""
    if any(part is not None and len(part) > _LONGEST_PART for part in parts):
        return None
    year, month, day, hour, minute = (int(part or "0") for part in parts[:5])
    second, zone = _seconds(parts[5] or "0"), _offset(parts[6])
    if not 1 <= month <= 12 or not 1 <= day <= _LONGEST_MONTH[month - 1] or hour > 24 or minute > 59 or second >= 60:
        return None
    if (month, day) == (2, 29) and (year % 4 or (year % 100 == 0 and year % 400)):
        return None
    if hour == 24:
        if minute or second:
            return None
        year, month, day = civil(days(year, month, day) + 1)
        hour = 0
    if zone is not None and abs(zone) > 840:
        return None
    start = days(year, month, day) * 86400 + hour * 3600 + minute * 60 - (zone or 0) * 60
    instant = start + second if type(second) is int else EXACT.add(Decimal(start), Decimal(second))
    return kind(year, month, day, hour, minute, second, zone, instant)


_LONGEST_PART: Final = 4000


def _seconds(text: str) -> Seconds:
    return _whole_as_int(Decimal(text)) if "." in text else int(text)


def _whole_as_int(seconds: Seconds) -> Seconds:
    """The same number, as an int if whole."""
    return int(seconds) if type(seconds) is Decimal and seconds == seconds.to_integral_value() else seconds


@lru_cache(4096)
def _offset(text: str | None) -> int | None:
    """The minutes of a zone; None of no zone, and of another text."""
    if not text or _ZONE_TEXT.fullmatch(text) is None:
        return None
    if text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    return -minutes if text[0] == "-" else minutes


def read_duration(text: str) -> Duration | None:
    """The value of the text of an xsd:duration; None if ill-formed.

    >>> read_duration("-P1Y2M3DT4H5M6.5S")
    Duration(months=-14, seconds=Decimal('-273906.5'))
    """
    match = _DURATION.fullmatch(text)
    if match is None or len(text) > _LONGEST_PART:
        return None
    years, months, days_, hours, minutes = (int(part or "0") for part in match.groups()[1:6])
    seconds = EXACT.add(Decimal(days_ * 86400 + hours * 3600 + minutes * 60), Decimal(match[7] or "0"))
    sign = -1 if match[1] else 1
    return Duration(sign * (years * 12 + months), _whole_as_int(EXACT.multiply(seconds, Decimal(sign))))


def read_day_time(text: str) -> DayTime | None:
    """The value of the text of an xsd:dayTimeDuration; None if ill-formed."""
    value = read_duration(text) if "Y" not in text and "M" not in text.partition("T")[0] else None
    return None if value is None else DayTime(0, value.seconds)


def read_year_month(text: str) -> YearMonth | None:
    """The value of the text of an xsd:yearMonthDuration; None if ill-formed."""
    value = read_duration(text) if "D" not in text and "T" not in text else None
    return None if value is None else YearMonth(value.months, 0)


def add_duration(moment: TemporalValue, duration: Duration) -> DateTime | Date | None:
    """A date-time or a date plus a duration (XSD 1.1, appendix E.3.3); None for a time.

    Months are added first, with the day limited to the length of the month, then seconds.
    Raises `DecimalException` for a result with too many digits.
    """
    if isinstance(moment, Time):
        return None
    years, month = divmod(moment.month - 1 + duration.months, 12)
    year, month = moment.year + years, month + 1
    length = days(year + month // 12, month % 12 + 1, 1) - days(year, month, 1)
    start = days(year, month, min(moment.day, length)) * 86400 + moment.hour * 3600 + moment.minute * 60
    local = EXACT.add(Decimal(start), EXACT.add(Decimal(moment.second), Decimal(duration.seconds)))
    number = int(local.to_integral_value(ROUND_FLOOR)) // 86400
    rest = EXACT.subtract(local, Decimal(number * 86400))
    year, month, day = civil(number)
    if isinstance(moment, Date):
        return Date(year, month, day, 0, 0, 0, moment.zone, number * 86400 - (moment.zone or 0) * 60)
    whole = int(rest)
    second = EXACT.subtract(rest, Decimal(whole - whole % 60))
    instant = EXACT.subtract(local, Decimal((moment.zone or 0) * 60))
    return DateTime(year, month, day, whole // 3600, whole % 3600 // 60, _whole_as_int(second), moment.zone, _whole_as_int(instant))


def difference(later: TemporalValue, earlier: TemporalValue) -> DayTime:
    """The duration from the earlier instant to the later one. Raises `DecimalException`."""
    return DayTime(0, _whole_as_int(EXACT.subtract(Decimal(later.instant), Decimal(earlier.instant))))


def day_time_of(duration: Duration, seconds: Decimal) -> DayTime | None:
    """A dayTimeDuration of a number of seconds; None for more digits than a text may have."""
    return DayTime(0, _whole_as_int(seconds)) if seconds.adjusted() < _LONGEST_PART else None


def _date(moment: TemporalValue) -> str:
    sign = "-" if moment.year < 0 else ""
    return f"{sign}{abs(moment.year):04}-{moment.month:02}-{moment.day:02}"


def _time(moment: TemporalValue) -> str:
    second = plain(moment.second)
    return f"{moment.hour:02}:{moment.minute:02}:{'0' if moment.second < 10 else ''}{second}"


def _zone(zone: int | None) -> str:
    if zone is None:
        return ""
    if zone == 0:
        return "Z"
    return f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}:{abs(zone) % 60:02}"


def zone_name(moment: TemporalValue) -> str:
    """The result of TZ(): `Z`, an offset such as `-05:00`, or empty."""
    return _zone(moment.zone) if moment.zone is not None else ""
