"""Which Datalog rules can derive what a query reads, or what one of them reads."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Ordered
from typing import TypeAlias, assert_never

from dotr.model.algebra import (
    BgpItem,
    Const,
    Link,
    Negated,
    PathPattern,
    Pattern,
    Select,
    Slot,
    TermPattern,
    TriplePattern,
)
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Term
from dotr.model.traverse import walk


def relevant_rules(select: Select, datalog: Ordered[DatalogRule]) -> tuple[str, ...]:
    """The names of the rules that a query's answers can depend on."""
    read = {kind for pattern in patterns_in(select) for kind in _kinds_read(pattern)}
    found: dict[str, None] = {}
    while True:
        new = [rule for rule in datalog if rule.name not in found and any(_derives(head, read) for head in rule.head)]
        if not new:
            return tuple(rule.name for rule in datalog if rule.name in found)
        for rule in new:
            found[rule.name] = None
            read |= {kind for pattern in _body(rule) for kind in _kinds_read(pattern)}


_Kind: TypeAlias = tuple[Term | None, Term | None]
"""Triples of a predicate and an object; None: of any."""


def _derives(head: TriplePattern, read: set[_Kind]) -> bool:
    made = _constant(head.predicate), _constant(head.object)
    return any(all(a is None or b is None or a == b for a, b in zip(made, kind, strict=True)) for kind in read)


def _constant(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def patterns_in(pattern: Pattern) -> Iterator[BgpItem]:
    """Every triple, path and term pattern of a query, those of EXISTS too."""
    return (node for node in walk(pattern) if isinstance(node, TriplePattern | PathPattern | TermPattern))


def _kinds_read(pattern: BgpItem) -> Iterator[_Kind]:
    match pattern:
        case TriplePattern():
            yield _constant(pattern.predicate), _constant(pattern.object)
        case PathPattern():
            for step in walk(pattern.path):
                if isinstance(step, Link | Negated):
                    yield step.predicate if isinstance(step, Link) else None, None
        case TermPattern():
            pass
        case _:
            assert_never(pattern)


def _body(rule: DatalogRule) -> Iterator[TriplePattern]:
    return (node for item in rule.body for node in walk(item) if isinstance(node, TriplePattern))
