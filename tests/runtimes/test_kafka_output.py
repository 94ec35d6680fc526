"""Topics as outputs: written events, refused settings, and batches that are written once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from dotr.errors.diagnostics import Refused
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.time import Clock
from dotr.runtimes.spark.sink import BatchAbandoned
from dotr.streams.connectors.kafka.producer import TopicFailed
from dotr.streams.connectors.kafka.producing import RepeatedBatches, TopicSink, TransactionBatches, murmur2
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import BatchHistory, check_nothing
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.messages import MessageFormat
from tests.conftest import Project
from tests.support.kafka_broker import USER, Broker
from tests.support.outputs import numbering_encoder

pytestmark = [pytest.mark.kafka, pytest.mark.fallbacks("restart")]

SECRET = "hunter2-hunter2"
RULES = """\
PREFIX : <http://e/>
rule R define Out = [ dotr_id a :Out ; :room ?room ] from A = [ SELECT ?room WHERE { ?x :in ?room } ] with Out.?room = A.?room
"""


def configure(project: Project, kafka: str, *, form: str = "ndjson", dead: str = "dead.ndjson") -> None:
    """Five elements in three rooms, and one that cannot be read; events go to a topic and a file."""
    lines = [json.dumps({"time": 1 + number // 2, "graph": f":a{number} :in :room{number % 3} ."}) for number in range(5)]
    project.write("a.ndjson", "\n".join([*lines, '{"time": 9, "graph": "broken"}', ""]))
    project.write("r.dotr", RULES)
    project.change(
        "c.yaml", "  - { path: out.ndjson }", f"  - {{ path: out.{form}, format: {form} }}\n  - {{ format: {form}, kafka: {{ {kafka} }} }}"
    )
    project.change("c.yaml", "dead_letter: dead.ndjson", f"dead_letter: {dead}")


def connection(kafka: Broker, topic: str) -> str:
    return f'bootstrap.servers: "{kafka.servers}", topic: {topic}'


def test_events_are_written_to_the_partitions_of_their_keys_in_order(project: Project, kafka: Broker) -> None:
    topic, rejected = kafka.topic("fires", partitions=3), kafka.topic("rejected", partitions=2)
    dead = f"{{ kafka: {{ {connection(kafka, rejected)} }} }}"
    configure(project, f"{connection(kafka, topic)}, key: room", dead=dead)
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0, answer
    assert f"out.ndjson, topic {topic} of Kafka at {kafka.servers}" in answer.err
    lines = project.read("out.ndjson").splitlines()
    found = kafka.consume(topic)
    by_partition: dict[int, list[str]] = {}
    for line in lines:
        key = json.loads(line)["attributes"]["room"].encode()
        by_partition.setdefault((murmur2(key) & 0x7FFFFFFF) % 3, []).append(line)
    assert {
        number: [(record.value or b"").decode() for record in found if record.partition == number] for number in by_partition
    } == by_partition
    assert {dict(record.headers)["dotr-id"] for record in found} == {
        f"small/{json.loads(line)['time'] * 1_000_000}-{number % 2}".encode() for number, line in enumerate(lines)
    }
    (letter,) = kafka.values(rejected)
    assert json.loads(letter)["reason"] == "unreadable"
    answer = project.dotr("audit", "c.yaml")
    assert (answer.code, answer.err) == (0, "")
    same = ["  R  5 the same, 0 missing, 0 more"]
    assert answer.out.splitlines()[:1] + answer.out.splitlines()[2:3] == [
        f"{name}: up to 3 (the last event written)" for name in ("out.ndjson", f"topic {topic}")
    ]
    assert answer.out.splitlines()[1::2] == same * 2
    told = project.dotr("why-not", "c.yaml", "--rule", "R", "--at", "9").out
    assert "  The run rejected this element (unreadable, a.ndjson:6)." in told


def test_trig_can_be_read_as_an_input_and_events_have_their_time(project: Project, kafka: Broker) -> None:
    topic = kafka.topic("fires", message_timestamp_type="CreateTime")
    configure(project, f"{connection(kafka, topic)}, timestamp: event", form="trig")
    assert project.dotr("run", "c.yaml").code == 0
    assert project.dotr("audit", "c.yaml").out.count("R  5 the same, 0 missing, 0 more") == 2
    found = kafka.consume(topic)
    assert [record.timestamp for record in found] == [1000, 1000, 2000, 2000, 3000]
    again = "\n".join((record.value or b"").decode() for record in found)
    project.write("b.trig", again)
    project.write("again.yaml", project.read("c.yaml").replace("format: ndjson, path: a.ndjson", "format: trig, path: b.trig"))
    project.write("r.dotr", RULES.replace(":in ?room", ":room ?room"))
    outputs = project.read("again.yaml").replace("out.trig", "again.trig").replace("dead.ndjson", "again.ndjson")
    project.write("again.yaml", "\n".join(line for line in outputs.splitlines() if "kafka" not in line))
    assert "5 events" in project.dotr("run", "again.yaml").err


def test_mistakes_are_refused_without_a_broker(project: Project) -> None:
    configure(project, 'bootstrap.servers: "127.0.0.1:1", topic: t, transactional.id: x, request.required.acks: 1, delivery: exactly_once')
    message = project.refused("run", "c.yaml")
    assert message.count("C204") == 3
    project.change("c.yaml", "transactional.id: x, request.required.acks: 1, delivery: exactly_once", "lingr.ms: 3")
    assert "C227" in project.refused("check", "c.yaml")
    project.change("c.yaml", "lingr.ms: 3", "key: rom")
    assert "Did you mean room?" in project.refused("run", "c.yaml")
    project.change("c.yaml", "key: rom", "delivery: often")
    assert "C203" in project.refused("check", "c.yaml")
    project.change("c.yaml", "delivery: often", "linger.ms: 5")
    project.change("c.yaml", "format: ndjson, kafka", "format: parquet, kafka")
    assert "parquet is a table" in project.refused("check", "c.yaml")


def test_unknown_topic_and_wrong_credentials_end_the_run_at_its_start(
    project: Project, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, connection(kafka, "nowhere"))
    assert "S126 there is no topic nowhere" in project.refused("run", "c.yaml")
    assert "out.ndjson" not in project.files()
    monkeypatch.setenv("PASSWORD", SECRET)
    login = f"security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: {USER}, sasl.password: '${{PASSWORD}}'"
    topic = kafka.topic("fires")
    project.change("c.yaml", connection(kafka, "nowhere"), f'bootstrap.servers: "{kafka.login_servers}", topic: {topic}, {login}')
    message = project.refused("run", "c.yaml")
    assert "S125" in message
    assert SECRET not in message + "".join(project.read(name) for name in project.files())


# Batches in transactions


def firings(batch: int, number: int = 3) -> list[Sequence[Firing]]:
    return [
        [Firing(batch * 1_000_000, "R", "E", (), (("<http://e/a>", "<http://e/n>", f'"{batch}-{each}"'),), 0) for each in range(number)]
    ]


def sink(kafka: Broker, topic: str, history: BatchHistory, **properties: str) -> TransactionBatches[Firing]:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    destination = KafkaDestination(topic, tuple({"bootstrap.servers": kafka.servers, **given}.items()), exactly_once=True)
    encoder = partial(numbering_encoder, MessageFormat(StreamFormat.NDJSON, OutputTerms(Clock(), pipeline="p")))
    return TransactionBatches(destination, f"dotr-p-0-{topic}-{history.identity}", encoder, history)


def test_written_batch_is_not_written_again(kafka: Broker) -> None:
    topic = kafka.topic("once")
    first = sink(kafka, topic, BatchHistory("a"))
    assert first.open(check_nothing) is None
    for batch in range(3):
        first.write_batch(batch, firings(batch), check_nothing)
    again = sink(kafka, topic, BatchHistory("a", written=2, planned=3))
    assert again.open(check_nothing) == 2
    for batch in (2, 3):
        again.write_batch(batch, firings(batch), check_nothing)
    assert len(kafka.consume(topic)) == 12
    with pytest.raises(TopicFailed, match="S133"):  # the older one is fenced
        first.write_batch(3, firings(3), check_nothing)
    assert len(kafka.consume(topic)) == 12


def test_batch_in_doubt_that_the_broker_has_lost_is_refused_without_last_written(kafka: Broker) -> None:
    topic = kafka.topic("forgotten")
    with pytest.raises(Refused, match="S122"):
        sink(kafka, topic, BatchHistory("a", written=7, planned=8)).open(check_nothing)
    with pytest.raises(Refused, match="S122"):
        sink(kafka, topic, BatchHistory("a", written=7, planned=8, last_written=9)).open(check_nothing)
    assert sink(kafka, topic, BatchHistory("a", written=7, planned=8, last_written=7)).open(check_nothing) == 7
    assert sink(kafka, topic, BatchHistory("a", written=7, planned=8)).open(check_nothing) == 7  # it is known from then on
    assert sink(kafka, topic, BatchHistory("b", written=7, planned=7)).open(check_nothing) == 6  # nothing is in doubt


def test_batch_beyond_the_transaction_timeout_is_aborted(kafka: Broker) -> None:
    topic = kafka.topic("slow")
    slow = sink(kafka, topic, BatchHistory("a"), transaction_timeout_ms="1500")
    slow.open(check_nothing)

    class Slow:
        def __iter__(self) -> Iterator[Sequence[Firing]]:
            yield from firings(0)
            time.sleep(3)
            yield from firings(1)

    with pytest.raises(TopicFailed, match="S123"):
        slow.write_batch(0, Slow(), check_nothing)
    assert kafka.consume(topic) == []


def test_too_long_message_is_a_dead_letter_in_each_repetition(kafka: Broker) -> None:
    topic = kafka.topic("long", max_message_bytes="20000")
    long = Firing(5, "R", "E", (), (("<http://e/a>", "<http://e/n>", f'"{"x" * 30_000}"'),), 0)
    blocks = [[*firings(0, 200)[0], long]]
    first = sink(kafka, topic, BatchHistory("a"))
    first.open(check_nothing)
    (letter,) = first.write_batch(0, blocks, check_nothing)
    assert (letter.reason, letter.time) == (Reason.LIMIT, 5)
    assert len(kafka.consume(topic)) == 200
    assert first.write_batch(0, blocks, check_nothing) == [letter]


def test_stopped_run_leaves_nothing_of_its_batch(kafka: Broker) -> None:
    topic = kafka.topic("stopped")
    stopped = sink(kafka, topic, BatchHistory("a"))
    stopped.open(check_nothing)

    class Abandoned:
        def __iter__(self) -> Iterator[Sequence[Firing]]:
            yield from firings(0)
            raise BatchAbandoned

    with pytest.raises(BatchAbandoned):
        stopped.write_batch(0, Abandoned(), check_nothing)
    assert kafka.consume(topic) == []


@pytest.mark.spark
def test_topic_on_spark_has_the_events_of_the_files(project: Project, kafka: Broker, spark: None, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, rejected = kafka.topic("fires", partitions=2), kafka.topic("rejected")
    configure(project, f"{connection(kafka, topic)}, key: room", dead=f"{{ kafka: {{ {connection(kafka, rejected)} }} }}")
    project.change("c.yaml", "out.ndjson", "out")
    project.change("c.yaml", "engine: local", "spark: { batch: 2, checkpoint: ck }")
    monkeypatch.setenv("PASSWORD", SECRET)
    login = f"security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: {USER}, sasl.password: '${{PASSWORD}}'"
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0, answer
    lines = [line for path in sorted((project.folder / "out").iterdir()) for line in path.read_text().splitlines()]
    assert sorted(kafka.values(topic)) == sorted(lines)
    assert len(lines) == 5
    assert [json.loads(value)["reason"] for value in kafka.values(rejected)] == ["unreadable"]
    assert "identity" in project.read("ck/dotr.json")
    assert project.dotr("status", "ck", "--quick").code == 0
    assert project.dotr("run", "c.yaml").code == 0  # nothing is left to be done
    assert len(kafka.consume(topic)) == 5
    # with a password that is wrong
    project.change(
        "c.yaml",
        f'bootstrap.servers: "{kafka.servers}", topic: {topic}',
        f'bootstrap.servers: "{kafka.login_servers}", topic: {topic}, {login}',
    )
    message = project.refused("run", "c.yaml")
    assert "S125" in message
    held = "".join(path.read_bytes().decode(errors="replace") for path in Path().rglob("*") if path.is_file())
    assert SECRET not in message + held


def test_at_least_once_writes_a_batch_again(kafka: Broker) -> None:
    topic = kafka.topic("repeated", partitions=2)
    encoder = partial(numbering_encoder, MessageFormat(StreamFormat.NDJSON, OutputTerms(Clock(), pipeline="p")))
    repeated = RepeatedBatches(KafkaDestination(topic, (("bootstrap.servers", kafka.servers),)), encoder)
    repeated.open(check_nothing)
    for batch in (0, 1, 1):
        assert repeated.write_batch(batch, firings(batch), check_nothing) == []
    repeated.close()
    found = [dict(record.headers)["dotr-id"] for record in kafka.consume(topic)]
    assert (len(found), len(set(found))) == (9, 6)  # readers drop the others by their ID


def test_run_in_process_continues_after_the_broker_is_killed(kafka: Broker) -> None:
    topic = kafka.topic("killed")
    encoder = partial(numbering_encoder, MessageFormat(StreamFormat.NDJSON, OutputTerms(Clock(), pipeline="p")))
    rejected: list[DeadLetter] = []
    written = TopicSink(KafkaDestination(topic, (("bootstrap.servers", kafka.servers),)), encoder, check_nothing, rejected.append)
    with written:
        written.write_items(firings(0)[0])
        kafka.kill()
        written.write_items(firings(1)[0])
        kafka.start()
        written.write_items(firings(2)[0])
    assert [dict(record.headers)["dotr-id"] for record in kafka.consume(topic)] == [
        f"p/{batch * 1_000_000}-{number}".encode() for batch in range(3) for number in range(3)
    ]
    assert rejected == []
