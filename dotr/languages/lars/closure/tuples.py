"""Relations of atoms in tuple windows, the counts that feed them, and the points of each window.

A small case: `:temp(?r, ?v) IN [LAST 3 PER ?r]` reads the relation `property <temp> LAST 0 IN`,
which count 0 feeds: the last three pairs of an atom of `:temp` and a point for each value of ?r.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from dotr.evaluation.joins.order import JoinItem
from dotr.languages.lars.closure.counts import CountedWindow, TupleCount
from dotr.languages.lars.closure.relations import CountFeed, RelationKind
from dotr.languages.lars.closure.rows import AtomRows, fits, rows_of_atom
from dotr.languages.lars.closure.windows import WindowRelations
from dotr.languages.lars.model import Always, At, Counted, EventName, LarsAtom, LarsFile, Sometime, TupleWindow
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.datalog import RelationAtom
from dotr.model.terms import Term, Variable
from dotr.temporal.horizons.rules import FOREVER, FactRow

_ALL_TRIPLES: Final = rows_of_atom(TriplePattern(Var("s"), Var("p"), Var("o"))).predicate


class TupleRelations:
    """The relations of atoms in tuple windows; windows that count the same atoms share a count."""

    def __init__(self, file: LarsFile, windows: WindowRelations) -> None:
        self._file = file
        self._windows = windows
        self._compiled = windows.compiled
        self._origins = windows.origins
        self._counts: dict[tuple[object, ...], CountFeed] = {}

    def _count(self, atom: LarsAtom, window: TupleWindow) -> tuple[AtomRows, CountFeed]:
        rows = rows_of_atom(atom)
        slots = rows.slots(atom)
        is_all = window.counted is Counted.ALL
        rows_counted, shape = (AtomRows(_ALL_TRIPLES), None) if is_all else (rows, _shape(slots))
        per = tuple(_column_of(slots, name) for name in window.per)
        label = rows.predicate.label if isinstance(rows.predicate, EventName) else None
        key = (is_all, window.count, rows_counted, shape, per)
        feed = self._counts.get(key)
        if feed is None:
            test = None if is_all else fits(slots)
            number = len(self._compiled.counts)
            feed = self._counts[key] = CountFeed(TupleCount(number, window.count, label, _grouping(rows_counted, test, per)), is_all)
            self._compiled.counts.append(feed)
        return rows, feed

    def _counted_window(self, atom: LarsAtom, window: TupleWindow) -> CountedWindow:
        rows, feed = self._count(atom, window)
        found = next((each for each in feed.windows if each.rows == rows), None)
        if found is None:
            found = CountedWindow(rows, f"{rows.name} LAST {feed.count.number}", rows.row_of_atom)
            feed.windows.append(found)
        return found

    def items(self, atom: LarsAtom, reach: Sometime | Always | At, window: TupleWindow) -> list[JoinItem]:
        """The items of a body for a literal over a tuple window."""
        rows = rows_of_atom(atom)
        slots = rows.slots(atom)
        if self._file.is_background(atom) and not isinstance(reach, At):
            return self._windows.items_of_sometime(atom, (0, 0))  # a tuple window contains the point itself
        counted = self._counted_window(atom, window)
        if self._file.is_background(atom) and isinstance(reach, At):
            return [RelationAtom(self._windows.background_relation(rows), slots), self._points_of(counted, atom, window, slots, reach.time)]
        match reach:
            case Sometime():
                counted.has_in = True
                self._windows.note_meaning(counted.sometime, RelationKind.SOMETIME, rows, counted.name)
                self._windows.add_static_rows(counted.sometime, rows)
                return [RelationAtom(counted.sometime, slots)]
            case Always():
                counted.has_always = True
                self._windows.note_meaning(counted.always, RelationKind.ALWAYS, rows, counted.name)
                self._windows.add_static_rows(counted.always, rows)
                return [RelationAtom(counted.always, slots)]
            case At(time, _):
                counted.has_at = True
                self._windows.note_meaning(counted.at, RelationKind.AT, rows, counted.name)
                if self._origins.of_background(rows).may_hold and self._windows.is_new(counted.at):
                    _, row = self._origins.generic(rows, rows)
                    points = self._points_of(counted, atom, window, row, Var("t"))
                    self._windows.rule(
                        counted.at,
                        (RelationAtom(counted.at, (*row, Var("t"))),),
                        [RelationAtom(self._windows.background_relation(rows), row), points],
                    )
                return [RelationAtom(counted.at, (*slots, time))]
            case _:
                assert_never(reach)

    def _points_of(self, counted: CountedWindow, atom: LarsAtom, window: TupleWindow, row: tuple[Slot, ...], time: Slot) -> RelationAtom:
        """The atom of the points of a tuple window: the values of PER in the row of an atom of B,
        and the time of a point.
        """
        rows = counted.rows
        slots = rows.slots(atom)
        columns = tuple(_column_of(slots, name) for name in window.per)
        test = None if window.counted is Counted.ALL else fits(slots)
        groups = {tuple([each[column] for column in columns]) for each in self._origins.of_background(rows) if test is None or test(each)}
        counted.groups_of_b = tuple(sorted(groups.union(counted.groups_of_b)))
        self._compiled.dense = FOREVER
        return RelationAtom(counted.points, (*(row[column] for column in columns), time))


def _grouping(rows: AtomRows, test: Callable[[FactRow], bool] | None, per: tuple[int, ...]) -> Callable[[FactRow], FactRow | None]:
    """The function from an atom to its group, the terms of the columns `per`; to None for an atom
    of other rows, or one that fails the test.
    """

    def group(atom: FactRow) -> FactRow | None:
        row = rows.row_of_atom(atom)
        if row is None or (test is not None and not test(row)):
            return None
        return tuple([row[column] for column in per])

    return group


def _shape(slots: tuple[Slot, ...]) -> tuple[Term | int, ...]:
    """The slots without names of variables: constants, and for a variable its first column."""
    return tuple(slot.term if isinstance(slot, Const) else _column_of(slots, slot.name) for slot in slots)


def _column_of(slots: tuple[Slot, ...], name: Variable) -> int:
    return next(column for column, slot in enumerate(slots) if isinstance(slot, Var) and slot.name == name)
