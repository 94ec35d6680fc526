"""A LARS file compiled to rules over relations, for the horizon closure.

Idea (lars.md, section 6): an atom in a window is an atom of a relation of its own, W(A) or W(A, u),
that holds from u + α to u + β. What the stream brings is inserted so (`dotr.horizons.lars_feeds`);
what rules derive comes by further rules; what B has is looked up.

`Hot(?r) AT ?t :- :temp(?r, ?v) AT ?t IN [5 s], FILTER(?v > 60)` and `Busy(?r) :- Hot(?r) IN [3 s]`
become, with α … β counted in points,

    own Hot PUT (?r, ?t) :- property <temp> AT 0..5 (?r, ?v, ?t), FILTER(?v > 60)
    own Hot IN 0..3 (?r) :- own Hot PUT (?r, ?t), WITHIN 0..3 (?t)
    own Busy (?r)        :- own Hot IN 0..3 (?r)

and WITHIN 0..3 (t) is inserted for each point with time t, where the window is not the longer one.

ALWAYS over what rules derive: RUN j (A, t) says that A holds at 2ʲ points from that of time t on,
and two of these cover a window. SINCE is a disjunction: its second atom at the point itself, or
before with a run of the first from then on; a rule with SINCE becomes a rule for each.

A rule whose premises may all be of B gets one that holds at every point, since the closure
concludes nothing from static facts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from typing import Final, NamedTuple, TypeAlias, assert_never, cast

from dotr.horizons.counts import CountedWindow, TupleCount
from dotr.horizons.facts import StaticFacts
from dotr.horizons.lars_rows import AtomRows, BackgroundRows, fits, rows_of_atom
from dotr.horizons.rules import FOREVER, FactRow, WindowRule
from dotr.joins.order import JoinItem
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, Not, RelationAtom
from dotr.model.lars import (
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
    may_share,
)
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock
from dotr.model.traverse import free_variables
from dotr.store.triples import TripleIndex

EACH_POINT: Final = "EACH POINT"
"""The relation whose one row, of no columns, holds at every point."""

NOW: Final = "NOW"
"""The time of the point evaluated."""

PointWindow: TypeAlias = tuple[int, int]
"""The least and the greatest distance of a window's points, α and β."""


class WindowFeed(NamedTuple):
    """A relation that an atom of the stream enters at u for the points u + α … u + β."""

    relation: str
    window: PointWindow
    with_time: bool


class RunFeed(NamedTuple):
    """A relation of atoms that held at every point of a window; without a window: each atom of the
    point, with the time just before its run began.
    """

    relation: str
    window: PointWindow | None


@dataclass
class PointFeeds:
    """Relations that points themselves enter, each with its window.

    - `within`: the time of an evaluated point; `each`: of every point; both at u + α … u + β.
    - `opened`: one row, from k₁ + α on. `latest`: the time of point k − α, at k.
    - `steps`: by window and j the times of two points of reach that lie 2ʲ points apart.
    - `spans`: at k, for the longest 2ʲ that is no longer than the window, the times of its first
      point and of the point from which on 2ʲ points reach to its last.
    - `covers`: at k, the time of each earlier point in reach, and as for `spans` two times between
      it and k.
    - `has_now`: `NOW` is read.
    """

    within: dict[PointWindow, str] = field(default_factory=dict)
    each: dict[PointWindow, str] = field(default_factory=dict)
    opened: dict[int, str] = field(default_factory=dict)
    latest: dict[int, str] = field(default_factory=dict)
    steps: dict[tuple[int, int], str] = field(default_factory=dict)
    spans: dict[PointWindow, list[str]] = field(default_factory=dict)
    covers: dict[int, list[str]] = field(default_factory=dict)
    has_now: bool = False


@dataclass
class CountFeed:
    """A count of atoms, of all triples or of some, and the windows that it feeds."""

    count: TupleCount
    is_of_all: bool
    windows: list[CountedWindow] = field(default_factory=list)


class ReportedRows(NamedTuple):
    """A REPORT: the relation of its atom's rows, a test of these, and the columns of its attributes,
    sorted.
    """

    report: LarsReport
    relation: str
    rows: AtomRows
    slots: tuple[Slot, ...]
    names: tuple[tuple[Variable, int], ...]


class RelationKind(Enum):
    """Meaning of a relation's rows.

    - PRESENT: atoms of the point evaluated. SOMETIME: of a point of a window. AT: the same, with
      that point's time behind the row. PUT: conclusions at a point, with its time.
    - ALWAYS: atoms of all points of a window. RUN: atoms with a time, from which on they held at
      2ʲ points. BEFORE: atoms with the time of the point just before their run.
    - BACKGROUND: atoms of B.
    """

    PRESENT = "present"
    SOMETIME = "sometime"
    AT = "at"
    PUT = "put"
    ALWAYS = "always"
    RUN = "run"
    BEFORE = "before"
    BACKGROUND = "background"


class RelationMeaning(NamedTuple):
    """Meaning of a relation: atoms of some rows, in a window of points, or in a tuple window (its
    name in `CountedWindow`)."""

    kind: RelationKind
    rows: AtomRows
    window: PointWindow | str | None = None


@dataclass
class LarsRules:
    """A compiled file.

    - `windows`, `runs`: what atoms of the stream feed, by their rows.
    - `meanings`: of the relations of atoms.
    - `silent`: relations whose ends change nothing by themselves.
    - `dense`: for so many points after one with atoms every point is evaluated, FOREVER: always.
    - `reach`: for so many points back points themselves are remembered.
    """

    rules: list[WindowRule] = field(default_factory=list)
    static: StaticFacts = field(default_factory=StaticFacts)
    windows: dict[AtomRows, list[WindowFeed]] = field(default_factory=dict)
    runs: dict[AtomRows, list[RunFeed]] = field(default_factory=dict)
    counts: list[CountFeed] = field(default_factory=list)
    points: PointFeeds = field(default_factory=PointFeeds)
    reports: list[ReportedRows] = field(default_factory=list)
    meanings: dict[str, RelationMeaning] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    dense: int = 0
    reach: int = 0

    @property
    def streamed(self) -> list[AtomRows]:
        """The atoms of the stream that are read, but those that are only counted with all triples."""
        found = dict.fromkeys([*self.windows, *self.runs])
        for feed in self.counts:
            found.update(dict.fromkeys(window.rows for window in feed.windows))
        return list(found)

    @property
    def reads_all_triples(self) -> bool:
        """True if triples of every property are read."""
        return any(each.is_of_all for each in self.counts) or any(
            rows.is_of_triples and rows.predicate.iri is None  # type: ignore[union-attr]
            for rows in self.streamed
        )


def rules_of_file(file: LarsFile, background: TripleIndex, clock: Clock) -> LarsRules:
    """The rules and feeds of a file over a closed background."""
    return _Compiler(file, background, clock).compile()


class _Put(NamedTuple):
    """The heads of a predicate: whether one has no AT, and the windows of those that have (None: of
    any length).
    """

    is_plain: bool
    windows: tuple[PointWindow | None, ...]


class _Compiler:
    def __init__(self, file: LarsFile, background: TripleIndex, clock: Clock) -> None:
        self._file = file
        self._index = background
        self._clock = clock
        self._made = LarsRules(static=StaticFacts())
        self._known: set[str] = set()
        self._b_rows: dict[AtomRows, BackgroundRows] = {}
        self._heads: dict[AtomRows, _Put] = {}
        self._counts: dict[tuple[object, ...], CountFeed] = {}
        self._arity: dict[str, int] = {}
        self._has_not = any(isinstance(item, LarsNot) for rule in file.rules for item in rule.body)
        self._auxiliary = 0
        names = {name for literal in file.literals for name in literal.variables}
        names.update(item.variable for rule in file.rules for item in rule.body if isinstance(item, Bind))
        self._fresh = "t_"  # no variable of the file begins so
        while any(name.startswith(self._fresh) for name in names):
            self._fresh += "_"

    def compile(self) -> LarsRules:
        """The whole file."""
        self._note_arities()
        self._note_heads()
        for rule in self._file.rules:
            heads = tuple(self._head(head.atom, head.at) for head in rule.heads)
            for body in self._bodies(rule.body):
                for head in [(each,) for each in heads] if self._has_not else [heads]:
                    self._rule(rule.name, head, body)
        for report in self._file.reports:
            self._report(report)
        return self._made

    # --- heads ---

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
                is_plain, puts = self._heads.get(rows, _Put(False, ()))
                if head.at is None:
                    self._heads[rows] = _Put(True, puts)
                else:
                    self._heads[rows] = _Put(is_plain, (*puts, windows.get(head.at)))

    def _windows_of_times(self, literals: Iterable[LarsLiteral]) -> dict[Variable, PointWindow]:
        """The window in which the point with a time lies."""
        found: dict[Variable, PointWindow] = {}
        for literal in literals:
            if isinstance(literal.reach, At) and isinstance(literal.reach.time, Var) and isinstance(literal.reach.window, TimeWindow):
                least, greatest = self._window(literal.reach.window)
                known = found.get(literal.reach.time.name, (least, greatest))
                found[literal.reach.time.name] = max(least, known[0]), min(greatest, known[1])
        return found

    def _head(self, atom: DerivedAtom, at: Variable | None) -> RelationAtom:
        rows = rows_of_atom(atom)
        if at is None:
            self._derived_now(rows)
            return RelationAtom(rows.name, rows.slots(atom))
        self._means(f"{rows.name} PUT", RelationKind.PUT, rows)
        return RelationAtom(f"{rows.name} PUT", (*rows.slots(atom), Var(at)))

    def _heads_of(self, rows: AtomRows) -> Iterator[tuple[AtomRows, _Put]]:
        """The heads that may give an atom of these rows."""
        for head, put in self._heads.items():
            if may_share(rows.predicate, head.predicate):
                yield head, put

    def _is_derived(self, rows: AtomRows) -> bool:
        return next(self._heads_of(rows), None) is not None

    def _generic(self, rows: AtomRows, of: AtomRows) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """The row of a head's atom, and that of the same atom as one of more general rows."""
        name = of.predicate.name if isinstance(of.predicate, OwnRelation) else ""
        atom = of.generic(self._arity.get(name, 0))
        return of.slots(atom), rows.slots(atom)

    # --- B ---

    def _of_b(self, rows: AtomRows) -> BackgroundRows:
        found = self._b_rows.get(rows)
        if found is None:
            facts = [
                cast(FactRow, tuple(cast(Const, slot).term for slot in rows.slots(fact.atom)))
                for fact in self._file.facts
                if may_share(rows.predicate, rows_of_atom(fact.atom).predicate)
            ]
            found = self._b_rows[rows] = BackgroundRows(rows, self._index, facts)
        return found

    def _look_up(self, relation: str, rows: AtomRows) -> None:
        """Atoms of B are rows of a relation."""
        if self._of_b(rows).may_hold:
            self._made.static.rows[relation] = self._of_b(rows)

    def _b_relation(self, rows: AtomRows) -> str:
        """The relation of what B has and nothing else."""
        name = f"{rows.name} OF B"
        self._means(name, RelationKind.BACKGROUND, rows)
        self._made.static.rows[name] = self._of_b(rows)
        return name

    # --- relations ---

    def _is_new(self, relation: str) -> bool:
        if relation in self._known:
            return False
        self._known.add(relation)
        return True

    def _means(self, relation: str, kind: RelationKind, rows: AtomRows, window: PointWindow | str | None = None) -> None:
        self._made.meanings[relation] = RelationMeaning(kind, rows, window)

    def _rule(self, name: str, head: tuple[RelationAtom, ...], body: Sequence[JoinItem]) -> None:
        atoms = [item for item in body if isinstance(item, RelationAtom)]
        if all(atom.relation in self._made.static.rows for atom in atoms):
            body = (RelationAtom(EACH_POINT, ()), *body)
        self._made.rules.append(WindowRule(name, head, tuple(body)))

    def _feed(self, rows: AtomRows, relation: str, window: PointWindow, *, with_time: bool = False) -> None:
        if not isinstance(rows.predicate, OwnRelation):
            self._made.windows.setdefault(rows, []).append(WindowFeed(relation, window, with_time))

    def _derived_now(self, rows: AtomRows) -> str:
        """The relation of what holds at the point itself, without what the stream has there."""
        name = rows.name
        if self._is_new(name):
            self._means(name, RelationKind.PRESENT, rows, (0, 0))
            self._look_up(name, rows)
            for head, put in self._heads_of(rows):
                own, general = self._generic(rows, head)
                if put.is_plain and head != rows:
                    self._rule(name, (RelationAtom(name, general),), [RelationAtom(self._derived_now(head), own)])
                if put.windows:
                    self._made.points.has_now = True
                    self._made.silent.add(NOW)
                    body = [RelationAtom(f"{head.name} PUT", (*own, Var("t"))), RelationAtom(NOW, (Var("t"),))]
                    self._rule(name, (RelationAtom(name, general),), body)
        return name

    def _now(self, rows: AtomRows) -> str:
        """The relation of what holds at the point itself."""
        name = self._derived_now(rows)
        if self._is_new(f"{name} fed"):
            self._feed(rows, name, (0, 0))
        return name

    def _within(self, window: PointWindow, windows: Sequence[PointWindow | None], time: Slot) -> list[JoinItem]:
        """A test that a point lies in a window, where it may not."""
        if all(each is not None and window[0] <= each[0] and each[1] <= window[1] for each in windows):
            return []
        name = self._made.points.within.setdefault(window, f"WITHIN {window[0]}..{window[1]}")
        self._made.silent.add(name)
        return [RelationAtom(name, (time,))]

    def _sometime(self, rows: AtomRows, window: PointWindow) -> str:
        """The relation of A IN W."""
        if window == (0, 0):
            return self._now(rows)
        name = f"{rows.name} IN {window[0]}..{window[1]}"
        if self._is_new(name):
            self._means(name, RelationKind.SOMETIME, rows, window)
            self._feed(rows, name, window)
            self._b_from(rows, name, window)
            for head, put in self._heads_of(rows):
                own, general = self._generic(rows, head)
                if put.is_plain and window[0] == 0:
                    self._rule(name, (RelationAtom(name, general),), [RelationAtom(self._derived_now(head), own)])
                if put.windows:
                    body = [RelationAtom(f"{head.name} PUT", (*own, Var("t"))), *self._within(window, put.windows, Var("t"))]
                    self._rule(name, (RelationAtom(name, general),), body)
        return name

    def _b_from(self, rows: AtomRows, relation: str, window: PointWindow) -> None:
        """Adds atoms of B, which hold in a window that has a point: from k₁ + α on."""
        if window[0] == 0:
            self._look_up(relation, rows)
        elif self._of_b(rows).may_hold:
            _, row = self._generic(rows, rows)
            self._rule(relation, (RelationAtom(relation, row),), [RelationAtom(self._b_relation(rows), row), *self._opened(window)])

    def _opened(self, window: PointWindow) -> list[JoinItem]:
        if window[0] == 0:
            return []
        return [RelationAtom(self._made.points.opened.setdefault(window[0], f"OPENED {window[0]}"), ())]

    def _at(self, rows: AtomRows, window: PointWindow, *, with_b: bool = True) -> str:
        """The relation of A AT t IN W: rows of A, and t."""
        has_b = with_b and self._of_b(rows).may_hold
        name = f"{rows.name} AT {window[0]}..{window[1]}{' OR OF B' if has_b else ''}"
        if self._is_new(name):
            self._means(name, RelationKind.AT, rows, window)
            self._feed(rows, name, window, with_time=True)
            time = Var("t")
            if has_b:
                _, row = self._generic(rows, rows)
                self._rule(name, (RelationAtom(name, (*row, time)),), [RelationAtom(self._b_relation(rows), row), self._each(window, time)])
            for head, put in self._heads_of(rows):
                own, general = self._generic(rows, head)
                if put.is_plain and window[0] == 0:
                    self._made.points.has_now = True
                    self._made.dense = FOREVER
                    body = [RelationAtom(self._derived_now(head), own), RelationAtom(NOW, (time,))]
                    self._rule(name, (RelationAtom(name, (*general, time)),), body)
                if put.windows:
                    body = [
                        RelationAtom(f"{head.name} PUT", (*own, time)),
                        *cast("list[RelationAtom]", self._within(window, put.windows, time)),
                    ]
                    self._rule(name, (RelationAtom(name, (*general, time)),), body)
        return name

    def _each(self, window: PointWindow, time: Slot) -> RelationAtom:
        """The times of all points of a window."""
        self._made.dense = FOREVER
        return RelationAtom(self._made.points.each.setdefault(window, f"EACH {window[0]}..{window[1]}"), (time,))

    # --- runs ---

    def _always(self, rows: AtomRows, window: PointWindow) -> str:
        """The relation of A ALWAYS IN W."""
        if window == (0, 0):
            return self._now(rows)
        name = f"{rows.name} ALWAYS {window[0]}..{window[1]}"
        if self._is_new(name):
            self._means(name, RelationKind.ALWAYS, rows, window)
            self._b_from(rows, name, window)
            if not self._is_derived(rows):
                if not isinstance(rows.predicate, OwnRelation):
                    self._made.runs.setdefault(rows, []).append(RunFeed(name, window))
            else:
                self._always_derived(rows, window, name)
        return name

    def _always_derived(self, rows: AtomRows, window: PointWindow, name: str) -> None:
        """Two runs of 2ʲ points cover a window."""
        _, row = self._generic(rows, rows)
        levels = (window[1] - window[0] + 1).bit_length()
        runs = self._runs(rows, window[1], levels)
        spans = self._made.points.spans.setdefault(window, [f"SPAN {window[0]}..{window[1]} {j}" for j in range(levels)])
        if window[0] or any(put.is_plain for _, put in self._heads_of(rows)):
            self._made.dense = max(self._made.dense, window[1])
        first, second = Var("t0"), Var("t1")
        for span, run in zip(spans, runs, strict=False):
            self._made.silent.add(span)
            body = [RelationAtom(span, (first, second)), RelationAtom(run, (*row, first)), RelationAtom(run, (*row, second))]
            self._rule(name, (RelationAtom(name, row),), body)

    def _runs(self, rows: AtomRows, greatest: int, levels: int) -> list[str]:
        """RUN j (A, t) for each j below a number: A holds at 2ʲ points from that of time t on."""
        names = [f"{rows.name} RUN 0..{greatest} {j}" for j in range(levels)]
        self._made.reach = max(self._made.reach, greatest)
        time, later = Var("t"), Var("t1")
        _, row = self._generic(rows, rows)
        for j, name in enumerate(names):
            if not self._is_new(name):
                continue
            self._means(name, RelationKind.AT if j == 0 else RelationKind.RUN, rows, (0, greatest))
            if j:
                step = self._made.points.steps.setdefault((greatest, j - 1), f"STEP 0..{greatest} {j - 1}")
                self._made.silent.add(step)
                body = [
                    RelationAtom(names[j - 1], (*row, time)),
                    RelationAtom(step, (time, later)),
                    RelationAtom(names[j - 1], (*row, later)),
                ]
                self._rule(name, (RelationAtom(name, (*row, time)),), body)
                continue
            self._feed(rows, name, (0, greatest), with_time=True)
            for head, put in self._heads_of(rows):
                own, general = self._generic(rows, head)
                to = (RelationAtom(name, (*general, time)),)
                if put.is_plain:
                    self._made.points.has_now = True
                    self._rule(name, to, [RelationAtom(self._derived_now(head), own), RelationAtom(NOW, (time,))])
                if put.windows:
                    body = [RelationAtom(f"{head.name} PUT", (*own, time))]
                    self._rule(name, to, [*body, *self._within((0, greatest), put.windows, time)])
        return names

    def _since(self, literal: LarsLiteral, since: Since) -> Iterator[list[JoinItem]]:
        """The ways in which A SINCE A′ IN W holds."""
        first, second = rows_of_atom(literal.atom), rows_of_atom(since.other)
        slots, others = first.slots(literal.atom), second.slots(since.other)
        window = self._window(since.window)
        is_b_first, is_b_second = self._file.is_background(literal.atom), self._file.is_background(since.other)
        if self._of_b(first).may_hold or is_b_first:
            yield [RelationAtom(self._b_relation(first), slots), *self._in(since.other, window)]
        if window[0] == 0:
            yield self._in(since.other, (0, 0))
        if is_b_first:
            return
        before = f"{self._fresh}{self._auxiliary}"
        self._auxiliary += 1
        if not is_b_second:
            then: list[JoinItem] = [RelationAtom(self._at(second, window, with_b=False), (*others, Var(before)))]
            yield [*then, *self._run_from(first, slots, window[1], Var(before))]
        if window[0] and self._of_b(second).may_hold:
            latest = self._made.points.latest.setdefault(window[0], f"LATEST {window[0]}")
            self._made.silent.add(latest)
            then = [RelationAtom(self._b_relation(second), others), RelationAtom(latest, (Var(before),))]
            yield [*then, *self._run_from(first, slots, window[1], Var(before))]

    def _run_from(self, rows: AtomRows, slots: tuple[Slot, ...], greatest: int, before: Var) -> list[JoinItem]:
        """A holds at each point after that of a time."""
        is_comparable = self._clock.dated or self._file.resolution % self._clock.unit.value == 0
        if not self._is_derived(rows) and is_comparable:
            name = f"{rows.name} SINCE"
            self._means(name, RelationKind.BEFORE, rows)
            if self._is_new(name) and not isinstance(rows.predicate, OwnRelation):
                self._made.runs.setdefault(rows, []).append(RunFeed(name, None))
            began = Var(f"{before.name}s")
            return [RelationAtom(name, (*slots, began)), FilterItem(Call("<=", (began, before)))]
        name = f"{rows.name} SINCE 0..{greatest}"
        self._means(name, RelationKind.BEFORE, rows)
        if self._is_new(name):
            levels = greatest.bit_length()
            _, row = self._generic(rows, rows)
            covers = self._made.points.covers.setdefault(greatest, [f"COVER 0..{greatest} {j}" for j in range(levels)])
            if any(put.is_plain for _, put in self._heads_of(rows)):
                self._made.dense = max(self._made.dense, greatest)
            time, one, other = Var("t"), Var("t0"), Var("t1")
            for cover, run in zip(covers, self._runs(rows, greatest, levels), strict=False):
                self._made.silent.add(cover)
                body = [RelationAtom(cover, (time, one, other)), RelationAtom(run, (*row, one)), RelationAtom(run, (*row, other))]
                self._rule(name, (RelationAtom(name, (*row, time)),), body)
        return [RelationAtom(name, (*slots, before))]

    # --- tuple windows ---

    def _count(self, atom: LarsAtom, window: TupleWindow) -> tuple[AtomRows, CountFeed]:
        rows = rows_of_atom(atom)
        slots = rows.slots(atom)
        is_all = window.counted is Counted.ALL
        rows_counted, shape = (AtomRows(_ALL_TRIPLES), None) if is_all else (rows, _shape(slots))
        per = tuple(_place_of(slots, name) for name in window.per)
        label = rows.predicate.label if isinstance(rows.predicate, EventName) else None
        key = (is_all, window.count, rows_counted, shape, per)
        feed = self._counts.get(key)
        if feed is None:
            test = None if is_all else fits(slots)
            number = len(self._made.counts)
            feed = self._counts[key] = CountFeed(TupleCount(number, window.count, label, _grouping(rows_counted, test, per)), is_all)
            self._made.counts.append(feed)
        return rows, feed

    def _counted_window(self, atom: LarsAtom, window: TupleWindow) -> CountedWindow:
        rows, feed = self._count(atom, window)
        found = next((each for each in feed.windows if each.rows == rows), None)
        if found is None:
            found = CountedWindow(rows, f"{rows.name} LAST {feed.count.number}", rows.row_of_atom)
            feed.windows.append(found)
        return found

    def _in_tuples(self, atom: LarsAtom, reach: Sometime | Always | At, window: TupleWindow) -> list[JoinItem]:
        rows = rows_of_atom(atom)
        slots = rows.slots(atom)
        if self._file.is_background(atom) and not isinstance(reach, At):
            return self._in(atom, (0, 0))  # the window has a point
        counted = self._counted_window(atom, window)
        if self._file.is_background(atom) and isinstance(reach, At):
            return [RelationAtom(self._b_relation(rows), slots), self._points_of(counted, atom, window, slots, reach.time)]
        match reach:
            case Sometime():
                counted.has_in = True
                self._means(counted.sometime, RelationKind.SOMETIME, rows, counted.name)
                self._look_up(counted.sometime, rows)
                return [RelationAtom(counted.sometime, slots)]
            case Always():
                counted.has_always = True
                self._means(counted.always, RelationKind.ALWAYS, rows, counted.name)
                self._look_up(counted.always, rows)
                return [RelationAtom(counted.always, slots)]
            case At(time, _):
                counted.has_at = True
                self._means(counted.at, RelationKind.AT, rows, counted.name)
                if self._of_b(rows).may_hold and self._is_new(counted.at):
                    _, row = self._generic(rows, rows)
                    points = self._points_of(counted, atom, window, row, Var("t"))
                    self._rule(
                        counted.at, (RelationAtom(counted.at, (*row, Var("t"))),), [RelationAtom(self._b_relation(rows), row), points]
                    )
                return [RelationAtom(counted.at, (*slots, time))]
            case _:
                assert_never(reach)

    def _points_of(self, counted: CountedWindow, atom: LarsAtom, window: TupleWindow, row: tuple[Slot, ...], time: Slot) -> RelationAtom:
        """The times of the points of a tuple window, by the values of PER in a row of an atom of B."""
        rows = counted.rows
        slots = rows.slots(atom)
        places = tuple(_place_of(slots, name) for name in window.per)
        test = None if window.counted is Counted.ALL else fits(slots)
        groups = {tuple([each[place] for place in places]) for each in self._of_b(rows) if test is None or test(each)}
        counted.groups_of_b = tuple(sorted(groups.union(counted.groups_of_b)))
        self._made.dense = FOREVER
        return RelationAtom(counted.points, (*(row[place] for place in places), time))

    # --- bodies ---

    def _window(self, window: TimeWindow) -> PointWindow:
        return window.reach(self._file.resolution)

    def _in(self, atom: LarsAtom, window: PointWindow) -> list[JoinItem]:
        """A IN W."""
        rows = rows_of_atom(atom)
        if self._file.is_background(atom):
            return [RelationAtom(self._b_relation(rows), rows.slots(atom)), *self._opened(window)]
        return [RelationAtom(self._sometime(rows, window), rows.slots(atom))]

    def _literal(self, literal: LarsLiteral) -> list[list[JoinItem]]:
        """The ways in which a literal holds: one, but of SINCE."""
        atom, reach = literal.atom, literal.reach
        rows = rows_of_atom(atom)
        slots = rows.slots(atom)
        is_background = self._file.is_background(atom)
        match reach:
            case None:
                return [self._in(atom, (0, 0))]
            case Since():
                return list(self._since(literal, reach))
            case Sometime(TimeWindow() as window):
                return [self._in(atom, self._window(window))]
            case Always(TimeWindow() as window):
                if is_background:
                    return [self._in(atom, self._window(window))]
                return [[RelationAtom(self._always(rows, self._window(window)), slots)]]
            case At(time, TimeWindow() as window):
                if is_background:
                    return [[RelationAtom(self._b_relation(rows), slots), self._each(self._window(window), time)]]
                return [[RelationAtom(self._at(rows, self._window(window)), (*slots, time))]]
            case (Sometime(TupleWindow() as tuples) | Always(TupleWindow() as tuples) | At(_, TupleWindow() as tuples)) as counted:
                return [self._in_tuples(atom, counted, tuples)]
            case _:
                raise ValueError(f"{literal} has no window of points")

    def _bodies(self, items: Sequence[object]) -> Iterator[list[JoinItem]]:
        """The bodies of a rule, one for each way in which its literals hold."""
        positive = [self._literal(item) for item in items if isinstance(item, LarsLiteral)]
        tests = [item for item in items if isinstance(item, FilterItem | Bind)]
        bound = {name for item in items if isinstance(item, LarsLiteral) for name in item.variables}
        bound |= {item.variable for item in tests if isinstance(item, Bind)}
        negations = [each for item in items if isinstance(item, LarsNot) for each in self._negations(item, bound)]
        for ways in product(*positive):
            yield [*(item for way in ways for item in way), *tests, *negations]

    def _negations(self, item: LarsNot, bound: set[Variable]) -> Iterator[Not]:
        """NOT of a disjunction is NOT of each way in which it holds."""
        for ways in product(*map(self._literal, item.literals)):
            body = [each for way in ways for each in way]
            if any(isinstance(each, FilterItem) for each in body):
                names = dict.fromkeys(name for each in body if isinstance(each, RelationAtom) for name in free_variables(each))
                atom = RelationAtom(f"NOT {self._auxiliary}", tuple(Var(name) for name in names if name in bound))
                self._auxiliary += 1
                self._rule(atom.relation, (atom,), body)
                body = [atom]
            yield Not(cast("tuple[TriplePattern, ...]", tuple(body)))

    # --- reports ---

    def _report(self, report: LarsReport) -> None:
        rows = rows_of_atom(report.atom)
        slots = rows.slots(report.atom)
        places: dict[Variable, int] = {}
        for place, slot in enumerate(slots):
            if isinstance(slot, Var):
                places.setdefault(slot.name, place)
        relation = self._now(rows)
        self._made.reports.append(ReportedRows(report, relation, rows, slots, tuple(sorted(places.items()))))


_ALL_TRIPLES: Final = rows_of_atom(TriplePattern(Var("s"), Var("p"), Var("o"))).predicate


def _grouping(rows: AtomRows, test: Callable[[FactRow], bool] | None, per: tuple[int, ...]) -> Callable[[FactRow], FactRow | None]:
    """The function from an atom to the group in which it is counted."""

    def group(atom: FactRow) -> FactRow | None:
        row = rows.row_of_atom(atom)
        if row is None or (test is not None and not test(row)):
            return None
        return tuple([row[place] for place in per])

    return group


def _shape(slots: tuple[Slot, ...]) -> tuple[Term | int, ...]:
    """Constants, and for each variable the place at which it stands first."""
    return tuple(slot.term if isinstance(slot, Const) else _place_of(slots, slot.name) for slot in slots)


def _place_of(slots: tuple[Slot, ...], name: Variable) -> int:
    return next(place for place, slot in enumerate(slots) if isinstance(slot, Var) and slot.name == name)
