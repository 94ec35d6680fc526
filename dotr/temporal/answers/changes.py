"""Changes between two reports: of graphs, and of the bags of rows computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.terms import Term, Triple


class SharedTriples(list[Triple]):
    """Triples that several queries read, with the indexes built from them.

    `indexes` is keyed by the set of indexed predicates, None for all. The triples never change.
    """

    __slots__ = ("indexes",)

    def __init__(self, triples: Iterable[Triple]) -> None:
        super().__init__(triples)
        self.indexes: dict[frozenset[Term] | None, TripleIndex] = {}


NO_TRIPLES: Final = TripleIndex()
"""An index without triples; never written to."""


class GraphChange(NamedTuple):
    """The delta of a graph between two consecutive reports.

    - `background`: the triples that never change; disjoint from `began` and `ended`.
    - `rest`: the triples of both reports, the background included.
    - `began`, `ended`: the inserted and the deleted triples.
    - `is_initial`: no earlier report is known; `began` is the whole graph but the background.
    """

    background: TripleIndex
    rest: TripleIndex
    began: TripleIndex
    ended: TripleIndex
    is_initial: bool

    @classmethod
    def initial(cls, background: TripleIndex, graph: TripleIndex) -> GraphChange:
        """The delta of a graph without an earlier report."""
        return cls(background, background, graph, NO_TRIPLES, True)


NO_CHANGE: Final = GraphChange(NO_TRIPLES, NO_TRIPLES, NO_TRIPLES, NO_TRIPLES, False)
"""The delta of an empty graph that stays empty."""

GraphName: TypeAlias = Term | None
"""The name of a window, or None for the default graph."""

GraphChanges: TypeAlias = Mapping[GraphName, GraphChange]


class RowChanges(NamedTuple):
    """Bags of inserted (`inserted`) and deleted (`deleted`) rows.

    A row may be in both bags: insertions are applied before deletions.
    """

    inserted: list[AnswerRow]
    deleted: list[AnswerRow]

    def __bool__(self) -> bool:
        return bool(self.inserted or self.deleted)


NO_ROWS: Final = RowChanges([], [])
"""No change; never written to."""


class ReportWork:
    """The work of one report against its limits: rows kept by an operator, and rows probed."""

    __slots__ = ("limits", "probes")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.probes = 0

    def look_at(self, rows: int) -> None:
        """Counts probed rows. Raises `LimitExceeded`."""
        self.probes += rows
        if self.probes > self.limits.probes:
            self.limits.check_probes(self.probes)

    def keep(self, rows: int) -> None:
        """Checks the number of rows that one operator keeps. Raises `LimitExceeded`."""
        if rows > self.limits.rows:
            self.limits.check_rows(rows)
