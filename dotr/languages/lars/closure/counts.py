"""Counts of atoms, for tuple windows: the last n pairs (atom, point).

Idea: of each group (the values of PER; one group without it) the last n pairs are kept, ordered by
point, then by the last instant or event of the point that has the atom, then by terms. An atom is
in the window until its last kept pair is displaced.

A small case, LAST 2: atoms a at 1, b at 2 and a at 3. At 3 the pair (a, 1) is displaced and (a, 3)
enters: a IN the window still holds, a AT 1 ends.

Cost: constant for each pair that enters or is displaced, and sorting the pairs of a point.
Source: lars.md, section 2.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from dotr.languages.lars.closure.rows import AtomRows
from dotr.model import dataclass
from dotr.model.terms import Label, without_blank_labels
from dotr.model.time import Micros
from dotr.temporal.horizons.rules import FactRow, Point

StreamAtom: TypeAlias = FactRow
"""A triple, or an event: its attributes by name, each name before its term."""


@dataclass(frozen=True, eq=False)
class TupleCount:
    """The atoms that a tuple window counts.

    - `number`: ordinal among the counts of a file.
    - `count`: the number n of pairs that are kept for each group.
    - `label`: of the events that are counted; None: triples are counted.
    - `group`: function from an atom to its group, the values of PER; to None if it is not counted.
    """

    number: int
    count: int
    label: Label | None
    group: Callable[[StreamAtom], FactRow | None]


@dataclass
class CountedWindow:
    """The relations that a count feeds with atoms of some rows.

    - `name`: prefix of the names of the relations.
    - `project`: function from an atom to its row; to None for an atom of other rows.
    - `has_in`, `has_at`, `has_always`: the relations `sometime`, `at`, `always` are read by rules.
    - `groups_of_b`: the groups of atoms of B; only for these `points` has rows.
    """

    rows: AtomRows
    name: str
    project: Callable[[StreamAtom], FactRow | None]
    has_in: bool = False
    has_at: bool = False
    has_always: bool = False
    groups_of_b: tuple[FactRow, ...] = ()

    @property
    def sometime(self) -> str:
        """The relation of A IN W."""
        return f"{self.name} IN"

    @property
    def at(self) -> str:
        """The relation of A AT t IN W."""
        return f"{self.name} AT"

    @property
    def always(self) -> str:
        """The relation of A ALWAYS IN W."""
        return f"{self.name} ALWAYS"

    @property
    def points(self) -> str:
        """The relation of the points of W: the values of PER, and a time."""
        return f"{self.name} POINTS"


class MaintainedPair(NamedTuple):
    """An atom and a point that has it."""

    point: Point
    atom: StreamAtom


class CountChange(NamedTuple):
    """The change of a count at a point: pairs that entered, and pairs that were displaced."""

    entered: list[MaintainedPair]
    displaced: list[MaintainedPair]


class CountedAtoms:
    """The pairs that a count keeps.

    >>> atoms = CountedAtoms(TupleCount(0, 2, None, lambda triple: triple[:1]))
    >>> atoms.advance(1, {("<s>", "<p>", '"1"'): 10, ("<s>", "<p>", '"2"'): 10}).entered[1]
    MaintainedPair(point=1, atom=('<s>', '<p>', '"2"'))
    >>> atoms.advance(2, {("<s>", "<p>", '"2"'): 20}).displaced, atoms.start(("<s>",), 1)
    ([MaintainedPair(point=1, atom=('<s>', '<p>', '"1"'))], 1)
    """

    def __init__(self, count: TupleCount) -> None:
        self.count: Final = count
        self._groups: dict[FactRow, deque[MaintainedPair]] = {}

    def advance(self, k: Point, atoms: Mapping[StreamAtom, Micros]) -> CountChange:
        """Counts the atoms of point `k`, each with the time in µs of the last instant or event that
        has it; returns the change. `k` ascends.
        """
        capacity = self.count.count
        by_group: dict[FactRow, list[tuple[Micros, StreamAtom]]] = {}
        for atom, time in atoms.items():
            group = self.count.group(atom)
            if group is not None:
                by_group.setdefault(group, []).append((time, atom))
        change = CountChange([], [])
        for group, pairs in by_group.items():
            if len(pairs) > 1:
                pairs.sort(key=_order)
            last = self._groups.setdefault(group, deque())
            for _, atom in pairs[-capacity:]:
                last.append(MaintainedPair(k, atom))
                change.entered.append(last[-1])
            while len(last) > capacity:
                change.displaced.append(last.popleft())
        return change

    def undo(self, change: CountChange) -> None:
        """Undoes the change of the last point."""
        for pair in reversed(change.entered):
            self._group_of(pair).pop()
        for pair in reversed(change.displaced):
            self._group_of(pair).appendleft(pair)

    def _group_of(self, pair: MaintainedPair) -> deque[MaintainedPair]:
        group = self.count.group(pair.atom)
        assert group is not None
        return self._groups.setdefault(group, deque())

    def start(self, group: FactRow, first: Point) -> Point:
        """The first point of a group's window: that of its first pair, or `first`, the first point
        of the line, while fewer pairs are kept than the count.
        """
        last = self._groups.get(group, ())
        return last[0].point if last and len(last) == self.count.count else first

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def pairs(self) -> Iterator[MaintainedPair]:
        """All pairs, group by group."""
        for last in self._groups.values():
            yield from last

    def to_json(self) -> object:
        """The state as values of JSON."""
        return [[pair.point, *pair.atom] for pair in self.pairs()]

    def restore(self, written: Iterable[list[object]]) -> None:
        """The inverse of `to_json`."""
        self._groups = {}
        for point, *terms in written:
            pair = MaintainedPair(point, tuple(terms))  # type: ignore[arg-type]
            self._group_of(pair).append(pair)


class RowChange(NamedTuple):
    """The change of a window's rows at a point.

    - `entered`: rows that are kept with this point.
    - `displaced`: rows with a point with which they are no longer kept.
    - `removed`: rows that are no longer kept with any point.
    """

    entered: list[FactRow]
    displaced: list[tuple[FactRow, Point]]
    removed: list[FactRow]


class MaintainedRows:
    """The rows of a window that a count keeps, and the number of their points.

    Several events may have one row, so pairs of a row and a point are counted.

    >>> kept = MaintainedRows(lambda atom: atom[1:])
    >>> kept.advance(CountChange([MaintainedPair(1, ("a", "x")), MaintainedPair(1, ("b", "x"))], []))
    RowChange(entered=[('x',)], displaced=[], removed=[])
    >>> kept.advance(CountChange([], [MaintainedPair(1, ("a", "x"))])), kept.points[("x",)]
    (RowChange(entered=[], displaced=[], removed=[]), 1)
    >>> kept.advance(CountChange([], [MaintainedPair(1, ("b", "x"))]))
    RowChange(entered=[], displaced=[(('x',), 1)], removed=[('x',)])
    """

    def __init__(self, project: Callable[[StreamAtom], FactRow | None]) -> None:
        self._project: Final = project
        self._pairs: Counter[tuple[FactRow, Point]] = Counter()
        self.points: Counter[FactRow] = Counter()
        """The number of points with which each row is kept."""

    def advance(self, change: CountChange) -> RowChange:
        """Applies a change of the count; returns the change of rows."""
        result = RowChange([], [], [])
        for point, atom in change.entered:
            row = self._project(atom)
            if row is not None:
                self._pairs[row, point] += 1
                if self._pairs[row, point] == 1:
                    self.points[row] += 1
                    result.entered.append(row)
        for point, atom in change.displaced:
            row = self._project(atom)
            if row is not None:
                self._pairs[row, point] -= 1
                if not self._pairs[row, point]:
                    del self._pairs[row, point]
                    self.points[row] -= 1
                    result.displaced.append((row, point))
                    if not self.points[row]:
                        del self.points[row]
                        result.removed.append(row)
        return result

    def restore(self, pairs: Iterable[MaintainedPair]) -> None:
        """Replaces all rows by those of the pairs that a count keeps."""
        self._pairs.clear()
        self.points.clear()
        self.advance(CountChange(list(pairs), []))


def _order(pair: tuple[Micros, StreamAtom]) -> tuple[Micros, StreamAtom, StreamAtom]:
    time, atom = pair
    return time, tuple(map(without_blank_labels, atom)), atom
