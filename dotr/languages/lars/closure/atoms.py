"""Atoms of a point, grouped by the rows in which a LARS file reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from dotr.languages.lars.closure.relations import WindowFeed
from dotr.languages.lars.closure.rows import AtomRows
from dotr.languages.lars.model import ClassName, EventName, PropertyName
from dotr.model.terms import RDF_TYPE, Label, Term, Triple
from dotr.model.time import Micros
from dotr.temporal.horizons.rules import FactRow, Point


class PointAtoms(NamedTuple):
    """The atoms of a point, each with the time in µs since 1970 of the last instant or event that
    has it.

    An event is a flat row of name and term of each attribute, sorted by name.
    """

    triples: Mapping[Triple, Micros]
    events: Mapping[Label, Mapping[FactRow, Micros]]

    def __bool__(self) -> bool:
        return bool(self.triples) or any(self.events.values())


NO_ATOMS: Final = PointAtoms({}, {})


class StreamedRows:
    """The rows that a file reads of the stream, indexed by the predicate or label of their atoms.

    >>> temperatures, rooms = AtomRows(PropertyName("<temp>")), AtomRows(ClassName("<Room>"))
    >>> sorted_rows = StreamedRows([temperatures, rooms])
    >>> found = sorted_rows.of(PointAtoms({("<a>", "<temp>", "<v>"): 5, ("<a>", RDF_TYPE, "<Room>"): 5}, {}))
    >>> found[temperatures], found[rooms]
    ([('<a>', '<v>')], [('<a>',)])
    """

    def __init__(self, streamed: Iterable[AtomRows]) -> None:
        self._by_predicate: dict[Term, list[AtomRows]] = {}
        self._of_all: list[AtomRows] = []
        self._by_label: dict[Label, list[AtomRows]] = {}
        for rows in streamed:
            match rows.predicate:
                case PropertyName(None):
                    self._of_all.append(rows)
                case PropertyName(str(iri)):
                    self._by_predicate.setdefault(iri, []).append(rows)
                case ClassName():
                    self._by_predicate.setdefault(RDF_TYPE, []).append(rows)
                case EventName(label):
                    self._by_label.setdefault(label, []).append(rows)

    def of(self, atoms: PointAtoms) -> dict[AtomRows, list[FactRow]]:
        """The atoms of a point that the file reads, grouped by their rows; each group is not empty.

        An atom is in every group that it is an atom of.
        """
        found: dict[AtomRows, list[FactRow]] = {}
        if atoms.triples:
            for rows in self._of_all:
                found[rows] = list(atoms.triples)
            by_predicate: dict[Term, list[Triple]] = {}
            known = self._by_predicate
            for triple in atoms.triples:
                predicate = triple[1]
                if predicate in known:
                    group = by_predicate.get(predicate)
                    if group is None:
                        by_predicate[predicate] = [triple]
                    else:
                        group.append(triple)
            for predicate, triples in by_predicate.items():
                for rows in known[predicate]:
                    match rows.predicate:
                        case ClassName(str(iri)):
                            of_class: list[FactRow] = [(subject,) for subject, _, object in triples if object == iri]
                            if of_class:
                                found[rows] = of_class
                        case _:
                            found[rows] = [(subject, object) for subject, _, object in triples]
        for label, events in atoms.events.items():
            for rows in self._by_label.get(label, ()):
                of_event = dict.fromkeys(row for event in events if (row := rows.row_of_event(event)) is not None)
                if of_event:
                    found[rows] = list(of_event)
        return found


# Logs of the atoms of the stream that windows reach, by point: the written form of window
# contents.
#
# Idea: the relations of windows follow from the atoms in reach: an atom of point u is in a window at
# the points u + α … u + β. So a written state contains the atoms alone, which enter and leave in the
# order of their points; a restart feeds them to the windows again. Where α is 0 and rules do not read
# points, the last point of an atom is enough, and is known from the closure: the fact's horizon minus
# β. For other windows a log keeps every point.
#
# A small case: <a> at 1 and 2. `A IN [3 s]` keeps (2, <a>), `A AT ?t IN [3 s]` (1, <a>) and (2, <a>).
#
# Cost: constant for each point with atoms; a written state takes one pass over the facts.

AtomsByPoint: TypeAlias = Sequence[tuple[Point, Sequence[FactRow]]]
"""Points in order, each with atoms."""


class LoggedFeeds(NamedTuple):
    """Windows that one log feeds with atoms of some rows.

    `each`: the log keeps every point of an atom; otherwise the last one alone.
    """

    rows: AtomRows
    each: bool
    feeds: tuple[WindowFeed, ...]

    @property
    def widest(self) -> WindowFeed:
        """The feed whose window reaches furthest back."""
        return max(self.feeds, key=lambda feed: feed.window[1])


def logged_feeds(windows: Mapping[AtomRows, Sequence[WindowFeed]]) -> list[LoggedFeeds]:
    """The logs that windows need, in the order of `windows`: at most two for the same rows, that of
    every point before that of the last points.
    """
    found = []
    for rows, feeds in windows.items():
        each = tuple(feed for feed in feeds if feed.with_time or feed.window[0])
        last = tuple(feed for feed in feeds if feed not in each)
        found += [LoggedFeeds(rows, is_each, some) for is_each, some in ((True, each), (False, last)) if some]
    return found


class EachPoint:
    """Log of atoms with every point; `reach`: the number of points that windows reach back.

    >>> log = EachPoint(3)
    >>> log.add(1, [("<a>",), ("<b>",)])
    >>> log.add(2, [("<a>",)])
    >>> log.add(5, [("<c>",)])
    >>> log.atoms(5), log.atoms(6)
    ([(2, [('<a>',)]), (5, [('<c>',)])], [(5, [('<c>',)])])
    """

    __slots__ = ("_atoms", "_reach")

    def __init__(self, reach: Point) -> None:
        self._reach: Final = reach
        self._atoms: deque[tuple[Point, Sequence[FactRow]]] = deque()

    def add(self, k: Point, rows: Sequence[FactRow]) -> None:
        """Adds the atoms of a point, later than all before; the sequence must not change
        afterwards.
        """
        self._expire(k)
        self._atoms.append((k, rows))

    def atoms(self, k: Point) -> AtomsByPoint:
        """The atoms that windows reach at point `k`; `k` does not descend."""
        self._expire(k)
        return list(self._atoms)

    def clear(self) -> None:
        """Removes all atoms."""
        self._atoms.clear()

    def _expire(self, k: Point) -> None:
        atoms, first = self._atoms, k - self._reach
        while atoms and atoms[0][0] < first:
            atoms.popleft()
