"""Units of EP-SPARQL in a program: the streams that feed each operand (ep-sparql.md, 2, 4 and 5).

Example: the unit `Q`, of `{ ?c :rose ?q } SEQ { ?c :price ?p }`, where the STREAM `Up` makes graphs
of `?c :rose ?q`, has three reads: the facts of either plain group, and the graphs of `Up` with
their starts. Operand 0 has the inputs 0 and 1, operand 1 has the input 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dotr.model.places import Span
from dotr.model.terms import Label
from dotr.model.units import UnitEvents
from dotr.temporal.intervals.patterns import TemporalQuery
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.units import UnitRead


class OperandInput(NamedTuple):
    """A read that feeds an operand.

    - `read`: its number.
    - `columns`: for each variable of the operand, sorted, the place of its term in a row; None: the
      row is a graph, in which the operand is matched.
    - `has_start`: the row begins with the start of the event.
    """

    read: int
    columns: tuple[int, ...] | None
    has_start: bool


@dataclass(frozen=True, slots=True)
class IntervalUnit:
    """A QUERY or STREAM with the streams that it reads.

    - `operands`: the inputs of each operand, in the order of the text. A QUERY with SPARQL's
      modifiers has none, and one read: its answers.
    """

    query: TemporalQuery
    reads: tuple[UnitRead, ...]
    operands: tuple[tuple[OperandInput, ...], ...]

    @property
    def name(self) -> Label:
        """The name of the unit, which is its label."""
        return self.query.label

    @property
    def span(self) -> Span:
        """The place of the label."""
        return self.query.label_span

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """The events of the unit's label."""
        query = self.query
        return (UnitEvents(query.label, query.attributes, query.label_span, query.makes_graphs),)

    @property
    def key(self) -> UnitKey:
        """The key of the unit's partitions (ep-sparql.md, section 5)."""
        from dotr.languages.epsparql.interval_keys import interval_key  # loaded where a program has such a unit

        return interval_key(self.query)

    @property
    def may_recur(self) -> bool:
        """True: a unit may depend on itself through the left operand of SEQ."""
        return True

    @property
    def members(self) -> tuple[IntervalUnit, ...]:
        """Itself."""
        return (self,)
