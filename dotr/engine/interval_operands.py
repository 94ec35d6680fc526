"""Solutions of the operands of a unit of EP-SPARQL, from what arrives at its reads.

Idea: the rows of facts and events become rows of the operand's variables. A constructed graph is
matched as a graph: the plain group is evaluated over it alone, and its solutions have its interval.
Source: ep-sparql.md, sections 2 and 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dotr.engine.items import row_graph
from dotr.expressions import query_with_lengths
from dotr.joins.limits import Limits
from dotr.layout.event_order import AttributeValues
from dotr.layout.interval_units import OperandInput
from dotr.model.intervals import EventRead, InstantGroup, visible_variables
from dotr.model.time import Micros
from dotr.patterns.intervals.solutions import IntervalSolution, LeafSolution
from dotr.patterns.operator import Arrival
from dotr.queries.evaluate import AlgebraCompiler
from dotr.queries.graph import Graph
from dotr.queries.operators import EMPTY, AlgebraOperator
from dotr.store.triples import TripleIndex

OperandRows: TypeAlias = Callable[[Micros, Sequence[Arrival]], list[IntervalSolution]]


class OperandSolutions:
    """A plain group or an EVENT with its inputs.

    - `number`: its place in the order of the text.
    - `names`: its variables, sorted.
    - `rows`: for the number of each read that feeds it, the solutions of what arrives there at a
      time in µs. They raise `LimitExceeded`.
    """

    def __init__(
        self, number: int, operand: InstantGroup | EventRead, inputs: Sequence[OperandInput], limits: Limits, *, traced: bool
    ) -> None:
        self.number = number
        self.names = tuple(sorted(visible_variables(operand)))
        self._operand = operand
        self._limits = limits
        self._traced = traced
        self._matcher: AlgebraOperator | None = None
        self.rows: dict[int, OperandRows] = {each.read: self._traced_rows(self._reader(each)) for each in inputs}

    def _traced_rows(self, rows_of: OperandRows) -> OperandRows:
        if not self._traced:
            return rows_of

        def traced(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
            solutions = rows_of(now, rows)
            return [(end, start, values, (LeafSolution(self.number, start, end, values),)) for end, start, values, _ in solutions]

        return traced

    def _reader(self, given: OperandInput) -> OperandRows:
        columns, first = given.columns, int(given.has_start)
        if columns is None:
            return self._matched
        if not given.has_start and columns == tuple(range(len(columns))):
            width = len(columns)

            def as_they_are(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
                if len(rows) == 1 and len(rows[0][1]) == width:
                    return [(now, now, rows[0][1], ())]
                return [(now, now, values[:width], ()) for _, values in rows]

            return as_they_are
        places = tuple(first + column for column in columns)

        def in_columns(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
            return [(now, int(row[0] or 0) if first else now, tuple([row[place] for place in places]), ()) for _, row in rows]

        return in_columns

    def _matched(self, now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
        """The solutions of the plain group over each of some constructed graphs alone."""
        assert isinstance(self._operand, InstantGroup)
        if self._matcher is None:
            self._matcher = AlgebraCompiler().compile(query_with_lengths(self._operand.query))
        found: list[IntervalSolution] = []
        for _, row in rows:
            start, triples = int(row[0] or 0), row_graph(row[1:])
            for solution in self._matcher.solutions(_graph(triples, self._limits), EMPTY, EMPTY):
                values: AttributeValues = tuple([solution.get(name) for name in self.names])
                found.append((now, start, values, ()))
        return found


def _graph(triples: Sequence[tuple[str, str, str]], limits: Limits) -> Graph:
    return Graph(TripleIndex(), TripleIndex(triples), None, limits)
