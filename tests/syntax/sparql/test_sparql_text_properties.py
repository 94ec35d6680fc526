"""Random expressions as text: precedence without parentheses, signs beside signs, numbers in all forms.

References: pyoxigraph, rdflib, and `_Plain`, an evaluator by recursive descent. A value on which two of them agree is the expected one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Final, TypeAlias

import pyoxigraph
import rdflib
from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.expressions.values.terms import VALUES, Lang
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evaluate import evaluate
from dotr.model.places import Document, Span
from dotr.model.terms import Term
from dotr.syntax.sparql import parse_select

Draw: TypeAlias = st.DrawFn
Value: TypeAlias = tuple[str, object] | None
"""Kind and value; None: an error, or unbound."""

_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
PROLOGUE: Final = f"PREFIX : <http://e/> PREFIX xsd: <{_XSD}> PREFIX a.b: <http://e/>\n"
DATA: Final = (("<http://e/s>", "<http://e/p>", f'"2"^^<{_XSD}integer>'), ("<http://e/s>", "<http://e/q>", '"a b"'))
BOUND: Final = {"?i": "3", "?n": "-2", "?d": "0.5", "?e": "1e0", "?t": '"ab"', "?b": "true", "?u": "UNDEF"}

# --- random texts ---

UNSIGNED: Final = ("0", "1", "2", "10", "007", "1.0", "0.5", ".5", "2.50", "1e0", "1.e0", "1.5E1", ".5e+1", "2E-1")
STRINGS: Final = (
    '"a"',
    "'a'",
    '"a\\"b"',
    '"\\u0061"',
    "'''a'b'''",
    '"""a"b"""',
    '"a\\nb"',
    '"\\U0001F600"',
    '""',
    '"a#b"',
    '"a)"',
    '"1"',
    '"ab"@en',
)
NAMES: Final = (":a", "<http://e/a>", ":a\\.b", ":a%20b", ":a.b", "a.b:c", ":0", ":a\\-b", "<http://e/\\u0061>", ":a:b", ":")
SPACES: Final = ("", " ", "  ", "\n", " # it's ) \n")


def blank(draw: Draw) -> str:
    return SPACES[draw(st.integers(0, len(SPACES) - 1))]


def one(draw: Draw, parts: Sequence[str]) -> str:
    return parts[draw(st.integers(0, len(parts) - 1))]


def number(draw: Draw) -> str:
    sign = one(draw, ("", "", "-", "+"))
    return sign + one(draw, UNSIGNED)


def cased(draw: Draw, word: str) -> str:
    return one(draw, (word, word.lower(), word.title()))


def chained(draw: Draw, operators: Sequence[str], operand: Callable[[], str], around: Sequence[str] = SPACES) -> str:
    """Operands joined by operators of one precedence, without parentheses."""
    parts = [operand()]
    for _ in range(draw(st.integers(0, 2))):
        parts += [one(draw, around), one(draw, operators), one(draw, around), operand()]
    return "".join(parts)


def call(draw: Draw, name: str, *arguments: str) -> str:
    s = blank(draw)
    return f"{name if name.startswith('xsd:') else cased(draw, name)}{s}({s}{f',{s}'.join(arguments)}{s})"


def numeric(draw: Draw, depth: int) -> str:
    return chained(draw, "+-", lambda: chained(draw, "*/", lambda: one(draw, ("", "", "-", "+", "- ")) + counted(draw, depth)))


def counted(draw: Draw, depth: int) -> str:
    """An operand that is a number, or an error."""
    kind = draw(st.integers(0, 8))
    inside = depth - 1
    if not depth or kind < 3:
        return one(draw, (number(draw), number(draw), number(draw), "?i", "?n", "?d", "?e", "?u"))
    match kind:
        case 3 | 4:
            return f"({blank(draw)}{numeric(draw, inside)}{blank(draw)})"
        case 5:
            return call(draw, one(draw, ("ABS", "CEIL", "FLOOR", "ROUND", "xsd:decimal", "xsd:double")), numeric(draw, inside))
        case 6:
            return call(draw, "IF", logical(draw, inside), numeric(draw, inside), numeric(draw, inside))
        case 7:
            return call(draw, "COALESCE", *(numeric(draw, inside) for _ in range(draw(st.integers(1, 3)))))
        case _:
            return call(draw, "STRLEN", text(draw, inside))


def text(draw: Draw, depth: int) -> str:
    kind = draw(st.integers(0, 5))
    inside = depth - 1
    if not depth or kind < 3:
        return one(draw, (one(draw, STRINGS), one(draw, STRINGS), "?t", "?u", f"STR({one(draw, NAMES)})"))
    match kind:
        case 3:
            return call(draw, "CONCAT", *(text(draw, inside) for _ in range(draw(st.integers(0, 3)))))
        case 4:
            return call(draw, one(draw, ("UCASE", "STR", "xsd:string")), text(draw, inside))
        case _:
            return call(draw, "IF", logical(draw, inside), text(draw, inside), text(draw, inside))


def compared(draw: Draw, depth: int) -> str:
    """A comparison of numbers or of texts; other comparisons are extensions of SPARQL."""
    kind = draw(st.integers(0, 5))
    operator = f"{one(draw, (' ', chr(10)))}{one(draw, ('=', '!=', '<', '>', '<=', '>='))} "
    match kind:
        case 0 | 1:
            return f"{numeric(draw, depth)}{operator}{numeric(draw, depth)}"
        case 2:
            return f"{text(draw, depth)}{one(draw, (' = ', ' != '))}{text(draw, depth)}"
        case 3:
            listed = ", ".join(numeric(draw, 0) for _ in range(draw(st.integers(0, 3))))
            return f"{numeric(draw, depth)} {cased(draw, one(draw, ('IN', 'NOT IN')))}{blank(draw)}({listed}) "
        case 4:
            return numeric(draw, depth)
        case _:
            return one(draw, ("", "!", "! ")) + decided(draw, depth)


def decided(draw: Draw, depth: int) -> str:
    """An operand that is a boolean."""
    kind = draw(st.integers(0, 6))
    inside = depth - 1
    if not depth or kind < 3:
        return one(draw, ("true", "false", "?b", "?u", call(draw, "BOUND", one(draw, tuple(BOUND)))))
    match kind:
        case 3 | 4:
            return f"({blank(draw)}{logical(draw, inside)}{blank(draw)})"
        case 5:
            return call(draw, "isNumeric", numeric(draw, inside))
        case _:
            value = one(draw, ("2", "?o", "?i", number(draw)))
            return f"{one(draw, ('', 'NOT '))}EXISTS {{ ?s {one(draw, (':p', ':q', ':r'))} {value} }}"


def logical(draw: Draw, depth: int) -> str:
    return chained(draw, ("||",), lambda: chained(draw, ("&&",), lambda: compared(draw, depth)))


@st.composite
def expressions(draw: Draw) -> str:
    depth = draw(st.integers(0, 3))
    return draw(st.sampled_from((numeric, logical, logical, text)))(draw, depth)


def query(expression: str, place: str) -> str:
    values = f"VALUES ({' '.join(BOUND)}) {{ ({' '.join(BOUND.values())}) }}"
    match place:
        case "select":
            return f"SELECT ({expression} AS ?r) WHERE {{ {values} }}"
        case "bind":
            return f"SELECT ?r WHERE {{ {values} BIND({expression} AS ?r) }}"
        case _:
            return f"SELECT (true AS ?r) WHERE {{ {values} FILTER({expression}) }}"


# --- value of dotr ---


def of_term(term: Term | None) -> Value:
    if term is None:
        return None
    value = VALUES[term]
    match value:
        case bool():
            return "boolean", value
        case int():
            return "integer", value
        case Decimal():
            return "decimal", round(value, 9).normalize() + 0
        case float():
            return "double", round(value, 9) + 0.0
        case str():
            return "string", value
        case Lang():
            return "tagged", (value.text, value.tag)
        case _:
            return "term", term


def by_dotr(text: str) -> Value:
    whole = PROLOGUE + text
    select = parse_select(Span(Document("q", whole), 0, len(whole)), {})
    rows = evaluate(select, TripleIndex(), TripleIndex(DATA))
    return of_term(rows[0][0]) if rows else ("none", None)


# --- reference values ---

_STORE: Final = pyoxigraph.Store()
_GRAPH: Final = rdflib.Graph()
_TURTLE: Final = "".join(f"{' '.join(triple)} .\n" for triple in DATA)
_STORE.load(_TURTLE.encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
_GRAPH.parse(data=_TURTLE, format="nt")
for _name in ("rdflib.term", "rdflib.plugins.sparql"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


def by_oxigraph(text: str) -> Value:
    rows = list(_STORE.query(PROLOGUE + text))  # type: ignore[arg-type]
    return of_term(None if rows[0][0] is None else str(rows[0][0])) if rows else ("none", None)


def by_rdflib(text: str) -> Value:
    rows = list(_GRAPH.query(PROLOGUE + text))
    if not rows:
        return "none", None
    term = rows[0][0]  # type: ignore[index]
    return of_term(None if term is None else term.n3().replace(f"^^<{_XSD}string>", ""))


_TOKEN: Final = re.compile(
    r"""\s*(?:\#[^\n]*\n\s*)*(
      \"\"\".*?\"\"\"(?:@\w+)? | '''.*?''' | "(?:[^"\\]|\\.)*"(?:@\w+)? | '(?:[^'\\]|\\.)*'
    | <[^<>\s]*> | [A-Za-z.]*:(?:[\w:%]|\\.|\.(?=\w))* | \?\w+
    | (?:\d+\.\d*|\.\d+|\d+)[eE][+-]?\d+ | \d*\.\d+ | \d+ | [A-Za-z]+ | && | \|\| | != | <= | >= | .)""",
    re.VERBOSE | re.DOTALL,
)


class _Error(Exception):
    """Raised where the value of an expression is an error."""


class _Unsupported(Exception):
    """Raised for a construct that `_Plain` does not support."""


class _Plain:
    """Evaluator by recursive descent over SPARQL's grammar, for booleans, exact numbers, strings."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text.strip() + " ")
        self.at = 0

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def whole(self) -> Value:
        try:
            value = self.either()()
        except _Error:
            value = None
        if self.peek().strip():
            raise _Unsupported(self.peek())
        return value

    # Each returns a function, so that an operand that `||` does not need may err.

    def either(self) -> Callable[[], Value]:
        return self.logical("||", self.both, True)

    def both(self) -> Callable[[], Value]:
        return self.logical("&&", self.compared, False)

    def logical(self, operator: str, inner: Callable[[], Callable[[], Value]], decided: bool) -> Callable[[], Value]:
        operands = [inner()]
        while self.peek() == operator:
            self.next()
            operands.append(inner())
        if len(operands) == 1:
            return operands[0]

        def value() -> Value:
            found = [self.truth(operand) for operand in operands]
            if decided in found:
                return "boolean", decided
            if None in found:
                raise _Error
            return "boolean", not decided

        return value

    @staticmethod
    def truth(operand: Callable[[], Value]) -> bool | None:
        try:
            value = operand()
        except _Error:
            return None
        match value:
            case (("boolean" | "integer" | "decimal" | "double" | "string"), inner):
                return bool(inner)
            case _:
                return None

    def compared(self) -> Callable[[], Value]:
        left = self.sum()
        operator = self.peek().upper()
        if operator in ("IN", "NOT"):
            self.next()
            if operator == "NOT":
                self.next()
            self.next()
            members = []
            while self.peek() != ")":
                members.append(self.either())
                if self.peek() == ",":
                    self.next()
            self.next()
            return lambda: self.listed(left(), members, operator == "NOT")
        if operator not in ("=", "!=", "<", ">", "<=", ">="):
            return left
        self.next()
        right = self.sum()
        return lambda: self.compare(operator, left(), right())

    def listed(self, value: Value, members: Sequence[Callable[[], Value]], negated: bool) -> Value:
        failed = False
        for member in members:
            try:
                if self.compare("=", value, member()) == ("boolean", True):
                    return "boolean", not negated
            except _Error:
                failed = True
        if failed:
            raise _Error
        return "boolean", negated

    @staticmethod
    def compare(operator: str, a: Value, b: Value) -> Value:
        if a is None or b is None:
            raise _Error
        numeric = ("integer", "decimal", "double")
        if not ((a[0] in numeric and b[0] in numeric) or (a[0] == b[0] and a[0] in ("string", "boolean"))):
            raise _Unsupported(operator)
        x, y = (float(v) if "double" in (a[0], b[0]) else v for v in (a[1], b[1]))  # type: ignore[arg-type]
        results = {"=": x == y, "!=": x != y, "<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y}  # type: ignore[operator]
        return "boolean", results[operator]

    def sum(self) -> Callable[[], Value]:
        return self.arithmetic("+-", self.product)

    def product(self) -> Callable[[], Value]:
        return self.arithmetic("*/", self.unary)

    def arithmetic(self, operators: str, inner: Callable[[], Callable[[], Value]]) -> Callable[[], Value]:
        result = inner()
        while self.peek() and self.peek() in operators:
            operator, left, right = self.next(), result, inner()
            result = partial(self._later, operator, left, right)
        return result

    def _later(self, operator: str, left: Callable[[], Value], right: Callable[[], Value]) -> Value:
        return self.calculated(operator, left(), right())

    @staticmethod
    def calculated(operator: str, a: Value, b: Value) -> Value:
        numeric = ("integer", "decimal", "double")
        if a is None or b is None or a[0] not in numeric or b[0] not in numeric:
            raise _Error
        kind = numeric[max(numeric.index(a[0]), numeric.index(b[0]), int(operator == "/"))]
        make = {"integer": int, "decimal": Decimal, "double": float}[kind]
        x, y = make(a[1]), make(b[1])
        if operator == "/" and not y:
            if kind == "double":
                raise _Unsupported("a quotient by 0")
            raise _Error
        value = x + y if operator == "+" else x - y if operator == "-" else x * y if operator == "*" else x / y
        return kind, value

    def unary(self) -> Callable[[], Value]:
        operator = self.peek()
        if operator not in ("!", "-", "+"):
            return self.primary()
        self.next()
        # `- -1`: only a number has a sign of its own, so the second sign belongs to the number.
        inner = self.unary() if self.peek() in ("-", "+") else self.primary()

        def value() -> Value:
            if operator == "!":
                truth = self.truth(inner)
                if truth is None:
                    raise _Error
                return "boolean", not truth
            return self.calculated(operator, ("integer", 0), inner())

        return value

    def primary(self) -> Callable[[], Value]:
        token = self.next()
        if token == "(":
            inside = self.either()
            self.next()
            return inside
        if token in BOUND:
            if BOUND[token] == "UNDEF":
                return self.fail
            return _Plain(BOUND[token]).unary()
        if re.fullmatch(r"\d+", token):
            return lambda: ("integer", int(token))
        if re.fullmatch(r"\d*\.\d+", token):
            return lambda: ("decimal", Decimal(token))
        if re.fullmatch(r"[\d.]+[eE][+-]?\d+", token):
            return lambda: ("double", float(token))
        if token in ("true", "false"):
            return lambda: ("boolean", token == "true")
        if re.fullmatch(r"\"[^\"\\]*\"|'[^'\\]*'", token):
            return lambda: ("string", token[1:-1])
        raise _Unsupported(token)

    @staticmethod
    def fail() -> Value:
        raise _Error


def by_plain(expression: str, place: str) -> Value:
    value = _Plain(expression).whole()
    if place == "filter":
        return ("boolean", True) if _Plain.truth(lambda: value) else ("none", None)
    match value:
        case ("decimal", Decimal() as number):
            return "decimal", round(number, 9).normalize() + 0
        case ("double", float() as number):
            return "double", round(number, 9) + 0.0
        case _:
            return value


def reference_values(expression: str, place: str) -> list[Value]:
    """The values of the three references; ("refused", None) of one that does not support the text."""
    text = query(expression, place)
    values: list[Value] = []
    references: list[Callable[[], Value]] = [partial(by_plain, expression, place), partial(by_oxigraph, text), partial(by_rdflib, text)]
    for reference in references:
        try:
            values.append(reference())
        except Exception:
            values.append(("refused", None))
    return values


def agreed(values: Sequence[Value]) -> Value | str:
    """The value on which two references agree; "" if no two agree."""
    for value in values:
        if value != ("refused", None) and sum(value == other for other in values) > 1:
            return value
    return ""


@given(expressions(), st.sampled_from(("select", "bind", "filter")))
def test_expression_has_the_value_of_two_references(expression: str, place: str) -> None:
    expected = agreed(reference_values(expression, place))
    if expected != "":
        assert by_dotr(query(expression, place)) == expected


def test_references_agree_on_simple_expressions() -> None:
    texts = (
        "- -1",
        "2 * - -1",
        "- -1 > 0",
        "1-1",
        "1 -1",
        "2 - -?i",
        "!true || true",
        "1 + 2 * 3 < 8 && !false",
        ".5 + 1.e0",
        "1 -1 * 2",
        "?n IN (-2)",
    )
    for text in texts:
        for place in ("select", "bind", "filter"):
            expected = agreed(reference_values(text, place))
            assert expected != ""
            assert by_dotr(query(text, place)) == expected
