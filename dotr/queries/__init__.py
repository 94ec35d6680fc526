"""SPARQL over a closed instant: plans that start from what the instant brought, and full evaluation."""

from dotr.queries.evaluate import evaluate
from dotr.queries.plan import QueryPlan, plan
from dotr.queries.question import canonical_columns, canonical, same_query
from dotr.queries.together import JoinGroup, join_groups

__all__ = ["QueryPlan", "JoinGroup", "canonical_columns", "evaluate", "plan", "canonical", "same_query", "join_groups"]
