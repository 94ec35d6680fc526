"""Command `dotr why-not`: the situations in which a rule does not fire, each with its output."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

WHY = """\
PREFIX : <http://example.org/why#>
query Temp  = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
query Gas   = [ SELECT ?room ?ppm WHERE { ?r :ppm ?ppm ; :in ?room } ]
query Sensed = [ SELECT ?s WHERE { ?r :by ?s . ?s a :Sensor } ]
query Open  = [ SELECT ?door WHERE { ?o :opens ?door } ]

rule Leak "Gas over 300 ppm within two minutes after more than 75 degrees in the same room."
define Leak = [ dotr_id a :Leak ; :room ?room ; :celsius ?v ; :ppm ?ppm ]
from Gas [ FILTER(?ppm > 300) ]
and last Temp as Hot [ FILTER(?room = Gas.?room && ?v > 75) ] within 2 min from Gas
with Leak.?room = Gas.?room, Leak.?v = Hot.?v, Leak.?ppm = Gas.?ppm
consuming Hot

rule Rise define Rise = [ dotr_id a :Rise ; :room ?room ; :by ?by ]
from Temp as Now and last Temp as Before [ FILTER(?room = Now.?room) ] within 5 min from Now
if Now.?v - Before.?v >= 10 with Rise.?room = Now.?room, Rise.?by = Now.?v - Before.?v
"""
STUCK = """
rule Stuck define Stuck = [ dotr_id a :Stuck ; :door ?door ]
from Open delayed by 10 min and not Open as Other [ FILTER(?door = Open.?door) ] within 10 min from Open
with Stuck.?door = Open.?door
"""
GONE = """
rule Gone define Gone = [ dotr_id a :Gone ; :door ?door ]
from Open delayed by 2 min and not Open as Other [ FILTER(?door = Open.?door) ] within [0, 2 min) from Open
with Gone.?door = Open.?door
"""
CONFIG = """\
name: why
prefixes: { "": "http://example.org/why#" }
rules: [why.dotr]
input:
  - { name: data, format: ndjson, path: in.ndjson }
output:
  - { path: out.ndjson }
"""


FEATURES = """
rule Mean define Mean = [ dotr_id a :Mean ; :room ?room ]
from Gas and ?mean = avg(Temp.?v) of Temp [ FILTER(?room = Gas.?room) ] within 2 min from Gas
and each Temp as Above [ FILTER(?room = Gas.?room && ?v > ?mean + 10) ] within 2 min from Gas
with Mean.?room = Gas.?room

rule Many define Many = [ dotr_id a :Many ; :room ?room ]
from Gas and ?n = count(*) of Temp [ FILTER(?room = Gas.?room) ] within 2 min from Gas
if ?n > 3 && Gas.?ppm > 100
with Many.?room = Gas.?room

rule Calm define Calm = [ dotr_id a :Calm ; :room ?room ]
from every 1 min as Tick and last Temp within [0, 2 min] from Tick
and not Gas [ FILTER(?room = Temp.?room) ] between Temp and Tick
with Calm.?room = Temp.?room

rule Pair define Pair = [ dotr_id a :Pair ; :room ?room ]
from Mean and first 2 Calm [ FILTER(?room = Mean.?room) ] within [1 min, 2 min] from Mean
with Pair.?room = Mean.?room

rule After define After = [ dotr_id a :After ; :room ?room ]
from Calm and each Mean [ FILTER(?room = Calm.?room) ] within 2 min from Calm
with After.?room = Calm.?room

rule Own define Own = [ dotr_id a :Own ; :room ?room ]
from Hot = [ SELECT ?room WHERE { ?r :celsius ?v ; :in ?room FILTER(?v > 90) } ]
with Own.?room = Hot.?room

rule Three define Three = [ dotr_id a :Three ; :room ?room ]
from Gas and last Temp as A [ FILTER(?room = Gas.?room) ] within 2 min from Gas
and last Temp as B [ FILTER(?room = Gas.?room && ?v > A.?v + 5) ] within 2 min from A
with Three.?room = Gas.?room
consuming A, B
"""


def element(time: int | str, graph: str) -> str:
    return json.dumps({"time": time, "graph": graph}) + "\n"


def temp(time: int, value: object, room: str = ":lab") -> str:
    return element(time, f"[] :celsius {value} ; :in {room} .")


def gas(time: int, ppm: int, room: str = ":lab") -> str:
    return element(time, f"[] :ppm {ppm} ; :in {room} .")


def write_project(project: Project, elements: Sequence[str], more: str = "") -> None:
    project.write("why.dotr", WHY + more)
    project.write("why.yaml", CONFIG)
    project.write("in.ndjson", "".join(elements))


NO_RUN = "  This is what a replay does: no outputs and no dead letters of a run are there."


def why_not(project: Project, rule: str, *options: str, code: int = 1) -> list[str]:
    answer = project.dotr("why-not", "why.yaml", "--rule", rule, *options)
    assert (answer.code, answer.err) == (code, "")
    *lines, last = answer.out.rstrip("\n").split("\n")
    return lines if last == NO_RUN else [*lines, last]


def test_candidate_too_far_back(project: Project) -> None:
    write_project(project, [temp(0, 80), gas(132, 400)])
    assert why_not(project, "Leak") == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 132, room :lab, ppm 400: nothing for Hot in [12, 132)",
        "    Temp at 0, room :lab, v 80: every condition holds; 132 s before Gas, 12 s too far",
        "  It fires with `within 132 s`.",
    ]


def test_candidates_with_a_false_condition(project: Project) -> None:
    write_project(project, [temp(0, 75), temp(30, 90, ":attic"), gas(60, 400)])
    assert why_not(project, "Leak") == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 60, room :lab, ppm 400: nothing for Hot among 2 in [-60, 60)",
        "    Temp at 30, room :attic, v 90: ?room = Gas.?room is false (:attic, :lab)              why.dotr:10:31",
        "    Temp at 0, room :lab, v 75: ?v > 75 is false (75)                                     why.dotr:10:52",
        "  It fires with `?v >= 75`.",
    ]


def test_consumed_candidate(project: Project) -> None:
    write_project(project, [temp(0, 80), gas(60, 400), gas(70, 500)])
    assert why_not(project, "Leak", code=0) == [
        "Leak: 2 anchors, 1 after Hot, 1 event",
        "  Gas at 70, room :lab, ppm 500: nothing for Hot among 1 in [-50, 70)",
        "    Temp at 0, room :lab, v 80: every condition holds; used up by the firing at 60 (consuming Hot)",
    ]


def test_candidate_at_the_instant_of_the_anchor(project: Project) -> None:
    write_project(project, [element(60, "[] :celsius 80 ; :in :lab . [] :ppm 400 ; :in :lab .")])
    assert why_not(project, "Leak") == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 60, room :lab, ppm 400: nothing for Hot in [-60, 60)",
        "    Temp at 60, room :lab, v 80: every condition holds; at the anchor's own instant, which `within 2 min` leaves out",
        "  It fires with `within [0, 2 min]`.",
    ]


def test_text_that_is_no_number(project: Project) -> None:
    write_project(project, [temp(0, '"20,5"'), temp(60, '"35,5"')])
    assert why_not(project, "Rise") == [
        "Rise: 2 anchors, 1 after Before, 0 after if (1 error)",
        '  Now at 60, room :lab, v "35,5": Now.?v - Before.?v errs: "35,5" and "20,5" are text. '
        'xsd:decimal(REPLACE(?v, ",", ".")) reads them.',
        '  Now.?v is "35,5" at 60 (in.ndjson:2).',
        '  Before.?v is "20,5" at 0 (in.ndjson:1).',
    ]


def test_text_with_a_decimal_point_has_a_cast(project: Project) -> None:
    write_project(project, [temp(0, '"20.5"'), temp(60, '"35.5"')])
    assert why_not(project, "Rise")[1] == (
        '  Now at 60, room :lab, v "35.5": Now.?v - Before.?v errs: "35.5" and "20.5" are text. xsd:decimal(?v) reads them.'
    )


VALUES = [temp(0, 20), temp(5, 21), temp(5, '"defekt"', ":attic"), temp(60, '"defekt"'), temp(60, '"defekt"', ":attic"), temp(120, 31)]
CLAUSES = """
query Own = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
rule Peak define Peak = [ dotr_id a :Peak ] from Temp as Now
and ?max = max(Past.?v) of Temp as Past [ FILTER(?room = Now.?room) ] within 5 min from Now if Now.?v > 2 * ?max
rule Total define Total = [ dotr_id a :Total ] from Temp as Now
and ?all = sum(Past.?v) of Temp as Past [ FILTER(?room = Now.?room) ] within 5 min from Now if ?all > 90
rule Fell define Fell = [ dotr_id a :Fell ] from Temp as Now
and last Temp as Past [ FILTER(?room = Now.?room) FILTER(?v > Now.?v + 5) ] within 5 min from Now
rule High define High = [ dotr_id a :High ] from Temp as Now [ FILTER(?v > 99) ]
rule Copy define Copy = [ dotr_id a :Copy ] from Temp with Copy.?room = Temp.?room, Copy.?w = Temp.?v
rule Late define Late = [ dotr_id a :Late ] from Copy and each Copy as Past [ FILTER(?w > 1 + Copy.?w) ] within 5 min from Copy
rule Half define Half = [ dotr_id a :Half ] from Half0 = [ SELECT ?room ?v WHERE { ?r :in ?room OPTIONAL { ?r :volt ?v } } ] if Half0.?v > 5
"""


@pytest.mark.parametrize(
    ("rule", "at", "told"),
    [
        ("Peak", 60, ['Now.?v is "defekt" at 60 (in.ndjson:4)']),
        ("Peak", 120, ['Past.?v is "defekt" at 60 (in.ndjson:4)']),
        ("Total", 120, ['Past.?v is "defekt" at 60 (in.ndjson:4)']),
        ("Fell", 60, ['Now.?v is "defekt" at 60 (in.ndjson:4)']),
        ("Fell", 120, ['Past.?v is "defekt" at 60 (in.ndjson:4)']),
        ("High", 5, ['Now.?v is "defekt" at 5 (in.ndjson:3)']),
        ("Late", 60, ['Copy.?w is "defekt" at 60 (in.ndjson:4)']),
        ("Half", 120, ["Half0.?v is unbound at 120 (in.ndjson:6)"]),
        ("Fell", 5, []),
    ],
)
def test_value_with_which_a_condition_is_an_error_has_its_place(project: Project, rule: str, at: int, told: list[str]) -> None:
    write_project(project, VALUES, CLAUSES)
    where = ["--where", "room=:lab"] if at == 60 else []
    lines = why_not(project, rule, "--at", str(at), *where)
    assert [line.strip().removesuffix(".") for line in lines if "in.ndjson:" in line] == told


def test_json_of_an_error_has_the_place(project: Project) -> None:
    write_project(project, VALUES, CLAUSES)
    found = json.loads("\n".join(why_not(project, "Peak", "--at", "120", "--format", "json")))
    assert found["not_fired"][0]["erring"] == [{"label": "Past", "name": "v", "place": "in.ndjson:4"}]


def test_if_does_not_change_what_last_selects(project: Project) -> None:
    write_project(project, [temp(0, 20), temp(60, 27), temp(120, 31)])
    assert why_not(project, "Rise") == [
        "Rise: 3 anchors, 2 after Before, 0 after if",
        "  Now at 120, room :lab, v 31: 31 - 27 >= 10 is false; Before is the last one, at 60. It would hold with that at 0 (v 20).",
        "  What chooses stands in the clause: last Temp as Before [ FILTER(?room = Now.?room && ?v <= Now.?v - 10) ]",
    ]


def test_negation_matches_its_own_anchor(project: Project) -> None:
    write_project(project, [element(0, "[] :opens :gate .")], STUCK)
    assert why_not(project, "Stuck") == [
        "Stuck: 1 anchor, 0 after not Other",
        "  Open at 0, door :gate, stands at 600: refused by itself, 600 s before. It fires with `within [0, 10 min)`.",
    ]


def test_delayed_anchor_is_not_yet_due(project: Project) -> None:
    write_project(project, [], GONE)
    growing = "\n".join(f"  - {{ name: {name}, format: ndjson, path: '{name}*.ndjson', watch: true }}" for name in ("doors", "weather"))
    project.change("why.yaml", "  - { name: data, format: ndjson, path: in.ndjson }", growing)
    project.write("doors.ndjson", element(120, "[] :opens :gate .") + element(180, ""))
    project.write("weather.ndjson", element(100, "") + element(130, ""))
    assert why_not(project, "Gone") == [
        "Gone: 1 anchor waits until 240. All is closed up to 130: input weather has passed no more, "
        "and holds the others, which have passed 180 (`idle` lets them go)."
    ]


JUMP = """
rule Jump define Jump = [ dotr_id a :Jump ; :room ?room ]
from Temp as Now and last Temp as Before [ FILTER(?room = Now.?room) ] within 5 min from Now
if Now.?v - Before.?v >= 10 with Jump.?room = Now.?room
"""


def test_event_whose_anchor_is_not_yet_due(project: Project) -> None:
    reader = "rule Reads define Reads = [ dotr_id a :Reads ] from Gone\n"
    write_project(project, [element(120, "[] :opens :gate ."), element(130, "")], GONE + reader)
    project.change("why.yaml", "path: in.ndjson }", "path: '*.ndjson', watch: true }")
    assert why_not(project, "Reads")[1:] == [
        "  There is no event Gone here: dotr why-not why.yaml --rule Gone",
        "  Gone: 1 anchor waits until 240. All is closed up to 130: input data has passed no more.",
    ]
    assert "Gone: 1 anchor waits until 240" in "".join(why_not(project, "Reads", "--where", "door=:gate"))
    assert "waits" not in "".join(why_not(project, "Reads", "--where", "door=:door"))


def test_late_elements_that_would_have_been_anchors(project: Project) -> None:
    write_project(project, [], JUMP)
    project.change(
        "why.yaml",
        "format: ndjson, path: in.ndjson",
        'format: csv, path: export.csv, time: time, map: "[] :celsius {celsius} ; :humidity {humidity} ; :in :lab ."',
    )
    rows = ["0,20,", "100,27,", "200,31,", "150,50,", "160,24,", "120,,60", "130,,61", "140,,62"]
    project.write("export.csv", "\n".join(["time,celsius,humidity", *rows]) + "\n")
    assert why_not(project, "Jump")[0] == (
        "Jump: 3 anchors, 2 after Before, 0 after if. "
        "Of 5 late elements (dead letters), 2 would have been anchors, and export.csv:5 would have fired."
    )


UP = """
query T = [ SELECT ?x WHERE { ?r :up ?x } ]
rule Up define Up = [ dotr_id a :Up ; :x ?x ]
from T as A and last T as B within 5 min from A
with Up.?x = A.?x
"""


def test_unit_of_times_is_questioned(project: Project) -> None:
    write_project(project, [element(1704067200000, "[] :up :a ."), element(1704067260000, "[] :up :a .")], UP)
    assert why_not(project, "Up") == [
        "Up: 2 anchors, 0 after B. T at 1704067200000 is 60000 s before, 59700 s too far. "
        "Are times beyond the year 3000 milliseconds? time: { unit: ms }"
    ]


def features(project: Project) -> None:
    write_project(project, [temp(0, 40), temp(20, 50), gas(30, 100), temp(60, 44), gas(70, 120), gas(150, 130)], FEATURES)


def test_aggregate_in_a_later_constraint(project: Project) -> None:
    features(project)
    assert why_not(project, "Mean") == [
        "Mean: 3 anchors, 3 after ?mean, 0 after Above",
        "  Gas at 150, room :lab, ppm 130: nothing for Above among 1 in [30, 150)",
        '    Temp at 60, room :lab, v 44: ?v > ?mean + 10 is false (44, "44"^^xsd:decimal)         why.dotr:20:54',
        '    Temp at 20, room :lab, v 50: ?v > ?mean + 10 is false (50, "44"^^xsd:decimal)         why.dotr:20:54',
        "      130 s before Gas, 10 s too far",
        '    Temp at 0, room :lab, v 40: ?v > ?mean + 10 is false (40, "44"^^xsd:decimal)          why.dotr:20:54',
        "      150 s before Gas, 30 s too far",
    ]


def test_aggregate_in_the_condition(project: Project) -> None:
    features(project)
    assert why_not(project, "Many") == [
        "Many: 3 anchors, 3 after ?n, 0 after if",
        "  Gas at 150, room :lab, ppm 130: ?n > 3 is false (1). It fires with `?n >= 1`.",
        "    ?n is 1, of 1 Temp in [30, 150)",
    ]


def test_negation_between_events_with_ticks(project: Project) -> None:
    features(project)
    assert why_not(project, "Calm", code=0) == [
        "Calm: 3 anchors, 3 after Temp, 2 after not Gas, 2 events",
        "  Tick at 120; Temp at 60, room :lab, v 44: refused by 1 between 60 and 120",
        "    Gas at 70, room :lab, ppm 120: every condition holds: ?room = Temp.?room (:lab, :lab); 50 s before Tick",
    ]


def test_events_of_other_rules(project: Project) -> None:
    features(project)
    made = "  There is no event Mean here: dotr why-not why.yaml --rule Mean"
    assert why_not(project, "Pair") == ["Pair: 0 anchors", made]
    assert why_not(project, "After") == [
        "After: 2 anchors, 0 after Mean",
        "  Calm at 60, room :lab: nothing for Mean in [-60, 60)",
        made,
    ]


def test_facts_that_the_filter_of_their_query_rejects(project: Project) -> None:
    features(project)
    assert why_not(project, "Own") == [
        "Own: 0 anchors (of 3 Hot)",
        "  Hot at 60, room :lab: ?v > 90 is false (44)                                             why.dotr:42:69",
        "  Hot at 20, room :lab: ?v > 90 is false (50)                                             why.dotr:42:69",
        "  Hot at 0, room :lab: ?v > 90 is false (40)                                              why.dotr:42:69",
        "  It fires with `?v >= 50`, or with `?v >= 44`.",  # 44 cuts the bound of 90 by more than half
    ]


def test_every_anchor_that_did_not_fire(project: Project) -> None:
    features(project)
    found = why_not(project, "Three", "--all", code=0)
    assert found == [
        "Three: 3 anchors, 2 after A, 1 after B, 1 event",
        "  Gas at 30, room :lab, ppm 100; A at 20, room :lab, v 50: nothing for B among 1 in [-100, 20)",
        "    Temp at 0, room :lab, v 40: ?v > A.?v + 5 is false (40, 50)                           why.dotr:47:50",
        "  Gas at 150, room :lab, ppm 130: nothing for A among 1 in [30, 150)",
        "    Temp at 60, room :lab, v 44: every condition holds; used up by the firing at 70 (consuming A)",
        "    Temp at 20, room :lab, v 50: every condition holds; 130 s before Gas, 10 s too far",
        "    Temp at 0, room :lab, v 40: every condition holds; 150 s before Gas, 30 s too far",
    ]
    assert why_not(project, "Three", code=0) == found[:3]


def test_times_and_attributes_select_anchors(project: Project) -> None:
    features(project)
    funnel = "Three: 1 anchor, 1 after A, 0 after B"
    assert why_not(project, "Three", "--at", "30")[0] == funnel
    assert why_not(project, "Three", "--from", "30", "--to", "69")[0] == funnel
    assert why_not(project, "Three", "--where", "ppm=100.0", "--where", "room=:lab")[0] == funnel
    assert why_not(project, "Three", "--at", "70", code=0) == ["Three: 1 anchor, 1 after A, 1 after B, 1 event"]
    assert why_not(project, "Three", "--at", "31") == ["Three: 0 anchors", "  There is no instant at 31: the nearest are 30 and 60."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rule", "Leek"], "C219 there is no rule Leek\nDid you mean Leak?"),
        (["--rule", "Leak", "--at", "soon"], "C219 --at: 'soon' is neither an integer nor an ISO 8601 date-time"),
        (["--rule", "Leak", "--at", "1", "--to", "2"], "C219 --at is one time, --from and --to are a range"),
        (["--rule", "Leak", "--where", "rom=:lab"], "C219 Gas has no attribute rom\nDid you mean room?"),
        (["--rule", "Leak", "--where", "room"], "C219 --where room has no ="),
        (["--rule", "Leak", "--where", "room=lab"], "C219 lab is no term"),
    ],
)
def test_questions_with_unknown_names_are_refused(project: Project, options: list[str], message: str) -> None:
    write_project(project, [temp(0, 80)])
    answer = project.dotr("why-not", "why.yaml", *options)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(message)


def test_no_element_can_be_read(project: Project) -> None:
    write_project(project, ["broken\n", "broken\n"])
    first, second = why_not(project, "Leak")
    assert first == "Leak: 0 anchors"
    assert second.startswith("  There is no instant: all 2 elements are dead letters, the first in.ndjson:1: ")


def test_cases_of_a_rule_test(project: Project) -> None:
    answer = project.dotr("why-not", "t.yaml", "--rule", "R")
    assert (answer.code, answer.out) == (0, "R: 1 anchor, 1 event\n")


def test_answer_as_json(project: Project) -> None:
    write_project(project, [temp(0, 75), gas(60, 400)])
    answer = project.dotr("why-not", "why.yaml", "--rule", "Leak", "--format", "json")
    found = json.loads(answer.out)
    assert (answer.code, found["rule"], found["fired"]) == (1, "Leak", False)
    assert found["funnel"] == {"anchors": 1, "steps": [{"after": "Hot", "bindings": 0}], "errors": 0, "events": 0}
    [anchor] = found["not_fired"]
    assert (anchor["time"], anchor["attributes"], anchor["fires_with"]) == (60, {"room": ":lab", "ppm": "400"}, "?v >= 75")
    [candidate] = anchor["candidates"]
    assert candidate["conditions"] == [{"text": "?v > 75 is false (75)", "holds": False, "place": "why.dotr:10:52"}]


def test_rule_over_a_limit(project: Project) -> None:
    each = """
rule Around define Around = [ dotr_id a :Around ; :v ?v ]
from Gas and each Temp within 2 min from Gas
with Around.?v = Temp.?v
"""
    write_project(project, [temp(0, 1), temp(1, 2), temp(2, 3), gas(3, 1)], each)
    project.write("why.yaml", CONFIG + "limits: { matches: 2 }\n")
    assert why_not(project, "Around") == [
        "Around: 1 anchor, 0 after Temp",
        "  Gas at 3, room :lab, ppm 1: 3 Temp in [-117, 3), more than `limits: { matches }` allows.",
        "  The rule goes over a limit at 3: more than 2 matches of a branch, at the clause each Temp.",
    ]


def test_discarded_history_does_not_change_the_answer(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The explained anchor and the consumed events are the same as with the whole history."""
    elements = [temp(0, 75), gas(10, 400)]
    for start in range(1000, 21000, 1000):
        elements += [temp(start, 80), gas(start + 1, 400), gas(start + 2, 400)]
    elements += [temp(30000 + number, 20) for number in range(30)]
    write_project(project, elements)
    whole = why_not(project, "Leak", code=0)
    assert whole[:3] == [
        "Leak: 41 anchors, 20 after Hot, 20 events",
        "  Gas at 20002, room :lab, ppm 400: nothing for Hot among 1 in [19882, 20002)",
        "    Temp at 20000, room :lab, v 80: every condition holds; used up by the firing at 20001 (consuming Hot)",
    ]
    monkeypatch.setattr("dotr.explanations.why_not.survey._MOST_EVENTS", 20)
    assert why_not(project, "Leak", code=0)[:3] == whole[:3]


def test_attributes_select_among_the_anchors_of_one_instant(project: Project) -> None:
    write_project(project, [temp(0, 80), element(60, "[] :ppm 400 ; :in :lab . [] :ppm 400 ; :in :attic .")])
    assert why_not(project, "Leak", "--where", "room=:lab", code=0) == ["Leak: 1 anchor, 1 after Hot, 1 event"]
    assert why_not(project, "Leak", "--where", "room=:attic")[:3] == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 60, room :attic, ppm 400: nothing for Hot among 1 in [-60, 60)",
        "    Temp at 0, room :lab, v 80: ?room = Gas.?room is false (:lab, :attic)                 why.dotr:10:31",
    ]


def test_a_fact_beside_the_anchor_is_no_anchor(project: Project) -> None:
    write_project(project, [element(60, "[] :ppm 400 ; :in :lab . [] :ppm 250 ; :in :attic .")])
    assert why_not(project, "Leak")[:2] == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 60, room :lab, ppm 400: nothing for Hot in [-60, 60)",
    ]


ONCE = """
rule Page define Page = [ dotr_id a :Page ; :room ?room ]
from Temp [ FILTER(?v > 75) ] with Page.?room = Temp.?room once in 1 min per ?room

rule Alarm define Alarm = [ dotr_id a :Alarm ] from Temp [ FILTER(?v > 75) ] once in 0

rule Cooled define Cooled = [ dotr_id a :Cooled ; :room ?room ]
from Temp [ FILTER(?v > 0) ] delayed by Temp.?v at most 1 min
and not Gas [ FILTER(?room = Temp.?room) ] within [0, 1 min] from Temp
with Cooled.?room = Temp.?room
"""


def test_firing_that_once_holds_back(project: Project) -> None:
    write_project(project, [temp(0, 80), temp(30, 90), temp(60, 99), temp(70, 99, ":attic")], ONCE)
    assert why_not(project, "Page", code=0) == [
        "Page: 4 anchors, 1 held back by once, 3 events",
        "  Temp at 30, room :lab, v 90: held back by Page at 0 (?room :lab), until 60.",
    ]
    assert why_not(project, "Page", "--at", "60", code=0)[0] == "Page: 1 anchor, 1 event"


def test_firing_that_another_one_of_its_moment_holds_back(project: Project) -> None:
    write_project(project, [temp(5, 80), temp(5, 90)], ONCE)
    assert why_not(project, "Alarm", code=0) == [
        "Alarm: 2 anchors, 1 held back by once, 1 event",
        "  Temp at 5, room :lab, v 90: held back by Alarm at 5, at the same moment.",
    ]


def test_anchor_that_is_delayed_by_a_value(project: Project) -> None:
    """The gas at 20 is in the minute before 0 + 30, and in that before 21 + 50."""
    write_project(project, [temp(0, 30), gas(20, 5), temp(21, 50), temp(22, "'warm'"), gas(200, 5)], ONCE)
    assert why_not(project, "Cooled")[:2] == [
        "Cooled: 2 anchors, 0 after not Gas",
        "  Temp at 21, room :lab, v 50, stands at 71: refused by 1 in [11, 71]",
    ]


def test_value_that_is_no_delay_is_no_anchor(project: Project) -> None:
    write_project(project, [temp(0, 61), gas(200, 5)], ONCE)
    assert why_not(project, "Cooled") == [
        "Cooled: 0 anchors (of 1 Temp)",
        "  Temp at 0, room :lab, v 61, stands at 0: Temp.?v is no delay of at most 1 min (61)",
        "  Temp.?v is 61 at 0 (in.ndjson:1).",
    ]


PUMPS = """
query Flow = [ SELECT ?pump ?bar WHERE { ?r :at ?pump ; :bar ?bar . ?pump :mode :on ; :hall ?hall } ]
rule High define High = [ dotr_id a :High ; :pump ?p ] from Flow with High.?p = Flow.?pump
rule Later define Later = [ dotr_id a :Later ; :pump ?q ] from High delayed by 5 s with Later.?q = High.?p
rule Scaled define Scaled = [ dotr_id a :Scaled ]
from Twice = [ SELECT ?pump (?bar * 2 AS ?double) WHERE { ?r :at ?pump ; :bar ?bar } ]
rule Either define Either = [ dotr_id a :Either ]
from One = [ SELECT ?pump ?bar WHERE { ?r :at ?pump OPTIONAL { ?r :bar ?bar FILTER(?bar > 5) } } ]
"""


def write_pumps(project: Project) -> None:
    project.write("hall.ttl", "@prefix : <http://example.org/why#> . :p1 :hall :h1 . :p2 :hall :h2 .")
    write_project(
        project,
        [
            element(1, "[] :at :p1 ; :bar 3 . :p1 :mode :off ."),
            element(2, "[] :at :p2 ; :bar 4 . :p2 :mode :on ."),
            element(3, "[] :at :p1 ; :bar 5.0 . :p1 :mode :off ."),
            element(4, "[] :at :p3 ; :bar 7 . :p3 :mode :on ."),
        ],
        PUMPS,
    )
    project.change("why.yaml", "rules:", "knowledge: { graphs: [hall.ttl] }\nrules:")


def test_requested_term_with_the_triple_that_is_there_instead(project: Project) -> None:
    write_pumps(project)
    expected = [
        "    at 3: ?r :at :p1 ; :bar ?bar . :p1 :hall ?hall holds 1 time; with :p1 :mode :on, never: :p1 :mode :off is there instead"
    ]
    assert why_not(project, "High", "--where", "pump=:p1") == [
        "High: 0 anchors (Flow has no fact with ?pump = :p1 at 4 instants)",
        *expected,
    ]
    assert why_not(project, "High", "--where", "p=:p1")[1:] == expected  # the name of the event's attribute
    assert why_not(project, "High", "--where", "pump=:p1", "--at", "1")[1] == expected[0].replace("at 3", "at 1")


def test_requested_term_that_the_background_lacks_or_nothing_has(project: Project) -> None:
    write_pumps(project)
    assert why_not(project, "High", "--where", "pump=:p3")[1:] == [
        "    at 4: ?r :at :p3 ; :bar ?bar . :p3 :mode :on holds 1 time; with :p3 :hall ?hall, never"
    ]
    answer = why_not(project, "High", "--where", "pump=:p9")
    assert answer[-1] == "      :p9 occurs nowhere: neither an element nor the background has it."
    assert not any(":p1" in line or ":p2" in line for line in answer)


def test_requested_term_of_an_event_is_that_of_the_query_behind_it(project: Project) -> None:
    write_pumps(project)
    assert why_not(project, "Later", "--where", "p=:p1")[-2:] == [
        "    at 3: ?r :at :p1 ; :bar ?bar . :p1 :hall ?hall holds 1 time; with :p1 :mode :on, never: :p1 :mode :off is there instead",
        "  There is no event High with p :p1 here: dotr why-not why.yaml --rule High --where pump=:p1",
    ]


def test_requested_number_equals_those_of_the_data(project: Project) -> None:
    write_pumps(project)
    assert why_not(project, "High", "--where", "bar=5")[-1].startswith("    at 3: ?r :at ?pump ; :bar 5.0 .")


def test_requested_term_that_a_query_computes_or_leaves_unbound(project: Project) -> None:
    write_pumps(project)
    assert why_not(project, "Scaled", "--where", "pump=:p2", "--where", "double=9")[1:] == [
        "    at 2: ?r :at :p2 ; :bar ?bar holds 1 time, never with ?double = 9: ?double is 8"
    ]
    assert why_not(project, "Either", "--where", "bar=4")[1:] == [
        "    at 2: ?r :at ?pump . ?r :bar 4 holds 1 time; FILTER(?bar > 5) is false (4)   why.dotr:24:84"
    ]


def test_elements_that_the_run_rejected_and_events_that_it_wrote(project: Project) -> None:
    write_pumps(project)
    assert project.dotr("why-not", "why.yaml", "--rule", "High", "--where", "pump=:p1").out.endswith(f"\n{NO_RUN}\n")
    assert project.dotr("run", "why.yaml", "--engine", "local", "--quiet").code == 0
    assert why_not(project, "High", "--where", "pump=:p2", code=0)[-1] == "  The run wrote this event: out.ndjson:4."
    project.write("out.ndjson", "")
    assert why_not(project, "High", "--where", "pump=:p2", code=0)[-1] == "  The run wrote no such event to out.ndjson."
    letter = {"reason": "idle", "input": "data", "file": "elsewhere/in.ndjson", "line": 2, "time": 2, "text": "", "error": "late"}
    project.write("bad.ndjson", json.dumps(letter) + "\n")
    project.change("why.yaml", "output:", "dead_letter: bad.ndjson\noutput:")
    assert "  The run rejected this element (idle, elsewhere/in.ndjson:2)." in why_not(project, "High", "--where", "pump=:p2", code=0)
    assert "  The run rejected this element (idle, elsewhere/in.ndjson:2)." in why_not(project, "High", "--at", "2", code=0)
    assert not any("rejected" in line for line in why_not(project, "High", "--where", "pump=:p1"))
    answer = project.dotr("why-not", "why.yaml", "--rule", "High", "--at", "2", "--format", "json")
    assert json.loads(answer.out)["run"][0] == "The run rejected this element (idle, elsewhere/in.ndjson:2)."


def test_rejected_element_that_the_recording_of_the_run_lacks(project: Project) -> None:
    """A dead letter by its time is in no replay: the text that it keeps tells whether it is of the requested entity."""
    write_pumps(project)
    late = [element(9, "[] :at :p9 ; :bar 1 ."), element(2, "[] :at :p7 ; :bar 3 .")]
    project.write("in.ndjson", project.read("in.ndjson") + "".join(late))
    number = project.read("in.ndjson").count("\n")
    project.change("why.yaml", "output:", "dead_letter: bad.ndjson\nrecord: run.ndjson\noutput:")
    assert project.dotr("run", "why.yaml", "--engine", "local", "--quiet").code == 0
    for recording in ([], ["--recording", "run.ndjson"]):
        told = why_not(project, "High", "--where", "pump=:p7", *recording)
        assert f"  The run rejected this element (late, in.ndjson:{number})." in told
        assert not any("run rejected" in each for each in why_not(project, "High", "--where", "pump=:p8", *recording))


def test_event_of_a_delayed_anchor_is_at_two_times(project: Project) -> None:
    """At the time of its anchor and at its own; between them another event is asked of."""
    write_project(project, [temp(1, 80), gas(2, 3), temp(30, 80)], "rule Slow define Slow = [ [] a :Slow ] from Temp delayed by 20 s\n")
    assert project.dotr("run", "why.yaml", "--engine", "local", "--quiet").code == 0
    wrote = [any("wrote this event" in line for line in why_not(project, "Slow", "--at", str(at), code=code)) for at, code in AT]
    assert wrote == [code == 0 for _, code in AT]


AT = [(0, 1), (1, 0), (2, 1), (20, 1), (21, 0), (25, 1), (30, 0)]
"""Times, and the exit codes of `why-not` at them."""
