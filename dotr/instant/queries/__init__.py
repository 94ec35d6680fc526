"""SPARQL over a closed instant: incremental plans that start from the delta, and full
evaluation."""

from dotr.instant.queries.canonical_query import canonical, canonical_columns, same_query
from dotr.instant.queries.plan import QueryPlan, plan
from dotr.instant.queries.shared_joins import JoinGroup, join_groups

__all__ = ["JoinGroup", "QueryPlan", "canonical", "canonical_columns", "join_groups", "plan", "same_query"]
