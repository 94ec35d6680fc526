"""Cost of a batch on Spark as the state grows, memory of the windows, and the effect of a hot key.

    python -m benchmarks.state keys [--live 10000 100000 1000000] [--touched same]
    python -m benchmarks.state worker [--live …] [--touched others]
    python -m benchmarks.state windows [--events 10000000]
    python -m benchmarks.state skew
    python -m benchmarks.state moves [--live 300000 900000]
    python -m benchmarks.state hour [--keys 1000000] [--elements 2000000]
    python -m benchmarks.state standing

One rule: a reading of a key, and the last one of that key before it within a window that holds them
all. `keys` fills the state with so many keys, one event each, and then touches 10,000 of them in
every batch: the same ones each time, or others (`--touched others`). At the end time passes the
window, and the remaining state is printed. `worker` does the same without Spark: the cost of stage
two and state in the workers. `windows` fills the window with so many events of 100,000 keys. `skew`
sends 90 % of the elements under one key. `moves` fills the state with so many keys in two buckets, and
measures the move to three, and from three to one. `hour` spreads the elements over an hour of event
time, with a window of an hour, each key once, then at random, in process and on Spark; both must make
as many events. `standing` runs 20,000 and 80,000 elements of one key in process, with a window of 365 days that
needs the newest alone. CPU is of the whole process tree; memory is resident, of the JVM and of the Python
workers together, and of the largest of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.aarhus import TreeClock, peak_megabytes
from dotr.evaluation.files.stores import Location
from dotr.model.time import LAST_MICRO
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.buckets.worker import BucketCache, process_batch
from dotr.runtimes.spark.checkpoint.figures import read_totals
from dotr.runtimes.spark.checkpoint.folder import CheckpointLayout
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.exchange.worker_cache import input_of
from dotr.runtimes.spark.planning.planner import scanned_cuts
from dotr.runtimes.spark.run import _job as make_job
from dotr.runtimes.spark.run import run_spark
from dotr.runtimes.spark.tasks.stage_one_task import task_lines

RULE = """\
PREFIX : <http://e/>
define Again = [ dotr_id1 :of ?key ; :rose ?rose ]
from Reading = [ SELECT ?key ?v WHERE { ?key :value ?v } ]
and last Old = [ SELECT ?key ?v WHERE { ?key :value ?v FILTER(?key = Reading.?key) } ] within WINDOW from Reading
with Again.?key = Reading.?key, Again.?rose = Reading.?v - Old.?v
"""
BATCH = 10_000
AN_INSTANT = 100
HOUR = 3_600
DAY = 86_400

Keys = Callable[[random.Random], Iterator[int]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Measurements after a batch: seconds of the clock and of CPU, megabytes by process, totals of the run, events and bytes of state."""

    wall: float
    cpu: float
    memory: dict[str, float]
    totals: Totals
    stored: tuple[int, int]


def write_stream(folder: Path, keys: Iterator[int], window: str = "1 d", *, last: int | None = None, instant: int = AN_INSTANT) -> Path:
    """The pipeline's files; `last`: the second of a few final elements of one other key, long after; `instant`: elements a second."""
    (folder / "r.dotr").write_text(RULE.replace("WINDOW", window))
    with (folder / "in.ndjson").open("w") as file:
        for number, key in enumerate(keys):
            file.write(f'{{"time": {number // instant}, "graph": ":k{key} :value {number % 97} ."}}\n')
        for number in range(0 if last is None else 4 * BATCH):
            file.write(f'{{"time": {(last or 0) + number * DAY}, "graph": ":last :value 1 ."}}\n')
    return folder


def config(folder: Path, master: str, batch: int) -> Path:
    path = folder / "state.yaml"
    data = {
        "name": "state",
        "prefixes": {"": "http://e/"},
        "rules": ["r.dotr"],
        "input": [{"name": "readings", "format": "ndjson", "path": "in.ndjson"}],
        "output": [{"format": "ndjson", "path": "out.ndjson"}],
        "spark": {"master": master, "checkpoint": "checkpoint", "batch": batch},
    }
    path.write_text(json.dumps(data))
    return path


def memory() -> dict[str, float]:
    """Resident megabytes of the processes below this one (pages that several share count in parts): the JVM, each Python worker."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                name, _, rest = Path(f"/proc/{entry}/stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            parents[int(entry)] = int(rest.split()[1]), name
    found: dict[str, float] = {}
    for process, (_, name) in parents.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above][0]
        if above == os.getpid() and process != above:
            try:
                rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            except OSError:
                continue
            kilobytes = next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
            found["JVM" if name == "java" else f"Python {process}"] = kilobytes / 1024
    return found


def stored(folder: Path) -> tuple[int, int]:
    """The events and the bytes of the state after the last batch."""
    tally = read_totals(Location(str(folder / "checkpoint")))
    return (0, 0) if tally is None else (sum(map(sum, tally.event_counts)), tally.bytes)


class Enough(Exception):
    """Raised to end a run that is long enough."""


def run(folder: Path, master: str, batch: int = BATCH, *, until: int | None = None, buckets: int | None = None) -> list[Reading]:
    """One run, which resumes after the run before, up to a number of elements; the measurements after each batch."""
    options = [] if buckets is None else [f"spark.buckets={buckets}"]
    made = build(read_config(str(config(folder, master, batch)), options), fresh=False, on_spark=True)
    clock = TreeClock()
    readings: list[Reading] = []

    def read(totals: Totals) -> None:
        readings.append(Reading(time.perf_counter(), clock.read(), memory(), totals, stored(folder)))
        if until is not None and totals.elements >= until:
            raise Enough

    try:
        run_spark(made, read)
    except Exception:
        if until is None or not readings or readings[-1].totals.elements < until:
            raise
    return readings


def memory_line(readings: list[Reading]) -> str:
    """The largest figures of memory, as text."""
    jvm = max(each.memory.get("JVM", 0) for each in readings)
    python = [[size for name, size in each.memory.items() if name != "JVM"] for each in readings]
    return f"JVM {jvm:,.0f} MB, Python {max(map(sum, python)):,.0f} MB in all, the largest {max(map(max, python)):,.0f} MB"


def touching(live: int, touched: str, batches: int) -> Iterator[int]:
    """Keys: each once, then 10,000 of them in each of some batches."""
    chosen = random.Random(1)
    fixed = chosen.sample(range(live), BATCH)
    yield from range(live)
    for _ in range(batches):
        yield from fixed if touched == "same" else chosen.sample(range(live), BATCH)


def keys(live: int, touched: str, master: str, batches: int) -> tuple[float, float]:
    """Fills the state with keys, and touches 10,000 of them in each of some batches: the CPU and the clock time of such a batch."""
    with tempfile.TemporaryDirectory() as name:
        folder = write_stream(Path(name), touching(live, touched, batches), last=100 * DAY)
        started = time.perf_counter()
        run(folder, master, max(BATCH, live // 5), until=live - BATCH // 2)
        readings = run(folder, master)
        elapsed = time.perf_counter() - started
        first = readings[0].totals.elements  # the batch of the run before that was under way is done again
        full = [each for each in readings if 4 * BATCH < each.totals.elements - first <= (batches - 1) * BATCH]
        cpu = statistics.median(after.cpu - before.cpu for before, after in pairwise(full))
        wall = statistics.median(after.wall - before.wall for before, after in pairwise(full))
        left = stored(folder)
    print(  # noqa: T201
        f"{live:,} live keys, {BATCH:,} touched ({touched}): {cpu:.2f} s CPU a batch, {wall:.2f} s; {memory_line(full)}; "
        f"when time had passed: {left} events and bytes left ({elapsed:.0f} s in all)",
        flush=True,
    )
    return cpu, wall


class InMemory:
    """A bucket in a store that is a dictionary."""

    def __init__(self) -> None:
        self._value: tuple[bytes, bytes] | None = None
        self._entries: dict[tuple[int, int], bytes] = {}

    def value(self) -> tuple[bytes, bytes] | None:
        return self._value

    def set_value(self, digest: bytes, written: bytes) -> None:
        self._value = digest, written

    def read(self, log: int, place: int) -> bytes | None:
        return self._entries.get((log, place))

    def write(self, log: int, place: int, lines: bytes) -> None:
        self._entries[log, place] = lines

    def remove(self, log: int, place: int) -> None:
        del self._entries[log, place]


def worker(live: int, touched: str, batches: int) -> float:
    """As `keys`, in this process, with two buckets and without Spark: the CPU of stage two and of state, a batch."""
    with tempfile.TemporaryDirectory() as name:
        folder = write_stream(Path(name), touching(live, touched, batches))
        made = build(read_config(str(config(folder, "local[2]", BATCH))), fresh=True, on_spark=True)
        layout = CheckpointLayout("state", "", tuple((each.input, each.delay, each.path) for each in made.inputs), 1, 2, 2)
        job = make_job(made, layout, 1, (str(folder / "query"), ""))
        stores = [InMemory(), InMemory()]
        kept: BucketCache = {}
        start = Offset.start(1)
        spent: list[float] = []
        for number, cut in enumerate(scanned_cuts([input_of(job, 0)], start, BATCH)):
            if cut.time == LAST_MICRO:
                break
            lines = task_lines(job, Task.of_cut(start, cut, cut.time))
            before = time.process_time()
            for bucket, key in enumerate(job.keys(0)):
                process_batch(job, 0, bucket, [line for line in lines if line.key == key], stores[bucket], kept)
            if number > live // BATCH + 2:
                spent.append(time.process_time() - before)
            start = Offset(cut.time, cut.positions)
    cpu = statistics.median(spent)
    print(f"{live:,} live keys, {BATCH:,} touched ({touched}): {cpu:.2f} s CPU a batch; {peak_megabytes():,.0f} MB", flush=True)  # noqa: T201
    return cpu


def windows(events: int, master: str) -> None:
    """Fills a window with events."""

    def stream() -> Iterator[int]:
        chosen = random.Random(2)
        for _ in range(events):
            yield chosen.randrange(100_000)

    with tempfile.TemporaryDirectory() as name:
        folder = write_stream(Path(name), stream(), "1000 d")
        readings = run(folder, master, 200_000)
    for each in readings[:: max(1, len(readings) // 10)]:
        print(f"  after {each.totals.elements:,}: {memory_line([each])}")  # noqa: T201
    first, *_, end = readings
    count, wall, cpu = end.totals.elements - first.totals.elements, end.wall - first.wall, end.cpu - first.cpu
    memory = memory_line(readings)
    print(f"{events:,} events in the window: {cpu / count * 1e6:.1f} µs CPU an element, {count / wall:,.0f} a second; {memory}")  # noqa: T201


def skew(master: str, elements: int) -> float:
    """Elements a second where 90 % have one key."""

    def stream() -> Iterator[int]:
        chosen = random.Random(3)
        for _ in range(elements):
            yield 0 if chosen.random() < 0.9 else chosen.randrange(1, 10_000)

    with tempfile.TemporaryDirectory() as name:
        readings = run(write_stream(Path(name), stream(), "1 min"), master, 100_000)
    (first, *_, end) = readings[1:]
    rate = (end.totals.elements - first.totals.elements) / (end.wall - first.wall)
    cpu = (end.cpu - first.cpu) / (end.totals.elements - first.totals.elements) * 1e6
    print(f"90 % under one key, {master}: {rate:,.0f} elements a second, {cpu:.1f} µs CPU an element", flush=True)  # noqa: T201
    return rate


def moves(live: int, master: str) -> list[float]:
    """The CPU of moves from two buckets to three, and from these to one."""
    from dotr.runtimes.spark import run as runs

    spent: list[float] = []
    names = vars(runs)
    original = names["move_state"]
    clock = TreeClock()

    def measured(*arguments: Any) -> Any:
        before, started = clock.read(), time.perf_counter()
        sizes = original(*arguments)
        spent.append(clock.read() - before)
        held = sum(sum(size.event_counts) for size in sizes)
        print(f"{held:,} events moved: {spent[-1]:.2f} s CPU, {time.perf_counter() - started:.2f} s", flush=True)  # noqa: T201
        return sizes

    names["move_state"] = measured
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = write_stream(Path(name), touching(live, "same", 6))
            for buckets, batch, until in ((2, live // 5, live + BATCH), (3, BATCH, 1), (1, BATCH, 1)):
                run(folder, master, batch, until=until, buckets=buckets)
    finally:
        names["move_state"] = original
    return spent


def hour(count: int, elements: int, master: str) -> None:
    """Keys of an hour of event time, in process and on Spark: time, memory and size of the state."""

    def stream() -> Iterator[int]:
        chosen = random.Random(4)
        order = list(range(count))
        chosen.shuffle(order)
        yield from order
        for _ in range(elements - count):
            yield chosen.randrange(count)

    with tempfile.TemporaryDirectory() as name:
        folder = write_stream(Path(name), stream(), "1 h", instant=max(1, elements // HOUR))
        script = "import sys; from benchmarks.state import in_process; in_process(sys.argv[1])"
        subprocess.run([sys.executable, "-c", script, str(config(folder, master, 100_000))], check=True)
        here = sum(1 for _ in (folder / "out.ndjson").open())
        (folder / "out.ndjson").unlink()
        started, clock = time.perf_counter(), TreeClock()
        before = clock.read()
        readings = run(folder, master, 100_000)
        elapsed, cpu = time.perf_counter() - started, clock.read() - before
        there = readings[-1].totals.events
    for each in readings[:: max(1, len(readings) // 8)]:
        events, size = each.stored
        print(f"  after {each.totals.elements:,}: {events:,} events and {size:,} bytes of state; {memory_line([each])}")  # noqa: T201
    events, size = max(each.stored for each in readings)
    print(  # noqa: T201
        f"Spark {master}, {count:,} keys: {elements:,} elements in {elapsed:.0f} s, {cpu / elements * 1e6:.1f} µs CPU an element; "
        f"{memory_line(readings)}; at most {events:,} events and {size:,} bytes of state; {there:,} events"
    )
    if here != there:
        raise SystemExit(f"in process there are {here:,} events")


def standing(elements: int) -> None:
    """One key in a window that holds all elements and needs the last one."""
    with tempfile.TemporaryDirectory() as name:
        path = config(write_stream(Path(name), (0 for _ in range(elements)), "365 d", instant=1), "local[1]", BATCH)
        script = "import sys; from benchmarks.state import in_process; in_process(sys.argv[1])"
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)


def in_process(path: str) -> None:
    """The pipeline of a configuration in this process: time and memory."""
    started, cpu = time.perf_counter(), time.process_time()
    totals = run_local(build(read_config(path), fresh=False, on_spark=False), lambda totals: None)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(  # noqa: T201
        f"in process: {totals.elements:,} elements in {elapsed:.0f} s, {cpu / totals.elements * 1e6:.1f} µs CPU an element; "
        f"{peak_megabytes():,.0f} MB; {totals.events:,} events",
        flush=True,
    )


def main() -> int:
    """Run the given benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("keys", "worker", "windows", "skew", "moves", "hour", "standing"))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--live", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--touched", choices=("same", "others"), default="same")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--elements", type=int, help="2,000,000 of `hour`, 1,000,000 of `skew`")
    options = parser.parse_args()
    match options.what:
        case "keys":
            found = [keys(live, options.touched, options.master, options.batches) for live in options.live]
            ratios = ", ".join(f"{cpu / found[0][0]:.2f} and {wall / found[0][1]:.2f}" for cpu, wall in found[1:])
            print(f"CPU and wall against the first: {ratios}")  # noqa: T201
        case "worker":
            for live in options.live:
                worker(live, options.touched, options.batches)
        case "moves":
            found_moves = [moves(live, options.master) for live in options.live]
            for (few, small), (many, large) in pairwise(zip(options.live, found_moves, strict=True)):
                each = ", ".join(f"{(b - a) / (many - few) * 1e6:.1f}" for a, b in zip(small, large, strict=True))
                print(f"each further event of {few:,} to {many:,}: {each} µs CPU")  # noqa: T201
        case "hour":
            hour(options.keys, options.elements or 2_000_000, options.master)
        case "standing":
            for elements in (20_000, 80_000):
                standing(elements)
        case "windows":
            windows(options.events, options.master)
        case _:
            one, two = (skew(master, options.elements or 1_000_000) for master in ("local[1]", "local[2]"))
            print(f"local[2] to local[1]: {two / one:.2f}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
