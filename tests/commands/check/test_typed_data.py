"""`check` reports conditions that are errors for the types of the data, and only these."""

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
    """Messages of `check` for a configuration, one a line."""
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
    """Configuration section of a background with some triples."""
    project.write("kb.ttl", f"@prefix : <http://e/> . {turtle}")
    return f"knowledge: {{ graphs: [kb.ttl]{more} }}\n"


def test_map_with_numbers_as_text_is_reported(project: Project) -> None:
    reported = configured(project, CSV % PLAIN)
    assert reported.splitlines()[:4] == [
        "r.dotr:5:53: D320 warning: this comparison is never true, as the data are typed",
        "  5 | from A = [ SELECT ?x ?v WHERE { ?x :speed ?v FILTER(?v > 20) } ]",
        "    |                                                     ^^",
        "Here ?v is a string, and 20 is a number. Write xsd:decimal(?v). Every :speed is a string, by the map of input a: "
        'write {speed} or "{speed}"^^xsd:decimal there.',
    ]
    assert reported.count("D320") == 1


@pytest.mark.parametrize("type", ["string", "iri?"])
def test_map_with_a_type_that_is_no_number_is_reported(project: Project, type: str) -> None:
    reported = configured(project, CSV % f":car{{car}} :speed {{speed:{type}}} .")
    assert reported.count("D320 warning: this comparison is never true") == 1
    assert ("write {speed} or {speed:decimal} there." in reported) == (type == "string")


@pytest.mark.parametrize(
    "map_",
    [
        ":car{car} :speed {speed} .",
        ":car{car} :speed {speed:decimal?} .",
        ":car{car} :speed {speed:double} .",
        ':car{car} :speed "{speed}"^^xsd:decimal .',
        ':car{car} :speed "{speed}"@en .',
        ':car{car} :speed "{speed}" , {car} .',
        ":car{car} :other {speed} .",
    ],
)
def test_map_with_possible_numbers_is_not_reported(project: Project, map_: str) -> None:
    assert "D320" not in configured(project, CSV % map_)


@pytest.mark.parametrize(
    "condition", ['?v > "20"', "xsd:decimal(?v) > 20", "STRLEN(?v) > 20", "BOUND(?v)", "?v > 20 || ?x = :car7", '?v != "20"', "!BOUND(?w)"]
)
def test_satisfiable_condition_is_not_reported(project: Project, condition: str) -> None:
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
def test_unsatisfiable_condition_is_reported(project: Project, condition: str, message: str) -> None:
    assert f"D320 warning: {message}, as the data are typed" in configured(project, CSV % PLAIN, RULES.replace("?v > 20", condition))


def test_unknown_input_prevents_the_warning(project: Project) -> None:
    """An input of Turtle graphs, or a map that writes numbers, may give the predicate a number."""
    other = CSV.replace("name: a", "name: b") % ":car{car} :speed {speed} ."
    assert "D320" not in configured(project, f"{CSV % PLAIN}\n  {other}")
    assert "D320" not in configured(project, f"{CSV % PLAIN}\n  - {{ name: b, format: ndjson, path: a.ndjson }}")
    assert "D320" in configured(project, f"{CSV % PLAIN}\n  {other.replace(':speed', ':other')}")
    predicate = CSV.replace("name: a", "name: b") % ":car{car} :p{car} {speed} ."
    assert "D320" not in configured(project, f"{CSV % PLAIN}\n  {predicate}")


def test_background_objects_are_considered(project: Project) -> None:
    known = background(project, ':car8 :speed "30" .')
    assert "by the map of input a and in the background" in configured(project, CSV % PLAIN, more=known)
    assert "D320" not in configured(project, CSV % PLAIN, more=background(project, ":car8 :speed 30 ."))
    assert "D320" not in configured(project, CSV % PLAIN, more=background(project, ':car8 :speed "30"@en .'))


LIMITS = RULES.replace("?x :speed ?v FILTER(?v > 20)", "?x :speed ?s . ?x :limit ?v FILTER(?v > 20)")


def test_background_of_quoted_numbers_is_reported(project: Project) -> None:
    """With an input of Turtle graphs only quoted numbers are reported; for other texts, graphs may have
    comparable terms."""
    turtle, numbers = "- { name: b, format: ndjson, path: a.ndjson }", ':car7 :limit "50" . :car8 :limit "-3.5" .'
    reported = configured(project, turtle, LIMITS, background(project, numbers))
    assert "Every :limit is a string, in the background." in reported
    for other in (':car7 :limit "50" . :car8 :limit "none" .', ":car7 :limit 50 .", ':car7 :limit "50" , 50 .', ":car7 :limit :none ."):
        assert "D320" not in configured(project, turtle, LIMITS, background(project, other))
    reported = configured(project, CSV % ":car{car} :speed {speed} .", LIMITS, background(project, ':car7 :limit "50" , :none .'))
    assert "Every :limit is an IRI or a string, in the background." in reported


def test_datalog_and_entailment_prevent_the_warning(project: Project) -> None:
    project.write("d.dlog", "@prefix : <http://e/> .\n[?x, :speed, ?v] :- [?x, :velocity, ?v] .\n")
    assert "D320" not in configured(project, CSV % PLAIN, more="knowledge: { datalog: [d.dlog] }\n")
    project.write("d.dlog", "@prefix : <http://e/> .\n[?x, :velocity, ?v] :- [?x, :speed, ?v] .\n")
    assert "D320" in configured(project, CSV % PLAIN, more="knowledge: { datalog: [d.dlog] }\n")
    project.write("d.dlog", "@prefix : <http://e/> .\n[?x, ?q, ?v] :- [?p, :like, ?q], [?x, ?p, ?v] .\n")
    assert "D320" not in configured(project, CSV % PLAIN, more="knowledge: { datalog: [d.dlog] }\n")
    assert "D320" not in configured(project, CSV % PLAIN, more="knowledge: { entailment: rdfs }\n")


def test_event_attributes_are_checked(project: Project) -> None:
    """An event's attribute has the kind that its rules assign."""
    again = "rule S define Two = [ dotr_id a :Two ] from Out and last Out as Before [ FILTER(?v > 20) ] within 5 s from Out\n"
    reported = configured(project, CSV % PLAIN, ANY + again)
    assert "r.dotr:7:" in reported
    assert "D320 warning: this comparison is never true" in reported
    cast = ANY.replace("Out.?v = A.?v", "Out.?v = xsd:decimal(A.?v)")
    assert "D320" not in configured(project, CSV % PLAIN, cast + again)


def test_constraint_between_two_labels_is_checked(project: Project) -> None:
    rules = ANY.replace("with", "and last B = [ SELECT ?x ?w WHERE { ?x :level ?w FILTER(?w > A.?v + 1) } ] within 5 s from A\nwith")
    reported = configured(project, CSV % PLAIN, rules)
    assert "D320 warning: this arithmetic can only err" in reported
    assert "Here A.?v is a string" in reported


def test_streams_of_a_rule_test_are_considered(project: Project) -> None:
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
    reported = project.dotr("check", "t.yaml").err
    assert "D320" in reported
    assert "Every :speed is a string, in the streams of the cases." in reported
    project.write("t.yaml", test + "  - name: two\n    stream: [ { at: 1, graph: ':a :speed 25 .' } ]\n    facts: []\n")
    assert "D320" not in project.dotr("check", "t.yaml").err


def test_problem_of_the_text_is_reported_once(project: Project) -> None:
    reported = configured(project, CSV % PLAIN, RULES.replace("?v > 20", "?v > 20 && STR(?x) > 30"))
    assert (reported.count("D320"), reported.count("D314")) == (1, 1)
