"""All connectors of the registry: each has a folder, sections, a message for a missing library and rows in docs/connectors.md."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import pytest

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.runtimes.pipeline.config import Config, read_config
from dotr.runtimes.pipeline.inputs import open_topics, read_inputs
from dotr.runtimes.pipeline.outputs import read_outputs
from dotr.runtimes.pipeline.sections import InputSection, OutputSection, Settings, keys_of
from dotr.streams.connectors.opening import PublishedOutputs
from dotr.streams.connectors.registry import CONNECTORS, TRANSPORTS, Transport
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

KEYS: Final[tuple[tuple[Literal["input", "output"], type[InputSection | OutputSection]], ...]] = (
    ("input", InputSection),
    ("output", OutputSection),
)
FOLDER: Final = ROOT / "dotr" / "streams" / "connectors"


class Example(NamedTuple):
    """Sections of a connector (empty where it has none), their destination as text, the module of its library, the extra that has it, and
    the format of the input, and its further keys."""

    input: str
    output: str
    destination: str
    library: str
    extra: str = ""
    form: str = "ndjson"
    more: str = ""


EXAMPLES: Final[Mapping[str, Example]] = {
    "kafka": Example(
        "{ bootstrap.servers: b:9092, subscribe: in }",
        "{ bootstrap.servers: b:9092, topic: out, delivery: at_least_once }",
        "topic out of Kafka at b:9092",
        "confluent_kafka",
    ),
    "mqtt": Example("{ url: mqtt://b, topics: [in] }", "{ url: mqtt://b, topic: out }", "topic out of mqtt://b:1883", "paho.mqtt.enums"),
    "http": Example("{ listen: 8081 }", "{ url: 'https://h/out?a=b' }", "https://h/out", "aiohttp"),
    "serve": Example("", "{ listen: 8080/fire }", "http://127.0.0.1:8080/fire/", "aiohttp", "http"),
    "sse": Example("{ url: 'https://h/in' }", "", "", "aiohttp", "http"),
    "websocket": Example("{ url: 'wss://h/in' }", "", "", "aiohttp", "http"),
    "ldes": Example("{ url: 'https://h/in' }", "", "", "aiohttp", "http", "turtle"),
    "spark": Example(
        "{ format: parquet, path: in }",
        "{ format: delta, table: gold.events }",
        "table gold.events",
        "pyspark",
        form="turtle",
        more=", time: at, graph: text",
    ),
}

every_connector = pytest.mark.parametrize("name", CONNECTORS)


def config_of(folder: Path, name: str) -> Config:
    example = EXAMPLES[name]
    source = f"{name}: {example.input}" if example.input else "path: a.ndjson"
    output = f"{name}: {example.output}" if example.output else "path: out.ndjson"
    text = f"""
name: p
rules: [r.dotr]
input: [{{ name: a, format: {example.form}, {source}{example.more} }}]
output: [{{ {output} }}]
"""
    (folder / "a.ndjson").touch()
    (folder / "p.yaml").write_text(text)
    return read_config(str(folder / "p.yaml"))


def open_inputs(config: Config) -> None:
    """The inputs of a configuration, opened as a run opens them; raises `Refused` with all problems."""
    problems: list[Diagnostic] = []
    inputs = read_inputs(config, problems)
    if problems:
        raise Refused(problems)
    open_topics(config, inputs.topics)
    for each in inputs.growing:
        assert each.source is not None
        each.source.receiver()


def open_servers(config: Config) -> None:
    """The servers of a configuration's outputs, opened as a run opens them; raises `Refused`."""
    PublishedOutputs(read_outputs(config, [], on_spark=False).events)


def test_examples_are_of_all_connectors() -> None:
    assert set(EXAMPLES) == set(CONNECTORS)


def test_transports_are_paths_and_connectors() -> None:
    assert ("path", *CONNECTORS) == TRANSPORTS == get_args(Transport)


def test_folders_are_connectors() -> None:
    assert {each.parent.name for each in FOLDER.glob("*/__init__.py")} == set(CONNECTORS)


@every_connector
def test_sections_lie_in_the_folder_and_are_keys_of_a_configuration(name: str) -> None:
    for key, model in KEYS:
        section = CONNECTORS[name].section(key)
        assert (section is None) == (name not in model.model_fields)
        if section is not None:
            assert section.__module__ == f"dotr.streams.connectors.{name}.section"
            assert keys_of(Settings, (key, 0, name)) == {
                field.alias or each: field.description for each, field in section.model_fields.items()
            }


@every_connector
def test_section_makes_a_source_and_a_destination(name: str, tmp_path: Path) -> None:
    config = config_of(tmp_path, name)
    (tmp_path / "a.ndjson").write_text("")
    problems: list[Diagnostic] = []
    inputs, outputs = read_inputs(config, problems), read_outputs(config, problems, on_spark=name == "spark")
    assert problems == []
    if EXAMPLES[name].input:
        named = [each.name for each in inputs.topics] + [each.name for each in inputs.tables]
        assert named + [each.like.input for each in inputs.growing] == ["a"]
    if EXAMPLES[name].output:
        assert [str(each.destination) for each in outputs.events] == [EXAMPLES[name].destination]
        assert type(outputs.events[0].destination).__module__.startswith(f"dotr.streams.connectors.{name}.")


@every_connector
def test_empty_sections_are_refused(name: str, tmp_path: Path) -> None:
    config = tmp_path / "p.yaml"
    keys = [key for key, _ in KEYS if CONNECTORS[name].has(key)]
    ends = {key: f"{name}:" if key in keys else "path: x" for key in ("input", "output")}
    config.write_text(
        f"name: p\nrules: [r.dotr]\ninput: [{{ name: a, format: ndjson, {ends['input']} }}]\noutput: [{{ {ends['output']} }}]\n"
    )
    with pytest.raises(Refused) as refused:
        read_config(str(config))
    assert [(each.code, each.message) for each in refused.value.diagnostics] == [("C202", f"{key}.0.{name} is empty") for key in keys]


@pytest.mark.parametrize("name", [name for name in CONNECTORS if name != "spark"])  # without PySpark no run on Spark begins (S101)
def test_missing_library_is_named_with_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = EXAMPLES[name].library
    monkeypatch.setitem(sys.modules, library, None)
    config = config_of(tmp_path, name)
    opened = open_inputs if EXAMPLES[name].input else open_servers
    with pytest.raises(Refused) as refused:
        opened(config)
    (problem,) = refused.value.diagnostics
    package = library.partition(".")[0].replace("_", "-")
    assert (problem.code, problem.hint) == ("C226", f"pip install 'dotr[{EXAMPLES[name].extra or name}]'")
    assert re.search(rf"needs the Python package {package}\b.*, which is not installed", problem.message)


@every_connector
def test_library_is_an_extra(name: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    package = EXAMPLES[name].library.partition(".")[0].replace("_", "-")
    assert any(re.match(rf"{package}\b", requirement) for requirement in extras[EXAMPLES[name].extra or name])


@every_connector
def test_docs_have_a_row_for_input_and_output_and_a_section(name: str) -> None:
    text = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8")
    tables = [table for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) if table.startswith(("| input |", "| output |"))]
    rows = [bool(re.search(rf"^\| `{name}`", table, re.MULTILINE)) for table in tables]
    assert rows == [bool(EXAMPLES[name].input), bool(EXAMPLES[name].output)]
    assert re.search(rf"^##+ {name}( input| output)?$", text, re.MULTILINE | re.IGNORECASE)
