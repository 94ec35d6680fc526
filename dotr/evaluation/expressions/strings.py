"""SPARQL's string functions (SPARQL 1.1, section 17.4.3) over `str` and, with a language tag,
`Lang`; None is an error.
"""

from __future__ import annotations

import hashlib
from math import floor, inf, isnan
from typing import Final, TypeAlias
from urllib.parse import quote

from dotr.evaluation.expressions.operators import to_double
from dotr.evaluation.expressions.values.terms import NUMERIC, Lang, Value
from dotr.evaluation.limits import BOUNDS, fits

StringValue: TypeAlias = str | Lang

_MAX_CHAR: Final = 0x10FFFF


def text_of(value: Value) -> str | None:
    """The characters of a string, with or without language tag; None for other values."""
    return value if type(value) is str else value.text if type(value) is Lang else None


def with_tag_of(value: Value, text: str) -> StringValue | None:
    """A text with the language tag, if any, of the value from which it is computed.

    None if the text is above the limit of literals.
    """
    if not fits(text):
        return None
    return Lang(text, value.tag) if type(value) is Lang else text


def _pair(a: Value, b: Value) -> tuple[str, str] | None:
    """The characters of two compatible strings (17.4.3.1.2); None for others.

    They are compatible if the second has no language tag, or both have the same.

    >>> _pair(Lang("warm", "en"), "a"), _pair("warm", Lang("a", "en"))
    (('warm', 'a'), None)
    """
    left, right = text_of(a), text_of(b)
    if left is None or right is None:
        return None
    if type(b) is Lang and not (type(a) is Lang and a.tag == b.tag):
        return None
    return left, right


def strlen(a: Value) -> int | None:
    """STRLEN, in code points."""
    text = text_of(a)
    return None if text is None else len(text)


def substr(a: Value, start: Value, length: Value | None = None) -> StringValue | None:
    """SUBSTR: characters from `start`, counted from 1 (XPath fn:substring).

    >>> substr("foobar", 4), substr("foobar", 0, 3), substr(Lang("foobar", "en"), 2, 1.5)
    ('bar', 'fo', Lang(text='oo', tag='en'))
    """
    text = text_of(a)
    if text is None or type(start) not in NUMERIC or (length is not None and type(length) not in NUMERIC):
        return None
    first = _rounded(to_double(start))  # type: ignore[arg-type]
    last = first + (inf if length is None else _rounded(to_double(length)))  # type: ignore[arg-type]
    if isnan(first) or isnan(last):
        return with_tag_of(a, "")
    low = int(max(1.0, min(first, len(text) + 1.0)))
    high = int(max(1.0, min(last, len(text) + 1.0)))
    return with_tag_of(a, text[low - 1 : high - 1])


def _rounded(number: float) -> float:
    return number if number - number != 0 else float(floor(number + 0.5))


def ucase(a: Value) -> StringValue | None:
    """UCASE."""
    text = text_of(a)
    return None if text is None else with_tag_of(a, text.upper())


def lcase(a: Value) -> StringValue | None:
    """LCASE."""
    text = text_of(a)
    return None if text is None else with_tag_of(a, text.lower())


def strstarts(a: Value, b: Value) -> bool | None:
    """STRSTARTS, of compatible strings."""
    pair = _pair(a, b)
    return None if pair is None else pair[0].startswith(pair[1])


def strends(a: Value, b: Value) -> bool | None:
    """STRENDS, of compatible strings."""
    pair = _pair(a, b)
    return None if pair is None else pair[0].endswith(pair[1])


def contains(a: Value, b: Value) -> bool | None:
    """CONTAINS, of compatible strings."""
    pair = _pair(a, b)
    return None if pair is None else pair[1] in pair[0]


def strbefore(a: Value, b: Value) -> StringValue | None:
    """STRBEFORE, of compatible strings; the plain empty string without an occurrence.

    >>> strbefore(Lang("abc", "en"), "b"), strbefore("abc", "xyz"), strbefore(Lang("abc", "en"), ""), strbefore(Lang("abc", "en"), "z")
    (Lang(text='a', tag='en'), '', Lang(text='', tag='en'), '')
    """
    pair = _pair(a, b)
    if pair is None:
        return None
    before, separator, _ = pair[0].partition(pair[1]) if pair[1] else ("", "found", "")
    return with_tag_of(a, before) if separator else ""


def strafter(a: Value, b: Value) -> StringValue | None:
    """STRAFTER, of compatible strings; the plain empty string without an occurrence.

    >>> strafter("abc", "b"), strafter(Lang("abc", "en"), ""), strafter(Lang("abc", "en"), "z")
    ('c', Lang(text='abc', tag='en'), '')
    """
    pair = _pair(a, b)
    if pair is None:
        return None
    _, separator, after = pair[0].partition(pair[1]) if pair[1] else ("", "found", pair[0])
    return with_tag_of(a, after) if separator else ""


def encode_for_uri(a: Value) -> str | None:
    """ENCODE_FOR_URI."""
    text = text_of(a)
    if text is None or not fits(text):
        return None
    encoded = quote(text, safe="-_.~", errors="surrogatepass")
    return encoded if fits(encoded) else None


def concat(*values: Value) -> StringValue | None:
    """CONCAT, with the language tag that all strings share.

    >>> concat(Lang("a", "en"), Lang("b", "en")), concat(Lang("a", "en"), "b"), concat(), concat("a", 1)
    (Lang(text='ab', tag='en'), 'ab', '', None)
    """
    texts = [text_of(v) for v in values]
    if any(t is None for t in texts):
        return None
    if sum([len(t) for t in texts if t is not None]) > BOUNDS.characters:
        return None
    text = "".join(t for t in texts if t is not None)
    tags = {v.tag if type(v) is Lang else None for v in values}
    tag = tags.pop() if len(tags) == 1 else None
    return text if tag is None else Lang(text, tag)


def langmatches(tag: Value, range_: Value) -> bool | None:
    """LANGMATCHES: basic filtering (RFC 4647, section 3.3.1).

    >>> langmatches("en-gb", "EN"), langmatches("eng", "en"), langmatches("", "*")
    (True, False, False)
    """
    if type(tag) is not str or type(range_) is not str:
        return None
    if range_ == "*":
        return tag != ""
    tag, range_ = tag.lower(), range_.lower()
    return tag == range_ or tag.startswith(range_ + "-")


def _digest(name: str, a: Value) -> str | None:
    return hashlib.new(name, a.encode("utf-8", "surrogatepass")).hexdigest() if type(a) is str else None


def md5(a: Value) -> str | None:
    """SPARQL's MD5: the digest of a plain string as lower-case hexadecimal; None for any other
    value."""
    return _digest("md5", a)


def sha1(a: Value) -> str | None:
    """SPARQL's SHA1: the digest of a plain string as lower-case hexadecimal; None for any other
    value."""
    return _digest("sha1", a)


def sha256(a: Value) -> str | None:
    """SPARQL's SHA256: the digest of a plain string as lower-case hexadecimal; None for any other
    value."""
    return _digest("sha256", a)


def sha384(a: Value) -> str | None:
    """SPARQL's SHA384: the digest of a plain string as lower-case hexadecimal; None for any other
    value."""
    return _digest("sha384", a)


def sha512(a: Value) -> str | None:
    """SPARQL's SHA512: the digest of a plain string as lower-case hexadecimal; None for any other
    value."""
    return _digest("sha512", a)
