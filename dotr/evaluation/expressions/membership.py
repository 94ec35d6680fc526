"""Set membership for `x IN (constants)`, by equality keys (`sort_keys.equality_key`).

Invariant: whether `=` of unequal terms errs depends only on their types, so one constant of each
type decides between False and an error. Triple terms have typed parts and are compared one by one.
Cost: a look-up for a cached term; otherwise a comparison with the constants of the same key and
with one constant of each type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dotr.evaluation.expressions.operators import equal
from dotr.evaluation.expressions.sort_keys import equality_key
from dotr.evaluation.expressions.values.terms import VALUES, TripleTerm, read
from dotr.model.terms import Term


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
