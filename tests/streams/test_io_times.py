"""Parsers of times and delays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.expressions.values.times import format_time
from dotr.model.time import Clock, Unit
from dotr.streams.times import parse_date_time, parse_delay, parse_time

pytestmark = pytest.mark.core

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from("T "),
    st.booleans(),
)
def test_date_times_agree_with_datetime(moment: datetime, zone: int, between: str, zoned: bool) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=zone)) if zoned else UTC)
    text = (aware if zoned else moment).isoformat(between)
    assert parse_date_time(text) == (aware - EPOCH) // timedelta(microseconds=1)
    assert parse_date_time(text) == parse_time(text, Unit.DAY), "again, from the cache"


@given(st.integers(-(10**16), 10**17))
def test_formatted_times_are_read_back(micros: int) -> None:
    written = format_time(micros, Clock(dated=True))
    assert isinstance(written, str)
    assert parse_date_time(written) == micros


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00.1234567Z", 123_456),
        ("1969-12-31T23:59:59.5Z", -500_000),
        ("1970-01-01T01:00:00+01", 0),
        ("1970-01-01T01:00:00+0100", 0),
        ("1970-01-01T00:01", 60_000_000),
        ("2014-05-22 09:09:04.145", 1_400_749_744_145_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
    ],
)
def test_date_times(text: str, micros: int) -> None:
    assert parse_date_time(text) == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2014-08-01",
        "2014-13-01T00:00:00",
        "2014-02-30T00:00:00",
        "2014-08-01T25:00:00",
        "2014-08-01T24:00:01",
        "2014-08-01T00:60:00",
        "2014-08-01T00:00:61",
        "2014-08-01T00:00:00+15:00",
        "2014-08-01T00:00:00+01:60",
        "2014-08-01T00:00:00 ",
        "1e3",
        "1.0",
        " 1",
        "1_000",
        "٣",
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
        "0000-01-01T00:00:00",
        "9" * 31,
        "9" * 25,
    ],
)
def test_invalid_time_is_refused_with_a_reason(text: str) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r"."):
            parse_time(text, Unit.SECOND)


def test_integers_are_of_the_unit() -> None:
    assert [parse_time("-5", unit) for unit in (Unit.MICROSECOND, Unit.SECOND, Unit.DAY)] == [-5, -5_000_000, -432_000_000_000]


@pytest.mark.parametrize(
    ("text", "micros"),
    [("0", 0), (0, 0), ("5 min", 300_000_000), ("1h30min", 5_400_000_000), ("250 ms", 250_000), ("2 D", 172_800_000_000)],
)
def test_delays(text: str | int, micros: int) -> None:
    assert parse_delay(text) == micros


@pytest.mark.parametrize("text", ["", "min", "5 m", "-5 s", -1, "5 s 3", "0.5 us", "1e3 s", "99999999999999 d"])
def test_invalid_delay_is_refused_with_a_reason(text: str | int) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_delay(text)


@pytest.mark.parametrize("text", ["9" * 5000, "1" * 5000 + " s", "x" * 5000])
def test_error_of_a_long_delay_text_is_short(text: str) -> None:
    with pytest.raises(ValueError, match="is no length of time: it has 5,00") as refused:
        parse_delay(text)
    assert len(str(refused.value)) < 120
