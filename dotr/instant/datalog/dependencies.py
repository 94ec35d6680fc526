"""Datalog rules that a query's answers depend on, directly or through other rules."""

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
    """Names of the Datalog rules that a query depends on, in the order of `datalog`."""
    kinds = {kind for pattern in patterns_in(select) for kind in _kinds_read(pattern)}
    names: dict[str, None] = {}
    while True:
        further = [rule for rule in datalog if rule.name not in names and any(_derives(head, kinds) for head in rule.head)]
        if not further:
            return tuple(rule.name for rule in datalog if rule.name in names)
        for rule in further:
            names[rule.name] = None
            kinds |= {kind for pattern in _body(rule) for kind in _kinds_read(pattern)}


_Kind: TypeAlias = tuple[Term | None, Term | None]
"""Predicate and object of triples; None: any."""


def _derives(head: TriplePattern, read: set[_Kind]) -> bool:
    head_kind = _constant(head.predicate), _constant(head.object)
    return any(all(a is None or b is None or a == b for a, b in zip(head_kind, kind, strict=True)) for kind in read)


def _constant(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def patterns_in(pattern: Pattern) -> Iterator[BgpItem]:
    """Triple, path and term patterns of a query, with those of EXISTS."""
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
