"""`dotr test`: a failed case has its place, and the reasons of missing and additional events."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://example.org/why#>
query Temp  = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
query Gas   = [ SELECT ?room ?ppm WHERE { ?r :ppm ?ppm ; :in ?room } ]

rule Leak
define Leak = [ dotr_id a :Leak ; :room ?room ]
from Gas [ FILTER(?ppm > 300) ]
and last Temp as Hot [ FILTER(?room = Gas.?room && ?v > 75) ] within 2 min from Gas
with Leak.?room = Gas.?room
"""
HEAD = 'rules: [../why.dotr]\nprefixes: { "": "http://example.org/why#" }\ncases:\n'
HEAT = '{ at: 0, graph: "[] :celsius 80 ; :in :lab ." }'


def failed(project: Project, gas: int, expect: str) -> str:
    """The output for a failing case with heat at 0 and gas at a time."""
    project.write("why.dotr", RULES)
    stream = f'[ {HEAT}, {{ at: {gas}, graph: "[] :ppm 400 ; :in :lab ." }} ]'
    project.write("tests/comfort.yaml", HEAD + f"  - name: stuffy\n    stream: {stream}\n    expect: {expect}\n")
    answer = project.dotr("test", "tests/comfort.yaml")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.endswith("\n\n0 passed, 1 failed\n")
    return answer.out.removesuffix("\n\n0 passed, 1 failed\n")


def test_missing_event_has_the_reason_why_its_rule_did_not_fire(project: Project) -> None:
    assert failed(project, 132, '[ { at: 132, event: Leak, attributes: { room: ":lab" } } ]').splitlines() == [
        "FAILED tests/comfort.yaml:4: stuffy",
        "- expected at 132 Leak",
        "-     room: :lab",
        "    Leak: 1 anchor, 0 after Hot",
        "      Gas at 132, room :lab, ppm 400: nothing for Hot in [12, 132)",
        "        Temp at 0, room :lab, v 80: every condition holds; 132 s before Gas, 12 s too far",
        "      It fires with `within 132 s`.",
    ]


def test_additional_event_has_the_first_level_of_its_reasons(project: Project) -> None:
    lines = failed(project, 60, "[]").splitlines()
    assert lines[:5] == [
        "FAILED tests/comfort.yaml:4: stuffy",
        "+ got      at 60 Leak by Leak",
        "+     room: :lab",
        "+     _:c14n0 :room :lab",
        "+     _:c14n0 a :Leak",
    ]
    headline, anchor, clause = lines[5:]
    assert headline.startswith("    Leak at 60, urn:dotr:")
    assert headline.endswith("why.dotr:5")
    assert anchor == "    ├ from Gas at 60: room :lab, ppm 400; 400 > 300"
    assert clause == "    └ last Hot at 0, 60 s before: room :lab, v 80; :lab = :lab, 80 > 75; the only one"


def test_units_of_other_languages_have_reasons(project: Project) -> None:
    """A LARS file and a unit of EP-SPARQL: an event that is missing, and one that is not expected."""
    prefix = "PREFIX : <http://example.org/why#>\n"
    project.write("hot.lars", prefix + "Hot(?x) :- :celsius(?x, ?v) IN [2 s], FILTER(?v > 75) .\nREPORT Hot(?x) .\n")
    where = "{ ?x :celsius ?v } SEQ { ?x :celsius ?w } FILTER(?w > ?v) WITHIN 5 s"
    project.write("rise.epsparql", f"{prefix}REGISTER QUERY Rise AS SELECT ?x\nWHERE {where}\n")
    stream = '[ { at: 0, graph: ":a :celsius 80 ." }, { at: 3, graph: ":a :celsius 90 ." }, { at: 10, graph: ":b :celsius 70 ." } ]'
    expect = "[ { at: 0, event: Hot }, { at: 10, event: Rise }, { at: 10, event: Hot } ]"
    head = HEAD.replace("../why.dotr", "../hot.lars, ../rise.epsparql")
    project.write("tests/units.yaml", f"{head}  - name: units\n    stream: {stream}\n    expect: {expect}\n")
    answer = project.dotr("test", "tests/units.yaml")
    assert answer.code == 1
    assert answer.out.splitlines()[1:-2] == [
        "+ got      at 3 Rise by Rise",
        "+     x: :a",
        "    Rise at 3: x :a; from 0 to 3                         rise.epsparql:2",
        "    ├ { ?x :celsius ?v } at 0: v 80, x :a                rise.epsparql:3",
        "    │ └ :a :celsius 80                                   tests/units.yaml:5",
        "    ├ { ?x :celsius ?w } at 3: w 90, x :a                rise.epsparql:3",
        "    │ └ :a :celsius 90                                   tests/units.yaml:5",
        "    └ 90 > 80",
        "- expected at 10 Rise",
        "    Rise: 0 events",
        "      { ?x :celsius ?v }: 3 solutions, the last at 10",
        "      { ?x :celsius ?w }: 3 solutions, the last at 10",
        "      SEQ: 1 combination, the last at 3",
        "      after its BINDs, FILTERs and WITHIN: 1 solution, the last at 3",
        "        the whole has solutions, none at the times or with the attributes asked about",
        "- expected at 10 Hot",
        "    Hot: 1 point evaluated, 0 events",
        "      hot.lars:2: at 10, :celsius(?x, ?v) IN [2 s] holds once; with FILTER(?v > 75), never",
        "        70 > 75 is false, or errs",
    ]


def test_time_without_an_element_is_reported(project: Project) -> None:
    assert failed(project, 132, "[ { at: 133, event: Leak } ]").splitlines()[1:] == [
        "- expected at 133 Leak",
        "    No element is at 133, and no rule of this event waits or ticks.",
    ]


def test_unknown_and_unnamed_events_have_no_reason(project: Project) -> None:
    assert failed(project, 132, "[ { at: 132, event: Other } ]").splitlines()[1:] == ["- expected at 132 Other"]
    assert failed(project, 132, '[ { at: 132, graph: "[] a :Leak ." } ]').splitlines()[1:] == [
        "- expected at 132",
        "-     _:c14n0 a :Leak",
    ]


def test_reasons_of_the_first_five_events_are_shown(project: Project) -> None:
    assert failed(project, 132, f"[ {', '.join(['{ at: 132, event: Leak }'] * 7)} ]").count("It fires with") == 5


def test_reasons_in_json(project: Project) -> None:
    failed(project, 132, "[ { at: 132, event: Leak } ]")
    (case,) = json.loads(project.dotr("test", "tests/comfort.yaml", "--format", "json").out)["cases"]
    assert case["findings"][0]["text"] == "- expected at 132 Leak"
    assert case["findings"][0]["explanation"].startswith("Leak: 1 anchor, 0 after Hot\n")


def test_integers_and_decimals_differ(project: Project) -> None:
    rules = RULES.replace(":room ?room ]", ":room ?room ; :v ?v ]")
    project.write("why.dotr", rules.replace("Leak.?room = Gas.?room", "Leak.?room = Gas.?room, Leak.?v = Hot.?v"))
    heat = HEAT.replace("80", "'80'^^<http://www.w3.org/2001/XMLSchema#decimal>")
    stream = f'[ {heat}, {{ at: 60, graph: "[] :ppm 400 ; :in :lab ." }} ]'
    for expect, line in (
        ('{ at: 60, event: Leak, graph: "[] a :Leak ; :room :lab ; :v 80 ." }', '_:c14n0 :v "80"^^xsd:decimal'),
        ('{ at: 60, event: Leak, attributes: { room: ":lab", v: 80 } }', 'v: "80"^^xsd:decimal'),
    ):
        project.write("tests/comfort.yaml", HEAD + f"  - name: stuffy\n    stream: {stream}\n    expect: [ {expect} ]\n")
        out = project.dotr("test", "tests/comfort.yaml").out
        assert f"+     {line}  (the same value, another type)\n" in out
        integer = line.replace('"80"^^xsd:decimal', "80")
        assert f"-     {integer}\n" in out
