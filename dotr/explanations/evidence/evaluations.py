"""Results of the evaluation of a rule at one anchor: bindings, and candidates with their
outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from dotr.evaluation.expressions import TermOf, evaluator
from dotr.explanations.replay.history import RecordedEvent
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Exists, Expression, TimeOf, Var
from dotr.model.places import Span
from dotr.model.rules import Clause
from dotr.model.terms import FALSE, TRUE, Label, Term, Variable
from dotr.model.time import Micros
from dotr.model.traverse import operands, parameters_of

# Conditions on events, with their outcome and the terms that decided it.
#
# Idea: each conjunct is compiled by itself (`dotr.evaluation.expressions`) and called with the terms
# of one binding. Compiled conjuncts are cached, since all candidates of a clause share them.


@dataclass(frozen=True, slots=True)
class ConditionOutcome:
    """A conjunct of a constraint or of `if` in one binding.

    Attributes:
        expression: the conjunct.
        holds: its truth; None: it errs, which counts as false.
        operands: its variables, attributes and times with their terms, in the order of appearance.
        sides: of `A || B`, the outcome of each side; otherwise empty.
        span: its place in the rule file; None: unknown.
        is_delay: it is the value of `delayed by`, which is no delay.
    """

    expression: Expression
    holds: bool | None
    operands: tuple[tuple[Expression, Term | None], ...]
    sides: tuple[ConditionOutcome, ...] = ()
    span: Span | None = None
    is_delay: bool = False


@lru_cache(maxsize=4096)
def _truth(expression: Expression) -> tuple[tuple[Var | Attribute | TimeOf | Exists, ...], Callable[..., Term | None]]:
    parameters = parameters_of([expression])
    return parameters, evaluator(Call("!", (Call("!", (expression,)),)), parameters)


def truth_in(expression: Expression, term_of: TermOf) -> bool | None:
    """The truth of a condition in a binding; None: it errs.

    >>> from dotr.model.algebra import Const, Var
    >>> bound = Call("BOUND", (Var("v"),))
    >>> truth_in(bound, {Var("v"): '"1"'}.get), truth_in(Call("<", (Var("v"), Const('"5"'))), {}.get)
    (True, None)
    """
    parameters, evaluate = _truth(expression)
    term = evaluate(*map(term_of, parameters))
    return True if term == TRUE else False if term == FALSE else None


def outcome_of(expression: Expression, term_of: TermOf, places: Mapping[Expression, Span]) -> ConditionOutcome:
    """The outcome of a conjunct in a binding. `places` has the spans of conjuncts."""
    parameters, evaluate = _truth(expression)
    terms = [term_of(parameter) for parameter in parameters]
    term = evaluate(*terms)
    holds = True if term == TRUE else False if term == FALSE else None
    alternatives = operands(expression, "||")
    sides = tuple([outcome_of(each, term_of, {}) for each in alternatives]) if len(alternatives) > 1 else ()
    return ConditionOutcome(expression, holds, tuple(zip(parameters, terms, strict=True)), sides, places.get(expression))


def failing(outcomes: Sequence[ConditionOutcome]) -> list[ConditionOutcome]:
    """The outcomes that are false or errors."""
    return [each for each in outcomes if each.holds is not True]


class AnchorOrder(NamedTuple):
    """Position of an anchor in the order of evaluation.

    - `due`: its time plus the delay of the anchor, in µs since 1970.
    - `time`: its time, in µs since 1970.
    - `number`: its place among the events of its time.
    """

    due: Micros
    time: Micros
    number: int


EventKey: TypeAlias = tuple[Micros, int]
"""The time (µs since 1970) and the number of an event within its stream."""


FiringKeys: TypeAlias = tuple[Term | None, ...]
"""The values of the keys of `once`, in the order of their names."""


class ConsumedEvents:
    """Events consumed by the firings of one rule, by label, with the anchor of the first firing;
    and the anchors of its firings by the keys of its `once`."""

    def __init__(self) -> None:
        self._by_label: dict[Label, dict[EventKey, AnchorOrder]] = {}
        self._firings: dict[FiringKeys, dict[AnchorOrder, None]] = {}

    def note_firing(self, keys: FiringKeys, order: AnchorOrder) -> None:
        """Record a firing of an anchor that `once` has not held back."""
        self._firings.setdefault(keys, {})[order] = None

    def holding_back(self, keys: FiringKeys, anchor: AnchorOrder, pause: Micros) -> AnchorOrder | None:
        """The last anchor before `anchor` whose firing with these keys holds others back for the
        pause (µs); None: there is none."""
        last = max((each for each in self._firings.get(keys, ()) if each < anchor), default=None)
        return last if last is not None and anchor.due - last.due < max(pause, 1) else None

    def add(self, label: Label, event: RecordedEvent, by: AnchorOrder) -> None:
        """Record that the firing of an anchor consumes an event."""
        self._by_label.setdefault(label, {}).setdefault((event.time, event.number), by)

    def before(self, label: Label, event: RecordedEvent, anchor: AnchorOrder) -> AnchorOrder | None:
        """The anchor before `anchor` whose firing consumed an event under a label; None: the event
        is not consumed.
        """
        used = self._by_label.get(label)
        by = None if used is None else used.get((event.time, event.number))
        return by if by is not None and by < anchor else None

    def discard_before(self, before: Micros) -> None:
        """Remove the events and firings before a time (µs since 1970)."""
        for keys, orders in list(self._firings.items()):
            self._firings[keys] = {each: None for each in orders if each.due >= before}
            if not self._firings[keys]:
                del self._firings[keys]
        for used in self._by_label.values():
            for key in [key for key in used if key[0] < before]:
                del used[key]


@dataclass(frozen=True)
class Binding:
    """A partial match.

    Attributes:
        events: the event of each positive role so far, by label; the anchor first.
        aggregates: the value of each aggregate with a value, by its variable.
        results: for each aggregated label its variable and value, if there is one.
        used: the events of each label, aggregated ones included, as `consuming` consumes them.
        branches: the product of the numbers of events that the clauses have chosen.
    """

    events: Mapping[Label, RecordedEvent]
    aggregates: Mapping[Variable, Term] = field(default_factory=dict)
    results: Mapping[Label, Mapping[Variable, Term]] = field(default_factory=dict)
    used: Mapping[Label, tuple[RecordedEvent, ...]] = field(default_factory=dict)
    branches: int = 1


@dataclass(frozen=True, slots=True)
class CandidateEvaluation:
    """An event that a clause examines.

    Attributes:
        event: the event.
        distance: how far it is before the window's reference, in µs; negative: after it. Of
            `between`: before the later of both events.
        outside: how far it is outside of the window, in µs; 0: inside.
        conditions: the outcome of each constraint, in the order written.
        consumed_by: the anchor whose firing has consumed it; None: it is not consumed.
        taken_as: the label under which the match has this event already; always None for negations
            and aggregates, which read every event.
        has_value: False if it lacks the attribute that the clause aggregates.
        chosen: True if the clause selects it, matches it in a negation, or aggregates it.
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
        binding: the binding of the clauses before it.
        earliest, latest: the times in µs that its window accepts, both included; of an empty range
            the earliest is later.
        candidates: all examined events, in the order of time and ties, including those beyond the
            window up to the `reach` of the evaluation.
        value: the value of an aggregate; None: it has none, or the clause is no aggregate.
        bindings: the bindings after it; empty: the clause stops this binding.
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
        """The candidates that the clause selects, matches in a negation, or aggregates."""
        return [each for each in self.candidates if each.chosen]


@dataclass(frozen=True)
class FinalCondition:
    """The outcomes of the conjuncts of `if` for a complete binding; no conjunct without `if`."""

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
class HeldBack:
    """A binding that `once` holds back, its keys, and the anchor whose firing does it."""

    binding: Binding
    keys: FiringKeys
    by: AnchorOrder


@dataclass(frozen=True)
class AnchorEvaluation:
    """A rule at one anchor.

    Attributes:
        anchor: the event.
        order: its position in the order of evaluation.
        conditions: the outcome of each of the anchor's own constraints. If one fails, the event is
            no anchor, and no clause is evaluated.
        clauses: for each clause its evaluation for each binding of the clauses before it.
        final: for each binding of all clauses the outcome of `if`.
        bindings: the bindings with which the rule fires.
        held: those that `once` holds back.
    """

    anchor: RecordedEvent
    order: AnchorOrder
    conditions: tuple[ConditionOutcome, ...]
    clauses: tuple[tuple[ClauseEvaluation, ...], ...]
    final: tuple[FinalCondition, ...]
    bindings: tuple[Binding, ...]
    held: tuple[HeldBack, ...] = ()

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
        complete = len(self.bindings) + len(self.held)
        return [*(sum(len(each.bindings) for each in evaluations) for evaluations in self.clauses), complete]

    @property
    def passed(self) -> int:
        """The number of leading clauses that leave a binding; one more if `if` leaves one."""
        return next((place for place, number in enumerate(self.reached) if not number), len(self.reached))
