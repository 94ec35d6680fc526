"""Kills brokers and writers of transactions with -9, and holds the topic against what was to be written: each record once.

    python -m tests.kafka_kills [KILLS] [--spark N] [--seed 1]          # 100 kills take about ten minutes

A fifth of the kills, or N of them, is on Spark: a run that writes its batches into a topic is killed before, in and after transactions, or
its broker is. The others are on the sink alone, in a process that does what the driver does. What a killed process has begun, the same
command goes on with. Readers have `read_committed`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests.support.kafka_broker import Broker, Sent, running_broker
from tests.support.kafka_victims import MOMENTS, WAITING, Moments, encoder_of, firings_of, on_spark
from tests.support.paths import ROOT

_SECONDS: Final = 240.0

RULES: Final = """\
PREFIX : <http://e/>
rule High define High = [ dotr_id1 a :High ; :room ?room ; :value ?value ]
from Now = [ SELECT ?room ?value WHERE { ?r :room ?room ; :value ?value FILTER(?value > 20) } ]
with High.?room = Now.?room, High.?value = Now.?value
rule Rise define Rise = [ [] a :Rise ; :room ?room ]
from High and last High as Before [ FILTER(?room = High.?room) ] within 20 s from High
if High.?value > Before.?value
with Rise.?room = High.?room
"""
CONFIG: Final = """\
name: kills
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, path: a.ndjson }}]
output:
  - {{ format: ndjson, kafka: {{ bootstrap.servers: "{servers}", topic: {topic}, key: room }} }}
  - {{ format: ndjson, path: out }}
spark: {{ master: "local[2]", batch: 20, checkpoint: checkpoint, conf: {{ spark.ui.enabled: false }} }}
"""


def run_killed(command: list[str], folder: Path, broker: Broker) -> int:
    """Run a victim to its end, or to its death. Where it waits in a transaction, the broker is killed and started again."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "stderr.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kafka_victims", *command],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    until = time.monotonic() + _SECONDS
    try:
        while process.poll() is None:
            _kill_awaited(folder, broker)
            if time.monotonic() > until:
                raise TimeoutError((folder / "stderr.log").read_text()[-3000:])
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a JVM of its own, too
        process.wait()
    if process.returncode not in (0, -signal.SIGKILL):
        raise AssertionError((folder / "stderr.log").read_text()[-3000:])
    return process.returncode


def run_here(words: str, config: Path, broker: Broker) -> int:
    """Run on Spark in this process, at moments at which only the broker is killed; the exit code."""
    ended = threading.Event()

    def kill_brokers() -> None:
        while not ended.wait(0.02):
            _kill_awaited(config.parent, broker)

    killing = threading.Thread(target=kill_brokers)
    killing.start()
    try:
        return on_spark(str(config), Moments(words, config.parent))
    finally:
        ended.set()
        killing.join()


def _kill_awaited(folder: Path, broker: Broker) -> None:
    """Kill and start the broker where a process waits for it."""
    if (folder / WAITING).exists():
        broker.kill()
        (folder / WAITING).unlink()
        broker.start()


def kill_sink(broker: Broker, folder: Path, moments: list[str]) -> list[str]:
    """Kill the sink alone at these moments; the differences."""
    topic = broker.topic("sink", partitions=3)
    batches = 4 * len(moments) + 3
    command = [broker.servers, topic, str(folder), str(batches)]
    problems = [
        f"{words} did not happen"
        for words in _of_processes([f"{moment}:{4 * number + 2}" for number, moment in enumerate(moments)])
        if (run_killed(["sink", words, *command], folder, broker) == 0) != words.split(",")[-1].startswith("broker")
    ]
    encode = encoder_of()
    wanted = []
    for batch in range(batches):
        messages = encode()
        wanted += [message for block in firings_of(batch) for message in messages(block)]
    # the order of all is that of the batches; within a partition the topic has it
    found = broker.consume(topic)
    expected = Counter((message.body, message.key) for message in wanted)
    order = {message.body: place for place, message in enumerate(wanted)}
    return problems + _differences(expected, order, found)


def _of_processes(moments: list[str]) -> list[str]:
    """The moments of each process: a process outlives the broker, and ends with the first other moment, or with the stream.

    >>> _of_processes(["in:2", "broker:6", "after:10"])
    ['in:2', 'broker:6,after:10', 'broker:0']
    """
    found = [""]
    for moment in moments:
        found[-1] += f",{moment}" if found[-1] else moment
        if not moment.startswith("broker"):
            found.append("")
    return [each or "broker:0" for each in found]


def _differences(expected: Counter[tuple[bytes, bytes | None]], order: dict[bytes, int], found: list[Sent]) -> list[str]:
    counted = Counter((record.value or b"", record.key) for record in found)
    problems = [f"{(counted - expected).total()} too many"] if counted - expected else []
    problems += [f"{(expected - counted).total()} missing"] if expected - counted else []
    by_partition: dict[int, list[int]] = {}
    for record in found:
        by_partition.setdefault(record.partition, []).append(order.get(record.value or b"", -1))
    return problems + [f"partition {number} is out of order" for number, places in by_partition.items() if places != sorted(places)]


def kill_spark(broker: Broker, folder: Path, moments: list[str]) -> list[str]:
    """Kill runs on Spark at these moments; the differences. The last run, which ends by itself, is in this process."""
    topic = broker.topic("spark", partitions=3)
    choose = random.Random(len(moments))
    lines = [
        json.dumps({"time": time, "graph": f"[] :room :r{choose.randrange(4)} ; :value {choose.randrange(100)} ."})
        for time in range(20 * (len(moments) + 3))
    ]
    (folder / "a.ndjson").write_text("\n".join(lines))
    (folder / "r.dotr").write_text(RULES)
    (folder / "c.yaml").write_text(CONFIG.format(servers=broker.servers, topic=topic))
    *killed, last = _of_processes([f"{moment}:{number}" for number, moment in enumerate(moments, 1)])
    problems = [f"{words} did not happen" for words in killed if run_killed(["spark", words, str(folder / "c.yaml")], folder, broker) == 0]
    if run_here(last, folder / "c.yaml", broker):
        problems.append(f"the run with {last} has failed")
    (folder / "plain.yaml").write_text(
        CONFIG.format(servers="", topic="")
        .replace("path: out ", "path: plain.ndjson ")
        .replace(next(line for line in CONFIG.splitlines(keepends=True) if "kafka" in line).format(servers="", topic=""), "")
    )
    before = Path.cwd()
    os.chdir(folder)
    try:
        run_local(build(read_config("plain.yaml"), fresh=True, on_spark=False), lambda totals: None)
    finally:
        os.chdir(before)
    plain = (folder / "plain.ndjson").read_bytes().splitlines()
    expected = Counter((line, json.loads(line)["attributes"]["room"].encode()) for line in plain)
    order = {line: place for place, line in enumerate(plain)}
    problems += _differences(expected, order, broker.consume(topic))
    files = b"".join(path.read_bytes() for path in sorted((folder / "out").iterdir())).splitlines()
    return problems if files == plain else [*problems, "the files differ"]


def moments_of(number: int, choose: random.Random, brokers: float = 0.2) -> list[str]:
    """So many moments: each kind once, then as chosen; a part of them are kills of the broker."""
    chosen = [*MOMENTS[: min(number, len(MOMENTS))]]
    while len(chosen) < number:
        chosen.append("broker" if choose.random() < brokers else choose.choice(MOMENTS[:-1]))
    choose.shuffle(chosen)
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", nargs="?", type=int, default=100)
    parser.add_argument("--spark", type=int, help="how many of them are on Spark; a fifth if not given")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    choose = random.Random(options.seed)
    on_spark = options.kills // 5 if options.spark is None else options.spark
    problems: list[str] = []
    killed: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as name, running_broker(Path(name) / "broker") as broker:
        for kind, kills in (("sink", options.kills - on_spark), ("spark", on_spark)):
            for start in range(0, kills, 10):
                moments = moments_of(min(10, kills - start), choose)
                folder = Path(name) / f"{kind}-{start}"
                folder.mkdir()
                found = (kill_sink if kind == "sink" else kill_spark)(broker, folder, moments)
                problems += [f"{kind} {moments}: {each}" for each in found]
                killed.update(f"{kind} {moment}" for moment in moments)
                sys.stdout.write(f"{kind}: {sum(killed.values())} kills, {len(problems)} differences\n")
                sys.stdout.flush()
    told = ", ".join(f"{name} {number}" for name, number in sorted(killed.items()))
    sys.stdout.write(f"{sum(killed.values())} kills ({told}) in {time.monotonic() - began:.0f} s: {len(problems)} differences\n")
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
