"""OWL's identity of literals, as the rows of `owl2rl` compare them (OWL 2 Profiles, 4.3, table 8).

Idea: a literal has an *identity*, a tuple that is equal exactly for literals of one value. Unlike
SPARQL's `=`, it separates decimals from doubles, 0.0 from -0.0 and date-times of other offsets, and
NaN is itself.

A small case: `5`, `5.0` and `"05"^^xsd:byte` have the identity ("number", 5), `5e0` ("double",
"5.0").
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import quote

from dotr.evaluation.expressions.values.datetimes import DateTime
from dotr.evaluation.expressions.values.terms import NUMERIC_READERS, READERS, Single, read
from dotr.evaluation.limits import fits
from dotr.model.terms import RDF, RDFS, XSD, Term, is_literal, literal, literal_parts

Identity: TypeAlias = tuple[object, ...]

_NAME: Final = r"[^\W\d][\w.\-]*"  # without a colon
_TEXTS: Final = {
    XSD + name: re.compile(pattern)
    for name, pattern in (
        ("string", r"(?s:.*)"),
        ("normalizedString", r"[^\t\n\r]*"),
        ("token", r"(?:[^\s](?: ?[^\s])*)?"),
        ("language", r"[a-zA-Z]{1,8}(?:-[a-zA-Z0-9]{1,8})*"),
        ("NMTOKEN", r"[\w.:\-]+"),
        ("Name", rf"(?::|{_NAME})[\w.:\-]*"),
        ("NCName", _NAME),
    )
}
"""The data types of strings, with the texts that each has."""
_PLAIN, _TAGGED = RDF + "PlainLiteral", RDF + "langString"
_HEXADECIMAL: Final = re.compile("(?:[0-9a-fA-F]{2})*")


@lru_cache(1 << 16)
def identity(term: Term) -> Identity | None:
    """The identity of a literal; None for an ill-formed one, and for data types without one.

    >>> terms = [literal(text, XSD + kind) for text, kind in (("05", "byte"), ("5.0", "decimal"), ("5", "double"), ("x", "integer"))]
    >>> [identity(term) for term in terms]
    [('number', 5), ('number', Decimal('5.0')), ('double', '5.0'), None]
    >>> identity(terms[0]) == identity(terms[1])
    True
    """
    text, datatype, tag = literal_parts(term)
    if tag:
        return "text", text, tag
    if datatype == _PLAIN:
        text, _, tag = text.rpartition("@")
        return ("text", text, tag.lower()) if tag else ("text", text)
    if datatype in _TEXTS:
        return ("text", text) if _TEXTS[datatype].fullmatch(text) else None
    if datatype == XSD + "anyURI":
        return "anyURI", text
    if datatype == XSD + "hexBinary":
        return ("hexBinary", text.upper()) if _HEXADECIMAL.fullmatch(text) else None
    if datatype == XSD + "base64Binary":
        try:
            return "base64Binary", b64decode(text.replace(" ", ""), validate=True)
        except (Base64Error, ValueError):
            return None
    reader = READERS.get(datatype)
    value = None if reader is None else reader(text)
    if value is None:
        return None
    if type(value) is int or type(value) is Decimal:
        return "number", value
    if isinstance(value, float):
        return ("float" if type(value) is Single else "double"), repr(float(value))
    return ("boolean", str(value).lower()) if type(value) is bool else (str(getattr(value, "datatype", "")).removeprefix(XSD), str(value))


def is_equal(one: Term, other: Term) -> bool:
    """True for two literals of one value (dt-eq).

    >>> is_equal(literal("1", XSD + "integer"), literal("1.0", XSD + "decimal")), is_equal('"a"@en', '"a"')
    (True, False)
    """
    if not (is_literal(one) and is_literal(other)):
        return False
    value = identity(one)
    return one == other or (value is not None and value == identity(other))


def is_different(one: Term, other: Term) -> bool:
    """True for two literals of different values (dt-diff).

    >>> is_different(literal("1", XSD + "integer"), literal("1", XSD + "double")), is_different('"a"', '"a"^^<http://e/mine>')
    (True, False)
    """
    if not (is_literal(one) and is_literal(other)):
        return False
    value, other_value = identity(one), identity(other)
    return value is not None and other_value is not None and value != other_value


def canonical(term: Term) -> Term | None:
    """The literal that stands for all literals of one value; None without a value.

    >>> print(canonical(literal("5.0", XSD + "decimal")), canonical(literal("a", XSD + "token")))
    "5"^^<http://www.w3.org/2001/XMLSchema#integer> "a"
    """
    value = identity(term) if is_literal(term) else None
    match value:
        case None:
            return None
        case ("number", int() | Decimal() as number):
            whole = number == int(number)
            return literal(str(int(number)) if whole else f"{Decimal(number).normalize():f}", XSD + ("integer" if whole else "decimal"))
        case ("text", str(text)):
            return literal(text)
        case ("text", str(text), str(tag)):
            return literal(text, language=tag)
        case ("base64Binary" | "hexBinary" as kind, data):
            return literal(data.hex() if isinstance(data, bytes) else str(data), f"{XSD}{kind}")
        case (kind, data):
            return literal(str(data), f"{XSD}{kind}")
        case _:
            return None


def has_type(term: Term, datatype: Term) -> bool:
    """True where the value space of a data type has the value of a literal (dt-type2).

    Of a data type that is not OWL 2 RL's, a literal has the type only if it is written so.

    >>> five = literal("5", XSD + "integer")
    >>> [has_type(five, f"<{XSD}{name}>") for name in ("byte", "decimal", "negativeInteger", "double", "string")]
    [True, True, False, False, False]
    """
    if not is_literal(term):
        return False
    written, name = literal_parts(term)[1], datatype[1:-1]
    value = identity(term)
    if value is None:
        return written == name and written not in KNOWN
    if name == written or name == RDFS + "Literal":
        return True
    kind = value[0]
    if name in (_PLAIN, _TAGGED):
        return kind == "text" and (name == _PLAIN or len(value) == 3)
    if name in _TEXTS:
        return kind == "text" and len(value) == 2 and _TEXTS[name].fullmatch(str(value[1])) is not None
    if name == XSD + "decimal":
        return kind == "number"
    if kind == "number" and name in NUMERIC_READERS and not name.endswith(("double", "float")):
        number = value[1]
        return isinstance(number, int | Decimal) and number == int(number) and NUMERIC_READERS[name](str(int(number))) is not None
    if name == XSD + "dateTimeStamp":
        moment = read(term)
        return isinstance(moment, DateTime) and moment.zone is not None
    return name == f"{XSD}{kind}"


def is_datatype(term: Term) -> bool:
    """True for the IRI of a data type of XSD or RDF.

    >>> is_datatype(f"<{XSD}byte>"), is_datatype("<http://e/byte>")
    (True, False)
    """
    return term[1:-1] in KNOWN


def is_of_datatype(term: Term, datatype: Term) -> bool:
    """True where a literal has a data type of XSD or RDF."""
    return is_datatype(datatype) and has_type(term, datatype)


KNOWN: Final = frozenset(
    (*_TEXTS, *READERS, _PLAIN, _TAGGED, RDF + "XMLLiteral", RDFS + "Literal", XSD + "anyURI", XSD + "hexBinary", XSD + "base64Binary")
)


def encoded(term: Term) -> str | None:
    """The text of an IRI, or the label of a blank node, for a part of another IRI.

    >>> encoded("<http://e/a>"), encoded("_:b")
    ('http%3A%2F%2Fe%2Fa', '_%3Ab')
    """
    text = quote(term[1:-1] if term[0] == "<" else term, safe="-_.~", errors="surrogatepass")
    return None if is_literal(term) or not fits(text) else text
