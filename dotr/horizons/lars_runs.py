"""Relations of atoms that hold at every point of a window, for ALWAYS and SINCE.

Idea: over the stream alone, how long an atom's run is decides (`dotr.horizons.runs`). What rules
conclude comes and goes: RUN j (A, t) says that A holds at 2ʲ points from that of time t on, and two
of these cover a window.

A small case, A ALWAYS IN a window of three points: A RUN 1 at the first and at the second point,
each of two points, cover it.
"""

from __future__ import annotations

from dotr.horizons.lars_relations import NOW, PointWindow, RelationKind, RunFeed
from dotr.horizons.lars_rows import AtomRows
from dotr.horizons.lars_windows import WindowRelations
from dotr.joins.order import JoinItem
from dotr.model.algebra import Call, Slot, Var
from dotr.model.datalog import FilterItem, RelationAtom
from dotr.model.lars import OwnRelation


class RunRelations:
    """The relations of atoms in runs of points.

    `is_comparable`: times of points can be compared with `<=`.
    """

    def __init__(self, windows: WindowRelations, *, is_comparable: bool) -> None:
        self._windows = windows
        self._made = windows.made
        self._origins = windows.origins
        self._is_comparable = is_comparable

    def always(self, rows: AtomRows, window: PointWindow) -> str:
        """The relation of A ALWAYS IN W."""
        if window == (0, 0):
            return self._windows.now(rows)
        name = f"{rows.name} ALWAYS {window[0]}..{window[1]}"
        if self._windows.is_new(name):
            self._windows.means(name, RelationKind.ALWAYS, rows, window)
            self._windows.add_background(rows, name, window)
            if not self._origins.is_derived(rows):
                if not isinstance(rows.predicate, OwnRelation):
                    self._made.runs.setdefault(rows, []).append(RunFeed(name, window))
            else:
                self._always_derived(rows, window, name)
        return name

    def _always_derived(self, rows: AtomRows, window: PointWindow, name: str) -> None:
        """Two runs of 2ʲ points cover a window."""
        _, row = self._origins.generic(rows, rows)
        levels = (window[1] - window[0] + 1).bit_length()
        runs = self._runs(rows, window[1], levels)
        spans = self._made.points.spans.setdefault(window, [f"SPAN {window[0]}..{window[1]} {j}" for j in range(levels)])
        if window[0] or any(put.is_plain for _, put in self._origins.heads_of(rows)):
            self._made.dense = max(self._made.dense, window[1])
        first, second = Var("t0"), Var("t1")
        for span, run in zip(spans, runs, strict=False):
            self._made.silent.add(span)
            body = [RelationAtom(span, (first, second)), RelationAtom(run, (*row, first)), RelationAtom(run, (*row, second))]
            self._windows.rule(name, (RelationAtom(name, row),), body)

    def _runs(self, rows: AtomRows, greatest: int, levels: int) -> list[str]:
        """RUN j (A, t) for each j below a number: A holds at 2ʲ points from that of time t on."""
        names = [f"{rows.name} RUN 0..{greatest} {j}" for j in range(levels)]
        self._made.reach = max(self._made.reach, greatest)
        time, later = Var("t"), Var("t1")
        _, row = self._origins.generic(rows, rows)
        for j, name in enumerate(names):
            if not self._windows.is_new(name):
                continue
            self._windows.means(name, RelationKind.AT if j == 0 else RelationKind.RUN, rows, (0, greatest))
            if j:
                step = self._made.points.steps.setdefault((greatest, j - 1), f"STEP 0..{greatest} {j - 1}")
                self._made.silent.add(step)
                body = [
                    RelationAtom(names[j - 1], (*row, time)),
                    RelationAtom(step, (time, later)),
                    RelationAtom(names[j - 1], (*row, later)),
                ]
                self._windows.rule(name, (RelationAtom(name, (*row, time)),), body)
                continue
            self._windows.feed(rows, name, (0, greatest), with_time=True)
            for head, put in self._origins.heads_of(rows):
                own, general = self._origins.generic(rows, head)
                to = (RelationAtom(name, (*general, time)),)
                if put.is_plain:
                    self._made.points.has_now = True
                    self._windows.rule(name, to, [RelationAtom(self._windows.derived_now(head), own), RelationAtom(NOW, (time,))])
                if put.windows:
                    body = [RelationAtom(f"{head.name} PUT", (*own, time))]
                    self._windows.rule(name, to, [*body, *self._windows.within((0, greatest), put.windows, time)])
        return names

    def since(self, rows: AtomRows, slots: tuple[Slot, ...], greatest: int, before: Var) -> list[JoinItem]:
        """A holds at each point after that of a time, which a point at most `greatest` back has."""
        if not self._origins.is_derived(rows) and self._is_comparable:
            name = f"{rows.name} SINCE"
            self._windows.means(name, RelationKind.BEFORE, rows)
            if self._windows.is_new(name) and not isinstance(rows.predicate, OwnRelation):
                self._made.runs.setdefault(rows, []).append(RunFeed(name, None))
            began = Var(f"{before.name}s")
            return [RelationAtom(name, (*slots, began)), FilterItem(Call("<=", (began, before)))]
        name = f"{rows.name} SINCE 0..{greatest}"
        self._windows.means(name, RelationKind.BEFORE, rows)
        if self._windows.is_new(name):
            levels = greatest.bit_length()
            _, row = self._origins.generic(rows, rows)
            covers = self._made.points.covers.setdefault(greatest, [f"COVER 0..{greatest} {j}" for j in range(levels)])
            if any(put.is_plain for _, put in self._origins.heads_of(rows)):
                self._made.dense = max(self._made.dense, greatest)
            time, one, other = Var("t"), Var("t0"), Var("t1")
            for cover, run in zip(covers, self._runs(rows, greatest, levels), strict=False):
                self._made.silent.add(cover)
                body = [RelationAtom(cover, (time, one, other)), RelationAtom(run, (*row, one)), RelationAtom(run, (*row, other))]
                self._windows.rule(name, (RelationAtom(name, (*row, time)),), body)
        return [RelationAtom(name, (*slots, before))]
