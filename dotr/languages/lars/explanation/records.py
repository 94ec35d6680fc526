"""Records of LARS files in a replay: the atoms of each point, and the models computed from them.

Idea: the run of a file in the replay's engine passes the atoms of each evaluated point to its
record (`dotr.languages.lars.run`). The model of a point is computed from these atoms, in the order
of time; for a later point the computation continues from the model of the earlier one.
Memory: the atoms of all points, which are never discarded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.engine.unit_runs import UnitRun
from dotr.evaluation.expressions.values.times import time_term
from dotr.evaluation.limits import BOUNDS
from dotr.explanations.replay.records import UnitRecord
from dotr.languages.lars.closure.atoms import NO_ATOMS, PointAtoms
from dotr.languages.lars.closure.maintained import LarsClosure
from dotr.languages.lars.closure.rules import rules_of_file
from dotr.languages.lars.keys import EventReads
from dotr.languages.lars.model import LarsFile
from dotr.languages.lars.run import LarsRun
from dotr.model.terms import Term
from dotr.model.time import Clock, Micros
from dotr.temporal.horizons.rules import Point


class EvaluatedPoint(NamedTuple):
    """An evaluated point with its atoms; without atoms if they exceeded a limit."""

    point: Point
    atoms: PointAtoms


class LarsRecord(UnitRecord):
    """Record of the points of a LARS file so far; it implements `PointWatch`.

    Args:
        run: the run of the file, which notifies the record.
        file: the file.
        events: the sources of the events that it reads, by label.
        program: the program that it is a part of.
        clock: the form of times in terms.

    Attributes:
        first: the first point of the timeline; None before it.
        points: the evaluated points, in their order.
    """

    def __init__(self, run: UnitRun, file: LarsFile, events: EventReads, program: CompiledProgram, clock: Clock) -> None:
        assert isinstance(run, LarsRun)
        run.watch = self
        self.file = file
        self.events = events
        self.first: Point | None = None
        self.points: list[EvaluatedPoint] = []
        self._program = program
        self._clock = clock
        self._line: LarsLine | None = None

    def evaluated(self, first: Point, point: Point, atoms: PointAtoms) -> None:
        """Record a point with its atoms."""
        self.first = first
        self.points.append(EvaluatedPoint(point, atoms))

    @property
    def resolution(self) -> Micros:
        """The length of a point in µs."""
        return self.file.resolution

    def atoms_at(self, point: Point) -> PointAtoms:
        """The atoms of a point; no atoms if it was not evaluated."""
        place = bisect_left(self.points, point, key=lambda each: each.point)
        return self.points[place].atoms if place < len(self.points) and self.points[place].point == point else NO_ATOMS

    def with_atoms(self, first: Point, last: Point) -> Sequence[EvaluatedPoint]:
        """The evaluated points from one point to another, both included."""
        start = bisect_left(self.points, first, key=lambda each: each.point)
        return self.points[start : bisect_right(self.points, last, key=lambda each: each.point)]

    def model(self, point: Point) -> LarsClosure:
        """The model of the file at a point, valid until the next call."""
        if self._line is None:
            self._line = self.line(self.file)
        return self._line.at(point)

    def line(self, file: LarsFile) -> LarsLine:
        """The models of another version of the file, such as one with probe rules, over these
        points."""
        return LarsLine(self, file, self._program, self._clock)

    def time_term(self, point: Point) -> Term:
        """The time of a point as a term."""
        return time_term(point * self.resolution, self._clock)


class LarsLine:
    """Models of a file at the points of a record.

    Args:
        record: the record of the points.
        file: the recorded file, or one with further rules.
        program: the program that the file is a part of.
        clock: the form of times in terms.
    """

    def __init__(self, record: LarsRecord, file: LarsFile, program: CompiledProgram, clock: Clock) -> None:
        self._record = record
        self._limits = program.spec.limits
        self._clock = clock
        BOUNDS.start(self._limits.literal, self._limits.text)
        self._rules = rules_of_file(file, program.knowledge.background, clock)
        self._closure = self._new_closure()

    def _new_closure(self) -> LarsClosure:
        closure = LarsClosure(self._rules, self._record.resolution, self._clock, self._limits.triples)
        assert self._record.first is not None, "the line has begun"
        closure.begin(self._record.first)
        return closure

    def at(self, point: Point) -> LarsClosure:
        """The model at a point, valid until the next call.

        Raises `LimitExceeded` if a point exceeds a limit that it did not exceed in the run.
        """
        BOUNDS.start(self._limits.literal, self._limits.text)
        if self._closure.point is not None and self._closure.point > point:
            self._closure = self._new_closure()
        for _ in self._advanced(point):
            pass
        return self._closure

    def every(self, last: Point) -> Iterator[LarsClosure]:
        """The model at each point up to `last` at which atoms arrive or conclusions begin or
        end."""
        BOUNDS.start(self._limits.literal, self._limits.text)
        self._closure = self._new_closure()
        for _ in self._advanced(last):
            yield self._closure

    def _advanced(self, last: Point) -> Iterator[None]:
        closure, first = self._closure, self._record.first
        assert first is not None
        passed = first - 1 if closure.point is None else closure.point
        for each in [*self._record.with_atoms(passed + 1, last), EvaluatedPoint(last, NO_ATOMS)]:
            while (due := closure.next_point()) is not None and passed < due < each.point:
                closure.advance(due)
                passed = due
                yield
            if each.point > passed:
                closure.advance(each.point, each.atoms)
                passed = each.point
                yield
