"""Tables of Delta and Iceberg have each batch once, also where it is written again; what cannot be written is refused at the start."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dotr.runtimes.local.run import run_local
from tests.runtimes.spark.test_executor_outputs import in_process, letters, pipeline
from tests.runtimes.spark.test_spark_run import write_inputs
from tests.support.older_spark import FOR_DELTA, FOR_ICEBERG, run

pytestmark = pytest.mark.spark


def found(kind: str, version: str, folder: Path) -> Any:
    ended = run(version, ["-m", "tests.support.lake_runs", kind], folder)
    assert ended.returncode == 0, ended.stdout
    return json.loads((folder / "found.json").read_text())


def test_tables_of_delta(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    run_local(
        pipeline(tmp_path, "jumps", "  - { path: jumps/jumps.ndjson }\n", "jumps/rejected.ndjson", on_spark=False), lambda totals: None
    )
    told = found("delta", FOR_DELTA, tmp_path)
    assert Counter(told["first"]["gold"]) == Counter(told["first"]["made"]) == in_process(tmp_path)
    assert told["events"] == len(told["first"]["gold"]) > 20
    assert {json.loads(row)[2] for row in told["first"]["path"]} == {"Jump"}
    assert told["letters"] == told["first"]["rejected"] == letters(tmp_path).total() > 10
    assert told["repeated"] == told["first"]
    ((code, message, hint),) = told["missing"]
    assert code == "S175"
    assert message.startswith("table nothing.events is not there and cannot be made: [SCHEMA_NOT_FOUND]")
    assert hint.startswith("A run makes a table, but not its schema or catalog: CREATE SCHEMA")
    assert [each[:2] for each in told["other format"]] == [["S177", "table gold_events is of the format delta, not parquet"]]
    missing = "has no rule STRING, no attributes MAP<STRING, STRING>, no graph STRING"
    assert [each[:2] for each in told["other columns"]] == [["S177", f"table other {missing}"]]
    assert [each[0] for each in told["no catalog"]] == ["S175"]


@pytest.mark.soak
def test_tables_of_iceberg(tmp_path: Path) -> None:
    told = found("iceberg", FOR_ICEBERG, tmp_path)
    assert told["last"] == [None, 8, None]
    assert told["rows"] == [[7, 3], [8, 6], [9, 3]]  # batch 8 of each of two checkpoints
    ((code, message, _),) = told["missing"]
    assert (code, message.partition(":")[0]) == ("S175", "table nowhere.db.events is not there and cannot be made")
