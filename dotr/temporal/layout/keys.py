"""Partition keys of rules: the attributes that a rule's constraints equate across all labels
(semantics.md, 4; SPARQL `=`).

Idea: a rule `from A and last B within 1 min from A` with `FILTER(?roomB = A.?roomA)` can be
evaluated room by room: any B that it binds has the anchor's room. Events of different rooms never
join, and a bucket of rooms is a partition of the state.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from dotr.evaluation.expressions import equality_key
from dotr.model import dataclass
from dotr.model.algebra import Attribute
from dotr.model.event_order import AttributeValues, LabelledVariable, equated_pairs
from dotr.model.rules import Choose, Role, Rule
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros


@dataclass(frozen=True, slots=True)
class KeyedPartitions:
    """Each label's events are partitioned by one of their attributes."""

    attribute: Mapping[Label, Variable]


@dataclass(frozen=True, slots=True)
class SinglePartition:
    """All events share one partition; `reason` explains the missing key, for messages."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnyPartition:
    """The rule has no clause: each anchor may be in any partition."""


Partitioning: TypeAlias = KeyedPartitions | SinglePartition | AnyPartition


class UnitKey(NamedTuple):
    """The variable that keys a unit of another language than that of rules; or None, and the reason
    why it has one partition."""

    variable: Variable | None
    reason: str


def partitioning(rule: Rule, preferred: Sequence[Variable] = ()) -> Partitioning:
    """The finest partitioning that the rule's equalities allow.

    Of several keys the result is the first in `preferred`, otherwise the first by name.
    """
    if not rule.clauses and not preferred and rule.once is None:
        return AnyPartition()
    keyed_by_name = keyed_partitions(rule)
    if keyed_by_name:
        return next((keyed_by_name[name] for name in preferred if name in keyed_by_name), keyed_by_name[min(keyed_by_name)])
    if rule.once is not None and (len(keyed_partitions(replace(rule, once=None))) or not rule.clauses):
        return SinglePartition(f"no key of its `once` is a copy of an attribute by which {rule.event} could be divided")
    untied = next((clause.role.label for clause in rule.clauses if not equated_pairs(clause.role.constraints)), "")
    return SinglePartition(
        f"no constraint equates an attribute of {untied} with one of a label bound before"
        if untied
        else f"no attribute of {rule.anchor.label} is equated with one of every other label"
    )


def keyed_partitions(rule: Rule) -> Mapping[Variable, KeyedPartitions]:
    """Every partitioning by a key, by the anchor's attribute in the key.

    Equalities of positive roles are transitive. A negation or aggregate binds no event, so its own
    constraints must equate an attribute with a member of the key. Firings that `once` compares are
    made in one partition if a key of `once` is a copy of the key.
    """
    positive = [clause.role for clause in rule.clauses if isinstance(clause, Choose)]
    others = [clause.role for clause in rule.clauses if not isinstance(clause, Choose)]
    root = equality_roots(rule)
    tied: dict[Variable, KeyedPartitions] = {}
    for name in rule.anchor.source.attributes:
        key = root((rule.anchor.label, name))
        chosen = {rule.anchor.label: name}
        for role in positive:
            chosen.update((role.label, own) for own in _first(own for own in role.source.attributes if root((role.label, own)) == key))
        for role in others:
            equated = equated_pairs(role.constraints)
            chosen.update((role.label, own) for own in _first(own for own, other in equated if root((other.label, other.name)) == key))
        if len(chosen) == len(rule.clauses) + 1:
            split = KeyedPartitions(MappingProxyType(chosen))
            if rule.once is None or once_key(rule, split) is not None:
                tied[name] = split
    return tied


def once_key(rule: Rule, split: Partitioning) -> Variable | None:
    """The first key of the rule's `once` that is a copy of the partition key; None: there is
    none."""
    if rule.once is None or not isinstance(split, KeyedPartitions):
        return None
    return min(carried_keys(rule, split).intersection(rule.once.keys), default=None)


def equality_roots(rule: Rule) -> Callable[[LabelledVariable], LabelledVariable]:
    """Function from an attribute to the first member of its equality class.

    The classes are those of the equalities of positive clauses: a union-find forest, in which the
    root of each class is its earliest member.
    """
    parent: dict[LabelledVariable, LabelledVariable] = {}

    def root(node: LabelledVariable) -> LabelledVariable:
        while node in parent:
            node = parent[node]
        return node

    for clause in rule.clauses:
        if isinstance(clause, Choose):
            for name, other in equated_pairs(clause.role.constraints):
                here, there = root((clause.role.label, name)), root((other.label, other.name))
                if here != there:
                    parent[here] = there
    return root


def _first(names: Iterable[Variable]) -> list[Variable]:
    return list(islice(names, 1))


def carried_keys(rule: Rule, split: KeyedPartitions) -> frozenset[Variable]:
    """The attributes of the rule's composite event that hold its partition key: `with E.?x =
    A.?room`, with A keyed by ?room."""
    return frozenset(
        assignment.variable
        for assignment in rule.assignments
        if isinstance(assignment.expression, Attribute) and split.attribute.get(assignment.expression.label) == assignment.expression.name
    )


def key_of(split: Partitioning, role: Role) -> Variable | None:
    """The attribute that keys a role's events; None: no key, or the role is replicated."""
    return split.attribute.get(role.label) if isinstance(split, KeyedPartitions) else None


def bucket(value: Term | None, buckets: int) -> int:
    """The bucket of a partition key: a hash of its value, the same on every machine. Unbound keys
    have bucket 0.

    >>> bucket('"70"^^<http://www.w3.org/2001/XMLSchema#integer>', 64) == bucket('"70.0"^^<http://www.w3.org/2001/XMLSchema#decimal>', 64)
    True
    """
    return 0 if value is None else zlib.crc32(equality_key(value).encode()) % buckets


def bucket_of_values(values: AttributeValues, buckets: int, time: Micros | None = None) -> int:
    """The bucket of an event that may be in any partition: a hash of its values, and of its time
    (µs) where one is given."""
    spread_by = values if time is None else (time, *values)
    return zlib.crc32(repr(spread_by).encode()) % buckets
