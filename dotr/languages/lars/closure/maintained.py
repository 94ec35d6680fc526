"""The model of a LARS file, maintained from point to point: a horizon closure and its inputs.

Idea: at each point evaluated, atoms of the stream are inserted into the relations of the windows
that reach them, with the horizons of lars.md, 6. Runs and counts insert the atoms that they cover,
points insert their times where rules join these. The closure concludes the rest.

Invariant: after `advance(k)` the held facts are the relations of the file's rules at k. Only points
with atoms need to be evaluated, and those that `next_point` returns.

Cost: proportional to the facts that begin and end. State: the insertions that have not ended, the
runs of the last point, and the pairs that counts keep. Insertions of atoms are written as the atoms
themselves (`dotr.languages.lars.closure.atoms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.limits import BOUNDS, NO_LIMITS
from dotr.languages.lars.closure.atoms import NO_ATOMS, AtomsByPoint, EachPoint, PointAtoms, StreamedRows, logged_feeds
from dotr.languages.lars.closure.counts import CountChange, CountedAtoms, CountedWindow, MaintainedPair, MaintainedRows
from dotr.languages.lars.closure.relations import EACH_POINT, NOW, CountFeed, LarsRules, PointWindow, ReportedRows, WindowFeed
from dotr.languages.lars.closure.rows import AtomRows, fits
from dotr.languages.lars.closure.rules import AtomRuns, covered
from dotr.languages.lars.keys import KeyOfRow, LarsKey
from dotr.model.terms import Term
from dotr.model.time import Clock, Micros
from dotr.temporal.horizons.closure import HorizonClosure
from dotr.temporal.horizons.facts import INSERTED
from dotr.temporal.horizons.queues import Insertion
from dotr.temporal.horizons.rules import FOREVER, NEVER, FactRow, Point, RelationFact, WindowFact

if TYPE_CHECKING:  # loaded where a state is divided
    from dotr.engine.state.keyed import StatePart


class ReportChange(NamedTuple):
    """Rows of a REPORT, in the order of its attributes, that began and that ended."""

    began: list[FactRow]
    ended: list[FactRow]


class WrittenInsert(NamedTuple):
    """A row that was inserted at the points from `start` to `horizon`."""

    relation: str
    start: Point
    horizon: Point
    row: FactRow


class LarsClosure:
    """The model of a compiled file at the last point.

    `resolution`: the length of a point in µs. `limit`: the greatest number of facts; above it
    `advance` raises `LimitExceeded`.
    """

    def __init__(self, rules: LarsRules, resolution: Micros, clock: Clock, limit: int = NO_LIMITS.triples) -> None:
        self.rules: Final = rules
        self.first: Point | None = None
        """k₁, the first point of the line; None before `begin`."""
        self._resolution: Final = resolution
        self._clock: Final = clock
        self._limit: Final = limit
        self._closure = self._new_closure()
        self._runs: dict[AtomRows, AtomRuns] = {rows: AtomRuns() for rows in rules.runs}
        self._logged: Final = logged_feeds(rules.windows)
        self._each: Final = {each.rows: EachPoint(each.widest.window[1]) for each in self._logged if each.each}
        self._written: tuple[list[WrittenInsert], list[AtomsByPoint]] | None = None  # cache until the next change
        self._counts: list[CountedAtoms] = [CountedAtoms(feed.count) for feed in rules.counts]
        self._kept_rows = {window.name: MaintainedRows(window.project) for feed in rules.counts for window in feed.windows}
        self._starts: dict[tuple[str, FactRow], Point] = {}  # first points of tuple windows and groups of B
        self._last_with_atoms: Point | None = None
        self._queued: list[Insertion] = []  # insertions of the point that is being evaluated
        self._inserted_before: dict[WindowFact, Point] = {}  # inserted horizons that this point changes
        self._count_changes: list[CountChange] = []
        self._reports: dict[str, list[tuple[int, ReportedRows, Any, Any]]] = {}
        for number, report in enumerate(rules.reports):
            columns = tuple(column for _, column in report.names)
            self._reports.setdefault(report.relation, []).append((number, report, fits(report.slots), columns))
        self._streamed: Final = StreamedRows(rules.streamed)
        self._point_rows: Final = PointRows(rules, lambda u: time_term(u * resolution, clock))

    def _new_closure(self) -> HorizonClosure:
        return HorizonClosure(self.rules.rules, self.rules.static, limit=self._limit, silent=self.rules.silent)

    @property
    def point(self) -> Point | None:
        """The last point evaluated; None before the first."""
        return self._closure.point

    @property
    def closure(self) -> HorizonClosure:
        """The closure that holds the relations of the rules; another object after a failed
        point."""
        return self._closure

    @property
    def kept(self) -> int:
        """The number of entries of the state: insertions, runs and counted pairs."""
        cells = self._closure.held.cells.values()
        inserted = sum(1 for cell in cells if cell[INSERTED] != NEVER) + sum(len(each.facts) for each in self._closure.scheduled())
        return inserted + sum(map(len, self._runs.values())) + sum(map(len, self._counts))

    # --- points ---

    def begin(self, first: Point) -> None:
        """Begins the line with its first point; later calls have no effect."""
        if self.first is None:
            self.first = first
            self._queue([(EACH_POINT, ())], first, FOREVER)
            for least, relation in self.rules.points.opened.items():
                self._queue([(relation, ())], first + least, FOREVER)

    def advance(self, k: Point, atoms: PointAtoms = NO_ATOMS) -> list[ReportChange]:
        """Evaluates point `k`, after the last one; returns the changes of each REPORT, in their
        order.

        Raises `LimitExceeded`. Then the state is that of the last point, so that `k` can be
        evaluated again without its atoms.
        """
        assert self.first is not None
        self._written = None
        rows = self._streamed.of(atoms)
        saved = self._last_with_atoms, list(self._point_rows.reached), dict(self._starts)
        if rows:
            self._last_with_atoms = k
        for each, found in rows.items():
            for facts, start, horizon in self._window_insertions(k, self.rules.windows.get(each, ()), found):
                self._queue(facts, start, horizon)
            if each in self._runs:
                self._feed_runs(k, each, found)
        for number, feed in enumerate(self.rules.counts):
            self._feed_count(k, feed, self._counts[number], atoms)
        self._point_rows.enter(k, self.first, self._queue, has_atoms=bool(rows))
        closure, before = self._closure, self._inserted_before
        cells, queued, due = closure.held.cells, self._queued, closure.scheduled(k)
        for facts, _, _ in (*queued, *due):
            before.update((fact, cells[fact][INSERTED]) for fact in facts if fact in cells and fact not in before)
        for facts, start, horizon in queued:
            closure.insert_all(facts, start, horizon)
        last_point = closure.point
        try:
            changes = closure.advance(k)
        except Exception:
            self._last_with_atoms, self._point_rows.reached, self._starts = saved
            self._roll_back(last_point, queued, due)
            raise
        finally:
            self._queued, self._inserted_before, self._count_changes = [], {}, []
        for each, log in self._each.items():
            if each in rows:
                log.add(k, rows[each])
        return self._changes(changes.began, changes.ended)

    def _roll_back(self, last_point: Point | None, queued: Sequence[Insertion], due: Sequence[Insertion]) -> None:
        """Restores the state of the last point (None: there was none) in a new closure.

        `queued`: the insertions of the failed point. `due`: earlier insertions that were to start.
        """
        BOUNDS.lift()
        failed, before = self._closure, self._inserted_before
        new = {fact for facts, _, _ in (*queued, *due) for fact in facts if fact not in before}
        queued_ids = {id(facts) for facts, _, _ in queued}
        self._closure = self._new_closure()
        for counted, change in zip(self._counts, self._count_changes, strict=True):
            counted.undo(change)
        self._restore_kept_rows()
        self._runs = {rows: AtomRuns() for rows in self.rules.runs}  # a point without atoms ends all runs
        if last_point is None:
            self._queued = []
            first, self.first = self.first, None
            assert first is not None
            self.begin(first)
            for facts, start, horizon in self._queued:
                self._closure.insert_all(facts, start, horizon)
            return
        for fact, cell in failed.held.cells.items():
            horizon = before.get(fact, NEVER if fact in new else cell[INSERTED])
            if horizon >= last_point:
                self._closure.insert(fact, last_point, horizon)
        for facts, start, horizon in (*due, *failed.scheduled()):
            if id(facts) not in queued_ids:
                self._closure.insert_all(facts, start, horizon)
        self._closure.advance(last_point)

    def time_of(self, u: Point) -> Term:
        """The term of a point's time, as `time(L)` returns it."""
        return time_term(u * self._resolution, self._clock)

    def _queue(self, facts: Sequence[WindowFact], start: Point, horizon: Point) -> None:
        if facts and start <= horizon:
            self._queued.append(Insertion(facts, start, horizon))

    def _window_insertions(self, u: Point, feeds: Iterable[WindowFeed], found: Sequence[FactRow]) -> Iterator[Insertion]:
        """The insertions of atoms of point `u` into the relations of windows."""
        for relation, (least, greatest), with_time in feeds:
            if with_time:
                time = (self.time_of(u),)
                yield Insertion([(relation, row + time) for row in found], u + least, u + greatest)
            else:
                yield Insertion([(relation, row) for row in found], u + least, u + greatest)

    def _feed_runs(self, k: Point, rows: AtomRows, found: list[FactRow]) -> None:
        assert self.first is not None
        starts = self._runs[rows].advance(k, found)
        by_start: dict[Point, list[FactRow]] = {}
        for row, start in starts.items():
            by_start.setdefault(start, []).append(row)
        for relation, window in self.rules.runs[rows]:
            for start, of_start in by_start.items():
                if window is None:
                    before = (self.time_of(start - 1),)
                    self._queue([(relation, row + before) for row in of_start], k, k)
                    continue
                points = covered(start, k, self.first, *window)
                if points is not None:
                    self._queue([(relation, row) for row in of_start], max(points[0], k), points[1])

    # --- counts ---

    def _feed_count(self, k: Point, feed: CountFeed, counted: CountedAtoms, atoms: PointAtoms) -> None:
        assert self.first is not None
        label = feed.count.label
        arrived: Mapping[Any, Micros] = atoms.triples if label is None else atoms.events.get(label, {})
        change = counted.advance(k, arrived)
        self._count_changes.append(change)
        for window in feed.windows:
            kept = self._kept_rows[window.name]
            entered, displaced, removed = kept.advance(change)
            if window.has_in:
                self._queue([(window.sometime, row) for row in entered], k, FOREVER)
                self._cut((window.sometime, row) for row in removed)
            if window.has_at:
                time = (self.time_of(k),)
                self._queue([(window.at, row + time) for row in entered], k, FOREVER)
                self._cut((window.at, (*row, self.time_of(u))) for row, u in displaced if u != k)
            if window.has_always:
                groups = {window.project(pair.atom): counted.count.group(pair.atom) or () for pair in change.entered}
                whole = [row for row in entered if kept.points[row] == k - counted.start(groups[row], self.first) + 1]
                self._queue([(window.always, row) for row in whole], k, k)
            self._feed_points_of_count(k, window, counted)

    def _feed_points_of_count(self, k: Point, window: CountedWindow, counted: CountedAtoms) -> None:
        """Queues and cuts the times of the points of a tuple window, for groups with atoms of B."""
        assert self.first is not None
        for group in window.groups_of_b:
            key = (window.name, group)
            start = counted.start(group, self.first)
            for u in range(self._starts.get(key, start), start):
                self._cut([(window.points, (*group, self.time_of(u)))])
            self._starts[key] = start
            self._queue([(window.points, (*group, self.time_of(k)))], k, FOREVER)

    def _cut(self, facts: Iterable[RelationFact]) -> None:
        cells = self._closure.held.cells
        for fact in facts:
            cell = cells.get(fact)
            if cell is not None:
                self._inserted_before[fact] = cell[INSERTED]
                self._closure.cut(fact)

    def _restore_kept_rows(self) -> None:
        """Derives the rows of tuple windows from the pairs that counts keep."""
        for feed, counted in zip(self.rules.counts, self._counts, strict=True):
            for window in feed.windows:
                self._kept_rows[window.name].restore(counted.pairs())

    def next_point(self) -> Point | None:
        """The next point that must be evaluated if no atoms arrive; None: there is none."""
        if self._closure.point is None:
            return self.first
        change = self._closure.next_change()
        dense = self.rules.dense
        if dense:
            after = self._closure.point + 1
            last = self._last_with_atoms
            if dense == FOREVER or (last is not None and after <= last + dense):
                return after
        return change

    # --- contents of windows, for explanations ---

    def points_of(self, window: PointWindow | str | None, row: FactRow) -> tuple[Point, Point]:
        """The first and the last point of a window at the last point evaluated.

        `window`: a window of points, or the name of a tuple window, which must keep `row`.
        """
        assert self.first is not None
        assert self.point is not None
        if isinstance(window, tuple):
            return max(self.first, self.point - window[1]), self.point - window[0]
        for counted, _, pair in self._pairs(window, row):
            group = counted.count.group(pair.atom)
            return counted.start(group if group is not None else (), self.first), self.point
        return self.first, self.point

    def last_kept(self, window: str, row: FactRow) -> Point:
        """The last point with which a tuple window keeps a row; the row must be in the window."""
        return max(pair.point for _, _, pair in self._pairs(window, row))

    def _pairs(self, window: str | None, row: FactRow) -> Iterator[tuple[CountedAtoms, CountedWindow, MaintainedPair]]:
        for feed, counted in zip(self.rules.counts, self._counts, strict=True):
            for each in feed.windows:
                if each.name == window:
                    yield from ((counted, each, pair) for pair in counted.pairs() if each.project(pair.atom) == row)

    # --- reports ---

    def _changes(self, began: Sequence[WindowFact], ended: Sequence[WindowFact]) -> list[ReportChange]:
        changes = [ReportChange([], []) for _ in self.rules.reports]
        reports = self._reports
        for is_end, facts in enumerate((began, ended)):
            for fact in facts:
                for number, report, test, columns in reports.get(fact[0], ()):
                    row: FactRow = fact[1]  # type: ignore[assignment]
                    if (test is None or test(row)) and row not in self.rules.static.rows.get(report.relation, ()):
                        changes[number][is_end].append(tuple([row[column] for column in columns]))
        return changes

    def reported(self) -> list[list[FactRow]]:
        """The rows of each REPORT at the last point, in the order of REPORTs; rows in no order."""
        facts = [fact for fact, _ in self._closure.facts() if fact[0] in self._reports]
        return [change.began for change in self._changes(facts, ())]

    # --- state ---

    @property
    def log_rows(self) -> Sequence[AtomRows]:
        """The rows of the atoms of each log."""
        return [each.rows for each in self._logged]

    @property
    def logs(self) -> Sequence[AtomsByPoint]:
        """The atoms that windows reach, a log for each of `log_rows`."""
        return self._to_write()[1]

    def _to_write(self) -> tuple[list[WrittenInsert], list[AtomsByPoint]]:
        """The insertions that have not ended, without those of windows of the stream; and the logs
        of the latter.
        """
        if self._written is not None:
            return self._written
        others: list[WrittenInsert] = []
        point, by_point = self._closure.point, [dict[Point, list[FactRow]]() for _ in self._logged]
        if point is not None:
            last_points = {
                each.widest.relation: (by_point[n], each.widest.window[1]) for n, each in enumerate(self._logged) if not each.each
            }
            of_windows = {feed.relation for each in self._logged for feed in each.feeds}
            for fact, start, horizon in self._closure.insertions(point):
                relation, row = fact  # type: ignore[misc]
                if relation in last_points:
                    atoms, reach = last_points[relation]
                    atoms.setdefault(horizon - reach, []).append(row)
                elif relation not in of_windows:
                    others.append(WrittenInsert(relation, start, horizon, row))
        logs: list[AtomsByPoint] = [sorted(found.items()) for found in by_point]
        for number, each in enumerate(self._logged):
            if each.each and point is not None:
                logs[number] = self._each[each.rows].atoms(point)
        self._written = others, logs
        return self._written

    def to_json(self) -> dict[str, Any]:
        """The state as values of JSON, without the logs."""
        groups: dict[tuple[str, Point, Point], list[list[Term]]] = {}
        for relation, start, horizon, row in self._to_write()[0]:
            groups.setdefault((relation, start, horizon), []).append(list(row))
        written: dict[str, list[list[Any]]] = {}
        for (relation, start, horizon), rows in sorted(groups.items()):
            written.setdefault(relation, []).append([start, horizon, sorted(rows)])
        return {
            "first": self.first,
            "point": self._closure.point,
            "inserted": written,
            "runs": {rows.name: runs.to_json() for rows, runs in self._runs.items()},
            "counts": [counted.to_json() for counted in self._counts],
            "reached": self._point_rows.reached,
            "last_with_atoms": self._last_with_atoms,
        }

    def restore(self, written: Mapping[str, Any], logs: Sequence[AtomsByPoint]) -> None:
        """The inverse of `to_json` and `logs`; conclusions are derived again.

        A log may have an atom with several points, the last of which counts. Raises `ValueError` if
        the number of logs differs.
        """
        self._written = None
        for log in self._each.values():
            log.clear()
        self.first = written["first"]
        self._closure = self._new_closure()
        self._queued, self._inserted_before, self._starts = [], {}, {}
        if written["point"] is None:
            if self.first is not None:
                first, self.first = self.first, None
                self.begin(first)
            return
        for relation, inserted in written["inserted"].items():
            for start, horizon, rows in inserted:
                self._closure.insert_all([(relation, tuple(row)) for row in rows], start, horizon)
        for each, atoms in zip(self._logged, logs, strict=True):
            for u, rows in atoms:
                if each.each:
                    self._each[each.rows].add(u, rows)
                for facts, start, horizon in self._window_insertions(u, each.feeds, rows):
                    self._closure.insert_all(facts, start, horizon)
        self._closure.advance(written["point"])
        for rows, runs in self._runs.items():
            runs.restore(written["runs"][rows.name])
        for counted, state in zip(self._counts, written["counts"], strict=True):
            counted.restore(state)
        self._restore_kept_rows()
        for feed, counted in zip(self.rules.counts, self._counts, strict=True):
            for window in feed.windows:
                self._starts.update({(window.name, group): counted.start(group, written["first"]) for group in window.groups_of_b})
        self._point_rows.reached = sorted(written["reached"])
        self._last_with_atoms = written["last_with_atoms"]

    def keyed_state(self, key: LarsKey) -> StatePart:
        """The part of `to_json`: runs, counted pairs and the insertions of atoms have the keys of the
        file, points have none."""
        from dotr.engine.state.keyed import ByName, Common, CommonRows, Fields, KeyedRows, RowGroups, RowsAt

        def rows_after(values: int, key_of: KeyOfRow | None) -> StatePart:
            return CommonRows() if key_of is None else KeyedRows(lambda row: key_of(row[values:]))

        def inserted(relation: str) -> StatePart:
            meaning = self.rules.meanings.get(relation)
            rows = CommonRows() if meaning is None else rows_after(0, key.of_rows(meaning.rows.predicate, meaning.rows.names))
            return RowGroups(lambda _: rows)

        counted = [feed.count.label for feed in self.rules.counts]
        parts = {
            "first": Common(min),
            "point": Common(max),
            "inserted": ByName(inserted),
            "runs": ByName({rows.name: RowsAt(rows_after(1, key.of_rows(rows.predicate, rows.names))) for rows in self._runs}.__getitem__),
            "counts": Fields([rows_after(1, key.of_triples() if label is None else key.of_events(label)) for label in counted]),
            "reached": CommonRows(),
            "last_with_atoms": Common(max),
        }
        return ByName(parts.__getitem__)


# Points of a LARS file as rows: their times, and pairs of times that are 2ʲ points apart.
#
# A small case: points 1, 2 and 3 with a step of two points. At 3 the pair of the times of 1 and 3 is
# inserted, and holds as long as a window reaches 1.


class PointRows:
    """The rows of the relations that points themselves enter (`PointFeeds`).

    `time_of`: function from a point to the term of its time. `reached`: the evaluated points within
    `LarsRules.reach`, in order.
    """

    def __init__(self, rules: LarsRules, time_of: Callable[[Point], Term]) -> None:
        self._rules: Final = rules
        self._time_of: Final = time_of
        self.reached: list[Point] = []

    def enter(self, k: Point, first: Point, insert: Callable[[Sequence[WindowFact], Point, Point], None], *, has_atoms: bool) -> None:
        """Inserts the rows of an evaluated point; `first` is the first point of the line.

        `insert`: receives rows, and the first and the last point at which they hold.
        """
        feeds, time_of = self._rules.points, self._time_of
        if feeds.has_now:
            insert([(NOW, (time_of(k),))], k, k)
        if has_atoms or self._rules.dense:
            for (least, greatest), relation in feeds.within.items():
                insert([(relation, (time_of(k),))], k + least, k + greatest)
        for (least, greatest), relation in feeds.each.items():
            insert([(relation, (time_of(k),))], k + least, k + greatest)
        for least, relation in feeds.latest.items():
            if k - least >= first:
                insert([(relation, (time_of(k - least),))], k, k)
        for (least, greatest), relations in feeds.spans.items():
            begin, end = max(first, k - greatest), k - least
            if begin <= end:
                # The greatest 2ʲ that is not longer than the window: runs of 2ʲ points from its first point and up to its
                # last one cover it. For points 3 to 7, j = 2: runs of four points from 3 and from 4.
                j = (end - begin + 1).bit_length() - 1
                insert([(relations[j], (time_of(begin), time_of(end - (1 << j) + 1)))], k, k)
        if not self._rules.reach:
            return
        self.reached = [u for u in self.reached if u >= k - self._rules.reach]
        evaluated = set(self.reached)
        for (greatest, j), relation in feeds.steps.items():
            u = k - (1 << j)
            if u in evaluated:
                insert([(relation, (time_of(u), time_of(k)))], k, u + greatest)
        for greatest, relations in feeds.covers.items():
            u = k - 1
            while u >= first and u >= k - greatest:
                j = (k - u).bit_length() - 1
                insert([(relations[j], (time_of(u), time_of(u + 1), time_of(k - (1 << j) + 1)))], k, k)
                if u not in evaluated:
                    break
                u -= 1
        self.reached.append(k)
