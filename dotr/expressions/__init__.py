"""Values of RDF terms, and the evaluator of SPARQL's expressions for both stages and for Datalog."""

from dotr.expressions.aggregates import AGGREGATES, aggregate
from dotr.expressions.compile import Parameter, condition, conjunction, evaluator, with_lengths
from dotr.expressions.sort_keys import equality_key, order_key, sort_key
from dotr.expressions.values import VALUES, write

__all__ = [
    "AGGREGATES",
    "VALUES",
    "Parameter",
    "aggregate",
    "condition",
    "conjunction",
    "equality_key",
    "evaluator",
    "order_key",
    "sort_key",
    "with_lengths",
    "write",
]
