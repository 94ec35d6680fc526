"""Command `dotr why-not`: the situations in which a rule does not fire, each with its words."""

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


def element(time: int | str, graph: str) -> str:
    return json.dumps({"time": time, "graph": graph}) + "\n"


def temp(time: int, value: object, room: str = ":lab") -> str:
    return element(time, f"[] :celsius {value} ; :in {room} .")


def gas(time: int, ppm: int, room: str = ":lab") -> str:
    return element(time, f"[] :ppm {ppm} ; :in {room} .")


def written(project: Project, elements: Sequence[str], more: str = "") -> None:
    project.write("why.dotr", WHY + more)
    project.write("why.yaml", CONFIG)
    project.write("in.ndjson", "".join(elements))


def asked(project: Project, rule: str, *options: str, code: int = 1) -> list[str]:
    answer = project.dotr("why-not", "why.yaml", "--rule", rule, *options)
    assert (answer.code, answer.err) == (code, "")
    return answer.out.rstrip("\n").split("\n")


def test_too_old(project: Project) -> None:
    written(project, [temp(0, 80), gas(132, 400)])
    assert asked(project, "Leak") == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 132, room :lab, ppm 400: nothing for Hot in [12, 132)",
        "    Temp at 0, room :lab, v 80: every condition holds; 132 s before Gas, 12 s too far",
        "  It fires with `within 132 s`.",
    ]


def test_a_bound_and_another_room(project: Project) -> None:
    written(project, [temp(0, 75), temp(30, 90, ":attic"), gas(60, 400)])
    assert asked(project, "Leak") == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 60, room :lab, ppm 400: nothing for Hot among 2 in [-60, 60)",
        "    Temp at 30, room :attic, v 90: ?room = Gas.?room is false (:attic, :lab)              why.dotr:10:31",
        "    Temp at 0, room :lab, v 75: ?v > 75 is false (75)                                     why.dotr:10:52",
        "  It fires with `?v >= 75`.",
    ]


def test_used_up(project: Project) -> None:
    written(project, [temp(0, 80), gas(60, 400), gas(70, 500)])
    assert asked(project, "Leak", code=0) == [
        "Leak: 2 anchors, 1 after Hot, 1 event",
        "  Gas at 70, room :lab, ppm 500: nothing for Hot among 1 in [-50, 70)",
        "    Temp at 0, room :lab, v 80: every condition holds; used up by the firing at 60 (consuming Hot)",
    ]


def test_one_instant(project: Project) -> None:
    written(project, [element(60, "[] :celsius 80 ; :in :lab . [] :ppm 400 ; :in :lab .")])
    assert asked(project, "Leak") == [
        "Leak: 1 anchor, 0 after Hot",
        "  Gas at 60, room :lab, ppm 400: nothing for Hot in [-60, 60)",
        "    Temp at 60, room :lab, v 80: every condition holds; at the anchor's own instant, which `within 2 min` leaves out",
        "  It fires with `within [0, 2 min]`.",
    ]


def test_text_that_is_no_number(project: Project) -> None:
    written(project, [temp(0, '"20,5"'), temp(60, '"35,5"')])
    assert asked(project, "Rise") == [
        "Rise: 2 anchors, 1 after Before, 0 after if (1 error)",
        '  Now at 60, room :lab, v "35,5": Now.?v - Before.?v errs: "35,5" and "20,5" are text. '
        'xsd:decimal(REPLACE(?v, ",", ".")) reads them.',
    ]


def test_last_does_not_fall_back(project: Project) -> None:
    written(project, [temp(0, 20), temp(60, 27), temp(120, 31)])
    assert asked(project, "Rise") == [
        "Rise: 3 anchors, 2 after Before, 0 after if",
        "  Now at 120, room :lab, v 31: 31 - 27 >= 10 is false; Before is the last one, at 60. It would hold with that at 0 (v 20).",
        "  What chooses stands in the clause: last Temp as Before [ FILTER(?room = Now.?room && ?v <= Now.?v - 10) ]",
    ]


def test_its_own_anchor_forbids_it(project: Project) -> None:
    written(project, [element(0, "[] :opens :gate .")], STUCK)
    assert asked(project, "Stuck") == [
        "Stuck: 1 anchor, 0 after not Other",
        "  Open at 0, door :gate, stands at 600: refused by itself, 600 s before. It fires with `within [0, 10 min)`.",
    ]


def test_not_yet(project: Project) -> None:
    written(project, [], GONE)
    growing = "\n".join(f"  - {{ name: {name}, format: ndjson, path: '{name}*.ndjson', watch: true }}" for name in ("doors", "weather"))
    project.change("why.yaml", "  - { name: data, format: ndjson, path: in.ndjson }", growing)
    project.write("doors.ndjson", element(120, "[] :opens :gate .") + element(180, ""))
    project.write("weather.ndjson", element(100, "") + element(130, ""))
    assert asked(project, "Gone") == [
        "Gone: 1 anchor waits until 240. All is closed up to 130: input weather has passed no more, "
        "and holds the others, which have passed 180 (`idle` lets them go)."
    ]


JUMP = """
rule Jump define Jump = [ dotr_id a :Jump ; :room ?room ]
from Temp as Now and last Temp as Before [ FILTER(?room = Now.?room) ] within 5 min from Now
if Now.?v - Before.?v >= 10 with Jump.?room = Now.?room
"""


def test_late(project: Project) -> None:
    written(project, [], JUMP)
    project.change(
        "why.yaml",
        "format: ndjson, path: in.ndjson",
        'format: csv, path: export.csv, time: time, map: "[] :celsius {celsius} ; :humidity {humidity} ; :in :lab ."',
    )
    rows = ["0,20,", "100,27,", "200,31,", "150,50,", "160,24,", "120,,60", "130,,61", "140,,62"]
    project.write("export.csv", "\n".join(["time,celsius,humidity", *rows]) + "\n")
    assert asked(project, "Jump")[0] == (
        "Jump: 3 anchors, 2 after Before, 0 after if. "
        "Of 5 late elements (dead letters), 2 would have been anchors, and export.csv:5 would have fired."
    )


UP = """
query T = [ SELECT ?x WHERE { ?r :up ?x } ]
rule Up define Up = [ dotr_id a :Up ; :x ?x ]
from T as A and last T as B within 5 min from A
with Up.?x = A.?x
"""


def test_the_unit(project: Project) -> None:
    written(project, [element(1704067200000, "[] :up :a ."), element(1704067260000, "[] :up :a .")], UP)
    assert asked(project, "Up") == [
        "Up: 2 anchors, 0 after B. T at 1704067200000 is 60000 s before, 59700 s too far. "
        "Are times beyond the year 3000 milliseconds? time: { unit: ms }"
    ]
