"""Fault isolation in Spark's workers: dead letters and events equal those in process."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from tests.support.faults import PATCHES
from tests.support.paths import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.fallbacks]

RULES = """
PREFIX : <http://e/>
query Value = [ SELECT ?x WHERE { ?s :v ?x } ]
rule Good define Good = [ [] :x ?x ] from Value as A with Good.?x = A.?x
rule High define High = [ [] :x ?x ] from Value as A [ FILTER(?x > 1) ] and last Value as B within 9 s from A with High.?x = B.?x
rule Higher define Higher = [ [] :x ?x ] from Value as A [ FILTER(?x > 2) ] and last Value as B within 9 s from A with Higher.?x = B.?x
rule Broken "It fails at every anchor."
define Broken = [ [] :x ?x ] from Value as A and ?n = count(*) of Value as B [ FILTER(?x < 99) ] within 3 s from A
with Broken.?x = A.?x, Broken.?n = ?n
rule Above "It reads what the others make, in a layer of its own."
define Above = [ [] :x ?x ] from High and each Good [ FILTER(?x = High.?x) ] within [0, 20 s] from High with Above.?x = Good.?x
rule Hurt define Hurt = [ [] :x ?x ] from H = [ SELECT ?x WHERE { ?s :hurt ?x } ] with Hurt.?x = H.?x
"""
DIRECT = """
PREFIX : <http://e/>
query Value = [ SELECT ?x WHERE { ?s :v ?x } ]
rule Good define Good = [ [] :x ?x ] from Value as A with Good.?x = A.?x
rule High define High = [ [] :x ?x ] from Value as A [ FILTER(?x > 1) ] and last Value as B within [0, 0] from A with High.?x = B.?x
rule Broken define Broken = [ [] :x ?x ] from Value as A and ?n = count(*) of Value as B [ FILTER(?x < 99) ] within [0, 0] from A
with Broken.?x = A.?x, Broken.?n = ?n
rule Above define Above = [ [] :x ?x ] from High as A and each Good [ FILTER(?x != A.?x) ] within [0, 0] from A with Above.?x = A.?x
rule Hurt define Hurt = [ [] :x ?x ] from H = [ SELECT ?x WHERE { ?s :hurt ?x } ] with Hurt.?x = H.?x
"""
CONFIG = """
name: faults
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, path: a.ndjson }}, {{ name: b, format: ndjson, path: b.ndjson, lateness: 3 s }}]
output: [{{ path: {out}/out.ndjson }}]
dead_letter: {out}/dead.ndjson
spark: {{ master: "local[2]", checkpoint: {out}/checkpoint, batch: 40, conf: {{ spark.python.daemon.module: tests.support.faults }} }}
"""


def lines(out: str, name: str) -> list[str]:
    path = Path(out, name)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [line for file in files for line in file.read_text().splitlines()]


@pytest.mark.usefixtures("spark", "no_spark")  # a JVM of its own, since the environment of its workers stays as it was at the start
@pytest.mark.parametrize("rules", [RULES, DIRECT], ids=["with state", "without"])
def test_failures_become_dead_letters_and_the_run_continues(
    rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # where the workers find this module
    monkeypatch.chdir(tmp_path)
    Path("r.dotr").write_text(rules)
    choose = random.Random(3)
    for name in ("a", "b"):
        written = []
        for at in sorted(choose.randrange(60) for _ in range(60)):
            what = ":hurt" if choose.random() < 0.3 else ":v"
            written.append(json.dumps({"time": at, "graph": f"[] {what} {choose.choice([*range(7), 13, 17, 19])} ."}))
        Path(f"{name}.ndjson").write_text("\n".join([*written[:50], "broken", *written[50:]]))
    for out in ("local", "spark"):
        Path(f"{out}.yaml").write_text(CONFIG.format(out=out))
    with monkeypatch.context() as patch:
        for where, name, value in PATCHES:
            patch.setattr(where, name, value)
        local = run_local(build(read_config("local.yaml"), fresh=False, on_spark=False), lambda totals: None)
    caplog.clear()
    spark = run_spark(build(read_config("spark.yaml"), fresh=False, on_spark=True), lambda totals: None)
    assert spark == local
    assert lines("spark", "out.ndjson") == lines("local", "out.ndjson")
    assert sorted(lines("spark", "dead.ndjson")) == sorted(lines("local", "dead.ndjson"))
    assert Path("spark/checkpoint/query/state").exists() == (rules is RULES)
    more = {"Higher"} if rules is RULES else set()
    assert {json.loads(line)["rule"] for line in lines("spark", "out.ndjson")} == {"Good", "High", "Above", "Hurt"} | more
    letters = [json.loads(line) for line in lines("spark", "dead.ndjson")]
    failed = Counter((each["input"], each["error"].partition(":")[0]) for each in letters if each["reason"] == "failed")
    assert failed.keys() == {
        ("a", "RecursionError"),
        ("b", "RecursionError"),
        ("a", "the query of rule Hurt fails"),
        ("b", "the query of rule Hurt fails"),
        ("rule Broken", "rule Broken fails at it"),
        ("rule Above", "rule Above fails at it"),
        ("rule High", "rule High fails at it"),
    } | {(f"rule {name}", f"rule {name} fails at it") for name in more}
    assert failed["rule Broken", "rule Broken fails at it"] > failed["rule High", "rule High fails at it"]
    assert "rule Broken fails at it: ZeroDivisionError: hostile" in caplog.text
