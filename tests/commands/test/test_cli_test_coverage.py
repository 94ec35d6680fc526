"""`dotr test --coverage`: the outcomes of rules, conditions and Datalog rules that no case has."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
query Temp = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
query Gas  = [ SELECT ?room ?ppm WHERE { ?r :ppm ?ppm ; :in ?room } ]

rule Leak
define Leak = [ dotr_id a :Leak ; :room ?room ]
from Gas
and last Temp as Hot [ FILTER(?room = Gas.?room) ] within 2 min from Gas
if Hot.?v > 75 || Gas.?ppm > 900
with Leak.?room = Gas.?room
consuming Hot

rule Calm
define Calm = [ dotr_id a :Calm ]
from Gas
and not Temp as Warm within [0, 10 s] from Gas
"""
HEAD = 'rules: [r.dotr]\nprefixes: { "": "http://e/" }\ncases:\n'


def element(at: int, graph: str) -> str:
    return f'{{ at: {at}, graph: "{graph}" }}'


def heat(at: int, room: str = ":lab", v: int = 80) -> str:
    return element(at, f"[] :celsius {v} ; :in {room} .")


def gas(at: int, room: str = ":lab", ppm: int = 400) -> str:
    return element(at, f"[] :ppm {ppm} ; :in {room} .")


def case(name: str, *elements: str) -> str:
    return f"  - {{ name: {name}, stream: [ {', '.join(elements)} ], facts: [] }}\n"


def covered(project: Project, *cases: str, code: int = 1) -> list[str]:
    """The lines on coverage of a test with these cases."""
    project.write("r.dotr", RULES)
    project.write("t.yaml", HEAD + "".join(cases))
    answer = project.dotr("test", "t.yaml", "--coverage")
    assert answer.code == code
    lines = answer.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Leak"))
    return lines[start:-1]


TRIED = (
    case("leak", heat(0), gas(60)),
    case("cool", heat(0, v=20), gas(60)),
    case("elsewhere", heat(0, room=":attic"), gas(60)),
    case("long ago", heat(0), gas(600)),
)


def test_outcomes_that_never_occur_are_listed(project: Project) -> None:
    assert covered(project, *TRIED) == [
        "Leak: 4 anchors, Hot 2, fired 1; never: Hot used up, Gas.?ppm > 900 true",
        "Calm: 4 anchors, not Warm 4, fired 4",
        "Calm: not Warm never refuses",
        "coverage 80 %: 12 of 15 outcomes",
    ]


def test_all_outcomes(project: Project) -> None:
    used_up = case("used up", heat(0), gas(60), gas(70))
    much = case("much", heat(0, v=20), gas(9, ppm=1000))
    assert covered(project, *TRIED, used_up, much) == [
        "Leak: 7 anchors, Hot 4, fired 3",
        "Calm: 7 anchors, not Warm 6, fired 6",
        "coverage 100 %: 15 of 15 outcomes",
    ]


def test_the_example_of_used_up_events(project: Project) -> None:
    much = case("much", heat(0, v=20), gas(60, ppm=1000))
    cool, elsewhere, long_ago = TRIED[1:]
    lines = covered(project, much, cool.replace("20", "76").replace("400", "1"), elsewhere, long_ago)
    assert lines[0] == "Leak: 4 anchors, Hot 2, fired 2; never: Hot used up, (Hot.?v > 75) || (Gas.?ppm > 900) false"
    project.change("r.dotr", "Hot.?v > 75 || Gas.?ppm > 900", "Hot.?v > 75")
    project.write("t.yaml", HEAD + "".join(TRIED))
    assert "\nLeak: 4 anchors, Hot 2, fired 1; never: Hot used up\nCalm: 4" in project.dotr("test", "t.yaml", "--coverage").out


def test_rules_without_an_anchor_and_clauses_that_are_not_reached(project: Project) -> None:
    assert covered(project, case("hot", heat(0))) == [
        "Leak: 0 anchors; nothing of it is tested",
        "Calm: 0 anchors; nothing of it is tested",
        "coverage 0 %: 0 of 15 outcomes",
    ]
    always = covered(project, case("hot", heat(0), gas(0)), case("hotter", heat(0), gas(5)))
    assert always[1:3] == ["Calm: 2 anchors, not Warm 0, fired 0; never: an event", "Calm: not Warm always refuses"]


def test_equal_conditions_are_distinguished_by_their_label(project: Project) -> None:
    each = "from Gas\nand each Temp [ FILTER(?room = Gas.?room) ] within 1 min from Gas\nand not"
    changed = RULES.replace("within [0, 10 s] from Gas", "[ FILTER(?room = Gas.?room) ] within [0, 10 s] from Gas")
    project.write("r.dotr", changed.replace("from Gas\nand not", each))
    project.write("t.yaml", HEAD + case("one", heat(0), gas(5)))
    assert (
        "never: Temp missing, ?room = Gas.?room false, ?room = Gas.?room of Warm false, an event"
        in project.dotr("test", "t.yaml", "--coverage").out
    )


def test_datalog_rules_that_derive_nothing_are_listed(project: Project) -> None:
    rules = ":in(?x, ?z) :- :at(?x, ?y), :in(?y, ?z) .\n:hot(?x, true) :- :celsius(?x, ?v), FILTER(?v > 90) .\n"
    project.write("k.dlog", "PREFIX : <http://e/>\n" + rules)
    project.write("kb.ttl", "@prefix : <http://e/> . :desk :in :lab .")
    project.write("r.dotr", RULES)
    head = HEAD.replace("cases:", "knowledge: { datalog: [k.dlog], graphs: [kb.ttl] }\ncases:")
    project.write("t.yaml", head + case("derived", element(1, ":r :celsius 80 ; :at :desk .")))
    assert "\nk.dlog: 2 rules, 1 derived; never: line 3\ncoverage " in project.dotr("test", "t.yaml", "--coverage").out
    project.write("u.yaml", head + case("hot", heat(0, v=91)))
    assert "\nk.dlog: 2 rules, 2 derived\n" in project.dotr("test", "t.yaml", "u.yaml", "--coverage").out


def test_least_coverage(project: Project) -> None:
    project.write("r.dotr", RULES)
    expected = "expect: [ { at: 60, event: Leak }, { at: 60, event: Calm } ]"
    project.write("t.yaml", HEAD + case("leak", heat(0), gas(60)).replace("facts: []", expected))
    assert project.dotr("test", "t.yaml").code == 0
    enough, less = project.dotr("test", "t.yaml", "--min", "50"), project.dotr("test", "t.yaml", "--coverage", "--min", "90")
    assert (enough.code, enough.err) == (0, "")
    assert (less.code, less.err) == (1, "The coverage is less than 90 % (--min).\n")
    assert "--min: 101 is no percentage" in project.refused("test", "t.yaml", "--min", "101")


def test_coverage_as_json(project: Project) -> None:
    project.write("r.dotr", RULES)
    project.write("t.yaml", HEAD + TRIED[0])
    coverage = json.loads(project.dotr("test", "t.yaml", "--coverage", "--format", "json").out)["coverage"]
    assert (coverage["percent"], coverage["possible"]) == (60, 15)
    assert coverage["rules"][0]["clauses"] == [{"clause": "Hot", "bindings": 1}]
    assert "Hot used up" in coverage["rules"][0]["never"]
    assert "not Warm refuses" in coverage["rules"][1]["never"]


PAUSED = """\
PREFIX : <http://e/>
query Limit = [ SELECT ?room ?most { ?room :most ?most } ]
query Gas   = [ SELECT ?room ?ppm { ?r :ppm ?ppm ; :in ?room } ]
rule Page
define Page = [ [] :room ?room ]
from Gas
and last Limit [ FILTER(?room = Gas.?room) ] before Gas
and last Gas as Now [ FILTER(?room = Gas.?room) ] within [0, 1 min] from Gas
and also last Gas as Then [ FILTER(?room = Gas.?room) ] within [0, 2 min] from Gas
with Page.?room = Gas.?room
once in 10 min per ?room
"""


def paused(project: Project, *stream: str) -> tuple[list[str], dict[str, object]]:
    project.write("r.dotr", PAUSED)
    project.write("t.yaml", HEAD + case("one", element(0, ":lab :most 900 ."), *stream).replace("facts", "facts: [], expect"))
    lines = project.dotr("test", "t.yaml", "--coverage").out.splitlines()
    (rule,) = json.loads(project.dotr("test", "t.yaml", "--coverage", "--format", "json").out)["coverage"]["rules"]
    return [line for line in lines if line.startswith("Page")], rule


def test_firings_held_back_and_second_roles(project: Project) -> None:
    (line,), rule = paused(project, gas(60), gas(90))
    assert line.startswith("Page: 2 anchors, Limit 2, Now 1, Then 1, fired 1, held back 0; never: Limit missing, ")
    assert line.endswith("a firing held back")
    assert "another role" not in line
    assert rule["held_back"] == 0
    (line,), rule = paused(project, gas(60), gas(90), gas(120))
    assert "Now 2, Then 2, fired 1, held back 1; never: " in line
    assert rule["held_back"] == 1
    assert "a firing held back" not in line
    (line,), rule = paused(project, gas(60), gas(90), gas(120), element(5000, "[] :ppm 1 ; :in :attic ."))
    assert "Limit missing" not in line


def test_second_role_that_never_occurs(project: Project) -> None:
    (line,), _ = paused(project, gas(60))
    assert "Then with another role, too" in line
