"""Retention of events: the longest chain of windows of the rules that read them (semantics.md,
section 4).

Idea: the window of a clause is relative to an event bound before, whose window is relative to
another one, and so on to the anchor, the present: the lengths of windows add up along the chain. An
event strictly between two bound events is later than the older one, and before the present.
A `Standing` clause needs the newest event of each key alone, however long its window is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from dotr.model.algebra import Expression, TimeOf, Var
from dotr.model.event_order import equated_pair
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, Mode, Role, Rule, Window
from dotr.model.terms import Label, Variable
from dotr.model.time import Micros
from dotr.model.traverse import conjuncts, parameters_of, transform


class Lookback(NamedTuple):
    """The distances (µs) from the match's time at which a role's events can be, both closed."""

    near: Micros
    far: Micros


class AnchorDelay(NamedTuple):
    """The delay of anchors: a constant `most` (µs); or the value of an expression over an event's
    attributes (`Var`) and its time (`TimeOf` of no label), from 0 to `most`."""

    most: Micros
    value: Expression | None = None


def anchor_delay(anchor: Role) -> AnchorDelay:
    """The delay of an anchor, the same for rules with other labels."""
    by = anchor.delayed_by
    return AnchorDelay(anchor.delay, None if by is None else transform(by, lambda part: TimeOf("") if isinstance(part, TimeOf) else part))


def roles(rule: Rule) -> tuple[Role, ...]:
    """The anchor's role, then the clauses' in the order written."""
    return (rule.anchor, *(clause.role for clause in rule.clauses))


def positive_roles(rule: Rule) -> tuple[Role, ...]:
    """The roles to which a match binds one event each: the anchor's, then those of `each`,
    `last` and `first`."""
    return (rule.anchor, *(clause.role for clause in rule.clauses if isinstance(clause, Choose)))


def scope_of(clause: Clause) -> Window | Between:
    """The window or interval of a clause."""
    match clause:
        case Choose():
            return clause.window
        case Absent() | Aggregate():
            return clause.scope


def lookbacks(rule: Rule) -> Sequence[Lookback]:
    """The lookback of every role, in the order of `roles`; a delayed anchor's is its delay."""
    lookback_of: dict[Label, Lookback] = {rule.anchor.label: Lookback(0, 0)}
    for clause in rule.clauses:
        match scope_of(clause):
            case Window(interval, reference):
                near, far = interval.bounds
                lookback_of[clause.role.label] = Lookback(lookback_of[reference].near + near, lookback_of[reference].far + far)
            case Between(first, second):
                a, b = lookback_of[first], lookback_of[second]
                lookback_of[clause.role.label] = Lookback(min(a.near, b.near) + 1, max(a.far, b.far) - 1)
            case other:
                assert_never(other)
    return (Lookback(rule.anchor.least_delay, rule.anchor.delay), *list(lookback_of.values())[1:])


def longest_chain(rule: Rule, clause: Clause) -> tuple[Clause, ...]:
    """The longest chain of clauses from `clause`, the first item, to the anchor; the lengths of
    their windows add up to its lookback.
    """
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


class Standing(NamedTuple):
    """The needs of a clause that the newest event of a key answers: `keys` are the attributes
    of an event that its equalities read, `own` its conditions on an event alone, and events are
    read for `far` µs.
    """

    keys: tuple[Variable, ...]
    own: tuple[Expression, ...]
    far: Micros


def standing(rule: Rule, clause: Clause) -> Standing | None:
    """The needs of a clause of each key, if the newest event answers them; None for a clause
    that needs every event of its window.

    The newest is enough for `last` and `not` from the anchor at distance 0, whose constraints are
    equalities and conditions on the event alone: another event of the key, being older, satisfies
    no more. Not so if the newest may be consumed, or have a role already.
    """
    role, scope = clause.role, scope_of(clause)
    is_last = isinstance(clause, Choose) and clause.mode is Mode.LAST and clause.count is None
    if not (is_last or isinstance(clause, Absent)) or role.label in rule.consuming:
        return None
    if not isinstance(scope, Window) or scope.reference != rule.anchor.label or scope.interval.bounds[0] > 1:
        return None
    if isinstance(clause, Choose) and not clause.also:
        before = [other.role for other in rule.clauses[: rule.clauses.index(clause)] if isinstance(other, Choose)]
        if rule.anchor.delay or not scope.interval.bounds[0]:  # else the anchor is outside of the window
            before.append(rule.anchor)
        if any((other.origin, other.source) == (role.origin, role.source) for other in before):
            return None
    keys: dict[Variable, None] = {}
    own: list[Expression] = []
    for condition in (each for constraint in role.constraints for each in conjuncts(constraint)):
        if (pair := equated_pair(condition)) is not None:
            keys[pair[0]] = None
        elif is_own(condition, role.label):
            own.append(transform(condition, lambda part: TimeOf("") if isinstance(part, TimeOf) else part))
        else:
            return None
    return Standing(tuple(sorted(keys)), tuple(own), scope.interval.bounds[1])


def is_own(condition: Expression, label: Label) -> bool:
    """True for a condition of the role `label` on an event alone."""
    return all(isinstance(each, Var) or each == TimeOf(label) for each in parameters_of([condition]))
