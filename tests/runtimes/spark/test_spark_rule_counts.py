"""Counts of rules and of units, and the output of units with a key, on Spark: equal to those of a run in process, over buckets, batches and
restarts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.evaluation.files.stores import Location
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.figures import read_totals
from tests.support.outputs import joined

pytestmark = pytest.mark.spark

HEADER = """PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
"""
STATELESS = """
rule High define High = [ dotr_id1 :high ?room ] from Reading [ FILTER(?v > 90) ] with High.?room = Reading.?room
rule Misspelt define Misspelt = [ [] a :M ] from Wrong = [ SELECT ?r WHERE { ?r :valeu ?v } ]
"""
STATEFUL = """
rule Jump define Jump = [ [] :at ?room ] from Reading as Now
and last Reading as Before [ FILTER(?room = Now.?room) ] within 20 s from Now
and last Reading as Peak [ FILTER(?room = Now.?room && ?v > 95) ] within 5 s from Before
if Now.?v - Before.?v > 80 with Jump.?room = Now.?room
rule Never define Never = [ [] a :N ] from Reading as Now
and last Reading as Before [ FILTER(?room = Now.?room) ] within 20 s from Now if Before.?v > 900
rule Still define Still = [ [] a :S ] from Reading delayed by 3 s
and not Reading as Other [ FILTER(?room = Reading.?room) ] within [0, 9 s] from Reading
rule Falls define Falls = [ [] a :F ] from Reading as Now
and last Reading as Before [ FILTER(?room = Now.?room && ?v > Now.?v + 3) ] within 6 s from Now
rule Rises define Rises = [ [] a :F ] from Reading as Now
and last Reading as Before [ FILTER(?room = Now.?room && ?v > Now.?v + 300) ] within 6 s from Now
rule Again define Again = [ [] a :A ] from Jump and each Jump as Earlier within 30 s from Jump
"""
LARS = """PREFIX : <http://e/>
Warm(?m) :- :level(?m, ?v) IN [LAST 2 PER ?m], FILTER(?v > 50) .
High(?m, ?v) :- :level(?m, ?v) IN [8 s], FILTER(?v > 80) .
Calm(?m) :- :level(?m, ?v) IN [9 s], NOT Warm(?m) .
REPORT Warm(?m) .  REPORT ENDED Warm(?m) AS Cooled .  REPORT High(?m, ?v) AS Peak .  REPORT Calm(?m) .
"""
UNITS = """PREFIX : <http://e/>
REGISTER QUERY Rise AS SELECT ?m ?w WHERE { ?m :level ?v } SEQ { ?m :level ?w } FILTER(?w > ?v + 60) WITHIN 12 s POLICY RECENT
REGISTER QUERY Nothing AS SELECT ?m WHERE EVENT Jump(?room AS ?m) SEQ { ?m :never ?v } WITHIN 9 s
"""
NO_NUMBER = '"n/a"'
LABELS = ("Warm", "Cooled", "Peak", "Calm", "Rise", "Nothing")
CONFIG = """
name: counted
prefixes: {{ "": "http://e/" }}
rules: [{rules}]
input: [{{ name: a, format: ndjson, path: a.ndjson }}]
output: [{{ path: {out} }}]
report: {{ accept: [D501, D502, D503, D315] }}
spark: {{ master: "local[2]", checkpoint: ck, batch: 40 }}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    elements = [
        json.dumps(
            {
                "time": at,
                "graph": f"[] :room :r{at % 5} ; :value {at * 37 % 101 if at % 23 else NO_NUMBER} . :r{at % 5} :level {at * 37 % 101} .",
            }
        )
        for at in range(200)
    ]
    (tmp_path / "a.ndjson").write_text("\n".join([*elements, elements[0]]))
    (tmp_path / "a.lars").write_text(LARS)
    (tmp_path / "u.epsparql").write_text(UNITS)
    return tmp_path


def rule_lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The last lines of a run, on rules and labels."""
    assert main(["run", *arguments]) == 0
    lines = [line.replace(arguments[0], "CONFIG") for line in capsys.readouterr().err.splitlines()]
    return [line for line in lines if line.split()[0].rstrip(":") in ("Rule", *LABELS)]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("rules", "others"), [(STATELESS, []), (STATELESS + STATEFUL, ["a.lars", "u.epsparql"])], ids=["stateless", "stateful"]
)
def test_counts_on_spark_are_those_in_process(rules: str, others: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "r.dotr").write_text(HEADER + rules)
    files = ", ".join(["r.dotr", *others])
    (folder / "spark.yaml").write_text(CONFIG.format(out="out", rules=files))
    (folder / "local.yaml").write_text(CONFIG.format(out="local.ndjson", rules=files) + "engine: local\n")
    pipeline = build(read_config("local.yaml"), fresh=True, on_spark=False)
    assert [placed.unit.name for placed in pipeline.program.layout.units if placed.is_spread] == (
        ["Nothing", "Rise", "a.lars"] if others else []
    )
    expected = run_local(pipeline, lambda totals: None)
    lines = rule_lines(capsys, "local.yaml", "--fresh", "--rules")
    assert len(lines) == len(pipeline.program.unit_names)
    assert sum(" events" in line for line in lines) >= (6 if others else 1)
    if others:
        assert expected.rules["Never"].errors.keys() == {2}
        assert expected.rules["Falls"].errors.keys() == expected.rules["Rises"].errors.keys() == {1}
    assert rule_lines(capsys, "spark.yaml", "--rules") == lines
    assert joined(sorted((folder / "out").iterdir())) == (folder / "local.ndjson").read_text()
    stored = read_totals(Location(str(folder / "ck")))
    assert stored is not None
    assert stored.totals == expected
    assert stored.totals.rules == expected.rules != {}
    assert stored.totals.terms == expected.terms
    assert rule_lines(capsys, "spark.yaml", "--rules") == lines, "a run that reads nothing more reports all runs"
    assert own_counts(capsys) == dict.fromkeys(pipeline.program.unit_names, (0, 0)), "the figures of a run are its own"


def own_counts(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, int]]:
    """Anchors and events of each rule in the last report of a run on Spark."""
    assert main(["run", "spark.yaml", "--progress", "json"]) == 0
    report = json.loads(capsys.readouterr().err.splitlines()[-1])
    return {each["rule"]: (each["anchors"], each["events"]) for each in report["rules"]}
