"""Continuous queries as units of a program; a CONSTRUCT with a key is cut into two units: solutions in
all buckets, and their graph.

Idea: the event of a CONSTRUCT is one graph of all solutions of a report (continuous.md, section 9).
Each bucket finds the solutions of its subjects. A unit with one partition, in a layer above, makes
one graph of all solutions of a time; it has no state.
Example: `CONSTRUCT { ?x :hot true }` as `Hot`, over three buckets: at 10 they find the solutions
for :a, none, and for :b and :c; the graph of `Hot` at 10 has three triples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dotr.languages.continuous.keys import query_key
from dotr.languages.continuous.model import ConstructForm
from dotr.languages.continuous.query_spread import query_spreads
from dotr.model.places import Span
from dotr.model.rules import EventSource, Rule
from dotr.model.terms import Label, Variable
from dotr.model.units import UnitEvents
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.spread import ReadSpread
from dotr.temporal.layout.units import StreamQuery, StreamUnit, UnitRead


@dataclass(frozen=True, slots=True)
class QueryUnit(StreamQuery):
    """A continuous query as a unit."""

    @property
    def noun(self) -> str:
        """The noun of the unit in messages."""
        return "query"

    @property
    def key(self) -> UnitKey:
        """The key of the query (continuous.md, section 9)."""
        return query_key(self.query)

    @property
    def may_recur(self) -> bool:
        """False: a continuous query is in no cycle, not even through the past."""
        return False

    @property
    def members(self) -> tuple[QueryUnit, ...]:
        """Itself."""
        return (self,)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """None."""
        return ()

    @property
    def acts_alone(self) -> bool:
        """True: it may report without arrivals."""
        return True

    def key_names(self) -> tuple[str, ...]:
        """The variable of the key; empty: one partition, as for a CONSTRUCT, which is spread where it is cut."""
        return () if isinstance(self.query.form, ConstructForm) else self.key_variable()

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """The spread of each read; None: one partition, as for a CONSTRUCT."""
        return None if isinstance(self.query.form, ConstructForm) else query_spreads(self.query)

    def cut(self) -> Sequence[QueryUnit | ConstructSolutions | MergedGraphs]:
        """A CONSTRUCT with a key: its solutions, and their graphs; of another query, itself."""
        if not isinstance(self.query.form, ConstructForm) or self.key.variable is None:
            return (self,)
        solutions = ConstructSolutions(self)
        return solutions, MergedGraphs(solutions)

    def key_variable(self) -> tuple[Variable, ...]:
        """The variable of the key; empty: there is none."""
        return () if self.key.variable is None else (self.key.variable,)


@dataclass(frozen=True, slots=True)
class ConstructSolutions:
    """The solutions of a CONSTRUCT, as events that only the unit of its graphs (`MergedGraphs`)
    reads.

    The unit has the name and the state of the query, `whole`.
    """

    whole: QueryUnit

    @property
    def noun(self) -> str:
        """The noun of the unit in messages."""
        return "unit"

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

    @property
    def rules(self) -> tuple[Rule, ...]:
        """None."""
        return ()

    @property
    def acts_alone(self) -> bool:
        """True: the query may report without arrivals."""
        return True

    def key_names(self) -> tuple[str, ...]:
        """The variable of the query's key."""
        return self.whole.key_variable()

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """Those of the query."""
        return query_spreads(self.whole.query)

    def cut(self) -> Sequence[ConstructSolutions]:
        """Itself."""
        return (self,)


@dataclass(frozen=True, slots=True)
class MergedGraphs:
    """The graphs of a CONSTRUCT, each of the solutions of one report."""

    solutions: ConstructSolutions

    @property
    def whole(self) -> QueryUnit:
        """The query."""
        return self.solutions.whole

    @property
    def noun(self) -> str:
        """The noun of the unit in messages."""
        return "unit"

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

    @property
    def rules(self) -> tuple[Rule, ...]:
        """None."""
        return ()

    @property
    def acts_alone(self) -> bool:
        """True: as the query."""
        return True

    def key_names(self) -> tuple[str, ...]:
        """None: one partition."""
        return ()

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """None: one partition."""
        return None

    def cut(self) -> Sequence[MergedGraphs]:
        """Itself."""
        return (self,)


def query_of(unit: StreamUnit) -> QueryUnit | None:
    """The query of a unit that is a query, or that finds the solutions of one; None for other
    units.
    """
    match unit:
        case QueryUnit():
            return unit
        case ConstructSolutions(whole):
            return whole
        case _:
            return None
