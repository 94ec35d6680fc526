"""How a query is answered at every instant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dotr.knowledge.triples import TripleIndex
from dotr.model.algebra import Select
from dotr.model.terms import Term
from dotr.queries.evaluate import evaluate
from dotr.queries.scope import Reads, reads

Row: TypeAlias = tuple[Term | None, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A query over one background. `answers(new)` is the bag of solutions over background and new triples, which share none; `static` are
    those over the background alone, and the answers at every instant that brings none of the `kinds` (predicate, object or any) of triples;
    `triggers` are the kinds' predicates (None: any triple). `reason` says why a query is not `planned`."""

    select: Select
    static: tuple[Row, ...]
    answers: Callable[[TripleIndex], list[Row]]
    kinds: Reads | None
    triggers: frozenset[Term] | None
    planned: bool
    reason: str


def plan(select: Select, background: TripleIndex) -> Plan:
    kinds = reads(select)
    return Plan(
        select,
        tuple(evaluate(select, background, TripleIndex())),
        lambda new: evaluate(select, background, new),
        kinds,
        None if kinds is None else frozenset(predicate for predicate, _ in kinds),
        False,
        "every query is evaluated in full for now",
    )


def same_question(a: Select, b: Select) -> bool:
    """Whether two queries have the same answers in the same columns, as far as their text shows."""
    return a == b
