"""Rows of frames of pandas and Arrow as instants of a session, and times of numpy."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dotr import Program
from dotr.api.session import Session, SessionError

pytestmark = pytest.mark.core

RULE = """PREFIX : <http://e/>
rule High define High = [ dotr_id a :High ; :of ?p ; :v ?v ] from P = [ SELECT ?p ?v WHERE { ?r :pump ?p ; :v ?v } ]
with High.?p = P.?p, High.?v = P.?v
"""
MAP = "[] :pump {pump} ; :v {v} ; :note {note} ."


def session(**arguments: Any) -> Session:
    return Program.load(text=RULE, prefixes={"": "http://e/"}, **arguments).session(record=True)


def values(run: Session, frame: object, **arguments: Any) -> list[tuple[object, object, object]]:
    events = run.advance_frame(frame, **{"time": "t", "map": MAP, **arguments})
    return [(each.time, each.attributes["p"], each.attributes["v"].replace("http://www.w3.org/2001/XMLSchema#", "")) for each in events]


COLUMNS: dict[str, list[Any]] = {
    "t": [3, 1, 3, 2],
    "pump": ["a", "b", "c", None],
    "v": [7, None, 2, 5],
    "note": ["x", "y", None, "z"],
}


@pytest.mark.parametrize("made", [pd.DataFrame, pa.table, lambda columns: pa.table(columns).to_batches()[0]])
def test_rows_of_one_time_are_an_instant_whatever_their_order(made: Any) -> None:
    run = session()
    frame = made(COLUMNS)
    number = "double" if isinstance(frame, pd.DataFrame) else "integer"  # a missing number makes a column of floats in pandas
    assert values(run, frame) == [(3, '"a"', f'"7"^^<{number}>'), (3, '"c"', f'"2"^^<{number}>')]
    assert [len(instant.graphs) for instant in run.replay().instants()] == [1, 1, 2]
    with pytest.raises(SessionError, match="time 1 is not after 3, the last one"):
        values(run, frame)
    assert run.advance(4) == []


EMPTY = [None, float("nan"), np.nan, pd.NaT, pd.NA, Decimal("nan")]


def test_missing_values_are_empty_cells() -> None:
    frame = pd.DataFrame({"t": range(6), "pump": "a", "v": pd.Series(EMPTY, dtype="object"), "note": ""})
    assert values(session(), frame) == []
    table = pa.table({"t": [1, 2], "pump": ["a", "a"], "v": [float("nan"), None]})
    assert values(session(), table, map="[] :pump {pump} ; :v {v} .") == []


@pytest.mark.parametrize(
    ("value", "term"),
    [
        (7, '"7"^^<integer>'),
        (2.5, '"2.5"^^<double>'),
        (Decimal("2.50"), '"2.50"^^<decimal>'),
        (True, '"true"^^<boolean>'),
        ("7", '"7"'),
        (datetime(2024, 3, 1, 7, 30), '"2024-03-01T07:30:00"^^<dateTime>'),
        (datetime(2024, 3, 1, 7, 30, 0, 5, UTC), '"2024-03-01T07:30:00.000005Z"^^<dateTime>'),
        (date(2024, 3, 1), '"2024-03-01"^^<date>'),
    ],
)
def test_pandas_and_arrow_give_one_term(value: object, term: str) -> None:
    rows = {"t": [1], "pump": ["a"], "v": [value]}
    made = "[] :pump {pump} ; :v {v} ."
    for frame in (pd.DataFrame(rows), pd.DataFrame(rows, dtype="object"), pa.table(rows)):
        assert values(session(), frame, map=made) == [(1, '"a"', term)]


def test_typed_cells_and_times_are_those_of_a_configuration() -> None:
    frame = pd.DataFrame({"Day": ["01.03.2024", "01.03.2024"], "Clock": ["07:05", "07:00"], "pump": ["a", "b"], "v": ["7", "n/a"]})
    made = "[] :pump {pump} ; :v {v:decimal?} ."
    times = {"time": "{Day} {Clock}", "time_format": "%d.%m.%Y %H:%M", "time_zone": "Europe/Berlin"}
    expected = [(datetime(2024, 3, 1, 6, 5, tzinfo=UTC), '"a"', '"7"^^<decimal>')]
    assert values(session(), frame, map=made, **times) == expected
    with pytest.raises(SessionError, match=r"row 1 of the frame, counted from 0: v: 'n/a' is no decimal"):
        values(session(), frame, map=made.replace("?", ""), **times)


@pytest.mark.parametrize(
    ("value", "type", "term"), [(1e-7, "decimal", "0.0000001"), (-2.5e-7, "decimal", "-0.00000025"), (1e22, "integer", "1" + "0" * 22)]
)
def test_typed_cells_read_floats_by_their_value(value: float, type: str, term: str) -> None:
    for made in (pd.DataFrame, pa.table):
        frame = made({"t": [1], "pump": ["a"], "v": [value]})
        assert values(session(), frame, map=f"[] :pump {{pump}} ; :v {{v:{type}}} .") == [(1, '"a"', f'"{term}"^^<{type}>')]


def test_index_with_a_name_is_a_column() -> None:
    index = pd.DatetimeIndex(["2024-03-01T07:00:00", "2024-03-01T07:00:00.1234567"], name="at", tz="Europe/Berlin")
    frame = pd.DataFrame({"pump": ["a", "b"], "v": [1, 2]}, index=index)
    found = values(session(), frame, time="at", map="[] :pump {pump} ; :v {v} .")
    assert [time for time, _, _ in found] == [datetime(2024, 3, 1, 6, tzinfo=UTC), datetime(2024, 3, 1, 6, 0, 0, 123456, UTC)]


def test_rows_feed_the_stream_that_is_named() -> None:
    query = (
        "PREFIX : <http://e/> REGISTER STREAM :hot AS CONSTRUCT RSTREAM { ?r a :Hot } FROM NAMED WINDOW :w ON :t [RANGE PT1S STEP PT1S] "
    )
    program = Program.load(text=query + "WHERE { WINDOW :w { ?r :v 7 } }", language="rspql", prefixes={"": "http://e/"})
    frame = pd.DataFrame({"t": [1, 5], "v": [7, 7]})
    assert len(program.session().advance_frame(frame, time="t", map="[] :v {v} .", stream=":t")) == 2
    with pytest.raises(SessionError, match="there is no stream"):
        program.session().advance_frame(frame, time="t", map="[] :v {v} .", stream=":tt")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"map": "[] :v {w} ."}, "the frame has no column w, which map names"),
        ({"map": "[] :v {v}"}, "T1"),
        ({"map": "[] x:v {v} ."}, "unknown prefix x:"),
        ({"map": "[] :v {$topic} ."}, "$topic is a property"),
        ({"time": "at"}, "the frame has no column at, which time names"),
        ({"time": "note"}, "row 0 of the frame, counted from 0: its time, note: 'x' is neither an integer nor"),
        ({"time_zone": "Berlin"}, "there is no time zone Berlin"),
        ({"time_format": "%H"}, "%H has no year"),
        ({"frame": [1]}, "frame is no DataFrame of pandas and no table of Arrow, but a list"),
    ],
)
def test_unusable_frames_leave_the_session_unchanged(changed: dict[str, Any], told: str) -> None:
    run = session()
    frame = changed.pop("frame", pa.table(COLUMNS))
    if changed.get("map") == "[] :v {v}":
        changed["map"] = "[] :v {v"
    with pytest.raises(SessionError) as caught:
        values(run, frame, **changed)
    assert told in str(caught.value)
    assert run.advance(1) == []


def test_form_of_times_is_that_of_the_session() -> None:
    run = session()
    run.advance(datetime(2024, 3, 1))
    with pytest.raises(SessionError, match="t of the frame is no time of this session: its first one was a datetime"):
        values(run, pa.table(COLUMNS))
    assert values(run, pd.DataFrame(columns=["t", "pump", "v", "note"])) == []


def test_any_integer_is_a_time() -> None:
    run = session(origin=np.int64(7))
    assert [event.time for event in run.advance(np.int64(3), "[] :pump 'a' ; :v 1 .")] == [3]
    assert run.advance(np.uint8(4)) == []
    for wrong in (np.float64(5), np.bool_(True), True, "5", None):
        with pytest.raises(SessionError, match="is no time"):
            run.advance(wrong)  # type: ignore[arg-type]


def test_none_is_no_graph() -> None:
    run = session()
    for graphs in ((None,), ("", None), ({":t": None},), (7,)):
        with pytest.raises(SessionError, match=r"^graphs: (None|7) is no graph\. A graph is Turtle text"):
            run.advance(7, *graphs)
    assert run.advance(7, "") == []


def test_frames_load_no_package_that_they_do_not_need() -> None:
    code = "import sys; import dotr.api.session, dotr.api.frames; "
    code += "print([name for name in ('pandas', 'pyarrow', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
