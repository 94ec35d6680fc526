"""`check` tells of conditions that the data make errors, and only of these."""

from __future__ import annotations

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
rule R
define Out = [ dotr_id a :Out ; :of ?x ; :v ?v ]
from A = [ SELECT ?x ?v WHERE { ?x :speed ?v FILTER(?v > 20) } ]
with Out.?x = A.?x, Out.?v = A.?v
"""
ANY = RULES.replace(" FILTER(?v > 20)", "")
CSV = "- { name: a, format: csv, path: a.csv, time: at, map: '%s' }"
PLAIN = ':car{car} :speed "{speed}" .'


def configured(project: Project, inputs: str, rules: str = RULES, more: str = "") -> str:
    """What `check` says of a configuration, on one line a message."""
    project.write("r.dotr", rules)
    project.write("a.csv", "at,car,speed\n1,7,25\n")
    project.write(
        "c.yaml",
        f'name: n\nprefixes: {{ "": "http://e/", xsd: "http://www.w3.org/2001/XMLSchema#" }}\nrules: [r.dotr]\n{more}input:\n  {inputs}\n'
        "output: [ { path: out.ndjson } ]\nengine: local\n",
    )
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 0, answer.err
    return answer.err


def background(project: Project, turtle: str, more: str = "") -> str:
    """The section of a background with these triples."""
    project.write("kb.ttl", f"@prefix : <http://e/> . {turtle}")
    return f"knowledge: {{ graphs: [kb.ttl]{more} }}\n"


def test_a_map_that_writes_numbers_as_text(project: Project) -> None:
    said = configured(project, CSV % PLAIN)
    assert said.splitlines()[:4] == [
        "r.dotr:5:53: D320 warning: this comparison is never true, as the data are typed",
        "  5 | from A = [ SELECT ?x ?v WHERE { ?x :speed ?v FILTER(?v > 20) } ]",
        "    |                                                     ^^",
        "Here ?v is a string, and 20 is a number. Write xsd:decimal(?v). Every :speed is a string, by the map of input a: "
        'write {speed} or "{speed}"^^xsd:decimal there.',
    ]
    assert said.count("D320") == 1


@pytest.mark.parametrize(
    "map_",
    [
        ":car{car} :speed {speed} .",
        ':car{car} :speed "{speed}"^^xsd:decimal .',
        ':car{car} :speed "{speed}"@en .',
        ':car{car} :speed "{speed}" , {car} .',
        ":car{car} :other {speed} .",
    ],
)
def test_a_map_that_may_write_numbers_or_does_not_write_it_at_all(project: Project, map_: str) -> None:
    assert "D320" not in configured(project, CSV % map_)


@pytest.mark.parametrize(
    "condition", ['?v > "20"', "xsd:decimal(?v) > 20", "STRLEN(?v) > 20", "BOUND(?v)", "?v > 20 || ?x = :car7", '?v != "20"', "!BOUND(?w)"]
)
def test_conditions_that_text_can_satisfy(project: Project, condition: str) -> None:
    assert "D320" not in configured(project, CSV % PLAIN, RULES.replace("?v > 20", condition))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("?v * 2 > 20", "this arithmetic can only err"),
        ("20 >= ?v", "this comparison is never true"),
        ("?v IN (20, 30)", "this comparison is never true"),
        ("?v = 20 && ?x = :car7", "this comparison is never true"),
        ("ABS(?v) > 20", "ABS(…) can only err"),
    ],
)
def test_conditions_that_it_cannot(project: Project, condition: str, message: str) -> None:
    assert f"D320 warning: {message}, as the data are typed" in configured(project, CSV % PLAIN, RULES.replace("?v > 20", condition))


def test_every_input_must_be_known(project: Project) -> None:
    """One input of Turtle graphs, or one whose map writes a number, may bring one."""
    other = CSV.replace("name: a", "name: b") % ":car{car} :speed {speed} ."
    assert "D320" not in configured(project, f"{CSV % PLAIN}\n  {other}")
    assert "D320" not in configured(project, f"{CSV % PLAIN}\n  - {{ name: b, format: ndjson, path: a.ndjson }}")
    assert "D320" in configured(project, f"{CSV % PLAIN}\n  {other.replace(':speed', ':other')}")
    predicate = CSV.replace("name: a", "name: b") % ":car{car} :p{car} {speed} ."
    assert "D320" not in configured(project, f"{CSV % PLAIN}\n  {predicate}")


def test_the_background_counts_too(project: Project) -> None:
    known = background(project, ':car8 :speed "30" .')
    assert "by the map of input a and in the background" in configured(project, CSV % PLAIN, more=known)
    assert "D320" not in configured(project, CSV % PLAIN, more=background(project, ":car8 :speed 30 ."))
    assert "D320" not in configured(project, CSV % PLAIN, more=background(project, ':car8 :speed "30"@en .'))


LIMITS = RULES.replace("?x :speed ?v FILTER(?v > 20)", "?x :speed ?s . ?x :limit ?v FILTER(?v > 20)")


def test_the_background_alone(project: Project) -> None:
    """Beside Turtle graphs it must be numbers in quotes: of other texts, the graphs may well bring what is compared."""
    turtle, numbers = "- { name: b, format: ndjson, path: a.ndjson }", ':car7 :limit "50" . :car8 :limit "-3.5" .'
    said = configured(project, turtle, LIMITS, background(project, numbers))
    assert "Every :limit is a string, in the background." in said
    for other in (':car7 :limit "50" . :car8 :limit "none" .', ":car7 :limit 50 .", ':car7 :limit "50" , 50 .', ":car7 :limit :none ."):
        assert "D320" not in configured(project, turtle, LIMITS, background(project, other))
    said = configured(project, CSV % ":car{car} :speed {speed} .", LIMITS, background(project, ':car7 :limit "50" , :none .'))
    assert "Every :limit is an IRI or a string, in the background." in said


def test_what_datalog_or_an_entailment_may_bring(project: Project) -> None:
    project.write("d.dlog", "@prefix : <http://e/> .\n[?x, :speed, ?v] :- [?x, :velocity, ?v] .\n")
    assert "D320" not in configured(project, CSV % PLAIN, more="knowledge: { datalog: [d.dlog] }\n")
    project.write("d.dlog", "@prefix : <http://e/> .\n[?x, :velocity, ?v] :- [?x, :speed, ?v] .\n")
    assert "D320" in configured(project, CSV % PLAIN, more="knowledge: { datalog: [d.dlog] }\n")
    project.write("d.dlog", "@prefix : <http://e/> .\n[?x, ?q, ?v] :- [?p, :like, ?q], [?x, ?p, ?v] .\n")
    assert "D320" not in configured(project, CSV % PLAIN, more="knowledge: { datalog: [d.dlog] }\n")
    assert "D320" not in configured(project, CSV % PLAIN, more="knowledge: { entailment: rdfs }\n")


def test_through_events(project: Project) -> None:
    """An attribute of an event is of the kind that its rules assign."""
    again = "rule S define Two = [ dotr_id a :Two ] from Out and last Out as Before [ FILTER(?v > 20) ] within 5 s from Out\n"
    said = configured(project, CSV % PLAIN, ANY + again)
    assert "r.dotr:7:" in said
    assert "D320 warning: this comparison is never true" in said
    cast = ANY.replace("Out.?v = A.?v", "Out.?v = xsd:decimal(A.?v)")
    assert "D320" not in configured(project, CSV % PLAIN, cast + again)


def test_between_two_labels_of_a_rule(project: Project) -> None:
    rules = ANY.replace("with", "and last B = [ SELECT ?x ?w WHERE { ?x :level ?w FILTER(?w > A.?v + 1) } ] within 5 s from A\nwith")
    said = configured(project, CSV % PLAIN, rules)
    assert "D320 warning: this arithmetic can only err" in said
    assert "Here A.?v is a string" in said


def test_the_streams_of_a_rule_test(project: Project) -> None:
    project.write("r.dotr", RULES)
    test = """\
rules: [r.dotr]
prefixes: { "": "http://e/" }
cases:
  - name: one
    stream: [ { at: 1, graph: ':a :speed "25" .' } ]
    expect: []
"""
    project.write("t.yaml", test)
    said = project.dotr("check", "t.yaml").err
    assert "D320" in said
    assert "Every :speed is a string, in the streams of the cases." in said
    project.write("t.yaml", test + "  - name: two\n    stream: [ { at: 1, graph: ':a :speed 25 .' } ]\n    facts: []\n")
    assert "D320" not in project.dotr("check", "t.yaml").err


def test_what_the_text_says_already_is_said_once(project: Project) -> None:
    said = configured(project, CSV % PLAIN, RULES.replace("?v > 20", "?v > 20 && STR(?x) > 30"))
    assert (said.count("D320"), said.count("D314")) == (1, 1)
