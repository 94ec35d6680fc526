"""State in logs on Spark: reloaded after a stop, shown by `status`, moved when rules change."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config

pytestmark = pytest.mark.spark

AGAIN = """
query Reading = [ SELECT ?key ?v WHERE { ?key :value ?v } ]
rule Again define Again = [ [] :of ?key ; :rose ?rose ] from Reading
and last 1 Reading as Old [ FILTER(?key = Reading.?key) ] within 1 d from Reading
with Again.?key = Reading.?key, Again.?rose = Reading.?v - Old.?v
"""
SAME = """
rule Same define Same = [ [] :of ?key ; :like ?like ] from Again
and last Again as Old [ FILTER(?rose = Again.?rose) ] within 1 d from Again
with Same.?key = Again.?key, Same.?like = Old.?key
"""
PAIRS = """
query Reading = [ SELECT ?key ?v WHERE { ?key :value ?v } ]
rule Pairs define Pair = [ [] :of ?key ; :rose ?rose ] from Reading
and each Reading as Old [ FILTER(?key = Reading.?key) ] within 1 d from Reading
with Pair.?key = Reading.?key, Pair.?rose = Reading.?v - Old.?v
"""
PREFIXES = 'prefixes: { "": "http://e/" }\n'
ELEMENTS = 15_000
EVENTS_A_BATCH = 3_000


def pipeline(rules: str, out: str, *, on_spark: bool) -> Pipeline:
    Path("r.dotr").write_text("PREFIX : <http://e/>\n" + rules)
    Path("c.yaml").write_text(
        f"name: c\n{PREFIXES}rules: [r.dotr]\ninput: [{{ name: a, format: ndjson, path: in.ndjson }}]\n"
        f"output: [{{ path: {out} }}]\nspark: {{ checkpoint: ck, batch: {EVENTS_A_BATCH} }}\n"
    )
    return build(read_config("c.yaml"), fresh=False, on_spark=on_spark)


def lines(out: str, rule: str) -> list[str]:
    files = sorted(Path(out).glob("0*.ndjson")) if Path(out).is_dir() else [Path(out)]
    return sorted(line for file in files for line in file.read_text().splitlines() if json.loads(line)["rule"] == rule)


@pytest.mark.usefixtures("spark")
def test_logs_are_reloaded_shown_in_status_and_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotr.runtimes.spark.figures.status import status_of, stored_summary
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    chosen = random.Random(1)
    with open("in.ndjson", "w") as file:
        for number in range(ELEMENTS):
            file.write(json.dumps({"time": number // 10, "graph": f":k{chosen.randrange(5_000)} :value {number % 90} ."}) + "\n")
    run_local(pipeline(AGAIN, "local.ndjson", on_spark=False), lambda totals: None)
    seen: list[Totals] = []

    def stop(totals: Totals) -> None:
        seen.append(totals)
        if len(seen) in (3, 4):
            raise ZeroDivisionError("enough")

    with pytest.raises(Exception, match="enough"):
        run_spark(pipeline(AGAIN, "out", on_spark=True), stop)
    status = status_of("ck")
    stored = stored_summary(status)
    ((events, keys),) = [(each.events, each.keys) for each in stored.ports]
    assert stored.values > 2, "there are pieces beside the two buckets' heads"
    assert events in (2 * EVENTS_A_BATCH, 3 * EVENTS_A_BATCH), "the batch that was cut off may not be in the store"
    assert keys is not None
    assert 2_000 < keys < 5_000

    with pytest.raises(Exception, match="enough"):
        run_spark(pipeline(AGAIN, "out", on_spark=True), stop)
    run_spark(pipeline(AGAIN + SAME, "out", on_spark=True), lambda totals: None)
    assert lines("out", "Again") == lines("local.ndjson", "Again")
    assert lines("out", "Same")


@pytest.mark.usefixtures("spark")
def test_large_output_equals_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred elements of two keys are paired with each other: more than one sorted run for
    each key."""
    from dotr.runtimes.spark.exchange.spilled_rows import RUN_SIZE
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    count = 350
    with open("in.ndjson", "w") as file:
        for number in range(2 * count):
            file.write(json.dumps({"time": number // 3, "graph": f":k{number % 2} :value {number % 90} ."}) + "\n")
    totals = run_local(pipeline(PAIRS, "local.ndjson", on_spark=False), lambda totals: None)
    assert totals.events > 2 * RUN_SIZE
    assert run_spark(pipeline(PAIRS, "out", on_spark=True), lambda totals: None) == totals
    written = sorted(Path("out").iterdir())
    assert len(written) == 1
    assert written[0].read_bytes() == Path("local.ndjson").read_bytes()
    assert not Path("ck/waiting").exists()
