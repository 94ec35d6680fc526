"""Solutions of a continuous query kept from report to report (continuous.md, section 11).

Idea: at a report each graph of the query, that of a window or the default graph, tells what began
and what ended in it since the report before; the kept operators of `dotr.queries` turn that into
the solutions that came and went. A closure that is kept tells its changes itself; the graph of a
window that is closed anew is compared with that of the report before.
Invariant: after `update` the plan holds the solutions over the graphs of the report, or nothing;
after an error it holds nothing, and the next report begins anew.
Cost: what changed; of a graph that is closed anew, the graph. Where more came and went than there
is, all is found anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple, cast

from dotr.engine.kept_matches import KeptMatch
from dotr.engine.shared_closure import WindowChanges
from dotr.horizons.index import HeldIndex
from dotr.joins.branch_loops import AnswerRow
from dotr.joins.limits import Limits
from dotr.model.terms import Term, Triple
from dotr.queries.kept_changes import NO_CHANGE, NO_TRIPLES, GraphChange, GraphChanges, GraphName, SharedTriples
from dotr.queries.kept_plan import KeptPlan
from dotr.store.joint_index import JointIndex
from dotr.store.masked_index import MaskedIndex
from dotr.store.triples import TripleIndex, is_hidden


class SeenGraph(NamedTuple):
    """A graph as a query sees it at a report.

    - `triples`: its triples, but for those of the background.
    - `background`: triples that never change; none of them is in `triples`.
    - `changes`: what began and ended since the report before, of the background too; None where
      that is not known.
    """

    triples: TripleIndex
    background: TripleIndex = NO_TRIPLES
    changes: WindowChanges | None = None


class SolutionChanges(NamedTuple):
    """Rows that came and those that went since the report before. `is_anew`: nothing is known of
    that report, and all solutions came.
    """

    came: list[AnswerRow]
    went: list[AnswerRow]
    is_anew: bool


class _Difference(NamedTuple):
    """The triples that came into a graph and those that left it."""

    began: Collection[Triple]
    ended: Collection[Triple]


class _FollowedGraph:
    """A graph from report to report: the number of its triples, and the triples themselves where
    nothing tells what changed."""

    __slots__ = ("_triples", "size")

    def __init__(self) -> None:
        self.size: int | None = None
        self._triples: Set[Triple] | None = None

    def difference(self, graph: SeenGraph) -> _Difference | None:
        """The changes since the report before; None where nothing is known of them."""
        triples, changes, before = graph.triples, graph.changes, self._triples
        self._triples = None
        if isinstance(triples, HeldIndex):
            if changes is None or self.size is None:
                self.size = len(triples)
                return None
            began, ended = changes.began, changes.ended
            if len(graph.background):
                known = graph.background.triples
                began, ended = ([each for each in some if each not in known] for some in (began, ended))
            self.size += len(began) - len(ended)
            return _Difference(cast(Collection[Triple], began), cast(Collection[Triple], ended))
        now = self._triples = triples.triples
        self.size = len(now)
        if before is None:
            return None
        return _Difference(*([each for each in some - other if not is_hidden(each[1])] for some, other in ((now, before), (before, now))))


class KeptSolutions:
    """The kept plan of one query on its way from report to report."""

    def __init__(self, plan: KeptPlan, limits: Limits, matches: Sequence[KeptMatch | None] = ()) -> None:
        self.plan = plan
        self.matches = matches if plan.whole is not None else ()
        """The MATCH blocks that are kept, to be moved before an `update`."""
        self._limits = limits
        self._graphs = {name: _FollowedGraph() for name in plan.reads}
        self._predicates = {name: None if reads is None else {predicate for predicate, _ in reads} for name, reads in plan.reads.items()}
        self._is_empty = True
        self.number = 0
        """Solutions of a query that is kept as a whole."""

    def clear(self) -> None:
        """Forget all solutions; the next report begins anew."""
        self.plan.clear()
        self._is_empty = True
        self._graphs = {name: _FollowedGraph() for name in self._graphs}

    def update(self, graphs: Mapping[GraphName, SeenGraph]) -> SolutionChanges | None:
        """Move on to the graphs of a report.

        Returns what came and went of the query's solutions; None where only parts of it are kept.
        Raises `LimitExceeded`; nothing is kept then.
        """
        try:
            changes = self._changes(graphs)
            is_anew = changes is None
            if changes is None:
                self.plan.clear()
                changes = {None: GraphChange.anew(NO_TRIPLES, NO_TRIPLES)}
                changes |= {name: GraphChange.anew(graphs[name].background, graphs[name].triples) for name in self._graphs}
            self._is_empty = False
            rows = self.plan.update(changes, self._limits)
        except BaseException:
            self.clear()
            raise
        if rows is None:
            return None
        self.number = len(rows.came) - len(rows.went) + (0 if is_anew else self.number)
        return SolutionChanges(rows.came, rows.went, is_anew)

    def _changes(self, graphs: Mapping[GraphName, SeenGraph]) -> GraphChanges | None:
        """The changes of all graphs; None where all is found anew."""
        differences = {name: followed.difference(graphs[name]) for name, followed in self._graphs.items()}
        if self._is_empty:
            return None
        touched = left = 0
        changes: dict[GraphName, GraphChange] = {None: NO_CHANGE}
        for name, difference in differences.items():
            if difference is None:
                return None
            touched += len(difference.began) + len(difference.ended)
            left += self._graphs[name].size or 0
            changes[name] = self._change(name, graphs[name], difference)
        return None if touched > left else changes

    def _change(self, name: GraphName, graph: SeenGraph, difference: _Difference) -> GraphChange:
        began, ended = (self._index(name, some) if some else NO_TRIPLES for some in difference)
        rest = graph.triples
        if began.triples:
            known = isinstance(rest, HeldIndex) and rest.without is None
            rest = HeldIndex(rest.held, rest.least, began) if known else MaskedIndex(rest, began.triples)  # type: ignore[attr-defined]
        if len(graph.background):
            rest = JointIndex(graph.background, rest)
        return GraphChange(graph.background, rest, began, ended, False)

    def _index(self, name: GraphName, triples: Collection[Triple]) -> TripleIndex:
        """The index of those of some triples, each once, that patterns over a graph can match.

        Queries that read the same predicates of the same triples get the same index.
        """
        read = self._predicates[name]
        if not isinstance(triples, SharedTriples):
            return self._new_index(read, triples)
        key = None if read is None else frozenset(read)
        index = triples.indexes.get(key)
        if index is None:
            index = triples.indexes[key] = self._new_index(read, triples)
        return index

    def _new_index(self, read: Set[Term] | None, triples: Collection[Triple]) -> TripleIndex:
        groups: dict[Term, list[Triple]] = {}
        for each in triples:
            predicate = each[1]
            if predicate in groups:
                groups[predicate].append(each)
            elif read is None or predicate in read:
                groups[predicate] = [each]
        return TripleIndex.from_groups(groups, set(chain.from_iterable(groups.values())))
