"""Bounds of a program's state: for each label the retention of its events, and the chain of windows
that causes it.

A rule needs an event while a chain of windows from some anchor can include it
(`dotr.layout.retention`); a delayed anchor is stored for its delay. The longest bound of all rules
that read a shared query or event decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from dotr.explanations.rendering import bound_text
from dotr.languages.rules import RuleSet
from dotr.layout.interval_components import IntervalComponent
from dotr.layout.interval_units import IntervalUnit
from dotr.layout.retention import longest_chain, lookbacks, scope_of
from dotr.layout.units import StreamUnit
from dotr.model.intervals import TemporalOperator, combinations
from dotr.model.rules import Between, Clause, Rule, Window
from dotr.model.terms import Label
from dotr.model.time import Micros


@dataclass(frozen=True, slots=True)
class RetentionBound:
    """Retention of a label's events: `length` in µs, caused by `chain` in the first of `rules`."""

    label: Label
    length: Micros
    chain: tuple[str, ...]
    rules: tuple[str, ...]

    def __str__(self) -> str:
        retention = f"kept {bound_text(self.length)} ({', '.join(self.chain)})" if self.length > 0 else "kept for its own instant"
        others = len(self.rules) - 1
        more = f"; no longer in {others} other rule{'s' if others > 1 else ''}" if others else ""
        return f"{self.label}: {retention} in rule {self.rules[0]}{more}"


@dataclass(frozen=True, slots=True)
class OperatorBound:
    """Retention of the solutions that an operator of an EP-SPARQL unit keeps, `length` in µs."""

    unit: Label
    operator: TemporalOperator
    length: Micros

    def __str__(self) -> str:
        sides = "both sides" if self.operator is TemporalOperator.AND else "the left side"
        return f"{self.unit}: solutions on {sides} of {self.operator.value} kept {bound_text(self.length)}"


@dataclass(frozen=True, slots=True)
class RetainedState:
    """Bounds of a program's state; `title` names its file."""

    title: str
    bounds: tuple[RetentionBound | OperatorBound, ...]

    def __str__(self) -> str:
        if not self.bounds:
            return f"State of {self.title}: none, every anchor is on its own"
        return "\n".join([f"State of {self.title}, bounded by the longest chain of windows:", *(f"  {bound}" for bound in self.bounds)])


def state(title: str, rules: RuleSet, units: Sequence[StreamUnit] = ()) -> RetainedState:
    """Retained state of rules and EP-SPARQL units; `title` names their file."""
    shared = {query.label for query in rules.queries} | {rule.event for rule in rules.rules}
    bounds_by_label: dict[tuple[Label, str], list[RetentionBound]] = {}
    for rule in rules.rules:
        for origin, bound in _bounds_of(rule):
            bounds_by_label.setdefault((origin, "" if origin in shared else rule.name), []).append(bound)
    of_rules = [_longest(label, bounds) for (label, _), bounds in bounds_by_label.items()]
    return RetainedState(title, (*of_rules, *(bound for unit in units for bound in _bounds_of_unit(unit))))


def _bounds_of_unit(unit: StreamUnit) -> Iterator[OperatorBound]:
    """Bounds of the operators of an EP-SPARQL unit, and of the members of a component."""
    match unit:
        case IntervalComponent():
            for member in unit.members:
                if isinstance(member, IntervalUnit):
                    yield from _bounds_of_unit(member)
        case IntervalUnit(query):
            for each in () if query.where is None else combinations(query.where):
                if each.bound is not None and each.operator not in (TemporalOperator.EQUALS, TemporalOperator.EQUALSOPTIONAL):
                    yield OperatorBound(query.label, each.operator, each.bound)
        case _:
            pass


def _longest(label: Label, bounds: Iterable[RetentionBound]) -> RetentionBound:
    first, *others = sorted(bounds, key=lambda bound: -bound.length)
    rules = dict.fromkeys((*first.rules, *(name for other in others for name in other.rules)))
    return RetentionBound(label, first.length, first.chain, tuple(rules))


def _bounds_of(rule: Rule) -> Iterator[tuple[Label, RetentionBound]]:
    """Bounds of one rule, by label of the query or event."""
    if rule.anchor.delay:
        delay = f"delayed by {bound_text(rule.anchor.delay)}"
        yield rule.anchor.origin, RetentionBound(rule.anchor.origin, rule.anchor.delay, (delay,), (rule.name,))
    for clause, reach in zip(rule.clauses, lookbacks(rule)[1:], strict=True):
        links = tuple(map(link_text, longest_chain(rule, clause)))
        yield clause.role.origin, RetentionBound(clause.role.origin, reach.far, links, (rule.name,))


def link_text(clause: Clause) -> str:
    """Text of one link of a chain: length and reference."""
    match scope_of(clause):
        case Window(interval, reference):
            return f"{bound_text(interval.bounds[1])} from {reference}"
        case Between(first, second):
            return f"between {first} and {second}"
        case other:
            assert_never(other)
