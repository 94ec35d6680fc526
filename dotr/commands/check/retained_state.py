"""Bounds of a program's state: for each label the retention of its events, and the chain of windows
that causes it.

A rule retains an event while a chain of windows from some anchor can include it
(`dotr.temporal.layout.retention`); a delayed anchor is stored for its delay. The bound of a shared
query or event is the longest of all rules that read it. Units of other languages have the bounds
that `explain` shows: of windows of continuous queries, predicates of LARS files, and operators of
EP-SPARQL units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from dotr.engine.spec import ProgramSpec, RuleSet
from dotr.languages.declarations import declared_prefixes
from dotr.languages.epsparql.component import IntervalComponent
from dotr.languages.epsparql.unit import IntervalUnit
from dotr.languages.lars.lars_retention import retentions
from dotr.languages.lars.unit import LarsUnit
from dotr.model.rules import Between, Clause, Rule, Window
from dotr.model.terms import Label, Prefixes
from dotr.model.time import Micros
from dotr.syntax.rendering import bound_text
from dotr.temporal.intervals.patterns import TemporalOperator, combinations
from dotr.temporal.layout.retention import longest_chain, lookbacks, scope_of
from dotr.temporal.layout.units import StreamQuery, StreamUnit


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
class StreamBound:
    """Part of a stream that a window of a continuous query keeps, or a LARS file of a predicate."""

    unit: Label
    kept: str

    def __str__(self) -> str:
        return f"{self.unit}: {self.kept}"


@dataclass(frozen=True, slots=True)
class RetainedState:
    """Bounds of a program's state; `title` names its file."""

    title: str
    bounds: tuple[RetentionBound | OperatorBound | StreamBound, ...]

    def __str__(self) -> str:
        if not self.bounds:
            return f"State of {self.title}: none, every anchor is on its own"
        return "\n".join([f"State of {self.title}, bounded by the longest chain of windows:", *(f"  {bound}" for bound in self.bounds)])


def shown_prefixes(spec: ProgramSpec) -> Prefixes:
    """The prefixes that shorten IRIs: those of the configuration, then those of the files; the
    first declaration of a prefix is used."""
    documents = (*spec.rules, *spec.datalog)
    return {**{prefix: iri for document in reversed(documents) for prefix, iri in declared_prefixes(document).items()}, **spec.prefixes}


def state(title: str, rules: RuleSet, units: Sequence[StreamUnit] = (), prefixes: Prefixes | None = None) -> RetainedState:
    """Retained state of rules and other units; `title` names their file, `prefixes` shorten
    IRIs."""
    shared = {query.label for query in rules.queries} | {rule.event for rule in rules.rules}
    bounds_by_label: dict[tuple[Label, str], list[RetentionBound]] = {}
    for rule in rules.rules:
        for origin, bound in _bounds_of(rule):
            bounds_by_label.setdefault((origin, "" if origin in shared else rule.name), []).append(bound)
    of_rules = [_longest(label, bounds) for (label, _), bounds in bounds_by_label.items()]
    return RetainedState(title, (*of_rules, *(bound for unit in units for bound in _bounds_of_unit(unit, prefixes or {}))))


def _bounds_of_unit(unit: StreamUnit, prefixes: Prefixes) -> Iterator[OperatorBound | StreamBound]:
    """Bounds of a unit: of the operators of an EP-SPARQL unit or of all members of a component, of
    the windows of a continuous query, or of the predicates of a LARS file.
    """
    match unit:
        case IntervalComponent():
            for member in unit.members:
                if isinstance(member, IntervalUnit):
                    yield from _bounds_of_unit(member, prefixes)
        case IntervalUnit(query):
            for each in () if query.where is None else combinations(query.where):
                if each.bound is not None and each.operator not in (TemporalOperator.EQUALS, TemporalOperator.EQUALSOPTIONAL):
                    yield OperatorBound(query.label, each.operator, each.bound)
        case StreamQuery(query):
            from dotr.languages.continuous.description import kept_by_window  # loaded where a program has a query

            for window in query.windows:
                of_window = f"window {window.name}" if window.name else "its window"
                yield StreamBound(query.label, f"{of_window} keeps {kept_by_window(window)}")
        case LarsUnit(file):
            from dotr.languages.lars.description import retention_text  # loaded where a program has such a file

            for kept in retentions(file):
                yield StreamBound(file.name, retention_text(kept, prefixes))
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
