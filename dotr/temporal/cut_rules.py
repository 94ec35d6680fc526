"""Stage two of a layer in which rules are cut into stages of their clauses (scale.md, section 1).

Bindings that leave a stage are events for higher layers, like composite events; the router delivers
each to the bucket of its next key.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from dotr.evaluation.limits import Limits
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import Layer
from dotr.temporal.matching.operator import Arrivals, Operator
from dotr.temporal.matching.state import State
from dotr.temporal.stage_operator import StageOperator
from dotr.temporal.stage_two import EmitFirings, LayerResult, StageTwo


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
