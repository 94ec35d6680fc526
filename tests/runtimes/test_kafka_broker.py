"""The broker of the tests keeps acknowledged records when it is killed, and shows committed records to readers."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from tests.support.kafka_broker import Broker, Sent
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from confluent_kafka.admin._listoffsets import OffsetSpec as AskedPlace

pytestmark = pytest.mark.kafka


def test_committed_records_survive_a_kill(kafka: Broker) -> None:
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


def test_times_listed_by_a_broker_differ_from_those_that_readers_receive(kafka: Broker) -> None:
    """The reason for which the planner of growing topics reads the records' times, and does not query the broker for them. The broker's
    times are right where times are merely out of order. But they include aborted records, marks of transactions (with the broker's clock)
    and records without a value, and there is none while the greatest time is in an open transaction."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin._listoffsets import OffsetSpec

    admin = kafka._admin()

    def ask(topic: str, at: AskedPlace) -> tuple[int, int]:
        place = TopicPartition(topic, 0)
        found = admin.list_offsets({place: at}, isolation_level=IsolationLevel.READ_COMMITTED)[place].result()
        return found.offset, found.timestamp

    def beyond(topic: str, time: int) -> int:
        return ask(topic, OffsetSpec.for_timestamp(time + 1))[0]

    def last(topic: str) -> tuple[int, int]:
        return ask(topic, OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call]

    def sent(*times: int) -> list[Sent]:
        return [Sent(b"x", timestamp=time) for time in times]

    unordered = kafka.topic()
    kafka.produce(unordered, sent(1_000, 3_000, 2_000, 5_000, 4_000))
    assert [beyond(unordered, time) for time in (0, 1_000, 2_000, 3_000, 5_000)] == [0, 1, 1, 3, -1]
    assert last(unordered) == (3, 5_000)

    aborted = kafka.topic()
    kafka.produce(aborted, sent(1_000))
    with kafka.transaction(aborted, sent(9_000), commit=False):
        assert last(aborted) == (-1, -1), "the record before it is committed, and not listed"
    kafka.produce(aborted, sent(2_000))
    assert [(each.offset, each.timestamp) for each in kafka.consume(aborted)] == [(0, 1_000), (3, 2_000)]
    assert beyond(aborted, 1_000) == 1, "a reader has offset 3 there; and the broker finds nothing behind a given offset"
    offset, time = last(aborted)
    assert (offset, time > 1_000_000) == (2, True), "the mark of the abort"

    committed = kafka.topic()
    with kafka.transaction(committed, sent(1_000)):
        pass
    deadline = monotonic() + PATIENCE
    while (found := last(committed)) == (-1, -1) and monotonic() < deadline:  # the mark of a transaction is written after the commit
        sleep(0.05)
    offset, time = found
    assert (offset, time > 1_000_000) == (1, True), "all later records would count as late"

    without_value = kafka.topic()
    kafka.produce(without_value, [*sent(1_000), Sent(None, timestamp=5_000), *sent(2_000)])
    assert (beyond(without_value, 1_000), last(without_value)) == (1, (1, 5_000)), "it is unreadable, and has no time"
