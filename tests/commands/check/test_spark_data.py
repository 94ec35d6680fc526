"""`dotr check --data` of inputs that Spark reads: columns, the triples of a row, rows that cannot be used."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dotr.commands import main

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

CONFIG: Final = """name: rooms
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - name: readings
    spark: { format: parquet, path: in }
    time: at
    map: "<http://e/{room}> a :Temp ; :value {value} ; :tag {tags[]} ."
output: [{ path: out }]
"""
RULES: Final = """PREFIX : <http://e/>
rule Hot
define Alarm = [ dotr_id a :Alarm ; :room ?room ]
from Reading = [ SELECT ?room WHERE { ?room a :Temp ; :values ?v FILTER(?v > 50) } ]
with Alarm.?room = Reading.?room
"""


def test_columns_and_rows_are_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    columns = {
        "at": pa.array([start, None], pa.timestamp("us", "UTC")),
        "room": ["hall", "x"],
        "value": [1.5, 2.5],
        "tags": [["a", "b"], []],
    }
    pq.write_table(pa.table(columns), tmp_path / "in" / "1.parquet")
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "p.yaml").write_text(CONFIG)
    assert main(["check", "--data", str(tmp_path / "p.yaml")]) == 0
    told, warned = capfd.readouterr()
    columns_line, row, line = [each for each in told.splitlines() if each.startswith("Input ")]
    assert columns_line.endswith("in are at timestamp, room string, value double, tags array<string>.")
    assert (
        row == 'Input readings: its first row is, at 2026-01-01T00:00:00Z: :hall a :Temp ; :value "1.5"^^xsd:double ; :tag "a" ; :tag "b" .'
    )
    assert line == "Input readings: 2 rows, from 2026-01-01T00:00:00Z to 2026-01-01T00:00:00Z."
    assert "I112 warning: input readings: 1 of 2 rows cannot be read" in warned
    assert "its time is NULL" in warned
    assert "I111 warning: a query asks for :values, and no record brings it" in warned
    (tmp_path / "p.yaml").write_text(CONFIG.replace("{value}", "{valeu}"))
    assert main(["check", "--data", str(tmp_path / "p.yaml")]) == 2
    assert "I103 the DataFrame has no column valeu, which map names" in capfd.readouterr().err
