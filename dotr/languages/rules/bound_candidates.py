"""Proof that the event bound to one label is a candidate of another clause too.

Idea: an answer of `?o :opens ?door ; a :MainDoor` is an answer of `?x :opens ?d`, with ?o for ?x
and ?door for ?d. So a query is matched into the other one, pattern by pattern, and its conditions
must be among those of the bound event, follow from one of them, or hold of any event and itself,
such as `?d = Open.?door`.
Invariant: True only where it is proven, but for an attribute that is unbound or has no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from dotr.languages.rules.exclusive import implies
from dotr.languages.rules.program import RoleDraft
from dotr.model.algebra import (
    Attribute,
    Bgp,
    BgpItem,
    Call,
    Expression,
    Filter,
    PathPattern,
    Select,
    Slot,
    TimeOf,
    Var,
    slots_of,
)
from dotr.model.terms import Label, Variable
from dotr.model.traverse import conjuncts, transform

_MAX_MATCHES: Final = 1_000
"""Ways of matching one query into another that are tried."""

_Matching: TypeAlias = Mapping[Variable, Slot]
"""For each variable of a query, what stands for it in another query."""


def is_candidate(bound: RoleDraft, role: RoleDraft) -> bool:
    """True if every event bound to a label satisfies the query and the constraints of a clause."""
    known = {_of_bound(part, bound.label.text, bound.label.text, {}) for part in _conditions(bound)}
    return any(
        all(_follows(_of_bound(part, bound.label.text, role.label.text, matching), known) for part in _conditions(role))
        for matching in islice(_matchings(role, bound), _MAX_MATCHES)
    )


def _follows(wanted: Expression, known: set[Expression]) -> bool:
    match wanted:
        case Call("=" | "<=" | ">=", (left, right)) if left == right:
            return True
        case Call("=", (left, right)) if Call("=", (right, left)) in known:
            return True
        case _:
            return wanted in known or any(implies(each, wanted) for each in known)


def _conditions(role: RoleDraft) -> list[Expression]:
    """The conditions of a role's query outside of its groups, and its constraints."""
    of_query = [*_basic(role.query.select)[1], *role.query.constraints] if role.query else []
    return [part for condition in (*of_query, *role.filters) for part in conjuncts(condition)]


def _of_bound(condition: Expression, bound: Label, label: Label, matching: _Matching) -> Expression:
    """A condition of a clause as one of the bound event, which stands for the candidate."""

    def change(part: Expression) -> Expression:
        match part:
            case Var(name):
                slot = matching.get(name, part)
                return Attribute(bound, slot.name) if isinstance(slot, Var) else slot
            case TimeOf(each) if each == label:
                return TimeOf(bound)
            case _:
                return part

    return transform(condition, change)


def _matchings(role: RoleDraft, bound: RoleDraft) -> Iterator[_Matching]:
    """The ways in which an event of `bound` is an event of the query or label of `role`."""
    if role.source_label.text == bound.source_label.text and role.origin is bound.origin:
        yield {}
    elif role.query is not None and bound.query is not None:
        own, other = _basic(role.query.select)[0], _basic(bound.query.select)[0]
        if role.query.select == bound.query.select:
            yield {}
        elif own is not None and other is not None:
            yield from _extended(own.patterns, other.patterns, {})


def _basic(select: Select) -> tuple[Bgp | None, tuple[Expression, ...]]:
    """The triple patterns of a query that has nothing but these and conditions (None for another
    query), and the conditions."""
    inner, conditions = (select.pattern.pattern, select.pattern.conditions) if isinstance(select.pattern, Filter) else (select.pattern, ())
    sliced = select.offset or select.limit is not None
    return inner if isinstance(inner, Bgp) and not sliced else None, conditions


def _extended(patterns: tuple[BgpItem, ...], into: tuple[BgpItem, ...], matching: _Matching) -> Iterator[_Matching]:
    """The extensions of a matching by which each pattern is one of `into`."""
    if not patterns:
        yield matching
        return
    for other in into:
        extended = _matched(patterns[0], other, matching)
        if extended is not None:
            yield from _extended(patterns[1:], into, extended)


def _matched(pattern: BgpItem, other: BgpItem, matching: _Matching) -> _Matching | None:
    """The matching by which a pattern is another one; None if there is none."""
    if type(pattern) is not type(other):
        return None
    if isinstance(pattern, PathPattern) and isinstance(other, PathPattern) and pattern.path != other.path:
        return None
    extended = dict(matching)
    for slot, meant in zip(slots_of(pattern), slots_of(other), strict=True):
        if isinstance(slot, Var):
            if extended.setdefault(slot.name, meant) != meant:
                return None
        elif slot != meant:
            return None
    return extended
