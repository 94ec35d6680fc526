"""SPARQL over a closed instant: plans that start from what the instant brought, and full evaluation."""

from dotr.queries.canonical_query import canonical, canonical_columns, same_query
from dotr.queries.evaluate import evaluate
from dotr.queries.plan import QueryPlan, plan
from dotr.queries.shared_joins import JoinGroup, join_groups

__all__ = ["JoinGroup", "QueryPlan", "canonical", "canonical_columns", "evaluate", "join_groups", "plan", "same_query"]
