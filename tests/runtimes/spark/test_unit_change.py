"""A program with queries continues after a change: unchanged queries keep their windows, others start empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.commands.plan import plan
from dotr.commands.status.text import status
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config

pytestmark = pytest.mark.spark

KEPT = """\
PREFIX : <http://example.org/>
REGISTER ISTREAM Seen AS CONSTRUCT { ?x a :Seen } FROM WINDOW ON <sensors> [RANGE 40s STEP 5s] { ?x :v ?v }
REGISTER RSTREAM Most AS SELECT (MAX(?v) AS ?most) FROM WINDOW ON <sensors> [ELEMENTS 30 STEP 5] { ?x :v ?v }
"""
CHANGED = "REGISTER RSTREAM Many AS SELECT (COUNT(*) AS ?n) FROM WINDOW ON <sensors> [RANGE {range}s STEP 10s] {{ ?x :v ?v }}\n"
NEW = "REGISTER RSTREAM Fresh AS SELECT (COUNT(*) AS ?n) FROM WINDOW ON <Seen> [RANGE 60s STEP 10s] { ?x a :Seen }\n"
RULE = """\
PREFIX : <http://example.org/>
rule Top define Top = [ [] :is ?m ] from Most and last Most as Old within 60 s from Most with Top.?m = Most.?most
"""
NEW_RULE = """\
query R = [ SELECT ?x ?v { ?x :v ?v FILTER(?v < 45) } ]
rule Low define Low = [ [] :of ?x ] from R
and last R as Old [ FILTER(?x = R.?x) ] within 30 s from R with Low.?x = R.?x
"""
CONFIG = """\
name: units
rules: [q.rspql, r.dotr]
prefixes: {{ "": "http://example.org/" }}
input: [{{ name: sensors, format: ndjson, path: in.ndjson }}]
output: [{{ format: ndjson, path: {out} }}]
spark: {{ master: "local[2]", checkpoint: ck, batch: 25 }}
"""


def pipeline(queries: str, rules: str, out: str, *, on_spark: bool) -> Pipeline:
    Path("q.rspql").write_text(queries)
    Path("r.dotr").write_text(rules)
    Path(f"{out}.yaml").write_text(CONFIG.format(out=out))
    return build(read_config(f"{out}.yaml"), fresh=False, on_spark=on_spark)


def events(out: str) -> list[tuple[int, str, str]]:
    files = sorted(Path(out).glob("*.ndjson")) if Path(out).is_dir() else [Path(out)]
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [(line["time"], line["rule"], json.dumps(line["attributes"])) for line in lines]


@pytest.mark.usefixtures("spark")
def test_unchanged_queries_keep_their_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    elements = [{"time": 3 * number, "graph": f":s{number % 7} :v {40 + number * 13 % 50} ."} for number in range(100)]
    Path("in.ndjson").write_text("".join(json.dumps(each) + "\n" for each in elements))
    old = KEPT + CHANGED.format(range=20), RULE
    new = KEPT + CHANGED.format(range=30) + NEW, RULE + NEW_RULE
    run_local(pipeline(*old, "before", on_spark=False), lambda totals: None)

    def stop(totals: Totals) -> None:
        if totals.elements >= 50:
            raise ZeroDivisionError("enough")

    with pytest.raises(Exception, match="enough"):
        run_spark(pipeline(*old, "out", on_spark=True), stop)
    shown = status("ck", "text", quick=True)
    assert "layer 0, query Most: 30 events" in shown, shown
    changed = pipeline(*new, "out", on_spark=True)
    lines = plan(changed)
    assert lines[-1].endswith("The state of 3 of 6 rules and queries moves to a new folder in the checkpoint."), lines
    verdicts = [line for line in lines if line.partition(" ")[0] in ("rule", "query")]
    assert verdicts == [
        "query Fresh starts empty: it is new",
        "rule Low starts empty: it is new",
        "query Many starts empty: it has changed",
        "query Most keeps its state, in another layer or under another key",
        "query Seen keeps its state, in another layer or under another key",
        "rule Top keeps its state, in another layer or under another key",
    ], lines
    run_spark(changed, lambda totals: None)
    there, expected = events("out"), events("before")
    for name in ("Seen", "Most", "Top"):
        assert [each for each in there if each[1] == name] == [each for each in expected if each[1] == name], name
    (first, *_) = [each for each in there if each[1] == "Fresh"]
    assert first[0] >= 150
    last = status("ck", "text", quick=False)
    assert "query Most: 30 events" in last, last
