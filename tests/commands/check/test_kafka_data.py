"""Commands that read the data of a Kafka input: up to its present end, over a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.commands import main
from tests.support.kafka_broker import Broker
from tests.support.kafka_inputs import kafka_section, line, write_config


@pytest.fixture
def config(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    topic = kafka.topic("readings", 3)
    kafka.produce_values(topic, [line(n, 0, n) for n in range(1, 40, 2)])
    kafka.produce_values(topic, [line(n, 1, n) for n in range(0, 41, 2)] + ["broken"], partition=1)
    monkeypatch.chdir(tmp_path)
    return write_config(tmp_path, f"{{ name: a, format: ndjson, idle: 1 s, {kafka_section(kafka, topic)} }}")


def _output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.kafka
def test_commands_read_the_available_records(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, reported = _output_of(capsys, "check", "--data", "1000", config.name)
    assert code == 0, reported
    assert "1 of 42 records cannot be read" in reported
    assert "readings-" in reported
    code, reported = _output_of(capsys, "why-not", config.name, "--rule", "pair", "--at", "0")
    assert code == 1, reported
    assert "nothing for Before" in reported
    code, reported = _output_of(capsys, "facts", config.name, "--at", "6")
    assert code == 0, reported
    assert "/1:3" in reported
    code, reported = _output_of(capsys, "replay", config.name, "--set", "limits.matches=7")
    assert code == 0, reported
    code, reported = _output_of(capsys, "report", config.name)
    assert code == 0, reported


def test_missing_broker_is_reported_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` does not connect; with `--data` it reports that no broker answers."""
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, '{ name: a, format: ndjson, kafka: { bootstrap.servers: "127.0.0.1:1", subscribe: a } }')
    code, reported = _output_of(capsys, "check", "pipeline.yaml")
    assert code == 0
    assert "I113 warning: no instant closes while a partition of input a is silent" in reported
    code, reported = _output_of(capsys, "check", "--data", "5", "pipeline.yaml")
    assert code == 2
    assert "S127" in reported


@pytest.mark.core
@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ("subscribe: a, group.id: g", "C204 group.id cannot be set: offsets are kept in the checkpoint"),
        ("subscribe: a, enable.ssl.certificate.verification: false", "C204 enable.ssl.certificate.verification cannot be set"),
        ("subscribe: a, security.protocol: SLL", 'C227 the client cannot be made: Invalid value "SLL"'),
        ("subscribe: a, sasl.password: hunter2", "C225"),
        ("subscribe: a, assign: { a: [0] }", "subscribe and assign exclude each other"),
        ("security.protocol: SSL", "it needs subscribe, subscribePattern or assign"),
        ('subscribePattern: "a("', "subscribePattern is no regular expression"),
        ("subscribe: a, startingOffsets: { a: { x: 1 } }", "startingOffsets gives offsets by partition"),
        ("subscribe: a, startingTimestamp: 5, startingOffsets: latest", "exclude each other"),
        ("subscribe: a, starting: 5", "unknown key starting"),
        ("assign: { a: [0, 0] }", "assign lists the numbers of partitions"),
    ],
)
def test_invalid_settings_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: str, reported: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, f'{{ name: a, format: ndjson, idle: 1 s, kafka: {{ bootstrap.servers: "b1", {settings} }} }}')
    code, found = _output_of(capsys, "check", "pipeline.yaml")
    assert code == 2, found
    assert reported in found
    assert "hunter2" not in found
