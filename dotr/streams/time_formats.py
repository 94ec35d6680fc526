"""Parsers of times in a declared format or zone, for CSV and JSON inputs (records.md, 1).

Idea: a text is parsed by the standard library, and its time is cached. What the standard library
does not read, a fraction of more than six digits or 24:00 at the end of a day, is found by a
pattern of the format and replaced by what it reads.
Cost: 0.1 µs where the text is cached, about 8 µs otherwise; memory is bounded. A number since 1970
takes about 0.2 µs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.model.calendars import nearest_zone
from dotr.model.time import Micros, Unit
from dotr.streams.times import BEYOND, LEAST, ParseTime, date_times_in, has_zone, parse_cell_time, parse_time

_EPOCH_START: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_QUARTER: Final = 900_000_000
_CACHED: Final = 1 << 16
_SAMPLE: Final = datetime(2001, 2, 3, 14, 5, 6, 123_456, tzinfo=UTC)

UNIX: Final[Mapping[str, tuple[int, int]]] = {
    "unix": (1_000_000, 1),
    "unix_ms": (1_000, 1),
    "unix_us": (1, 1),
    "unix_ns": (1, 1_000),
}
"""The formats of numbers since 1970, each with its unit as a quotient of µs."""

_NUMBER: Final = re.compile(r"([+-]?(?=\.?[0-9])[0-9]{0,40})(?:\.([0-9]{0,40}))?(?:[eE]([+-]?[0-9]{1,3}))?")
_DIRECTIVE: Final = re.compile(r"%(.)|(\s+)|([^%\s]+)", re.DOTALL)
_PATTERNS: Final[Mapping[str, str]] = {
    "Y": "[0-9]{4}",
    "G": "[0-9]{4}",
    "f": "(?P<f>[0-9]{1,9})",
    "H": "(?P<H>[0-9]{1,2})",
    "j": "[0-9]{1,3}",
    "z": r"(?:Z|[+-][0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?)",
    "%": "%",
    **dict.fromkeys("mdIMSyUWVuw", "[0-9]{1,2}"),
}
"""The texts that a directive reads; of those that are not here, any letters and dots."""
_OF_DATES: Final = "YymdbBjaAGVuwUW"
"""The directives that are part of a date."""


@lru_cache(64)
def time_parser(form: str | None, zone: str | None, *, fractions: bool = False) -> ParseTime:
    """The parser of an input's times.

    Args:
        form: the format of times, as in `datetime.strptime`, or one of `UNIX`; None: ISO 8601, or
            integers of the unit.
        zone: the name of the zone that applies to date-times without one; None: UTC. A local time
            that occurs twice, when clocks are put back, is the first of the two. A local time that
            is skipped, when clocks are put forward, is an error.
        fractions: numbers of the unit may have a fraction or an exponent.

    >>> time_parser("%d.%m.%Y %H:%M", "Europe/Berlin")("01.03.2024 08:00", Unit.SECOND)
    1709276400000000
    >>> time_parser("%d/%b/%Y:%H:%M:%S.%f %z", None)("01/Mar/2024:24:00:00.000000000 +0100", Unit.SECOND)
    1709334000000000
    >>> time_parser("unix_ns", None)("1709276400123456789", Unit.SECOND), time_parser("unix", None)("1.7092764e9", Unit.DAY)
    (1709276400123456, 1709276400000000)
    >>> berlin = time_parser(None, "Europe/Berlin")
    >>> [berlin(text, Unit.SECOND) for text in ("2024-03-01 08:00", "2024-03-01T07:00Z", "1709276400")]
    [1709276400000000, 1709276400000000, 1709276400000000]
    >>> berlin("2024-10-27 02:30", Unit.SECOND) - berlin("2024-10-27 01:30", Unit.SECOND)
    3600000000
    >>> berlin("2024-03-31 02:30", Unit.SECOND)
    Traceback (most recent call last):
    ValueError: there is no 2024-03-31 02:30 in Europe/Berlin: clocks were put forward
    """
    plain = parse_cell_time if fractions else parse_time
    if form is None and zone is None:
        return plain
    if form is not None and form in UNIX:
        return _unix_parser(form)
    local: tzinfo = UTC
    if zone is not None:
        from zoneinfo import ZoneInfo  # most inputs name no zone

        local = ZoneInfo(zone)

    @lru_cache(_CACHED)
    def parsed(text: str) -> Micros:
        assert form is not None
        try:
            moment, days = datetime.strptime(text, form), 0
        except ValueError:
            moment, days = _beyond_library(text, form)
        return _micros(text, moment, local, zone, days)

    @lru_cache(_CACHED)
    def zoned(text: str, unit: Unit) -> Micros:
        time = plain(text, unit)
        if text[4:5] != "-" or has_zone(text):  # a number, or a date-time with a zone
            return time
        return _micros(text, _EPOCH_START + timedelta(microseconds=time), local, zone)

    return zoned if form is None else lambda text, unit: parsed(text)


def _unix_parser(form: str) -> ParseTime:
    """The parser of numbers since 1970, which are rounded down to whole µs."""
    factor, divisor = UNIX[form]

    def parse(text: str, unit: Unit) -> Micros:
        if len(text) <= 30 and text.isascii() and text.isdigit():
            time = int(text) * factor // divisor
        elif found := _NUMBER.fullmatch(text):  # -1.25e1 s are -125 * 10**6 * 10 // 10**2 µs
            whole, fraction, exponent = found[1], found[2] or "", int(found[3] or 0)
            power = exponent - len(fraction)
            time = int(whole + fraction) * factor * 10 ** max(0, power) // (divisor * 10 ** max(0, -power))
        else:
            raise ValueError(f"{_shown(text)} is no number ({form})" if text else "it is empty")
        if not LEAST <= time < BEYOND:
            raise ValueError(f"{_shown(text)} lies outside the years 1 to 9999 ({form})")
        return time

    return parse


@lru_cache(64)
def _pattern(form: str) -> re.Pattern[str]:
    """A pattern of the texts of a format, with its hour and fraction as groups `H` and `f`.

    >>> _pattern("%H:%M.%f").pattern
    '(?P<H>[0-9]{1,2}):[0-9]{1,2}\\\\.(?P<f>[0-9]{1,9})'
    """
    found, pattern = set[str](), ""
    for directive, space, text in _DIRECTIVE.findall(form):
        part = _PATTERNS.get(directive, r"[^\W\d_.]+\.?") if directive else r"\s+" if space else re.escape(text)
        pattern += part if directive not in found else part.replace(f"?P<{directive}>", "?:")
        found.add(directive)
    return re.compile(pattern)


def _beyond_library(text: str, form: str) -> tuple[datetime, int]:
    """The date-time of a text that the standard library does not read, and the days to add: its
    fraction has more than six digits, or it is 24:00 at the end of a day. Raises ValueError.

    >>> _beyond_library("2024-03-01 24:00", "%Y-%m-%d %H:%M")
    (datetime.datetime(2024, 3, 1, 0, 0), 1)
    """
    found = _pattern(form).fullmatch(text)
    if found is not None:
        groups, changed, edits = found.groupdict(), text, list[tuple[int, int, str]]()
        if len(groups.get("f") or "") > 6:
            edits.append((found.start("f") + 6, found.end("f"), ""))
        if groups.get("H") == "24":
            edits.append((*found.span("H"), "00"))
        for start, end, written in sorted(edits, reverse=True):  # the last first, so that the others keep their places
            changed = changed[:start] + written + changed[end:]
        days = int(groups.get("H") == "24")
        try:
            moment = datetime.strptime(changed, form)
        except ValueError:
            pass
        else:
            if not days or (moment.minute, moment.second, moment.microsecond) == (0, 0, 0):
                return moment, days
        day_form = date_form(form) or form
        if (day := _pattern(day_form).search(text)) is not None and not _is_date(day[0], day_form):
            raise ValueError(f"{_shown(day[0])} is no date ({day_form})")
    raise ValueError(f"{_shown(text)} is not of the form {form}" if text else "it is empty")


def _is_date(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _micros(text: str, moment: datetime, local: tzinfo, zone: str | None, days: int = 0) -> Micros:
    """The time in µs since 1970 of a date-time some days later, in the zone `local` unless it has
    its own."""
    try:
        moment += days * _DAY
        if moment.tzinfo is not None:
            return (moment.astimezone(UTC).replace(tzinfo=None) - _EPOCH_START) // _MICROSECOND
        universal = moment.replace(tzinfo=local).astimezone(UTC)
        if universal.astimezone(local).replace(tzinfo=None) != moment:
            raise ValueError(f"there is no {_shown(text)} in {zone}: clocks were put forward")
        return (universal.replace(tzinfo=None) - _EPOCH_START) // _MICROSECOND
    except OverflowError:
        raise ValueError(f"{_shown(text)} lies outside the years 1 to 9999") from None


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"


@lru_cache(64)
def date_form(form: str | None) -> str | None:
    """The part of a format from its first to its last directive of a date; None where it has none.

    >>> date_form("%H:%M, %d.%m.%Y"), date_form("%d/%b/%Y:%H:%M:%S %z"), date_form("unix"), date_form(None)
    ('%d.%m.%Y', '%d/%b/%Y', None, None)
    """
    ends = [found.span() for found in _DIRECTIVE.finditer(form or "") if found[1] and found[1] in _OF_DATES]
    return None if form is None or not ends else form[ends[0][0] : ends[-1][1]]


def local_zone(form: str | None, zone: str | None) -> str:
    """The zone of the times of a format that have no offset; empty where they are in UTC.

    >>> local_zone(None, "Europe/Berlin"), local_zone("%Y-%m-%d %H:%M %z", "Europe/Berlin"), local_zone(None, None)
    ('Europe/Berlin', '', '')
    """
    return "" if zone is None or form in UNIX or "%z" in (form or "") else zone


class RepeatedHour(NamedTuple):
    """A time that goes back within an hour that its zone has twice: the name of the input, the file
    and line, the hour, such as 02:00, and the zone."""

    input: str
    file: str
    line: int
    hour: str
    zone: str

    def warning(self) -> Diagnostic:
        """The warning (I126) of a run or a check."""
        message = f"input {self.input}: {self.file}:{self.line} goes back; from here on it may be the second {self.hour} of {self.zone}"
        hint = "It is read as the first. Write the offset into the times, or log in UTC: time_zone: UTC."
        return Diagnostic("I126", message, None, hint, Severity.WARNING)


_repeated: Final[dict[str, RepeatedHour]] = {}
"""The first time of each file, until a runtime drains them; workers of Spark send them with the
counts of a batch."""


def note_repeated_hour(name: str, file: str, line: int, time: Micros, zone: str, text: str) -> None:
    """Note a time (µs since 1970) that goes back, where its zone has its hour twice and the text of
    its record no offset. `name`: the name of the input; the first one of a file is kept."""
    if (hour := _repeated_hour(time // _QUARTER, zone)) and file not in _repeated and not date_times_in(text).get(time):
        _repeated[file] = RepeatedHour(name, file, line, hour, zone)


@lru_cache(4096)
def _repeated_hour(quarter: int, zone: str) -> str:
    """The hour, such as 02:00, of a quarter of an hour since 1970 that a zone has twice; empty for
    another.

    >>> _repeated_hour(1729988000 // 900, "Europe/Berlin"), _repeated_hour(1729980000 // 900, "Europe/Berlin")
    ('02:00', '')
    """
    from zoneinfo import ZoneInfo

    local = datetime.fromtimestamp(quarter * 900, ZoneInfo(zone)).replace(fold=0)
    return f"{local:%H}:00" if local.utcoffset() != local.replace(fold=1).utcoffset() else ""


def drain_repeated_hours() -> tuple[RepeatedHour, ...]:
    """The times that were noted since the last call.

    >>> note_repeated_hour("in", "a.csv", 7, 1729988000_000_000, "Europe/Berlin", "7;27.10.2024 02:13")
    >>> [each.line for each in drain_repeated_hours()], drain_repeated_hours()
    ([7], ())
    """
    found = tuple(_repeated.values())
    _repeated.clear()
    return found


def check_time_format(form: str) -> None:
    """Check a format of times; raises ValueError with the reason.

    >>> check_time_format("%d.%m.%Y %H:%M:%S.%f %z")
    >>> check_time_format("unix_ms")
    >>> check_time_format("%H:%M")
    Traceback (most recent call last):
    ValueError: %H:%M has no year: a time needs its date, such as %Y-%m-%d
    >>> check_time_format("%Y-%M-%d")
    Traceback (most recent call last):
    ValueError: %Y-%M-%d has no month: %m is the month, %M the minute
    >>> check_time_format("%Y-%m-%d %H:%M %Z")
    Traceback (most recent call last):
    ValueError: the name of a zone (%Z) tells no time: write %z for offsets such as +0100, or leave it out and name the zone as time_zone
    """
    if form in UNIX:
        return
    directives = [directive for directive, _, _ in _DIRECTIVE.findall(form)]
    if "Z" in directives:
        raise ValueError(
            "the name of a zone (%Z) tells no time: write %z for offsets such as +0100, or leave it out and name the zone as time_zone"
        )
    if "s" in directives:
        raise ValueError(f"{form} has seconds since 1970: write unix (unix_ms, unix_us, unix_ns)")
    try:
        read = datetime.strptime(_SAMPLE.strftime(form), form)
    except ValueError as error:
        raise ValueError(f"{form!r} is no form of a time: {error}") from None
    for part in ("year", "month", "day"):
        if getattr(read, part) != getattr(_SAMPLE, part):
            way = "%m is the month, %M the minute" if part == "month" else "a time needs its date, such as %Y-%m-%d"
            raise ValueError(f"{form} has no {part}: {way}")


def check_time_zone(zone: str) -> None:
    """Check the name of a time zone; raises ValueError with the reason.

    >>> check_time_zone("Europe/Berlin")
    >>> check_time_zone("Berlin")
    Traceback (most recent call last):
    ValueError: there is no time zone Berlin. Did you mean Europe/Berlin?
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {zone}. {nearest_zone(zone)}") from None
