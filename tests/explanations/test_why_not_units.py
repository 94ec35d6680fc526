"""Command `dotr why-not --where`: units of other languages, about one entity."""

from __future__ import annotations

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

CASE = """\
rules: [u.RULES]
prefixes: { "": "http://example.org/u#" }
knowledge: { graphs: [u.ttl] }
cases:
  - name: one
    expect: []
    stream:
      - { at: 1, stream: ":s", graph: "[] :of :v1 ; :open 90 ; :kind :a . :v1 :state :shut ." }
      - { at: 2, stream: ":s", graph: "[] :of :v2 ; :open 95 . :v2 :state :wide ; :ok true ." }
      - { at: 4, stream: ":s", graph: "[] :of :v1 ; :open 99 . :v1 :state :shut ." }
      - { at: 6, stream: ":s", graph: "[] :of :v1 ; :kind :b ; :cool 3 . :v2 :ok true ." }
      - { at: 12, stream: ":s", graph: "[] :of :v2 ; :open 130 . :v1 :state :wide ." }
"""
RSPQL = """
REGISTER RSTREAM Wide AS SELECT ?v ?n FROM NAMED WINDOW <w> ON :s [RANGE 4 s STEP 4 s]
WHERE { WINDOW <w> { ?r :of ?v ; :open ?n . ?v :state :wide } ?v :line ?l }
"""
LARS = """
Calm(?v) :- :line(?v, ?l), NOT :of(?r, ?v) IN [3 s].
Held(?v) :- :line(?v, ?l), :state(?v, :wide) ALWAYS IN [2 s].
Kept(?v) :- :line(?v, ?l), :ok(?v, true) SINCE :state(?v, :wide) IN [5 s].
Seen(?v) :- :line(?v, ?l), :state(?v, :wide).
Late(?v, ?t) :- Open(?v) AT ?t IN [2 s].
Open(?v) AT ?t :- :open(?r, ?n) AT ?t IN [9 s], :of(?r, ?v) AT ?t IN [9 s].
Full(?v) :- :line(?v, ?l), Open(?v) ALWAYS IN [1 s].
REPORT Calm(?v). REPORT Held(?v). REPORT Kept(?v). REPORT Seen(?v). REPORT Full(?v).
"""
EPSPARQL = """
REGISTER QUERY Rise AS SELECT ?v ?n ?m WHERE { ?r :of ?v ; :open ?n } SEQ { ?s :of ?v ; :open ?m } FILTER(?m > ?n + 20) WITHIN 10 s
REGISTER QUERY Soon AS SELECT ?v WHERE { { ?r :of ?v ; :open ?n } SEQ { ?s :of ?v ; :open ?m } WITHIN 9 s } WITHIN 2 s
REGISTER QUERY Same AS SELECT ?v ?k WHERE { ?r :of ?v ; :kind ?k } SEQ { ?s :of ?v ; :cool ?c ; :kind ?k } WITHIN 20 s
"""


def told(project: Project, language: str, rules: str, rule: str, *options: str) -> list[str]:
    project.write(f"u.{language}", "PREFIX : <http://example.org/u#>\n" + rules)
    project.write("u.yaml", CASE.replace("RULES", language))
    project.write("u.ttl", "@prefix : <http://example.org/u#> . :v1 :line :l1 . :v2 :line :l2 .")
    answer = project.dotr("why-not", "u.yaml", "--rule", rule, *options)
    assert answer.err == ""
    return [line.strip() for line in answer.out.splitlines()]


def test_report_without_the_requested_entity(project: Project) -> None:
    lines = told(project, "rspql", RSPQL, "Wide", "--where", "v=:v1", "--at", "4")
    assert "with :v1 :state :wide, never: :v1 :state :shut is there instead" in lines[1]
    assert not any(":v2" in line for line in lines)
    assert ":v9 occurs nowhere: neither an element nor the background has it." in told(project, "rspql", RSPQL, "Wide", "--where", "v=:v9")


def test_report_at_which_most_patterns_hold(project: Project) -> None:
    """Without a time it is the latest one at which the entity matches the most, not the latest of all, also within one WINDOW block."""
    query = "REGISTER RSTREAM Open AS SELECT ?v FROM NAMED WINDOW <w> ON :s [RANGE 4 s STEP 4 s] "
    lines = told(project, "rspql", query + "WHERE { WINDOW <w> { ?r :of ?v ; :open ?n . ?v :state :wide } }", "Open", "--where", "v=:v1")
    assert lines[1].startswith("at 4: ?r :of :v1 ; :open ?n holds 2 times; with :v1 :state :wide, never: :v1 :state :shut is there instead")


@pytest.mark.parametrize(
    ("label", "entity", "at", "expected"),
    [
        ("Calm", "v1", "4", ":of(_:r, :v1) at 4 stands under NOT"),
        ("Calm", "v1", "7", ":of(_:r, :v1) at 6 stands under NOT"),
        ("Held", "v1", "12", ":state(:v1, :wide) is not at 11"),
        ("Kept", "v2", "6", ":state(:v2, :wide) was last at 2, and :ok(:v2, true) is not at 5"),
        ("Kept", "v1", "6", ":state(:v1, :wide) is at no point of the window"),
        ("Seen", "v1", "11", "no element brings :state(:v1, :wide) by then"),
        ("Full", "v1", "5", "Open(:v1) is not at 5"),
    ],
)
def test_points_of_a_lars_file(project: Project, label: str, entity: str, at: str, expected: str) -> None:
    lines = told(project, "lars", LARS, label, "--where", f"v=:{entity}", "--at", at)
    assert lines[0] == f"{label}: 1 point evaluated, 0 events"
    assert expected.replace("_:r", "_:b") in lines[2].replace("_:r", "_:b")


def test_triple_that_is_there_instead_and_a_name_that_is_nowhere_in_lars(project: Project) -> None:
    lines = told(project, "lars", LARS, "Seen", "--where", "v=:v1", "--at", "4")
    assert lines[-1] == ":v1 :state :shut is there instead, at 4"
    assert ":v9 occurs nowhere: neither an element nor the background has it." in told(project, "lars", LARS, "Seen", "--where", "v=:v9")
    assert not any("nowhere" in line for line in told(project, "lars", LARS, "Seen", "--where", "v=:v2", "--at", "1"))


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Rise", "from 1 to 4: FILTER(99 > 90 + 20) is false"),
        ("Soon", "at 4: 3 s in all, and the bound is 2 s"),
        ("Same", "k :a, r _:b, v :v1 at 1 and c 3, k :b, s _:b2, v :v1 at 6 disagree in ?k"),
    ],
)
def test_solutions_of_ep_sparql(project: Project, label: str, expected: str) -> None:
    lines = told(project, "epsparql", EPSPARQL, label, "--where", "v=:v1")
    assert lines[-1].endswith(expected)


def test_group_of_ep_sparql_without_the_requested_entity(project: Project) -> None:
    lines = told(project, "epsparql", EPSPARQL, "Rise", "--where", "v=:v9")
    assert lines[1] == "{ ?r :of ?v ; :open ?n }: 0 solutions"
    assert lines[-1].endswith("?r :of :v9 never holds; :v9 occurs nowhere: neither an element nor the background has it.")
