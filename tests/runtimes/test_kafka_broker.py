"""The broker that tests start keeps what it acknowledged when it is killed, and shows readers what is committed."""

import pytest

from tests.support.kafka_broker import Broker, Sent

pytestmark = pytest.mark.kafka


def test_what_is_committed_outlives_a_kill(kafka: Broker) -> None:
    topic = kafka.topic("kept", partitions=2)
    kafka.produce(topic, [Sent(b"a", b"key", 0, 1_700_000_000_000, (("h", b"v"),)), Sent(None, partition=1)])
    with kafka.transaction(topic, [Sent(b"aborted")], commit=False):
        assert [one.value for one in kafka.consume(topic, "read_uncommitted")] == [b"a", b"aborted", None]
    with kafka.transaction(topic, [Sent(b"b")]):
        pass
    kafka.restart()
    first, second, third = kafka.consume(topic)
    assert first == Sent(b"a", b"key", 0, 1_700_000_000_000, (("h", b"v"),), 0)
    assert (second.value, third.value) == (b"b", None)
    kafka.delete_records(topic, before=1)
    assert kafka.values(topic) == ["b", ""]
    kafka.delete(topic)
    kafka.create(topic)
    assert kafka.values(topic) == []
