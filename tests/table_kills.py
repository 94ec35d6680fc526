"""Rules over a table, by `dotr.spark.events` and by `dotr run` with `spark:` inputs and outputs, whose processes are killed (SIGKILL): each
event, and each dead letter, is once in a table of Delta.

    python -m tests.table_kills [N] [--seed S]         # N kills each way (10): of all processes, the driver, its JVM, Python workers

Checkpoints and tables are in HDFS (tests/support/hadoop.py), and the drivers run Spark 4.2, which has Delta (tests/support/older_spark.py).
A batch is a file, so that late rows are known: those behind the watermark of the files before. Events are those of a run in process over
the other rows. Ten kills each way take some ten minutes on a quiet machine.
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
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from dotr.evaluation.files.stores import Location, configure_storage
from tests.support.hadoop import Hadoop, running
from tests.support.older_spark import FOR_DELTA, delta, environment, run
from tests.support.patience import PATIENCE
from tests.support.victims import processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
LATENESS: Final = timedelta(seconds=3)
ROWS_OF_FILE: Final = 20
WHO: Final = ("worker", "jvm", "worker", "driver", "worker", "all")
"""Kinds of processes, in the order of the kills; a run survives the death of a worker, or is started again."""
MAP: Final = "[] a :Temp ; :n {n} ; :room :{room} ; :value {value} ."
SCHEMA: Final = "at TIMESTAMP, n INT, room STRING, value INT"
RULES: Final = """PREFIX : <http://e/>
rule Read
define Seen = [ dotr_id a :Seen ; :n ?n ]
from R = [ SELECT ?n WHERE { ?r a :Temp ; :n ?n } ]
with Seen.?n = R.?n

rule Hot
define Alarm = [ dotr_id a :Alarm ; :room ?room ; :n ?n ; :was ?was ]
from Now = [ SELECT ?room ?n WHERE { ?r a :Temp ; :n ?n ; :room ?room ; :value ?v FILTER(?v > 50) } ]
and last Before = [ SELECT ?room2 ?v2 WHERE { ?r a :Temp ; :room ?room2 ; :value ?v2 FILTER(?room2 = Now.?room) } ] within 1 min from Now
with Alarm.?room = Now.?room, Alarm.?n = Now.?n, Alarm.?was = Before.?v2
"""
CONFIG: Final = """name: tables
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - name: readings
    SOURCE
    time: at
    map: "[] a :Temp ; :n {n} ; :room :{room} ; :value {value} ."
    lateness: 3 s
"""

Row = tuple[datetime | None, int, str, int]
"""Time, number, room and value."""


def drawn(files: int, draw: random.Random) -> list[list[Row]]:
    """The rows of each file: out of order within the lateness, some far behind it, some without a time; the last one closes all others."""
    number, found = 0, []
    for _ in range(files):
        rows: list[Row] = []
        for _ in range(ROWS_OF_FILE):
            number += 1
            moment = START + timedelta(seconds=number // 2 + draw.randrange(3))
            kind = draw.random()
            at = None if kind < 0.02 else moment - timedelta(seconds=90) if kind < 0.06 else moment
            rows.append((at, number, f"r{draw.randrange(3)}", draw.randrange(100)))
        found.append(rows)
    return [*found, [(START + timedelta(days=1), number + 1, "r0", 0)]]


def judged(files: Iterable[Iterable[Row]]) -> tuple[list[Row], dict[int, str]]:
    """The rows that are elements, by time, and the reasons of the others by number."""
    elements: list[Row] = []
    rejected: dict[int, str] = {}
    greatest = datetime.min.replace(tzinfo=UTC) + LATENESS
    for rows in files:
        watermark = greatest - LATENESS
        for row in rows:
            if row[0] is None:
                rejected[row[1]] = "unreadable"
            elif row[0] < watermark:
                rejected[row[1]] = "late"
            else:
                elements.append(row)
                greatest = max(greatest, row[0])
    return sorted(elements, key=lambda row: (row[0], row[1])), rejected


def write(path: Path, rows: Iterable[Row]) -> None:
    columns: list[Any] = list(zip(*rows, strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    types = (pa.timestamp("us", "UTC"), pa.int32(), pa.string(), pa.int32())
    arrays = [pa.array(column, form) for column, form in zip(columns, types, strict=True)]
    pq.write_table(pa.table(arrays, names=["at", "n", "room", "value"]), path)


def settings(folder: Path) -> dict[str, str]:
    return {**delta(folder / "catalog"), "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def session(folder: Path) -> SparkSession:
    """A session with Delta, as a user makes one; a task is tried again after the death of its worker."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # also that of the driver's workers, which have no setting
    store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    own = {"spark.sql.streaming.stateStore.providerClass": store, "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    made = SparkSession.builder.master("local[2,8]")
    for key, value in {**settings(folder), **own}.items():
        made = made.config(key, value)
    return made.getOrCreate()


def query(folder: Path, home: str) -> None:
    """Run a query by `events` over the files that are there, to its end."""
    from dotr import Program
    from dotr.spark import Stream, events

    spark = session(folder)
    readings = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    program = Program.load(text=RULES, prefixes={"": "http://e/"})
    found = events(program, [Stream(readings, time="at", map=MAP, lateness="3 seconds", name="readings")])
    writer = found.writeStream.format("delta").option("checkpointLocation", f"{home}/checkpoint/query")
    writer.trigger(availableNow=True).start(f"{home}/gold").awaitTermination()


def read(folder: Path, homes: Iterable[str]) -> None:
    """Write the events and dead letters of the tables as JSON to `found.json`."""
    spark = session(folder)
    found = {}
    for home in homes:
        gold = spark.read.format("delta").load(f"{home}/gold")
        nested = "dead" in gold.columns
        letters = gold.where("dead IS NOT NULL").select("dead.*") if nested else spark.read.format("delta").load(f"{home}/dead")
        events = gold.where("dead IS NULL") if nested else gold
        found[home] = [
            sorted(json.dumps([row.time.timestamp(), row.event, row.attributes], sort_keys=True) for row in events.collect()),
            sorted(json.dumps([json.loads(row.record)["n"], row.reason]) for row in letters.collect()),
        ]
    (folder / "found.json").write_text(json.dumps(found))


def in_process(folder: Path, elements: list[Row]) -> list[str]:
    """The events of a run in process over the elements, the last of which no element closes."""
    write(folder / "elements.parquet", elements[:-1])
    source = CONFIG.replace("SOURCE", "path: elements.parquet\n    format: parquet")
    (folder / "local.yaml").write_text(f"{source}output: [{{ path: local.ndjson }}]\nengine: local\n")
    subprocess.run([sys.executable, "-m", "dotr", "run", "local.yaml", "--quiet"], cwd=folder, check=True)
    found = [json.loads(line) for line in (folder / "local.ndjson").read_text().splitlines()]
    return sorted(
        json.dumps([datetime.fromisoformat(each["time"]).timestamp(), each["event"], each["attributes"]], sort_keys=True) for each in found
    )


@dataclass(frozen=True)
class Way:
    """A command that goes on from its checkpoint at each start, and its folder in HDFS."""

    name: str
    command: tuple[str, ...]
    home: str
    folder: Path

    def batch(self, log: str) -> int:
        """The last batch of a log of Spark, -1 without one."""
        names = [each.location.name for each in (Location(self.home) / "checkpoint/query" / log).list()]
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def start(self) -> subprocess.Popen[bytes]:
        with (self.folder / f"{self.name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *self.command],
                cwd=self.folder,
                env=environment(FOR_DELTA),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def tell(self, text: str) -> None:
        sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {self.name}: {text}\n")
        sys.stdout.flush()


def victims(session: int, who: str) -> list[int]:
    """The processes of a kind: all, the driver, its JVM, or its workers and their daemons."""
    there = processes(session)
    jvms = [pid for pid, (_, words) in there.items() if "java" in words[0]]
    workers = [pid for pid, (_, words) in there.items() if words[-1] == "pyspark.worker"]
    return {"all": list(there), "driver": [session], "jvm": jvms, "worker": workers}[who]


def killed(way: Way, kills: int, draw: random.Random) -> str:
    """Run to the end with that many kills; returns a problem, empty if there is none."""
    done, starts = 0, 0
    while True:
        process, harmed, starts = way.start(), False, starts + 1
        try:
            before = way.batch("commits")
            while done < kills and process.poll() is None:
                who = WHO[done % len(WHO)]
                if draw.random() < 0.8:  # behind the first batch of this start, and else at any moment
                    while process.poll() is None and way.batch("commits") <= before:
                        time.sleep(0.1)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(draw.uniform(0, 4))
                chosen = victims(process.pid, who)
                if process.poll() is not None or not chosen:
                    continue
                batch, committed = way.batch("offsets"), way.batch("commits")
                for pid in chosen if who == "all" else [draw.choice(chosen)]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                done, harmed = done + 1, True
                way.tell(f"kill {done}: {who}, {'in' if batch > committed else 'after'} batch {batch}")
                before = committed
                if who != "worker":
                    break
            code = process.wait(PATIENCE)
            until = time.monotonic() + PATIENCE
            while processes(process.pid) and time.monotonic() < until:  # a JVM ends once its driver is gone
                time.sleep(0.1)
        finally:
            for pid in processes(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        if code == 0:
            way.tell(f"{done} kills, {starts} starts; last batch {way.batch('commits')}")
            return "" if done == kills else f"{way.name} was at its end after {done} kills"
        if not harmed:
            return f"{way.name} ended with {code} although nothing was killed: {(way.folder / f'{way.name}.log').read_text()[-3000:]}"
        way.tell(f"start {starts} ended with {code}")


def prove(hadoop: Hadoop, folder: Path, kills: int, seed: int, names: Iterable[str]) -> list[str]:
    """The problems of the named ways; none if each event and each dead letter is once in its table."""
    files = drawn(3 * kills + 4, random.Random(seed))
    for number, rows in enumerate(files):
        path = folder / "in" / f"{number:04}.parquet"
        write(path, rows)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    (folder / "r.dotr").write_text(RULES)
    elements, rejected = judged(files)
    events = in_process(folder, elements)
    letters = sorted(json.dumps([number, reason]) for number, reason in rejected.items())
    homes = [hadoop.folder("events"), hadoop.folder("run")]
    conf = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in settings(folder).items())
    source = 'spark: { format: parquet, path: in, options: { maxFilesPerTrigger: "1" } }'
    (folder / "tables.yaml").write_text(
        f"{CONFIG.replace('SOURCE', source)}"
        f'output: [{{ spark: {{ format: delta, path: "{homes[1]}/gold" }} }}]\n'
        f'dead_letter: {{ spark: {{ format: delta, path: "{homes[1]}/dead" }} }}\n'
        f'storage: {{ hdfs: {{ webhdfs: "{hadoop.webhdfs}" }} }}\n'
        f'spark:\n  checkpoint: "{homes[1]}/checkpoint"\n  master: "local[2]"\n  conf:\n{conf}'
    )
    ways = [
        Way("events", ("-m", "tests.table_kills", "--query", homes[0]), homes[0], folder),
        Way("run", ("-m", "dotr", "run", "tables.yaml", "--quiet"), homes[1], folder),
    ]
    ways = [way for way in ways if way.name in names]
    draws = [random.Random(f"{seed} {way.name}") for way in ways]
    with ThreadPoolExecutor() as pool:
        problems = list(filter(None, pool.map(partial(_killed, kills), ways, draws)))
    ended = run(FOR_DELTA, ["-m", "tests.table_kills", "--read", *(way.home for way in ways)], folder)
    if ended.returncode:
        return [*problems, ended.stdout]
    for way in ways:
        for kind, found, expected in zip(
            ("events", "dead letters"), json.loads((folder / "found.json").read_text())[way.home], (events, letters), strict=True
        ):
            more, less = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
            way.tell(f"{len(found)} {kind}, {len(expected)} expected")
            if more or less:
                problems.append(f"{way.name}: {more.total()} {kind} too many {list(more)[:3]}, {less.total()} missing {list(less)[:3]}")
    return problems


def _killed(kills: int, way: Way, draw: random.Random) -> str:
    return killed(way, kills, draw)


def main() -> None:
    """Run the ways, and end with 1 where a table differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--ways", nargs="+", choices=("events", "run"), default=("events", "run"))
    parser.add_argument("--query", help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.query:
        return query(Path.cwd(), options.query)
    if options.read:
        return read(Path.cwd(), options.read)
    sys.stdout.write(f"--seed {options.seed}\n")
    with tempfile.TemporaryDirectory() as temporary:
        hadoop = running(Path(temporary), os.getpid())
        configure_storage({"hdfs": {"webhdfs": hadoop.webhdfs}})
        problems = prove(hadoop, Path(temporary), options.kills, options.seed, options.ways)
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
