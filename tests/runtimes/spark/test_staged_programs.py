"""Random programs cut into stages on Spark, in two buckets and several batches, give what one process gives, byte for byte.

`DOTR_SPARK_EXAMPLES=12` makes that many runs, each of several programs over one stream; the default are always the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import format_time
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.time import Clock
from dotr.runtimes.local.run import run_local
from tests.runtimes.spark.test_spark_cases import pipeline, text
from tests.support.running import run_engine
from tests.support.staged_programs import BACKGROUND, random_program
from tests.support.strategies_streams import turtle

pytestmark = pytest.mark.spark

RUNS: Final = int(os.environ.get("DOTR_SPARK_EXAMPLES", "1"))
TOGETHER: Final = 3
"""Programs in a run, each of which has stages and finds something."""
BATCHES: Final = (10, 6, 4, 100)
"""Elements of a batch, by the number of the run."""
MOST: Final = 400
"""Outputs of a program; one with more is passed over."""


class StagedRun(NamedTuple):
    """The texts of some programs, and one stream."""

    rules: Sequence[str]
    elements: Sequence[Element]


def has_stages_and_output(rules: str, elements: Sequence[Element], background: Path) -> bool:
    try:
        made = [compile_program(ProgramSpec((Document("r.dotr", rules),), graphs=(str(background),), cut=cut)) for cut in (False, True)]
    except Refused:  # an event needs itself at its own instant
        return False
    staged = any(placed.stage.number for layer in made[1].layout.layers for placed in layer.rules)
    return staged and 0 < len(run_engine(made[0], elements, Clock(), most=MOST).outputs) <= MOST


def with_own_names(rules: str, number: int) -> str:
    """The program with names of rules and events that are unique in the run."""
    return re.sub(r"\b([RE]\d)(Alike\d)?\b", rf"\1\2of{number}", rules)


@cache
def runs(background: Path) -> Sequence[StagedRun]:
    found: list[StagedRun] = []
    seeds = iter(range(10_000))
    while len(found) < RUNS:
        elements: Sequence[Element] = ()
        chosen: list[str] = []
        for seed in seeds:
            made = random_program(seed)
            elements = elements or made.elements
            if has_stages_and_output(made.rules, elements, background):
                chosen.append(with_own_names(made.rules, len(chosen)))
            if len(chosen) == TOGETHER:
                break
        found.append(StagedRun(chosen, elements))
    return found


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("background") / "ticks.ttl"
    path.write_text(BACKGROUND)
    yield path
    runs.cache_clear()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("number", range(RUNS))
def test_staged_programs_on_spark_equal_in_process(number: int, background: Path, tmp_path: Path) -> None:
    from dotr.runtimes.spark.run import run_spark

    staged = runs(background)[number]
    lines = [json.dumps({"time": format_time(time, Clock()), "graph": turtle(triples)}) for time, triples in staged.elements]
    (tmp_path / "stream.ndjson").write_text("\n".join(lines) + "\n")
    for place, rules in enumerate(staged.rules):
        (tmp_path / f"{place}.dotr").write_text(rules)
    config = {
        "name": "cases",
        "knowledge": {"graphs": [str(background)], "entailment": "none"},
        "rules": [f"{place}.dotr" for place in range(len(staged.rules))],
        "input": [{"name": "stream", "format": "ndjson", "path": "stream.ndjson"}],
        "output": [{"path": "out.ndjson"}, {"format": "nquads", "path": "out.nq"}],
        "dead_letter": "rejected.ndjson",
        "spark": {"master": "local[2]", "checkpoint": "checkpoint", "batch": BATCHES[number % len(BATCHES)]},
    }
    (tmp_path / "cases.yaml").write_text(json.dumps(config))
    here = run_local(pipeline(tmp_path, "local"), lambda totals: None)
    there = run_spark(pipeline(tmp_path, "spark"), lambda totals: None)
    assert here.events
    for output in ("out.ndjson", "out.nq"):
        assert text(tmp_path / "spark" / output) == text(tmp_path / "local" / output)
    # In process, dead letters are in the order of reading.
    letters = [sorted(text(tmp_path / engine / "rejected.ndjson").splitlines()) for engine in ("spark", "local")]
    assert letters[0] == letters[1]
    assert (there.instants, there.events, there.dead_letters) == (here.instants, here.events, here.dead_letters)
