"""Limits of the length of computed literals (`limits.literal`) and of the digits of numbers."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest

from dotr.api.session import Session
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.expressions import evaluator
from dotr.evaluation.limits import BOUNDS, DIGITS, LIMITS, LONGEST_TEXT, Limits
from dotr.languages.programs import compile_program
from dotr.model.algebra import Var
from dotr.model.places import Document, Span
from dotr.model.terms import XSD, Term, literal, literal_parts
from dotr.syntax.sparql import parse_expression

PREFIXES = {"": "http://e/", "xsd": XSD}


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    yield
    BOUNDS.characters = LONGEST_TEXT


def value(text: str, **bound: Term) -> Term | None:
    expression = parse_expression(Span(Document("", text), 0, len(text)), PREFIXES)
    result: Term | None = evaluator(expression, [Var(name) for name in bound])(*bound.values())
    return result


def test_default_of_the_evaluator_is_that_of_limits() -> None:
    assert LIMITS.literal == LONGEST_TEXT


@pytest.mark.parametrize(
    ("just", "over"),
    [
        ('CONCAT("123456", "7890")', 'CONCAT("123456", "78901")'),
        ('CONCAT("123456"@en, "7890"@en)', 'CONCAT("123456"@en, "78901"@en)'),
        ('REPLACE("abab", "a", "----")', 'REPLACE("ababa", "a", "----")'),
        ('REPLACE("aaaaa", "a", "$0$0")', 'REPLACE("aaaaaa", "a", "$0$0")'),
        ('REPLACE("xaaaaxyzuv", "aaaa", "1234")', 'REPLACE("xaaaaxyzuvw", "aaaa", "1234")'),
        ('STR("1234567890")', 'STR("12345678901")'),
        ("STR(<a:34567890>)", "STR(<a:345678901>)"),
        ('UCASE("ßßßßß")', 'UCASE("ßßßßßß")'),
        ('LCASE("ABCDEFGHIJ")', 'LCASE("ABCDEFGHIJK")'),
        ('ENCODE_FOR_URI("abcd  ")', 'ENCODE_FOR_URI("abcde  ")'),
        ('SUBSTR("12345678901", 2)', 'SUBSTR("123456789012", 2)'),
        ('STRBEFORE("1234567890-", "-")', 'STRBEFORE("12345678901-", "-")'),
        ('STRAFTER("-1234567890", "-")', 'STRAFTER("-12345678901", "-")'),
        ('STRDT("1234567890", :t)', 'STRDT("12345678901", :t)'),
        ('STRLANG("1234567890", "en")', 'STRLANG("12345678901", "en")'),
        ('xsd:string("1234567890")', 'xsd:string("12345678901")'),
        ('IRI("a:34567890")', 'IRI("a:345678901")'),
        ("10.0 * 12.3456789", "10.0 * 12.345678901"),
        ('"1970-01-01"^^xsd:date + "P1D"^^xsd:dayTimeDuration', '"10970-01-01"^^xsd:date + "P1D"^^xsd:dayTimeDuration'),
    ],
)
def test_a_computed_literal_over_the_limit_is_an_error(just: str, over: str) -> None:
    BOUNDS.characters = 10
    assert value(just) is not None
    assert value(over) is None


def test_group_concat_over_the_limit_is_an_error() -> None:
    from dotr.evaluation.expressions import aggregate
    from dotr.model.algebra import AggregateCall

    BOUNDS.characters = 10
    joined = aggregate(AggregateCall("GROUP_CONCAT", False, None, ", "))
    assert joined(['"1234"', '"5678"']) == '"1234, 5678"'
    assert joined(['"1234"', '"56789"']) is None


@pytest.mark.parametrize(
    "text",
    [
        'REPLACE(?x, "a", ?x)',
        'REPLACE(?x, "(a+)", "$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1")',
        "CONCAT(" + ", ".join(["?x"] * 1000) + ")",
        "REPLACE('a', 'a', CONCAT(?x, ?x, ?x, ?x))",
    ],
)
def test_literal_over_the_limit_is_refused_before_memory_is_used(text: str) -> None:
    x = literal("a" * 250_000)
    value(text, x=x)
    tracemalloc.start()
    assert value(text, x=x) is None or text.startswith("REPLACE('a'")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000


DOUBLING = """
PREFIX : <http://e/>
query T = [ SELECT ?v WHERE { ?s :v ?v } ]
rule Grow
define Grown = [ dotr_id1 :x ?x ]
from T and last Grown as Before within (0, 1 h] from T
with Grown.?x = COALESCE(CONCAT(Before.?x, Before.?x), "none")
rule Start
define Grown = [ dotr_id1 :x ?x ]
from T
and not Grown as Earlier within (0, 1 h] from T
with Grown.?x = "ab"
"""


def program(rules: str, datalog: str = "", **limits: int) -> CompiledProgram:
    documents = (Document("a.dlog", datalog),) if datalog else ()
    return compile_program(ProgramSpec(rules=(Document("a.dotr", rules),), datalog=documents, prefixes=PREFIXES, limits=Limits(**limits)))


def test_text_that_doubles_at_each_instant_ends_at_the_limit() -> None:
    session = Session(program(DOUBLING.replace('COALESCE(CONCAT(Before.?x, Before.?x), "none")', "CONCAT(Before.?x, Before.?x)")))
    lengths: list[int | None] = []
    for second in range(1, 40):
        for event in session.advance(second, "@prefix : <http://e/> . :s :v 1 ."):
            lengths += [len(event.attributes["x"]) - 2 if "x" in event.attributes else None]
    assert lengths[:3] == [2, 4, 8]
    assert max(length for length in lengths if length is not None) == LIMITS.literal
    assert None in lengths


RULES = """
PREFIX : <http://e/>
rule R define E = [ dotr_id1 :x ?x ; :y ?y ]
from T = [ SELECT ?x ?v WHERE { ?s :v ?v . OPTIONAL { ?s :w ?w } BIND(CONCAT(?v, "+") AS ?x) } ]
with E.?x = T.?x, E.?y = CONCAT(T.?v, "-")
"""


def test_both_stages_and_datalog_apply_the_limit_of_the_program() -> None:
    datalog = ':w(?s, ?w) :- :v(?s, ?v), BIND(CONCAT(?v, ".") AS ?w) .'
    small, large = Session(program(RULES, datalog, literal=5)), Session(program(RULES, datalog))
    graph = '@prefix : <http://e/> . :s :v "%s" .'
    for text, fits in (("1234", True), ("12345", False)):
        when = len(text)
        for session, whole in ((small, fits), (large, True)):
            events = session.advance(when, graph % text)
            assert [set(event.attributes) for event in events] == [{"x", "y"} if whole else set()]


def integer(digits: int) -> Term:
    return literal("7" * digits, XSD + "integer")


@pytest.mark.parametrize("digits", [4299, 4300, 4301, 10_000, DIGITS])
def test_integers_and_decimals_of_many_digits_are_numbers(digits: int) -> None:
    x, d = integer(digits), literal("7" * (digits - 2) + ".77", XSD + "decimal")
    more = '"' + "7" * (digits - 1) + '8"^^<' + XSD + "integer>"
    assert value("?x > 60 && isNumeric(?x) && ?x = ?x && ?x < ?y", x=x, y=more) == value("true")
    assert value("?x + 1", x=x) == more
    assert value("?x - ?y", x=x, y=more) == value("?z", z=literal("-1", XSD + "integer"))
    assert value("?d > 60 && ?d < ?x || STRLEN(STR(?d)) != STRLEN(STR(?x)) + 1", d=d, x=x) == value("true")
    assert value("xsd:integer(?d)", d=d) == integer(digits - 2)
    assert value("xsd:integer(STR(?x))", x=x) == x
    assert value("?x / ?x", x=x) == '"1"^^<' + XSD + "decimal>"
    assert value("?x / 2", x=x) is not None or digits == DIGITS


def test_number_of_more_digits_is_an_error() -> None:
    assert value("isNumeric(?x)", x=integer(DIGITS + 1)) == value("false")
    assert value("isNumeric(?x)", x=literal("." + "7" * (DIGITS + 2), XSD + "decimal")) == value("false")
    assert value("?x * ?x", x=integer(DIGITS // 2)) is not None
    assert value("?x * ?x * 10", x=integer(DIGITS // 2)) is None
    assert value("?x * ?x > 0", x=integer(DIGITS // 2 + 1)) is None
    assert value("?x / 10", x=literal("1" * DIGITS, XSD + "decimal")) is not None
    assert value("?x / 3", x=literal("1" * DIGITS, XSD + "decimal")) is None


@pytest.mark.parametrize("term", [literal("7" * 1000, XSD + "integer"), literal("." + "0" * 999 + "7", XSD + "decimal")])
def test_repeated_multiplication_ends_at_the_limit(term: Term) -> None:
    start = time.process_time()
    assert value(" * ".join(["?x"] * 10_000), x=term) is None
    squared: Term | None = term
    for _ in range(60):
        squared = value("?x * ?x", x=squared) if squared is not None else None
    assert squared is None
    assert time.process_time() - start < 20


def test_growing_duration_ends_at_the_limit() -> None:
    day = literal("P1D", XSD + "dayTimeDuration")
    grown: Term | None = day
    for _ in range(20_000):
        grown = value("?x * 1000000000000000000000000000000000000000000", x=grown) if grown is not None else None
    assert grown is None


def test_nesting_triple_terms_ends_at_the_limit() -> None:
    term: Term | None = value("TRIPLE(:a, :p, :b)")
    depth = 0
    while term is not None:
        depth += 1
        term = value("TRIPLE(:a, :p, ?x)", x=term)
    assert depth == 64


def test_round_keeps_all_digits() -> None:
    big = "1" * 30
    assert literal_parts(value(f"ROUND({big}.7)") or '""')[0] == "1" * 29 + "2"
    assert literal_parts(value(f"ROUND(-{big}.5)") or '""')[0] == "-" + "1" * 30
    assert literal_parts(value(f"ROUND({big}.5)") or '""')[0] == "1" * 29 + "2"
