"""Groups of the rules of a layer, so that one hot key uses several cores.

Idea: a rule needs the events of one value of its key in one bucket, but not all rules in the same
one. The rules of a layer that neither read each other there nor share a matcher are dealt into
groups of about equally many matchers, and a group's buckets are those of the keys, shifted.
Example: with two groups over four buckets, an event whose key is in bucket 1 is in bucket 3, too,
for the second group.
Cost: an event is stored in each group that reads it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from dotr.layout.alike import shape_of
from dotr.layout.placement import Placement
from dotr.model.graphs import components
from dotr.model.rules import EventSource
from dotr.model.terms import Label


def dealt_groups(placed: Sequence[Placement], count: int) -> Mapping[tuple[int, str], int]:
    """The number of the group of each rule by its layer and name, below `count`."""
    if count == 1:
        return {}
    by_layer: dict[int, list[Placement]] = {}
    for each in placed:
        by_layer.setdefault(each.layer, []).append(each)
    return {(layer, name): group for layer, own in by_layer.items() for name, group in _dealt(own, count).items()}


def _dealt(placed: Sequence[Placement], count: int) -> Mapping[str, int]:
    """The groups of the rules of one layer."""
    shapes = {each.rule.name: shape_of(each.rule) for each in placed}
    makers: dict[Label, list[str]] = {}
    alike: dict[Hashable, str] = {}
    for each in placed:
        if each.stage.end == len(each.rule.clauses):  # its events are made in this layer
            makers.setdefault(each.rule.event, []).append(each.rule.name)
        alike.setdefault(shapes[each.rule.name], each.rule.name)
    together = [(name, alike[shape]) for name, shape in shapes.items()]
    for each in placed:
        for role in each.stage.roles_of(each.rule):
            if isinstance(role.source, EventSource):
                together += [(each.rule.name, maker) for maker in makers.get(role.source.event, ())]
    of = components([*together, *((other, name) for name, other in together)])
    members: dict[int | str, list[str]] = {}
    for name in sorted(shapes):
        members.setdefault(of.get(name, name), []).append(name)
    loads, found = [0] * count, dict[str, int]()
    sizes = {number: len({shapes[name] for name in names}) for number, names in members.items()}
    for number in sorted(members, key=lambda number: (-sizes[number], members[number])):
        group = loads.index(min(loads))
        loads[group] += sizes[number]
        found |= dict.fromkeys(members[number], group)
    return found
