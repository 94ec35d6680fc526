"""Expressions of a query beside other events: what they read of these, and their values after grouping (SPARQL 1.1, section 18.2.4.1)."""

from __future__ import annotations

from collections.abc import Callable, Set

from dotr.model.algebra import AggregateCall, Attribute, Expression, TimeOf, Var
from dotr.model.terms import Variable
from dotr.model.traverse import subexpressions, transform


def event_references(expression: Expression) -> frozenset[Attribute | TimeOf]:
    """The attributes and times of events that an expression reads; none: it is no temporal constraint."""
    return frozenset([each for each in subexpressions(expression) if isinstance(each, Attribute | TimeOf)])


def sample_ungrouped(
    expression: Expression, known: Set[Variable], aggregates: dict[AggregateCall, Variable], fresh: Callable[[], Variable]
) -> Expression:
    """The expression with one value (SAMPLE) for every variable that is not known after grouping."""

    def sample(part: Expression) -> Expression:
        if not isinstance(part, Var) or part.name in known or part.name in aggregates.values():
            return part
        call = AggregateCall("SAMPLE", False, part)
        if call not in aggregates:
            aggregates[call] = fresh()
        return Var(aggregates[call])

    return transform(expression, sample)
