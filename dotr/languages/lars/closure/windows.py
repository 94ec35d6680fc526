"""Relations of atoms in time windows: of the point itself, IN and AT.

A small case: with rules for `Hot` and for `Hot AT ?t`, the first `Hot IN [3 s]` creates the
relation `own Hot IN 0..3` and a rule from each of the two heads; a second one reuses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.lars.closure.relations import EACH_POINT, NOW, LarsRules, PointWindow, RelationKind, RelationMeaning, WindowFeed
from dotr.languages.lars.closure.rows import AtomRows, BackgroundRows, rows_of_atom
from dotr.languages.lars.model import At, LarsAtom, LarsFile, LarsLiteral, OwnRelation, TimeWindow, may_share
from dotr.model.algebra import Const, Slot, Var
from dotr.model.datalog import RelationAtom
from dotr.model.terms import Variable
from dotr.temporal.horizons.rules import FOREVER, FactRow, WindowRule


class WindowRelations:
    """The relations of atoms in time windows, with the rules and feeds of their rows.

    `compiled`: the compiled file, to which relations, rules and feeds are added.
    """

    def __init__(self, file: LarsFile, origins: AtomOrigins) -> None:
        self.compiled: Final = LarsRules()
        self.origins: Final = origins
        self._file = file
        self._known: set[str] = set()

    def add_static_rows(self, relation: str, rows: AtomRows) -> None:
        """Makes the atoms of B static rows of a relation."""
        if self.origins.of_background(rows).may_hold:
            self.compiled.static.rows[relation] = self.origins.of_background(rows)

    def background_relation(self, rows: AtomRows) -> str:
        """The relation of the atoms of B alone."""
        name = f"{rows.name} OF B"
        self.note_meaning(name, RelationKind.BACKGROUND, rows)
        self.compiled.static.rows[name] = self.origins.of_background(rows)
        return name

    def is_new(self, relation: str) -> bool:
        """True at the first call for a relation, which must then get its rules."""
        if relation in self._known:
            return False
        self._known.add(relation)
        return True

    def note_meaning(self, relation: str, kind: RelationKind, rows: AtomRows, window: PointWindow | str | None = None) -> None:
        """Records the meaning of a relation's rows."""
        self.compiled.meanings[relation] = RelationMeaning(kind, rows, window)

    def rule(self, name: str, head: tuple[RelationAtom, ...], body: Sequence[JoinItem]) -> None:
        """Adds a rule; if all premises may be of B, with the premise that holds at every point."""
        atoms = [item for item in body if isinstance(item, RelationAtom)]
        if all(atom.relation in self.compiled.static.rows for atom in atoms):
            body = (RelationAtom(EACH_POINT, ()), *body)
        self.compiled.rules.append(WindowRule(name, head, tuple(body)))

    def feed(self, rows: AtomRows, relation: str, window: PointWindow, *, with_time: bool = False) -> None:
        """Adds a feed: atoms of the stream enter a relation for the points of a window."""
        if not isinstance(rows.predicate, OwnRelation):
            self.compiled.windows.setdefault(rows, []).append(WindowFeed(relation, window, with_time))

    def derived_now(self, rows: AtomRows) -> str:
        """The relation of atoms that are derived at the point itself, without those of the
        stream."""
        name = rows.name
        if self.is_new(name):
            self.note_meaning(name, RelationKind.PRESENT, rows, (0, 0))
            self.add_static_rows(name, rows)
            for head, heads in self.origins.heads_of(rows):
                own, general = self.origins.generic(rows, head)
                if heads.is_plain and head != rows:
                    self.rule(name, (RelationAtom(name, general),), [RelationAtom(self.derived_now(head), own)])
                if heads.windows:
                    self.compiled.points.has_now = True
                    self.compiled.silent.add(NOW)
                    body = [RelationAtom(f"{head.name} PUT", (*own, Var("t"))), RelationAtom(NOW, (Var("t"),))]
                    self.rule(name, (RelationAtom(name, general),), body)
        return name

    def now(self, rows: AtomRows) -> str:
        """The relation of atoms that hold at the point itself."""
        name = self.derived_now(rows)
        if self.is_new(f"{name} fed"):
            self.feed(rows, name, (0, 0))
        return name

    def within(self, window: PointWindow, windows: Sequence[PointWindow | None], time: Slot) -> list[JoinItem]:
        """The items of a body that test that the point of a time lies in `window`; none if it
        contains `windows`, in which the point lies anyway.
        """
        if all(each is not None and window[0] <= each[0] and each[1] <= window[1] for each in windows):
            return []
        name = self.compiled.points.within.setdefault(window, f"WITHIN {window[0]}..{window[1]}")
        self.compiled.silent.add(name)
        return [RelationAtom(name, (time,))]

    def sometime(self, rows: AtomRows, window: PointWindow) -> str:
        """The relation of A IN W."""
        if window == (0, 0):
            return self.now(rows)
        name = f"{rows.name} IN {window[0]}..{window[1]}"
        if self.is_new(name):
            self.note_meaning(name, RelationKind.SOMETIME, rows, window)
            self.feed(rows, name, window)
            self.add_background(rows, name, window)
            for head, heads in self.origins.heads_of(rows):
                own, general = self.origins.generic(rows, head)
                if heads.is_plain and window[0] == 0:
                    self.rule(name, (RelationAtom(name, general),), [RelationAtom(self.derived_now(head), own)])
                if heads.windows:
                    body = [RelationAtom(f"{head.name} PUT", (*own, Var("t"))), *self.within(window, heads.windows, Var("t"))]
                    self.rule(name, (RelationAtom(name, general),), body)
        return name

    def add_background(self, rows: AtomRows, relation: str, window: PointWindow) -> None:
        """Adds the atoms of B to the relation of a window: they hold once it has a point, from k₁ +
        α on.
        """
        if window[0] == 0:
            self.add_static_rows(relation, rows)
        elif self.origins.of_background(rows).may_hold:
            _, row = self.origins.generic(rows, rows)
            self.rule(relation, (RelationAtom(relation, row),), [RelationAtom(self.background_relation(rows), row), *self._opened(window)])

    def _opened(self, window: PointWindow) -> list[JoinItem]:
        if window[0] == 0:
            return []
        return [RelationAtom(self.compiled.points.opened.setdefault(window[0], f"OPENED {window[0]}"), ())]

    def at(self, rows: AtomRows, window: PointWindow, *, with_b: bool = True) -> str:
        """The relation of A AT t IN W: rows of A, and t; `with_b`: with the atoms of B."""
        has_b = with_b and self.origins.of_background(rows).may_hold
        name = f"{rows.name} AT {window[0]}..{window[1]}{' OR OF B' if has_b else ''}"
        if self.is_new(name):
            self.note_meaning(name, RelationKind.AT, rows, window)
            self.feed(rows, name, window, with_time=True)
            time = Var("t")
            if has_b:
                _, row = self.origins.generic(rows, rows)
                self.rule(
                    name, (RelationAtom(name, (*row, time)),), [RelationAtom(self.background_relation(rows), row), self.each(window, time)]
                )
            for head, heads in self.origins.heads_of(rows):
                own, general = self.origins.generic(rows, head)
                if heads.is_plain and window[0] == 0:
                    self.compiled.points.has_now = True
                    self.compiled.dense = FOREVER
                    body = [RelationAtom(self.derived_now(head), own), RelationAtom(NOW, (time,))]
                    self.rule(name, (RelationAtom(name, (*general, time)),), body)
                if heads.windows:
                    body = [
                        RelationAtom(f"{head.name} PUT", (*own, time)),
                        *cast("list[RelationAtom]", self.within(window, heads.windows, time)),
                    ]
                    self.rule(name, (RelationAtom(name, (*general, time)),), body)
        return name

    def each(self, window: PointWindow, time: Slot) -> RelationAtom:
        """The atom of the times of all points of a window; every point is then evaluated."""
        self.compiled.dense = FOREVER
        return RelationAtom(self.compiled.points.each.setdefault(window, f"EACH {window[0]}..{window[1]}"), (time,))

    def latest(self, window: PointWindow, time: Slot) -> RelationAtom:
        """The atom of the time of a window's last point."""
        relation = self.compiled.points.latest.setdefault(window[0], f"LATEST {window[0]}")
        self.compiled.silent.add(relation)
        return RelationAtom(relation, (time,))

    def points_of(self, window: TimeWindow) -> PointWindow:
        """The least and the greatest distance of a window's points."""
        return window.reach(self._file.resolution)

    def items_of_sometime(self, atom: LarsAtom, window: PointWindow) -> list[JoinItem]:
        """The items of a body for A IN W."""
        rows = rows_of_atom(atom)
        if self._file.is_background(atom):
            return [RelationAtom(self.background_relation(rows), rows.slots(atom)), *self._opened(window)]
        return [RelationAtom(self.sometime(rows, window), rows.slots(atom))]


# Origins of the atoms of a LARS file: the heads of rules that may conclude them, and B.
#
# A small case: with the rules `Hot(?r) AT ?t :- :temp(?r, ?v) AT ?t IN [5 s]` and `Hot(?r) :- …`, the
# atom `Hot(?x)` has the origins of a plain head, and of a head with AT whose point lies in 0..5.


class HeadsOfRows(NamedTuple):
    """The heads of a predicate.

    `is_plain`: there is a head without AT. `windows`: for each head with AT, the window of the
    points at which it concludes; None: any point.
    """

    is_plain: bool
    windows: tuple[PointWindow | None, ...]


class AtomOrigins:
    """The heads and the atoms of B from which atoms of some rows may originate, in a file over a
    closed background.
    """

    def __init__(self, file: LarsFile, background: TripleIndex) -> None:
        self._file = file
        self._index = background
        self._b_rows: dict[AtomRows, BackgroundRows] = {}
        self._heads: dict[AtomRows, HeadsOfRows] = {}
        self._arity: dict[str, int] = {}
        self._note_arities()
        self._note_heads()

    def _note_arities(self) -> None:
        atoms: list[LarsAtom] = [atom for literal in self._file.literals for atom in literal.atoms]
        atoms += [head.atom for rule in self._file.rules for head in rule.heads]
        atoms += [fact.atom for fact in self._file.facts]
        for atom in atoms:
            if isinstance(atom, RelationAtom):
                self._arity[atom.relation] = len(atom.slots)

    def _note_heads(self) -> None:
        for rule in self._file.rules:
            windows = self._windows_of_times(rule.literals)
            for head in rule.heads:
                rows = rows_of_atom(head.atom)
                is_plain, at_windows = self._heads.get(rows, HeadsOfRows(False, ()))
                if head.at is None:
                    self._heads[rows] = HeadsOfRows(True, at_windows)
                else:
                    self._heads[rows] = HeadsOfRows(is_plain, (*at_windows, windows.get(head.at)))

    def _windows_of_times(self, literals: Iterable[LarsLiteral]) -> dict[Variable, PointWindow]:
        """The window that contains the point of each time variable: the intersection of its AT
        windows.
        """
        found: dict[Variable, PointWindow] = {}
        for literal in literals:
            if isinstance(literal.reach, At) and isinstance(literal.reach.time, Var) and isinstance(literal.reach.window, TimeWindow):
                least, greatest = literal.reach.window.reach(self._file.resolution)
                known = found.get(literal.reach.time.name, (least, greatest))
                found[literal.reach.time.name] = max(least, known[0]), min(greatest, known[1])
        return found

    def heads_of(self, rows: AtomRows) -> Iterator[tuple[AtomRows, HeadsOfRows]]:
        """The rows of heads that may conclude an atom of these rows, each with its heads."""
        for head, heads in self._heads.items():
            if may_share(rows.predicate, head.predicate):
                yield head, heads

    def is_derived(self, rows: AtomRows) -> bool:
        """True if a head may conclude an atom of these rows."""
        return next(self.heads_of(rows), None) is not None

    def generic(self, rows: AtomRows, of: AtomRows) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """The row of a generic atom of the rows `of`, and its row as an atom of the more general
        `rows`.
        """
        name = of.predicate.name if isinstance(of.predicate, OwnRelation) else ""
        atom = of.generic(self._arity.get(name, 0))
        return of.slots(atom), rows.slots(atom)

    def of_background(self, rows: AtomRows) -> BackgroundRows:
        """The atoms of B in these rows: those of the closed background, and facts of the file."""
        found = self._b_rows.get(rows)
        if found is None:
            facts = [
                cast(FactRow, tuple(cast(Const, slot).term for slot in rows.slots(fact.atom)))
                for fact in self._file.facts
                if may_share(rows.predicate, rows_of_atom(fact.atom).predicate)
            ]
            found = self._b_rows[rows] = BackgroundRows(rows, self._index, facts)
        return found
