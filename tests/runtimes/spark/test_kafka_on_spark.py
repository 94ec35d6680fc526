"""Kafka as an input on Spark, over a real broker: the same events and dead letters as in process,
whatever the batches, and whatever is killed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.runtimes.monitoring.totals import InputLost, Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.planning import index_scans
from tests.support.interrupted import run_until
from tests.support.kafka_broker import PASSWORD, PASSWORD_VARIABLE, USER, Broker, Sent
from tests.support.kafka_inputs import dead_letters, expected, kafka_section, line, run, send, streams, write_config, written
from tests.support.patience import PATIENCE
from tests.support.victims import Found, Phase, Run, batch_phase

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BOUNDED = "endingOffsets: latest"
SPARK = "spark: {{ master: 'local[2]', batch: {}, checkpoint: out/checkpoint }}\n"


def _run(config: Path, *options: str) -> Totals:
    from dotr.runtimes.spark.run import run_spark

    return run_spark(build(read_config(str(config), options), fresh=False, on_spark=True), lambda totals: None)


def _until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _times(config: Path) -> list[int]:
    return [json.loads(text)["time"] for text in written(config.parent / "out/events")]


def _pairs(dead: list[dict[str, object]]) -> list[tuple[object, object]]:
    return sorted((each["reason"], each["text"]) for each in dead)


def _config(folder: Path, kafka: Broker, topic: str, further: str = "", batch: int = 150, settings: str = "") -> Path:
    section = kafka_section(kafka, topic, further)
    return write_config(folder, f"{{ name: a, format: ndjson, {settings}{section} }}", SPARK.format(batch))


def _texts(folder: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in sorted(folder.glob("*.ndjson"))}


@pytest.mark.usefixtures("spark")
def test_batches_equal_files_and_are_repeated_identically(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last batch is repeated from its offsets, as after a crash. Once the broker has deleted its messages, the run ends."""
    lines = streams(2, 3, 200)
    topic = kafka.topic(partitions=4)
    send(kafka, topic, lines)
    events, dead = expected(tmp_path / "files", lines)
    config = _config(tmp_path / "k", kafka, topic, f"{BOUNDED}, failOnDataLoss: false", settings="lateness: 3 s, ")
    _run(config)
    out = config.parent / "out"
    assert written(out / "events") == events
    assert _pairs(dead_letters(out / "dead")) == dead
    batches = _texts(out / "events"), _texts(out / "dead")
    assert len(batches[0]) > 2
    (journal,) = (out / "checkpoint").glob("partitions.ndjson")
    assert [json.loads(text)[2:4] for text in journal.read_text().splitlines()] == [[topic, number] for number in range(4)]
    commits = out / "checkpoint/query/commits"
    last = max(int(each.name) for each in commits.glob("[0-9]*"))
    _undo(commits, last)
    _run(config)
    assert (_texts(out / "events"), _texts(out / "dead")) == batches
    monkeypatch.chdir(config.parent)
    assert main(["plan", config.name]) == 0  # without the broker
    _undo(commits, last)
    for partition in range(3):
        kafka.delete_records(topic, 199, partition)
    with pytest.raises(InputLost, match="S120"):
        _run(config)
    kafka.delete(topic)
    kafka.create(topic, 4)
    with pytest.raises(Refused, match="S121"):
        _run(config)


def _undo(commits: Path, number: int) -> None:
    """Make a batch one that is planned and not yet written."""
    for each in (commits / str(number), commits / f".{number}.crc"):
        each.unlink(missing_ok=True)


@pytest.mark.usefixtures("spark")
def test_growing_topic_continues_after_a_new_partition_a_killed_broker_and_a_restart(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic(partitions=2)  # the second one stays empty
    config = _config(tmp_path, kafka, topic, settings="idle: 2 s, ")
    kafka.produce_values(topic, [line(n, 0, n) for n in range(1, 5)])

    def first() -> None:
        _until(lambda: _times(config) == [2, 3, 4])
        kafka.add_partitions(topic, 3)
        kafka.produce_values(topic, [line(2, 1, 2), line(6, 1, 6), line(7, 1, 7)], partition=2)
        _until(lambda: _times(config) == [2, 3, 4, 7])
        kafka.restart()
        kafka.produce_values(topic, ["broken", line(8, 0, 8), line(9, 0, 9)])
        _until(lambda: _times(config) == [2, 3, 4, 7, 8, 9])

    def second() -> None:
        kafka.produce_values(topic, [line(10, 0, 10), line(10, 1, 10)], partition=2)
        _until(lambda: _times(config) == [2, 3, 4, 7, 8, 9, 10, 10])

    assert run_until(["run", str(config)], first) == 0
    assert run_until(["run", str(config)], second) == 0
    dead = dead_letters(tmp_path / "out/dead")
    assert [(each["reason"], each["file"], each["line"]) for each in dead] == [("idle", f"{topic}/2", 0), ("unreadable", f"{topic}/0", 4)]


@pytest.mark.usefixtures("spark")
def test_clock_closes_the_instants_of_a_silent_topic(kafka: Broker, tmp_path: Path) -> None:
    """One partition stays empty, then all are silent; the broker is restarted, and what is behind the clock is a dead letter."""
    topic = kafka.topic(partitions=2)
    section = f"{{ name: a, format: ndjson, {kafka_section(kafka, topic)} }}"
    config = write_config(tmp_path, section, SPARK.format(100), "clock: 2 s\ntime: { unit: ms }\n")
    started = int(time.time() * 1_000)

    def world() -> None:
        kafka.produce_values(topic, [line(started, 0, 1), line(started + 100, 0, 2)])
        _until(lambda: _times(config) == [started + 100])
        kafka.restart()
        kafka.produce_values(topic, [line(started + 200, 0, 3)], partition=1)
        _until(lambda: len(dead_letters(tmp_path / "out/dead")) == 1)

    assert run_until(["run", str(config)], world) == 0
    ((reason, place, why),) = [(each["reason"], each["file"], each["error"]) for each in dead_letters(tmp_path / "out/dead")]
    assert (reason, place) == ("clock", f"{topic}/1")
    assert str(why).startswith("behind the clock by ")
    assert _times(config) == [started + 100]


@pytest.mark.usefixtures("spark")
def test_a_lost_range_is_one_dead_letter(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic()
    kafka.produce_values(topic, [line(n, 0, n) for n in range(20)])
    kafka.delete_records(topic, 12)
    starting = f'startingOffsets: {{ {topic}: {{ "0": 5 }} }}, {BOUNDED}'
    with pytest.raises(InputLost, match="the records 5 to 11 of partition 0"):
        _run(_config(tmp_path / "strict", kafka, topic, starting))
    config = _config(tmp_path / "loose", kafka, topic, f"{starting}, failOnDataLoss: false")
    _run(config)
    assert _times(config) == list(range(13, 20))
    (dead,) = dead_letters(tmp_path / "loose/out/dead")
    assert (dead["reason"], dead["file"], dead["line"]) == ("lost", f"{topic}/0", 5)


@pytest.mark.usefixtures("spark")
def test_run_continues_amid_a_batch_and_shows_no_secret(kafka: Broker, tmp_path: Path) -> None:
    """The last batch is one that is planned and not yet committed, as after a kill, and the same command goes on; the output in the end
    is that of one run. The password, which workers read from their own environment, is in no file."""
    topic = kafka.topic(partitions=2)
    section = (
        f'kafka: {{ bootstrap.servers: "{kafka.login_servers}", subscribe: "{topic}", security.protocol: SASL_PLAINTEXT, '
        f'sasl.mechanism: PLAIN, sasl.username: {USER}, sasl.password: "${{{PASSWORD_VARIABLE}}}" }}'
    )
    config = write_config(tmp_path / "k", f"{{ name: a, format: ndjson, lateness: 3 s, {section} }}", SPARK.format(100))
    output = tmp_path / "k/out/events"
    lines = [streams(seed, 1, 300)[0] for seed in (5, 6)]
    send(kafka, topic, [each[:150] for each in lines])
    assert run_until(["run", str(config)], lambda: _until(lambda: len(written(output)) > 0)) == 0
    commits = tmp_path / "k/out/checkpoint/query/commits"
    _undo(commits, max(int(each.name) for each in commits.glob("[0-9]*")))
    first = len(written(output))
    send(kafka, topic, [each[150:] for each in lines])

    def rest() -> None:
        _until(lambda: len(written(output)) > first)
        send(kafka, topic, [[line(10_000, 8, 1)], [line(10_000, 9, 1)]])
        _until(lambda: len(written(output)) >= len(events))

    events, dead = expected(tmp_path / "files", [[*each, line(10_000, 8 + n, 1)] for n, each in enumerate(lines)])
    assert run_until(["run", str(config)], rest) == 0
    assert written(tmp_path / "k/out/events") == events
    assert _pairs(dead_letters(tmp_path / "k/out/dead")) == dead
    for path in (tmp_path / "k").rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path


ODD: Final = {20: None, 21: b"", 22: b"\0\0\0\0\x11\x02"}
"""Messages without a value, without bytes, and with the header of a schema registry, by their offsets."""


@pytest.mark.usefixtures("spark")
def test_times_of_the_broker_are_scanned_without_the_messages(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of several rows, some late, some that cannot be read, some empty: as in process, where each is decoded."""
    topic = kafka.topic(partitions=2, retention_ms="-1")  # the times of the records are of the past
    values = [b"broken" if n % 17 == 0 else f"{n % 3},{n}\n{n % 3},{n + 0.5}\n".encode() for n in range(60)]
    kafka.produce(
        topic,
        [
            Sent(ODD.get(number, values[number]), partition=partition, timestamp=at)
            for partition in range(2)
            for number in range(60)
            for at in [100_000 + 1_000 * (number // 2 - (40 if number % 13 == 12 else 0))]
        ],
    )
    section = kafka_section(kafka, topic, BOUNDED)
    mapped = "map: \"<http://e/s{s}> <http://e/v> '{v} {$topic[0]} {$partition}/{$offset}' .\", columns: [s, v], time: $timestamp"
    inputs = f"{{ name: a, format: csv, lateness: 3 s, {mapped}, {section} }}"
    local = run(write_config(tmp_path / "local", inputs), "--engine", "local")
    assert local.returncode == 0, local.stderr
    config = write_config(tmp_path / "k", inputs, SPARK.format(60))
    _run(config)
    assert written(config.parent / "out/events") == written(tmp_path / "local/out/events.ndjson") != []
    dead = [_pairs(dead_letters(folder)) for folder in (config.parent / "out/dead", tmp_path / "local/out/dead.ndjson")]
    assert dead[0] == dead[1]
    assert {reason for reason, _ in dead[0]} == {"late", "unreadable"}
    assert f" {topic} 1/59" in written(config.parent / "out/events")[-1]


@pytest.mark.usefixtures("spark")
def test_bounded_topic_is_indexed_by_tasks(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner reads no record; the output is that of files, and a batch is repeated identically by either planner, whichever has
    planned it first."""
    lines = streams(7, 3, 300)
    topic = kafka.topic(partitions=4)
    send(kafka, topic, [each[:150] for each in lines])
    with kafka.transaction(topic, [Sent(line(9_000, 0, 1).encode(), partition=number) for number in range(4)], commit=False):
        pass
    send(kafka, topic, [each[150:] for each in lines])
    events, dead = expected(tmp_path / "files", lines)
    scanned: list[str] = []
    scan = index_scans._IndexScans._run

    def noted(self: index_scans._IndexScans, work: list[dict[str, object]]) -> None:
        scanned.extend(map(json.dumps, work))
        scan(self, work)

    monkeypatch.setattr(index_scans._IndexScans, "_run", noted)
    monkeypatch.setattr(index_scans, "FIRST_RANGE", 40 * 512)
    for first, again in ((0, (1 << 40, 0)), (1 << 40, (0,))):
        config = _config(tmp_path / f"k{first}", kafka, topic, BOUNDED, settings="lateness: 3 s, ")
        out = config.parent / "out"
        monkeypatch.setattr(index_scans, "INDEXED_BYTES", first)
        _run(config)
        assert bool(scanned) == (first == 0)
        assert written(out / "events") == events
        assert _pairs(dead_letters(out / "dead")) == dead
        batches = _texts(out / "events"), _texts(out / "dead")
        assert len(batches[0]) > 1
        commits = out / "checkpoint/query/commits"
        last = max(int(each.name) for each in commits.glob("[0-9]*"))
        for bytes_ in again:
            _undo(commits, last)
            monkeypatch.setattr(index_scans, "INDEXED_BYTES", bytes_)
            _run(config)
            assert (_texts(out / "events"), _texts(out / "dead")) == batches
        assert not (out / "checkpoint/index").exists()
        scanned.clear()


@pytest.mark.usefixtures("spark")
def test_run_killed_between_batches_of_an_indexed_topic_continues(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All processes are killed with -9 when some batches are written. The next start, whose planner reads the existing index or a new one,
    ends with the output of one run, each dead letter once."""
    lines = streams(11, 3, 200)
    topic = kafka.topic(partitions=3)
    send(kafka, topic, lines)
    events, dead = expected(tmp_path / "files", lines)
    section = kafka_section(kafka, topic, BOUNDED)
    config = write_config(tmp_path / "k", f"{{ name: a, format: ndjson, lateness: 3 s, {section} }}", SPARK.format(50))
    out = config.parent / "out"
    victim = Run(config, Found(), "tests.support.indexed_run")
    process = victim.start()
    _until(lambda: process.poll() is not None or len(written(out / "events")) > 0)
    assert victim.kill("all", random.Random(1), lambda: batch_phase(out / "checkpoint", [out / "events"]), tuple(Phase))
    assert victim.ended() != 0
    assert 0 < len(written(out / "events")) < len(events), f"it was not killed in the middle: {victim.stderr_text}"
    assert (out / "checkpoint/index").exists(), victim.stderr_text
    monkeypatch.setattr(index_scans, "INDEXED_BYTES", 0)
    monkeypatch.setattr(index_scans, "FIRST_RANGE", 40 * 512)
    _run(config)
    assert written(out / "events") == events
    assert _pairs(dead_letters(out / "dead")) == dead
    assert not (out / "checkpoint/index").exists()


@pytest.mark.usefixtures("spark")
def test_elements_of_a_partition_are_set_apart(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of several elements, many of one time: in process, by the planner that reads the messages, and by the index of tasks."""
    chance = random.Random(5)
    lines: list[list[str]] = []
    for partition in range(2):
        latest, messages = 0, []
        for number in range(30):
            items = []
            for item in range(chance.randint(1, 3)):
                latest += chance.choice((0, 0, 0, 1, 3))
                items.append(
                    {"t": latest - 4 * (chance.random() < 0.05), "s": chance.randint(0, 2), "v": 1_000 * partition + 10 * number + item}
                )
            messages.append(json.dumps({"all": items}))
        lines.append(messages)
    topic = kafka.topic(partitions=2)
    send(kafka, topic, lines)
    mapped = 'each: "all[]", time: t, one_per_instant: apart, map: "<http://e/s{s}> <http://e/v> {v} ; <http://e/no> {$number} ."'
    section = f"{{ name: a, format: json, {mapped}, {kafka_section(kafka, topic, BOUNDED)} }}"
    found = []
    for engine, indexed in (("local", False), ("spark", False), ("spark", True)):
        monkeypatch.setattr(index_scans, "INDEXED_BYTES", 0 if indexed else 1 << 30)
        monkeypatch.setattr(index_scans, "FIRST_RANGE", 8 * 512)
        on_spark = engine == "spark"
        folder = tmp_path / f"{engine}{indexed}"
        config = write_config(folder, section, SPARK.format(25) if on_spark else "", "time: { unit: us }\n")
        if on_spark:
            _run(config)
        else:
            assert run(config, "--engine", "local").returncode == 0
        suffix = "" if on_spark else ".ndjson"
        found.append((written(folder / f"out/events{suffix}"), _pairs(dead_letters(folder / f"out/dead{suffix}"))))
    assert found[0] == found[1] == found[2]
    assert {reason for reason, _ in found[0][1]} == {"second", "late"}
    assert len(found[0][0]) > 20
