"""Graphs of a CONSTRUCT whose solutions come from several buckets
(`dotr.languages.continuous.unit`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dotr.engine.unit_runs import UnitArrivals, UnitResult, UnitRun
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.evaluation.literal_limits import BOUNDS
from dotr.languages.continuous.evaluation.run import merged_graph, report_over_limit
from dotr.languages.continuous.model import ConstructForm, ContinuousQuery
from dotr.model.stream import DeadLetter
from dotr.model.terms import Variable
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.templates import compile_template


class GraphRun(UnitRun):
    """A unit that makes one graph of all solutions of a moment; it has no state."""

    acts_alone = False

    def __init__(self, query: ContinuousQuery, attributes: Sequence[Variable], limits: Limits) -> None:
        self._query: Final = query
        self._limits: Final = limits
        assert isinstance(query.form, ConstructForm), "its solutions make a graph"
        self._label = query.label
        self._names = query.query.projection
        self._places = [attributes.index(name) for name in self._names]
        self._template = compile_template(query.form.template, self._names)

    def begin(self, time: Micros) -> None:
        """Without effect: only arrivals make events."""

    def end(self, last: Micros, *, is_fed: bool) -> Sequence[DeadLetter]:
        """Without effect."""
        return ()

    def next_due(self) -> Micros | None:
        """None: only arrivals make events."""
        return None

    @property
    def is_under_way(self) -> bool:
        """False: only arrivals make events."""
        return False

    @property
    def is_over(self) -> bool:
        """False: further solutions may arrive."""
        return False

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        """The graph of the solutions that arrive."""
        rows = [tuple([row[place] for place in self._places]) for _, row in arrivals.get(0, ())]
        BOUNDS.start(self._limits.literal, self._limits.text)
        try:
            return UnitResult([merged_graph(self._label, self._template, self._names, time, rows)] if rows else [])
        except LimitExceeded as error:
            return UnitResult([], [report_over_limit(self._query, time, error)])

    @property
    def event_counts(self) -> Sequence[int]:
        """No solution is stored."""
        return (0,)

    def to_json(self) -> str:
        """The empty state."""
        return "[]"

    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        """Check that the state is empty; raises ValueError if it is not."""
        if text != "[]":
            raise ValueError("a unit of graphs keeps nothing")
