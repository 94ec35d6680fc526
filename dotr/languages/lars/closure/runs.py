"""Relations of atoms that hold at every point of a window, for ALWAYS and SINCE.

Idea: of atoms of the stream alone, the run up to the last point decides
(`dotr.languages.lars.closure.runs`). Derived atoms at past points may begin and end, so their
runs are joined: RUN j (A, t) means that A holds at 2ʲ points from that of time t on, and two such
runs cover a window.

A small case, A ALWAYS IN a window of three points: A RUN 1 at its first point and at its second
point, each of two points, cover the window.

Cost: at most log₂ of a window's length joins for each atom and point, instead of its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dotr.evaluation.joins.order import JoinItem
from dotr.languages.lars.closure.relations import NOW, PointWindow, RelationKind, RunFeed
from dotr.languages.lars.closure.rows import AtomRows
from dotr.languages.lars.closure.windows import WindowRelations
from dotr.languages.lars.model import OwnRelation
from dotr.model.algebra import Call, Slot, Var
from dotr.model.datalog import FilterItem, RelationAtom
from dotr.temporal.horizons.rules import FactRow, Point


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
