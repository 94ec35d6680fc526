"""Stage two of a layer in which rules are cut into stages of their clauses (scale.md, section 1).

Bindings that leave a stage are events for higher layers, like composite events; the router delivers
each to the bucket of its next key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from dotr.evaluation.limits import LIMITS, Limits
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import Layer
from dotr.temporal.layout.stages import BindingStream
from dotr.temporal.matching.events import Match, MatchBuffer, SearchStart, StoredEvent
from dotr.temporal.matching.operator import Arrival, Arrivals, CompiledGroup, Operator
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import EmitFirings, LayerResult, StageTwo

# Operator of a layer with stages of rules: bindings arrive, and bindings leave.
#
# Idea: bindings arrive at their own ports at the time of their anchors, after the events of that time
# have been stored. The bindings that leave a stage are collected apart from matches, as rows for the
# ports of the next layers.
# Invariant: results do not depend on the order of bindings: the output is sorted by its content, and
# a rule that consumes has one stage.


class StageOperator(Operator):
    """A compiled layer in which rules have stages. `sent` collects the leaving bindings until
    `drain_bindings`."""

    def __init__(
        self,
        layer: Layer,
        attributes: Mapping[Label, tuple[Variable, ...]],
        clock: Clock,
        limits: Limits = LIMITS,
        counted: Set[str] = frozenset(),
    ) -> None:
        super().__init__(layer, attributes, clock, limits, counted)
        self._is_single_depth = False
        self.lone_groups = self._lone_groups()
        self._binding_ports = [number for number, port in enumerate(layer.ports) if isinstance(port.stream, BindingStream)]
        self._leaves = {number: stream for number, placed in enumerate(layer.rules) if (stream := placed.stage.leaves) is not None}
        self._sent: list[Match] = []

    def drain_bindings(self) -> list[tuple[BindingStream, Arrival]]:
        """The bindings that have left since the last call, each with its stream."""
        leaves = self._leaves
        found: list[tuple[BindingStream, Arrival]] = [(leaves[rule], (0, values)) for rule, _, _, values in self._sent]
        self._sent.clear()
        return found

    def _step_by_depth(
        self,
        state: State,
        time: Micros,
        arrivals: Arrivals,
        present: dict[int, list[StoredEvent]],
        buffer: MatchBuffer,
        *,
        ended: bool,
    ) -> None:
        for port in self._binding_ports:
            if port in arrivals:
                present[port] = [(time, ordinal, values) for ordinal, values in arrivals[port]]
        super()._step_by_depth(state, time, arrivals, present, buffer, ended=ended)

    def _run_group(
        self, group: CompiledGroup, anchors: Sequence[SearchStart], remaining: Iterator[SearchStart], state: State, buffer: MatchBuffer
    ) -> None:
        matcher = group.matcher
        if matcher.decode is not None:
            starts: Sequence[SearchStart] = matcher.decode(anchors)  # type: ignore[arg-type]
            anchors, remaining = starts, iter(starts)
        super()._run_group(group, anchors, remaining, state, MatchBuffer(self._sent, 0, None) if matcher.sends else buffer)


class CutStageTwo(StageTwo):
    """A compiled layer with stages of rules that are cut."""

    _operator: StageOperator

    def _compiled(
        self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock, limits: Limits, counted: Set[str]
    ) -> Operator:
        return StageOperator(layer, attributes, clock, limits, counted)

    def step(
        self,
        state: State,
        time: Micros,
        arrivals: Arrivals,
        partition: int = 0,
        *,
        ended: bool = False,
        emit: EmitFirings | None = None,
    ) -> LayerResult:
        """The result of a moment; `events` include the bindings that leave a stage."""
        result = super().step(state, time, arrivals, partition, ended=ended, emit=emit)
        sent = self._operator.drain_bindings()
        return result._replace(events=[*result.events, *sent]) if sent else result


def stage_two_of(layer: Layer) -> type[StageTwo]:
    """The class of a layer's stage two; a layer without cut rules has no cost for them."""
    return StageTwo if all(placed.stage.is_whole for placed in layer.rules) else CutStageTwo
