"""The synthetic city over Kafka: a broker, the day replayed into it, the rules on Spark, and the events as they come.

    ./start --kafka [--speed 1440] [--engine local] [--quiet]       # python -m data.city.over_kafka

`--speed 1440` replays 1,440 seconds of the day in a second, so the day in a minute; `--speed 0` as fast as the broker takes it. The broker
is one process on free ports of this machine; its jars are fetched once (43 MB, into ~/.cache/dotr), and it is gone at the end. Ctrl-C ends
all of it. The events are those of `./start`, which reads files.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from heapq import merge
from pathlib import Path
from typing import Final, NamedTuple

from dotr.streams.formats.writing import plain_text
from tests.support.kafka_broker import Broker, fetch, running_broker

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
CONFIG: Final = ROOT / "configs" / "city-kafka.yaml"
INPUTS: Final = ("traffic", "weather", "parking")
EVENTS: Final = "city-events"
REJECTED: Final = "city-rejected"
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_SILENCE_SECONDS: Final = 20 * 60
"""Longest time between two reports of an input: the weather station's."""


class Report(NamedTuple):
    """A row of the day as a record of a topic."""

    seconds: float
    topic: str
    value: str


def reports(name: str) -> Iterator[Report]:
    """The rows of a file as JSON, at the times at which they were sent: a late one comes when its turn is."""
    latest = 0.0
    with gzip.open(HERE / f"{name}.csv.gz", "rt") as file:
        rows = csv.reader(file)
        header = next(rows)
        for row in rows:
            latest = max(latest, datetime.fromisoformat(f"{row[0]}+00:00").timestamp())
            yield Report(latest, f"city-{name}", as_json(header, row))


def as_json(header: list[str], row: list[str]) -> str:
    """A row as a JSON object, numbers in their own digits; a row that lacks a cell stays what it is, and cannot be read.

    >>> as_json(["time", "section", "speed"], ["2024-05-14T00:00:00", "AB", "7.60"])
    '{"time": "2024-05-14T00:00:00", "section": "AB", "speed": 7.60}'
    """
    if len(row) != len(header):
        return ",".join(row)
    cells = [f"{json.dumps(name)}: {cell if _NUMBER.fullmatch(cell) else json.dumps(cell)}" for name, cell in zip(header, row, strict=True)]
    return f"{{{', '.join(cells)}}}"


class Replay(threading.Thread):
    """The day on its way into the topics, at so many of its seconds a second; `sent` counts its reports."""

    def __init__(self, broker: Broker, speed: float) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._speed = speed
        self._stopped = threading.Event()
        self.day = list(merge(*(reports(name) for name in INPUTS), key=lambda report: report.seconds))
        self.sent = 0

    def run(self) -> None:
        """Send the reports, each at its time."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._broker.servers, "linger.ms": 5, "enable.idempotence": True, "log_level": 0})
        began = time.monotonic()
        for report in self.day:
            if self._speed:
                wait = (report.seconds - self.day[0].seconds) / self._speed - (time.monotonic() - began)
                if wait > 0 and self._stopped.wait(wait):
                    return
            producer.produce(report.topic, report.value)
            producer.poll(0)
            self.sent += 1
        producer.flush(30)

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped.set()


class Shown(threading.Thread):
    """The events that are committed, printed as they come."""

    def __init__(self, broker: Broker, *, quiet: bool) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._quiet = quiet
        self._stopped = threading.Event()
        self.number = 0

    def run(self) -> None:
        """Read the topic of events until stopped, then to its end."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"bootstrap.servers": self._broker.servers, "group.id": "shown", "enable.auto.commit": False}
        reader = Consumer({**settings, "isolation.level": "read_committed"})
        reader.assign([TopicPartition(EVENTS, number, OFFSET_BEGINNING) for number in range(3)])
        while True:
            read = reader.consume(1_000, timeout=0.5)
            for record in read:
                if record.error() is None:
                    self.number += 1
                    if not self._quiet:
                        sys.stdout.write(f"{as_line(record.value() or b'{}')}\n")
                        sys.stdout.flush()
            if not read and self._stopped.is_set():
                break
        reader.close()

    def stop(self) -> None:
        """Read to the end, then leave."""
        self._stopped.set()
        self.join(30)


def as_line(value: bytes) -> str:
    """An event on a line: time, event, attributes."""
    event = json.loads(value)
    attributes = [f"{name} {plain_text(text).rpartition('/')[2]}" for name, text in event["attributes"].items()]
    return f"{event['time']}  {event['event']:<14} {', '.join(attributes)}"


def create_topics(broker: Broker) -> None:
    """The topics of the inputs, of the events and of the dead letters."""
    for name in (*INPUTS, "rejected"):
        broker.create(f"city-{name}")
    broker.create(EVENTS, 3)


def replay(broker: Broker, speed: float, options: list[str], *, quiet: bool) -> int:
    """Replay the day into a broker and run the rules over it; the exit code."""
    create_topics(broker)
    day, shown = Replay(broker, speed), Shown(broker, quiet=quiet)
    idle = max(10, round(2 * _SILENCE_SECONDS / speed)) if speed else 10
    environment = {**os.environ, "CITY_KAFKA": broker.servers, "CITY_IDLE": f"{idle} s"}
    command = [sys.executable, "-m", "dotr", "run", str(CONFIG), "--fresh", "--progress", "json", *options]
    run = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    shown.start()
    day.start()
    told = [Told(0, 0)]
    is_stopped = False
    try:
        for each in told_by(run):
            told.append(each)
            if not is_stopped and not day.is_alive() and sum(each) >= len(day.day):
                is_stopped = True
                run.send_signal(signal.SIGINT)
    except KeyboardInterrupt:
        sys.stderr.write("Stopping.\n")
        if not is_stopped:
            run.send_signal(signal.SIGINT)
        told += told_by(run)
    finally:
        day.stop()
        code = run.wait()
        if run.stderr is not None:
            run.stderr.close()
        shown.stop()
    sys.stderr.write(f"{day.sent:,} reports sent, {told[-1].elements:,} read, {told[-1].dead} dead letters, {shown.number:,} events.\n")
    return code


class Told(NamedTuple):
    """What a run has told of its progress: elements, and dead letters."""

    elements: int
    dead: int


def told_by(run: subprocess.Popen[str]) -> Iterator[Told]:
    """The progress of a run that is told as JSON; its messages are printed."""
    assert run.stderr is not None
    for line in run.stderr:
        try:
            told = json.loads(line)
        except ValueError:
            told = {"message": line.rstrip()}
        if "message" in told:
            sys.stderr.write(f"{told['message']}\n")
        else:
            yield Told(told["elements"], sum(told["dead"].values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--speed", type=float, default=1440.0, help="seconds of the day in a second; 0: as fast as it goes (default 1440)")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--quiet", action="store_true", help="no event on a line of its own")
    options = parser.parse_args()
    sys.stderr.write("Starting a Kafka broker; its jars are fetched where they are missing.\n")
    try:
        fetch()
        with tempfile.TemporaryDirectory(prefix="city-kafka-") as folder, running_broker(Path(folder) / "broker") as broker:
            return replay(broker, options.speed, ["--engine", options.engine], quiet=options.quiet)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
