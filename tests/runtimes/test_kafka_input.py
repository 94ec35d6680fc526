"""Kafka as an input in process, over a real broker."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.kafka_broker import PASSWORD, USER, Broker, Sent
from tests.support.kafka_inputs import (
    Running,
    dead_letters,
    expected,
    free_port,
    kafka_section,
    line,
    metric,
    run,
    send,
    streams,
    write_config,
    written,
)
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.kafka

BOUNDED = "endingOffsets: latest"


def _pairs(dead: list[dict[str, object]]) -> list[tuple[object, object]]:
    return sorted((each["reason"], each["text"]) for each in dead)


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


def test_marks_aborted_records_and_tombstones(kafka: Broker, tmp_path: Path) -> None:
    """Gaps in the offsets are ignored: aborted records are not read, and marks at the end of a partition end it. A record without a value
    is unreadable."""
    topic = kafka.topic()
    with kafka.transaction(topic, [Sent(line(1, 0, 1).encode())]):
        pass
    with kafka.transaction(topic, [Sent(line(2, 0, 2).encode())], commit=False):
        pass
    kafka.produce(topic, [Sent(None, key=b"k"), Sent(line(3, 0, 3).encode())])
    with kafka.transaction(topic, [Sent(line(4, 0, 4).encode())]):
        pass
    with kafka.transaction(topic, [Sent(line(5, 0, 5).encode())], commit=False):
        pass
    config = write_config(tmp_path, f"{{ name: a, format: ndjson, {kafka_section(kafka, topic, BOUNDED)} }}")
    with kafka.transaction(topic, [Sent(line(6, 0, 6).encode())], commit=False):  # open: the end is before it
        ended = run(config, "--engine", "local")
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(text) for text in written(tmp_path / "out/events.ndjson")]
    assert [(each["time"], each["attributes"]["w"]) for each in events] == [(3, _number(1)), (4, _number(3))]
    (dead,) = dead_letters(tmp_path / "out/dead.ndjson")
    told = "it has no value: it is the tombstone of the key k"
    assert (dead["reason"], dead["line"], dead["error"], dead["text"]) == ("unreadable", 4, told, "")


def test_integers_of_a_topic_beside_numbers_since_1970_are_refused(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic()
    send(kafka, topic, [[line(1, 0, 1)]])
    (tmp_path / "log.csv").write_text("t,v\n1709294400,1\n")
    log = "{ name: log, format: csv, path: log.csv, time: t, time_format: unix, map: '[] <http://e/v> {v} .' }"
    config = write_config(tmp_path, f"{log}\n{{ name: a, format: ndjson, {kafka_section(kafka, topic)} }}")
    ended = run(config, "--engine", "local")
    assert ended.returncode == 2, ended.stderr
    assert "C204 the times of input log (unix) are date-times, and those of a are integers" in ended.stderr, ended.stderr


def _number(value: int) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'


@pytest.mark.parametrize(
    ("setting", "first"),
    [
        ("startingOffsets: earliest", 0),
        ('startingOffsets: { TOPIC: { "0": 4 } }', 4),
        ('startingOffsets: { TOPIC: { "0": -2 } }', 0),
        ("startingTimestamp: 1700000000003", 3),
        ("startingOffsets: latest", 6),
        ("startingTimestamp: 1800000000000", 6),
    ],
)
def test_starting_setting_selects_the_first_record(kafka: Broker, tmp_path: Path, setting: str, first: int) -> None:
    topic = kafka.topic(retention_ms="-1")  # the times of the records are of the past
    kafka.produce(topic, [Sent(line(n, 0, n).encode(), timestamp=1_700_000_000_000 + n) for n in range(6)])
    section = kafka_section(kafka, topic, f"{setting.replace('TOPIC', topic)}, {BOUNDED}")
    ended = run(write_config(tmp_path, f"{{ name: a, format: ndjson, {section} }}"), "--engine", "local")
    assert ended.returncode == 0, ended.stderr
    assert [json.loads(text)["time"] for text in written(tmp_path / "out/events.ndjson")] == list(range(first + 1, 6))


@pytest.mark.parametrize("form", ["json", "text"])
def test_metadata_of_a_record_is_available_to_time_and_map(kafka: Broker, tmp_path: Path, form: str) -> None:
    """Its time, key, headers, partition and offset."""
    topic = kafka.topic(retention_ms="-1")
    records = [Sent(b'{"v": 1}', b"k%d" % n, timestamp=1_700_000_000_000 + n, headers=(("unit", b"C"),)) for n in range(2)]
    kafka.produce(topic, records)
    settings = f"format: {form}, time: $timestamp, "
    settings += "map: \"<http://e/{$key}> <http://e/v> '{$partition}/{$offset} {$header.unit}' .\""
    rules = """PREFIX : <http://e/>
rule one define One = [ [] :of ?s ; :v ?v ] from Now = [ SELECT ?s ?v WHERE { ?s :v ?v } ] with One.?s = Now.?s, One.?v = Now.?v
"""
    config = write_config(tmp_path, f"{{ name: a, {settings}, {kafka_section(kafka, topic, BOUNDED)} }}")
    (tmp_path / "rules.dotr").write_text(rules)
    ended = run(config, "--engine", "local")
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(text) for text in written(tmp_path / "out/events.ndjson")]
    assert [(each["time"], each["attributes"]["s"], each["attributes"]["v"]) for each in events] == [
        (f"2023-11-14T22:13:20.00{n}Z" if n else "2023-11-14T22:13:20Z", f"<http://e/k{n}>", f'"0/{n} C"') for n in range(2)
    ]


def test_pattern_and_assigned_partitions(kafka: Broker, tmp_path: Path) -> None:
    """A pattern matches whole names; `assign` reads the given partitions only."""
    topic = kafka.topic("pick", 3)
    kafka.create(f"{topic}-other", 1)
    send(kafka, topic, [[line(1, n, 1), line(2, n, 2)] for n in range(3)])
    send(kafka, f"{topic}-other", [[line(1, 9, 1), line(2, 9, 2)]])
    for number, (choice, sensors) in enumerate(
        [(f'subscribePattern: "{topic[:-1]}."', {"s0", "s1", "s2"}), (f"assign: {{ {topic}: [0, 2] }}", {"s0", "s2"})]
    ):
        section = f'kafka: {{ bootstrap.servers: "{kafka.servers}", {choice}, {BOUNDED} }}'
        config = write_config(tmp_path / str(number), f"{{ name: a, format: ndjson, {section} }}")
        ended = run(config, "--engine", "local")
        assert ended.returncode == 0, ended.stderr
        found = {json.loads(text)["attributes"]["s"][len("<http://e/") : -1] for text in written(config.parent / "out/events.ndjson")}
        assert found == sensors


def _event_times(config: Path) -> list[int]:
    return [json.loads(text)["time"] for text in written(config.parent / "out/events.ndjson")]


def test_growing_with_new_and_empty_partitions(kafka: Broker, tmp_path: Path) -> None:
    """An empty partition delays the others until it is idle. A new partition is added, and its records for closed instants are rejected as
    idle."""
    topic = kafka.topic(partitions=2)
    config = write_config(tmp_path, f"{{ name: a, format: ndjson, idle: 1 s, {kafka_section(kafka, topic)} }}")
    kafka.produce_values(topic, [line(n, 0, n) for n in range(1, 5)])
    with Running(config, "--engine", "local", "--progress", "json") as running:
        running.wait_until(lambda: _event_times(config) == [2, 3, 4])
        kafka.add_partitions(topic, 3)
        kafka.produce_values(topic, [line(2, 1, 2), line(6, 1, 6), line(7, 1, 7)], partition=2)
        running.wait_until(lambda: _event_times(config) == [2, 3, 4, 7])
        assert running.stop() == 0, running.stderr_text
    assert '"connected": true' in running.stderr_text
    (dead,) = dead_letters(tmp_path / "out/dead.ndjson")
    assert (dead["reason"], dead["file"], dead["line"]) == ("idle", f"{topic}/2", 0)


def test_records_deleted_unread_end_the_run_or_are_a_dead_letter(kafka: Broker, tmp_path: Path) -> None:
    """The range removed by retention ends the run, or is one dead letter with failOnDataLoss: false."""
    topic = kafka.topic()
    kafka.produce_values(topic, [line(n, 0, n) for n in range(20)])
    kafka.delete_records(topic, 12)
    starting = f'startingOffsets: {{ {topic}: {{ "0": 5 }} }}, {BOUNDED}'
    strict = write_config(tmp_path / "strict", f"{{ name: a, format: ndjson, {kafka_section(kafka, topic, starting)} }}")
    ended = run(strict, "--engine", "local")
    assert ended.returncode == 1, ended.stderr
    assert "S120" in ended.stderr
    assert "the records 5 to 11 of partition 0" in ended.stderr
    loose = write_config(
        tmp_path / "loose", f"{{ name: a, format: ndjson, {kafka_section(kafka, topic, starting + ', failOnDataLoss: false')} }}"
    )
    ended = run(loose, "--engine", "local")
    assert ended.returncode == 0, ended.stderr
    assert _event_times(loose) == list(range(13, 20))
    (dead,) = dead_letters(tmp_path / "loose/out/dead.ndjson")
    assert (dead["reason"], dead["file"], dead["line"]) == ("lost", f"{topic}/0", 5)
    assert "5 to 11" in str(dead["error"])


def test_topic_replaced_while_it_is_read_ends_the_run(kafka: Broker, tmp_path: Path) -> None:
    """Another topic under the name ends the run."""
    topic = kafka.topic()
    kafka.produce_values(topic, [line(n, 0, n) for n in range(1, 4)])
    config = write_config(tmp_path, f"{{ name: a, format: ndjson, {kafka_section(kafka, topic)} }}")
    with Running(config, "--engine", "local") as running:
        running.wait_until(lambda: _event_times(config) == [2])
        kafka.delete(topic)
        kafka.create(topic)
        kafka.produce_values(topic, [line(n, 0, n) for n in range(1, 4)])
        assert running.process.wait(PATIENCE) == 1
        assert "S121" in running.stderr_text
        assert _event_times(config) == [2]


def test_starting_offset_beyond_the_end_is_refused(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic()
    kafka.produce_values(topic, [line(1, 0, 1)])
    section = kafka_section(kafka, topic, f'startingOffsets: {{ {topic}: {{ "0": 7 }} }}')
    ended = run(write_config(tmp_path, f"{{ name: a, format: ndjson, {section} }}"), "--engine", "local")
    assert ended.returncode == 2
    assert "S121" in ended.stderr


def test_run_continues_after_the_broker_is_killed_and_restarted(kafka: Broker, tmp_path: Path) -> None:
    """Meanwhile the metric of the connection is 0."""
    topic = kafka.topic()
    kafka.produce_values(topic, [line(n, 0, n) for n in range(1, 5)])
    port = free_port()
    metrics = f"metrics: {{ prometheus: {port} }}\n"
    config = write_config(tmp_path, f"{{ name: a, format: ndjson, {kafka_section(kafka, topic)} }}", more=metrics)
    with Running(config, "--engine", "local") as running:
        running.wait_until(lambda: _event_times(config) == [2, 3])
        running.wait_until(lambda: metric(port, "dotr_input_connected") == 1)
        kafka.kill()
        try:
            running.wait_until(lambda: metric(port, "dotr_input_connected") == 0)
        finally:
            kafka.start()
        kafka.produce_values(topic, [line(n, 0, n) for n in range(5, 8)])
        running.wait_until(lambda: _event_times(config) == [2, 3, 4, 5, 6])
        running.wait_until(lambda: metric(port, "dotr_input_connected") == 1)
        assert running.stop() == 0


def test_lasting_errors_end_the_run_at_its_start(kafka: Broker, tmp_path: Path) -> None:
    """Wrong credentials, an unknown topic, a missing secret; no output has the secret's value."""
    topic = kafka.topic("sensors")
    kafka.produce_values(topic, [line(n, 0, n) for n in range(1, 5)])
    login = (
        f'kafka: {{ bootstrap.servers: "{kafka.login_servers}", subscribe: "{topic}", {BOUNDED}, security.protocol: SASL_PLAINTEXT, '
        f'sasl.mechanism: PLAIN, sasl.username: {USER}, sasl.password: "${{KAFKA_PASSWORD}}" }}'
    )
    config = write_config(tmp_path / "login", f"{{ name: a, format: ndjson, {login} }}")
    wrong = run(config, "--engine", "local", environment={"KAFKA_PASSWORD": "seen-nowhere-5"})
    assert wrong.returncode == 2
    assert "S125" in wrong.stderr
    assert "Invalid username or password" in wrong.stderr
    assert "seen-nowhere-5" not in wrong.stderr + wrong.stdout
    missing = run(config, "--engine", "local")
    assert missing.returncode == 2
    assert "S124" in missing.stderr
    right = run(config, "--engine", "local", environment={"KAFKA_PASSWORD": PASSWORD})
    assert right.returncode == 0, right.stderr
    for path in (tmp_path / "login").rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()
    misspelt = topic.replace("sensors", "sensor")
    unknown = run(write_config(tmp_path / "u", f"{{ name: a, format: ndjson, {kafka_section(kafka, misspelt)} }}"), "--engine", "local")
    assert unknown.returncode == 2
    assert "S126" in unknown.stderr
    assert f"Did you mean {topic}?" in unknown.stderr


def test_run_waits_for_an_unreachable_broker(tmp_path: Path) -> None:
    """The run prints a warning, and tries again until it is stopped."""
    config = write_config(tmp_path, '{ name: a, format: ndjson, kafka: { bootstrap.servers: "127.0.0.1:1", subscribe: a } }')
    with Running(config, "--engine", "local") as running:
        running.wait_until(lambda: "no answer from 127.0.0.1:1" in running.stderr_text)
        assert "Connection refused" in running.stderr_text
        assert running.stop() == 0


def test_back_pressure_loses_nothing(kafka: Broker, tmp_path: Path) -> None:
    """One partition is 30,000 messages ahead of another: it is paused, and every message counts."""
    topic = kafka.topic(partitions=2)
    kafka.produce_values(topic, [line(n, 0, n) for n in range(30_000)])
    kafka.produce_values(topic, [line(n * 1_000, 1, n) for n in range(30)], partition=1)
    config = write_config(tmp_path, f"{{ name: a, format: ndjson, {kafka_section(kafka, topic, BOUNDED)} }}")
    with kafka.transaction(topic, [Sent(b"aborted")], commit=False):  # so its end is known by the end of the partition alone
        pass
    began = time.monotonic()
    ended = run(config, "--engine", "local")
    assert ended.returncode == 0, ended.stderr
    assert "30,030 elements" in ended.stderr, (ended.stderr, time.monotonic() - began)
    assert len(written(tmp_path / "out/events.ndjson")) == 29_999
