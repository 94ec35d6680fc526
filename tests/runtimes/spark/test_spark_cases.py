"""The cases on Spark: a choice of case files that leaves no construct out gives, line for line, what it gives in this process.

A run on Spark costs seconds, so that it has the rules of several files, whose names differ. All their cases are one stream, one after the
other, each so much later than the one before that no window reaches it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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


def is_timed(file: CaseFile) -> bool:
    """True if timers would fire all the time in a long gap between cases."""
    return any(word in path.read_text() for path in file.rules for word in ("every ", " delayed by "))


def may_share_a_run(one: CaseFile, other: CaseFile) -> bool:
    """True if the files have the same settings, not both have Datalog, and neither has a name of the other's rules and shared queries."""
    if (one.prefixes, one.unit, one.entailment, is_timed(one)) != (other.prefixes, other.unit, other.entailment, is_timed(other)):
        return False
    texts = ["\n".join(path.read_text() for path in file.rules) for file in (one, other)]
    named, words = ([set(re.findall(pattern, text)) for text in texts] for pattern in (r"\b(?:query|rule)\s+(\w+)", r"\w+"))
    return not ((one.datalog and other.datalog) or named[0] & words[1] or named[1] & words[0])


def runs() -> list[list[str]]:
    """The chosen files, each in the first run whose files may all share it with it."""
    found: list[list[str]] = []
    for name in CHOICE:
        for together in found:
            if all(may_share_a_run(FILES[name], FILES[each]) for each in together):
                together.append(name)
                break
        else:
            found.append([name])
    return found


def write(files: Sequence[CaseFile], folder: Path) -> None:
    """Write the cases of the files as one input stream, and a configuration of the program of all their rules."""
    first = files[0]
    gap = DAY if is_timed(first) else 400 * DAY
    cases = [case for file in files for case in file.cases]
    clock = Clock(first.unit, any(case.clock.dated for case in cases))
    lines = []
    for number, case in enumerate(cases):
        for time, triples in sorted(case.elements):
            graph = "".join(f"{s} {p} {o} .\n" for s, p, o in triples)
            lines.append(json.dumps({"time": format_time(time + number * gap, clock), "graph": graph}))
    (folder / "stream.ndjson").write_text("\n".join(lines) + "\n")
    config = {
        "name": "cases",
        "prefixes": dict(first.prefixes),
        "time": {"unit": next(name for name, unit in UNITS.items() if unit is first.unit)},
        "knowledge": {
            "graphs": [str(path.absolute()) for file in files for path in file.graphs],
            "datalog": [str(path.absolute()) for file in files for path in file.datalog],
            "entailment": first.entailment,
        },
        "rules": [str(path.absolute()) for file in files for path in file.rules],
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
@pytest.mark.parametrize("names", runs(), ids=lambda names: str("+".join(each.removesuffix(".yaml") for each in names)))
def test_output_on_spark_equals_output_in_process(names: Sequence[str], tmp_path: Path) -> None:
    from dotr.runtimes.spark.run import run_spark

    files = [FILES[name] for name in names]
    write(files, tmp_path)
    here = run_local(pipeline(tmp_path, "local"), lambda totals: None)
    there = run_spark(pipeline(tmp_path, "spark"), lambda totals: None)
    for output in ("out.ndjson", "out.nq", "rejected.ndjson"):
        assert text(tmp_path / "spark" / output) == text(tmp_path / "local" / output)
    assert there == here
    layout = pipeline(tmp_path, "spark").program.layout
    assert (tmp_path / "spark" / "checkpoint" / "query" / "state").exists() == (layout.stateful_operators > 0)
    assert here.events or not any(case.expect for file in files for case in file.cases)
    together = labels(tmp_path)
    for name in names if len(names) > 1 else []:
        (tmp_path / name).mkdir()
        write([FILES[name]], tmp_path / name)
        run_local(pipeline(tmp_path / name, "local"), lambda totals: None)
        assert labels(tmp_path / name) <= together, f"rules of the other files prevent events of {name}"


def labels(folder: Path) -> set[str]:
    """The labels of the events of a run in process."""
    return {json.loads(line)["event"] for line in text(folder / "local" / "out.ndjson").splitlines()}


LEAVING = {
    "r.dotr": """PREFIX : <http://e/>
query A = [ SELECT ?v WHERE { ?x :v ?v } ]
# dotr: allow D321 (all of them count)
define Late = [ [] :v ?n ] from A delayed by 5 s and ?n = count(*) of A as Before within 10 s from A with Late.?n = ?n
# dotr: allow D321 (all of them count)
define Middle = [ [] :v ?n ] from Late and ?n = median(M.?v) of A as M within [0, 10 s] from Late with Middle.?n = ?n""",
    "q.rspql": """PREFIX : <http://e/>
REGISTER RSTREAM Q AS SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW <w> ON <in> [RANGE 4s STEP 2s] WHERE { WINDOW <w> { ?x :v ?v } }""",
}


@pytest.mark.usefixtures("spark")
def test_pipeline_that_leaves_at_the_end_does_so_on_spark(tmp_path: Path) -> None:
    from dotr.runtimes.spark.run import run_spark

    for name, content in LEAVING.items():
        (tmp_path / name).write_text(content)
    stream = [{"time": time, "graph": f":x :v {time} ."} for time in (2, 4, 7, 9, 30, 31)]
    (tmp_path / "in.ndjson").write_text("".join(json.dumps(element) + "\n" for element in stream))
    config = {
        "name": "cases",
        "prefixes": {"": "http://e/"},
        "rules": list(LEAVING),
        "at_end": "leave",
        "input": [{"name": "in", "format": "ndjson", "path": "in.ndjson"}],
        "output": [{"path": "out.ndjson"}, {"format": "nquads", "path": "out.nq"}],
        "dead_letter": "rejected.ndjson",
        "spark": {"master": "local[2]", "checkpoint": "checkpoint", "batch": 2},
    }
    (tmp_path / "cases.yaml").write_text(json.dumps(config))
    here = run_local(pipeline(tmp_path, "local"), lambda totals: None)
    there = run_spark(pipeline(tmp_path, "spark"), lambda totals: None)
    assert text(tmp_path / "spark" / "out.ndjson") == text(tmp_path / "local" / "out.ndjson")
    assert there == here
    times = {event: [] for event in ("Late", "Middle", "Q")}  # type: dict[str, list[int]]
    for line in text(tmp_path / "local" / "out.ndjson").splitlines():
        times[json.loads(line)["event"]].append(json.loads(line)["time"])
    assert times["Late"] == times["Middle"] == [7, 9, 12, 14]
    assert max(times["Q"]) <= 31
