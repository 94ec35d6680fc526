"""Cost of a program over DataFrames (`dotr.spark`) on Spark, beside the own source and Spark's own work on the same rows.

    python -m benchmarks.spark_native [--elements 120000] [--batches 6] [--way source] [--way events] [--way spark] [--master 'local[2]']

The rows are readings and smoke of rooms in CSV files, of which the rule of `RULES` makes some hundred fires. `source` reads them by a
pipeline of a configuration, `events` by a streaming DataFrame, `spark` only removes duplicates of them. Figures are from the second batch
on, when all worker processes run: CPU of the whole process tree, that of the JVM apart.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.aarhus import TreeClock
from benchmarks.background import say
from dotr.runtimes.monitoring.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RULES: Final = """PREFIX : <http://example.org/>
rule Heated define Fire = [ dotr_id a :Fire ; :room ?room ; :value ?value ]
from Smoke = [ SELECT ?room WHERE { ?s a :Smoke ; :room ?room } ]
and last Hot = [ SELECT ?room ?value WHERE { ?t a :Temp ; :room ?room ; :value ?value FILTER(?value > 50 && ?room = Smoke.?room) } ]
  within 5 min from Smoke
with Fire.?room = Smoke.?room, Fire.?value = Hot.?value
"""
MAP: Final = "[] a :{kind} ; :room '{room}' ; :value {value} ."
SCHEMA: Final = "ts long, kind string, room string, value int"
ROOMS: Final = 500
A_SECOND: Final = 100
"""Elements a second of the stream."""


def write_project(folder: Path, elements: int, batches: int) -> Path:
    """A configuration, and as many files of rows as there are batches."""
    choose = random.Random(7)
    (folder / "heated.dotr").write_text(RULES)
    (folder / "in").mkdir()
    for batch in range(batches):
        with (folder / "in" / f"{batch:03}.csv").open("w") as file:
            file.write("ts,kind,room,value\n")
            for number in range(batch * elements // batches, (batch + 1) * elements // batches):
                kind = "Smoke" if choose.random() < 0.02 else "Temp"
                file.write(f"{number // A_SECOND},{kind},room{choose.randrange(ROOMS)},{choose.randrange(10, 55)}\n")
    config = folder / "native.yaml"
    config.write_text(
        'name: native\nprefixes: { "": "http://example.org/" }\nrules: [heated.dotr]\n'
        "input:\n  - { name: readings, format: csv, path: 'in/*.csv', time: ts, map: \"" + _csv_map() + '" }\n'
        "output:\n  - { format: ndjson, path: out/events.ndjson }\ndead_letter: out/rejected.ndjson\n"
        f"spark: {{ checkpoint: out/checkpoint, batch: {elements // batches} }}\n"
    )
    return config


def _csv_map() -> str:
    return MAP.replace("{value}", "{value:integer}")


class SplitClock(TreeClock):
    """The CPU seconds of this process and its descendants, and those of the JVM among them."""

    def of_jvm(self) -> float:
        """The seconds of processes named `java`, as of the last reading."""
        return sum(seconds for pid, seconds in self._seen.items() if _name(pid) == "java")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Readings:
    """The CPU at the end of each batch, with the elements and events so far."""

    def __init__(self) -> None:
        self._clock = SplitClock()
        self._made: list[tuple[float, float, int, int]] = []

    def add(self, elements: int, events: int) -> None:
        self._made.append((self._clock.read(), self._clock.of_jvm(), elements, events))

    def tell(self, way: str) -> float:
        """Print the figures; the µs an element."""
        first, last = self._made[0], self._made[-1]
        number = last[2] - first[2]
        whole, jvm = ((last[each] - first[each]) / number * 1e6 for each in (0, 1))
        say(f"{way}: {number:,} elements, {last[3]:,} events; {whole:.1f} µs of CPU an element: JVM {jvm:.1f}, Python {whole - jvm:.1f}")
        return whole


def by_source(config: Path, master: str) -> float:
    """The pipeline of the configuration."""
    from dotr.runtimes.pipeline.build import build
    from dotr.runtimes.pipeline.config import read_config
    from dotr.runtimes.spark.run import run_spark

    readings, told = Readings(), [0]

    def read(totals: Totals) -> None:
        if totals.elements > told[0]:
            told[0] = totals.elements
            readings.add(totals.elements, totals.events)

    run_spark(build(read_config(str(config), [f"spark.master={master}"]), fresh=False, on_spark=True), read)
    return readings.tell("source")


def by_frames(config: Path, master: str, batches: int, elements: int, way: str) -> float:
    """A streaming DataFrame of the same files: events of it, or without duplicates."""
    from dotr.runtimes.spark.start.session import start

    folder = config.parent
    session = start("native", master, {}, folder / "spark.log", archive=True)
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    rows = session.readStream.schema(SCHEMA).option("header", value=True).option("maxFilesPerTrigger", 1).csv(str(folder / "in"))
    made = _events(config, rows) if way == "events" else _without_duplicates(rows)
    readings, found = Readings(), [0]

    def write(batch: DataFrame, number: int) -> None:
        path = str(folder / f"out-{way}")
        batch.write.mode("append").json(path)
        found[0] += sum(1 for each in Path(path).glob("*.json") for _ in each.open()) if number == batches - 1 else 0
        if number < batches:
            readings.add((number + 1) * elements // batches, found[0])

    query = made.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / f"checkpoint-{way}"))
    query.trigger(availableNow=True).start().awaitTermination()
    session.stop()
    return readings.tell(way)


def _events(config: Path, rows: DataFrame) -> DataFrame:
    from dotr import Program
    from dotr.spark import Stream, events

    return events(Program.from_config(config), [Stream(rows, time="ts", map=MAP, name="readings")])


def _without_duplicates(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn("ts", F.timestamp_seconds("ts")).withWatermark("ts", "0 seconds").dropDuplicates()


def main() -> int:
    """Run the given ways."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--way", action="append", choices=("source", "events", "spark"))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--elements", type=int, default=120_000)
    parser.add_argument("--batches", type=int, default=6)
    options = parser.parse_args()
    ways: dict[str, Callable[[Path], float]] = {
        "source": lambda config: by_source(config, options.master),
        "events": lambda config: by_frames(config, options.master, options.batches, options.elements, "events"),
        "spark": lambda config: by_frames(config, options.master, options.batches, options.elements, "spark"),
    }
    costs: dict[str, float] = {}
    for way in options.way or ways:
        with tempfile.TemporaryDirectory() as folder:
            costs[way] = ways[way](write_project(Path(folder), options.elements, options.batches))
    if {"source", "events"} <= costs.keys():
        say(f"events: {costs['events'] / costs['source']:.2f} times the own source")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
