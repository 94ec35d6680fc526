"""Gain from a second core on Spark: the Aarhus job and the paper's default scenario.

    python -m benchmarks.cores [aarhus] [scenario] [--graphs 800000] [--one-per-instant] [--watched]

For each, on `local[1]` and `local[2]`: CPU an element of the whole process tree, elements a second and busy cores, from the start
of the query and from the second batch on. `--one-per-instant` makes every graph of the scenario an
instant; with `--watched` a thread reads the figures that the Prometheus endpoint and
`--progress json` serve. Needs the data of `benchmarks.aarhus`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dotr.runtimes.spark.run as runtime
from benchmarks.aarhus import TreeClock, pipeline
from benchmarks.scenario import Size, write_scenario
from dotr.runtimes.monitoring.progress import ReportProgress, RunProgress, ignore_progress
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config

Make = Callable[[str, str], Pipeline]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run."""

    elements: int
    wall: float
    cpu: float

    @property
    def micros(self) -> float:
        return self.cpu / self.elements * 1e6

    def __str__(self) -> str:
        return f"{self.micros:.1f} µs CPU an element, {self.elements / self.wall:,.0f} a second, {self.cpu / self.wall:.2f} cores"


def measure(made: Pipeline, stand: ReportProgress) -> tuple[Stretch, Stretch]:
    """One run: from the start of the query, and from its second batch on."""
    clock = TreeClock()
    readings: list[tuple[float, float, int]] = []
    run_query: Callable[..., None] = getattr(runtime, "run_query")  # noqa: B009

    def read(totals: Totals) -> None:
        readings.append((time.perf_counter(), clock.read(), totals.elements))

    def timed(*arguments: object) -> None:
        read(Totals())
        run_query(*arguments)

    setattr(runtime, "run_query", timed)  # noqa: B010
    try:
        runtime.run_spark(made, read, stand)
    finally:
        setattr(runtime, "run_query", run_query)  # noqa: B010
    start, first, *_, end = readings
    whole, steady = (Stretch(end[2] - since[2], end[0] - since[0], end[1] - since[1]) for since in (start, first))
    return whole, steady


def scenario(size: Size, folder: str, master: str) -> Pipeline:
    config = write_scenario(Path(folder), size)
    return build(read_config(str(config), ["engine=spark", f"spark.master={master}"]), fresh=True, on_spark=True)


def main() -> int:
    """Run the jobs named on one core and on two."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("jobs", nargs="*", choices=("aarhus", "scenario", []))
    parser.add_argument("--graphs", type=int, default=800_000)
    parser.add_argument("--masters", nargs="+", default=["local[1]", "local[2]"])
    parser.add_argument("--one-per-instant", action="store_true")
    parser.add_argument("--watched", action="store_true")
    options = parser.parse_args()
    jobs: dict[str, Make] = {
        "aarhus": lambda folder, master: pipeline(folder, on_spark=True, master=master),
        "scenario": lambda folder, master: scenario(Size(options.graphs, single=options.one_per_instant), folder, master),
    }
    reports: list[RunProgress] = []
    report_progress: ReportProgress = reports.append if options.watched else ignore_progress
    for name in options.jobs or jobs:
        found = []
        for master in options.masters:
            with tempfile.TemporaryDirectory() as folder:
                found.append(measure(jobs[name](folder, master), report_progress))
            print(f"{name}, {master}: {found[-1][0]}; from the second batch on: {found[-1][1]}", flush=True)  # noqa: T201
        (one, one_steady), *others = found
        for two, two_steady in others:
            print(f"{name}: CPU against the first {two.micros / one.micros:.2f}, then {two_steady.micros / one_steady.micros:.2f}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
