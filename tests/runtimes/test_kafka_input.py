"""Kafka as an input in process, over a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka_broker import Broker
from tests.support.kafka_inputs import (
    dead_letters,
    expected,
    kafka_section,
    run,
    send,
    streams,
    write_config,
    written,
)

pytestmark = pytest.mark.kafka

BOUNDED = "endingOffsets: latest"


def _pairs(dead: list[dict[str, object]]) -> list[tuple[object, object]]:
    return sorted((each["reason"], each["text"]) for each in dead)  # type: ignore[type-var]


def test_partitions_are_inputs_of_their_own(kafka: Broker, tmp_path: Path) -> None:
    """Events and dead letters are those of files; places are topic, partition and offset."""
    lines = streams(1, 3, 400)
    topic = kafka.topic(partitions=3)
    send(kafka, topic, lines)
    events, dead = expected(tmp_path / "files", lines)
    config = write_config(tmp_path / "k", f"{{ name: a, format: ndjson, lateness: 3 s, {kafka_section(kafka, topic, BOUNDED)} }}")
    ended = run(config, "--engine", "local")
    assert ended.returncode == 0, ended.stderr
    assert written(config.parent / "out/events.ndjson") == events
    found = dead_letters(config.parent / "out/dead.ndjson")
    assert _pairs(found) == dead
    for each in found:
        place, partition = str(each["file"]).rsplit("/", 1)
        assert place == topic
        assert each["input"] == "a"
        assert lines[int(partition)][int(str(each["line"]))] == each["text"]
