"""Warnings of conditions that never hold, compared with the oracle on random conditions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.expressions import evaluator
from dotr.evaluation.expressions.functions import FUNCTIONS
from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.languages.codes import RuleCode
from dotr.languages.rules import compile_rules
from dotr.languages.rules.lints.conditions import ACCEPTED_KINDS
from dotr.model.algebra import Call, Const, Filter
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
def test_condition_with_warning_never_holds_in_oracle(texts: list[str]) -> None:
    filters = " ".join(f"FILTER({text})" for text in texts)
    text = f"define E = [ [] a :E ] from A = [ SELECT ?s {{ ?s :a ?a ; :b ?b {filters} }} ]"
    read = compile_rules([Document("x.dotr", text)], {"": "http://example.org/", "xsd": XSD})
    assert not read.errors
    if not any(d.code in (RuleCode.NEVER_HOLDS, RuleCode.NEVER_COMPARABLE) for d in read.warnings):
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
def test_satisfiable_condition_has_no_warning(query: str) -> None:
    assert warned(query) == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("?s :a ?v FILTER(?v > 5 && 3 >= ?v)", RuleCode.NEVER_HOLDS),
        ("?s :a ?v FILTER(?v > 5) FILTER(?v = 2)", RuleCode.NEVER_HOLDS),
        ("?s :a ?v FILTER(?v = :x && ?v > 2)", RuleCode.NEVER_HOLDS),
        ("?s ?p ?v FILTER(?p = 5)", RuleCode.NEVER_COMPARABLE),
        ("?s :a ?v FILTER(?s = 5 || ?s < 3)", RuleCode.NEVER_COMPARABLE),
        ("?s :a ?v FILTER(?s < ?s)", RuleCode.NEVER_COMPARABLE),
        ("?s :a ?v OPTIONAL { ?t :b ?s } FILTER(?s = 5)", RuleCode.NEVER_COMPARABLE),
        ("{ ?s :a ?w } UNION { ?s :b ?w } FILTER(?s = 5)", RuleCode.NEVER_COMPARABLE),
        ('VALUES ?s { 1 2 } FILTER(?s = "1")', RuleCode.NEVER_COMPARABLE),
        ('{ SELECT (COUNT(*) AS ?n) { ?s :a ?w } } FILTER(?n > "2")', RuleCode.NEVER_COMPARABLE),
        ("?s :a ?v FILTER(STR(?v) != 5)", RuleCode.NEVER_COMPARABLE),
        ('?s :a ?v FILTER("a" = 1)', RuleCode.NEVER_HOLDS),
    ],
)
def test_unsatisfiable_condition_has_warning(query: str, code: RuleCode) -> None:
    assert warned(query) == [code]


def test_aggregates_and_times_in_if_are_checked() -> None:
    count = "and ?n = count(*) of B = [ SELECT ?x { ?x :b ?y } ] within 1 min from A "
    assert RuleCode.NEVER_COMPARABLE in warned("?s :a ?v", count + 'if ?n = "3"')
    assert RuleCode.NEVER_HOLDS in warned("?s :a ?v", count + "if ?n > 3 && ?n < 2")
    assert warned("?s :a ?v", count + "if ?n > 3 && time(A) > 7") == []
    assert warned("?s :a ?v", 'if time(A) > "2020-01-01"') == [RuleCode.NEVER_COMPARABLE]


KINDS: dict[TermKind, list[Term]] = {}
for _term in TERMS:
    KINDS.setdefault(term_kind(_term), []).append(_term)
KINDS[TermKind.OTHER] += [
    literal("2024-05-14T08:00:00Z", XSD + "dateTime"),
    literal("2024-05-14", XSD + "date"),
    literal("08:00:00", XSD + "time"),
    literal("PT5M", XSD + "dayTimeDuration"),
]
KINDS[TermKind.TRIPLE] = ['<<( <http://e/a> <http://e/p> "1" )>>', "<<( _:b <http://e/p> <<( _:b <http://e/p> _:b )>> )>>"]
SUITABLE = {
    TermKind.IRI: f"<{XSD}integer>",
    TermKind.TRIPLE: KINDS[TermKind.TRIPLE][0],
    TermKind.NUMBER: literal("1", XSD + "integer"),
    TermKind.STRING: literal("a"),
    TermKind.OTHER: literal("2024-05-14T08:00:00Z", XSD + "dateTime"),
}


@pytest.mark.parametrize("function", [name for name in ACCEPTED_KINDS if name != "!" and (name not in FUNCTIONS or FUNCTIONS[name].most)])
def test_argument_outside_accepted_kinds_is_error(function: str) -> None:
    """An argument of another kind is an error for all values of the other arguments."""
    accepted = ACCEPTED_KINDS[function]
    arity = 1 if function.startswith("UNARY") else 2 if not function[0].isalpha() and function[0] != "<" else FUNCTIONS[function].least or 1
    for position in range(arity):
        others = [
            [SUITABLE[kind] for kind in SUITABLE if kind in accepted[min(other, len(accepted) - 1)]]
            for other in range(arity)
            if other != position
        ]
        for kind in set(TermKind) - accepted[min(position, len(accepted) - 1)]:
            for term in KINDS[kind]:
                for rest in itertools.product(*others):
                    arguments = [*rest[:position], term, *rest[position:]]
                    assert evaluator(Call(function, tuple(map(Const, arguments))), ())() is None, (function, arguments)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("if STRLEN(A.?s) > 2", ["D317"]),
        ("if STRLEN(A.?v) > 2", []),
        ('if REGEX(A.?s, "x") || A.?v > 2', ["D317"]),
        ("if COALESCE(A.?s + 1, 3) > 2", ["D317"]),
        ("if STRLEN(STR(A.?s)) > 2 && A.?v + 1 > 2 && YEAR(A.?v) > 3", []),
        ("if A.?s", ["D313"]),
        ("if !A.?s", ["D317"]),
        ("if A.?v", []),
        ("if A.?v < A.?w && A.?v > A.?w", ["D313"]),
        ("if A.?v < A.?w && A.?w < A.?v", ["D313"]),
        ("if A.?v <= A.?w && A.?v >= A.?w", []),
        ("if A.?v != A.?w && A.?v = A.?w", ["D313"]),
        ("if A.?v < A.?v", ["D313"]),
        ("if A.?v != A.?v", []),
        ("if true && A.?v > 1", ["D316"]),
        ("if 1 < 2", ["D316"]),
        ("if A.?v > 1 || true", []),
        ("and ?n = sum(B.?s) of A as B within 1 h from A if ?n > 1", ["D317"]),
        ("and ?n = sum(B.?v) of A as B within 1 h from A if ?n > 1", []),
        ("and ?n = max(B.?s) of A as B within 1 h from A if ?n > 1", ["D314"]),
        ("and ?n = count(*) of A as B within 1 h from A and last A as C [ FILTER(STRLEN(?n) > 1) ] within 1 h from A", ["D317"]),
        ("and not A as B within [0, 1 h] from A", ["D315"]),
        ("and not A as B [ FILTER(?s = A.?s && A.?v = ?v) ] within [0, 1 h) from A", ["D315"]),
        ("and not A as B [ FILTER(?s = A.?s && ?v > A.?v) ] within [0, 1 h) from A", []),
        ("and not A as B [ FILTER(?s = A.?v) ] within [0, 1 h) from A", []),
        ("and not A as B within 1 h from A", ["D322"]),
        ("delayed by 1 min and not A as B within [0, 1 h) from A", ["D315"]),
        ("delayed by 1 min and not A as B within 1 min from A", ["D315"]),
        ("delayed by 1 min and not A as B within [0, 1 min) from A", []),
        ("delayed by 1 min and not A as B within (1 min, 1 h] from A", []),
        ("and last A as C within 1 h from A and not A as B within [0, 1 h) from C", ["D315"]),
        ("and last A as C within 1 h from A and not A as B within 1 h from C", []),
        ("and last A as C within 1 h from A and not A as B between C and C", ["D318"]),
        ('and last A as C [ FILTER(?v > 60) ] within 1 h from A if C.?v = "hot"', ["D314"]),
        ('and last A as C [ FILTER("hot" = ?v && ?w > 3) ] within 1 h from A if C.?v < 3 && STRLEN(C.?w) > 2', ["D314", "D317"]),
        ("and last A as C [ FILTER(?v > 60 || ?w > 3) ] within 1 h from A if C.?v = true", []),
        ('and ?m = max(C.?v) of A as C [ FILTER(?v > 60) ] within 1 h from A if ?m = "hot"', ["D314"]),
        ("and ?m = sum(C.?v) of A as C [ FILTER(?v = :x) ] within 1 h from A if ?m = 3", ["D317"]),
    ],
)
def test_rule_has_warnings(text: str, warnings: list[str]) -> None:
    query = "query A = [ SELECT ?s ?v ?w { ?s :a ?v ; :b ?w } ]"
    found = compile_rules([Document("x.dotr", f"{query} define E = [ [] a :E ] from A {text}")], {"": "http://example.org/"})
    assert [d.code for d in found.diagnostics if d.code != RuleCode.UNTIED] == warnings  # most of these clauses are uncorrelated


def test_kinds_propagate_between_events() -> None:
    text = """
    query A = [ SELECT ?s ?v { ?s :a ?v } ]
    rule One define One = [ [] :x ?x ; :n ?n ] from A and ?n = count(*) of A as B [ FILTER(?s = A.?s) ] within 1 h from A
        with One.?x = A.?s, One.?n = ?n
    rule Two define Two = [ [] :x ?x ; :n ?n ] from One with Two.?x = One.?x, Two.?n = One.?n
    rule Three define Three = [ [] a :T ] from Two if Two.?x > 5
    rule Four define Four = [ [] a :T ] from Two if Two.?n = "5"
    rule Again define Two = [ [] :x ?x ] from Two as Before delayed by 1 min with Two.?x = Before.?x, Two.?n = Before.?n
    rule Any define Free = [ [] :x ?x ] from Free as Before delayed by 1 min with Free.?x = Before.?x
    rule Five define Five = [ [] a :T ] from Free if Free.?x = 5
    """
    found = compile_rules([Document("x.dotr", text)], {"": "http://example.org/"})
    assert [(d.code, d.span.text if d.span else "") for d in found.diagnostics] == [
        ("D314", "Two.?x"),
        ("D314", "Two.?n"),
        ("D403", "Free"),
        ("D403", "Free"),
    ]
