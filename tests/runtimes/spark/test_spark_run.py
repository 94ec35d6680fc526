"""Pipelines on Spark: output equals that in process, for all batch sizes and after a crash."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import RunFailed, Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from tests.support.interrupted import run_until
from tests.support.outputs import joined
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.spark

RULES = """
PREFIX : <http://e/>
rule Jump define Jump = [ [] a :Jump ; :at ?room ; :by ?by ]
from Now = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
and last Before = [ SELECT ?room2 ?v2 WHERE { ?r :room ?room2 ; :value ?v2 . FILTER(?room2 = Now.?room) } ] within 20 s from Now
if Now.?v > Before.?v2 + 40
with Jump.?room = Now.?room, Jump.?by = Now.?v - Before.?v2

rule Pair define Pair = [ dotr_id1 a :Pair ; :one ?one ; :other ?other ]
from Jump
and each Jump as Earlier [ FILTER(?by = Jump.?by) ] within 30 s from Jump
with Pair.?one = Jump.?room, Pair.?other = Earlier.?room
"""

WHOLE = """
PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]

rule Flow "Ticks, and aggregates."
define Flow = [ [] :until ?at ; :readings ?n ; :high ?high ; :mean ?mean ]
from every 15 s as Tick
and ?n = count(*) of Reading as All within [0, 15 s) from Tick
and ?high = sum(distinct High.?v) of Reading as High [ FILTER(?v > 50) ] within [0, 1 min) from Tick
and ?mean = avg(Low.?v) of Reading as Low [ FILTER(?v < ?n) ] within [0, 1 min) from Tick
with Flow.?at = time(Tick), Flow.?n = ?n, Flow.?high = ?high, Flow.?mean = ?mean

rule Silent "A tick for each room that is known, and nothing from it."
define Silent = [ dotr_id1 :silent ?room ]
from every 20 s for [ SELECT ?room WHERE { ?room a :Room } ] as Tick
and not Reading [ FILTER(?room = Tick.?room) ] within [0, 10 s) from Tick
with Silent.?room = Tick.?room

rule Quiet "A delayed anchor: a high reading, and then nothing."
define Quiet = [ dotr_id1 :quiet ?room ; :since ?since ]
from Reading as High [ FILTER(?v > 80) ] delayed by 4 s
and not Reading as Next [ FILTER(?room = High.?room) ] within [0, 4 s) from High
with Quiet.?room = High.?room, Quiet.?since = time(High)

rule Still "It anchors itself, later."
define Quiet = [ dotr_id1 :quiet ?room ; :since ?since ]
from Quiet as Before delayed by 1500 ms
and not Reading as Next [ FILTER(?room = Before.?room) ] within [0, 1.5 s) from Before
with Quiet.?room = Before.?room, Quiet.?since = Before.?since

rule Start define Run = [ [] :run ?n ]
from Reading as Now with Run.?room = Now.?room, Run.?v = Now.?v, Run.?n = 1

rule Further "Recursion in the past: a run of readings, each higher than the one before."
define Run = [ [] :run ?n ]
from Reading as Now
and each Run as Before [ FILTER(?room = Now.?room && ?v < Now.?v && ?n < 4) ] within 20 s from Now
and not Reading as Other [ FILTER(?room = Now.?room) ] between Before and Now
with Run.?room = Now.?room, Run.?v = Now.?v, Run.?n = Before.?n + 1

rule Used "Consumption, over the events of the others."
define Used = [ dotr_id1 :of ?room ; :value ?v ]
from Quiet and first Run as Old [ FILTER(?room = Quiet.?room && ?n > 1) ] within 1 min from Quiet
with Used.?room = Old.?room, Used.?v = Old.?v
consuming Old
"""
ROOMS = "@prefix : <http://e/> . " + " ".join(f":r{number} a :Room ." for number in range(8))

CONFIG = """
name: jumps
prefixes: {{ "": "http://e/" }}
knowledge: {{ graphs: [rooms.ttl] }}
rules: [{rules}]
input:
  - {{ name: sorted, format: ndjson, path: a*.ndjson }}
  - {{ name: loose, format: ndjson, path: b.ndjson, lateness: 4 s }}
  - {{ name: rows, format: csv, path: c.csv.gz, time: t, map: "[] :room :r{{room}} ; :value {{value}} ." }}
output:
  - {{ format: ndjson, path: {out}/jumps.ndjson }}
  - {{ format: trig, path: {out}/jumps.trig }}
  - {{ format: parquet, path: {out}/jumps.parquet }}
dead_letter: {out}/rejected.ndjson
spark: {{ master: "local[2]", checkpoint: {out}/checkpoint, batch: {batch} }}
"""


def write_inputs(folder: Path, elements: int = 400) -> None:
    """Four files of readings, with late ones, broken ones, an empty graph, equal times and a repeated element."""
    import gzip

    choose = random.Random(7)

    def line(at: int) -> str:
        match choose.randrange(40):
            case 0:
                return "no JSON"
            case 1:
                return json.dumps({"time": at, "graph": "this is no Turtle"})
            case 2:
                return json.dumps({"time": at, "graph": ""})
        return json.dumps({"time": at, "graph": f"[] :room :r{choose.randrange(6)} ; :value {choose.randrange(0, 100, 5)} ."})

    times = sorted(choose.randrange(elements) for _ in range(elements))
    (folder / "a1.ndjson").write_text("".join(line(at) + "\n" for at in times[::2]))
    (folder / "a2.ndjson").write_text("".join(line(at - (30 if choose.random() < 0.05 else 0)) + "\n" for at in times[1::2]))
    (folder / "b.ndjson").write_text("".join(line(at - choose.randrange(8)) + "\n" for at in times))
    rows = "".join(f"{at},{choose.randrange(6)},{choose.randrange(0, 100, 5)}\n" for at in times)
    with gzip.open(folder / "c.csv.gz", "wt") as file:
        file.write("t,room,value\n" + rows + "x,1,1\n")
    (folder / "jumps.dotr").write_text(RULES)
    (folder / "whole.dotr").write_text(WHOLE)
    (folder / "rooms.ttl").write_text(ROOMS)


def pipeline(folder: Path, out: str, batch: int = 50, *, on_spark: bool = True, rules: str = "jumps.dotr") -> Pipeline:
    config = folder / f"{out}.yaml"
    config.write_text(CONFIG.format(out=out, batch=batch, rules=rules))
    return build(read_config(os.path.relpath(config)), fresh=False, on_spark=on_spark)  # so that dead letters name relative paths


def results(folder: Path, out: str) -> tuple[str, str, list[str]]:
    """The text of both outputs, and the dead letters sorted: in process they are in
    reading order."""

    def text(name: str) -> str:
        path = folder / out / name
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return joined(files)

    return text("jumps.ndjson"), text("jumps.trig"), sorted(text("rejected.ndjson").splitlines())


def rows(folder: Path, out: str) -> list[dict[str, object]]:
    """The rows of the Parquet output: of one file, or of those of a folder."""
    from pyarrow import parquet

    path = folder / out / "jumps.parquet"
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jumps")
    write_inputs(folder)
    run_local(pipeline(folder, "local", on_spark=False), lambda totals: None)
    return folder


@pytest.mark.usefixtures("spark")
class TestInOneJvm:
    @pytest.mark.parametrize("batch", [150, 100_000])
    def test_output_on_spark_equals_output_in_process(self, folder: Path, batch: int) -> None:
        from dotr.runtimes.spark.run import run_spark

        reported: list[Totals] = []
        totals = run_spark(pipeline(folder, f"spark{batch}", batch), reported.append)
        assert results(folder, f"spark{batch}") == results(folder, "local")
        assert rows(folder, f"spark{batch}") == rows(folder, "local")
        assert [row["graph"] for row in rows(folder, "local")] == [
            json.loads(line)["graph"] for line in results(folder, "local")[0].splitlines()
        ]
        assert reported[-1] == totals
        assert len(reported) == (1 if batch == 100_000 else len(reported))
        local = run_local(pipeline(folder, f"again{batch}", on_spark=False), lambda totals: None)
        assert totals == local
        assert totals.events > 20
        if batch == 100_000:  # a finished run continues from its end, and tells once of a file that has changed since
            before = (folder / "b.ndjson").read_bytes()
            with (folder / "b.ndjson").open("ab") as file:
                file.write(b'{"time": 9, "graph": ""}\n')
            try:
                told = run_spark(pipeline(folder, f"spark{batch}", batch), lambda totals: None)
                assert run_spark(pipeline(folder, f"spark{batch}", batch), lambda totals: None) == Totals()
            finally:
                (folder / "b.ndjson").write_bytes(before)
            assert told == Totals(dead_letters={Reason.CHANGED: 1})
            assert not told.all_rejected
            letters = sorted((folder / f"spark{batch}" / "rejected.ndjson").iterdir())
            letter = json.loads(letters.pop().read_text())
            assert (letter["reason"], letter["input"], letter["line"], letter["text"]) == ("changed", "loose", 1, "")
            assert f": {len(before):,} bytes of it are read, {len(before) + 25:,} are there now; " in letter["error"]
            assert letter["file"].endswith("b.ndjson")

    def test_inconsistent_instants_are_counted(self, tmp_path: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        (tmp_path / "kb.ttl").write_text("@prefix : <http://e/> . :A <http://www.w3.org/2002/07/owl#disjointWith> :B .")
        (tmp_path / "jumps.dotr").write_text(RULES)
        graphs = [":x a :A .", ":x a :B .", ":x a :A, :B .", ":y a :A, :B ."]
        lines = [json.dumps({"time": time, "graph": graph}) for time, graph in enumerate(graphs)]
        (tmp_path / "a.ndjson").write_text("\n".join(lines))
        (tmp_path / "c.yaml").write_text(
            "name: c\nprefixes: { '': 'http://e/' }\nknowledge: { graphs: [kb.ttl], entailment: owl2rl }\nrules: [jumps.dotr]\n"
            "input: [{ name: a, format: ndjson, path: a.ndjson }]\noutput: [{ path: out.ndjson }]\n"
        )
        totals = run_spark(build(read_config(str(tmp_path / "c.yaml")), fresh=False, on_spark=True), lambda totals: None)
        assert (totals.instants, totals.inconsistent) == (4, 2)

    def test_inconsistent_instants_become_dead_letters_if_configured(self, tmp_path: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        (tmp_path / "kb.ttl").write_text("@prefix : <http://e/> . :A <http://www.w3.org/2002/07/owl#disjointWith> :B .")
        (tmp_path / "jumps.dotr").write_text(RULES)
        graphs = [(0, ":x a :A ."), (1, ":x a :B ."), (1, ":x a :A ."), (1, ""), (2, ":x a :B ."), (3, ":y a :A, :B .")]
        for name in ("a", "b"):
            lines = [json.dumps({"time": time, "graph": graph}) for time, graph in graphs]
            (tmp_path / f"{name}.ndjson").write_text("\n".join(lines))
        (tmp_path / "c.yaml").write_text(
            "name: c\nprefixes: { '': 'http://e/' }\nknowledge: { graphs: [kb.ttl], entailment: owl2rl, inconsistent: reject }\n"
            "rules: [jumps.dotr]\ninput: [{ name: a, format: ndjson, path: '*.ndjson' }]\noutput: [{ path: out/o.ndjson }]\n"
            "dead_letter: out/dead.ndjson\n"
        )
        config = str(tmp_path / "c.yaml")
        totals = run_spark(build(read_config(config), fresh=False, on_spark=True), lambda totals: None)
        spark = sorted(line for path in (tmp_path / "out/dead.ndjson").glob("*.ndjson") for line in path.read_text().splitlines())
        local = run_local(build(read_config(config), fresh=True, on_spark=False), lambda totals: None)
        assert totals == local
        assert (totals.elements, totals.instants, totals.inconsistent, dict(totals.dead_letters)) == (4, 2, 2, {Reason.INCONSISTENT: 8})
        assert spark == sorted((tmp_path / "out/dead.ndjson").read_text().splitlines())
        assert len(spark) == 8

    def test_instant_over_a_limit_becomes_dead_letters(self, tmp_path: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        (tmp_path / "r.dotr").write_text(
            "PREFIX : <http://e/>\nrule Pairs define Pair = [ [] :n ?n ] from Both = [ SELECT ?x ?y WHERE { ?x :a ?v . ?y :b ?w } ] "
            "with Pair.?n = Both.?x\n"
        )
        graphs = [
            (time, " ".join(f":x{i} :a {i} . :y{i} :b {i} ." for i in range(size))) for time, size in ((1, 2), (2, 40), (2, 1), (3, 3))
        ]
        (tmp_path / "a.ndjson").write_text("".join(json.dumps({"time": time, "graph": graph}) + "\n" for time, graph in graphs))
        (tmp_path / "c.yaml").write_text(
            "name: c\nprefixes: { '': 'http://e/' }\nrules: [r.dotr]\nlimits: { rows: 1000 }\n"
            "input: [{ name: a, format: ndjson, path: a.ndjson }]\noutput: [{ path: out/o.ndjson }]\ndead_letter: out/dead.ndjson\n"
        )
        config = str(tmp_path / "c.yaml")
        totals = run_spark(build(read_config(config), fresh=False, on_spark=True), lambda totals: None)
        spark = sorted(line for path in (tmp_path / "out/dead.ndjson").glob("*.ndjson") for line in path.read_text().splitlines())
        local = run_local(build(read_config(config), fresh=True, on_spark=False), lambda totals: None)
        assert totals == local
        assert (totals.elements, totals.instants, totals.events, dict(totals.dead_letters)) == (2, 2, 13, {Reason.LIMIT: 2})
        assert spark == sorted((tmp_path / "out/dead.ndjson").read_text().splitlines())
        why = "its instant goes over a limit: more than 1,000 rows in the query Both of rule Pairs"
        assert [json.loads(line)["error"] for line in spark] == [why] * 2

    def test_vanished_file_is_one_message(self, folder: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        prepared = pipeline(folder, "vanished")
        (folder / "c.csv.gz").rename(folder / "moved")
        try:
            with pytest.raises(Refused, match=r"I101 cannot read .*c\.csv\.gz"):
                run_spark(prepared, lambda totals: None)
        finally:
            (folder / "moved").rename(folder / "c.csv.gz")

    def test_failure_of_spark_is_one_line(self, folder: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        def stop(totals: Totals) -> None:
            raise ZeroDivisionError("unexpected error")

        with pytest.raises((RunFailed, ZeroDivisionError), match="unexpected error"):
            run_spark(pipeline(folder, "failed"), stop)


class TestCheckpoint:
    def test_another_program_is_refused(self, folder: Path, tmp_path: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        prepared = pipeline(folder, "other")
        (folder / "other" / "checkpoint").mkdir(parents=True)
        layout = {"format": 1, "pipeline": "jumps", "program": "another", "inputs": [], "layers": 1, "buckets": 2, "partitions": 2}
        (folder / "other" / "checkpoint" / "dotr.json").write_text(json.dumps(layout))
        with pytest.raises(Refused, match=r"S102 .* belongs to another program(.|\n)*--fresh"):
            run_spark(prepared, lambda totals: None)

    def test_existing_output_is_refused(self, folder: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        prepared = pipeline(folder, "older")
        (folder / "older" / "jumps.trig").mkdir(parents=True)
        (folder / "older" / "jumps.trig" / "000000000000.trig").write_text("")
        with pytest.raises(Refused, match="I201"):
            run_spark(prepared, lambda totals: None)

    def test_checkpoint_without_dotr_json_is_refused(self, folder: Path) -> None:
        from dotr.runtimes.spark.run import run_spark

        prepared = pipeline(folder, "foreign")
        (folder / "foreign" / "checkpoint" / "offsets").mkdir(parents=True)
        with pytest.raises(Refused, match=r"S102 .* was not made by dotr"):
            run_spark(prepared, lambda totals: None)


@pytest.mark.usefixtures("spark")
def test_aborted_and_interrupted_run_gives_the_same_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With ticks, delayed anchors that wait across the abort, negation, aggregates, recursion and consumption. The first run is aborted,
    the second one interrupted, and the third one comes to the end. Runs of these rules are killed in test_spark_soak.py."""
    from dotr.runtimes.spark.run import run_spark

    rules = "jumps.dotr, whole.dotr"
    run_local(pipeline(folder, "whole", on_spark=False, rules=rules), lambda totals: None)
    events = [json.loads(line) for line in results(folder, "whole")[0].splitlines()]
    assert {event["rule"] for event in events} == {"Jump", "Pair", "Flow", "Silent", "Quiet", "Still", "Start", "Further", "Used"}
    output = folder / "aborted" / "jumps.ndjson"

    def written() -> int:
        return len(list(output.glob("0*"))) if output.exists() else 0

    def abort(totals: Totals) -> None:
        if written() >= 2:
            raise ZeroDivisionError("enough")

    def see_five_batches() -> None:
        deadline = time.monotonic() + PATIENCE
        while written() < 5 and time.monotonic() < deadline:
            time.sleep(0.02)

    with pytest.raises(Exception, match="enough"):
        run_spark(pipeline(folder, "aborted", 120, rules=rules), abort)
    words = ["run", os.path.relpath(folder / "aborted.yaml"), "--engine", "spark", "--quiet"]
    assert run_until(words, see_five_batches) == 0
    assert results(folder, "aborted") != results(folder, "whole"), "it was interrupted before its end"
    assert "Traceback" not in capsys.readouterr().err
    assert (main(words), capsys.readouterr().err) == (0, "")
    assert results(folder, "aborted") == results(folder, "whole")
    assert rows(folder, "aborted") == rows(folder, "whole")
