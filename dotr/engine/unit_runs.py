"""Runs of units of other languages than that of rules: the interface between a unit and a runtime.

Idea: a runtime calls a run at the first instant (`begin`), at each moment with arrivals or with
work due (`step`, `next_due`), and after the last instant (`end`). So the same run makes the same
events in process and on Spark, in any batches and after a restart.
Invariant: `step` is a function of the state and its arguments: it reads no clock, no random number,
and no order but that of the arrivals, which is the same in every runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from dotr.errors.diagnostics import Diagnostic
from dotr.errors.fallbacks import FallbackKind, error_line, reraise_in_tests
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.calendars import Schedule
from dotr.model.datalog import DatalogRule
from dotr.model.places import Span
from dotr.model.rules import Rule
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.spread import BucketShare
from dotr.temporal.layout.units import StreamUnit
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.operator import Arrival
from dotr.temporal.matching.rule_counts import RuleCounts

if TYPE_CHECKING:
    from dotr.engine.state.keyed import KeyedState
    from dotr.instant.datalog.content_entailment import ContentCloser
    from dotr.temporal.layout.layers import Layout
    from dotr.temporal.stage_two import StageTwo

Part = TypeVar("Part")

UnitArrivals: TypeAlias = Mapping[int, Sequence[Arrival]]
"""The arrivals of a unit at a moment, by the number of the read (`StreamUnit.reads`): facts and
events in the tie order, graphs and triples in the order of their rows. Reads without arrivals are
absent."""


class EventPart(NamedTuple):
    """A premise of an event, for explanations: the solution of one operand of the unit.

    - `span`: the operand's place in the unit's file.
    - `start`, `end`: its interval in µs.
    - `attributes`: its bound variables, sorted.
    """

    span: Span
    start: Micros
    end: Micros
    attributes: tuple[tuple[Variable, Term], ...]


class UnitResult(NamedTuple):
    """The result of a moment of a unit.

    - `firings`: its events in any order; `Firing.event` is the label, attributes are sorted by
      name.
    - `failed`: a dead letter for each failure or excess of a limit (semantics.md, 8).
    - `contradictions`: those in the windows that the unit has closed.
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

    Order of calls: `begin` once, before anything else; `step` at increasing times; `end` once,
    after the last instant; then perhaps further calls of `step`. A run is stepped at each moment
    with arrivals, and at each time that `next_due` has returned. Between any two steps the state
    may move: `restore` on a new run continues from the results of `entries` and `to_json`.

    State that grows with the stream is kept as *logs*: sequences of entries that are appended and
    expire in the order of time. A runtime writes the entries appended since the last batch, not the
    whole log. The rest of the state is `to_json`, which is written whole at each batch.

    `is_waiting`: after the last instant the unit ends only once no unit that feeds it may make
    events any more; `release` is then to be called.

    `acts_alone`: `next_due` may return a time. Where it is False, only arrivals make events: no
    result depends on `next_due`, `begin` and `end`.

    The methods of time, as far as they are not overridden, are those of a run that does not act
    alone.
    """

    acts_alone: bool = False
    is_waiting: bool = False

    def begin(self, time: Micros) -> None:  # noqa: B027 - only some runs need it
        """Note the time of the first instant in µs; without effect after the first call. For a unit
        that is added to a running program it is the time after the last instant."""

    def end(self, last: Micros, *, is_fed: bool) -> Sequence[DeadLetter]:
        """Note the last instant, or the last time advanced to, in µs. `is_fed`: a unit that feeds
        this one may still make events. The result is that of `open_gap`."""
        return ()

    def open_gap(self, after: Micros, before: Micros) -> Sequence[DeadLetter]:
        """Note that no instant is between two times in µs, where the run may act more than
        `limits.gap` times (`gaps`): then it skips all its moments there. The run has been stepped
        up to `after`.

        Returns:
            the dead letter of the gap, if it is skipped; of a unit that is spread over buckets, the
            first bucket has it.
        """
        return ()

    def release(self, time: Micros) -> Sequence[DeadLetter]:
        """Note that from a time in µs on no unit feeds this one, which waits for that. The result
        is that of `open_gap`."""
        return ()

    def next_due(self) -> Micros | None:
        """The next time in µs at which the unit is to be stepped if nothing arrives; None:
        never."""
        return None

    @property
    def is_under_way(self) -> bool:
        """True if the unit may still make events after the last instant without arrivals: a report
        or a point is to come. Arrivals may make it fire in any case, so `is_fed` of its readers
        also considers the units that feed this one."""
        return False

    @property
    def is_over(self) -> bool:
        """True if the unit makes no event any more, whatever arrives."""
        return False

    @abstractmethod
    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        """The result of a moment.

        Args:
            time: in µs, after all earlier ones and not after `next_due`.
            arrivals: the arrivals at this time.
            is_fed: True after the last instant while a unit that feeds this one may still make
                events; False before.
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
        """Continue, in a new run, from the result of `to_json` and all entries of each log.

        Raises:
            ValueError, TypeError, KeyError: the text has another form.
        """

    def keyed_state(self) -> KeyedState | None:
        """The parts of the state that have a key, and those that are the same in every bucket; None:
        the unit has one partition."""
        return None

    def step_rule_by(self, rule: Rule, make: Callable[[Layout, Mapping[Label, tuple[Variable, ...]]], StageTwo]) -> None:
        """Replace the layer of a rule within the unit, for explanations; only before the first
        moment.

        `make` receives the rule's layout and the attributes of each label.
        """
        raise AssertionError(f"the unit has no rule {rule.name}")

    def take_rule_counts(self) -> Mapping[str, RuleCounts]:
        """The counts of the rules within the unit since the last call, by name of the rule; of errors of
        conditions also by label."""
        return {}

    def entries(self, after: Micros | None = None) -> Sequence[Sequence[StoredEvent]]:
        """The stored entries of each log after a time in µs (None: all), in the order of time.

        The number of logs is fixed. Rows of one log may differ in length.
        """
        return ()

    def oldest(self) -> Sequence[Micros | None]:
        """The time in µs of the first stored entry of each log; None for an empty one."""
        return ()

    @property
    def entry_count(self) -> int:
        """The number of stored entries of all logs."""
        return sum(self.event_counts) if self.oldest() else 0


def failure_letter(error: Exception, kind: FallbackKind, what: str, name: str, span: Span, time: Micros) -> DeadLetter:
    """The dead letter of a moment of a unit that has raised an error: it goes over a limit or, with
    any other error, fails; in tests that is raised again.

    Args:
        error: the error that is being handled.
        kind: that of the error, if it is no limit.
        what: the moment in the message, such as "a report of Q".
        name: the name of the unit, with its place.
        time: the time of the moment in µs.
    """
    reraise_in_tests(error, kind)
    if isinstance(error, LimitExceeded):
        return DeadLetter.of_unit(Reason.LIMIT, name, span, time, f"{what} goes over a limit: {error}")
    return DeadLetter.of_unit(Reason.FAILED, name, span, time, f"{what} fails: {error_line(error)}")


class SharedParts:
    """Parts that units of one program share, one of each class; their language puts them there.

    >>> shared = SharedParts()
    >>> shared.part(list, list) is shared.part(list, list)
    True
    """

    def __init__(self) -> None:
        self._parts: dict[type[object], object] = {}

    def part(self, kind: type[Part], make: Callable[[], Part]) -> Part:
        """The part of a class, which is made when it is first asked for."""
        found = self._parts.get(kind)
        if not isinstance(found, kind):
            found = self._parts[kind] = make()
        return found


@dataclass(frozen=True)
class UnitContext:
    """Settings that all units of a program share.

    - `knowledge`: the background; `closing_rules`: the Datalog rules that close windows over it.
    - `clock`: the form of times in terms; `origin`: of windows, in µs.
    - `shared`: what units that are stepped together moment by moment share; None where each unit is
      stepped through a batch by itself.
    - `traced`: results have the parts of their events, for explanations.
    """

    knowledge: Knowledge
    closing_rules: Sequence[DatalogRule]
    clock: Clock
    limits: Limits
    origin: Micros
    shared: SharedParts | None = None
    traced: bool = False

    @cached_property
    def closer(self) -> ContentCloser:
        """The closer of contents of windows."""
        from dotr.instant.datalog.content_entailment import ContentCloser

        return ContentCloser(self.knowledge, self.closing_rules, self.limits.triples)


class UnitMeaning(NamedTuple):
    """Digest and noun by which stored state is recognised as that of a unit.

    - `noun`: the kind of unit, in messages on its state.
    - `text`: the parsed text as plain data, which is digested with the streams that the unit reads.
    - `settings`: numbers of the program on which the state depends.
    """

    noun: str
    text: object
    settings: tuple[int, ...] = ()


class EngineUnit(StreamUnit):
    """A unit as the engine knows it: its run, its meaning and its warnings, beside its place in the
    layout. The class of each language derives from it.
    """

    __slots__ = ()

    @abstractmethod
    def run(self, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
        """The run of the unit before the first instant.

        Args:
            context: the settings of the program's units.
            share: the bucket, where the unit is spread over buckets; None: the whole unit.
        """

    @property
    def periods(self) -> Sequence[Schedule]:
        """The period in µs of each series of times at which the unit acts by itself."""
        return ()

    @property
    def waits(self) -> bool:
        """True if the unit may make events as time goes on, while nothing comes."""
        return bool(self.periods)

    @property
    def is_inner(self) -> bool:
        """True if its events are no output, but read by another unit alone."""
        return False

    def warnings(self, knowledge: Knowledge, limits: Limits, static: Collection[Select]) -> Iterator[Diagnostic]:
        """Warnings that need the compiled background; `static` are the queries of the program that the
        background alone answers."""
        return iter(())

    @abstractmethod
    def meaning(self, origin: Micros) -> UnitMeaning | None:
        """The meaning of the unit, where windows have an origin in µs; None: it has no state."""


def engine_unit(unit: StreamUnit) -> EngineUnit:
    """A unit of the layout as the engine knows it.

    Raises:
        TypeError: the class of the unit has no run.
    """
    if not isinstance(unit, EngineUnit):
        raise TypeError(f"there is no run for a {type(unit).__name__}")
    return unit
