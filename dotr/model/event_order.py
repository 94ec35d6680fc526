"""Order of events of one type at one instant, and equalities of constraints (semantics.md,
section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dotr.model.algebra import Attribute, Call, Expression, Var
from dotr.model.terms import Label, Term, Variable, without_blank_labels

AttributeValues: TypeAlias = tuple[Term | None, ...]
"""The attributes of an event in the order of its stream's sorted attribute names; None where
unbound."""

TieKey: TypeAlias = tuple[tuple[tuple[Variable, Term], ...], tuple[tuple[Variable, Term], ...]]


def tie_key(names: Sequence[Variable], values: AttributeValues) -> TieKey:
    """The sort key of simultaneous events: their (name, value) pairs with blank nodes equal, then
    with their labels.

    >>> tie_key(("a", "b"), (None, '"1"')) < tie_key(("a", "b"), ('"5"', '"1"'))
    False
    >>> tie_key(("a",), ("_:z",))[0] == tie_key(("a",), ("_:b",))[0]
    True
    """
    pairs = tuple([(name, value) for name, value in zip(names, values, strict=True) if value is not None])
    return tuple([(name, without_blank_labels(value)) for name, value in pairs]), pairs


def sort_by_tie(names: Sequence[Variable], events: list[AttributeValues]) -> list[AttributeValues]:
    """Simultaneous events of one type in tie order."""
    if len(events) < 2:
        return events
    for values in events:
        for value in values:
            if value is None or value[1] in ":<":  # a blank node, a triple term, or at worst a literal that begins like one
                return sorted(events, key=lambda values: tie_key(names, values))
    return sorted(events)  # all bound, no blank nodes: the order of the values


def equated_pair(constraint: Expression) -> tuple[Variable, Attribute] | None:
    """The candidate's attribute and the attribute of an earlier label that a constraint `?x = M.?y`
    or `M.?y = ?x` equates; None for other constraints.

    >>> equated_pair(Call("=", (Attribute("Smoke", "room1"), Var("room2"))))
    ('room2', Attribute(label='Smoke', name='room1'))
    """
    match constraint:
        case Call("=", (Var(name), Attribute() as other)) | Call("=", (Attribute() as other, Var(name))):
            return name, other
        case _:
            return None


def equated_pairs(constraints: Sequence[Expression]) -> tuple[tuple[Variable, Attribute], ...]:
    """The pairs of all constraints, ordered by the candidate's attribute; for each attribute the
    first pair in the text."""
    found: dict[Variable, Attribute] = {}
    for constraint in constraints:
        pair = equated_pair(constraint)
        if pair is not None:
            found.setdefault(*pair)
    return tuple(sorted(found.items(), key=lambda item: item[0]))


LabelledVariable: TypeAlias = tuple[Label, Variable]
