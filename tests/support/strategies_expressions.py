"""Random SPARQL expressions over given terms (`?v`, `M.?v`, `time(M)`).

They cover every operator and function, mostly on values of its kind. Composed expressions have
parentheses, so each can be used as an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from hypothesis import strategies as st

from tests.support.strategies_streams import MOST_VALUES, NAMES, NUMBERS, VALUES, pick

Draw: TypeAlias = st.DrawFn
Terms: TypeAlias = Sequence[str]

MOMENTS = (
    '"1970-01-01T00:00:02Z"^^xsd:dateTime',
    '"2014-08-01T23:59:59.5+02:00"^^xsd:dateTime',
    '"2012-02-29T12:00:00"^^xsd:dateTime',
    'xsd:dateTime("1999-12-31T24:00:00Z")',
    'xsd:dateTime("no date")',
)
ZONES = ('"Europe/Berlin"', '"Asia/Kathmandu"', '"UTC"')
LENGTHS = ('"PT1S"^^xsd:dayTimeDuration', '"-P1DT2H0.5S"^^xsd:dayTimeDuration', '"PT0S"^^xsd:dayTimeDuration')
TEXTS = ('"b"', '"ab cB1"', '"B"@en', '"abc"@de', '""', '"1"', '"and ] within # if"', "'é%'")
PATTERNS = ('"b"', '"^a.c"', '"[a-b]+1$"', '"B|1"', '"(.)b"', '"\\\\d"')
REPLACEMENTS = ('"-"', '"x y"', '""')
TAGS = ('"en"', '"de-AT"', '"no tag"')
DIRECTIONS = ('"ltr"', '"rtl"', '"RTL"')
TESTS = ("isIRI", "isURI", "isBlank", "isLiteral", "isNumeric", "isTRIPLE", "hasLANG", "hasLANGDIR")
RANGES = ('"*"', '"en"', '"DE"')
DIGESTS = ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")
CASTS = ("integer", "decimal", "double", "float", "string", "boolean")
MATH = "http://www.w3.org/2005/xpath-functions/math#"
OF_DOUBLES = ("exp", "exp10", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan")
SCALARS = ("0", "1", "2", "1.5", "0.1", "1e0", "-1", "3")


_Made = TypeVar("_Made")


def one_of(draw: Draw, *makers: Callable[[], _Made]) -> _Made:
    return makers[draw(st.integers(0, len(makers) - 1))]()


def simple(draw: Draw, terms: Terms, constants: Sequence[str] = (*MOST_VALUES, *NAMES)) -> str:
    """A term, most of the time, or a constant."""
    return pick(draw, terms) if terms and draw(st.integers(0, 2)) > 0 else pick(draw, constants)


def number(draw: Draw, terms: Terms, depth: int) -> str:
    if not depth or not draw(st.integers(0, 2)):
        return simple(draw, terms, (*NUMBERS, *SCALARS))
    below = depth - 1
    return one_of(
        draw,
        lambda: f"({number(draw, terms, below)} {pick(draw, '+-*/')} {number(draw, terms, below)})",
        lambda: f"({number(draw, terms, below)} {pick(draw, '+-*/')} {number(draw, terms, below)})",
        lambda: f"{pick(draw, ('ABS', 'CEIL', 'FLOOR', 'ROUND'))}({number(draw, terms, below)})",
        lambda: f"({pick(draw, '-+')} ({number(draw, terms, below)}))",
        lambda: f"STRLEN({text(draw, terms, below)})",
        lambda: f"<{MATH}{pick(draw, OF_DOUBLES)}>({number(draw, terms, below)})",
        lambda: f"<{MATH}{pick(draw, ('pow', 'atan2'))}>({number(draw, terms, below)}, {number(draw, terms, below)})",
        lambda: f"<{MATH}pi>()",
        lambda: f"{pick(draw, ('YEAR', 'MONTH', 'DAY', 'HOURS', 'MINUTES', 'SECONDS'))}({moment(draw, terms, below)})",
        lambda: f"<urn:dotr:function:seconds>({length(draw, terms, below)})",
        lambda: f"xsd:{pick(draw, CASTS[:4])}({operand(draw, terms, below)})",
    )


def text(draw: Draw, terms: Terms, depth: int) -> str:
    if not depth or not draw(st.integers(0, 2)):
        return simple(draw, [*terms, *(f"STR({term})" for term in terms)], TEXTS)
    below = depth - 1

    def inner() -> str:
        return text(draw, terms, below)

    return one_of(
        draw,
        lambda: f"STR({operand(draw, terms, below)})",
        lambda: f"CONCAT({', '.join(inner() for _ in range(draw(st.integers(0, 3))))})",
        lambda: f"SUBSTR({inner()}, {number(draw, terms, 0)})",
        lambda: f"SUBSTR({inner()}, {pick(draw, SCALARS)}, {pick(draw, SCALARS)})",
        lambda: f"{pick(draw, ('UCASE', 'LCASE'))}({inner()})",
        lambda: f"{pick(draw, ('STRBEFORE', 'STRAFTER'))}({inner()}, {pick(draw, TEXTS)})",
        lambda: f"REPLACE({inner()}, {pick(draw, PATTERNS)}, {pick(draw, REPLACEMENTS)})",
        lambda: f'REPLACE({inner()}, "(b|1)", "<$1>", "i")',
        lambda: f"ENCODE_FOR_URI({inner()})",
        lambda: f"{pick(draw, DIGESTS)}({inner()})",
        lambda: f"LANG({operand(draw, terms, below)})",
        lambda: f"TZ({moment(draw, terms, below)})",
        lambda: f"STRLANG({inner()}, {pick(draw, TAGS)})",
        lambda: f"STRLANGDIR({inner()}, {pick(draw, TAGS)}, {pick(draw, DIRECTIONS)})",
        lambda: f"LANGDIR({operand(draw, terms, below)})",
        lambda: f"xsd:string({operand(draw, terms, below)})",
    )


def moment(draw: Draw, terms: Terms, depth: int) -> str:
    times = [term for term in terms if term.startswith("time(")]
    if not depth or draw(st.booleans()):
        return simple(draw, times or terms, MOMENTS)
    below = depth - 1
    return one_of(
        draw,
        lambda: f"({moment(draw, terms, below)} {pick(draw, '+-')} {length(draw, terms, below)})",
        lambda: f"xsd:dateTime({operand(draw, terms, below)})",
        lambda: f"<urn:dotr:function:inZone>({moment(draw, terms, below)}, {pick(draw, ZONES)})",
    )


def length(draw: Draw, terms: Terms, depth: int) -> str:
    if not depth or draw(st.booleans()):
        return simple(draw, terms, LENGTHS) if draw(st.integers(0, 3)) == 3 else pick(draw, LENGTHS)
    below = depth - 1
    return one_of(
        draw,
        lambda: f"({moment(draw, terms, below)} - {moment(draw, terms, below)})",
        lambda: f"({length(draw, terms, below)} {pick(draw, '+-')} {length(draw, terms, below)})",
        lambda: f"({length(draw, terms, below)} {pick(draw, '*/')} {pick(draw, SCALARS)})",
        lambda: f"TIMEZONE({moment(draw, terms, below)})",
    )


def operand(draw: Draw, terms: Terms, depth: int = 2) -> str:
    """Any value."""
    if not depth or draw(st.integers(0, 3)):
        return simple(draw, terms)
    below = depth - 1
    return one_of(
        draw,
        lambda: number(draw, terms, depth),
        lambda: number(draw, terms, depth),
        lambda: text(draw, terms, depth),
        lambda: moment(draw, terms, depth),
        lambda: length(draw, terms, depth),
        lambda: f"COALESCE({', '.join(operand(draw, terms, below) for _ in range(draw(st.integers(1, 3))))})",
        lambda: f"IF({condition(draw, terms, terms, below)}, {operand(draw, terms, below)}, {operand(draw, terms, below)})",
        lambda: f'IRI(CONCAT("http://example.org/", {text(draw, terms, below)}))',
        lambda: f"URI({operand(draw, terms, below)})",
        lambda: f"DATATYPE({operand(draw, terms, below)})",
        lambda: f"STRDT({text(draw, terms, below)}, {pick(draw, ('xsd:integer', 'xsd:decimal', ':T', 'xsd:boolean'))})",
        lambda: f"({condition(draw, terms, terms, below)})",
        lambda: triple(draw, terms, below),
    )


def triple(draw: Draw, terms: Terms, depth: int) -> str:
    """A triple term, or a part of one."""
    return one_of(
        draw,
        lambda: f"<<( {pick(draw, NAMES)} :p {simple(draw, terms)} )>>",
        lambda: f"TRIPLE({operand(draw, terms, depth)}, {pick(draw, (':p', ':q'))}, {operand(draw, terms, depth)})",
        lambda: f"{pick(draw, ('SUBJECT', 'PREDICATE', 'OBJECT'))}({operand(draw, terms, depth)})",
        lambda: f"OBJECT(<<( {pick(draw, NAMES)} :p {simple(draw, terms)} )>>)",
    )


def condition(draw: Draw, left: Terms, right: Terms, depth: int = 2) -> str:
    """A condition, mostly a comparison of a left and a right term."""
    if depth and not draw(st.integers(0, 5)):
        below = depth - 1

        def inner() -> str:
            return condition(draw, left, right, below)

        return one_of(
            draw,
            lambda: f"({inner()} {pick(draw, ('&&', '||'))} {inner()})",
            lambda: f"!({inner()})",
            lambda: f"(({inner()}) {pick(draw, ('=', '!=', '<'))} {operand(draw, right, below)})",
        )
    if draw(st.integers(0, 3)):
        made = compared(draw, left, right, depth)
        # A comparison of values of two random kinds is mostly an error.
        return made if draw(st.booleans()) else f"COALESCE({made}, true)"
    attributes = [term for term in left if "?" in term]
    small = min(depth, 1)
    return one_of(
        draw,
        lambda: f"BOUND({pick(draw, attributes)})" if attributes else "true",
        lambda: f"{operand(draw, left, small)} {pick(draw, ('IN', 'NOT IN'))} ({listed(draw, right)})",
        lambda: f"REGEX({text(draw, left, small)}, {pick(draw, PATTERNS)})",
        lambda: f'REGEX({text(draw, left, small)}, {pick(draw, PATTERNS)}, "i")',
        lambda: f"{pick(draw, ('CONTAINS', 'STRSTARTS', 'STRENDS'))}({text(draw, left, small)}, {text(draw, right, 0)})",
        lambda: f"LANGMATCHES(LANG({simple(draw, left)}), {pick(draw, RANGES)})",
        lambda: f"{pick(draw, TESTS)}({operand(draw, left, small)})",
        lambda: f"sameTerm({operand(draw, left, small)}, {operand(draw, right, small)})",
        lambda: operand(draw, left, small),
    )


def listed(draw: Draw, terms: Terms) -> str:
    return ", ".join(operand(draw, terms, 1) for _ in range(draw(st.integers(0, 3))))


def compared(draw: Draw, left: Terms, right: Terms, depth: int) -> str:
    operator = pick(draw, ("=", "=", "=", "!=", "<", "<=", ">", ">="))
    kinds = (operand, operand, number, number, text, moment, length, triple)
    kind = kinds[draw(st.integers(0, 7))]
    a, b = kind(draw, left, depth), kind(draw, right, depth)
    return f"{a} {operator} {b}" if draw(st.booleans()) else f"{b} {operator} {a}"


@st.composite
def conditions(draw: st.DrawFn, left: Sequence[str], right: Sequence[str] = VALUES) -> str:
    return condition(draw, left, right)
