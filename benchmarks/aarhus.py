"""The Aarhus job in this process and on Spark: CPU an element, elements a second, busy cores, memory.

    python -m benchmarks.aarhus [--engine local] [--engine spark] [--master 'local[2]']

CPU is of the whole process tree (Python, JVM, Python workers), read from /proc; on Spark from the
start of the query, without the start of the session, and also from the end of the first batch, when
all worker processes run. Needs the CityBench data (docs/first-steps.md) and `python kb/aarhus.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dotr.runtimes.spark.run as runtime
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config

CONFIG = Path(__file__).parent.parent / "configs" / "aarhus.yaml"
_TICK = os.sysconf("SC_CLK_TCK")


class TreeClock:
    """The CPU seconds of this process and all its descendants, also ended ones (sampled five times a second)."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self.read()

    def read(self) -> float:
        parents: dict[int, int] = {}
        used: dict[int, float] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry)] = int(fields[1])
                used[int(entry)] = (int(fields[11]) + int(fields[12])) / _TICK
        for pid in used:
            above = pid
            while above in parents and above != os.getpid():
                above = parents[above]
            if above == os.getpid():
                self._seen[pid] = used[pid]
        return sum(self._seen.values())


def peak_megabytes() -> float:
    """The most memory that this process has held so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def resident_megabytes() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def pipeline(folder: str, *, on_spark: bool, master: str) -> Pipeline:
    options = [f"output.0.path={folder}/events.ndjson", f"dead_letter={folder}/rejected.ndjson", f"spark.checkpoint={folder}/checkpoint"]
    return build(read_config(str(CONFIG), [*options, f"spark.master={master}"]), fresh=False, on_spark=on_spark)


def local(folder: str) -> None:
    """One run in this process."""
    made = pipeline(folder, on_spark=False, master="")
    memory: list[tuple[int, float]] = []

    def report(totals: Totals) -> None:
        if not memory or totals.elements >= memory[-1][0] + 100_000:
            memory.append((totals.elements, resident_megabytes()))

    wall, cpu = time.perf_counter(), time.process_time()
    totals = run_local(made, report)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    say("in process", totals, wall, cpu)
    held = ", ".join(f"{elements // 1000}k: {megabytes:.0f}" for elements, megabytes in memory)
    print(f"  memory in MB after so many elements: {held}")  # noqa: T201


def spark(folder: str, master: str) -> None:
    """One run on Spark."""
    made = pipeline(folder, on_spark=True, master=master)
    clock = TreeClock()
    readings: list[tuple[float, float, Totals]] = []

    def read(totals: Totals) -> None:
        readings.append((time.perf_counter(), clock.read(), totals))

    def timed(*arguments: object) -> None:
        read(Totals())
        run_query(*arguments)
        read(readings[-1][2])

    run_query: Callable[..., None] = getattr(runtime, "run_query")  # noqa: B009
    setattr(runtime, "run_query", timed)  # noqa: B010
    runtime.run_spark(made, read)
    setattr(runtime, "run_query", run_query)  # noqa: B010
    (start, cpu, _), (first, first_cpu, warm), *_, (end, end_cpu, totals) = readings
    say(f"Spark {master}", totals, end - start, end_cpu - cpu)
    print(f"  cores busy: {(end_cpu - cpu) / (end - start):.2f}")  # noqa: T201
    if totals.elements > warm.elements:
        rest = replace(totals, elements=totals.elements - warm.elements, events=totals.events - warm.events)
        say("  after the first batch", rest, end - first, end_cpu - first_cpu)
        print(f"  cores busy: {(end_cpu - first_cpu) / (end - first):.2f}")  # noqa: T201


def say(name: str, totals: Totals, wall: float, cpu: float) -> None:
    each = cpu / totals.elements * 1e6
    print(  # noqa: T201
        f"{name}: {totals.elements:,} elements, {totals.events:,} events; {each:.1f} µs CPU an element, "
        f"{totals.elements / wall:,.0f} elements a second ({wall:.1f} s, {cpu:.1f} s CPU)",
        flush=True,
    )


def main() -> int:
    """Run the job on the given engines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", action="append", choices=("local", "spark"))
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    for engine in options.engine or ["local", "spark"]:
        with tempfile.TemporaryDirectory() as folder:
            if engine == "local":
                local(folder)
            else:
                spark(folder, options.master)
    return 0


if __name__ == "__main__":
    sys.exit(main())
