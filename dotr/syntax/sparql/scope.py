"""References of expressions to other events, and values after grouping (SPARQL 1.1, 18.2.4.1)."""

from __future__ import annotations

from collections.abc import Callable, Set

from dotr.model.algebra import AggregateCall, Attribute, Expression, TimeOf, Var
from dotr.model.terms import Variable
from dotr.model.traverse import subexpressions, transform


def event_references(expression: Expression) -> frozenset[Attribute | TimeOf]:
    """Return the attributes and times of events that an expression reads.

    A condition is a temporal constraint if there are any.
    """
    return frozenset([each for each in subexpressions(expression) if isinstance(each, Attribute | TimeOf)])


def sample_ungrouped(
    expression: Expression, known: Set[Variable], aggregates: dict[AggregateCall, Variable], fresh: Callable[[], Variable]
) -> Expression:
    """Return the expression with SAMPLE of every variable that is unknown after grouping.

    `aggregates` receives the new aggregates; `fresh` returns names for their variables.
    """

    def sample(part: Expression) -> Expression:
        if not isinstance(part, Var) or part.name in known or part.name in aggregates.values():
            return part
        call = AggregateCall("SAMPLE", False, part)
        if call not in aggregates:
            aggregates[call] = fresh()
        return Var(aggregates[call])

    return transform(expression, sample)
