"""The cases on Spark: a choice of case files that leaves no construct out gives, line for line, what it gives in this process.

The cases of a file are run one after the other as one stream, each so much later than the one before that no window reaches it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from dotr.evaluation.expressions.values.times import format_time
from dotr.model.time import UNITS, Clock, Micros
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from tests.cases.test_cases import CONSTRUCTS, FILES, INDEX
from tests.oracle.cases import CaseFile

pytestmark = pytest.mark.spark

DAY: Micros = 86_400_000_000


def chosen() -> Mapping[str, frozenset[str]]:
    """A small set of case files that shows every construct: greedily, the file with most missing
    constructs first."""
    shows = {name: frozenset(each for named in INDEX[name].values() for each in named) for name in FILES}
    missing, choice = set(CONSTRUCTS), dict[str, frozenset[str]]()
    while missing:
        best = max(shows, key=lambda name: (len(missing & shows[name]), name))
        if not missing & shows[best]:
            break
        choice[best] = shows[best]
        missing -= shows[best]
    return choice


CHOICE = chosen()


def test_chosen_cases_cover_every_construct() -> None:
    assert set(CONSTRUCTS) <= frozenset().union(*CHOICE.values())


def time_between_cases(file: CaseFile) -> Micros:
    """The gap between the cases of a file (µs): longer than any window; short where timers would
    fire all the time."""
    timed = any(word in path.read_text() for path in file.rules for word in ("every ", " delayed by "))
    return DAY if timed else 400 * DAY


def write(file: CaseFile, folder: Path) -> None:
    """Write the file's cases as one input stream, and a configuration of its program."""
    clock = Clock(file.unit, any(case.clock.dated for case in file.cases))
    lines = []
    for number, case in enumerate(file.cases):
        for time, triples in sorted(case.elements):
            graph = "".join(f"{s} {p} {o} .\n" for s, p, o in triples)
            lines.append(json.dumps({"time": format_time(time + number * time_between_cases(file), clock), "graph": graph}))
    (folder / "stream.ndjson").write_text("\n".join(lines) + "\n")
    unit = next(name for name, unit in UNITS.items() if unit is file.unit)
    config = {
        "name": "cases",
        "prefixes": dict(file.prefixes),
        "time": {"unit": unit},
        "knowledge": {
            "graphs": [str(path.absolute()) for path in file.graphs],
            "datalog": [str(path.absolute()) for path in file.datalog],
            "entailment": file.entailment,
        },
        "rules": [str(path.absolute()) for path in file.rules],
        "input": [{"name": "stream", "format": "ndjson", "path": "stream.ndjson"}],
        "output": [{"path": "out.ndjson"}, {"format": "nquads", "path": "out.nq"}],
        "dead_letter": "rejected.ndjson",
        "spark": {"master": "local[2]", "checkpoint": "checkpoint", "batch": 5},
    }
    (folder / "cases.yaml").write_text(json.dumps(config))


def pipeline(folder: Path, engine: str) -> Pipeline:
    options = [f"{key}={folder / engine / name}" for key, name in PATHS.items()]
    return build(read_config(str(folder / "cases.yaml"), options), fresh=False, on_spark=engine == "spark")


PATHS = {"output.0.path": "out.ndjson", "output.1.path": "out.nq", "dead_letter": "rejected.ndjson", "spark.checkpoint": "checkpoint"}


def text(path: Path) -> str:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return "".join(file.read_text() for file in files) if path.exists() else ""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", CHOICE)
def test_output_on_spark_equals_output_in_process(name: str, tmp_path: Path) -> None:
    from dotr.runtimes.spark.run import run_spark

    write(FILES[name], tmp_path)
    here = run_local(pipeline(tmp_path, "local"), lambda totals: None)
    there = run_spark(pipeline(tmp_path, "spark"), lambda totals: None)
    for output in ("out.ndjson", "out.nq", "rejected.ndjson"):
        assert text(tmp_path / "spark" / output) == text(tmp_path / "local" / output)
    assert there == here
    layout = pipeline(tmp_path, "spark").program.layout
    assert (tmp_path / "spark" / "checkpoint" / "query" / "state").exists() == (layout.stateful_operators > 0)
    assert here.events or not any(case.expect for case in FILES[name].cases)
