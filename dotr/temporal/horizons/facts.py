"""Held facts with their horizons, indexed for joins.

Idea: a fact has one *cell*, a list of six fields: its horizon now, its horizon at the last point,
the greatest horizon of its insertions, its horizon as a single step of a transitive property, the
fact, and a bit for each view that contains it. All indexes and calendars share the cell, so that a
renewal writes one number, and expiry needs no look-up.

    by_subject[<p>][<a>] = {<b>: cell of (a, p, b)}     by_object[<p>][<b>] = {<a>: the same cell}

Joins skip a cell whose horizon is too small. An expired fact is removed from the indexes later,
unless it is renewed before.

Invariant: every fact of `cells` is in all indexes that exist, and no other; tables of predicates
are never replaced, since generated joins refer to them.

Cost: five dictionary entries a triple; a constant time each to add, renew and remove.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, TypeAlias, cast

from dotr.evaluation.triples.index import TripleIndex
from dotr.model.terms import Term, Triple
from dotr.temporal.horizons.rules import NEVER, STATIC, FactRow, RelationFact, WindowFact

HorizonCell: TypeAlias = list[Any]
NOW: Final = 0
BEFORE: Final = 1
INSERTED: Final = 2
STEP: Final = 3
FACT: Final = 4
VIEWS: Final = 5
"""Indexes of the fields of a cell."""

CellEnds: TypeAlias = dict[Term, dict[Term, HorizonCell]]
Renewal: TypeAlias = tuple[WindowFact, int, int]
"""A fact that was held already, its earlier horizon, and its earlier horizon as a step."""

CellRows: TypeAlias = dict[Any, dict[FactRow, HorizonCell]]

NEVER_CELL: Final[HorizonCell] = [NEVER, NEVER, NEVER, NEVER, None, 0]
STATIC_CELL: Final[HorizonCell] = [STATIC, STATIC, STATIC, STATIC, None, 0]


def key_getter(columns: tuple[int, ...]) -> Callable[[FactRow], Any]:
    """Function from a row to its key in some columns: one term, a tuple of terms, or ().

    >>> key_getter((1,))(("a", "b")), key_getter((1, 0))(("a", "b")), key_getter(())(("a",))
    ('b', ('b', 'a'), ())
    """
    return itemgetter(*columns) if columns else lambda row: ()


class StaticRows(Collection[FactRow]):
    """The rows of a relation, looked up in another index instead of copied."""

    @abstractmethod
    def table(self, columns: tuple[int, ...]) -> Mapping[Any, list[FactRow]]:
        """The rows by their key in some columns (`key_getter`); callers use `get` alone."""


class StaticFacts:
    """Static facts: an index of triples, in memory or mapped, and rows of relations.

    >>> static = StaticFacts(TripleIndex([("<a>", "<p>", "<b>")]), {"R": [("<a>", "<b>")]})
    >>> ("<a>", "<p>", "<b>") in static, ("R", ("<b>", "<a>")) in static
    (True, False)
    >>> static.table("R", (0,))
    {'<a>': [('<a>', '<b>')]}
    """

    def __init__(self, triples: TripleIndex | None = None, rows: Mapping[str, Iterable[FactRow]] | None = None) -> None:
        self.triples = TripleIndex() if triples is None else triples
        self.rows: dict[str, Collection[FactRow]] = {
            relation: each if isinstance(each, StaticRows) else set(each) for relation, each in (rows or {}).items()
        }
        self._tables: dict[tuple[str, tuple[int, ...]], dict[Any, list[FactRow]]] = {}

    def table(self, relation: str, columns: tuple[int, ...]) -> Mapping[Any, list[FactRow]]:
        """Rows of a relation by their key in some columns (`key_getter`), sorted; read-only."""
        rows = self.rows.get(relation)
        if isinstance(rows, StaticRows):
            return rows.table(columns)
        table = self._tables.get((relation, columns))
        if table is None:
            table = self._tables[relation, columns] = {}
            get = key_getter(columns)
            for row in sorted(self.rows.get(relation, ())):
                table.setdefault(get(row), []).append(row)
        return table

    def __contains__(self, fact: WindowFact) -> bool:
        if len(fact) == 3:
            return fact in self.triples.triples
        relation, row = fact
        return row in self.rows.get(relation, ())


class HeldFacts:
    """Cells of facts, with the indexes that joins use.

    >>> held = HeldFacts()
    >>> fact = ("<a>", "<p>", "<b>")
    >>> here: list[HorizonCell] = []
    >>> new, renewed = held.settle([fact], 7, 7, 7, here)
    >>> held.by_object["<p>"]["<b>"]["<a>"][NOW], held.remove_before(here, 7), held.remove_before(here, 8)
    (7, [], [('<a>', '<p>', '<b>')])
    >>> held.by_object, held.cells
    ({'<p>': {}}, {})
    """

    def __init__(self) -> None:
        self.cells: dict[WindowFact, HorizonCell] = {}
        self.by_subject: dict[Term, CellEnds] = {}
        self.by_object: dict[Term, CellEnds] = {}
        self._ends_of: dict[Term, tuple[CellEnds, CellEnds]] = {}  # both tables of a predicate
        self._from: dict[Term, dict[tuple[Term, Term], HorizonCell]] | None = None
        self._to: dict[Term, dict[tuple[Term, Term], HorizonCell]] | None = None
        self._tables: dict[str, list[tuple[tuple[int, ...], Callable[[FactRow], Any], CellRows]]] = {}

    def ends(self, predicate: Term, *, by_subject: bool) -> CellEnds:
        """The table of a predicate; the same object at every call, so that joins may refer to
        it."""
        both = self._ends_of.get(predicate) or self._new_ends(predicate)
        return both[0] if by_subject else both[1]

    def _new_ends(self, predicate: Term) -> tuple[CellEnds, CellEnds]:
        both = self._ends_of[predicate] = ({}, {})
        self.by_subject[predicate], self.by_object[predicate] = both
        return both

    def table(self, relation: str, columns: tuple[int, ...]) -> CellRows:
        """Rows of a relation by their key in some columns (`key_getter`); the same object at every
        call. The first call for some columns builds the table.
        """
        tables = self._tables.setdefault(relation, [])
        for indexed, _, table in tables:
            if indexed == columns:
                return table
        get, new_table = key_getter(columns), CellRows()
        for fact, cell in self.cells.items():
            if len(fact) == 2 and fact[0] == relation:
                new_table.setdefault(get(fact[1]), {})[fact[1]] = cell
        tables.append((columns, get, new_table))
        return new_table

    @property
    def edges_from(self) -> dict[Term, dict[tuple[Term, Term], HorizonCell]]:
        """Subject -> (predicate, object) -> cell; built at the first use."""
        if self._from is None:
            self._build_edges()
        return cast("dict[Term, dict[tuple[Term, Term], HorizonCell]]", self._from)

    @property
    def edges_to(self) -> dict[Term, dict[tuple[Term, Term], HorizonCell]]:
        """Object -> (subject, predicate) -> cell; built at the first use."""
        if self._to is None:
            self._build_edges()
        return cast("dict[Term, dict[tuple[Term, Term], HorizonCell]]", self._to)

    def _build_edges(self) -> None:
        self._from, self._to = {}, {}
        for triple, cell in self.triples():
            self._from.setdefault(triple[0], {})[triple[1:]] = cell
            self._to.setdefault(triple[2], {})[triple[:2]] = cell

    def clear(self) -> None:
        """Removes all facts; tables stay the same objects."""
        self.cells.clear()
        for tables in (self.by_subject, self.by_object):
            for ends in tables.values():
                ends.clear()
        for accesses in self._tables.values():
            for _, _, table in accesses:
                table.clear()
        if self._from is not None and self._to is not None:
            self._from.clear()
            self._to.clear()

    def triples(self) -> Iterator[tuple[Triple, HorizonCell]]:
        """All triples with their cells."""
        for fact, cell in self.cells.items():
            if len(fact) == 3:
                yield fact, cell

    def rows(self, relation: str) -> Iterator[tuple[FactRow, HorizonCell]]:
        """All rows of a relation with their cells."""
        return iter(self.table(relation, ()).get((), {}).items())

    def settle(
        self, facts: Iterable[WindowFact], h: int, inserted: int, step: int, here: list[HorizonCell]
    ) -> tuple[dict[str, list[WindowFact]], list[Renewal]]:
        """Raises the horizon of facts to `h` where it is less; returns the new facts by predicate
        or relation, and the renewals of facts that were held already.

        `inserted`: h if the facts are inserted, else `NEVER`; `step`: `NEVER` if they are paths of
        a transitive property, else h. The cells whose horizon was raised are added to `here`.

        >>> held = HeldFacts()
        >>> held.settle([("<a>", "<p>", "<b>")], 5, 5, 5, []), held.settle([("<a>", "<p>", "<b>")], 4, NEVER, 4, [])
        (({'<p>': [('<a>', '<p>', '<b>')]}, []), ({}, []))
        >>> held.settle([("<a>", "<p>", "<b>")], 7, NEVER, 7, [])
        ({}, [(('<a>', '<p>', '<b>'), 5, 5)])
        """
        has_edges = self._from is not None
        add = self.cells.setdefault
        ends_of = self._ends_of
        new: dict[str, list[WindowFact]] = {}
        renewed: list[Renewal] = []
        group: list[WindowFact] = []
        to_objects: CellEnds | None = None
        last = ""
        for fact in facts:
            fresh = [h, NEVER, inserted, step, fact, 0]
            cell = add(fact, fresh)
            if cell is not fresh:
                now, as_step = cell[NOW], cell[STEP]
                if inserted > cell[INSERTED]:
                    cell[INSERTED] = inserted
                if now < h or as_step < step:
                    renewed.append((fact, now, as_step))
                    if now < h:
                        cell[NOW] = h
                        here.append(cell)
                    if as_step < step:
                        cell[STEP] = step
                continue
            here.append(cell)
            name = fact[-2]  # the predicate of a triple, the relation of a row
            if name != last:  # consecutive facts mostly share the name, so tables are looked up once
                last = name
                if name in new:
                    group = new[name]
                else:
                    group = new[name] = []
                if name in ends_of:
                    to_objects, to_subjects = ends_of[name]
                elif len(fact) == 3:
                    to_objects, to_subjects = self._new_ends(name)
                else:
                    to_objects = None
            group.append(fact)
            if to_objects is None:
                self._add_row(cast(RelationFact, fact), cell)
                continue
            subject, object = fact[0], fact[2]  # type: ignore[misc]
            others = to_objects.get(subject)
            if others is None:
                to_objects[subject] = {object: cell}
            else:
                others[object] = cell
            others = to_subjects.get(object)
            if others is None:
                to_subjects[object] = {subject: cell}
            else:
                others[subject] = cell
            if has_edges:
                self.edges_from.setdefault(subject, {})[name, object] = cell
                self.edges_to.setdefault(object, {})[subject, name] = cell
        return new, renewed

    def _add_row(self, fact: RelationFact, cell: HorizonCell) -> None:
        relation, row = fact
        for _, get, table in self._tables.get(relation, ()):
            key = get(row)
            rows = table.get(key)
            if rows is None:
                table[key] = {row: cell}
            else:
                rows[row] = cell

    def remove_before(self, some: Iterable[HorizonCell], k: int) -> list[WindowFact]:
        """Removes, of the facts of some cells, those with a horizon before `k`; returns them.

        The cell of a removed fact has the horizon `NEVER`, and is no longer used if the fact
        returns.
        """
        cells, ends_of = self.cells, self._ends_of
        has_edges = self._from is not None
        removed: list[WindowFact] = []
        for cell in some:
            if not NEVER < cell[NOW] < k:
                continue
            cell[NOW] = NEVER
            fact: WindowFact = cell[FACT]
            removed.append(fact)
            del cells[fact]
            if len(fact) != 3:
                for _, get_key, table in self._tables.get(fact[0], ()):
                    _discard(table, get_key(fact[1]), fact[1])
                continue
            subject, predicate, object = fact
            to_objects, to_subjects = ends_of[predicate]
            others = to_objects[subject]
            if len(others) == 1:
                del to_objects[subject]
            else:
                del others[object]
            others = to_subjects[object]
            if len(others) == 1:
                del to_subjects[object]
            else:
                del others[subject]
            if has_edges:
                _discard(self.edges_from, subject, (predicate, object))
                _discard(self.edges_to, object, (subject, predicate))
        return removed


def _discard(table: dict[Any, dict[Any, HorizonCell]], key: Any, item: Any) -> None:
    items = table[key]
    if len(items) == 1:
        del table[key]
    else:
        del items[item]
