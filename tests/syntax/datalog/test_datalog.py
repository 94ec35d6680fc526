"""Parser of Datalog files: both notations, terms, and errors, all of which are reported."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem, Not
from dotr.model.places import Document
from dotr.model.terms import RDF, RDF_TYPE, RDFS, TRUE, XSD, iri, literal
from dotr.syntax.datalog import parse_datalog
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

PREFIXES = {"": "http://example.org/", "rdf": RDF, "rdfs": RDFS, "xsd": XSD}
ERRORS = TESTS / "errors"
CASES = sorted(ERRORS.glob("K2*.dlog"))
CODES = {f"K2{number:02}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12)}


def parse(text: str) -> tuple[DatalogRule, ...]:
    return parse_datalog(Document("rules.dlog", text), PREFIXES)


def one(text: str) -> DatalogRule:
    (rule,) = parse(text)
    return rule


def e(name: str) -> Const:
    return Const(iri(f"http://example.org/{name}"))


def atom(subject: str, predicate: Const, object_: str | Const) -> TriplePattern:
    return TriplePattern(Var(subject), predicate, Var(object_) if isinstance(object_, str) else object_)


TYPE = Const(RDF_TYPE)


def test_papers_rule_is_parsed() -> None:
    rule = one(":is_in_room(?A,?B) :- :is_at_location(?A,?C), :is_in_room(?C,?B)")
    assert rule.head == (atom("A", e("is_in_room"), "B"),)
    assert rule.body == (atom("A", e("is_at_location"), "C"), atom("C", e("is_in_room"), "B"))


def test_rdfox_and_paper_notation_can_be_mixed() -> None:
    rule = one("""
        [?x, rdf:type, :HotRoom] :- :Temp(?r), :is_from_sensor[?r, ?s], :is_in_room[?s, ?x], [?r, :has_val, ?v],
                                    FILTER(?v > 60), NOT :is_broken[?s, true], BIND(?v * 2 AS ?w) .
    """)
    assert rule.head == (atom("x", TYPE, e("HotRoom")),)
    assert rule.body == (
        atom("r", TYPE, e("Temp")),
        atom("r", e("is_from_sensor"), "s"),
        atom("s", e("is_in_room"), "x"),
        atom("r", e("has_val"), "v"),
        FilterItem(Call(">", (Var("v"), Const(literal("60", XSD + "integer"))))),
        Not((atom("s", e("is_broken"), Const(TRUE)),)),
        Bind(Call("*", (Var("v"), Const(literal("2", XSD + "integer")))), "w"),
    )


def test_rule_with_several_heads_is_parsed() -> None:
    assert one(":A(?x), :p(?x, :a) :- :B(?x) .").head == (atom("x", TYPE, e("A")), atom("x", e("p"), e("a")))


def test_variable_is_allowed_in_any_slot() -> None:
    assert one("[?s, ?p, ?o] :- [?o, ?p, ?s] .").head == (TriplePattern(Var("s"), Var("p"), Var("o")),)


def test_false_is_empty_head() -> None:
    rule = one("false :- :A(?x), :B(?x) .")
    assert (rule.head, len(rule.body)) == ((), 2)


@pytest.mark.parametrize(
    "text", [":A(:a) .", ":A(:a) :- .", ":A[:a].", "[:a, a, :A].", "a(:a, :A).", "rdf:type(:a, :A) .", "<http://example.org/A>(:a) ."]
)
def test_fact_is_rule_without_body(text: str) -> None:
    rule = one(text)
    assert rule.head == (TriplePattern(e("a"), TYPE, e("A")),)
    assert rule.body == ()


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("5", literal("5", XSD + "integer")),
        ("-5", literal("-5", XSD + "integer")),
        ("005", literal("005", XSD + "integer")),
        ("5.50", literal("5.50", XSD + "decimal")),
        (".5", literal(".5", XSD + "decimal")),
        ("5e0", literal("5e0", XSD + "double")),
        ("1.E3", literal("1.E3", XSD + "double")),
        ("true", TRUE),
        ('"a, )b"', literal("a, )b")),
        ("'a'", literal("a")),
        ('"""two\n"lines\\""""', literal('two\n"lines"')),
        ('"a"@EN-gb', literal("a", language="en-gb")),
        ('"a"@AR--rtl', '"a"@ar--rtl'),
        ('"a"^^xsd:string', literal("a")),
        ('"5" ^^ xsd:integer', literal("5", XSD + "integer")),
        ('"5"^^<http://example.org/t>', literal("5", "http://example.org/t")),
        ("<http://example.org/a#b,c>", iri("http://example.org/a#b,c")),
        (":a.b-c", iri("http://example.org/a.b-c")),
        (r":a\,b", iri("http://example.org/a,b")),
        (":a%2Cb", iri("http://example.org/a%2Cb")),
        (":", iri("http://example.org/")),
        ("a", RDF_TYPE),
        (r"<http://example.org/\u00e9>", iri("http://example.org/é")),
    ],
)
def test_term_is_parsed(text: str, term: str) -> None:
    assert one(f":p(:s,{text}).").head[0].object == Const(term)
    assert one(f":A(?x):-:p(?x,{text}).").body == (atom("x", e("p"), Const(term)),)


def test_file_prefixes_hide_configured_prefixes() -> None:
    turtle = "@prefix : <http://a/> .\n@prefix b: <http://b/> . :A(b:x) ."
    sparql = "PREFIX : <http://a/>\nprefix b: <http://b/>\n:A(b:x) ."
    expected: Slot = Const("<http://a/A>")
    for text in (turtle, sparql):
        (rule,) = parse(text)
        assert (rule.head[0].subject, rule.head[0].object) == (Const("<http://b/x>"), expected)
    with pytest.raises(Refused, match="K202 unknown prefix rdf:"):
        parse("PREFIX : <http://a/>\n :A(rdf:x) .")


def test_prefix_can_be_redeclared() -> None:
    rules = parse("PREFIX : <http://a/> :A(:x) . PREFIX : <http://b/> :A(:x) .")
    assert [rule.head[0].subject for rule in rules] == [Const("<http://a/x>"), Const("<http://b/x>")]


def test_relative_iri_needs_base() -> None:
    assert one("@base <http://a/b/> . [<c>, a, <#d>] .").head[0] == TriplePattern(Const("<http://a/b/c>"), TYPE, Const("<http://a/b/#d>"))
    assert one("BASE <http://a/b/> [<c>, a, <#d>] .").head[0].object == Const("<http://a/b/#d>")


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("NOT :p(?x, ?y)", (atom("x", e("p"), "y"),)),
        ("NOT(:p(?x, ?y), :B(?y))", (atom("x", e("p"), "y"), atom("y", TYPE, e("B")))),
        ("not [?x, :p, ?y]", (atom("x", e("p"), "y"),)),
        ("NOT EXISTS ?y IN :p[?x, ?y]", (atom("x", e("p"), "y"),)),
        ("NOT EXISTS ?y, ?z IN ([?x, :p, ?y], [?y, :p, ?z])", (atom("x", e("p"), "y"), atom("y", e("p"), "z"))),
    ],
)
def test_not_is_parsed(text: str, body: tuple[TriplePattern, ...]) -> None:
    items: tuple[BodyItem, ...] = one(f":A(?x) :- {text}, :B(?x) .").body
    assert items == (Not(body), atom("x", TYPE, e("B")))


def test_expression_ends_at_its_closing_bracket() -> None:
    rule = one(
        """:A(?x) :- :p(?x, ?v), FILTER((?v + 1) * 2 > 3 && ?v != ')' && ?v != ' # ('), FILTER regex(?v, "a[)]"), BIND((?v+(1)) AS ?w)."""
    )
    assert [type(item) for item in rule.body] == [TriplePattern, FilterItem, FilterItem, Bind]


def test_rule_has_name_and_span() -> None:
    text = "# facts\n:A(:a) . :B(:b) .\n\n:C(?x) :-\n    :A(?x) ."
    rules = parse(text)
    assert [rule.name for rule in rules] == ["rules.dlog:2", "rules.dlog:2", "rules.dlog:4"]
    assert [rule.span.text for rule in rules if rule.span] == [":A(:a) .", ":B(:b) .", ":C(?x) :-\n    :A(?x) ."]


@pytest.mark.parametrize("text", ["", "# nothing\n", " \r\n\t", "PREFIX : <http://a/>", "@prefix : <http://a/> .", "."])
def test_empty_file_has_no_rules(text: str) -> None:
    assert parse(text) == ()


def test_all_problems_are_reported() -> None:
    with pytest.raises(Refused) as refused:
        parse(":A(?x) :- foo:B(?x), bar:C(?x) .\n:A(?x :- :B(?x) .\n:A(?x) :- :B(?x) .\n:A(5) .\n:A(?x) :- :B(?x), FILTER(?x > ).")
    assert [(d.code, d.span and d.span.line_column[0]) for d in refused.value.diagnostics] == [
        ("K202", 1),
        ("K202", 1),
        ("K201", 2),
        ("K204", 4),
        ("Q101", 5),
    ]


def test_unclosed_bracket_affects_one_statement_only() -> None:
    with pytest.raises(Refused) as refused:
        parse(":A(?x) :- :B(?x), FILTER((?x > 5) .\n:C(:c) .\n:D(:d .\n:E(x:e) .")
    assert [(d.code, d.span and d.span.line_column[0]) for d in refused.value.diagnostics] == [("K208", 1), ("K201", 3), ("K202", 4)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_message_is_golden(case: Path) -> None:
    expected = case.with_suffix(".txt").read_text("utf-8")
    assert messages(case) == expected
    assert f" {case.stem.split('_')[0]} " in expected


def messages(case: Path) -> str:
    with pytest.raises(Refused) as refused:
        parse_datalog(Document(case.name, case.read_text("utf-8")), PREFIXES)
    return str(refused.value) + "\n"


def test_every_code_has_case() -> None:
    assert {case.stem.split("_")[0] for case in CASES} == CODES


SNIPPETS = st.sampled_from(
    [
        *"()[],.:?@^<>\"'#\\\n ",
        ":-",
        "<<(",
        ")>>",
        "?x",
        ":p",
        "a",
        "NOT",
        "FILTER",
        "BIND",
        "AS",
        "EXISTS",
        "IN",
        "PREFIX",
        "@prefix",
        "5",
        "<http://a/>",
        "_:b",
    ]
)


@given(st.one_of(st.text(), st.lists(SNIPPETS).map("".join), st.lists(SNIPPETS).map(" ".join)))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(Refused):
        parse(text)


if __name__ == "__main__":
    for case in CASES:
        case.with_suffix(".txt").write_text(messages(case), "utf-8")
