"""Values of RDF terms, and the evaluator of SPARQL expressions of both stages and of Datalog."""

from dotr.evaluation.expressions.aggregates import AGGREGATES, aggregate
from dotr.evaluation.expressions.compile import (
    ErrorNote,
    InlineConjunction,
    Parameter,
    TermOf,
    condition,
    conjunction,
    evaluator,
    first_error,
    has_terms,
    inline_conjunction,
    query_with_lengths,
    query_without_lengths,
    term_in,
    truth_of,
    with_lengths,
    without_lengths,
)
from dotr.evaluation.expressions.sort_keys import equality_key, order_key, sort_key
from dotr.evaluation.expressions.values.terms import VALUES, write

__all__ = [
    "AGGREGATES",
    "VALUES",
    "ErrorNote",
    "InlineConjunction",
    "Parameter",
    "TermOf",
    "aggregate",
    "condition",
    "conjunction",
    "equality_key",
    "evaluator",
    "first_error",
    "has_terms",
    "inline_conjunction",
    "order_key",
    "query_with_lengths",
    "query_without_lengths",
    "sort_key",
    "term_in",
    "truth_of",
    "with_lengths",
    "without_lengths",
    "write",
]
