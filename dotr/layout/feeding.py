"""Feeding of units: who may still make something for a unit after the last instant (semantics.md, 8,
"First and last").

Idea: after the last instant only two things act by themselves: anchors that wait, and units with
times of their own. A rule without a delay acts when its anchor comes, so those that feed it are
those that feed its readers.
Example: the query `Q` reads the graphs of the rule `R` from events of the rule `S`, `S` delays its
anchors, and they wait in queue 0 of layer 0: `Q` is fed by `DelayedAnchors(0, 0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dotr.layout.layers import Layout
from dotr.layout.units import labels_made, readings
from dotr.model.rules import EventSource
from dotr.model.terms import Label


@dataclass(frozen=True, slots=True)
class DelayedAnchors:
    """The anchors that wait in a queue of a layer (`Layer.queues`)."""

    layer: int
    queue: int


Feeder: TypeAlias = DelayedAnchors | str
"""Anchors that wait, or the name of a unit of another language than that of rules."""


def feeders(layout: Layout) -> Mapping[str, tuple[Feeder, ...]]:
    """The feeders of each unit of another language than that of rules, by its name."""
    makers: dict[Label, list[str]] = {}
    for placed in layout.units:
        for label in labels_made(placed.unit):
            makers.setdefault(label, []).append(placed.unit.name)

    def of_label(label: Label, seen: set[Label]) -> Iterator[Feeder]:
        if label in seen:
            return
        seen.add(label)
        yield from makers.get(label, ())
        for layer in layout.layers:
            for rule in layer.rules:
                anchor = rule.rule.anchor
                if rule.rule.event != label or not rule.stage.is_first:
                    continue
                if anchor.delay:
                    yield DelayedAnchors(layer.number, layer.queues[rule.ports[0], anchor.delay])
                elif isinstance(anchor.source, EventSource):
                    yield from of_label(anchor.source.event, seen)

    found: dict[str, tuple[Feeder, ...]] = {}
    for placed in layout.units:
        seen: set[Label] = set()
        found[placed.unit.name] = tuple(dict.fromkeys(feeder for each in readings(placed.unit) for feeder in of_label(each.label, seen)))
    return found


def is_fed(
    unit: str,
    feeders: Mapping[str, Sequence[Feeder]],
    waits: Callable[[DelayedAnchors], bool],
    is_under_way: Callable[[str], bool],
    is_over: Callable[[str], bool],
) -> bool:
    """True if, after the last instant, something may still come to a unit from one that acts by
    itself.

    Args:
        unit: its name.
        feeders: those of each unit.
        waits: whether anchors still wait.
        is_under_way: whether a unit may still make events though nothing arrives.
        is_over: whether a unit makes no event any more, whatever arrives.

    >>> chain = {"Q": ("P",), "P": (DelayedAnchors(0, 0),)}
    >>> is_fed("Q", chain, lambda anchors: True, lambda name: False, lambda name: False)
    True
    >>> is_fed("Q", chain, lambda anchors: True, lambda name: False, lambda name: True)
    False
    """
    seen = {unit}
    waiting = [unit]
    while waiting:
        for feeder in feeders[waiting.pop()]:
            if isinstance(feeder, DelayedAnchors):
                if waits(feeder):
                    return True
            elif feeder not in seen and not is_over(feeder):
                if is_under_way(feeder):
                    return True
                seen.add(feeder)
                waiting.append(feeder)
    return False
