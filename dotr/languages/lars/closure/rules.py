"""Compilation of a LARS file to rules over relations, for the horizon closure.

Idea (lars.md, section 6): an atom in a window is an atom of a separate relation, W(A) or W(A, u),
that holds from u + α to u + β. Atoms of the stream are inserted into it
(`dotr.languages.lars.closure.maintained`), derived atoms are concluded by further rules, atoms of B
are looked up.

`Hot(?r) AT ?t :- :temp(?r, ?v) AT ?t IN [5 s], FILTER(?v > 60)` and `Busy(?r) :- Hot(?r) IN [3 s]`
become, with α … β counted in points,

    own Hot PUT (?r, ?t) :- property <temp> AT 0..5 (?r, ?v, ?t), FILTER(?v > 60)
    own Hot IN 0..3 (?r) :- own Hot PUT (?r, ?t), WITHIN 0..3 (?t)
    own Busy (?r)        :- own Hot IN 0..3 (?r)

and WITHIN 0..3 (t) is inserted for each point with time t; it is left out where the window contains
all points at which the head may conclude.

ALWAYS over derived atoms: RUN j (A, t) means that A holds at 2ʲ points from that of time t on, and
two such runs cover a window. SINCE is a disjunction: its second atom holds at the point itself, or
at an earlier point with a run of the first atom after it. A rule with SINCE becomes two or more
rules.

A rule whose premises may all be of B gets the premise EACH POINT, which holds at every point, since
the closure concludes nothing from static facts alone.

Relations are created at their first use: of time windows in `dotr.languages.lars.closure.windows`,
of runs in `dotr.languages.lars.closure.rules`, of tuple windows below. Origins of atoms are in
`lars_origins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, assert_never, cast

from dotr.evaluation.joins.order import JoinItem
from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.lars.closure.counts import CountedWindow, TupleCount
from dotr.languages.lars.closure.relations import NOW, CountFeed, LarsRules, PointWindow, RelationKind, ReportedRows, RunFeed
from dotr.languages.lars.closure.rows import AtomRows, fits, rows_of_atom
from dotr.languages.lars.closure.windows import AtomOrigins, WindowRelations
from dotr.languages.lars.model import (
    Always,
    At,
    Counted,
    DerivedAtom,
    EventName,
    LarsAtom,
    LarsFile,
    LarsLiteral,
    LarsNot,
    LarsReport,
    OwnRelation,
    Since,
    Sometime,
    TimeWindow,
    TupleWindow,
)
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, Not, RelationAtom
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock
from dotr.model.traverse import free_variables
from dotr.temporal.horizons.rules import FOREVER, FactRow, Point

# Relations of atoms that hold at every point of a window, for ALWAYS and SINCE.
#
# Idea: of atoms of the stream alone, the run up to the last point decides
# (`dotr.languages.lars.closure.rules`). Derived atoms at past points may begin and end, so their
# runs are joined: RUN j (A, t) means that A holds at 2ʲ points from that of time t on, and two such
# runs cover a window.
#
# A small case, A ALWAYS IN a window of three points: A RUN 1 at its first point and at its second
# point, each of two points, cover the window.
#
# Cost: at most log₂ of a window's length joins for each atom and point, instead of its length.


class RunRelations:
    """The relations of atoms in runs of points.

    `is_comparable`: times of points can be compared with `<=`.
    """

    def __init__(self, windows: WindowRelations, *, is_comparable: bool) -> None:
        self._windows = windows
        self._compiled = windows.compiled
        self._origins = windows.origins
        self._is_comparable = is_comparable

    def always(self, rows: AtomRows, window: PointWindow) -> str:
        """The relation of A ALWAYS IN W."""
        if window == (0, 0):
            return self._windows.now(rows)
        name = f"{rows.name} ALWAYS {window[0]}..{window[1]}"
        if self._windows.is_new(name):
            self._windows.note_meaning(name, RelationKind.ALWAYS, rows, window)
            self._windows.add_background(rows, name, window)
            if not self._origins.is_derived(rows):
                if not isinstance(rows.predicate, OwnRelation):
                    self._compiled.runs.setdefault(rows, []).append(RunFeed(name, window))
            else:
                self._always_derived(rows, window, name)
        return name

    def _always_derived(self, rows: AtomRows, window: PointWindow, name: str) -> None:
        """Adds the rules of a derived atom: two runs of 2ʲ points cover a window."""
        _, row = self._origins.generic(rows, rows)
        levels = (window[1] - window[0] + 1).bit_length()
        runs = self._runs(rows, window[1], levels)
        spans = self._compiled.points.spans.setdefault(window, [f"SPAN {window[0]}..{window[1]} {j}" for j in range(levels)])
        if window[0] or any(heads.is_plain for _, heads in self._origins.heads_of(rows)):
            self._compiled.dense = max(self._compiled.dense, window[1])
        first, second = Var("t0"), Var("t1")
        for span, run in zip(spans, runs, strict=False):
            self._compiled.silent.add(span)
            body = [RelationAtom(span, (first, second)), RelationAtom(run, (*row, first)), RelationAtom(run, (*row, second))]
            self._windows.rule(name, (RelationAtom(name, row),), body)

    def _runs(self, rows: AtomRows, greatest: int, levels: int) -> list[str]:
        """The relations RUN j (A, t) for each j below `levels`: A holds at 2ʲ points from that of
        time t on, which is at most `greatest` points back.
        """
        names = [f"{rows.name} RUN 0..{greatest} {j}" for j in range(levels)]
        self._compiled.reach = max(self._compiled.reach, greatest)
        time, later = Var("t"), Var("t1")
        _, row = self._origins.generic(rows, rows)
        for j, name in enumerate(names):
            if not self._windows.is_new(name):
                continue
            self._windows.note_meaning(name, RelationKind.AT if j == 0 else RelationKind.RUN, rows, (0, greatest))
            if j:
                step = self._compiled.points.steps.setdefault((greatest, j - 1), f"STEP 0..{greatest} {j - 1}")
                self._compiled.silent.add(step)
                body = [
                    RelationAtom(names[j - 1], (*row, time)),
                    RelationAtom(step, (time, later)),
                    RelationAtom(names[j - 1], (*row, later)),
                ]
                self._windows.rule(name, (RelationAtom(name, (*row, time)),), body)
                continue
            self._windows.feed(rows, name, (0, greatest), with_time=True)
            for head, heads in self._origins.heads_of(rows):
                own, general = self._origins.generic(rows, head)
                to = (RelationAtom(name, (*general, time)),)
                if heads.is_plain:
                    self._compiled.points.has_now = True
                    self._windows.rule(name, to, [RelationAtom(self._windows.derived_now(head), own), RelationAtom(NOW, (time,))])
                if heads.windows:
                    body = [RelationAtom(f"{head.name} PUT", (*own, time))]
                    self._windows.rule(name, to, [*body, *self._windows.within((0, greatest), heads.windows, time)])
        return names

    def since(self, rows: AtomRows, slots: tuple[Slot, ...], greatest: int, before: Var) -> list[JoinItem]:
        """The items of a body for: A holds at each point after that of the time `before`, which is
        at most `greatest` points back.

        `rows`, `slots`: those of A.
        """
        if not self._origins.is_derived(rows) and self._is_comparable:
            name = f"{rows.name} SINCE"
            self._windows.note_meaning(name, RelationKind.BEFORE, rows)
            if self._windows.is_new(name) and not isinstance(rows.predicate, OwnRelation):
                self._compiled.runs.setdefault(rows, []).append(RunFeed(name, None))
            began = Var(f"{before.name}s")
            return [RelationAtom(name, (*slots, began)), FilterItem(Call("<=", (began, before)))]
        name = f"{rows.name} SINCE 0..{greatest}"
        self._windows.note_meaning(name, RelationKind.BEFORE, rows)
        if self._windows.is_new(name):
            levels = greatest.bit_length()
            _, row = self._origins.generic(rows, rows)
            covers = self._compiled.points.covers.setdefault(greatest, [f"COVER 0..{greatest} {j}" for j in range(levels)])
            if any(heads.is_plain for _, heads in self._origins.heads_of(rows)):
                self._compiled.dense = max(self._compiled.dense, greatest)
            time, one, other = Var("t"), Var("t0"), Var("t1")
            for cover, run in zip(covers, self._runs(rows, greatest, levels), strict=False):
                self._compiled.silent.add(cover)
                body = [RelationAtom(cover, (time, one, other)), RelationAtom(run, (*row, one)), RelationAtom(run, (*row, other))]
                self._windows.rule(name, (RelationAtom(name, (*row, time)),), body)
        return [RelationAtom(name, (*slots, before))]


# Runs of atoms: the consecutive points up to now at which an atom holds, for ALWAYS and SINCE.
#
# Idea: an atom of a point extends its run of the preceding point, or starts one. A run from a to u
# covers the window k − β … k − α of each point k with a + β ≤ k ≤ u + α. A run from the first point
# of the line also covers windows that begin before that point, which has no predecessors.
#
# Cost: a constant time for each atom of a point; the runs of the last point are kept, and no other.
# Source: lars.md, sections 2 and 6.


class AtomRuns:
    """The first point of the run of each atom that held at the last point.

    >>> runs = AtomRuns()
    >>> runs.advance(1, [("<a>",)]), runs.advance(2, [("<a>",), ("<b>",)]), runs.advance(4, [("<a>",)])
    ({('<a>',): 1}, {('<a>',): 1, ('<b>',): 2}, {('<a>',): 4})
    """

    def __init__(self) -> None:
        self._point: Point | None = None
        self._starts: dict[FactRow, Point] = {}

    def advance(self, k: Point, rows: Iterable[FactRow]) -> Mapping[FactRow, Point]:
        """The start of the run of each atom of point `k`, given those rows; `k` ascends.

        The mapping must not be changed.
        """
        if self._point == k - 1:
            get = self._starts.get
            self._starts = {row: get(row, k) for row in rows}
        else:
            self._starts = dict.fromkeys(rows, k)
        self._point = k
        return self._starts

    def __len__(self) -> int:
        return len(self._starts)

    def to_json(self) -> object:
        """The state as values of JSON."""
        return [self._point, [[start, *row] for row, start in self._starts.items()]]

    def restore(self, written: list[object]) -> None:
        """The inverse of `to_json`."""
        self._point = written[0]  # type: ignore[assignment]
        self._starts = {tuple(row): start for start, *row in written[1]}  # type: ignore[attr-defined]


def covered(start: Point, end: Point, first: Point, least: int, greatest: int) -> tuple[Point, Point] | None:
    """The first and the last point whose window is covered by a run from `start` to `end`; None:
    there is no such point.

    The window of a point reaches from `greatest` to `least` points back, and not before `first`,
    the first point of the line.

    >>> covered(3, 5, 1, 0, 2), covered(1, 1, 1, 0, 2), covered(3, 4, 1, 0, 2), covered(3, 5, 1, 1, 2)
    ((5, 5), (1, 1), None, (5, 6))
    """
    begin = first + least if start == first else start + greatest
    return (begin, end + least) if begin <= end + least else None


def rules_of_file(file: LarsFile, background: TripleIndex, clock: Clock) -> LarsRules:
    """The rules and feeds of a file over a closed background."""
    return _Compiler(file, background, clock).compile()


class _Compiler:
    def __init__(self, file: LarsFile, background: TripleIndex, clock: Clock) -> None:
        self._file = file
        self._origins = AtomOrigins(file, background)
        self._windows = WindowRelations(file, self._origins)
        self._compiled = self._windows.compiled
        self._runs = RunRelations(self._windows, is_comparable=clock.dated or file.resolution % clock.unit.value == 0)
        self._tuples = TupleRelations(file, self._windows)
        self._has_not = any(isinstance(item, LarsNot) for rule in file.rules for item in rule.body)
        self._auxiliary = 0
        names = {name for literal in file.literals for name in literal.variables}
        names.update(item.variable for rule in file.rules for item in rule.body if isinstance(item, Bind))
        self._fresh = "t_"  # no variable of the file begins so
        while any(name.startswith(self._fresh) for name in names):
            self._fresh += "_"

    def compile(self) -> LarsRules:
        """Compiles the whole file."""
        for rule in self._file.rules:
            heads = tuple(self._head(head.atom, head.at) for head in rule.heads)
            for body in self._bodies(rule.body):
                for head in [(each,) for each in heads] if self._has_not else [heads]:
                    self._windows.rule(rule.name, head, body)
        for report in self._file.reports:
            self._report(report)
        return self._compiled

    def _head(self, atom: DerivedAtom, at: Variable | None) -> RelationAtom:
        rows = rows_of_atom(atom)
        if at is None:
            self._windows.derived_now(rows)
            return RelationAtom(rows.name, rows.slots(atom))
        self._windows.note_meaning(f"{rows.name} PUT", RelationKind.PUT, rows)
        return RelationAtom(f"{rows.name} PUT", (*rows.slots(atom), Var(at)))

    def _since(self, literal: LarsLiteral, since: Since) -> Iterator[list[JoinItem]]:
        """The disjuncts of A SINCE A′ IN W, each as items of a body."""
        first, second = rows_of_atom(literal.atom), rows_of_atom(since.other)
        slots, others = first.slots(literal.atom), second.slots(since.other)
        window = self._windows.points_of(since.window)
        is_b_first, is_b_second = self._file.is_background(literal.atom), self._file.is_background(since.other)
        if self._origins.of_background(first).may_hold or is_b_first:
            yield [RelationAtom(self._windows.background_relation(first), slots), *self._windows.items_of_sometime(since.other, window)]
        if window[0] == 0:
            yield self._windows.items_of_sometime(since.other, (0, 0))
        if is_b_first:
            return
        before = f"{self._fresh}{self._auxiliary}"
        self._auxiliary += 1
        if not is_b_second:
            then: list[JoinItem] = [RelationAtom(self._windows.at(second, window, with_b=False), (*others, Var(before)))]
            yield [*then, *self._runs.since(first, slots, window[1], Var(before))]
        if window[0] and self._origins.of_background(second).may_hold:
            then = [RelationAtom(self._windows.background_relation(second), others), self._windows.latest(window, Var(before))]
            yield [*then, *self._runs.since(first, slots, window[1], Var(before))]

    def _literal(self, literal: LarsLiteral) -> list[list[JoinItem]]:
        """The disjuncts of a literal, each as items of a body; only SINCE has several."""
        atom, reach = literal.atom, literal.reach
        rows = rows_of_atom(atom)
        slots = rows.slots(atom)
        is_background = self._file.is_background(atom)
        match reach:
            case None:
                return [self._windows.items_of_sometime(atom, (0, 0))]
            case Since():
                return list(self._since(literal, reach))
            case Sometime(TimeWindow() as window):
                return [self._windows.items_of_sometime(atom, self._windows.points_of(window))]
            case Always(TimeWindow() as window):
                if is_background:
                    return [self._windows.items_of_sometime(atom, self._windows.points_of(window))]
                return [[RelationAtom(self._runs.always(rows, self._windows.points_of(window)), slots)]]
            case At(time, TimeWindow() as window):
                if is_background:
                    each = self._windows.each(self._windows.points_of(window), time)
                    return [[RelationAtom(self._windows.background_relation(rows), slots), each]]
                return [[RelationAtom(self._windows.at(rows, self._windows.points_of(window)), (*slots, time))]]
            case (Sometime(TupleWindow() as tuples) | Always(TupleWindow() as tuples) | At(_, TupleWindow() as tuples)) as counted:
                return [self._tuples.items(atom, counted, tuples)]
            case _:
                raise ValueError(f"{literal} has no window of points")

    def _bodies(self, items: Sequence[object]) -> Iterator[list[JoinItem]]:
        """The bodies of a rule: its disjunctive normal form, one body for each choice of
        disjuncts."""
        positive = [self._literal(item) for item in items if isinstance(item, LarsLiteral)]
        tests = [item for item in items if isinstance(item, FilterItem | Bind)]
        bound = {name for item in items if isinstance(item, LarsLiteral) for name in item.variables}
        bound |= {item.variable for item in tests if isinstance(item, Bind)}
        negations = [each for item in items if isinstance(item, LarsNot) for each in self._negations(item, bound)]
        for choice in product(*positive):
            yield [*(item for disjunct in choice for item in disjunct), *tests, *negations]

    def _negations(self, item: LarsNot, bound: set[Variable]) -> Iterator[Not]:
        """The items of a NOT: NOT of a disjunction is NOT of each disjunct.

        A disjunct with FILTER becomes an auxiliary relation, since NOT takes atoms only.
        """
        for choice in product(*map(self._literal, item.literals)):
            body = [each for disjunct in choice for each in disjunct]
            if any(isinstance(each, FilterItem) for each in body):
                names = dict.fromkeys(name for each in body if isinstance(each, RelationAtom) for name in free_variables(each))
                atom = RelationAtom(f"NOT {self._auxiliary}", tuple(Var(name) for name in names if name in bound))
                self._auxiliary += 1
                self._windows.rule(atom.relation, (atom,), body)
                body = [atom]
            yield Not(cast("tuple[TriplePattern, ...]", tuple(body)))

    def _report(self, report: LarsReport) -> None:
        rows = rows_of_atom(report.atom)
        slots = rows.slots(report.atom)
        columns: dict[Variable, int] = {}
        for column, slot in enumerate(slots):
            if isinstance(slot, Var):
                columns.setdefault(slot.name, column)
        relation = self._windows.now(rows)
        self._compiled.reports.append(ReportedRows(report, relation, rows, slots, tuple(sorted(columns.items()))))


# --- atoms in tuple windows ---
#
# Relations of atoms, the counts that feed them, and the points of each window. A small case:
# `:temp(?r, ?v) IN [LAST 3 PER ?r]` reads the relation `property <temp> LAST 0 IN`, which count 0
# feeds: the last three pairs of an atom of `:temp` and a point for each value of ?r.

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
