"""Text of terms, graphs, durations, windows and expressions as in a rule file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, assert_never

from dotr.errors.diagnostics import did_you_mean
from dotr.evaluation.expressions import without_lengths
from dotr.evaluation.expressions.functions import ELAPSED, WITHOUT_SETTINGS
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var, is_chain
from dotr.model.calendars import Calendar, Schedule
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, Once, Window
from dotr.model.terms import RDF_TYPE, WELL_KNOWN, XSD, Label, Prefixes, Term, Triple, Variable, is_triple, rename_blanks, triple_parts
from dotr.model.time import EVER, Micros, Unit
from dotr.model.traverse import transform
from dotr.syntax.names import NameCharacters, name_characters

_PLAIN: Final = {
    f'"^^<{XSD}integer>': re.compile(r"[+-]?[0-9]+"),
    f'"^^<{XSD}decimal>': re.compile(r"[+-]?[0-9]*\.[0-9]+"),
    f'"^^<{XSD}double>': re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+"),
    f'"^^<{XSD}boolean>': re.compile("true|false"),
}
"""Lexical forms of literals without quotes in Turtle (Turtle 1.2, section 2.5), by the end of
their N-Triples text."""
_INVISIBLE: Final = re.compile("[\u0080-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Characters that are invisible on a terminal, or control it."""
_UNITS: Final = {"d": Unit.DAY, "h": Unit.HOUR, "min": Unit.MINUTE, "s": Unit.SECOND, "ms": Unit.MILLISECOND, "us": Unit.MICROSECOND}
_STRICT: Final = 20
"""Maximum number of open intervals in a chain (each subtracts 1 µs) for which bounds are rounded."""
_PRECEDENCE: Final = {"||": 1, "&&": 2, **dict.fromkeys(["=", "!=", "<", "<=", ">", ">="], 3), "+": 4, "-": 4, "*": 5, "/": 5}
"""Operators of SPARQL, by how strongly they bind."""
_HIGHEST: Final = 9
_INFIX: Final = frozenset(["=", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "/"])


def term_text(term: Term, prefixes: Prefixes) -> str:
    """The term in Turtle, as a prefixed name or without quotes where possible.

    The text parses to the same term.

    >>> term_text("<http://e/p>", {"": "http://e/"}), term_text("<http://e/x/y>", {"": "http://e/"}), term_text(f'"5"^^<{XSD}integer>', {})
    (':p', '<http://e/x/y>', '5')
    >>> term_text(f'"5"^^<{XSD}decimal>', {"xsd": XSD}), term_text(f'"5.0"^^<{XSD}decimal>', {}), term_text('"say <http://e/p>"@en', {})
    ('"5"^^xsd:decimal', '5.0', '"say <http://e/p>"@en')
    """
    if is_triple(term):
        subject, predicate, value = triple_parts(term)
        return f"<<( {term_text(subject, prefixes)} {predicate_text(predicate, prefixes)} {term_text(value, prefixes)} )>>"
    if term.startswith('"'):
        end = term.rindex('"')
        plain, datatype = _PLAIN.get(term[end:]), term[end + 3 :]
        if plain is not None and plain.fullmatch(term, 1, end):
            return term[1:end]
        return _escaped(term[: end + 1]) + (f"^^{_iri_text(datatype, prefixes)}" if datatype.startswith("<") else term[end + 1 :])
    return _iri_text(term, prefixes) if term.startswith("<") else term


@cache
def _local_name(characters: NameCharacters) -> re.Pattern[str]:
    """The pattern of a local name that needs no escapes (a part of PN_LOCAL)."""
    letters, marks = characters
    return re.compile(f"[{letters}_0-9][{letters}_0-9{marks}-]*")


def predicate_text(term: Term, prefixes: Prefixes) -> str:
    """The term in Turtle as the predicate of a triple.

    >>> predicate_text(RDF_TYPE, {}), term_text(RDF_TYPE, {})
    ('a', '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>')
    """
    return "a" if term == RDF_TYPE else term_text(term, prefixes)


def _iri_text(term: Term, prefixes: Prefixes) -> str:
    for prefix, namespace in sorted(prefixes.items(), key=lambda item: -len(item[1])):
        if term.startswith(namespace, 1) and _local_name(name_characters(term)).fullmatch(term, 1 + len(namespace), len(term) - 1):
            return f"{prefix}:{term[1 + len(namespace) : -1]}"
    return _escaped(term)


def _escaped(text: str) -> str:
    r"""
    >>> _escaped("a\u0085b\u202ec")
    'a\\u0085b\\u202Ec'
    """
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04X}", text)


def turtle_text(triples: Iterable[Triple], prefixes: Prefixes) -> str:
    """Turtle of triples on one line: subjects in order, each once. Blank nodes that are no objects
    have no names.

    >>> turtle_text([("_:0", RDF_TYPE, "<http://e/A>"), ("_:1", "<http://e/of>", "_:0"), ("_:0", "<http://e/n>", '"b"')], {"": "http://e/"})
    '_:0 a :A ; :n "b" . [] :of _:0 .'
    """
    objects: set[Term] = set()
    statements: dict[Term, list[str]] = {}
    for subject, predicate, value in triples:
        statements.setdefault(subject, []).append(f"{predicate_text(predicate, prefixes)} {term_text(value, prefixes)}")
        objects.update(_terms_in(value))
    names = ["[]" if each.startswith("_:") and each not in objects else term_text(each, prefixes) for each in statements]
    return " ".join(f"{name} {' ; '.join(each)} ." for name, each in zip(names, statements.values(), strict=True))


def _terms_in(term: Term) -> list[Term]:
    """A term, or the terms inside a triple term."""
    return [inner for part in triple_parts(term) for inner in _terms_in(part)] if is_triple(term) else [term]


def duration_text(length: Micros) -> str:
    """The text of a length in µs.

    >>> duration_text(5_400_000_000), duration_text(0), duration_text(1_500_000)
    ('1 h 30 min', '0', '1 s 500 ms')
    """
    parts = []
    for name, unit in _UNITS.items():
        count, length = divmod(length, unit.value)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0"


def period_text(period: Schedule) -> str:
    """The text of a length in µs, or of a calendar.

    >>> from dotr.model.calendars import calendar_of
    >>> period_text(5_400_000_000), period_text(calendar_of("month", "06:00", "UTC"))
    ('1 h 30 min', 'month at 06:00 in "UTC"')
    """
    return str(period) if isinstance(period, Calendar) else duration_text(period)


def bound_text(length: Micros) -> str:
    """The text of an upper bound in µs; one of open intervals is a few µs below a round length.

    >>> bound_text(300_000_000), bound_text(299_999_999), bound_text(0), bound_text(EVER.high)
    ('5 min', 'less than 5 min', '0', 'for ever')
    """
    if length >= EVER.high:
        return "for ever"
    rounded = -(-length // 1_000) * 1_000
    return f"less than {duration_text(rounded)}" if 0 < rounded - length <= _STRICT else duration_text(length)


def scope_text(scope: Window | Between) -> str:
    """Text of a window or `between`.

    >>> from dotr.model.time import Interval
    >>> scope_text(Window(Interval(0, 300_000_000, False, True), "Smoke"))
    'within (0, 5 min] from Smoke'
    >>> scope_text(Window(EVER, "Smoke"))
    'before Smoke'
    """
    match scope:
        case Window(interval, reference) if interval == EVER:
            return f"before {reference}"
        case Window(interval, reference):
            opened, closed = "[" if interval.low_closed else "(", "]" if interval.high_closed else ")"
            return f"within {opened}{duration_text(interval.low)}, {duration_text(interval.high)}{closed} from {reference}"
        case Between(first, second):
            return f"between {first} and {second}"
        case _:
            assert_never(scope)


def stream_text(name: str, prefixes: Prefixes) -> str:
    """The name of a stream as a prefixed name where possible.

    >>> stream_text("http://e/temp", {"": "http://e/"}), stream_text("sensors", {})
    (':temp', 'sensors')
    """
    return term_text(f"<{name}>", prefixes) if ":" in name else name


def near_streams(name: str, known: Sequence[str], prefixes: Prefixes) -> str:
    """A hint for the name of an unknown stream: the nearest known one, or all of them.

    >>> near_streams("http://e/tmep", ["http://e/hum", "http://e/temp"], {"": "http://e/"})
    'Did you mean :temp?'
    >>> near_streams("x", ["http://e/hum", "sensors"], {"": "http://e/"})
    'Streams are :hum, sensors.'
    """
    shown = [stream_text(each, prefixes) for each in known]
    return did_you_mean(stream_text(name, prefixes), shown) or f"Streams are {', '.join(shown)}."


def expression_text(expression: Expression, prefixes: Prefixes) -> str:
    """Text of an expression, with parentheses where needed.

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
        case Call(function, _) if function.startswith("length "):
            return expression_text(without_lengths(expression), prefixes)
        case Call(function, (TimeOf(start), TimeOf(end), *_)) if function == ELAPSED:
            return f"elapsed({start}, {end})"
        case Call(function, arguments):
            arguments = arguments[: WITHOUT_SETTINGS.get(function)]
            return _call(function, [_operand(argument, function, prefixes) for argument in arguments], prefixes)
        case _:
            assert_never(expression)


def brief_text(expression: Expression, prefixes: Prefixes) -> str:
    """Text of an expression, with parentheses only where the precedence of operators needs them.

    >>> a, b, c = Var("a"), Var("b"), Var("c")
    >>> brief_text(Call(">=", (Call("-", (a, b)), c)), {}), brief_text(Call("-", (a, Call("-", (b, c)))), {})
    ('?a - ?b >= ?c', '?a - (?b - ?c)')
    """
    expression = without_lengths(expression)
    if not isinstance(expression, Call) or expression.function not in _PRECEDENCE:
        return expression_text(expression, prefixes)
    function = expression.function
    first, *others = expression.arguments
    texts = [_bracketed(first, _PRECEDENCE[function], prefixes)]
    least = _PRECEDENCE[function] + (function in ("-", "/") or _PRECEDENCE[function] == _PRECEDENCE["="])
    return f" {function} ".join(texts + [_bracketed(each, least, prefixes) for each in others])


def _bracketed(expression: Expression, least: int, prefixes: Prefixes) -> str:
    """The text of an operand, in parentheses if its operator has a precedence below `least`."""
    expression = without_lengths(expression)
    text = brief_text(expression, prefixes)
    if not isinstance(expression, Call):
        return text
    binds = _PRECEDENCE.get(expression.function, 0 if is_chain(expression.function) else _HIGHEST)
    return f"({text})" if binds < least else text


def constraint_text(expression: Expression, aggregates: Collection[Label], prefixes: Prefixes) -> str:
    """Text of a constraint, with variables of aggregates written without a label.

    >>> constraint_text(Call(">", (Var("v"), Attribute("Past", "mean"))), ["Past"], {})
    '?v > ?mean'
    """

    def plain(part: Expression) -> Expression:
        return Var(part.name) if isinstance(part, Attribute) and part.label in aggregates else part

    return expression_text(transform(expression, plain), prefixes)


def _operand(argument: Expression, around: str, prefixes: Prefixes) -> str:
    argument = without_lengths(argument)
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


def once_text(once: Once) -> str:
    """`once` of a rule in its syntax.

    >>> once_text(Once(3_600_000_000, ("host",))), once_text(Once(0, ()))
    ('once in 1 h per ?host', 'once in 0')
    """
    return f"once in {duration_text(once.pause)}" + (f" per {', '.join(f'?{key}' for key in once.keys)}" if once.keys else "")


def step_names(clauses: Sequence[Clause], *, has_condition: bool) -> list[str]:
    """The names of the clauses in a funnel, in their order: `Hot`, `not Other`, `?mean`, `if`."""
    names = []
    for clause in clauses:
        match clause:
            case Choose(role):
                names.append(role.label)
            case Absent(role):
                names.append(f"not {role.label}")
            case Aggregate(variable):
                names.append(f"?{variable}")
    return names + (["if"] if has_condition else [])


# Terms in Turtle, with prefixed names, and blank nodes named after variables.


_NO_TERMS: Final[Mapping[Variable, Term]] = {}


class TermWriter:
    """Writer of the terms of one explanation.

    A blank node is written as `_:` and the first variable that is bound to it; a second blank node
    of that variable has a number. Blank nodes without a variable are `_:b`, `_:b2`, ….

    Args:
        prefixes: namespace IRI by prefix, without its colon; well-known prefixes such as `xsd` and
            `rdfs` are added.
        terms: the terms of variables that patterns show in place of the variables.

    >>> writer = TermWriter({"": "http://e/"})
    >>> writer.name_blank("_:0", "r")
    >>> writer.name_blank("_:1", "r")
    >>> [writer.text(term) for term in ("_:0", "_:1", "_:7", "<http://e/lab>")]
    ['_:r', '_:r2', '_:b', ':lab']
    """

    def __init__(self, prefixes: Prefixes, terms: Mapping[Variable, Term] = _NO_TERMS) -> None:
        self.prefixes: Prefixes = {**WELL_KNOWN, **prefixes}
        self.terms = terms
        self._names: dict[Term, Term] = {}
        self._taken: set[Term] = set()

    def name_blank(self, term: Term, variable: Variable) -> None:
        """Name a blank node after a variable, unless it has a name; other terms are ignored."""
        if not term.startswith("_:") or term in self._names:
            return
        name, number = f"_:{variable}", 1
        while name in self._taken:
            number += 1
            name = f"_:{variable}{number}"
        self._names[term] = name
        self._taken.add(name)

    def text(self, term: Term) -> str:
        """The term in Turtle, which parses to the same term except for the names of blank nodes."""
        if is_triple(term):
            return term_text(rename_blanks(term, self._blank), self.prefixes)
        return self._blank(term) if term.startswith("_:") else term_text(term, self.prefixes)

    def predicate(self, term: Term) -> str:
        """The term in Turtle as the predicate of a triple: rdf:type is `a`. A blank node is one of a
        generalised triple."""
        return self._blank(term) if term.startswith("_:") else predicate_text(term, self.prefixes)

    def triple(self, triple: Triple) -> str:
        """The triple in Turtle, without a full stop.

        >>> TermWriter({"": "http://e/"}).triple(("_:0", "<http://e/p>", '"1"'))
        '_:b :p "1"'
        """
        subject, predicate, value = triple
        return f"{self.text(subject)} {self.predicate(predicate)} {self.text(value)}"

    def _blank(self, term: Term) -> Term:
        self.name_blank(term, "b")
        return self._names[term]
