"""Stage two: one layer's step, from events that arrive at an instant to output graphs.

`step` is a function of the partition's state, the time and the arrivals; the state is data that `encode` and `restore` move between
processes. A firing's fresh names are a function of its match, so a replay writes the same graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dotr.model.stream import Firing
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.outputs import compile_template, match_digest
from dotr.patterns.happened import Matched
from dotr.patterns.layout import Layer, Placed
from dotr.patterns.operator import Arrival, Arrivals, Operator
from dotr.patterns.reach import positive_roles
from dotr.patterns.state import State


class Step(NamedTuple):
    """What a layer's partition did at an instant: its firings, and the composite events it made, for the layers above."""

    firings: list[Firing]
    events: list[tuple[Label, Arrival]]


class StageTwo:
    """A compiled layer and the templates of its rules."""

    def __init__(self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock) -> None:
        self._operator = Operator(layer, attributes, clock)
        self._writers = [_Writer(placed, attributes[placed.rule.event]) for placed in layer.rules]

    def start(self) -> State:
        """The state of a partition before the first instant."""
        return self._operator.start()

    def restore(self, written: bytes) -> State:
        """The state that `State.encode` wrote; raises `StateError`."""
        return self._operator.restore(written)

    def due(self, state: State) -> Micros | None:
        """When the next delayed anchor stands."""
        return self._operator.due(state)

    def step(self, state: State, time: Micros, arrivals: Arrivals, partition: int = 0, *, ended: bool = False) -> Step:
        """Run the layer at a moment later than all before, and not later than one that is `due`; changes the state in place. `ended`: the
        last instant is over, so that nothing more is waited for."""
        matched = self._operator.step(state, time, arrivals, partition, ended=ended)
        if not matched:
            return _NOTHING
        seen: dict[bytes, int] = {}
        return Step(
            [self._writers[each.rule].firing(time, each, seen) for each in matched],
            [(self._writers[each.rule].event, (each.ordinal, each.values)) for each in matched],
        )


_NOTHING = Step([], [])


class _Writer:
    """Writes the firings of one rule."""

    def __init__(self, placed: Placed, attributes: tuple[Variable, ...]) -> None:
        rule = placed.rule
        self.name = rule.name
        self.event = rule.event
        self._attributes = attributes
        self._labels = tuple(role.label for role in positive_roles(rule))
        self._template = compile_template(rule.template, attributes)

    def firing(self, time: Micros, matched: Matched, seen: dict[bytes, int]) -> Firing:
        digest = b""
        if self._template.named:
            bound = [(label, event.time, event.values) for label, event in zip(self._labels, matched.bound, strict=True)]
            digest = match_digest(self.name, time, bound, 0)
            ordinal = seen[digest] = seen.get(digest, -1) + 1
            if ordinal:
                digest = match_digest(self.name, time, bound, ordinal)
        graph, dropped = self._template.instance(matched.values, digest)
        attributes = tuple([(n, v) for n, v in zip(self._attributes, matched.values, strict=True) if v is not None])
        return Firing(time, self.name, self.event, attributes, graph, dropped)
