"""Invalid queries are refused with a code, a span and a message of dotr's own."""

from __future__ import annotations

from typing import Final

import pytest

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.places import Document, Span
from dotr.model.terms import XSD
from dotr.syntax.sparql import parse_expression, parse_filters, parse_select

pytestmark = pytest.mark.core

PREFIXES: Final = {"": "http://e/", "xsd": XSD, "city": "http://c/"}

# Text with the span marked by «», code, part of the message.
QUERIES: Final = [
    ("SELECT ?x { ?x :p ?y «?z» }", "Q101", "unexpected ?z"),
    ("SELECT ?x «:p» { ?x :p ?y }", "Q101", "unexpected :p"),
    ("SELECT ?x { ?x :p ?y } LIMIT «?z»", "Q101", "unexpected ?z"),
    ("SELECT ?x { ?x :p ?y } LIMIT «1.5»", "Q101", "no whole number"),
    ("SELECT ?x { ?x :p ?y } «group» BY ?x ORDER ?x", "Q101", "unexpected ?x"),
    ("SELECT ?x { ?x :p ?y FILTER(?y >«)» }", "Q101", "unexpected )"),
    ("SELECT ?x { ?x :p «§» }", "Q101", "unexpected character"),
    ("SELECT ?x { ?x :p «@en» }", "Q101", "without a string"),
    ("SELECT ?x { ?x :p 'a'«@ar--RTL» }", "Q101", "RTL is no base direction"),
    ("SELECT ?x { ?x :p ?y FILTER(?y = 'a'«@ar-EG--up») }", "Q101", "up is no base direction"),
    ("SELECT ?x { ?x :p ?y FILTER(«LANGDIR»(?x, ?y) = 'rtl') }", "Q115", "LANGDIR takes one argument"),
    ("SELECT ?x { ?x :p ?y FILTER(«STRLANGDIR»(?x, 'ar') = ?y) }", "Q115", "STRLANGDIR takes three arguments"),
    ("SELECT ?x { ?x :p ?y FILTER(«hasLANG» = ?y) }", "Q101", "hasLANG is a function"),
    ("SELECT ?«x»", "Q101", "ends too early"),
    ("SELECT ?x «{» ?x :p ?y", "Q102", "never closed"),
    ("SELECT ?x { ?x :p ?y }«}»", "Q102", "closes nothing"),
    ("SELECT ?x { ?x :p (?y «}»", "Q102", "closes nothing"),
    ('SELECT ?x { ?x :p «"abc }»', "Q102", "never closed"),
    ("SELECT ?x { ?x :p ?y «FILTR»(?y > 1) }", "Q103", "unknown word FILTR"),
    ("SELECT ?x { «room» :p ?y }", "Q103", "unknown word room"),
    ("SELECT ?x { ?x «cty:»p ?y }", "Q104", "unknown prefix cty:"),
    ("SELECT ?x { ?x «<p>» ?y }", "Q105", "relative IRI"),
    ("«CONSTRUCT» { ?x :p ?y } WHERE { ?x :p ?y }", "Q106", "must be a SELECT"),
    ("«ASK» { ?x :p ?y }", "Q106", "must be a SELECT"),
    ("«INSERT» { ?x :p ?y } WHERE { ?x :p ?y }", "Q106", "changes nothing"),
    ("«DELETE» WHERE { ?x :p ?y }", "Q106", "changes nothing"),
    ("SELECT ?x { «SERVICE» :s { ?x :p ?y } }", "Q107", "SERVICE is refused"),
    ("SELECT ?x «FROM» :g { ?x :p ?y }", "Q107", "FROM is refused"),
    ("SELECT ?x { «GRAPH» :g { ?x :p ?y } }", "Q107", "GRAPH is refused"),
    ("SELECT ?x { ?x :p ?y «LATERAL» { ?x :p ?z } }", "Q107", "LATERAL"),
    ("SELECT ?x { ?x :p ?y FILTER(?y < «NOW»()) }", "Q108", "NOW is refused"),
    ("SELECT (RAND«»() AS ?r) { }", "Q108", "RAND is refused"),
    ("SELECT ?x { BIND(«bnode»() AS ?x) }", "Q108", "BNODE is refused"),
    ("SELECT ?x { ?x :p ?y OPTIONAL { ?x :q ?z FILTER(?z = «Smoke.?r») } }", "Q109", "inside OPTIONAL"),
    ("SELECT ?x { ?x :p ?y MINUS { ?x :q ?z FILTER(?z = «Smoke.?r») } }", "Q109", "inside MINUS"),
    ("SELECT ?x { ?x :p ?y FILTER EXISTS { ?x :q ?z FILTER(?z = «Smoke.?r») } }", "Q109", "inside EXISTS"),
    ("SELECT ?x { { ?x :p ?y FILTER(?y = «Smoke.?r») } UNION { ?x :q ?y } }", "Q109", "branch of UNION"),
    ("SELECT ?x { { ?x :p ?y FILTER(?y = «Smoke.?r») } }", "Q109", "nested group"),
    ("SELECT ?x { { SELECT ?x { ?x :p ?y FILTER(?y = «Smoke.?r») } } }", "Q109", "is not allowed"),
    ("SELECT ?x { ?x :p ?y BIND(«time(Smoke)» AS ?t) }", "Q109", "in BIND"),
    ("SELECT (?y - «Smoke.?r» AS ?d) { ?x :p ?y }", "Q109", "SELECT line"),
    ("SELECT ?x { ?x :p ?y } GROUP BY ?x HAVING (COUNT(*) > «Smoke.?n»)", "Q109", "in HAVING"),
    ("SELECT ?x { ?x :p ?y } ORDER BY «Smoke.?n»", "Q109", "in ORDER BY"),
    ("SELECT ?x { ?x :p «Smoke.?r» }", "Q109", "in a triple"),
    ("SELECT ?x { ?x :p ?y BIND(1 AS «?y») }", "Q111", "?y has a value already"),
    ("SELECT (1 AS «?y») { ?x :p ?y }", "Q111", "?y has a value already"),
    ("SELECT «?y» (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x", "Q112", "?y is neither grouped by nor aggregated"),
    ("SELECT («?y + 1» AS ?n) { ?x :p ?y } GROUP BY ?x", "Q112", "?y is neither"),
    ("SELECT * { ?x :p ?y } GROUP BY «?x»", "Q112", "SELECT *"),
    ("SELECT (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x HAVING («?n > 1»)", "Q112", "HAVING cannot see ?n"),
    ("SELECT ?x { ?x :p ?y FILTER(COUNT(«?y») > 1) }", "Q113", "COUNT is not allowed here"),
    ("SELECT (SUM(COUNT(«?y»)) AS ?n) { ?x :p ?y }", "Q113", "COUNT is not allowed here"),
    ("SELECT ?x { VALUES (?x ?y) { (:a :b) («:c») } }", "Q114", "a row of 1 for 2"),
    ("SELECT ?x { ?x :p ?y FILTER(«:near»(?x, ?y)) }", "Q115", "unknown function :near"),
    ("SELECT ?x { ?x :p ?y FILTER(«<urn:dotr:hidden:equal>»(?x, ?y)) }", "Q115", "unknown function <urn:dotr:hidden:equal>"),
    ("SELECT ?x { ?x :p ?y FILTER(«xsd:integer»(?x, ?y)) }", "Q115", "one argument"),
    ("SELECT ?x { _:n :p ?x { «_:n» :q ?y } }", "Q116", "two graph patterns"),
    ("SELECT ?x { ?x :p ?y FILTER(" + "(" * 148 + "«(»?y) }", "Q117", "more than 150 brackets"),
    ("SELECT DISTINCT ?x { ?x :p «?y» FILTER(?y = Smoke.?r) }", "Q119", "?y must be in the SELECT line"),
    ("SELECT (COUNT(*) AS ?n) { ?x :p «?y» FILTER(?y = Smoke.?r) }", "Q119", "?y must be in the SELECT line"),
    ('SELECT ?x { ?x :p ?y FILTER(REGEX(?y, «"(a)\\\\1"»)) }', "Q120", "back-references"),
]


def refused(text: str, parse: object = parse_select) -> tuple[Refused, str]:
    plain = text.replace("«", "").replace("»", "")
    with pytest.raises(Refused) as raised:
        parse(Span(Document("q", plain), 0, len(plain)), PREFIXES)  # type: ignore[operator]
    return raised.value, plain


@pytest.mark.parametrize(("text", "code", "words"), QUERIES, ids=[f"{c}-{w}-{i}" for i, (_, c, w) in enumerate(QUERIES)])
def test_invalid_query_is_refused_at_its_span(text: str, code: str, words: str) -> None:
    problem, plain = refused(text)
    first = problem.diagnostics[0]
    assert first.code == code
    assert words in first.message
    assert first.span is not None
    if "«»" in text or "«group»" in text:
        return
    start = text.index("«")
    assert plain[first.span.start : first.span.end] == text[start + 1 : text.index("»")]
    assert first.span.start == start


def test_query_with_several_problems_reports_each() -> None:
    problem, _ = refused("SELECT ?x { ?x cty:p ?y FILTR(?y > NOW()) }")
    assert [d.code for d in problem.diagnostics] == ["Q104", "Q103", "Q108"]


def test_misspelt_prefix_gets_a_hint() -> None:
    problem, _ = refused("SELECT ?x { ?x citty:p ?y }")
    assert problem.diagnostics[0].hint == "Did you mean city?"


def test_unexpected_word_lists_expected_keywords() -> None:
    problem, _ = refused("SELECT ?x { ?x :p ?y } LIMIT 10 FILTER(?x)")
    assert "OFFSET" in problem.diagnostics[0].hint


@pytest.mark.parametrize("text", ["", "  ", "# nothing"])
def test_empty_text_is_refused(text: str) -> None:
    assert refused(text)[0].diagnostics[0].code == "Q106"
    assert refused(text, parse_expression)[0].diagnostics[0].code == "Q101"


@pytest.mark.parametrize(
    ("text", "code"),
    [("EXISTS { ?x :p ?y }", "Q118"), ("COUNT(*) > 1", "Q113"), ("?x +", "Q101"), ("?x ?y", "Q101"), ("SELECT ?x { }", "Q101")],
)
def test_invalid_expression_is_refused(text: str, code: str) -> None:
    assert refused(text, parse_expression)[0].diagnostics[0].code == code


@pytest.mark.parametrize("text", ["?x :p ?y", "FILTER(?x) ?y", "FILTER(?x) } {", "FILTER(EXISTS { })", "SELECT * { }"])
def test_invalid_filters_are_refused(text: str) -> None:
    assert refused(text, parse_filters)[0].diagnostics


def test_messages_name_no_grammar_rules_or_placeholders() -> None:
    for text, _, _ in QUERIES:
        problem, _ = refused(text)
        for diagnostic in problem.diagnostics:
            assert "pyparsing" not in str(diagnostic)
            assert "placeholder" not in str(diagnostic)


def problems(text: str) -> tuple[Diagnostic, ...]:
    try:
        parse_select(Span(Document("q", text), 0, len(text)), PREFIXES)
    except Refused as refusal:
        return refusal.diagnostics
    return ()


def test_damaged_query_raises_refused_only() -> None:
    text = 'PREFIX x: <http://x/> SELECT ?a (COUNT(?b) AS ?n) { ?a x:p/^:q* "v"@en, -1.5e3 FILTER(?b > A.?c && regex(?a, "x")) }'
    for cut in range(len(text)):
        for damaged in (text[:cut], text[:cut] + text[cut + 1 :], text[:cut] + "(" + text[cut:]):
            for diagnostic in problems(damaged):
                assert diagnostic.span is not None
                assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(damaged)
                assert str(diagnostic)
