"""Inputs by `spark` of a configuration as DataFrames: their columns, and what Spark cannot read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.languages.programs import compile_program
from dotr.runtimes.frames.run import OpenedTables, open_tables
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.inputs import read_inputs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

RULES: Final = """PREFIX : <http://e/>
rule Hot
define Alarm = [ dotr_id a :Alarm ; :room ?room ]
from Reading = [ SELECT ?room WHERE { ?r a :Temp ; :room ?room ; :value ?v FILTER(?v > 50) } ]
with Alarm.?room = Reading.?room
"""
MAP: Final = "[] a :Temp ; :room :{room} ; :value {value} ."
START: Final = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    columns = {"at": pa.array([START], pa.timestamp("us", "UTC")), "room": ["hall"], "value": [51.5], "raw": [b"x"]}
    pq.write_table(pa.table(columns), tmp_path / "in" / "1.parquet")
    (tmp_path / "r.dotr").write_text(RULES)
    return tmp_path


def opened(folder: Path, *inputs: str, streaming: bool = True, rules: str = "r.dotr") -> OpenedTables:
    listed = "\n".join(f"  - {{ {each} }}" for each in inputs)
    text = f"name: rooms\nprefixes: {{ '': 'http://e/' }}\nrules: [{rules}]\ninput:\n{listed}\noutput: [{{ path: out.ndjson }}]\n"
    (folder / "p.yaml").write_text(text)
    config, problems = read_config(str(folder / "p.yaml")), list[Diagnostic]()
    tables = read_inputs(config, problems).tables
    assert problems == []
    session = SparkSession.builder.getOrCreate()
    return open_tables(session, compile_program(config.program()), tables, streaming=streaming)


def problems_of(folder: Path, *inputs: str) -> list[tuple[str, str, str]]:
    with pytest.raises(Refused) as refused:
        opened(folder, *inputs)
    return [(each.code, each.message, each.span.text if each.span else "") for each in refused.value.diagnostics]


READINGS: Final = f"name: readings, spark: {{ format: parquet, path: in }}, time: at, map: '{MAP}', lateness: 30 s"


def test_columns_of_files_are_found_for_a_stream_too(folder: Path) -> None:
    found = opened(folder, READINGS)
    assert found.dated
    assert [each.df.isStreaming for each in found.streams] == [True]
    assert [each.lateness for each in found.sources] == [30_000_000]
    assert [each.df.isStreaming for each in opened(folder, READINGS, streaming=False).streams] == [False]


def test_an_input_feeds_the_stream_that_it_names(folder: Path) -> None:
    window = "NAMED WINDOW <w> ON <http://e/temps> [RANGE 1m]"
    query = f"REGISTER RSTREAM Q AS SELECT ?v FROM {window} WHERE {{ WINDOW <w> {{ ?r <http://e/value> ?v }} }}"
    (folder / "r.rspql").write_text(query)
    (folder / "r.dotr").unlink()
    (source,) = opened(folder, f"{READINGS}, stream: ':temps'", rules="r.rspql").sources
    assert source.stream == "http://e/temps"


def test_written_columns_are_those_of_the_stream(folder: Path) -> None:
    (folder / "csv").mkdir()
    source = "{ format: csv, path: csv, schema: 'at BIGINT, room STRING, value DOUBLE' }"
    found = opened(folder, READINGS.replace("{ format: parquet, path: in }", source))
    assert not found.dated


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (
            "{ table: bronze.readings }",
            "Spark cannot read bronze.readings: The table or view `bronze`.`readings` cannot be found",
            "catalog",
        ),
        ("{ format: parquet, path: nowhere }", "Path does not exist: file:", "relative to the configuration"),
        ("{ format: nothing, path: in }", "nothing", "spark.jars.packages"),
        ("{ format: parquet, path: 'foo://lake/in' }", "foo", "Is its scheme right? Name the store's jar"),
        ("{ format: parquet, path: empty }", "Unable to infer schema", "schema: "),
    ],
)
def test_what_spark_cannot_read_is_told_at_its_place(source: str, message: str, hint: str, folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(Refused) as refused:
        opened(folder, READINGS.replace("{ format: parquet, path: in }", source))
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.span.text if problem.span else "") == ("C286", "spark")
    assert message in problem.message
    assert hint in problem.hint


def test_values_of_secrets_are_in_no_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P", "nowhere")
    source = "{ format: parquet, path: nowhere, options: { fs.s3a.secret.key: '${P}' } }"
    ((_, message, _),) = problems_of(folder, READINGS.replace("{ format: parquet, path: in }", source))
    assert message.endswith("/${P}")


def test_problems_of_columns_are_at_the_keys_of_all_inputs(folder: Path) -> None:
    second = READINGS.replace("readings", "others").replace("time: at", "time: room").replace("{value}", "{raw}")
    found = problems_of(folder, READINGS.replace("time: at", "time: when").replace("{room}", "{rom}"), second)
    assert [(code, place) for code, _, place in found] == [("I103", "when"), ("I103", "{rom}"), ("C290", "room"), ("C290", "{raw}")]
