"""Solutions of the operands of a unit of EP-SPARQL, made from the arrivals at its reads.

Idea: the rows of facts and events are projected to the operand's variables. Over a constructed
graph the plain group is evaluated as a query; its solutions have the interval of the graph.
Source: ep-sparql.md, sections 2 and 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dotr.evaluation.expressions import query_with_lengths
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY, AlgebraOperator
from dotr.languages.epsparql.interval_spread import OperandInput
from dotr.model.event_order import AttributeValues
from dotr.model.time import Micros
from dotr.temporal.intervals.patterns import EventRead, InstantGroup, visible_variables
from dotr.temporal.intervals.solutions import IntervalSolution, LeafSolution
from dotr.temporal.items import row_graph
from dotr.temporal.matching.operator import Arrival

OperandRows: TypeAlias = Callable[[Micros, Sequence[Arrival]], list[IntervalSolution]]
"""The solutions of an operand for the rows that arrive at a time in µs."""


class OperandSolutions:
    """A plain group or an EVENT with its inputs.

    - `number`: its position among the operands of the unit, in the order of the text.
    - `names`: its variables, sorted.
    - `rows`: for the number of each read that feeds it, the function that makes solutions of the
      arrivals there; it raises `LimitExceeded`.
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

    def _reader(self, source: OperandInput) -> OperandRows:
        columns, first = source.columns, int(source.has_start)
        if columns is None:
            return self._matched
        if not source.has_start and columns == tuple(range(len(columns))):  # the values are the first columns
            arity = len(columns)

            def prefixes(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
                if len(rows) == 1 and len(rows[0][1]) == arity:
                    return [(now, now, rows[0][1], ())]
                return [(now, now, values[:arity], ()) for _, values in rows]

            return prefixes
        positions = tuple(first + column for column in columns)

        def projected(now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
            return [(now, int(row[0] or 0) if first else now, tuple([row[position] for position in positions]), ()) for _, row in rows]

        return projected

    def _matched(self, now: Micros, rows: Sequence[Arrival]) -> list[IntervalSolution]:
        """The solutions of the plain group over each constructed graph by itself."""
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
