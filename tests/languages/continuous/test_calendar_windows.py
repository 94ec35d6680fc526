"""Landmark windows that restart by the calendar of a zone (live.md, 5): closes, contents, and random programs against the oracle."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import iso
from dotr.languages.programs import compile_program
from dotr.model.calendars import zone_of
from dotr.model.places import Document
from dotr.streams.times import parse_date_time
from tests.languages.continuous.test_continuous_queries import run_engine
from tests.languages.continuous.test_continuous_random import outputs_of_both
from tests.support.properties import examples
from tests.support.strategies_continuous import ContinuousProgram

pytestmark = pytest.mark.core

SECOND, HOUR = 1_000_000, 3_600
PREFIXES = {"": "http://example.org/"}
ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Asia/Kathmandu", "UTC", "Pacific/Auckland")
QUERY = """PREFIX : <http://example.org/>
REGISTER RSTREAM Q AS SELECT {what} FROM NAMED WINDOW <w> ON :s [{window}] WHERE {{ WINDOW <w> {{ ?x :v ?v }} }}"""


def spec(window: str, what: str = "(SUM(?v) AS ?n)", time_zone: str = "") -> ProgramSpec:
    return ProgramSpec((Document("q.rspql", QUERY.format(what=what, window=window)),), prefixes=PREFIXES, time_zone=time_zone)


def told(window: str, *elements: str, time_zone: str = "") -> list[tuple[str, str]]:
    """The hours of the reports, and the sums, for elements with 1, 2, 4, … at some times."""
    arrived = [(parse_date_time(at), "http://example.org/s", f":x :v {1 << number} .") for number, at in enumerate(elements)]
    firings = run_engine(compile_program(spec(window, time_zone=time_zone)), arrived)
    return [(iso(each.time).removesuffix(":00Z"), dict(each.attributes)["n"][1:].partition('"')[0]) for each in firings]


def test_a_window_of_local_days_closes_when_they_end() -> None:
    """In 2026 clocks in Berlin are put forward on March 29, which has 23 hours; at the end it reports up to the last day's end."""
    times = ("2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", "2026-03-29T22:00:01Z", "2026-03-30T12:00:00Z")
    days = 'LANDMARK RESTARTING EVERY DAY IN "Europe/Berlin"'
    expected = [("2026-03-28T23:00", "3"), ("2026-03-29T22:00", "4"), ("2026-03-30T22:00", "24")]
    assert told(days, *times) == expected
    assert told("LANDMARK RESTARTING EVERY DAY", *times, time_zone="Europe/Berlin") == expected
    assert told("landmark restarting every day at 00:00 in 'Europe/Berlin' report on window close", *times) == expected


def test_steps_add_closes_and_a_half_hour_zone_keeps_the_end_of_its_day() -> None:
    times = ("2026-06-01T12:00:00Z", "2026-06-01T18:20:00Z", "2026-06-01T18:40:00Z")
    assert told('LANDMARK STEP 6h RESTARTING EVERY DAY IN "Asia/Kathmandu"', *times) == [
        ("2026-06-01T12:00", "1"),
        ("2026-06-01T18:00", "1"),
        ("2026-06-01T18:15", "1"),
        ("2026-06-02T00:00", "6"),
    ]


def test_starting_at_begins_the_first_window() -> None:
    times = ("2026-06-01T08:00:00Z", "2026-06-01T10:00:00Z", "2026-06-01T11:00:00Z", "2026-06-01T23:00:00Z")
    window = 'LANDMARK RESTARTING EVERY DAY IN "Europe/Berlin" STARTING AT 2026-06-01T10:00:00Z'
    assert told(window, *times) == [("2026-06-01T22:00", "4"), ("2026-06-02T22:00", "8")]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ('LANDMARK RESTARTING EVERY DAY IN "Berlin"', "W346 there is no time zone Berlin"),
        ("LANDMARK RESTARTING EVERY DAY AT 24:00", "W347 there is no time of day 24:00"),
        ("LANDMARK RESTARTING EVERY HOUR AT 10:00", "W347 an hour has no time of day"),
        ("LANDMARK RESTARTING EVERY DAY REPORT ON WINDOW CLOSE AND PERIODIC 1h", "W348 PERIODIC with WINDOW CLOSE"),
        ("LANDMARK RESTARTING EVERY 1 d", "expected STEP"),
        ("LANDMARK RESTARTING EVERY DAY IN Berlin", "expected a zone in quotes"),
        ('LANDMARK RESTARTING EVERY DAY IN "Europe/Berlin" ENTAILMENT STREAM WITHIN 24 h', "STREAM WITHIN is shorter than the window"),
    ],
)
def test_what_is_refused(window: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        compile_program(spec(window, "?x"))


def test_explain_counts_the_longest_day_and_month() -> None:
    from dotr.languages.continuous.description import query_retention
    from dotr.languages.continuous.unit import QueryUnit

    kept = list[str]()
    for unit in ("DAY", "MONTH", "HOUR"):
        (query,) = compile_program(spec(f'LANDMARK RESTARTING EVERY {unit} IN "Europe/Berlin"', "?x")).units
        assert isinstance(query, QueryUnit)
        kept += query_retention(query.query)
    assert [each.partition("keeps ")[2] for each in kept] == ["elements of 1 d 1 h", "elements of 31 d 1 h", "elements of 1 h"]


def window(source: random.Random) -> str:
    if source.random() < 0.2:
        return f"RANGE {source.choice((5, 30))}h STEP {source.choice((2, 7))}h"
    step = source.choice(("", "", "STEP 7h ", "STEP 50 min "))
    unit = source.choice(("HOUR", "DAY", "DAY", "DAY AT 02:30", "DAY AT 23:59", "SUNDAY", "MONTH AT 01:00"))
    options = ["" if source.random() < 0.7 else f"STARTING AT {source.choice(('2026-03-29T00:30Z', '2026-04-04T15:00:00Z'))}"]
    options.append(
        source.choice(("", "", "REPORT ON WINDOW CLOSE", "REPORT ON CONTENT CHANGE", "REPORT PERIODIC 3h AND NON-EMPTY CONTENT"))
    )
    options.append(source.choice(("", "", *(f"ENTAILMENT {each}" for each in ("NONE", "SNAPSHOT", "WINDOW", "STREAM WITHIN 40 d")))))
    return f'LANDMARK {step}RESTARTING EVERY {unit} IN "{source.choice(ZONES)}" {" ".join(options)}'


def random_program(source: random.Random) -> ContinuousProgram:
    """Queries over windows by calendar, and elements on the days around a change of clocks."""
    relation, what = source.choice(("RSTREAM", "ISTREAM", "DSTREAM")), source.choice(("?x ?y", "?x (COUNT(*) AS ?n)", "(COUNT(*) AS ?n)"))
    group = "GROUP BY ?x" if what.startswith("?x (") else ""
    froms, patterns = [f"FROM NAMED WINDOW <w> ON :s [{window(source)}]"], ["WINDOW <w> { ?x :p ?y }"]
    if source.random() < 0.4:
        froms.append(f"FROM NAMED WINDOW <u> ON :{source.choice('st')} [{window(source)}]")
        patterns.append("WINDOW <u> { ?x :p ?z }")
    where = f"WHERE {{ {' '.join(patterns)} }} {group}"
    query = f"PREFIX : <http://example.org/>\nREGISTER {relation} <One> AS SELECT {what} {' '.join(froms)} {where}"
    change = source.choice(
        [each // SECOND for each in zone_of(source.choice(ZONES[:3])).begins if 1_700_000_000 < each // SECOND < 1_800_000_000]
    )
    base = source.choice((1_774_746_000, 1_775_322_000, change)) - source.randrange(30) * HOUR
    times = sorted(base + source.randrange(60) * source.choice((600, 1_800, HOUR)) for _ in range(source.randrange(3, 8)))
    elements = [(time, source.choice("sst"), f":{source.choice('abc')} :p :{source.choice('bcd')} .") for time in times]
    datalog = source.choice(("", "[?x, :p, ?z] :- [?x, :p, ?y], [?y, :p, ?z] ."))
    return ContinuousProgram(query, "", datalog, "", "none", source.choice((0, 3, HOUR)), tuple(elements))


@given(st.integers(0, 1 << 30))
@examples(25)
def test_random_programs_agree_with_the_oracle(seed: int) -> None:
    program = random_program(random.Random(seed))
    note(str(program))
    expected, runs = outputs_of_both(program, reloaded=True)
    for found in runs:
        assert found == expected
