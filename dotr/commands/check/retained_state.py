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
from dataclasses import replace
from typing import assert_never

from dotr.engine.spec import ProgramSpec, RuleSet
from dotr.explanations.descriptions import described
from dotr.languages.declarations import declared_prefixes
from dotr.model import dataclass
from dotr.model.rules import Between, Clause, Rule, Window
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.time import EVER, Micros
from dotr.syntax.rendering import bound_text, once_text
from dotr.temporal.layout.retention import longest_chain, lookbacks, scope_of, standing
from dotr.temporal.layout.units import StreamUnit


@dataclass(frozen=True, slots=True)
class RetentionBound:
    """Retention of a label's events: `length` in µs, caused by `chain` in the first of `rules`.

    `keys`: of `before`, which keeps the newest event of each value of these; None: all are kept.
    """

    label: Label
    length: Micros
    chain: tuple[str, ...]
    rules: tuple[str, ...]
    keys: tuple[Variable, ...] | None = None

    def __str__(self) -> str:
        retention = f"kept {bound_text(self.length)} ({', '.join(self.chain)})" if self.length > 0 else "kept for its own instant"
        if self.keys is not None:
            retention = f"kept the newest {of_each(self.keys)} ({', '.join(self.chain)})"
        others = len(self.rules) - 1
        more = f"; no longer in {others} other rule{'s' if others > 1 else ''}" if others else ""
        return f"{self.label}: {retention} in rule {self.rules[0]}{more}"


@dataclass(frozen=True, slots=True)
class RetainedState:
    """Bounds of a program's state, those of units other than rules as text; `title` names its file."""

    title: str
    bounds: tuple[RetentionBound | str, ...]

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
    bounds_by_label: dict[tuple[Label, str, object], list[RetentionBound]] = {}
    for rule in rules.rules:
        for origin, bound in _bounds_of(rule):
            bounds_by_label.setdefault((origin, "" if origin in shared else rule.name, bound.keys), []).append(bound)
    of_rules = [_longest(label, bounds) for (label, *_), bounds in bounds_by_label.items()]
    return RetainedState(title, (*of_rules, *(line for unit in units for line in described(unit).retention(prefixes or {}))))


def _longest(label: Label, bounds: Iterable[RetentionBound]) -> RetentionBound:
    first, *others = sorted(bounds, key=lambda bound: -bound.length)
    rules = dict.fromkeys((*first.rules, *(name for other in others for name in other.rules)))
    return replace(first, label=label, rules=tuple(rules))


def _bounds_of(rule: Rule) -> Iterator[tuple[Label, RetentionBound]]:
    """Bounds of one rule, by label of the query or event."""
    if rule.anchor.delay:
        delay = f"delayed by {'' if rule.anchor.delayed_by is None else 'at most '}{bound_text(rule.anchor.delay)}"
        yield rule.anchor.origin, RetentionBound(rule.anchor.origin, rule.anchor.delay, (delay,), (rule.name,))
    if rule.once is not None and rule.once.pause:
        yield f"once of {rule.name}", RetentionBound(f"once of {rule.name}", rule.once.pause, (once_text(rule.once),), (rule.name,))
    for clause, reach in zip(rule.clauses, lookbacks(rule)[1:], strict=True):
        links, needed = tuple(map(link_text, longest_chain(rule, clause))), standing(rule, clause)
        keys = None if needed is None or reach.far < EVER.high else needed.keys
        yield clause.role.origin, RetentionBound(clause.role.origin, reach.far, links, (rule.name,), keys)


def of_each(keys: Sequence[Variable]) -> str:
    """The text of a key: `of each ?s and ?k`; empty where there is none."""
    return f"of each {' and '.join(f'?{name}' for name in keys)}" if keys else "alone"


def link_text(clause: Clause) -> str:
    """Text of one link of a chain: length and reference."""
    match scope_of(clause):
        case Window(interval, reference):
            return f"before {reference}" if interval == EVER else f"{bound_text(interval.bounds[1])} from {reference}"
        case Between(first, second):
            return f"between {first} and {second}"
        case other:
            assert_never(other)
