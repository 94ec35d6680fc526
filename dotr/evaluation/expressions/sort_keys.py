"""Keys of terms for equality look-ups and for ORDER BY (SPARQL 1.1, sections 17.4.1.7 and 15.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from dotr.evaluation.expressions.operators import equal, to_single
from dotr.evaluation.expressions.values.datetimes import Date, DateTime, DayTime, Duration, TemporalValue, Time, YearMonth
from dotr.evaluation.expressions.values.decimals import plain
from dotr.evaluation.expressions.values.terms import NUMERIC, VALUES, BlankNode, Iri, Lang, Single, TripleTerm, Unknown, read, value_of
from dotr.model.terms import Term, triple_parts

OrderBy: TypeAlias = tuple[int, int, Any, str]
"""A key of `order_key`; any two keys are comparable."""


class _Keys(dict[Term, Any]):
    """A cache from terms to keys, emptied at `limit` terms."""

    limit = 1 << 16

    def __init__(self, make: Callable[[Term], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, term: Term) -> Any:
        key = self._make(term)
        if len(self) >= self.limit:
            self.clear()
        self[term] = key
        return key


_MOMENTS: Final[dict[type, str]] = {DateTime: "DateTime", Date: "Date", Time: "Time"}
"""Prefixes of the keys of dates and times. They are a written form, since state is bucketed by
these keys: they never change, even if classes are renamed.
"""


def _equality_key(term: Term) -> str:
    if term[-1] == '"' or term[0] == "_" or (term[0] == "<" and term[1] != "<"):  # a string, a blank node, an IRI
        return term
    value = value_of(term)
    kind = type(value)
    if kind in NUMERIC:
        # A decimal equals its nearest float and its nearest double; the float to which all of them
        # round is their common key.
        number = float(to_single(value))  # type: ignore[arg-type]
        return f"n{number or 0.0!r}"
    if kind is bool:
        return f"b{value!r}"
    if isinstance(value, TemporalValue):
        return f"{_MOMENTS[kind]}{plain(value.instant)}"
    if isinstance(value, Duration):
        return f"P{value.months} {plain(value.seconds)}"
    if kind is TripleTerm:
        return f"<<( {' '.join(map(_equality_key, triple_parts(term)))} )>>"
    return term


_EQUALITY: Final = _Keys(_equality_key)


def equality_key(term: Term) -> str:
    """A text common to all terms that are equal under SPARQL's `=`; unequal terms may have it too.

    >>> from dotr.model.terms import XSD, literal
    >>> equality_key(literal("025", XSD + "integer")) == equality_key(literal("25.0", XSD + "decimal"))
    True
    >>> equality_key('"25"') == equality_key(literal("25", XSD + "integer"))
    False
    """
    return _EQUALITY[term]  # type: ignore[no-any-return]


_LITERALS: Final = 3
_TRIPLES: Final = 4
_RANKS: Final[dict[type, int]] = {
    bool: 1,
    str: 2,
    Lang: 3,
    DateTime: 4,
    Date: 5,
    Time: 6,
    DayTime: 7,
    YearMonth: 8,
    Duration: 9,
    Unknown: 10,
}
_UNBOUND: Final[OrderBy] = (0, 0, "", "")


def _order_key(term: Term) -> OrderBy:
    value = value_of(term)
    kind = type(value)
    if kind is BlankNode:
        return 1, 0, "", term
    if kind is Iri:
        return 2, 0, term[1:-1], term
    if kind is TripleTerm:
        return _TRIPLES, 0, tuple([sort_key(part) for part in triple_parts(term)]), term
    if kind in NUMERIC:
        # NaN first; numbers of all types by their exact values.
        return (_LITERALS, 0, value if type(value) is not Single else float(value), term) if value == value else (_LITERALS, -1, 0, term)
    rank = _RANKS[kind]
    if isinstance(value, TemporalValue):
        return _LITERALS, rank, value.instant, term
    if isinstance(value, Duration):
        return _LITERALS, rank, (value.months, value.seconds), term
    if isinstance(value, Lang):
        return _LITERALS, rank, (value.text, value.tag), term
    return _LITERALS, rank, term if isinstance(value, Unknown) else value, term


_ORDER: Final = _Keys(_order_key)


def sort_key(term: Term | None) -> tuple[int, int, Any]:
    """The sort key of a term in ORDER BY; equal values have the same key, as do all blank nodes."""
    return order_key(term)[:3]


def order_key(term: Term | None) -> OrderBy:
    """The sort key of MIN and MAX, a total order of terms.

    The order is: unbound, blank nodes, IRIs, literals, triple terms. Numbers are ordered by value,
    dates by instant, strings by code point, triple terms by their parts. Beyond SPARQL, literals of
    different kinds are ordered by kind, and terms of equal value by their code points.

    >>> from dotr.model.terms import XSD, literal
    >>> five, ten = literal("5", XSD + "integer"), literal("1e1", XSD + "double")
    >>> sorted([ten, '"a"', "<http://example.org/a>", five, None], key=order_key) == [None, "<http://example.org/a>", five, ten, '"a"']
    True
    """
    return _UNBOUND if term is None else _ORDER[term]


# Set membership for `x IN (constants)`, by equality keys (`sort_keys.equality_key`).
#
# Invariant: whether `=` of unequal terms errs depends only on their types, so one constant of each
# type decides between False and an error. Triple terms have typed parts and are compared one by one.
# Cost: a look-up for a cached term; otherwise a comparison with the constants of the same key and
# with one constant of each type.


class ConstantSet(dict[Term | None, bool | None]):
    """A cache from terms to membership among the constants (None: an error).

    It is emptied at `limit` terms.

    >>> from dotr.model.terms import XSD, literal
    >>> members = ConstantSet(['"a"', literal("25", XSD + "integer")])
    >>> members[literal("25.0", XSD + "decimal")], members['"b"'], members['"b"@en'], members["<http://example.org/a>"], members[None]
    (True, None, False, False, None)
    """

    limit = 1 << 14

    def __init__(self, constants: Iterable[Term]) -> None:
        super().__init__()
        self._by_key: dict[str, list[Any]] = {}
        self._by_type: dict[object, Any] = {}
        for term in constants:
            value = read(term)
            self._by_key.setdefault(equality_key(term), []).append(value)
            self._by_type.setdefault(term if type(value) is TripleTerm else type(value), value)

    def __missing__(self, term: Term | None) -> bool | None:
        if len(self) >= self.limit:
            self.clear()
        self[term] = result = None if term is None else self._is_member(term)
        return result

    def _is_member(self, term: Term) -> bool | None:
        value = VALUES[term]
        if any(equal(value, constant) for constant in self._by_key.get(equality_key(term), ())):
            return True
        return None if any(equal(value, constant) is None for constant in self._by_type.values()) else False
