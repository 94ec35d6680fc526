"""Incremental evaluation of a continuous query from report to report (continuous.md, section 11).

Idea: each graph of the query, that of a window or the default graph, has a delta since the last
report: triples that began and triples that ended. The incremental operators of
`dotr.instant.queries` turn these deltas into inserted and deleted solutions. An incremental closure
has its delta at hand; the graph of a window that is closed in full at each report is compared with
that of the last report. Invariant: after `update` the plan holds the solutions over the graphs of
the report, or nothing; after an error it holds nothing, and the next report is evaluated in full.
Cost: the deltas, and the whole of each graph that is closed in full. Where the deltas are larger
than the graphs, the report is evaluated in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple, assert_never, cast

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import Edges, Ends, TripleIndex, is_hidden
from dotr.evaluation.triples.masked_index import MaskedIndex
from dotr.languages.continuous.evaluation.maintained_matches import MaintainedMatch
from dotr.languages.continuous.evaluation.shared_closure import WindowChanges
from dotr.languages.continuous.model import RelationToStream
from dotr.model.terms import Term, Triple
from dotr.temporal.answers.changes import NO_CHANGE, NO_TRIPLES, GraphChange, GraphChanges, GraphName, SharedTriples
from dotr.temporal.answers.plan import MaintainedPlan
from dotr.temporal.horizons.index import HeldIndex

# Two indexes that share no triple, read as one.
#
# Idea: a table looks a key up in both indexes and concatenates the two lists; nothing is copied
# before a look-up.
# Invariant: equal to a `TripleIndex` of the triples of both.
# Cost: a look-up costs two, and the concatenation if both indexes have the key.


class _JointEnds(Mapping[Any, "list[Any]"]):
    """Lists by key, of two tables."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Mapping[Any, list[Any]], second: Mapping[Any, list[Any]]) -> None:
        self._first, self._second = first, second

    def get(self, key: Any, default: Any = None) -> Any:
        first, second = self._first.get(key), self._second.get(key)
        if first is None:
            return default if second is None else second
        return first if second is None else first + second

    def __getitem__(self, key: Any) -> list[Any]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return cast("list[Any]", found)

    def __contains__(self, key: object) -> bool:
        return key in self._first or key in self._second

    def __iter__(self) -> Iterator[Any]:
        return chain(self._first, (key for key in self._second if key not in self._first))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _JointTables(Mapping[Term, Ends]):
    """The tables of predicates of two indexes."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Mapping[Term, Ends], second: Mapping[Term, Ends]) -> None:
        self._first, self._second = first, second

    def get(self, predicate: Term, default: Any = None) -> Any:
        first, second = self._first.get(predicate), self._second.get(predicate)
        if first is None:
            return default if second is None else second
        return first if second is None else cast(Ends, _JointEnds(first, second))

    def __getitem__(self, predicate: Term) -> Ends:
        found = self.get(predicate)
        if found is None:
            raise KeyError(predicate)
        return cast(Ends, found)

    def __contains__(self, predicate: object) -> bool:
        return predicate in self._first or predicate in self._second

    def __iter__(self) -> Iterator[Term]:
        return chain(self._first, (predicate for predicate in self._second if predicate not in self._first))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _JointTriples(Set[Triple]):
    """The triples of both, for membership and iteration."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Set[Triple], second: Set[Triple]) -> None:
        self._first, self._second = first, second

    def __contains__(self, triple: object) -> bool:
        return triple in self._first or triple in self._second

    def __iter__(self) -> Iterator[Triple]:
        return chain(self._first, self._second)

    def __len__(self) -> int:
        return len(self._first) + len(self._second)


class JointIndex(TripleIndex):
    """The triples of two indexes that share none; read-only.

    >>> both = JointIndex(TripleIndex([("<a>", "<p>", "<b>")]), TripleIndex([("<a>", "<p>", "<c>"), ("<a>", "<q>", "<b>")]))
    >>> both.by_subject["<p>"]["<a>"], both.by_object["<q>"].get("<b>"), len(both), ("<a>", "<p>", "<c>") in both
    (['<b>', '<c>'], ['<a>'], 3, True)
    >>> list(both.match("<a>", None, "<b>")), both.edges_to["<b>"]
    ([('<a>', '<p>', '<b>'), ('<a>', '<q>', '<b>')], [('<a>', '<p>'), ('<a>', '<q>')])
    """

    __slots__ = ("_first", "_second")

    def __init__(self, first: TripleIndex, second: TripleIndex) -> None:
        self._first, self._second = first, second
        self.has_edges = True
        self.by_subject = cast("dict[Term, Ends]", _JointTables(first.by_subject, second.by_subject))
        self.by_object = cast("dict[Term, Ends]", _JointTables(first.by_object, second.by_object))
        self.triples = cast("set[Triple]", _JointTriples(first.triples, second.triples))

    def add(self, triple: Triple) -> bool:
        """Raises `TypeError`: triples are added to one of the two."""
        raise TypeError("a joint index is read-only")

    @property
    def edges_from(self) -> Edges:
        """Subject -> (predicate, object) without hidden predicates."""
        return cast(Edges, _JointEnds(cast(Any, self._first.edges_from), cast(Any, self._second.edges_from)))

    @property
    def edges_to(self) -> Edges:
        """Object -> (subject, predicate) without hidden predicates."""
        return cast(Edges, _JointEnds(cast(Any, self._first.edges_to), cast(Any, self._second.edges_to)))

    def all_from(self, subject: Term) -> list[tuple[Term, Term]]:
        """(predicate, object) of a subject, hidden predicates included."""
        return self._first.all_from(subject) + self._second.all_from(subject)

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        """(subject, predicate) of an object, hidden predicates included."""
        return self._first.all_to(object) + self._second.all_to(object)

    def all_links(self, subject: Term, object: Term) -> list[Term]:
        """Predicates from a subject to an object, hidden ones included."""
        return self._first.all_links(subject, object) + self._second.all_links(subject, object)

    def links(self, subject: Term, object: Term) -> list[Term]:
        """The visible predicates from a subject to an object."""
        return self._first.links(subject, object) + self._second.links(subject, object)


class GraphAtReport(NamedTuple):
    """A graph of a query at one report.

    - `triples`: its triples, except those of the background.
    - `background`: triples that never change, disjoint from `triples`.
    - `changes`: the delta since the last report, which may contain triples of the background; None
      where it is unknown.
    """

    triples: TripleIndex
    background: TripleIndex = NO_TRIPLES
    changes: WindowChanges | None = None


class SolutionChanges(NamedTuple):
    """The rows inserted (`inserted`) and deleted (`deleted`) since the last report, as bags.

    `is_initial`: the report was evaluated in full, and `inserted` has all its rows.
    """

    inserted: list[AnswerRow]
    deleted: list[AnswerRow]
    is_initial: bool


class _Difference(NamedTuple):
    """The triples inserted into a graph, and those deleted from it."""

    began: Collection[Triple]
    ended: Collection[Triple]


class _TrackedGraph:
    """A graph from report to report: the number of its triples, and the triples themselves where
    its delta is found by comparison."""

    __slots__ = ("_triples", "size")

    def __init__(self) -> None:
        self.size: int | None = None
        self._triples: Set[Triple] | None = None

    def difference(self, graph: GraphAtReport) -> _Difference | None:
        """The delta since the last report; None where it is unknown."""
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


class MaintainedSolutions:
    """The incremental plan of one query, with its state."""

    def __init__(self, plan: MaintainedPlan, limits: Limits, matches: Sequence[MaintainedMatch | None] = ()) -> None:
        self.plan = plan
        self.matches = matches if plan.whole is not None else ()
        """The incremental MATCH blocks; the caller passes their items before each `update`."""
        self._limits = limits
        self._graphs = {name: _TrackedGraph() for name in plan.reads}
        self._predicates = {name: None if reads is None else {predicate for predicate, _ in reads} for name, reads in plan.reads.items()}
        self._is_empty = True
        self.number = 0
        """The number of solutions, where the whole query is evaluated incrementally."""

    def clear(self) -> None:
        """Drop all solutions; the next report is evaluated in full."""
        self.plan.clear()
        self._is_empty = True
        self._graphs = {name: _TrackedGraph() for name in self._graphs}

    def update(self, graphs: Mapping[GraphName, GraphAtReport]) -> SolutionChanges | None:
        """Advance to the graphs of a report.

        Returns:
            the inserted and deleted solutions; None where only parts of the query are incremental.

        Raises:
            LimitExceeded: a limit is exceeded; the state is then empty.
        """
        try:
            changes = self._changes(graphs)
            is_initial = changes is None
            if changes is None:
                self.plan.clear()
                changes = {None: GraphChange.initial(NO_TRIPLES, NO_TRIPLES)}
                changes |= {name: GraphChange.initial(graphs[name].background, graphs[name].triples) for name in self._graphs}
            self._is_empty = False
            rows = self.plan.update(changes, self._limits)
        except BaseException:
            self.clear()
            raise
        if rows is None:
            return None
        self.number = len(rows.inserted) - len(rows.deleted) + (0 if is_initial else self.number)
        return SolutionChanges(rows.inserted, rows.deleted, is_initial)

    def _changes(self, graphs: Mapping[GraphName, GraphAtReport]) -> GraphChanges | None:
        """The changes of all graphs; None where the report is to be evaluated in full."""
        differences = {name: tracked.difference(graphs[name]) for name, tracked in self._graphs.items()}
        if self._is_empty:
            return None
        changed = present = 0
        changes: dict[GraphName, GraphChange] = {None: NO_CHANGE}
        for name, difference in differences.items():
            if difference is None:
                return None
            changed += len(difference.began) + len(difference.ended)
            present += self._graphs[name].size or 0
            changes[name] = self._change(name, graphs[name], difference)
        return None if changed > present else changes

    def _change(self, name: GraphName, graph: GraphAtReport, difference: _Difference) -> GraphChange:
        """The change of one graph. For a graph {a, b} where b began and c ended, the unchanged rest
        is {a}."""
        began, ended = (self._index(name, some) if some else NO_TRIPLES for some in difference)
        rest = graph.triples
        if began.triples:
            known = isinstance(rest, HeldIndex) and rest.without is None
            rest = HeldIndex(rest.held, rest.least, began) if known else MaskedIndex(rest, began.triples)  # type: ignore[attr-defined]
        if len(graph.background):
            rest = JointIndex(graph.background, rest)
        return GraphChange(graph.background, rest, began, ended, False)

    def _index(self, name: GraphName, triples: Collection[Triple]) -> TripleIndex:
        """The index of those of some distinct triples that patterns over a graph can match.

        Queries that read the same predicates of the same `SharedTriples` share one index.
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


# Solutions of a query's last report, and the output of RSTREAM, ISTREAM and DSTREAM.
#
# Idea: solutions are bags. RSTREAM outputs the bag of the report, ISTREAM the bag minus that of the
# last report, DSTREAM the bag of the last report minus that of the report. Where the inserted and
# deleted rows are known, both differences are their net counts, and the bags are not compared.
# Cost: the inserted and deleted rows, or the bag where a report was evaluated in full; for RSTREAM
# its output, and nothing where that is unchanged.
# Source: continuous.md, section 6.


class LastSolutions:
    """The bag of solutions of the last report.

    >>> last = LastSolutions(RelationToStream.ISTREAM)
    >>> last.output(SolutionChanges([("<a>",), ("<b>",)], [], True))
    [('<a>',), ('<b>',)]
    >>> last.output(SolutionChanges([("<c>",), ("<a>",)], [("<a>",)], False)), list(last.rows())
    ([('<c>',)], [('<a>',), ('<b>',), ('<c>',)])
    >>> last.undo()
    >>> list(last.rows())
    [('<a>',), ('<b>',)]
    >>> last = LastSolutions(RelationToStream.RSTREAM)
    >>> last.output(SolutionChanges([("<a>",)], [], True)) is last.output(SolutionChanges([], [], False))
    True
    """

    def __init__(self, relation: RelationToStream) -> None:
        self._relation = relation
        self._bag: Counter[AnswerRow] = Counter()
        self._before: Counter[AnswerRow] | None = None
        self._net: dict[AnswerRow, int] = {}
        self._uncounted: list[AnswerRow] | None = None  # RSTREAM: rows that are not in the bag yet
        self._last_output: list[AnswerRow] | None = None  # RSTREAM: the list that the last report returned

    def rows(self) -> Iterable[AnswerRow]:
        """All rows with their multiplicity; none for RSTREAM, whose output needs no last report."""
        return () if self._relation is RelationToStream.RSTREAM else self._bag.elements()

    def restore(self, rows: Iterable[AnswerRow]) -> None:
        """Replaces the rows of the last report by those that `rows` returned."""
        self._bag, self._last_output = Counter(rows), None

    def output(self, changes: SolutionChanges) -> list[AnswerRow]:
        """The output rows of a report, whose solutions become those of the last report.

        The list must not be changed: RSTREAM returns the same list again where nothing has changed.
        """
        if changes.is_initial:
            return self._output_of_all(changes.inserted)
        if self._last_output is not None and not changes.inserted and not changes.deleted:
            self._before, self._net = None, {}
            return self._last_output
        if self._uncounted is not None:
            self._bag, self._uncounted = Counter(self._uncounted), None
        net: dict[AnswerRow, int] = {}
        for row in changes.inserted:
            net[row] = net.get(row, 0) + 1
        for row in changes.deleted:
            net[row] = net.get(row, 0) - 1
        self._before, self._net = None, net
        self._add(net, 1)
        match self._relation:
            case RelationToStream.RSTREAM:
                self._last_output = list(self._bag.elements())
                return self._last_output
            case RelationToStream.ISTREAM:
                return [row for row, times in net.items() if times > 0 for _ in range(times)]
            case RelationToStream.DSTREAM:
                return [row for row, times in net.items() if times < 0 for _ in range(-times)]
            case other:
                assert_never(other)

    def _output_of_all(self, rows: list[AnswerRow]) -> list[AnswerRow]:
        """The output of a report that was evaluated in full."""
        if self._relation is RelationToStream.RSTREAM:
            self._uncounted, self._last_output, self._before, self._net = rows, rows, None, {}
            return rows
        before, self._bag = self._bag, Counter(rows)
        self._before = before
        return list((self._bag - before if self._relation is RelationToStream.ISTREAM else before - self._bag).elements())

    def _add(self, net: dict[AnswerRow, int], sign: int) -> None:
        bag = self._bag
        get = bag.get
        for row, times in net.items():
            if times:
                number = get(row, 0) + sign * times
                if number:
                    bag[row] = number
                else:
                    del bag[row]

    def undo(self) -> None:
        """Reverts the last `output`, whose report failed afterwards."""
        if self._before is not None:
            self._bag, self._before = self._before, None
        else:
            self._add(self._net, -1)
        self._net, self._last_output = {}, None
