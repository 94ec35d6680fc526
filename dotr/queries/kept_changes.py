"""Graphs that change between two reports, and the bags of rows that come and go with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from dotr.joins.branch_loops import AnswerRow
from dotr.joins.limits import Limits
from dotr.model.terms import Term, Triple
from dotr.store.triples import TripleIndex


class SharedTriples(list[Triple]):
    """Triples that several queries read, with the indexes made of them: by the predicates that are
    read, None for all. It must not change.
    """

    __slots__ = ("indexes",)

    def __init__(self, triples: Iterable[Triple]) -> None:
        super().__init__(triples)
        self.indexes: dict[frozenset[Term] | None, TripleIndex] = {}


NO_TRIPLES: Final = TripleIndex()
"""An index without triples; never written to."""


class GraphChange(NamedTuple):
    """A graph at a report, and what changed of it since the report before.

    - `background`: triples that never change; none of them is in the other indexes.
    - `rest`: the triples that were there and are there still, with the background.
    - `began`, `ended`: the triples that came, and those that went.
    - `is_anew`: nothing is known of the report before: `began` is the whole graph.
    """

    background: TripleIndex
    rest: TripleIndex
    began: TripleIndex
    ended: TripleIndex
    is_anew: bool

    @classmethod
    def anew(cls, background: TripleIndex, graph: TripleIndex) -> GraphChange:
        """A graph of which nothing is known before."""
        return cls(background, background, graph, NO_TRIPLES, True)


NO_CHANGE: Final = GraphChange(NO_TRIPLES, NO_TRIPLES, NO_TRIPLES, NO_TRIPLES, False)
"""That of a graph without triples."""

GraphName: TypeAlias = Term | None
"""The window of a block, or None for the default graph."""

GraphChanges: TypeAlias = Mapping[GraphName, GraphChange]


class RowChanges(NamedTuple):
    """Bags of rows that came and that went. A row may be in both; it then came first."""

    came: list[AnswerRow]
    went: list[AnswerRow]

    def __bool__(self) -> bool:
        return bool(self.came or self.went)


NO_ROWS: Final = RowChanges([], [])
"""No change; never written to."""


class ReportWork:
    """The work of one report against its limits: rows that are kept, and rows looked at."""

    __slots__ = ("limits", "probes")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.probes = 0

    def look_at(self, rows: int) -> None:
        """Counts rows looked at. Raises `LimitExceeded`."""
        self.probes += rows
        if self.probes > self.limits.probes:
            self.limits.check_probes(self.probes)

    def keep(self, rows: int) -> None:
        """Takes the number of rows that a part of a query has. Raises `LimitExceeded`."""
        if rows > self.limits.rows:
            self.limits.check_rows(rows)
