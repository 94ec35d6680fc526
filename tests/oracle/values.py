"""SPARQL values (SPARQL 1.1, section 17): values of terms, their comparison, and the terms of computed values (XSD 1.1)."""

from __future__ import annotations

import datetime
import math
import re
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from dotr.model.terms import FALSE, RDF, TRUE, XSD, Term, iri_text, is_literal, literal, literal_parts
from tests.oracle.triple_terms import is_triple_term, parts


class Err(Exception):
    """A SPARQL expression error."""


KINDS = ("integer", "decimal", "float", "double")


@dataclass(frozen=True)
class Number:
    """An exact Fraction where the kind is integer or decimal, else a Python float."""

    kind: str
    value: Fraction | float


@dataclass(frozen=True)
class Moment:
    """An xsd:dateTime: seconds since 1970 in UTC (where there is no zone, as if it were), and the zone in minutes."""

    seconds: Fraction
    zone: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Duration:
    """An xsd:dayTimeDuration."""

    seconds: Fraction


@dataclass(frozen=True)
class Tagged:
    text: str
    language: str


@dataclass(frozen=True)
class Opaque:
    """An IRI, a blank node, a triple term, an ill-typed literal, or a literal of a datatype that SPARQL has no operators for."""

    term: Term


Value: TypeAlias = Number | Moment | Duration | Tagged | Opaque | bool | str

BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-128, 127),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 255),
}
DURATION = re.compile(r"(-)?P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
DATETIME = re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?")


def single(number: float) -> float:
    """The nearest xsd:float."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def read_float(text: str) -> float | None:
    if text in ("INF", "+INF", "-INF", "NaN"):
        return float(text.replace("INF", "inf"))
    return float(text) if re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text) else None


def read_moment(text: str) -> Moment | None:
    match = DATETIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    try:
        midnight = datetime.datetime(year, month, day, tzinfo=datetime.UTC)
    except ValueError:
        return None
    if minute > 59 or second > 59 or hour > 24 or (hour == 24 and (minute or second)):
        return None
    zone = match[8]
    offset = 0 if zone in (None, "Z") else (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 60 + int(zone[4:6])) * 60
    days = (midnight - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).days
    seconds = days * 86400 + hour * 3600 + minute * 60 + second + Fraction("0" + (match[7] or ".0")) - offset
    return Moment(seconds, None if zone is None else offset // 60)


def read_duration(text: str) -> Duration | None:
    match = DURATION.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (Fraction(match[i] or 0) for i in range(2, 6))
    return Duration((-1 if match[1] else 1) * (((days * 24 + hours) * 60 + minutes) * 60 + seconds))


@lru_cache(maxsize=4096)
def value_of(term: Term) -> Value:
    """The value of a term.

    >>> value_of('"70.0"^^<http://www.w3.org/2001/XMLSchema#decimal>').value == 70
    True
    """
    if not is_literal(term):
        return Opaque(term)
    lexical, datatype, language = literal_parts(term)
    if language:
        return Tagged(lexical, language)
    if not datatype.startswith(XSD):
        return Opaque(term)
    name, text = datatype[len(XSD) :], lexical.strip(" \t\r\n")
    if name == "string":
        return lexical
    if name == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text, Opaque(term))
    if name in BOUNDS and re.fullmatch(r"[+-]?\d+", text):
        low, high = BOUNDS[name]
        if (low is None or low <= int(text)) and (high is None or int(text) <= high):
            return Number("integer", Fraction(int(text)))
    if name == "decimal" and re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text):
        return Number("decimal", Fraction(text))
    if name in ("float", "double"):
        number = read_float(text)
        if number is not None:
            return Number(name, single(number) if name == "float" else number)
    if name == "dateTime":
        return read_moment(text) or Opaque(term)
    if name == "dayTimeDuration":
        return read_duration(text) or Opaque(term)
    return Opaque(term)


def decimal_text(number: Fraction) -> str:
    """The canonical xsd:decimal.

    >>> decimal_text(Fraction(65)), decimal_text(Fraction("-0.50"))
    ('65', '-0.5')
    """
    digits = 0
    while (number * 10**digits).denominator != 1:
        digits += 1
    whole = str(abs(int(number * 10**digits))).rjust(digits + 1, "0")
    sign = "-" if number < 0 else ""
    return sign + (whole if digits == 0 else f"{whole[:-digits]}.{whole[-digits:]}")


def float_text(number: float, kind: str) -> str:
    """The canonical xsd:double or xsd:float.

    >>> float_text(65.0, "double"), float_text(0.1, "double"), float_text(0.0, "double")
    ('6.5E1', '1.0E-1', '0.0E0')
    """
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    if number == 0:
        return "-0.0E0" if math.copysign(1, number) < 0 else "0.0E0"
    shortest = repr(number)
    if kind == "float":
        shortest = next(text for digits in range(1, 18) if single(float(text := f"{number:.{digits}g}")) == number)
    mantissa, exponent = f"{float(shortest):.{max(0, len(re.sub(r'[eE].*|[^0-9]', '', shortest).strip('0')) - 1)}e}".split("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"


def moment_text(moment: Moment) -> str:
    whole, fraction = divmod(moment.seconds, 1)
    stamp = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=int(whole) + (moment.zone or 0) * 60)
    return stamp.isoformat() + (decimal_text(fraction)[1:] if fraction else "") + zone_text(moment.zone)


def zone_text(zone: int | None) -> str:
    """
    >>> zone_text(None), zone_text(0), zone_text(-90)
    ('', 'Z', '-01:30')
    """
    if not zone:
        return "" if zone is None else "Z"
    return f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}:{abs(zone) % 60:02}"


def duration_text(duration: Duration) -> str:
    """The canonical xsd:dayTimeDuration.

    >>> duration_text(Duration(Fraction(-93661) - Fraction(1, 2))), duration_text(Duration(Fraction(0)))
    ('-P1DT2H1M1.5S', 'PT0S')
    """
    minutes, seconds = divmod(abs(duration.seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (decimal_text(seconds), "S")) if n not in (0, "0"))
    date = f"{days}D" if days else ""
    return f"{'-' if duration.seconds < 0 else ''}P{date}{'T' + clock if clock else ''}" if date or clock else "PT0S"


def term_of(value: Value) -> Term:
    """The term of a computed value."""
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, Number):
        text = decimal_text(value.value) if isinstance(value.value, Fraction) else float_text(value.value, value.kind)
        return literal(text, XSD + value.kind)
    if isinstance(value, Moment):
        return literal(moment_text(value), XSD + "dateTime")
    if isinstance(value, Duration):
        return literal(duration_text(value), XSD + "dayTimeDuration")
    if isinstance(value, Tagged):
        return literal(value.text, RDF + "langString", value.language)
    return value.term


def promoted(a: Number, b: Number) -> tuple[str, Fraction | float, Fraction | float]:
    """Both numbers in the wider of their kinds.

    >>> promoted(Number("decimal", Fraction("0.7")), Number("float", single(0.7)))
    ('float', 0.699999988079071, 0.699999988079071)
    """
    kind = max(a.kind, b.kind, key=KINDS.index)
    if kind in ("integer", "decimal"):
        return kind, a.value, b.value
    x, y = as_float(a.value), as_float(b.value)
    return (kind, single(x), single(y)) if kind == "float" else (kind, x, y)


def as_float(number: Fraction | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def negative(value: Value) -> Value:
    if isinstance(value, Duration):
        return Duration(-value.seconds)
    if not isinstance(value, Number):
        raise Err
    return Number(value.kind, -value.value)


def in_time(operator: str, a: Value, b: Value) -> Value:
    """Arithmetic of date-times and durations, as XPath has it."""
    match operator, a, b:
        case "-", Moment(), Moment():
            return Duration(a.seconds - b.seconds)
        case "+", Duration(), Moment():
            return Moment(a.seconds + b.seconds, b.zone)
        case "+" | "-", Moment(), Duration():
            return Moment(a.seconds + (b.seconds if operator == "+" else -b.seconds), a.zone)
        case "+" | "-", Duration(), Duration():
            return Duration(a.seconds + (b.seconds if operator == "+" else -b.seconds))
        case "/", Duration(), Duration() if b.seconds:
            return Number("decimal", quotient(a.seconds / b.seconds))
        case "*", Number(), Duration():
            return Duration(b.seconds * exact(a))
        case "*", Duration(), Number():
            return Duration(a.seconds * exact(b))
        case "/", Duration(), Number() if b.value:
            return Duration(quotient(a.seconds / exact(b)))
        case _:
            raise Err


def exact(number: Number) -> Fraction:
    if isinstance(number.value, float) and not math.isfinite(number.value):
        raise Err
    return Fraction(number.value)


def arithmetic(operator: str, a: Value, b: Value) -> Value:
    if isinstance(a, Moment | Duration) or isinstance(b, Moment | Duration):
        return in_time(operator, a, b)
    if not isinstance(a, Number) or not isinstance(b, Number):
        raise Err
    kind, x, y = promoted(a, b)
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        if operator == "/":
            if y == 0:
                raise Err
            return Number("decimal", quotient(x / y))
        return Number(kind, {"+": x + y, "-": x - y, "*": x * y}[operator])
    x, y = float(x), float(y)
    if operator == "/" and y == 0:
        result = math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)
    else:
        result = {"+": x + y, "-": x - y, "*": x * y}[operator] if operator != "/" else x / y
    return Number(kind, single(result) if kind == "float" else result)


def quotient(exact: Fraction) -> Fraction:
    """The quotient, rounded half-even at 18 places.

    >>> decimal_text(quotient(Fraction(2, 3)))
    '0.666666666666666667'
    """
    return Fraction(round(exact * 10**18), 10**18)


def equal(left: Term, right: Term) -> bool:
    """SPARQL `=`: by value where there are values, else by term; two different literals without common values are an error. Triple terms
    are equal where `=` holds of their parts, all joined by `&&` (SPARQL 1.2, 17.3)."""
    if is_triple_term(left) and is_triple_term(right):
        erred = False
        for a_part, b_part in zip(parts(left), parts(right), strict=True):
            try:
                if not equal(a_part, b_part):
                    return False
            except Err:
                erred = True
        if erred:
            raise Err
        return True
    a, b = value_of(left), value_of(right)
    if isinstance(a, Number) and isinstance(b, Number):
        _, x, y = promoted(a, b)
        return x == y
    if type(a) is type(b) and isinstance(a, bool | str | Moment | Duration):
        return a == b
    if left == right:
        return True
    if isinstance(a, Tagged) or isinstance(b, Tagged):
        # The W3C's tests of open worlds: what has a language is known to differ from all else.
        return False
    if is_literal(left) and is_literal(right):
        raise Err
    return False


def less(left: Term, right: Term) -> bool:
    """SPARQL `<`."""
    a, b = value_of(left), value_of(right)
    if isinstance(a, Number) and isinstance(b, Number):
        _, x, y = promoted(a, b)
        return x < y
    if isinstance(a, Moment | Duration) and type(a) is type(b):
        return a.seconds < b.seconds
    if isinstance(a, bool) and isinstance(b, bool):
        return a < b
    if isinstance(a, str) and isinstance(b, str):
        return a < b
    raise Err


def truth(term: Term) -> bool:
    """The effective boolean value."""
    if not is_literal(term):
        raise Err
    value = value_of(term)
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value != ""
    if isinstance(value, Tagged):
        return value.text != ""
    if isinstance(value, Number):
        return value.value != 0 and value.value == value.value
    name = literal_parts(term)[1].removeprefix(XSD)
    if name in BOUNDS or name in ("decimal", "float", "double", "boolean"):
        return False
    raise Err


def sort_key(term: Term | None) -> tuple[object, ...]:
    """ORDER BY: unbound, blank nodes, IRIs, literals, triple terms; literals kind after kind, by value within one; triple terms by their
    parts. Equal keys: a tie."""
    if term is None:
        return (0,)
    if is_triple_term(term):
        return (4, *map(sort_key, parts(term)))
    if not is_literal(term):
        return (1,) if term.startswith("_:") else (2, iri_text(term))
    value = value_of(term)
    if isinstance(value, Number):
        return (3, 0, 1, value.value) if value.value == value.value else (3, 0, 0)
    if isinstance(value, bool):
        return (3, 1, value)
    if isinstance(value, str):
        return (3, 2, value)
    if isinstance(value, Tagged):
        return (3, 3, value.text, value.language)
    if isinstance(value, Moment | Duration):
        return (3, 4 if isinstance(value, Moment) else 5, value.seconds)
    return (3, 6, term)


def order_key(term: Term) -> tuple[object, ...]:
    """MIN and MAX: as ORDER BY has it, then by the text of the terms."""
    return sort_key(term), term


LENGTH = re.compile(r"(-)?P(?=.)(?:0+Y)?(?:0+M)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def length(term: Term) -> Fraction | None:
    """Seconds of a duration without months; None of any other term."""
    if not is_literal(term):
        return None
    text, datatype, _ = literal_parts(term)
    match = LENGTH.fullmatch(text.strip()) if datatype in (XSD + "duration", XSD + "dayTimeDuration") else None
    if match is None:
        return None
    days, hours, minutes, seconds = (Fraction(match[i] or 0) for i in range(2, 6))
    return (-1 if match[1] else 1) * (((days * 24 + hours) * 60 + minutes) * 60 + seconds)
