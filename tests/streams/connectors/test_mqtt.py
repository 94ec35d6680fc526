"""Subscriptions of a real broker: acknowledgement, redelivery and reconnection."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.streams.connectors.mqtt.broker import Credentials, MqttBroker, TlsFiles
from dotr.streams.connectors.mqtt.source import RECEIVE_MAXIMUM, MqttReceiver, MqttSource
from dotr.streams.connectors.receivers import MessageQueue
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.records import Format, InputFile, ReceivingFailed, Record
from tests.support.mosquitto import Mosquitto, free_port, make_certificates, wait_until
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.mosquitto

LIKE = InputFile("site", "mqtt://localhost", Format.NDJSON)


class Inbox:
    """Inbox in memory. `stores`: messages count as stored at once; `most`: limit of its messages."""

    last: Message | None = None

    def __init__(self, *, stores: bool = True, most: int = 1 << 20) -> None:
        self.messages: list[Message] = []
        self.waiting: list[Callable[[], None]] = []
        self.stores = stores
        self.most = most

    def earlier(self) -> Iterator[list[Message]]:
        return iter(())

    def offer(self, messages: Sequence[Message], kept: Callable[[], None]) -> bool:
        if len(self.messages) + len(messages) > self.most:
            return False
        self.messages += messages
        if self.stores:
            kept()
        else:
            self.waiting.append(kept)
        return True

    def confirm(self) -> None:
        """Confirm that all messages so far are stored."""
        while self.waiting:
            self.waiting.pop(0)()

    def wait_for_capacity(self, seconds: float, size: int = 0) -> bool:
        return len(self.messages) < self.most

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path / "mosquitto") as broker:
        yield broker


@pytest.fixture
def persistent_broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that loses nothing when it is killed."""
    with Mosquitto(tmp_path / "mosquitto", keeps=True) as broker:
        yield broker


def source(broker: Mosquitto, *topics: str, qos: int = 1, session: int = 3600, client_id: str = "dotr") -> MqttSource:
    return MqttSource("site", MqttBroker(broker.url, client_id), topics or ("a/#",), qos, session)


def with_password(broker: Mosquitto, password: str) -> MqttSource:
    return MqttSource("site", MqttBroker(broker.url, "dotr", credentials=lambda: Credentials("dotr", password)), ("a",))


def started(source: MqttSource, inbox: Inbox) -> MqttReceiver:
    receiver = source.receiver()
    receiver.start(inbox)
    return receiver


def test_messages_are_received_in_order_with_topic_and_headers(broker: Mosquitto) -> None:
    inbox = Inbox()
    receiver = started(source(broker), inbox)
    assert receiver.connected
    broker.publish(("a/b", "one"), ("a/c", "two"), ("b/a", "of another topic"), content_type="text/turtle", headers=[("site", "ä")])
    wait_until(lambda: len(inbox.messages) == 2)
    headers = (("content-type", b"text/turtle"), ("site", "ä".encode()))
    assert inbox.messages == [Message(b"one", 0, headers=headers, topic="a/b"), Message(b"two", 0, headers=headers, topic="a/c")]
    receiver.stop()


def test_messages_published_between_runs_are_received_by_the_next_run(broker: Mosquitto) -> None:
    started(source(broker), Inbox()).stop()
    broker.publish(*[("a", str(number)) for number in range(2_000)])
    inbox = Inbox()
    receiver = started(source(broker), inbox)
    wait_until(lambda: len(inbox.messages) >= 2_000)
    assert inbox.bodies == [str(number) for number in range(2_000)]
    receiver.stop()


def test_unacknowledged_messages_are_sent_again_to_the_next_run(broker: Mosquitto) -> None:
    receiver = started(source(broker), held := Inbox(stores=False))
    broker.publish(*[("a", str(number)) for number in range(10)])
    wait_until(lambda: len(held.messages) == 10)
    receiver.stop()
    again = Inbox()
    receiver = started(source(broker), again)
    wait_until(lambda: len(again.messages) >= 10)
    assert again.bodies == held.bodies
    receiver.stop()
    receiver = started(source(broker), once := Inbox())
    broker.publish(("a", "last"))
    wait_until(lambda: once.messages)
    assert once.bodies == ["last"]
    receiver.stop()


def test_each_message_is_received_once_when_the_broker_restarts_during_a_run(persistent_broker: Mosquitto) -> None:
    """Messages unacknowledged at the loss of the connection are redelivered, and not stored twice."""
    receiver = started(source(persistent_broker), inbox := Inbox(stores=False))
    persistent_broker.publish(*[("a", str(number)) for number in range(100)])
    wait_until(lambda: len(inbox.messages) == 100)
    persistent_broker.kill()
    wait_until(lambda: not receiver.connected)
    persistent_broker.start()
    wait_until(lambda: receiver.connected)
    persistent_broker.publish(*[("a", str(number)) for number in range(100, 110)])
    wait_until(lambda: len(inbox.messages) >= 110)
    assert inbox.bodies == [str(number) for number in range(110)]
    inbox.confirm()
    receiver.stop()
    receiver = started(source(persistent_broker), later := Inbox())
    persistent_broker.publish(("a", "last"))
    wait_until(lambda: later.messages)
    assert later.bodies == ["last"], "all before it were acknowledged, over the second connection"
    receiver.stop()


def test_in_process_a_message_is_acknowledged_once_it_is_read(broker: Mosquitto) -> None:
    queue = MessageQueue(LIKE, source(broker).receiver())
    queue.start()
    broker.publish(*[("a", f'{{"time": {number}, "graph": ""}}') for number in range(5)])
    assert [next_time(queue) for _ in range(2)] == [0, 1_000_000]
    queue.close()
    queue = MessageQueue(LIKE, source(broker).receiver())
    queue.start()
    again = [next_time(queue)]
    while again[-1] != 4_000_000:
        again.append(next_time(queue))
    assert again[-3:] == [2_000_000, 3_000_000, 4_000_000], "unread messages are redelivered"
    queue.close()


def test_a_queue_full_of_unreadable_messages_is_read(broker: Mosquitto) -> None:
    """In process the first readable message decides the format of times. Without one, unread messages would never be acknowledged, and
    the broker would send no more."""
    queue = MessageQueue(LIKE, source(broker).receiver(), most=100)
    queue.start()
    broker.publish(*[("a", "broken")] * 99)
    wait_until(lambda: not queue.wait_for_capacity(0) or queue.first_has_dates() is None)
    assert queue.first_has_dates() is None
    broker.publish(*[("a", "broken")] * 30)
    wait_until(lambda: queue.first_has_dates() is False)
    queue.close()


def test_a_broker_drops_what_exceeds_the_queue_of_a_client(tmp_path: Path) -> None:
    """The subscriber cannot detect this; the page on connectors has the setting of the broker."""
    with Mosquitto(tmp_path / "mosquitto", settings=["max_queued_messages 100"]) as broker:
        started(source(broker), Inbox()).stop()
        broker.publish(*[("a", str(number)) for number in range(500)], ("a", "last"))
        receiver = started(source(broker), inbox := Inbox())
        wait_until(lambda: len(inbox.messages) >= 100)
        assert 100 <= len(inbox.messages) < 200
        assert inbox.bodies[:50] == [str(number) for number in range(50)], "the oldest are kept"
        receiver.stop()


EXAMPLES = int(os.environ.get("DOTR_EXAMPLES", "1000"))


def test_random_payloads_are_received_unchanged(broker: Mosquitto) -> None:
    """No bytes, topics or properties stop a run, and every readable message is read; DOTR_EXAMPLES=100000 tries more."""
    choose = random.Random(EXAMPLES)
    sent: list[tuple[str, bytes]] = []
    for number in range(EXAMPLES):
        topic = "/".join(["a", *("".join(choose.choices("aä $€{}%\U0001f525", k=choose.randrange(5))) for _ in range(choose.randrange(4)))])
        body = choose.choice(
            (
                choose.randbytes(choose.randrange(50)),
                f'{{"time": {number}, "graph": ":a :b {choose.randrange(9)} ."}}'.encode(),
                b'{"time": %d, "graph": "' % number + choose.randbytes(5) + b'"}',
                b"[" * choose.randrange(200),
                b"",
            )
        )
        sent.append((topic, body))
    like = InputFile("site", "mqtt://localhost", Format.NDJSON, prefixes=(("", "http://e/"),))
    queue = MessageQueue(like, source(broker).receiver())
    queue.start()
    records: list[Record] = []
    for start in range(0, EXAMPLES, 2_000):
        some = sent[start : start + 2_000]
        broker.publish(*some, content_type=choose.choice(("", "application/x-ndjson")), headers=[("ä", "\U0001f525")])
        deadline = time.monotonic() + PATIENCE
        while not records or records[-1].line < start + len(some):
            assert time.monotonic() < deadline
            records += chunk.records if (chunk := queue.read(1_000)) else ()
    queue.close()
    decode = message_decoder(like)
    for (topic, body), record in zip(sent, records, strict=True):
        [expected] = decode(Message(body, record.line, topic=topic), True)
        assert record == expected
    assert sum(record.time is not None for record in records) > EXAMPLES // 10


def next_time(queue: MessageQueue) -> int | None:
    """The time of the next record."""
    deadline = time.monotonic() + PATIENCE
    while (chunk := queue.read(1)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return chunk.records[0].time


def test_lost_session_is_logged_and_the_subscription_renewed(broker: Mosquitto, caplog: pytest.LogCaptureFixture) -> None:
    receiver = started(source(broker), inbox := Inbox())
    broker.kill()
    wait_until(lambda: not receiver.connected)
    broker.start()
    with caplog.at_level(logging.WARNING):
        wait_until(lambda: receiver.connected)
    assert "has not kept the session; what was published meanwhile is lost" in caplog.text
    broker.publish(("a", "one"))
    wait_until(lambda: inbox.messages)
    receiver.stop()


def test_unacknowledged_messages_are_limited_by_receive_maximum(broker: Mosquitto) -> None:
    receiver = started(source(broker), inbox := Inbox(stores=False))
    broker.publish(*[("a", str(number)) for number in range(RECEIVE_MAXIMUM + 500)])
    wait_until(lambda: len(inbox.messages) == RECEIVE_MAXIMUM)
    broker.publish(("a", "last"))  # published later, so that more would have arrived by now
    assert len(inbox.messages) == RECEIVE_MAXIMUM
    inbox.confirm()
    inbox.stores = True
    wait_until(lambda: len(inbox.messages) == RECEIVE_MAXIMUM + 501)
    assert inbox.bodies[-1] == "last"
    receiver.stop()


def test_a_full_inbox_makes_the_broker_wait(broker: Mosquitto) -> None:
    receiver = started(source(broker), inbox := Inbox(most=10))
    broker.publish(*[("a", str(number)) for number in range(1_000)])
    wait_until(lambda: len(inbox.messages) == 10)
    inbox.most = 1_000
    wait_until(lambda: len(inbox.messages) == 1_000)
    assert inbox.bodies == [str(number) for number in range(1_000)]
    receiver.stop()


def test_retained_messages_are_received_only_with_a_new_subscription(persistent_broker: Mosquitto) -> None:
    persistent_broker.publish(("a/b", "kept"), retain=True)
    receiver = started(source(persistent_broker), inbox := Inbox())
    wait_until(lambda: inbox.messages)
    persistent_broker.kill()
    wait_until(lambda: not receiver.connected)
    persistent_broker.start()
    wait_until(lambda: receiver.connected)
    persistent_broker.publish(("a/b", "new"))
    wait_until(lambda: len(inbox.messages) > 1)
    assert inbox.bodies == ["kept", "new"]
    receiver.stop()


def test_a_shared_subscription_divides_the_messages(broker: Mosquitto) -> None:
    inboxes = Inbox(), Inbox()
    receivers = [started(source(broker, "$share/group/a/#", client_id=f"dotr-{each}"), inbox) for each, inbox in enumerate(inboxes)]
    broker.publish(*[("a/b", str(number)) for number in range(100)])
    wait_until(lambda: sum(len(inbox.messages) for inbox in inboxes) == 100)
    assert sorted(inboxes[0].bodies + inboxes[1].bodies, key=int) == [str(number) for number in range(100)]
    assert all(inbox.messages for inbox in inboxes)
    for receiver in receivers:
        receiver.stop()


def test_topics_of_an_earlier_run_are_ignored(broker: Mosquitto, caplog: pytest.LogCaptureFixture) -> None:
    started(source(broker, "a/#", "b/#"), Inbox()).stop()
    receiver = started(source(broker, "b/#"), inbox := Inbox())
    with caplog.at_level(logging.WARNING):
        broker.publish(("a/b", "old"), ("a/b", "old"), ("b", "new"))
        wait_until(lambda: inbox.messages)
    assert inbox.bodies == ["new"]
    assert caplog.text.count("left out messages of a/b, to which an earlier run had subscribed") == 1
    receiver.stop()


def test_qos_0_is_received_too(broker: Mosquitto) -> None:
    receiver = started(source(broker, qos=0), inbox := Inbox())
    broker.publish(("a", "one"), qos=0)
    broker.publish(("a", "two"), qos=1)
    wait_until(lambda: len(inbox.messages) == 2)
    receiver.stop()


def test_unreachable_broker_is_retried_until_it_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Mosquitto(tmp_path)
    receiver = source(broker).receiver()
    with caplog.at_level(logging.WARNING):
        receiver.start(inbox := Inbox())
        assert not receiver.connected
        with broker:
            wait_until(lambda: receiver.connected)
            broker.publish(("a", "one"))
            wait_until(lambda: inbox.messages)
            receiver.stop()
    first, second = (record.getMessage().replace(str(broker.port), "PORT") for record in caplog.records)
    assert first == "input site: mqtt://localhost:PORT: connection refused. It is tried again."
    assert second == "input site: mqtt://localhost:PORT answers again."


def test_wrong_credentials_are_refused_at_the_start_and_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Mosquitto(tmp_path, users={"dotr": "right-word"}) as broker:
        with pytest.raises(Refused) as refused:
            started(
                MqttSource("site", MqttBroker(broker.url, "dotr", credentials=lambda: Credentials("dotr", "wrong-word")), ("a",)), Inbox()
            )
        assert "S128 input site: mqtt://localhost:" in str(refused.value)
        assert "the user is not authorized" in str(refused.value)
        assert "-word" not in str(refused.value) + caplog.text + repr(refused.value)
        receiver = started(with_password(broker, "right-word"), Inbox())
        assert receiver.connected
        receiver.stop()


def test_credentials_that_expire_during_a_run_end_the_receiver(tmp_path: Path) -> None:
    words = ["right"]
    with Mosquitto(tmp_path, users={"dotr": "right"}) as broker:
        access = MqttBroker(broker.url, "dotr", credentials=lambda: Credentials("dotr", words[0]))
        receiver = started(MqttSource("site", access, ("a",)), Inbox())
        words[0] = "wrong"
        broker.kill()
        broker.start()
        wait_until(lambda: receiver.failure)
        assert isinstance(receiver.failure, ReceivingFailed)
        assert "refuses the connection: the user is not authorized" in str(receiver.failure)
        assert not receiver.connected
        receiver.stop()


def test_rejected_subscription_is_refused_at_the_start(tmp_path: Path) -> None:
    plugin = next(Path("/usr/lib").glob("**/mosquitto_dynamic_security.so"), None)
    if plugin is None:
        pytest.skip("mosquitto has no plugin that refuses subscriptions")
    (tmp_path / "rights.json").write_text('{"defaultACLAccess": {"subscribe": false, "publishClientSend": true, "unsubscribe": true}}')
    settings = (f"plugin {plugin}", f"plugin_opt_config_file {tmp_path / 'rights.json'}")
    with Mosquitto(tmp_path / "mosquitto", settings=settings) as broker, pytest.raises(Refused) as refused:
        started(source(broker), Inbox())
    assert "refuses the subscription of a/#: not authorized" in str(refused.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves the socket of a failed handshake
def test_tls_verifies_certificate_and_name(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "certificates")
    with Mosquitto(tmp_path / "mosquitto", tls=certificates) as broker:
        trusting = MqttSource("site", MqttBroker(broker.url, "dotr", TlsFiles(str(certificates / "ca.crt"))), ("a",))
        receiver = started(trusting, inbox := Inbox())
        broker.publish(("a", "one"))
        wait_until(lambda: inbox.messages)
        receiver.stop()
        with pytest.raises(Refused, match="is not trusted: unable to get local issuer certificate"):
            started(source(broker), Inbox())
        other_name = MqttBroker(broker.url.replace("localhost", "127.0.0.1"), "dotr", TlsFiles(str(certificates / "ca.crt")))
        with pytest.raises(Refused, match="is not trusted: IP address mismatch"):
            started(MqttSource("site", other_name, ("a",)), Inbox())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves the socket of a failed handshake
def test_broker_without_tls_is_retried(broker: Mosquitto, caplog: pytest.LogCaptureFixture) -> None:
    """A starting broker looks the same: a closed connection."""
    receiver = MqttSource("site", MqttBroker(broker.url.replace("mqtt:", "mqtts:"), "dotr"), ("a",)).receiver()
    with caplog.at_level(logging.WARNING):
        receiver.start(Inbox())
    assert "connection reset by peer (does it speak TLS there?). It is tried again." in caplog.text
    receiver.stop()


def test_another_client_with_the_same_client_id_is_logged(broker: Mosquitto, caplog: pytest.LogCaptureFixture) -> None:
    """Both clients take over the session repeatedly; mosquitto ends the connection without a reason."""
    with caplog.at_level(logging.WARNING):
        receivers = [started(source(broker), Inbox()) for _ in range(2)]
        wait_until(lambda: "Does another client have the client_id dotr?" in caplog.text)
        receivers[0].stop()
        wait_until(lambda: receivers[1].connected)
        receivers[1].stop()


def test_server_of_another_protocol_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    import socket
    import threading

    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as server, caplog.at_level(logging.WARNING):

        def answer() -> None:
            peer, _ = server.accept()
            peer.recv(1000)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.close()

        thread = threading.Thread(target=answer)
        thread.start()
        receiver = MqttSource("site", MqttBroker(f"mqtt://localhost:{port}", "dotr"), ("a",)).receiver()
        receiver.start(Inbox())
        assert not receiver.connected
        receiver.stop()
        thread.join()
    assert "It is tried again." in caplog.text
