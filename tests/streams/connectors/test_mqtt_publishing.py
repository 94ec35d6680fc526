"""Events published to a real broker: exactly once without failures, at least once if it is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from paho.mqtt.client import MQTTMessage

from dotr.errors.diagnostics import Refused
from dotr.model.stream import DeadLetter, Firing
from dotr.model.time import Clock
from dotr.streams.connectors.mqtt import sink as mqtt_publishing
from dotr.streams.connectors.mqtt.broker import Credentials, MqttBroker, MqttDestination
from dotr.streams.connectors.mqtt.sink import MqttPublisher, PublishedBatches, PublishedMessages
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import check_nothing
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.files import WriteFailed
from dotr.streams.sinks.messages import MessageFormat
from tests.support.mosquitto import Mosquitto, wait_until
from tests.support.outputs import numbering_encoder
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.mosquitto

ENCODER = partial(numbering_encoder, MessageFormat(StreamFormat.CSV, OutputTerms(Clock(), ["x"], pipeline="fire")))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path / "mosquitto") as broker:
        yield broker


def destination(broker: Mosquitto, password: str = "", **settings: int) -> MqttDestination:
    credentials = Credentials("dotr", password) if password else Credentials()
    access = MqttBroker(broker.url, "dotr-out", credentials=lambda: credentials)
    return MqttDestination(access, "events/fire", **settings)  # type: ignore[arg-type]


def firings(first: int, last: int, text: str = "a") -> list[Firing]:
    return [Firing(number * 1_000_000, "R", "Out", (("x", f'"{text}"'),), (), 0) for number in range(first, last)]


def reject_nothing(letter: DeadLetter) -> None:
    raise AssertionError(letter)


def user_properties(message: MQTTMessage) -> list[tuple[str, str]]:
    return getattr(message.properties, "UserProperty", [])


def seconds(messages: list[MQTTMessage]) -> list[int]:
    return [int(message.payload.split(b",")[0]) for message in messages]


def test_events_are_messages_with_an_id_and_a_time(broker: Mosquitto) -> None:
    with broker.subscribed("#") as received:
        with PublishedMessages(destination(broker), ENCODER, reject_nothing) as sink:
            sink.write_items(firings(0, 2))
            sink.write_items(firings(1, 2))
        wait_until(lambda: len(received) == 3)
    assert [message.payload for message in received] == [b"0,R,Out,a", b"1,R,Out,a", b"1,R,Out,a"]
    assert {message.topic for message in received} == {"events/fire"}
    headers = [dict(user_properties(message)) for message in received]
    assert [each["dotr-id"] for each in headers] == ["fire/0-0", "fire/1000000-0", "fire/1000000-1"]
    assert [each["dotr-time"] for each in headers] == ["0", "1000000", "1000000"]
    assert not any(hasattr(message.properties, "ContentType") for message in received)


def test_last_event_is_retained_if_requested(broker: Mosquitto) -> None:
    with PublishedMessages(destination(broker, retain=True), ENCODER, reject_nothing) as sink:
        sink.write_items(firings(0, 3))
    with broker.subscribed("#") as received:
        wait_until(lambda: received)
    assert seconds(received) == [2]


def test_repeated_batch_has_the_same_bytes(broker: Mosquitto) -> None:
    with broker.subscribed("#") as received:
        for _ in range(2):
            sink = PublishedBatches(destination(broker), ENCODER)
            sink.open(check_nothing)
            assert sink.write_batch(7, [firings(0, 1_500), firings(1_500, 3_000)], check_nothing) == []
            sink.close()
        wait_until(lambda: len(received) == 6_000)
    assert seconds(received[:3_000]) == list(range(3_000))
    pairs = zip(received[:3_000], received[3_000:], strict=True)
    assert all(one.payload == other.payload and user_properties(one) == user_properties(other) for one, other in pairs)


def test_no_event_is_lost_when_the_broker_restarts_repeatedly(tmp_path: Path) -> None:
    """A subscriber with a session receives each event. (With -9 mosquitto would lose acknowledged messages that are not yet saved.)"""
    with Mosquitto(tmp_path / "mosquitto", keeps=True) as broker:
        with broker.subscribed("#", client_id="reader") as received:
            pass
        sink = PublishedBatches(destination(broker), ENCODER)
        sink.open(check_nothing)
        done = threading.Event()

        def write() -> None:
            for number in range(0, 200, 20):
                sink.write_batch(number, [firings(number, number + 20)], check_nothing)
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(3):
            time.sleep(0.2)
            broker.stop()
            broker.start()
        assert done.wait(PATIENCE)
        thread.join()
        sink.close()
        with broker.subscribed("#", client_id="reader") as received:
            wait_until(lambda: set(seconds(received)) == set(range(200)))


def test_unreachable_broker_is_retried_until_it_starts(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path / "mosquitto")
    sink = PublishedMessages(destination(broker), ENCODER, reject_nothing)
    sink.write_items(firings(0, 3))
    with broker, broker.subscribed("#") as received:
        with sink:
            pass
        wait_until(lambda: len(received) == 3)


def test_queued_messages_are_bounded(tmp_path: Path) -> None:
    """Without a broker the run waits at the limit, until a signal ends it."""

    def stop() -> None:
        raise KeyboardInterrupt

    publisher = MqttPublisher(destination(Mosquitto(tmp_path / "mosquitto")))
    publisher.open()
    encode = ENCODER()
    published = 0
    with suppress(KeyboardInterrupt):
        for message in encode(firings(0, 20_000)):
            publisher.publish(message, stop)
            published += 1
    assert published == 10_000
    publisher.close()


@pytest.mark.parametrize("setting", ["max_packet_size 2000", "message_size_limit 1000"])
def test_messages_rejected_by_the_broker_are_dead_letters(tmp_path: Path, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the second setting mosquitto ends the connection without a reason."""
    monkeypatch.setattr(mqtt_publishing, "MOST_LOSSES", 2)
    with Mosquitto(tmp_path / "mosquitto", settings=[setting]) as broker, broker.subscribed("#") as received:
        sink = PublishedBatches(destination(broker), ENCODER)
        sink.open(check_nothing)
        letters = sink.write_batch(1, [[*firings(0, 1), *firings(1, 2, "long" * 1_000), *firings(2, 3)]], check_nothing)
        assert [(letter.reason.value, letter.time) for letter in letters] == [("limit", 1_000_000)]
        sink.close()
        wait_until(lambda: {0, 2} <= set(seconds(received)))
        assert set(seconds(received)) == {0, 2}


def test_wrong_credentials_are_refused_at_the_start_and_end_a_run(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "mosquitto", users={"dotr": "right"}) as broker:
        with pytest.raises(Refused, match=r"S128 output events/fire: .* the user is not authorized"):
            PublishedMessages(destination(broker, "wrong-word"), ENCODER, reject_nothing)
        sink = PublishedBatches(destination(broker, "right"), ENCODER)
        sink.open(check_nothing)
        sink.write_batch(0, [firings(0, 1)], check_nothing)
        broker.stop()
        broker.set_users({"dotr": "other"})
        broker.start()
        with pytest.raises(WriteFailed, match="the user is not authorized"):
            sink.write_batch(1, [firings(1, 2)], check_nothing)
        sink.close()


def test_forbidden_topic_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "rights").write_text("topic read #\n")
    with Mosquitto(tmp_path / "mosquitto", settings=[f"acl_file {tmp_path / 'rights'}"]) as broker:
        sink = PublishedBatches(destination(broker), ENCODER)
        sink.open(check_nothing)
        with pytest.raises(WriteFailed, match="refuses a message"):
            sink.write_batch(0, [firings(0, 1)], check_nothing)
        sink.close()


def test_qos_0_is_sent(broker: Mosquitto) -> None:
    with broker.subscribed("#") as received:
        with PublishedMessages(destination(broker, qos=0), ENCODER, reject_nothing) as sink:
            sink.write_items(firings(0, 100))
        wait_until(lambda: len(received) == 100)
