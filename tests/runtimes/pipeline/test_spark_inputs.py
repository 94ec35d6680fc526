"""Inputs by `spark` in a configuration: what is read of them before Spark starts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from dotr.commands.check.problems import check
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.time import UNITS
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.inputs import read_inputs
from dotr.runtimes.pipeline.spark_tables import SparkInput
from dotr.streams.records import Format

pytestmark = pytest.mark.core

RULES: Final = """PREFIX : <http://e/>
rule Hot
define Alarm = [ dotr_id a :Alarm ; :room ?room ]
from Reading = [ SELECT ?room WHERE { ?r a :Temp ; :room ?room ; :value ?v FILTER(?v > 50) } ]
with Alarm.?room = Reading.?room
"""
MAP: Final = "[] a :Temp ; :room :{room} ; :value {value} ."
READINGS: Final = f"name: readings, spark: {{ format: parquet, path: in }}, time: at, map: '{MAP}'"


def config_text(*inputs: str, more: str = "") -> str:
    listed = "\n".join(f"  - {{ {each} }}" for each in inputs)
    return f"name: rooms\nprefixes: {{ '': 'http://e/' }}\nrules: [r.dotr]\ninput:\n{listed}\noutput: [{{ path: out.ndjson }}]\n{more}"


def spark_inputs(folder: Path, *inputs: str, more: str = "") -> tuple[SparkInput, ...]:
    """The inputs of a configuration; raises `Refused` with all problems."""
    (folder / "r.dotr").write_text(RULES)
    (folder / "p.yaml").write_text(config_text(*inputs, more=more))
    problems: list[Diagnostic] = []
    found = read_inputs(read_config(str(folder / "p.yaml")), problems)
    if problems:
        raise Refused(problems)
    return found.tables


def problems_of(folder: Path, *inputs: str, more: str = "") -> list[tuple[str, str, str]]:
    """Code, message and the text at the place of each problem."""
    with pytest.raises(Refused) as refused:
        spark_inputs(folder, *inputs, more=more)
    return [(each.code, each.message, each.span.text if each.span else "") for each in refused.value.diagnostics]


def test_an_input_is_read(tmp_path: Path) -> None:
    (found,) = spark_inputs(tmp_path, READINGS + ", lateness: 30 s, stream: ':temps', watch: true")
    assert (found.name, found.time, found.map, found.graph) == ("readings", "at", MAP, None)
    assert (found.like.delay, found.streaming, found.goes_on) == (30 * UNITS["s"].value, True, True)
    assert (found.source.format, found.path, found.source.table) == ("parquet", str(tmp_path / "in"), None)


def test_a_column_of_graphs_is_turtle_where_no_format_is_written(tmp_path: Path) -> None:
    graphs = "spark: { table: bronze.graphs, streaming: false }, time: at, graph: text"
    first, second = spark_inputs(tmp_path, f"name: a, {graphs}", f"name: b, {graphs}, format: jsonld")
    assert (first.like.format, second.like.format) == (Format.TURTLE, Format.JSONLD)
    assert (first.graph, first.map, first.streaming, first.path) == ("text", None, False, None)


def test_urls_are_left_and_relative_paths_are_those_of_the_configuration(tmp_path: Path) -> None:
    (found,) = spark_inputs(tmp_path, READINGS.replace("path: in", "path: 's3a://lake//bronze/a=1'"))
    assert found.path == "s3a://lake//bronze/a=1"


def test_options_are_texts_and_secrets_are_read_where_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "maxFilesPerTrigger: 1, header: true, kafka.sasl.password: '${P}', fs.s3a.secret.key: '${P}'"
    (found,) = spark_inputs(tmp_path, READINGS.replace("path: in", f"path: in, options: {{ {options} }}"))
    monkeypatch.setenv("P", "x7")
    assert "x7" not in repr(found)
    assert found.options() == {"maxFilesPerTrigger": "1", "header": "true", "kafka.sasl.password": "x7", "fs.s3a.secret.key": "x7"}


@pytest.mark.parametrize("key", ["kafka.sasl.jaas.config", "fs.s3a.secret.key", "awsSecretKey", "password"])
def test_a_written_secret_is_refused_and_not_shown(key: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        spark_inputs(tmp_path, READINGS.replace("path: in", f"path: in, options: {{ {key}: sesame }}"))
    assert [each.code for each in refused.value.diagnostics] == ["C225"]
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{ }", "it needs a format, or a table of the catalog"),
        ("{ path: in }", "it needs a format, or a table of the catalog"),
        ("{ table: a, path: b }", "table and path exclude each other"),
        ("{ table: a, schema: 'x INT' }", "a table has its columns: leave schema out"),
    ],
)
def test_incomplete_sources_are_refused(source: str, message: str, tmp_path: Path) -> None:
    ((code, told, _),) = problems_of(tmp_path, f"name: a, spark: {source}, time: at, graph: g")
    assert (code, message in told) == ("C203", True)


def test_time_and_map_or_graph_are_needed(tmp_path: Path) -> None:
    source = "spark: { table: a }"
    assert [told[:2] for told in problems_of(tmp_path, f"name: a, {source}")] == [
        ("C202", "a spark input needs time"),
        ("C202", "a spark input needs map, or graph"),
    ]
    assert problems_of(tmp_path, f"name: a, {source}, time: at, map: '{MAP}', graph: g") == [
        ("C204", "map and graph exclude each other", "graph")
    ]
    assert problems_of(tmp_path, f"name: a, {source}, time: at, map: '{MAP}', format: turtle") == [
        ("C204", "format is that of the column graph, and this input has a map", "format")
    ]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("pace: 60", "pace"),
        ("pace: 60, replay: { }", "replay"),
        ("each: columns", "each"),
        ("idle: 1 min", "idle"),
        ("tail: true", "tail"),
        ("rate: 5", "rate"),
        ("one_per_instant: true", "one_per_instant"),
        ("delimiter: ';'", "delimiter"),
        ("spool: 1 GiB", "spool"),
    ],
)
def test_keys_of_other_inputs_are_refused(given: str, key: str, tmp_path: Path) -> None:
    found = problems_of(tmp_path, f"{READINGS}, {given}")
    assert ("C204", f"{key} is of other inputs, and Spark reads this one", key) in found


def test_formats_that_no_column_has_are_refused(tmp_path: Path) -> None:
    ((code, message, place),) = problems_of(tmp_path, "name: a, spark: { table: a }, time: at, graph: g, format: csv")
    assert (code, message, place) == ("C204", "a column holds graphs in turtle, ntriples, trig or jsonld, not in csv", "csv")


def test_a_time_is_one_column(tmp_path: Path) -> None:
    ((code, message, _),) = problems_of(tmp_path, READINGS.replace("time: at", "time: [at, from]"))
    assert (code, message) == ("C204", "the time of a row is one column, and this is a list")


def test_all_inputs_are_read_by_spark_or_none_is(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").touch()
    found = problems_of(tmp_path, READINGS, "name: b, format: ndjson, path: a.ndjson")
    assert [(code, message) for code, message, _ in found] == [("C204", "Spark reads the input readings, and dotr the input b")]


@pytest.mark.parametrize("key", ["streaming", "watch"])
def test_inputs_of_one_query_end_alike(key: str, tmp_path: Path) -> None:
    other = READINGS.replace("readings", "others")
    other = other.replace("path: in", "path: in, streaming: false") if key == "streaming" else f"{other}, watch: true"
    ((code, message, _),) = problems_of(tmp_path, READINGS, other)
    first, second = {"streaming": ("a stream", "once"), "watch": ("to its end", "until stopped")}[key]
    assert (code, message) == ("C204", f"input readings is read {'as ' if key == 'streaming' else ''}{first}, and input others {second}")


def test_batches_are_those_of_spark(tmp_path: Path) -> None:
    ((code, message, place),) = problems_of(tmp_path, READINGS, more="spark: { batch: 100 }\n")
    assert (code, message, place) == ("C204", "Spark divides what it reads into batches", "batch")


def test_what_is_read_once_does_not_go_on(tmp_path: Path) -> None:
    ((code, message, place),) = problems_of(tmp_path, READINGS.replace("path: in", "path: in, streaming: false") + ", watch: true")
    assert (code, message, place) == ("C204", "watch waits for new rows, and streaming: false reads all rows once", "watch")


def test_a_clock_needs_inputs_that_go_on(tmp_path: Path) -> None:
    assert [told[0] for told in problems_of(tmp_path, READINGS, more="clock: 10 s\n")] == ["C204"]
    (found,) = spark_inputs(tmp_path, f"{READINGS}, watch: true", more="clock: 10 s\n")
    assert found.goes_on


def test_errors_of_a_map_are_at_their_place(tmp_path: Path) -> None:
    ((code, _, place),) = problems_of(tmp_path, READINGS.replace(":value {value}", "no:value {value}"))
    assert (code, place) == ("T103", "no:")
    ((code, _, _),) = problems_of(tmp_path, READINGS.replace("{value}", "{$file}"))
    assert code == "T107"


def test_a_run_in_process_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "p.yaml").write_text(config_text(READINGS))
    with pytest.raises(Refused) as refused:
        build(read_config(str(tmp_path / "p.yaml")), fresh=False, on_spark=False)
    ((problem),) = refused.value.diagnostics
    assert (problem.code, problem.message) == ("C204", "Spark reads the input readings, and this run is in process")
    assert "engine: spark" in problem.hint


def test_check_of_a_configuration_alone_needs_no_spark(tmp_path: Path) -> None:
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "p.yaml").write_text(config_text(READINGS))
    assert check([str(tmp_path / "p.yaml")], None, []).diagnostics == ()
    (tmp_path / "p.yaml").write_text(config_text(READINGS, more="engine: local\n"))
    assert [each.code for each in check([str(tmp_path / "p.yaml")], None, []).diagnostics] == ["C204"]
    (tmp_path / "p.yaml").write_text(config_text(READINGS + ", watch: true"))
    assert [each.code for each in check([str(tmp_path / "p.yaml")], None, []).diagnostics] == ["I113"]
