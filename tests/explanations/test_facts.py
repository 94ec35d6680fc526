"""Tests of the output of `dotr facts`."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from dotr.commands import main

pytestmark = pytest.mark.core

CONFIG = """
name: bms
prefixes: { b: "http://example.org/bms#" }
knowledge: { graphs: [kb/bms.ttl], datalog: [kb/bms.dlog], entailment: owl2rl }
rules: [bms.dotr]
input:
  - { name: export, format: csv, path: data/export.csv, time: at,
      map: '[] a b:Reading ; b:of b:{of} ; b:value "{value}" ; b:unit "C" .' }
output: [{ format: ndjson, path: out/alerts.ndjson }]
"""
RULES = """
PREFIX b: <http://example.org/bms#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
query Temp = [ SELECT ?room ?v WHERE { ?r a b:Measurement ; b:of ?s ; b:value ?t . ?s b:senses ?room
               BIND(xsd:decimal(REPLACE(?t, ",", ".")) AS ?v) } ]
rule Hot define Hot = [ dotr_id a b:Hot ] from Temp as Now [ FILTER(?v > 30) ]
"""


@pytest.fixture
def building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration over a CSV file of two rows, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    for folder in ("kb", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bms.yaml").write_text(CONFIG)
    (tmp_path / "bms.dotr").write_text(RULES)
    (tmp_path / "kb/bms.dlog").write_text("PREFIX b: <http://example.org/bms#>\nb:senses(b:t101, b:room101) .\n")
    (tmp_path / "kb/bms.ttl").write_text(
        "@prefix b: <http://example.org/bms#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        "b:Reading rdfs:subClassOf b:Measurement .\n"
    )
    (tmp_path / "data/export.csv").write_text('at,of,value\n2024-03-01T07:00:00Z,t101,"20,5"\n2024-03-01T07:05:00Z,t102,"21,5"\n')
    return tmp_path


def run_facts(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["facts", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def text(indented: str) -> str:
    return dedent(indented).lstrip("\n")


def test_an_instant_of_a_csv_file(building: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_facts(capsys, "bms.yaml", "--at", "2024-03-01T07:00:00Z") == (
        0,
        text("""
            2024-03-01T07:00:00Z   data/export.csv:2
              given     [] a b:Reading ; b:of b:t101 ; b:value "20,5" ; b:unit "C" .
              derived   [] a b:Measurement (cax-sco)
              known     b:t101 b:senses b:room101 (kb/bms.dlog:2)
                        b:Reading rdfs:subClassOf b:Measurement (kb/bms.ttl)
              Temp      room b:room101, v 20.5
        """),
        "",
    )


def test_the_first_instants(building: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line for line in run_facts(capsys, "bms.yaml")[1].splitlines() if not line.startswith(" ")] == [
        "2024-03-01T07:00:00Z   data/export.csv:2",
        "2024-03-01T07:05:00Z   data/export.csv:3",
    ]
    assert run_facts(capsys, "bms.yaml", "--head", "1")[1].count("given") == 1


def test_an_ad_hoc_query(building: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_facts(capsys, "bms.yaml", "--query", "SELECT ?v ?r WHERE { ?r b:value ?v ; b:of b:t102 }") == (
        0,
        text("""
            2024-03-01T07:05:00Z   data/export.csv:3
              query   v "21,5", r _:r
        """),
        "",
    )


def test_an_ad_hoc_query_without_a_row(building: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_facts(capsys, "bms.yaml", "--query", "SELECT ?v WHERE { ?r b:valeu ?v }", "--at", "2024-03-01T07:05:00Z") == (
        1,
        "",
        text("""
            The query has no row at 1 instant
                at 2024-03-01T07:05:00Z: ?r b:valeu ?v never holds
                  No element brings b:valeu; the elements bring a, b:of, b:unit, b:value. Did you mean b:value?
        """),
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT ?v WHERE { ?r b:value ?v", "--query:1:17: Q102 { is never closed"),
        ("SELECT ?v WHERE { SERVICE <http://e/> { ?r b:value ?v } }", "--query:1:19: Q107 SERVICE is refused"),
        ("SELECT ?v WHERE { ?r b:value ?v FILTER(?v = M.?v) }", "--query:1:45: C219 an ad hoc query has no events of a rule"),
        ("", "--query:1:1: Q106 there is no query here"),
    ],
)
def test_a_wrong_query(building: Path, capsys: pytest.CaptureFixture[str], query: str, message: str) -> None:
    code, out, err = run_facts(capsys, "bms.yaml", "--query", query)
    assert (code, out) == (2, "")
    assert err.startswith(message)


def test_json_has_a_line_for_each_instant(building: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = map(json.loads, run_facts(capsys, "bms.yaml", "--format", "json")[1].splitlines())
    assert first == {
        "time": "2024-03-01T07:00:00Z",
        "elements": ["data/export.csv:2"],
        "given": ['[] a b:Reading ; b:of b:t101 ; b:value "20,5" ; b:unit "C" .'],
        "derived": [{"triple": "[] a b:Measurement", "origin": "cax-sco"}],
        "known": [
            {"triple": "b:t101 b:senses b:room101", "origin": "kb/bms.dlog:2"},
            {"triple": "b:Reading rdfs:subClassOf b:Measurement", "origin": "kb/bms.ttl"},
        ],
        "facts": [{"label": "Temp", "attributes": {"room": "b:room101", "v": "20.5"}}],
        "prefixes": {"b": "http://example.org/bms#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"},
    }
    assert second["facts"] == []


def test_a_time_without_an_instant(building: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_facts(capsys, "bms.yaml", "--at", "2024-03-01T07:01:00Z") == (1, "", "There is no instant at 2024-03-01T07:01:00Z.\n")
    assert run_facts(capsys, "bms.yaml", "--at", "soon")[0] == 2


CASES = """
rules: [r.dotr]
prefixes: { "": "http://example.org/" }
knowledge: { datalog: [r.dlog] }
cases:
  - name: two elements at one time
    expect: []
    stream:
      - { at: 1, graph: "[] :p :a . [] :p [ :q 1 ] ." }
      - { at: 1, graph: ":a :broken true ." }
  - name: many derived triples
    expect: []
    stream: [{ at: 2, graph: ":a :all 1 , 2 , 3 , 4 , 5 , 6 , 7 , 8 , 9 , 10 , 11 , 12 ." }]
"""


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text(CASES)
    (tmp_path / "r.dotr").write_text(
        "PREFIX : <http://example.org/>\nquery LongName = [ SELECT ?y ?x WHERE { ?x :p ?y } ]\n"
        "rule R define R = [ dotr_id a :R ] from LongName as Now [ FILTER(?x = ?y) ]"
    )
    (tmp_path / "r.dlog").write_text(
        "PREFIX : <http://example.org/>\n:thing(:a) .\n:works(?x) :- :thing(?x), NOT :broken(?x, true) .\n:some(?x, ?y) :- :all(?x, ?y) .\n"
        ":thing(:b) .\n"
    )
    return tmp_path


def test_elements_blank_nodes_and_retracted_conclusions(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_facts(capsys, "t.yaml", "--case", "1")[1] == text("""
        1   t.yaml:9-10
          given      _:x :p :a . (t.yaml:9)
                     _:y :q 1 .
                     _:x2 :p _:y .
                     :a :broken true . (t.yaml:10)
          retracted  :a a :works
          known      :a a :thing (r.dlog:2)
          LongName   y :a, x _:x
          LongName   y _:y, x _:x2
    """)


def test_ten_derived_triples_are_shown_unless_all_are_requested(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_facts(capsys, "t.yaml", "--case", "many derived triples")[1]
    assert shown.count("(r.dlog:4)") == 10
    assert "             … 2 more\n" in shown
    assert run_facts(capsys, "t.yaml", "--case", "2", "--derived")[1].count("(r.dlog:4)") == 12


def test_all_cases_have_their_names(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line for line in run_facts(capsys, "t.yaml")[1].splitlines() if not line.startswith(" ")] == [
        "two elements at one time:",
        "1   t.yaml:9-10",
        "many derived triples:",
        "2   t.yaml:13",
    ]


def test_an_inconsistent_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    test = """
rules: [r.dotr]
prefixes: { "": "http://example.org/" }
knowledge: { graphs: [g.ttl], entailment: owl2rl, inconsistent: reject }
cases: [{ name: one, expect: [], stream: [{ at: 1, graph: ":x a :A , :B ." }] }]
"""
    (tmp_path / "g.ttl").write_text(
        "@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix : <http://example.org/> .\n:A owl:disjointWith :B ."
    )
    (tmp_path / "r.dotr").write_text(
        "PREFIX : <http://example.org/>\nrule R define R = [ dotr_id a :R ] from A = [ SELECT ?x WHERE { ?x a :A } ]"
    )
    why = "cax-dw: :A owl:disjointWith :B (background), :x a :A (instant), :x a :B (instant)"
    (tmp_path / "t.yaml").write_text(test)
    assert run_facts(capsys, "t.yaml")[1] == f"1   t.yaml:5\n  given     :x a :A , :B .\n  rejected  {why}\n"
    (tmp_path / "t.yaml").write_text(test.replace("reject }", "report }"))
    assert run_facts(capsys, "t.yaml")[1] == text(f"""
        1   t.yaml:5
          given     :x a :A , :B .
          known     :A owl:disjointWith :B (g.ttl)
          A         x :x
          inconsistent  {why}
    """)


def test_rejected_elements_are_counted(building: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (building / "data/export.csv").open("a") as file:
        file.write('2024-03-01T07:01:00Z,t101,"1"\nnever,t101,"1"\n')
    assert run_facts(capsys, "bms.yaml", "--query", "SELECT ?x WHERE { ?x a b:Reading }")[2] == (
        "2 elements are rejected (1 late, 1 unreadable); `dotr run` writes dead letters.\n"
    )
