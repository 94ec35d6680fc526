"""Which Datalog rules can derive what a query reads, or what one of them reads."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Ordered
from typing import TypeAlias, assert_never

from dotr.model.algebra import (
    Alternative,
    Bgp,
    BgpItem,
    Const,
    Exists,
    Inverse,
    Link,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    Slot,
    TermPattern,
    TriplePattern,
)
from dotr.model.datalog import Aggregate, DatalogRule, Not
from dotr.model.terms import Term
from dotr.queries.scope import children, expressions_in, parameters_of


def touched(select: Select, datalog: Ordered[DatalogRule]) -> tuple[str, ...]:
    """The names of the rules that a query's answers can depend on."""
    read = {kind for pattern in patterns_in(select) for kind in _reads(pattern)}
    found: dict[str, None] = {}
    while True:
        new = [rule for rule in datalog if rule.name not in found and any(_derives(head, read) for head in rule.head)]
        if not new:
            return tuple(rule.name for rule in datalog if rule.name in found)
        for rule in new:
            found[rule.name] = None
            read |= {kind for pattern in _body(rule) for kind in _reads(pattern)}


_Kind: TypeAlias = tuple[Term | None, Term | None]
"""Triples of a predicate and an object; None: of any."""


def _derives(head: TriplePattern, read: set[_Kind]) -> bool:
    made = _constant(head.predicate), _constant(head.object)
    return any(all(a is None or b is None or a == b for a, b in zip(made, kind, strict=True)) for kind in read)


def _constant(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def patterns_in(pattern: Pattern) -> Iterator[BgpItem]:
    """Every triple, path and term pattern of a query, those of EXISTS too."""
    if isinstance(pattern, Bgp):
        yield from pattern.patterns
    for inside in children(pattern):
        yield from patterns_in(inside)
    for expression in expressions_in(pattern):
        for parameter in parameters_of(expression):
            if isinstance(parameter, Exists):
                yield from patterns_in(parameter.pattern)


def _reads(pattern: BgpItem) -> Iterator[_Kind]:
    match pattern:
        case TriplePattern():
            yield _constant(pattern.predicate), _constant(pattern.object)
        case PathPattern():
            for predicate in _links(pattern.path):
                yield predicate, None
        case TermPattern():
            pass
        case _:
            assert_never(pattern)


def _links(path: Path) -> Iterator[Term | None]:
    match path:
        case Link(predicate):
            yield predicate
        case Inverse(inside) | Repeat(inside):
            yield from _links(inside)
        case Sequence(left, right) | Alternative(left, right):
            yield from _links(left)
            yield from _links(right)
        case Negated():
            yield None
        case _:
            assert_never(path)


def _body(rule: DatalogRule) -> Iterator[TriplePattern]:
    for item in rule.body:
        match item:
            case TriplePattern():
                yield item
            case Not(body) | Aggregate(body):
                yield from (atom for atom in body if isinstance(atom, TriplePattern))
            case _:
                pass
