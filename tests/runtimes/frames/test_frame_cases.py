"""Programs over DataFrames on Spark: the events are those of one process.

`DOTR_SPARK_EXAMPLES=19` runs all groups of case files that together show every construct, and as many seeds of a stream.
`test_frame_programs.py` has all cases and random programs, by the operators without Spark.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from dotr import Program
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.time import Clock
from dotr.runtimes.local.run import run_local
from dotr.spark import Stream, events
from tests.cases.test_cases import FILES
from tests.runtimes.spark.test_spark_cases import pipeline, runs, write
from tests.runtimes.spark.test_unit_steps import MIXED, PREFIXES, SECOND, stream
from tests.support.frame_operators import InputGraph, graph_text, in_process, rows_of, sources_of_graphs

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

RUNS: Final = int(os.environ.get("DOTR_SPARK_EXAMPLES", "1"))

LARS = """Hot(?x) AT ?t :- :v(?x, ?v) AT ?t IN [6 s], FILTER(?v > 60) .
Lasting(?x) :- Hot(?x) ALWAYS IN [1 s] .
REPORT Lasting(?x) ."""
PATTERN = "PREFIX : <http://example.org/> REGISTER QUERY After AS SELECT ?x ?y WHERE { { ?x :v ?v } SEQ { ?y :v ?w } WITHIN 3 s }"
TEXTS = {each.name: each.text for each in MIXED.rules} | {"lasting.lars": LARS, "after.epsparql": PATTERN}
"""Rules, continuous queries, a LARS file and a pattern, with ticks and delayed anchors, in several layers."""


@pytest.fixture
def session(spark: None) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.mark.parametrize("names", runs()[:RUNS], ids=lambda names: str("+".join(each.removesuffix(".yaml") for each in names)))
def test_events_of_a_batch_are_those_of_one_process(session: SparkSession, names: Sequence[str], tmp_path: Path) -> None:
    write([FILES[name] for name in names], tmp_path)
    run_local(pipeline(tmp_path, "local"), lambda totals: None)
    lines = [json.loads(line) for line in (tmp_path / "local" / "out.ndjson").read_text().splitlines()]
    elements = [json.loads(line) for line in (tmp_path / "stream.ndjson").read_text().splitlines()]
    dated = isinstance(elements[0]["time"], str)
    frame = session.createDataFrame([(str(each["time"]), each["graph"]) for each in elements], "time string, graph string")
    frame = frame.selectExpr("cast(time as timestamp) as time" if dated else "cast(time as long) as time", "graph")
    program = Program.from_config(tmp_path / "cases.yaml")
    found = events(program, [Stream(frame, time="time", graph="graph", format="ntriples", name="stream")])
    clock = Clock(program.spec.unit, dated)
    rows = found.selectExpr("unix_micros(time) as time", "rule", "event", "attributes", "graph", "dead").collect()
    made = [(format_time(row.time, clock), row.rule, row.event, row.attributes, row.graph) for row in rows if row.dead is None]
    expected = [(line["time"], line["rule"], line["event"], line["attributes"], line["graph"]) for line in lines]
    assert Counter(map(written, made)) == Counter(map(written, expected))
    assert [row.dead for row in rows if row.dead] == []


@pytest.mark.parametrize("seed", range(RUNS))
def test_stream_of_all_languages_is_that_of_one_process(session: SparkSession, seed: int, tmp_path: Path) -> None:
    program = Program.load(text=TEXTS, prefixes=PREFIXES)
    chance = random.Random(seed)
    graphs = [InputGraph(at * SECOND, "sensors", text) for at, text in stream(seed)]
    waiting = sorted(graphs, key=lambda each: each.time + chance.choice([0, 0, 3, 9]) * SECOND)
    batches = [waiting[start : start + 20] for start in range(0, len(waiting), 20)]
    batches.append([InputGraph(max(each.time for each in graphs) + 100 * SECOND, "sensors", "<urn:x> <urn:y> <urn:z> .")])
    (tmp_path / "in").mkdir()
    found: list[Row] = []

    def go_on() -> None:
        rows = session.readStream.schema("ts long, graph string").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        made = events(program, [Stream(rows, time="ts", graph="graph", lateness="4 s", name="sensors")])
        writer = made.writeStream.foreachBatch(lambda batch, number: found.extend(batch.collect()))
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()

    for number, batch in enumerate(batches):
        path = tmp_path / "in" / f"{number:03}.json"
        path.write_text("".join(json.dumps({"ts": each.time // SECOND, "graph": each.text}) + "\n" for each in batch))
        os.utime(path, (1_000 + number, 1_000 + number))
        if number in (0, len(batches) - 1):
            go_on()
    late = Counter((row.time.timestamp(), row.dead.record) for row in found if row.dead)
    assert {row.dead.reason for row in found if row.dead} <= {"late"}
    kept = []
    for graph in graphs:
        key = graph.time / SECOND, graph.text
        if late[key]:
            late[key] -= 1
        else:
            kept.append(graph)
    assert not +late
    sources = sources_of_graphs(program, graphs)
    expected = in_process(program, sources, rows_of(sources, kept), ended=False)
    made = [(row.time.timestamp() * SECOND, row.rule, row.event, row.attributes, row.graph) for row in found if not row.dead]
    assert Counter(map(written, made)) == Counter(
        written((float(each.time), each.rule, each.event, dict(each.attributes), graph_text(each.graph or ()).replace("_:b", "_:")))
        for each in expected
    )
    assert {each.event for each in expected} > {"Pair", "Late", "Recent", "Ticked", "Lasting", "After"}


def written(event: tuple[object, str, str, dict[str, str], str | None]) -> str:
    """An event as text; the order of triples has no meaning."""
    time, rule, name, attributes, graph = event
    return json.dumps([time, rule, name, sorted(attributes.items()), sorted((graph or "").splitlines())])
