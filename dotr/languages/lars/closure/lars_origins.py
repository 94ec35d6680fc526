"""Origins of the atoms of a LARS file: the heads of rules that may conclude them, and B.

A small case: with the rules `Hot(?r) AT ?t :- :temp(?r, ?v) AT ?t IN [5 s]` and `Hot(?r) :- …`, the
atom `Hot(?x)` has the origins of a plain head, and of a head with AT whose point lies in 0..5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.lars.closure.relations import PointWindow
from dotr.languages.lars.closure.rows import AtomRows, BackgroundRows, rows_of_atom
from dotr.languages.lars.model import At, LarsAtom, LarsFile, LarsLiteral, OwnRelation, TimeWindow, may_share
from dotr.model.algebra import Const, Slot, Var
from dotr.model.datalog import RelationAtom
from dotr.model.terms import Variable
from dotr.temporal.horizons.rules import FactRow


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
