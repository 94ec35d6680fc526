"""Stateless programs on Spark, without an operator: output equals that in process, also where rules
change between stateless and stateful."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.progress import RunProgress
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import Checkpoint
from dotr.temporal.layout.layers import Layout
from tests.runtimes.spark.test_spark_run import pipeline, results, write_inputs

pytestmark = pytest.mark.spark

SECOND = 1_000_000
HEADER = """PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
"""
HIGH = """
rule High define High = [ dotr_id1 :high ?room ; :value ?v ]
from Reading as Now [ FILTER(?v > 50) ] with High.?room = Now.?room, High.?v = Now.?v
"""
BOTH = """
rule Both "Two of one instant, of which the other is used once."
define Both = [ [] :one ?one ; :other ?other ]
from Reading as Now
and first Reading as Other [ FILTER(?room != Now.?room && ?v <= Now.?v) ] within [0, 0] from Now
with Both.?one = Now.?room, Both.?other = Other.?room
consuming Other
"""
OF = """
rule Together "It reads what another makes."
define Together = [ [] :of ?room ; :n ?n ]
from High and ?n = count(*) of High as All within [0, 0] from High
with Together.?room = High.?room, Together.?n = ?n
"""
RISE = """
rule Rise define Rise = [ [] :at ?room ; :by ?by ]
from Reading as Now and last Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 20 s from Now
with Rise.?room = Now.?room, Rise.?by = Now.?v - Old.?v
"""
CONFIG = """
name: changing
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, path: {path} }}]
output: [{{ path: {out} }}]
spark: {{ master: "local[2]", checkpoint: ck, batch: 40 }}
"""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("batch", [120, 100_000])
def test_stateless_output_is_the_same_after_a_crash(batch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dotr.runtimes.spark.run import run_spark

    write_inputs(tmp_path)
    (tmp_path / "direct.dotr").write_text(HEADER + HIGH + BOTH + OF)
    here = run_local(pipeline(tmp_path, "local", on_spark=False, rules="direct.dotr"), lambda totals: None)
    seen: list[Totals] = []

    def crash(totals: Totals) -> None:
        seen.append(totals)
        if len(seen) == (3 if batch == 120 else 1):
            raise ZeroDivisionError("enough")

    with pytest.raises(Exception, match="enough"):
        run_spark(pipeline(tmp_path, "spark", batch, rules="direct.dotr"), crash)
    progress: list[RunProgress] = []
    run_spark(pipeline(tmp_path, "spark", batch, rules="direct.dotr"), lambda totals: None, progress.append)
    assert results(tmp_path, "spark") == results(tmp_path, "local")
    checkpoint = tmp_path / "spark" / "checkpoint"
    assert not (checkpoint / "query" / "state").exists()
    assert {rule for rule in ("High", "Both", "Together") if f'"rule": "{rule}"' in results(tmp_path, "spark")[0]} == {
        "High",
        "Both",
        "Together",
    }
    assert (progress[-1].stored, progress[-1].state_bytes) == ((), 0)
    capsys.readouterr()
    assert main(["status", str(checkpoint), "--format", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["state"] == {"source": "none", "values": 0, "bytes": 0, "held": []}
    assert (status["totals"]["elements"], status["totals"]["events"]) == (here.elements, here.events)
    assert main(["status", str(checkpoint)]) == 0
    assert capsys.readouterr().out.endswith("The rules keep no state: there is none in the store.\n")


@pytest.mark.usefixtures("spark")
def test_large_stateless_output_is_spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """350 elements of one instant are paired with each other."""
    from dotr.runtimes.spark.exchange.spilled_rows import RUN_SIZE
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    pairs = "rule Pairs define Pair = [ [] :sum ?sum ] from Reading as Now and each Reading as Other within [0, 0] from Now\n"
    Path("r.dotr").write_text(HEADER + pairs + "with Pair.?sum = Now.?v + Other.?v")
    with open("in.ndjson", "w") as file:
        for number in range(350):
            file.write(json.dumps({"time": 1, "graph": f"[] :room :r{number % 3} ; :value {number} ."}) + "\n")
    expected = run_local(built("in.ndjson", "local.ndjson", on_spark=False), lambda totals: None)
    assert expected.events > 2 * RUN_SIZE
    assert run_spark(built("in.ndjson", "out", on_spark=True), lambda totals: None) == expected
    (written,) = Path("out").iterdir()
    assert written.read_bytes() == Path("local.ndjson").read_bytes()
    assert not Path("ck/waiting").exists()


def built(path: str, out: str, *, on_spark: bool) -> Pipeline:
    Path("c.yaml").write_text(CONFIG.format(path=path, out=out))
    return build(read_config("c.yaml"), fresh=False, on_spark=on_spark)


def in_process(rules: str, path: str, out: str) -> list[str]:
    Path("r.dotr").write_text(HEADER + rules)
    run_local(built(path, out, on_spark=False), lambda totals: None)
    return lines(out)


def lines(out: str) -> list[str]:
    files = sorted(Path(out).glob("0*.ndjson")) if Path(out).is_dir() else [Path(out)]
    return [line for file in files for line in file.read_text().splitlines()]


def lines_of_rules(found: Iterable[str], *rules: str, after: int = -1, until: int = 10_000) -> list[str]:
    return [line for line in found if (event := json.loads(line))["rule"] in rules and after < event["time"] <= until]


@pytest.mark.usefixtures("spark")
def test_rules_change_between_stateless_and_stateful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first checkpoint is from a release with an operator for every layer."""
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    choose = random.Random(5)
    elements = [
        json.dumps({"time": at // 2, "graph": f"[] :room :r{choose.randrange(6)} ; :value {choose.randrange(0, 100, 5)} ."}) + "\n"
        for at in range(600)
    ]
    Path("in.ndjson").write_text("".join(elements))

    def run(rules: str, batches: int) -> tuple[int, int, int]:
        """Run a number of batches (0: to the end), of which the last is cut off. Returns the layers and the generation of the query,
        and the last closed second."""
        seen: list[Totals] = []

        def stop(totals: Totals) -> None:
            seen.append(totals)
            if len(seen) == batches:
                raise ZeroDivisionError("enough")

        Path("r.dotr").write_text(HEADER + rules)
        if batches:
            with pytest.raises(Exception, match="enough"):
                run_spark(built("in.ndjson", "out", on_spark=True), stop)
        else:
            run_spark(built("in.ndjson", "out", on_spark=True), stop)
        checkpoint = Checkpoint("ck")
        layout, position = checkpoint.layout, checkpoint.offset()
        assert layout is not None
        assert position is not None
        assert Path(checkpoint.query, "state").exists() == (layout.layers > 0)
        return layout.layers, layout.generation, position.time // SECOND

    def plan(rules: str) -> str:
        Path("r.dotr").write_text(HEADER + rules)
        built("in.ndjson", "out", on_spark=True)
        capsys.readouterr()
        assert main(["plan", "c.yaml"]) == 0
        return capsys.readouterr().out

    with monkeypatch.context() as patch:
        patch.setattr(Layout, "stateful_operators", property(lambda layout: len(layout.layers)))
        patch.setattr(Layout, "may_be_cut", False)  # that release had no stages
        assert run(HIGH + OF, 2)[:2] == (2, 0)
    assert plan(HIGH + OF).endswith("The run goes on as it is.\n")
    assert run(HIGH + OF, 2)[:2] == (2, 0)

    without_state = plan(HIGH + OF + BOTH)
    assert "rule Both starts empty: it is new\n" in without_state
    assert (
        "layout (no stateful operator, not 2). Its rules keep no state: nothing moves, and the stored state is dropped.\n" in without_state
    )
    layers, generation, first = run(HIGH + OF + BOTH, 2)
    assert (layers, generation) == (0, 1)
    assert main(["status", "ck"]) == 0
    assert "The rules keep no state" in capsys.readouterr().out

    added = plan(HIGH + OF + BOTH + RISE)
    assert "rule Rise starts empty: it is new\n" in added
    assert added.endswith("another layout (2 stateful operators, not none). The rules before it kept no state: nothing moves.\n")
    layers, generation, second = run(HIGH + OF + BOTH + RISE, 3)
    assert (layers, generation) == (2, 2)
    assert main(["status", "ck", "--format", "json"]) == 0
    assert [each["label"] for each in json.loads(capsys.readouterr().out)["state"]["held"]] == ["Reading"]

    assert "rule Rise is dropped" in plan(HIGH + OF + BOTH)
    layers, generation, third = run(HIGH + OF + BOTH, 2)
    assert (layers, generation) == (0, 3)
    assert "No rule keeps any state: nothing moves.\n" in plan(HIGH + BOTH)
    assert run(HIGH + BOTH, 0)[:2] == (0, 4)
    assert sorted(path.name for path in Path("ck").iterdir() if path.is_dir()) == ["query-4"]

    got = lines("out")
    whole = in_process(HIGH + OF + BOTH, "in.ndjson", "whole.ndjson")
    assert lines_of_rules(got, "High") == lines_of_rules(whole, "High")
    assert lines_of_rules(got, "Together") == lines_of_rules(whole, "Together", until=third)
    added_at = json.loads(lines_of_rules(got, "Both")[0])["time"] - 1
    assert lines_of_rules(got, "Both") == lines_of_rules(whole, "Both", after=added_at)
    assert added_at < first < second < third
    Path("some.ndjson").write_text("".join(line for line in elements if first < json.loads(line)["time"] <= second))
    rising = in_process(RISE, "some.ndjson", "rising.ndjson")
    assert lines_of_rules(got, "Rise") == rising
    assert len(rising) > 10
