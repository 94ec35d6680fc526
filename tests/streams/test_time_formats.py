"""Parsers of times in a declared format: zones, fractions, the end of a day, numbers since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.model.time import Unit
from dotr.streams.time_formats import (
    UNIX,
    check_time_format,
    date_form,
    drain_repeated_hours,
    local_zone,
    note_repeated_hour,
    time_parser,
)
from dotr.streams.times import parse_cell_time

pytestmark = pytest.mark.core

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(form: str, text: str, zone: str | None = None) -> int:
    return time_parser(form, zone)(text, Unit.DAY)


@pytest.mark.parametrize(
    ("form", "text", "same"),
    [
        ("%d/%m/%y %H:%M %z", "04/07/21 09:30 +0530", "2021-07-04T04:00:00+00:00"),
        ("%d/%m/%y %H:%M%z", "04/07/21 09:30-03:30", "2021-07-04T13:00:00+00:00"),
        ("%Y%m%dT%H%M%S%z", "20210704T093000Z", "2021-07-04T09:30:00+00:00"),
        ("%H:%M:%S,%f %Y-%j", "09:30:00,5 2021-185", "2021-07-04T09:30:00.500000+00:00"),
        ("%Y-%m-%d %H:%M:%S.%f", "2021-07-04 09:30:00.1234567", "2021-07-04T09:30:00.123456+00:00"),
        ("%Y%m%d%H%M%S%f", "20210704093000999999999", "2021-07-04T09:30:00.999999+00:00"),
        ("%f|%d %b %Y|%H", "000001999|04 Jul 2021|24", None),
        ("%f|%d %b %Y|%H", "000000999|04 Jul 2021|24", "2021-07-05T00:00:00+00:00"),
        ("%d %B %Y at %H.%M", "28 February 2023 at 24.00", "2023-03-01T00:00:00+00:00"),
        ("%Y-%m-%d %H:%M:%S %z", "2021-12-31 24:00:00 -0100", "2022-01-01T01:00:00+00:00"),
        ("%Y-%m-%d %H:%M", "2021-07-04 24:30", None),
        ("%Y-%m-%d %H:%M:%S.%f", "2021-07-04 09:30:00.1234567890", None),
        ("%Y-%m-%d %H:%M %z", "2021-07-04 09:30 CEST", None),
        ("%Y-%m-%d %H:%M", "9999-12-31 24:00", None),
    ],
)
def test_text_of_a_format_is_a_time_or_an_error(form: str, text: str, same: str | None) -> None:
    check_time_format(form)
    if same is None:
        with pytest.raises(ValueError, match=r"is not of the form|outside the years"):
            read(form, text)
    else:
        assert read(form, text) == (datetime.fromisoformat(same) - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        ("%d.%m.%Y", "30.02.2023", "30.02.2023 is no date (%d.%m.%Y)"),
        ("%H:%M, %d.%m.%Y Uhr", "07:00, 31.06.2023 Uhr", "31.06.2023 is no date (%d.%m.%Y)"),
        ("%m/%d/%y %H:%M", "31/12/23 07:00", "31/12/23 is no date (%m/%d/%y)"),
        ("%d %B %Y", "30 February 2023", "30 February 2023 is no date (%d %B %Y)"),
        ("%d.%m.%Y %H:%M", "28.02.2023 25:00", "28.02.2023 25:00 is not of the form %d.%m.%Y %H:%M"),
        ("%d.%m.%Y", "2023-02-28", "2023-02-28 is not of the form %d.%m.%Y"),
    ],
)
def test_dates_that_are_in_no_calendar_are_told(form: str, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        read(form, text)


@given(
    st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1)),
    st.integers(-12 * 60, 14 * 60),
    st.sampled_from(["%Y-%m-%d %H:%M:%S.%f %z", "%z %f, %d.%m.%Y; %S/%M/%H", "%Y%m%d%H%M%S%f%z"]),
    st.text("0123456789", max_size=3),
)
def test_formatted_date_times_are_read_back_with_more_digits(moment: datetime, zone: int, form: str, digits: str) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=zone)))
    text = aware.strftime(form.replace("%f", f"%f{digits}").replace("%Y", f"{moment.year:04}"))
    assert read(form, text) == (aware - EPOCH) // timedelta(microseconds=1)


def test_end_of_a_day_is_in_the_declared_zone() -> None:
    assert read("%d.%m.%Y %H:%M", "30.03.2024 24:00", "Europe/Berlin") == read("%d.%m.%Y %H:%M", "31.03.2024 00:00", "Europe/Berlin")


@given(st.integers(-60_000_000_000_000_000_000, 250_000_000_000_000_000_000), st.sampled_from(sorted(UNIX)), st.integers(0, 6))
def test_numbers_since_1970_are_exact_and_rounded_down(nanoseconds: int, form: str, moved: int) -> None:
    digits = {"unix": 9, "unix_ms": 6, "unix_us": 3, "unix_ns": 0}[form]
    sign, whole = "-" * (nanoseconds < 0), str(abs(nanoseconds)).rjust(digits + 1, "0")
    plain = f"{sign}{whole[: len(whole) - digits]}.{whole[len(whole) - digits :]}0"
    shifted = f"{sign}{whole}e-{digits + moved}" if not moved else f"{sign}{whole}{'0' * moved}E-{digits + moved}"
    assert [read(form, text) for text in (plain, shifted)] == [nanoseconds // 1_000] * 2


@pytest.mark.parametrize(
    "text", ["", "soon", " 1", "1 ", "1_000", "0x1", "NaN", "inf", ".", "1e", "--1", "1e9999", "1e300", "-1e300", "9" * 39]
)
@pytest.mark.parametrize("form", sorted(UNIX))
def test_text_that_is_no_number_since_1970_is_refused(form: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"is no number|outside the years|is empty"):
        read(form, text)


def test_nanoseconds_go_beyond_what_64_bits_count() -> None:
    assert read("unix_ns", "9300000000000000000") == 9_300_000_000_000_000 > 2**63 // 1_000
    with pytest.raises(ValueError, match="outside the years 1 to 9999"):
        read("unix_us", "1709294400000000000")


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("%H:%M:%S", "has no year"),
        ("%d %b %H:%M:%S", "has no year"),
        ("%Y-%M-%d %H", "has no month"),
        ("%Y-%m %H:%M", "has no day"),
        ("yyyy-MM-dd HH:mm", "has no year"),
        ("%Y-%m-%d %H:%M %Z", "leave it out and name the zone as time_zone"),
        ("%s", "write unix"),
        ("%Y-%m-%d %Q", "is no form of a time"),
    ],
)
def test_format_without_what_a_time_needs_is_refused(form: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_time_format(form)


def test_numbers_of_the_unit_may_have_a_fraction_in_a_cell() -> None:
    texts = ["7", "-7", "7.25", "7.0000004", "-0.0000004", "2.5E1", "5e-1", "2024-01-01 00:00"]
    parse = time_parser(None, None, fractions=True)
    assert [parse(text, Unit.SECOND) for text in texts] == [
        7_000_000, -7_000_000, 7_250_000, 7_000_000, -1, 25_000_000, 500_000, 1_704_067_200_000_000
    ]  # fmt: skip
    assert time_parser(None, "Asia/Tokyo", fractions=True)("7.25", Unit.SECOND) == 7_250_000
    for text in ("7.", ".5", "7,25", "1e", "1.5.2", "1e99999", "٣.٣", "NaN", "1." + "3" * 50):
        with pytest.raises(ValueError, match=r"neither an integer|out of range|ISO 8601"):
            parse_cell_time(text, Unit.SECOND)


def note(text: str, zone: str, line: int = 2, file: str = "log.csv") -> None:
    note_repeated_hour("log", file, line, time_parser(None, zone)(text, Unit.SECOND), zone, text)


def test_first_time_of_a_file_that_goes_back_in_a_repeated_hour_is_kept() -> None:
    drain_repeated_hours()
    for line, text in enumerate(
        ["2022-11-06 00:59:59", "2022-11-06 01:30-06:00", "2022-11-06 01:59", "2022-11-06 01:00", "2022-11-06 02:00"]
    ):
        note(text, "America/Chicago", line)
    note("2022-11-06 01:00", "Europe/Berlin", file="b.csv")
    note("2022-04-03 01:45", "Australia/Lord_Howe", file="half.csv")
    assert [(each.file, each.line, each.hour) for each in drain_repeated_hours()] == [("log.csv", 2, "01:00"), ("half.csv", 2, "01:00")]
    assert local_zone("unix", "Europe/Berlin") == local_zone("%d.%m.%Y %z", "Europe/Berlin") == ""


def test_part_of_a_format_that_is_a_date() -> None:
    assert [date_form(form) for form in ("%H:%M %d. %B %Y", "%Y-%jT%H", "%a %d %b %H:%M:%S %Y", "%d.%m.%Y")] == [
        "%d. %B %Y", "%Y-%j", "%a %d %b %H:%M:%S %Y", "%d.%m.%Y"
    ]  # fmt: skip
