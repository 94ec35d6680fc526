"""Generated programs on Spark: outputs, names and dead letters are, byte for byte, those of this process.

A run on Spark costs seconds, so that each has several programs over one stream: its own, in a file order of its own, with late and broken
lines, in two inputs, in batches of some random size. `DOTR_SPARK_EXAMPLES=50` makes that many runs; the default are always the same.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from dotr.evaluation.expressions.values.times import format_time
from dotr.model.stream import Element
from dotr.model.time import UNITS
from dotr.runtimes.local.run import run_local
from tests.runtimes.spark.test_spark_cases import pipeline, text
from tests.support.properties import MOST, compiled
from tests.support.running import run_engine
from tests.support.strategies import CORE, Features, ProgramText, programs
from tests.support.strategies_streams import streams, turtle

pytestmark = pytest.mark.spark

RUNS: Final = int(os.environ.get("DOTR_SPARK_EXAMPLES", "4"))
TOGETHER: Final = 4
"""Programs in a run, all of which find something."""


INSTANT: Final = Features(instant=True)
"""Programs that keep no state."""


def drawn(number: int, start: int, features: Features) -> list[tuple[ProgramText, list[Element]]]:
    """Programs and streams, determined by `start`."""
    found: list[tuple[ProgramText, list[Element]]] = []

    @seed(start)
    @settings(max_examples=number, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(programs(features), streams(longest=14))
    def collect(text: ProgramText, elements: list[Element]) -> None:
        found.append((text, elements))

    collect()
    return found


def with_own_names(text: ProgramText, number: int) -> ProgramText:
    """The program with labels and names unique in the run."""
    return replace(text, rules=re.sub(r"\b([FQR]-?\d)\b", rf"\1of{number}", text.rules))


@cache
def groups(features: Features, runs: int) -> list[tuple[list[ProgramText], list[Element]]]:
    """For each run some programs and a stream, over which each of them has some output, and not too much; one at least has timers,
    where rules may look beyond their instant."""
    found: list[tuple[list[ProgramText], list[Element]]] = []
    waiting = deque(drawn(48 * runs, 1, features))
    for _ in range(runs):
        chosen: list[ProgramText] = []
        timed = False
        (first, elements) = waiting[0]
        while len(chosen) < TOGETHER and waiting:
            text = replace(waiting.popleft()[0], clock=first.clock)
            program = compiled(text)
            if len(chosen) == TOGETHER - 1 and not timed and not program.timed and not features.instant:
                continue
            if 0 < len(run_engine(program, elements, text.clock, most=MOST).outputs) <= MOST:
                timed |= program.timed
                chosen.append(with_own_names(text, len(chosen)))
        found.append((chosen, elements))
    return found


BROKEN: Final = ("no JSON", '{"time": 1, "graph": "no Turtle"}', '{"time": "no time", "graph": ""}')


def write(folder: Path, texts: Sequence[ProgramText], elements: Sequence[Element], choose: Random) -> None:
    """The pipeline of some programs: the stream divided into two inputs, in order or
    nearly sorted."""
    clock = texts[0].clock
    ordered = sorted(elements, key=lambda each: each.time + choose.choice([0, 0, 0, 3_000_000]))
    lines: list[list[str]] = [[], []]
    for element in ordered:
        lines[choose.randrange(2)].append(json.dumps({"time": format_time(element.time, clock), "graph": turtle(element.triples)}))
    for each in lines:
        each.insert(choose.randint(0, len(each)), choose.choice(BROKEN))
    for name, each in zip(("a", "b"), lines, strict=True):
        (folder / f"{name}.ndjson").write_text("\n".join(each) + "\n")
    for number, program in enumerate(texts):
        (folder / f"{number}.dotr").write_text(program.rules)
        (folder / f"{number}.dlog").write_text(program.datalog)
        (folder / f"{number}.ttl").write_text(program.background)
    config = {
        "name": "cases",
        "time": {"unit": next(name for name, unit in UNITS.items() if unit is clock.unit)},
        "knowledge": {
            "graphs": [f"{number}.ttl" for number in range(len(texts))],
            "datalog": [f"{number}.dlog" for number in range(len(texts))],
            "entailment": "none",
        },
        "rules": [f"{number}.dotr" for number in range(len(texts))],
        "input": [
            {"name": name, "format": "ndjson", "path": f"{name}.ndjson", "lateness": choose.choice(["0 s", "2 s", "30 s"])} for name in "ab"
        ],
        "output": [{"path": "out.ndjson"}, {"format": "nquads", "path": "out.nq"}],
        "dead_letter": "rejected.ndjson",
        "spark": {"master": "local[2]", "checkpoint": "checkpoint", "batch": choose.choice([2, 4, 6, 100])},
    }
    (folder / "cases.yaml").write_text(json.dumps(config))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("run", range(RUNS))
def test_stateful_programs_on_spark_equal_in_process(run: int, tmp_path: Path) -> None:
    texts, elements = groups(CORE, RUNS)[run]
    compare(texts, elements, run, tmp_path)
    assert (tmp_path / "spark" / "checkpoint" / "query" / "state").exists()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("run", range(RUNS // 2))
def test_stateless_programs_on_spark_equal_in_process(run: int, tmp_path: Path) -> None:
    texts, elements = groups(INSTANT, RUNS // 2)[run]
    compare(texts, elements, run, tmp_path)
    assert not (tmp_path / "spark" / "checkpoint" / "query" / "state").exists()


def compare(texts: Sequence[ProgramText], elements: Sequence[Element], run: int, tmp_path: Path) -> None:
    """Outputs, names and dead letters of both runtimes are equal."""
    from dotr.runtimes.spark.run import run_spark

    assert texts
    write(tmp_path, texts, elements, Random(run))
    here = run_local(pipeline(tmp_path, "local"), lambda totals: None)
    there = run_spark(pipeline(tmp_path, "spark"), lambda totals: None)
    for output in ("out.ndjson", "out.nq"):
        assert text(tmp_path / "spark" / output) == text(tmp_path / "local" / output)
    # In process, dead letters are in the order of reading.
    letters = [sorted(text(tmp_path / engine / "rejected.ndjson").splitlines()) for engine in ("spark", "local")]
    assert letters[0] == letters[1]
    assert there == here
