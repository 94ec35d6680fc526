"""`dotr test`: notes on streams without answers, and recordings as streams."""

from __future__ import annotations

import gzip
from collections.abc import Iterable

import pytest

from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.model.terms import Triple
from tests.conftest import CONFIG, Project

pytestmark = pytest.mark.core

HEAD = 'rules: [r.dotr]\nprefixes: { "": "http://e/" }\n'
CASE = 'stream: [ { at: 1, graph: ":a a :A ." } ]\n    expect: [ { at: 1, event: Out, attributes: { x: ":a" } } ]'


def note_of(project: Project, graph: str, *, rule: str = "") -> str:
    """The note of a case that expects nothing, with one element of this graph."""
    if rule:
        project.write("r.dotr", rule)
    project.change("t.yaml", CASE, f'stream: [ {{ at: 1, graph: "{graph}" }} ]\n    expect: []')
    code, out, err = project.dotr("test", "t.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("ok     t.yaml: one\n")
    assert out.endswith("1 passed, 0 failed\n")
    return out.removeprefix("ok     t.yaml: one\n").removesuffix("1 passed, 0 failed\n")


def test_stream_without_an_answer_has_a_note(project: Project) -> None:
    rule = project.read("r.dotr").replace("{ ?x a :A }", "{ ?x :of ?y ; :value ?v }")
    assert note_of(project, ":a :of :b ; :valeu 3 .", rule=rule) == (
        "       note: no query takes anything of this stream; :valeu occurs in no rule\n"
    )


def test_class_that_no_rule_has_is_named(project: Project) -> None:
    assert note_of(project, ":a a :B .") == "       note: no query takes anything of this stream; :B occurs in no rule\n"


def test_terms_of_rules_and_background_are_not_named(project: Project) -> None:
    project.write("kb.ttl", "@prefix : <http://e/> . :B <http://www.w3.org/2000/01/rdf-schema#subClassOf> :C .")
    project.change("t.yaml", "rules: [r.dotr]", "rules: [r.dotr]\nknowledge: { graphs: [kb.ttl] }")
    assert note_of(project, ":a a :B .") == "       note: no query takes anything of this stream\n"


def test_streams_with_answers_empty_streams_and_explicit_facts_have_no_note(project: Project) -> None:
    project.change("r.dotr", "?x a :A", "?x a :A . ?x :v 1")
    assert note_of(project, ":a a :A ; :v 1 .".replace(":v 1", ":v 2")) != ""
    for stream in ("[ { at: 1 } ]", "[]"):
        project.write(
            "t.yaml", f'rules: [r.dotr]\nprefixes: {{ "": "http://e/" }}\ncases: [ {{ name: one, stream: {stream}, expect: [] }} ]\n'
        )
        assert "note" not in project.dotr("test", "t.yaml").out
    explicit = '[ { name: one, stream: [ { at: 1, graph: ":a a :B ." } ], expect: [], facts: [] } ]'
    project.write("t.yaml", HEAD + f"cases: {explicit}\n")
    assert "note" not in project.dotr("test", "t.yaml").out


def test_static_facts_do_not_count_as_answers(project: Project) -> None:
    project.write("kb.ttl", "@prefix : <http://e/> . :k a :A .")
    project.change("t.yaml", "rules: [r.dotr]", "rules: [r.dotr]\nknowledge: { graphs: [kb.ttl] }")
    project.change("t.yaml", CASE, 'stream: [ { at: 1, graph: ":a a :B ." } ]\n    expect: [ { at: 1, event: Out } ]')
    assert "note: no query takes anything of this stream; :B occurs in no rule" in project.dotr("test", "t.yaml").out


RECORDED = [(1, ":a a :A ."), (2, ":b a :A ."), (4, ":c a :A ."), (3, ":d a :A .")]
NDJSON = "".join(f'{{"time": {time}, "graph": "{graph}"}}\n' for time, graph in RECORDED)


def expecting(project: Project, stream: str, *expected: str) -> None:
    """A test of this stream passes that expects an event of each of these resources: `a@1`."""
    events = ", ".join(f'{{ at: {at}, event: Out, attributes: {{ x: ":{name}" }} }}' for name, at in (each.split("@") for each in expected))
    project.write("tests/t.yaml", head_of(project) + f"cases:\n  - name: one\n    stream: {stream}\n    expect: [ {events} ]\n")
    assert project.dotr("test", "tests/t.yaml") == (0, "ok     tests/t.yaml: one\n1 passed, 0 failed\n", "")
    checked = project.dotr("check", "tests/t.yaml")
    assert checked.code == 0, checked.err


def head_of(project: Project) -> str:
    configured = "config: ../c.yaml\n" if "csv" in project.read("c.yaml") else "rules: [../r.dotr]\n"
    return configured + 'prefixes: { "": "http://e/" }\n'


def test_recording_is_a_stream_whatever_its_order(project: Project) -> None:
    project.write("data/monday.ndjson", NDJSON)
    expecting(project, "{ file: ../data/monday.ndjson }", "a@1", "b@2", "d@3", "c@4")


def test_both_ends_of_a_part_belong_to_it(project: Project) -> None:
    project.write("data/monday.ndjson", NDJSON)
    expecting(project, "{ file: ../data/monday.ndjson, from: 2, to: 3 }", "b@2", "d@3")
    expecting(project, "{ file: ../data/monday.ndjson, from: 3 }", "d@3", "c@4")
    expecting(project, "{ file: ../data/monday.ndjson, to: 1 }", "a@1")


def test_recordings_of_all_formats(project: Project) -> None:
    project.write("data/monday.ndjson.gz", gzip.compress(NDJSON.encode()))
    expecting(project, "{ file: ../data/monday.ndjson.gz, from: 4 }", "c@4")
    stamp = "<http://www.w3.org/ns/prov#generatedAtTime>"
    project.write("data/m.trig", f"@prefix : <http://e/> . :g {{ :a a :A }} :g {stamp} 7 .")
    expecting(project, "{ file: ../data/m.trig }", "a@7")
    type_of = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    project.write("data/m.nq", f'<http://e/a> {type_of} <http://e/A> <http://e/g> .\n<http://e/g> {stamp} "8"^^{integer} .\n')
    expecting(project, "{ file: ../data/m.nq }", "a@8")


CSV = "{ name: rows, format: csv, path: rows.csv, time: at, map: ':{name} a :A .' }"


def test_csv_is_read_by_an_input_of_the_configuration(project: Project) -> None:
    project.write("c.yaml", CONFIG.replace("{ name: a, format: ndjson, path: a.ndjson }", CSV))
    project.write("data/m.csv", "at,name\n5,a\n6,b\n")
    expecting(project, "{ file: ../data/m.csv, input: rows, to: 5 }", "a@5")


def test_date_times_of_a_recording_are_compared(project: Project) -> None:
    project.write("data/m.ndjson", '{"time": "2024-03-01T07:00:00Z", "graph": ":a a :A ."}\n')
    expecting(project, '{ file: ../data/m.ndjson, from: "2024-03-01T08:00:00+01:00" }', "a@2024-03-01T07:00:00Z")
    project.change("tests/t.yaml", ":a", ":b")
    assert "  at 2024-03-01T07:00:00Z Out by R\n-     x: :b\n+     x: :a\n" in project.dotr("test", "tests/t.yaml").out


def test_late_and_unreadable_elements_are_noted(project: Project) -> None:
    project.write("c.yaml", CONFIG.replace("{ name: a, format: ndjson, path: a.ndjson }", CSV))
    project.write("data/m.csv", "at,name\n5,a\n4,b\nsoon,c\n")
    stream = "{ file: ../data/m.csv, input: rows }"
    project.write(
        "tests/t.yaml", head_of(project) + f"cases:\n  - name: one\n    stream: {stream}\n    expect: [ {{ at: 5, event: Out }} ]\n"
    )
    assert project.dotr("test", "tests/t.yaml").out == (
        "ok     tests/t.yaml: one\n"
        "       note: data/m.csv:3 is left out (late): an element of 5 came before this one of 4; and 1 more\n"
        "1 passed, 0 failed\n"
    )


@pytest.mark.parametrize(
    ("stream", "reported"),
    [
        ("{ file: ../none.ndjson }", "t.yaml:5:21: C301 there is no file none.ndjson"),
        ("{ flie: ../a.ndjson }", "C201 unknown key flie"),
        ("{ file: ../a.csv }", "C202 a CSV recording needs the map of an input"),
        ("{ file: ../a.txt }", "C202 the format of ../a.txt is unknown"),
        ("{ file: ../a.csv, input: rows }", "C204 `input` names an input of a configuration, and this test has none"),
        ("{ file: ../a.ndjson, from: 3, to: 2 }", "t.yaml:5:40: C205 `from` is after `to`"),
        ("{ file: ../a.ndjson, from: soon }", "t.yaml:5:40: C205 this is no time: 'soon'"),
        ("all", "t.yaml:5:13: C203 cases.0.stream should be a list"),
    ],
)
def test_unusable_recording_is_refused(project: Project, stream: str, reported: str) -> None:
    project.write("a.csv", "at\n1\n")
    project.write("a.txt", "")
    project.write("tests/t.yaml", head_of(project) + f"cases:\n  - name: one\n    stream: {stream}\n    expect: []\n")
    assert reported in project.refused("test", "tests/t.yaml")
    assert reported in project.refused("check", "tests/t.yaml")


def test_unknown_input_of_a_recording_is_refused(project: Project) -> None:
    project.write("c.yaml", CONFIG.replace("{ name: a, format: ndjson, path: a.ndjson }", CSV))
    project.write("a.csv", "at,name\n1,a\n")
    stream = "{ file: ../a.csv, input: row }"
    project.write("tests/t.yaml", head_of(project) + f"cases:\n  - name: one\n    stream: {stream}\n    expect: []\n")
    assert "C203 c.yaml has no input row\n" in project.refused("test", "tests/t.yaml")
    assert "Did you mean rows?" in project.refused("test", "tests/t.yaml")


@pytest.mark.fallbacks("instant")
def test_failing_element_has_its_place_in_the_recording(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    close = Knowledge.close

    def closing(self: Knowledge, triples: Iterable[Triple]) -> Closure:
        triples = list(triples)
        if any(subject == "<http://e/b>" for subject, _, _ in triples):
            raise RecursionError("too deep")
        return close(self, triples)

    monkeypatch.setattr(Knowledge, "close", closing)
    project.write("data/monday.ndjson", NDJSON)
    case = "{ name: one, stream: { file: ../data/monday.ndjson, from: 2, to: 2 }, expect: [] }"
    project.write("tests/t.yaml", head_of(project) + f"cases: [ {case} ]\n")
    assert project.dotr("test", "tests/t.yaml").out.splitlines()[:2] == [
        "FAILED tests/t.yaml:3: one",
        "! at 2 element 1 of the instant is left out, it fails: RecursionError: too deep (data/monday.ndjson:2)",
    ]


def test_stream_that_a_unit_of_another_language_takes_has_no_note(project: Project) -> None:
    project.write(
        "q.rspql", "PREFIX : <http://e/>\nREGISTER RSTREAM Q AS SELECT ?x FROM WINDOW ON :in [RANGE 4 s STEP 4 s] WHERE { ?x a :A }\n"
    )
    project.write("l.lars", "PREFIX : <http://e/>\nSeen(?x) :- :seen(?x, ?y).\nREPORT Seen(?x).\n")
    case = (
        "rules: [r.dotr, UNIT]\nprefixes: { '': 'http://e/' }\ncases:\n  - name: quiet\n    expect: []\n"
        "    stream: [{ at: 1, STREAMgraph: ':a :other :B .' }, { at: 2, STREAMgraph: 'TRIPLE' }]\n"
    )
    for unit, stream, triple, is_noted in (
        ("q.rspql", "stream: ':in', ", ":a :p :b .", False),
        ("l.lars", "", ":a :p :b .", True),
        ("l.lars", "", ":a :seen :b .", False),
    ):
        project.write("u.yaml", case.replace("UNIT", unit).replace("STREAM", stream).replace("TRIPLE", triple))
        assert ("no query takes anything" in project.dotr("test", "u.yaml").out) == is_noted
