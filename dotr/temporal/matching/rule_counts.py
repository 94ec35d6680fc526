"""Counts of each rule: anchors, the furthest clause that a binding has passed, and events.

Idea: a production run counts only what its summary prints. Events are counted when they are
written. Anchors are counted in the matcher: one number if the rules of a group have the same
anchors, and by the number of active rows if the rows are sorted by their only constant (a row's
anchors are those at which at least that many rows were active). For the furthest clause, each
clause has the set of rows that have not passed it; an empty set costs a test of a local variable.
Invariant: an anchor is counted once for each rule whose constraints it satisfies, even if the rule
then fails or exceeds a limit.
Cost: about 20 ns an anchor, 40 ns an active row where rows are found by several constants, and 40
ns an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate
from operator import add, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dotr.model import dataclass
from dotr.model.terms import Term
from dotr.model.time import Micros

if TYPE_CHECKING:  # totals are read by processes that match no rule
    from dotr.model.algebra import Expression
    from dotr.temporal.matching.events import StoredEvent
    from dotr.temporal.matching.rule_search import TableRow

FirstError: TypeAlias = tuple[bool, Micros, int, str]
"""True where a value is unbound, the time of an anchor (µs), the place of the clause at which a
condition of it erred (`if` is the last place, 0 the anchor), and the reason. So a value of another
kind precedes one that is not there."""

_UNBOUND: Final = "a value is unbound"

_KEPT_ERRORS: Final = 4096


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Counts of a rule.

    Attributes:
        anchors: events that satisfy the constraints of the rule's anchor.
        events: events that the rule has written.
        furthest: the number of clauses that at least one binding has passed, 0 where none has
            passed the first; `if` counts as a clause. It stops growing once the rule has fired.
        after: the bindings left after each clause and `if`; empty unless the rule is counted so.
        errors: by place of the clause (`if` is the last), the bindings that end there while a
            condition is an error: that of `if`, or of a candidate's constraints that name another
            event. A clause without such an error is left out.
        first_error: the least error (`FirstError`); None without errors.
        held_back: firings that the rule's `once` has held back.
        unbound_keys: firings, held back or not, of which a key of `once` is unbound.
        delay_errors: events that would be anchors, but whose value of `delayed by` is no delay.
    """

    anchors: int = 0
    events: int = 0
    furthest: int = 0
    after: tuple[int, ...] = ()
    errors: Mapping[int, int] = field(default_factory=dict)
    first_error: FirstError | None = None
    held_back: int = 0
    unbound_keys: int = 0
    delay_errors: int = 0

    def __add__(self, other: RuleCounts) -> RuleCounts:
        """
        >>> RuleCounts(anchors=2, furthest=1, after=(1, 0)) + RuleCounts(anchors=3, events=1, furthest=2, after=(2, 1))
        RuleCounts(anchors=5, events=1, furthest=2, after=(3, 1), errors={}, first_error=None, held_back=0, unbound_keys=0, delay_errors=0)
        """
        after = tuple(map(add, self.after, other.after)) if self.after and other.after else self.after or other.after
        return RuleCounts(
            self.anchors + other.anchors,
            self.events + other.events,
            max(self.furthest, other.furthest),
            after,
            {place: self.errors.get(place, 0) + other.errors.get(place, 0) for place in sorted({*self.errors, *other.errors})},
            min((each for each in (self.first_error, other.first_error) if each is not None), default=None),
            self.held_back + other.held_back,
            self.unbound_keys + other.unbound_keys,
            self.delay_errors + other.delay_errors,
        )


def added_counts(counts: Mapping[str, RuleCounts], other: Mapping[str, RuleCounts]) -> dict[str, RuleCounts]:
    """The sums of the counts of each rule, by its name.

    >>> added_counts({"A": RuleCounts(1)}, {"A": RuleCounts(2, 1), "B": RuleCounts(4)})["A"]
    RuleCounts(anchors=3, events=1, furthest=0, after=(), errors={}, first_error=None, held_back=0, unbound_keys=0, delay_errors=0)
    """
    return {**counts, **{name: counts[name] + count if name in counts else count for name, count in other.items()}}


class ConditionError(NamedTuple):
    """An error of a condition of a rule (by its number) at the clause of a place, with the anchor
    and the terms of the condition's parameters."""

    rule: int
    place: int
    anchor: StoredEvent
    condition: Expression
    terms: tuple[Term | None, ...]

    @property
    def reason(self) -> str:
        """The first term that is text, unbound or no number, in the innermost part that errs.

        >>> from dotr.model.algebra import Call, Const, Var
        >>> of_lab = Call("=", (Var("room"), Const('"lab"')))
        >>> of_high = Call(">", (Var("v"), Const('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')))
        >>> ConditionError(0, 1, (0, 0, ()), Call("&&", (of_lab, of_high)), ('"lab"', '"n/a"')).reason
        '"n/a" is text'
        """
        from dotr.evaluation.expressions import first_error
        from dotr.evaluation.expressions.kinds import TermKind, kinds_text, term_kind
        from dotr.model.traverse import parameters_of

        values: dict[Expression, Term | None] = dict(zip(parameters_of([self.condition]), self.terms, strict=True))
        part = first_error(self.condition, values.get)
        terms = [values[each] for each in parameters_of([part or self.condition])]
        kinds = [None if term is None else term_kind(term) for term in terms]
        for wanted in (TermKind.STRING, None):
            if wanted in kinds:
                term = terms[kinds.index(wanted)]
                return _UNBOUND if term is None else f"{term} is text"
        others = [(term, kind) for term, kind in zip(terms, kinds, strict=True) if kind is not None and kind is not TermKind.NUMBER]
        if others:
            return f"{others[0][0]} is {kinds_text(frozenset([others[0][1]]))}"
        return "its value is an error" if self.place else "its value is no delay"


class GroupCounter:
    """Counter of the anchors and the furthest clauses of a group of rules, changed by its matcher.

    Attributes:
        anchors: the anchors of every row.
        lengths: the anchors by the number of active rows, where the active rows are always the
            first rows or always the last.
        by_rule: further anchors by the number of the rule.
        unreached: for each clause but the last step of the rule, the rows with a binding that
            satisfies the clause before it and no binding that satisfies this clause. The set of
            place 1 initially has all rows.
        after: if counted, the bindings left after each step of the only row.
        errors: the errors of conditions that are not yet added up, as those of `ConditionError`.
        held_back, unbound_keys: those of `RuleCounts`, by the number of the rule.

    In a stage of rules, counts of clauses start after the `passed` clauses of the stages before.
    """

    __slots__ = (
        "_counted",
        "_errors",
        "_firsts",
        "_passed",
        "_prefix",
        "_rules",
        "after",
        "anchors",
        "by_rule",
        "errors",
        "held_back",
        "lengths",
        "unbound_keys",
        "unreached",
    )

    def __init__(self, rules: Sequence[int], steps: int, *, prefix: bool | None = None, counted: bool = False, passed: int = 0) -> None:
        self._rules = rules
        self._passed = passed
        self._counted = counted
        self._prefix = prefix
        self.anchors = 0
        self.lengths = [0] * (len(rules) + 1) if prefix is not None else []
        self.by_rule = dict.fromkeys(rules, 0)
        self.held_back: Counter[int] = Counter()
        self.unbound_keys: Counter[int] = Counter()
        self.unreached: tuple[set[int], ...] = tuple(set() for _ in range(steps - 1))
        if passed < len(self.unreached):
            self.unreached[passed].update(rules)
        self.after = [0] * steps
        self.errors: list[tuple[int, int, StoredEvent, Expression, tuple[Term | None, ...]]] = []
        self._errors: Counter[tuple[int, int]] = Counter()
        self._firsts: dict[int, FirstError] = {}

    def reach(self, place: int, rows: Iterable[TableRow]) -> None:
        """Notes that each of these rows has a binding that satisfies the clause at this place."""
        unreached = self.unreached[place - 1]
        reached = unreached.intersection([row[0] for row in rows])
        if reached:
            unreached -= reached
            if place < len(self.unreached):
                self.unreached[place].update(reached)

    def repeating(self) -> GroupCounter:
        """A counter for a retried anchor: it shares the noted clauses with this counter, but not
        the anchors.
        """
        again = GroupCounter(self._rules, len(self.after), prefix=self._prefix, counted=self._counted, passed=self._passed)
        again.unreached, again.after = self.unreached, self.after
        again.errors, again._errors, again._firsts = self.errors, self._errors, self._firsts
        again.held_back, again.unbound_keys = self.held_back, self.unbound_keys
        return again

    def fail(self, rule: int, place: int, anchor: StoredEvent, condition: Expression, terms: tuple[Term | None, ...]) -> None:
        """Notes that a binding of an anchor ends at a clause, where a condition is an error; `terms`
        are those of its parameters. At place 0 the value of `delayed by` is no delay."""
        errors = self.errors
        if len(errors) >= _KEPT_ERRORS and errors[-1][2] is not anchor:
            self._add_errors()
        errors.append((rule, place, anchor, condition, terms))

    def forget(self, anchor: StoredEvent, rule: int | None = None) -> None:
        """Removes the errors of an anchor that is retried, of one rule or of all."""
        while self.errors and self.errors[-1][2] is anchor and rule in (None, self.errors[-1][0]):
            self.errors.pop()

    def errors_of_condition(self, rule: int) -> int:
        """The number of errors of a rule at its last step."""
        self._add_errors()
        return self._errors[rule, len(self.after)]

    def _add_errors(self) -> None:
        """Adds the errors up. The reason is looked for only where it may be the first: of values that
        are numbers or unbound it is clear."""
        if not self.errors:
            return
        from dotr.evaluation.expressions.values.terms import NUMERIC, VALUES

        def are_numbers(terms: Sequence[Term | None]) -> bool:
            return all(term is None or type(VALUES[term]) in NUMERIC for term in terms)

        firsts = self._firsts
        self._errors.update(map(itemgetter(0, 1), self.errors))
        for rule, place, anchor, condition, terms in self.errors:
            first = firsts.get(rule)
            if first is not None and anchor[0] > first[1] and (not first[0] or (None in terms and are_numbers(terms))):
                continue
            reason = ConditionError(rule, place, anchor, condition, terms).reason
            here = reason == _UNBOUND, anchor[0], place, reason
            firsts[rule] = here if first is None else min(first, here)
        self.errors.clear()

    @property
    def bindings(self) -> tuple[int, ...]:
        """The bindings counted so far."""
        return tuple(self.after)

    @bindings.setter
    def bindings(self, counted: tuple[int, ...]) -> None:
        self.after[:] = counted

    def add_rule(self, rule: int, single: GroupCounter, *, with_anchors: bool) -> None:
        """Adds the counts of a rule's own counter, those of its anchors only `with_anchors`."""
        for place, unreached in enumerate(single.unreached, 1):
            if rule in unreached:
                break
            self.reach(place, ((rule,),))
        if with_anchors:
            self.by_rule[rule] += single.anchors
        self.errors += single.errors
        single.errors = []
        self.held_back.update(single.held_back)
        self.unbound_keys.update(single.unbound_keys)

    @property
    def has_anchors(self) -> bool:
        """True if an anchor was counted for any rule."""
        return bool(self.anchors or any(self.lengths) or any(self.by_rule.values()))

    def counts(self) -> dict[int, RuleCounts]:
        """The counts so far by the number of the rule, without events."""
        own = [0] * len(self._rules)
        if self.lengths:
            own = list(accumulate(reversed(self.lengths[1:])))[::-1]
            if not self._prefix:
                own.reverse()
        after = tuple(self.after) if self._counted else ()
        self._add_errors()
        found = {}
        for position, rule in enumerate(self._rules):
            anchors = self.anchors + own[position] + self.by_rule[rule]
            furthest = next((place for place, unreached in enumerate(self.unreached) if rule in unreached), len(self.unreached))
            if furthest <= self._passed:
                furthest = 0  # no binding has passed a clause of this stage; earlier stages count their own clauses
            further = self.held_back[rule], self.unbound_keys[rule], self._errors[rule, 0]
            errors = {place: self._errors[rule, place] for place in range(1, len(self.after) + 1) if (rule, place) in self._errors}
            found[rule] = RuleCounts(anchors, 0, furthest, after, errors, self._firsts.get(rule), *further)
        return found


class LayerCounter:
    """Counter of the rules of a layer in one partition: a counter for each group, and the events
    of each rule by its name.
    """

    __slots__ = ("events", "groups")

    def __init__(self, groups: Sequence[GroupCounter], names: Sequence[str]) -> None:
        self.groups = groups
        self.events = dict.fromkeys(names, 0)

    def counts(self, names: Sequence[str]) -> dict[str, RuleCounts]:
        """The counts so far by the name of the rule; `names` has the rules in their order."""
        numbered = {number: counts for group in self.groups for number, counts in group.counts().items()}
        return {name: replace(numbered[number], events=self.events[name]) for number, name in enumerate(names)}
