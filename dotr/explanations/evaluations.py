"""Values of the evaluation of one anchor: its bindings, and all candidates with what decided them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from dotr.explanations.conditions import ConditionOutcome, failing
from dotr.explanations.history import RecordedEvent
from dotr.model.rules import Clause
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros


class AnchorOrder(NamedTuple):
    """Order in which the anchors of a rule are taken: the time in µs at which an anchor stands, and
    its place among those of that time.
    """

    stands: Micros
    number: int


EventKey: TypeAlias = tuple[Micros, int]
"""The time and the number of an event of a known stream."""


class ConsumedEvents:
    """Events that firings of one rule have used up, by label, with the anchor of the first such
    firing.
    """

    def __init__(self) -> None:
        self._by_label: dict[Label, dict[EventKey, AnchorOrder]] = {}

    def add(self, label: Label, event: RecordedEvent, by: AnchorOrder) -> None:
        """Note that the firing of an anchor used up an event."""
        self._by_label.setdefault(label, {}).setdefault((event.time, event.number), by)

    def before(self, label: Label, event: RecordedEvent, anchor: AnchorOrder) -> AnchorOrder | None:
        """The anchor, before another one, whose firing used up an event under a label; None: the
        event is not used up.
        """
        used = self._by_label.get(label)
        by = None if used is None else used.get((event.time, event.number))
        return by if by is not None and by < anchor else None

    def forget(self, before: Micros) -> None:
        """Remove the events with times (µs) before a time."""
        for used in self._by_label.values():
            for key in [key for key in used if key[0] < before]:
                del used[key]


@dataclass(frozen=True)
class Binding:
    """A match on its way.

    Attributes:
        events: the event of each positive role so far, by label; the anchor first.
        aggregates: the value of each aggregate with a value, by its variable.
        results: for each aggregated label its variable and value, if there is one.
        used: the events of each label, aggregated ones included: what `consuming` uses up.
        branches: the product of the numbers of events that the clauses have chosen.
    """

    events: Mapping[Label, RecordedEvent]
    aggregates: Mapping[Variable, Term] = field(default_factory=dict)
    results: Mapping[Label, Mapping[Variable, Term]] = field(default_factory=dict)
    used: Mapping[Label, tuple[RecordedEvent, ...]] = field(default_factory=dict)
    branches: int = 1


@dataclass(frozen=True, slots=True)
class CandidateEvaluation:
    """An event that a clause looks at.

    Attributes:
        event: the event.
        distance: how far it is before the window's reference, in µs; negative: after it. Of
            `between`: before the later of both events.
        outside: how far it is outside of the window, in µs; 0: inside.
        conditions: the outcome of each constraint, in the order written.
        consumed_by: the anchor whose firing has used it up; None: it can be used.
        taken_as: the label under which the match has this event already; always None for negations
            and aggregates, which look at every event.
        has_value: False if it lacks the attribute that the clause aggregates.
        chosen: True if the clause chooses it, refuses for it, or aggregates it.
    """

    event: RecordedEvent
    distance: Micros
    outside: Micros
    conditions: tuple[ConditionOutcome, ...]
    consumed_by: AnchorOrder | None = None
    taken_as: Label | None = None
    has_value: bool = True
    chosen: bool = False

    @property
    def failing(self) -> Sequence[ConditionOutcome]:
        """The constraints that are false or errors."""
        return failing(self.conditions)

    @property
    def failures(self) -> int:
        """The number of failing conditions, distance and consumption among them."""
        return len(self.failing) + (self.outside != 0) + (self.consumed_by is not None) + (self.taken_as is not None) + (not self.has_value)


@dataclass(frozen=True)
class ClauseEvaluation:
    """A clause for one binding of the clauses before it.

    Attributes:
        clause: the clause.
        binding: what is bound before.
        earliest, latest: the times in µs that its window accepts, both included; of an empty range
            the earliest is later.
        candidates: all events looked at, in the order of time and ties, those beyond the window
            included as far as was asked.
        value: the value of an aggregate; None: it has none, or the clause is no aggregate.
        bindings: what is bound after it; empty: the clause stops this binding.
    """

    clause: Clause
    binding: Binding
    earliest: Micros
    latest: Micros
    candidates: tuple[CandidateEvaluation, ...]
    value: Term | None
    bindings: tuple[Binding, ...]

    @property
    def inside(self) -> Sequence[CandidateEvaluation]:
        """The candidates inside the window."""
        return [each for each in self.candidates if not each.outside]

    @property
    def chosen(self) -> Sequence[CandidateEvaluation]:
        """The candidates that it chooses, refuses for, or aggregates."""
        return [each for each in self.candidates if each.chosen]


@dataclass(frozen=True)
class FinalCondition:
    """`if` for a complete binding, with the outcome of each conjunct; without `if` there is none."""

    binding: Binding
    conditions: tuple[ConditionOutcome, ...]

    @property
    def holds(self) -> bool:
        """True if the rule fires with this binding."""
        return not failing(self.conditions)

    @property
    def errs(self) -> bool:
        """True if a conjunct errs and none is false."""
        outcomes = [each.holds for each in self.conditions]
        return None in outcomes and False not in outcomes


@dataclass(frozen=True)
class AnchorEvaluation:
    """A rule at one anchor.

    Attributes:
        anchor: the event.
        order: when the anchor stands, and its place among those of that time.
        conditions: the outcome of each of the anchor's own constraints. If one fails, the event is
            no anchor, and no clause is evaluated.
        clauses: for each clause its evaluation for each binding that reached it.
        final: for each binding of all clauses the outcome of `if`.
        bindings: the bindings with which the rule fires.
    """

    anchor: RecordedEvent
    order: AnchorOrder
    conditions: tuple[ConditionOutcome, ...]
    clauses: tuple[tuple[ClauseEvaluation, ...], ...]
    final: tuple[FinalCondition, ...]
    bindings: tuple[Binding, ...]

    @property
    def is_anchor(self) -> bool:
        """True if the anchor's own constraints hold."""
        return not failing(self.conditions)

    @property
    def fired(self) -> bool:
        """True if the rule fires at this anchor."""
        return bool(self.bindings)

    @property
    def reached(self) -> Sequence[int]:
        """The number of bindings after each clause, and last the number after `if`."""
        return [*(sum(len(each.bindings) for each in evaluations) for evaluations in self.clauses), len(self.bindings)]

    @property
    def passed(self) -> int:
        """The number of clauses, counted without gap, that leave a binding; with `if`, one more."""
        return next((place for place, number in enumerate(self.reached) if not number), len(self.reached))
