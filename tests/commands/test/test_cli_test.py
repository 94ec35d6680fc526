"""`dotr test`: passed and failed tests, differences, unusable test files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.commands.test.difference import Item, comparable, comparable_attributes, difference
from dotr.model.terms import RDF_TYPE, WELL_KNOWN, XSD, literal
from dotr.model.time import Clock
from dotr.syntax.rendering import predicate_text, term_text
from dotr.syntax.turtle.graphs import read_graph
from tests.conftest import TEST, Project

pytestmark = pytest.mark.core


def test_correct_test_passes(project: Project) -> None:
    assert project.dotr("test", "t.yaml") == (0, "ok     t.yaml: one\n1 passed, 0 failed\n", "")
    assert project.dotr("test", ".").code == 0


def failed(project: Project, old: str, new: str) -> str:
    project.change("t.yaml", old, new)
    answer = project.dotr("test", "t.yaml")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("FAILED t.yaml:4: one\n")
    assert answer.out.endswith("\n\n0 passed, 1 failed\n")
    return answer.out.removeprefix("FAILED t.yaml:4: one\n").removesuffix("\n\n0 passed, 1 failed\n")


def test_difference_is_shown_as_diff(project: Project) -> None:
    assert failed(project, 'x: ":a"', 'x: ":b"') == "  at 1 Out by R\n-     x: :b\n+     x: :a"


def test_number_of_another_type_is_told() -> None:
    def item(n: str, total: str) -> Item:
        return Item(1_000_000, "Sum", None, comparable_attributes({"n": n, "total": total}), comparable([("<e:s>", "<e:total>", total)]))

    three, decimal, double = (literal(text, XSD + kind) for text, kind in (("3", "integer"), ("3", "decimal"), ("4.0E0", "double")))
    note = "  (the same value, another type)"
    diff = difference([item(three, three)], [item(decimal, decimal)], Clock(), {})
    assert [line.endswith(note) for line in diff.splitlines()] == [False, False, True, False, True, False, True]
    assert note not in difference([item(three, three)], [item(double, literal("3"))], Clock(), {})


def test_missing_output_fails(project: Project) -> None:
    assert failed(project, "at: 1, event", "at: 2, event").splitlines() == [
        "+ got      at 1 Out by R",
        "+     x: :a",
        "+     _:c14n0 :x :a",
        "+     _:c14n0 a :Out",
        "    Out (rule R) at 1, urn:dotr:76ad2ba7b3105a71a2931e603d5bc6d3: x :a  r.dotr:2",
        "    └ from A at 1: x :a",
        "- expected at 2 Out",
        "-     x: :a",
        "    No element is at 2, and no rule of this event waits or ticks.",
    ]


def test_additional_output_fails(project: Project) -> None:
    reported = failed(project, 'expect: [ { at: 1, event: Out, attributes: { x: ":a" } } ]', "expect: []")
    assert reported.startswith("+ got      at 1 Out by R\n")
    assert "-" not in reported


def test_graphs_are_compared_up_to_blank_nodes(project: Project) -> None:
    project.change("t.yaml", 'attributes: { x: ":a" }', 'graph: "_:any a :Out ; :x :a ."')
    assert project.dotr("test", "t.yaml").code == 0
    assert failed(project, ":x :a .", ":x 7 .") == "  at 1 Out by R\n-     _:c14n0 :x 7\n+     _:c14n0 :x :a\n      _:c14n0 a :Out"


def test_expected_facts_are_compared(project: Project) -> None:
    project.change(
        "t.yaml", 'expect: [ { at: 1, event: Out, attributes: { x: ":a" } } ]', "facts: [ { at: 1, fact: A, attributes: { x: ':a' } } ]"
    )
    assert project.dotr("test", "t.yaml").code == 0
    assert failed(project, "attributes: { x: ':a' }", "attributes: {}") == "  at 1 A\n+     x: :a"


def test_attributes_are_compared_up_to_blank_nodes(project: Project) -> None:
    project.change("t.yaml", ":a a :A", "_:b a :A")
    project.change("t.yaml", '":a" }', '"_:other" }')
    assert project.dotr("test", "t.yaml").code == 0


@pytest.mark.parametrize(
    ("got", "scalar"),
    [
        *((plain, plain) for plain in ("3", "-3", "+3", "007", "3.0", ".5", "true", "false", "1e3", "1.5E-3")),
        ("'text'", "\"'text'\""),
        ("'2024-05-14'^^xsd:date", "'\"2024-05-14\"^^xsd:date'"),
    ],
)
def test_plain_scalar_is_read_as_term(project: Project, got: str, scalar: str) -> None:
    project.change("t.yaml", ":a a :A", f"PREFIX xsd: <{XSD}> :a :v {got}")
    project.change("r.dotr", "?x a :A", "?s :v ?x")
    project.change("t.yaml", '":a" }', f"{scalar} }}")
    answer = project.dotr("test", "t.yaml")
    assert (answer.code, answer.err) == (0, "")


LITERALS = st.builds(
    lambda text, kind: literal(text, XSD + kind),
    st.from_regex(r"[+-]?[0-9]{0,3}\.?[0-9]{0,2}([eE][+-]?[0-9])?|true|false|TRUE|1|\u0665|INF|NaN", fullmatch=True) | st.text(max_size=4),
    st.sampled_from(["integer", "decimal", "double", "float", "boolean", "string", "date", "int"]),
)
IRIS = st.sampled_from(["", "a", "b.c", "é", "ª", "x y", "5", "-5", "a-b", "a/b", "a#", "a'", "a:b", ".", "ab."]).map(
    lambda local: f"<http://e/{local.replace(' ', '')}>"
)
TERMS = st.recursive(
    LITERALS | IRIS | st.just(RDF_TYPE) | st.builds(lambda text: literal(text, language="en"), st.text(max_size=3)),
    lambda inner: st.builds("<<( {} {} {} )>>".format, IRIS, IRIS | st.just(RDF_TYPE), inner),
    max_leaves=3,
)


@given(TERMS, st.booleans())
def test_shown_term_parses_to_the_same_term(term: str, declared: bool) -> None:
    prefixes = {**WELL_KNOWN, "": "http://e/"} if declared else {}
    shown = term_text(term, prefixes)
    ((_, _, read),) = read_graph(f"<x:s> <x:p> {shown} .", prefixes, 64)
    assert read == term
    ((_, predicate, _),) = read_graph(f"<x:s> {predicate_text(RDF_TYPE, prefixes)} {shown} .", prefixes, 64)
    assert predicate == RDF_TYPE


@given(TERMS, TERMS)
def test_difference_of_unequal_terms_has_lines(expected: str, got: str) -> None:
    def item(term: str, where: str) -> Item:
        attributes = comparable_attributes({"m": term}) if where == "attributes" else None
        graph = comparable([("<http://e/s>", "<http://e/p>", term)]) if where == "graph" else None
        return Item(0, "E", "R", attributes, graph)

    for where in ("attributes", "graph"):
        shown = difference([item(expected, where)], [item(got, where)], Clock(), {**WELL_KNOWN, "": "http://e/"})
        if expected == got:
            assert shown == ""
        else:
            assert [line[0] for line in shown.splitlines()] == [" ", "-", "+"]
            assert len({line[1:] for line in shown.splitlines()}) == 3


def test_difference_of_datatypes_is_shown(project: Project) -> None:
    project.change("t.yaml", ":a a :A", f":a :v '50'^^<{XSD}decimal>")
    project.change("r.dotr", "?x a :A", "?s :v ?x")
    assert failed(project, 'x: ":a"', "x: 50") == '  at 1 Out by R\n-     x: 50\n+     x: "50"^^xsd:decimal  (the same value, another type)'


def test_blank_nodes_of_several_attributes_are_distinguished(project: Project) -> None:
    project.change("r.dotr", "?x a :A", "?x :v ?y")
    project.change("r.dotr", "SELECT ?x", "SELECT ?x ?y")
    project.change("r.dotr", "with Out.?x = A.?x", "with Out.?x = A.?x, Out.?y = A.?y")
    project.change("t.yaml", ":a a :A", "_:m :v _:n")
    project.change("t.yaml", 'x: ":a"', 'x: "_:b", y: "_:c"')
    assert project.dotr("test", "t.yaml").code == 0
    assert "+     y: _:c14n" in failed(project, "_:c", "_:b")


def test_pairing_of_many_equal_outputs_needs_no_recursion() -> None:
    equal = [Item(0, "E", "R", frozenset({"n: 1"}), None)] * 1100
    loose = [Item(0, None, None, None, None)] * 1100
    assert difference(loose, equal, Clock(), {}) == ""
    first = Item(0, "E", "R", frozenset({"n: 0"}), None)
    assert difference([*loose[:-1], first], [first, *equal[:-1]], Clock(), {}) == ""


def test_unordered_stream_has_no_late_elements(project: Project) -> None:
    project.change(
        "t.yaml", 'stream: [ { at: 1, graph: ":a a :A ." } ]', 'stream: [ { at: 3, graph: ":b a :B ." }, { at: 1, graph: ":a a :A ." } ]'
    )
    assert project.dotr("test", "t.yaml").code == 0


def test_date_times_are_compared(project: Project) -> None:
    project.change("t.yaml", "at: 1,", "at: 2024-05-14 08:00:00,")
    assert project.dotr("test", "t.yaml").code == 0
    assert "at 2024-05-14T08:00:00Z" in failed(project, "{ at: 2024-05-14 08:00:00, event: Out", "{ at: 2024-05-14T08:00:01Z, event: Out")


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (":a a :A .", ":a a", "t.yaml:5:31: C208 this graph cannot be read: unexpected end (line 1, column 5)\n"),
        (":a a :A .", "p:a a :A .", "C208 this graph cannot be read: the prefix p: has not been declared (line 1, column 1)\n"),
        ("at: 1, graph", "at: soon, graph", "t.yaml:5:21: C205 this is no time: 'soon'"),
        ("at: 1, graph", "at: 1.5, graph", "t.yaml:5:21: C203 cases.0.stream.0.at should be a whole number\n"),
        ("at: 1, graph", "at: 2024-02-30T00:00:00, graph", "t.yaml:5:21: C205 this is no time: there is no 2024-02-30\n"),
        ('x: ":a"', 'x: ":a :b"', "t.yaml:6:53: C208 :a :b is no RDF term: write it as in Turtle\n"),
        ('x: ":a"', "x: ", "t.yaml:6:52: C203 cases.0.expect.0.attributes.x is empty\n"),
        ('x: ":a"', "x: [5]", "t.yaml:6:53: C203 cases.0.expect.0.attributes.x should be text\n"),
        ('x: ":a"', "x: roomA", "t.yaml:6:53: C208 roomA is no RDF term: write it as in Turtle\n"),
        ('x: ":a"', "x: :a", 'A text that begins with a colon needs quotes: ":roomA".\n'),
        ('x: ":a"', "x: 0x1F", "t.yaml:6:53: C208 0x1F is no RDF term: write it as in Turtle\n"),
        ('x: ":a"', "x: .inf", "t.yaml:6:53: C208 .inf is no RDF term: write it as in Turtle\n"),
        ('x: ":a"', "x: True", "Write true.\n"),
        ('x: ":a"', "x: 2024-05-14", "For a date: '\"2024-05-14\"^^xsd:date'.\n"),
        ('x: ":a"', 'x: ":a . <x:s> <x:q> :b"', "C208 :a . <x:s> <x:q> :b is no RDF term: write it as in Turtle\n"),
        ('x: ":a"', 'x: 1, "?x": 1', "t.yaml:6:48: C203 an attribute is given twice\n"),
        ("name: one", "nmae: one", "t.yaml:4:5: C201 unknown key nmae\n"),
        ("expect:", "expects:", "t.yaml:6:5: C201 unknown key expects\n"),
        ("expect:", "# expect:", "t.yaml:4:5: C202 case one expects nothing\n"),
        ("r.dotr", "none.dotr", "t.yaml:1:9: C301 there is no file none.dotr\n"),
        ("rules: [r.dotr]", "config: none.yaml", "t.yaml:1:9: C301 there is no file none.yaml\n"),
        ("rules: [r.dotr]", "rules: [r.dotr]\nconfig: c.yaml", "t.yaml:1:1: C204 a test has either `config`, or `rules` of its own\n"),
        ("rules: [r.dotr]\n", "", "t.yaml:1:1: C202 rules is missing\n"),
        ("cases:", "kases:", "t.yaml:1:1: C202 t.yaml is no rule test: it has no cases\n"),
    ],
)
def test_unusable_test_is_refused(project: Project, old: str, new: str, reported: str) -> None:
    project.change("t.yaml", old, new)
    project.write("sound.yaml", TEST)
    answer = project.dotr("test", "t.yaml", "sound.yaml")
    assert answer.code == 2
    assert reported in answer.err
    assert answer.out == "ok     sound.yaml: one\n1 passed, 0 failed, 1 could not be run\n"


def test_other_yaml_in_a_folder_is_skipped(project: Project) -> None:
    project.write("deep/t.yml", TEST.replace("[r.dotr]", "[../r.dotr]"))
    assert project.dotr("test", ".").out.endswith("2 passed, 0 failed\n")
    (project.folder / "empty").mkdir()
    assert "C301 there is no rule test below empty\n" in project.dotr("test", "empty").err
    assert "C301 there is no file none.yaml\n" in project.dotr("test", "none.yaml").err
    assert "C202 c.yaml is no rule test" in project.dotr("test", "c.yaml").err
