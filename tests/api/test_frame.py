"""`dotr.frame`: events as a pandas DataFrame of Python values."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

import dotr
from dotr import DotrError, Event, Program
from dotr.model.terms import XSD, literal

pytestmark = pytest.mark.core

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


def typed(text: str, datatype: str) -> str:
    return f'"{text}"^^<{XSD}{datatype}>'


def event(time: int | datetime, rule: str = "R", **attributes: str) -> Event:
    return Event(time, rule, f"{rule}Event", attributes, "")


def column(*terms: str | None) -> pd.Series:
    """The column of an attribute that has these terms (None: it is missing)."""
    return dotr.frame([event(1, v=term) if term is not None else event(1) for term in (*terms, None)])["v"].iloc[:-1]


def test_frame_has_time_rule_type_and_attributes() -> None:
    found = dotr.frame([event(12, room="<http://e/lab>", v=typed("7", "integer")), event(13, "S", v=typed("8", "integer"))])
    assert list(found.columns) == ["time", "rule", "type", "room", "v"]
    assert {name: found[name].tolist() for name in found} == {
        "time": [12, 13],
        "rule": ["R", "S"],
        "type": ["REvent", "SEvent"],
        "room": ["http://e/lab", pd.NA],
        "v": [7, 8],
    }
    assert list(found.index) == [0, 1]
    assert {name: str(kind) for name, kind in found.dtypes.items()} == {
        "time": "int64",
        "rule": "string",
        "type": "string",
        "room": "string",
        "v": "Int64",
    }
    assert type(found["room"][0]) is str


def test_frame_of_nothing_has_its_columns() -> None:
    assert list(dotr.frame([]).columns) == ["time", "rule", "type"]
    assert len(dotr.frame(iter([event(1)]))) == 1


def test_date_times_are_in_utc() -> None:
    found = dotr.frame([event(NOON), event(NOON + timedelta(microseconds=1))])
    assert str(found["time"].dtype) == "datetime64[ns, UTC]"
    assert found["time"].tolist() == [pd.Timestamp(NOON), pd.Timestamp(NOON) + pd.Timedelta(microseconds=1)]
    assert found.set_index("time").resample("1h").size().tolist() == [2]


def test_date_times_beyond_nanoseconds_are_in_microseconds() -> None:
    far = datetime(9999, 1, 1, tzinfo=UTC)
    found = dotr.frame([event(far, v=typed("0001-01-01T00:00:00Z", "dateTime"))])
    assert str(found["time"].dtype) == str(found["v"].dtype) == "datetime64[us, UTC]"
    assert found["time"][0].to_pydatetime() == far


def test_integers_and_date_times_together_are_python_values() -> None:
    found = dotr.frame([event(1), event(NOON)])
    assert found["time"].dtype == object
    assert found["time"].tolist() == [1, NOON]


@pytest.mark.parametrize(
    ("terms", "dtype", "values"),
    [
        ([typed("1", "integer"), typed("2", "short")], "Int64", [1, 2]),
        ([typed("1", "integer"), None], "Int64", [1, pd.NA]),
        ([typed(str(2**70), "integer"), typed("1", "integer")], "object", [2**70, 1]),
        ([typed("1.5", "decimal"), typed("2", "integer")], "Float64", [1.5, 2.0]),
        ([typed("1.5", "decimal"), typed("2.5e0", "double"), None], "Float64", [1.5, 2.5, pd.NA]),
        ([typed("1" + "0" * 400, "decimal"), typed("1.5", "decimal")], "object", [Decimal(10**400), Decimal("1.5")]),
        ([typed("1" + "0" * 400, "integer"), typed("1.5", "decimal")], "object", [10**400, Decimal("1.5")]),
        ([typed("true", "boolean"), None], "boolean", [True, pd.NA]),
        ([literal("a"), "<http://e/x>", None], "string", ["a", "http://e/x", pd.NA]),
        (['"warm"@en', "_:b"], "string", ['"warm"@en', "_:b"]),
        ([literal("a"), typed("1", "integer"), None], "object", ["a", 1, pd.NA]),
        ([typed("true", "boolean"), typed("1", "integer")], "object", [True, 1]),
        ([typed("2024-02-29T12:00:00", "dateTime"), None], "datetime64[ns]", [pd.Timestamp("2024-02-29 12:00"), pd.NaT]),
        (
            [typed("2024-02-29T12:00:00Z", "dateTime"), typed("2024-02-29T14:00:00+01:00", "dateTime")],
            "datetime64[ns, UTC]",
            [pd.Timestamp(NOON), pd.Timestamp(NOON + timedelta(hours=1))],
        ),
        (
            [typed("2024-02-29T12:00:00", "dateTime"), typed("2024-02-29T12:00:00Z", "dateTime")],
            "object",
            [datetime(2024, 2, 29, 12), NOON],
        ),
    ],
)
def test_columns_have_the_type_of_their_values(terms: list[str | None], dtype: str, values: list[object]) -> None:
    found = column(*terms)
    assert str(found.dtype) == dtype
    assert all(one is other or one == other for one, other in zip(found.tolist(), values, strict=True)), found.tolist()


def test_not_a_number_is_not_missing() -> None:
    found = column(typed("NaN", "double"), None, typed("INF", "double"))
    assert found.isna().tolist()[1]
    assert str(found.iloc[0]) == "nan"
    assert found.iloc[0] is not pd.NA
    assert found.iloc[2] == float("inf")


def test_attribute_named_like_a_column_has_a_question_mark() -> None:
    found = dotr.frame([Event(1, "R", "E", {"time": typed("5", "integer"), "rule": literal("x"), "v": literal("y")}, "")])
    assert list(found.columns) == ["time", "rule", "type", "?time", "?rule", "v"]
    assert found["?time"].tolist() == [5]


def test_values_with_another_zone_keep_their_instant() -> None:
    zone = timezone(timedelta(hours=9))
    assert column(typed("2024-02-29T21:00:00+09:00", "dateTime"))[0] == NOON.astimezone(zone)


def test_events_of_a_session_make_a_frame(tmp_path: Path) -> None:
    (tmp_path / "r.dotr").write_text(
        "PREFIX : <http://e/> rule Copy define Out = [ ?x :v ?v ] from A = [ SELECT ?x ?v WHERE { ?x :v ?v } ] "
        "with Out.?x = A.?x, Out.?v = A.?v",
        encoding="utf-8",
    )
    with Program.load(tmp_path / "r.dotr", prefixes={"": "http://e/"}).session() as session:
        events = session.advance(NOON, ":a :v 1 .", ":b :v 2 .")
    found = dotr.frame(events)
    assert found["v"].sum() == 3
    assert found["time"].dt.hour.tolist() == [12, 12]


def test_missing_pandas_is_refused_with_the_command_that_installs_it() -> None:
    code = "import sys; sys.modules['pandas'] = None\nimport dotr\ntry: dotr.frame([])\nexcept dotr.DotrError as error: print(error)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "C502 dotr.frame needs pandas, which is not installed\nInstall it: pip install 'dotr[pandas]'\n"


def test_damaged_pandas_is_not_reported_as_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error inside pandas keeps its own text."""
    (tmp_path / "pandas.py").write_text("import no_such_module_of_pandas", encoding="utf-8")
    code = "import dotr\ntry: dotr.frame([])\nexcept ModuleNotFoundError as error: print(error.name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == "no_such_module_of_pandas\n"
    assert issubclass(DotrError, Exception)
