"""Feeders of units: the sources of events for a unit after the last instant (semantics.md, 8,
"First and last").

Idea: after the last instant there are two sources of events: delayed anchors, and units with times
of their own. A rule without a delay acts when its anchor arrives, so the feeders of its readers are
the feeders of its anchor.
Example: the query `Q` reads the graphs of the rule `R`, whose anchor is an event of the rule `S`.
`S` delays its anchors, which wait in queue 0 of layer 0: the feeder of `Q` is `DelayedAnchors(0,
0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from dotr.model import dataclass
from dotr.model.rules import EventSource
from dotr.model.terms import Label
from dotr.temporal.layout.layers import Layout
from dotr.temporal.layout.retention import anchor_delay
from dotr.temporal.layout.units import labels_made, readings


@dataclass(frozen=True, slots=True)
class DelayedAnchors:
    """The anchors that wait in a queue of a layer (`Layer.queues`)."""

    layer: int
    queue: int


Feeder: TypeAlias = DelayedAnchors | str
"""Delayed anchors, or the name of a unit of another language than that of rules."""


def feeders(layout: Layout) -> Mapping[str, tuple[Feeder, ...]]:
    """The feeders of each unit of another language than that of rules, by its name; each once."""
    makers: dict[Label, list[str]] = {}
    for placed in layout.units:
        for label in labels_made(placed.unit):
            makers.setdefault(label, []).append(placed.unit.name)

    def of_label(label: Label, visited: set[Label]) -> Iterator[Feeder]:
        if label in visited:
            return
        visited.add(label)
        yield from makers.get(label, ())
        for layer in layout.layers:
            for rule in layer.rules:
                anchor = rule.rule.anchor
                if rule.rule.event != label or not rule.stage.is_first:
                    continue
                if anchor.delay:
                    yield DelayedAnchors(layer.number, layer.queues[rule.ports[0], anchor_delay(anchor)])
                elif isinstance(anchor.source, EventSource):
                    yield from of_label(anchor.source.event, visited)

    found: dict[str, tuple[Feeder, ...]] = {}
    for placed in layout.units:
        visited: set[Label] = set()
        found[placed.unit.name] = tuple(dict.fromkeys(feeder for each in readings(placed.unit) for feeder in of_label(each.label, visited)))
    return found


def is_fed(
    unit: str,
    feeders: Mapping[str, Sequence[Feeder]],
    waits: Callable[[DelayedAnchors], bool],
    is_under_way: Callable[[str], bool],
    is_over: Callable[[str], bool],
) -> bool:
    """True if, after the last instant, events may still arrive at a unit, directly or through
    others.

    Args:
        unit: its name.
        feeders: those of each unit, as `feeders` returns them.
        waits: whether delayed anchors are still waiting.
        is_under_way: whether a unit may still make events without arrivals.
        is_over: whether a unit can make no more events, even with arrivals.

    >>> chain = {"Q": ("P",), "P": (DelayedAnchors(0, 0),)}
    >>> is_fed("Q", chain, lambda anchors: True, lambda name: False, lambda name: False)
    True
    >>> is_fed("Q", chain, lambda anchors: True, lambda name: False, lambda name: True)
    False
    """
    visited = {unit}
    stack = [unit]
    while stack:
        for feeder in feeders[stack.pop()]:
            if isinstance(feeder, DelayedAnchors):
                if waits(feeder):
                    return True
            elif feeder not in visited and not is_over(feeder):
                if is_under_way(feeder):
                    return True
                visited.add(feeder)
                stack.append(feeder)
    return False
