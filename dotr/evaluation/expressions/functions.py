"""Table of SPARQL's functions (SPARQL 1.1, section 17.4; 1.2 for triple terms, base directions):
argument forms, result form, implementation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import Enum, auto
from math import ceil, copysign, floor, inf, nan
from typing import Any, Final
from urllib.parse import urljoin

from pyoxigraph import NamedNode

from dotr.evaluation.expressions import identity, regexes, strings
from dotr.evaluation.expressions.casts import CASTS
from dotr.evaluation.expressions.operators import to_double
from dotr.evaluation.expressions.values.datetimes import Date, DateTime, DayTime, Duration, Time, YearMonth, add_duration, zone_name
from dotr.evaluation.expressions.values.decimals import EXACT
from dotr.evaluation.expressions.values.terms import EXACT_TYPES, NUMERIC, Iri, Lang, Number, Single, Value
from dotr.evaluation.limits import fits
from dotr.evaluation.triples.generalised import property_of_literals
from dotr.model import dataclass
from dotr.model.calendars import zone_of, zone_of_text
from dotr.model.terms import (
    DIRECTIONS,
    LANGUAGE_STRINGS,
    XSD,
    Term,
    iri,
    is_blank,
    is_iri,
    is_literal,
    is_triple,
    literal,
    literal_parts,
    triple_parts,
    triple_term,
)

_MICROS: Final = 1_000_000


class ArgumentForm(Enum):
    """Form of an argument or a result: a term, its value, or a truth value (also a value)."""

    TERM = auto()
    VALUE = auto()
    TRUTH = auto()


@dataclass(frozen=True, slots=True)
class Function:
    """A function of expressions.

    - `run`: the implementation. Its arguments are never None; it returns None for an error.
    - `parameters`: the forms of the arguments; the last one is that of all further arguments.
    - `least`, `most`: the permitted numbers of arguments.
    """

    run: Callable[..., Any]
    parameters: tuple[ArgumentForm, ...]
    result: ArgumentForm
    least: int
    most: int


def _function(run: Callable[..., Any], parameters: tuple[ArgumentForm, ...], result: ArgumentForm, most: int | None = None) -> Function:
    return Function(run, parameters, result, len(parameters), len(parameters) if most is None else most)


_T, _V, _B = ArgumentForm.TERM, ArgumentForm.VALUE, ArgumentForm.TRUTH


# --- terms ---


def _str(term: Term) -> str | None:
    text = literal_parts(term)[0] if is_literal(term) else term[1:-1] if is_iri(term) else None
    return text if text is not None and fits(text) else None


def _lang(term: Term) -> str | None:
    return literal_parts(term)[2].partition("--")[0] if is_literal(term) else None


def _langdir(term: Term) -> str | None:
    return literal_parts(term)[2].partition("--")[2] if is_literal(term) else None


def _has_lang(term: Term) -> bool:
    return is_literal(term) and literal_parts(term)[1] in LANGUAGE_STRINGS


def _has_langdir(term: Term) -> bool:
    return is_literal(term) and literal_parts(term)[1] == LANGUAGE_STRINGS[1]


def _datatype(term: Term) -> Term | None:
    return iri(literal_parts(term)[1]) if is_literal(term) else None


_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\x00-\x20<>\"{}|^`\\]*")


def _iri(term: Term, base: Term = "") -> Term | None:
    """IRI() of an IRI or of a string; a relative IRI is resolved against the query's BASE."""
    if is_iri(term):
        return term
    if not is_literal(term):
        return None
    lexical, datatype, _ = literal_parts(term)
    if datatype != XSD + "string" or not fits(lexical):
        return None
    if base and not _ABSOLUTE.fullmatch(lexical):
        try:
            lexical = urljoin(base[1:-1], lexical)
        except ValueError:
            return None
    return iri(lexical) if _ABSOLUTE.fullmatch(lexical) and _is_valid_iri(lexical) else None


def _is_valid_iri(text: str) -> bool:
    """Tests whether RDF parsers accept the IRI (RFC 3987), so that output with it can be parsed.

    >>> _is_valid_iri("http://e/%C3%A9"), _is_valid_iri("http://e/100%")
    (True, False)
    """
    try:
        NamedNode(text)
    except ValueError:
        return False
    return True


def _strdt(lexical: Value, datatype: Value) -> Term | None:
    if type(lexical) is not str or type(datatype) is not Iri or datatype.term[1:-1] in LANGUAGE_STRINGS or not fits(lexical):
        return None
    return literal(lexical, datatype.term[1:-1])


_TAG: Final = re.compile("[a-zA-Z]+(-[a-zA-Z0-9]+)*")


def _strlang(lexical: Value, tag: Value) -> Value | None:
    if type(lexical) is not str or type(tag) is not str or not _TAG.fullmatch(tag) or not fits(lexical):
        return None
    return Lang(lexical, tag.lower())


def _strlangdir(lexical: Value, tag: Value, direction: Value) -> Value | None:
    """STRLANGDIR: a text with a language and a base direction, `ltr` or `rtl` in small letters."""
    made = _strlang(lexical, tag)
    return Lang(made.text, f"{made.tag}--{direction}") if isinstance(made, Lang) and direction in DIRECTIONS else None


def _same_term(a: Term, b: Term) -> bool:
    return a == b


_DEEPEST: Final = 64


def _triple(subject: Term, predicate: Term, object: Term) -> Term | None:
    """TRIPLE(); an error above the nesting of records, or above the length of literals."""
    inner = object
    for _ in range(_DEEPEST):
        if not is_triple(inner):
            break
        inner = triple_parts(inner)[2]
    else:
        return None
    term = triple_term(subject, predicate, object)
    return term if term is not None and fits(term) else None


def _part(index: int) -> Callable[[Term], Term | None]:
    return lambda term: triple_parts(term)[index] if is_triple(term) else None


def _is_numeric(value: Value) -> bool:
    return type(value) in NUMERIC


# --- numbers ---


def _abs(a: Any) -> Number | None:
    return None if type(a) not in NUMERIC else a.copy_abs() if type(a) is Decimal else type(a)(abs(a))


def _ceil(a: Any) -> Number | None:
    return _whole(a, ROUND_CEILING, ceil)


def _floor(a: Any) -> Number | None:
    return _whole(a, ROUND_FLOOR, floor)


def _round(a: Any) -> Number | None:
    """The nearest whole number, the greater of two (fn:round).

    >>> _round(Decimal("2.5")), _round(-2.5), _round(Decimal("-2.5")), _round(0.49999999999999994), _round(3)
    (Decimal('3'), -2.0, Decimal('-2'), 0.0, 3)
    """
    if type(a) is Decimal:
        low = a.to_integral_value(ROUND_FLOOR, EXACT)
        return EXACT.add(low, Decimal(1)) if a.compare(EXACT.add(low, Decimal("0.5"))) >= 0 else low
    return _whole(a, ROUND_FLOOR, lambda x: floor(x) + (x - floor(x) >= 0.5))


def _whole(a: Any, decimal: str, double: Callable[[float], int]) -> Number | None:
    kind = type(a)
    if kind is int:
        return int(a)
    if kind is Decimal:
        return a.to_integral_value(decimal, EXACT)  # type: ignore[no-any-return]
    if kind is float or kind is Single:
        return a if a - a != 0 else kind(copysign(double(float(a)), a))  # type: ignore[no-any-return]
    return None


# --- functions of doubles (XPath and XQuery Functions 3.1, section 4.8) ---

MATH: Final = "http://www.w3.org/2005/xpath-functions/math#"


def _of_doubles(function: Callable[..., float], pole: Callable[..., float] = lambda *_: nan) -> Callable[..., float | None]:
    """A function of numbers as doubles; outside of the domain, where Python raises an error, it is
    that of `pole`, and beyond the greatest double an infinity."""

    def run(*arguments: Any) -> float | None:
        if not NUMERIC.issuperset(map(type, arguments)):
            return None
        doubles = [to_double(a) for a in arguments]
        try:
            return function(*doubles)
        except ValueError:
            return pole(*doubles)
        except OverflowError:
            return copysign(inf, _power_sign(*doubles))

    return run


def _power_sign(base: float, exponent: float = 0.0) -> float:
    """The sign of a power: that of the base if the exponent is an odd number, else 1.

    >>> _power_sign(-2.0, 3.0), _power_sign(-2.0, 1e300), _power_sign(-0.0, -1.0)
    (-2.0, 1.0, -0.0)
    """
    return base if exponent % 2 == 1 else 1.0


def _power_pole(base: float, exponent: float) -> float:
    """A power that is no number, or that of zero to a negative exponent."""
    return nan if base else copysign(inf, _power_sign(base, exponent))


def _logarithm_pole(a: float) -> float:
    return nan if a else -inf


MATH_FUNCTIONS: Final = {
    f"<{MATH}{name}>": _function(run, (_V,) * number, _V)
    for number, functions in (
        (0, {"pi": lambda: math.pi}),
        (1, {name: _of_doubles(getattr(math, name)) for name in ("exp", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan")}),
        (1, {name: _of_doubles(getattr(math, name), _logarithm_pole) for name in ("log", "log10")}),
        (1, {"exp10": _of_doubles(lambda a: math.pow(10.0, a))}),
        (2, {"pow": _of_doubles(math.pow, _power_pole), "atan2": _of_doubles(math.atan2)}),
    )
    for name, run in functions.items()
}
"""The functions of doubles, by the term of their IRI."""


# --- dates ---


def _field(name: str, *kinds: type) -> Callable[[Any], Value | None]:
    def field(a: Any) -> Value | None:
        return getattr(a, name) if type(a) in kinds else None

    return field


def _seconds(a: Any) -> Decimal | None:
    return Decimal(a.second) if type(a) in (DateTime, Time) else None


def _timezone(a: Any) -> DayTime | None:
    return DayTime(0, a.zone * 60) if type(a) in (DateTime, Date, Time) and a.zone is not None else None


def _tz(a: Any) -> str | None:
    return zone_name(a) if type(a) in (DateTime, Date, Time) else None


def _length(a: Any, unit: int = _MICROS) -> Decimal | None:
    """The seconds of a duration without months, or of a number of units (µs).

    >>> _length(90, 60_000_000), _length(DayTime(0, Decimal("1.5"))), _length("90")
    (Decimal('5400'), Decimal('1.5'), None)
    """
    if isinstance(a, Duration):
        return Decimal(a.seconds) if not a.months and type(a) is not YearMonth else None
    return EXACT.divide(EXACT.multiply(Decimal(a), Decimal(unit)), Decimal(_MICROS)) if type(a) in EXACT_TYPES else None


def _elapsed(start: Any, end: Any, unit: int = _MICROS) -> Decimal | None:
    """The seconds from a time to another, each a date-time or an integer of a unit (µs).

    >>> _elapsed(1_000, 2_500, 1_000)
    Decimal('1.5')
    """
    times = [
        Decimal(each.instant) if type(each) is DateTime else _length(each, unit) if type(each) is int else None for each in (start, end)
    ]
    return None if times[0] is None or times[1] is None else EXACT.subtract(times[1], times[0])


def _in_zone(a: Any, name: Any, table: str | None = None) -> DateTime | None:
    """The same moment as the clock of a zone shows it; `table`: the text of the zone.

    >>> from dotr.evaluation.expressions.values.terms import read
    >>> str(_in_zone(read('"2026-03-29T01:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'), "Europe/Berlin"))
    '2026-03-29T03:00:00+02:00'
    """
    if type(a) is not DateTime or type(name) is not str:
        return None
    try:
        zone = zone_of(name) if table is None else zone_of_text(table)
    except LookupError:
        return None
    minutes = zone.minutes(floor(a.instant * 1_000_000))
    shown = add_duration(a, DayTime(0, (minutes - (a.zone or 0)) * 60))
    return replace(shown, zone=minutes, instant=a.instant) if isinstance(shown, DateTime) else None


_ANY_NUMBER: Final = 1 << 16

SECONDS: Final = "<urn:dotr:function:seconds>"
"""The seconds of a duration, or of a number of units of time."""
ELAPSED: Final = "<urn:dotr:function:elapsed>"
"""`elapsed(A, B)`: the seconds from the time of a label to that of another. The last argument of
both functions is the length of a unit of integer times in µs; left out, it is a second."""
IN_ZONE: Final = "<urn:dotr:function:inZone>"
"""A date-time with the offset of a zone. A constant zone is followed by its text, so that processes that parse nothing
read no zones."""
WITHOUT_SETTINGS: Final = {ELAPSED: 2, SECONDS: 1, IN_ZONE: 2}
"""Numbers of arguments without those that the parser adds. State never outlives the unit: with another one only the state of
date-times is read, of which no unit tells anything; a zone keeps its meaning when its changes become known."""

FUNCTIONS: Final[dict[str, Function]] = {
    "STR": _function(_str, (_T,), _V),
    "LANG": _function(_lang, (_T,), _V),
    "DATATYPE": _function(_datatype, (_T,), _T),
    "IRI": _function(_iri, (_T,), _T, 2),
    "STRDT": _function(_strdt, (_V, _V), _T),
    "STRLANG": _function(_strlang, (_V, _V), _V),
    "LANGDIR": _function(_langdir, (_T,), _V),
    "HASLANG": _function(_has_lang, (_T,), _B),
    "HASLANGDIR": _function(_has_langdir, (_T,), _B),
    "STRLANGDIR": _function(_strlangdir, (_V, _V, _V), _V),
    "SAMETERM": _function(_same_term, (_T, _T), _B),
    "ISIRI": _function(is_iri, (_T,), _B),
    "ISBLANK": _function(is_blank, (_T,), _B),
    "ISLITERAL": _function(is_literal, (_T,), _B),
    "ISNUMERIC": _function(_is_numeric, (_V,), _B),
    "ISTRIPLE": _function(is_triple, (_T,), _B),
    "TRIPLE": _function(_triple, (_T, _T, _T), _T),
    **{name: _function(_part(index), (_T,), _T) for index, name in enumerate(("SUBJECT", "PREDICATE", "OBJECT"))},
    "LANGMATCHES": _function(strings.langmatches, (_V, _V), _B),
    "STRLEN": _function(strings.strlen, (_V,), _V),
    "SUBSTR": _function(strings.substr, (_V, _V), _V, 3),
    "UCASE": _function(strings.ucase, (_V,), _V),
    "LCASE": _function(strings.lcase, (_V,), _V),
    "STRSTARTS": _function(strings.strstarts, (_V, _V), _B),
    "STRENDS": _function(strings.strends, (_V, _V), _B),
    "CONTAINS": _function(strings.contains, (_V, _V), _B),
    "STRBEFORE": _function(strings.strbefore, (_V, _V), _V),
    "STRAFTER": _function(strings.strafter, (_V, _V), _V),
    "ENCODE_FOR_URI": _function(strings.encode_for_uri, (_V,), _V),
    "CONCAT": Function(strings.concat, (_V,), _V, 0, _ANY_NUMBER),
    "REGEX": _function(regexes.regex, (_V, _V), _B, 3),
    "REPLACE": _function(regexes.replace, (_V, _V, _V), _V, 4),
    "ABS": _function(_abs, (_V,), _V),
    "CEIL": _function(_ceil, (_V,), _V),
    "FLOOR": _function(_floor, (_V,), _V),
    "ROUND": _function(_round, (_V,), _V),
    "YEAR": _function(_field("year", DateTime, Date), (_V,), _V),
    "MONTH": _function(_field("month", DateTime, Date), (_V,), _V),
    "DAY": _function(_field("day", DateTime, Date), (_V,), _V),
    "HOURS": _function(_field("hour", DateTime, Time), (_V,), _V),
    "MINUTES": _function(_field("minute", DateTime, Time), (_V,), _V),
    "SECONDS": _function(_seconds, (_V,), _V),
    "TIMEZONE": _function(_timezone, (_V,), _V),
    "TZ": _function(_tz, (_V,), _V),
    "MD5": _function(strings.md5, (_V,), _V),
    "SHA1": _function(strings.sha1, (_V,), _V),
    "SHA256": _function(strings.sha256, (_V,), _V),
    "SHA384": _function(strings.sha384, (_V,), _V),
    "SHA512": _function(strings.sha512, (_V,), _V),
    **{name: _function(cast, (_V,), _V) for name, cast in CASTS.items()},
    **MATH_FUNCTIONS,
    SECONDS: Function(_length, (_V, _V), _V, 1, 2),
    ELAPSED: Function(_elapsed, (_V, _V, _V), _V, 2, 3),
    IN_ZONE: Function(_in_zone, (_V, _V, _V), _V, 2, 3),
    # Functions of the rule sets alone (`*.dlog` beside the entailment).
    "<urn:dotr:hidden:property>": _function(property_of_literals, (_T,), _T),
    "<urn:dotr:hidden:encoded>": _function(identity.encoded, (_T,), _V),
    "<urn:dotr:hidden:canonical>": _function(identity.canonical, (_T,), _T),
    "<urn:dotr:hidden:isDatatype>": _function(identity.is_datatype, (_T,), _B),
    "<urn:dotr:hidden:hasType>": _function(identity.has_type, (_T, _T), _B),
    "<urn:dotr:hidden:equal>": _function(identity.is_equal, (_T, _T), _B),
    "<urn:dotr:hidden:different>": _function(identity.is_different, (_T, _T), _B),
}
"""All functions except those of `compile.py`, which do not evaluate all arguments: `&&`, `||`, `!`,
IF, COALESCE, IN, BOUND.
"""
