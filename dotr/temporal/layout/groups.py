"""Groups of the rules of a layer, which distribute the load of one hot key over several cores.

Idea: each rule needs all events of a key value in one bucket, but different rules may use different
buckets. Rules of a layer that read each other there or share a matcher stay together; otherwise
they are dealt into groups with about equal numbers of matchers. The bucket of a key in a group is
its hash bucket plus the group's shift.
Example: with two groups over four buckets, an event whose key is in bucket 1 is also stored in
bucket 3, for the second group.
Cost: an event is stored once for each group that reads it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from dotr.model.graphs import components
from dotr.model.rules import EventSource
from dotr.model.terms import Label
from dotr.temporal.layout.placement import Placement
from dotr.temporal.layout.rule_shapes import shape_of


def dealt_groups(placed: Sequence[Placement], count: int) -> Mapping[tuple[int, str], int]:
    """The group of each rule, from 0 to `count - 1`, by its layer and name; empty for one group."""
    if count == 1:
        return {}
    by_layer: dict[int, list[Placement]] = {}
    for each in placed:
        by_layer.setdefault(each.layer, []).append(each)
    return {(layer, name): group for layer, own in by_layer.items() for name, group in _dealt(own, count).items()}


def _dealt(placed: Sequence[Placement], count: int) -> Mapping[str, int]:
    """The groups of the rules of one layer: the largest components first, each into the group with
    the least load (number of matchers).
    """
    shapes = {each.rule.name: shape_of(each.rule) for each in placed}
    makers: dict[Label, list[str]] = {}
    first_of_shape: dict[Hashable, str] = {}
    for each in placed:
        if each.stage.end == len(each.rule.clauses):  # its events are made in this layer
            makers.setdefault(each.rule.event, []).append(each.rule.name)
        first_of_shape.setdefault(shapes[each.rule.name], each.rule.name)
    edges = [(name, first_of_shape[shape]) for name, shape in shapes.items()]
    for each in placed:
        for role in each.stage.roles_of(each.rule):
            if isinstance(role.source, EventSource):
                edges += [(each.rule.name, maker) for maker in makers.get(role.source.event, ())]
    component_of = components([*edges, *((other, name) for name, other in edges)])
    members: dict[int | str, list[str]] = {}
    for name in sorted(shapes):
        members.setdefault(component_of.get(name, name), []).append(name)
    loads, found = [0] * count, dict[str, int]()
    sizes = {number: len({shapes[name] for name in names}) for number, names in members.items()}
    for number in sorted(members, key=lambda number: (-sizes[number], members[number])):
        group = loads.index(min(loads))
        loads[group] += sizes[number]
        found |= dict.fromkeys(members[number], group)
    return found
