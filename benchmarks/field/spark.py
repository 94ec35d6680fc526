"""dotr on Spark, from NDJSON text to output graphs; and a rule with `each` beside Spark's own stream-stream join.

CPU is that of all processes, and a run is a query from its start to its end. The first run of a
process has the cost of a job: it includes the start of the JVM and of Python's workers. `parts` of a run
have the CPU up to the end of the first batch by kind of process, and the cost of an element from the
second batch on; the scenario is read in two batches for that. The peak of memory is the sum of the
peaks of all processes, in which memory shared by forked workers counts more than once.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from inspect import getsource
from pathlib import Path
from textwrap import dedent
from typing import Final

from benchmarks.field.measuring import FROM_SECOND_BATCH, TO_FIRST_BATCH, Case, Effort, Start
from benchmarks.field.peers import Command, program
from benchmarks.field.peers import ours as own_command
from benchmarks.field.rule_texts import WITHIN
from benchmarks.field.serve import Prepared, peak_kilobytes
from benchmarks.field.temporal_rules import Values, by_definition, readings, write_readings
from benchmarks.field.works import Scale, Text, Work
from benchmarks.scenario import Size, write_scenario

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PREFIX: Final = "http://example.org/"
_RULE: Final = f"""PREFIX : <{_PREFIX}>
query A = [ SELECT ?room ?v WHERE {{ ?s :A ?v ; :in ?room }} ]
query B = [ SELECT ?room ?v WHERE {{ ?s :B ?v ; :in ?room }} ]
rule R define C = [ dotr_id1 :v ?v ] from A and each B [ FILTER(?room = A.?room) ] within {WITHIN} s from A with C.?v = A.?v
"""


class Processes:
    """CPU of this process and all below it, by kind; ended processes keep their last sample."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[str, float]] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(0.2)
            self.seconds()

    def by_kind(self) -> dict[str, float]:
        """Seconds of CPU of the JVM, of this process, and of Python's workers."""
        parents: dict[int, int] = {}
        used: dict[int, float] = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
            used[int(entry)] = (int(fields[11]) + int(fields[12])) / _TICK
        for pid, seconds in used.items():
            above = pid
            while above in parents and above != os.getpid():
                above = parents[above]
            if above == os.getpid():
                known = self._seen.get(pid)
                self._seen[pid] = (known[0] if known and known[0] != "other" else _kind(pid), seconds)
        found: dict[str, float] = {}
        for kind, seconds in list(self._seen.values()):
            found[kind] = found.get(kind, 0.0) + seconds
        return found

    def seconds(self) -> float:
        """Seconds of CPU of all of them."""
        return sum(self.by_kind().values())

    def peak(self) -> int:
        """Kilobytes of memory: the sum of the peaks of those that are there now."""
        found = 0
        for pid in list(self._seen):
            with suppress(OSError):
                found += peak_kilobytes(str(pid))
        return found


def _kind(pid: int) -> str:
    if pid == os.getpid():
        return "driver in Python"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "other"
    if words[0].endswith(b"java"):
        return "JVM"
    return "workers in Python" if b"python" in words[0] else "other"


def ours(config: str, master: str, batch: str = "200000") -> Prepared:
    """dotr on Spark, a fresh checkpoint each time; `batch`: the elements of a batch, about."""
    from dotr.runtimes.monitoring.totals import Totals
    from dotr.runtimes.pipeline.build import Pipeline, build
    from dotr.runtimes.pipeline.config import read_config
    from dotr.runtimes.spark.run import run_spark

    processes = Processes()
    folder = Path(config).parent
    built: list[Pipeline] = []
    parts: dict[str, float] = {}

    def before() -> None:
        checkpoint = folder / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        given = read_config(config, ["engine=spark", f"spark.master={master}", f"spark.batch={batch}", f"spark.checkpoint={checkpoint}"])
        built.append(build(given, fresh=True, on_spark=True))

    def run() -> int:
        batches: list[tuple[int, float]] = []
        begun = processes.by_kind()

        def progress(totals: Totals) -> None:
            if not batches:
                first = processes.by_kind()
                parts.update({f"{kind}{TO_FIRST_BATCH}": first[kind] - begun.get(kind, 0.0) for kind in first})
            batches.append((totals.elements, processes.seconds()))

        totals = run_spark(built.pop(), progress)
        (first_elements, first_seconds), (elements, seconds) = batches[0], batches[-1]
        if elements > first_elements:
            parts[FROM_SECOND_BATCH] = (seconds - first_seconds) / (elements - first_elements) * 1e6
        return totals.events

    return Prepared(run, processes.seconds, is_one_thread=False, before=before, parts=lambda: dict(parts), peak=processes.peak)


def join(path: str, master: str) -> Prepared:
    """Spark's stream-stream join of As and the Bs before them, over a file of JSON lines."""
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as sql

    processes = Processes()

    def run() -> int:
        session = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        counts: list[int] = []

        def stream(kind: str, name: str) -> DataFrame:
            lines = session.readStream.schema("time TIMESTAMP, kind STRING, room INT, value INT").json(path)
            return lines.where(sql.col("kind") == kind).withWatermark("time", "0 seconds").alias(name)

        before = sql.expr(f"a.room = b.room AND b.time < a.time AND b.time >= a.time - INTERVAL {WITHIN} SECONDS")
        joined = stream("A", "a").join(stream("B", "b"), before)
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = joined.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            writer.foreachBatch(lambda batch, number: counts.append(batch.count())).start().awaitTermination()
        return sum(counts)

    return Prepared(run, processes.seconds, is_one_thread=False, peak=processes.peak)


def has_java(start: Callable[[], Command]) -> Command:
    """A command that needs Java."""
    program("java", "Java")
    return start()


def write_events(folder: Path, size: int) -> Path:
    """The events as elements for dotr, and as JSON lines for Spark; returns dotr's configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    write_readings(folder / "events.tsv", size)
    rows = folder / "rows"
    rows.mkdir(exist_ok=True)
    with (folder / "stream.ndjson").open("w", encoding="utf-8") as elements, (rows / "events.json").open("w", encoding="utf-8") as lines:
        for event in readings(size, Values.HUNDREDS):
            graph = f"[] :{event.kind} {event.value} ; :in :room{event.room} ."
            elements.write(json.dumps({"time": event.second, "graph": graph}) + "\n")
            moment = f"2020-01-01T{event.second // 3600 % 24:02}:{event.second // 60 % 60:02}:{event.second % 60:02}Z"
            lines.write(json.dumps({"time": moment, "kind": event.kind, "room": event.room, "value": event.value}) + "\n")
    (folder / "rules.dotr").write_text(_RULE, encoding="utf-8")
    config = folder / "events.yaml"
    found = {
        "name": "events",
        "prefixes": {"": _PREFIX},
        "rules": ["rules.dotr"],
        "input": [{"name": "stream", "format": "ndjson", "path": "stream.ndjson"}],
        "output": [{"format": "ndjson", "path": "out.ndjson"}],
        "engine": "local",
    }
    config.write_text(json.dumps(found), encoding="utf-8")
    return config


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """A rule beside Spark's join, then the paper's scenario on one core and on two; none of it is quick."""
    from benchmarks.field.paper import by_definition as scenario_results

    if scale is Scale.QUICK:
        return
    size = scale.of(10_000)
    config = write_events(folder / "events", size)
    effort = Effort(warm_runs=3, own_warm_runs=3)
    in_process = "benchmarks.field.paper:ours"
    on_spark = "benchmarks.field.spark:ours"
    peer: dict[str, Start] = {
        "Spark's join": partial(has_java, partial(own_command, "benchmarks.field.spark:join", str(folder / "events" / "rows"), "local[2]"))
    }
    yield Case(
        name="1 rule, each, on Spark",
        parameters={"rules": 1, "graphs": size},
        unit="event",
        units=size,
        expected=by_definition(list(readings(size, Values.HUNDREDS)), range(1), each=True),
        own=(in_process, str(config)) if scale is Scale.HUNDREDTH else (on_spark, str(config), "local[2]"),
        others=peer,
        effort=effort,
        needs_java=scale is not Scale.HUNDREDTH,
    )
    graphs = scale.of(100_000)
    (folder / "scenario").mkdir(exist_ok=True)
    config = write_scenario(folder / "scenario", Size(graphs))
    for master in ("local[1]", "local[2]"):
        yield Case(
            name=f"the paper's scenario, {master}",
            parameters={"master": master, "graphs": graphs},
            unit="graph",
            units=graphs,
            expected=scenario_results(folder / "scenario" / "stream.ndjson", 10),
            own=(in_process, str(config)) if scale is Scale.HUNDREDTH else (on_spark, str(config), master, str(graphs // 2)),
            effort=effort,
            needs_java=scale is not Scale.HUNDREDTH,
        )


def texts() -> Iterator[Text]:
    """The rule, and Spark's join."""
    yield Text("dotr, 1 rule, each", "", _RULE)
    lines = getsource(join).splitlines()
    begin, end = (next(place for place, line in enumerate(lines) if word in line) for word in ("def stream", "joined ="))
    yield Text("Spark's join", "python", dedent("\n".join(lines[begin : end + 1])))


WORK: Final = Work(
    name="spark",
    title="On Spark: NDJSON text to output graphs, from the start of the query",
    packages=("dotr",),
    minutes=5,
    cases=cases,
    nothing="none of it is quick",
    texts=texts,
)
