"""Relations of atoms in time windows: of the point itself, IN and AT.

A small case: `Hot IN [3 s]`, of rules with the heads `Hot` and `Hot AT ?t`, makes the relation
`own Hot IN 0..3` with a rule from each of the two; asked for again, it has them already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from dotr.horizons.lars_origins import AtomOrigins
from dotr.horizons.lars_relations import EACH_POINT, NOW, LarsRules, PointWindow, RelationKind, RelationMeaning, WindowFeed
from dotr.horizons.lars_rows import AtomRows, rows_of_atom
from dotr.horizons.rules import FOREVER, WindowRule
from dotr.joins.order import JoinItem
from dotr.model.algebra import Slot, Var
from dotr.model.datalog import RelationAtom
from dotr.model.lars import LarsAtom, LarsFile, OwnRelation, TimeWindow


class WindowRelations:
    """The relations of atoms in time windows, with the rules and feeds that give their rows.

    `made`: the compiled file that they are added to.
    """

    def __init__(self, file: LarsFile, origins: AtomOrigins) -> None:
        self.made: Final = LarsRules()
        self.origins: Final = origins
        self._file = file
        self._known: set[str] = set()

    def look_up(self, relation: str, rows: AtomRows) -> None:
        """Atoms of B are rows of a relation."""
        if self.origins.of_background(rows).may_hold:
            self.made.static.rows[relation] = self.origins.of_background(rows)

    def background_relation(self, rows: AtomRows) -> str:
        """The relation of what B has and nothing else."""
        name = f"{rows.name} OF B"
        self.means(name, RelationKind.BACKGROUND, rows)
        self.made.static.rows[name] = self.origins.of_background(rows)
        return name

    def is_new(self, relation: str) -> bool:
        """True the first time that a relation is asked for: its rules are not there yet."""
        if relation in self._known:
            return False
        self._known.add(relation)
        return True

    def means(self, relation: str, kind: RelationKind, rows: AtomRows, window: PointWindow | str | None = None) -> None:
        """Notes the meaning of a relation's rows."""
        self.made.meanings[relation] = RelationMeaning(kind, rows, window)

    def rule(self, name: str, head: tuple[RelationAtom, ...], body: Sequence[JoinItem]) -> None:
        """Adds a rule; one whose premises may all be of B holds at every point."""
        atoms = [item for item in body if isinstance(item, RelationAtom)]
        if all(atom.relation in self.made.static.rows for atom in atoms):
            body = (RelationAtom(EACH_POINT, ()), *body)
        self.made.rules.append(WindowRule(name, head, tuple(body)))

    def feed(self, rows: AtomRows, relation: str, window: PointWindow, *, with_time: bool = False) -> None:
        """Has atoms of the stream feed a relation, for the points of a window."""
        if not isinstance(rows.predicate, OwnRelation):
            self.made.windows.setdefault(rows, []).append(WindowFeed(relation, window, with_time))

    def derived_now(self, rows: AtomRows) -> str:
        """The relation of what holds at the point itself, without what the stream has there."""
        name = rows.name
        if self.is_new(name):
            self.means(name, RelationKind.PRESENT, rows, (0, 0))
            self.look_up(name, rows)
            for head, put in self.origins.heads_of(rows):
                own, general = self.origins.generic(rows, head)
                if put.is_plain and head != rows:
                    self.rule(name, (RelationAtom(name, general),), [RelationAtom(self.derived_now(head), own)])
                if put.windows:
                    self.made.points.has_now = True
                    self.made.silent.add(NOW)
                    body = [RelationAtom(f"{head.name} PUT", (*own, Var("t"))), RelationAtom(NOW, (Var("t"),))]
                    self.rule(name, (RelationAtom(name, general),), body)
        return name

    def now(self, rows: AtomRows) -> str:
        """The relation of what holds at the point itself."""
        name = self.derived_now(rows)
        if self.is_new(f"{name} fed"):
            self.feed(rows, name, (0, 0))
        return name

    def within(self, window: PointWindow, windows: Sequence[PointWindow | None], time: Slot) -> list[JoinItem]:
        """A test that a point lies in a window, where it may not."""
        if all(each is not None and window[0] <= each[0] and each[1] <= window[1] for each in windows):
            return []
        name = self.made.points.within.setdefault(window, f"WITHIN {window[0]}..{window[1]}")
        self.made.silent.add(name)
        return [RelationAtom(name, (time,))]

    def sometime(self, rows: AtomRows, window: PointWindow) -> str:
        """The relation of A IN W."""
        if window == (0, 0):
            return self.now(rows)
        name = f"{rows.name} IN {window[0]}..{window[1]}"
        if self.is_new(name):
            self.means(name, RelationKind.SOMETIME, rows, window)
            self.feed(rows, name, window)
            self.add_background(rows, name, window)
            for head, put in self.origins.heads_of(rows):
                own, general = self.origins.generic(rows, head)
                if put.is_plain and window[0] == 0:
                    self.rule(name, (RelationAtom(name, general),), [RelationAtom(self.derived_now(head), own)])
                if put.windows:
                    body = [RelationAtom(f"{head.name} PUT", (*own, Var("t"))), *self.within(window, put.windows, Var("t"))]
                    self.rule(name, (RelationAtom(name, general),), body)
        return name

    def add_background(self, rows: AtomRows, relation: str, window: PointWindow) -> None:
        """Adds atoms of B, which hold in a window that has a point: from k₁ + α on."""
        if window[0] == 0:
            self.look_up(relation, rows)
        elif self.origins.of_background(rows).may_hold:
            _, row = self.origins.generic(rows, rows)
            self.rule(relation, (RelationAtom(relation, row),), [RelationAtom(self.background_relation(rows), row), *self._opened(window)])

    def _opened(self, window: PointWindow) -> list[JoinItem]:
        if window[0] == 0:
            return []
        return [RelationAtom(self.made.points.opened.setdefault(window[0], f"OPENED {window[0]}"), ())]

    def at(self, rows: AtomRows, window: PointWindow, *, with_b: bool = True) -> str:
        """The relation of A AT t IN W: rows of A, and t."""
        has_b = with_b and self.origins.of_background(rows).may_hold
        name = f"{rows.name} AT {window[0]}..{window[1]}{' OR OF B' if has_b else ''}"
        if self.is_new(name):
            self.means(name, RelationKind.AT, rows, window)
            self.feed(rows, name, window, with_time=True)
            time = Var("t")
            if has_b:
                _, row = self.origins.generic(rows, rows)
                self.rule(
                    name, (RelationAtom(name, (*row, time)),), [RelationAtom(self.background_relation(rows), row), self.each(window, time)]
                )
            for head, put in self.origins.heads_of(rows):
                own, general = self.origins.generic(rows, head)
                if put.is_plain and window[0] == 0:
                    self.made.points.has_now = True
                    self.made.dense = FOREVER
                    body = [RelationAtom(self.derived_now(head), own), RelationAtom(NOW, (time,))]
                    self.rule(name, (RelationAtom(name, (*general, time)),), body)
                if put.windows:
                    body = [
                        RelationAtom(f"{head.name} PUT", (*own, time)),
                        *cast("list[RelationAtom]", self.within(window, put.windows, time)),
                    ]
                    self.rule(name, (RelationAtom(name, (*general, time)),), body)
        return name

    def each(self, window: PointWindow, time: Slot) -> RelationAtom:
        """The times of all points of a window."""
        self.made.dense = FOREVER
        return RelationAtom(self.made.points.each.setdefault(window, f"EACH {window[0]}..{window[1]}"), (time,))

    def latest(self, window: PointWindow, time: Slot) -> RelationAtom:
        """The time of the last point of a window."""
        relation = self.made.points.latest.setdefault(window[0], f"LATEST {window[0]}")
        self.made.silent.add(relation)
        return RelationAtom(relation, (time,))

    def points_of(self, window: TimeWindow) -> PointWindow:
        """The least and the greatest distance of a window's points."""
        return window.reach(self._file.resolution)

    def items_of_sometime(self, atom: LarsAtom, window: PointWindow) -> list[JoinItem]:
        """A IN W, as items of a body."""
        rows = rows_of_atom(atom)
        if self._file.is_background(atom):
            return [RelationAtom(self.background_relation(rows), rows.slots(atom)), *self._opened(window)]
        return [RelationAtom(self.sometime(rows, window), rows.slots(atom))]
