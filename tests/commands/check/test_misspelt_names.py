"""Names that are probably misspelt (C223)."""

from __future__ import annotations

import pytest

from tests.conftest import CONFIG, Project

RULES = """\
PREFIX : <http://e/>
query Temp = [ SELECT ?r ?v WHERE { ?t a :Reading ; :in ?r ; :value ?v } ]
query High = [ SELECT ?r ?v WHERE { ?t a :Reading ; :in ?r ; :value ?v FILTER(?v > 60) } ]
rule Up define Up = [ [] a :Reading ; :value ?v ] from High and last Temp [ FILTER(?r = High.?r) ] within 1 h from High with Up.?v = High.?v
"""


def misspelt(project: Project, *further: str) -> list[str]:
    """The places and messages of C223."""
    lines = project.dotr("check", "c.yaml", *further).err.splitlines()
    return [f"{line.partition(': C223')[0]} {line.partition('warning: ')[2]}" for line in lines if " C223 warning: " in line]


def with_rule(project: Project, query: str) -> list[str]:
    project.write("c.yaml", CONFIG)
    project.write("r.dotr", RULES + f"rule Own define Own = [ [] a :Reading ]\nfrom Own1 = [ SELECT ?t WHERE {{ {query} }} ]\n")
    return misspelt(project)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?t :valeu 5", ":valeu occurs once, and :value 3 times"),
        ("?t :valu 5", ":valu occurs once, and :value 3 times"),
        ("?t <http://e/vallue> 5", "<http://e/vallue> occurs once, and <http://e/value> 3 times"),
        ("?t a :Raeding", ":Raeding occurs once, and :Reading 4 times"),
        ("?t :in/:valve 5", ":valve occurs once, and :value 3 times"),
        ("?t :in ?r FILTER EXISTS { ?t :valie ?r }", ":valie occurs once, and :value 3 times"),
    ],
)
def test_predicate_or_class_one_letter_away(project: Project, query: str, message: str) -> None:
    (found,) = with_rule(project, query)
    kind = "class" if " a " in query else "predicate"
    assert found == f"r.dotr:6:{33 + query.index(message.split()[0])} the {kind} {message}: is it misspelt?"


@pytest.mark.parametrize(
    "query",
    {
        "a name of its own": "?t :pressure 5",
        "twice": "?t :valeu 5 . ?r :valeu 6",
        "a digit": "?t :value2 5",
        "a plural": "?t :values 5",
        "a class in the plural": "?t a :Readings",
        "short": "?t :im ?r",
        "another namespace": "?t <http://f/valeu> 5",
        "an individual": "?t :in :valeu",
        "in text and comments": "?t :in ':valeu' # :valeu\n",
        "a class and a predicate": "?t a :Value",
    }.values(),
)
def test_names_without_a_similar_one_are_not_reported(project: Project, query: str) -> None:
    assert with_rule(project, query) == []


def test_names_of_the_background_and_of_datalog(project: Project) -> None:
    project.write("c.yaml", CONFIG + "knowledge: { graphs: [g.ttl], datalog: [d.dlog] }\n")
    project.write(
        "r.dotr", RULES + "rule Own define Own = [ [] a :Reading ]\nfrom Own1 = [ SELECT ?t WHERE { ?t :sences ?r ; :mouted ?w } ]\n"
    )
    project.write("g.ttl", "@prefix : <http://e/> . :a :senses :x . :b :senses :x . :c :senses :x . :d :mouted :w .")
    project.write("d.dlog", "@prefix : <http://e/> .\n:valu(?x, ?y) :- :mounted(?x, ?y), :mounted(?y, ?x), :mounted(?x, ?x) .\n")
    assert misspelt(project) == [
        "r.dotr:6:36 the predicate :sences occurs once, and :senses 3 times: is it misspelt?",
        "d.dlog:2:1 the predicate :valu occurs once, and :value 3 times: is it misspelt?",
    ]


def test_names_of_maps(project: Project) -> None:
    source = '  - { name: b, format: csv, path: a.csv, time: at, map: "[] a :Reading ; :valeu {v} ." }\n'
    project.write("c.yaml", CONFIG.replace("output:", source + "output:"))
    project.write("a.csv", "at,v\n1,2\n")
    project.write("r.dotr", RULES)
    assert misspelt(project) == ["c.yaml:6:74 the predicate :valeu occurs once, and :value 3 times: is it misspelt?"]


def test_names_of_mappings_are_whole(project: Project) -> None:
    source = "  - { name: b, format: csv, path: a.csv, time: at, map: b.ttl }\n"
    project.write("c.yaml", CONFIG.replace("output:", source + "output:"))
    project.write("a.csv", "at,v\n1,2\n")
    mapping = "@prefix : <http://e/> . [] rr:subjectMap [ rr:template 'http://e/{v}' ] ;\n"
    mapping += "rr:predicateObjectMap [ rr:predicate :valeu ; rr:object 1 ] ."
    project.write("b.ttl", "@prefix rr: <http://www.w3.org/ns/r2rml#> .\n" + mapping)
    project.write("r.dotr", RULES)
    message = "the predicate <http://e/valeu> occurs once, and <http://e/value> 3 times: is it misspelt?"
    assert misspelt(project) == [f"c.yaml:6:57 {message}"]


def test_names_of_the_streams_of_a_test(project: Project) -> None:
    project.write("r.dotr", RULES.replace("; :value ?v FILTER", "; :vlue ?v FILTER"))
    project.write("c.yaml", CONFIG)
    assert misspelt(project) == []  # twice in the rules is not often
    case = '{ name: one, stream: [ { at: 1, graph: ":a :value 1, 2 ; :velue 3 ." } ], expect: [] }'
    project.write("t.yaml", f'rules: [r.dotr]\nprefixes: {{ "": "http://e/" }}\ncases: [ {case} ]\n')
    assert misspelt(project, "t.yaml") == ["r.dotr:3:62 the predicate :vlue occurs once, and :value 4 times: is it misspelt?"]


def test_both_names_are_allowed(project: Project) -> None:
    project.write("c.yaml", CONFIG)
    project.write(
        "r.dotr", RULES + "# dotr: allow C223 (a valve)\nrule V define V = [ [] a :Reading ]\nfrom V1 = [ SELECT ?t { ?t :valve 1 } ]\n"
    )
    answer = project.dotr("check", "c.yaml", "--strict")
    assert (answer.code, answer.err) == (0, "1 file checked: no errors, no warnings (1 accepted).\n")
