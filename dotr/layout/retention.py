"""How far back a rule looks: the retention of what it reads is the longest chain of its windows (semantics.md, section 4).

A chosen event lies inside its window from an event that lies inside its own, and so on to the anchor, which is the present: distances add
up along the chain. What is strictly between two bound events is nearer to the present than the older one, and never is the present.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, Role, Rule, Window
from dotr.model.terms import Label
from dotr.model.time import Micros


class Lookback(NamedTuple):
    """The distances from the match's time at which a role's events can lie, both closed."""

    near: Micros
    far: Micros


def roles(rule: Rule) -> tuple[Role, ...]:
    """The anchor's role, then the clauses' in the order written."""
    return (rule.anchor, *(clause.role for clause in rule.clauses))


def positive_roles(rule: Rule) -> tuple[Role, ...]:
    """The roles that a match binds to an event each: the anchor's, then those of `each`, `last` and `first`."""
    return (rule.anchor, *(clause.role for clause in rule.clauses if isinstance(clause, Choose)))


def scope_of(clause: Clause) -> Window | Between:
    """Where a clause looks."""
    match clause:
        case Choose():
            return clause.window
        case Absent() | Aggregate():
            return clause.scope


def lookbacks(rule: Rule) -> Sequence[Lookback]:
    """The reach of every role, in the order of `roles`. A delayed anchor stands at the match's time and lies before it."""
    known: dict[Label, Lookback] = {rule.anchor.label: Lookback(0, 0)}
    for clause in rule.clauses:
        match scope_of(clause):
            case Window(interval, reference):
                near, far = interval.bounds
                known[clause.role.label] = Lookback(known[reference].near + near, known[reference].far + far)
            case Between(first, second):
                a, b = known[first], known[second]
                known[clause.role.label] = Lookback(min(a.near, b.near) + 1, max(a.far, b.far) - 1)
            case other:
                assert_never(other)
    return (Lookback(rule.anchor.delay, rule.anchor.delay), *list(known.values())[1:])


def longest_chain(rule: Rule, clause: Clause) -> tuple[Clause, ...]:
    """The clauses that lead from one to the anchor by the farthest way, itself first: the windows that add up to its reach."""
    far = {role.label: reach.far for role, reach in zip(roles(rule)[1:], lookbacks(rule)[1:], strict=True)} | {rule.anchor.label: 0}
    by_label = {other.role.label: other for other in rule.clauses}
    found = [clause]
    while True:
        match scope_of(found[-1]):
            case Window(_, reference):
                label = reference
            case Between(first, second):
                label = max(first, second, key=far.__getitem__)
            case other:
                assert_never(other)
        if label == rule.anchor.label:
            return tuple(found)
        found.append(by_label[label])
