"""One rule under two keys on Spark, cut into stages and in one partition, with one core and with two.

    python -m benchmarks.stages [--instants 3000] [--plan stages] [--plan whole] [--master 'local[1]'] [--master 'local[2]']

Each anchor has some 100 candidates under the first key, and each of these some 100 under the second, which few pass: nearly
all work is that of stage two (`--plan process` prints its share). Figures are from the second batch on, when all worker
processes run. CPU is of the whole process tree.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import dotr.runtimes.spark.run as runtime
from benchmarks.aarhus import TreeClock
from benchmarks.background import say
from dotr.languages.programs import compile_program
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.planning.planner import ORDINARY_BYTES
from dotr.temporal.stage_two import StageTwo

KEYS: Final = 16
"""Values of each key."""

BATCHES: Final = 6
"""Batches of a run, about."""

RULES: Final = """PREFIX : <http://example.org/>
query Order = [ SELECT ?shop ?price WHERE { ?x a :Order ; :shop ?shop ; :price ?price } ]
query Offer = [ SELECT ?shop ?good ?price WHERE { ?x a :Offer ; :shop ?shop ; :good ?good ; :price ?price } ]
query Sale = [ SELECT ?good ?price WHERE { ?x a :Sale ; :good ?good ; :price ?price } ]
rule Bargain define Bargain = [ dotr_id a :Bargain ; :price ?price ] from Order
and each Offer [ FILTER(?shop = Order.?shop) ] within 100 s from Order
and each Sale [ FILTER(?good = Offer.?good && ?price + Offer.?price = Order.?price) ] within 100 s from Order
with Bargain.?price = Sale.?price
"""


def write_project(folder: Path, instants: int) -> Path:
    """A configuration over a stream of seconds, each with an order, and 16 offers and 16 sales of random keys, in six batches."""
    choose = random.Random(5)
    size = 0
    (folder / "bargains.dotr").write_text(RULES)
    with (folder / "stream.ndjson").open("w") as stream:
        for second in range(instants):
            kinds = ["Order", *["Offer"] * KEYS, *["Sale"] * KEYS]
            about = [(f":x{number} a :{kind}", choose.randrange(KEYS), choose.randrange(KEYS)) for number, kind in enumerate(kinds)]
            triples = [f"{each} ; :shop {shop} ; :good {good} ; :price {choose.randrange(4000)} ." for each, shop, good in about]
            size += stream.write(json.dumps({"time": second, "graph": " ".join(triples)}) + "\n")
    config = folder / "stages.yaml"
    config.write_text(
        'name: stages\nprefixes: { "": "http://example.org/" }\nrules: [bargains.dotr]\n'
        "input:\n  - { name: stream, format: ndjson, path: stream.ndjson }\n"
        "output:\n  - { format: ndjson, path: out/events.ndjson }\ndead_letter: out/rejected.ndjson\n"
        f"spark: {{ checkpoint: out/checkpoint, batch: {_ordinary_elements(instants, size) // BATCHES} }}\n"
    )
    return config


def _ordinary_elements(elements: int, size: int) -> int:
    """The number of elements that so many of a size in bytes count as: one of these is long, and counts as several."""
    return elements + size // ORDINARY_BYTES


def in_process(config: Path) -> None:
    """One run in this process, and the part of it that is stage two."""
    made = build(read_config(str(config)), fresh=False, on_spark=False)
    spent = 0.0
    step = StageTwo.step

    def timed(*arguments: object, **named: object) -> object:
        nonlocal spent
        begin = time.process_time()
        try:
            return step(*arguments, **named)  # type: ignore[arg-type]
        finally:
            spent += time.process_time() - begin

    setattr(StageTwo, "step", timed)  # noqa: B010
    begin = time.process_time()
    totals = run_local(made, lambda totals: None)
    cpu = time.process_time() - begin
    setattr(StageTwo, "step", step)  # noqa: B010
    say(
        f"in process: {totals.instants:,} instants, {totals.events:,} events; {cpu:.1f} s of CPU, {100 * spent / cpu:.0f} % of it stage two"
    )


def pipeline(config: Path, master: str, *, cut: bool) -> Pipeline:
    made = build(read_config(str(config), [f"spark.master={master}"]), fresh=False, on_spark=True)
    return made if cut else replace(made, program=compile_program(replace(made.program.spec, cut=False)))


def on_spark(config: Path, master: str, *, cut: bool) -> float:
    """One run on Spark; the instants a second from the second batch on."""
    made = pipeline(config, master, cut=cut)
    clock = TreeClock()
    readings: list[tuple[float, float, Totals]] = []

    def read(totals: Totals) -> None:
        readings.append((time.perf_counter(), clock.read(), totals))

    runtime.run_spark(made, read)
    begun = [each for each in readings if each[2].instants]
    (first, first_cpu, warm), (end, end_cpu, totals) = begun[0], begun[-1]
    number = totals.instants - warm.instants
    cpu = end_cpu - first_cpu
    say(
        f"{'stages' if cut else 'one partition'}, {master}: {totals.events:,} events; {number / (end - first):,.0f} instants a second, "
        f"{cpu / number * 1e3:.2f} ms of CPU an instant, {cpu / (end - first):.2f} cores busy"
    )
    return number / (end - first)


def main() -> int:
    """Run the given plans with the given masters."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plan", action="append", choices=("process", "stages", "whole"))
    parser.add_argument("--master", action="append")
    parser.add_argument("--instants", type=int, default=3000)
    options = parser.parse_args()
    for plan in options.plan or ["process", "stages", "whole"]:
        rates: list[float] = []
        for master in options.master or ["local[1]", "local[2]"]:
            with tempfile.TemporaryDirectory() as folder:
                config = write_project(Path(folder), options.instants)
                if plan == "process":
                    in_process(config)
                    break
                rates.append(on_spark(config, master, cut=plan == "stages"))
        if len(rates) == 2:
            say(f"{plan}: {rates[1] / rates[0]:.2f} times as fast with the second master")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
