"""Origins of the atoms of a LARS file: the heads of its rules that conclude them, and B."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from dotr.horizons.lars_relations import PointWindow
from dotr.horizons.lars_rows import AtomRows, BackgroundRows, rows_of_atom
from dotr.horizons.rules import FactRow
from dotr.model.algebra import Const, Slot, Var
from dotr.model.datalog import RelationAtom
from dotr.model.lars import At, LarsAtom, LarsFile, LarsLiteral, OwnRelation, TimeWindow, may_share
from dotr.model.terms import Variable
from dotr.store.triples import TripleIndex


class HeadsOfRows(NamedTuple):
    """The heads of a predicate: whether one has no AT, and the windows of those that have (None: of
    any length).
    """

    is_plain: bool
    windows: tuple[PointWindow | None, ...]


class AtomOrigins:
    """The heads and the atoms of B that atoms of some rows may come from, in a file over a closed
    background.
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
                is_plain, puts = self._heads.get(rows, HeadsOfRows(False, ()))
                if head.at is None:
                    self._heads[rows] = HeadsOfRows(True, puts)
                else:
                    self._heads[rows] = HeadsOfRows(is_plain, (*puts, windows.get(head.at)))

    def _windows_of_times(self, literals: Iterable[LarsLiteral]) -> dict[Variable, PointWindow]:
        """The window in which the point with a time lies."""
        found: dict[Variable, PointWindow] = {}
        for literal in literals:
            if isinstance(literal.reach, At) and isinstance(literal.reach.time, Var) and isinstance(literal.reach.window, TimeWindow):
                least, greatest = literal.reach.window.reach(self._file.resolution)
                known = found.get(literal.reach.time.name, (least, greatest))
                found[literal.reach.time.name] = max(least, known[0]), min(greatest, known[1])
        return found

    def heads_of(self, rows: AtomRows) -> Iterator[tuple[AtomRows, HeadsOfRows]]:
        """The heads that may give an atom of these rows."""
        for head, put in self._heads.items():
            if may_share(rows.predicate, head.predicate):
                yield head, put

    def is_derived(self, rows: AtomRows) -> bool:
        """True if a head may give an atom of these rows."""
        return next(self.heads_of(rows), None) is not None

    def generic(self, rows: AtomRows, of: AtomRows) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """The row of a head's atom, and that of the same atom as one of more general rows."""
        name = of.predicate.name if isinstance(of.predicate, OwnRelation) else ""
        atom = of.generic(self._arity.get(name, 0))
        return of.slots(atom), rows.slots(atom)

    def of_background(self, rows: AtomRows) -> BackgroundRows:
        """The atoms that B has of these rows: of the closed background, and facts of the file."""
        found = self._b_rows.get(rows)
        if found is None:
            facts = [
                cast(FactRow, tuple(cast(Const, slot).term for slot in rows.slots(fact.atom)))
                for fact in self._file.facts
                if may_share(rows.predicate, rows_of_atom(fact.atom).predicate)
            ]
            found = self._b_rows[rows] = BackgroundRows(rows, self._index, facts)
        return found
