"""A program with stages on Spark has the output of a run in process, where its checkpoint is from a release without stages, and its number
of buckets changes. One move of the state ends before its parts are joined."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.engine.state.schema import state_schema
from dotr.languages.programs import compile_program
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint import state_moves
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout
from tests.support.outputs import joined

pytestmark = pytest.mark.spark

RULES = """\
PREFIX : <http://e/>
query Slow = [ SELECT ?section ?v WHERE { ?r :section ?section ; :speed ?v FILTER(?v < 30) } ]
query Parking = [ SELECT ?park ?section ?free WHERE { ?r :park ?park ; :near ?section ; :free ?free } ]
query Works = [ SELECT ?grade WHERE { ?r :works ?grade FILTER(?grade > 1) } ]

rule Chain "Two keys: the section, then the car park."
define Chain = [ dotr_id1 :at ?section ; :park ?park ; :before ?before ]
from Slow
and last Parking [ FILTER(?section = Slow.?section) ] within 30 s from Slow
and each Parking as Before [ FILTER(?park = Parking.?park && ?free < Parking.?free) ] within 40 s from Slow
with Chain.?section = Slow.?section, Chain.?park = Parking.?park, Chain.?before = Before.?free

rule Everywhere "A clause without a key, and an aggregate without one."
define Everywhere = [ [] :at ?section ; :grade ?grade ; :cars ?n ]
from Slow delayed by 2 s
and last Slow as Earlier [ FILTER(?section = Slow.?section) ] within [1 s, 30 s] from Slow
and last Works within 30 s from Slow
and ?n = count(*) of Parking as Any [ FILTER(?free > 3) ] within 20 s from Slow
with Everywhere.?section = Slow.?section, Everywhere.?grade = Works.?grade, Everywhere.?n = ?n

rule Clock "A tick, which reads what the others make."
define Clock = [ [] :chains ?n ]
from every 15 s as Tick
and ?n = count(*) of Chain as All within [0, 15 s) from Tick
with Clock.?n = ?n
"""
CONFIG = """\
name: stages
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: in, format: ndjson, path: in.ndjson }}]
output: [{{ format: ndjson, path: {out}.ndjson }}, {{ format: trig, path: {out}.trig }}]
dead_letter: {out}.dead
spark: {{ master: "local[2]", checkpoint: ck, batch: 60 }}
"""


def write_input() -> None:
    choose, now, lines = random.Random(3), 0, []
    for _ in range(420):
        now += choose.choice([0, 1, 1, 2])
        match choose.randrange(5):
            case 0 | 1:
                graph = f"[] :section :s{choose.randrange(6)} ; :speed {choose.randrange(60)} ."
            case 2 | 3:
                graph = f"[] :park :p{choose.randrange(4)} ; :near :s{choose.randrange(6)} ; :free {choose.randrange(9)} ."
            case _:
                graph = f"[] :works {choose.randrange(4)} ."
        lines.append(json.dumps({"time": now, "graph": graph}) + "\n")
    Path("in.ndjson").write_text("".join(lines))


def pipeline(out: str, *options: str, on_spark: bool) -> Pipeline:
    Path(f"{out}.yaml").write_text(CONFIG.format(out=out))
    return build(read_config(f"{out}.yaml", options), fresh=False, on_spark=on_spark)


def written(out: str) -> list[str]:
    paths = [Path(f"{out}.{kind}") for kind in ("ndjson", "trig", "dead")]
    return [joined(sorted(path.iterdir())) if path.is_dir() else path.read_text() if path.exists() else "" for path in paths]


def layout() -> CheckpointLayout:
    found = Checkpoint("ck").layout
    assert found is not None
    return found


def stop_after(batches: int) -> object:
    seen: list[Totals] = []

    def stop(totals: Totals) -> None:
        seen.append(totals)
        if len(seen) == batches:
            raise ZeroDivisionError("enough")

    return stop


def crash_while_moving(*_: object) -> object:
    """In place of the rows for the tasks that join the parts of the moved state, which have been written."""
    assert list(Path("ck").glob("moved-*/*/*.json"))
    raise ZeroDivisionError("enough")


@pytest.mark.usefixtures("spark")
def test_stages_and_changing_buckets_equal_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    Path("r.dotr").write_text(RULES)
    write_input()
    run_local(pipeline("local", on_spark=False), lambda totals: None)
    made = pipeline("out", "spark.buckets=1", on_spark=True)
    before = replace(made, program=compile_program(replace(made.program.spec, cut=False)))
    assert state_schema(made.program).has_places
    assert not state_schema(before.program).has_places
    with pytest.raises(Exception, match="enough"):
        run_spark(before, stop_after(2))  # type: ignore[arg-type]
    first = layout()
    assert (first.buckets, json.loads(Path("ck/dotr.json").read_text())["format"]) == (1, 2)

    assert main(["plan", "out.yaml", "--set", "spark.buckets=3"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert {
        "rule Chain keeps its state, in another layer or under another key",
        "rule Everywhere keeps its state, in another layer or under another key",
        "The state moves from 1 to 3 buckets: spark.buckets is 3.",
    } <= {*output}, output
    with monkeypatch.context() as patch:
        patch.setattr(state_moves, "_numbers", crash_while_moving)
        with pytest.raises(ZeroDivisionError, match="enough"):
            run_spark(pipeline("out", "spark.buckets=3", on_spark=True), lambda totals: None)
    assert list(Path("ck").glob("moved-*/*/*.json")), "parts of an unfinished move"
    assert layout() == first

    with caplog.at_level("WARNING", "dotr"), pytest.raises(Exception, match="enough"):
        run_spark(pipeline("out", "spark.buckets=3", on_spark=True), stop_after(2))  # type: ignore[arg-type]
    assert "The state moves from 1 to 3 buckets: spark.buckets is 3." in caplog.text
    assert (layout().buckets, layout().generation, json.loads(Path("ck/dotr.json").read_text())["format"]) == (3, 1, 3)
    assert main(["status", "ck", "--quick"]) == 0
    assert "of them copies" in capsys.readouterr().out
    run_spark(pipeline("out", "spark.buckets=1", on_spark=True), lambda totals: None)
    assert (layout().buckets, layout().generation) == (1, 2)
    assert written("out") == written("local")
    assert {json.loads(line)["rule"] for line in written("local")[0].splitlines()} == {"Chain", "Everywhere", "Clock"}
