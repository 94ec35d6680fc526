"""Shapes of rules: equal for rules that differ in constants, names and labels alone (semantics.md,
section 4).

Idea: bindings of rules of one shape travel together, so that those of a hundred rules are one row.
In a *shape* labels are replaced by the positions of their roles, and all constants by one marker.
Shapes are at least as coarse as the templates by which rules share a matcher, so rules that share a
matcher have one shape.
Example: `from A and last B within 1 min from A [?x = 1]` has the shape of `from C and last D within
1 min from C [?x = 2]`, if A and C, B and D read the same streams.
Cost: linear in the size of the rule.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, assert_never

from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, Role, Rule, Window
from dotr.model.templates import Fresh, leaves
from dotr.model.terms import Label
from dotr.model.traverse import conjuncts, transform
from dotr.temporal.layout.retention import roles, scope_of

_CONSTANT: Final = Const("")


def shape_of(rule: Rule) -> Hashable:
    """The shape of a rule: equal for rules that differ in constants, names and labels alone.

    Rules of one shape read the same streams, equate the same attributes, and read the same
    attributes of the role at each position, so that one list of columns serves the bindings of all.
    """
    places = {role.label: str(place) for place, role in enumerate(roles(rule))}
    results = {clause.variable: str(place) for place, clause in enumerate(rule.clauses, 1) if isinstance(clause, Aggregate)}
    assigned = sorted(rule.assignments, key=lambda assignment: assignment.variable)
    return (
        (_role(rule.anchor, places), rule.anchor.delay),
        tuple([_clause(clause, places) for clause in rule.clauses]),
        () if rule.condition is None else _conjuncts(rule.condition, places, results),
        tuple([_expression(each.expression, places, results) for each in assigned]),
        tuple(sorted(places[label] for label in rule.consuming)),
        any(isinstance(leaf, Fresh) for leaf in leaves(rule.template)),
    )


def _clause(clause: Clause, places: Mapping[Label, str]) -> Hashable:
    match scope_of(clause):
        case Window(interval, reference):
            scope: Hashable = (interval, places[reference])
        case Between(first, second):
            scope = (places[first], places[second])
        case other:
            assert_never(other)
    match clause:
        case Choose(role, mode, _, count):
            return (_role(role, places), scope, mode, count)
        case Absent(role, _):
            return (_role(role, places), scope)
        case Aggregate(_, function, distinct, attribute, role, _):
            return (_role(role, places), scope, function.upper(), distinct, attribute)
        case _:
            assert_never(clause)


def _role(role: Role, places: Mapping[Label, str]) -> Hashable:
    return (role.source, tuple([each for written in role.constraints for each in _conjuncts(written, places, {})]))


def _conjuncts(written: Expression, places: Mapping[Label, str], results: Mapping[str, str]) -> tuple[Expression, ...]:
    return tuple([_expression(each, places, results) for each in conjuncts(written)])


def _expression(expression: Expression, places: Mapping[Label, str], results: Mapping[str, str]) -> Expression:
    def part(each: Expression) -> Expression:
        match each:
            case Const():
                return _CONSTANT
            case Var(name):
                return Attribute(results[name], "") if name in results else each
            case Attribute(label, name):
                return Attribute(places[label], name)
            case TimeOf(label):
                return TimeOf(places[label])
            case Call(_, arguments):
                return _CONSTANT if arguments and all(argument == _CONSTANT for argument in arguments) else each
            case Exists():
                raise AssertionError("EXISTS belongs to stage one")
            case _:
                assert_never(each)

    return transform(expression, part)
