"""Places of values: the positions in patterns that bind the attributes of queries and events.

Idea: two attributes whose values are objects of one predicate have values of one kind, such as
rooms. So have an event's attribute and the attribute that `with` copies to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft, event_reads
from dotr.model.algebra import Attribute, Const, Path, PathPattern, Pattern, Slot, TriplePattern, Var
from dotr.model.graphs import least_fixpoint
from dotr.model.terms import Label, Variable
from dotr.model.traverse import walk


class ValuePlace(NamedTuple):
    """The subjects, or the objects (`is_object`), of a predicate or path."""

    is_object: bool
    predicate: Const | Path


AttributePlaces: TypeAlias = Mapping[Variable, frozenset[ValuePlace]]
"""The places of each attribute's values; none for a computed one."""


def query_places(pattern: Pattern) -> AttributePlaces:
    """The places of each variable of a query.

    >>> from dotr.model.algebra import Bgp
    >>> places = query_places(Bgp((TriplePattern(Var("r"), Const("<in>"), Var("room")),)))
    >>> places["room"]
    frozenset({ValuePlace(is_object=True, predicate=Const(term='<in>'))})
    """
    places: dict[Variable, frozenset[ValuePlace]] = {}

    def add(slot: Slot, place: ValuePlace) -> None:
        if isinstance(slot, Var):
            places[slot.name] = places.get(slot.name, frozenset()) | {place}

    for node in walk(pattern):
        match node:
            case TriplePattern(subject, Const() as predicate, object):
                add(subject, ValuePlace(False, predicate))
                add(object, ValuePlace(True, predicate))
            case PathPattern(subject, path, object):
                add(subject, ValuePlace(False, path))
                add(object, ValuePlace(True, path))
            case _:
                pass
    return places


EventPlaces: TypeAlias = Mapping[Label, AttributePlaces]


def event_places(program: ProgramDraft) -> EventPlaces:
    """The places of each event's attributes: those of the attributes that `with` copies to them.

    They are a least fixpoint, as rules may be recursive.
    """
    rules = program.rules_by_event
    start: EventPlaces = {label: dict.fromkeys(names, frozenset()) for label, names in program.event_attributes.items()}
    return least_fixpoint(start, event_reads(rules), lambda label, events: _copied_places(rules[label], events[label], events))


def role_places(role: RoleDraft, events: EventPlaces) -> AttributePlaces:
    """The places of all variables of a role's query, or of its event's attributes."""
    if role.origin is RoleOrigin.EVENT:
        return events.get(role.source_label.text, {})
    return query_places(role.query.select) if role.query else {}


def _copied_places(rules: Iterable[RuleDraft], known: AttributePlaces, events: EventPlaces) -> AttributePlaces:
    attributes = dict(known)
    for rule in rules:
        roles = {role.label.text: role for role in rule.roles}
        for assignment, expression in zip(rule.syntax.assignments, rule.expressions, strict=False):
            if isinstance(expression, Attribute) and expression.label in roles:
                places = role_places(roles[expression.label], events).get(expression.name, frozenset())
                attributes[assignment.variable.text] |= places
    return attributes
