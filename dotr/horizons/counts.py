"""Counts of atoms, for tuple windows: the last n pairs (atom, point).

Idea: of each group (the values of PER; one group without it) the last n pairs are kept in their
order: by point, by the last instant or event of the point that has the atom, by terms. An atom of
a window then holds until it is displaced and no equal one is kept.

A small case, LAST 2: atoms a at 1, b at 2 and a at 3. At 3 the pair (a, 1) is displaced, and (a, 3)
is kept: a in the window goes on, a at 1 ends.

Cost: a constant time for each pair that comes and goes, and sorting those of a point.
Source: lars.md, section 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from dotr.horizons.lars_rows import AtomRows
from dotr.horizons.rules import FactRow, Point
from dotr.model.lars import Counted
from dotr.model.terms import without_blank_labels
from dotr.model.time import Micros


@dataclass(frozen=True, eq=False)
class TupleCount:
    """What is counted.

    - `number`: of the counts of a file.
    - `rows`: the atoms; of all triples with `Counted.ALL`.
    - `test`: of their rows; None: all are counted.
    - `per`: the places of a row that make its group.
    """

    number: int
    counted: Counted
    count: int
    rows: AtomRows
    test: Callable[[FactRow], bool] | None
    per: tuple[int, ...]


@dataclass
class CountedWindow:
    """The relations that a count feeds with atoms of some rows.

    `groups_of_b`: the groups for which the times of the window's points are told (`points`), since
    B has atoms of them.
    """

    rows: AtomRows
    name: str
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


class KeptPair(NamedTuple):
    """An atom and a point that has it."""

    point: Point
    row: FactRow


class CountChange(NamedTuple):
    """The change of a count at a point: pairs that are kept from now on, and pairs displaced."""

    entered: list[KeptPair]
    displaced: list[KeptPair]


class CountedAtoms:
    """The pairs that a count keeps.

    >>> from dotr.model.lars import PropertyName
    >>> atoms = CountedAtoms(TupleCount(0, Counted.PER, 2, AtomRows(PropertyName("<e:p>")), None, (0,)))
    >>> atoms.advance(1, {("<s>", '"1"'): 10, ("<s>", '"2"'): 10}).entered
    [KeptPair(point=1, row=('<s>', '"1"')), KeptPair(point=1, row=('<s>', '"2"'))]
    >>> atoms.advance(2, {("<s>", '"2"'): 20}).displaced, atoms.start(("<s>",), 1), atoms.kept[("<s>", '"2"')]
    ([KeptPair(point=1, row=('<s>', '"1"'))], 1, 2)
    """

    def __init__(self, count: TupleCount) -> None:
        self._count: Final = count
        self._groups: dict[FactRow, deque[KeptPair]] = {}
        self.kept: dict[FactRow, int] = {}
        """The number of points with which each atom is kept."""

    def advance(self, k: Point, atoms: Mapping[FactRow, Micros]) -> CountChange:
        """Counts the atoms of a point, each with the time in µs of the last instant or event that has
        it.
        """
        test, per, most = self._count.test, self._count.per, self._count.count
        by_group: dict[FactRow, list[tuple[Micros, FactRow]]] = {}
        for row, time in atoms.items():
            if test is None or test(row):
                by_group.setdefault(tuple([row[place] for place in per]), []).append((time, row))
        change = CountChange([], [])
        kept = self.kept
        for group, pairs in by_group.items():
            if len(pairs) > 1:
                pairs.sort(key=_order)
            last = self._groups.setdefault(group, deque())
            for _, row in pairs[-most:]:
                last.append(KeptPair(k, row))
                change.entered.append(last[-1])
                kept[row] = kept.get(row, 0) + 1
            while len(last) > most:
                pair = last.popleft()
                change.displaced.append(pair)
                if kept[pair.row] == 1:
                    del kept[pair.row]
                else:
                    kept[pair.row] -= 1
        return change

    def take_back(self, change: CountChange) -> None:
        """Takes the last point's change back."""
        for pair in reversed(change.entered):
            self._groups[self.group_of(pair.row)].pop()
        for pair in reversed(change.displaced):
            self._groups[self.group_of(pair.row)].appendleft(pair)
        self._note_kept()

    def _note_kept(self) -> None:
        self.kept = {}
        for pair in self.pairs():
            self.kept[pair.row] = self.kept.get(pair.row, 0) + 1

    def group_of(self, row: FactRow) -> FactRow:
        """The group that an atom is counted in."""
        return tuple([row[place] for place in self._count.per])

    def start(self, group: FactRow, first: Point) -> Point:
        """The first point of a group's window; `first` is that of the line."""
        last = self._groups.get(group, ())
        return last[0].point if last and len(last) == self._count.count else first

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def pairs(self) -> Iterator[KeptPair]:
        """All pairs, group by group."""
        for last in self._groups.values():
            yield from last

    def to_json(self) -> object:
        """The state as values of JSON."""
        return [[pair.point, *pair.row] for pair in self.pairs()]

    def restore(self, written: Iterable[list[object]]) -> None:
        """The inverse of `to_json`."""
        self._groups = {}
        for point, *terms in written:
            row: FactRow = tuple(terms)  # type: ignore[arg-type]
            self._groups.setdefault(self.group_of(row), deque()).append(KeptPair(point, row))  # type: ignore[arg-type]
        self._note_kept()


def _order(pair: tuple[Micros, FactRow]) -> tuple[Micros, FactRow, FactRow]:
    time, row = pair
    return time, tuple(map(without_blank_labels, row)), row
