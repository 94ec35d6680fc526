"""One unit of EP-SPARQL with its state: operands, the tree of operators, and events.

Idea: what arrives at a moment becomes solutions of the operands; the tree gives the solutions of
the unit, and each is an event.
Invariant: `step` depends on the state and its arguments alone. The state is that of the tree.
Source: ep-sparql.md, sections 2, 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dotr.engine.interval_events import EventMaker
from dotr.engine.interval_operands import OperandSolutions
from dotr.engine.unit_runs import EventPart, UnitArrivals, UnitResult, UnitRun
from dotr.errors.fallbacks import FallbackKind, error_line, reraise_in_tests
from dotr.expressions.literal_limits import BOUNDS
from dotr.joins.limits import LimitExceeded, Limits
from dotr.layout.interval_units import IntervalUnit
from dotr.model.intervals import operand_reads
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Clock, Micros
from dotr.patterns.events import StoredEvent
from dotr.patterns.intervals.solutions import IntervalSolution, LeafSolution
from dotr.patterns.intervals.tree import PatternTree


class IntervalRun(UnitRun):
    """A QUERY or STREAM on its way through its streams.

    `traced`: solutions keep their parts, for explanations.
    """

    def __init__(self, unit: IntervalUnit, clock: Clock, limits: Limits, *, traced: bool = False) -> None:
        query = unit.query
        self.unit = unit
        self._limits = limits
        self._clock = clock
        self._traced = traced
        self._tree = None if query.where is None else PatternTree(query.where, query.policy, clock, limits, traced=traced)
        reads = self._reads = [] if query.where is None else [each.operand for each in operand_reads(query.where)]
        self._operands = [
            OperandSolutions(number, operand, inputs, limits, traced=traced)
            for number, (operand, inputs) in enumerate(zip(reads, unit.operands, strict=True))
        ]
        self._feeds: dict[int, list[OperandSolutions]] = {}
        for operand in self._operands:
            for each in operand.inputs:
                self._feeds.setdefault(each, []).append(operand)
        names = unit.reads[0].stream.attributes if self._tree is None else self._tree.names  # type: ignore[union-attr]
        self._events = EventMaker(query, names or (), clock)
        self.begun: Micros | None = None

    # --- time: a unit has none of its own ---

    def begin(self, time: Micros) -> None:
        if self.begun is None:
            self.begun = time

    def end(self, last: Micros, *, is_fed: bool) -> None:
        pass

    def next_due(self) -> Micros | None:
        return None

    @property
    def is_under_way(self) -> bool:
        return False

    @property
    def is_over(self) -> bool:
        return False

    # --- moments ---

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        result, exceeded = self.new(time, arrivals), self.keep(time, arrivals)
        return result if exceeded is None or result.failed else exceeded

    def new(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        """The events of a moment, from what is read now; `keep` has to follow."""
        BOUNDS.characters = self._limits.literal
        return self._safely(time, self._new, arrivals)

    def keep(self, time: Micros, arrivals: UnitArrivals) -> UnitResult | None:
        """Keep what is strictly past from now on, of all that arrives at a moment; returns the dead
        letter of a failure, for which the unit makes no event at that moment.
        """
        if self._tree is None:
            return None
        BOUNDS.characters = self._limits.literal
        result = self._safely(time, self._keep, arrivals)
        return result if result.failed else None

    def _safely(self, time: Micros, act: Callable[[Micros, UnitArrivals], UnitResult], arrivals: UnitArrivals) -> UnitResult:
        try:
            return act(time, arrivals)
        except LimitExceeded as error:
            return UnitResult([], [self._dead_letter(Reason.LIMIT, time, f"{self.unit.name} goes over a limit: {error}")])
        except Exception as error:
            reraise_in_tests(error, FallbackKind.RULES)
            return UnitResult([], [self._dead_letter(Reason.FAILED, time, f"{self.unit.name} fails: {error_line(error)}")])

    def _new(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        if self._tree is None:
            solutions: list[IntervalSolution] = [(time, time, values, ()) for _, values in arrivals.get(0, ())]
        else:
            found = self._tree.new(time, self.arrived(time, arrivals))
            if found.exceeded is not None:
                raise found.exceeded
            solutions = found.solutions
        firings, made_of = self._events.events(time, solutions)
        starts = [start for _, start, _, _ in made_of]
        if not self._traced:
            return UnitResult(firings, starts=starts)
        return UnitResult(firings, starts=starts, parts=[[self._part(each) for each in parts] for _, _, _, parts in made_of])

    def _part(self, solution: LeafSolution) -> EventPart:
        operand, names = self._reads[solution.leaf], self._operands[solution.leaf].names
        bound = tuple([(name, term) for name, term in zip(names, solution.values, strict=True) if term is not None])
        return EventPart(operand.span, solution.start, solution.end, bound)

    def _keep(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        assert self._tree is not None
        exceeded = self._tree.keep(time, self.arrived(time, arrivals))
        if exceeded is not None:
            raise exceeded
        return UnitResult([])

    def arrived(self, time: Micros, arrivals: UnitArrivals) -> Mapping[int, list[IntervalSolution]]:
        """The new solutions of the operands at which something has arrived, by number."""
        found: dict[int, list[IntervalSolution]] = {}
        for read, rows in arrivals.items():
            for operand in self._feeds.get(read, ()):
                solutions = operand.of(time, read, rows)
                if solutions:
                    found[operand.number] = found[operand.number] + solutions if operand.number in found else solutions
        return found

    def _dead_letter(self, reason: Reason, time: Micros, why: str) -> DeadLetter:
        span, label = self.unit.span, self.unit.name
        return DeadLetter(reason, f"rule {label}", span.document.name, span.line_column[0], time, label, why)

    # --- state ---

    @property
    def event_counts(self) -> Sequence[int]:
        """All kept solutions, under the first read; operators keep them, not reads."""
        kept = 0 if self._tree is None else len(self._tree)
        return [kept, *[0] * (len(self.unit.reads) - 1)] if self.unit.reads else []

    def to_json(self) -> str:
        return "[]" if self._tree is None else self._tree.to_json()

    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        if self._tree is not None:
            self._tree.restore(text)
