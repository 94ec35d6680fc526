"""Moments of calendars: as a loop over the standard library's clocks has them, in zones of all kinds, from 1970 to 2100 (live.md, 5)."""

from __future__ import annotations

import random
from zoneinfo import available_timezones

import pytest

from dotr.evaluation.expressions.values.times import iso
from dotr.model.calendars import UNITS_OF_CALENDARS, WEEKDAYS, Calendar, Zone, calendar_of, minute_of_day, zone_of
from dotr.model.time import Micros, Unit
from dotr.streams.times import parse_date_time
from tests.oracle.calendars import moments

pytestmark = pytest.mark.core

DAY, HOUR = Unit.DAY.value, Unit.HOUR.value
ODD = (
    *(
        "Pacific/Apia",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "America/Havana",
        "Asia/Kathmandu",
        "America/St_Johns",
        "Pacific/Kwajalein",
    ),
    *("Atlantic/Azores", "Asia/Gaza", "Africa/Monrovia", "Europe/Berlin", "Europe/London", "America/New_York", "Asia/Tehran", "Asia/Tokyo"),
)
"""Zones that skip a day, are turned by half an hour, at midnight, twice a year for a month, or were behind by seconds."""


def between(calendar: Calendar, first: Micros, end: Micros) -> list[Micros]:
    """The moments from `first` to before `end`, one after the other."""
    found, time = list[Micros](), calendar.at_or_after(first)
    while time < end:
        found.append(time)
        time = calendar.after(time)
    return found


def at(text: str) -> Micros:
    """The time of a date, or of a date and an hour."""
    return parse_date_time(f"{text}:00" if "T" in text else f"{text}T00:00:00")


def shown(calendar: Calendar, first: str, end: str) -> list[str]:
    return [iso(time) for time in between(calendar, at(first), at(end))]


def sampled() -> list[tuple[str, int]]:
    """Forty zones, each with a number for its random choices."""
    others = sorted(available_timezones() - set(ODD))
    return [(name, number) for number, name in enumerate((*ODD, *random.Random(7).sample(others, 40 - len(ODD))))]


def stretch(zone: Zone, source: random.Random) -> tuple[Micros, Micros]:
    """Two days around a change between 1970 and 2100, or any day where there is none."""
    changes = [each for each in zone.begins if 0 <= each < 130 * 365 * DAY]
    middle = source.choice(changes) // HOUR * HOUR if changes else source.randrange(130 * 365) * DAY
    return middle - DAY, middle + DAY


@pytest.mark.parametrize(("name", "seed"), sampled())
def test_moments_are_those_of_the_clock_minute_by_minute(name: str, seed: int) -> None:
    source, zone = random.Random(seed), zone_of(name)
    for unit in ("day", source.choice(UNITS_OF_CALENDARS)):
        calendar = Calendar(unit, 0 if unit == "hour" else source.choice([0, 90, 150, 1439, source.randrange(1440)]), zone)
        first, end = stretch(zone, source)
        if any(each % Unit.MINUTE.value for each in between(calendar, first, end)):
            continue  # the zone was behind by seconds, which no minute shows
        expected = list(moments(calendar, first, end - 1))
        assert between(calendar, first, end) == expected
        assert calendar.count(first, end) == len(expected)
        assert [time for time in range(first, end, 15 * Unit.MINUTE.value) if calendar.has(time)] == [
            time for time in expected if not time % (15 * Unit.MINUTE.value)
        ]
        back, time = list[Micros](), end
        while (time := calendar.last_before(time)) >= first:
            back.append(time)
        assert back[::-1] == expected


def test_a_day_has_23_25_or_24_hours() -> None:
    hours = calendar_of("hour", None, "Europe/Berlin")
    days = [calendar_of("day", None, "Europe/Berlin").after(at(f"2026-{date}T12:00")) for date in ("03-28", "10-24", "06-01")]
    assert [hours.count(day, calendar_of("day", None, "Europe/Berlin").after(day)) for day in days] == [23, 25, 24]


def test_a_time_of_day_in_a_gap_and_one_that_is_there_twice() -> None:
    gap = calendar_of("day", "02:30", "Europe/Berlin")
    assert shown(gap, "2026-03-28", "2026-03-30T12:00") == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert shown(gap, "2026-10-25", "2026-10-26T12:00") == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]


def test_a_day_that_a_zone_skipped_is_no_tick_of_its_own() -> None:
    samoa = calendar_of("day", None, "Pacific/Apia")
    assert shown(samoa, "2011-12-29", "2012-01-01T12:00") == [
        "2011-12-29T10:00:00Z",
        "2011-12-30T10:00:00Z",
        "2011-12-31T10:00:00Z",
        "2012-01-01T10:00:00Z",
    ]


def test_weekdays_and_months() -> None:
    monday = calendar_of("Monday", "06:00", "Europe/Berlin")
    assert shown(monday, "2026-03-22", "2026-04-01") == ["2026-03-23T05:00:00Z", "2026-03-30T04:00:00Z"]
    month = calendar_of("month", None, "America/New_York")
    assert shown(month, "1969-12-01", "1970-02-02") == ["1969-12-01T05:00:00Z", "1970-01-01T05:00:00Z", "1970-02-01T05:00:00Z"]
    assert [calendar_of(day, None, "UTC").at_or_after(0) // DAY for day in WEEKDAYS] == [4, 5, 6, 0, 1, 2, 3]


def test_dates_repeat_every_400_years() -> None:
    days, cycle = calendar_of("day", "06:00", "Europe/Berlin"), 146_097 * DAY
    for time in (at("2126-03-30T12:00"), at("2480-10-01")):
        assert days.after(time + 7 * cycle) == days.after(time) + 7 * cycle
        assert days.last_before(time + 7 * cycle) == days.last_before(time) + 7 * cycle
    assert days.count(0, 10 * cycle) == 10 * 146_097
    assert days.count(-30 * cycle, 0) == 30 * 146_097
    assert days.has(days.after(-(1 << 61)))


def test_the_longest_distance() -> None:
    assert [calendar_of(unit, None, "Europe/Berlin").longest for unit in ("hour", "day", "month", "sunday")] == [
        HOUR,
        25 * HOUR,
        31 * DAY + HOUR,
        7 * DAY + HOUR,
    ]
    assert calendar_of("day", None, "UTC").longest == DAY


@pytest.mark.parametrize("text", ["24:00", "6:00", "06:60", "0600", "06:00:00", "٠٦:٠٠", ""])
def test_no_time_of_day(text: str) -> None:
    with pytest.raises(ValueError, match="there is no time of day"):
        minute_of_day(text)


@pytest.mark.parametrize(("name", "hint"), [("europe/berlin", "Europe/Berlin"), ("New York", "New_York"), ("", "A zone is called")])
def test_no_zone(name: str, hint: str) -> None:
    with pytest.raises(LookupError, match=hint):
        zone_of(name)
