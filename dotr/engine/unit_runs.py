"""Units of other languages than that of rules, on their way through a stream: the state of one unit.

Idea: a runtime tells a unit's run when the first instant comes, what arrives at each moment, and
when the last instant is over; it asks when the unit has something to do though nothing arrives. So
the same run gives the same events in process and on Spark, in any batches and after a restart.
Invariant: `step` depends on the state and its arguments alone: no clock, no random number, and no
order of what arrives beyond that of the arrivals, which is the same in every runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dotr.datalog.background import Knowledge
from dotr.datalog.closure import Contradiction
from dotr.joins.limits import Limits
from dotr.layout.interval_components import IntervalComponent
from dotr.layout.interval_units import IntervalUnit
from dotr.layout.unit_spread import BucketShare
from dotr.layout.units import StreamQuery, StreamUnit
from dotr.model.continuous import SelectForm
from dotr.model.datalog import DatalogRule
from dotr.model.places import Span
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.events import StoredEvent
from dotr.patterns.operator import Arrival
from dotr.patterns.rule_counts import RuleCounts

if TYPE_CHECKING:
    from dotr.datalog.said import SaidCloser
    from dotr.engine.kept_windows import SharedClosures

UnitArrivals: TypeAlias = Mapping[int, Sequence[Arrival]]
"""The arrivals of a unit at a moment, by the number of the read (`StreamUnit.reads`): facts in the
order of ties, events in that of ties, graphs and triples in the order of their rows. Reads at which
nothing arrives are absent."""


class EventPart(NamedTuple):
    """A part of an event that a unit made of several, for explanations.

    - `span`: the place in the unit's file that it answers.
    - `start`, `end`: its interval in µs.
    - `attributes`: its bound variables, sorted.
    """

    span: Span
    start: Micros
    end: Micros
    attributes: tuple[tuple[Variable, Term], ...]


class UnitResult(NamedTuple):
    """The result of a moment of a unit.

    - `firings`: its events, `Firing.event` being the label, with attributes sorted by name. Order
      is free.
    - `failed`: a dead letter for each failure or excess of a limit (semantics.md, 8).
    - `contradictions`: of what the unit has closed; a run tells of them and counts them.
    - `starts`: for each firing the start of its event in µs; empty where all start at the moment.
    - `parts`: for each firing its parts, where the run is traced and the language has parts.
    """

    firings: Sequence[Firing]
    failed: Sequence[DeadLetter] = ()
    contradictions: Sequence[Contradiction] = ()
    starts: Sequence[Micros] = ()
    parts: Sequence[Sequence[EventPart]] = ()


class UnitRun(ABC):
    """One unit with its state.

    Order of calls: `begin` once, before anything else; `step` at times that increase; `end` once,
    after the last instant; then perhaps `step` again. Between, `restore` on a new run goes on from
    what `entries` and `to_json` gave, whatever the number of batches. A run is stepped at each
    moment at which something arrives, and at each time that `next_due` gave.

    State that grows with the stream is kept as *logs*: sequences of entries that come and go in the
    order of time. A runtime writes what a log has got since the last batch, so a batch does not
    write the whole state. All else is `to_json`, which is written whole. A run that keeps no logs
    has all in `to_json`.

    `acts_alone`: `next_due` may give a time; where it is False, neither it nor `begin` and `end`
    mean anything.
    """

    acts_alone: bool = True

    @abstractmethod
    def begin(self, time: Micros) -> None:
        """The first instant comes, at a time in µs; nothing where the run has begun. A unit that is
        added amid the stream begins behind the last instant before."""

    @abstractmethod
    def end(self, last: Micros, *, is_fed: bool) -> None:
        """The last instant, or last time advanced to, is over. `is_fed`: a unit that feeds this one
        is under way."""

    @abstractmethod
    def next_due(self) -> Micros | None:
        """The next time in µs at which the unit has something to do if nothing arrives; None:
        never."""

    @property
    @abstractmethod
    def is_under_way(self) -> bool:
        """True if the unit may still make events after the last instant though nothing arrives: a
        report or a point is to come. What arrives may make it fire in any case: `is_fed` of a
        reader asks those that feed this unit too."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """True if the unit makes no event any more, whatever arrives."""

    @abstractmethod
    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        """The result of a moment.

        Args:
            time: in µs, after all before and not after `next_due`.
            arrivals: what arrives at this time.
            is_fed: after the last instant, a unit that feeds this one is still under way. False
                before the last instant is over.
        """

    @property
    @abstractmethod
    def event_counts(self) -> Sequence[int]:
        """The number of elements, events or triples that are kept, by the number of the read."""

    @abstractmethod
    def to_json(self) -> str:
        """The state as JSON, without the logs."""

    @abstractmethod
    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        """Go on, in a new run, from `to_json` and all entries of each log.

        Raises ValueError, TypeError or KeyError where the text is of another form.
        """

    def take_rule_counts(self) -> Mapping[str, RuleCounts]:
        """The counts, since the last call, of rules that are stepped within the unit."""
        return {}

    def entries(self, after: Micros | None = None) -> Sequence[Sequence[StoredEvent]]:
        """The entries of each log that are kept now and are later than a time in µs (None: all),
        in the order of time; the number of logs is fixed. Rows of one log may differ in length."""
        return ()

    def oldest(self) -> Sequence[Micros | None]:
        """For each log the time of its first entry that is kept; None where it is empty."""
        return ()

    @property
    def entry_count(self) -> int:
        """The number of entries of all logs that are kept."""
        return sum(self.event_counts) if self.oldest() else 0


@dataclass(frozen=True)
class UnitContext:
    """Settings that all units of a program share.

    - `knowledge`: the background; `closing_rules`: the rules that close over it.
    - `clock`: the form of times in terms; `origin`: of windows, in µs.
    - `closures`: what windows say, shared by units that are stepped time by time together; None
      where each unit is stepped through a batch by itself.
    - `traced`: results have the parts of their events, for explanations.
    """

    knowledge: Knowledge
    closing_rules: Sequence[DatalogRule]
    clock: Clock
    limits: Limits
    origin: Micros
    closures: SharedClosures | None = None
    traced: bool = False

    @cached_property
    def closer(self) -> SaidCloser:
        """The closer of contents of windows."""
        from dotr.datalog.said import SaidCloser

        return SaidCloser(self.knowledge, self.closing_rules, self.limits.triples)


def unit_run(unit: StreamUnit, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
    """The state of a unit before the first instant, by its class; `share`: the part of a unit that is
    spread over buckets, None: the whole.

    Raises:
        TypeError: there is no run for such a unit.
    """
    from dotr.layout.lars_units import LarsUnit
    from dotr.layout.merged_graphs import ConstructSolutions, MergedGraphs

    match unit:
        case StreamQuery():
            from dotr.engine.query_run import QueryRun
            from dotr.engine.report_evaluation import ReportEvaluator

            evaluator = ReportEvaluator(unit.query, context.closer, context.clock, context.limits, share)
            return QueryRun(evaluator, context.origin, context.closures, [read.stream for read in unit.reads])
        case ConstructSolutions(whole):
            from dotr.engine.query_run import QueryRun
            from dotr.engine.report_evaluation import ReportEvaluator

            selected = replace(whole.query, form=SelectForm(whole.query.query))
            evaluator = ReportEvaluator(selected, context.closer, context.clock, context.limits, share)
            return QueryRun(evaluator, context.origin, context.closures, [read.stream for read in unit.reads], unit.label)
        case MergedGraphs():
            from dotr.engine.graph_run import GraphRun

            return GraphRun(unit)
        case LarsUnit():
            from dotr.engine.lars_run import LarsRun

            return LarsRun(unit, context, share)
        case IntervalUnit():
            from dotr.engine.interval_run import IntervalRun

            return IntervalRun(unit, context.clock, context.limits, traced=context.traced, share=share)
        case IntervalComponent():
            from dotr.engine.interval_component import ComponentRun

            return ComponentRun(unit, context.clock, context.limits, traced=context.traced)
        case _:
            raise TypeError(f"there is no run for a {type(unit).__name__}")
