"""Nouns of a program as an author would write them: terms with prefixes, durations, windows, expressions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, assert_never

from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var, is_chain
from dotr.model.rules import Between, Window
from dotr.model.terms import RDF_TYPE, XSD, Label, Prefixes, Term, is_triple, triple_parts
from dotr.model.time import Micros, Unit
from dotr.model.traverse import transform

_NUMBER: Final = re.compile(rf'"(-?\d+(?:\.\d+)?|true|false)"\^\^<{re.escape(XSD)}(?:integer|decimal|boolean)>')
_UNITS: Final = {"d": Unit.DAY, "h": Unit.HOUR, "min": Unit.MINUTE, "s": Unit.SECOND, "ms": Unit.MILLISECOND, "us": Unit.MICROSECOND}
_STRICT: Final = 20
"""More open intervals than this in one chain are written to the microsecond."""
_INFIX: Final = frozenset(["=", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "/"])


def term_text(term: Term, prefixes: Prefixes) -> str:
    """A term with the prefix that it can be written with, or as a plain number.

    >>> term_text("<http://e/p>", {"": "http://e/"}), term_text("<http://e/x/y>", {"": "http://e/"}), term_text(f'"5"^^<{XSD}integer>', {})
    (':p', '<http://e/x/y>', '5')
    """
    if term == RDF_TYPE:
        return "a"
    if is_triple(term):
        return f"<<( {' '.join(term_text(part, prefixes) for part in triple_parts(term))} )>>"
    if not term.startswith("<"):
        return _NUMBER.sub(r"\1", term)
    for prefix, namespace in sorted(prefixes.items(), key=lambda item: -len(item[1])):
        local = term[1:-1].removeprefix(namespace)
        if term[1:-1].startswith(namespace) and re.fullmatch(r"\w[\w-]*", local):
            return f"{prefix}:{local}"
    return term


def duration_text(length: Micros) -> str:
    """
    >>> duration_text(5_400_000_000), duration_text(0), duration_text(1_500_000)
    ('1 h 30 min', '0', '1 s 500 ms')
    """
    parts = []
    for name, unit in _UNITS.items():
        count, length = divmod(length, unit.value)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0"


def bound_text(length: Micros) -> str:
    """A greatest length; those of open intervals are a microsecond or some short of a round one.

    >>> bound_text(300_000_000), bound_text(299_999_999), bound_text(0)
    ('5 min', 'less than 5 min', '0')
    """
    rounded = -(-length // 1_000) * 1_000
    return f"less than {duration_text(rounded)}" if 0 < rounded - length <= _STRICT else duration_text(length)


def scope_text(scope: Window | Between) -> str:
    """
    >>> from dotr.model.time import Interval
    >>> scope_text(Window(Interval(0, 300_000_000, False, True), "Smoke"))
    'within (0, 5 min] from Smoke'
    """
    match scope:
        case Window(interval, reference):
            opened, closed = "[" if interval.low_closed else "(", "]" if interval.high_closed else ")"
            return f"within {opened}{duration_text(interval.low)}, {duration_text(interval.high)}{closed} from {reference}"
        case Between(first, second):
            return f"between {first} and {second}"
        case _:
            assert_never(scope)


def expression_text(expression: Expression, prefixes: Prefixes) -> str:
    """
    >>> expression_text(Call("<", (Var("v"), Call("*", (Const(f'"2"^^<{XSD}integer>'), Attribute("M", "w"))))), {})
    '?v < (2 * M.?w)'
    """
    match expression:
        case Var(name):
            return f"?{name}"
        case Const(term):
            return term_text(term, prefixes)
        case Attribute(label, name):
            return f"{label}.?{name}"
        case TimeOf(label):
            return f"time({label})"
        case Exists(_, negated):
            return "NOT EXISTS { … }" if negated else "EXISTS { … }"
        case Call(function, arguments):
            return _call(function, [_inner(argument, function, prefixes) for argument in arguments], prefixes)
        case _:
            assert_never(expression)


def constraint_text(expression: Expression, aggregates: Collection[Label], prefixes: Prefixes) -> str:
    """A constraint, in which an aggregate bound before is its variable without a label, as it was written.

    >>> constraint_text(Call(">", (Var("v"), Attribute("Past", "mean"))), ["Past"], {})
    '?v > ?mean'
    """

    def plain(part: Expression) -> Expression:
        return Var(part.name) if isinstance(part, Attribute) and part.label in aggregates else part

    return expression_text(transform(expression, plain), prefixes)


def _inner(argument: Expression, around: str, prefixes: Prefixes) -> str:
    text = expression_text(argument, prefixes)
    infix = isinstance(argument, Call) and _is_infix(argument.function) and argument.function != around
    return f"({text})" if infix and (_is_infix(around) or around in ("!", "UNARY-", "UNARY+")) else text


def _is_infix(function: str) -> bool:
    return function in _INFIX or is_chain(function)


def _call(function: str, arguments: list[str], prefixes: Prefixes) -> str:
    if function in _INFIX:
        return f" {function} ".join(arguments)
    if is_chain(function):
        return arguments[0] + "".join(f" {operator} {argument}" for operator, argument in zip(function, arguments[1:], strict=True))
    if function in ("!", "UNARY-", "UNARY+"):
        return function.removeprefix("UNARY") + arguments[0]
    if function in ("IN", "NOT IN"):
        return f"{arguments[0]} {function} ({', '.join(arguments[1:])})"
    return f"{term_text(function, prefixes)}({', '.join(arguments)})"


def line_text(line: str, prefixes: Mapping[str, str]) -> str:
    """A line of terms with spaces between them, shortened term by term.

    >>> line_text("_:a <http://e/p> <<( <http://e/x> <http://e/p> _:b )>>", {"": "http://e/"})
    '_:a :p <<( :x :p _:b )>>'
    """
    return " ".join(
        term_text(word, prefixes) if word.startswith("<") and word != "<<(" else word for word in _NUMBER.sub(r"\1", line).split(" ")
    )
