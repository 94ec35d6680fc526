"""Calendars minute by minute (live.md, 5): the standard library's clock of a zone, read at every minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from dotr.model.calendars import WEEKDAYS, Calendar, Schedule
from dotr.model.time import Micros

MINUTE = 60_000_000
DAY = timedelta(days=1)


def ticks(period: Schedule, first: Micros, last: Micros) -> list[Micros]:
    """The multiples of a period, or the moments of a calendar, from the first time to the last, both included.

    >>> ticks(10, -10, 25)
    [-10, 0, 10, 20]
    """
    if isinstance(period, Calendar):
        return list(moments(period, first, last))
    return list(range(-(-first // period) * period, last + 1, period))


def moments(calendar: Calendar, first: Micros, last: Micros) -> Iterator[Micros]:
    """The minutes at which a calendar has a moment: the clock shows a whole hour, or has never been at or behind the
    time of day of a day before."""
    zone, at = ZoneInfo(calendar.zone.name), timedelta(minutes=calendar.minute)

    def clock(time: Micros) -> datetime:
        return datetime.fromtimestamp(time // 1_000_000, UTC).astimezone(zone).replace(tzinfo=None)

    begin = -(-first // MINUTE) * MINUTE
    farthest = max(clock(begin - minutes * MINUTE) for minutes in range(1, 3 * 24 * 60)) if calendar.unit != "hour" else datetime.min
    for time in range(begin, last + 1, MINUTE):
        shown = clock(time)
        if calendar.unit == "hour":
            if shown.minute == shown.second == 0:
                yield time
        elif shown > farthest:
            day = datetime(farthest.year, farthest.month, farthest.day)
            while day + at <= farthest or not is_named(calendar.unit, day):
                day += DAY
            if day + at <= shown:
                yield time
            farthest = shown


BLOCK = 2 * 24 * 60 * MINUTE


@lru_cache(1024)
def block(calendar: Calendar, number: int) -> tuple[Micros, ...]:
    """The moments of two days."""
    return tuple(moments(calendar, number * BLOCK, (number + 1) * BLOCK - 1))


def moment_after(calendar: Calendar, time: Micros) -> Micros:
    number = time // BLOCK
    while not (found := [each for each in block(calendar, number) if each > time]):
        number += 1
    return found[0]


def moment_before(calendar: Calendar, time: Micros) -> Micros:
    number = time // BLOCK
    while not (found := [each for each in block(calendar, number) if each < time]):
        number -= 1
    return found[-1]


def is_named(unit: str, day: datetime) -> bool:
    """True for any day, for the first of a month, or for the weekday."""
    return unit == "day" or (day.day == 1 if unit == "month" else day.weekday() == WEEKDAYS.index(unit))
