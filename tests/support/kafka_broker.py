"""Kafka broker in KRaft mode for the tests: one process from its jars, on loopback and free ports, and operations on it.

    python -m tests.support.kafka_broker          # fetches the jars (40 s, 43 MB, once); no root and no Maven: pyspark ships Ivy

The fixture `kafka` (tests/conftest.py) is one broker per test session and xdist worker, so that topics must have unique names
(`Broker.topic`). It has two listeners: without credentials, and with SASL/PLAIN for the user `dotr`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from dotr.runtimes.spark.start.installation import java_version_text
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka.admin import AdminClient

VERSION: Final = "4.2.0"
JARS: Final = Path(os.environ.get("DOTR_KAFKA_JARS") or Path.home() / ".cache" / "dotr" / f"kafka_2.13-{VERSION}")
"""The folder of the broker's jars, independent of XDG_CACHE_HOME, which tests change."""
FETCH: Final = "python -m tests.support.kafka_broker"
USER: Final = "dotr"
PASSWORD: Final = "correct-horse-7c1f"
"""The password of the listener with SASL/PLAIN, which no output may contain."""
PASSWORD_VARIABLE: Final = "DOTR_TEST_PASSWORD"
"""The variable of the tests' environment that holds it, since Python workers of a Spark session have the environment of its start."""
_JAVA: Final = ("java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", str(JARS / "*"))
_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Without a message where Java does not use an archive, or archives a class not."""
_SIGNAL_AT_PARENTS_END: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_CONFIGURATION: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:{plain},LOGIN://127.0.0.1:{login},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},LOGIN://127.0.0.1:{login}
inter.broker.listener.name=PLAIN
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,LOGIN:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=400
"""


class Sent(NamedTuple):
    """A record as it is to be sent, or as it was read; `offset` is the broker's, and `timestamp` in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    offset: int = -1


def java_arguments() -> list[str]:
    """The command that fetches the broker and its dependencies with pyspark's Ivy, into a temporary folder beside `JARS`."""
    import pyspark

    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    return ["java", "-jar", str(ivy), "-dependency", "org.apache.kafka", "kafka_2.13", VERSION, "-confs", "default"]


def fetch() -> None:
    """Fetches the jars if they are missing. The folder appears only once it is complete."""
    if JARS.is_dir():
        return
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JARS.parent, prefix="kafka-") as folder:
        retrieved = Path(folder) / "jars"
        places = ["-cache", f"{folder}/ivy", "-retrieve", f"{retrieved}/[artifact]-[revision].[ext]"]
        ended = subprocess.run([*java_arguments(), *places], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if ended.returncode or not any(retrieved.glob("kafka_2.13-*.jar")):
            sys.exit(f"The jars of the Kafka broker cannot be fetched:\n{ended.stdout[-2000:]}")
        try:
            retrieved.rename(JARS)
        except OSError:
            if not JARS.is_dir():  # otherwise another process was first
                raise


def problem() -> str | None:
    """The reason why no broker can start, with the command that remedies it; None if one can."""
    if shutil.which("java") is None:
        return "a Kafka broker needs Java"
    if not JARS.is_dir():
        return f"the jars of a Kafka broker are missing; they come by: {FETCH}"
    return None


def _free_ports(number: int) -> list[int]:
    """Ports that nothing listens on, different from each other."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _end_with_parent() -> None:
    """Request SIGKILL from Linux for the death of the parent process."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_END, signal.SIGKILL)


_STARTER: Final = ThreadPoolExecutor(1)


@dataclass
class Broker:
    """A broker, running or killed; a restart keeps its data. `folder` has its configuration, log and data.

    Clients raise after waiting for a minute.
    """

    folder: Path
    plain: int
    login: int
    _process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def servers(self) -> str:
        """`bootstrap.servers` of the listener without credentials."""
        return f"127.0.0.1:{self.plain}"

    @property
    def login_servers(self) -> str:
        """`bootstrap.servers` of the listener with SASL/PLAIN over plain text: `USER`, `PASSWORD`."""
        return f"127.0.0.1:{self.login}"

    # Its process

    def start(self, *options: str) -> None:
        """Starts the broker and waits until it answers. `options` are of its JVM, in place of the archive of classes."""
        assert self._process is None
        with (self.folder / "broker.log").open("ab") as log:
            command = [*_JAVA, *(options or archive_options()), "kafka.Kafka", str(self.folder / "server.properties")]
            # Its own session: Ctrl-C in a terminal must not reach the broker.
            # Linux sends the signal when the starting thread ends, so the process is started by a thread that does not end.
            self._process = _STARTER.submit(
                subprocess.Popen, command, stdout=log, stderr=log, start_new_session=True, preexec_fn=_end_with_parent
            ).result()
        until = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                log_end = (self.folder / "broker.log").read_text(errors="replace")[-3000:]
                self.kill()
                raise RuntimeError(f"The Kafka broker does not start:\n{log_end}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.plain)):
                return False
        try:
            return bool(AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def kill(self, sign: signal.Signals = signal.SIGKILL) -> None:
        """Ends the process: by default as a power cut would."""
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self) -> None:
        """Kills the broker with -9 and starts it again, on the same ports with the same data."""
        self.kill()
        self.start()

    # Topics

    def topic(self, stem: str = "t", partitions: int = 1, **configuration: str) -> str:
        """A new topic under a name that no other test has; `retention_ms="1000"` sets `retention.ms`."""
        name = f"{stem}-{os.getpid()}-{next(self._numbers)}"
        self.create(name, partitions, **configuration)
        return name

    def create(self, name: str, partitions: int = 1, **configuration: str) -> None:
        """Creates a topic of this name, also after its deletion; returns when it can be written."""
        from confluent_kafka.cimpl import NewTopic

        settings = {key.replace("_", "."): value for key, value in configuration.items()}
        admin = self._admin()  # kept alive: the requests of a collected client are cancelled
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(PATIENCE)
        self._until(name, partitions)

    def add_partitions(self, name: str, total: int) -> None:
        """Gives the topic further partitions, up to `total`."""
        from confluent_kafka.cimpl import NewPartitions

        admin = self._admin()
        admin.create_partitions([NewPartitions(name, total)])[name].result(PATIENCE)
        self._until(name, total)

    def delete(self, name: str) -> None:
        """Deletes a topic; returns when its name is free."""
        admin = self._admin()
        admin.delete_topics([name])[name].result(PATIENCE)
        self._until(name, 0)

    def delete_records(self, name: str, before: int, partition: int = 0) -> None:
        """Deletes the records of a partition with smaller offsets, as retention does."""
        from confluent_kafka import TopicPartition

        place = TopicPartition(name, partition, before)
        admin = self._admin()
        admin.delete_records([place])[place].result(PATIENCE)

    def offset_of(self, group: str, name: str, partition: int = 0) -> int | None:
        """The offset that a group has committed; None where there is none."""
        from confluent_kafka import Consumer, TopicPartition

        reader = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            (found,) = reader.committed([TopicPartition(name, partition)], timeout=PATIENCE)
        finally:
            reader.close()
        return found.offset if found.offset >= 0 else None

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _until(self, name: str, partitions: int) -> None:
        """Waits until the topic has so many partitions with a leader."""
        admin = self._admin()
        until = time.monotonic() + PATIENCE
        while True:
            found = admin.list_topics(timeout=PATIENCE).topics.get(name)
            led = [each for each in found.partitions.values() if each.leader >= 0] if found and not found.error else []
            if len(led) == partitions:
                return
            if time.monotonic() > until:
                raise TimeoutError(f"{name} has {len(led)} partitions, not {partitions}")
            time.sleep(0.05)

    # Records

    def produce(self, topic: str, records: Iterable[Sent], **settings: str) -> None:
        """Sends records, in their order within a partition; returns when all are acknowledged. A `timestamp` of 0 is the clock's."""
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0, **_dotted(settings)}
        )
        failed: list[object] = []

        def delivered(error: object, _record: object) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        partition=record.partition,
                        timestamp=record.timestamp,
                        headers=list(record.headers),
                        on_delivery=delivered,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(PATIENCE)
        assert not left, f"{left} records are not acknowledged"
        assert not failed, failed[:3]

    def produce_values(self, topic: str, values: Iterable[bytes | str], partition: int = 0) -> None:
        """Sends records with these values."""
        self.produce(topic, (Sent(value.encode() if isinstance(value, str) else value, partition=partition) for value in values))

    @contextmanager
    def transaction(self, topic: str, records: Iterable[Sent], *, commit: bool = True) -> Iterator[None]:
        """A transaction that stays open, its records on the broker, in the `with` block; committed or aborted at its end."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": f"test-{secrets.token_hex(8)}"})
        _patiently(lambda: producer.init_transactions(PATIENCE))
        producer.begin_transaction()
        for record in records:
            producer.produce(topic, record.value, record.key, partition=record.partition, timestamp=record.timestamp)
        producer.flush(PATIENCE)
        yield
        if commit:
            producer.commit_transaction(PATIENCE)
        else:
            producer.abort_transaction(PATIENCE)

    def consume(self, topic: str, isolation: str = "read_committed") -> list[Sent]:
        """All records of a topic that a reader with this isolation level finds, by partition and offset."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

        settings = {
            "bootstrap.servers": self.servers,
            "group.id": "test-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
        reader = Consumer(settings)
        try:
            partitions = sorted(reader.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
            reader.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
            ended: set[int] = set()
            read: list[Sent] = []
            until = time.monotonic() + PATIENCE
            while len(ended) < len(partitions):
                for record in reader.consume(1000, timeout=0.2):
                    if (error := record.error()) is None:
                        read.append(_sent(record))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(int(record.partition() or 0))
                    else:
                        raise KafkaException(error)
                if time.monotonic() > until:
                    raise TimeoutError(f"{topic} has no end within a minute: is a transaction open?")
        finally:
            reader.close()
        return sorted(read, key=lambda one: (one.partition, one.offset))

    def values(self, topic: str) -> list[str]:
        """The values of all records that are committed, by partition and offset."""
        return [(record.value or b"").decode() for record in self.consume(topic)]


def _dotted(settings: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}


def _sent(record: Message) -> Sent:
    headers = cast(Sequence[tuple[str, bytes]], record.headers() or ())
    return Sent(record.value(), record.key(), record.partition() or 0, record.timestamp()[1], tuple(headers), record.offset() or 0)


def _patiently(action: Callable[[], None]) -> None:
    """Retries an action that a broker refuses while it creates its topic of transactions."""
    from confluent_kafka import KafkaException

    until = time.monotonic() + PATIENCE
    while True:
        try:
            action()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise
            time.sleep(0.2)


def new_broker(folder: Path) -> Broker:
    """A broker whose data are in `folder`, formatted and not yet started."""
    if (missing := problem()) is not None:
        raise RuntimeError(missing)
    folder.mkdir(parents=True, exist_ok=True)
    plain, login, controller = _free_ports(3)
    settings = _CONFIGURATION.format(plain=plain, login=login, controller=controller, user=USER, password=PASSWORD, logs=folder / "data")
    (folder / "server.properties").write_text(settings)
    identity = "dotr-tests-0123456789A"  # 16 bytes as Base64 for URLs
    format_ = ["kafka.tools.StorageTool", "format", "-t", identity, "-c", str(folder / "server.properties")]
    subprocess.run([*_JAVA, *archive_options(), *format_], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Broker(folder, plain, login)


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker that runs within the `with` block."""
    broker = new_broker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def classes() -> Path:
    """The archive of the classes that the broker loads (Java's AppCDS), beside its jars; its name has a hash of the Java version."""
    return JARS.with_name(f"{JARS.name}-{blake2b(java_version_text().encode(), digest_size=8).hexdigest()}.jsa")


def archive_options() -> tuple[str, ...]:
    """The options of a JVM that uses the archive of classes, where there is one."""
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if (archive := classes()).exists() else ()


def share_classes() -> None:
    """Makes the archive of classes once a machine, from a broker that has written and read; a start takes half of the CPU with it.

    Nothing is done where the folder of the jars cannot be written.
    """
    if problem() is not None or not os.access(JARS.parent, os.W_OK):
        return
    with (JARS.parent / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if classes().exists():
            return
        with tempfile.TemporaryDirectory(dir=JARS.parent, prefix="kafka-") as folder:
            written = Path(folder) / "classes.jsa"
            broker = new_broker(Path(folder) / "broker")
            broker.start(f"-XX:ArchiveClassesAtExit={written}", *_QUIET)
            try:
                topic = broker.topic()
                with broker.transaction(topic, [Sent(b"classes")]):
                    pass
                broker.consume(topic)
            finally:
                broker.kill(signal.SIGTERM)
            if written.exists():
                written.rename(classes())


if __name__ == "__main__":
    fetch()
    sys.stdout.write(f"{JARS}\n")
