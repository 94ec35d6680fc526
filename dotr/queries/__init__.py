"""SPARQL over a closed instant: plans that start from what the instant brought, and full evaluation."""

from dotr.queries.evaluate import evaluate
from dotr.queries.plan import Plan, plan
from dotr.queries.question import question, same_question

__all__ = ["Plan", "evaluate", "plan", "question", "same_question"]
