"""Values of terms, and terms of computed values (SPARQL 1.1, section 17.1; XSD 1.1 part 2).

A value is a Python object whose exact type is its data type: `int` (xsd:integer and the types
derived from it), `Decimal`, `float` (xsd:double), `Single` (xsd:float), `bool`, `str` (xsd:string),
`Lang`, the classes of `datetimes.py`, `Iri`, `BlankNode`, `TripleTerm`, and `Unknown` for ill-typed
literals and literals of other data types. Unbound and error are None.
Cost: `VALUES`, a bounded cache from terms to values, takes 30 ns for a cached term. A new one takes
0.5 to 0.7 µs if it is a number in its usual form, which is read by slices, 1.5 to 2.5 µs if it is a
date-time, and 0.5 to 4 µs otherwise (`read`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ctypes import c_float
from decimal import Decimal
from math import inf, isinf, isnan, nan
from typing import Final, TypeAlias

from dotr.evaluation.expressions.values.datetimes import (
    Date,
    DateTime,
    Duration,
    Time,
    read_date,
    read_date_time,
    read_day_time,
    read_duration,
    read_time,
    read_usual_date_time,
    read_year_month,
)
from dotr.evaluation.expressions.values.decimals import plain
from dotr.evaluation.limits import fits, fits_digits
from dotr.model import dataclass
from dotr.model.terms import FALSE, TRUE, XSD, Term, literal, literal_parts, triple_parts


class Single(float):
    """An xsd:float: a double that 32 bits can hold."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Lang:
    """An rdf:langString or rdf:dirLangString; `tag` in lower case, with its base direction.

    So texts of one language and two directions are incompatible, as SPARQL 1.2 has it.
    """

    text: str
    tag: str


@dataclass(frozen=True, slots=True)
class Iri:
    """An IRI, by its term."""

    term: Term


@dataclass(frozen=True, slots=True)
class BlankNode:
    """A blank node, by its term."""

    term: Term


@dataclass(frozen=True, slots=True)
class TripleTerm:
    """A triple term with the values of subject, predicate and object."""

    term: Term
    parts: tuple[Value, Value, Value]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A literal of an unknown data type or with an ill-formed text.

    `is_ill_typed`: the data type is boolean or numeric and the text ill-formed; the effective
    boolean value is then false.
    """

    term: Term
    is_ill_typed: bool


Number: TypeAlias = int | Decimal | float
Value: TypeAlias = Number | bool | str | Lang | DateTime | Date | Time | Duration | Iri | BlankNode | TripleTerm | Unknown

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL: Final = {"INF": inf, "+INF": inf, "-INF": -inf, "NaN": nan}
_BOOLEAN: Final = {"true": True, "1": True, "false": False, "0": False}
_LONGEST: Final = 4300
"""The longest text that Python by default converts to an integer."""

_RANGES: Final[dict[str, tuple[int | None, int | None]]] = {
    "integer": (None, None),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}


def _integer(low: int | None, high: int | None) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        if _INTEGER.fullmatch(text) is None or not fits_digits(text):
            return None
        value = int(text) if len(text) <= _LONGEST else int(Decimal(text))
        return None if (low is not None and value < low) or (high is not None and value > high) else value

    return read


def read_decimal(text: str) -> Decimal | None:
    """The value of the text of an xsd:decimal; None if ill-formed or too long."""
    return Decimal(text) if _DECIMAL.fullmatch(text) and fits_digits(text) else None


def read_double(text: str) -> float | None:
    """The value of the text of an xsd:double; None if ill-formed."""
    return float(text) if _DOUBLE.fullmatch(text) else _SPECIAL.get(text)


def single(number: float) -> Single:
    """The xsd:float nearest to a number."""
    return Single(c_float(number).value)


def read_float(text: str) -> Single | None:
    """The value of the text of an xsd:float; None if ill-formed."""
    value = read_double(text)
    return None if value is None else single(value)


NUMERIC_READERS: Final[dict[str, Callable[[str], Number | None]]] = {
    **{XSD + name: _integer(low, high) for name, (low, high) in _RANGES.items()},
    XSD + "decimal": read_decimal,
    XSD + "double": read_double,
    XSD + "float": read_float,
}
READERS: Final[dict[str, Callable[[str], Value | None]]] = {
    **NUMERIC_READERS,
    XSD + "boolean": _BOOLEAN.get,
    XSD + "dateTime": read_date_time,
    XSD + "dateTimeStamp": lambda text: value if (value := read_date_time(text)) is not None and value.zone is not None else None,
    XSD + "date": read_date,
    XSD + "time": read_time,
    XSD + "duration": read_duration,
    XSD + "dayTimeDuration": read_day_time,
    XSD + "yearMonthDuration": read_year_month,
}


def read(term: Term) -> Value:
    """The value of a term, uncached; `VALUES[term]` is the cached value.

    >>> from dotr.model.terms import XSD, literal
    >>> read('"warm"'), read(literal("025", XSD + "integer")), read(literal("2.50", XSD + "decimal")), read(literal("1e0", XSD + "double"))
    ('warm', 25, Decimal('2.50'), 1.0)
    >>> read(literal("cold", XSD + "integer"))
    Unknown(term='"cold"^^<http://www.w3.org/2001/XMLSchema#integer>', is_ill_typed=True)
    """
    if term[0] == "<":
        if term[1] != "<":
            return Iri(term)
        subject, predicate, object = triple_parts(term)
        return TripleTerm(term, (read(subject), read(predicate), read(object)))
    if term[0] == "_":
        return BlankNode(term)
    lexical, datatype, language = literal_parts(term)
    if language:
        return Lang(lexical, language)
    if datatype == XSD + "string":
        return lexical
    reader = READERS.get(datatype)
    value = None if reader is None else reader(lexical)
    return Unknown(term, datatype in NUMERIC_READERS or datatype == XSD + "boolean") if value is None else value


INTEGER_END: Final = f'"^^<{XSD}integer>'
_DECIMAL_END: Final = f'"^^<{XSD}decimal>'
_DOUBLE_END: Final = f'"^^<{XSD}double>'
_FLOAT_END: Final = f'"^^<{XSD}float>'
_DATE_TIME_END: Final = f"^^<{XSD}dateTime>"

_LONGEST_USUAL: Final = 100
"""The longest literal that is read by slices: a text of 54 characters."""


def _read_usual(term: Term) -> Value | None:
    """The value of an ASCII literal with a datatype, read by slices; None if its text has no usual
    form, such as `+5`, or if its type is a rare one: `read` has its value."""
    end = term[-45:]
    if end == INTEGER_END:
        text = term[1:-45]
        if text.isdigit() or (text[:1] == "-" and text[1:].isdigit()):
            return int(text)
    elif end == _DECIMAL_END:
        text = term[1:-45]
        digits = text.replace(".", "", 1)
        if digits.isdigit() or (text[:1] == "-" and digits[1:].isdigit()):
            return Decimal(text)
    elif end[1:] == _DOUBLE_END:
        text = term[1:-44]
        # Digits at both ends leave out what only Python reads: " 5", "5 ", "-inf", "nan".
        if text[-1:].isdigit() and text[0] in "-0123456789" and "_" not in text:
            try:
                return float(text)
            except ValueError:
                pass
    elif end == _DATE_TIME_END:
        return read_usual_date_time(term[1:-46])
    return None


class _ValueCache(dict[Term | None, Value | None]):
    """A cache from terms to values, emptied at `limit` terms; None maps to None."""

    limit = 1 << 16

    def __missing__(self, term: Term | None) -> Value | None:
        if term is None:
            value = None
        elif term[0] == '"' and term[-1] == ">" and len(term) <= _LONGEST_USUAL and term.isascii():
            value = _read_usual(term)
            if value is None:
                value = read(term)
        else:
            value = read(term)
        if len(self) >= self.limit:
            self.clear()
        self[term] = value
        return value


VALUES: Final = _ValueCache()


def value_of(term: Term | None) -> Value | None:
    """The value of a term that is read once or twice: a long number is not kept in `VALUES`.

    Long is an integer of more than four digits, or a decimal of more than five: there are more of
    them than the cache keeps, and a sensor hardly repeats one.

    >>> from dotr.model.terms import XSD, literal
    >>> long = literal("98765432101", XSD + "integer")
    >>> value_of(long), long in VALUES
    (98765432101, False)
    """
    if term is not None and 50 < len(term) <= _LONGEST_USUAL and term.isascii():
        end, text = term[-45:], term[1:-45]
        if end == INTEGER_END:
            if text.isdigit() or (text[0] == "-" and text[1:].isdigit()):
                return int(text)
        elif end == _DECIMAL_END and len(text) > 6:
            digits = text.replace(".", "", 1)
            if digits.isdigit() or (text[0] == "-" and digits[1:].isdigit()):
                return Decimal(text)
    return VALUES[term]


NUMERIC: Final = frozenset((int, Decimal, float, Single))
EXACT_TYPES: Final = frozenset((int, Decimal))


def write(value: Value | None) -> Term | None:
    """The term of a computed value, in canonical form; None for None (an error) and above limits.

    >>> print(write(65), write(Decimal("65.0")), write(1000.0), write(True), write("warm"), write(Lang("warm", "en")))
    ... # doctest: +NORMALIZE_WHITESPACE
    "65"^^<http://www.w3.org/2001/XMLSchema#integer> "65"^^<http://www.w3.org/2001/XMLSchema#decimal>
    "1.0E3"^^<http://www.w3.org/2001/XMLSchema#double> "true"^^<http://www.w3.org/2001/XMLSchema#boolean> "warm" "warm"@en
    """
    kind = type(value)
    if kind is int:
        return f'"{value}{INTEGER_END}' if -_SHORT < value < _SHORT else _long(value, INTEGER_END)  # type: ignore[operator,arg-type]
    if kind is Decimal:
        return _long(value, _DECIMAL_END)  # type: ignore[arg-type]
    match value:
        case None:
            return None
        case bool():
            return TRUE if value else FALSE
        case str():
            return literal(value)
        case Single():
            return f'"{scientific(value)}{_FLOAT_END}'
        case float():
            return f'"{scientific(value)}{_DOUBLE_END}'
        case Lang(text, tag):
            return literal(text, language=tag)
        case Iri(term) | BlankNode(term) | TripleTerm(term) | Unknown(term):
            return term
        case DateTime() | Date() | Time() | Duration():
            text = str(value)
            return literal(text, value.datatype) if fits(text) else None
        case _:
            raise AssertionError(f"no term for {value!r}")


_SHORT: Final = 10**18
"""Integers below are short enough to be written without a check of the limits."""


def _long(value: int | Decimal, end: str) -> Term | None:
    text = plain(value)
    return f'"{text}{end}' if fits(text) and fits_digits(text) else None


def scientific(number: float) -> str:
    """The canonical lexical form of a double or a float (XSD 1.1, sections 3.3.4 and 3.3.5).

    >>> [scientific(x) for x in (1000.0, 0.1, -0.0, 1.5e-7, inf, single(0.1), 123456789.0)]
    ['1.0E3', '1.0E-1', '-0.0E0', '1.5E-7', 'INF', '1.0E-1', '1.23456789E8']
    """
    if isinf(number):
        return "INF" if number > 0 else "-INF"
    if isnan(number):
        return "NaN"
    sign, digits, exponent = Decimal(shortest_digits(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = exponent + len(text) - 1 if number else 0
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def shortest_digits(number: float) -> str:
    """The shortest decimal text whose value is this double, or this float."""
    if type(number) is not Single:
        return repr(number)
    for digits in range(1, 9):
        text = f"{float(number):.{digits}g}"
        if c_float(float(text)).value == number:
            return text
    return f"{float(number):.9g}"
