"""Query containment: proof that the event bound to one label is a candidate of another clause too.

Idea: a containment mapping (homomorphism) from the clause's query to that of the bound event. Every
answer of `?o :opens ?door ; a :MainDoor` is an answer of `?x :opens ?d`, by ?x -> ?o, ?d -> ?door.
A condition of the clause is satisfied if it is a condition of the bound event, is implied by one,
or compares a term with itself under the mapping, as `?d = Open.?door`.
Invariant: sound, except for an attribute that is unbound or has no order.
Cost: exponential in the patterns at worst; at most 1,000 mappings are tried.
Source: Chandra, Merlin 1977.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from dotr.languages.rules.lints.unsatisfiable import implies
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

_MAX_MAPPINGS: Final = 1_000
"""Maximal number of containment mappings tried for two queries."""

_Mapping: TypeAlias = Mapping[Variable, Slot]
"""A containment mapping: the image of each variable of one query in another query."""


def is_candidate(bound: RoleDraft, role: RoleDraft) -> bool:
    """True if every event bound to a label satisfies the query and the constraints of a clause."""
    premises = {_image(part, bound.label.text, bound.label.text, {}) for part in _conditions(bound)}
    return any(
        all(_follows(_image(part, bound.label.text, role.label.text, mapping), premises) for part in _conditions(role))
        for mapping in islice(_mappings(role, bound), _MAX_MAPPINGS)
    )


def _follows(conclusion: Expression, premises: set[Expression]) -> bool:
    match conclusion:
        case Call("=" | "<=" | ">=", (left, right)) if left == right:
            return True
        case Call("=", (left, right)) if Call("=", (right, left)) in premises:
            return True
        case _:
            return conclusion in premises or any(implies(each, conclusion) for each in premises)


def _conditions(role: RoleDraft) -> list[Expression]:
    """The conjuncts of a role's top-level query conditions and of its constraints."""
    of_query = [*_basic(role.query.select)[1], *role.query.constraints] if role.query else []
    return [part for condition in (*of_query, *role.filters) for part in conjuncts(condition)]


def _image(condition: Expression, bound: Label, label: Label, mapping: _Mapping) -> Expression:
    """A condition of the clause `label` with the bound event as its candidate.

    With the mapping ?d -> ?door and the bound label Open, `?d` becomes `Open.?door`.
    """

    def change(part: Expression) -> Expression:
        match part:
            case Var(name):
                slot = mapping.get(name, part)
                return Attribute(bound, slot.name) if isinstance(slot, Var) else slot
            case TimeOf(each) if each == label:
                return TimeOf(bound)
            case _:
                return part

    return transform(condition, change)


def _mappings(role: RoleDraft, bound: RoleDraft) -> Iterator[_Mapping]:
    """The containment mappings from the source of `role` to that of `bound`.

    The mapping of equal sources is empty: each variable is its own image.
    """
    if role.source_label.text == bound.source_label.text and role.origin is bound.origin:
        yield {}
    elif role.query is not None and bound.query is not None:
        own, other = _basic(role.query.select)[0], _basic(bound.query.select)[0]
        if role.query.select == bound.query.select:
            yield {}
        elif own is not None and other is not None:
            yield from _extensions(own.patterns, other.patterns, {})


def _basic(select: Select) -> tuple[Bgp | None, tuple[Expression, ...]]:
    """The basic graph pattern of a query, and its top-level conditions.

    The pattern is None if the query has other patterns, OFFSET or LIMIT.
    """
    inner, conditions = (select.pattern.pattern, select.pattern.conditions) if isinstance(select.pattern, Filter) else (select.pattern, ())
    sliced = select.offset or select.limit is not None
    return inner if isinstance(inner, Bgp) and not sliced else None, conditions


def _extensions(patterns: tuple[BgpItem, ...], into: tuple[BgpItem, ...], mapping: _Mapping) -> Iterator[_Mapping]:
    """The extensions of a mapping under which the image of each pattern is one of `into`."""
    if not patterns:
        yield mapping
        return
    for other in into:
        extended = _extension(patterns[0], other, mapping)
        if extended is not None:
            yield from _extensions(patterns[1:], into, extended)


def _extension(pattern: BgpItem, other: BgpItem, mapping: _Mapping) -> _Mapping | None:
    """The extension of a mapping under which a pattern's image is `other`; None without one."""
    if type(pattern) is not type(other):
        return None
    if isinstance(pattern, PathPattern) and isinstance(other, PathPattern) and pattern.path != other.path:
        return None
    extended = dict(mapping)
    for slot, image in zip(slots_of(pattern), slots_of(other), strict=True):
        if isinstance(slot, Var):
            if extended.setdefault(slot.name, image) != image:
                return None
        elif slot != image:
            return None
    return extended
