"""The warnings of conditions that can never hold are no false alarms: held against the oracle's evaluation of random conditions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.languages.dotr import Code, compile_rules
from dotr.model.algebra import Filter
from dotr.model.places import Document
from dotr.model.rules import FactSource
from dotr.model.terms import XSD, Term, literal
from tests.oracle.expressions import Scope, holds

CLOSE = ("0.1", "0.10000000000000001", "1e-1", '"0.1"^^xsd:float', "16777216", "16777217", "16777217.0", "1.6777217e7", '"NaN"^^xsd:double')
VALUES = ("1", "2", "1.0", "2.50", "1e0", "-1", '"1"', '"b"', "true", "false", '"b"@en', ":n", '"x"^^:type', *CLOSE)
TERMS: tuple[Term, ...] = (
    *(literal(text, XSD + kind) for kind in ("integer", "long") for text in ("-1", "0", "1", "2", "16777216", "16777217")),
    *(literal(text, XSD + "decimal") for text in ("0.1", "0.10000000000000001", "1.5", "2.50", "16777217.0", "16777216.5")),
    *(literal(text, XSD + kind) for kind in ("float", "double") for text in ("0.1", "1", "1.6777217e7", "1.6777216e7", "NaN", "INF")),
    *(literal(text) for text in ("1", "b", "", "on")),
    literal("b", language="en"),
    literal("true", XSD + "boolean"),
    literal("0", XSD + "boolean"),
    literal("x", "http://example.org/type"),
    literal("one", XSD + "integer"),
    "<http://example.org/n>",
    "<http://example.org/m>",
    "_:b",
)


def operands() -> st.SearchStrategy[str]:
    plain = st.sampled_from(["?a", "?b", "?a", "?b", *VALUES])
    computed = st.builds("{}({})".format, st.sampled_from(["STR", "STRLEN", "xsd:integer", "ISIRI", "DATATYPE"]), plain)
    return st.one_of(plain, plain, plain, computed, st.builds("COALESCE({}, {})".format, plain, plain), st.builds("({} + 1)".format, plain))


def conditions() -> st.SearchStrategy[str]:
    operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "IN"])
    compared = st.builds(lambda a, o, b: f"{a} IN ({b})" if o == "IN" else f"{a} {o} {b}", operands(), operators, operands())
    return st.recursive(
        compared,
        lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||"]), inner) | st.builds("!({})".format, inner),
    )


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(st.lists(conditions(), min_size=1, max_size=3))
def test_what_is_said_to_hold_never_does_never_hold(texts: list[str]) -> None:
    filters = " ".join(f"FILTER({text})" for text in texts)
    text = f"define E = [ [] a :E ] from A = [ SELECT ?s {{ ?s :a ?a ; :b ?b {filters} }} ]"
    read = compile_rules([Document("x.dotr", text)], {"": "http://example.org/", "xsd": XSD})
    assert not read.errors
    if not any(d.code in (Code.NEVER_HOLDS, Code.NEVER_COMPARABLE) for d in read.warnings):
        return
    source = read.rules[0].anchor.source
    assert isinstance(source, FactSource)
    pattern = source.query.pattern
    assert isinstance(pattern, Filter)
    for a, b in itertools.product(TERMS, TERMS):
        assert not all(holds(c, Scope({"a": a, "b": b})) for c in pattern.conditions)


def warned(query: str, rest: str = "") -> list[str]:
    text = f"define E = [ [] a :E ] from A = [ SELECT * {{ {query} }} ] {rest}"
    return [d.code for d in compile_rules([Document("x.dotr", text)], {"": "http://example.org/", "xsd": XSD}).diagnostics]


@pytest.mark.parametrize(
    "query",
    [
        "?s :a ?v FILTER(?v > 5 && ?v < 6)",
        "?s :a ?v FILTER(?v >= 5 && ?v <= 5)",
        "?s :a ?v FILTER(?v > 5 || ?v < 3)",
        "?s :a ?v FILTER(?v != 5 && ?v = 5.5)",
        "?s :a ?v FILTER(?v = 5 && ?v = 5.0)",
        "?s :a ?v FILTER(?v > 16777216 && ?v < 16777217)",
        "?s :a ?v FILTER(?v > 5 && ?v <= 5e0)",
        "?s :a ?v . ?v :b ?w FILTER(?v != 5)",
        "?s :a* ?v FILTER(?s = 5)",
        "OPTIONAL { ?s :a ?w } ?t :b ?s FILTER(?s = 5)",
        "{ ?s :a ?w } UNION { ?t :b ?s } FILTER(?s = 5)",
        "VALUES ?s { 1 } FILTER(?s = 1)",
        '?s :a ?v BIND(IF(?v > 1, 1, "a") AS ?w) FILTER(?w = 1)',
        "?s :a ?v FILTER(!(?s = 5))",
        "?s :a ?v FILTER(COALESCE(?s > 5, true))",
        "?s :a ?v FILTER(1 < 2)",
    ],
)
def test_no_false_alarm(query: str) -> None:
    assert warned(query) == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("?s :a ?v FILTER(?v > 5 && 3 >= ?v)", Code.NEVER_HOLDS),
        ("?s :a ?v FILTER(?v > 5) FILTER(?v = 2)", Code.NEVER_HOLDS),
        ("?s :a ?v FILTER(?v = :x && ?v > 2)", Code.NEVER_HOLDS),
        ("?s ?p ?v FILTER(?p = 5)", Code.NEVER_COMPARABLE),
        ("?s :a ?v FILTER(?s = 5 || ?s < 3)", Code.NEVER_COMPARABLE),
        ("?s :a ?v FILTER(?s < ?s)", Code.NEVER_COMPARABLE),
        ("?s :a ?v OPTIONAL { ?t :b ?s } FILTER(?s = 5)", Code.NEVER_COMPARABLE),
        ("{ ?s :a ?w } UNION { ?s :b ?w } FILTER(?s = 5)", Code.NEVER_COMPARABLE),
        ('VALUES ?s { 1 2 } FILTER(?s = "1")', Code.NEVER_COMPARABLE),
        ('{ SELECT (COUNT(*) AS ?n) { ?s :a ?w } } FILTER(?n > "2")', Code.NEVER_COMPARABLE),
        ("?s :a ?v FILTER(STR(?v) != 5)", Code.NEVER_COMPARABLE),
        ('?s :a ?v FILTER("a" = 1)', Code.NEVER_HOLDS),
    ],
)
def test_alarm(query: str, code: Code) -> None:
    assert warned(query) == [code]


def test_aggregates_and_times_in_the_last_condition() -> None:
    count = "and ?n = count(*) of B = [ SELECT ?x { ?x :b ?y } ] within 1 min from A "
    assert Code.NEVER_COMPARABLE in warned("?s :a ?v", count + 'if ?n = "3"')
    assert Code.NEVER_HOLDS in warned("?s :a ?v", count + "if ?n > 3 && ?n < 2")
    assert warned("?s :a ?v", count + "if ?n > 3 && time(A) > 7") == []
    assert warned("?s :a ?v", 'if time(A) > "2020-01-01"') == [Code.NEVER_COMPARABLE]
