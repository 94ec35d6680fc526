"""The operator of programs with continuous queries: its rows and its state, without Spark, and on it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.config import read_config
from dotr.engine.driver import Engine, close_instant
from dotr.engine.items import items_of
from dotr.engine.program import compile_program
from dotr.engine.spec import ProgramSpec
from dotr.languages.turtle.graphs import read_graph
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Firing
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros, Unit
from dotr.monitoring.totals import Totals
from dotr.runtimes.local import run_local
from dotr.runtimes.pipeline import build
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import RowKind, SparkRow, decode_firings
from dotr.runtimes.spark.whole_program import ProgramRouter, process_program

SECOND = 1_000_000
QUERIES = """\
PREFIX : <http://example.org/>
REGISTER RSTREAM Hot AS SELECT ?x (MAX(?v) AS ?most)
FROM NAMED WINDOW <w> ON <sensors> [RANGE 10s STEP 5s] WHERE { WINDOW <w> { ?x :v ?v FILTER(?v > 60) } } GROUP BY ?x
REGISTER ISTREAM Seen AS CONSTRUCT { ?x a :Seen } FROM WINDOW ON <sensors> [RANGE 10s STEP 5s] { ?x :v ?v }
REGISTER DSTREAM Gone AS SELECT ?x ?n FROM WINDOW ON <sensors> [RANGE 6s STEP 2s] { ?x :n ?n }
REGISTER RSTREAM Total AS SELECT (COUNT(*) AS ?n)
FROM NAMED WINDOW <w> ON <Seen> [RANGE 20s STEP 10s REPORT ON WINDOW CLOSE] { WINDOW <w> { ?x a :Seen } }
"""
RULES = """\
PREFIX : <http://example.org/>
rule Alarm define Alarm = [ [] :of ?x ; :most ?m ] from Hot with Alarm.?x = Hot.?x, Alarm.?m = Hot.?most
rule Twice define Twice = [ [] :of ?x ]
from Alarm and last Alarm as Old [ FILTER(?x = Alarm.?x) ] within 10 s from Alarm with Twice.?x = Alarm.?x
rule Late define Late = [ [] :of ?x ] from R = [ SELECT ?x { ?x :v ?v FILTER(?v > 85) } ] delayed by 9 s with Late.?x = R.?x
"""
SPEC = ProgramSpec((Document("q.rspql", QUERIES), Document("r.dotr", RULES)))


def stream(seed: int) -> list[tuple[int, str]]:
    """Elements: seconds and Turtle."""
    chance, now, found = random.Random(seed), 0, []
    for number in range(40):
        now += chance.choice([0, 1, 1, 2, 3, 7])
        found.append((now, f":s{chance.randrange(4)} :v {chance.randrange(40, 90)} ; :n [ :m {number} ] ."))
    return found


class Value:
    """The stored state of a bucket, in memory."""

    def __init__(self) -> None:
        self._stored: tuple[bytes, bytes] | None = None

    def value(self) -> tuple[bytes, bytes] | None:
        return self._stored

    def set_value(self, digest: bytes, written: bytes) -> None:
        self._stored = digest, written


def in_batches(instants: Sequence[tuple[Micros, list[tuple[Triple, ...]]]], cuts: Sequence[int]) -> list[Firing]:
    """The firings of instants in batches that end before the cuts; the last one ends the stream."""
    program = compile_program(SPEC)
    job = Job(SPEC.to_json(), (), (), Unit.SECOND.written, False, 1, 2, 2, 1000, 2, "x")
    store, firings = Value(), list[Firing]()
    ends = [*cuts, len(instants)]
    for start, end in zip([0, *cuts], ends, strict=True):
        router = ProgramRouter(job)
        for time, graphs in instants[start:end]:
            router.add(time, close_instant(program, time, graphs).facts, items_of(time, graphs, program.layout.fed_streams))
        rows = router.lines()
        if start < end:
            rows.append(SparkRow(0, RowKind.SPAN, instants[start][0], b"%d" % instants[end - 1][0]))
        rows.append(SparkRow(0, RowKind.CLOSED, LAST_MICRO if end == len(instants) else instants[end][0] - 1, b""))
        assert process_program(job, 1, rows, store) == []
        for row in process_program(job, 0, rows, store):
            if row.kind == RowKind.FIRINGS:
                firings += decode_firings(row.payload)
    return firings


@pytest.mark.core
@pytest.mark.parametrize("seed", range(4))
def test_any_batching_gives_what_one_engine_gives(seed: int) -> None:
    elements = stream(seed)
    prefixes = {"": "http://example.org/"}
    instants: list[tuple[Micros, list[tuple[Triple, ...]]]] = [
        (now * SECOND, [FedGraph.on("sensors", read_graph(text, prefixes, 100)) for at, text in elements if at == now])
        for now in sorted({now for now, _ in elements})
    ]
    engine = Engine(compile_program(SPEC), Clock())
    expected = [firing for time, graphs in instants for firing in engine.step(time, graphs)[0]]
    expected += [firing for moment in engine.finish() for firing in moment]
    chance = random.Random(seed)
    assert {firing.rule for firing in expected} == {"Alarm", "Twice", "Late", "Hot", "Seen", "Gone", "Total"}
    for count in (0, 3, len(instants) - 1):
        cuts = sorted(chance.sample(range(1, len(instants)), count))
        assert in_batches(instants, cuts) == expected, cuts


CONFIG = """\
name: units
rules: [q.rspql, r.dotr]
prefixes: {{ "": "http://example.org/" }}
input: [{{ name: sensors, format: ndjson, path: in.ndjson }}]
output: [{{ format: ndjson, path: {out} }}]
spark: {{ master: "local[2]", checkpoint: ck, batch: {batch} }}
"""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_gives_the_same_lines_after_a_crash(tmp_path: Path) -> None:
    from dotr.runtimes.spark.run import run_spark

    (tmp_path / "q.rspql").write_text(QUERIES)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "in.ndjson").write_text("".join(json.dumps({"time": at, "graph": text}) + "\n" for at, text in stream(9)))

    def config(out: str) -> Path:
        path = tmp_path / f"{out}.yaml"
        path.write_text(CONFIG.format(out=out, batch=9))
        return path

    here = run_local(build(read_config(str(config("local"))), fresh=False, on_spark=False), lambda totals: None)
    seen: list[Totals] = []

    def crash(totals: Totals) -> None:
        seen.append(totals)
        if totals.elements > 15:
            raise ZeroDivisionError("enough")

    with pytest.raises(Exception, match="enough"):
        run_spark(build(read_config(str(config("out"))), fresh=False, on_spark=True), crash)
    there = run_spark(build(read_config(str(config("out"))), fresh=False, on_spark=True), seen.append)
    written = "".join(file.read_text() for file in sorted((tmp_path / "out").glob("*.ndjson")))
    assert written == (tmp_path / "local").read_text()
    assert there.elements < here.elements
