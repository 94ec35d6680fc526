"""Dead letters of every reason: each line has its error, and stderr has the first three of each."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.model.stream import Reason

pytestmark = pytest.mark.core

RULES = """PREFIX : <http://e/>
rule R define C = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and each B = [ SELECT ?y WHERE { ?s :v ?y } ] within 9 s from A with C.?x = B.?y
"""
CONFIG = """
name: dead
prefixes: { '': 'http://e/' }
rules: [r.dotr]
knowledge: { graphs: [k.ttl], entailment: owl2rl, inconsistent: reject }
input: [{ name: a, format: ndjson, path: a.ndjson, one_per_instant: true }]
output: [{ path: out.ndjson }]
dead_letter: dead.ndjson
engine: local
limits: { matches: 1 }
"""
BACKGROUND = """@prefix : <http://e/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
:Hot owl:disjointWith :Cold .
"""


def test_every_reason_has_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [(1, "[] :v 1 ."), (2, "[] :v 2 ."), (3, "[] :v 3 ."), (9, "[] a :Hot, :Cold .")]
    lines += [(3, "[] :v 4 .")] * 5 + [(9, "[] :v 5 .")] * 5 + [(time, "broken") for time in range(10, 15)]
    Path("a.ndjson").write_text("".join(json.dumps({"time": time, "graph": graph}) + "\n" for time, graph in lines))
    Path("r.dotr").write_text(RULES)
    Path("k.ttl").write_text(BACKGROUND)
    Path("c.yaml").write_text(CONFIG)
    assert main(["run", "c.yaml"]) == 0
    told = capsys.readouterr().err
    letters = list(map(json.loads, Path("dead.ndjson").read_text().splitlines()))
    found = Counter(letter["reason"] for letter in letters)
    assert found == {"late": 5, "second": 5, "unreadable": 5, "inconsistent": 1, "limit": found["limit"]}
    assert found["limit"]
    for letter in letters:
        assert letter["error"]
    for reason in map(Reason, found):
        errors = [letter["error"] for letter in letters if letter["reason"] == reason.value]
        shown = [line for line in told.splitlines() if f"dead letter ({reason.value}): " in line]
        assert [line.partition(f"dead letter ({reason.value}): ")[2] for line in shown] == errors[:3]
