"""Which variables a pattern gives values to, and which an expression reads (SPARQL 1.1, section 18.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import fields, is_dataclass
from typing import assert_never

from dotr.model.algebra import (
    AggregateCall,
    Attribute,
    Bgp,
    Call,
    Const,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    Pattern,
    Select,
    TimeOf,
    Union,
    Values,
    Var,
    slots_of,
)
from dotr.model.terms import Variable


def in_scope(pattern: Pattern) -> dict[Variable, None]:
    """The variables that a pattern may bind, in the order in which they are first met.

    >>> from dotr.model.algebra import TriplePattern
    >>> a, b = TriplePattern(Var("a"), Const("<p>"), Var("b")), TriplePattern(Var("b"), Const("<p>"), Var("c"))
    >>> list(in_scope(Minus(Bgp((a,)), Bgp((b,)))))
    ['a', 'b']
    """
    return dict.fromkeys(_bound(pattern))


def _bound(pattern: Pattern) -> Iterator[Variable]:
    match pattern:
        case Bgp(patterns):
            for item in patterns:
                yield from (slot.name for slot in slots_of(item) if isinstance(slot, Var))
        case Join(left, right) | LeftJoin(left, right, _) | Union(left, right):
            yield from _bound(left)
            yield from _bound(right)
        case Minus(left, _):
            yield from _bound(left)
        case Filter(inner, _):
            yield from _bound(inner)
        case Extend(inner, variable, _):
            yield from _bound(inner)
            yield variable
        case Values(names, _):
            yield from names
        case Group(_, keys, aggregates):
            yield from (name for name, _ in keys)
            yield from (name for name, _ in aggregates)
        case Select():
            yield from pattern.projection
        case _:
            assert_never(pattern)


def _leaves(expression: Expression) -> Iterator[Var | Attribute | TimeOf]:
    match expression:
        case Var() | Attribute() | TimeOf():
            yield expression
        case Call(_, arguments):
            for argument in arguments:
                yield from _leaves(argument)
        case Const() | Exists():
            pass
        case _:
            assert_never(expression)


def variables(expression: Expression) -> frozenset[Variable]:
    """The plain variables that an expression reads, those inside EXISTS aside.

    >>> sorted(variables(Call("<", (Var("x"), Attribute("Smoke", "y")))))
    ['x']
    """
    return frozenset(leaf.name for leaf in _leaves(expression) if isinstance(leaf, Var))


def references(expression: Expression) -> frozenset[Attribute | TimeOf]:
    """The attributes and times of events that an expression reads; none: it is no temporal constraint."""
    return frozenset(leaf for leaf in _leaves(expression) if isinstance(leaf, Attribute | TimeOf))


def depth(whole: object) -> int:
    """The levels of an expression, a pattern or a query, or of the deepest of several; what is as deep as it may be is found too.

    >>> depth(Call("!", (Call("!", (Var("x"),)),))), depth((Var("x"),))
    (3, 1)
    """
    deepest = 0
    waiting: list[tuple[object, int]] = [(whole, 1)]
    while waiting:
        this, level = waiting.pop()
        if isinstance(this, tuple):
            waiting += [(part, level) for part in this if not isinstance(part, str)]
        elif is_dataclass(this):
            deepest = max(deepest, level)
            waiting += [(getattr(this, field.name), level + 1) for field in fields(this)]
    return deepest


def sampled(
    expression: Expression, known: Set[Variable], aggregates: dict[AggregateCall, Variable], fresh: Callable[[], Variable]
) -> Expression:
    """The expression with one value (SAMPLE) for every variable that is not known after grouping."""
    match expression:
        case Var(name) if name not in known and name not in aggregates.values():
            call = AggregateCall("SAMPLE", False, expression)
            if call not in aggregates:
                aggregates[call] = fresh()
            return Var(aggregates[call])
        case Call(function, arguments):
            return Call(function, tuple(sampled(a, known, aggregates, fresh) for a in arguments))
        case _:
            return expression
