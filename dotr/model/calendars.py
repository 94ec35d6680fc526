"""Calendars: moments at which the clock of a time zone shows a whole hour or a time of day
(live.md, 5).

Idea: a zone is a table of its changes, made once from the standard library's zones and sent with a
program, so that other processes read no zones. The first moment at which the clock has reached a
local time is the time itself, the end of the gap in which it would lie, or the first of its two.
Invariant: moments of later days are not earlier; two on one moment are one.
Cost: a bisection in a thousand changes; 15 ms and 20 kB for a zone. Dates and rules repeat every
400 years, so all times are moved into the table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime
from functools import lru_cache
from typing import Final, TypeAlias

from dotr.model import dataclass
from dotr.model.time import Micros, Unit

_HOUR: Final = Unit.HOUR.value
_DAY: Final = Unit.DAY.value
_EPOCH: Final = date(1970, 1, 1).toordinal()
_CYCLE: Final[Micros] = 146_097 * _DAY
"""400 years, a whole number of weeks."""
_LOW: Final[Micros] = (date(1700, 1, 1).toordinal() - _EPOCH) * _DAY
_HIGH: Final[Micros] = (date(2500, 1, 1).toordinal() - _EPOCH) * _DAY
_PROBES: Final = (range(-4_000_000_000, 4_102_444_800, 3 * 86_400), range(4_102_444_800, 17_000_000_000, 27 * 86_400))
"""Seconds since 1970. No zone changes twice within four days, nor from 2100 on within a month."""
_FARTHEST: Final = 14 * 60
"""The greatest offset of a date-time, in minutes."""

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UNITS_OF_CALENDARS: Final = ("hour", "day", "month", *WEEKDAYS)


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: the times of its changes, ascending, and its offsets from UTC before the first
    and from each change on, in µs.

    >>> berlin = zone_of("Europe/Berlin")
    >>> berlin.offset(0) // 3_600_000_000, berlin.minutes(1_800_000_000_000_000)
    (1, 60)
    """

    name: str
    begins: tuple[Micros, ...]
    offsets: tuple[Micros, ...]

    def __hash__(self) -> int:
        return hash(self.name)

    def offset(self, time: Micros) -> Micros:
        """The offset from UTC at a time, in µs."""
        return self.offsets[bisect_right(self.begins, time - _cycles(time))]

    def minutes(self, time: Micros) -> int:
        """The offset at a time as date-times have it: in whole minutes, 0 where it is too great."""
        minutes = (self.offset(time) + Unit.MINUTE.value // 2) // Unit.MINUTE.value
        return minutes if abs(minutes) <= _FARTHEST else 0

    def reached(self, local: Micros) -> Micros:
        """The first moment at which the clock has reached a local time, in µs, within the table.

        >>> berlin = zone_of("Europe/Berlin")
        >>> gap, twice = (date(2026, 3, 29).toordinal(), 150), (date(2026, 10, 25).toordinal(), 150)
        >>> [(berlin.reached((day - 719_163) * 86_400_000_000 + at * 60_000_000) // 60_000_000) % 1440 for day, at in (gap, twice)]
        [60, 30]
        """
        begins, place = self.begins, bisect_right(self.begins, local - 2 * _DAY)
        while place < len(begins) and begins[place] + self.offsets[place] <= local:
            place += 1
        moment = local - self.offsets[place]
        return max(moment, begins[place - 1]) if place else moment

    @property
    def text(self) -> str:
        """The zone as a text for `zone_of_text`, with times in seconds.

        >>> zone_of_text(zone_of("Europe/Berlin").text) == zone_of("Europe/Berlin"), zone_of("UTC").text
        (True, 'UTC 0')
        """
        numbers = (self.offsets[0], *(each for pair in zip(self.begins, self.offsets[1:], strict=True) for each in pair))
        return " ".join([self.name, *(str(each // 1_000_000) for each in numbers)])

    @property
    def turned_back(self) -> Micros:
        """The greatest length by which the clock is turned back since 1970."""
        changes = zip(self.begins, self.offsets, self.offsets[1:], strict=False)
        return max([before - after for begin, before, after in changes if begin >= 0 and before - after < _DAY], default=0)


def _cycles(time: Micros) -> Micros:
    """The multiple of 400 years by which a time lies behind, or before, what the table has."""
    if time >= _HIGH:
        return ((time - _HIGH) // _CYCLE + 1) * _CYCLE
    return 0 if time >= _LOW else ((time - _LOW) // _CYCLE + 1) * _CYCLE


@lru_cache(64)
def zone_of(name: str) -> Zone:
    """The zone of a name, as the standard library has it; raises LookupError with the nearest name.

    >>> zone_of("UTC")
    Zone(name='UTC', begins=(), offsets=(0,))
    >>> zone_of("Europe/Berlim")
    Traceback (most recent call last):
    LookupError: there is no time zone Europe/Berlim. Did you mean Europe/Berlin?
    """
    from zoneinfo import ZoneInfo  # most programs name no zone

    try:
        zone = ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise LookupError(f"there is no time zone {name}. {nearest_zone(name)}") from None

    def offset(second: int) -> int:
        found = datetime.fromtimestamp(second, zone).utcoffset()
        assert found is not None
        return found.days * 86_400 + found.seconds

    begins, offsets, before = list[int](), [offset(_PROBES[0][0])], _PROBES[0][0]
    for probes in _PROBES:
        for probe in probes:
            if (found := offset(probe)) != offsets[-1]:
                low, high = before, probe  # the change is in (low, high]
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
                begins.append(high)
                offsets.append(found)
            before = probe
    return Zone(name, tuple(each * 1_000_000 for each in begins), tuple(each * 1_000_000 for each in offsets))


@lru_cache(64)
def zone_of_text(text: str) -> Zone:
    """The zone of a `Zone.text`."""
    name, *numbers = text.split(" ")
    seconds = [int(each) * 1_000_000 for each in numbers]
    return Zone(name, tuple(seconds[1::2]), tuple(seconds[::2]))


def nearest_zone(name: str) -> str:
    """A question with the zone whose name, or its last part, is nearest to a text; else an example.

    >>> nearest_zone("berlin"), nearest_zone("")
    ('Did you mean Europe/Berlin?', 'A zone is called as in Europe/Berlin or America/New_York.')
    """
    from difflib import get_close_matches
    from zoneinfo import available_timezones

    names = {part.lower(): each for each in sorted(available_timezones(), reverse=True) for part in (each.rpartition("/")[2], each)}
    found = get_close_matches(name.strip().lower().replace(" ", "_"), names, 1, 0.7)
    return f"Did you mean {names[found[0]]}?" if found else "A zone is called as in Europe/Berlin or America/New_York."


@dataclass(frozen=True, slots=True)
class Calendar:
    """The moments at which the clock of a zone shows a whole hour (`hour`), or reaches a number of
    minutes after midnight (`minute`) of each day, first day of a month, or weekday.

    >>> days = Calendar("day", 0, zone_of("Europe/Berlin"))
    >>> spring = days.after(1_774_738_800_000_000)                    # 2026-03-29T00:00+01:00
    >>> (spring - 1_774_738_800_000_000) // 3_600_000_000, days.last_before(spring) // 1_000_000, days.has(spring)
    (23, 1774738800, True)
    """

    unit: str
    minute: int
    zone: Zone

    def __str__(self) -> str:
        """The calendar as rules write it.

        >>> str(Calendar("monday", 390, zone_of("UTC")))
        'monday at 06:30 in "UTC"'
        """
        at = "" if self.unit == "hour" else f" at {self.minute // 60:02}:{self.minute % 60:02}"
        return f'{self.unit}{at} in "{self.zone.name}"'

    @property
    def capitals(self) -> str:
        """The calendar as windows write it.

        >>> calendar_of("day", None, "Europe/Berlin").capitals
        'DAY AT 00:00 IN "Europe/Berlin"'
        """
        words, quote, zone = str(self).partition('"')
        return words.upper() + quote + zone

    @property
    def step(self) -> Micros:
        """The usual distance of two moments; of months the least."""
        return _HOUR if self.unit == "hour" else {"day": 1, "month": 28}.get(self.unit, 7) * _DAY

    @property
    def longest(self) -> Micros:
        """The greatest distance of two moments since 1970."""
        back = self.zone.turned_back
        return _HOUR + back % _HOUR if self.unit == "hour" else (31 * _DAY if self.unit == "month" else self.step) + back

    def has(self, time: Micros) -> bool:
        """True if a time is a moment of the calendar."""
        return self.at_or_after(time) == time

    def after(self, time: Micros) -> Micros:
        """The first moment after a time."""
        return self.at_or_after(time + 1)

    def at_or_after(self, time: Micros) -> Micros:
        """The first moment not before a time."""
        cycles = _cycles(time)
        time -= cycles
        if self.unit != "hour":
            number = self._number(time) - 1  # a day before, which a change at this very time may have skipped
            while (found := self._moment(number)) < time:
                number += 1
            return found + cycles
        place, begins = bisect_right(self.zone.begins, time), self.zone.begins
        while (found := time + -(time + self.zone.offsets[place]) % _HOUR) >= (begins[place] if place < len(begins) else _HIGH + _CYCLE):
            time, place = begins[place], place + 1
        return found + cycles

    def last_before(self, time: Micros) -> Micros:
        """The last moment before a time."""
        cycles = _cycles(time)
        time -= cycles
        if self.unit != "hour":
            return self._moment(self._last_number(time)) + cycles
        last, place, begins = time - 1, bisect_right(self.zone.begins, time - 1), self.zone.begins
        while (found := last - (last + self.zone.offsets[place]) % _HOUR) < (begins[place - 1] if place else -_CYCLE * 3):
            place -= 1
            last = begins[place] - 1
        return found + cycles

    def count(self, first: Micros, end: Micros) -> int:
        """The number of moments from `first` to before `end`.

        >>> hours, year = Calendar("hour", 0, zone_of("Europe/Berlin")), 365 * 86_400_000_000
        >>> hours.count(0, year), hours.count(0, 0), Calendar("day", 0, hours.zone).count(-year, 10_000 * year)
        (8760, 0, 3650365)
        """
        return max(0, self._rank(end) - self._rank(first))

    def _rank(self, time: Micros) -> int:
        """The number of moments before a time, less a constant."""
        cycles = _cycles(time)
        border = _HIGH if cycles > 0 else _LOW
        return self._rank_within(time - cycles) + (
            cycles // _CYCLE * (self._rank_within(border) - self._rank_within(border - _CYCLE)) if cycles else 0
        )

    def _rank_within(self, time: Micros) -> int:
        begins, offsets = self.zone.begins, self.zone.offsets
        changes = [(begin, *offsets[place : place + 2]) for place, begin in enumerate(begins) if begin < time]
        if self.unit != "hour":  # a number each, but for those that one change of a day or more skips together
            skips = [self._number(begin) for begin, before, after in changes if after - before >= _DAY]
            twice = sum(self._moment(number - 1) == self._moment(number) for number in skips)
            return self._last_number(time) - twice
        last, total = offsets[bisect_right(begins, time - 1)], 0
        for begin, before, after in changes:  # whole hours before the change, less those of the new offset before it
            total += (begin - 1 + before) // _HOUR - (begin - 1 + after) // _HOUR
        return total + (time - 1 + last) // _HOUR

    def _last_number(self, time: Micros) -> int:
        """The number of the last moment before a time within the table."""
        number = self._number(time) + 2
        while self._moment(number) >= time:
            number -= 1
        return number

    def _number(self, time: Micros) -> int:
        """The number since 1970 of the day, week or month of a time within the table."""
        day = (time + self.zone.offset(time)) // _DAY
        if self.unit == "month":
            found = date.fromordinal(day + _EPOCH)
            return (found.year - 1970) * 12 + found.month - 1
        return day if self.unit == "day" else (day - self._weekday) // 7

    def _moment(self, number: int) -> Micros:
        """The moment of the day, week or month of a number."""
        if self.unit == "month":
            day = date(1970 + number // 12, number % 12 + 1, 1).toordinal() - _EPOCH
        else:
            day = number if self.unit == "day" else number * 7 + self._weekday
        return self.zone.reached(day * _DAY + self.minute * Unit.MINUTE.value)

    @property
    def _weekday(self) -> int:
        """The day since 1970, a Thursday, of the first such weekday from Monday, 1970-01-05, on."""
        return 4 + WEEKDAYS.index(self.unit)


def minute_of_day(text: str) -> int:
    """The minutes after midnight of a time of day; raises ValueError with the reason.

    >>> minute_of_day("06:30")
    390
    >>> minute_of_day("24:00")
    Traceback (most recent call last):
    ValueError: there is no time of day 24:00. Write one from 00:00 to 23:59.
    """
    hour, _, minute = text.partition(":")
    if len(hour) == len(minute) == 2 and (hour + minute).isascii() and (hour + minute).isdigit() and hour < "24" and minute < "60":
        return int(hour) * 60 + int(minute)
    raise ValueError(f"there is no time of day {text}. Write one from 00:00 to 23:59.")


_default: Final[ContextVar[str]] = ContextVar("time_zone", default="UTC")


@contextmanager
def default_zone(name: str) -> Iterator[None]:
    """A context in which programs are read whose calendars without a zone are those of a zone
    (empty: UTC)."""
    token = _default.set(name or "UTC")
    try:
        yield
    finally:
        _default.reset(token)


def calendar_of(unit: str, at: str | None, zone: str | None) -> Calendar:
    """The calendar of words of a program; raises ValueError, or LookupError for
    the zone, with the reason and the way out as two sentences.

    >>> str(calendar_of("DAY", "06:00", None)), calendar_of("hour", None, "UTC").step
    ('day at 06:00 in "UTC"', 3600000000)
    """
    if unit.lower() == "hour" and at is not None:
        raise ValueError("an hour has no time of day. Leave AT out, or write DAY.")
    return Calendar(unit.lower(), 0 if at is None else minute_of_day(at), zone_of(_default.get() if zone is None else zone))


Schedule: TypeAlias = Micros | Calendar
"""The moments of ticks: all multiples of a length in µs, or those of a calendar."""


def next_moment(schedule: Schedule, after: Micros) -> Micros:
    """The first moment of a schedule after a time.

    >>> next_moment(10, -11), next_moment(calendar_of("hour", None, None), 0)
    (-10, 3600000000)
    """
    return (after // schedule + 1) * schedule if schedule.__class__ is int else schedule.after(after)  # type: ignore[union-attr]


def has_moment(schedule: Schedule, time: Micros) -> bool:
    """True if a time is a moment of a schedule."""
    return schedule.has(time) if isinstance(schedule, Calendar) else time % schedule == 0
