"""Brokers and writers killed with -9 before, in and after transactions: each record is in the topic once, and in order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kafka_kills import kill_sink, kill_spark, moments_of
from tests.support.kafka_broker import Broker

pytestmark = pytest.mark.kafka


def test_sink_killed_14_times_writes_each_record_once(kafka: Broker, tmp_path: Path) -> None:
    assert kill_sink(kafka, tmp_path, moments_of(14, random.Random(7), brokers=0.0)) == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_run_on_spark_killed_4_times_writes_each_record_once(kafka: Broker, tmp_path: Path) -> None:
    """The batch of a killed run is in the topic, or it is not: what Spark's checkpoint adds. The test above has all moments."""
    assert kill_spark(kafka, tmp_path, ["in", "broker", "after", "broker"]) == []
