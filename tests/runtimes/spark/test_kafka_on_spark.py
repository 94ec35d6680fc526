"""Kafka as an input on Spark, over a real broker: the same events and dead letters as in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.kafka_broker import Broker
from tests.support.kafka_inputs import dead_letters, expected, kafka_section, run, send, streams, write_config, written

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BOUNDED = "endingOffsets: latest"
SPARK = "spark: {{ master: 'local[2]', batch: {} }}\n"


def _pairs(dead: list[dict[str, object]]) -> list[tuple[object, object]]:
    return sorted((each["reason"], each["text"]) for each in dead)  # type: ignore[type-var]


def test_bounded_in_small_batches(kafka: Broker, tmp_path: Path) -> None:
    lines = streams(2, 3, 400)
    topic = kafka.topic(partitions=4)
    send(kafka, topic, lines)
    events, dead = expected(tmp_path / "files", lines)
    section = kafka_section(kafka, topic, BOUNDED)
    config = write_config(tmp_path / "k", f"{{ name: a, format: ndjson, lateness: 3 s, {section} }}", SPARK.format(150))
    ended = run(config)
    assert ended.returncode == 0, ended.stderr
    out = config.parent / "out"
    assert sorted(written(out / "events")) == sorted(events)
    assert [json.loads(text)["time"] for text in written(out / "events")] == [json.loads(text)["time"] for text in events]
    assert _pairs(dead_letters(out / "dead")) == dead
    assert len(list((out / "events").glob("*.ndjson"))) > 3
