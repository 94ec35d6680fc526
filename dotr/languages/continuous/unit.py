"""CONSTRUCT queries with a key, cut into two units: solutions in all buckets, and their graph.

Idea: the event of a CONSTRUCT is one graph of all solutions of a report (continuous.md, section 9).
Each bucket finds the solutions of its subjects. A unit with one partition, in a layer above, makes
one graph of all solutions of a time; it has no state.
Example: `CONSTRUCT { ?x :hot true }` as `Hot`, over three buckets: at 10 they find the solutions
for :a, none, and for :b and :c; the graph of `Hot` at 10 has three triples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dotr.languages.continuous.keys import query_key
from dotr.languages.continuous.model import ConstructForm
from dotr.model.places import Span
from dotr.model.rules import EventSource
from dotr.model.terms import Label, Variable
from dotr.model.units import UnitEvents
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.units import StreamQuery, StreamUnit, UnitRead


@dataclass(frozen=True, slots=True)
class ConstructSolutions:
    """The solutions of a CONSTRUCT, as events that only the unit of its graphs (`MergedGraphs`)
    reads.

    The unit has the name and the state of the query, `whole`.
    """

    whole: StreamQuery

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.whole.name

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.whole.span

    @property
    def label(self) -> Label:
        """The label of the events, which differs from all labels of files."""
        return f"solutions of {self.whole.name}"

    @property
    def attributes(self) -> tuple[Variable, ...]:
        """All visible variables, sorted."""
        return tuple(sorted(set(self.whole.query.query.projection)))

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """An event for each solution."""
        return (UnitEvents(self.label, self.attributes, self.span, False),)

    @property
    def reads(self) -> tuple[UnitRead, ...]:
        """Those of the query."""
        return self.whole.reads

    @property
    def key(self) -> UnitKey:
        """The key of the query."""
        return self.whole.key

    @property
    def may_recur(self) -> bool:
        """False."""
        return False

    @property
    def members(self) -> tuple[ConstructSolutions, ...]:
        """Itself."""
        return (self,)


@dataclass(frozen=True, slots=True)
class MergedGraphs:
    """The graphs of a CONSTRUCT, each of the solutions of one report."""

    solutions: ConstructSolutions

    @property
    def whole(self) -> StreamQuery:
        """The query."""
        return self.solutions.whole

    @property
    def name(self) -> str:
        """The name of the unit, which differs from all names of files."""
        return f"graphs of {self.whole.name}"

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.whole.span

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """The events of the query's label."""
        return self.whole.makes

    @property
    def reads(self) -> tuple[UnitRead, ...]:
        """The solutions."""
        return (UnitRead(EventSource(self.solutions.label, self.solutions.attributes), True, self.span),)

    @property
    def key(self) -> UnitKey:
        """None: a graph is that of all solutions."""
        return UnitKey(None, "its event is one graph of all solutions")

    @property
    def may_recur(self) -> bool:
        """False."""
        return False

    @property
    def members(self) -> tuple[MergedGraphs, ...]:
        """Itself."""
        return (self,)


def with_merged_graphs(units: Iterable[StreamUnit]) -> Iterator[StreamUnit]:
    """The units; each CONSTRUCT with a key is replaced by its `ConstructSolutions` and
    `MergedGraphs`."""
    for unit in units:
        if isinstance(unit, StreamQuery) and isinstance(unit.query.form, ConstructForm) and query_key(unit.query).variable is not None:
            solutions = ConstructSolutions(unit)
            yield solutions
            yield MergedGraphs(solutions)
        else:
            yield unit


def query_of(unit: StreamUnit) -> StreamQuery | None:
    """The query of a unit that is a query, or that finds the solutions of one; None for other
    units.
    """
    match unit:
        case StreamQuery():
            return unit
        case ConstructSolutions(whole):
            return whole
        case _:
            return None
