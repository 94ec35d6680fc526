"""Secrets: `${NAME}` until used, and no message with a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.runtimes.pipeline.config import read_config
from dotr.syntax.secrets import Secret, reveal_url
from tests.conftest import Project

pytestmark = pytest.mark.core

VALUE = "hunter2-hunter2"


def _config(kafka: str) -> str:
    return f"""\
name: small
rules: [r.dotr]
input:
  - {{ name: a, format: ndjson, kafka: {{ bootstrap.servers: b1, subscribe: a, {kafka} }} }}
output: [{{ path: out.ndjson }}]
"""


@pytest.mark.parametrize(
    "text",
    [
        _config(f"sasl.password: {VALUE}"),
        _config(f'"sasl.password": "{VALUE}"'),
        _config(f"sasl.password: ${{NAME:-{VALUE}}}"),
        _config(f"sasl.password: x${{NAME}}{VALUE}"),
        _config(f"sasl.password: {VALUE}, foo: 1"),
        _config(f"sasl.password: &p {VALUE}, ssl.key.password: *p"),
        _config(f"ssl.key.pem: |\n    {VALUE}\n"),
        _config(f"sasl.password: {VALUE}").replace("}", "", 1),
        "input: [{ name: a, format: json, mqtt: { url: 'mqtt://u:" + VALUE + "@b', topics: [a] } }]\n",
        "input: [{ name: a, format: json, http: { listen: '8081', tokens: [" + VALUE + "] } }]\n",
    ],
)
def test_written_secret_is_refused_without_its_value(project: Project, text: str) -> None:
    project.write("c.yaml", text)
    told = project.refused("check", "c.yaml")
    assert "hunter2" not in told
    assert "C225" in told or "C102" in told


@pytest.mark.parametrize(
    "option",
    [
        f"input.0.kafka.sasl.password={VALUE}",
        f"input.0.kafka={{bootstrap.servers: b, sasl.password: {VALUE}}}",
        f"input.0.mqtt.url=mqtt://u:{VALUE}@b",
        f"input.0.mqtt.password={{{VALUE}",
    ],
)
def test_secret_in_an_option_is_refused_without_its_value(project: Project, option: str) -> None:
    assert "hunter2" not in project.refused("run", "c.yaml", "--set", option)


def test_value_of_a_secret_is_read_on_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", VALUE)
    monkeypatch.setenv("HOST", "b1")
    path = tmp_path / "c.yaml"
    path.write_text(_config("sasl.password: '${PASSWORD}'").replace("servers: b1", 'servers: "${HOST}:9092"'))
    kafka = read_config(str(path)).settings.input[0].kafka
    assert kafka is not None
    assert kafka.servers == "b1:9092"
    assert kafka.properties == {"sasl.password": "${PASSWORD}"}
    assert VALUE not in read_config(str(path)).settings.model_dump_json()
    assert Secret("${PASSWORD}").reveal() == VALUE
    assert reveal_url("mqtt://u:${PASSWORD}@b") == f"mqtt://u:{VALUE}@b"


def test_password_of_a_url_is_not_substituted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", VALUE)
    monkeypatch.setenv("HOST", "b1")
    path = tmp_path / "c.yaml"
    url = "mqtts://u:${PASSWORD}@${HOST}:8883"
    path.write_text(
        f"name: a\nrules: [r]\ninput: [{{ name: a, format: json, mqtt: {{ url: '{url}', topics: [a] }} }}]\noutput: [{{path: o}}]"
    )
    mqtt = read_config(str(path)).settings.input[0].mqtt
    assert mqtt is not None
    assert mqtt.url == "mqtts://u:${PASSWORD}@b1:8883"


def test_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PASSWORD", raising=False)
    with pytest.raises(Refused, match="S124"):
        Secret("${PASSWORD}").reveal()


def test_transports_exclude_each_other(project: Project) -> None:
    project.write("c.yaml", _config("x.y: 1").replace("kafka:", "path: a.ndjson, kafka:"))
    assert "C204" in project.refused("check", "c.yaml")


def test_property_with_dots_is_set_by_an_option(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(_config("fetch.min.bytes: 1"))
    kafka = read_config(str(path), ["input.0.kafka.fetch.min.bytes=7"]).settings.input[0].kafka
    assert kafka is not None
    assert kafka.properties == {"fetch.min.bytes": 7}
