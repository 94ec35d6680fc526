"""One LARS file with its state: the points of its time line, and the events of its REPORTs.

Idea: arriving atoms belong to the point k whose interval ((k−1)·r, k·r] contains their time, and
are held until k·r. There the point is evaluated, once. A point without atoms is evaluated only if a
fact may begin or end there, if a REPORT ALL outputs its facts, or if it is the last one. The facts
that began and ended since the last evaluated point are the rows of REPORT NEW and ENDED.

A point whose derivations exceed a limit is a dead letter, and is evaluated without its atoms.

In a gap that is skipped only points with atoms are evaluated. Before the next point that is, those
in between are evaluated without a report, as far as a later point depends on them; what began and
ended there begins and ends at that point.

Invariant: `step` is a function of the state and its arguments. Derived facts are no part of the
state: `restore` derives them again.
Source: lars.md, sections 2 and 4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from dotr.engine.gaps import Gap, gap_letter
from dotr.engine.unit_runs import UnitArrivals, UnitContext, UnitResult, UnitRun, failure_letter
from dotr.errors.fallbacks import FallbackKind, reraise_in_tests
from dotr.evaluation.limits import BOUNDS, LimitExceeded
from dotr.languages.lars.closure.atoms import NO_ATOMS, AtomsByPoint, PointAtoms
from dotr.languages.lars.closure.maintained import LarsClosure, ReportChange
from dotr.languages.lars.closure.relations import ReportedRows
from dotr.languages.lars.closure.rules import rules_of_file
from dotr.languages.lars.description import reaches, window_of
from dotr.languages.lars.keys import EventReads, labels_read, lars_key, triples_read
from dotr.languages.lars.model import DerivedAtom, LarsFile, OwnRelation, ReportKind, TupleWindow
from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.event_order import AttributeValues
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Term, Triple, Variable, can_be_subject, is_iri
from dotr.model.time import Micros
from dotr.temporal.horizons.rules import FOREVER, FactRow, Point
from dotr.temporal.layout.spread import BucketShare
from dotr.temporal.matching.events import StoredEvent

if TYPE_CHECKING:  # loaded where a state is divided
    from dotr.engine.state.keyed import KeyedState


class PointWatch(Protocol):
    """Observer of the points of a file, for explanations."""

    def evaluated(self, first: Point, point: Point, atoms: PointAtoms) -> None:
        """Notifies of a point evaluated with its atoms; `first` is the first point of the line."""


class LarsRun(UnitRun):
    """A LARS file with its state.

    - `first`: the first point, k₁; None before the first instant.
    - `last`: the last point, once it is known.
    - `passed`: the last point that was evaluated; None before the first.
    - `watch`: the observer of evaluated points, in explanations only.
    - `skipped`: the last point of a gap that is skipped; None once a later point is evaluated.

    With a `share` it outputs only the rows whose key is in the bucket. Rows of other keys may be
    derived from the background or from incomplete facts, and may be wrong; the key ensures that
    they join with no row of the bucket.
    """

    acts_alone = True

    def __init__(self, file: LarsFile, events: EventReads, context: UnitContext, share: BucketShare | None = None) -> None:
        self._file: Final = file
        self._resolution: Final = file.resolution
        self._limits: Final = context.limits
        self._clock: Final = context.clock
        self._is_first_share: Final = share is None or share.bucket == 0
        self.skipped: Point | None = None
        self._unreported: list[ReportChange] | None = None  # changes at points evaluated without a report
        self._gap: Gap | None = None
        rules = rules_of_file(file, context.knowledge.background, context.clock)
        self.closure: Final = LarsClosure(rules, self._resolution, context.clock, context.limits.triples)
        self.first: Point | None = None
        self.last: Point | None = None
        self.passed: Point | None = None
        self.watch: PointWatch | None = None
        self._labels: Final = labels_read(file, events)
        self._pending: Point | None = None  # the point of the atoms that have arrived
        self._triples: dict[Triple, Micros] = {}
        self._events: dict[Label, dict[FactRow, Micros]] = {}
        self._held: list[set[FactRow] | None] = [set() if report.kind is ReportKind.ALL else None for report in file.reports]
        self._next: Point | None = None
        self._reads: Final = len(events) + (triples_read(file) is not None)
        self._own: Final = None if share is None else OwnRows(file, share)

    # --- time ---

    def _point_of(self, time: Micros) -> Point:
        return -(-time // self._resolution)

    def begin(self, time: Micros) -> None:
        """Begin the line with the point of the first instant, at a time in µs."""
        if self.first is None:
            self.first = self._point_of(time)
            self.closure.begin(self.first)
            self._note_next()

    def end(self, last: Micros, *, is_fed: bool) -> Sequence[DeadLetter]:
        """End the line with the point of the last instant, which is evaluated even without
        atoms."""
        self.last = self._point_of(last)
        self._note_next()
        return ()

    def open_gap(self, after: Micros, before: Micros) -> Sequence[DeadLetter]:
        """Skip the points between two times in µs if the file may report, or must evaluate, more
        than `limits.gap` of them.

        Points with atoms are left out: they belong to what came. The file alone decides it, and so
        it is the same in every bucket.
        """
        self._gap = Gap(after, before)
        return self._skip(after)

    def _skip(self, after: Micros) -> Sequence[DeadLetter]:
        """The dead letter of the rest of the gap if it has too many points, which are skipped."""
        gap, first = self._gap, self._point_of(after)
        if gap is None or self.first is None:
            return ()
        last = (gap.before - 1) // self._resolution
        number = min(last - first, self._acting)
        if number <= self._limits.gap:
            return ()
        self.skipped, self._gap = last, None
        self._note_next()
        if not self._is_first_share:
            return ()
        return (gap_letter(self._file.name, self._file.span, Gap(after, gap.before), number, self._limits.gap, self._clock),)

    @cached_property
    def _acting(self) -> Point:
        """The number of points after one with atoms at which rows may be reported, or each of which
        must be evaluated; FOREVER: all points."""
        rules, file = self.closure.rules, self._file
        if rules.dense == FOREVER or ReportKind.ALL not in {report.kind for report in file.reports}:
            return rules.dense
        if any(isinstance(window_of(literal), TupleWindow) for literal in file.literals):
            return FOREVER
        longest = max([self._reach, rules.dense])
        alone = LarsClosure(rules, self._resolution, self._clock, self._limits.triples)
        alone.begin(0)
        try:
            point: Point | None = 0
            while point is not None:
                alone.advance(point)
                point = alone.next_point()
        except LimitExceeded:
            return FOREVER
        kinds = [report.kind for report in file.reports]
        holds = any(rows and kind is ReportKind.ALL for rows, kind in zip(alone.reported(), kinds, strict=True))
        return FOREVER if holds else longest

    @cached_property
    def _reach(self) -> Point:
        """The number of points that windows of time reach back."""
        file = self._file
        return max((greatest for each in file.literals for _, _, greatest, _ in reaches(each, file.resolution)), default=0)

    def next_due(self) -> Micros | None:
        """The time in µs of the next point to evaluate: one with atoms, one at which something
        begins or ends, or the last one; None: there is none."""
        is_last_due = self.last is not None and (self.passed is None or self.passed < self.last)
        points = [self._pending, self._next, self.last if is_last_due else None]
        point = min([each for each in points if each is not None], default=None)
        if self.first is None or point is None or (self.last is not None and point > self.last):
            return None
        return point * self._resolution

    @property
    def is_under_way(self) -> bool:
        """True after the last instant until the last point is evaluated."""
        return self.last is not None and self.first is not None and (self.passed is None or self.passed < self.last)

    @property
    def is_over(self) -> bool:
        """True once the last point is evaluated."""
        return self.last is not None and not self.is_under_way

    def _note_next(self) -> None:
        """Set `_next`, the next point to evaluate if nothing arrives."""
        point = self.closure.next_point()
        if self.first is None:
            self._next = None
        elif self.passed is None:
            self._next = self.first
        elif any(self._held):  # REPORT ALL has rows at the next point, too
            self._next = self.passed + 1
        else:
            self._next = None if point is None else max(point, self.passed + 1)
        if self.skipped is not None and (self._next is not None or self._unreported is not None):
            self._next = max(self._next or 0, self.skipped + 1)
        if self.is_under_way and self.last is not None and (self._next is None or self._next > self.last):
            self._next = self.last

    # --- a moment ---

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        """The result of a moment: arrivals are held for their point; at the time of a point, the
        point is evaluated if it is due."""
        point = self._point_of(time)
        if self.first is None or (self.last is not None and point > self.last):
            return UnitResult([])
        if arrivals:
            self._pending = point
            for number, arrived in arrivals.items():
                self._take(number, arrived, time)
        if time != point * self._resolution or (self._pending is None and point not in (self._next, self.last)):
            return UnitResult([])
        atoms = NO_ATOMS if self._pending is None else PointAtoms(self._triples, self._events)
        if self.skipped is not None:
            self._evaluate_skipped(point)
        result = self._evaluate(point, atoms)
        self._pending, self._triples, self._events = None, {}, {}
        self.passed = point
        self._note_next()
        if self._gap is not None and time >= self._gap.before:
            self._gap = None
        if self._gap is not None and atoms is not NO_ATOMS and (letters := self._skip(time)):
            return result._replace(failed=[*result.failed, *letters])
        return result

    def _evaluate_skipped(self, point: Point) -> None:
        """Evaluate the points before `point` that are skipped, without a report: those at which
        something begins or ends and, where all are evaluated, those that a window reaches."""
        closure = self.closure
        assert self.skipped is not None
        last = min(self.skipped, point - 1)
        if self._unreported is None:
            self._unreported = [ReportChange([], []) for _ in closure.rules.reports]
        if not closure.rules.dense:
            while (due := closure.next_point()) is not None and due <= last:
                self._evaluate_silently(due)
        elif self._reach <= self._limits.gap and closure.point is not None:
            for each in range(max(closure.point + 1, last - self._reach), last + 1):
                self._evaluate_silently(each)
        if point > self.skipped:
            self.skipped = None

    def _evaluate_silently(self, point: Point) -> None:
        assert self._unreported is not None
        BOUNDS.start(self._limits.literal, self._limits.text)
        try:
            changes = self.closure.advance(point)
        except Exception as error:
            if not isinstance(error, LimitExceeded):
                reraise_in_tests(error, FallbackKind.GRAPHS)
            return
        self._unreported = [net_change(*both) for both in zip(self._unreported, changes, strict=True)]

    def _take(self, number: int, arrived: Sequence[tuple[int, AttributeValues]], time: Micros) -> None:
        if number not in self._labels:
            self._triples.update(dict.fromkeys([row for _, row in arrived], time))  # type: ignore[misc]
            return
        label, source = self._labels[number]
        events, names = self._events.setdefault(label, {}), source.attributes
        for _, row in arrived:
            event = [each for name, term in zip(names, row, strict=True) if term is not None for each in (name, term)]
            events[tuple(event)] = time

    def _evaluate(self, point: Point, atoms: PointAtoms) -> UnitResult:
        failed: list[DeadLetter] = []
        changes: Sequence[ReportChange] = ()
        for attempt in (atoms, NO_ATOMS):
            BOUNDS.start(self._limits.literal, self._limits.text)
            try:
                changes = self.closure.advance(point, attempt)
                if self._unreported is not None:
                    changes = [net_change(*both) for both in zip(self._unreported, changes, strict=True)]
                    self._unreported = None
                if self.watch is not None and self.first is not None:
                    self.watch.evaluated(self.first, point, attempt)
                break
            except Exception as error:
                name, time = self._file.name, point * self._resolution
                letter = failure_letter(error, FallbackKind.GRAPHS, f"a point of {name}", name, self._file.span, time)
                failed = failed or [letter]
        return UnitResult([firing for firings in self._firings(point, changes) for firing in firings], failed)

    def _firings(self, point: Point, changes: Sequence[ReportChange]) -> list[list[Firing]]:
        found: list[list[Firing]] = []
        for number, (began, ended) in enumerate(changes):
            report, held = self.closure.rules.reports[number], self._held[number]
            match report.report.kind:
                case ReportKind.NEW:
                    rows = began
                case ReportKind.ENDED:
                    rows = ended
                case ReportKind.ALL:
                    assert held is not None
                    held.difference_update(ended)
                    held.update(began)
                    rows = sorted(held)
            found.append(self._firings_of(point, report, rows))
        return found

    def _firings_of(self, point: Point, report: ReportedRows, rows: Sequence[FactRow]) -> list[Firing]:
        label, time = report.report.label, point * self._resolution
        names = [name for name, _ in report.names]
        events = [tuple(zip(names, row, strict=True)) for row in rows]
        if self._own is not None:
            events = self._own.of(report.report.atom, events)
        if not isinstance(report.report.atom, TriplePattern):
            return [Firing(time, label, label, attributes, None, 0) for attributes in events]
        graphs = [graph_of(report.report.atom, dict(attributes)) for attributes in events]
        return [Firing(time, label, label, attributes, graph, int(not graph)) for attributes, graph in zip(events, graphs, strict=True)]

    # --- state ---

    @property
    def event_counts(self) -> list[int]:
        """The number of stored atoms, all of them under the first read."""
        return [self.closure.kept if number == 0 else 0 for number in range(self._reads)]

    def to_json(self) -> str:
        """The state as JSON, without the atoms of logs: the line, the atoms held for their point,
        and the state of the closure."""
        triples = [[time, list(triple)] for triple, time in sorted(self._triples.items())]
        events = [[label, [[time, list(event)] for event, time in sorted(found.items())]] for label, found in sorted(self._events.items())]
        skipped = [] if self.skipped is None and self._unreported is None else [[self.skipped, self._unreported]]
        return json.dumps([self.first, self.last, self.passed, self._pending, triples, events, self.closure.to_json(), *skipped])

    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        """Continue from the result of `to_json` and the atoms of each log."""
        BOUNDS.start(self._limits.literal, self._limits.text)
        BOUNDS.lift()
        written: list[Any] = json.loads(text)
        self.first, self.last, self.passed, self._pending, triples, events, closure, *skipped = written
        self.skipped, self._unreported = None, None
        for self.skipped, unreported in skipped:
            if unreported is not None:
                self._unreported = [ReportChange(*([tuple(row) for row in rows] for rows in change)) for change in unreported]
        self._triples = {(triple[0], triple[1], triple[2]): time for time, triple in triples}
        self._events = {label: {tuple(event): time for time, event in found} for label, found in events}
        if not self._triples and not self._events:  # those of the point are in other buckets
            self._pending = None
        self.closure.restore(closure, [self._by_point(log) for log in entries])
        if self.passed is not None:
            for held, rows in zip(self._held, self.closure.reported(), strict=True):
                if held is not None:
                    held.clear()
                    held.update(rows)
        self._note_next()

    def keyed_state(self) -> KeyedState | None:
        """The atoms of the state have the keys of the file."""
        from dotr.engine.state.keyed import Common, Fields, KeyedLog, KeyedRows, KeyedState, RowGroups

        key = lars_key(self._file)
        triples = KeyedRows(key.of_triples(), nested=1)
        events = RowGroups(lambda name: KeyedRows(key.of_events(str(name[0])), nested=1))
        last = Common(max)
        rest = Fields([Common(min), last, last, last, triples, events, self.closure.keyed_state(key)])
        return KeyedState(rest, [KeyedLog(key.of_rows(rows.predicate, rows.names)) for rows in self.closure.log_rows])

    def _by_point(self, log: Sequence[StoredEvent]) -> AtomsByPoint:
        atoms = groupby(log, key=itemgetter(0))
        return [(time // self._resolution, [each[2] for each in found]) for time, found in atoms]  # type: ignore[misc]

    def entries(self, after: Micros | None = None) -> Sequence[Sequence[StoredEvent]]:
        """The atoms of each log after a time in µs (None: all), each at the time of its point."""
        resolution = self._resolution
        return [
            [
                (point * resolution, ordinal, row)
                for point, rows in log
                if after is None or point * resolution > after
                for ordinal, row in enumerate(rows)
            ]
            for log in self.closure.logs
        ]

    def oldest(self) -> Sequence[Micros | None]:
        """The time in µs of the first point with atoms of each log."""
        return [log[0][0] * self._resolution if log else None for log in self.closure.logs]

    @property
    def entry_count(self) -> int:
        """The number of atoms in all logs; an atom counts once for each point that stores it."""
        return sum(len(rows) for log in self.closure.logs for _, rows in log)


def net_change(first: ReportChange, then: ReportChange) -> ReportChange:
    """The change that two changes make, one after the other.

    >>> net_change(ReportChange([("a",), ("b",)], [("c",)]), ReportChange([("c",), ("d",)], [("a",)]))
    ReportChange(began=[('b',), ('d',)], ended=[])
    """
    began, ended = dict.fromkeys(first.began), dict.fromkeys(first.ended)
    for rows, of, against in ((then.began, began, ended), (then.ended, ended, began)):
        for row in rows:
            if row in against:
                del against[row]
            else:
                of[row] = None
    return ReportChange(list(began), list(ended))


class OwnRows:
    """The rows of a file's reports whose key is in a bucket; rows without a key are in the first
    bucket.
    """

    def __init__(self, file: LarsFile, share: BucketShare) -> None:
        key = lars_key(file)
        self._share = share
        self._objects = key.objects
        self._places = {each.name: place for each, place in key.places.items() if isinstance(each, OwnRelation)}

    def of(self, atom: DerivedAtom, rows: Sequence[tuple[tuple[Variable, Term], ...]]) -> list[tuple[tuple[Variable, Term], ...]]:
        """The bucket's rows of an atom, among rows of its variables with their terms."""
        return [row for row in rows if self._share.has(self._key(atom, dict(row)))]

    def _key(self, atom: DerivedAtom, values: Mapping[Variable, Term]) -> Term | None:
        if isinstance(atom, TriplePattern):
            slot = atom.object if _term(atom.predicate, values) in self._objects else atom.subject
            return _term(slot, values)
        place = self._places.get(atom.relation)
        return _term(atom.slots[place], values) if isinstance(place, int) else None


def _term(slot: Slot, values: Mapping[Variable, Term]) -> Term:
    return slot.term if isinstance(slot, Const) else values[slot.name]


def graph_of(atom: TriplePattern, values: dict[Variable, Term]) -> tuple[Triple, ...]:
    """The graph of a triple atom: its triple, or no triple where that is not valid RDF.

    >>> from dotr.model.algebra import Var
    >>> graph_of(TriplePattern(Var("x"), Const("<e:p>"), Var("y")), {"x": "<e:a>", "y": '"1"'})
    (('<e:a>', '<e:p>', '"1"'),)
    >>> graph_of(TriplePattern(Var("y"), Const("<e:p>"), Var("x")), {"x": "<e:a>", "y": '"1"'})
    ()
    """
    triple = _term(atom.subject, values), _term(atom.predicate, values), _term(atom.object, values)
    return (triple,) if can_be_subject(triple[0]) and is_iri(triple[1]) else ()
